//! What commits do to trees: copies of pages are changed, and each change becomes a redo record.
//!
//! ```text
//!   put, delete ─► path to the leaf ─► copy of the leaf ─► full: split, up to the root      nearly empty: merge
//! ```
//!
//! Nothing here shows before its frames are published; dropped, it leaves nothing but extents that are still unused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lode_base::{ExtentId, Lpid, PageBuf};
use lode_page::node::Split;
use lode_page::{NodeMut, NodeValue};

use super::spaces::{Spaces, TreeExtent};
use crate::planted::{self, Planted};
use crate::trees::frames::{Body, Frame, LpidMap};
use crate::trees::page::allocation::{self, Allocation};
use crate::trees::page::value::Written;
use crate::trees::read::{Step, ValuePage, node_of, page_of};
use crate::trees::redo::{Bodies, Record};
use crate::trees::{Csn, Tree};
use crate::{EngineError, Snapshot};

/// A page that is being changed.
enum Changed {
    Node(NodeMut),
    Value(Csn, PageBuf),
    Allocation(Csn, Allocation),
    Freed(Csn),
}

/// The pages that some commits change, in order.
pub(crate) struct Work<'a> {
    /// The newest state.
    snapshot: &'a Snapshot,
    spaces: &'a mut Spaces,
    csn: Csn,
    changed: LpidMap<Changed>,
    redo: Bodies,
    /// Bitmaps of extents that were begun: they go with the redo, since a crash would forget the extents.
    begun: Vec<Lpid>,
    splits: u64,
    merges: u64,
}

/// What commits came to.
pub(crate) struct Done {
    /// The new version of each page.
    pub(crate) frames: Vec<Arc<Frame>>,
    /// The records of all but values and new bitmaps.
    pub(crate) redo: Bodies,
    /// Frames that must be written with the redo.
    pub(crate) with_redo: Vec<Arc<Frame>>,
    /// Extents that have pages from now on.
    pub(crate) begun: Vec<ExtentId>,
}

/// The way from the root to a leaf: inner nodes, and which child was taken in each.
type Path = Vec<(Lpid, usize)>;

impl<'a> Work<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, spaces: &'a mut Spaces) -> Self {
        let (changed, redo) = (LpidMap::default(), Bodies::default());
        let (begun, splits, merges) = (Vec::new(), 0, 0);
        Self { snapshot, spaces, csn: Csn::default(), changed, redo, begun, splits, merges }
    }

    /// What follows is done by this commit, which is newer than all before.
    pub(crate) fn begin(&mut self, csn: Csn) {
        self.csn = csn;
        self.redo.begin(csn);
    }

    /// Sets the value of a key, of which the snapshot may be known to have a leaf, and a page with a value.
    pub(crate) fn put(
        &mut self,
        tree: &Tree,
        key: &[u8],
        value: &mut Written,
        known: Option<ValuePage>,
    ) -> Result<(), EngineError> {
        let has_page = value.len() >= self.snapshot.shared().options.value_page_bytes_min;
        // What keys a leaf has does not change without the leaf.
        if let Some(ValuePage { leaf, page }) = known
            && has_page
            && !self.changed.contains_key(&leaf)
        {
            self.set_value(page, value);
            return Ok(());
        }
        let (leaf, path, there) = self.descend(tree, key)?;
        let there = there.flatten();
        if has_page {
            let lpid = match there {
                // A new version in the same place: no node changes.
                Some(lpid) => {
                    self.set_value(lpid, value);
                    return Ok(());
                }
                None => self.take(tree)?,
            };
            self.set_value(lpid, value);
            return self.put_in(tree, leaf, path, key, NodeValue::Page(lpid));
        }
        if let Some(lpid) = there {
            self.free(tree, lpid)?;
        }
        self.put_in(tree, leaf, path, key, NodeValue::Inline(value.bytes()))
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<(), EngineError> {
        let (leaf, path, there) = self.descend(tree, key)?;
        let Some(there) = there else { return Ok(()) };
        if let Some(lpid) = there {
            self.free(tree, lpid)?;
        }
        self.node_mut(leaf)?.delete(key);
        self.redo.push(&Record::Delete { lpid: leaf, key });
        self.shrink(tree, leaf, path)
    }

    /// The pages as they are now.
    pub(crate) fn done(self) -> Done {
        let shared = self.snapshot.shared();
        shared.splits.fetch_add(self.splits, Ordering::Relaxed);
        shared.merges.fetch_add(self.merges, Ordering::Relaxed);
        let frames = &shared.frames;
        let begun = self.begun.iter().map(|l| l.extent()).collect();
        let mut done = Done { frames: Vec::new(), redo: self.redo, with_redo: Vec::new(), begun };
        let mut changed: Vec<(Lpid, Changed)> = self.changed.into_iter().collect();
        changed.sort_unstable_by_key(|(l, _)| *l);
        for (lpid, c) in changed {
            let value = matches!(c, Changed::Value(..)) && !planted::is(Planted::ValueNotWithRedo);
            let with_redo = value || self.begun.contains(&lpid);
            let frame = match c {
                Changed::Node(n) => frames.made(lpid, Csn::new(n.csn()), Body::Node(n.finish())),
                Changed::Value(csn, page) => frames.made(lpid, csn, Body::Value(page)),
                Changed::Allocation(csn, a) => frames.made(lpid, csn, Body::Allocation(a.freeze())),
                Changed::Freed(csn) => frames.made(lpid, csn, Body::Freed),
            };
            if with_redo {
                done.with_redo.push(frame.clone());
            }
            done.frames.push(frame);
        }
        done
    }

    /// The leaf that takes a key, the way to it, and whether it has the key: with the page of the value, where that has one.
    fn descend(&self, tree: &Tree, key: &[u8]) -> Result<(Lpid, Path, Option<Option<Lpid>>), EngineError> {
        let (mut lpid, mut path) = (tree.root(), Path::new());
        loop {
            let step = match self.changed.get(&lpid) {
                Some(Changed::Node(n)) if n.level() == 0 => {
                    Step::Leaf(n.find(key).ok().map(|i| page_of(n.value(i))))
                }
                Some(Changed::Node(n)) => Step::Down(n.child_for(key)),
                Some(_) => return Err(not_a_node(lpid)),
                None => self.snapshot.step(lpid, key)?,
            };
            match step {
                Step::Leaf(there) => return Ok((lpid, path, there)),
                Step::Down((i, child)) => {
                    path.push((lpid, i));
                    lpid = child;
                }
            }
        }
    }

    /// A copy of a node, which is changed from now on.
    fn node_mut(&mut self, lpid: Lpid) -> Result<&mut NodeMut, EngineError> {
        if !self.changed.contains_key(&lpid) {
            let frame = self.snapshot.frame(lpid)?;
            self.changed.insert(lpid, Changed::Node(NodeMut::of(node_of(&frame)?)));
        }
        match self.changed.get_mut(&lpid) {
            Some(Changed::Node(n)) => {
                n.set_csn(self.csn.raw());
                Ok(n)
            }
            _ => Err(not_a_node(lpid)),
        }
    }

    /// Looks at a node without changing it.
    fn with_node<T>(&self, lpid: Lpid, look: impl FnOnce(&NodeMut) -> T) -> Result<T, EngineError> {
        match self.changed.get(&lpid) {
            Some(Changed::Node(n)) => Ok(look(n)),
            Some(_) => Err(not_a_node(lpid)),
            None => Ok(look(&NodeMut::of(node_of(&*self.snapshot.frame(lpid)?)?))),
        }
    }

    fn set_value(&mut self, lpid: Lpid, value: &mut Written) {
        self.changed.insert(lpid, Changed::Value(self.csn, value.page(lpid, self.csn)));
    }

    fn put_in(
        &mut self,
        tree: &Tree,
        lpid: Lpid,
        path: Path,
        key: &[u8],
        value: NodeValue<'_>,
    ) -> Result<(), EngineError> {
        let node = self.node_mut(lpid)?;
        node.put(key, value);
        let (used, can_split, at) =
            (node.used_bytes(), node.can_split(), node.find(key).expect("it was put"));
        self.redo.push(&Record::Put { lpid, key, value });
        match used > self.snapshot.shared().options.node_bytes && can_split {
            true => self.split(tree, lpid, path, at),
            false => Ok(()),
        }
    }

    /// Cuts a node in two; the root keeps its page.
    fn split(&mut self, tree: &Tree, lpid: Lpid, mut path: Path, last_put: usize) -> Result<(), EngineError> {
        self.splits += 1;
        let right_lpid = self.take(tree)?;
        let Split { separator, left, right } = self.node_mut(lpid)?.split(right_lpid, last_put);
        let Some((parent, _)) = path.pop() else {
            let left_lpid = self.take(tree)?;
            let mut root = NodeMut::empty(lpid, left.level() + 1, &[], None);
            root.put(&[], NodeValue::Page(left_lpid));
            root.put(&separator, NodeValue::Page(right_lpid));
            match planted::is(Planted::RootSplitHalfLogged) {
                true => self.set_node_quietly(left.moved(left_lpid)),
                false => self.set_node(left.moved(left_lpid)),
            }
            self.set_node(right);
            self.set_node(root);
            return Ok(());
        };
        if !planted::is(Planted::SplitLeftNotLogged) {
            self.redo.push(&Record::Truncate { lpid, separator: &separator });
        }
        self.changed.insert(lpid, Changed::Node(left));
        match planted::is(Planted::SplitRightNotLogged) {
            true => self.set_node_quietly(right),
            false => self.set_node(right),
        }
        self.put_in(tree, parent, path, &separator, NodeValue::Page(right_lpid))
    }

    /// As [`Work::set_node`], but nothing is logged: a planted fault.
    fn set_node_quietly(&mut self, mut node: NodeMut) {
        node.set_csn(self.csn.raw());
        self.changed.insert(node.lpid(), Changed::Node(node));
    }

    /// Makes a page this node, whatever it was.
    fn set_node(&mut self, mut node: NodeMut) {
        node.set_csn(self.csn.raw());
        let lpid = node.lpid();
        let bytes = node.clone().finish_exact();
        self.redo.push(&Record::Image { lpid, bytes: &bytes });
        self.changed.insert(lpid, Changed::Node(node));
    }

    /// Merges a node that has become small with a neighbour, where both fit well into one.
    fn shrink(&mut self, tree: &Tree, lpid: Lpid, mut path: Path) -> Result<(), EngineError> {
        let node_bytes = self.snapshot.shared().options.node_bytes;
        let Some((parent, at)) = path.pop() else { return Ok(()) };
        if self.with_node(lpid, NodeMut::used_bytes)? > node_bytes / 4 {
            return Ok(());
        }
        let siblings = self.with_node(parent, NodeMut::entries)?;
        if siblings > 1 {
            // Where keys go in their order, what is left of those before stands on the left. Of two nodes the right one goes
            // away, since the first child of a node never does.
            let right_ats = [at, at + 1].into_iter().filter(|i| (1..siblings).contains(i));
            let mut merged = None;
            for right_at in right_ats {
                merged = self.merge_at(parent, right_at)?;
                if merged.is_some() {
                    break;
                }
            }
            let Some((merged, right, separator)) = merged else { return Ok(()) };
            self.merges += 1;
            match planted::is(Planted::MergeNotLogged) {
                true => self.set_node_quietly(merged),
                false => self.set_node(merged),
            }
            self.free(tree, right)?;
            self.node_mut(parent)?.delete(&separator);
            self.redo.push(&Record::Delete { lpid: parent, key: &separator });
        }
        if path.is_empty() {
            return self.lower(tree, parent);
        }
        self.shrink(tree, parent, path)
    }

    /// Child `right_at` of a node and the one before it as one, where they fit well; with the page and the separator that go.
    fn merge_at(
        &self,
        parent: Lpid,
        right_at: usize,
    ) -> Result<Option<(NodeMut, Lpid, Vec<u8>)>, EngineError> {
        let node_bytes = self.snapshot.shared().options.node_bytes;
        let (left, right, separator) = self.with_node(parent, |p| {
            let mut key = Vec::new();
            p.read_key(right_at, &mut key);
            (p.child(right_at - 1), p.child(right_at), key)
        })?;
        let right_node = self.with_node(right, NodeMut::clone)?;
        let merged = self.with_node(left, |l| {
            let both = l.used_bytes() + right_node.used_bytes();
            (both <= node_bytes * 3 / 4).then(|| l.merged(&right_node, &separator))
        })?;
        Ok(merged.map(|m| (m, right, separator)))
    }

    /// A root with a single child becomes that child.
    fn lower(&mut self, tree: &Tree, root: Lpid) -> Result<(), EngineError> {
        loop {
            let child = self.with_node(root, |r| (r.level() > 0 && r.entries() == 1).then(|| r.child(0)))?;
            let Some(child) = child else { return Ok(()) };
            let node = self.with_node(child, |c| c.moved(root))?;
            self.set_node(node);
            self.free(tree, child)?;
        }
    }

    /// A page that is free, from now on in use.
    fn take(&mut self, tree: &Tree) -> Result<Lpid, EngineError> {
        loop {
            let space = self.spaces.entry(tree.owner()).or_default();
            let Some(at) = space.candidate() else {
                let id = self.snapshot.store().allocate(tree.owner())?;
                self.snapshot.shared().frames.forget(id, self.snapshot.csn());
                space.extents.push(TreeExtent::new(id, false));
                continue;
            };
            let TreeExtent { id, begun, free_from } = space.extents[at];
            let free = self.first_free(id, begun, free_from)?;
            let extent = &mut self.spaces.get_mut(&tree.owner()).expect("it was there").extents[at];
            let Some(page) = free else {
                extent.free_from = lode_base::EXTENT_PAGES as u16;
                continue;
            };
            extent.free_from = page + 1;
            let lpid = id.page(page);
            self.bitmap(id, begun)?.set(page, true);
            if !planted::is(Planted::TakeNotLogged) {
                self.redo.push(&Record::Take { lpid });
            }
            return Ok(lpid);
        }
    }

    /// A page that nothing names any more.
    fn free(&mut self, tree: &Tree, lpid: Lpid) -> Result<(), EngineError> {
        self.bitmap(lpid.extent(), true)?.set(lpid.page(), false);
        self.spaces.entry(tree.owner()).or_default().freed(lpid.extent(), lpid.page());
        self.changed.insert(lpid, Changed::Freed(self.csn));
        if !planted::is(Planted::FreeNotLogged) {
            self.redo.push(&Record::Free { lpid });
        }
        Ok(())
    }

    /// The first page of an extent from `from` on that is free. Its bitmap does not count as changed by that.
    fn first_free(&self, extent: ExtentId, begun: bool, from: u16) -> Result<Option<u16>, EngineError> {
        let lpid = allocation::page_of(extent);
        match self.changed.get(&lpid) {
            Some(Changed::Allocation(_, bitmap)) => Ok(bitmap.first_free(from)),
            Some(_) => Err(not_a_bitmap(lpid)),
            None if begun => match &self.snapshot.frame(lpid)?.body {
                Body::Allocation(page) => Ok(allocation::first_free(page, from)),
                _ => Err(not_a_bitmap(lpid)),
            },
            None => Ok(Some(from)),
        }
    }

    /// The bitmap of an extent, to be changed. `begun`: the extent had one before this work.
    fn bitmap(&mut self, extent: ExtentId, begun: bool) -> Result<&mut Allocation, EngineError> {
        let lpid = allocation::page_of(extent);
        if !self.changed.contains_key(&lpid) {
            let bitmap = match begun {
                false => {
                    self.begun.push(lpid);
                    Allocation::empty(extent)
                }
                true => match &self.snapshot.frame(lpid)?.body {
                    Body::Allocation(page) => Allocation::of(page),
                    _ => return Err(not_a_bitmap(lpid)),
                },
            };
            self.changed.insert(lpid, Changed::Allocation(self.csn, bitmap));
        }
        match self.changed.get_mut(&lpid) {
            Some(Changed::Allocation(csn, bitmap)) => {
                *csn = self.csn;
                bitmap.set_csn(self.csn);
                Ok(bitmap)
            }
            _ => Err(not_a_bitmap(lpid)),
        }
    }
}

fn not_a_node(lpid: Lpid) -> EngineError {
    EngineError::BadTreePage { lpid, what: "not a node".into() }
}

fn not_a_bitmap(lpid: Lpid) -> EngineError {
    EngineError::BadTreePage { lpid, what: "not an extent's bitmap".into() }
}
