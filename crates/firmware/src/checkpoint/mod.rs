//! Fuzzy checkpoints: what is dirty is written while writers go on, so that the next open reads only the log that came
//! after the checkpoint began.
//!
//! ```text
//!   [begin: where the log is] ─► dirty mapping, index pages ─► pieces of the tables ─► root ─► record ─► truncate the log
//!
//!   record (two slots, in turns; both the same at rest)
//!     └─► root ─┬─► pieces: homes of mapping pages, homes of index pages, owners, rules, open EBLOCKs, sessions, summary
//!               └─► generations of the EBLOCKs that the drive's own pages lie in, and of those that are written to
//!
//!   record: | magic 4 | version 2 | flags 2 (1: clean) | open epoch 4 | commit 8 | clock 8 | end LSN 8
//!           | log place | root 8 | its generation 8 |
//!   root:   7 x ( count 4 | mapping entries 8 each ) | count 4 | EBLOCK 4, generation 8 | ...
//!   open EBLOCKs: count 4, then each: EBLOCK 4, count 4, words 8 each
//! ```
//!
//! Invariants: everything that was dirty when the checkpoint began is durable before its record is written, as of some
//! later LSN that the log tells (`own`), and pages that the log before it inlined were moved; the root that the older
//! record names stays until the newer one is durable.
//!
//! Source: ELEOS §VIII-B. We differ: a record is written to both slots, so that one damaged slot loses nothing; open
//! EBLOCKs are not closed by force, since their metadata is written with the tables.

mod own;

use std::collections::BTreeSet;

use lode_base::{EblockId, Geometry};
use lode_flash::Generation;

use crate::FirmwareError;
use crate::codec::{Malformed, Put, Take};
use crate::core::{Core, Counts};
use crate::entry::Entry;
use crate::log::{LogPosition, NUMBER_MAX};
use crate::own::{OwnKind, encode_page};
use crate::planted::{self, Planted};
use crate::space::{Descriptor, State};
use crate::stream::Stream;
use own::OwnPage;

const MAGIC: [u8; 4] = *b"LCKP";
pub(crate) const VERSION: u16 = 2;
const CLEAN: u16 = 1;
/// Times that the last tables are written, before the next open is to find out how the EBLOCKs are.
const CLOSE_TRIES: u32 = 3;

/// A decoded checkpoint record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    /// Whether the drive was closed with it: then the log ends at `end`.
    pub(crate) clean: bool,
    pub(crate) epoch: u32,
    /// The newest commit before `log`.
    pub(crate) commit: u64,
    pub(crate) clock: u64,
    /// The last LSN when the record was written.
    pub(crate) end: u64,
    /// Where replay begins.
    pub(crate) log: LogPosition,
    pub(crate) root: Entry,
    pub(crate) root_generation: Generation,
}

/// Why a record can not be read.
pub(crate) enum BadRecord {
    Newer(u16),
    Malformed(Malformed),
}

impl From<Malformed> for BadRecord {
    fn from(m: Malformed) -> Self {
        Self::Malformed(m)
    }
}

impl CheckpointRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut b = MAGIC.to_vec();
        b.put_u16(VERSION);
        b.put_u16(if self.clean { CLEAN } else { 0 });
        b.put_u32(self.epoch);
        b.put_u64(self.commit);
        b.put_u64(self.clock);
        b.put_u64(self.end);
        self.log.encode(&mut b);
        b.put_u64(self.root.word());
        b.put_u64(self.root_generation.raw());
        b
    }

    pub(crate) fn decode(bytes: &[u8], g: &Geometry) -> Result<Self, BadRecord> {
        let t = &mut Take::new(bytes);
        if t.raw(4)? != MAGIC {
            return Err(t.bad("not a checkpoint record").into());
        }
        let (version, flags) = (t.u16()?, t.u16()?);
        if version > VERSION {
            return Err(BadRecord::Newer(version));
        }
        if version < VERSION || flags & !CLEAN != 0 {
            return Err(t.bad("an unknown version or flag of the checkpoint record").into());
        }
        let (epoch, commit, clock, end) = (t.u32()?, t.u64()?, t.u64()?, t.u64()?);
        let log = LogPosition::decode(t, g)?;
        if end < log.lsn - 1 {
            return Err(t.bad("an impossible place of the log").into());
        }
        if [commit, clock, end].into_iter().any(|n| n > NUMBER_MAX) {
            return Err(t.bad("a number that none follows").into());
        }
        let root = Entry::check(t.u64()?, g).map_err(|what| t.bad(what))?;
        let root = root.ok_or(t.bad("no root"))?;
        let root_generation = Generation::from_raw(t.u64()?);
        t.end()?;
        Ok(Self { clean: flags & CLEAN != 0, epoch, commit, clock, end, log, root, root_generation })
    }
}

impl Core {
    /// Writes a checkpoint. With `clean`, nothing will be written after it until the drive is opened again.
    pub(crate) fn checkpoint(&self, clean: bool) -> Result<(), FirmwareError> {
        let _background = self.background.lock();
        self.checkpoint_now(clean)
    }

    /// As [`Core::checkpoint`], by whoever holds the background.
    pub(crate) fn checkpoint_now(&self, clean: bool) -> Result<(), FirmwareError> {
        let written = self.write_checkpoint(clean);
        if let Err(e) = &written {
            self.note(e);
        }
        written
    }

    fn write_checkpoint(&self, mut clean: bool) -> Result<(), FirmwareError> {
        let _span = tracing::debug_span!("checkpoint", clean).entered();
        self.check_writable()?;
        self.reclaim()?;
        let ((log, commit, clock), log_before, changed) = {
            let mut log = self.log.lock();
            self.write_pending(&mut log)?;
            let w = self.seq.lock();
            match w.last_checkpoint {
                // What the log says since then is still only there.
                Some(last) if w.log_bytes == 0 && !self.has_dirty(&w) => (last, 0, false),
                _ => ((w.log_position, w.commit, w.space.clock()), w.log_bytes, true),
            }
        };
        if changed {
            // What the log before inlined is nowhere else.
            if !planted::is(Planted::InlinedStays) {
                self.move_inlined()?;
            }
            self.flush(&self.map)?;
            self.flush(&self.index)?;
            clean = self.write_last_tables(clean)?;
        }
        let (root, end) = {
            let mut log = self.log.lock();
            if clean {
                let failed = || self.seq.lock().space.mishaps();
                let before = failed();
                self.write_pending(&mut log)?;
                clean = failed() == before;
            }
            if !log.is_synced() && !planted::is(Planted::CheckpointBeforeForce) {
                self.sync_log()?;
                log.synced();
            }
            let w = self.seq.lock();
            (w.tables.root().expect("the root was written"), w.installed_lsn)
        };
        let root_generation = self.medium.generation(self.geometry().locate(root.ppa(self.geometry())).0);
        let epoch = self.medium.open_epoch();
        let record = CheckpointRecord { clean, epoch, commit, clock, end, log, root, root_generation };
        self.write_record(&record)?;
        Counts::add(&self.counts.checkpoints, 1);
        self.truncate(&record, log_before);
        self.reclaim()?;
        Ok(())
    }

    /// Writes the tables and the root. For a `clean` close, again when an EBLOCK failed or ended meanwhile, which the
    /// summary does not say then; answers whether it does.
    fn write_last_tables(&self, clean: bool) -> Result<bool, FirmwareError> {
        let failed = || self.seq.lock().space.mishaps();
        for _ in 0..CLOSE_TRIES {
            let before = failed();
            self.write_tables()?;
            self.write_root()?;
            if clean {
                let mut log = self.log.lock();
                self.write_pending(&mut log)?;
            }
            if !clean || failed() == before {
                return Ok(clean);
            }
        }
        Ok(false)
    }

    fn write_root(&self) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        let (root, as_of) = {
            let (_log, mut w) = self.settled();
            // Whatever is written from now on lies in one of these, or in one whose opening the log tells.
            let needed = |d: &Descriptor| {
                d.stream() == Some(Stream::Drive) || d.in_flight > 0 || matches!(d.state, State::Open { .. })
            };
            let own = w.space.descriptors().filter(|(_, d)| needed(d));
            let mut eblocks: BTreeSet<u32> = own.map(|(e, _)| e.raw()).collect();
            eblocks.extend(w.tables.pieces(OwnKind::Summary).map(|(_, e)| g.locate(e.ppa(&g)).0.raw()));
            let generations: Vec<_> = eblocks
                .into_iter()
                .map(|e| (EblockId::new(e), self.medium.generation(EblockId::new(e))))
                .collect();
            (encode_page(OwnKind::Root, 0, &w.tables.encode(&generations)), w.as_of())
        };
        self.write_own(vec![OwnPage { kind: OwnKind::Root, number: 0, bytes: Some(root) }], as_of)
    }

    fn write_record(&self, record: &CheckpointRecord) -> Result<(), FirmwareError> {
        let bytes = record.encode();
        let newest = self.medium.newest_checkpoint_record()?.map_or(1, |(slot, _)| slot);
        self.medium.write_checkpoint_record(1 - newest, &bytes)?;
        if !planted::is(Planted::SlotsNotOrdered) {
            self.medium.sync()?;
        }
        // Now the other slot may go. It is durable with the next sync, and until then the older record in it
        // is torn or whole: the newer one stands either way.
        self.medium.write_checkpoint_record(newest, &bytes)?;
        if record.clean {
            planted::instead(Planted::LastSyncLeftOut, || self.medium.sync(), || Ok(()))?;
        }
        Ok(())
    }

    /// Lets go of what only the checkpoint before needed.
    fn truncate(&self, record: &CheckpointRecord, log_before: u64) {
        let keep = if planted::is(Planted::LogTruncatedTooFar) { record.end + 1 } else { record.log.lsn };
        let closed = self.log.lock().truncate(keep);
        let mut w = self.seq.lock();
        for old in w.tables.take_superseded() {
            w.space.unpin(old);
        }
        w.space.release_log(&self.epochs, closed);
        w.proven_lsn = w.proven_lsn.max(record.end);
        w.log_bytes -= log_before;
        w.last_checkpoint = Some((record.log, record.commit, record.clock));
        w.space.checkpointed(record.log.lsn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Candidate;

    #[test]
    fn records_survive_and_cut_ones_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let e = EblockId::new;
        let generation = Generation::from_raw;
        let root = Entry::new(g.ppa(e(2), 640).unwrap(), 1000, false);
        let at = |n: u32| Candidate { eblock: e(n), generation: generation(6), wblock: 4 };
        let r = CheckpointRecord {
            clean: true,
            epoch: 3,
            commit: 77,
            clock: 5,
            end: 9,
            log: LogPosition { lsn: 5, epoch: 2, candidates: [at(1), at(3), at(4)] },
            root,
            root_generation: generation(8),
        };
        let b = r.encode();
        assert!(matches!(CheckpointRecord::decode(&b, &g), Ok(d) if d == r));
        for n in 0..b.len() {
            assert!(CheckpointRecord::decode(&b[..n], &g).is_err(), "cut to {n} bytes");
        }
    }
}
