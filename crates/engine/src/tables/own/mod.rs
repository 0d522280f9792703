//! What a transaction changed itself, as its reads see it.
//!
//! ```text
//!   page ─┬─ untouched ─► the drive, at the snapshot's view
//!         ├─ loaded ────► the drive, at a view that shows what the transaction wrote
//!         ├─ edited ────► its columns, then the edit ─┐
//!         └─ held ──────► rows in memory, then the edit ┴─► the host evaluates the scan's program
//! ```
//!
//! Held rows have pages too, though the drive does not know them. They are in an extent of their own for each table. These extents
//! are numbered from the end of all extents, so that scans, addresses and counts treat them like all others.
//! Invariant: no task of the drive names a page that is edited or held.

mod edit;
mod slots;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use lode_base::{ExtentId, Lpid, TableId};
use lode_command::PageRange;
use lode_page::Column;

use super::delta::OwnRows;
use super::overlay::Overlay;
use super::table::Table;
use crate::storage::view::View;
use crate::trees::Snapshot;
use crate::{Map, Set};

pub(super) use edit::{Edits, FreedSlots, PageEdit, Update, check_addresses, delete, update};
pub(super) use slots::SlotSet;
pub(super) use values::{Leaving, RowsOfPage, ValueStore};

/// Extents from this number on are not the drive's: one for each table that there can be.
const HELD_FIRST: u64 = (1 << 38) - (1 << 32);

/// The extent of the rows of a table that a transaction holds in memory.
pub(super) fn held_extent(t: TableId) -> ExtentId {
    ExtentId::new(HELD_FIRST + u64::from(t.raw())).expect("tables have numbers of 32 bits")
}

/// Whether an extent is one of rows in memory.
pub(super) fn is_held(e: ExtentId) -> bool {
    e.raw() >= HELD_FIRST
}

/// The columns of a page of held rows.
pub(super) type HeldPage = Arc<Vec<Column>>;

/// The rows that the reading transaction changed, and what they make of the table.
#[derive(Debug, Default)]
pub(in crate::tables) struct ShownRows {
    pub(in crate::tables) rows: OwnRows,
    pub(in crate::tables) overlay: OnceLock<Arc<Overlay>>,
}

/// A transaction's own changes.
pub(super) struct OwnChanges {
    /// The state at its begin.
    base: Snapshot,
    changed: BTreeSet<TableId>,
    edits: Edits,
    held: Map<Lpid, HeldPage>,
    /// Extents that it loaded.
    loaded: Set<ExtentId>,
    /// The view that shows them.
    loaded_view: Option<Arc<View>>,
    /// Rows of tables with a delta.
    rows: BTreeMap<TableId, ShownRows>,
}

/// Pages of a scan, by who reads them.
#[derive(Default)]
pub(super) struct ScanParts {
    pub(super) drive: Vec<PageRange>,
    pub(super) loaded: Vec<PageRange>,
    pub(super) host: Vec<Lpid>,
}

impl OwnChanges {
    /// No changes yet to what a snapshot shows.
    pub(super) fn new(base: Snapshot) -> Self {
        Self {
            base,
            changed: BTreeSet::new(),
            edits: Edits::new(),
            held: Map::default(),
            loaded: Set::default(),
            loaded_view: None,
            rows: BTreeMap::new(),
        }
    }

    /// Rows of a table with a delta were changed.
    pub(super) fn add_rows(&mut self, t: TableId, rows: &OwnRows) {
        self.rows.insert(t, ShownRows { rows: rows.clone(), overlay: OnceLock::new() });
    }

    /// The rows of a table with a delta that were changed.
    pub(super) fn rows(&self, t: TableId) -> Option<&ShownRows> {
        self.rows.get(&t)
    }

    /// A table's definition, index or rows were changed.
    pub(super) fn change_table(&mut self, t: TableId) {
        self.changed.insert(t);
    }

    /// Rows of a table were changed: these edits, these held pages, and these extents that were loaded.
    pub(super) fn add(
        &mut self,
        edits: &Edits,
        held: impl Iterator<Item = (Lpid, HeldPage)>,
        loaded: impl Iterator<Item = ExtentId>,
    ) {
        self.edits.extend(edits.iter().map(|(&lpid, edit)| (lpid, edit.clone())));
        self.held.extend(held);
        self.loaded.extend(loaded);
    }

    /// Whether it needs a view that shows what was loaded.
    pub(super) fn has_loaded(&self) -> bool {
        !self.loaded.is_empty()
    }

    /// This view shows what was loaded.
    pub(super) fn show_loaded(&mut self, view: Arc<View>) {
        self.loaded_view = Some(view);
    }

    /// The state at the transaction's begin.
    pub(super) fn base(&self) -> &Snapshot {
        &self.base
    }

    /// Whether a table has changes.
    pub(super) fn changes_table(&self, t: TableId) -> bool {
        self.changed.contains(&t)
    }

    /// The view that shows what was loaded.
    pub(super) fn loaded_view(&self) -> Option<&Arc<View>> {
        self.loaded_view.as_ref()
    }

    /// Whether an extent was loaded.
    pub(super) fn is_loaded(&self, e: ExtentId) -> bool {
        self.loaded.contains(&e)
    }

    /// Whether all pages of an extent are the transaction's own.
    pub(super) fn is_own_extent(&self, e: ExtentId) -> bool {
        is_held(e) || self.is_loaded(e)
    }

    /// Whether the drive's version of a page, at the snapshot's view, is not what the transaction sees.
    pub(super) fn covers(&self, lpid: Lpid) -> bool {
        self.is_own_extent(lpid.extent()) || self.edits.contains_key(&lpid)
    }

    /// Whether pages of a table have edits, or were loaded.
    pub(super) fn changes_pages(&self, t: &Table) -> bool {
        let is_edited =
            self.edits.keys().any(|l| !is_held(l.extent()) && t.extent_index(l.extent()).is_some());
        is_edited || t.extents.iter().any(|e| self.is_own_extent(e.id))
    }

    /// The columns of a page of held rows, before its edit.
    pub(super) fn held(&self, lpid: Lpid) -> Option<&HeldPage> {
        self.held.get(&lpid)
    }

    /// What was done to a page.
    pub(super) fn edit(&self, lpid: Lpid) -> Option<&PageEdit> {
        self.edits.get(&lpid).map(|edit| &**edit)
    }

    /// The pages of the held rows of a table.
    pub(super) fn pages_in_memory(&self, t: TableId) -> impl Iterator<Item = Lpid> {
        self.held.keys().copied().filter(move |l| l.extent() == held_extent(t))
    }

    /// Pages of a table with an edit, without those of held rows and those that were deleted unread.
    pub(super) fn edited_pages(&self, t: &Table) -> impl Iterator<Item = Lpid> {
        self.all_edited_pages(t).filter(|l| !is_held(l.extent()))
    }

    /// The same, also those of held rows.
    pub(super) fn all_edited_pages(&self, t: &Table) -> impl Iterator<Item = Lpid> {
        let left = |(lpid, edit): (&Lpid, &Arc<PageEdit>)| edit.unread_bytes.is_none().then_some(*lpid);
        self.edits.iter().filter_map(left).filter(|l| t.extent_index(l.extent()).is_some())
    }

    /// Divides pages by who reads them.
    pub(super) fn split(&self, ranges: Vec<PageRange>) -> ScanParts {
        let mut parts = ScanParts::default();
        for r in ranges {
            let pages = r.first..r.first + r.count;
            if is_held(r.extent) {
                parts.host.extend(pages.map(|p| r.extent.page(p)).filter(|l| self.held.contains_key(l)));
                continue;
            }
            let whole = r.extent.page(r.first)..=r.extent.page(pages.end - 1);
            let to = if self.is_loaded(r.extent) { &mut parts.loaded } else { &mut parts.drive };
            let mut first = pages.start;
            for (&edited, edit) in self.edits.range(whole) {
                // A page of which nothing is left is not read.
                if edit.unread_bytes.is_none() {
                    parts.host.push(edited);
                }
                if edited.page() > first {
                    to.push(PageRange { extent: r.extent, first, count: edited.page() - first });
                }
                first = edited.page() + 1;
            }
            if pages.end > first {
                to.push(PageRange { extent: r.extent, first, count: pages.end - first });
            }
        }
        parts
    }
}
