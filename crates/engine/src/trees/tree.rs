//! What names a tree, its commits and its entries.

use std::fmt;
use std::sync::Arc;

use lode_base::{Lpid, OwnerId, PageBuf, TableId};

/// Longest key of a tree.
pub const KEY_BYTES_MAX: usize = 1024;

/// The number of a commit to trees: each is greater than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Csn(u64);

impl Csn {
    /// The one with this number.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// Its number.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Csn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A tree of the catalog. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    inner: Arc<TreeInfo>,
}

#[derive(Debug, PartialEq, Eq)]
struct TreeInfo {
    id: TableId,
    name: String,
    root: Lpid,
}

impl Tree {
    pub(crate) fn new(id: TableId, name: String, root: Lpid) -> Self {
        Self { inner: Arc::new(TreeInfo { id, name, root }) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its number, which is never used again.
    pub fn id(&self) -> TableId {
        self.inner.id
    }

    /// The owner of its extents.
    pub(crate) fn owner(&self) -> OwnerId {
        self.inner.id.into()
    }

    /// The page of its root. It stays the same for as long as the tree lives.
    pub(super) fn root(&self) -> Lpid {
        self.inner.root
    }

    /// Whether both are the same tree.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self == other
    }
}

/// A value: it shares the bytes of the page that it was read from.
pub type Value = PageBuf;

/// A key as a message shows it.
pub(super) fn shown(key: &[u8]) -> String {
    const SHOWN_MAX: usize = 32;
    let dots = if key.len() > SHOWN_MAX { "..." } else { "" };
    let key = &key[..key.len().min(SHOWN_MAX)];
    match std::str::from_utf8(key) {
        Ok(s) if !s.chars().any(char::is_control) => format!("'{s}{dots}'"),
        _ => {
            let hex: String = key.iter().map(|b| format!("{b:02x}")).collect();
            format!("\\x{hex}{dots}")
        }
    }
}
