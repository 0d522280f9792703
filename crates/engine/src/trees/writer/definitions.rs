//! Trees that are created, adopted after a load, and dropped.

use lode_command::{Align, Batch, PageWrite};
use lode_page::NodeMut;

use super::Writer;
use super::spaces::{Space, TreeExtent};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::storage::store::SentBatch;
use crate::trees::catalog::Catalog;
use crate::trees::page::allocation::{self, Allocation};
use crate::trees::redo::Bodies;
use crate::trees::snapshot::Snapshot;
use crate::trees::tree::{Csn, Tree};

impl Writer {
    /// Creates an empty tree.
    pub(crate) fn create(&mut self, name: &str) -> Result<Tree, EngineError> {
        // The tree's pages are of the newest commit, which must survive a crash if the tree does.
        planted::instead(Planted::CreatedUnsynced, || self.sync(), || Ok(()))?;
        self.check_halted()?;
        let extents = self.storage.extents();
        let id = extents.new_owner();
        let extent = extents.allocate(id.into())?;
        let csn = self.heads.newest().csn();
        self.frames.forget(extent, csn);
        let tree = Tree::new(id, name.into(), extent.page(1));
        let mut bitmap = Allocation::empty(extent);
        bitmap.set(1, true);
        bitmap.set_csn(csn);
        let mut root = NodeMut::empty(tree.root(), 0, &[], None);
        root.set_csn(csn.raw());
        let mut batch = Batch::default();
        for (lpid, data) in
            [(allocation::page_of(extent), bitmap.freeze()), (tree.root(), root.finish_exact())]
        {
            batch.writes.push(PageWrite { lpid, data, align: Align::Cell });
        }
        let space = Space { extents: vec![TreeExtent::new(extent, true)] };
        let adopted = self.adopt(&tree, space, batch);
        if adopted.is_err() && self.halted.is_none() {
            // If this fails too, the extent is an orphan of the next open. The caller is told of the first error.
            let _ = self.send(Batch { releases: vec![extent], ..Batch::default() });
        }
        adopted.map(|()| tree)
    }

    /// Names a new tree. The drive has all its pages once it has this batch.
    pub(crate) fn adopt(&mut self, tree: &Tree, space: Space, mut batch: Batch) -> Result<(), EngineError> {
        self.check_halted()?;
        let snapshot = self.heads.refreshed()?;
        let catalog = snapshot.catalog().with_tree(tree);
        batch.pin = true;
        self.send_catalog(&snapshot, catalog, batch)?;
        self.spaces.insert(tree.owner(), space);
        Ok(())
    }

    /// Drops a tree and all its pages.
    pub(crate) fn drop_tree(&mut self, tree: &Tree) -> Result<(), EngineError> {
        // No redo may name pages that another tree gets later. So all redo goes, and a page without records takes its place.
        self.flush()?;
        let snapshot = self.heads.refreshed()?;
        let catalog = snapshot.catalog().without_tree(tree);
        let mut nothing = Bodies::default();
        nothing.begin(snapshot.csn());
        let mut batch = Batch { pin: true, ..Batch::default() };
        let appended = self.redo.append(self.storage.extents(), &nothing, &mut batch)?;
        let passed = self.redo.all();
        planted::unless(Planted::DropLeavesRedo, || batch.trims.extend(&passed.trims));
        let gone = self.spaces.get(&tree.owner()).cloned().unwrap_or_default();
        batch.releases.extend(gone.extents.iter().map(|e| e.id));
        // Before anybody can get one of the extents: a load may ask for some at any time.
        self.frames.drop_tree(tree.id(), gone.extents.iter().map(|e| e.id));
        self.send_catalog(&snapshot, catalog, batch)?;
        self.redo.trimmed(&passed);
        self.redo.appended(appended);
        self.spaces.remove(&tree.owner());
        // The frames stay for the snapshots that see them, until an extent is handed out again.
        let forget = || gone.extents.iter().for_each(|e| self.frames.forget(e.id, Csn::default()));
        planted::instead(Planted::DroppedForgotten, || (), forget);
        Ok(())
    }

    /// Sends a batch that makes this the drive's catalog, and shows the state.
    fn send_catalog(
        &mut self,
        snapshot: &Snapshot,
        catalog: Catalog,
        mut batch: Batch,
    ) -> Result<(), EngineError> {
        let page_bytes_max = self.storage.store().identity().page_bytes_max as usize;
        let root = catalog.root_page(snapshot.catalog(), page_bytes_max)?;
        let changed = root.iter().map(|w| w.lpid).collect();
        batch.writes.extend(root);
        let SentBatch { commit, view, .. } = self.send(batch)?;
        self.heads.show(self.heads.state_of(commit, view, None, catalog, changed));
        self.heads.forget_changes();
        Ok(())
    }
}
