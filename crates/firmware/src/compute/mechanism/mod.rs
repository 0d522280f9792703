//! What the drive can do with a page on the way to an answer: mechanisms, as members of a table.
//!
//! ```text
//!   program, answer ─► the members that the answer names, each compiled ─► Chain ─► a task runs it page by page
//!
//!   page ─► screens ─┬─ No: stays unread
//!                    └─ Maybe, Yes ─┬─ names: the host reads the page and filters
//!                                   └─ exact ─► rows that pass ─► hidden rows off ─┬─ rows
//!                                                                                  └─ fold ─► groups
//! ```
//!
//! What comes out of a page, by what was said of it:
//!
//! | screens | exact member | hidden | the page answers |
//! |---|---|---|---|
//! | No | is not asked | any | nothing, unread |
//! | Maybe or Yes | there is none | any | its name: something exact looks at it on the host |
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
mod page_index;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use lode_command::{CommandError, ScanUnit};
use lode_program::answer::Member;
use lode_program::{Meter, Passed, Program, Verdict};

use super::columns::{Fetch, PageColumns};
use super::{Located, PageAccess, PageCost};

pub(crate) use chain::{Chain, PageAnswer};

/// The mechanisms, in the order in which a page meets them.
pub(crate) static MECHANISMS: &[&dyn Mechanism] =
    &[&page_index::PageIndex, &filter::Filter, &aggregate::Aggregate];

/// A way to answer less than a page.
pub(crate) trait Mechanism: Sync {
    /// The name by which answers and levels of offload ask for it.
    fn member(&self) -> Member;

    /// What it does for a program; `None` when it can do nothing.
    fn compile(&self, p: &Arc<Program>) -> Option<Stage>;
}

/// A compiled mechanism, by what it may say.
pub(crate) enum Stage {
    /// May say Maybe.
    Screen(Box<dyn Screen>),
    /// Knows of each row.
    Exact(Box<dyn Exact>),
    /// Makes something else of the rows that pass.
    Fold(Box<dyn Fold>),
}

/// A page before its columns are read.
pub(crate) struct Page<'a> {
    /// Which.
    pub(crate) at: &'a Located,
    /// The drive: the index entry, and bytes of the page.
    pub(crate) access: &'a dyn PageAccess,
}

/// The columns of a page, read as they are needed.
pub(crate) type Columns<'a> = PageColumns<&'a mut Fetch<'a>>;

/// Says of a page, without reading its columns, whether rows of it can pass, or all do.
pub(crate) trait Screen: Send {
    /// No and Yes are certain.
    ///
    /// # Errors
    /// When what it looks at cannot be read.
    fn verdict(&self, page: &Page<'_>) -> Result<Verdict, CommandError>;

    /// Adds what asking it of a page costs.
    fn cost(&self, cost: &mut PageCost);
}

/// Says of each row whether it passes.
pub(crate) trait Exact: Send {
    /// The rows that pass, hidden or not.
    ///
    /// # Errors
    /// When the page cannot be read, or is not what the program names.
    fn passed(
        &self,
        at: &Located,
        columns: &mut Columns<'_>,
        meter: &mut Meter,
    ) -> Result<Passed, CommandError>;

    /// Adds what reading a page of `rows` rows and looking at them costs.
    fn cost(&self, rows: u64, cost: &mut PageCost);
}

/// Takes rows that pass, and answers something else now and then.
pub(crate) trait Fold: Send {
    /// Takes the rows of a page.
    ///
    /// # Errors
    /// When the page cannot be read, or a result has no room in its type. The fold is then of no use.
    fn take(
        &mut self,
        p: &Program,
        at: &Located,
        passed: &Passed,
        columns: &mut Columns<'_>,
        unit: &mut ScanUnit,
    ) -> Result<(), CommandError>;

    /// Whether there is something left to answer.
    fn holds(&self) -> bool;

    /// Answers what is left.
    fn end(&mut self, p: &Program, unit: &mut ScanUnit);

    /// Adds what taking `rows` rows costs.
    fn cost(&self, rows: u64, cost: &mut PageCost);
}
