//! The parts of a drive, put together.
//!
//! ```text
//!   writer ─► upkeep ─► checkpointer ─► appender ─► committer ─┬─► pages (what readers share) ─► env
//!                          └─ cleaner                          └─► commit state, log
//!   reader ────────────────────────────────────────────────────► pages ─► env
//! ```
//!
//! Each part owns its state, and is reached through what works on it. An arrow leads to what a part uses: never back.
//!
//! Locks are taken in this order: step of a modelled device, background, syncing, log, commit state, then those of tables
//! and caches. A failure that leaves it open what is durable makes the drive read-only until it is opened again.

use lode_flash::Medium;
use parking_lot::{Mutex, MutexGuard};

use crate::append::{Appender, Turns};
use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::commit::{CommitState, Commits, Committer};
use crate::env::Env;
use crate::log::LogPosition;
use crate::pages::Pages;
use crate::read::Reader;
use crate::upkeep::{Background, Upkeep};
use crate::write::Writer;
use crate::{DriveOptions, RecoveryReport};

/// A drive.
pub(crate) struct Core {
    env: Env,
    pages: Pages,
    commits: Commits,
    turns: Turns,
    checkpoints: Checkpoints,
    background: Background,
    /// Held by whoever has a step under way on a modelled device, which carries out one step at a time.
    stepping: Mutex<()>,
    recovery: RecoveryReport,
}

impl Core {
    /// A drive of which nothing is known; its log goes on at `log`.
    pub(crate) fn new(medium: Medium, options: DriveOptions, log: LogPosition) -> Self {
        let env = Env::new(medium, options);
        Self {
            pages: Pages::new(&env),
            commits: Commits::new(&env, log),
            turns: Turns::default(),
            checkpoints: Checkpoints::default(),
            background: Background::new(&env.options().gc_policy),
            stepping: Mutex::new(()),
            recovery: RecoveryReport::default(),
            env,
        }
    }

    #[inline]
    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    #[inline]
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    #[inline]
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::new(&self.env, &self.pages)
    }

    #[inline]
    pub(crate) fn committer(&self) -> Committer<'_> {
        Committer::new(&self.env, &self.pages, &self.commits)
    }

    #[inline]
    pub(crate) fn appender(&self) -> Appender<'_> {
        Appender::new(self.committer(), &self.turns)
    }

    #[inline]
    pub(crate) fn checkpointer(&self) -> Checkpointer<'_> {
        Checkpointer::new(self.appender(), &self.checkpoints)
    }

    #[inline]
    pub(crate) fn upkeep(&self) -> Upkeep<'_> {
        Upkeep::new(self.checkpointer(), &self.background)
    }

    #[inline]
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer::new(self.upkeep())
    }

    /// Takes the commit lock.
    pub(crate) fn state(&self) -> MutexGuard<'_, CommitState> {
        self.committer().state()
    }

    /// Begins a step of a modelled device: no other is under way until the answer is dropped.
    pub(crate) fn begin_step(&self) -> MutexGuard<'_, ()> {
        self.stepping.lock()
    }

    /// What the opening of the drive took.
    pub(crate) fn recovery(&self) -> RecoveryReport {
        self.recovery
    }

    /// Recovery is over.
    pub(crate) fn recovered(&mut self, report: RecoveryReport) {
        self.recovery = report;
    }
}
