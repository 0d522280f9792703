//! Reading trees at a snapshot.

use std::ops::{Bound, ControlFlow, Deref, Range};
use std::sync::Arc;

use lode_base::{Lpid, PageBuf};
use lode_command::ReadRequest;
use lode_page::{Node, NodeValue};

use super::frames::{Body, Frame};
use super::page::{allocation, value};
use super::{Csn, Cursor, Order, Tree, Value};
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
        self.find(tree, key, true, |v| v.share())
    }

    /// What `look` makes of the value of a key, if it is there: as [`Snapshot::get`], for those who do not need it for longer. No lock
    /// is held meanwhile, and no count is touched that others touch too. What others let go of stays in memory until `look` is done,
    /// which should be soon; it may read, too, but not with hundreds of reads within each other.
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

    /// What `look` makes of the value of a key; where it `shares` it, it is shown what can be shared.
    fn find<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        shares: bool,
        look: impl FnOnce(Met<'_>) -> R,
    ) -> Result<Option<R>, EngineError> {
        self.check_tree(tree)?;
        {
            let frames = self.shared().frames.enter_reader();
            let version = |lpid| Ok::<_, EngineError>(frames.get(lpid, self.sight()));
            if let Some(leaf) = self.leaf_by(tree.root(), key, version)? {
                let leaf = node_of(&leaf)?;
                let Ok(i) = leaf.find(key) else { return Ok(None) };
                let NodeValue::Page(lpid) = leaf.value(i) else { return Ok(Some(look(Met::Entry(leaf, i)))) };
                if !shares && let Some(page) = frames.value_page(lpid, self.sight()) {
                    return Ok(Some(look(Met::Bytes(&page[value::range(page)]))));
                }
                if let Some(page) = frames.get(lpid, self.sight()) {
                    return Ok(Some(look(Met::Page(page_in(lpid, &page.body)?))));
                }
            }
        }
        // Something is not in memory: what is found now is kept while the drive reads the rest.
        let frame = |lpid| self.frame(lpid).map(Some);
        let leaf = self.leaf_by(tree.root(), key, frame)?.expect("every page is in memory, or read");
        let leaf = node_of(&leaf)?;
        let Ok(i) = leaf.find(key) else { return Ok(None) };
        Ok(Some(match leaf.value(i) {
            NodeValue::Inline(_) => look(Met::Entry(leaf, i)),
            NodeValue::Page(lpid) => look(Met::Page(page_in(lpid, &self.frame(lpid)?.body)?)),
        }))
    }

    /// The leaf below `root` that has the key, if any has; `None` where `version` has none of a page on the way.
    #[inline]
    fn leaf_by<F: Deref<Target = Frame>>(
        &self,
        root: Lpid,
        key: &[u8],
        version: impl Fn(Lpid) -> Result<Option<F>, EngineError>,
    ) -> Result<Option<F>, EngineError> {
        let mut lpid = root;
        loop {
            if let Some(node) = self.upper().get(lpid) {
                lpid = node.child_for(key).1;
                continue;
            }
            let Some(frame) = version(lpid)? else { return Ok(None) };
            let node = node_of(&frame)?;
            if node.level() == 0 {
                return Ok(Some(frame));
            }
            self.upper().keep(lpid, node);
            lpid = node.child_for(key).1;
        }
    }

    /// Where the values of some keys are that have pages of their own, as far as that is in memory. What the CPU waits for comes
    /// together.
    pub(in crate::trees) fn value_pages<'k>(
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
        let reader = self.shared().frames.enter_reader();
        reader.prefetch(&lpids);
        let find = |(&leaf, key): (&Lpid, &&Vec<u8>)| {
            let version = reader.get(leaf, self.sight())?;
            let Body::Node(node) = &version.body else { return None };
            let at = if node.level() == 0 { node.find(key).ok()? } else { return None };
            Some(ValuePage { leaf, page: page_of(node.value(at))? })
        };
        lpids.iter().zip(keys).map(find).collect()
    }

    /// The keys within bounds, in their order.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn range(&self, tree: &Tree, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Result<Cursor, EngineError> {
        Cursor::new(self.clone(), tree.clone(), start, end, Order::Forward)
    }

    /// The keys within bounds, the last one first.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn range_back(
        &self,
        tree: &Tree,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Result<Cursor, EngineError> {
        Cursor::new(self.clone(), tree.clone(), start, end, Order::Backward)
    }

    pub(crate) fn check_tree(&self, tree: &Tree) -> Result<(), EngineError> {
        match self.catalog().has_tree(tree) {
            true => Ok(()),
            false => Err(EngineError::NoSuchTree(tree.name().into())),
        }
    }

    /// The value of entry `i` of a leaf.
    pub(in crate::trees) fn value_at(&self, leaf: &Node, i: usize) -> Result<Value, EngineError> {
        self.value(Found::at(leaf, i))
    }

    fn value(&self, found: Found) -> Result<Value, EngineError> {
        match found {
            Found::Value(value) => Ok(value),
            Found::Page(lpid) => self.look(lpid, |body| value_in(lpid, body)),
        }
    }

    /// The values of these entries of a leaf, in order; pages that no frame has are read with one command.
    pub(in crate::trees) fn values_at(
        &self,
        leaf: &Node,
        entries: Range<usize>,
    ) -> Result<Vec<Value>, EngineError> {
        let found: Vec<Found> = entries.map(|i| Found::at(leaf, i)).collect();
        let page = |f: &Found| if let Found::Page(lpid) = f { Some(*lpid) } else { None };
        let pages: Vec<Lpid> = found.iter().filter_map(page).collect();
        let mut looked = Vec::with_capacity(pages.len());
        self.shared().frames.look_at_all(&pages, self.sight(), value_in, &mut looked);
        let missed: Vec<usize> = (0..pages.len()).filter(|&i| looked[i].is_none()).collect();
        if !missed.is_empty() {
            let loaded = self.load(missed.iter().map(|&i| pages[i]))?;
            for (i, frame) in missed.into_iter().zip(loaded) {
                looked[i] = Some(value_in(frame.lpid, &frame.body));
            }
        }
        let mut looked = looked.into_iter().flatten();
        let value = |f| match f {
            Found::Value(value) => Ok(value),
            Found::Page(_) => looked.next().expect("each page was looked at, or loaded"),
        };
        found.into_iter().map(value).collect()
    }

    /// The leaf below `root` that has the key, if any has.
    pub(in crate::trees) fn leaf_for(&self, root: Lpid, key: &[u8]) -> Result<Node, EngineError> {
        self.at_leaf(root, |n| n.child_for(key).1, Node::clone)
    }

    /// The leaf below `root` that has the greatest key below this one, if any has; the key is not the smallest.
    pub(in crate::trees) fn leaf_before(&self, root: Lpid, key: &[u8]) -> Result<Node, EngineError> {
        let child = |n: &Node| match n.find(key) {
            // The first child's keys begin with the node's own, which are below this one all the way down.
            Ok(i) | Err(i) => n.child(i.saturating_sub(1)),
        };
        self.at_leaf(root, child, Node::clone)
    }

    /// The last leaf below `root`.
    pub(in crate::trees) fn last_leaf(&self, root: Lpid) -> Result<Node, EngineError> {
        self.at_leaf(root, |n| n.child(n.entries() - 1), Node::clone)
    }

    /// What `look` makes of the leaf below `root` that `child` leads to.
    fn at_leaf<R>(
        &self,
        root: Lpid,
        child: impl Fn(&Node) -> Lpid,
        look: impl Fn(&Node) -> R,
    ) -> Result<R, EngineError> {
        let mut lpid = root;
        loop {
            if let Some(node) = self.upper().get(lpid) {
                lpid = child(node);
                continue;
            }
            let looked = self.look(lpid, |body| {
                let node = node_in(lpid, body)?;
                if node.level() == 0 {
                    return Ok(ControlFlow::Break(look(node)));
                }
                self.upper().keep(lpid, node);
                Ok(ControlFlow::Continue(child(node)))
            })?;
            match looked {
                ControlFlow::Continue(child) => lpid = child,
                ControlFlow::Break(r) => return Ok(r),
            }
        }
    }

    /// What a node has for a key.
    pub(in crate::trees) fn step(&self, lpid: Lpid, key: &[u8]) -> Result<Step, EngineError> {
        if let Some(node) = self.upper().get(lpid) {
            return Ok(Step::Down(node.child_for(key)));
        }
        self.look(lpid, |body| {
            let node = node_in(lpid, body)?;
            if node.level() == 0 {
                return Ok(Step::Leaf(node.find(key).ok().map(|i| page_of(node.value(i)))));
            }
            self.upper().keep(lpid, node);
            Ok(Step::Down(node.child_for(key)))
        })
    }

    /// What `look` makes of a page of a tree as this snapshot sees it.
    pub(in crate::trees) fn look<R>(
        &self,
        lpid: Lpid,
        look: impl Fn(&Body) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        if let Some(version) = self.shared().frames.enter_reader().get(lpid, self.sight()) {
            return look(&version.body);
        }
        look(&self.load_one(lpid)?.body)
    }

    /// A page of a tree as this snapshot sees it.
    pub(crate) fn frame(&self, lpid: Lpid) -> Result<Arc<Frame>, EngineError> {
        match self.shared().frames.get(lpid, self.sight()) {
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
        let (pages, _) = self.noting_age(self.store().read(Some(self.view_id()), requests))?;
        let frame = |(lpid, bytes): (Lpid, PageBuf)| {
            // The drive reads whole units, which would stay in memory for a page that is shorter.
            let (csn, body) = body_of(lpid, bytes.tight())?;
            if csn > self.csn() {
                let what = format!("of commit {csn}, at a snapshot of {}", self.csn());
                return Err(EngineError::BadTreePage { lpid, what });
            }
            Ok(self.shared().frames.loaded(lpid, csn, body, self.sight()))
        };
        lpids.zip(pages).map(frame).collect()
    }
}

/// What a node has for a key.
pub(in crate::trees) enum Step {
    /// An inner one: the entry whose child takes it, and that child.
    Down((usize, Lpid)),
    /// A leaf: its entry if it has one, and the page of the value where it has one of its own.
    Leaf(Option<Option<Lpid>>),
}

/// Where a value is that has a page of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValuePage {
    /// The leaf that names it.
    pub(in crate::trees) leaf: Lpid,
    pub(in crate::trees) page: Lpid,
}

/// The page of a value that has one of its own.
pub(in crate::trees) fn page_of(value: NodeValue<'_>) -> Option<Lpid> {
    match value {
        NodeValue::Page(lpid) => Some(lpid),
        NodeValue::Inline(_) => None,
    }
}

/// The value of a key, where it lies.
enum Met<'a> {
    /// Entry of a leaf.
    Entry(&'a Node, usize),
    /// The page of a value.
    Page(&'a PageBuf),
    /// The value itself, for those who do not share it.
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
    page_in(lpid, body).map(value::value)
}

/// The page of a value in a frame.
fn page_in(lpid: Lpid, body: &Body) -> Result<&PageBuf, EngineError> {
    match body {
        Body::Value(page) => Ok(page),
        _ => Err(EngineError::BadTreePage { lpid, what: "not the page of a value".into() }),
    }
}

/// The node in a frame.
pub(crate) fn node_of(frame: &Frame) -> Result<&Node, EngineError> {
    node_in(frame.lpid, &frame.body)
}

pub(in crate::trees) fn node_in(lpid: Lpid, body: &Body) -> Result<&Node, EngineError> {
    match body {
        Body::Node(n) => Ok(n),
        _ => Err(EngineError::BadTreePage { lpid, what: "not a node".into() }),
    }
}
