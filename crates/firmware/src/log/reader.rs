//! Reads the log from a place to its end, and tells an end from damage.
//!
//! ```text
//!   [7 first][8 last][9 first, last][10 first][ not page 11 ]
//!   groups:  7-8, 9            10 is half a group: never acknowledged, and ends the log
//! ```
//!
//! The log ends at the first page that is not the next one. If a page beyond says that the missing LSN was
//! durable, it is no end but damage, and so an error: what was acknowledged is never dropped silently.

use lode_base::EblockId;
use lode_flash::Medium;

use super::page::{LogPage, VERSION};
use super::{Place, Record};
use crate::FirmwareError;

/// The records of one system action.
#[derive(Debug)]
pub(crate) struct Group {
    /// LSN of its last page.
    pub(crate) lsn: u64,
    pub(crate) records: Vec<Record>,
}

/// What was found of the log.
pub(crate) struct LogRead {
    pub(crate) groups: Vec<Group>,
    /// The last LSN that a page says was durable.
    pub(crate) durable: u64,
    /// EBLOCKs that the log goes through, and the one that it would go on in.
    pub(crate) eblocks: Vec<EblockId>,
}

/// All whole groups from `start` on.
pub(crate) fn read_log(medium: &Medium, start: Place) -> Result<LogRead, FirmwareError> {
    let g = *medium.geometry();
    let mut read =
        LogRead { groups: Vec::new(), durable: start.lsn - 1, eblocks: vec![start.eblock, start.next.0] };
    let mut place = start;
    let mut group: Vec<u8> = Vec::new();
    let mut within = false;
    loop {
        if place.wblock == g.wblocks_per_eblock() {
            place.wblock = 0;
            (place.eblock, place.generation) = place.next;
        }
        let Some((p, payload)) = read_page(medium, place.eblock, place.wblock)? else { break };
        let expected = p.generation == place.generation && p.lsn == place.lsn;
        if !expected || p.first == within {
            break;
        }
        if place.next != p.next {
            place.next = p.next;
            if p.next.0.raw() >= g.eblock_count() {
                let what = format!("log page {} names {:?}, beyond the medium", p.lsn, p.next.0);
                return Err(FirmwareError::damaged(medium.path(), what));
            }
            read.eblocks.push(p.next.0);
        }
        read.durable = read.durable.max(p.durable);
        group.extend_from_slice(&payload);
        within = !p.last;
        if p.last {
            let records = Record::decode_all(&group, &g).map_err(|e| {
                FirmwareError::damaged(
                    medium.path(),
                    format!("the log group that ends at page {}: {e}", p.lsn),
                )
            })?;
            read.groups.push(Group { lsn: p.lsn, records });
            group.clear();
        }
        place.lsn += 1;
        place.wblock += 1;
    }
    look_beyond(medium, &place)?;
    Ok(read)
}

fn read_page(
    medium: &Medium,
    e: EblockId,
    wblock: u32,
) -> Result<Option<(LogPage, lode_base::PageBuf)>, FirmwareError> {
    let g = medium.geometry();
    let at = g.ppa(e, wblock * g.wblock_bytes());
    let at = at.ok_or_else(|| {
        FirmwareError::damaged(medium.path(), format!("the log lies in {e:?}, beyond the medium"))
    })?;
    let bytes = medium.read_unverified(at, g.wblock_bytes())?;
    match LogPage::decode(at, &bytes) {
        Ok(Some((p, payload))) => {
            let len = payload.len();
            Ok(Some((p, bytes.slice(super::PAYLOAD_AT..super::PAYLOAD_AT + len))))
        }
        Ok(None) => Ok(None),
        Err(version) => Err(FirmwareError::NewerVersion {
            path: medium.path().into(),
            structure: "the log",
            version,
            known: VERSION,
        }),
    }
}

/// Looks for pages of this log behind its end that say that the end was durable.
fn look_beyond(medium: &Medium, end: &Place) -> Result<(), FirmwareError> {
    let g = medium.geometry();
    let rest = (end.wblock + 1..g.wblocks_per_eblock()).map(|w| (end.eblock, end.generation, w));
    let next = (0..g.wblocks_per_eblock()).map(|w| (end.next.0, end.next.1, w));
    let mut missing = 0;
    for (e, generation, wblock) in rest.chain(next) {
        match read_page(medium, e, wblock)? {
            Some((p, _)) if p.generation == generation && p.lsn > end.lsn => {
                if p.durable >= end.lsn {
                    let at =
                        g.ppa(end.eblock, end.wblock * g.wblock_bytes()).expect("the log lies on the medium");
                    let what = format!("log page {} at {at} can not be read, but it was durable", end.lsn);
                    return Err(FirmwareError::damaged(medium.path(), what));
                }
                missing = 0;
            }
            // The log is written in order: far behind its end there is none.
            _ => missing += 1,
        }
        if missing > 64 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lode_base::{ExtentId, Geometry, OwnerId};

    use super::super::LogWriter;
    use super::*;

    fn medium() -> (Medium, LogWriter) {
        let m = Medium::memory(Geometry::new(1, 1, 1, 4096, 4096, 16 << 10, 64).unwrap());
        let generation = m.erase(EblockId::new(0)).unwrap();
        let next = (EblockId::new(1), m.erase(EblockId::new(1)).unwrap());
        let w = LogWriter::new(Place { lsn: 1, eblock: EblockId::new(0), generation, wblock: 0, next });
        (m, w)
    }

    fn append(m: &Medium, w: &mut LogWriter, records: usize) {
        let mut b = Vec::new();
        let r = Record::Allocated { owner: OwnerId::new(1), extent: ExtentId::new(2).unwrap() };
        (0..records).for_each(|_| r.encode(&mut b));
        let mut free = w.place().next.0.raw();
        let next = || {
            free += 1;
            Ok(Some((EblockId::new(free), m.erase(EblockId::new(free))?)))
        };
        assert!(w.append(m, &b, next).is_ok());
        w.synced();
    }

    #[test]
    fn groups_of_any_length_come_back_over_eblocks() {
        let (m, mut w) = medium();
        let start = w.place();
        for n in [1, 1000, 3, 2500, 1] {
            append(&m, &mut w, n);
        }
        let read = read_log(&m, start).unwrap();
        let records: Vec<_> = read.groups.iter().map(|g| g.records.len()).collect();
        assert_eq!(records, [1, 1000, 3, 2500, 1]);
        assert_eq!(read.groups.last().unwrap().lsn, w.place().lsn - 1);
        assert_eq!(read.durable, w.place().lsn - 2);
        assert!(read.eblocks.len() > 4);
    }

    #[test]
    fn half_a_group_ends_the_log() {
        let (m, mut w) = medium();
        let start = w.place();
        append(&m, &mut w, 2);
        let mut b = Vec::new();
        let r = Record::Allocated { owner: OwnerId::new(1), extent: ExtentId::new(2).unwrap() };
        (0..2000).for_each(|_| r.encode(&mut b));
        let none = || Ok(None);
        assert!(matches!(w.append(&m, &b, none), Err(FirmwareError::Full { .. })));
        assert_eq!(read_log(&m, start).unwrap().groups.len(), 1);
    }
}
