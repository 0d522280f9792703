//! Statistics of a table, out of the drive's page index: no page is read for them.
//!
//! Rows are exact (the catalog counts them). Minima and maxima are bounds: no value lies outside them, but the entry
//! of a page may reach further than its values.

use lode_base::Lpid;
use lode_page::Value;
use lode_program::{IndexEntry, IndexRule, value_of};

use crate::EngineError;
use crate::table::Table;

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
}
