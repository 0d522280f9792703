//! What a kind of index is.

use lode_page::{Column, DataType};

use super::leaf::{Leaf, Outcomes};
use super::part::{EntryPart, PartColumn};

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

    /// Checks what a rule says of a column of type `t` ([`KeptColumn::form`]).
    ///
    /// # Errors
    /// What is wrong.
    fn check_form(&self, t: DataType, form: &[u8]) -> Result<(), &'static str> {
        let _ = t;
        if form.is_empty() { Ok(()) } else { Err("its columns have no form") }
    }

    /// Bytes that lie before those of the columns, in the part of so many columns.
    fn header_bytes(&self, columns: usize) -> usize {
        let _ = columns;
        0
    }

    /// Bytes of a column of this type and form, which passed the check.
    fn column_bytes(&self, t: DataType, form: &[u8]) -> usize;

    /// Appends the kind's part of the entry of a page with these columns. `kept`: what the rule says of each.
    fn build(&self, kept: &[PartColumn], columns: &[Column], out: &mut Vec<u8>);

    /// Checks for bytes that [`IndexKind::build`] never makes.
    ///
    /// # Errors
    /// The position of the first such byte, from the start of the part.
    fn check(&self, part: &EntryPart<'_>) -> Result<(), usize>;

    /// Widens `union`, the part of an entry for several pages, so that it excludes nothing that `part` does not exclude. The union was one
    /// page's part at first. It may exclude less than an entry made of all rows.
    fn widen(&self, union: &mut [u8], part: &EntryPart<'_>);

    /// The outcomes that a predicate without AND, OR or NOT can have on the rows of the page. Nothing is known about
    /// columns that the part does not summarize.
    fn outcomes(&self, part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Outcomes;

    /// Compares a stored part with `own`, which is built from the page's rows. Returns the first column (its index in the
    /// part) for which `part` is wrong: it excludes a value or a NULL that occurs in the page. A part that is less tight
    /// than `own` is right.
    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize>;

    /// Bounds of the values of the column at `place` of the part, for the planner. `None`: the kind has none, for no page.
    fn bounds(&self, part: &EntryPart<'_>, place: usize) -> Option<Bounds> {
        let _ = (part, place);
        None
    }

    /// Whether the kind has [`bounds`](Self::bounds).
    fn has_bounds(&self) -> bool {
        false
    }

    /// Whether the ends of the bounds are always keys of values that occur in the page.
    fn is_tight(&self) -> bool {
        false
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
