//! What entries of B+-tree indexes name, and the bytes that it takes behind the values.

use serde::{Deserialize, Serialize};

use crate::trees::KEY_BYTES_MAX;

/// Bytes of the number of a page, with which each entry ends.
pub(super) const PAGE_BYTES: usize = 8;
const SLOT_BYTES: usize = 4;

/// What entries of a B+-tree index name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryOf {
    /// A page. Rows of a page with the same values have one entry.
    #[default]
    Pages,
    /// A row: its page, and its place in it.
    Rows,
}

impl EntryOf {
    pub(super) fn are_usual(&self) -> bool {
        *self == Self::Pages
    }

    /// Bytes of what an entry names, behind its values.
    pub(super) const fn address_bytes(self) -> usize {
        match self {
            Self::Pages => PAGE_BYTES,
            Self::Rows => SLOT_BYTES + PAGE_BYTES,
        }
    }

    /// The most bytes of values in an entry.
    pub(super) const fn value_bytes_max(self) -> usize {
        KEY_BYTES_MAX - self.address_bytes()
    }
}
