//! Snapshots: the database at one commit. A snapshot is data; what reads at it lies where it reads.
//!
//! ```text
//!   Snapshot ─► Seen ─► View (pinned in the drive; it closes when the last clone drops)
//!            │       ├► the newest commit to trees that shows
//!            │       └► Upper (inner nodes that it has met)
//!            └► Catalog (trees, and what lies above them)
//! ```

use std::any::Any;
use std::sync::{Arc, OnceLock};

use lode_base::{CommitNo, ViewId};

use super::catalog::Catalog;
use super::frames::{Frames, Sight};
use super::tree::{Csn, Tree};
use super::upper::Upper;
use crate::storage::Storage;
use crate::storage::view::View;
use crate::{EngineError, HostClock, HostWork};

/// The database at one commit: a pinned view of the drive, and the catalog that goes with it. Clones share both. The view closes
/// when the last of them drops.
#[derive(Clone)]
pub struct Snapshot {
    seen: Arc<Seen>,
    catalog: Arc<Catalog>,
}

/// What a snapshot sees of the drive and of the frames. Both keep it for as long as this lives.
struct Seen {
    frames: Arc<Frames>,
    view: Arc<View>,
    csn: Csn,
    upper: Upper,
    /// What the part above trees found out about this state.
    known_above: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Seen {
    fn new(frames: Arc<Frames>, view: Arc<View>, csn: Csn) -> Self {
        frames.enter(Sight { csn, view: view.commit() });
        Self { frames, view, csn, upper: Upper::default(), known_above: OnceLock::new() }
    }

    #[inline]
    fn sight(&self) -> Sight {
        Sight { csn: self.csn, view: self.view.commit() }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.frames.leave(self.sight());
    }
}

impl Snapshot {
    pub(super) fn new(frames: Arc<Frames>, view: View, csn: Csn, catalog: Catalog) -> Self {
        Self { seen: Arc::new(Seen::new(frames, Arc::new(view), csn)), catalog: Arc::new(catalog) }
    }

    /// The same state with another catalog.
    pub(crate) fn with_catalog(&self, catalog: Catalog) -> Self {
        Self { seen: self.seen.clone(), catalog: Arc::new(catalog) }
    }

    /// The same state behind another view.
    pub(super) fn with_view(&self, view: View) -> Self {
        self.seen(Arc::new(view), self.seen.csn)
    }

    /// The state after commits to trees. Without a view, it is behind the view of this snapshot.
    pub(super) fn with_commits(&self, csn: Csn, view: Option<View>) -> Self {
        self.seen(view.map_or_else(|| self.seen.view.clone(), Arc::new), csn)
    }

    fn seen(&self, view: Arc<View>, csn: Csn) -> Self {
        let seen = Seen::new(self.seen.frames.clone(), view, csn);
        Self { seen: Arc::new(seen), catalog: self.catalog.clone() }
    }

    /// The newest commit to trees that is shown.
    pub fn csn(&self) -> Csn {
        self.seen.csn
    }

    /// The commit of the drive that is shown.
    pub fn commit(&self) -> CommitNo {
        self.seen.view.commit()
    }

    /// The tree of this name.
    pub fn tree(&self, name: &str) -> Option<Tree> {
        self.catalog.tree(name).cloned()
    }

    /// The trees, by name.
    pub fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.catalog.trees()
    }

    /// Whether a tree that this snapshot knows was dropped since. What was read of the tree before this says no is right.
    pub(crate) fn is_dropped(&self, tree: &Tree) -> bool {
        self.seen.frames.is_dropped(tree.id())
    }

    /// Checks that the catalog has this tree.
    pub(super) fn check_tree(&self, tree: &Tree) -> Result<(), EngineError> {
        match self.catalog.has_tree(tree) {
            true => Ok(()),
            false => Err(EngineError::NoSuchTree(tree.name().into())),
        }
    }

    /// The host of a modelled device, if it is one.
    pub fn host(&self) -> Option<&Arc<HostClock>> {
        self.storage().store().host()
    }

    /// The host of a modelled device does this work so many times.
    #[inline]
    pub(crate) fn computes(&self, work: HostWork, times: u64) {
        if let Some(host) = self.host() {
            host.computes(work, times);
        }
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    #[inline]
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.seen.view
    }

    pub(crate) fn view_id(&self) -> ViewId {
        self.seen.view.id()
    }

    #[inline]
    pub(crate) fn storage(&self) -> &Storage {
        self.seen.view.storage()
    }

    #[inline]
    pub(super) fn frames(&self) -> &Frames {
        &self.seen.frames
    }

    #[inline]
    pub(super) fn sight(&self) -> Sight {
        self.seen.sight()
    }

    /// What the part above trees found out about this state. All snapshots of the state share it.
    ///
    /// # Panics
    /// When it is of another type.
    pub(crate) fn known_above<T: Any + Send + Sync + Default>(&self) -> &T {
        let known = self.seen.known_above.get_or_init(|| Box::new(T::default()));
        known.downcast_ref().expect("one part of the engine lies above trees")
    }

    /// Inner nodes that it has met.
    #[inline]
    pub(super) fn upper(&self) -> &Upper {
        &self.seen.upper
    }
}
