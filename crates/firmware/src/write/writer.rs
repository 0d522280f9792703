//! Who writes: carries out batches, allocations, and changes of sessions.

use lode_base::{Lpid, PageBuf};
use lode_command::CommandError;
use lode_flash::Medium;
use lode_program::{IndexEntry, IndexRule};
use parking_lot::MutexGuard;

use crate::append::Appender;
use crate::commit::{CommitState, Committer};
use crate::compute::entry_of;
use crate::env::Env;
use crate::pages::Pages;
use crate::upkeep::Upkeep;

/// Changes what the drive holds.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    upkeep: Upkeep<'a>,
}

impl<'a> Writer<'a> {
    #[inline]
    pub(crate) fn new(upkeep: Upkeep<'a>) -> Self {
        Self { upkeep }
    }

    #[inline]
    pub(super) fn upkeep(self) -> Upkeep<'a> {
        self.upkeep
    }

    #[inline]
    pub(super) fn appender(self) -> Appender<'a> {
        self.upkeep.appender()
    }

    #[inline]
    pub(super) fn committer(self) -> Committer<'a> {
        self.upkeep.committer()
    }

    #[inline]
    pub(super) fn env(self) -> &'a Env {
        self.upkeep.env()
    }

    #[inline]
    pub(super) fn pages(self) -> &'a Pages {
        self.upkeep.pages()
    }

    #[inline]
    pub(super) fn medium(self) -> &'a Medium {
        self.upkeep.medium()
    }

    /// Takes the commit lock.
    #[inline]
    pub(super) fn state(self) -> MutexGuard<'a, CommitState> {
        self.upkeep.state()
    }

    /// The index entry of a page. On a modelled device a core looks at each value that it is made of.
    pub(super) fn make_entry(
        self,
        rule: &IndexRule,
        lpid: Lpid,
        page: &PageBuf,
    ) -> Result<IndexEntry, CommandError> {
        let entry = entry_of(rule, lpid, page)?;
        if let Some(m) = self.medium().model() {
            let c = &m.profile().cores;
            let values = u64::from(entry.rows()) * rule.columns().len() as u64;
            m.think(u64::from(c.index_cycles) + values * u64::from(c.compare_cycles));
        }
        Ok(entry)
    }
}
