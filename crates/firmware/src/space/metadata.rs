//! EBLOCK metadata: the names of the pages in an EBLOCK. It is programmed behind the data when the EBLOCK is closed. So GC
//! reads no page to learn what lies there.
//!
//! ```text
//!   0   magic "LEBM"   4   version 2   zero 2
//!   8   generation     8   of the EBLOCK
//!   16  EBLOCK         4
//!   20  pages          4
//!   24  CRC-32C        4   of bytes 0..24 and the words
//!   28  zero           4
//!   32  words          8 each: | aligned 1 | kind 15 | LPID, or number of the drive's own page: 48 |
//! ```
//!
//! Version 1 had no bit for alignment: GC packs pages that it names without aligning them.
//!
//! A word says only that a version of the page was provisioned here. The mapping and the version table say whether it is
//! still needed.
//!
//! Source: ELEOS §IV-A, §VI-C. We differ: addresses are looked up, so the order of the words does not matter.

use lode_base::checksum::{crc32c, crc32c_seeded};
use lode_base::{CELL_BYTES, EblockId, Geometry, Lpid, PageBuf, PageBufMut};
use lode_command::Align;
use lode_flash::{Generation, Medium};

use crate::FirmwareError;
use crate::codec::{Malformed, Put, Take};
use crate::entry::Entry;
use crate::own::OwnKind;

const MAGIC: [u8; 4] = *b"LEBM";
const VERSION: u16 = 2;
const HEADER_BYTES: usize = 32;
const NUMBER_BITS: u32 = 48;
/// The bit of a word that says that its page is to begin on a read unit.
const ALIGNED: u64 = 1 << 63;

/// A page that was written to an EBLOCK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PageName {
    User(Lpid),
    Own(OwnKind, u64),
}

impl std::fmt::Display for PageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(lpid) => write!(f, "page {lpid}"),
            Self::Own(kind, number) => write!(f, "{kind} {number}"),
        }
    }
}

impl PageName {
    pub(crate) fn word(self) -> u64 {
        match self {
            Self::User(lpid) => lpid.raw(),
            Self::Own(kind, number) => {
                assert!(number >> NUMBER_BITS == 0, "{kind} {number} has too high a number");
                u64::from(kind.tag()) << NUMBER_BITS | number
            }
        }
    }

    /// The word of a page with this alignment.
    pub(crate) fn aligned_word(self, align: Align) -> u64 {
        self.word() | if align == Align::ReadUnit { ALIGNED } else { 0 }
    }

    /// The word of a page that lies at `at`, when nothing else tells its alignment: it keeps the alignment that it has.
    pub(crate) fn word_at(self, at: Entry, g: &Geometry) -> u64 {
        self.aligned_word(align_at(at, g))
    }

    /// The page of a word; `None` when no page has it.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        let word = word & !ALIGNED;
        let number = word & ((1 << NUMBER_BITS) - 1);
        match u8::try_from(word >> NUMBER_BITS).ok()? {
            0 => Lpid::from_raw(number).map(Self::User),
            tag => Some(Self::Own(OwnKind::from_tag(tag)?, number)),
        }
    }
}

/// The alignment that a page has where it lies.
pub(crate) fn align_at(at: Entry, g: &Geometry) -> Align {
    let unit = u64::from(g.rblock_bytes());
    let is = at.place(g).is_some_and(|p| (p.cell() * CELL_BYTES as u64).is_multiple_of(unit));
    if is { Align::ReadUnit } else { Align::Cell }
}

/// The alignment that a word asks for.
pub(crate) fn align_of(word: u64) -> Align {
    if word & ALIGNED == 0 { Align::Cell } else { Align::ReadUnit }
}

/// WBLOCKs that the metadata of `pages` pages takes.
pub(crate) fn wblocks(g: &Geometry, pages: usize) -> u32 {
    ((HEADER_BYTES + 8 * pages) as u64).div_ceil(u64::from(g.wblock_bytes())) as u32
}

/// The metadata of an EBLOCK, as whole WBLOCKs.
pub(crate) fn encode(g: &Geometry, e: EblockId, generation: Generation, words: &[u64]) -> PageBuf {
    let mut b = Vec::with_capacity(HEADER_BYTES + 8 * words.len());
    b.extend(MAGIC);
    b.put_u16(VERSION);
    b.put_u16(0);
    b.put_u64(generation.raw());
    b.put_u32(e.raw());
    b.put_u32(words.len() as u32);
    b.put_u32(0);
    b.put_u32(0);
    words.iter().for_each(|w| b.put_u64(*w));
    let crc = crc32c_seeded(crc32c(&b[..24]), &b[HEADER_BYTES..]);
    b[24..28].copy_from_slice(&crc.to_le_bytes());
    let mut out = PageBufMut::zeroed(wblocks(g, words.len()) as usize * g.wblock_bytes() as usize);
    out[..b.len()].copy_from_slice(&b);
    out.freeze()
}

/// The words of metadata, each of which names a page.
pub(crate) fn decode(bytes: &[u8], e: EblockId, generation: Generation) -> Result<Vec<u64>, Malformed> {
    let t = &mut Take::new(bytes);
    if t.raw(4)? != MAGIC {
        return Err(t.bad("not the metadata of an EBLOCK"));
    }
    let (version, _) = (t.u16()?, t.u16()?);
    if !(1..=VERSION).contains(&version) {
        return Err(t.bad("an unknown version"));
    }
    if t.u64()? != generation.raw() || t.u32()? != e.raw() {
        return Err(t.bad("the metadata of another EBLOCK"));
    }
    let (count, crc) = (t.u32()? as usize, t.u32()?);
    t.u32()?;
    let words = t.raw(count.checked_mul(8).ok_or(t.bad("a count beyond the bytes"))?)?;
    if crc32c_seeded(crc32c(&bytes[..24]), words) != crc {
        return Err(t.bad("wrong checksum"));
    }
    let (words, _) = words.as_chunks::<8>();
    let word = |w: &[u8; 8]| {
        let word = u64::from_le_bytes(*w);
        PageName::from_word(word).map(|_| word).ok_or(t.bad("an unknown kind of page"))
    };
    words.iter().map(word).collect()
}

/// Reads the metadata that lies at WBLOCKs `at` to `at + count` of a closed EBLOCK.
pub(crate) fn read(medium: &Medium, e: EblockId, at: u32, count: u32) -> Result<Vec<u64>, FirmwareError> {
    let g = medium.geometry();
    let damaged = |what: &dyn std::fmt::Display| {
        FirmwareError::damaged(medium.path(), format!("metadata of {e:?}: {what}"))
    };
    let ppa = g.ppa(e, at * g.wblock_bytes()).ok_or_else(|| damaged(&"it lies beyond the EBLOCK"))?;
    let bytes = medium.read(ppa, count * g.wblock_bytes()).map_err(|e| damaged(&e))?;
    // On a modelled device the mover waits for it.
    medium.wait();
    decode(&bytes, e, medium.generation(e)).map_err(|m| damaged(&m))
}

#[cfg(test)]
mod tests {
    use lode_base::ExtentId;

    use super::*;

    #[test]
    fn names_come_back_and_any_flipped_bit_is_found() {
        let g = Geometry::file(1 << 30).unwrap();
        let (e, generation) = (EblockId::new(4), Generation::from_raw(9 << 32 | 2));
        let names =
            [PageName::User(ExtentId::new(7).unwrap().page(3)), PageName::Own(OwnKind::Index, 1 << 37)];
        let words: Vec<u64> = vec![names[0].aligned_word(Align::ReadUnit), names[1].word()];
        let b = encode(&g, e, generation, &words);
        assert_eq!(b.len(), 4096);
        let back = decode(&b, e, generation).unwrap();
        assert_eq!(back, words);
        assert_eq!([0, 1].map(|n| PageName::from_word(back[n]).unwrap()), names);
        assert_eq!([0, 1].map(|n| align_of(back[n])), [Align::ReadUnit, Align::Cell]);
        assert!(decode(&b, EblockId::new(5), generation).is_err());
        for at in 0..HEADER_BYTES + 16 {
            let mut flipped = b.to_vec();
            flipped[at] ^= 1;
            let padding = (6..8).contains(&at) || (28..32).contains(&at);
            assert!(decode(&flipped, e, generation).is_err() || padding && at >= 28, "byte {at}");
        }
    }

    #[test]
    fn what_version_1_wrote_is_read_and_what_a_newer_one_wrote_is_not() {
        let g = Geometry::file(1 << 30).unwrap();
        let (e, generation) = (EblockId::new(4), Generation::from_raw(9 << 32 | 2));
        let words = [PageName::User(ExtentId::new(7).unwrap().page(3)).word()];
        for (version, is_read) in [(0, false), (1, true), (2, true), (3, false)] {
            let mut b = encode(&g, e, generation, &words).to_vec();
            b[4] = version;
            let crc = crc32c_seeded(crc32c(&b[..24]), &b[HEADER_BYTES..HEADER_BYTES + 8]);
            b[24..28].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(decode(&b, e, generation).is_ok(), is_read, "version {version}");
        }
    }
}
