//! Writes checkpoints.

use std::collections::BTreeSet;

use lode_base::EblockId;
use lode_flash::Medium;
use parking_lot::{Mutex, MutexGuard};

use super::own::OwnPage;
use super::record::CheckpointRecord;
use crate::FirmwareError;
use crate::append::Appender;
use crate::commit::{CommitState, Committer};
use crate::env::{Count, Env};
use crate::log::LogPosition;
use crate::own::{OwnKind, encode_page};
use crate::pages::Pages;
use crate::planted::at;
use crate::space::{Descriptor, State};
use crate::stream::Stream;

/// Times that the last tables are written, before the next open is to find out how the EBLOCKs are.
const CLOSE_TRIES: u32 = 3;

/// What is known of the newest checkpoint.
#[derive(Default)]
pub(crate) struct Checkpoints {
    last: Mutex<Option<LastCheckpoint>>,
}

/// Where the newest checkpoint has the log begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastCheckpoint {
    pub(crate) log: LogPosition,
    /// The commit and the clock of ages there.
    pub(crate) commit: u64,
    pub(crate) clock: u64,
}

/// Writes the drive's own pages and checkpoints. At most one is at work: whoever has the background.
#[derive(Clone, Copy)]
pub(crate) struct Checkpointer<'a> {
    appender: Appender<'a>,
    checkpoints: &'a Checkpoints,
}

impl Checkpoints {
    /// The newest checkpoint; `None` when the next is to be written whatever changed.
    pub(crate) fn last(&self) -> Option<LastCheckpoint> {
        *self.last.lock()
    }

    /// The newest checkpoint is this one.
    pub(crate) fn set_last(&self, last: LastCheckpoint) {
        *self.last.lock() = Some(last);
    }

    /// The next checkpoint is to be written whatever changed.
    pub(crate) fn forget_last(&self) {
        *self.last.lock() = None;
    }
}

impl<'a> Checkpointer<'a> {
    #[inline]
    pub(crate) fn new(appender: Appender<'a>, checkpoints: &'a Checkpoints) -> Self {
        Self { appender, checkpoints }
    }

    #[inline]
    pub(crate) fn appender(self) -> Appender<'a> {
        self.appender
    }

    #[inline]
    pub(crate) fn committer(self) -> Committer<'a> {
        self.appender.committer()
    }

    #[inline]
    pub(crate) fn env(self) -> &'a Env {
        self.appender.env()
    }

    #[inline]
    pub(crate) fn pages(self) -> &'a Pages {
        self.appender.pages()
    }

    #[inline]
    pub(crate) fn medium(self) -> &'a Medium {
        self.appender.medium()
    }

    /// Takes the commit lock.
    #[inline]
    pub(crate) fn state(self) -> MutexGuard<'a, CommitState> {
        self.appender.state()
    }

    /// What is known of the newest checkpoint.
    pub(crate) fn checkpoints(self) -> &'a Checkpoints {
        self.checkpoints
    }

    /// Writes a checkpoint, by whoever has the background. With `clean`, nothing will be written after it until the drive
    /// is opened again.
    pub(crate) fn checkpoint(self, clean: bool) -> Result<(), FirmwareError> {
        self.write(clean).inspect_err(|e| self.env().note(e))
    }

    fn write(self, mut clean: bool) -> Result<(), FirmwareError> {
        let _span = tracing::debug_span!("checkpoint", clean).entered();
        self.env().check_writable()?;
        self.committer().reclaim()?;
        let (begin, log_before, changed) = {
            let state = self.committer().without_pending()?;
            match self.checkpoints.last() {
                // What the log says since then is still only there.
                Some(last) if state.log_bytes() == 0 && !self.has_changed(&state) => (last, 0, false),
                _ => {
                    let (log, commit) = (state.log_position(), state.commit());
                    let begin = LastCheckpoint { log, commit, clock: state.eblocks().clock() };
                    (begin, state.log_bytes(), true)
                }
            }
        };
        if changed {
            // What the log before inlined is nowhere else.
            at!(InlinedStays => Ok(()), self.appender.move_inlined())?;
            self.flush(self.pages().map())?;
            self.flush(self.pages().index())?;
            clean = self.write_last_tables(clean)?;
        }
        if clean {
            let before = self.mishaps();
            self.committer().flush_pending()?;
            clean = self.mishaps() == before;
        }
        let (root, end) = {
            let state = self.committer().durable()?;
            (state.tables().root().expect("the root was written"), state.installed_lsn())
        };
        let g = self.env().geometry();
        let LastCheckpoint { log, commit, clock } = begin;
        let record = CheckpointRecord {
            clean,
            epoch: self.medium().open_epoch(),
            commit,
            clock,
            end,
            log,
            root,
            root_generation: self.medium().generation(g.locate(root.ppa(g)).0),
            long_entries: self.pages().had_long_entries(),
        };
        self.write_record(&record)?;
        self.env().count(Count::Checkpoints, 1);
        self.truncate(&record, log_before);
        self.checkpoints.set_last(begin);
        self.committer().reclaim()?;
        Ok(())
    }

    /// How many EBLOCKs failed or ended so far.
    fn mishaps(self) -> (u32, u64) {
        self.state().eblocks().mishaps()
    }

    /// Writes the tables and the root. For a `clean` close, writes them again when an EBLOCK failed or ended meanwhile,
    /// which the summary does not say then; answers whether the summary says all.
    fn write_last_tables(self, clean: bool) -> Result<bool, FirmwareError> {
        for _ in 0..CLOSE_TRIES {
            let before = self.mishaps();
            self.write_tables()?;
            self.write_root()?;
            if clean {
                self.committer().flush_pending()?;
            }
            if !clean || self.mishaps() == before {
                return Ok(clean);
            }
        }
        Ok(false)
    }

    fn write_root(self) -> Result<(), FirmwareError> {
        let (g, medium) = (*self.env().geometry(), self.medium());
        let (root, as_of) = {
            let mut state = self.committer().settled();
            // Whatever is written from now on lies in one of these, or in one whose opening the log tells.
            let needed = |d: &Descriptor| {
                d.stream() == Some(Stream::Drive) || d.in_flight > 0 || matches!(d.state, State::Open { .. })
            };
            let own = state.eblocks().descriptors().filter(|(_, d)| needed(d));
            let mut eblocks: BTreeSet<u32> = own.map(|(e, _)| e.raw()).collect();
            let summary = state.tables().pieces(OwnKind::Summary);
            eblocks.extend(summary.map(|(_, e)| g.locate(e.ppa(&g)).0.raw()));
            let generation = |e| (EblockId::new(e), medium.generation(EblockId::new(e)));
            let generations: Vec<_> = eblocks.into_iter().map(generation).collect();
            (encode_page(OwnKind::Root, 0, &state.tables().encode(&generations)), state.as_of())
        };
        self.write_own(vec![OwnPage { kind: OwnKind::Root, number: 0, bytes: Some(root) }], as_of)
    }

    fn write_record(self, record: &CheckpointRecord) -> Result<(), FirmwareError> {
        let (medium, bytes) = (self.medium(), record.encode());
        let newest = medium.newest_checkpoint_record()?.map_or(1, |(slot, _)| slot);
        medium.write_checkpoint_record(1 - newest, &bytes)?;
        at!(SlotsNotOrdered => Ok(()), medium.sync())?;
        // Now the other slot may go. It is durable with the next sync, and until then the older record in it
        // is torn or whole: the newer one stands either way.
        medium.write_checkpoint_record(newest, &bytes)?;
        if record.clean {
            at!(LastSyncLeftOut => Ok(()), medium.sync())?;
        }
        Ok(())
    }

    /// Lets go of what only the checkpoint before needed.
    fn truncate(self, record: &CheckpointRecord, log_before: u64) {
        let keep = at!(LogTruncatedTooFar => record.end + 1, record.log.lsn);
        let closed = self.committer().truncate_log(keep);
        let mut state = self.state();
        for old in state.tables_mut().take_superseded() {
            state.eblocks_mut().unpin(old);
        }
        state.eblocks_mut().release_log(self.env().epochs(), closed);
        state.log_truncated(record.end, log_before);
        state.eblocks_mut().checkpointed(record.log.lsn);
    }
}
