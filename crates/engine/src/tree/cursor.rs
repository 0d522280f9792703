//! Reading a range of a tree in the order of its keys.

use std::ops::Bound;

use lode_page::Node;

use super::{Tree, Value};
use crate::{EngineError, Snapshot};

/// A position in a tree at a snapshot; [`Cursor::next`] moves it on.
pub struct Cursor {
    snapshot: Snapshot,
    tree: Tree,
    /// The leaf that the position is in, and the entry that comes next.
    leaf: Option<(Node, usize)>,
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
        let at = match (leaf.find(from), start) {
            (Ok(i), Bound::Excluded(_)) => i + 1,
            (Ok(i) | Err(i), _) => i,
        };
        let end = end.map(<[u8]>::to_vec);
        let mut cursor = Self { snapshot, tree, leaf: None, end, leaf_within: false, key: Vec::new() };
        cursor.enter(leaf, at);
        Ok(cursor)
    }

    fn enter(&mut self, leaf: Node, at: usize) {
        let high = leaf.high();
        self.leaf_within = match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) | Bound::Excluded(end) => high.is_some_and(|h| h <= &end[..]),
        };
        self.leaf = Some((leaf, at));
    }

    /// The next key and its value; `None` after the last.
    ///
    /// # Errors
    /// When the drive fails; the cursor stays where it is.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], Value)>, EngineError> {
        loop {
            let Some((node, at)) = &self.leaf else { return Ok(None) };
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
            self.enter(next, 0);
        }
    }
}
