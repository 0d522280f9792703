//! Reading a range of a tree in the order of its keys, or from the last to the first.
//!
//! ```text
//!   leaf: | .. | at ──► taken: values, looked up together | .. | end | beyond the range |
//! ```
//!
//! Values are taken some at a time, more each time as the cursor goes on: whoever reads but one key pays for one.

use std::ops::Bound;

use lode_page::Node;

use super::{Tree, Value};
use crate::{EngineError, Snapshot};

/// Values that are taken at a time, at most.
const TAKEN_MAX: usize = 32;
/// With more bytes than this at a time, fewer values are taken the next time.
const TAKEN_BYTES_MAX: usize = 256 << 10;

/// A position in a tree at a snapshot; [`Cursor::next`] moves it on.
pub struct Cursor {
    snapshot: Snapshot,
    tree: Tree,
    leaf: Option<Leaf>,
    end: Bound<Vec<u8>>,
    /// Values of the entries that come next, the last of them first.
    taken: Vec<Value>,
    /// How many values are taken the next time.
    next_taken: usize,
    key: Vec<u8>,
}

/// The leaf that the position is in.
struct Leaf {
    node: Node,
    /// The entry that comes next.
    at: usize,
    /// The first entry that is beyond the range.
    end: usize,
}

impl Cursor {
    pub(crate) fn new(
        snapshot: Snapshot,
        tree: Tree,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Result<Self, EngineError> {
        snapshot.check_tree(&tree)?;
        let from: &[u8] = match start {
            Bound::Included(k) | Bound::Excluded(k) => k,
            Bound::Unbounded => &[],
        };
        let node = snapshot.leaf_for(tree.root(), from)?;
        let at = match (node.find(from), start) {
            (Ok(i), Bound::Excluded(_)) => i + 1,
            (Ok(i) | Err(i), _) => i,
        };
        let end = end.map(<[u8]>::to_vec);
        let leaf = Some(Leaf { at, end: end_in(&node, &end), node });
        Ok(Self { snapshot, tree, leaf, end, taken: Vec::new(), next_taken: 1, key: Vec::new() })
    }

    /// The next key and its value; `None` after the last.
    ///
    /// # Errors
    /// When the drive fails; the cursor stays where it is.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], Value)>, EngineError> {
        loop {
            let Some(leaf) = &mut self.leaf else { return Ok(None) };
            if leaf.at < leaf.end {
                let value = match self.taken.pop() {
                    Some(value) => value,
                    None => {
                        let count = self.next_taken.min(leaf.end - leaf.at);
                        self.taken = self.snapshot.values_at(&leaf.node, leaf.at..leaf.at + count)?;
                        let bytes: usize = self.taken.iter().map(|v| v.len()).sum();
                        self.next_taken = match bytes > TAKEN_BYTES_MAX {
                            true => (count / 2).max(1),
                            false => (self.next_taken * 2).min(TAKEN_MAX),
                        };
                        self.taken.reverse();
                        self.taken.pop().expect("at least one was asked for")
                    }
                };
                leaf.node.read_key(leaf.at, &mut self.key);
                leaf.at += 1;
                return Ok(Some((&self.key, value)));
            }
            let ended = leaf.end < leaf.node.entries()
                || match (leaf.node.high(), &self.end) {
                    (None, _) => true,
                    (Some(_), Bound::Unbounded) => false,
                    (Some(high), Bound::Included(end)) => high > &end[..],
                    (Some(high), Bound::Excluded(end)) => high >= &end[..],
                };
            if ended {
                self.leaf = None;
                return Ok(None);
            }
            let high = leaf.node.high().expect("it was looked at").to_vec();
            let node = self.snapshot.leaf_for(self.tree.root(), &high)?;
            self.leaf = Some(Leaf { at: 0, end: end_in(&node, &self.end), node });
        }
    }
}

/// The first entry of a leaf that is beyond this end of a range.
fn end_in(leaf: &Node, end: &Bound<Vec<u8>>) -> usize {
    let (Bound::Included(key) | Bound::Excluded(key)) = end else { return leaf.entries() };
    if leaf.high().is_some_and(|high| high <= &key[..]) {
        return leaf.entries();
    }
    if &key[..] < leaf.low() {
        return 0;
    }
    match (leaf.find(key), end) {
        (Ok(i), Bound::Included(_)) => i + 1,
        (Ok(i) | Err(i), _) => i,
    }
}

/// A position in a tree at a snapshot, from which [`BackCursor::next`] moves towards the first key.
pub struct BackCursor {
    snapshot: Snapshot,
    tree: Tree,
    /// The leaf that the position is in, and the entry behind the one that comes next.
    leaf: Option<(Node, usize)>,
    start: Bound<Vec<u8>>,
    key: Vec<u8>,
}

impl BackCursor {
    pub(crate) fn new(
        snapshot: Snapshot,
        tree: Tree,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Result<Self, EngineError> {
        snapshot.check_tree(&tree)?;
        let (leaf, at) = match end {
            Bound::Unbounded => {
                let leaf = snapshot.leaf_before(tree.root(), None)?;
                let entries = leaf.entries();
                (leaf, entries)
            }
            Bound::Included(k) | Bound::Excluded(k) => {
                let leaf = snapshot.leaf_for(tree.root(), k)?;
                let at = match (leaf.find(k), end) {
                    (Ok(i), Bound::Included(_)) => i + 1,
                    (Ok(i) | Err(i), _) => i,
                };
                (leaf, at)
            }
        };
        Ok(Self { snapshot, tree, leaf: Some((leaf, at)), start: start.map(<[u8]>::to_vec), key: Vec::new() })
    }

    /// The next key towards the first, and its value; `None` behind it.
    ///
    /// # Errors
    /// When the drive fails; the cursor stays where it is.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], Value)>, EngineError> {
        loop {
            let Some((node, at)) = &mut self.leaf else { return Ok(None) };
            if *at > 0 {
                node.read_key(*at - 1, &mut self.key);
                let beyond = match &self.start {
                    Bound::Unbounded => false,
                    Bound::Included(start) => self.key < *start,
                    Bound::Excluded(start) => self.key <= *start,
                };
                if beyond {
                    self.leaf = None;
                    return Ok(None);
                }
                let value = self.snapshot.value_at(node, *at - 1)?;
                *at -= 1;
                return Ok(Some((&self.key, value)));
            }
            let low = node.low();
            let ended = low.is_empty()
                || match &self.start {
                    Bound::Unbounded => false,
                    Bound::Included(start) | Bound::Excluded(start) => low <= &start[..],
                };
            if ended {
                self.leaf = None;
                return Ok(None);
            }
            let before = self.snapshot.leaf_before(self.tree.root(), Some(low))?;
            let entries = before.entries();
            self.leaf = Some((before, entries));
        }
    }
}
