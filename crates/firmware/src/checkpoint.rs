//! Checkpoints: the whole state, so that the next open reads only the log that came after.
//!
//! ```text
//!   record (two slots, in turns; both the same at rest)
//!     └─► root ─┬─► pieces: homes of mapping pages, homes of index pages, owners, rules, summary
//!               └─► generations of the EBLOCKs that the summary lies in
//!
//!   record: | magic 4 | version 2 | flags 2 (1: clean) | open epoch 4 | commit 8 | log place | root 8 | its generation 8
//!           | count 4 | EBLOCK 4, descriptor 32 | ...        descriptors that changed since the summary was written
//!   log place: LSN 8, EBLOCK 4, generation 8, WBLOCK 4, next EBLOCK 4, next generation 8
//!   root:   5 x ( count 4 | mapping entries 8 each ) | count 4 | EBLOCK 4, generation 8 | ...
//! ```
//!
//! The writer's lock is held, so the state is that of one commit: replay meets each record once, and counts
//! exactly. Readers go on. Invariants: everything that a record names is durable before the record is
//! written; everything that the older record names stays until the newer one is durable.
//!
//! Source: ELEOS §VIII-B. We differ: not fuzzy; a record is written to both slots, so that one damaged slot
//! loses nothing.

use std::collections::BTreeSet;

use lode_base::{EblockId, Geometry};
use lode_flash::{CHECKPOINT_RECORD_BYTES_MAX, Generation};

use crate::FirmwareError;
use crate::codec::{Malformed, Put, Take};
use crate::core::{Core, Writer};
use crate::drive_page::{self, DriveKind};
use crate::log::Place;
use crate::map::Entry;
use crate::summary::{DESCRIPTOR_BYTES, Descriptor, State, Stream};

const MAGIC: [u8; 4] = *b"LCKP";
pub(crate) const VERSION: u16 = 1;
const CLEAN: u16 = 1;
/// Changed descriptors that a record takes; with more, the summary is written anew.
const OVERRIDES_MAX: usize = 1024;
const _: () = assert!(128 + OVERRIDES_MAX * (4 + DESCRIPTOR_BYTES) < CHECKPOINT_RECORD_BYTES_MAX);
/// Bytes of one piece of the rules.
const RULES_PIECE_BYTES: usize = 1 << 20;

/// The tables, in the order of the root.
pub(crate) const TABLES: [DriveKind; 5] =
    [DriveKind::MapHomes, DriveKind::IndexHomes, DriveKind::Owners, DriveKind::Rules, DriveKind::Summary];

/// Where the pieces of the tables lie, and the root that says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    homes: [Vec<u64>; TABLES.len()],
    pub(crate) root: Option<Entry>,
}

impl Tables {
    fn table(kind: DriveKind) -> usize {
        TABLES.iter().position(|k| *k == kind).expect("a table")
    }

    /// The pieces of a table and where they lie.
    pub(crate) fn pieces(&self, kind: DriveKind) -> impl Iterator<Item = (usize, Entry)> {
        let homes = self.homes[Self::table(kind)].iter().enumerate();
        homes.filter_map(|(i, &w)| Some((i, Entry::from_word(w)?)))
    }

    fn set(&mut self, kind: DriveKind, piece: usize, home: Option<Entry>) -> Option<Entry> {
        let homes = &mut self.homes[Self::table(kind)];
        if homes.len() <= piece {
            homes.resize(piece + 1, 0);
        }
        Entry::from_word(std::mem::replace(&mut homes[piece], home.map_or(0, Entry::word)))
    }

    fn encode(&self, generations: &[(EblockId, Generation)]) -> Vec<u8> {
        let mut b = Vec::new();
        for homes in &self.homes {
            b.put_u32(homes.len() as u32);
            homes.iter().for_each(|&w| b.put_u64(w));
        }
        b.put_u32(generations.len() as u32);
        for (e, generation) in generations {
            b.put_u32(e.raw());
            b.put_u64(generation.raw());
        }
        b
    }

    /// The tables of a root, and the generations of the EBLOCKs that the summary lies in.
    pub(crate) fn decode(
        bytes: &[u8],
        root: Entry,
        g: &Geometry,
    ) -> Result<(Self, Vec<(EblockId, Generation)>), Malformed> {
        let t = &mut Take::new(bytes);
        let mut tables = Self { root: Some(root), ..Self::default() };
        for homes in &mut tables.homes {
            for _ in 0..t.count(8)? {
                let word = t.u64()?;
                Entry::check(word, g).map_err(|what| t.bad(what))?;
                homes.push(word);
            }
        }
        let mut generations = Vec::new();
        for _ in 0..t.count(12)? {
            generations.push((eblock(t, g)?, Generation::from_raw(t.u64()?)));
        }
        t.end()?;
        Ok((tables, generations))
    }
}

fn eblock(t: &mut Take<'_>, g: &Geometry) -> Result<EblockId, Malformed> {
    let e = t.u32()?;
    if e >= g.eblock_count() {
        return Err(t.bad("an EBLOCK beyond the medium"));
    }
    Ok(EblockId::new(e))
}

/// A decoded checkpoint record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    /// Whether the drive was closed with it.
    pub(crate) clean: bool,
    pub(crate) epoch: u32,
    pub(crate) commit: u64,
    pub(crate) log: Place,
    pub(crate) root: Entry,
    pub(crate) root_generation: Generation,
    pub(crate) overrides: Vec<(EblockId, Descriptor)>,
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
    fn encode(&self) -> Vec<u8> {
        let mut b = MAGIC.to_vec();
        b.put_u16(VERSION);
        b.put_u16(if self.clean { CLEAN } else { 0 });
        b.put_u32(self.epoch);
        b.put_u64(self.commit);
        b.put_u64(self.log.lsn);
        b.put_u32(self.log.eblock.raw());
        b.put_u64(self.log.generation.raw());
        b.put_u32(self.log.wblock);
        b.put_u32(self.log.next.0.raw());
        b.put_u64(self.log.next.1.raw());
        b.put_u64(self.root.word());
        b.put_u64(self.root_generation.raw());
        b.put_u32(self.overrides.len() as u32);
        for (e, d) in &self.overrides {
            b.put_u32(e.raw());
            d.encode(&mut b);
        }
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
        let (epoch, commit, lsn) = (t.u32()?, t.u64()?, t.u64()?);
        let (e, generation, wblock) = (eblock(t, g)?, Generation::from_raw(t.u64()?), t.u32()?);
        let next = (eblock(t, g)?, Generation::from_raw(t.u64()?));
        if flags & !CLEAN != 0 || lsn == 0 || wblock > g.wblocks_per_eblock() {
            return Err(t.bad("an impossible place of the log").into());
        }
        let log = Place { lsn, eblock: e, generation, wblock, next };
        let root = Entry::check(t.u64()?, g).map_err(|what| t.bad(what))?;
        let root = root.ok_or(t.bad("no root"))?;
        let root_generation = Generation::from_raw(t.u64()?);
        let mut overrides = Vec::new();
        for _ in 0..t.count(4 + DESCRIPTOR_BYTES)? {
            overrides.push((eblock(t, g)?, Descriptor::decode(t, g)?));
        }
        t.end()?;
        Ok(Self { clean: flags & CLEAN != 0, epoch, commit, log, root, root_generation, overrides })
    }
}

impl Core {
    /// Writes a checkpoint. With `clean`, nothing will be written after it until the drive is opened again.
    pub(crate) fn checkpoint(&self, w: &mut Writer, clean: bool) -> Result<(), FirmwareError> {
        self.check_writable()?;
        self.reclaim(w)?;
        let changed = w.root_due
            || w.log.bytes > 0
            || w.rules_changed
            || self.map.has_dirty()
            || self.index.has_dirty()
            || self.extents.read().is_dirty()
            || w.space.summary.touched().len() > OVERRIDES_MAX;
        if changed {
            self.gather(w);
            self.flush(w, &self.map)?;
            self.flush(w, &self.index)?;
            self.write_tables(w)?;
            self.write_summary_and_root(w)?;
        }
        self.medium.sync()?;
        self.write_record(w, clean)?;
        self.truncate(w);
        self.reclaim(w)?;
        Ok(())
    }

    /// Marks the drive's own pages in sparse EBLOCKs dirty, so that those EBLOCKs empty: without this, one
    /// page that never changes keeps its EBLOCK.
    fn gather(&self, w: &mut Writer) {
        let g = self.geometry();
        let used = |d: &Descriptor| d.state == State::Used { stream: Stream::Drive } && d.live > 0;
        let held: Vec<_> = w.space.summary.all().filter(|(_, d)| used(d)).map(|(e, d)| (e, d.live)).collect();
        let live: u64 = held.iter().map(|(_, live)| u64::from(*live)).sum();
        if held.len() as u64 * u64::from(g.eblock_bytes()) <= 2 * live + 2 * u64::from(g.eblock_bytes()) {
            return;
        }
        let sparse: BTreeSet<u32> =
            held.iter().filter(|(_, live)| *live < g.eblock_bytes() / 2).map(|(e, _)| e.raw()).collect();
        let lies = |e: Entry| sparse.contains(&g.locate(e.ppa(g)).0.raw());
        // A page that can not be read stays where it is; whoever needs it is told.
        for n in self.map.at_home_in(lies) {
            let _ = self.map.get_for_write(&self.medium, &self.epochs, n, crate::map::MapPage::vacant);
        }
        for n in self.index.at_home_in(lies) {
            let _ = self.index.get_for_write(&self.medium, &self.epochs, n, crate::index::IndexPage::vacant);
        }
        let pieces = |kind| {
            let sparse = w.tables.pieces(kind).filter(|(_, home)| lies(*home));
            sparse.map(|(p, _)| p).collect::<Vec<_>>()
        };
        self.map.mark_pieces_dirty(pieces(DriveKind::MapHomes));
        self.index.mark_pieces_dirty(pieces(DriveKind::IndexHomes));
        self.extents.write().mark_pieces_dirty(pieces(DriveKind::Owners));
        let rules = !pieces(DriveKind::Rules).is_empty();
        let summary = pieces(DriveKind::Summary);
        w.rules_changed |= rules;
        summary.into_iter().for_each(|p| w.space.summary.touch_piece(p));
    }

    fn write_tables(&self, w: &mut Writer) -> Result<(), FirmwareError> {
        let words = |v: Vec<u64>| v.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let map = self.map.take_dirty_pieces();
        let index = self.index.take_dirty_pieces();
        let owners = self.extents.write().take_dirty_pieces();
        let taken = [
            map.iter().map(|p| p.0).collect::<Vec<_>>(),
            index.iter().map(|p| p.0).collect(),
            owners.iter().map(|p| p.0).collect(),
        ];
        let mut pieces: Vec<(DriveKind, usize, Vec<u8>)> = Vec::new();
        pieces.extend(map.into_iter().map(|(p, v)| (DriveKind::MapHomes, p, words(v))));
        pieces.extend(index.into_iter().map(|(p, v)| (DriveKind::IndexHomes, p, words(v))));
        let owner_bytes = |v: Vec<u32>| v.iter().flat_map(|o| o.to_le_bytes()).collect();
        pieces.extend(owners.into_iter().map(|(p, v)| (DriveKind::Owners, p, owner_bytes(v))));
        if w.rules_changed {
            let bytes = self.rules.read().encode();
            let before = w.tables.pieces(DriveKind::Rules).count();
            let now: Vec<_> = bytes.chunks(RULES_PIECE_BYTES).map(<[u8]>::to_vec).collect();
            for p in now.len()..before {
                w.root_due = true;
                let old = w.tables.set(DriveKind::Rules, p, None);
                self.supersede(w, old);
            }
            pieces.extend(now.into_iter().enumerate().map(|(p, b)| (DriveKind::Rules, p, b)));
        }
        let written = self.write_pieces(w, pieces);
        if written.is_err() {
            let [map, index, owners] = taken;
            self.map.mark_pieces_dirty(map);
            self.index.mark_pieces_dirty(index);
            self.extents.write().mark_pieces_dirty(owners);
        } else {
            w.rules_changed = false;
        }
        written
    }

    fn write_pieces(
        &self,
        w: &mut Writer,
        pieces: Vec<(DriveKind, usize, Vec<u8>)>,
    ) -> Result<(), FirmwareError> {
        for some in pieces.chunks(256) {
            let encode = |(kind, p, b): &(DriveKind, usize, Vec<u8>)| drive_page::encode(*kind, *p as u64, b);
            let pages: Vec<_> = some.iter().map(encode).collect();
            let homes = self.append_own(w, &pages)?;
            w.root_due = true;
            for ((kind, p, _), home) in some.iter().zip(homes) {
                let old = w.tables.set(*kind, *p, Some(home));
                self.supersede(w, old);
            }
        }
        Ok(())
    }

    fn write_summary_and_root(&self, w: &mut Writer) -> Result<(), FirmwareError> {
        let g = *self.geometry();
        let pieces = w.space.summary.take_dirty_pieces();
        let numbers: Vec<_> = pieces.iter().map(|p| p.0).collect();
        let pieces = pieces.into_iter().map(|(p, b)| (DriveKind::Summary, p, b)).collect();
        let written = self.write_pieces(w, pieces).and_then(|()| {
            let eblocks: BTreeSet<u32> =
                w.tables.pieces(DriveKind::Summary).map(|(_, e)| g.locate(e.ppa(&g)).0.raw()).collect();
            let generation = |e: u32| {
                let e = EblockId::new(e);
                (e, w.space.summary.get(e).generation)
            };
            let generations: Vec<_> = eblocks.into_iter().map(generation).collect();
            let root = drive_page::encode(DriveKind::Root, 0, &w.tables.encode(&generations));
            let home = self.append_own(w, &[root])?[0];
            let old = w.tables.root.replace(home);
            w.root_due = false;
            self.supersede(w, old);
            Ok(())
        });
        if written.is_err() {
            numbers.into_iter().for_each(|p| w.space.summary.touch_piece(p));
        }
        written
    }

    fn write_record(&self, w: &Writer, clean: bool) -> Result<(), FirmwareError> {
        let root = w.tables.root.expect("the root was written");
        let (e, _) = self.geometry().locate(root.ppa(self.geometry()));
        let overrides = w.space.summary.touched().iter().map(|&e| EblockId::new(e));
        let record = CheckpointRecord {
            clean,
            epoch: self.medium.open_epoch(),
            commit: w.commit,
            log: w.log.place(),
            root,
            root_generation: w.space.summary.get(e).generation,
            overrides: overrides.map(|e| (e, w.space.summary.get(e))).collect(),
        };
        let bytes = record.encode();
        let newest = self.medium.newest_checkpoint_record()?.map_or(1, |(slot, _)| slot);
        self.medium.write_checkpoint_record(1 - newest, &bytes)?;
        self.medium.sync()?;
        // Now the other slot may go. It is durable with the next sync, and until then the older record in it
        // is torn or whole: the newer one stands either way.
        self.medium.write_checkpoint_record(newest, &bytes)?;
        if clean {
            self.medium.sync()?;
        }
        Ok(())
    }

    /// Lets go of what only the checkpoint before needed.
    fn truncate(&self, w: &mut Writer) {
        let g = self.geometry();
        for old in std::mem::take(&mut w.superseded) {
            w.space.summary.unpin(g.locate(old.ppa(g)).0, old.cells_bytes());
        }
        for e in std::mem::take(&mut w.log.closed) {
            w.space.retire(&self.epochs, e);
        }
        w.log.bytes = 0;
        // The checkpoint has the EBLOCKs that are open, and the owners.
        w.space.opened.clear();
        self.extents.write().checkpointed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_and_cut_ones_are_refused() {
        let g = Geometry::file(1 << 30).unwrap();
        let e = EblockId::new;
        let generation = Generation::from_raw;
        let root = Entry::new(g.ppa(e(2), 640).unwrap(), 1000, false);
        let mut space = crate::summary::Summary::new(&g);
        space.edit(e(4)).generation = generation(9);
        let r = CheckpointRecord {
            clean: true,
            epoch: 3,
            commit: 77,
            log: Place {
                lsn: 5,
                eblock: e(1),
                generation: generation(6),
                wblock: 2048,
                next: (e(3), generation(7)),
            },
            root,
            root_generation: generation(8),
            overrides: vec![(e(4), space.get(e(4)))],
        };
        let b = r.encode();
        assert!(matches!(CheckpointRecord::decode(&b, &g), Ok(d) if d == r));
        for n in 0..b.len() {
            assert!(CheckpointRecord::decode(&b[..n], &g).is_err(), "cut to {n} bytes");
        }
        let mut tables = Tables { root: Some(root), ..Tables::default() };
        tables.set(DriveKind::Owners, 3, Some(root));
        let generations = vec![(e(2), generation(8))];
        let b = tables.encode(&generations);
        assert_eq!(Tables::decode(&b, root, &g), Ok((tables, generations)));
    }
}
