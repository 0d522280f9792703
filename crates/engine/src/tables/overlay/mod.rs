//! What a snapshot makes of main and delta: rows of the main that do not show, and rows of the delta that do.
//!
//! ```text
//!   delta (a commit) ─► parts ┐                         hidden: rows of the main that the delta or the transaction has
//!   own rows ─────────► part  ┴─► Overlay ─► parts, each without the rows that a later one has
//! ```
//!
//! The drive scans the main without the hidden rows. The host runs the same program over the parts.
//!
//! - `rows.rs`: single rows by id; `lookup.rs`: rows by key; `ordered.rs`: rows of a range of keys

mod lookup;
mod ordered;
mod rows;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use lode_base::{Lpid, TableId};
use lode_command::{HiddenRows, PageRange};
use lode_page::{Node, Schema};
use lode_program::RowMask;
use parking_lot::Mutex;

use crate::EngineError;
use crate::tables::delta::{Chunk, Directory, LeafVersion, OwnRows, RowId, delta_range, id_of_key, is_delta};
use crate::tables::planted::{self, Planted};
use crate::tables::table::Table;
use crate::trees::Snapshot;

/// The overlays of a state, by table. A transaction that alters the table sees the state with another schema.
#[derive(Default)]
pub(in crate::tables) struct Overlays(Mutex<BTreeMap<TableId, (Schema, Arc<Overlay>)>>);

/// What lies over the main of a table.
#[derive(Debug, Default)]
pub(in crate::tables) struct Overlay {
    /// Rows that show beside the main, by ascending ids.
    pub(in crate::tables) parts: Vec<Part>,
    /// Rows of the main that do not show.
    pub(in crate::tables) hidden: HiddenRows,
    /// Rows of the parts that show.
    pub(in crate::tables) rows: u64,
}

/// A chunk, and the rows of it that do not show.
#[derive(Clone, Debug)]
pub(in crate::tables) struct Part {
    pub(in crate::tables) chunk: Arc<Chunk>,
    pub(in crate::tables) hidden: Option<Arc<RowMask>>,
}

impl Part {
    /// The page that stands for its rows. All of its ids are of one page.
    pub(in crate::tables) fn lpid(&self, t: TableId) -> Lpid {
        self.chunk.page(t)
    }

    /// Whether its page is one of these.
    pub(in crate::tables) fn is_within(&self, t: TableId, ranges: &[PageRange]) -> bool {
        let lpid = self.lpid(t);
        let holds =
            |r: &PageRange| r.extent == lpid.extent() && (r.first..r.first + r.count).contains(&lpid.page());
        ranges.iter().any(holds)
    }

    /// Rows that show.
    pub(in crate::tables) fn rows(&self) -> u64 {
        (self.chunk.ids.len() - self.hidden.as_ref().map_or(0, |h| h.count())) as u64
    }

    /// The numbers of the rows that show.
    pub(in crate::tables) fn shown(&self) -> impl Iterator<Item = u32> + '_ {
        let shows = |i: &usize| self.hidden.as_ref().is_none_or(|h| !h.contains(*i));
        (0..self.chunk.ids.len()).filter(shows).map(|i| i as u32)
    }
}

impl Overlay {
    /// The overlay of a table at a snapshot, without what the reading transaction changed.
    fn of_delta(snapshot: &Snapshot, t: &Table) -> Result<Self, EngineError> {
        let Some(tree) = snapshot.rows_tree(t) else { return Ok(Self::default()) };
        let directory = snapshot.directory(t)?;
        let rule = t.index_rule()?;
        let of = t.rows_of(&rule);
        let kept = &t.delta().expect("the table has a delta").leaves;
        let storage = snapshot.view().storage();
        let mut leaves: Vec<(LeafVersion, Arc<Chunk>)> = Vec::new();
        let (low, high) = delta_range();
        snapshot.each_leaf(&tree, Bound::Included(&low), Bound::Excluded(&high), |leaf, entries| {
            if entries.is_empty() {
                return Ok(());
            }
            let version = (leaf.lpid(), snapshot.newest_in(leaf, entries.clone())?.raw());
            let page_of = |at: usize| id_of_entry(leaf, at).map(|id| id.place(t.id()).0);
            if page_of(entries.start) == page_of(entries.end - 1) {
                let make = || Chunk::of_leaf(snapshot, &of, leaf, entries);
                let chunk = kept.leaf(storage, version, &of, make)?;
                planted::unless(Planted::LeafLeftOut, || leaves.push((version, chunk)));
                return Ok(());
            }
            // A leaf at the border of two pages of the delta: a chunk for each.
            let mut from = entries.start;
            for at in entries.start + 1..=entries.end {
                if at == entries.end || page_of(at) != page_of(from) {
                    leaves.push((version, Arc::new(Chunk::of_leaf(snapshot, &of, leaf, from..at)?)));
                    from = at;
                }
            }
            Ok(())
        })?;
        let groups = kept.grouped(storage, &of, leaves)?;
        let places = groups.iter().map(|c| c.places(&directory));
        let places = places.flat_map(|p| p.to_vec()).collect();
        let hidden = planted::instead(Planted::HiddenForgotten, || hidden(places), HiddenRows::default);
        let parts: Vec<Part> = groups.into_iter().map(|chunk| Part { chunk, hidden: None }).collect();
        let rows = parts.iter().map(Part::rows).sum();
        Ok(Self { parts, hidden, rows })
    }

    /// The overlay with the rows that a transaction changed on top.
    pub(in crate::tables) fn with_own(
        &self,
        t: &Table,
        directory: &Directory,
        own: &OwnRows,
    ) -> Result<Self, EngineError> {
        let own = own.merged();
        let mut parts = Vec::with_capacity(self.parts.len() + 1);
        for p in &self.parts {
            let covered = p.chunk.ids.iter().enumerate().filter(|(_, id)| own.contains_key(id));
            let covered: Vec<usize> = covered.map(|(i, _)| i).collect();
            let covers = !covered.is_empty() && !planted::is(Planted::OwnNotOnTop);
            let hidden =
                covers.then(|| Arc::new(RowMask::of_rows(covered.iter().copied(), p.chunk.ids.len())));
            parts.push(Part { chunk: p.chunk.clone(), hidden });
        }
        let rows = own.iter().map(|(&id, change)| (id, change.after.as_deref()));
        let chunk = Arc::new(Chunk::of_rows(&t.rows_of(&t.index_rule()?), rows)?);
        let mut places: Vec<(Lpid, u32)> =
            self.hidden.iter().flat_map(|(lpid, slots)| slots.iter().map(move |s| (lpid, *s))).collect();
        planted::unless(Planted::OwnMainShown, || {
            places.extend(own.keys().filter_map(|id| directory.place(*id)));
        });
        if !own.is_empty() {
            parts.push(Part { chunk, hidden: None });
        }
        let rows = parts.iter().map(Part::rows).sum();
        Ok(Self { parts, hidden: hidden(places), rows })
    }

    /// Rows of the table, whose main has so many.
    pub(in crate::tables) fn rows_with(&self, main_rows: u64) -> u64 {
        let hidden = self.hidden.rows() as u64;
        main_rows - planted::instead(Planted::CountOff, || hidden, || hidden.saturating_sub(1)) + self.rows
    }

    /// Bytes of memory of the parts.
    pub(in crate::tables) fn bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.chunk.bytes as u64).sum()
    }

    /// Whether the main is all there is.
    pub(in crate::tables) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// The row of an entry of a leaf.
fn id_of_entry(leaf: &Node, at: usize) -> Option<RowId> {
    let mut key = Vec::new();
    leaf.read_key(at, &mut key);
    id_of_key(&key)
}

fn hidden(mut places: Vec<(Lpid, u32)>) -> HiddenRows {
    places.sort_unstable();
    places.dedup();
    let mut hidden = HiddenRows::default();
    for page in places.chunk_by(|a, b| a.0 == b.0) {
        hidden.push(page[0].0, page.iter().map(|p| p.1));
    }
    hidden
}

pub use ordered::{Few, RangeEnd, RowOrder, RowRange, RowsInOrder};
pub(super) use rows::values as values_of_image;

impl Snapshot {
    /// What lies over the main of a table; `None` if the table has no delta.
    pub(in crate::tables) fn overlay(&self, t: &Table) -> Result<Option<Arc<Overlay>>, EngineError> {
        if t.delta().is_none() {
            return Ok(None);
        }
        if let Some(own) = self.own_rows(t) {
            if let Some(known) = own.overlay.get() {
                return Ok(Some(known.clone()));
            }
            let base = self.overlay_of_delta(t)?;
            let made = Arc::new(base.with_own(t, &*self.directory(t)?, &own.rows)?);
            return Ok(Some(own.overlay.get_or_init(|| made).clone()));
        }
        self.overlay_of_delta(t).map(Some)
    }

    fn overlay_of_delta(&self, t: &Table) -> Result<Arc<Overlay>, EngineError> {
        let known: &Overlays = self.known_above();
        if let Some((_, overlay)) = known.0.lock().get(&t.id()).filter(|(of, _)| of == t.schema()) {
            return Ok(overlay.clone());
        }
        let made = Arc::new(Overlay::of_delta(self, t)?);
        known.0.lock().insert(t.id(), (t.schema().clone(), made.clone()));
        Ok(made)
    }

    /// Rows of a table.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn rows(&self, t: &Table) -> Result<u64, EngineError> {
        Ok(match self.overlay(t)? {
            Some(overlay) => overlay.rows_with(t.rows),
            None => t.rows,
        })
    }

    /// Rows that the delta of a table has, and rows of its pages that the delta hides. An updated row counts as both. Without
    /// a delta both are 0.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn delta_rows(&self, t: &Table) -> Result<(u64, u64), EngineError> {
        let overlay = self.overlay(t)?;
        Ok(overlay.map_or((0, 0), |overlay| (overlay.rows, overlay.hidden.rows() as u64)))
    }

    /// Entries that the delta of a table has, and their bytes with their keys. It walks through all of them, and keeps nothing.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn delta_size(&self, t: &Table) -> Result<(u64, u64), EngineError> {
        let Some(tree) = self.rows_tree(t) else { return Ok((0, 0)) };
        let (low, high) = delta_range();
        let mut cursor = self.range(&tree, Bound::Included(&low), Bound::Excluded(&high))?;
        let (mut rows, mut bytes) = (0, 0);
        while let Some((key, image)) = cursor.next()? {
            rows += 1;
            bytes += (key.len() + image.len()) as u64;
        }
        Ok((rows, bytes))
    }
}

/// The row id of a place of a table: of its main, or of its delta.
pub(in crate::tables) fn id_at(directory: &Directory, lpid: Lpid, slot: u32) -> Option<RowId> {
    match is_delta(lpid.extent()) {
        true => Some(RowId::of_place(lpid, slot)),
        false => directory.id_of(lpid, slot),
    }
}
