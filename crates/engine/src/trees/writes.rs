//! What transactions write to trees, on its way to a commit.

use std::collections::BTreeMap;

use super::page::value::Written;
use super::tree::{Tree, shown};

/// Writes to one tree, by key; `None` deletes.
#[derive(Clone, Debug)]
pub(crate) struct TreeWrites {
    pub(super) tree: Tree,
    pub(super) keys: BTreeMap<Vec<u8>, Option<Written>>,
    /// Keys that are deleted only if they have these values when the commit is carried out.
    pub(super) only_if: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl TreeWrites {
    /// No writes yet.
    pub(crate) fn new(tree: Tree) -> Self {
        Self { tree, keys: BTreeMap::new(), only_if: BTreeMap::new() }
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Sets the value of a key.
    pub(crate) fn put(&mut self, key: Vec<u8>, value: &[u8]) {
        self.keys.insert(key, Some(Written::new(value)));
    }

    /// Deletes a key.
    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        self.keys.insert(key, None);
    }

    /// Deletes a key if it has this value when the commit is carried out.
    pub(crate) fn delete_if(&mut self, key: Vec<u8>, value: &[u8]) {
        self.only_if.insert(key.clone(), value.to_vec());
        self.keys.insert(key, None);
    }

    /// The tree, and the keys, and whether each gets a value.
    pub(crate) fn into_keys(self) -> (Tree, impl Iterator<Item = (Vec<u8>, bool)>) {
        (self.tree, self.keys.into_iter().map(|(key, value)| (key, value.is_some())))
    }
}

/// The `i`-th key of some writes, for a message.
pub(super) fn nth_shown(writes: &[TreeWrites], i: usize) -> String {
    let mut all = writes.iter().flat_map(|w| w.keys.keys().map(move |k| (&w.tree, k)));
    let (tree, key) = all.nth(i).expect("there is such a key");
    format!("tree \"{}\", key {}", tree.name(), shown(key))
}
