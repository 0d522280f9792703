//! How many different values a column has, from one page of its table.
//!
//! ```text
//!   first column of a key of several ─► the page is in its order: values of neighbours that differ
//!   text with a dictionary           ─► the dictionary, and how many of its values the page has only once
//! ```
//!
//! The host reads the column through the buffer pool. Source for text: the "guaranteed-error estimator" of "Towards estimation error
//! guarantees for distinct values" (PODS 2000).

use datafusion::error::Result;
use lode_command::CommandError;
use lode_engine::EngineError;
use lode_page::{Column, DataType, Values};

use super::estimate::values_a_row;
use super::sample::draw;
use super::{ScanSpec, engine_error};

/// The rows of a page whose values are looked at, which takes long where they are packed.
const NEIGHBOURS_MAX: usize = 1024;
/// The rows of a page whose codes are counted.
const CODES_MAX: usize = 4096;

/// How many different values a column of the scan's table has; `None` where one page does not say it. On a modelled device, whose host
/// has no page at hand, the drive says it of the first column of a key.
///
/// # Errors
/// When the page cannot be read.
pub(crate) fn distinct_in_table(spec: &ScanSpec, column: u16) -> Result<Option<f64>> {
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
    let rows = table.rows() as f64;
    let found = if spec.snapshot.host().is_some() {
        values_a_row(spec, column)?.map(|values| values * rows)
    } else {
        match page_of(spec, column)? {
            Some(page) if is_first => Some(by_neighbours(&page) * rows),
            Some(page) => by_dictionary(&page, rows),
            None => None,
        }
    };
    spec.counts.keep_distinct(table.id(), column, found);
    Ok(found)
}

/// The column in a page that a seed draws.
fn page_of(spec: &ScanSpec, column: u16) -> Result<Option<Column>> {
    let table = &spec.table;
    let drawn = draw(&spec.snapshot.page_ranges(table), 1, u64::from(table.id().raw()));
    let Some(page) = drawn.first() else { return Ok(None) };
    match spec.snapshot.read_columns(page.extent.page(page.first), &[column]) {
        Ok(mut read) => Ok(read.columns.pop().filter(|c| c.rows() > 0)),
        // An extent may have places without a page.
        Err(EngineError::Drive(CommandError::Unmapped(_))) => Ok(None),
        Err(e) => Err(engine_error(e)),
    }
}

/// Values a row, in rows that are in the order of the values.
fn by_neighbours(page: &Column) -> f64 {
    let rows = page.rows().min(NEIGHBOURS_MAX);
    let values = (0..rows).map(|row| page.value(row));
    let (mut changes, mut before) = (0, None);
    for value in values {
        changes += usize::from(before.as_ref() != Some(&value));
        before = Some(value);
    }
    changes as f64 / rows as f64
}

/// The values of a table of so many rows; `None` if the page has no dictionary, as where most values differ.
fn by_dictionary(page: &Column, rows: f64) -> Option<f64> {
    let Values::Dict { code_width, codes, dictionary } = page.values() else { return None };
    let mut found = vec![0_u32; dictionary.rows()];
    let looked_at = page.rows().min(CODES_MAX);
    for row in (0..looked_at).filter(|&row| !page.is_null(row)) {
        let code = match code_width {
            1 => usize::from(codes[row]),
            _ => usize::from(u16::from_le_bytes([codes[2 * row], codes[2 * row + 1]])),
        };
        found[code] += 1;
    }
    let once = found.iter().filter(|n| **n == 1).count() as f64;
    let often = found.iter().filter(|n| **n > 1).count() as f64;
    let values = often + once * (rows / looked_at as f64).max(1.0).sqrt();
    Some(values.max(found.len() as f64).clamp(1.0, rows))
}
