//! The page index: what is kept of the page decides, and the page stays unread.
//!
//! A table's columns may be added after its rule was registered: entries stay good for the columns that the rule knows.
//! Invariant: a page without an index entry, or with an entry made for a schema that does not agree with the program's, is a Maybe.

use std::sync::Arc;

use lode_command::CommandError;
use lode_program::answer::Member;
use lode_program::index::metered_verdict;
use lode_program::{Program, Verdict};

use super::{Asked, Looked, Mechanism, Page, Screen, Stage};
use crate::compute::PageCost;

/// The member of the table.
pub(super) struct PageIndex;

struct Compiled {
    program: Arc<Program>,
}

impl Mechanism for PageIndex {
    fn member(&self) -> Member {
        Member::PageIndex
    }

    /// Declines a program without a filter: every page has rows that pass.
    fn compile(&self, asked: &Asked) -> Option<Stage> {
        let p = &asked.program;
        p.filter().is_some().then(|| Stage::Screen(Box::new(Compiled { program: p.clone() })))
    }
}

impl Screen for Compiled {
    fn verdict(&self, page: &Page<'_>) -> Result<Looked, CommandError> {
        let (verdict, keys_compared) = match page.access.index_entry(page.at)? {
            Some((rule, entry)) => metered_verdict(&self.program, &rule, &entry),
            None => (Verdict::Maybe, 1),
        };
        Ok(Looked::unread(verdict, keys_compared))
    }

    fn cost(&self, looked: &Looked, _: &Page<'_>, cost: &mut PageCost) {
        cost.keys_compared += looked.keys_compared;
    }
}
