//! Appends groups of records to the log.
//!
//! ```text
//!   candidates:  [ a, WBLOCK 7 ][ b, 0 ][ c, 0 ][ d, 0 ]...      the page before names the first three;
//!                  └ a program fails ─► next  └ spare, erased      a long group needs more
//! ```
//!
//! Invariants: the LSN goes up by one per page. An EBLOCK is erased before a page that names it is written. After a failed
//! program the log goes on from the first page that the medium does not hold, at the next candidate. A group is durable
//! only once the medium was synced after it was appended.
//!
//! Source: ELEOS §VIII-A (three candidates, then writing stops).

use std::collections::VecDeque;

use lode_base::{EblockId, Geometry, PageBuf, PageBufMut};
use lode_flash::Generation;

use super::buffer;
use super::candidate::{CANDIDATES, Candidate, LogPosition};
use super::medium::LogMedium;
use super::page::{COPIES_MAX, LogPage, PAYLOAD_AT, VERSION, VERSION_SHORT};
use super::reader::{LogEnd, Pages};
use super::trail::{Stretch, Trail};
use crate::FirmwareError;
use crate::planted::at;

/// Bytes that are programmed at a time.
const PROGRAM_BYTES: u32 = 1 << 20;

/// Gives the log an erased EBLOCK, or none if no EBLOCK is free.
pub(crate) type NextEblock<'a> = &'a mut dyn FnMut() -> Result<Option<(EblockId, Generation)>, FirmwareError>;

pub(crate) struct LogWriter {
    /// The LSN of the next page.
    lsn: u64,
    /// The opening of the medium that wrote the page before.
    epoch: u32,
    /// Where it may go, in order: at least three. The first may lie within its EBLOCK; the others begin theirs.
    candidates: VecDeque<Candidate>,
    /// How many of them failed.
    dead: usize,
    copies: u32,
    /// The last LSN known durable.
    durable: u64,
    trail: Trail,
    /// EBLOCKs in which a program failed since the last call of [`LogWriter::take_failed`].
    failed: Vec<EblockId>,
    /// WBLOCKs that a program left unused when the file system was full.
    left: Option<Left>,
    /// Records that are durable in the power-protected buffer, and will be the next page.
    pending: Vec<u8>,
    /// The version of the pages.
    version: u16,
}

/// WBLOCKs of an ended EBLOCK.
#[derive(Clone, Copy)]
struct Left {
    eblock: EblockId,
    wblock: u32,
    count: u32,
}

/// A group that is being written.
struct Appending<'a> {
    group: &'a [u8],
    first: u64,
    last: u64,
}

/// Pages that fit an EBLOCK from a candidate on, and in how many copies.
#[derive(Clone, Copy)]
struct Fit {
    pages: u32,
    copies: u32,
}

impl LogWriter {
    /// A log that goes on at `position`, with each page in `copies`. All before it is durable. The medium knows the generations
    /// of the candidates, and that nothing was programmed there.
    pub(crate) fn new(position: LogPosition, copies: u32) -> Self {
        assert!((1..=COPIES_MAX).contains(&copies), "{copies} copies of a log page");
        Self {
            lsn: position.lsn,
            epoch: position.epoch,
            candidates: position.candidates.into(),
            dead: 0,
            copies,
            durable: position.lsn - 1,
            trail: Trail::default(),
            failed: Vec::new(),
            left: None,
            pending: Vec::new(),
            version: VERSION_SHORT,
        }
    }

    /// From now on, pages may have long index entries.
    pub(crate) fn has_long_entries(&mut self) {
        self.version = VERSION;
    }

    /// Takes over the EBLOCKs and groups of the log that was read up to this writer's position. All of it is durable.
    pub(crate) fn resumed(&mut self, end: &LogEnd) {
        assert_eq!(self.position(), end.position, "the log goes on where it ended");
        self.trail = end.trail().clone();
    }

    /// Where the next group begins.
    pub(crate) fn position(&self) -> LogPosition {
        let c = &self.candidates;
        LogPosition { lsn: self.lsn, epoch: self.epoch, candidates: [c[0], c[1], c[2]] }
    }

    /// The medium was synced after the last append.
    pub(crate) fn synced(&mut self) {
        self.durable = self.lsn - 1;
    }

    /// The medium was synced after page `lsn` was appended.
    pub(crate) fn synced_to(&mut self, lsn: u64) {
        assert!(lsn < self.lsn, "page {lsn} was not written");
        self.durable = self.durable.max(lsn);
    }

    /// Bytes of records that are pending.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Adds records to those that are pending; answers what the power-protected buffer is to hold now.
    pub(crate) fn pend(&mut self, records: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(records);
        buffer::encode(self.lsn, &self.pending)
    }

    /// The pending records, which are pending no more.
    pub(crate) fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Their log page could not be written: they stay durable in the buffer.
    pub(crate) fn restore_pending(&mut self, records: Vec<u8>) {
        self.pending = records;
    }

    /// The last page.
    pub(crate) fn last(&self) -> u64 {
        self.lsn - 1
    }

    /// The last page that is known durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether all pages are known durable.
    pub(crate) fn is_synced(&self) -> bool {
        self.durable + 1 == self.lsn
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
    #[cfg(test)]
    pub(crate) fn bytes_since(&self, g: &Geometry, lsn: u64) -> u64 {
        self.lsn.saturating_sub(lsn) * self.page_bytes(g)
    }

    /// The start of the group that holds page `lsn`, or of the first group after it that is kept.
    pub(crate) fn position_of(&self, lsn: u64) -> LogPosition {
        if lsn >= self.lsn {
            return self.position();
        }
        self.trail.position_of(lsn).unwrap_or_else(|| self.position())
    }

    /// Forgets the log before the group that holds page `lsn`. Answers the EBLOCKs that the log does not need any more, each
    /// once: whoever reads from [`LogWriter::position_of`] that page on, or later, does not meet them.
    pub(crate) fn truncate(&mut self, lsn: u64) -> Vec<EblockId> {
        let keep = self.position_of(lsn).lsn;
        let candidates = &self.candidates;
        let may_come = |e| candidates.iter().any(|c| c.eblock == e);
        let mut gone = self.trail.truncate(keep, may_come);
        gone.extend(at!(CandidateReused => Some(candidates[CANDIDATES - 1].eblock), None));
        // No page names the spares that were taken for a group that then did not fit.
        gone.extend(self.candidates.drain(CANDIDATES..).map(|c| c.eblock));
        gone
    }

    /// All EBLOCKs that the log holds, spares included, each once.
    #[cfg(test)]
    pub(crate) fn eblocks(&self) -> Vec<EblockId> {
        let candidates = self.candidates.iter().map(|c| c.eblock);
        let mut all: Vec<_> = self.trail.eblocks().chain(candidates).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Has the next page go to a spare.
    pub(crate) fn leave_eblock(&mut self, medium: &dyn LogMedium) {
        if self.dead == 0 && self.left.is_none() && self.candidates[0].wblock > 0 {
            medium.set_next_wblock(self.candidates[0].eblock, medium.geometry().wblocks_per_eblock());
        }
    }

    /// EBLOCKs in which programs failed since the last call; [`LogWriter::truncate`] lets them go.
    pub(crate) fn take_failed(&mut self) -> Vec<EblockId> {
        std::mem::take(&mut self.failed)
    }

    /// Writes a group; answers the LSN of its last page. It counts once [`LogWriter::synced`] said so.
    ///
    /// # Errors
    /// [`FirmwareError::LogDead`] when a page has no candidate left. [`FirmwareError::Full`], or another that
    /// [`FirmwareError::is_no_space`], when there is no space: the next group can be tried, and half of this one is passed
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
        self.try_space(medium, pages)?;
        let a = Appending { group, first: self.lsn, last: self.lsn + pages - 1 };
        while self.lsn <= a.last {
            self.pass_over_ended(medium);
            if self.dead == CANDIDATES {
                let path = medium.path().into();
                return Err(FirmwareError::LogDead { path, lsn: self.lsn, candidates: CANDIDATES });
            }
            let candidate = self.candidates[self.dead];
            let fit = self.fit(&g, candidate);
            let left = a.last - self.lsn + 1;
            self.provide(medium, fit, left, next_eblock)?;
            let at_once = (PROGRAM_BYTES / (fit.copies * g.wblock_bytes())).max(1);
            let run = fit.pages.min(at_once).min(u32::try_from(left).unwrap_or(u32::MAX));
            let bytes = self.encode(medium, &a, candidate, fit, run);
            match medium.program(candidate.eblock, candidate.wblock, &bytes) {
                Ok(()) => self.advance(medium, a.first, fit, run),
                Err(e) => {
                    let failed = e.is_program_failure();
                    // When there is no space, nothing was programmed, or the EBLOCK is ended without being bad. A group of
                    // which the medium holds all counts, whatever the program said.
                    if failed || medium.next_wblock(candidate.eblock) != candidate.wblock {
                        // A cut must not find more there than is read back now, or less.
                        medium.sync()?;
                        let count = self.go_on_after(medium, a.first, fit, run);
                        let wblock = candidate.wblock + count * fit.copies;
                        let left =
                            Left { eblock: candidate.eblock, wblock, count: (run - count) * fit.copies };
                        self.left = (!failed && left.count > 0).then_some(left);
                    }
                    if failed {
                        self.failed.push(candidate.eblock);
                    } else if self.lsn <= a.last {
                        return Err(e.into());
                    }
                }
            }
        }
        Ok(a.last)
    }

    /// Where a program found the file system full, another that does would end one more EBLOCK: so it is tried first
    /// whether there is space for `pages` again, in what that one left.
    fn try_space(&mut self, medium: &dyn LogMedium, pages: u64) -> Result<(), FirmwareError> {
        let Some(Left { eblock, wblock, count }) = self.left else { return Ok(()) };
        let asked = u32::try_from(pages).unwrap_or(u32::MAX).saturating_mul(self.copies);
        match medium.overwrite(eblock, wblock, count.min(asked)) {
            Err(e) if e.is_no_space() => return Err(e.into()),
            // The EBLOCK is ended whatever else becomes of it.
            _ => self.left = None,
        }
        Ok(())
    }

    /// Candidates whose EBLOCK cannot be programmed there.
    fn pass_over_ended(&mut self, medium: &dyn LogMedium) {
        while self.dead < CANDIDATES {
            let c = self.candidates[self.dead];
            if medium.next_wblock(c.eblock) == c.wblock && medium.generation(c.eblock) == c.generation {
                break;
            }
            self.dead += 1;
        }
    }

    fn fit(&self, g: &Geometry, candidate: Candidate) -> Fit {
        let wblocks = g.wblocks_per_eblock() - candidate.wblock;
        assert!(wblocks > 0, "the next log page lies beyond its EBLOCK");
        // A log that was kept once has a last WBLOCK where one that is kept twice has none.
        let copies = self.copies.min(wblocks);
        Fit { pages: wblocks / copies, copies }
    }

    /// Takes so many spares that `left` pages fit, and that the last of them can name three candidates.
    fn provide(
        &mut self,
        medium: &dyn LogMedium,
        fit: Fit,
        left: u64,
        next_eblock: NextEblock<'_>,
    ) -> Result<(), FirmwareError> {
        let a_eblock = u64::from(medium.geometry().wblocks_per_eblock() / self.copies);
        // Two pages fit here, and the spares b, c, d, e, four pages each:  1 page leaves the next for here, b, c;
        // 2 pages for b, c, d;  5 pages, three of them in b, for b, c, d;  6 pages, b full, for c, d, e.
        let spares = match left.checked_sub(fit.pages.into()) {
            None => CANDIDATES as u64 - 1,
            Some(beyond) => beyond / a_eblock + CANDIDATES as u64,
        };
        while ((self.candidates.len() - self.dead - 1) as u64) < spares {
            let full = || FirmwareError::Full { path: medium.path().into(), what: "the log" };
            let next = Candidate::start(next_eblock()?.ok_or_else(full)?);
            assert!(
                self.candidates.iter().all(|c| c.eblock != next.eblock),
                "the log gets {:?} twice",
                next.eblock
            );
            self.candidates.push_back(next);
        }
        Ok(())
    }

    /// Where the page after the one at `candidate` may lie; `here` says whether it fits behind.
    fn next_candidates(&self, candidate: Candidate, copies: u32, here: bool) -> [Candidate; CANDIDATES] {
        let [b, c] = at!(PointerSkipped => [self.spares()[1]; 2], self.spares());
        if here { [candidate.plus(copies), b, c] } else { [b, c, self.candidates[self.dead + 3]] }
    }

    /// What comes after the EBLOCK that is written.
    fn spares(&self) -> [Candidate; CANDIDATES - 1] {
        [self.candidates[self.dead + 1], self.candidates[self.dead + 2]]
    }

    /// The next `run` pages, in all their copies.
    fn encode(
        &self,
        medium: &dyn LogMedium,
        a: &Appending<'_>,
        candidate: Candidate,
        fit: Fit,
        run: u32,
    ) -> PageBuf {
        let g = medium.geometry();
        let wblock_bytes = g.wblock_bytes() as usize;
        let payload_bytes = wblock_bytes - PAYLOAD_AT;
        let mut buf = PageBufMut::zeroed((run * fit.copies) as usize * wblock_bytes);
        let mut out = buf.chunks_exact_mut(wblock_bytes);
        for i in 0..run {
            let lsn = self.lsn + u64::from(i);
            let from = (lsn - a.first) as usize * payload_bytes;
            let payload = &a.group[from..a.group.len().min(from + payload_bytes)];
            let candidate = candidate.plus(i * fit.copies);
            let mut p = LogPage {
                version: self.version,
                first: lsn == a.first,
                last: lsn == a.last,
                copy: 0,
                copies: fit.copies as u8,
                generation: candidate.generation,
                lsn,
                durable: self.durable,
                epoch: medium.open_epoch(),
                next: self.next_candidates(candidate, fit.copies, i + 1 < fit.pages),
            };
            for copy in 0..fit.copies {
                p.copy = copy as u8;
                let offset = (candidate.wblock + copy) * g.wblock_bytes();
                let at = g.ppa(candidate.eblock, offset).expect("the log lies on the medium");
                p.encode(at, payload, out.next().expect("there is room for all copies"));
            }
        }
        buf.freeze()
    }

    /// The next `count` pages lie at the candidate that is written.
    fn advance(&mut self, medium: &dyn LogMedium, group_first: u64, fit: Fit, count: u32) {
        let candidate = self.candidates[self.dead];
        let spares = self.spares();
        for dead in self.candidates.drain(..self.dead) {
            self.trail.pass_over(dead, self.lsn);
        }
        self.dead = 0;
        self.epoch = medium.open_epoch();
        let end = self.lsn + u64::from(count);
        let (first, copies, epoch) = (self.lsn, fit.copies, self.epoch);
        self.trail.add(Stretch { candidate, first, end, copies, epoch, next: spares });
        if self.lsn == group_first {
            self.trail.begin_group(self.lsn);
        }
        if count < fit.pages {
            self.candidates[0] = candidate.plus(count * fit.copies);
        } else {
            self.candidates.pop_front();
        }
        self.lsn = end;
    }

    /// A program of `run` pages failed: those that the medium holds, up to the first that it does not, are written, and
    /// the EBLOCK is ended. Answers how many.
    fn go_on_after(&mut self, medium: &dyn LogMedium, group_first: u64, fit: Fit, run: u32) -> u32 {
        let candidate = self.candidates[self.dead];
        let mut pages = Pages::new(medium);
        let held = |i: &u32| {
            let (at, lsn) = (candidate.plus(i * fit.copies), self.lsn + u64::from(*i));
            at!(FailedLogPageCounts => true, pages.holds(at, lsn))
        };
        let count = (0..run).take_while(held).count() as u32;
        if count > 0 {
            self.advance(medium, group_first, fit, count);
        }
        while self.dead < CANDIDATES && self.candidates[self.dead].eblock == candidate.eblock {
            self.dead += 1;
        }
        count
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
        let dead = &mut self.candidates.iter().take(self.dead);
        assert!(self.left.is_none_or(|l| dead.any(|c| c.eblock == l.eblock)), "the log may have let it go");
        self.trail.check_invariants(self.lsn);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Fate, Log, small};
    use super::*;

    #[test]
    fn a_group_goes_over_eblocks_in_one_program_each() {
        let mut log = Log::new(1);
        log.append(1, 10);
        log.append(2, Log::pages(9));
        // Three pages behind the first, four in the next EBLOCK, two in the one after.
        assert_eq!(log.m.programs.get(), 4);
        assert_eq!(log.w.position().lsn, 11);
        assert_eq!(log.read(), [1, 2]);
        assert_eq!(LogWriter::group_bytes(&small(), 1, Log::pages(9)), 9 * 4096);
        assert_eq!(log.w.bytes_since(&small(), 2), 9 * 4096);
    }

    #[test]
    fn a_group_in_two_copies_goes_over_eblocks_too() {
        let mut log = Log::new(2);
        log.append(1, 10);
        log.append(2, Log::pages(9));
        assert_eq!(log.w.position().lsn, 11);
        assert_eq!(log.read(), [1, 2]);
        assert_eq!(log.w.eblocks().len(), 5 + 3, "two pages an EBLOCK, and the places of the next");
    }

    #[test]
    fn at_most_a_megabyte_is_programmed_at_a_time() {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 8 << 20, 16).unwrap();
        for (copies, pages, programs) in [(1, 256, 1), (1, 257, 2), (2, 128, 1), (2, 200, 2)] {
            let mut log = Log::on(lode_flash::Medium::memory(g), copies);
            log.append(1, Log::pages(pages));
            assert_eq!(log.m.programs.get(), programs, "{pages} pages, {copies} times");
            assert_eq!(log.read(), [1]);
        }
    }

    #[test]
    fn a_page_goes_to_the_second_and_to_the_third_place() {
        for failures in 1..=2 {
            for before in [0, 1, 3] {
                let mut log = Log::new(1);
                for n in 0..before {
                    log.append(n, 10);
                }
                let candidates = log.w.position().candidates;
                log.m.next_fates(&vec![Fate::Fails { whole: 0 }; failures]);
                log.append(7, 10);
                log.append(8, 10);
                let failed: Vec<_> = candidates[..failures].iter().map(|s| s.eblock).collect();
                assert_eq!(log.w.take_failed(), failed);
                assert!(log.w.take_failed().is_empty());
                assert_eq!(log.w.position_of(before + 1).candidates[0], candidates[failures]);
                let expected: Vec<_> = (0..before).chain([7, 8]).collect();
                assert_eq!(log.read(), expected);
                assert!(failed.iter().all(|e| log.w.eblocks().contains(e)));
                let gone = log.w.truncate(before + 1);
                assert_eq!(gone, failed, "{failures} failures after {before} pages");
            }
        }
    }

    #[test]
    fn a_failed_program_counts_up_to_the_first_page_that_is_not_there() {
        // Four pages from WBLOCK 0 on, in one program.
        for (whole, kept) in [(0b0001, 1), (0b0111, 3), (0b1011, 2), (0b1110, 0), (0b1111, 4)] {
            for no_space in [false, true] {
                let mut log = Log::new(1);
                let old = log.w.position().candidates;
                let fate = if no_space { Fate::FullWithin { whole } } else { Fate::Fails { whole } };
                log.m.next_fates(&[fate]);
                let r = log.try_append(1, Log::pages(4));
                if no_space && kept < 4 {
                    assert!(r.unwrap_err().is_no_space());
                    assert_eq!(log.w.position().lsn, 1 + kept);
                    assert!(log.w.take_failed().is_empty(), "an EBLOCK is not bad because the file is full");
                    log.append(2, 10);
                    assert_eq!(log.read(), [2]);
                } else {
                    assert_eq!(r.unwrap(), 4, "pages {whole:b} are whole");
                    log.w.synced();
                    if (1..4).contains(&kept) {
                        assert_eq!(log.w.position().candidates[0], old[1].plus(4 - kept as u32));
                    }
                    log.append(2, 10);
                    assert_eq!(log.read(), [1, 2], "pages {whole:b} are whole");
                }
            }
        }
    }

    /// Were a page that is there taken for one that is not, it would be written again elsewhere, and found here first.
    #[test]
    fn what_a_failed_program_left_is_not_judged_by_stale_reads() {
        let mut log = Log::new(1);
        let s = log.w.position().candidates[0];
        let g = small();
        log.m.next_fates(&[Fate::Fails { whole: 0b0111 }]);
        log.m.stale.borrow_mut().insert(g.ppa(s.eblock, 4096).unwrap().cell(), 2);
        log.append(1, Log::pages(4));
        assert_eq!(log.m.stale.borrow().values().sum::<u32>(), 0, "reads were stale");
        let end = log.read_from(&log.start).unwrap().1;
        assert_eq!((end.lsn, log.w.position_of(1).candidates[0]), (4, s));
        assert_eq!(log.w.position().candidates[0].wblock, 1, "three of four pages were kept");
        log.append(2, 10);
        assert_eq!(log.read(), [1, 2]);
    }

    #[test]
    fn a_log_without_a_place_left_is_dead_and_stays_so() {
        let mut log = Log::new(1);
        log.append(1, 10);
        log.m.next_fates(&[Fate::Fails { whole: 0 }, Fate::FailsBefore, Fate::Fails { whole: 0 }]);
        for _ in 0..2 {
            let e = log.try_append(2, 10).unwrap_err();
            assert!(matches!(e, FirmwareError::LogDead { lsn: 2, .. }), "{e}");
            assert_eq!(e.to_string(), "<memory>: the log cannot go on: all 3 candidates for page 2 failed");
            assert!(!e.is_no_space());
        }
        assert_eq!(log.w.take_failed().len(), 3);
        assert_eq!(log.read(), [1]);
    }

    /// Each group that found the host's file system full ended one more EBLOCK, until the log had taken them all, or
    /// three places were gone.
    #[test]
    fn a_log_that_finds_the_file_system_full_again_and_again_takes_no_more_of_the_medium() {
        for whole in [0b0000, 0b0101] {
            let mut log = Log::new(1);
            log.append(1, 10);
            log.m.next_fates(&[Fate::FullWithin { whole }; 20]);
            let held = log.w.eblocks().len();
            for n in 0..20 {
                assert!(log.try_append(2 + n, Log::pages(3)).unwrap_err().is_no_space());
                assert!(log.w.eblocks().len() <= held + 1, "{:?}", log.w.eblocks());
            }
            assert_eq!(log.read(), [1]);
            // A short group is tried with as much as it takes.
            let programs = log.m.programs.get();
            log.append(30, 10);
            assert_eq!(
                (log.m.programs.get() - programs, log.w.position().candidates[0].eblock),
                (2, EblockId::new(1))
            );
            assert_eq!(log.read(), [1, 30]);
        }
    }

    #[test]
    fn half_a_group_is_passed_over() {
        for (fate, half) in
            [(Fate::FullBefore, 3), (Fate::FullWithin { whole: 0b10 }, 3), (Fate::FullWithin { whole: 1 }, 4)]
        {
            let mut log = Log::new(1);
            log.append(1, 10);
            log.m.next_fates(&[Fate::Succeeds, fate]);
            assert!(log.try_append(2, Log::pages(6)).unwrap_err().is_no_space());
            assert_eq!(log.w.position().lsn, 2 + half);
            assert_eq!(log.read(), [1], "half a group at the end");
            // And again, at once.
            log.m.next_fates(&[Fate::FullBefore]);
            assert!(log.try_append(3, 10).unwrap_err().is_no_space());
            log.append(4, Log::pages(6));
            log.append(5, 10);
            assert_eq!(log.read(), [1, 4, 5], "{fate:?}");
            // Reading can begin with the half.
            assert_eq!(log.read_from(&log.w.position_of(3)).unwrap().0, [4, 5]);
        }
    }

    #[test]
    fn a_group_without_room_takes_nothing_for_good() {
        for copies in 1..=2 {
            let mut log = Log::new(copies);
            log.append(1, 10);
            let spare = |log: &Log| log.free.len();
            let before = (spare(&log), log.w.position());
            let e = log.try_append(2, Log::pages(4 * 64)).unwrap_err();
            assert!(matches!(e, FirmwareError::Full { .. }) && e.is_no_space());
            assert_eq!((log.m.programs.get(), log.w.position()), (1, before.1), "nothing was written");
            let gone = log.w.truncate(1);
            assert_eq!(gone.len(), before.0, "spares that no page names come back");
            log.free.extend(gone.iter().map(|e| e.raw()));
            log.append(3, Log::pages(20));
            assert_eq!(log.read(), [1, 3]);
        }
    }

    #[test]
    fn what_was_appended_is_durable_once_it_is_synced() {
        let mut log = Log::new(1);
        assert!(log.w.is_synced());
        for n in 0..3 {
            log.try_append(n, Log::pages(3)).unwrap();
            assert!(!log.w.is_synced());
            log.w.synced();
            assert!(log.w.is_synced());
        }
        // Half a group is not durable, either.
        log.m.next_fates(&[Fate::Succeeds, Fate::FullBefore]);
        assert!(log.try_append(3, Log::pages(6)).is_err() && !log.w.is_synced());
    }

    #[test]
    fn two_copies_take_two_wblocks_each_and_leave_an_odd_one_empty() {
        // Five WBLOCKs of 1 MB.
        let g = Geometry::new(1, 1, 1, 4096, 1 << 20, 5 << 20, 16).unwrap();
        let mut log = Log::on(lode_flash::Medium::memory(g), 2);
        let first = log.w.position().candidates;
        log.append(1, 10);
        assert_eq!(log.w.position().candidates, [first[0].plus(2), first[1], first[2]]);
        log.append(2, 10);
        assert_eq!(log.w.position().candidates[..2], first[1..]);
        assert_eq!(log.w.bytes_since(&g, 1), 4 << 20);
        assert_eq!(LogWriter::group_bytes(&g, 2, 10), 2 << 20);
        assert_eq!(log.read(), [1, 2]);
    }

    #[test]
    fn a_log_that_was_closed_goes_on_with_other_copies() {
        for (first, second) in [(1, 2), (2, 1)] {
            let mut log = Log::new(first);
            let mut n = 0;
            for round in 0..12 {
                for _ in 0..=round % 4 {
                    log.append(n, 10);
                    n += 1;
                }
                let (numbers, end) = log.read_from(&log.start).unwrap();
                assert_eq!(numbers.len() as u64, n);
                let copies = if round % 2 == 0 { second } else { first };
                let before = log.w.eblocks();
                log.w = LogWriter::new(end.position, copies);
                log.w.resumed(&end);
                log.w.check_invariants(&log.m);
                assert_eq!(log.w.eblocks(), before);
            }
            for lsn in 1..=n {
                assert_eq!(log.w.position_of(lsn).lsn, lsn);
                let (numbers, _) = log.read_from(&log.w.position_of(lsn)).unwrap();
                assert_eq!(numbers.len() as u64, n + 1 - lsn);
            }
        }
    }

    #[test]
    fn truncated_eblocks_are_let_go_once_and_used_again() {
        let mut log = Log::new(1);
        let mut held = Vec::new();
        for n in 0..2000 {
            let last = log.append(n, Log::pages(1 + n as usize % 7));
            held.push(last);
            if n % 5 == 4 {
                let keep = held[held.len() - 3];
                log.start = log.w.position_of(keep);
                assert_eq!(log.start.lsn, held[held.len() - 4] + 1, "the start of the group that holds it");
                let gone = log.w.truncate(keep);
                assert!(gone.iter().all(|e| log.free.insert(e.raw())), "none comes twice");
                assert_eq!(log.w.eblocks().len() + log.free.len(), 64);
                assert_eq!(log.read(), [n - 2, n - 1, n]);
            }
        }
        let gone = log.w.truncate(log.w.position().lsn);
        log.free.extend(gone.iter().map(|e| e.raw()));
        assert!(log.w.eblocks().len() <= 4, "only the candidates stay");
        log.start = log.w.position();
        log.append(9, 10);
        assert_eq!(log.read(), [9]);
    }

    #[test]
    fn an_eblock_that_cannot_go_on_is_passed_over_without_a_program() {
        let mut log = Log::new(1);
        log.append(1, 10);
        let programs = log.m.programs.get();
        log.m.medium.set_next_wblock(log.w.position().candidates[0].eblock, 4);
        log.append(2, 10);
        assert_eq!(log.m.programs.get(), programs + 1);
        assert!(log.w.take_failed().is_empty());
        assert_eq!(log.read(), [1, 2]);
    }
}
