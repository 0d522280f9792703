//! Statistics of a table.
//!
//! Rows are exact, since the catalog counts them. Minima and maxima are bounds: no value lies outside them, but the index entry of a
//! page may reach further than its values.

use lode_page::{Schema, Value};
use lode_program::{IndexEntry, IndexRule, value_of};

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
    pub(super) keys: Vec<Option<(u64, u64)>>,
    /// Whether every page had its index entry.
    complete: bool,
}

/// How large a table is.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSize {
    pub(super) rows: u64,
    pub(super) pages: u64,
    pub(super) bytes: u64,
}

impl TableStatistics {
    /// Nothing but the size is known.
    pub(super) fn unknown(schema: &Schema, size: TableSize) -> Self {
        let columns = schema.columns.len();
        Self {
            rows: size.rows,
            pages: size.pages,
            bytes: size.bytes,
            columns: vec![None; columns],
            has_nulls: schema.columns.iter().map(|c| (!c.nullable).then_some(false)).collect(),
            keys: vec![None; columns],
            complete: false,
        }
    }

    /// All is known: there are no rows.
    pub(super) fn none(schema: &Schema, size: TableSize) -> Self {
        Self { complete: true, ..Self::unknown(schema, size) }
    }

    /// These statistics after a change: the table has this size now, lost some pages, and has pages with these index entries, made
    /// by `rule`. They stay bounds. `None` if these are not complete.
    pub(super) fn grown(
        &self,
        schema: &Schema,
        size: TableSize,
        rule: &IndexRule,
        entries: &[IndexEntry],
    ) -> Option<Self> {
        let mut stats = self.clone();
        stats.follow(schema, rule);
        (stats.rows, stats.pages, stats.bytes) = (size.rows, size.pages, size.bytes);
        let known = entries.iter().all(|e| stats.widen(rule, e));
        stats.name_bounds(schema, rule);
        (self.complete && known).then_some(stats)
    }

    /// Lets them be of a table that was altered: of columns that are not indexed, only the definition tells whether there are NULLs.
    fn follow(&mut self, schema: &Schema, rule: &IndexRule) {
        self.columns.resize(schema.columns.len(), None);
        self.keys.resize(schema.columns.len(), None);
        self.has_nulls.resize(schema.columns.len(), None);
        let bounded: Vec<u16> = rule.bounded_columns().collect();
        for (c, column) in schema.columns.iter().enumerate().filter(|(c, _)| !bounded.contains(&(*c as u16)))
        {
            self.has_nulls[c] = (!column.nullable).then_some(false);
        }
    }

    /// Takes a page in; false if its entry says nothing of a column.
    pub(super) fn widen(&mut self, rule: &IndexRule, entry: &IndexEntry) -> bool {
        rule.bounded_columns().all(|column| {
            let Some(bounds) = rule.bounds(entry, column) else { return false };
            let c = usize::from(column);
            self.has_nulls[c] = Some(self.has_nulls[c].unwrap_or(false) || bounds.has_nulls);
            if let Some((min, max)) = bounds.keys {
                self.keys[c] = Some(self.keys[c].map_or((min, max), |(a, b)| (a.min(min), b.max(max))));
            }
            true
        })
    }

    /// Bounds as values, for columns whose keys say which values they are.
    pub(super) fn name_bounds(&mut self, schema: &Schema, rule: &IndexRule) {
        for c in rule.bounded_columns().map(usize::from) {
            let value = |key| value_of(schema.columns[c].data_type, key);
            self.has_nulls[c].get_or_insert(false);
            self.columns[c] = self.keys[c].and_then(|(min, max)| Some((value(min)?, value(max)?)));
        }
    }
}
