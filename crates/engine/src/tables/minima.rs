//! Pages by their minima: FLIXR-HS.
//!
//! ```text
//!   filter ─► least and greatest value of a column ─► minima in the host ─► pages ─► the drive looks at their entries, maxima among them
//! ```
//!
//! The minima are those of the page index, read once and kept up to date by commits (`bounds.rs`). They take no page of the drive. They begin
//! where a maximum of a page up to there reaches the range, so that in a table in order of the column few pages are named.
//! Source: FLIXR §4.1.

use std::collections::BTreeSet;

use lode_page::Value;
use lode_program::{Expr, key_of};

use super::index::{IndexedPages, ends, listed, terms_of};
use super::table::Table;
use crate::trees::Snapshot;
use crate::{EngineError, HostWork};

impl Snapshot {
    /// The pages of a table that may have rows which pass, by the minima of the first column of the page index that the filter bounds; `None`
    /// if it bounds none.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn pages_by_minima(&self, t: &Table, filter: &Expr) -> Result<Option<IndexedPages>, EngineError> {
        let terms = terms_of(filter);
        let of_column = |c: u16| {
            let data_type = t.schema().columns[usize::from(c)].data_type;
            // Equal floats may differ in their order keys.
            let range = (!data_type.is_float()).then(|| range(terms, c, data_type)).flatten()?;
            Some((c, range))
        };
        let Some((column, range)) = t.index_columns().into_iter().find_map(of_column) else {
            return Ok(None);
        };
        let Some(base) = self.as_begun(t) else { return Ok(None) };
        let Some(bounds) = self.bounds_now(base, &[column])? else { return Ok(None) };
        self.computes(HostWork::Node, bounds.levels());
        let found: BTreeSet<_> = match range {
            Some((low, high)) => bounds.by_minimum(low, high).into_iter().collect(),
            None => BTreeSet::new(),
        };
        self.computes(HostWork::Entry, found.len() as u64);
        let pages = self.with_own_pages(t, found);
        let count = pages.iter().map(|r| u64::from(r.count)).sum();
        let index = format!("minima of {}", t.def().columns[usize::from(column)].name);
        Ok(Some(IndexedPages { index, pages, count }))
    }
}

/// The least and the greatest order key that a column may have in a row that passes; `None` within if no row passes.
fn range(terms: &[Expr], c: u16, data_type: lode_page::DataType) -> Option<Option<(u64, u64)>> {
    let key = |v: &Value| key_of(data_type, v);
    if let Some(values) = listed(terms, c, data_type) {
        let keys: Option<Vec<u64>> = values.iter().map(key).collect();
        let keys = keys?;
        return Some(keys.iter().min().copied().zip(keys.iter().max().copied()));
    }
    match ends(terms, c, data_type, key) {
        (None, None) => None,
        (low, high) => Some(Some((low.unwrap_or(0), high.unwrap_or(u64::MAX)))),
    }
}
