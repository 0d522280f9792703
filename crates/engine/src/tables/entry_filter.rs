//! Conditions on columns of an index, looked at in its entries before a page is read: index condition pushdown.
//!
//! ```text
//!   size = 15 AND type LIKE '%BRASS', an index on (size, type)
//!     size = 15            ─► range of keys                  the tree reads no other entries
//!     type LIKE '%BRASS'   ─► EntryFilter over these entries ─► pages
//! ```
//!
//! Source: index condition pushdown of MySQL.
//!
//! Invariant: an entry that is left out names no row that passes. An entry whose key was cut, or whose values cannot be read, is kept.

use std::convert::Infallible;

use lode_page::{Column, ColumnBuilder, DataType, Value};
use lode_program::{ColumnSource, Expr, Meter, Passed, Program};

use super::definition::{IndexDef, KeyOrder};
use super::key::take_ordered;
use super::table::Table;

/// Entries that are looked at together.
const ENTRIES: usize = 1024;
/// Entries that are filtered for each page that may be named: filtering more of them costs more than reading the pages.
const ENTRIES_A_PAGE: u64 = 64;
/// So many are filtered for a table of few pages.
const ENTRIES_MIN: u64 = 1024;

/// The conditions of a filter that an index can check but its ranges of keys do not, and the entries that wait for them.
pub(super) struct EntryFilter<'a> {
    program: Program,
    index: &'a IndexDef,
    types: Vec<DataType>,
    /// Further entries that are looked at. Those behind them pass.
    left: u64,
    /// Entries whose values were read.
    entries: Vec<Vec<u8>>,
    values: Vec<ColumnBuilder>,
}

impl<'a> EntryFilter<'a> {
    /// The conditions among `terms`; `None` if there is none. Comparisons and lists of the first `used` columns are left to the ranges of keys,
    /// which answer most of them. `most`: the pages that the entries may name.
    pub(super) fn of(t: &Table, index: &'a IndexDef, terms: &[Expr], used: usize, most: u64) -> Option<Self> {
        let is_known = |columns: &[u16]| columns.iter().all(|c| index.columns.contains(c));
        let is_answered = |term: &Expr| match term {
            Expr::Compare(_, a, b) => match (&**a, &**b) {
                (Expr::Column(c), Expr::Const(..)) | (Expr::Const(..), Expr::Column(c)) => {
                    index.columns[..used].contains(c)
                }
                _ => false,
            },
            Expr::In { value, .. } | Expr::InKeys { value, .. } => {
                matches!(**value, Expr::Column(c) if index.columns[..used].contains(&c))
            }
            _ => false,
        };
        let more = |term: &&Expr| {
            let mut columns = Vec::new();
            term.columns(&mut columns);
            !columns.is_empty() && is_known(&columns) && !is_answered(term)
        };
        let terms: Vec<Expr> = terms.iter().filter(more).cloned().collect();
        if terms.is_empty() {
            return None;
        }
        let program = Program::check(t.schema().clone(), Some(Expr::And(terms)), Vec::new(), false).ok()?;
        let types = index.columns.iter().map(|&c| t.schema().columns[usize::from(c)].data_type).collect();
        let left = ENTRIES_MIN.max(most.saturating_mul(ENTRIES_A_PAGE));
        let mut it = Self { program, index, types, left, entries: Vec::new(), values: Vec::new() };
        it.values = it.builders();
        Some(it)
    }

    fn builders(&self) -> Vec<ColumnBuilder> {
        self.types.iter().map(|t| ColumnBuilder::new(*t)).collect()
    }

    /// Takes an entry. Entries that pass, of this one and earlier ones, go to `keep`.
    pub(super) fn take(&mut self, entry: &[u8], keep: &mut impl FnMut(&[u8])) {
        let Some(left) = self.left.checked_sub(1) else { return keep(entry) };
        self.left = left;
        let orders = (0..self.types.len()).map(|n| self.index.order(n));
        let address_bytes = self.index.entries.address_bytes();
        let Some(values) = values_of(entry, address_bytes, &self.types, orders) else { return keep(entry) };
        for (column, value) in self.values.iter_mut().zip(&values) {
            if column.push(value).is_err() {
                unreachable!("a value of a key is one of its column's type");
            }
        }
        self.entries.push(entry.into());
        if self.entries.len() == ENTRIES {
            self.finish(keep);
        }
    }

    /// Looks at the entries that wait.
    pub(super) fn finish(&mut self, keep: &mut impl FnMut(&[u8])) {
        let builders = self.builders();
        let values = std::mem::replace(&mut self.values, builders);
        let entries = std::mem::take(&mut self.entries);
        let columns: Vec<Column> = values.into_iter().map(ColumnBuilder::finish).collect();
        let mut source = Entries { rows: entries.len(), numbers: &self.index.columns, columns: &columns };
        let passed = Passed::of(&self.program, &mut source, &mut Meter::default());
        // A condition that cannot be evaluated here is left to the rows.
        let passed = passed.unwrap_or_else(|_| Passed::unfiltered(entries.len()));
        for slot in passed.selection().slots(entries.len()) {
            keep(&entries[slot as usize]);
        }
    }
}

/// The values of an entry; `None` if its key was cut.
fn values_of(
    entry: &[u8],
    address_bytes: usize,
    types: &[DataType],
    orders: impl Iterator<Item = KeyOrder>,
) -> Option<Vec<Value>> {
    let mut key = &entry[..entry.len().checked_sub(address_bytes)?];
    let value = |(t, order): (&DataType, KeyOrder)| take_ordered(*t, order, &mut key).filter(|v| v.fits(*t));
    types.iter().zip(orders).map(value).collect()
}

/// The columns of an index, a row an entry.
struct Entries<'a> {
    rows: usize,
    numbers: &'a [u16],
    columns: &'a [Column],
}

impl ColumnSource for Entries<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        let at = self.numbers.iter().position(|n| *n == column);
        Ok(self.columns[at.expect("the conditions are on columns of the index")].clone())
    }
}
