//! Statistics of a table, out of the drive's page index: no page is read for them.
//!
//! Rows are exact (the catalog counts them). Minima and maxima are bounds: no value lies outside them, but the entry
//! of a page may reach further than its values.

use lode_page::Value;
use lode_program::{IndexEntry, IndexRule, value_of};

use crate::EngineError;
use crate::tables::table::Table;
use crate::trees::snapshot::Snapshot;

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
    /// Whether every page had its index entry.
    complete: bool,
}

/// The statistics of a table, out of the index entries of its pages.
pub(crate) fn collect(snapshot: &Snapshot, t: &Table) -> Result<TableStatistics, EngineError> {
    let unknown = TableStatistics::unknown(t);
    let mut stats = unknown.clone();
    let rule = t.index_rule()?;
    for ranges in t.page_ranges().chunks(READ_EXTENTS) {
        for (_, entry) in snapshot.read_index(ranges.to_vec())? {
            // A page without an entry may hold anything.
            let Some(entry) = entry else { return Ok(unknown) };
            rule.check(&entry)?;
            if !stats.widen(&rule, &entry) {
                return Ok(unknown);
            }
        }
    }
    stats.complete = true;
    stats.name_bounds(t, rule.columns());
    Ok(stats)
}

impl TableStatistics {
    /// Nothing but counts is known.
    pub(crate) fn unknown(t: &Table) -> Self {
        let columns = t.schema().columns.len();
        Self {
            rows: t.rows(),
            pages: t.pages(),
            bytes: t.bytes(),
            columns: vec![None; columns],
            has_nulls: t.schema().columns.iter().map(|c| (!c.nullable).then_some(false)).collect(),
            keys: vec![None; columns],
            complete: false,
        }
    }

    /// All is known: there are no rows.
    pub(crate) fn none(t: &Table) -> Self {
        Self { complete: true, ..Self::unknown(t) }
    }

    /// The statistics of the table `t`, whose pages are those that these are of, without some, and with pages that
    /// have these entries, made by `rule`. They stay bounds; `None` when these are not complete.
    pub(crate) fn grown(&self, t: &Table, rule: &IndexRule, entries: &[IndexEntry]) -> Option<Self> {
        let mut stats = self.clone();
        (stats.rows, stats.pages, stats.bytes) = (t.rows(), t.pages(), t.bytes());
        let known = entries.iter().all(|e| stats.widen(rule, e));
        stats.name_bounds(t, rule.columns());
        (self.complete && known).then_some(stats)
    }

    /// Takes a page in; false when its entry says nothing of a column.
    fn widen(&mut self, rule: &IndexRule, entry: &IndexEntry) -> bool {
        rule.columns().iter().all(|&column| {
            let Some(bounds) = rule.bounds(entry, column) else { return false };
            let c = usize::from(column);
            self.has_nulls[c] = Some(self.has_nulls[c].unwrap_or(false) || bounds.has_nulls);
            if let Some((min, max)) = bounds.keys {
                self.keys[c] = Some(self.keys[c].map_or((min, max), |(a, b)| (a.min(min), b.max(max))));
            }
            true
        })
    }

    /// Bounds as values, where keys say which they are.
    fn name_bounds(&mut self, t: &Table, indexed: &[u16]) {
        for c in indexed.iter().map(|&c| usize::from(c)) {
            let value = |key| value_of(t.schema().columns[c].data_type, key);
            self.has_nulls[c].get_or_insert(false);
            self.columns[c] = self.keys[c].and_then(|(min, max)| Some((value(min)?, value(max)?)));
        }
    }
}
