//! Beyond the paper: the pages that each kind of the page index leaves unread, for equality and LIKE on strings of TPC-H.
//!
//! ```text
//!   strings of a column, 120 a page ─┬─► entries of a kind and size ─► verdict of each query on each page ─► left unread, false positives
//!                                    └─► strings compared one by one; distinct values or trigrams ─► false positives by Bloom's equation
//! ```
//!
//! Claim, setup and expected shape: [`FIGURE`].

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType as ArrowType;
use lode_base::random::Random;
use lode_page::{Column, ColumnBuilder, ColumnType, DataType, Schema, Value};
use lode_program::index::{KeptColumn, bitmap, bloom, prefix, range, trigram};
use lode_program::{ColumnSource, CompareOp, Expr, IndexEntry, IndexKind, IndexRule, Program, may_match};

use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Method, Row, X};
use crate::paper::run::Run;
use crate::tpch::Scale;
use crate::tpch::data::generate;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "kinds",
    about: "Beyond the paper: pages left unread by each kind of the page index, for equality and LIKE",
    claim: "The paper's index keeps ranges only. It says that other forms fit the same bytes.",
    setup: "Strings of TPC-H at scale 0.25 in the generator's order, 120 a page, 200 pages at most. 256 queries for a value of these pages, or for a \
            word of one, '%word%'. A false positive is a page that is read and has no row that passes.",
    expected: "A filter of m bits with n values and k probes passes another with (1 - (1 - 1/m)^(kn))^k, and a text of which j trigrams do not \
               occur with that to the power of j. A page of 120 rows has all of 7 modes of shipping, most of 25 brands and half of 150 types.",
    differs: "No drive runs: entries are made and asked as the drive does.",
    sizes: &[],
    rows,
    plot: None,
};

const ROWS_A_PAGE: usize = 120;
const PAGES: usize = 200;
const QUERIES: usize = 256;
const QUICK_QUERIES: usize = 32;
const SCALE: f64 = 0.25;
const SEED: u64 = 30;

/// What is asked of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// `c = value`.
    Value,
    /// `c LIKE '%word%'`.
    Word,
}

/// A column of TPC-H, what is asked of it, and the kinds that are compared.
struct Subject {
    table: &'static str,
    column: &'static str,
    asked: Asked,
    kinds: &'static [Kept],
}

/// A kind, and its bytes where it takes a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Range,
    Prefix(u8),
    Bitmap,
    Bloom(u16),
    Trigram(u16),
}

use Kept::{Bitmap, Bloom, Prefix, Range, Trigram};

const VALUES: &[Kept] = &[Range, Prefix(16), Bloom(16), Bloom(64), Bloom(256), Trigram(256), Trigram(1024)];
const DOMAINS: &[Kept] = &[Range, Bitmap, Bloom(16), Bloom(64), Bloom(256)];
const WORDS: &[Kept] = &[Trigram(64), Trigram(256), Trigram(1024), Trigram(1900)];

const SUBJECTS: [Subject; 8] = [
    Subject { table: "orders", column: "o_clerk", asked: Asked::Value, kinds: VALUES },
    Subject { table: "customer", column: "c_phone", asked: Asked::Value, kinds: VALUES },
    Subject { table: "part", column: "p_name", asked: Asked::Value, kinds: VALUES },
    Subject { table: "part", column: "p_type", asked: Asked::Value, kinds: DOMAINS },
    Subject { table: "part", column: "p_brand", asked: Asked::Value, kinds: DOMAINS },
    Subject { table: "lineitem", column: "l_shipmode", asked: Asked::Value, kinds: DOMAINS },
    Subject { table: "part", column: "p_name", asked: Asked::Word, kinds: WORDS },
    Subject { table: "orders", column: "o_comment", asked: Asked::Word, kinds: WORDS },
];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let queries = if run.quick() { QUICK_QUERIES } else { QUERIES };
    let mut rows = Vec::new();
    for subject in &SUBJECTS {
        run.go_on()?;
        let pages = strings(subject)?;
        let texts = texts(subject.asked, &pages, queries);
        for &kept in subject.kinds {
            rows.extend(of_kind(subject, kept, &pages, &texts));
        }
    }
    Ok(rows)
}

/// The strings of the column, page by page.
fn strings(subject: &Subject) -> Result<Vec<Vec<String>>, BenchError> {
    let mut all: Vec<String> = Vec::new();
    for batch in generate(subject.table, Scale::new(SCALE).expect("a possible scale")) {
        let failed = |e| BenchError::sql(format!("generating {}", subject.table), e);
        let batch: RecordBatch = batch.map_err(|e| failed(e.into()))?;
        let column = batch.column_by_name(subject.column).expect("a column of TPC-H");
        let strings = cast(column, &ArrowType::Utf8).map_err(|e| failed(e.into()))?;
        all.extend(strings.as_string::<i32>().iter().flatten().map(str::to_owned));
        if all.len() >= PAGES * ROWS_A_PAGE {
            break;
        }
    }
    let pages = all.chunks_exact(ROWS_A_PAGE).take(PAGES);
    Ok(pages.map(<[String]>::to_vec).collect())
}

/// What the queries look for: values, or words of at least four letters.
fn texts(asked: Asked, pages: &[Vec<String>], queries: usize) -> Vec<String> {
    let r = &mut Random::of_seed(SEED);
    let mut draw = || -> String {
        let value = &pages[r.below(pages.len() as u64) as usize][r.below(ROWS_A_PAGE as u64) as usize];
        match asked {
            Asked::Value => value.clone(),
            Asked::Word => {
                let words: Vec<&str> = value.split(|c: char| !c.is_ascii_alphabetic()).collect();
                let long: Vec<&&str> = words.iter().filter(|w| w.len() >= 4).collect();
                if long.is_empty() {
                    "requests".into()
                } else {
                    long[r.below(long.len() as u64) as usize].to_string()
                }
            }
        }
    };
    (0..queries).map(|_| draw()).collect()
}

/// What became of the pairs of a query and a page.
#[derive(Default)]
struct Outcome {
    pairs: usize,
    unread: usize,
    /// Pairs of which no row passes.
    unneeded: usize,
    /// Those of them that are read.
    false_positives: usize,
    /// As many of them as the equation expects.
    expected: f64,
    /// For each text, how many there are beyond what is expected: pages have the same texts, so the pairs of one text are one sample.
    beyond: BTreeMap<String, f64>,
}

impl Outcome {
    /// The standard error of the false positives.
    fn error(&self) -> f64 {
        self.beyond.values().map(|d| d * d).sum::<f64>().sqrt()
    }
}

fn of_kind(subject: &Subject, kept: Kept, pages: &[Vec<String>], texts: &[String]) -> Vec<Row> {
    let outcome = ask(subject.asked, kept, pages, texts);
    let x = match subject.asked {
        Asked::Value => format!("{} = value", subject.column),
        Asked::Word => format!("{} LIKE '%word%'", subject.column),
    };
    let row = |method, metric: &str, ours, note: &str| {
        Row::new(method, &kept.shown(), X::Name(x.clone()), metric, "%", ours, note)
    };
    let percent = |of: f64, all: usize| of / all.max(1) as f64 * 100.0;
    let note = format!(
        "of {} pairs of a query and a page, {} of which have no row that passes",
        outcome.pairs, outcome.unneeded
    );
    let mut rows =
        vec![row(Method::Executed, "left unread", percent(outcome.unread as f64, outcome.pairs), &note)];
    if matches!(kept, Bloom(_) | Trigram(_)) && outcome.unneeded > 0 {
        let (seen, all) = (outcome.false_positives, outcome.unneeded);
        let note = format!("{seen} of {all}, with a standard error of {:.0}", outcome.error());
        rows.push(row(Method::Executed, "false positives", percent(seen as f64, all), &note));
        let note = "of each page, by its distinct values or trigrams";
        rows.push(row(Method::Arithmetic, "false positives", percent(outcome.expected, all), note));
    }
    rows
}

/// Asks the entries of the pages for each text.
fn ask(asked: Asked, kept: Kept, pages: &[Vec<String>], texts: &[String]) -> Outcome {
    let schema = Schema {
        version: 1,
        columns: vec![ColumnType { data_type: DataType::Text, nullable: false }],
        absent: Vec::new(),
    };
    let rule = kept.rule(&schema, pages);
    let entries: Vec<IndexEntry> = pages
        .iter()
        .map(|page| rule.entry(&mut One(column(page))).expect("a column of the rule's type"))
        .collect();
    let chances: Vec<Chance> = pages.iter().map(|page| Chance::of(kept, page)).collect();
    let mut outcome = Outcome::default();
    for text in texts {
        let program = Program::check(schema.clone(), Some(filter(asked, text)), Vec::new(), false);
        let program = program.expect("a filter of a string");
        for ((page, entry), chance) in pages.iter().zip(&entries).zip(&chances) {
            let is_read = may_match(&program, &rule, entry);
            let passes = |v: &String| match asked {
                Asked::Value => v == text,
                Asked::Word => v.contains(text.as_str()),
            };
            outcome.pairs += 1;
            outcome.unread += usize::from(!is_read);
            if !page.iter().any(passes) {
                outcome.unneeded += 1;
                let expected = chance.passes(kept, text);
                outcome.false_positives += usize::from(is_read);
                outcome.expected += expected;
                *outcome.beyond.entry(text.clone()).or_default() += f64::from(u8::from(is_read)) - expected;
            }
        }
    }
    outcome
}

fn filter(asked: Asked, text: &str) -> Expr {
    let value = Box::new(Expr::Column(0));
    match asked {
        Asked::Value => {
            let constant = Expr::Const(Value::Bytes(text.as_bytes().into()), DataType::Text);
            Expr::Compare(CompareOp::Eq, value, Box::new(constant))
        }
        Asked::Word => Expr::Like { value, pattern: format!("%{text}%"), case_insensitive: false },
    }
}

fn column(page: &[String]) -> Column {
    let mut builder = ColumnBuilder::new(DataType::Text);
    for text in page {
        builder.push(&Value::Bytes(text.as_bytes().into())).expect("a text");
    }
    builder.finish()
}

struct One(Column);

impl ColumnSource for One {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn column(&mut self, _: u16) -> Result<Column, Infallible> {
        Ok(self.0.clone())
    }
}

impl Kept {
    fn shown(self) -> String {
        match self {
            Range => "range".into(),
            Prefix(bytes) => format!("prefix, {bytes} bytes"),
            Bitmap => "bitmap".into(),
            Bloom(bytes) => format!("bloom, {bytes} bytes"),
            Trigram(bytes) => format!("trigram, {bytes} bytes"),
        }
    }

    fn rule(self, schema: &Schema, pages: &[Vec<String>]) -> IndexRule {
        let (kind, form): (&'static dyn IndexKind, Box<[u8]>) = match self {
            Range => (&range::RANGE, Box::default()),
            Prefix(bytes) => (&prefix::Prefix, Box::new([bytes])),
            Bitmap => {
                let domain: BTreeSet<&String> = pages.iter().flatten().collect();
                let values: Vec<Value> = domain.iter().map(|v| Value::Bytes(v.as_bytes().into())).collect();
                (&bitmap::Bitmap, bitmap::domain(&values))
            }
            Bloom(bytes) => (&bloom::BLOOM, bytes.to_le_bytes().into()),
            Trigram(bytes) => (&trigram::TRIGRAM, bytes.to_le_bytes().into()),
        };
        let kept = KeptColumn { column: 0, form };
        IndexRule::of_kinds(schema.clone(), vec![(kind, vec![kept])]).expect("a kind of strings")
    }
}

/// With what probability the filter of a page passes something that it does not have.
struct Chance {
    one: f64,
    trigrams: BTreeSet<Vec<u8>>,
}

impl Chance {
    fn of(kept: Kept, page: &[String]) -> Self {
        let trigrams = || page.iter().flat_map(|v| trigrams(v)).collect::<BTreeSet<_>>();
        match kept {
            Bloom(bytes) => {
                let distinct: BTreeSet<&String> = page.iter().collect();
                Self { one: passes_another(distinct.len(), bytes), trigrams: BTreeSet::new() }
            }
            Trigram(bytes) => {
                let trigrams = trigrams();
                Self { one: passes_another(trigrams.len(), bytes), trigrams }
            }
            Range | Prefix(_) | Bitmap => Self { one: 0.0, trigrams: BTreeSet::new() },
        }
    }

    /// The probability that the filter lets a text pass that is on no row of the page.
    fn passes(&self, kept: Kept, text: &str) -> f64 {
        match kept {
            Trigram(_) => {
                let asked: BTreeSet<Vec<u8>> = trigrams(text).collect();
                self.one.powi(asked.difference(&self.trigrams).count() as i32)
            }
            _ => self.one,
        }
    }
}

fn trigrams(text: &str) -> impl Iterator<Item = Vec<u8>> {
    text.as_bytes().windows(3).map(<[u8]>::to_vec)
}

/// The probability that a filter of so many bytes, one of which is not of bits, passes a value that is not among the `n` in it, with the
/// best number of probes, of 1 to 15. Source: Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970.
fn passes_another(n: usize, bytes: u16) -> f64 {
    let (m, n) = (8.0 * (f64::from(bytes) - 1.0), n as f64);
    let k = (m / n * std::f64::consts::LN_2).round().clamp(1.0, 15.0);
    (1.0 - (1.0 - 1.0 / m).powf(k * n)).powf(k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_positives_are_as_many_as_the_equation_expects() {
        for subject in &SUBJECTS {
            let pages = strings(subject).unwrap();
            let texts = texts(subject.asked, &pages, QUERIES);
            for &kept in subject.kinds.iter().filter(|k| matches!(k, Bloom(_) | Trigram(_))) {
                let of = ask(subject.asked, kept, &pages, &texts);
                let (seen, expected) = (of.false_positives as f64, of.expected);
                // A tenth, or three standard errors. Where hardly any is expected, none may be seen.
                let room = (expected / 10.0).max(3.0 * of.error()).max(3.0 * expected.sqrt());
                assert!(
                    (seen - expected).abs() <= room,
                    "{} by {kept:?}: {seen}, expected {expected}",
                    subject.column
                );
            }
        }
    }
}
