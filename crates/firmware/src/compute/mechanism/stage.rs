//! What a mechanism is, and what it may say of a page.

use std::sync::Arc;

use lode_base::PageBuf;
use lode_command::{CommandError, ScanUnit};
use lode_program::answer::Member;
use lode_program::{Matcher, Meter, Passed, Program, Verdict};

use crate::compute::columns::{Fetch, PageColumns};
use crate::compute::{Located, PageAccess, PageCost};

/// A way to answer less than a page.
pub(crate) trait Mechanism: Sync {
    /// The name by which answers and levels of offload ask for it.
    fn member(&self) -> Member;

    /// What it does for a task; `None` when it can do nothing.
    fn compile(&self, asked: &Asked) -> Option<Stage>;
}

/// What a task asks of its pages.
#[derive(Clone)]
pub(crate) struct Asked {
    /// The filter, and the projection or aggregation.
    pub(crate) program: Arc<Program>,
    /// Keys of pages that have rows which pass.
    pub(crate) matcher: Option<Arc<Matcher>>,
    /// Whether the page index may answer.
    pub(crate) by_index: bool,
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
    fn verdict(&self, page: &Page<'_>) -> Result<Looked, CommandError>;

    /// Adds what it cost to say this of a page.
    fn cost(&self, looked: &Looked, page: &Page<'_>, cost: &mut PageCost);
}

/// What a screen said of a page.
pub(crate) struct Looked {
    /// Whether rows pass.
    pub(crate) verdict: Verdict,
    /// The whole page, if the screen read it, and how many bytes that took from the medium.
    pub(crate) read: Option<(PageBuf, u64)>,
    /// Keys of the page's index entry that it compared; of a page without one, 1.
    pub(crate) keys_compared: u64,
}

impl Looked {
    /// A verdict on a page that stays unread.
    pub(crate) fn unread(verdict: Verdict, keys_compared: u64) -> Self {
        Self { verdict, read: None, keys_compared }
    }
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

    /// Takes all rows of a page, which pass, without reading it. Returns how many they are; `None`, with none taken, if the page has to be
    /// read.
    ///
    /// # Errors
    /// When the page's index entry cannot be read.
    fn take_unread(&mut self, p: &Program, page: &Page<'_>) -> Result<Option<u64>, CommandError> {
        let _ = (p, page);
        Ok(None)
    }

    /// Whether there is something left to answer.
    fn holds(&self) -> bool;

    /// Answers what is left.
    fn end(&mut self, p: &Program, unit: &mut ScanUnit);

    /// Adds what taking `rows` rows costs.
    fn cost(&self, rows: u64, cost: &mut PageCost);
}
