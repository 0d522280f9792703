//! Table 8 and Fig. 11: early filtering over a column store, raw and compressed.
//!
//! ```text
//!   part ─► size: (row id, value)            ─┐  row ids of both, met ─► manufacturer: (row id, value)
//!        ─► kind: (row id, value)             │
//!        ─► size, kind: (value, its row ids) ─┘
//! ```
//!
//! Claim, setup and expected shape: [`FIGURE`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::arrow::error::ArrowError;
use lode_base::VirtualDuration;
use lode_sql::Offload;

use super::rig::{Rig, Took};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;
use crate::tpch::data::generate;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "columns",
    about: "Table 8, Fig. 11: Query 1 over a column store",
    claim: "Over columns in raw form early filtering takes longer (0.71 times as fast), since each page has a value that passes. With each value stored once \
            it is 1.34 times as fast.",
    setup: "A table for each column of part: of (row id, value), or of (value, row ids) with the values in the order of their first rows. Row pages of 4 KB \
            with fields for the matcher. Without early filter the host reads all pages of p_size and p_type, and stops at the last row id of p_size = 15 where \
            values are stored once. With it the matcher flags pages. Both then look p_mfgr up by row id, with the look-ups of a batch under way together. Tables of 16 times the \
            scale of the other figures.",
    expected: "In raw form the matcher flags nearly all pages, so nothing is gained. Stored once, a page has few values.",
    differs: "Row ids take 4 bytes. A value with its row ids is cut into rows of at most 200 row ids, so that rows fit a page. At the paper's scale each value has \
              25 times as many pages, and its first and last page matter less.",
    sizes: &[scales::PERCENT],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// How many times the scale of the other figures: a column has few pages.
const TIMES: f64 = 16.0;
/// Row ids in a row of a column whose values are stored once.
const ROW_IDS: usize = 200;

/// A column of part that Query 1 filters.
struct Column {
    name: &'static str,
    sql_type: &'static str,
    condition: &'static str,
    /// Whether a scan may end at the last row that passes: there is one value that does.
    ends: bool,
    /// Published: relative size, ratio raw and ratio compressed.
    published: [f64; 3],
}

const COLUMNS: [Column; 2] = [
    Column {
        name: "p_size",
        sql_type: "INTEGER",
        condition: "value = 15",
        ends: true,
        published: [0.52, 0.96, 0.02],
    },
    Column {
        name: "p_type",
        sql_type: "TEXT",
        condition: "value LIKE '%BRASS'",
        ends: false,
        published: [0.36, 0.99, 0.20],
    },
];

/// How a column is stored.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Raw,
    /// Each value once, with its row ids.
    Compressed,
}

impl Form {
    const ALL: [Self; 2] = [Self::Raw, Self::Compressed];

    const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Compressed => "compressed",
        }
    }

    fn table(self, column: &str) -> String {
        format!("{column}_{}", self.name())
    }
}

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    run.go_on()?;
    load(Rig::of(run)?)?;
    let mut rows = Vec::new();
    let mut raw_pages = [0; COLUMNS.len()];
    for form in Form::ALL {
        let mut times = [VirtualDuration::default(); 2];
        let mut parts = Vec::new();
        let mut answers = Vec::new();
        for (time, level) in times.iter_mut().zip([Offload::Off, Offload::Matches]) {
            run.go_on()?;
            let rig = Rig::of(run)?;
            let mut met: Option<BTreeSet<i32>> = None;
            for (i, column) in COLUMNS.iter().enumerate() {
                let (took, row_ids) = filtered(rig, column, form, level)?;
                *time += took.time;
                if level == Offload::Matches {
                    let pages = took.counts.pages;
                    if form == Form::Raw {
                        raw_pages[i] = pages;
                    }
                    parts.extend(of_column(column, form, &took, pages as f64 / raw_pages[i] as f64));
                }
                met = Some(match met {
                    None => row_ids,
                    Some(others) => others.intersection(&row_ids).copied().collect(),
                });
            }
            let (took, values) = located(rig, &met.unwrap_or_default())?;
            *time += took.time;
            answers.push(values);
        }
        assert_eq!(answers[0], answers[1], "the early filter changes no answer");
        rows.append(&mut parts);
        rows.extend(of_form(form, times, answers[0]));
    }
    Ok(rows)
}

/// The size and the ratio of a column.
fn of_column(column: &Column, form: Form, took: &Took, size: f64) -> Vec<Row> {
    let row = |metric: &str, ours, published, note: String| Row {
        published: Some(published),
        aim: Aim::NotCompared,
        ..Row::new(Method::Executed, form.name(), X::Name(column.name.into()), metric, "", ours, &note)
    };
    let pages = took.counts.pages;
    let [published_size, raw, compressed] = column.published;
    let is_raw = form == Form::Raw;
    vec![
        row(
            "relative size",
            size,
            if is_raw { 1.0 } else { published_size },
            format!("{pages} pages of 4 KB; the paper does not say how long its row ids are"),
        ),
        row(
            "pages with the key",
            took.flagged() as f64 / pages as f64,
            if is_raw { raw } else { compressed },
            format!("of {pages} pages, by the matcher alone"),
        ),
    ]
}

/// The times of Query 1.
fn of_form(form: Form, [without, with]: [VirtualDuration; 2], answer: usize) -> Vec<Row> {
    let row = |metric: &str, unit, ours| {
        let note = format!("p_size, p_type and p_mfgr of {answer} rows, from an empty pool");
        Row::new(Method::Executed, form.name(), X::None, metric, unit, ours, &note)
    };
    let published = if form == Form::Raw { 0.71 } else { 1.34 };
    vec![
        row("time without early filter", "s", without.as_secs_f64()),
        row("time with early filter", "s", with.as_secs_f64()),
        Row {
            published: Some(published),
            aim: Aim::Equal,
            ..row("speed-up", "x", without.as_secs_f64() / with.as_secs_f64())
        },
    ]
}

/// The row ids whose value of a column passes.
fn filtered(
    rig: &Rig,
    column: &Column,
    form: Form,
    level: Offload,
) -> Result<(Took, BTreeSet<i32>), BenchError> {
    let (table, condition) = (form.table(column.name), column.condition);
    let mut row_ids = BTreeSet::new();
    if form == Form::Raw {
        let sql = format!("SELECT row_id FROM {table} WHERE {condition}");
        let (took, batches) = rig.answer(&sql, level, true)?;
        for batch in &batches {
            row_ids.extend(batch.column(0).as_primitive::<Int32Type>().values());
        }
        return Ok((took, row_ids));
    }
    let mut sql = format!("SELECT row_ids FROM {table} WHERE {condition}");
    if column.ends && level == Offload::Off {
        // The host reads as far as the row ids of the value.
        let (_, counted) =
            rig.answer(&format!("SELECT count(*) FROM {table} WHERE {condition}"), level, true)?;
        let of_value = counted[0].column(0).as_primitive::<Int64Type>().value(0);
        sql = format!("{sql} LIMIT {of_value}");
    }
    let (took, batches) = rig.answer(&sql, level, true)?;
    for batch in &batches {
        let of = cast(batch.column(0), &DataType::Binary).map_err(|e| unfit(&table, e))?;
        for ids in of.as_binary::<i32>().iter().flatten() {
            row_ids.extend(ids.as_chunks().0.iter().map(|id| i32::from_be_bytes(*id)));
        }
    }
    Ok((took, row_ids))
}

/// The values of p_mfgr in these rows: what reading them took, and how many there are.
fn located(rig: &Rig, row_ids: &BTreeSet<i32>) -> Result<(Took, usize), BenchError> {
    let list: Vec<String> = row_ids.iter().map(|id| format!("({id})")).collect();
    let table = Form::Raw.table("p_mfgr");
    let sql = format!("SELECT value FROM {table}, (VALUES {}) met(id) WHERE row_id = id", list.join(", "));
    let (took, batches) = rig.looked_up(&sql)?;
    Ok((took, batches.iter().map(RecordBatch::num_rows).sum()))
}

/// Loads the columns in both forms.
fn load(rig: &Rig) -> Result<(), BenchError> {
    let options = |key: &str| {
        format!("WITH (layout = 'row', page_bytes = 4096, encoding = 'matchable', page_index = '{key}')")
    };
    let scale = rig.scaled(TIMES).expect("a possible scale");
    let part: Vec<RecordBatch> =
        generate("part", scale).collect::<Result<_, _>>().map_err(|e| unfit("part", e))?;
    let of_part = |name: &str, data_type: &DataType| -> Result<Vec<ArrayRef>, BenchError> {
        let of = |b: &RecordBatch| {
            let column = b.column_by_name(name).expect("a column of part");
            cast(column, data_type).map_err(|e| unfit(name, e))
        };
        part.iter().map(of).collect()
    };
    let raw = [
        ("p_size", "INTEGER", DataType::Int32),
        ("p_type", "TEXT", DataType::Utf8),
        ("p_mfgr", "TEXT", DataType::Utf8),
    ];
    for (name, sql_type, data_type) in raw {
        let table = Form::Raw.table(name);
        let create = format!(
            "CREATE TABLE {table} (row_id INTEGER PRIMARY KEY, value {sql_type} NOT NULL) {}",
            options("row_id")
        );
        let mut first = 1;
        let mut batches = Vec::new();
        for values in of_part(name, &data_type)? {
            let ids: Int32Array = (first..).take(values.len()).collect::<Vec<i32>>().into();
            first += values.len() as i32;
            batches.push(batch(&table, vec![("row_id", Arc::new(ids)), ("value", values)])?);
        }
        rig.load(&table, &create, batches)?;
    }
    for column in &COLUMNS {
        let table = Form::Compressed.table(column.name);
        let values = of_part(column.name, &DataType::Utf8)?;
        let create = format!(
            "CREATE TABLE {table} (place INTEGER PRIMARY KEY, value {} NOT NULL, row_ids BYTEA NOT NULL) {}",
            column.sql_type,
            options("place")
        );
        let (values, row_ids) = once(&values);
        let places: Int32Array = (1..).take(values.len()).collect::<Vec<i32>>().into();
        let data_type = if column.sql_type == "TEXT" { DataType::Utf8 } else { DataType::Int32 };
        let values = cast(&StringArray::from(values), &data_type).map_err(|e| unfit(&table, e))?;
        let row_ids = BinaryArray::from_iter_values(row_ids);
        let columns: Vec<(&str, ArrayRef)> =
            vec![("place", Arc::new(places)), ("value", values), ("row_ids", Arc::new(row_ids))];
        let batch = batch(&table, columns)?;
        rig.load(&table, &create, vec![batch])?;
    }
    Ok(())
}

/// Each value once with its row ids, cut into rows; values in the order of their first rows.
fn once(batches: &[ArrayRef]) -> (Vec<String>, Vec<Vec<u8>>) {
    let mut firsts: BTreeMap<&str, i32> = BTreeMap::new();
    let mut of_value: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    let values = batches.iter().flat_map(|b| b.as_string::<i32>().iter().flatten());
    for (row_id, value) in (1..).zip(values) {
        firsts.entry(value).or_insert(row_id);
        of_value.entry(value).or_default().push(row_id);
    }
    let mut order: Vec<(&str, i32)> = firsts.into_iter().collect();
    order.sort_by_key(|(_, first)| *first);
    let chunks = order.iter().flat_map(|(value, _)| of_value[value].chunks(ROW_IDS).map(|ids| (*value, ids)));
    chunks
        .map(|(value, ids)| (value.to_owned(), ids.iter().flat_map(|id| id.to_be_bytes()).collect()))
        .unzip()
}

fn batch(table: &str, columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, BenchError> {
    RecordBatch::try_from_iter(columns).map_err(|e| unfit(table, e))
}

fn unfit(table: &str, source: ArrowError) -> BenchError {
    super::rig::failed(&format!("loading {table}"), datafusion::error::DataFusionError::from(source).into())
}
