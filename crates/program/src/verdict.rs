//! What is known about rows before each of them is evaluated.

/// The verdict of a filter, an index or a pattern matcher on the rows of a page.
///
/// It says nothing about the number of rows that come out: rows that a task hides are removed afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Certainly none of them passes.
    No,
    /// Nothing is certain: an exact filter must evaluate each row.
    Maybe,
    /// Certainly each of them passes.
    Yes,
}
