//! What commits do to trees: copies of pages are changed, and each change becomes a redo record.
//!
//! ```text
//!   put, delete ─► path to the leaf ─► copy of the leaf ─► full: split, up to the root      nearly empty: merge
//! ```
//!
//! Nothing of it shows before its frames are published. If it is dropped instead, it leaves nothing but extents without pages.

use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, PageBuf};
use lode_page::node::Split;
use lode_page::{NodeMut, NodeValue};

use super::spaces::{Spaces, TreeExtent};
use crate::planted::{self, Planted};
use crate::trees::frames::{Frame, LpidMap};
use crate::trees::options::TreeOptions;
use crate::trees::page::allocation::{self, Allocation};
use crate::trees::page::body::{Body, not_a_bitmap, not_a_node, page_of};
use crate::trees::page::value::{self, Written};
use crate::trees::read::{Step, ValuePage};
use crate::trees::redo::{Bodies, Record};
use crate::trees::snapshot::Snapshot;
use crate::trees::tree::{Csn, Tree};
use crate::{EngineError, HostWork};

/// A page that is being changed.
enum Changed {
    Node(NodeMut),
    Value(Csn, PageBuf),
    Allocation(Csn, Allocation),
    Freed(Csn),
}

/// The pages that some commits change, in order.
pub(super) struct Work<'a> {
    /// The newest state.
    snapshot: &'a Snapshot,
    options: &'a TreeOptions,
    spaces: &'a mut Spaces,
    /// The first commit, and the one whose writes are being applied.
    first: Option<Csn>,
    csn: Csn,
    changed: LpidMap<Changed>,
    redo: Bodies,
    /// Bitmaps of extents that got their first pages. They go with the redo, since after a crash the drive forgets an extent without
    /// pages.
    begun: Vec<Lpid>,
    splits: u64,
    merges: u64,
}

/// What commits did to pages.
pub(super) struct Done {
    /// The first commit and the last.
    pub(super) first: Csn,
    pub(super) last: Csn,
    /// The new version of each page.
    pub(super) frames: Vec<Arc<Frame>>,
    /// The records of all but values and new bitmaps.
    pub(super) redo: Bodies,
    /// Frames that must be written with the redo.
    pub(super) with_redo: Vec<Arc<Frame>>,
    /// Extents that have pages from now on.
    pub(super) begun: Vec<ExtentId>,
    /// Nodes that were split, and merged.
    pub(super) splits: u64,
    pub(super) merges: u64,
}

/// The way from the root to a leaf: inner nodes, and which child was taken in each.
type Path = Vec<(Lpid, usize)>;

impl<'a> Work<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, options: &'a TreeOptions, spaces: &'a mut Spaces) -> Self {
        let (first, csn, changed, redo) = (None, Csn::default(), LpidMap::default(), Bodies::default());
        let (begun, splits, merges) = (Vec::new(), 0, 0);
        Self { snapshot, options, spaces, first, csn, changed, redo, begun, splits, merges }
    }

    /// The writes that follow are of this commit, which is newer than all before.
    pub(super) fn begin(&mut self, csn: Csn) {
        self.first.get_or_insert(csn);
        self.csn = csn;
        self.redo.begin(csn);
    }

    /// Sets the value of a key. `known`: the page that the snapshot has for its value, if that is known.
    pub(super) fn put(
        &mut self,
        tree: &Tree,
        key: &[u8],
        value: &mut Written,
        known: Option<ValuePage>,
    ) -> Result<(), EngineError> {
        let has_page = value.len() >= self.options.value_page_bytes_min;
        // A leaf that is not changed has the same keys as in the snapshot.
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

    /// The value of a key, as the commits so far leave it.
    pub(super) fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let (leaf, _, there) = self.descend(tree, key)?;
        if there.is_none() {
            return Ok(None);
        }
        let found = |node: &NodeMut| match node.find(key).map(|i| node.value(i)) {
            Ok(NodeValue::Inline(value)) => Ok(value.to_vec()),
            Ok(NodeValue::Page(lpid)) => Err(lpid),
            Err(_) => unreachable!("the leaf has the key"),
        };
        match self.with_node(leaf, found)? {
            Ok(value) => Ok(Some(value)),
            Err(lpid) => Ok(Some(match self.changed.get(&lpid) {
                Some(Changed::Value(_, page)) => page[value::range(page)].to_vec(),
                Some(_) => return Err(not_a_node(lpid)),
                None => value::value(self.snapshot.frame(lpid)?.body().value_page(lpid)?).to_vec(),
            })),
        }
    }

    /// Removes a key.
    pub(super) fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<(), EngineError> {
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
    pub(super) fn done(self) -> Done {
        let frames = self.snapshot.frames();
        let begun = self.begun.iter().map(|l| l.extent()).collect();
        let mut done = Done {
            first: self.first.unwrap_or_default(),
            last: self.csn,
            frames: Vec::new(),
            redo: self.redo,
            with_redo: Vec::new(),
            begun,
            splits: self.splits,
            merges: self.merges,
        };
        let mut changed: Vec<(Lpid, Changed)> = self.changed.into_iter().collect();
        changed.sort_unstable_by_key(|(l, _)| *l);
        for (lpid, c) in changed {
            let is_value = matches!(c, Changed::Value(..));
            let is_value = planted::instead(Planted::ValueNotWithRedo, || is_value, || false);
            let with_redo = is_value || self.begun.contains(&lpid);
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

    /// The leaf that takes a key, the way to it, and whether it has the key; if it has, the page of the value, if that has one.
    fn descend(&self, tree: &Tree, key: &[u8]) -> Result<(Lpid, Path, Option<Option<Lpid>>), EngineError> {
        let (mut lpid, mut path) = (tree.root(), Path::new());
        loop {
            self.snapshot.computes(HostWork::Node, 1);
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
            self.changed.insert(lpid, Changed::Node(NodeMut::of(frame.node()?)));
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
            None => Ok(look(&NodeMut::of(self.snapshot.frame(lpid)?.node()?))),
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
        match used > self.options.node_bytes && can_split {
            true => self.split(tree, lpid, path, at),
            false => Ok(()),
        }
    }

    /// Splits a node. The root keeps its page.
    fn split(&mut self, tree: &Tree, lpid: Lpid, mut path: Path, last_put: usize) -> Result<(), EngineError> {
        self.splits += 1;
        let right_lpid = self.take(tree)?;
        let Split { separator, left, right } = self.node_mut(lpid)?.split(right_lpid, last_put);
        let Some((parent, _)) = path.pop() else {
            let left_lpid = self.take(tree)?;
            let mut root = NodeMut::empty(lpid, left.level() + 1, &[], None);
            root.put(&[], NodeValue::Page(left_lpid));
            root.put(&separator, NodeValue::Page(right_lpid));
            let left = left.moved(left_lpid);
            planted::unless(Planted::RootSplitHalfLogged, || self.log_image(&left));
            self.put_node(left);
            self.log_image(&right);
            self.put_node(right);
            self.log_image(&root);
            self.put_node(root);
            return Ok(());
        };
        planted::unless(Planted::SplitLeftNotLogged, || {
            self.redo.push(&Record::Truncate { lpid, separator: &separator });
        });
        self.changed.insert(lpid, Changed::Node(left));
        planted::unless(Planted::SplitRightNotLogged, || self.log_image(&right));
        self.put_node(right);
        self.put_in(tree, parent, path, &separator, NodeValue::Page(right_lpid))
    }

    /// Logs that a page is this node from now on, whatever it was.
    fn log_image(&mut self, node: &NodeMut) {
        let mut node = node.clone();
        node.set_csn(self.csn.raw());
        let lpid = node.lpid();
        let bytes = node.finish_exact();
        self.redo.push(&Record::Image { lpid, bytes: &bytes });
    }

    /// Makes a page this node, whatever it was.
    fn put_node(&mut self, mut node: NodeMut) {
        node.set_csn(self.csn.raw());
        self.changed.insert(node.lpid(), Changed::Node(node));
    }

    /// Merges a node that has become small with a neighbour, if both fit well into one.
    fn shrink(&mut self, tree: &Tree, lpid: Lpid, mut path: Path) -> Result<(), EngineError> {
        let node_bytes = self.options.node_bytes;
        let Some((parent, at)) = path.pop() else { return Ok(()) };
        if self.with_node(lpid, NodeMut::used_bytes)? > node_bytes / 4 {
            return Ok(());
        }
        let siblings = self.with_node(parent, NodeMut::entries)?;
        if siblings > 1 {
            // If keys are deleted in their order, the small neighbour is on the left. Of two nodes the right one is freed, since the
            // first child of a node never is.
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
            planted::unless(Planted::MergeNotLogged, || self.log_image(&merged));
            self.put_node(merged);
            self.free(tree, right)?;
            self.node_mut(parent)?.delete(&separator);
            self.redo.push(&Record::Delete { lpid: parent, key: &separator });
        }
        if path.is_empty() {
            return self.lower(tree, parent);
        }
        self.shrink(tree, parent, path)
    }

    /// Child `right_at` of a node and the child before it merged, if they fit well into one, with the page and the separator that
    /// are no longer needed.
    fn merge_at(
        &self,
        parent: Lpid,
        right_at: usize,
    ) -> Result<Option<(NodeMut, Lpid, Vec<u8>)>, EngineError> {
        let node_bytes = self.options.node_bytes;
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
            self.log_image(&node);
            self.put_node(node);
            self.free(tree, child)?;
        }
    }

    /// Takes a free page.
    fn take(&mut self, tree: &Tree) -> Result<Lpid, EngineError> {
        loop {
            let space = self.spaces.entry(tree.owner()).or_default();
            let Some(at) = space.candidate() else {
                let id = self.snapshot.storage().extents().allocate(tree.owner())?;
                self.snapshot.frames().forget(id, self.snapshot.csn());
                space.extents.push(TreeExtent::new(id, false));
                continue;
            };
            let TreeExtent { id, begun, free_from } = space.extents[at];
            let free = self.first_free(id, begun, free_from)?;
            let extent = &mut self.spaces.get_mut(&tree.owner()).expect("it was there").extents[at];
            let Some(page) = free else {
                extent.free_from = EXTENT_PAGES as u16;
                continue;
            };
            extent.free_from = page + 1;
            let lpid = id.page(page);
            self.bitmap(id, begun)?.set(page, true);
            planted::unless(Planted::TakeNotLogged, || self.redo.push(&Record::Take { lpid }));
            return Ok(lpid);
        }
    }

    /// Frees a page that nothing names any more.
    fn free(&mut self, tree: &Tree, lpid: Lpid) -> Result<(), EngineError> {
        self.bitmap(lpid.extent(), true)?.set(lpid.page(), false);
        self.spaces.entry(tree.owner()).or_default().freed(lpid.extent(), lpid.page());
        self.changed.insert(lpid, Changed::Freed(self.csn));
        planted::unless(Planted::FreeNotLogged, || self.redo.push(&Record::Free { lpid }));
        Ok(())
    }

    /// The first free page of an extent from `from` on. Its bitmap is not changed by this.
    fn first_free(&self, extent: ExtentId, begun: bool, from: u16) -> Result<Option<u16>, EngineError> {
        let lpid = allocation::page_of(extent);
        match self.changed.get(&lpid) {
            Some(Changed::Allocation(_, bitmap)) => Ok(bitmap.first_free(from)),
            Some(_) => Err(not_a_bitmap(lpid)),
            None if begun => {
                Ok(allocation::first_free(self.snapshot.frame(lpid)?.body().bitmap(lpid)?, from))
            }
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
                true => Allocation::of(self.snapshot.frame(lpid)?.body().bitmap(lpid)?),
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
