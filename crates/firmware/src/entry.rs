//! A mapping entry: where a page lies and how long it is, in 64 bits.
//!
//! ```text
//!   63     62 ........ 42   41 ............. 0
//!   | redo | length: 21   | cell address: 42  |       zero: unmapped
//! ```
//!
//! The redo bit says that the page was written without an index entry, which is made once its owner has a rule. The entry
//! of an inlined page has length 1, and its address is:
//!
//! ```text
//!   41 ...... 28   27 ........... 0
//!   | length: 14 | number: 28     |
//! ```
//!
//! Source: ELEOS §III-B (8 bytes per page); the widths are ours.

use std::fmt;

use lode_base::{CELL_BYTES, EblockId, Geometry, PAGE_BYTES_LIMIT, PAGE_BYTES_MIN, Ppa};

const CELL_BITS: u32 = 42;
const LENGTH_BITS: u32 = 21;
const REDO: u64 = 1 << 63;
const _: () = assert!(1 << LENGTH_BITS == PAGE_BYTES_LIMIT);
/// The length field of an inlined page: no page on the medium is that short.
const INLINED: u64 = 1;
const NUMBER_BITS: u32 = 28;
/// Inlined pages have numbers below this.
pub(crate) const INLINED_NUMBERS: u32 = 1 << NUMBER_BITS;
/// Inlined pages are shorter than this.
pub(crate) const INLINED_BYTES_LIMIT: usize = 1 << (CELL_BITS - NUMBER_BITS);

/// The entry of a mapped page.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Entry(u64);

impl Entry {
    pub(crate) fn new(ppa: Ppa, len_bytes: usize, redo: bool) -> Self {
        assert!((PAGE_BYTES_MIN..PAGE_BYTES_LIMIT).contains(&len_bytes), "a page of {len_bytes} bytes");
        assert!(ppa.cell() >> CELL_BITS == 0, "{ppa} is beyond 256 TB");
        Self(ppa.cell() | (len_bytes as u64) << CELL_BITS | if redo { REDO } else { 0 })
    }

    /// The entry of a page that is inlined in the log.
    pub(crate) fn inlined(number: u32, len_bytes: usize, redo: bool) -> Self {
        assert!((PAGE_BYTES_MIN..INLINED_BYTES_LIMIT).contains(&len_bytes), "{len_bytes} bytes are inlined");
        assert!(number < INLINED_NUMBERS, "inlined page {number}");
        let place = (len_bytes as u64) << NUMBER_BITS | u64::from(number);
        Self(place | INLINED << CELL_BITS | if redo { REDO } else { 0 })
    }

    /// The entry in a word of a mapping page that this drive wrote or checked; `None` is unmapped.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    /// As [`Entry::from_word`], for words from the medium that name a page of a user.
    ///
    /// # Errors
    /// What is wrong with an entry that no page of this geometry has.
    pub(crate) fn check_user(word: u64, g: &Geometry) -> Result<Option<Self>, &'static str> {
        match Self::from_word(word) {
            Some(e) if e.is_inlined() && e.len_bytes() < PAGE_BYTES_MIN => {
                Err("an inlined page of less than 64 bytes")
            }
            Some(e) if e.is_inlined() => Ok(Some(e)),
            _ => Self::check(word, g),
        }
    }

    /// As [`Entry::check_user`], for pages that lie in EBLOCKs.
    ///
    /// # Errors
    /// What is wrong with an entry that no page of this geometry has.
    pub(crate) fn check(word: u64, g: &Geometry) -> Result<Option<Self>, &'static str> {
        let Some(e) = Self::from_word(word) else { return Ok(None) };
        if e.is_inlined() {
            return Err("an inlined page where none can be");
        }
        if e.len_bytes() < PAGE_BYTES_MIN {
            return Err("a mapping entry of less than 64 bytes");
        }
        let ppa = g.ppa_from_cell(e.cell()).ok_or("a mapping entry beyond the medium")?;
        if g.locate(ppa).1 as usize + e.len_bytes() > g.eblock_bytes() as usize {
            return Err("a mapping entry across the end of its EBLOCK");
        }
        Ok(Some(e))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    fn cell(self) -> u64 {
        self.0 & ((1 << CELL_BITS) - 1)
    }

    fn length_field(self) -> u64 {
        self.0 >> CELL_BITS & (PAGE_BYTES_LIMIT as u64 - 1)
    }

    pub(crate) fn is_inlined(self) -> bool {
        self.length_field() == INLINED
    }

    /// The number of an inlined page.
    pub(crate) fn inlined_number(self) -> Option<u32> {
        self.is_inlined().then_some(self.cell() as u32 & (INLINED_NUMBERS - 1))
    }

    pub(crate) fn len_bytes(self) -> usize {
        let len = if self.is_inlined() { self.cell() >> NUMBER_BITS } else { self.length_field() };
        len as usize
    }

    /// Bytes that the page takes from its EBLOCK: whole cells.
    pub(crate) fn cells_bytes(self) -> u32 {
        self.len_bytes().next_multiple_of(CELL_BYTES) as u32
    }

    pub(crate) fn redo(self) -> bool {
        self.0 & REDO != 0
    }

    pub(crate) fn without_redo(self) -> Self {
        Self(self.0 & !REDO)
    }

    /// Whether both name the same version of a page.
    pub(crate) fn same_place(self, other: Self) -> bool {
        self.without_redo() == other.without_redo()
    }

    /// Where the page lies.
    ///
    /// # Panics
    /// When it is inlined.
    pub(crate) fn ppa(self, g: &Geometry) -> Ppa {
        assert!(!self.is_inlined(), "an inlined page lies in no EBLOCK");
        g.ppa_from_cell(self.cell()).expect("entries are checked when they are read")
    }

    /// Where the page lies, if it is not inlined.
    pub(crate) fn place(self, g: &Geometry) -> Option<Ppa> {
        (!self.is_inlined()).then(|| self.ppa(g))
    }

    /// The EBLOCK that the page lies in, if it is not inlined.
    pub(crate) fn eblock(self, g: &Geometry) -> Option<EblockId> {
        self.place(g).map(|ppa| g.locate(ppa).0)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redo = if self.redo() { " redo" } else { "" };
        match self.inlined_number() {
            Some(n) => write!(f, "{} bytes inlined as {n}{redo}", self.len_bytes()),
            None => write!(f, "{} bytes at cell {:#x}{redo}", self.len_bytes(), self.cell()),
        }
    }
}

#[cfg(test)]
mod tests {
    use lode_base::EblockId;

    use super::*;

    #[test]
    fn an_entry_holds_place_length_and_redo() {
        let g = Geometry::file(1 << 30).unwrap();
        let ppa = g.ppa(EblockId::new(5), 128).unwrap();
        let e = Entry::new(ppa, 1_000_001, true);
        assert_eq!((e.ppa(&g), e.len_bytes(), e.redo()), (ppa, 1_000_001, true));
        assert_eq!(e.cells_bytes(), 1_000_064);
        assert!(e.same_place(e.without_redo()) && e != e.without_redo());
        assert_eq!(Entry::check(e.word(), &g), Ok(Some(e)));
        assert_eq!(Entry::check(0, &g), Ok(None));
        assert!(Entry::check(2, &g).is_err(), "no length");
        assert!(Entry::check(e.word() | 1 << 41, &g).is_err(), "beyond the medium");
        assert_eq!(format!("{e:?}"), format!("1000001 bytes at cell {:#x} redo", ppa.cell()));
        for wrong in [2, e.word() | 1 << 41] {
            assert!(Entry::check_user(wrong, &g).is_err(), "not for users either");
        }
        let last = g.ppa(EblockId::new(5), (8 << 20) - 64).unwrap();
        assert!(Entry::check(Entry::new(last, 64, false).word(), &g).is_ok(), "up to the end");
        assert!(Entry::check(Entry::new(last, 65, false).word(), &g).is_err(), "across the end");
    }

    #[test]
    fn an_inlined_page_has_a_number_and_no_place() {
        let g = Geometry::file(1 << 30).unwrap();
        for (number, len) in [(0, 64), (INLINED_NUMBERS - 1, INLINED_BYTES_LIMIT - 1)] {
            let e = Entry::inlined(number, len, true);
            assert_eq!((e.inlined_number(), e.len_bytes(), e.redo()), (Some(number), len, true));
            assert_eq!(e.place(&g), None);
            assert_eq!(format!("{e:?}"), format!("{len} bytes inlined as {number} redo"));
            assert!(e.same_place(e.without_redo()));
            assert_eq!(Entry::check_user(e.word(), &g), Ok(Some(e)));
            assert!(Entry::check(e.word(), &g).is_err(), "none of the drive's own pages is inlined");
        }
        assert!(Entry::check_user(INLINED << CELL_BITS | 63 << NUMBER_BITS, &g).is_err());
        let e = Entry::new(g.ppa(EblockId::new(5), 128).unwrap(), 64, false);
        assert_eq!((e.inlined_number(), e.place(&g).is_some()), (None, true));
        assert_eq!(Entry::check_user(e.word(), &g), Ok(Some(e)));
    }
}
