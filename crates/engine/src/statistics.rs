//! Statistics of a table, out of the drive's page index: no page is read for them.
//!
//! Rows are exact (the catalog counts them). Minima and maxima are bounds: no value lies outside them, but the entry
//! of a page may reach further than its values.

use lode_page::Value;
use lode_program::value_of;

use crate::EngineError;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// Extents whose entries are read by one command.
const READ_EXTENTS: usize = 16;

/// What is known of a table's values without reading them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableStatistics {
    /// Rows, exactly.
    pub rows: u64,
    /// Mapped pages.
    pub pages: u64,
    /// Bytes of the pages.
    pub bytes: u64,
    /// For each column, bounds of its values that are not NULL; `None` when unknown or when there is no such value.
    pub columns: Vec<Option<(Value, Value)>>,
    /// For each column, whether it has a NULL; `None` when unknown.
    pub has_nulls: Vec<Option<bool>>,
    /// For each column, the least and the greatest order key of its values; `None` when unknown or without values.
    pub(crate) keys: Vec<Option<(u64, u64)>>,
}

pub(crate) fn collect(snapshot: &Snapshot, t: &Table) -> Result<TableStatistics, EngineError> {
    let columns = t.schema().columns.len();
    let mut stats = TableStatistics {
        rows: t.rows(),
        pages: t.pages(),
        bytes: t.bytes(),
        columns: vec![None; columns],
        has_nulls: t.schema().columns.iter().map(|c| (!c.nullable).then_some(false)).collect(),
        keys: vec![None; columns],
    };
    let indexed = t.index_columns();
    let mut keys: Vec<Option<(u64, u64)>> = vec![None; indexed.len()];
    let mut nulls = vec![false; indexed.len()];
    for ranges in t.page_ranges().chunks(READ_EXTENTS) {
        for (_, entry) in snapshot.read_index(ranges.to_vec())? {
            // A page without an entry may hold anything.
            let Some(entry) = entry else { return Ok(stats) };
            for (i, known) in keys.iter_mut().enumerate() {
                nulls[i] |= entry.has_nulls(i);
                if let Some((min, max)) = entry.range(i) {
                    *known = Some(known.map_or((min, max), |(a, b)| (a.min(min), b.max(max))));
                }
            }
        }
    }
    for (i, c) in indexed.into_iter().map(usize::from).enumerate() {
        let data_type = t.schema().columns[c].data_type;
        stats.keys[c] = keys[i];
        stats.has_nulls[c] = Some(nulls[i]);
        stats.columns[c] =
            keys[i].and_then(|(a, b)| Some((value_of(data_type, a)?, value_of(data_type, b)?)));
    }
    Ok(stats)
}
