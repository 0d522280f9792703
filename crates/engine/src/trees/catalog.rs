//! The trees' part of the catalog. The rest of the catalog is carried along unread.
//!
//! ```text
//!   root page ─┬─ section "trees": number, name and root page of each tree
//!              └─ all other sections, and what the part above trees publishes with them
//! ```

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use lode_base::{Lpid, OwnerId, TableId};
use lode_command::PageWrite;

use super::redo::REDO_OWNER;
use super::tree::Tree;
use crate::EngineError;
use crate::storage::catalog::{Root, VERSION_PLAIN, root_lpid};

const SECTION: &str = "trees";
/// The version of a root with trees. A Lode that knows no trees would take their extents for orphans.
const VERSION_TREES: u8 = 2;
/// The version of a root with sections that older Lodes do not read, but would have to keep true.
const VERSION_SECTIONS: u8 = 7;

/// What the part of the engine above trees publishes together with them.
#[derive(Clone)]
pub(crate) struct Above(Arc<dyn Any + Send + Sync>);

impl Above {
    pub(crate) fn new(state: impl Any + Send + Sync) -> Self {
        Self(Arc::new(state))
    }
}

impl fmt::Debug for Above {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Above")
    }
}

/// The catalog at one commit.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    /// The root page, without the section of trees.
    root: Arc<Root>,
    /// By name.
    trees: Arc<BTreeMap<String, Tree>>,
    above: Above,
}

impl Catalog {
    /// The catalog of a root.
    pub(crate) fn decode(mut root: Root, above: Above) -> Result<Self, EngineError> {
        let bad = |what: String| EngineError::BadCatalog { lpid: root_lpid(), what };
        let listed: Vec<(u32, String, u64)> = root.section(SECTION)?.unwrap_or_default();
        root.sections.remove(SECTION);
        let mut trees: BTreeMap<String, Tree> = BTreeMap::new();
        for (id, name, page) in listed {
            let page = Lpid::from_raw(page).ok_or_else(|| bad(format!("page {page} is out of range")))?;
            if id == 0 || id >= root.next_owner || trees.values().any(|t| t.id().raw() == id) {
                return Err(bad(format!("tree \"{name}\" has the number {id}")));
            }
            let tree = Tree::new(TableId::new(id), name.clone(), page);
            if trees.insert(name.clone(), tree).is_some() {
                return Err(bad(format!("two trees are called \"{name}\"")));
            }
        }
        Ok(Self { root: Arc::new(root), trees: Arc::new(trees), above })
    }

    /// The tree of this name.
    pub(crate) fn tree(&self, name: &str) -> Option<&Tree> {
        self.trees.get(name)
    }

    /// The trees, by name.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.trees.values()
    }

    /// The owners of extents that trees and their redo have.
    pub(crate) fn tree_owners(&self) -> BTreeSet<OwnerId> {
        self.trees.values().map(Tree::owner).chain([REDO_OWNER]).collect()
    }

    /// Whether this is a tree of the catalog.
    pub(super) fn has_tree(&self, tree: &Tree) -> bool {
        self.trees.get(tree.name()).is_some_and(|t| t.is(tree))
    }

    /// What the root says beside the trees.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// What was published with the trees.
    ///
    /// # Panics
    /// When it is of another type.
    #[inline]
    pub(crate) fn above<T: Any>(&self) -> &T {
        self.above.0.downcast_ref().expect("one part of the engine lies above trees")
    }

    /// The same trees, with another root and another state of the part above.
    pub(crate) fn with_above(&self, root: Root, above: Above) -> Self {
        Self { root: Arc::new(root), trees: self.trees.clone(), above }
    }

    /// The same trees and the same root, with another state of the part above.
    pub(crate) fn showing(&self, above: Above) -> Self {
        Self { root: self.root.clone(), trees: self.trees.clone(), above }
    }

    pub(super) fn with_tree(&self, tree: &Tree) -> Self {
        let mut catalog = self.clone();
        let root = Arc::make_mut(&mut catalog.root);
        root.next_owner = root.next_owner.max(tree.id().raw() + 1);
        Arc::make_mut(&mut catalog.trees).insert(tree.name().into(), tree.clone());
        catalog
    }

    pub(super) fn without_tree(&self, tree: &Tree) -> Self {
        let mut catalog = self.clone();
        Arc::make_mut(&mut catalog.trees).remove(tree.name());
        catalog
    }

    /// The root page, if it differs from that of `old`.
    ///
    /// # Errors
    /// When it does not fit a page.
    pub(crate) fn root_page(
        &self,
        old: &Self,
        page_bytes_max: usize,
    ) -> Result<Option<PageWrite>, EngineError> {
        if self.root == old.root && self.trees == old.trees {
            return Ok(None);
        }
        let page = self.encode();
        if page.data.len() > page_bytes_max {
            let what = format!("the catalog takes {} bytes, a page holds {page_bytes_max}", page.data.len());
            return Err(EngineError::BadCatalog { lpid: page.lpid, what });
        }
        Ok(Some(page))
    }

    fn encode(&self) -> PageWrite {
        let version = match self.root.sections.len() > 1 {
            true => VERSION_SECTIONS,
            false if self.trees.is_empty() => VERSION_PLAIN,
            false => VERSION_TREES,
        };
        if self.trees.is_empty() {
            return self.root.encode(version);
        }
        let listed: Vec<(u32, &str, u64)> =
            self.trees.values().map(|t| (t.id().raw(), t.name(), t.root().raw())).collect();
        let section = serde_json::to_value(listed).expect("numbers and names can be written as JSON");
        let mut root = Root::clone(&self.root);
        root.sections.insert(SECTION.into(), section);
        root.encode(version)
    }
}
