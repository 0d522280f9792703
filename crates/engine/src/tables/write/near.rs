//! Inserts into a table that lies in order of a column: each row goes to the page among whose values its own belongs.
//!
//! ```text
//!   rows ─► value of the first column of `cluster_by` ─► minima of pages (`bounds.rs`) ─► page: its rows and the new ones
//!                                                                                        │ full ─► in order, in two pages or more
//!                                                                                        └ NULL, or no page ─► behind all others
//! ```
//!
//! Rows of a page are put in order only when it is split, so that an insert moves no row of it as long as there is room. A page that only grows at
//! its end is filled, as where days come one after the other. A table without a primary key is left alone: transactions find its rows by their
//! pages, so that each insert would be in the way of the updates of a page.

use std::collections::BTreeMap;

use lode_base::Lpid;
use lode_page::{Column, DataType, ops};
use lode_program::key_of;

use super::cutter::{Cutter, Shape, concat};
use crate::tables::definition::Layout;
use crate::tables::own::Edits;
use crate::tables::table::Table;
use crate::trees::Snapshot;
use crate::{EngineError, HostWork};

/// Inserts of more rows than this go behind all others, as they come: they would write most pages anew.
const ROWS_MAX: usize = 1024;

/// Rows to be inserted, by where they go.
pub(super) struct Near {
    /// Pages, and the rows that go to each.
    pub(super) pages: BTreeMap<Lpid, Vec<Column>>,
    /// The rows that go behind all others.
    pub(super) others: Option<Vec<Column>>,
}

impl Near {
    /// Where the rows of `inserts` go; `None` if all go behind the others. Pages that are deleted unread take none.
    pub(super) fn of(
        snapshot: &Snapshot,
        t: &Table,
        inserts: &Cutter,
        edits: &Edits,
    ) -> Result<Option<Self>, EngineError> {
        let options = &t.def().options;
        let Some(&column) = options.cluster_by.first() else { return Ok(None) };
        let is_small = inserts.rows() <= ROWS_MAX;
        if t.has_delta() || t.def().primary_key.is_empty() || options.layout != Layout::Row || !is_small {
            return Ok(None);
        }
        let Some(bounds) = snapshot.bounds(t, &[column])? else { return Ok(None) };
        snapshot.computes(HostWork::Node, bounds.levels() * inserts.rows() as u64);
        let types = t.types();
        let rows = concat(&types, inserts.parts().collect());
        let (mut pages, mut others) = (BTreeMap::<Lpid, Vec<u32>>::new(), Vec::new());
        let is_there = |lpid: &Lpid| edits.get(lpid).is_none_or(|edit| edit.unread_bytes.is_none());
        for (row, key) in (0..).zip(keys(&rows, column, &types)) {
            match key.and_then(|key| bounds.page_among(key)).filter(is_there) {
                Some(lpid) => pages.entry(lpid).or_default().push(row),
                None => others.push(row),
            }
        }
        let take = |of: &[u32]| rows.iter().map(|c| ops::take(c, of)).collect::<Vec<Column>>();
        let pages = pages.iter().map(|(lpid, of)| (*lpid, take(of))).collect();
        let others = (!others.is_empty()).then(|| take(&others));
        Ok(Some(Self { pages, others }))
    }
}

/// A cutter for the rows of a full page, of which those from `old` on were added: in order of a column, those without a value last.
pub(super) fn split(
    shape: Shape,
    rows: &[Column],
    old: usize,
    column: u16,
    types: &[DataType],
    needed_bytes: usize,
) -> Cutter {
    let keys: Vec<Option<u64>> = keys(rows, column, types).collect();
    let grows_at_its_end = keys[..old].iter().max() <= keys[old..].iter().min();
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|&row| (keys[row as usize].is_none(), keys[row as usize]));
    let rows = rows.iter().map(|c| ops::take(c, &order)).collect();
    if !grows_at_its_end {
        return Cutter::evenly(shape, rows, needed_bytes);
    }
    let mut cutter = Cutter::new(shape);
    cutter.push(rows);
    cutter
}

/// The order keys of the values of a column.
fn keys(rows: &[Column], column: u16, types: &[DataType]) -> impl Iterator<Item = Option<u64>> {
    let (column, data_type) = (&rows[usize::from(column)], types[usize::from(column)]);
    (0..column.rows()).map(move |row| key_of(data_type, &column.value(row)))
}
