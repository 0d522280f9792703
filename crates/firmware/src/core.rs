//! The state of a drive: what readers share, and what the sequencer orders.
//!
//! ```text
//!   readers:     epoch ─► map, index (resident pages) ─► versions ─► medium      no lock over I/O
//!   actions:     sequencer (short) ─► program ─► sequencer ─► log, one leader ─► sequencer: install
//!   background:  checkpoint, GC, scrub: one at a time, their writes are actions like all others
//! ```
//!
//! Locks are taken in this order: background, syncing, log, sequencer, then those of tables and caches. A failure that
//! leaves it open what is durable makes the drive read-only until it is opened again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use lode_base::Geometry;
use lode_base::epochs::Epochs;
use lode_command::Identity;
use lode_flash::Medium;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::append::Turns;
use crate::cleaner::Cleaner;
use crate::commit::{Action, Overlay, Pins};
use crate::log::{LogPosition, LogWriter};
use crate::own::{PageCache, Tables};
use crate::pages::{Extents, IndexPage, Inlined, MapPage, Rules, Versions};
use crate::planted::{self, Planted};
use crate::session::Sessions;
use crate::space::{Budget, EBLOCKS_FEW, Eblocks, LogUse, log_bytes_max, spare_eblocks};
use crate::stream::Stream;
use crate::{DriveInfo, DriveOptions, FirmwareError, RecoveryReport};

/// Reads at a time; further ones wait. A read may count twice (once while it loads a mapping page).
pub(crate) const READERS_MAX: usize = 1024;

pub(crate) struct Core {
    pub(crate) medium: Medium,
    pub(crate) options: DriveOptions,
    pub(crate) identity: Identity,
    pub(crate) map: PageCache<MapPage>,
    pub(crate) index: PageCache<IndexPage>,
    pub(crate) rules: RwLock<Arc<Rules>>,
    pub(crate) extents: RwLock<Extents>,
    pub(crate) versions: Versions,
    pub(crate) inlined: Inlined,
    pub(crate) epochs: Epochs,
    pub(crate) turns: Turns,
    pub(crate) seq: Mutex<Sequencer>,
    /// Held by whoever writes the log: the leader.
    pub(crate) log: Mutex<LogWriter>,
    /// Held by whoever syncs the medium for a flush, while others write the log.
    pub(crate) syncing: Mutex<()>,
    /// Whether there is a leader.
    pub(crate) leading: Mutex<bool>,
    pub(crate) led: Condvar,
    /// Held by whoever has a step under way on a modelled device, which carries out one step at a time.
    pub(crate) stepping: Mutex<()>,
    /// Held by whoever makes a checkpoint, moves pages or scrubs.
    pub(crate) background: Mutex<Cleaner>,
    pub(crate) read_only: OnceLock<String>,
    pub(crate) counts: Counts,
    pub(crate) recovery: RecoveryReport,
}

/// What the drive did since it was opened.
#[derive(Default)]
pub(crate) struct Counts {
    /// Bytes of pages that batches wrote.
    pub(crate) user_bytes: AtomicU64,
    /// Bytes of pages that GC moved.
    pub(crate) moved_bytes: AtomicU64,
    /// EBLOCKs that GC emptied.
    pub(crate) victims: AtomicU64,
    /// Programs that failed.
    pub(crate) program_failures: AtomicU64,
    /// Groups that the log took.
    pub(crate) groups: AtomicU64,
    /// Actions in them.
    pub(crate) actions: AtomicU64,
    /// Checkpoints that became durable.
    pub(crate) checkpoints: AtomicU64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// What has an order: the actions, and all that they change beside pages.
pub(crate) struct Sequencer {
    pub(crate) space: Eblocks,
    /// The newest installed commit.
    pub(crate) commit: u64,
    /// The newest staged one.
    pub(crate) staged_commit: u64,
    /// Actions that no log group has taken yet.
    pub(crate) staged: Vec<Action>,
    /// Bytes that their records take, about.
    pub(crate) staged_bytes: u64,
    pub(crate) overlay: Overlay,
    /// Actions that were begun and are not over.
    pub(crate) under_way: u32,
    /// The rules once all that is staged is installed.
    pub(crate) staged_rules: Arc<Rules>,
    pub(crate) rules_changed: bool,
    pub(crate) sessions: Sessions,
    /// Where the pieces of the tables lie.
    pub(crate) tables: Tables,
    /// The last page of the last installed group, and where the log goes on.
    pub(crate) installed_lsn: u64,
    /// The last page of the log that a later one, or the checkpoint, says was durable: no recovery ends the log before it.
    pub(crate) proven_lsn: u64,
    /// The last page of the newest group that changed nothing.
    pub(crate) empty_lsn: u64,
    pub(crate) log_position: LogPosition,
    /// What is installed from now on is told apart from what was before: it gets another LSN.
    pub(crate) sealed: bool,
    /// Where the newest checkpoint has the log begin, and the commit and the clock there.
    pub(crate) last_checkpoint: Option<(LogPosition, u64, u64)>,
    /// Bytes of log since the newest checkpoint.
    pub(crate) log_bytes: u64,
    /// Whether the drive is not yet in use.
    pub(crate) recovering: bool,
}

impl Sequencer {
    /// The LSN as of which what is installed now is taken: all later records get higher ones.
    pub(crate) fn as_of(&mut self) -> u64 {
        self.sealed = !planted::is(Planted::NotSealed);
        self.installed_lsn
    }
}

impl Core {
    pub(crate) fn geometry(&self) -> &Geometry {
        self.medium.geometry()
    }

    /// Log that may be written between two checkpoints, in bytes.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        log_bytes_max(&self.options, self.geometry())
    }

    /// Does what nobody waits for: on a modelled device it takes resources, and not the time of the step under way.
    pub(crate) fn beside(&self, work: impl FnOnce()) {
        let step = self.medium.model().map(|m| m.step());
        work();
        if let (Some(m), Some(step)) = (self.medium.model(), step) {
            m.resume(step);
        }
    }

    pub(crate) fn check_writable(&self) -> Result<(), FirmwareError> {
        match self.read_only.get() {
            None => Ok(()),
            Some(why) => Err(FirmwareError::ReadOnly(why.clone())),
        }
    }

    /// Makes the drive read-only.
    pub(crate) fn fatal(&self, e: &FirmwareError) {
        // The first failure is the cause; a later one says nothing new.
        let _ = self.read_only.set(e.to_string());
    }

    /// Pages may go from memory again.
    pub(crate) fn unpin(&self, pins: &Pins) {
        for (extent, p) in pins {
            self.map.unpin(extent.raw());
            if p.index.is_some() {
                self.index.unpin(extent.raw());
            }
        }
    }

    /// What space is computed from.
    pub(crate) fn budget<'a>(&'a self, w: &'a Sequencer) -> Budget<'a> {
        Budget {
            options: &self.options,
            eblocks: &w.space,
            log: LogUse { bytes: w.log_bytes, wblock: w.log_position.candidates[0].wblock },
            mapping_bytes: self.map.media_bytes() + self.index.media_bytes(),
            owners_bytes: self.extents.read().media_bytes(),
            homes_bytes: 0,
            inlined_bytes: self.inlined.bytes(),
            inlines: self.inlined.is_enabled(),
            recovering: w.recovering,
        }
    }

    /// EBLOCKs that may fail before the drive is read-only.
    pub(crate) fn spare_eblocks(&self) -> u32 {
        spare_eblocks(&self.options, self.geometry())
    }

    pub(crate) fn info(&self) -> DriveInfo {
        let w = self.seq.lock();
        let usage = w.space.usage();
        let budget = self.budget(&w);
        let load = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let c = &self.counts;
        DriveInfo {
            geometry: *self.geometry(),
            uuid: self.medium.uuid(),
            open_epoch: self.medium.open_epoch(),
            commit: self.versions.newest(),
            extents: self.extents.read().all().count() as u64,
            live_bytes: w.space.live_bytes(),
            pinned_bytes: w.space.pinned_bytes(),
            inlined_bytes: self.inlined.bytes(),
            free_bytes: budget.free_bytes(),
            usable_bytes: budget.usable_bytes(),
            eblocks_used: usage.used,
            eblocks_free: w.space.free_eblocks(),
            eblocks_retired: w.space.retired(),
            spares: self.spare_eblocks().saturating_sub(w.space.retired()),
            erase_counts: usage.erase_counts,
            log_bytes: w.log_bytes,
            map_bytes: self.map.bytes(),
            image_bytes: self.medium.image_bytes(),
            media_bytes_read: self.medium.media_bytes_read(),
            media_bytes_written: self.medium.media_bytes_written(),
            data_bytes: usage.data_bytes,
            user_bytes_written: load(&c.user_bytes),
            gc_bytes_moved: load(&c.moved_bytes),
            gc_victims: load(&c.victims),
            program_failures: load(&c.program_failures),
            log_groups: load(&c.groups),
            log_actions: load(&c.actions),
            checkpoints: load(&c.checkpoints),
            views: self.versions.open_count(),
            sessions: w.sessions.count(),
            read_only: self.read_only.get().cloned(),
            recovery: self.recovery,
        }
    }

    /// What must hold of everything in memory, at any moment between two commands.
    pub(crate) fn check_invariants(&self) {
        let w = self.seq.lock();
        let under_way = w.under_way > 0;
        w.space.check_invariants(&self.medium);
        w.sessions.check_invariants(under_way);
        self.inlined.check_invariants(under_way);
        self.map.check_invariants(under_way);
        self.index.check_invariants(under_way);
        assert!(w.commit <= w.staged_commit, "a commit was installed that was not staged");
        if !under_way {
            assert!(w.staged.is_empty() && w.overlay.is_empty(), "something is staged for nobody");
            assert_eq!(w.commit, w.staged_commit, "a staged commit was forgotten");
            let in_flight = w.space.descriptors().map(|(_, d)| d.in_flight).sum::<u32>();
            assert_eq!(in_flight, 0, "EBLOCKs wait for nobody");
        }
        // A drive that found out that its image lied has said so, and takes no writes.
        if let Some(e) = w.space.miscounted().filter(|_| self.read_only.get().is_none()) {
            panic!("the summary of {e:?} counts less than is mapped there");
        }
        if self.read_only.get().is_none() && w.space.retired() == 0 {
            let free = w.space.free_eblocks();
            assert!(free >= 1, "GC has no EBLOCK left to move pages to");
        }
        drop(w);
        self.log.lock().check_invariants(&self.medium);
    }

    /// The stream of user pages that `replaced` of `written` bytes go to: what is overwritten is hot.
    pub(crate) fn user_stream(&self, replaced: u64, written: u64) -> Stream {
        let hot = replaced * 2 >= written || self.geometry().eblock_count() < EBLOCKS_FEW;
        if hot { Stream::UserHot } else { Stream::UserCold }
    }
}
