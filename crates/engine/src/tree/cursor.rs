//! Reading a range of a tree in the order of its keys, or from the last to the first.

use std::ops::Bound;
use std::sync::Arc;

use super::frames::Frame;
use super::read::node_of;
use super::{Tree, Value};
use crate::{EngineError, Snapshot};

/// A position in a tree at a snapshot; [`Cursor::next`] moves it on.
pub struct Cursor {
    snapshot: Snapshot,
    tree: Tree,
    /// The leaf that the position is in, and the entry that comes next.
    leaf: Option<(Arc<Frame>, usize)>,
    end: Bound<Vec<u8>>,
    /// Whether every key of the leaf is within the range.
    leaf_within: bool,
    key: Vec<u8>,
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
        let leaf = snapshot.leaf_for(tree.root(), from)?;
        let at = match (node_of(&leaf)?.find(from), start) {
            (Ok(i), Bound::Excluded(_)) => i + 1,
            (Ok(i) | Err(i), _) => i,
        };
        let end = end.map(<[u8]>::to_vec);
        let mut cursor = Self { snapshot, tree, leaf: None, end, leaf_within: false, key: Vec::new() };
        cursor.enter(leaf, at)?;
        Ok(cursor)
    }

    fn enter(&mut self, leaf: Arc<Frame>, at: usize) -> Result<(), EngineError> {
        let high = node_of(&leaf)?.high();
        self.leaf_within = match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) | Bound::Excluded(end) => high.is_some_and(|h| h <= &end[..]),
        };
        self.leaf = Some((leaf, at));
        Ok(())
    }

    /// The next key and its value; `None` after the last.
    ///
    /// # Errors
    /// When the drive fails; the cursor stays where it is.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], Value)>, EngineError> {
        loop {
            let Some((leaf, at)) = &self.leaf else { return Ok(None) };
            let node = node_of(leaf)?;
            if *at < node.entries() {
                node.read_key(*at, &mut self.key);
                let beyond = !self.leaf_within
                    && match &self.end {
                        Bound::Unbounded => false,
                        Bound::Included(end) => self.key > *end,
                        Bound::Excluded(end) => self.key >= *end,
                    };
                if beyond {
                    self.leaf = None;
                    return Ok(None);
                }
                let value = self.snapshot.value_at(node, *at)?;
                if let Some((_, at)) = &mut self.leaf {
                    *at += 1;
                }
                return Ok(Some((&self.key, value)));
            }
            let ended = match (node.high(), &self.end) {
                (None, _) => true,
                (Some(_), Bound::Unbounded) => false,
                (Some(high), Bound::Included(end)) => high > &end[..],
                (Some(high), Bound::Excluded(end)) => high >= &end[..],
            };
            if ended {
                self.leaf = None;
                return Ok(None);
            }
            let high = node.high().expect("it was looked at").to_vec();
            let next = self.snapshot.leaf_for(self.tree.root(), &high)?;
            self.enter(next, 0)?;
        }
    }
}

/// A position in a tree at a snapshot, from which [`BackCursor::next`] moves towards the first key.
pub struct BackCursor {
    snapshot: Snapshot,
    tree: Tree,
    /// The leaf that the position is in, and the entry behind the one that comes next.
    leaf: Option<(Arc<Frame>, usize)>,
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
                let entries = node_of(&leaf)?.entries();
                (leaf, entries)
            }
            Bound::Included(k) | Bound::Excluded(k) => {
                let leaf = snapshot.leaf_for(tree.root(), k)?;
                let at = match (node_of(&leaf)?.find(k), end) {
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
            let Some((leaf, at)) = &mut self.leaf else { return Ok(None) };
            let node = node_of(leaf)?;
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
            let entries = node_of(&before)?.entries();
            self.leaf = Some((before, entries));
        }
    }
}
