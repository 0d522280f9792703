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

mod entry;
mod leaf;
pub mod range;
mod rule;
mod verdict;

use lode_page::{Column, DataType};

pub use entry::{ENTRY_BYTES_MAX, IndexEntry};
pub use leaf::{Leaf, Outcomes};
pub use rule::{INDEX_COLUMNS_MAX, IndexRule, KindColumns};
pub use verdict::{covers, may_match, verdict};

/// The kinds of index, by ascending id.
pub static KINDS: &[&dyn IndexKind] = &[&range::Range];

/// A way to summarize in few bytes which values the columns of a page have.
///
/// An entry may be imprecise, but only to one side: it never excludes an outcome, a value or a NULL that some row of the page has. The
/// bytes of an entry may come from a damaged medium or a hostile peer. A kind must not panic for any bytes of the
/// right length.
pub trait IndexKind: Sync {
    /// The kind's number on the medium. It never changes.
    fn id(&self) -> u8;

    /// The kind's name in messages.
    fn name(&self) -> &'static str;

    /// Whether the kind can summarize columns of type `t`.
    fn keeps(&self, t: DataType) -> bool;

    /// Bytes of the part of an entry that summarizes columns of these types.
    fn entry_bytes(&self, types: &[DataType]) -> usize;

    /// Appends the kind's part of the entry of a page with these columns: [`IndexKind::entry_bytes`] bytes.
    fn build(&self, columns: &[Column], out: &mut Vec<u8>);

    /// Checks for bytes that [`IndexKind::build`] never makes.
    ///
    /// # Errors
    /// The position of the first such byte, from the start of the part.
    fn check(&self, part: &EntryPart<'_>) -> Result<(), usize>;

    /// The outcomes that a predicate without AND, OR or NOT can have on the rows of the page. Nothing is known about
    /// columns that the part does not summarize.
    fn outcomes(&self, part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Outcomes;

    /// Compares a stored part with `own`, which is built from the page's rows. Returns the first column (its index in the
    /// part) for which `part` is wrong: it excludes a value or a NULL that occurs in the page. A part that is less tight
    /// than `own` is right.
    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize>;

    /// Bounds of the values of the column at `place` of the part, for the planner; `None` if nothing is known.
    fn bounds(&self, part: &EntryPart<'_>, place: usize) -> Option<Bounds> {
        let _ = (part, place);
        None
    }
}

/// The part of one kind in the entry of one page.
#[derive(Clone, Copy, Debug)]
pub struct EntryPart<'a> {
    /// Rows of the page.
    pub rows: u32,
    /// The summarized columns.
    pub columns: &'a [u16],
    /// Their types.
    pub types: &'a [DataType],
    /// The part of the entry.
    pub bytes: &'a [u8],
}

impl EntryPart<'_> {
    /// The index of a column of type `t` in the part, if the part summarizes it.
    pub fn place(&self, column: u16, t: DataType) -> Option<usize> {
        let place = self.columns.iter().position(|&c| c == column)?;
        (self.types[place] == t).then_some(place)
    }
}

/// Bounds of the values of a column in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Order keys ([`crate::key_of`]) that enclose all values; `None` if all are NULL.
    pub keys: Option<(u64, u64)>,
    /// Whether a NULL is possible.
    pub has_nulls: bool,
}

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
        assert_eq!(kind(1).map(|k| k.name()), Some("range"));
        assert!(kind(0).is_none());
    }
}
