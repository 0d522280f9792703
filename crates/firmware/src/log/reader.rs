//! Reads the log from a position to its end, and tells an end from damage.
//!
//! ```text
//!   [7 first][8 last][9 first, last][10 first][11 first, last][ no candidate holds page 12 ]
//!   groups:  7-8, 9                 10: half a group, given up for want of space        11
//! ```
//!
//! The log ends at the first page that none of its candidates holds. If a later page says that the missing page was
//! durable, that is damage, and an error: acknowledged batches are never dropped silently. Of several copies of a page the
//! first whole one counts.
//!
//! Source: ELEOS §VIII-A, §VIII-C.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use lode_base::{EblockId, PageBuf};

use super::candidate::{CANDIDATES, Candidate, LogPosition, why_not};
use super::medium::LogMedium;
use super::page::{COPIES_MAX, LogPage, MAGIC, PAYLOAD_AT, VERSION};
use super::trail::{Stretch, Trail};
use crate::FirmwareError;
use crate::planted::at;
use crate::record::Record;

/// Bytes that are read at a time.
const WINDOW_BYTES: u32 = 256 << 10;
/// How often a page is read before it counts as damaged: as often as pages with tags.
const READS_MAX: u32 = 1 + lode_flash::READ_RETRIES;
/// Bytes without a log page after which the search ends: more than one program writes.
const GAP_BYTES_MAX: u32 = 2 << 20;

/// A log group that was read.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The LSN of its last page.
    pub(crate) lsn: u64,
    /// Where its first page lies.
    pub(crate) position: LogPosition,
    pub(crate) records: Vec<Record>,
}

/// Where the log ends, and what was read of it.
#[derive(Debug)]
pub(crate) struct LogEnd {
    /// Where page `lsn + 1` would go.
    pub(crate) position: LogPosition,
    /// The last page that counts: if the visitor refused a group, the last page before that group.
    pub(crate) lsn: u64,
    /// The highest LSN that a page says was durable.
    pub(crate) durable: u64,
    /// EBLOCKs that hold pages of the log, and those of the candidates for the next page: each once.
    pub(crate) eblocks: Vec<EblockId>,
    pub(crate) pages: u64,
    /// Pages whose first copy was damaged.
    pub(crate) repaired: u64,
    trail: Trail,
}

type Visit<'a> = &'a mut dyn FnMut(Group, bool) -> Result<ControlFlow<()>, FirmwareError>;

/// Answers how many of the last groups count, which no page says were durable.
type Judge<'a> = &'a mut dyn FnMut(&[Group]) -> Result<usize, FirmwareError>;

impl LogEnd {
    pub(super) fn trail(&self) -> &Trail {
        &self.trail
    }

    /// Shows a group to the visitor. If the visitor refuses it, the log ends before it.
    fn refuses(&mut self, group: Group, visit: Visit<'_>) -> Result<bool, FirmwareError> {
        let (durable, position) = (group.lsn <= self.durable, group.position);
        let refused = visit(group, durable)?.is_break();
        if refused {
            self.ends_before(position);
        }
        Ok(refused)
    }

    fn ends_before(&mut self, position: LogPosition) {
        self.note_eblocks();
        self.lsn = position.lsn - 1;
        self.position = position;
    }

    fn note_eblocks(&mut self) {
        self.eblocks = self.trail.eblocks().chain(self.position.candidates.map(|s| s.eblock)).collect();
        self.eblocks.sort_unstable();
        self.eblocks.dedup();
    }
}

/// Reads log pages, with read-ahead.
pub(super) struct Pages<'a> {
    medium: &'a dyn LogMedium,
    /// The bytes read last: an EBLOCK, the first WBLOCK, and the bytes from there on.
    window: Option<(EblockId, u32, PageBuf)>,
}

/// A log page, and where it was found.
struct Found {
    page: LogPage,
    payload: PageBuf,
    candidate: Candidate,
}

impl<'a> Pages<'a> {
    pub(super) fn new(medium: &'a dyn LogMedium) -> Self {
        Self { medium, window: None }
    }

    /// Whether a candidate holds page `lsn` of this opening, in any copy. A page that cannot be read is not held.
    pub(super) fn holds(&mut self, candidate: Candidate, lsn: u64) -> bool {
        (0..READS_MAX).any(|reads| {
            if reads > 0 {
                self.window = None;
            }
            matches!(self.copy_at(candidate, lsn, self.medium.open_epoch()), Ok(Some(_)))
        })
    }

    /// Page `lsn` at a candidate, of opening `epoch` or a later one: its first whole copy.
    fn copy_at(
        &mut self,
        candidate: Candidate,
        lsn: u64,
        epoch: u32,
    ) -> Result<Option<Found>, FirmwareError> {
        let wblocks = self.medium.geometry().wblocks_per_eblock();
        for copy in 0..COPIES_MAX.min(wblocks - candidate.wblock) {
            if let Some((page, payload)) = self.get(candidate.plus(copy))?
                && (page.generation, page.lsn) == (candidate.generation, lsn)
                && u32::from(page.copy) == copy
                && page.epoch >= epoch
            {
                return Ok(Some(Found { page, payload, candidate }));
            }
        }
        Ok(None)
    }

    /// Whether the first copy of a page is damaged, of which another copy was found. The first copy is read several times.
    fn first_is_bad(&mut self, candidate: Candidate, lsn: u64) -> Result<bool, FirmwareError> {
        for _ in 1..READS_MAX {
            self.window = None;
            if self
                .get(candidate)?
                .is_some_and(|(p, _)| (p.generation, p.lsn, p.copy) == (candidate.generation, lsn, 0))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The page of a position, at the first candidate that holds it. The candidates are read several times before none does.
    fn find(&mut self, position: &LogPosition) -> Result<Option<Found>, FirmwareError> {
        for _ in 0..READS_MAX {
            for candidate in position.candidates {
                if let Some(found) = self.copy_at(candidate, position.lsn, position.epoch)? {
                    return Ok(Some(found));
                }
            }
            self.window = None;
        }
        Ok(None)
    }

    /// The log page that a WBLOCK holds, whichever it is. Bytes with the magic of a log page that do not verify are read again.
    fn get(&mut self, candidate: Candidate) -> Result<Option<(LogPage, PageBuf)>, FirmwareError> {
        let g = *self.medium.geometry();
        let at =
            g.ppa(candidate.eblock, candidate.wblock * g.wblock_bytes()).expect("candidates are checked");
        for reads in 0..READS_MAX {
            let bytes = if reads == 0 { self.ahead(candidate)? } else { None };
            let bytes = match bytes {
                Some(bytes) => bytes,
                None => match self.medium.read(at, g.wblock_bytes()) {
                    Ok(bytes) => bytes,
                    Err(e) if e.is_uncorrectable() => continue,
                    Err(e) => return Err(e.into()),
                },
            };
            match LogPage::decode(at, &bytes) {
                Ok(Some((p, payload))) => {
                    let end = PAYLOAD_AT + payload.len();
                    return Ok(Some((p, bytes.slice(PAYLOAD_AT..end))));
                }
                Ok(None) if bytes[..MAGIC.len()] == MAGIC => {}
                Ok(None) => break,
                Err(version) => {
                    return Err(FirmwareError::NewerVersion {
                        path: self.medium.path().into(),
                        structure: "the log",
                        version,
                        known: VERSION,
                    });
                }
            }
        }
        Ok(None)
    }

    /// A WBLOCK from the window, which is moved there if need be; `None` when the window cannot be read.
    fn ahead(&mut self, candidate: Candidate) -> Result<Option<PageBuf>, FirmwareError> {
        let g = *self.medium.geometry();
        let wblock_bytes = g.wblock_bytes() as usize;
        let within = |w: &(EblockId, u32, PageBuf)| {
            let i = candidate.wblock.checked_sub(w.1)? as usize;
            (w.0 == candidate.eblock && (i + 1) * wblock_bytes <= w.2.len()).then_some(i * wblock_bytes)
        };
        if self.window.as_ref().and_then(within).is_none() {
            let wblocks =
                (WINDOW_BYTES / g.wblock_bytes()).max(1).min(g.wblocks_per_eblock() - candidate.wblock);
            let at =
                g.ppa(candidate.eblock, candidate.wblock * g.wblock_bytes()).expect("candidates are checked");
            self.window = match self.medium.read(at, wblocks * g.wblock_bytes()) {
                Ok(bytes) => Some((candidate.eblock, candidate.wblock, bytes)),
                Err(e) if e.is_uncorrectable() => None,
                Err(e) => return Err(e.into()),
            };
        }
        let bytes = self.window.as_ref().and_then(|w| Some((w, within(w)?)));
        Ok(bytes.map(|(w, from)| w.2.slice(from..from + wblock_bytes)))
    }
}

/// Reads all whole groups from `start` on, where a group begins, and shows them to `visit` in order, each with whether it is
/// known durable.
///
/// A group is known durable if some later page says so. That need not be the next page, since unforced groups are not
/// synced. Memory holds the groups that no page read so far says were durable. At the end `judge` is shown those that no
/// page at all says were durable; it answers how many of them count, and the log ends behind these. If `visit` breaks, the
/// log ends before the group that was shown.
///
/// # Errors
/// [`FirmwareError::Damaged`] when a page is missing that was durable, or records are malformed; the errors of `judge` and
/// `visit`; others of the medium.
pub(crate) fn read_log_judged(
    medium: &dyn LogMedium,
    start: &LogPosition,
    judge: Judge<'_>,
    visit: Visit<'_>,
) -> Result<LogEnd, FirmwareError> {
    read_groups(medium, start, None, judge, visit)
}

/// As [`read_log_judged`], where all groups count.
#[cfg(test)]
pub(crate) fn read_log(
    medium: &dyn LogMedium,
    start: &LogPosition,
    visit: Visit<'_>,
) -> Result<LogEnd, FirmwareError> {
    read_groups(medium, start, None, &mut |last| Ok(last.len()), visit)
}

/// Reads the log up to page `last`, which ends a group and is known to count, and shows each group at once.
///
/// # Errors
/// As [`read_log_judged`].
pub(crate) fn read_log_to(
    medium: &dyn LogMedium,
    start: &LogPosition,
    last: u64,
    visit: &mut dyn FnMut(Group) -> Result<(), FirmwareError>,
) -> Result<LogEnd, FirmwareError> {
    let visit: Visit<'_> = &mut |group, _| visit(group).map(ControlFlow::Continue);
    read_groups(medium, start, Some(last), &mut |last| Ok(last.len()), visit)
}

/// Reads the log up to page `last`, which ends a group, while groups may be appended behind it: whether all of it can be
/// read, how many pages in their second copy only.
///
/// # Errors
/// As [`read_log_judged`].
pub(crate) fn check_log(
    medium: &dyn LogMedium,
    start: &LogPosition,
    last: u64,
) -> Result<LogEnd, FirmwareError> {
    read_log_to(medium, start, last, &mut |_| Ok(()))
}

fn read_groups(
    medium: &dyn LogMedium,
    start: &LogPosition,
    known: Option<u64>,
    judge: Judge<'_>,
    visit: Visit<'_>,
) -> Result<LogEnd, FirmwareError> {
    let last = known.unwrap_or(u64::MAX);
    let g = *medium.geometry();
    let damaged = |what: String| FirmwareError::damaged(medium.path(), what);
    if let Some(what) = why_not(&start.candidates, &g) {
        return Err(damaged(format!("the start of the log: {what}")));
    }
    let mut pages = Pages::new(medium);
    let mut end = LogEnd {
        position: *start,
        lsn: start.lsn - 1,
        durable: start.lsn - 1,
        eblocks: Vec::new(),
        pages: 0,
        repaired: 0,
        trail: Trail::default(),
    };
    // A group is shown once a later page tells that it was durable, or the end that none does.
    let mut waiting = VecDeque::new();
    let mut group: Option<(LogPosition, Vec<u8>)> = None;
    while end.lsn < last
        && let Some(Found { page: p, payload, candidate }) = pages.find(&end.position)?
    {
        if let Some(what) = why_not(&p.next, &g) {
            return Err(damaged(format!("log page {} names {what}", p.lsn)));
        }
        end.pages += 1;
        end.repaired += u64::from(p.copy > 0 && pages.first_is_bad(candidate, p.lsn)?);
        end.durable = end.durable.max(p.durable);
        let spares: [Candidate; CANDIDATES - 1] = if p.next[0].eblock == candidate.eblock {
            [p.next[1], p.next[2]]
        } else {
            [p.next[0], p.next[1]]
        };
        end.trail.add(Stretch {
            candidate,
            first: p.lsn,
            end: p.lsn + 1,
            copies: p.copies.into(),
            epoch: p.epoch,
            next: spares,
        });
        if p.first {
            end.trail.begin_group(p.lsn);
            let position =
                LogPosition { lsn: p.lsn, epoch: p.epoch, candidates: [candidate, spares[0], spares[1]] };
            group = Some((position, Vec::new()));
        }
        let Some((_, bytes)) = &mut group else {
            return Err(damaged(format!("log page {} goes on with a group that did not begin", p.lsn)));
        };
        bytes.extend_from_slice(&payload);
        end.lsn = p.lsn;
        end.position = LogPosition { lsn: p.lsn + 1, epoch: p.epoch, candidates: p.next };
        if p.last
            && let Some((position, bytes)) = group.take()
        {
            let records = Record::decode_all(&bytes, &g)
                .map_err(|e| damaged(format!("the log group that ends at page {}: {e}", p.lsn)))?;
            waiting.push_back(Group { lsn: p.lsn, position, records });
            let told = |end: &LogEnd, group: &Group| known.is_some() || group.lsn <= end.durable;
            while let Some(group) = waiting.pop_front_if(|group| told(&end, group)) {
                if end.refuses(group, visit)? {
                    return Ok(end);
                }
            }
        }
    }
    if end.lsn < last {
        at!(HoleTakenForEnd => Ok(()), look_beyond(&mut pages, &mut end))?;
    }
    // What was found beyond the end may have told of some.
    while let Some(group) = waiting.pop_front_if(|group| group.lsn <= end.durable) {
        if end.refuses(group, visit)? {
            return Ok(end);
        }
    }
    let count = judge(waiting.make_contiguous())?;
    for (i, group) in waiting.into_iter().enumerate() {
        if i == count {
            end.ends_before(group.position);
            return Ok(end);
        }
        if end.refuses(group, visit)? {
            return Ok(end);
        }
    }
    end.note_eblocks();
    Ok(end)
}

/// Looks behind the end for pages that say that the page which is missing there was durable: in the EBLOCKs where it may
/// be, and in those that the pages found there name.
fn look_beyond(pages: &mut Pages<'_>, end: &mut LogEnd) -> Result<(), FirmwareError> {
    let g = *pages.medium.geometry();
    let missing = end.position;
    let mut candidates = missing.candidates.to_vec();
    let mut at = 0;
    while let Some(&candidate) = candidates.get(at) {
        at += 1;
        let mut gap_bytes = 0;
        for wblock in candidate.wblock..g.wblocks_per_eblock() {
            match pages.get(Candidate { wblock, ..candidate })? {
                Some((p, _)) if p.generation == candidate.generation && p.lsn > missing.lsn => {
                    if p.durable >= missing.lsn {
                        let at = missing.candidates[0];
                        let what =
                            format!("log page {} at {at} cannot be read, but it was durable", missing.lsn);
                        return Err(FirmwareError::damaged(pages.medium.path(), what));
                    }
                    end.durable = end.durable.max(p.durable);
                    gap_bytes = 0;
                    if why_not(&p.next, &g).is_none() {
                        let known = |s: &Candidate| candidates.iter().any(|k| k.eblock == s.eblock);
                        let further: Vec<_> = p.next.into_iter().filter(|s| !known(s)).collect();
                        candidates.extend(further);
                    }
                }
                _ => gap_bytes += g.wblock_bytes(),
            }
            if gap_bytes > GAP_BYTES_MAX {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Fate, Log, number_of};
    use super::*;

    /// A log of these groups, in pages each; the last is synced, but no page says so.
    fn log(copies: u32, groups: &[usize]) -> Log {
        let mut log = Log::new(copies);
        for (n, &pages) in groups.iter().enumerate() {
            log.append(n as u64, Log::pages(pages));
        }
        log
    }

    fn candidate(log: &Log, lsn: u64) -> Candidate {
        let position = log.w.position_of(lsn);
        assert_eq!(position.lsn, lsn);
        position.candidates[0]
    }

    #[test]
    fn groups_come_with_their_places_and_whether_they_are_durable() {
        let log = log(1, &[1, 6, 2]);
        let mut seen = Vec::new();
        let end = read_log(&log.m, &log.start, &mut |g, durable| {
            assert_eq!(g.position, log.w.position_of(g.lsn));
            assert_eq!(log.read_from(&g.position)?.0[0], number_of(&g));
            seen.push((g.position.lsn, g.lsn, durable));
            Ok(ControlFlow::Continue(()))
        });
        let end = end.unwrap();
        assert_eq!(seen, [(1, 1, true), (2, 7, true), (8, 9, false)]);
        assert_eq!((end.lsn, end.durable, end.pages, end.repaired), (9, 7, 9, 0));
        assert_eq!(end.position, log.w.position());
        assert_eq!(end.eblocks, log.w.eblocks());
    }

    /// Found by the simulation (seed 1175): of two groups that were not forced one by one the first was looked at as one that
    /// may not be durable, since the next page did not say so, but a later one did.
    #[test]
    fn a_group_is_durable_if_any_later_page_says_so() {
        let mut log = Log::new(1);
        for n in 0..6 {
            log.try_append(n, Log::pages(1)).unwrap();
            if n == 3 {
                log.w.synced();
            }
        }
        let mut seen = Vec::new();
        read_log(&log.m, &log.start, &mut |g, durable| {
            seen.push((g.lsn, durable));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        assert_eq!(seen, [(1, true), (2, true), (3, true), (4, true), (5, false), (6, false)]);
        let mut seen = Vec::new();
        let to = read_log_to(&log.m, &log.start, 5, &mut |g| {
            seen.push(g.lsn);
            Ok(())
        });
        assert_eq!((to.unwrap().lsn, seen), (5, vec![1, 2, 3, 4, 5]));
    }

    #[test]
    fn a_refused_group_ends_the_log_before_it() {
        let log = log(1, &[1, 6, 2]);
        for refused in 0..3 {
            let mut shown = Vec::new();
            let end = read_log(&log.m, &log.start, &mut |g, _| {
                shown.push(number_of(&g));
                let flow =
                    if number_of(&g) == refused { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                Ok(flow)
            });
            let (end, first) = (end.unwrap(), [1, 2, 8][refused as usize]);
            assert_eq!(shown, (0..=refused).collect::<Vec<_>>());
            assert_eq!((end.lsn, end.position), (first - 1, log.w.position_of(first)));
        }
        let end = read_log(&log.m, &log.start, &mut |_, durable| {
            Ok(if durable { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
        assert_eq!(end.unwrap().eblocks, log.w.eblocks(), "what is refused takes EBLOCKs, too");
    }

    /// Found by the simulation (seeds 769 and 4458): a scrub took three stale reads in a row for a lost page, and one for a
    /// first copy that was not whole.
    #[test]
    fn stale_reads_of_a_page_are_not_believed() {
        for (copies, stale) in [(1, 1), (1, 3), (2, 1), (2, 3)] {
            for lsn in [1, 2, 8] {
                let log = log(copies, &[1, 6, 2]);
                let s = candidate(&log, lsn);
                let at = log.m.geometry().ppa(s.eblock, s.wblock * log.m.geometry().wblock_bytes()).unwrap();
                log.m.stale.borrow_mut().insert(at.cell(), stale);
                let end = read_log(&log.m, &log.start, &mut |_, _| Ok(ControlFlow::Continue(()))).unwrap();
                assert_eq!((end.lsn, end.repaired), (9, 0), "page {lsn}, {stale} stale reads");
                assert!(stale < 3 || log.m.stale.borrow()[&at.cell()] < stale);
            }
        }
    }

    #[test]
    fn a_durable_page_that_cannot_be_read_is_damage_and_the_last_one_is_the_end() {
        for lsn in 1..=11 {
            let log = log(1, &[1, 6, 2, 1, 1]);
            // Four pages an EBLOCK, which come in order.
            let eblock = EblockId::new((lsn as u32 - 1) / 4);
            let generation = log.m.generation(eblock);
            let candidate = Candidate { eblock, generation, wblock: (lsn as u32 - 1) % 4 };
            log.flip(candidate);
            match log.read_from(&log.start) {
                Ok((numbers, end)) => {
                    assert_eq!((lsn, numbers.as_slice(), end.lsn), (11, &[0, 1, 2, 3][..], 10));
                }
                Err(e) => {
                    let what =
                        format!("damaged: log page {lsn} at {candidate} cannot be read, but it was durable");
                    assert_eq!(e.to_string(), format!("<memory>: {what}"));
                }
            }
        }
    }

    #[test]
    fn damage_is_found_across_failed_eblocks() {
        let mut log = log(1, &[1]);
        log.m.next_fates(&[Fate::Fails { whole: 0 }, Fate::Fails { whole: 0 }]);
        (1..4).for_each(|n| assert!(log.append(n, 10) > 0));
        assert_eq!(log.read(), [0, 1, 2, 3]);
        log.flip(candidate(&log, 2));
        let e = log.read_from(&log.start).unwrap_err();
        assert!(e.to_string().contains("log page 2 at"), "{e}");
    }

    /// Found by simulation: a misdirected write had taken the whole EBLOCK in which a group began that went over three
    /// more, and no page of the group could say that the group was durable.
    #[test]
    fn damage_is_found_behind_a_group_that_is_longer_than_the_places_reach() {
        let log = log(1, &[14, 1]);
        for wblock in 0..4 {
            log.flip(Candidate { wblock, ..log.start.candidates[0] });
        }
        let e = log.read_from(&log.start).unwrap_err();
        assert!(e.to_string().contains("log page 1 at"), "{e}");
    }

    #[test]
    fn the_second_copy_stands_in_for_the_first() {
        for lsn in 1..=4 {
            for copy in 0..2 {
                let log = log(2, &[1, 1, 1, 1]);
                log.flip(candidate(&log, lsn).plus(copy));
                let (numbers, end) = log.read_from(&log.start).unwrap();
                assert_eq!((numbers.len(), end.repaired), (4, u64::from(copy == 0)));
                assert_eq!(end.position, log.w.position());
            }
        }
        let log = log(2, &[1, 1, 1, 1]);
        log.flip(candidate(&log, 2));
        log.flip(candidate(&log, 2).plus(1));
        assert!(log.read_from(&log.start).is_err(), "both copies are gone");
    }

    #[test]
    fn a_read_that_fails_now_and_then_is_tried_again() {
        let mut log = log(1, &[1, 6, 2]);
        let cell = |s: Candidate| log.m.geometry().ppa(s.eblock, s.wblock * 4096).unwrap().cell();
        // The first read is that of the window, which other pages lie in.
        let cells = [cell(candidate(&log, 1)), cell(candidate(&log, 8))];
        log.m.unreadable.borrow_mut().extend(cells.map(|c| (c, READS_MAX)));
        assert_eq!(log.read(), [0, 1, 2]);
        log.m.unreadable.borrow_mut().insert(cells[0], 1000);
        assert!(
            log.read_from(&log.start).is_err(),
            "page 1 cannot be read, and later ones say that it was durable"
        );
        log.m.unreadable.borrow_mut().clear();
        log.append(3, 10);
        assert_eq!(log.read(), [0, 1, 2, 3]);
    }

    /// What the host cannot read is no end of the log, not even for its last group.
    #[test]
    fn a_page_that_the_host_cannot_read_is_an_error() {
        for lsn in [1, 2, 9] {
            let log = log(1, &[1, 6, 2]);
            let eblock = EblockId::new((lsn - 1) / 4);
            let cell = log.m.geometry().ppa(eblock, (lsn - 1) % 4 * 4096).unwrap().cell();
            log.m.broken.borrow_mut().insert(cell);
            // In the second round reading ahead fails otherwise, and the page is read alone.
            for unreadable in [0, 1000] {
                log.m.unreadable.borrow_mut().insert(cell, unreadable);
                let e = log.read_from(&log.start).unwrap_err();
                assert!(matches!(e, FirmwareError::Flash(_)), "page {lsn}: {e:?}");
            }
        }
    }

    /// What lies behind may be on its way there.
    #[test]
    fn a_check_up_to_a_page_looks_no_further() {
        let log = log(1, &[1, 2, 1, 1]);
        let check = |last| check_log(&log.m, &log.start, last).map(|end| (end.lsn, end.pages));
        assert_eq!(check(3).unwrap(), (3, 3));
        assert_eq!(check(5).unwrap(), (5, 5));
        log.flip(candidate(&log, 4));
        assert_eq!(check(3).unwrap(), (3, 3));
        assert!(check(5).unwrap_err().to_string().contains("log page 4 at"));
    }

    #[test]
    fn a_log_without_pages_ends_where_it_starts() {
        let log = log(1, &[]);
        let (numbers, end) = log.read_from(&log.start).unwrap();
        assert_eq!((numbers.len(), end.lsn, end.durable, end.pages, end.position), (0, 0, 0, 0, log.start));
    }

    #[test]
    fn pages_of_an_older_generation_or_opening_do_not_count() {
        let mut log = log(1, &[1, 1, 1]);
        let second = log.w.position_of(2);
        // The same WBLOCKs, programmed again after the medium was opened again, as after a cut that lost all of them.
        log.m.medium.sync().unwrap();
        let m = log.m.medium.after_power_cut().unwrap();
        for s in second.candidates {
            m.set_generation(s.eblock, s.generation);
            m.set_next_wblock(s.eblock, s.wblock);
        }
        log.m.medium = m;
        log.w = super::super::LogWriter::new(second, 1);
        log.append(7, 10);
        assert_eq!(log.read(), [0, 7], "page 3 is of the opening before");
    }

    #[test]
    fn pages_of_another_log_with_the_same_numbers_do_not_count() {
        let mut log = log(1, &[1, 1, 1]);
        // A log that begins anew in the same EBLOCKs, and has lost nothing of its own.
        let eblocks = log.start.candidates.map(|s| (s.eblock, log.m.medium.erase(s.eblock).unwrap()));
        log.start = LogPosition::start(1, eblocks);
        log.w = super::super::LogWriter::new(log.start, 1);
        log.append(7, 10);
        assert_eq!(log.read(), [7], "pages 2 and 3 are of the generation before");
    }

    #[test]
    fn a_log_that_names_what_is_not_there_is_damaged() {
        let log = log(1, &[1, 2]);
        let mut start = log.start;
        start.candidates[1].eblock = EblockId::new(64);
        let e = log.read_from(&start).unwrap_err();
        assert!(e.to_string().contains("beyond the medium"), "{e}");
        let middle = LogPosition { lsn: 3, ..log.w.position() };
        let middle = LogPosition {
            candidates: [candidate(&log, 2).plus(1), middle.candidates[1], middle.candidates[2]],
            ..middle
        };
        let e = log.read_from(&middle).unwrap_err();
        assert!(e.to_string().contains("goes on with a group that did not begin"), "{e}");
    }
}
