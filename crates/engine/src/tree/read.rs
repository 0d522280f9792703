//! Reading trees at a snapshot.

use std::ops::Bound;
use std::sync::Arc;

use lode_base::{Lpid, PageBuf};
use lode_page::{Node, NodeValue};

use super::frames::{Body, Frame};
use super::{BackCursor, Csn, Cursor, Tree, Value, allocation, value};
use crate::{EngineError, Snapshot};

/// Checks the bytes of a page of a tree; answers what it is, and the commit that wrote it.
pub(crate) fn body_of(lpid: Lpid, bytes: PageBuf) -> Result<(Csn, Body), EngineError> {
    let bad = |what: &str| EngineError::BadTreePage { lpid, what: what.into() };
    if value::is_one(&bytes) {
        let csn = value::check(lpid, &bytes).map_err(bad)?;
        return Ok((csn, Body::Value(bytes)));
    }
    if allocation::is_one(&bytes) {
        let csn = allocation::check(lpid, &bytes).map_err(bad)?;
        return Ok((csn, Body::Allocation(bytes)));
    }
    let node = Node::decode(lpid, bytes)?;
    Ok((Csn::new(node.csn()), Body::Node(node)))
}

impl Snapshot {
    /// The value of a key, if it is there.
    ///
    /// # Errors
    /// When the tree was dropped before this snapshot, or the drive fails.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.check_tree(tree)?;
        let leaf = self.leaf_for(tree.root(), key)?;
        let node = node_of(&leaf)?;
        match node.find(key) {
            Ok(i) => self.value_at(node, i).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The keys within bounds, in their order.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn range(&self, tree: &Tree, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Result<Cursor, EngineError> {
        Cursor::new(self.clone(), tree.clone(), start, end)
    }

    /// The keys within bounds, from the last to the first.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn range_back(
        &self,
        tree: &Tree,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Result<BackCursor, EngineError> {
        BackCursor::new(self.clone(), tree.clone(), start, end)
    }

    pub(crate) fn check_tree(&self, tree: &Tree) -> Result<(), EngineError> {
        match self.catalog().has_tree(tree) {
            true => Ok(()),
            false => Err(EngineError::NoSuchTree(tree.name().into())),
        }
    }

    /// The value of entry `i` of a leaf.
    pub(super) fn value_at(&self, leaf: &Node, i: usize) -> Result<Value, EngineError> {
        match leaf.value(i) {
            NodeValue::Inline(_) => Ok(leaf.share(i).expect("it stands in the node")),
            NodeValue::Page(lpid) => self.value_of_page(lpid),
        }
    }

    fn value_of_page(&self, lpid: Lpid) -> Result<Value, EngineError> {
        match &self.frame(lpid)?.body {
            Body::Value(page) => Ok(value::value(page)),
            _ => Err(EngineError::BadTreePage { lpid, what: "not the page of a value".into() }),
        }
    }

    /// The leaf below `root` that has the key, if any has.
    pub(super) fn leaf_for(&self, root: Lpid, key: &[u8]) -> Result<Arc<Frame>, EngineError> {
        let mut lpid = root;
        loop {
            let frame = self.frame(lpid)?;
            let node = node_of(&frame)?;
            if node.level() == 0 {
                return Ok(frame);
            }
            lpid = node.child_for(key).1;
        }
    }

    /// The leaf below `root` that has the greatest keys below `key`, of which there may be none; with `None` the last leaf.
    pub(super) fn leaf_before(&self, root: Lpid, key: Option<&[u8]>) -> Result<Arc<Frame>, EngineError> {
        let (mut lpid, mut key, mut separator) = (root, key, Vec::new());
        loop {
            let frame = self.frame(lpid)?;
            let node = node_of(&frame)?;
            if node.level() == 0 {
                return Ok(frame);
            }
            let at = match key {
                None => node.entries() - 1,
                Some(k) => {
                    let (at, _) = node.child_for(k);
                    node.read_key(at, &mut separator);
                    // All keys of that child are at least its separator: those below are in the child before, to its end.
                    if at > 0 && separator == k {
                        key = None;
                        at - 1
                    } else {
                        at
                    }
                }
            };
            lpid = node.child(at);
        }
    }

    /// A page of a tree as this snapshot sees it.
    pub(crate) fn frame(&self, lpid: Lpid) -> Result<Arc<Frame>, EngineError> {
        let frames = &self.shared().frames;
        if let Some(frame) = frames.get(lpid, self.sight()) {
            return Ok(frame);
        }
        let bytes = self.noting_age(self.store().read_page(Some(self.view_id()), lpid))?;
        let (csn, body) = body_of(lpid, bytes)?;
        if csn > self.csn() {
            let what = format!("of commit {csn}, at a snapshot of {}", self.csn());
            return Err(EngineError::BadTreePage { lpid, what });
        }
        Ok(frames.loaded(lpid, csn, body, self.sight()))
    }
}

/// The node in a frame.
pub(crate) fn node_of(frame: &Frame) -> Result<&Node, EngineError> {
    match &frame.body {
        Body::Node(n) => Ok(n),
        _ => Err(EngineError::BadTreePage { lpid: frame.lpid, what: "not a node".into() }),
    }
}
