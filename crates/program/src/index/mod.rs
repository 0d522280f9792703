//! The page index: a summary that the drive keeps for each page of a table, so that it can skip pages that cannot
//! match.
//!
//! ```text
//!   rule of a table     (kind, columns), (kind, columns), ...
//!   page written ────── IndexRule::entry ─► | rows | part of the first kind | part of the second | ...
//!   page scanned ────── verdict(program, rule, entry) ─► No: stays unread   Maybe: is read   Yes: every row passes
//!   table planned ───── IndexRule::bounds(entry, column) ─► least and greatest key, whether there is a NULL
//! ```
//!
//! A kind is one file here and one line in [`KINDS`]; `docs/extending.md` explains it, and `examples/index_kind.rs`
//! is an example. Elsewhere an entry is only bytes, whose length its rule knows.
//!
//! Source: FLIXR's page index; the entry travels with the mapping of the page's version.

pub mod bitmap;
pub mod bloom;
mod entry;
mod filter;
mod filter_kind;
mod index_kind;
mod keys;
mod leaf;
mod order;
mod part;
pub mod prefix;
pub mod range;
mod rule;
pub mod trigram;
mod unread;
mod values;
mod verdict;

pub use entry::{ENTRY_BYTES_MAX, HEADER_BYTES as ENTRY_HEADER_BYTES, IndexEntry, SHORT_ENTRY_BYTES_MAX};
pub use filter_kind::FilterKind;
pub use index_kind::{Bounds, IndexKind};
pub use leaf::{Leaf, Outcomes};
pub use order::Ascending;
pub use part::{EntryPart, KeptColumn, PartColumn, kept};
pub use rule::{EntryForm, INDEX_COLUMNS_MAX, IndexRule, KindColumns};
pub use unread::take_entry;
pub use verdict::{covers, may_match, metered_verdict, verdict};

/// The kinds of index, by ascending id.
pub static KINDS: &[&dyn IndexKind] =
    &[&range::WIDE_RANGE, &range::RANGE, &prefix::Prefix, &bitmap::Bitmap, &bloom::BLOOM, &trigram::TRIGRAM];

/// The kind with this id.
pub fn kind(id: u8) -> Option<&'static dyn IndexKind> {
    KINDS.iter().find(|k| k.id() == id).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_ascend_by_id_and_have_names_of_their_own() {
        assert!(KINDS.windows(2).all(|k| k[0].id() < k[1].id()));
        for k in KINDS {
            assert_eq!(KINDS.iter().filter(|o| o.name() == k.name()).count(), 1);
            assert_eq!(kind(k.id()).map(|k| k.name()), Some(k.name()));
        }
        // Ids on existing images must not change.
        let names = ["wide range", "range", "prefix", "bitmap", "bloom", "trigram"];
        for (id, name) in (1..).zip(names) {
            assert_eq!(kind(id).map(|k| k.name()), Some(name));
        }
        assert!(kind(0).is_none());
    }
}
