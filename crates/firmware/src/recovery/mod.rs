//! Recovery: from an image to a drive, in two passes over the log.
//!
//! ```text
//!   newest checkpoint record ─► root
//!   pass 1: the log's end; newest homes of the drive's own pages; what happened to EBLOCKs ─► tables, summary, ends
//!   pass 2: what the records say of mapping, index, owners, rules, sessions, where the page on the medium lacks it
//!   ─► a new log, a new checkpoint                                         (neither after a clean close)
//! ```
//!
//! Invariants: nothing is written before the summary is whole, and then only where nothing is that counts, so recovery
//! that is cut short can begin again; every acknowledged batch that was forced is found, or the image is refused; of all
//! others each is found whole or not at all, and none behind one that is not: the last groups of the log, where no later page
//! says that they were durable, only as far as their data verifies. A record is applied to a page exactly where it came after the LSN as of
//! which the page was written.
//!
//! Source: ELEOS §VIII-C. Pass 1 restores addresses because own pages move while the log that recovery reads is written.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use lode_base::epochs::Epochs;
use lode_base::{EblockId, Geometry};
use lode_command::Identity;
use lode_flash::{Medium, WblockState};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::append::Turns;
use crate::checkpoint::{BadRecord, CheckpointRecord, VERSION};
use crate::cleaner::Cleaner;
use crate::codec::Malformed;
use crate::commit::Overlay;
use crate::core::{Core, Counts, READERS_MAX, Sequencer};
use crate::entry::Entry;
use crate::log::{Candidate, LogEnd, LogPosition, LogWriter};
use crate::own::{OwnKind, PageCache, TABLE_PIECE_ENTRIES, Tables, read_page};
use crate::pages::{Extents, Inlined, Rules, Versions};
use crate::planted::{self, Planted};
use crate::record::Record;
use crate::session::Sessions;
use crate::space::{
    Descriptor, EBLOCK_BYTES_MIN, EBLOCKS_MIN, Eblocks, SUMMARY_PIECE_EBLOCKS, State, decode_unwritten,
    page_bytes_max,
};
use crate::{Drive, DriveOptions, FirmwareError, RecoveryReport};

mod pass_1;
mod pass_2;

use pass_1::{Change, Found};

/// A fresh image is at most this long when its making was cut short, in bytes.
const UNFINISHED_IMAGE_BYTES: u64 = 4 << 20;

/// A medium that was opened, and whose state nobody knows yet.
pub struct Unrecovered {
    medium: Medium,
    options: DriveOptions,
}

impl Unrecovered {
    /// A medium to recover.
    pub fn new(medium: Medium, options: DriveOptions) -> Self {
        Self { medium, options }
    }

    /// Finds the state of the drive. A drive that was not closed gets a checkpoint; if there is no space for
    /// it, the drive opens read-only.
    ///
    /// # Errors
    /// When the image is damaged, or can not be read or written.
    pub fn recover(self) -> Result<Drive, FirmwareError> {
        let Self { medium, options } = self;
        let Some((_, bytes)) = medium.newest_checkpoint_record()? else {
            // Nothing was ever acknowledged on a drive whose making was cut short.
            if medium.is_fresh() && medium.image_bytes() <= UNFINISHED_IMAGE_BYTES {
                return Drive::format(medium, options);
            }
            return Err(FirmwareError::NoCheckpoint { path: medium.path().into() });
        };
        check_geometry(medium.geometry())?;
        let record = CheckpointRecord::decode(&bytes, medium.geometry()).map_err(|e| match e {
            BadRecord::Newer(version) => FirmwareError::NewerVersion {
                path: medium.path().into(),
                structure: "the checkpoint record",
                version,
                known: VERSION,
            },
            BadRecord::Malformed(m) => damaged(medium.path(), "checkpoint record", &m),
        })?;
        let _span = tracing::info_span!("recovery", image = %medium.path().display()).entered();
        let mut core = core(medium, options, record.log);
        core.recover(&record)?;
        tracing::info!(report = ?core.recovery);
        Ok(Drive::of(core))
    }
}

fn damaged(path: &Path, what: &str, m: &Malformed) -> FirmwareError {
    FirmwareError::damaged(path, format!("{what}: {m}"))
}

pub(crate) fn check_geometry(g: &Geometry) -> Result<(), FirmwareError> {
    if g.eblock_count() < EBLOCKS_MIN || g.eblock_bytes() < EBLOCK_BYTES_MIN {
        return Err(FirmwareError::TooSmall {
            got: g.eblock_count(),
            needed: EBLOCKS_MIN,
            got_bytes: g.eblock_bytes(),
            needed_bytes: EBLOCK_BYTES_MIN,
        });
    }
    Ok(())
}

/// A drive of which nothing is known.
fn core(medium: Medium, options: DriveOptions, log: LogPosition) -> Core {
    medium.limit_tags(options.tag_cache_bytes);
    let g = *medium.geometry();
    let most = page_bytes_max(&g).min(lode_base::PAGE_BYTES_LIMIT - 1);
    let identity = Identity {
        model: format!("Lode drive, {}", medium.path().display()),
        geometry: g,
        page_bytes_max: options.page_bytes_max.min(most as u32),
        batch_bytes_max: options.batch_bytes_max,
        batch_pages_max: options.batch_pages_max,
        queue_depth_max: options.queue_depth_max,
        views_max: options.views_max,
        sessions_max: options.sessions_max,
        in_flight_max: options.in_flight_max.max(1),
        durable: medium.is_durable(),
    };
    let sequencer = Sequencer {
        space: Eblocks::new(&g),
        commit: 0,
        staged_commit: 0,
        staged: Vec::new(),
        staged_bytes: 0,
        overlay: Overlay::default(),
        under_way: 0,
        staged_rules: Arc::default(),
        rules_changed: false,
        sessions: Sessions::default(),
        tables: Tables::default(),
        installed_lsn: log.lsn - 1,
        proven_lsn: 0,
        empty_lsn: 0,
        log_position: log,
        sealed: false,
        last_checkpoint: None,
        log_bytes: 0,
        recovering: true,
    };
    Core {
        map: PageCache::new(options.map_cache_bytes),
        index: PageCache::new(options.index_cache_bytes),
        rules: RwLock::default(),
        extents: RwLock::new(Extents::default()),
        versions: Versions::new(options.views_max, options.view_commits_max),
        inlined: Inlined::new(Core::inlined_budget(&options, &g)),
        epochs: Epochs::new(READERS_MAX),
        turns: Turns::default(),
        seq: Mutex::new(sequencer),
        log: Mutex::new(LogWriter::new(log, options.log_copies)),
        syncing: Mutex::new(()),
        leading: Mutex::new(false),
        led: Condvar::new(),
        stepping: Mutex::new(()),
        background: Mutex::new(Cleaner::new(&options.gc_policy)),
        read_only: OnceLock::new(),
        counts: Counts::default(),
        recovery: RecoveryReport::default(),
        identity,
        medium,
        options,
    }
}

/// A new drive on a fresh medium.
pub(crate) fn format(medium: Medium, options: DriveOptions) -> Result<Core, FirmwareError> {
    check_geometry(medium.geometry())?;
    assert!(medium.is_fresh(), "only a fresh medium is formatted");
    let e = EblockId::new(0);
    let nowhere = Candidate {
        eblock: e,
        generation: medium.generation(e),
        wblock: medium.geometry().wblocks_per_eblock(),
    };
    let core = core(medium, options, LogPosition { lsn: 1, epoch: 0, candidates: [nowhere; 3] });
    core.begin_log()?;
    core.checkpoint(false)?;
    core.seq.lock().recovering = false;
    Ok(core)
}

impl Core {
    fn recover(&mut self, record: &CheckpointRecord) -> Result<(), FirmwareError> {
        let (tables, generations) = self.read_root(record)?;
        let m = &self.medium;
        generations.into_iter().for_each(|(e, generation)| m.set_generation(e, generation));
        {
            let mut w = self.seq.lock();
            w.tables = tables;
            w.commit = record.commit;
            w.space.set_clock(record.clock);
        }
        let (found, end) = self.pass_1(record)?;
        // What the power-protected buffer has and the log should have is put into a log anew.
        let clean = record.clean
            && self.medium.open_epoch() == record.epoch + 1
            && end.lsn == record.end
            && found.pending.is_none();
        self.load_tables(&found)?;
        self.load_space(record, &found, &end, clean)?;
        let pages_replayed = self.pass_2(record, &found, &end)?;
        let repaired = end.repaired;
        self.recovery = RecoveryReport {
            clean,
            log_pages: end.pages,
            log_groups: found.groups,
            log_records: found.records,
            pages: pages_replayed,
            repaired,
            log_groups_rejected: u64::from(!found.rejected.is_empty()),
            last_kinds: found.last_kinds,
        };
        let w = self.seq.get_mut();
        w.staged_commit = w.commit;
        w.staged_rules = self.rules.read().clone();
        self.versions.restore(w.commit);
        self.extents.write().restored();
        w.installed_lsn = end.lsn;
        if clean {
            w.proven_lsn = end.lsn;
            w.log_position = end.position;
            w.last_checkpoint = Some((record.log, record.commit, record.clock));
            for candidate in end.position.candidates {
                self.medium.set_generation(candidate.eblock, candidate.generation);
                self.medium.set_next_wblock(candidate.eblock, candidate.wblock);
            }
            *self.log.get_mut() = LogWriter::new(end.position, self.options.log_copies);
            self.log.get_mut().resumed(&end);
            w.recovering = false;
            let w = self.seq.lock();
            self.check_spares(&w);
            return Ok(());
        }
        self.reclaim()?;
        let old_log: Vec<EblockId> = {
            let w = self.seq.lock();
            w.space.descriptors().filter(|(_, d)| d.state == State::Log).map(|(e, _)| e).collect()
        };
        let made = self.begin_log().and_then(|()| self.log_changes()).and_then(|()| self.checkpoint(false));
        self.seq.lock().recovering = false;
        let made = made.and_then(|()| {
            // The EBLOCKs of the log before are not needed once the checkpoint is durable.
            let mut w = self.seq.lock();
            old_log.iter().for_each(|&e| w.space.release(&self.epochs, e, 0));
            drop(w);
            self.reclaim().map(drop)
        });
        match made {
            Err(e) if e.is_no_space() || self.read_only.get().is_some() => {
                self.fatal(&e);
                Ok(())
            }
            made => made,
        }
    }

    fn read_root(
        &self,
        record: &CheckpointRecord,
    ) -> Result<(Tables, Vec<(EblockId, lode_flash::Generation)>), FirmwareError> {
        let g = self.geometry();
        let m = &self.medium;
        m.set_generation(g.locate(record.root.ppa(g)).0, record.root_generation);
        let bytes = read_page(m, OwnKind::Root, 0, record.root)?;
        Tables::decode(&bytes, record.root, g).map_err(|e| damaged(m.path(), "checkpoint root", &e))
    }

    /// Reads the tables, as they were written last.
    fn load_tables(&self, found: &Found) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        let (m, path) = (&self.medium, self.medium.path());
        let tables = self.seq.lock().tables.clone();
        let words = |kind: OwnKind| {
            tables.pieces(kind).map(move |(piece, home)| {
                let bytes = read_page(m, kind, piece as u64, home)?;
                let (words, _) = bytes.as_chunks::<8>();
                let words: Vec<u64> = words.iter().map(|w| u64::from_le_bytes(*w)).collect();
                if words.len() > TABLE_PIECE_ENTRIES {
                    return Err(FirmwareError::damaged(path, format!("{kind} {piece}: too many entries")));
                }
                match words.iter().find_map(|&w| Entry::check(w, &g).err()) {
                    Some(what) => Err(FirmwareError::damaged(path, format!("{kind} {piece}: {what}"))),
                    None => Ok((piece, words)),
                }
            })
        };
        for piece in words(OwnKind::MapHomes) {
            let (piece, words) = piece?;
            self.map.restore_piece(piece, &words);
        }
        for piece in words(OwnKind::IndexHomes) {
            let (piece, words) = piece?;
            self.index.restore_piece(piece, &words);
        }
        for &(kind, number, home) in &found.moved {
            // Extents are handed out densely: one far beyond the others never was.
            if number >= self.map.numbers().max(self.index.numbers()) + (1 << 24) {
                return Err(FirmwareError::damaged(path, format!("the log names {kind} {number}")));
            }
            match kind {
                OwnKind::Map => self.map.set_home(number, home),
                _ => self.index.set_home(number, home),
            }
        }
        for (piece, home) in tables.pieces(OwnKind::Owners) {
            let bytes = read_page(m, OwnKind::Owners, piece as u64, home)?;
            let (owners, _) = bytes.as_chunks::<4>();
            let owners: Vec<u32> = owners.iter().map(|o| u32::from_le_bytes(*o)).collect();
            self.extents.write().restore_piece(piece, &owners);
        }
        let blob = |kind: OwnKind| {
            let mut bytes = Vec::new();
            for (piece, home) in tables.pieces(kind) {
                bytes.extend(read_page(m, kind, piece as u64, home)?);
            }
            Ok::<_, FirmwareError>(Some(bytes).filter(|b| !b.is_empty()))
        };
        if let Some(bytes) = blob(OwnKind::Rules)? {
            *self.rules.write() =
                Arc::new(Rules::decode(&bytes).map_err(|e| damaged(path, "index rules", &e))?);
        }
        let mut w = self.seq.lock();
        if let Some(bytes) = blob(OwnKind::Sessions)? {
            w.sessions = Sessions::decode(&bytes).map_err(|e| damaged(path, "session table", &e))?;
        }
        if let Some(bytes) = blob(OwnKind::Open)? {
            let metadata =
                decode_unwritten(&bytes, &g).map_err(|e| damaged(path, "metadata of open EBLOCKs", &e))?;
            w.space.restore_unwritten(metadata);
        }
        for (piece, home) in tables.pieces(OwnKind::Summary) {
            let bytes = read_page(m, OwnKind::Summary, piece as u64, home)?;
            let restored = w.space.restore_piece(piece, &bytes);
            restored.map_err(|e| damaged(path, &format!("EBLOCK summary, piece {piece}"), &e))?;
        }
        Ok(())
    }

    /// Brings the summary up to date, and finds up to where open EBLOCKs were programmed.
    fn load_space(
        &self,
        record: &CheckpointRecord,
        found: &Found,
        end: &LogEnd,
        clean: bool,
    ) -> Result<(), FirmwareError> {
        let mut guard = self.seq.lock();
        let w = &mut *guard;
        let bad = |what: &str| FirmwareError::damaged(self.medium.path(), format!("the log: {what}"));
        w.space.set_clock(record.clock + found.cells);
        let mut metadata = w.space.unwritten().clone();
        for (lsn, change) in &found.changes {
            let (Change::State(
                Record::Opened { eblock, .. } | Record::Closed { eblock, .. } | Record::Retired { eblock },
            )
            | Change::Live { eblock, .. }) = change
            else {
                unreachable!("only these were found")
            };
            let piece = u64::from(eblock.raw()) / SUMMARY_PIECE_EBLOCKS as u64;
            if found.lacks(OwnKind::Open, 0, *lsn) {
                match change {
                    Change::State(Record::Opened { stream, .. }) if *stream != crate::stream::Stream::Log => {
                        metadata.insert(*eblock, Vec::new());
                    }
                    Change::State(_) => drop(metadata.remove(eblock)),
                    Change::Live { .. } => {}
                }
            }
            if !found.lacks(OwnKind::Summary, piece, *lsn) {
                continue;
            }
            match change {
                Change::State(r) => w.space.replay(r).map_err(bad)?,
                Change::Live { eblock, added, freed, data_end } => {
                    w.space.replay_live(*eblock, *added, *freed, *data_end).map_err(|what| bad(&what))?;
                }
            }
        }
        if let Some(e) = w.space.miscounted() {
            return Err(bad(&format!("the summary of {e:?} counts less than is mapped there")));
        }
        w.space.restore_unwritten(metadata);
        for (e, d) in w.space.descriptors() {
            self.medium.set_generation(e, d.generation);
        }
        // Nothing was written to the spares that the last page names: they are free again, under another generation.
        let spares = |e: &EblockId| {
            !clean && end.position.candidates[1..].iter().any(|s| s.eblock == *e && s.wblock == 0)
        };
        for e in end.eblocks.iter().filter(|e| !spares(e)) {
            w.space.replay_log(*e).map_err(|what| bad(&what))?;
        }
        w.tables.superseded().iter().for_each(|&old| w.space.pin(old));
        self.find_ends(w, found, clean)?;
        w.space.restored(&self.medium, clean);
        Ok(())
    }

    /// Finds up to where open EBLOCKs were programmed, by actions that never were acknowledged too: what is
    /// written next comes after.
    /// An EBLOCK that a rejected group speaks of ends: were anything else written where its data should be, a recovery
    /// that comes before the next checkpoint would take that for the data.
    fn find_ends(&self, w: &mut Sequencer, found: &Found, clean: bool) -> Result<(), FirmwareError> {
        let open = |d: &Descriptor| matches!(d.state, State::Open { .. });
        let open: Vec<_> = w.space.descriptors().filter(|(_, d)| open(d)).map(|(e, d)| (e, *d)).collect();
        let wblocks = self.geometry().wblocks_per_eblock();
        for (e, d) in open {
            let mut end = d.data_end;
            if !clean && !planted::is(Planted::EndNotProbed) {
                for wblock in d.data_end..wblocks {
                    if self.medium.probe(e, wblock)? != WblockState::Empty {
                        end = wblock + 1;
                    }
                }
            }
            if found.rejected.contains(&e) {
                end = wblocks;
            }
            self.medium.set_next_wblock(e, end);
            w.space.restore_end(e, end);
        }
        Ok(())
    }

    /// Logs what recovery did to EBLOCKs, before any table that has it is written.
    fn log_changes(&self) -> Result<(), FirmwareError> {
        self.log_nothing(self.seq.lock())
    }

    /// Begins a log in EBLOCKs of its own, behind all that is installed.
    fn begin_log(&self) -> Result<(), FirmwareError> {
        let full = || FirmwareError::Full { path: self.medium.path().into(), what: "the log" };
        let mut w = self.seq.lock();
        let mut take = || w.space.take_for_log(&self.medium)?.ok_or_else(full);
        let eblocks = [take()?, take()?, take()?];
        let position = LogPosition::start(w.installed_lsn + 1, eblocks);
        assert!(position.lsn > w.installed_lsn, "the LSN goes up from log to log");
        w.log_position = position;
        drop(w);
        *self.log.lock() = LogWriter::new(position, self.options.log_copies);
        Ok(())
    }
}
