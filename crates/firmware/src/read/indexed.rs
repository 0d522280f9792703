//! Begins and ends reads of whole pages by the page index.
//!
//! ```text
//!   number ─► registered program ─┬─ collect ─► task that takes keys ─► its end ─► saved set
//!                                 └─ among ──► AND column IN set ────► task
//! ```

use lode_command::{Answer, CommandError, IndexedRead, PageRange, ScanTask};

use super::reader::Reader;
use crate::compute::{Collect, ScanRun, among};

impl Reader<'_> {
    /// The task of a read.
    ///
    /// # Errors
    /// When a program, keys or a set are not there, when pages are not the owner's, or as of a task.
    pub(crate) fn indexed(self, read: IndexedRead) -> Result<ScanRun, CommandError> {
        let IndexedRead { view, owner, program, pages, unit_pages, skip, collect, among: looked_for } = read;
        let registered = self.pages().registered();
        let commit = self.view_commit(view)?;
        let (own, collect) = match collect {
            None => (registered.program(owner, program)?, None),
            Some(_) if looked_for.is_some() => {
                return Err(CommandError::Invalid("a read collects keys or looks for some, not both".into()));
            }
            Some(keys) => {
                let is_other = |r: &&PageRange| self.pages().extents().owner(r.extent) != Some(owner);
                if let Some(r) = pages.iter().find(is_other) {
                    let what = format!(
                        "keys of owner {owner} are collected, and extent {} is another's now",
                        r.extent
                    );
                    return Err(CommandError::Invalid(what));
                }
                let (rule, own, place) = registered.keys_place((owner, keys), program, commit)?;
                let collect = Collect::new(rule, &own, place)?;
                (own, Some(collect))
            }
        };
        let program = match looked_for {
            None => own,
            Some(of) => {
                let (set, data_type) = registered.keys(&of, view, commit)?;
                among(&own, of.column, set, data_type)?
            }
        };
        let task = ScanTask {
            view,
            pages,
            program,
            answer: Answer::Whole,
            unit_pages,
            limit_rows: None,
            hidden: None,
            matcher: None,
            skip,
        };
        Ok(ScanRun::new(task, self.env().options().scan_placement)?.collecting(collect))
    }

    /// Keeps the keys that a read collected.
    ///
    /// # Errors
    /// When they are not registered any more.
    pub(crate) fn save_keys(self, collected: Collect) -> Result<(), CommandError> {
        let (place, set, data_type) = collected.finish();
        self.pages().registered().save(place, set, data_type)
    }
}
