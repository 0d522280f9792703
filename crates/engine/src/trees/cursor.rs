//! Reading a range of a tree in the order of its keys, or against it.
//!
//! ```text
//!   leaf: | not in the range | left: first .. ──► taken: values, looked up together .. last | not in the range |
//!                              forward: from the first on                   backward: from the last on
//! ```
//!
//! Values are taken several at a time, twice as many each time. So a caller that reads one key pays for one.

use std::ops::{Bound, Range};

use lode_base::prefetch::prefetch_bytes;
use lode_page::Node;

use super::snapshot::Snapshot;
use super::tree::{Tree, Value};
use crate::EngineError;

/// Values that are taken at a time, at most.
const TAKEN_MAX: usize = 32;
/// After more bytes than this, half as many values are taken the next time.
const TAKEN_BYTES_MAX: usize = 256 << 10;

/// Bytes of the next value that are prefetched while the reader is at the value before it.
const PREFETCHED_BYTES: usize = 2048;

/// Which way a range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// From the first key on.
    Forward,
    /// From the last key on.
    Backward,
}

/// A position in a tree at a snapshot; [`Cursor::next`] moves it on.
pub struct Cursor {
    snapshot: Snapshot,
    tree: Tree,
    order: Order,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    leaf: Option<Leaf>,
    /// Values of the next entries, in reverse.
    taken: Vec<Value>,
    /// How many values are taken the next time.
    next_taken: usize,
    key: Vec<u8>,
}

/// The leaf that the position is in.
struct Leaf {
    node: Node,
    /// Its entries in the range that were not read yet.
    left: Range<usize>,
}

impl Snapshot {
    /// The keys within bounds, in their order.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn range(&self, tree: &Tree, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Result<Cursor, EngineError> {
        Cursor::new(self.clone(), tree.clone(), start, end, Order::Forward)
    }

    /// The leaves that have the keys within bounds, in their order. `each` is called with each leaf and the entries within the bounds.
    ///
    /// # Errors
    /// As [`Snapshot::get`], and those of `each`.
    pub(crate) fn each_leaf(
        &self,
        tree: &Tree,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        mut each: impl FnMut(&Node, Range<usize>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut cursor = self.range(tree, start, end)?;
        while let Some(Leaf { node, left }) = &cursor.leaf {
            each(node, left.clone())?;
            let next = cursor.next_leaf()?;
            cursor.leaf = None;
            if let Some(node) = next {
                cursor.enter(node);
            }
        }
        Ok(())
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
}

impl Cursor {
    pub(super) fn new(
        snapshot: Snapshot,
        tree: Tree,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        order: Order,
    ) -> Result<Self, EngineError> {
        snapshot.check_tree(&tree)?;
        let node = match (order, start, end) {
            (Order::Forward, Bound::Included(k) | Bound::Excluded(k), _)
            | (Order::Backward, _, Bound::Included(k) | Bound::Excluded(k)) => {
                snapshot.leaf_for(tree.root(), k)?
            }
            (Order::Forward, Bound::Unbounded, _) => snapshot.leaf_for(tree.root(), &[])?,
            (Order::Backward, _, Bound::Unbounded) => snapshot.last_leaf(tree.root())?,
        };
        let (start, end) = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        let (taken, key) = (Vec::new(), Vec::new());
        let mut cursor = Self { snapshot, tree, order, start, end, leaf: None, taken, next_taken: 1, key };
        cursor.enter(node);
        Ok(cursor)
    }

    fn enter(&mut self, node: Node) {
        let first = match &self.start {
            Bound::Unbounded => 0,
            Bound::Included(k) => place(&node, k, false),
            Bound::Excluded(k) => place(&node, k, true),
        };
        let behind = match &self.end {
            Bound::Unbounded => node.entries(),
            Bound::Included(k) => place(&node, k, true),
            Bound::Excluded(k) => place(&node, k, false),
        };
        self.leaf = Some(Leaf { node, left: first..behind.max(first) });
    }

    /// The next key and its value; `None` after the last.
    ///
    /// # Errors
    /// When the drive fails. The cursor stays where it is.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], Value)>, EngineError> {
        loop {
            let Some(leaf) = &mut self.leaf else { return Ok(None) };
            if leaf.left.is_empty() {
                let next = self.next_leaf()?;
                self.leaf = None;
                if let Some(node) = next {
                    self.enter(node);
                }
                continue;
            }
            let value = match self.taken.pop() {
                Some(value) => value,
                None => {
                    let left = leaf.left.clone();
                    let next = |count| match self.order {
                        Order::Forward => left.start..left.start + count,
                        Order::Backward => left.end - count..left.end,
                    };
                    let mut count = self.next_taken.min(left.len());
                    let mut taken = self.snapshot.values_at(&leaf.node, next(count));
                    if taken.is_err() && count > 1 {
                        // The values before a page that cannot be read can be read.
                        count = 1;
                        self.next_taken = 1;
                        taken = self.snapshot.values_at(&leaf.node, next(count));
                    }
                    self.taken = taken?;
                    if self.order == Order::Forward {
                        self.taken.reverse();
                    }
                    let bytes: usize = self.taken.iter().map(|v| v.len()).sum();
                    self.next_taken = match bytes > TAKEN_BYTES_MAX {
                        true => (count / 2).max(1),
                        false => (self.next_taken * 2).min(TAKEN_MAX),
                    };
                    self.taken.pop().expect("at least one was asked for")
                }
            };
            let at = match self.order {
                Order::Forward => leaf.left.next(),
                Order::Backward => leaf.left.next_back(),
            };
            leaf.node.read_key(at.expect("some are left"), &mut self.key);
            // The next value comes from memory while the reader is at this one.
            if let Some(next) = self.taken.last() {
                prefetch_bytes(&next[..next.len().min(PREFETCHED_BYTES)]);
            }
            return Ok(Some((&self.key, value)));
        }
    }

    /// The leaf after the current one, unless the range ends before it.
    fn next_leaf(&self) -> Result<Option<Node>, EngineError> {
        let Some(Leaf { node, .. }) = &self.leaf else { return Ok(None) };
        match self.order {
            Order::Forward => {
                let within = |high: &&[u8]| match &self.end {
                    Bound::Unbounded => true,
                    Bound::Included(end) => *high <= &end[..],
                    Bound::Excluded(end) => *high < &end[..],
                };
                let Some(high) = node.high().filter(within) else { return Ok(None) };
                let next = self.snapshot.leaf_for(self.tree.root(), high)?;
                // In a damaged tree the way could lead back again and again.
                let goes_on = next.high().is_none_or(|end| end > high);
                if goes_on { Ok(Some(next)) } else { Err(leads_back(&next)) }
            }
            Order::Backward => {
                let low = node.low();
                let within = match &self.start {
                    Bound::Unbounded => !low.is_empty(),
                    Bound::Included(start) | Bound::Excluded(start) => low > &start[..],
                };
                if !within {
                    return Ok(None);
                }
                let next = self.snapshot.leaf_before(self.tree.root(), low)?;
                if next.low() < low { Ok(Some(next)) } else { Err(leads_back(&next)) }
            }
        }
    }
}

fn leads_back(leaf: &Node) -> EngineError {
    let what = "its keys are not behind those of the leaf that led to it".into();
    EngineError::BadTreePage { lpid: leaf.lpid(), what }
}

/// How many entries of a leaf are before a key, or with `with` at most the key.
fn place(leaf: &Node, key: &[u8], with: bool) -> usize {
    if key < leaf.low() {
        return 0;
    }
    if leaf.high().is_some_and(|high| high <= key) {
        return leaf.entries();
    }
    match leaf.find(key) {
        Ok(i) => i + usize::from(with),
        Err(i) => i,
    }
}
