//! The background: one checkpoint, GC step or scrub at a time.

use lode_flash::Medium;
use parking_lot::{Mutex, MutexGuard};

use crate::FirmwareError;
use crate::append::Appender;
use crate::checkpoint::Checkpointer;
use crate::cleaner::{Cleaner, Need, gc_due};
use crate::commit::{CommitState, Committer};
use crate::env::Env;
use crate::gc::{GcPolicy, Urgency};
use crate::pages::Pages;

/// What only one thread does at a time.
pub(crate) struct Background {
    cleaner: Mutex<Cleaner>,
}

/// Keeps the drive going.
#[derive(Clone, Copy)]
pub(crate) struct Upkeep<'a> {
    checkpointer: Checkpointer<'a>,
    background: &'a Background,
}

impl Background {
    pub(crate) fn new(policy: &GcPolicy) -> Self {
        Self { cleaner: Mutex::new(Cleaner::new(policy)) }
    }
}

impl<'a> Upkeep<'a> {
    #[inline]
    pub(crate) fn new(checkpointer: Checkpointer<'a>, background: &'a Background) -> Self {
        Self { checkpointer, background }
    }

    #[inline]
    pub(crate) fn checkpointer(self) -> Checkpointer<'a> {
        self.checkpointer
    }

    #[inline]
    pub(crate) fn appender(self) -> Appender<'a> {
        self.checkpointer.appender()
    }

    #[inline]
    pub(crate) fn committer(self) -> Committer<'a> {
        self.checkpointer.committer()
    }

    #[inline]
    pub(crate) fn env(self) -> &'a Env {
        self.checkpointer.env()
    }

    #[inline]
    pub(crate) fn pages(self) -> &'a Pages {
        self.checkpointer.pages()
    }

    #[inline]
    pub(crate) fn medium(self) -> &'a Medium {
        self.checkpointer.medium()
    }

    /// Takes the commit lock.
    #[inline]
    pub(crate) fn state(self) -> MutexGuard<'a, CommitState> {
        self.checkpointer.state()
    }

    /// Takes the background lock.
    pub(crate) fn lock(self) -> MutexGuard<'a, Cleaner> {
        self.background.cleaner.lock()
    }

    /// The same, unless somebody has it.
    pub(super) fn try_lock(self) -> Option<MutexGuard<'a, Cleaner>> {
        self.background.cleaner.try_lock()
    }

    /// Writes a checkpoint. With `clean`, nothing will be written after it until the drive is opened again.
    pub(crate) fn checkpoint(self, clean: bool) -> Result<(), FirmwareError> {
        let _background = self.lock();
        self.checkpointer.checkpoint(clean)
    }

    /// Empties EBLOCKs, a step: answers whether anything was gained.
    pub(crate) fn collect(self, urgency: Urgency) -> Result<bool, FirmwareError> {
        self.lock().collect(self.checkpointer, urgency)
    }

    /// Empties an EBLOCK that is mostly garbage, a step, while nothing else is to be done: answers whether there was one.
    pub(super) fn tidy(self) -> Result<bool, FirmwareError> {
        self.lock().empty_step(self.checkpointer, Need::Tidy)
    }

    /// Empties an EBLOCK that failed or is hard to read; false when there is none.
    pub(crate) fn refresh(self) -> Result<bool, FirmwareError> {
        self.lock().empty_step(self.checkpointer, Need::Refresh)
    }

    /// Whether no batch came since this was asked last.
    pub(super) fn is_idle(self) -> bool {
        let commit = self.state().staged_commit();
        self.lock().is_idle(commit, self.rest_steps())
    }

    /// Idle steps after which the drive is at rest. A modelled device never is: what experiments measure does not depend on pauses.
    pub(super) fn rest_steps(self) -> Option<u32> {
        self.medium().model().map_or(self.env().options().rest_steps, |_| None)
    }

    /// Whether EBLOCKs are to be emptied.
    pub(crate) fn gc_due(self) -> bool {
        gc_due(&self.state().budget(self.env(), self.pages()))
    }
}
