//! What can be said of rows before, or without, looking at each.

/// What a filter, an index or a pattern matcher says of a page, or of rows.
///
/// It speaks of rows, never of how many there are: rows that a task hides come off afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Certainly none of them passes.
    No,
    /// Nothing is certain: each must be looked at by something exact.
    Maybe,
    /// Certainly each of them passes.
    Yes,
}
