//! Point reads of trees at a snapshot, and the ways down to leaves.

use std::ops::{ControlFlow, Deref, Range};
use std::sync::Arc;

use lode_base::{Lpid, PageBuf};
use lode_command::ReadRequest;
use lode_page::{Node, NodeValue};

use super::frames::Frame;
use super::page::body::{Body, page_of};
use super::page::value;
use super::snapshot::Snapshot;
use super::tree::{Csn, Tree, Value};
use crate::{EngineError, HostWork};

impl Snapshot {
    /// The value of a key, if it is there.
    ///
    /// # Errors
    /// When the tree was dropped before this snapshot, or the drive fails.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.find(tree, key, true, |v| v.share())
    }

    /// What `look` makes of the value of a key, if it is there: as [`Snapshot::get`], for a value that is not needed for longer. No
    /// lock is held meanwhile, and no reference count is touched. Memory that others free is kept until `look` returns, which
    /// should be soon. `look` may read, too, but not with hundreds of reads within each other.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, EngineError> {
        self.find(tree, key, false, |v| look(v.bytes()))
    }

    /// What `look` makes of the value of a key. If `look` `shares` the value, it is shown one that can be shared.
    fn find<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        shares: bool,
        look: impl FnOnce(Met<'_>) -> R,
    ) -> Result<Option<R>, EngineError> {
        self.check_tree(tree)?;
        {
            let frames = self.frames().enter_reader();
            let version = |lpid| Ok::<_, EngineError>(frames.get(lpid, self.sight()));
            if let Some(leaf) = self.leaf_by(tree.root(), key, version)? {
                let leaf = leaf.node()?;
                let Ok(i) = leaf.find(key) else { return Ok(None) };
                let NodeValue::Page(lpid) = leaf.value(i) else { return Ok(Some(look(Met::Entry(leaf, i)))) };
                if !shares && let Some(page) = frames.value_page(lpid, self.sight()) {
                    return Ok(Some(look(Met::Bytes(&page[value::range(page)]))));
                }
                if let Some(page) = frames.get(lpid, self.sight()) {
                    return Ok(Some(look(Met::Page(page.body().value_page(lpid)?))));
                }
            }
        }
        // A page is not in memory. The pages that are found now are kept while the drive reads the others.
        let frame = |lpid| self.frame(lpid).map(Some);
        let leaf = self.leaf_by(tree.root(), key, frame)?.expect("every page is in memory, or read");
        let leaf = leaf.node()?;
        let Ok(i) = leaf.find(key) else { return Ok(None) };
        Ok(Some(match leaf.value(i) {
            NodeValue::Inline(_) => look(Met::Entry(leaf, i)),
            NodeValue::Page(lpid) => look(Met::Page(self.frame(lpid)?.body().value_page(lpid)?)),
        }))
    }

    /// The leaf below `root` that has the key, if any leaf has. `None` if `version` has none of a page on the way.
    #[inline]
    fn leaf_by<F: Deref<Target = Frame>>(
        &self,
        root: Lpid,
        key: &[u8],
        version: impl Fn(Lpid) -> Result<Option<F>, EngineError>,
    ) -> Result<Option<F>, EngineError> {
        let (mut lpid, mut searched) = (root, 0);
        loop {
            searched += 1;
            if let Some(node) = self.upper().get(lpid) {
                lpid = node.child_for(key).1;
                continue;
            }
            let Some(frame) = version(lpid)? else { return Ok(None) };
            let node = frame.node()?;
            if node.level() == 0 {
                self.computes(HostWork::Node, searched);
                return Ok(Some(frame));
            }
            self.upper().keep(lpid, node);
            lpid = node.child_for(key).1;
        }
    }

    /// The pages of the values of some keys, as far as the leaves are in memory and the values have pages of their own. The memory
    /// of all leaves is prefetched together.
    pub(crate) fn value_pages<'k>(
        &self,
        tree: &Tree,
        keys: impl Iterator<Item = &'k &'k Vec<u8>> + Clone,
    ) -> Vec<Option<ValuePage>> {
        let below_upper = |key: &&Vec<u8>| {
            let mut lpid = tree.root();
            while let Some(node) = self.upper().get(lpid) {
                lpid = node.child_for(key).1;
            }
            lpid
        };
        let lpids: Vec<Lpid> = keys.clone().map(below_upper).collect();
        let reader = self.frames().enter_reader();
        reader.prefetch(&lpids);
        let find = |(&leaf, key): (&Lpid, &&Vec<u8>)| {
            let version = reader.get(leaf, self.sight())?;
            let Body::Node(node) = version.body() else { return None };
            let at = if node.level() == 0 { node.find(key).ok()? } else { return None };
            Some(ValuePage { leaf, page: page_of(node.value(at))? })
        };
        lpids.iter().zip(keys).map(find).collect()
    }

    /// The value of entry `i` of a leaf.
    pub(crate) fn value_at(&self, leaf: &Node, i: usize) -> Result<Value, EngineError> {
        self.value(Found::at(leaf, i))
    }

    fn value(&self, found: Found) -> Result<Value, EngineError> {
        match found {
            Found::Value(value) => Ok(value),
            Found::Page(lpid) => self.look(lpid, |body| value_in(lpid, body)),
        }
    }

    /// The newest commit that wrote a leaf or a value of these entries of it. A value that has a page of its own can change without
    /// its leaf.
    pub(crate) fn newest_in(&self, leaf: &Node, entries: Range<usize>) -> Result<Csn, EngineError> {
        let mut newest = Csn::new(leaf.csn());
        for i in entries {
            if let NodeValue::Page(lpid) = leaf.value(i) {
                newest = newest.max(self.frame(lpid)?.csn());
            }
        }
        Ok(newest)
    }

    /// The values of these entries of a leaf, in order. Pages that no frame has are read with one command.
    pub(crate) fn values_at(&self, leaf: &Node, entries: Range<usize>) -> Result<Vec<Value>, EngineError> {
        let found: Vec<Found> = entries.map(|i| Found::at(leaf, i)).collect();
        let page = |f: &Found| if let Found::Page(lpid) = f { Some(*lpid) } else { None };
        let pages: Vec<Lpid> = found.iter().filter_map(page).collect();
        let mut looked = Vec::with_capacity(pages.len());
        self.frames().look_at_all(&pages, self.sight(), value_in, &mut looked);
        let missed: Vec<usize> = (0..pages.len()).filter(|&i| looked[i].is_none()).collect();
        if !missed.is_empty() {
            let loaded = self.load(missed.iter().map(|&i| pages[i]))?;
            for (i, frame) in missed.into_iter().zip(loaded) {
                looked[i] = Some(value_in(frame.lpid(), frame.body()));
            }
        }
        let mut looked = looked.into_iter().flatten();
        let value = |f| match f {
            Found::Value(value) => Ok(value),
            Found::Page(_) => looked.next().expect("each page was looked at, or loaded"),
        };
        found.into_iter().map(value).collect()
    }

    /// The leaf below `root` that has the key, if any leaf has.
    pub(crate) fn leaf_for(&self, root: Lpid, key: &[u8]) -> Result<Node, EngineError> {
        self.at_leaf(root, |n| n.child_for(key).1, Node::clone)
    }

    /// The leaf below `root` that has the greatest key below this one, if any leaf has. The key is not the smallest.
    pub(crate) fn leaf_before(&self, root: Lpid, key: &[u8]) -> Result<Node, EngineError> {
        let child = |n: &Node| match n.find(key) {
            // The keys of the first child begin where the node's keys begin, below this key, all the way down.
            Ok(i) | Err(i) => n.child(i.saturating_sub(1)),
        };
        self.at_leaf(root, child, Node::clone)
    }

    /// The last leaf below `root`.
    pub(crate) fn last_leaf(&self, root: Lpid) -> Result<Node, EngineError> {
        self.at_leaf(root, |n| n.child(n.entries() - 1), Node::clone)
    }

    /// What `look` makes of the leaf below `root` that `child` leads to.
    fn at_leaf<R>(
        &self,
        root: Lpid,
        child: impl Fn(&Node) -> Lpid,
        look: impl Fn(&Node) -> R,
    ) -> Result<R, EngineError> {
        let (mut lpid, mut searched) = (root, 0);
        loop {
            searched += 1;
            if let Some(node) = self.upper().get(lpid) {
                lpid = child(node);
                continue;
            }
            let looked = self.look(lpid, |body| {
                let node = body.node(lpid)?;
                if node.level() == 0 {
                    return Ok(ControlFlow::Break(look(node)));
                }
                self.upper().keep(lpid, node);
                Ok(ControlFlow::Continue(child(node)))
            })?;
            match looked {
                ControlFlow::Continue(child) => lpid = child,
                ControlFlow::Break(r) => {
                    self.computes(HostWork::Node, searched);
                    return Ok(r);
                }
            }
        }
    }

    /// What a node has for a key.
    pub(crate) fn step(&self, lpid: Lpid, key: &[u8]) -> Result<Step, EngineError> {
        if let Some(node) = self.upper().get(lpid) {
            return Ok(Step::Down(node.child_for(key)));
        }
        self.look(lpid, |body| {
            let node = body.node(lpid)?;
            if node.level() == 0 {
                return Ok(Step::Leaf(node.find(key).ok().map(|i| page_of(node.value(i)))));
            }
            self.upper().keep(lpid, node);
            Ok(Step::Down(node.child_for(key)))
        })
    }

    /// What `look` makes of a page of a tree as this snapshot sees it.
    pub(crate) fn look<R>(
        &self,
        lpid: Lpid,
        look: impl Fn(&Body) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        if let Some(version) = self.frames().enter_reader().get(lpid, self.sight()) {
            return look(version.body());
        }
        look(self.load_one(lpid)?.body())
    }

    /// A page of a tree as this snapshot sees it.
    pub(crate) fn frame(&self, lpid: Lpid) -> Result<Arc<Frame>, EngineError> {
        match self.frames().get(lpid, self.sight()) {
            Some(frame) => Ok(frame),
            None => self.load_one(lpid),
        }
    }

    fn load_one(&self, lpid: Lpid) -> Result<Arc<Frame>, EngineError> {
        Ok(self.load([lpid].into_iter())?.remove(0))
    }

    /// Pages that no frame has.
    fn load(&self, lpids: impl Iterator<Item = Lpid> + Clone) -> Result<Vec<Arc<Frame>>, EngineError> {
        let requests = lpids.clone().map(|lpid| ReadRequest { lpid, range: None }).collect();
        let read = || self.view().read(requests);
        let (pages, _) = match self.host() {
            Some(host) => host.reads_nodes(read)?,
            None => read()?,
        };
        let frame = |(lpid, bytes): (Lpid, PageBuf)| {
            // The drive reads whole units. A shorter page would keep its unit in memory.
            let (csn, body) = Body::decode(lpid, bytes.tight())?;
            if csn > self.csn() {
                let what = format!("of commit {csn}, at a snapshot of {}", self.csn());
                return Err(EngineError::BadTreePage { lpid, what });
            }
            Ok(self.frames().loaded(lpid, csn, body, self.sight()))
        };
        lpids.zip(pages).map(frame).collect()
    }
}

/// What a node has for a key.
pub(crate) enum Step {
    /// It is an inner node: the entry whose child may have the key, and that child.
    Down((usize, Lpid)),
    /// It is a leaf: its entry if there is one, and the page of the value if that has one of its own.
    Leaf(Option<Option<Lpid>>),
}

/// The place of a value that has a page of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValuePage {
    /// The leaf that names it.
    pub(crate) leaf: Lpid,
    pub(crate) page: Lpid,
}

/// The value of a key, in its place.
enum Met<'a> {
    /// The entry of a leaf.
    Entry(&'a Node, usize),
    /// The page of a value.
    Page(&'a PageBuf),
    /// The bytes of the value, which cannot be shared.
    Bytes(&'a [u8]),
}

impl Met<'_> {
    fn share(&self) -> Value {
        match self {
            Self::Entry(leaf, i) => leaf.share(*i).expect("it stands in the node"),
            Self::Page(page) => value::value(page),
            Self::Bytes(value) => PageBuf::copy_from(value),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Entry(leaf, i) => match leaf.value(*i) {
                NodeValue::Inline(value) => value,
                NodeValue::Page(_) => unreachable!("it stands in the node"),
            },
            Self::Page(page) => &page[value::range(page)],
            Self::Bytes(value) => value,
        }
    }
}

/// What a leaf has for a key.
enum Found {
    Value(Value),
    Page(Lpid),
}

impl Found {
    fn at(leaf: &Node, i: usize) -> Self {
        match leaf.value(i) {
            NodeValue::Inline(_) => Self::Value(leaf.share(i).expect("it stands in the node")),
            NodeValue::Page(page) => Self::Page(page),
        }
    }
}

fn value_in(lpid: Lpid, body: &Body) -> Result<Value, EngineError> {
    body.value_page(lpid).map(value::value)
}
