//! Bounds of pages that the host keeps, carried from versions of tables to the next ones with a commit.
//!
//! Source: FLIXR §4.3, UPDATE_HOST_INDEX.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::{Batch, IndexedPage};

use crate::HostWork;
use crate::tables::bounds::PageBounds;
use crate::tables::catalog::TableCatalog;
use crate::tables::planted_cuts::{self, Planted};
use crate::tables::table::Table;
use crate::trees::Snapshot;

/// Bounds that go from versions of tables to the next ones, with a commit.
#[derive(Default)]
pub(super) struct FollowedBounds(Vec<FollowedTable>);

struct FollowedTable {
    next: Arc<Table>,
    /// Bounds of the table as it was, by key; `None` of those that were asked for once.
    bounds: BTreeMap<Vec<u16>, Option<Arc<PageBounds>>>,
    /// Pages that the batch writes.
    written: BTreeSet<Lpid>,
    /// Pages that it trims or releases.
    gone: Vec<Lpid>,
}

impl FollowedBounds {
    /// The bounds that are known of tables that a batch changes. A table whose new pages were written by other batches has none: they are
    /// read when they are next asked for.
    pub(super) fn of(was: &Snapshot, catalog: &TableCatalog, batch: &Batch) -> Self {
        let follow = |old: &Arc<Table>| {
            let bounds = old.bounds.0.lock().clone();
            let next = catalog.table_of_id(old.id()).filter(|_| !bounds.is_empty())?;
            // Pages without entries may have got them.
            let is_followed =
                next.is_defined_as(old) && !next.lacks_index_entries() && !old.lacks_index_entries();
            if Arc::ptr_eq(old, next) || !is_followed {
                return None;
            }
            let written = batch.writes.iter().map(|w| w.lpid);
            let written: BTreeSet<Lpid> = written.filter(|lpid| next.may_have_page(*lpid)).collect();
            if !next.has_only_new_pages_of(old, |lpid| written.contains(&lpid)) {
                return None;
            }
            let trimmed = batch.trims.iter().copied().filter(|lpid| old.may_have_page(*lpid));
            let released = old.page_ranges().into_iter().filter(|r| next.extent_index(r.extent).is_none());
            let released = released.flat_map(|r| (r.first..r.first + r.count).map(move |p| r.extent.page(p)));
            let gone = trimmed.chain(released).collect();
            Some(FollowedTable { next: next.clone(), bounds, written, gone })
        };
        Self(was.tables().filter_map(follow).collect())
    }

    /// Whether bounds are known that the entries of the batch change.
    pub(super) fn wants_entries(&self) -> bool {
        self.0.iter().flat_map(|t| t.bounds.values()).any(Option::is_some)
    }

    /// Gives the next versions their bounds, by the entries that the drive answered. Bounds that cannot be followed are read when they are
    /// next asked for.
    pub(super) fn finish(self, was: &Snapshot, entries: &[IndexedPage]) {
        for FollowedTable { next, bounds, written, gone } in self.0 {
            let Ok(rule) = next.index_rule() else { continue };
            let of_table = entries.iter().filter(|e| written.contains(&e.lpid));
            let mut answered: BTreeMap<Lpid, &IndexedPage> = of_table.map(|e| (e.lpid, e)).collect();
            let is_answered = answered.len() == written.len() || bounds.values().all(Option::is_none);
            if !is_answered {
                continue;
            }
            planted_cuts::instead(Planted::BoundsNotFollowed, || {}, || answered.clear());
            for (key, bounds) in bounds {
                let Some(bounds) = bounds else {
                    next.bounds.0.lock().insert(key, None);
                    continue;
                };
                was.computes(HostWork::Node, bounds.levels() * answered.len() as u64);
                if let Ok(bounds) = bounds.after(&rule, &key, &gone, &answered) {
                    next.bounds.0.lock().insert(key, Some(Arc::new(bounds)));
                }
            }
        }
    }
}
