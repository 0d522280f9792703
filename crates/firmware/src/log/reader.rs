//! Reads the log from a place to its end, and tells an end from damage.
//!
//! ```text
//!   [7 first][8 last][9 first, last][10 first][11 first, last][ page 12 at none of its three places ]
//!   groups:  7-8, 9                 10: half a group, given up for want of space        11
//! ```
//!
//! The log ends at the first page that is at none of the places where it may be. If a page beyond says that the missing
//! one was durable, it is no end but damage, and so an error: what was acknowledged is never dropped silently. Of
//! several copies the first that is whole counts.
//!
//! Source: ELEOS §VIII-A, §VIII-C.

use std::ops::ControlFlow;

use lode_base::{EblockId, PageBuf};

use super::Record;
use super::medium::LogMedium;
use super::page::{COPIES_MAX, LogPage, MAGIC, PAYLOAD_AT, VERSION};
use super::spot::{CANDIDATES, Place, Spot, why_not};
use super::trail::Trail;
use crate::FirmwareError;

/// Bytes that are read at a time.
const WINDOW_BYTES: u32 = 256 << 10;
/// Times that a page is read before it counts as damaged.
const READS_MAX: u32 = 3;
/// Bytes without a page after which nothing more is looked for: more than one program writes.
const GAP_BYTES_MAX: u32 = 2 << 20;

/// The records of the system actions that one force made durable.
#[derive(Debug)]
pub(crate) struct Group {
    /// LSN of its first page.
    pub(crate) first_lsn: u64,
    /// LSN of its last page.
    pub(crate) lsn: u64,
    /// Where its first page lies.
    pub(crate) place: Place,
    pub(crate) records: Vec<Record>,
}

/// What was found of the log.
#[derive(Debug)]
pub(crate) struct LogEnd {
    /// Where page `lsn + 1` would go.
    pub(crate) place: Place,
    /// The last page; the last before the group that the visitor refused.
    pub(crate) lsn: u64,
    /// The last LSN that a page says was durable.
    pub(crate) durable: u64,
    /// EBLOCKs that pages were found in, and those of the places where the log would go on: each once.
    pub(crate) eblocks: Vec<EblockId>,
    pub(crate) pages: u64,
    /// Pages of which the first copy was not whole.
    pub(crate) repaired: u64,
    trail: Trail,
}

impl LogEnd {
    pub(super) fn trail(&self) -> &Trail {
        &self.trail
    }
}

/// Reads log pages, ahead where they follow each other.
pub(super) struct Pages<'a> {
    medium: &'a dyn LogMedium,
    /// The WBLOCKs of an EBLOCK from one on, as last read.
    window: Option<(EblockId, u32, PageBuf)>,
}

/// A page, and where it was found.
struct Found {
    page: LogPage,
    payload: PageBuf,
    spot: Spot,
}

impl<'a> Pages<'a> {
    pub(super) fn new(medium: &'a dyn LogMedium) -> Self {
        Self { medium, window: None }
    }

    /// Whether a spot holds page `lsn` of this opening, in any copy. What can not be read is not held.
    pub(super) fn holds(&mut self, spot: Spot, lsn: u64) -> bool {
        matches!(self.copy_at(spot, lsn, self.medium.open_epoch()), Ok(Some(_)))
    }

    /// Page `lsn`, of this opening or a later one than `epoch`, at a spot: its first copy that is whole.
    fn copy_at(&mut self, spot: Spot, lsn: u64, epoch: u32) -> Result<Option<Found>, FirmwareError> {
        let wblocks = self.medium.geometry().wblocks_per_eblock();
        for copy in 0..COPIES_MAX.min(wblocks - spot.wblock) {
            if let Some((page, payload)) = self.get(spot.plus(copy))?
                && (page.generation, page.lsn) == (spot.generation, lsn)
                && u32::from(page.copy) == copy
                && page.epoch >= epoch
            {
                return Ok(Some(Found { page, payload, spot }));
            }
        }
        Ok(None)
    }

    /// The page of a place: at the first of its spots that holds it.
    fn find(&mut self, place: &Place, epoch: u32) -> Result<Option<Found>, FirmwareError> {
        for spot in place.spots {
            if let Some(found) = self.copy_at(spot, place.lsn, epoch)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Whatever log page a WBLOCK holds. Bytes that are one in part are read again.
    fn get(&mut self, spot: Spot) -> Result<Option<(LogPage, PageBuf)>, FirmwareError> {
        let g = *self.medium.geometry();
        let at = g.ppa(spot.eblock, spot.wblock * g.wblock_bytes()).expect("spots are checked");
        for reads in 0..READS_MAX {
            let bytes = if reads == 0 { self.ahead(spot)? } else { None };
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

    /// A WBLOCK from the window, which is moved there if need be; `None` when the window can not be read.
    fn ahead(&mut self, spot: Spot) -> Result<Option<PageBuf>, FirmwareError> {
        let g = *self.medium.geometry();
        let wblock_bytes = g.wblock_bytes() as usize;
        let within = |w: &(EblockId, u32, PageBuf)| {
            let i = spot.wblock.checked_sub(w.1)? as usize;
            (w.0 == spot.eblock && (i + 1) * wblock_bytes <= w.2.len()).then_some(i * wblock_bytes)
        };
        if self.window.as_ref().and_then(within).is_none() {
            let wblocks = (WINDOW_BYTES / g.wblock_bytes()).max(1).min(g.wblocks_per_eblock() - spot.wblock);
            let at = g.ppa(spot.eblock, spot.wblock * g.wblock_bytes()).expect("spots are checked");
            self.window = match self.medium.read(at, wblocks * g.wblock_bytes()) {
                Ok(bytes) => Some((spot.eblock, spot.wblock, bytes)),
                Err(e) if e.is_uncorrectable() => None,
                Err(e) => return Err(e.into()),
            };
        }
        let bytes = self.window.as_ref().and_then(|w| Some((w, within(w)?)));
        Ok(bytes.map(|(w, from)| w.2.slice(from..from + wblock_bytes)))
    }
}

/// Reads all whole groups from `start`, which begins one, and shows them to `visit` in order, each with whether it is
/// known durable: some later page says so. Keeps one group in memory, and the bytes of the next.
///
/// # Errors
/// [`FirmwareError::Damaged`] when a page is missing that was durable, or records are malformed; what `visit` answers;
/// others of the medium.
pub(crate) fn read_log(
    medium: &dyn LogMedium,
    start: &Place,
    visit: &mut dyn FnMut(Group, bool) -> Result<ControlFlow<()>, FirmwareError>,
) -> Result<LogEnd, FirmwareError> {
    let g = *medium.geometry();
    let damaged = |what: String| FirmwareError::damaged(medium.path(), what);
    if let Some(what) = why_not(&start.spots, &g) {
        return Err(damaged(format!("the start of the log: {what}")));
    }
    let mut pages = Pages::new(medium);
    let mut end = LogEnd {
        place: *start,
        lsn: start.lsn - 1,
        durable: start.lsn - 1,
        eblocks: Vec::new(),
        pages: 0,
        repaired: 0,
        trail: Trail::default(),
    };
    let mut epoch = 0;
    // The last group is shown once the next one, or the end, tells whether it was durable.
    let mut waiting: Option<Group> = None;
    let mut group: Option<(Place, Vec<u8>)> = None;
    while let Some(Found { page: p, payload, spot }) = pages.find(&end.place, epoch)? {
        if let Some(what) = why_not(&p.next, &g) {
            return Err(damaged(format!("log page {} names {what}", p.lsn)));
        }
        epoch = p.epoch;
        end.pages += 1;
        end.repaired += u64::from(p.copy > 0);
        end.durable = end.durable.max(p.durable);
        let spares: [Spot; CANDIDATES - 1] =
            if p.next[0].eblock == spot.eblock { [p.next[1], p.next[2]] } else { [p.next[0], p.next[1]] };
        end.trail.add(spot, p.lsn, 1, p.copies.into(), spares);
        if p.first {
            end.trail.begin_group(p.lsn);
            let place = Place { lsn: p.lsn, spots: [spot, spares[0], spares[1]] };
            group = Some((place, Vec::new()));
        }
        let Some((_, bytes)) = &mut group else {
            return Err(damaged(format!("log page {} goes on with a group that did not begin", p.lsn)));
        };
        bytes.extend_from_slice(&payload);
        end.lsn = p.lsn;
        end.place = Place { lsn: p.lsn + 1, spots: p.next };
        if p.last
            && let Some((place, bytes)) = group.take()
        {
            let records = Record::decode_all(&bytes, &g)
                .map_err(|e| damaged(format!("the log group that ends at page {}: {e}", p.lsn)))?;
            let next = Group { first_lsn: place.lsn, lsn: p.lsn, place, records };
            if let Some(before) = waiting.replace(next)
                && show(&mut end, before, visit)?.is_break()
            {
                return Ok(end);
            }
        }
    }
    look_beyond(&mut pages, &mut end)?;
    end.eblocks = end.trail.eblocks().chain(end.place.spots.map(|s| s.eblock)).collect();
    end.eblocks.sort_unstable();
    end.eblocks.dedup();
    if let Some(last) = waiting {
        show(&mut end, last, visit)?;
    }
    Ok(end)
}

/// Shows a group. When it is refused, the log ends before it.
fn show(
    end: &mut LogEnd,
    group: Group,
    visit: &mut dyn FnMut(Group, bool) -> Result<ControlFlow<()>, FirmwareError>,
) -> Result<ControlFlow<()>, FirmwareError> {
    let (durable, place) = (group.lsn <= end.durable, group.place);
    let flow = visit(group, durable)?;
    if flow.is_break() {
        end.lsn = place.lsn - 1;
        end.place = place;
    }
    Ok(flow)
}

/// Looks behind the end for pages that say that the page which is missing there was durable.
fn look_beyond(pages: &mut Pages<'_>, end: &mut LogEnd) -> Result<(), FirmwareError> {
    let g = *pages.medium.geometry();
    for spot in end.place.spots {
        let mut gap_bytes = 0;
        for wblock in spot.wblock..g.wblocks_per_eblock() {
            match pages.get(Spot { wblock, ..spot })? {
                Some((p, _)) if p.generation == spot.generation && p.lsn > end.place.lsn => {
                    if p.durable >= end.place.lsn {
                        let at = end.place.spots[0];
                        let what =
                            format!("log page {} at {at} can not be read, but it was durable", end.place.lsn);
                        return Err(FirmwareError::damaged(pages.medium.path(), what));
                    }
                    end.durable = end.durable.max(p.durable);
                    gap_bytes = 0;
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
