//! Statistics of a scan for the planner: rows, bytes and bounds. A filter's selectivity is estimated by running it
//! over a few pages.
//!
//! ```text
//!   page index ─► rows (exact), min and max (bounds) ─► Statistics
//!   filter ─► run over pages drawn at random ─► part that passes ─► rows (estimated)
//! ```
//!
//! Invariant: only the row count of an unfiltered scan, and "no NULLs" of a NOT NULL column, are declared exact:
//! DataFusion answers queries from exact values without a scan. Source: the sampler of YourSQL, §4: early filtering
//! pays only if the filter excludes many rows.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::physical_plan::{ColumnStatistics, Statistics};
use lode_command::{Answer, PageRange, ScanCounts, ScanUnit};
use lode_engine::{NoMatcher, Snapshot, Table, TableStatistics};
use lode_page::{DataType, Value};
use lode_program::aggregate::GROUPS_MAX;
use lode_program::{Aggregation, Call, Expr, Program};

use super::sample::{MatchedPages, Sample, draw};
use super::{ScanSpec, engine_error, program_error};
use crate::StatementCounts;

/// The rows of a sample: enough to distinguish 1% from 2%.
const SAMPLE_ROWS: u64 = 50_000;
/// The least pages of a sample (if the table has them), and the most.
const SAMPLE_PAGES_MIN: u64 = 2;
const SAMPLE_PAGES_MAX: u64 = 32;
/// On a modelled device, the least pages of a table that is sampled, and one page in how many is.
const MODELLED_PAGES_MIN: u64 = 20;
const MODELLED_PART: u64 = 100;
/// Draws the same pages each time.
const MATCHED_SEED: u64 = 0x5EED;
/// The assumed bytes of a string in memory: its view, and some text beside it.
const STRING_BYTES: usize = 32;

/// The rows of the table that pass `filter`, estimated by running it over a few pages. A statement asks once for the same filter.
/// `None` where there is no page to sample.
pub(crate) fn sample(
    snapshot: &Snapshot,
    table: &Table,
    filter: &Expr,
    counts: &StatementCounts,
) -> Result<Option<Sample>> {
    if let Some(known) = counts.sample(table.id(), filter) {
        return Ok(Some(known));
    }
    let ranges = snapshot.page_ranges(table);
    let pages = sample_pages(snapshot, table, &ranges);
    if pages.is_empty() {
        return Ok(None);
    }
    let program = Program::check(table.schema().clone(), Some(filter.clone()), vec![], false);
    let program = program.map_err(program_error)?;
    let mut passed = Vec::with_capacity(pages.len());
    let taken = run(snapshot, table, pages, program, Answer::Rows, counts, |unit| {
        passed.extend(unit.pages.iter().map(|p| u64::from(p.rows)));
    })?;
    let all_pages = ranges.iter().map(|r| u64::from(r.count)).sum();
    let sample = Sample::of(part_passed(&taken), &passed, taken.pages, table.rows(), all_pages);
    counts.keep_sample(table.id(), filter, sample);
    Ok(Some(sample))
}

/// Whether the groups of a sample have at least `rows_a_group` rows on average. True if no row passes.
pub(crate) fn sample_groups(spec: &ScanSpec, of: &Aggregation, rows_a_group: u64) -> Result<bool> {
    let pages = sample_pages(&spec.snapshot, &spec.table, &spec.snapshot.page_ranges(&spec.table));
    if pages.is_empty() {
        return Ok(true);
    }
    // The groups are what is asked for, not their sums.
    let of = Aggregation { calls: vec![Call::CountRows], ..of.clone() };
    let keys_count = of.group_by.len();
    let program = spec.program()?.with_aggregation(of).map_err(program_error)?;
    // Each task sends a group once. There is one task unless the device is modelled.
    let is_one_task = spec.snapshot.host().is_none();
    let mut keys = HashSet::new();
    let taken = run(&spec.snapshot, &spec.table, pages, program, Answer::Aggregate, &spec.counts, |unit| {
        for groups in unit.groups.iter().filter(|_| !is_one_task) {
            let key = |row| groups.columns[..keys_count].iter().map(|c| c.value(row)).collect();
            let each = (0..groups.rows as usize).map(|row| -> Vec<Value> { key(row) });
            keys.extend(each.map(|values| format!("{values:?}")));
        }
    })?;
    let groups = if is_one_task { taken.groups_out } else { keys.len() as u64 };
    Ok(groups * rows_a_group <= taken.rows_out)
}

/// How many different values there are for a row of the table in a column in whose order its pages are, by groups of one page. `None` for
/// a table of few pages.
pub(super) fn values_a_row(spec: &ScanSpec, column: u16) -> Result<Option<f64>> {
    let table = &spec.table;
    if table.pages() < MODELLED_PART {
        return Ok(None);
    }
    let of = Aggregation { group_by: vec![column], calls: vec![Call::CountRows], groups_max: GROUPS_MAX };
    let program = Program::check(table.schema().clone(), None, vec![], false);
    let program = program.and_then(|p| p.with_aggregation(of)).map_err(program_error)?;
    let page = draw(&spec.snapshot.page_ranges(table), 1, u64::from(table.id().raw()));
    let taken = run(&spec.snapshot, table, page, program, Answer::Aggregate, &spec.counts, |_| {})?;
    if taken.rows_out == 0 {
        return Ok(None);
    }
    Ok(Some(taken.groups_out as f64 / taken.rows_out as f64))
}

/// Looks for the keys of a scan's filter in a share of its table's pages, by the drive's matcher alone. The inner error is why it looks
/// for none.
pub(crate) fn matched(spec: &ScanSpec, part: f64) -> Result<Result<MatchedPages, NoMatcher>> {
    let answer = Answer::Hints { filter: false };
    let program = spec.program()?;
    if let Err(why) = spec.snapshot.matcher(&spec.table, &program, answer) {
        return Ok(Err(why));
    }
    let wanted = (spec.table.pages() as f64 * part).ceil() as u64;
    let drawn = draw(&spec.snapshot.page_ranges(&spec.table), wanted, MATCHED_SEED);
    let taken = run(&spec.snapshot, &spec.table, drawn, program, answer, &spec.counts, |_| {})?;
    let matched = taken.pages - taken.pages_skipped - taken.pages_unmatched;
    Ok(Ok(MatchedPages::of(matched, taken.pages)))
}

/// Runs a program over pages for its counts.
fn run(
    snapshot: &Snapshot,
    table: &Table,
    pages: Vec<PageRange>,
    program: Program,
    answer: Answer,
    counts: &StatementCounts,
    mut each: impl FnMut(&ScanUnit),
) -> Result<ScanCounts> {
    let mut scan = snapshot.scan(table, pages, Arc::new(program), answer, None).map_err(engine_error)?;
    let mut taken = ScanCounts::default();
    while let Some(unit) = scan.next().map_err(engine_error)? {
        taken += unit.counts;
        each(&unit);
    }
    counts.with(|q| {
        q.link_bytes_down += scan.link_bytes_down();
        q.link_bytes_up += scan.link_bytes_up();
    });
    Ok(taken)
}

/// The share of rows that passed. Pages that were skipped or dropped are assumed to have as many rows as those whose rows were looked at.
fn part_passed(c: &ScanCounts) -> f64 {
    let pages = c.pages_read.saturating_sub(c.pages_unmatched);
    if pages == 0 || c.rows_in == 0 {
        return if c.pages == 0 { 1.0 } else { 0.0 };
    }
    let rows = c.rows_in as f64 * c.pages as f64 / pages as f64;
    (c.rows_out as f64 / rows).clamp(0.0, 1.0)
}

/// The pages of a sample. Those of a table stay the same while it does. On a modelled device a sample is a small part of its table, or there is
/// none: a page takes as long there as any other.
fn sample_pages(snapshot: &Snapshot, table: &Table, ranges: &[PageRange]) -> Vec<PageRange> {
    let pages: u64 = ranges.iter().map(|r| u64::from(r.count)).sum();
    let rows = table.rows();
    if pages == 0 || rows == 0 {
        return Vec::new();
    }
    let wanted = match snapshot.host() {
        None => (SAMPLE_ROWS / rows.div_ceil(pages)).clamp(SAMPLE_PAGES_MIN, SAMPLE_PAGES_MAX),
        Some(_) if pages < MODELLED_PAGES_MIN => return Vec::new(),
        Some(_) => (pages / MODELLED_PART).clamp(1, SAMPLE_PAGES_MAX),
    };
    draw(ranges, wanted, u64::from(table.id().raw()))
}

/// Statistics of the whole scan, before limits and run-time filters.
pub(crate) fn statistics(spec: &ScanSpec, known: &TableStatistics) -> Statistics {
    let filtered = spec.filter.is_some() && spec.offload.filters_exactly();
    let rows = if filtered {
        Precision::Inexact(((known.rows as f64 * spec.selectivity).ceil() as usize).max(1))
    } else {
        Precision::Exact(known.rows as usize)
    };
    let width: usize = spec.output.iter().map(|c| column_bytes(spec, *c)).sum();
    let columns =
        spec.output.iter().map(|c| c.map_or_else(ColumnStatistics::new_unknown, |c| column(spec, known, c)));
    let mut statistics = Statistics {
        num_rows: rows,
        total_byte_size: Precision::Inexact(rows.get_value().map_or(0, |r| r * width)),
        column_statistics: columns.collect(),
    };
    if filtered {
        for c in &mut statistics.column_statistics {
            c.null_count = c.null_count.to_inexact();
        }
    }
    statistics
}

fn column_bytes(spec: &ScanSpec, c: Option<u16>) -> usize {
    c.map_or(8, |c| match spec.table.schema().columns[usize::from(c)].data_type {
        DataType::Boolean => 1,
        t => t.fixed_bytes().unwrap_or(STRING_BYTES),
    })
}

fn column(spec: &ScanSpec, known: &TableStatistics, c: u16) -> ColumnStatistics {
    let c = usize::from(c);
    let ty = spec.table.schema().columns[c];
    let mut statistics = ColumnStatistics::new_unknown();
    if !ty.nullable {
        statistics.null_count = Precision::Exact(0);
    } else if known.has_nulls.get(c) == Some(&Some(false)) {
        statistics.null_count = Precision::Inexact(0);
    }
    if let Some(Some((min, max))) = known.columns.get(c) {
        statistics.min_value = bound(ty.data_type, min);
        statistics.max_value = bound(ty.data_type, max);
    }
    if spec.table.def().primary_key == [c as u16] {
        statistics.distinct_count = Precision::Inexact(known.rows as usize);
    }
    statistics
}

fn bound(t: DataType, v: &Value) -> Precision<ScalarValue> {
    scalar(t, v).map_or(Precision::Absent, Precision::Inexact)
}

/// A value as DataFusion's scalar.
fn scalar(t: DataType, v: &Value) -> Option<ScalarValue> {
    Some(match (t, v) {
        (DataType::Boolean, Value::Boolean(b)) => ScalarValue::Boolean(Some(*b)),
        (DataType::SmallInt, Value::Int(i)) => ScalarValue::Int16(Some(i16::try_from(*i).ok()?)),
        (DataType::Integer, Value::Int(i)) => ScalarValue::Int32(Some(i32::try_from(*i).ok()?)),
        (DataType::BigInt, Value::Int(i)) => ScalarValue::Int64(Some(*i)),
        (DataType::Date, Value::Int(i)) => ScalarValue::Date32(Some(i32::try_from(*i).ok()?)),
        (DataType::Timestamp, Value::Int(i)) => ScalarValue::TimestampMicrosecond(Some(*i), None),
        (DataType::Real, Value::Real(f)) => ScalarValue::Float32(Some(*f)),
        (DataType::Double, Value::Double(f)) => ScalarValue::Float64(Some(*f)),
        (DataType::Decimal { precision, scale }, Value::Decimal(d)) => {
            ScalarValue::Decimal128(Some(*d), precision, scale as i8)
        }
        (DataType::Text, Value::Bytes(b)) => {
            ScalarValue::Utf8View(Some(std::str::from_utf8(b).ok()?.to_owned()))
        }
        (DataType::Bytea, Value::Bytes(b)) => ScalarValue::BinaryView(Some(b.to_vec())),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_pages_count_as_rows_that_failed() {
        let c = ScanCounts {
            pages: 10,
            pages_skipped: 9,
            pages_read: 1,
            rows_in: 100,
            rows_out: 50,
            ..Default::default()
        };
        assert!((part_passed(&c) - 0.05).abs() < 1e-9);
        let dropped = ScanCounts { pages_skipped: 1, pages_read: 9, pages_unmatched: 8, ..c };
        assert!((part_passed(&dropped) - 0.05).abs() < 1e-9);
        let none = ScanCounts { pages: 10, pages_skipped: 10, ..Default::default() };
        assert_eq!(part_passed(&none), 0.0);
    }
}
