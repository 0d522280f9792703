//! The unions of all parts of an extent, whose entries are kept in an index page for each part.
//!
//! ```text
//!   changes seen: 7 ─► unions of the 32 groups, one after the other ─► union of the extent, kept with 7
//!   asked for later, changes still 7: it stands            a part changed: 8, the union is made anew
//! ```
//!
//! Invariants: changes of an extent are counted once they were made, so a union that was made of a page as it was before never stands
//! after the change was installed. For each of its pages a union has the entry of a version that was the newest at some moment since the
//! asking view opened: whoever excludes pages by it looks up afterwards whether the view shows older ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::ExtentId;
use lode_base::fast::FastMap;
use lode_program::IndexEntry;
use parking_lot::RwLock;

use super::index::{Present, Union};
use super::rules::Rule;

/// Extents share a count of changes with few others.
const COUNTS: usize = 1024;

/// A union, and what it was made of.
struct Kept {
    rule: u64,
    changes: u64,
    entry: Arc<IndexEntry>,
    present: Present,
}

#[derive(Default)]
struct All {
    unions: FastMap<u64, Kept>,
    bytes: usize,
}

/// The unions of extents with parts, within a budget of memory.
pub(super) struct ExtentUnions {
    counts: Box<[AtomicU64]>,
    all: RwLock<All>,
    budget_bytes: usize,
}

impl ExtentUnions {
    pub(super) fn new(budget_bytes: usize) -> Self {
        let counts = (0..COUNTS).map(|_| AtomicU64::new(0)).collect();
        Self { counts, all: RwLock::default(), budget_bytes }
    }

    fn count(&self, extent: ExtentId) -> &AtomicU64 {
        &self.counts[(extent.raw() % COUNTS as u64) as usize]
    }

    /// How often parts of the extent, and of others, have changed.
    pub(super) fn changes(&self, extent: ExtentId) -> u64 {
        self.count(extent).load(Ordering::SeqCst)
    }

    /// A part of the extent has changed.
    pub(super) fn changed(&self, extent: ExtentId) {
        self.count(extent).fetch_add(1, Ordering::SeqCst);
    }

    /// The union of an extent, if it still stands.
    pub(super) fn get(&self, extent: ExtentId, rule: &Rule) -> Option<Union> {
        let all = self.all.read();
        let kept = all.unions.get(&extent.raw())?;
        (kept.rule == rule.number && kept.changes == self.changes(extent)).then(|| Union {
            entry: kept.entry.clone(),
            present: kept.present,
            looked_at: 0,
        })
    }

    /// Keeps a union that was made since so many changes.
    pub(super) fn keep(&self, extent: ExtentId, rule: &Rule, changes: u64, union: &Union) {
        let bytes = |entry: &IndexEntry| entry.encoded_bytes() + size_of::<Kept>();
        let mut all = self.all.write();
        if all.bytes + bytes(&union.entry) > self.budget_bytes {
            *all = All::default();
        }
        let (entry, present) = (union.entry.clone(), union.present);
        all.bytes += bytes(&entry);
        let old = all.unions.insert(extent.raw(), Kept { rule: rule.number, changes, entry, present });
        all.bytes -= old.map_or(0, |old| bytes(&old.entry));
    }
}
