//! A log page: one WBLOCK, its tag inside.
//!
//! ```text
//!   0   magic "LLOG"     4
//!   4   version          2
//!   6   flags            2   1: a group begins here, 2: it ends here
//!   8   generation       8   of this EBLOCK
//!   16  LSN              8   counts log pages from 1
//!   24  durable LSN      8   known durable when this page was written
//!   32  next generation  8
//!   40  next EBLOCK      4   where the log goes on when this EBLOCK is full
//!   44  payload bytes    4
//!   48  zero             12
//!   60  CRC-32C          4   of the whole WBLOCK without these 4 bytes, seeded with its address
//!   64  payload, then zeroes
//! ```

use lode_base::checksum::{crc32c_seeded, seed_of};
use lode_base::{EblockId, Ppa};
use lode_flash::Generation;

use crate::codec::Take;

const MAGIC: [u8; 4] = *b"LLOG";
pub(crate) const VERSION: u16 = 1;
pub(crate) const PAYLOAD_AT: usize = 64;
const CRC_AT: usize = 60;
const FIRST: u16 = 1;
const LAST: u16 = 2;

/// The header of a log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPage {
    pub(crate) first: bool,
    pub(crate) last: bool,
    pub(crate) generation: Generation,
    pub(crate) lsn: u64,
    pub(crate) durable: u64,
    pub(crate) next: (EblockId, Generation),
}

fn checksum(at: Ppa, page: &[u8]) -> u32 {
    let head = crc32c_seeded(seed_of(at.cell()), &page[..CRC_AT]);
    crc32c_seeded(head, &page[PAYLOAD_AT..])
}

impl LogPage {
    /// Fills `page`, a WBLOCK of zeroes that lies at `at`.
    pub(crate) fn encode(&self, at: Ppa, payload: &[u8], page: &mut [u8]) {
        assert!(payload.len() <= page.len() - PAYLOAD_AT, "a payload fits its log page");
        page[..4].copy_from_slice(&MAGIC);
        page[4..6].copy_from_slice(&VERSION.to_le_bytes());
        let flags = if self.first { FIRST } else { 0 } | if self.last { LAST } else { 0 };
        page[6..8].copy_from_slice(&flags.to_le_bytes());
        page[8..16].copy_from_slice(&self.generation.raw().to_le_bytes());
        page[16..24].copy_from_slice(&self.lsn.to_le_bytes());
        page[24..32].copy_from_slice(&self.durable.to_le_bytes());
        page[32..40].copy_from_slice(&self.next.1.raw().to_le_bytes());
        page[40..44].copy_from_slice(&self.next.0.raw().to_le_bytes());
        page[44..48].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        page[PAYLOAD_AT..PAYLOAD_AT + payload.len()].copy_from_slice(payload);
        let crc = checksum(at, page);
        page[CRC_AT..PAYLOAD_AT].copy_from_slice(&crc.to_le_bytes());
    }

    /// The page and its payload; `None` when this is no whole log page. `Err` is the version of a newer one.
    pub(crate) fn decode(at: Ppa, page: &[u8]) -> Result<Option<(Self, &[u8])>, u16> {
        if page.len() < PAYLOAD_AT || page[..4] != MAGIC {
            return Ok(None);
        }
        let mut t = Take::new(&page[4..]);
        let mut fields = || {
            let (version, flags) = (t.u16()?, t.u16()?);
            let generation = Generation::from_raw(t.u64()?);
            let (lsn, durable) = (t.u64()?, t.u64()?);
            let next_generation = Generation::from_raw(t.u64()?);
            let next = (EblockId::new(t.u32()?), next_generation);
            let len = t.u32()? as usize;
            t.raw(12)?;
            let p =
                Self { first: flags & FIRST != 0, last: flags & LAST != 0, generation, lsn, durable, next };
            Ok::<_, crate::codec::Malformed>((version, flags, len, p, t.u32()?))
        };
        let (version, flags, len, p, crc) = fields().expect("a header is 64 bytes");
        if crc != checksum(at, page) {
            return Ok(None);
        }
        if version > VERSION {
            return Err(version);
        }
        if flags & !(FIRST | LAST) != 0 || len > page.len() - PAYLOAD_AT {
            return Ok(None);
        }
        Ok(Some((p, &page[PAYLOAD_AT..PAYLOAD_AT + len])))
    }
}

#[cfg(test)]
mod tests {
    use lode_base::Geometry;

    use super::*;

    #[test]
    fn any_flipped_bit_or_other_place_makes_it_no_log_page() {
        let g = Geometry::file(1 << 30).unwrap();
        let ppa = |o| g.ppa(EblockId::new(3), o).unwrap();
        let p = LogPage {
            first: true,
            last: false,
            generation: Generation::from_raw(1 << 32 | 4),
            lsn: 77,
            durable: 76,
            next: (EblockId::new(9), Generation::from_raw(1 << 32 | 5)),
        };
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
}
