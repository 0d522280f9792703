//! Compares answers cell by cell: with the shipped answers and with each other.
//!
//! ```text
//!   RecordBatch ─► Answer ┐
//!   q7.csv ──────► Answer ┴─► compare ─► () | Difference { query, row, column, got, expected }
//! ```
//!
//! Integers, decimals, dates and strings must agree exactly. If the expected cell is a DOUBLE (the other engine's
//! type for AVG and division), the two may differ by the relative [`TOLERANCE`] plus one unit in the last place of
//! our DECIMAL, because our AVG and division of decimals round there. If the ORDER BY is total, rows must agree in
//! their order. Otherwise the sort columns must agree in their order, and the rows as a multiset.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::csv::ReaderBuilder;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::Scale;
use super::queries::{Order, Query};
use crate::BenchError;

/// The largest relative difference of two DOUBLEs that count as equal.
pub const TOLERANCE: f64 = 1e-9;

/// The rows of one query.
#[derive(Clone, Debug)]
pub struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Null,
    /// Compared as text. Decimals have no trailing zeros.
    Exact(String),
    /// A decimal. It is compared as text with another decimal and as a number with a double. `unit` is 1 in its last
    /// place.
    Decimal {
        text: String,
        unit: f64,
    },
    Double(f64),
}

/// The first difference of two answers. Rows count from 1, columns have names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Q{query}, {place}: got {got}, expected {expected}")]
pub struct Difference {
    /// The number of the query.
    pub query: usize,
    /// The row and column, or the property of the whole answer.
    pub place: String,
    /// What the answer has.
    pub got: String,
    /// What it should have.
    pub expected: String,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Exact(s) | Self::Decimal { text: s, .. } => f.write_str(s),
            Self::Double(v) => v.fmt(f),
        }
    }
}

impl Cell {
    fn decimal(text: &str) -> Self {
        let digits = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let plain = if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.') };
        let plain = if plain == "-0" { "0" } else { plain };
        Self::Decimal { text: plain.into(), unit: 10f64.powi(-(digits as i32)) }
    }

    /// Whether `self` equals `expected` within the tolerance.
    fn agrees(&self, expected: &Self) -> bool {
        let near = |v: f64, e: f64, unit: f64| (v - e).abs() <= unit + TOLERANCE * v.abs().max(e.abs());
        match (self, expected) {
            (Self::Double(v), Self::Double(e)) => near(*v, *e, 0.0),
            (Self::Decimal { text, unit }, Self::Double(e)) => text.parse().is_ok_and(|v| near(v, *e, *unit)),
            (Self::Decimal { text: a, .. }, Self::Decimal { text: b, .. } | Self::Exact(b)) => a == b,
            (Self::Exact(a), Self::Decimal { text: b, .. }) => a == b,
            (a, b) => a == b,
        }
    }

    /// A field of CSV. A decimal has all of its decimal places, which say how it was rounded.
    fn to_field(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Exact(text) => format!("\"{}\"", text.replace('"', "\"\"")),
            Self::Double(v) => format!("{v:?}"),
            Self::Decimal { text, unit } => {
                let places = -unit.log10().round() as usize;
                let has = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
                let point = if has == 0 && places > 0 { "." } else { "" };
                format!("{text}{point}{}", "0".repeat(places.saturating_sub(has)))
            }
        }
    }

    /// The sort key for multisets of rows. Doubles are left out, because they may differ a little.
    fn sort_key(&self) -> &str {
        match self {
            Self::Null | Self::Double(_) => "",
            Self::Exact(s) | Self::Decimal { text: s, .. } => s,
        }
    }
}

impl Answer {
    /// The answer in `batches`, which have this schema.
    pub fn of(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let columns = schema.fields().iter().map(|f| f.name().clone()).collect();
        let options = FormatOptions::default();
        let mut rows = Vec::new();
        for batch in batches {
            let formatters = batch
                .columns()
                .iter()
                .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
                .collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                let cell = |(column, text): (&Arc<dyn Array>, &ArrayFormatter<'_>)| {
                    if column.is_null(row) {
                        return Cell::Null;
                    }
                    let text = text.value(row).to_string();
                    match column.data_type() {
                        DataType::Float32 | DataType::Float64 => {
                            text.parse().map_or(Cell::Exact(text), Cell::Double)
                        }
                        t if t.is_decimal() => Cell::decimal(&text),
                        _ => Cell::Exact(text),
                    }
                };
                rows.push(batch.columns().iter().zip(&formatters).map(cell).collect());
            }
        }
        Ok(Self { columns, rows })
    }

    /// The shipped answer of a query. Only the scales 0.01 and 0.1 have answers.
    pub fn shipped(query: &Query, scale: Scale) -> Option<Result<Self, BenchError>> {
        let all = SHIPPED.iter().find(|(factor, _)| *factor == scale.factor())?;
        let text = all.1[query.number - 1];
        let name = format!("sf{scale}/q{}.csv", query.number);
        Some(Self::parse(text).map_err(|e| BenchError::Reference { name, what: e.to_string() }))
    }

    /// Whether this scale has shipped answers.
    pub fn are_shipped(scale: Scale) -> bool {
        SHIPPED.iter().any(|(factor, _)| *factor == scale.factor())
    }

    /// Parses an answer that `scripts/reference_answers.py` wrote: `name:type` in the header, NULL as an empty field.
    pub fn parse(text: &str) -> Result<Self, ArrowError> {
        let bad = |what: String| ArrowError::CsvError(what);
        let header = text.lines().next().ok_or_else(|| bad("it is empty".into()))?;
        let columns: Vec<(&str, &str)> = header
            .split(',')
            .map(|c| c.split_once(':').ok_or_else(|| bad(format!("{c} in the header has no type"))))
            .collect::<Result<_, _>>()?;
        let fields: Vec<Field> = columns.iter().map(|(n, _)| Field::new(*n, DataType::Utf8, true)).collect();
        let reader =
            ReaderBuilder::new(Arc::new(Schema::new(fields))).with_header(true).build(text.as_bytes())?;
        let mut rows = Vec::new();
        for batch in reader {
            let batch = batch?;
            let options = FormatOptions::default();
            for row in 0..batch.num_rows() {
                let cell = |(column, (name, kind)): (&Arc<dyn Array>, &(&str, &str))| {
                    if column.is_null(row) {
                        return Ok(Cell::Null);
                    }
                    let text = ArrayFormatter::try_new(column.as_ref(), &options)?.value(row).to_string();
                    match *kind {
                        "double" => text
                            .parse()
                            .map(Cell::Double)
                            .map_err(|_| bad(format!("{name} is {text}, not a number"))),
                        "decimal" => Ok(Cell::decimal(&text)),
                        "integer" | "date" | "text" => Ok(Cell::Exact(text)),
                        other => Err(bad(format!("{name} has the unknown type {other}"))),
                    }
                };
                rows.push(batch.columns().iter().zip(&columns).map(cell).collect::<Result<_, _>>()?);
            }
        }
        Ok(Self { columns: columns.into_iter().map(|(n, _)| n.to_string()).collect(), rows })
    }

    /// The answer as [`Answer::parse`] reads it. Numbers without a fraction, dates and strings are all `text`, because they are
    /// compared as such.
    pub fn to_csv(&self) -> String {
        let kind = |column: usize| {
            let first = self.rows.iter().map(|row| &row[column]).find(|cell| **cell != Cell::Null);
            match first {
                Some(Cell::Double(_)) => "double",
                Some(Cell::Decimal { .. }) => "decimal",
                _ => "text",
            }
        };
        let header: Vec<String> =
            self.columns.iter().enumerate().map(|(i, name)| format!("{name}:{}", kind(i))).collect();
        let lines = self.rows.iter().map(|row| {
            match &row[..] {
                // An empty line would be no row.
                [Cell::Null] => "\"\"".to_string(),
                row => row.iter().map(Cell::to_field).collect::<Vec<_>>().join(","),
            }
        });
        std::iter::once(header.join(",")).chain(lines).map(|line| line + "\n").collect()
    }

    /// The number of rows.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Compares this answer with the expected one.
    pub fn compare(&self, query: &Query, expected: &Self) -> Result<(), Difference> {
        let differ = |place: String, got: String, expected: String| {
            Err(Difference { query: query.number, place, got, expected })
        };
        if self.columns.len() != expected.columns.len() {
            return differ("columns".into(), self.columns.join(", "), expected.columns.join(", "));
        }
        if self.rows.len() != expected.rows.len() {
            return differ("rows".into(), self.rows.len().to_string(), expected.rows.len().to_string());
        }
        let cell = |i: usize, j: usize, c: usize| {
            let (got, want) = (&self.rows[i][c], &expected.rows[j][c]);
            if got.agrees(want) {
                return Ok(());
            }
            differ(
                format!("row {}, column {}", i + 1, expected.columns[c]),
                got.to_string(),
                want.to_string(),
            )
        };
        let columns = 0..self.columns.len();
        match query.order {
            Order::Total => {
                (0..self.rows.len()).try_for_each(|i| columns.clone().try_for_each(|c| cell(i, i, c)))
            }
            Order::Partial(keys) => {
                (0..self.rows.len()).try_for_each(|i| keys.iter().try_for_each(|&c| cell(i, i, c)))?;
                let mut pairs = self.sorted().into_iter().zip(expected.sorted());
                pairs.try_for_each(|(i, j)| columns.clone().try_for_each(|c| cell(i, j, c)))
            }
        }
    }

    /// The indexes of the rows, sorted in an order that does not depend on the engine.
    fn sorted(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by(|&a, &b| {
            let key = |r: usize| self.rows[r].iter().map(Cell::sort_key);
            key(a).cmp(key(b))
        });
        order
    }
}

macro_rules! shipped {
    ($scale:literal: $($n:literal)*) => {
        [$(include_str!(concat!("../../../../data/tpch/sf", $scale, "/q", $n, ".csv"))),*]
    };
}

/// The answers in `data/tpch`, made by `scripts/reference_answers.py` with DuckDB.
static SHIPPED: [(f64, [&str; 22]); 2] = [
    (0.01, shipped!("0.01": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22)),
    (0.1, shipped!("0.1": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22)),
];

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray};

    use super::*;

    fn q(number: usize) -> &'static Query {
        Query::numbered(number).unwrap()
    }

    fn batch() -> (SchemaRef, Vec<RecordBatch>) {
        let decimal = Decimal128Array::from(vec![12_300, -5]).with_precision_and_scale(15, 2).unwrap();
        let columns: Vec<(&str, Arc<dyn Array>)> = vec![
            ("i", Arc::new(Int64Array::from(vec![Some(7), None]))),
            ("d", Arc::new(decimal)),
            ("t", Arc::new(StringViewArray::from(vec!["a, \"b\"", "c"]))),
            ("x", Arc::new(Float64Array::from(vec![0.1 + 0.2, 1e300]))),
            ("day", Arc::new(Date32Array::from(vec![0, 10_000]))),
        ];
        let b = RecordBatch::try_from_iter(columns).unwrap();
        (b.schema(), vec![b])
    }

    const SAME: &str = "i:integer,d:decimal,t:text,x:double,day:date\n\
        7,123.0,\"a, \"\"b\"\"\",0.3,1970-01-01\n\
        ,-0.05,c,1e300,1997-05-19\n";

    fn check(expected: &str) -> Result<(), Difference> {
        let (schema, batches) = batch();
        Answer::of(&schema, &batches).unwrap().compare(q(1), &Answer::parse(expected).unwrap())
    }

    #[test]
    fn equal_answers_agree() {
        check(SAME).unwrap();
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let (schema, batches) = batch();
        let answer = Answer::of(&schema, &batches).unwrap();
        let text = answer.to_csv();
        assert!(text.contains("123.00") && text.contains("-0.05"), "{text}");
        let read = Answer::parse(&text).unwrap();
        assert_eq!((read.columns, read.rows), (answer.columns, answer.rows));
        let null = Answer { columns: vec!["avg".into()], rows: vec![vec![Cell::Null]] };
        assert_eq!(Answer::parse(&null.to_csv()).unwrap().rows, null.rows);
    }

    #[test]
    fn one_changed_cell_is_found_and_named() {
        for (from, to, place) in [
            ("7,", "8,", "row 1, column i"),
            ("\n,", "\n0,", "row 2, column i"),
            ("123.0", "123.01", "row 1, column d"),
            ("-0.05", "0.05", "row 2, column d"),
            (",c,", ",C,", "row 2, column t"),
            ("0.3,", "0.300000001,", "row 1, column x"),
            ("1997-05-19", "1997-05-18", "row 2, column day"),
        ] {
            let changed = SAME.replacen(from, to, 1);
            assert_ne!(changed, SAME);
            assert_eq!(check(&changed).unwrap_err().place, place);
        }
        let shorter = SAME.lines().take(2).collect::<Vec<_>>().join("\n");
        assert_eq!(check(&shorter).unwrap_err().to_string(), "Q1, rows: got 2, expected 1");
    }

    #[test]
    fn every_shipped_cell_counts() {
        for scale in [0.01, 0.1].map(|s| Scale::new(s).unwrap()) {
            for query in &super::super::QUERIES {
                let answer = Answer::shipped(query, scale).unwrap().unwrap();
                answer.compare(query, &answer).unwrap();
                assert!(answer.row_count() > 0);
                let (row, column) = (answer.rows.len() / 2, answer.columns.len() - 1);
                let mut changed = answer.clone();
                changed.rows[row][column] = match &answer.rows[row][column] {
                    Cell::Double(v) => Cell::Double(v * 1.000_001 + 1e-6),
                    Cell::Null => Cell::Double(0.0),
                    other => Cell::Exact(format!("{other}0")),
                };
                let found = changed.compare(query, &answer).unwrap_err();
                assert_eq!(found.query, query.number);
            }
        }
    }

    #[test]
    fn rows_that_may_change_places_may() {
        let text = |rows: [&str; 3]| format!("n_name:text,revenue:decimal\n{}\n", rows.join("\n"));
        let answer = |rows| Answer::parse(&text(rows)).unwrap();
        let expected = answer(["a,3.0", "b,2.0", "c,2.0"]);
        answer(["a,3.00", "c,2", "b,2"]).compare(q(5), &expected).unwrap();
        let found = answer(["c,2", "a,3", "b,2"]).compare(q(5), &expected).unwrap_err();
        assert_eq!(found.place, "row 1, column revenue");
        let found = answer(["a,3", "c,2", "x,2"]).compare(q(5), &expected).unwrap_err();
        assert_eq!((found.place.as_str(), found.expected.as_str()), ("row 2, column n_name", "b"));
    }

    #[test]
    fn a_rounded_decimal_meets_a_double() {
        let expected = Answer::parse("avg:double\n25.537587116854997\n").unwrap();
        let got = |text: &str| Answer::parse(&format!("avg:decimal\n{text}\n")).unwrap();
        got("25.537587").compare(q(6), &expected).unwrap();
        assert!(got("25.537585").compare(q(6), &expected).is_err());
    }
}
