//! The format of a log page: one WBLOCK, with its tag inside. A log in two copies has it again in the next WBLOCK.
//!
//! ```text
//!   0   magic "LLOG"     4
//!   4   version          2   3 once there were index entries of more than 2,000 bytes; 2 before
//!   6   flags            1   1: a group begins here, 2: it ends here
//!   7   copy             1   0, or 1 in the second copy
//!   8   generation       8   of this EBLOCK
//!   16  LSN              8   counts log pages from 1
//!   24  durable LSN      8   known durable when this page was written
//!   32  opening          4   the opening of the medium that wrote it
//!   36  payload bytes    4
//!   40  next             48  three candidates of 16 for the next page
//!   88  copies           1   1 or 2
//!   89  zero             3
//!   92  CRC-32C          4   of the whole WBLOCK without these 4 bytes, seeded with its address
//!   96  payload, then zeroes
//! ```

use lode_base::Ppa;
use lode_base::checksum::{crc32c_seeded, seed_of};
use lode_flash::Generation;

use super::candidate::{CANDIDATES, Candidate};
use crate::codec::Take;

pub(super) const MAGIC: [u8; 4] = *b"LLOG";
pub(crate) const VERSION: u16 = 3;
/// The version of pages of a drive without long index entries.
pub(super) const VERSION_SHORT: u16 = 2;
pub(crate) const PAYLOAD_AT: usize = 96;
/// Most copies of a page.
pub(super) const COPIES_MAX: u32 = 2;
const CRC_AT: usize = 92;
const FIRST: u8 = 1;
const LAST: u8 = 2;
const _: () = assert!(40 + CANDIDATES * Candidate::BYTES + 4 == CRC_AT && CRC_AT + 4 == PAYLOAD_AT);

/// The header of a log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPage {
    pub(super) version: u16,
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) copy: u8,
    pub(super) copies: u8,
    pub(super) generation: Generation,
    pub(super) lsn: u64,
    pub(super) durable: u64,
    pub(super) epoch: u32,
    pub(super) next: [Candidate; CANDIDATES],
}

fn checksum(at: Ppa, page: &[u8]) -> u32 {
    let head = crc32c_seeded(seed_of(at.cell()), &page[..CRC_AT]);
    crc32c_seeded(head, &page[PAYLOAD_AT..])
}

impl LogPage {
    /// Fills `page`, a WBLOCK of zeroes that lies at `at`.
    pub(super) fn encode(&self, at: Ppa, payload: &[u8], page: &mut [u8]) {
        assert!(payload.len() <= page.len() - PAYLOAD_AT, "a payload fits its log page");
        assert!(self.copy < self.copies, "copy {} of {}", self.copy, self.copies);
        page[..4].copy_from_slice(&MAGIC);
        page[4..6].copy_from_slice(&self.version.to_le_bytes());
        page[6] = if self.first { FIRST } else { 0 } | if self.last { LAST } else { 0 };
        page[7] = self.copy;
        page[8..16].copy_from_slice(&self.generation.raw().to_le_bytes());
        page[16..24].copy_from_slice(&self.lsn.to_le_bytes());
        page[24..32].copy_from_slice(&self.durable.to_le_bytes());
        page[32..36].copy_from_slice(&self.epoch.to_le_bytes());
        page[36..40].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        for (i, candidate) in self.next.iter().enumerate() {
            page[40 + i * Candidate::BYTES..][..Candidate::BYTES].copy_from_slice(&candidate.to_bytes());
        }
        page[88] = self.copies;
        page[PAYLOAD_AT..PAYLOAD_AT + payload.len()].copy_from_slice(payload);
        let crc = checksum(at, page);
        page[CRC_AT..PAYLOAD_AT].copy_from_slice(&crc.to_le_bytes());
    }

    /// The page and its payload; `None` if these bytes are no whole log page.
    ///
    /// # Errors
    /// The version of a page that a newer Lode wrote.
    pub(super) fn decode(at: Ppa, page: &[u8]) -> Result<Option<(Self, &[u8])>, u16> {
        if page.len() < PAYLOAD_AT || page[..4] != MAGIC {
            return Ok(None);
        }
        let mut t = Take::new(&page[4..PAYLOAD_AT]);
        let mut fields = || {
            let (version, flags, copy) = (t.u16()?, t.u8()?, t.u8()?);
            let generation = Generation::from_raw(t.u64()?);
            let (lsn, durable, epoch, len) = (t.u64()?, t.u64()?, t.u32()?, t.u32()? as usize);
            let next = [Candidate::take(&mut t)?, Candidate::take(&mut t)?, Candidate::take(&mut t)?];
            let (copies, zero) = (t.u8()?, t.raw(3)?);
            let (first, last) = (flags & FIRST != 0, flags & LAST != 0);
            let p = Self { version, first, last, copy, copies, generation, lsn, durable, epoch, next };
            let sane = flags & !(FIRST | LAST) == 0
                && zero == [0; 3]
                && copy < copies
                && u32::from(copies) <= COPIES_MAX
                && len <= page.len() - PAYLOAD_AT;
            Ok::<_, crate::codec::Malformed>((sane, len, p, t.u32()?))
        };
        let (sane, len, p, crc) = fields().expect("a header is 96 bytes");
        if crc != checksum(at, page) {
            return Ok(None);
        }
        if p.version > VERSION {
            return Err(p.version);
        }
        if p.version < VERSION_SHORT || !sane {
            return Ok(None);
        }
        Ok(Some((p, &page[PAYLOAD_AT..PAYLOAD_AT + len])))
    }
}

/// Whether `page` is a log page at `at`; with `seal`, its magic and checksum are corrected first.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn decodes(at: Ppa, page: &mut [u8], seal: bool) -> bool {
    if seal && page.len() >= PAYLOAD_AT {
        page[..4].copy_from_slice(&MAGIC);
        let crc = checksum(at, page);
        page[CRC_AT..PAYLOAD_AT].copy_from_slice(&crc.to_le_bytes());
    }
    let Ok(Some((p, payload))) = LogPage::decode(at, page) else { return false };
    let mut again = vec![0; page.len()];
    p.encode(at, payload, &mut again);
    assert_eq!(LogPage::decode(at, &again), Ok(Some((p, payload))));
    true
}

#[cfg(test)]
mod tests {
    use lode_base::{EblockId, Geometry};

    use super::*;

    fn page() -> LogPage {
        let candidate = |n| Candidate {
            eblock: EblockId::new(n),
            generation: Generation::from_raw(1 << 32 | u64::from(n)),
            wblock: n,
        };
        LogPage {
            version: VERSION_SHORT,
            first: true,
            last: false,
            copy: 1,
            copies: 2,
            generation: Generation::from_raw(1 << 32 | 4),
            lsn: 77,
            durable: 76,
            epoch: 3,
            next: [candidate(9), candidate(10), candidate(11)],
        }
    }

    #[test]
    fn any_flipped_bit_or_other_place_makes_it_no_log_page() {
        let g = Geometry::file(1 << 30).unwrap();
        let ppa = |o| g.ppa(EblockId::new(3), o).unwrap();
        let p = page();
        let mut b = vec![0; 4096];
        p.encode(ppa(4096), b"records", &mut b);
        assert_eq!(LogPage::decode(ppa(4096), &b), Ok(Some((p, &b"records"[..]))));
        assert_eq!(LogPage::decode(ppa(8192), &b), Ok(None));
        for at in 0..b.len() {
            b[at] ^= 0x20;
            assert_eq!(LogPage::decode(ppa(4096), &b), Ok(None), "byte {at}");
            b[at] ^= 0x20;
        }
    }

    #[test]
    fn sealed_nonsense_is_no_log_page_and_a_newer_version_says_so() {
        let g = Geometry::file(1 << 30).unwrap();
        let at = g.ppa(EblockId::new(3), 4096).unwrap();
        let decode = |change: fn(&mut [u8])| {
            let mut b = vec![0; 4096];
            page().encode(at, b"records", &mut b);
            change(&mut b);
            let crc = checksum(at, &b);
            b[CRC_AT..PAYLOAD_AT].copy_from_slice(&crc.to_le_bytes());
            LogPage::decode(at, &b).map(|p| p.is_some())
        };
        assert_eq!(decode(|_| {}), Ok(true));
        assert_eq!((decode(|b| b[4] = 3), decode(|b| b[4] = 4)), (Ok(true), Err(4)));
        assert_eq!(decode(|b| b[4] = 1), Ok(false));
        assert_eq!(decode(|b| b[6] = 4), Ok(false));
        assert_eq!(decode(|b| b[7] = 2), Ok(false), "the third of two copies");
        assert_eq!(decode(|b| b[88] = 3), Ok(false), "three copies");
        assert_eq!(decode(|b| b[37] = 0x10), Ok(false), "more payload than a WBLOCK");
        // What the fuzzing asks.
        let mut b = vec![0; 4096];
        page().encode(at, b"records", &mut b);
        assert!(decodes(at, &mut b, false));
        b[PAYLOAD_AT] ^= 1;
        assert!(!decodes(at, &mut b, false) && decodes(at, &mut b, true));
        assert!(!decodes(at, &mut [0; 4096], true) && !decodes(at, &mut [0; 95], true));
    }
}
