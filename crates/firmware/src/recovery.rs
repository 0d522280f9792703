//! Recovery: from an image to a drive.
//!
//! ```text
//!   newest checkpoint record ─► root ─► summary ─► tables ─► replay the log ─► ends of open EBLOCKs ─► new checkpoint
//!                                                                             (none of these after a clean close)
//! ```
//!
//! Invariants: nothing is written before the state is whole, and then only where nothing is that counts, so
//! recovery that is cut short can begin again; every acknowledged batch is found, or the image is refused; of
//! the batches that were not acknowledged, each is found whole or not at all: those beyond the last LSN known
//! durable only if their data verifies.
//!
//! Source: ELEOS §VIII-C. Checkpoints are exact here, so one pass over the log is enough.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use lode_base::{EblockId, Geometry};
use lode_command::Identity;
use lode_flash::{FlashError, Medium, WblockState};
use parking_lot::{Mutex, RwLock};

use crate::append::Space;
use crate::checkpoint::{BadRecord, CheckpointRecord, Tables, VERSION};
use crate::codec::{Malformed, Take};
use crate::core::{Core, EBLOCK_BYTES_MIN, EBLOCKS_MIN, Writer};
use crate::drive_page::{self, DriveKind};
use crate::epochs::Epochs;
use crate::extents::Extents;
use crate::index::Rules;
use crate::log::{Commit, Group, LogWriter, Place, Record, read_log};
use crate::map::{Entry, PageCache};
use crate::summary::{Descriptor, SUMMARY_PIECE_EBLOCKS, State};
use crate::versions::Versions;
use crate::{Drive, DriveOptions, FirmwareError};

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
        let clean = record.clean && medium.open_epoch() == record.epoch + 1;
        let core = core(medium, options, record.log);
        {
            let mut w = core.writer.lock();
            core.load(&mut w, &record)?;
            if clean {
                core.go_on(&mut w, record.log);
            } else {
                core.replay(&mut w, record.log)?;
            }
        }
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
fn core(medium: Medium, options: DriveOptions, log: Place) -> Core {
    let g = *medium.geometry();
    let page_bytes_max =
        options.page_bytes_max.min(lode_base::PAGE_BYTES_LIMIT as u32 - 1).min(g.eblock_bytes());
    let identity = Identity {
        model: format!("Lode drive, {}", medium.path().display()),
        geometry: g,
        page_bytes_max,
        batch_bytes_max: options.batch_bytes_max,
        batch_pages_max: options.batch_pages_max,
        queue_depth_max: options.queue_depth_max,
        views_max: options.views_max,
        durable: medium.path() != Path::new("<memory>"),
    };
    let writer = Writer {
        space: Space::new(&g),
        log: LogWriter::new(log),
        commit: 0,
        tables: Tables::default(),
        root_due: true,
        superseded: Vec::new(),
        rules_changed: false,
    };
    Core {
        map: PageCache::new(options.map_cache_bytes),
        index: PageCache::new(options.index_cache_bytes),
        rules: RwLock::new(Arc::new(Rules::default())),
        extents: RwLock::new(Extents::default()),
        versions: Versions::new(options.views_max),
        epochs: Epochs::new(),
        writer: Mutex::new(writer),
        read_only: OnceLock::new(),
        identity,
        medium,
        options,
    }
}

/// A new drive on a fresh medium.
pub(crate) fn format(medium: Medium, options: DriveOptions) -> Result<Core, FirmwareError> {
    check_geometry(medium.geometry())?;
    assert!(medium.is_fresh(), "only a fresh medium is formatted");
    let g = *medium.geometry();
    let nowhere = Place {
        lsn: 1,
        eblock: EblockId::new(0),
        generation: medium.generation(EblockId::new(0)),
        wblock: g.wblocks_per_eblock(),
        next: (EblockId::new(0), medium.generation(EblockId::new(0))),
    };
    let core = core(medium, options, nowhere);
    {
        let mut w = core.writer.lock();
        core.begin_log(&mut w, 1)?;
        core.checkpoint(&mut w, false)?;
    }
    Ok(core)
}

impl Core {
    /// Reads the state that the checkpoint record names.
    fn load(&self, w: &mut Writer, record: &CheckpointRecord) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        let (m, path) = (&self.medium, self.medium.path());
        m.set_generation(g.locate(record.root.ppa(&g)).0, record.root_generation);
        let bytes = drive_page::read(m, DriveKind::Root, 0, record.root)?;
        let (tables, generations) =
            Tables::decode(&bytes, record.root, &g).map_err(|e| damaged(path, "checkpoint root", &e))?;
        generations.into_iter().for_each(|(e, generation)| m.set_generation(e, generation));

        for (piece, home) in tables.pieces(DriveKind::Summary) {
            let bytes = drive_page::read(m, DriveKind::Summary, piece as u64, home)?;
            let t = &mut Take::new(&bytes);
            let first = piece * SUMMARY_PIECE_EBLOCKS;
            let mut restore = || {
                let mut e = first;
                while t.left() > 0 {
                    if e >= g.eblock_count() as usize || e == first + SUMMARY_PIECE_EBLOCKS {
                        return Err(t.bad("more EBLOCKs than there are"));
                    }
                    w.space.summary.restore(EblockId::new(e as u32), Descriptor::decode(t, &g)?);
                    e += 1;
                }
                Ok(())
            };
            restore().map_err(|e: Malformed| damaged(path, &format!("EBLOCK summary, piece {piece}"), &e))?;
        }
        for (e, d) in &record.overrides {
            // They are kept as changed: the piece of the summary is older than they are.
            *w.space.summary.edit(*e) = *d;
        }
        for (e, d) in w.space.summary.all() {
            m.set_generation(e, d.generation);
        }

        let words = |kind: DriveKind| {
            tables.pieces(kind).map(move |(piece, home)| {
                let bytes = drive_page::read(m, kind, piece as u64, home)?;
                let (words, _) = bytes.as_chunks::<8>();
                let words: Vec<u64> = words.iter().map(|w| u64::from_le_bytes(*w)).collect();
                if words.len() > drive_page::TABLE_PIECE_ENTRIES {
                    return Err(FirmwareError::damaged(path, format!("{kind} {piece}: too many entries")));
                }
                match words.iter().find_map(|&w| Entry::check(w, &g).err()) {
                    Some(what) => Err(FirmwareError::damaged(path, format!("{kind} {piece}: {what}"))),
                    None => Ok((piece, words)),
                }
            })
        };
        for piece in words(DriveKind::MapHomes) {
            let (piece, words) = piece?;
            self.map.restore_piece(piece, &words);
        }
        for piece in words(DriveKind::IndexHomes) {
            let (piece, words) = piece?;
            self.index.restore_piece(piece, &words);
        }
        for (piece, home) in tables.pieces(DriveKind::Owners) {
            let bytes = drive_page::read(m, DriveKind::Owners, piece as u64, home)?;
            let (owners, _) = bytes.as_chunks::<4>();
            let owners: Vec<u32> = owners.iter().map(|o| u32::from_le_bytes(*o)).collect();
            self.extents.write().restore_piece(piece, &owners);
        }
        let mut rules = Vec::new();
        for (piece, home) in tables.pieces(DriveKind::Rules) {
            rules.extend(drive_page::read(m, DriveKind::Rules, piece as u64, home)?);
        }
        if !rules.is_empty() {
            let rules = Rules::decode(&rules).map_err(|e| damaged(path, "index rules", &e))?;
            *self.rules.write() = Arc::new(rules);
        }
        w.tables = tables;
        w.root_due = false;
        w.commit = record.commit;
        self.versions.restore(record.commit);
        Ok(())
    }

    /// Takes up a drive that was closed: nothing was written after its checkpoint.
    fn go_on(&self, w: &mut Writer, log: Place) {
        for e in [log.eblock, log.next.0] {
            w.space.summary.edit(e).state = State::Log;
        }
        self.medium.set_generation(log.eblock, log.generation);
        self.medium.set_next_wblock(log.eblock, log.wblock);
        self.medium.set_generation(log.next.0, log.next.1);
        self.medium.set_next_wblock(log.next.0, 0);
        for (e, d) in w.space.summary.all() {
            if matches!(d.state, State::Open { .. }) {
                self.medium.set_next_wblock(e, d.end);
            }
        }
        w.log = LogWriter::new(log);
        w.space.restored();
        self.extents.write().restored();
    }

    /// Replays what came after the checkpoint, and makes a new one.
    fn replay(&self, w: &mut Writer, log: Place) -> Result<(), FirmwareError> {
        let read = read_log(&self.medium, log)?;
        let mut lsn = log.lsn - 1;
        for group in &read.groups {
            if group.lsn > read.durable && !self.data_is_whole(group)? {
                break;
            }
            self.replay_group(w, group).map_err(|what| {
                let what = format!("the log group that ends at page {}: {what}", group.lsn);
                FirmwareError::damaged(self.medium.path(), what)
            })?;
            lsn = group.lsn;
        }
        // Not before: batches may have had, and emptied, an EBLOCK that the log then went on in.
        for &e in &read.eblocks {
            let d = w.space.summary.edit(e);
            if d.live != 0 {
                let what = format!("the log goes through {e:?}, which holds pages");
                return Err(FirmwareError::damaged(self.medium.path(), what));
            }
            d.state = State::Log;
        }
        self.find_ends(w)?;
        w.space.restored();
        self.extents.write().restored();
        self.versions.restore(w.commit);
        let made = self.begin_log(w, lsn + 1).and_then(|()| {
            w.log.closed.extend(read.eblocks);
            self.checkpoint(w, false)
        });
        match made {
            Err(e) if e.is_no_space() => {
                self.fatal(&e);
                Ok(())
            }
            made => made,
        }
    }

    /// Whether the data that a group speaks of is on the medium. A medium that can not be read does not say.
    fn data_is_whole(&self, group: &Group) -> Result<bool, FirmwareError> {
        let g = self.geometry();
        for r in &group.records {
            match r {
                Record::Opened(o) => {
                    if o.eblock.raw() < g.eblock_count() {
                        self.medium.set_generation(o.eblock, o.generation);
                    }
                }
                Record::Commit(c) => {
                    for w in &c.writes {
                        match self.medium.read(w.entry.ppa(g), w.entry.len_bytes() as u32) {
                            Ok(_) => {}
                            Err(FlashError::ChecksumMismatch { .. } | FlashError::WrongGeneration { .. }) => {
                                return Ok(false);
                            }
                            Err(e) => return Err(e.into()),
                        }
                    }
                }
                Record::Allocated { .. } | Record::Indexed(_) => {}
            }
        }
        Ok(true)
    }

    fn replay_group(&self, w: &mut Writer, group: &Group) -> Result<(), String> {
        for r in &group.records {
            match r {
                Record::Opened(o) => {
                    w.space.replay_open(*o, w.commit)?;
                    self.medium.set_generation(o.eblock, o.generation);
                }
                Record::Allocated { owner, extent } => self.extents.write().replay(*owner, *extent)?,
                Record::Commit(c) => self.replay_commit(w, c)?,
                Record::Indexed(i) => {
                    let pages = i.pages.iter().map(|p| (p.lpid, true));
                    let touched = self.touch(pages, &[], &[]).map_err(|e| e.to_string())?;
                    self.install_indexed(i, &touched);
                }
            }
        }
        Ok(())
    }

    fn replay_commit(&self, w: &mut Writer, c: &Commit) -> Result<(), String> {
        let g = *self.geometry();
        if c.number != w.commit + 1 {
            return Err(format!("commit {} follows commit {}", c.number, w.commit));
        }
        {
            let extents = self.extents.read();
            let written = c.writes.iter().map(|w| w.lpid.extent());
            if let Some(e) = written.chain(c.releases.iter().copied()).find(|&e| extents.owner(e).is_none()) {
                return Err(format!("extent {e} has no owner"));
            }
        }
        for page in &c.writes {
            let (e, offset) = g.locate(page.entry.ppa(&g));
            if !matches!(w.space.summary.get(e).state, State::Open { .. } | State::Used { .. }) {
                return Err(format!("page {} lies in {e:?}, which is not open", page.lpid));
            }
            let end = (offset + page.entry.cells_bytes()).div_ceil(g.wblock_bytes());
            let d = w.space.summary.edit(e);
            d.end = d.end.max(end);
        }
        let writes = c.writes.iter().map(|p| (p.lpid, p.index.is_some()));
        let touched = self.touch(writes, &c.trims, &c.releases).map_err(|e| e.to_string())?;
        self.install(w, c, &touched, false);
        match w.space.summary.miscounted {
            Some(e) => Err(format!("the summary of {e:?} counts less than is mapped there")),
            None => Ok(()),
        }
    }

    /// Finds up to where open EBLOCKs were programmed, by batches that never were acknowledged too: what is
    /// written next comes after.
    fn find_ends(&self, w: &mut Writer) -> Result<(), FirmwareError> {
        let open = |d: &Descriptor| matches!(d.state, State::Open { .. });
        let open: Vec<_> = w.space.summary.all().filter(|(_, d)| open(d)).map(|(e, d)| (e, *d)).collect();
        let wblocks = self.geometry().wblocks_per_eblock();
        for (e, d) in open {
            let mut end = d.end;
            for wblock in d.end..wblocks {
                if self.medium.probe(e, wblock)? != WblockState::Empty {
                    end = wblock + 1;
                }
            }
            self.medium.set_next_wblock(e, end);
            let now = w.space.summary.edit(e);
            now.end = end;
            if end == wblocks
                && let State::Open { stream, .. } = now.state
            {
                now.state = State::Used { stream };
                now.closed_at = w.commit;
            }
        }
        Ok(())
    }

    /// Begins a log in EBLOCKs of its own.
    fn begin_log(&self, w: &mut Writer, lsn: u64) -> Result<(), FirmwareError> {
        let full = || FirmwareError::Full { path: self.medium.path().into(), what: "the log" };
        let (eblock, generation) = w.space.take(&self.medium, State::Log, 0)?.ok_or_else(full)?;
        let next = w.space.take(&self.medium, State::Log, 0)?.ok_or_else(full)?;
        w.log = LogWriter::new(Place { lsn, eblock, generation, wblock: 0, next });
        Ok(())
    }
}
