//! How many different values a column has, from a few pages of its table.
//!
//! ```text
//!   first column of a key of several ─► a page is in its order: values of neighbours that differ
//!   text with dictionaries           ─► the values of three dictionaries, and how many of them only one of them has
//! ```
//!
//! The host reads the column through the buffer pool. Source for text: the "guaranteed-error estimator" of "Towards estimation error
//! guarantees for distinct values" (PODS 2000), with a page for a row, since the rows of a page are often alike.

use std::collections::HashMap;

use datafusion::error::Result;
use lode_command::CommandError;
use lode_engine::EngineError;
use lode_page::{Column, DataType, Value, Values};

use super::estimate::values_a_row;
use super::sample::draw;
use super::{ScanSpec, engine_error};

/// The rows of a page whose values are looked at, which takes long where they are packed.
const NEIGHBOURS_MAX: usize = 1024;
/// The pages whose dictionaries are looked at.
const DICTIONARIES: u64 = 3;

/// How many different values a column of the scan's table of so many rows has; `None` where pages do not say it. On a modelled device, whose host
/// has no page at hand, the drive says it of the first column of a key.
///
/// # Errors
/// When the page cannot be read.
pub(crate) fn distinct_in_table(spec: &ScanSpec, column: u16, rows: f64) -> Result<Option<f64>> {
    let (table, at) = (&spec.table, usize::from(column));
    let key = &table.def().primary_key;
    let is_first = matches!(&key[..], [first, _, ..] if *first == column);
    let is_text = matches!(table.schema().columns[at].data_type, DataType::Text | DataType::Bytea);
    if !(is_first || is_text) {
        return Ok(None);
    }
    if let Some(known) = spec.counts.distinct(table.id(), column) {
        return Ok(known);
    }
    let found = if spec.snapshot.host().is_some() {
        if is_first { values_a_row(spec, column)?.map(|values| values * rows) } else { None }
    } else if is_first {
        pages_of(spec, column, 1)?.first().map(|page| by_neighbours(page) * rows)
    } else {
        by_dictionaries(&pages_of(spec, column, DICTIONARIES)?, table.pages())
    };
    let found = found.map(|values| values.clamp(1.0, rows.max(1.0)));
    spec.counts.keep_distinct(table.id(), column, found);
    Ok(found)
}

/// The column in pages that a seed draws.
fn pages_of(spec: &ScanSpec, column: u16, wanted: u64) -> Result<Vec<Column>> {
    let table = &spec.table;
    let mut pages = Vec::new();
    for page in draw(&spec.snapshot.page_ranges(table), wanted, u64::from(table.id().raw())) {
        match spec.snapshot.read_columns(page.extent.page(page.first), &[column]) {
            Ok(read) => pages.extend(read.columns.into_iter().filter(|c| c.rows() > 0)),
            // An extent may have places without a page.
            Err(EngineError::Drive(CommandError::Unmapped(_))) => {}
            Err(e) => return Err(engine_error(e)),
        }
    }
    Ok(pages)
}

/// Values a row, in rows that are in the order of the values.
fn by_neighbours(page: &Column) -> f64 {
    let rows = page.rows().min(NEIGHBOURS_MAX);
    let (mut changes, mut before) = (0, None);
    for value in (0..rows).map(|row| page.value(row)) {
        changes += usize::from(before.as_ref() != Some(&value));
        before = Some(value);
    }
    changes as f64 / rows as f64
}

/// The values of a table of so many pages, of which these are drawn; `None` if a page has no dictionary, as where most values differ.
fn by_dictionaries(pages: &[Column], table_pages: u64) -> Option<f64> {
    let mut on_pages = HashMap::new();
    for page in pages {
        let Values::Dict { dictionary, .. } = page.values() else { return None };
        for at in 0..dictionary.rows() {
            if let Value::Bytes(value) = dictionary.value(at) {
                *on_pages.entry(value).or_insert(0_u32) += 1;
            }
        }
    }
    let on_one = on_pages.values().filter(|pages| **pages == 1).count() as f64;
    let on_more = on_pages.len() as f64 - on_one;
    let drawn = pages.len() as f64;
    (!on_pages.is_empty()).then(|| on_more + on_one * (table_pages as f64 / drawn).max(1.0).sqrt())
}
