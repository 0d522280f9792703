//! Appends groups of records to the log.
//!
//! ```text
//!   candidates:  [ a, WBLOCK 7 ][ b, 0 ][ c, 0 ][ d, 0 ]...      the first three are named by the page before;
//!                  └ programs fail ─► next    └ spare, erased      the rest is kept for a group that needs them
//! ```
//!
//! Invariants: the LSN goes up by one a page; an EBLOCK is erased before a page that names it is written; where a
//! program fails, the log goes on from the first page that the medium does not hold, at the next candidate; a group is
//! durable only once the medium was synced after it was appended.
//!
//! Source: ELEOS §VIII-A (three candidates, then writing stops).

use std::collections::VecDeque;

use lode_base::{EblockId, Geometry, PageBuf, PageBufMut};
use lode_flash::Generation;

use super::medium::LogMedium;
use super::page::{COPIES_MAX, LogPage, PAYLOAD_AT};
use super::reader::{LogEnd, Pages};
use super::spot::{CANDIDATES, Place, Spot};
use super::trail::Trail;
use crate::FirmwareError;

/// Bytes that are programmed at a time.
const PROGRAM_BYTES: u32 = 1 << 20;

/// Where the log gets EBLOCKs from: erased ones, as long as there are any.
pub(crate) type NextEblock<'a> = &'a mut dyn FnMut() -> Result<Option<(EblockId, Generation)>, FirmwareError>;

pub(crate) struct LogWriter {
    /// The next page.
    lsn: u64,
    /// Where it may go, in order: at least three. The first may lie within its EBLOCK; the others are its start.
    candidates: VecDeque<Spot>,
    /// How many of them failed.
    dead: usize,
    copies: u32,
    /// The last LSN known durable.
    durable: u64,
    trail: Trail,
    /// EBLOCKs in which a program failed, until they are asked for.
    failed: Vec<EblockId>,
}

/// A group that is being written.
struct Appending<'a> {
    group: &'a [u8],
    first: u64,
    last: u64,
}

/// Pages that fit an EBLOCK from a spot on, and in how many copies.
#[derive(Clone, Copy)]
struct Room {
    pages: u32,
    copies: u32,
}

impl LogWriter {
    /// A log that goes on at `place`, each page `copies` times; what lies before it is durable. The medium knows the
    /// generations of the spots, and that nothing was programmed there.
    pub(crate) fn new(place: Place, copies: u32) -> Self {
        assert!((1..=COPIES_MAX).contains(&copies), "{copies} copies of a log page");
        Self {
            lsn: place.lsn,
            candidates: place.spots.into(),
            dead: 0,
            copies,
            durable: place.lsn - 1,
            trail: Trail::default(),
            failed: Vec::new(),
        }
    }

    /// Takes over the EBLOCKs and groups of the log that was read up to the place at which this writer goes on, all of
    /// it durable.
    pub(crate) fn resumed(&mut self, end: &LogEnd) {
        assert_eq!(self.place(), end.place, "the log goes on where it ended");
        self.trail = end.trail().clone();
    }

    /// Where the next group begins.
    pub(crate) fn place(&self) -> Place {
        let c = &self.candidates;
        Place { lsn: self.lsn, spots: [c[0], c[1], c[2]] }
    }

    /// The last LSN known durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// The medium was synced after the last append.
    pub(crate) fn synced(&mut self) {
        self.durable = self.lsn - 1;
    }

    /// Bytes of the medium that a page takes.
    pub(crate) fn page_bytes(&self, g: &Geometry) -> u64 {
        u64::from(self.copies) * u64::from(g.wblock_bytes())
    }

    /// Bytes of the medium that a group of `bytes` takes.
    pub(crate) fn group_bytes(g: &Geometry, copies: u32, bytes: usize) -> u64 {
        let pages = bytes.div_ceil(g.wblock_bytes() as usize - PAYLOAD_AT) as u64;
        pages * u64::from(copies) * u64::from(g.wblock_bytes())
    }

    /// Bytes of the medium that the pages from `lsn` on take.
    pub(crate) fn bytes_since(&self, g: &Geometry, lsn: u64) -> u64 {
        self.lsn.saturating_sub(lsn) * self.page_bytes(g)
    }

    /// The start of the group that holds page `lsn`, or of the first group after it that is kept.
    pub(crate) fn place_of(&self, lsn: u64) -> Place {
        if lsn >= self.lsn {
            return self.place();
        }
        self.trail.place_of(lsn).unwrap_or_else(|| self.place())
    }

    /// Forgets what lies before the group that holds page `lsn`. The answer: EBLOCKs that the log does not need any
    /// more, each once; what reads from [`LogWriter::place_of`] that page, or a later one, does not meet them.
    pub(crate) fn truncate(&mut self, lsn: u64) -> Vec<EblockId> {
        let keep = self.place_of(lsn).lsn;
        let candidates = &self.candidates;
        let mut gone = self.trail.truncate(keep, |e| candidates.iter().any(|c| c.eblock == e));
        // No page names the spares that were taken for a group that then did not fit.
        gone.extend(self.candidates.drain(CANDIDATES..).map(|c| c.eblock));
        gone
    }

    /// All EBLOCKs that the log holds, spares included, each once.
    pub(crate) fn eblocks(&self) -> Vec<EblockId> {
        let spots = self.candidates.iter().map(|c| c.eblock);
        let mut all: Vec<_> = self.trail.eblocks().chain(spots).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// EBLOCKs in which programs failed since this was last asked; [`LogWriter::truncate`] lets them go.
    pub(crate) fn take_failed(&mut self) -> Vec<EblockId> {
        std::mem::take(&mut self.failed)
    }

    /// Writes a group; answers the LSN of its last page. It counts once [`LogWriter::synced`] said so.
    ///
    /// # Errors
    /// [`FirmwareError::LogDead`] when a page has no place left. [`FirmwareError::Full`], or another that
    /// [`FirmwareError::is_no_space`], when there is no room: the next group can be tried, and half of this one is passed
    /// over when it is read. Others of the medium.
    pub(crate) fn append(
        &mut self,
        medium: &dyn LogMedium,
        group: &[u8],
        next_eblock: NextEblock<'_>,
    ) -> Result<u64, FirmwareError> {
        assert!(!group.is_empty(), "an empty group");
        let g = *medium.geometry();
        let pages = group.len().div_ceil(g.wblock_bytes() as usize - PAYLOAD_AT) as u64;
        let a = Appending { group, first: self.lsn, last: self.lsn + pages - 1 };
        while self.lsn <= a.last {
            self.pass_over_ended(medium);
            if self.dead == CANDIDATES {
                let path = medium.path().into();
                return Err(FirmwareError::LogDead { path, lsn: self.lsn, candidates: CANDIDATES });
            }
            let spot = self.candidates[self.dead];
            let room = self.room(&g, spot);
            let left = a.last - self.lsn + 1;
            self.provide(medium, room, left, next_eblock)?;
            let at_once = (PROGRAM_BYTES / (room.copies * g.wblock_bytes())).max(1);
            let run = room.pages.min(at_once).min(u32::try_from(left).unwrap_or(u32::MAX));
            let bytes = self.encode(medium, &a, spot, room, run);
            match medium.program(spot.eblock, spot.wblock, &bytes) {
                Ok(()) => self.advance(a.first, room, run),
                Err(e) => {
                    let failed = e.is_program_failure();
                    // When there was no space, nothing was programmed; or the EBLOCK is ended without being bad.
                    if failed || medium.next_wblock(spot.eblock) != spot.wblock {
                        self.go_on_after(medium, a.first, room, run);
                    }
                    if !failed {
                        return Err(e.into());
                    }
                    self.failed.push(spot.eblock);
                }
            }
        }
        Ok(a.last)
    }

    /// Candidates whose EBLOCK can not be programmed there.
    fn pass_over_ended(&mut self, medium: &dyn LogMedium) {
        while self.dead < CANDIDATES {
            let c = self.candidates[self.dead];
            if medium.next_wblock(c.eblock) == c.wblock && medium.generation(c.eblock) == c.generation {
                break;
            }
            self.dead += 1;
        }
    }

    fn room(&self, g: &Geometry, spot: Spot) -> Room {
        let wblocks = g.wblocks_per_eblock() - spot.wblock;
        assert!(wblocks > 0, "the next log page lies beyond its EBLOCK");
        // A log that was kept once has a last WBLOCK where one that is kept twice has none.
        let copies = self.copies.min(wblocks);
        Room { pages: wblocks / copies, copies }
    }

    /// Sees to it that `left` pages find room, and that the last of them can name three places.
    fn provide(
        &mut self,
        medium: &dyn LogMedium,
        room: Room,
        left: u64,
        next_eblock: NextEblock<'_>,
    ) -> Result<(), FirmwareError> {
        let a_eblock = u64::from(medium.geometry().wblocks_per_eblock() / self.copies);
        // Two pages of room, and the spares b, c, d, e, four pages each:  1 page leaves the next for here, b, c;
        // 2 pages for b, c, d;  5 pages, three of them in b, for b, c, d;  6 pages, b full, for c, d, e.
        let spares = match left.checked_sub(room.pages.into()) {
            None => CANDIDATES as u64 - 1,
            Some(beyond) => beyond / a_eblock + CANDIDATES as u64,
        };
        while ((self.candidates.len() - self.dead - 1) as u64) < spares {
            let full = || FirmwareError::Full { path: medium.path().into(), what: "the log" };
            let next = Spot::start(next_eblock()?.ok_or_else(full)?);
            assert!(
                self.candidates.iter().all(|c| c.eblock != next.eblock),
                "the log gets {:?} twice",
                next.eblock
            );
            self.candidates.push_back(next);
        }
        Ok(())
    }

    /// Where the page after the one at `spot` may lie; `here` says whether it fits behind.
    fn next_spots(&self, spot: Spot, copies: u32, here: bool) -> [Spot; CANDIDATES] {
        let [b, c] = self.spares();
        if here { [spot.plus(copies), b, c] } else { [b, c, self.candidates[self.dead + 3]] }
    }

    /// What comes after the EBLOCK that is written.
    fn spares(&self) -> [Spot; CANDIDATES - 1] {
        [self.candidates[self.dead + 1], self.candidates[self.dead + 2]]
    }

    /// The next `run` pages, in all their copies.
    fn encode(&self, medium: &dyn LogMedium, a: &Appending<'_>, spot: Spot, room: Room, run: u32) -> PageBuf {
        let g = medium.geometry();
        let wblock_bytes = g.wblock_bytes() as usize;
        let payload_bytes = wblock_bytes - PAYLOAD_AT;
        let mut buf = PageBufMut::zeroed((run * room.copies) as usize * wblock_bytes);
        let mut out = buf.chunks_exact_mut(wblock_bytes);
        for i in 0..run {
            let lsn = self.lsn + u64::from(i);
            let from = (lsn - a.first) as usize * payload_bytes;
            let payload = &a.group[from..a.group.len().min(from + payload_bytes)];
            let spot = spot.plus(i * room.copies);
            let mut p = LogPage {
                first: lsn == a.first,
                last: lsn == a.last,
                copy: 0,
                copies: room.copies as u8,
                generation: spot.generation,
                lsn,
                durable: self.durable,
                epoch: medium.open_epoch(),
                next: self.next_spots(spot, room.copies, i + 1 < room.pages),
            };
            for copy in 0..room.copies {
                p.copy = copy as u8;
                let offset = (spot.wblock + copy) * g.wblock_bytes();
                let at = g.ppa(spot.eblock, offset).expect("the log lies on the medium");
                p.encode(at, payload, out.next().expect("there is room for all copies"));
            }
        }
        buf.freeze()
    }

    /// The next `count` pages lie at the candidate that is written.
    fn advance(&mut self, group_first: u64, room: Room, count: u32) {
        let spot = self.candidates[self.dead];
        let spares = self.spares();
        for dead in self.candidates.drain(..self.dead) {
            self.trail.pass_over(dead, self.lsn);
        }
        self.dead = 0;
        self.trail.add(spot, self.lsn, count, room.copies, spares);
        if self.lsn == group_first {
            self.trail.begin_group(self.lsn);
        }
        if count < room.pages {
            self.candidates[0] = spot.plus(count * room.copies);
        } else {
            self.candidates.pop_front();
        }
        self.lsn += u64::from(count);
    }

    /// A program of `run` pages failed: those that the medium holds, up to the first that it does not, are written, and
    /// the EBLOCK is ended.
    fn go_on_after(&mut self, medium: &dyn LogMedium, group_first: u64, room: Room, run: u32) {
        let spot = self.candidates[self.dead];
        let mut pages = Pages::new(medium);
        let held = |i: &u32| pages.holds(spot.plus(i * room.copies), self.lsn + u64::from(*i));
        let count = (0..run).take_while(held).count() as u32;
        if count > 0 {
            self.advance(group_first, room, count);
        }
        while self.dead < CANDIDATES && self.candidates[self.dead].eblock == spot.eblock {
            self.dead += 1;
        }
    }

    /// What must hold between two appends.
    pub(crate) fn check_invariants(&self, medium: &dyn LogMedium) {
        let g = medium.geometry();
        assert!(self.candidates.len() >= CANDIDATES && self.dead <= CANDIDATES);
        assert!(self.durable < self.lsn, "page {} is durable before it is written", self.lsn);
        for (i, c) in self.candidates.iter().enumerate() {
            assert!(c.wblock < g.wblocks_per_eblock() && (i == 0 || c.wblock == 0), "a candidate at {c}");
            assert_eq!(medium.generation(c.eblock), c.generation, "{c} was erased under the log");
            assert!(self.candidates.iter().skip(i + 1).all(|d| d.eblock != c.eblock), "{c} comes twice");
        }
        if self.dead == 0 {
            // The first may have ended since; the others were not touched.
            for c in self.candidates.iter().skip(1) {
                assert_eq!(medium.next_wblock(c.eblock), 0, "{c} was programmed before its turn");
            }
        }
        self.trail.check_invariants(self.lsn);
    }
}
