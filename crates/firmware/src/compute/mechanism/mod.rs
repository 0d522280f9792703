//! What the drive can do with a page on the way to an answer: mechanisms, as members of a table.
//!
//! ```text
//!   program, answer ─► the members that the answer names, each compiled ─► Chain ─► a task runs it page by page
//!
//!   page ─► screens ─┬─ No: stays unread, or is dropped as it is read
//!                    └─ Maybe, Yes ─┬─ names, hints: the host reads the page and filters
//!                                   └─ exact ─► rows that pass ─► hidden rows off ─┬─ rows
//!                                                                                  └─ fold ─► groups
//! ```
//!
//! What comes out of a page, by what was said of it:
//!
//! | screens | exact member | hidden | the page answers |
//! |---|---|---|---|
//! | No | is not asked | any | nothing; of hints, a 0 |
//! | Maybe or Yes | there is none | any | its name or a 1: something exact looks at it on the host |
//! | Maybe or Yes | is asked for a hint | any | a 1, if a row passes and is not hidden; without a filter a 1, unread |
//! | Maybe | no row | any | nothing |
//! | Maybe | some rows | none | those rows |
//! | Maybe | some rows | some | those rows without the hidden ones, which may be none |
//! | Yes | every row (debug builds assert it) | none | every row |
//! | Yes | every row | some | every row but the hidden ones |
//!
//! A Yes is about rows, never about how many there are: a count takes them after the hidden ones are off. A Yes of the page
//! index does not spare the filter its columns: each page that is read is filtered, and is charged for that.
//!
//! Invariants: rows and groups come out of an exact member ([`Chain::of`] refuses a chain without one), so what a screen
//! lets through by mistake costs time and no answer; where the work is done is the task's ([`crate::ScanPlacement`]), and
//! the function is the same.
//!
//! A mechanism is one file here, one line in [`MECHANISMS`], one name in [`Member`]; `docs/extending.md` tells how.
//! Source: FLIXR (page index), YourSQL (chain of ever more exact filters), ISP (scan and aggregate).

mod aggregate;
mod chain;
mod filter;
mod matcher;
mod page_index;
mod stage;
#[cfg(test)]
mod tests;

pub(crate) use chain::{Chain, PageAnswer};
pub(crate) use stage::{Asked, Columns, Exact, Fold, Looked, Mechanism, Page, Screen, Stage};

/// The mechanisms, in the order in which a page meets them.
pub(crate) static MECHANISMS: &[&dyn Mechanism] =
    &[&page_index::PageIndex, &matcher::PatternMatcher, &filter::Filter, &aggregate::Aggregate];
