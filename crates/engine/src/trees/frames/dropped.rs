//! Trees that were dropped, and their extents when the drive hands them out again.
//!
//! A snapshot may still know a dropped tree. The drive hands out the tree's extents only once it has closed the view of such a
//! snapshot. The snapshot sees none of the frames that come there, and is told that it is too old.

use std::collections::{BTreeMap, BTreeSet};

use lode_base::{ExtentId, TableId};
use parking_lot::{Mutex, RwLock};

use super::open::{OpenSights, Sight};

#[derive(Default)]
pub(super) struct DroppedTrees {
    trees: Mutex<BTreeSet<TableId>>,
    /// Their extents, as far as they were not handed out again.
    extents: Mutex<BTreeSet<ExtentId>>,
    /// Extents that were handed out again, and the most that anybody saw then. An entry stays while a snapshot is open that
    /// sees no more.
    handed_out: RwLock<BTreeMap<ExtentId, Sight>>,
}

impl DroppedTrees {
    /// A tree with these extents is dropped.
    pub(super) fn add(&self, tree: TableId, extents: impl Iterator<Item = ExtentId>) {
        self.trees.lock().insert(tree);
        self.extents.lock().extend(extents);
    }

    /// Whether a tree was dropped.
    pub(super) fn contains(&self, tree: TableId) -> bool {
        self.trees.lock().contains(&tree)
    }

    /// An extent is handed out, at a time when nobody sees more than `most`.
    pub(super) fn hand_out(&self, extent: ExtentId, most: Sight, open: &mut OpenSights<'_>) {
        let mut handed_out = self.handed_out.write();
        let open = open.now();
        handed_out.retain(|_, begun| open.iter().any(|s| s.is_before(*begun)));
        if self.extents.lock().remove(&extent) {
            handed_out.insert(extent, most);
        }
    }

    /// The most that anybody saw when this extent was handed out again, if a snapshot that sees no more may still be open.
    pub(super) fn handed_out_at(&self, extent: ExtentId) -> Option<Box<Sight>> {
        self.handed_out.read().get(&extent).copied().map(Box::new)
    }
}
