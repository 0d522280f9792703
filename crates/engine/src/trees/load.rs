//! Loads of whole trees: keys in their order become nodes from the leaves up, and the catalog names them last.
//!
//! ```text
//!   put ─► level 0: entries of one leaf ── full ─► page ─► level 1: (low fence, page) ── full ─► page ─► level 2 ...
//!                                                   └─► large batches ... the last one: the root and the catalog
//! ```
//!
//! Invariants: nothing names the tree before its last batch. A load that does not end leaves pages whose owner no catalog knows, and
//! the next open releases them. The pages are of commit 0, so that every snapshot that knows the tree may read them, and the redo of
//! all later commits applies to them. No redo names them.
//! Source: Graefe, "Modern B-Tree Techniques" (2011), §6.2.

use std::sync::Arc;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, PageBuf};
use lode_command::{Align, Batch, PageWrite};
use lode_page::node::{common_prefix, separator};
use lode_page::{NodeMut, NodeValue};

use super::commit::Committer;
use super::page::allocation::{self, Allocation};
use super::page::value;
use super::tree::{Csn, KEY_BYTES_MAX, Tree, shown};
use super::writer::Space;
use crate::EngineError;
use crate::planted::{self, Planted};

/// Bytes of pages that go to the drive with one batch, unless it takes less.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of a node beside fences and entries, and of an entry beside suffix and value. They only decide where nodes end.
const NODE_BYTES: usize = 40;
const ENTRY_BYTES: usize = 10;
/// Children that an inner node has at least, where there are so many.
const CHILDREN_MIN: usize = 3;
/// The first page of the first extent: its root. The one before is the bitmap.
const ROOT_PAGE: u16 = 1;

/// A tree that is being loaded. Nobody sees anything of it before [`TreeLoad::finish`]. If the load is dropped, nothing is left.
pub struct TreeLoad {
    committer: Arc<Committer>,
    tree: Tree,
    /// Bytes at which a node is full.
    full_bytes: usize,
    /// The nodes that are being filled, from the leaf up.
    levels: Vec<Level>,
    /// Its extents. The bitmap of the last one is not written yet.
    extents: Vec<ExtentId>,
    bitmap: Allocation,
    next_page: u16,
    batch: Batch,
    batch_bytes: usize,
    last: Option<Vec<u8>>,
    /// A batch failed, and its pages are lost.
    failed: Option<EngineError>,
}

impl TreeLoad {
    pub(crate) fn new(committer: Arc<Committer>, name: &str) -> Result<Self, EngineError> {
        if committer.heads().current().tree(name).is_some() {
            return Err(EngineError::TreeExists(name.into()));
        }
        let extents = committer.storage().extents();
        let id = extents.new_owner();
        let extent = extents.allocate_unpublished(id.into())?;
        let tree = Tree::new(id, name.into(), extent.page(ROOT_PAGE));
        let full_bytes = committer.options().node_bytes;
        let mut load = Self {
            committer,
            tree,
            full_bytes,
            levels: vec![Level::default()],
            extents: Vec::new(),
            bitmap: Allocation::empty(extent),
            next_page: ROOT_PAGE + 1,
            batch: Batch::default(),
            batch_bytes: 0,
            last: None,
            failed: None,
        };
        load.bitmap.set(ROOT_PAGE, true);
        load.add_extent(extent);
        Ok(load)
    }

    /// Fills nodes up to so many percent, so that there is room for later keys. The default is 100.
    ///
    /// # Panics
    /// When it is not from 10 to 100.
    pub fn fill_percent(mut self, percent: u8) -> Self {
        assert!((10..=100).contains(&percent), "nodes that are {percent} percent full");
        self.full_bytes = self.committer.options().node_bytes * usize::from(percent) / 100;
        self
    }

    /// Appends a key, which comes after all so far, and its value.
    ///
    /// # Errors
    /// [`EngineError::KeyOrder`], and [`EngineError::EntryTooLong`]: nothing happened, and the load can go on. Others when the
    /// drive is full or fails, which ends the load.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.check(key, value)?;
        if value.len() < self.committer.options().value_page_bytes_min {
            self.add(0, key, NodeValue::Inline(value))?;
        } else {
            let lpid = self.take()?;
            self.stage(lpid, value::encode(lpid, Csn::default(), value))?;
            self.add(0, key, NodeValue::Page(lpid))?;
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    /// Appends all of these, as [`TreeLoad::put`] does.
    ///
    /// # Errors
    /// Those of the first that fails; those before it were appended.
    pub fn extend<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), EngineError> {
        entries.into_iter().try_for_each(|(k, v)| self.put(k.as_ref(), v.as_ref()))
    }

    /// Creates the tree, durably. All transactions that begin afterwards see all of it.
    ///
    /// # Errors
    /// [`EngineError::TreeExists`] when a tree of this name was created meanwhile, or when the drive is full or fails. There is no
    /// such tree then, unless the error says that the database must be opened again.
    pub fn finish(self) -> Result<Tree, EngineError> {
        let committer = self.committer.clone();
        let _permit = committer.permit();
        self.finish_alone()
    }

    /// As [`TreeLoad::finish`], for the holder of the right to write.
    pub(crate) fn finish_alone(mut self) -> Result<Tree, EngineError> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        let mut at = 0;
        // A root's keys have no common prefix that could be left out. If that makes it too long, it gets a parent.
        while at + 1 < self.levels.len() || self.levels[at].oversize(at, None, self.full_bytes) {
            self.cut(at, None)?;
            at += 1;
        }
        let (root, last) = (self.tree.root(), self.extents[self.extents.len() - 1]);
        let page = self.levels[at].node(root, at, 0..self.levels[at].entries.len(), None);
        self.stage(root, page)?;
        let bitmap = std::mem::replace(&mut self.bitmap, Allocation::empty(last));
        self.stage(allocation::page_of(last), bitmap.freeze())?;
        let committer = self.committer.clone();
        if committer.heads().refreshed()?.tree(self.tree.name()).is_some() {
            return Err(EngineError::TreeExists(self.tree.name().into()));
        }
        let batch = std::mem::take(&mut self.batch);
        let batch = planted::instead(Planted::LoadedLastLeftOut, || batch, Batch::default);
        committer.writer().adopt(&self.tree, Space::loaded(&self.extents), batch)?;
        committer.storage().extents().published(&self.extents);
        self.extents.clear();
        Ok(self.tree.clone())
    }

    fn check(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let name = || self.tree.name().to_string();
        let limit = self.committer.value_bytes_max();
        for (what, bytes, limit_bytes) in [("key", key.len(), KEY_BYTES_MAX), ("value", value.len(), limit)] {
            if bytes > limit_bytes {
                return Err(EngineError::EntryTooLong { tree: name(), what, bytes, limit_bytes });
            }
        }
        match &self.last {
            Some(last) if key <= &last[..] => {
                Err(EngineError::KeyOrder { tree: name(), key: shown(key), last: shown(last) })
            }
            _ => Ok(()),
        }
    }

    /// Appends an entry to the node of a level that is being filled, or to the next node if that is full.
    fn add(&mut self, at: usize, key: &[u8], value: NodeValue<'_>) -> Result<(), EngineError> {
        if at == self.levels.len() {
            self.levels.push(Level::default());
        }
        if self.levels[at].is_full(at, key, value, self.full_bytes) {
            let high = match (at, &self.last) {
                (0, Some(last)) => separator(last, key).to_vec(),
                _ => key.to_vec(),
            };
            self.cut(at, Some(&high))?;
        }
        self.levels[at].push(key, value);
        Ok(())
    }

    /// Ends the node of a level below `high`. It becomes a page, and an entry of the level above.
    fn cut(&mut self, at: usize, high: Option<&[u8]>) -> Result<(), EngineError> {
        // The key that ends the node may share a shorter prefix with the other keys than they share among themselves. That makes all
        // of them longer. Then only the last entries stay in one node with it.
        if self.levels[at].oversize(at, high, self.full_bytes) {
            let alone = self.levels[at].entries.len() - least(at);
            let first = self.levels[at].key(alone).to_vec();
            let middle = match at {
                0 => separator(self.levels[at].key(alone - 1), &first).to_vec(),
                _ => first,
            };
            self.cut_at(at, alone, Some(&middle))?;
        }
        let all = self.levels[at].entries.len();
        self.cut_at(at, all, high)
    }

    /// Makes the first entries of a level a page.
    fn cut_at(&mut self, at: usize, count: usize, high: Option<&[u8]>) -> Result<(), EngineError> {
        let lpid = self.take()?;
        let page = self.levels[at].node(lpid, at, 0..count, high);
        self.stage(lpid, page)?;
        let low = self.levels[at].drop_front(count, high);
        self.add(at + 1, &low, NodeValue::Page(lpid))
    }

    /// The next page.
    fn take(&mut self) -> Result<Lpid, EngineError> {
        if usize::from(self.next_page) == EXTENT_PAGES {
            let extent = self.committer.storage().extents().allocate_unpublished(self.tree.owner())?;
            let full = std::mem::replace(&mut self.bitmap, Allocation::empty(extent));
            let lpid = allocation::page_of(self.extents[self.extents.len() - 1]);
            self.add_extent(extent);
            self.next_page = 1;
            self.stage(lpid, full.freeze())?;
        }
        let page = self.next_page;
        self.next_page += 1;
        planted::unless(Planted::LoadedNotCounted, || self.bitmap.set(page, true));
        Ok(self.extents[self.extents.len() - 1].page(page))
    }

    fn add_extent(&mut self, extent: ExtentId) {
        // Frames of a dropped tree may be left of it.
        self.committer.heads().forget_pages(extent);
        self.extents.push(extent);
    }

    /// Puts a page in the batch, and sends that once it is large.
    fn stage(&mut self, lpid: Lpid, data: PageBuf) -> Result<(), EngineError> {
        let identity = self.committer.storage().store().identity();
        let bytes_max = BATCH_BYTES.min((identity.batch_bytes_max / 2) as usize);
        let pages_max = identity.batch_pages_max as usize / 2;
        let fits = self.batch_bytes + data.len() <= bytes_max && self.batch.writes.len() < pages_max;
        if !fits && !self.batch.writes.is_empty() {
            self.batch_bytes = 0;
            let sent = self.committer.storage().store().write(std::mem::take(&mut self.batch));
            if let Err(e) = sent {
                self.failed = Some(e.clone());
                return Err(e);
            }
        }
        self.batch_bytes += data.len() + 16;
        self.batch.writes.push(PageWrite { lpid, data, align: Align::Cell });
        Ok(())
    }
}

impl Drop for TreeLoad {
    fn drop(&mut self) {
        if !self.extents.is_empty() {
            self.committer.storage().extents().release_unpublished(std::mem::take(&mut self.extents));
        }
    }
}

/// The node of a level that is being filled.
#[derive(Default)]
struct Level {
    /// Its low fence.
    low: Vec<u8>,
    entries: Vec<Entry>,
    /// Keys and values.
    bytes: Vec<u8>,
    /// Bytes that they take in a node, where a value that is a page counts as its number. Common prefixes are counted.
    heap_bytes: usize,
}

struct Entry {
    /// Where in `bytes` the key begins, and where it ends.
    from: usize,
    key_end: usize,
    /// The page of the value. Without one the value follows the key.
    page: Option<Lpid>,
    end: usize,
}

impl Level {
    fn key(&self, i: usize) -> &[u8] {
        &self.bytes[self.entries[i].from..self.entries[i].key_end]
    }

    fn push(&mut self, key: &[u8], value: NodeValue<'_>) {
        let from = self.bytes.len();
        self.heap_bytes += key.len() + value_bytes(value);
        self.bytes.extend_from_slice(key);
        let page = match value {
            NodeValue::Page(lpid) => Some(lpid),
            NodeValue::Inline(value) => {
                self.bytes.extend_from_slice(value);
                None
            }
        };
        self.entries.push(Entry { from, key_end: from + key.len(), page, end: self.bytes.len() });
    }

    /// Bytes of the node with `more` bytes in `count` further entries, if it ends below a key.
    fn bytes_with(&self, more: usize, count: usize, high: Option<&[u8]>) -> usize {
        let prefix = high.map_or(0, |h| common_prefix(&self.low, h));
        let entries = self.entries.len() + count;
        let heap = self.heap_bytes + more;
        NODE_BYTES + self.low.len() + high.map_or(0, <[u8]>::len) + heap + entries * ENTRY_BYTES
            - (entries * prefix).min(heap)
    }

    /// Whether an entry no longer fits.
    fn is_full(&self, at: usize, key: &[u8], value: NodeValue<'_>, full_bytes: usize) -> bool {
        let more = key.len() + value_bytes(value);
        self.entries.len() >= least(at) && self.bytes_with(more, 1, Some(key)) > full_bytes
    }

    /// Whether the node, if it ends below `high`, is so much too long that its last entries must leave it.
    fn oversize(&self, at: usize, high: Option<&[u8]>, full_bytes: usize) -> bool {
        self.entries.len() >= 2 * least(at) && self.bytes_with(0, 0, high) > full_bytes + full_bytes / 4
    }

    /// Some of its entries as a node.
    fn node(
        &self,
        lpid: Lpid,
        level: usize,
        entries: std::ops::Range<usize>,
        high: Option<&[u8]>,
    ) -> PageBuf {
        let mut node = NodeMut::empty(lpid, level as u8, &self.low, high);
        for e in &self.entries[entries] {
            let value = match e.page {
                Some(lpid) => NodeValue::Page(lpid),
                None => NodeValue::Inline(&self.bytes[e.key_end..e.end]),
            };
            // The first key of an inner node stands for the low fence, and has no suffix.
            let key = match level > 0 && node.entries() == 0 {
                true => &self.low[..high.map_or(0, |h| common_prefix(&self.low, h))],
                false => &self.bytes[e.from..e.key_end],
            };
            node.put(key, value);
        }
        node.finish_exact()
    }

    /// Removes the first entries, which end below `high`; answers their low fence.
    fn drop_front(&mut self, count: usize, high: Option<&[u8]>) -> Vec<u8> {
        let gone = self.entries.get(count).map_or(self.bytes.len(), |e| e.from);
        self.bytes.drain(..gone);
        self.entries.drain(..count);
        self.heap_bytes = self.bytes.len();
        for e in &mut self.entries {
            self.heap_bytes += e.page.map_or(0, |_| size_of::<u64>());
            (e.from, e.key_end, e.end) = (e.from - gone, e.key_end - gone, e.end - gone);
        }
        std::mem::replace(&mut self.low, high.unwrap_or_default().to_vec())
    }
}

/// Bytes of a value in a node.
fn value_bytes(value: NodeValue<'_>) -> usize {
    match value {
        NodeValue::Inline(value) => value.len(),
        NodeValue::Page(_) => size_of::<u64>(),
    }
}

/// Fewest entries of a node.
fn least(level: usize) -> usize {
    if level > 0 { CHILDREN_MIN } else { 1 }
}
