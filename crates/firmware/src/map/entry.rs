//! A mapping entry: where a page lies and how long it is, in 64 bits.
//!
//! ```text
//!   63     62 ........ 42   41 ............. 0
//!   | redo | length: 21   | cell address: 42  |       zero: unmapped
//! ```
//!
//! The redo bit says that the page was written without an index entry, which is to be made once its owner has
//! a rule. Source: ELEOS §III-B (8 bytes a page); the widths are Lode's format.

use std::fmt;

use lode_base::{CELL_BYTES, Geometry, PAGE_BYTES_LIMIT, PAGE_BYTES_MIN, Ppa};

const CELL_BITS: u32 = 42;
const LENGTH_BITS: u32 = 21;
const REDO: u64 = 1 << 63;
const _: () = assert!(1 << LENGTH_BITS == PAGE_BYTES_LIMIT);

/// The entry of a mapped page.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Entry(u64);

impl Entry {
    pub(crate) fn new(ppa: Ppa, len_bytes: usize, redo: bool) -> Self {
        assert!((PAGE_BYTES_MIN..PAGE_BYTES_LIMIT).contains(&len_bytes), "a page of {len_bytes} bytes");
        assert!(ppa.cell() >> CELL_BITS == 0, "{ppa} is beyond 256 TB");
        Self(ppa.cell() | (len_bytes as u64) << CELL_BITS | if redo { REDO } else { 0 })
    }

    /// The entry in a word of a mapping page that this drive wrote or checked; `None` is unmapped.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    /// As [`Entry::from_word`], for words from the medium.
    ///
    /// # Errors
    /// What is wrong with an entry that no page of this geometry has.
    pub(crate) fn check(word: u64, g: &Geometry) -> Result<Option<Self>, &'static str> {
        let Some(e) = Self::from_word(word) else { return Ok(None) };
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

    pub(crate) fn len_bytes(self) -> usize {
        (self.0 >> CELL_BITS) as usize & (PAGE_BYTES_LIMIT - 1)
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

    pub(crate) fn ppa(self, g: &Geometry) -> Ppa {
        g.ppa_from_cell(self.cell()).expect("entries are checked when they are read")
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes at cell {:#x}{}",
            self.len_bytes(),
            self.cell(),
            if self.redo() { " redo" } else { "" }
        )
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
        assert!(Entry::check(1, &g).is_err(), "no length");
        assert!(Entry::check(e.word() | 1 << 41, &g).is_err(), "beyond the medium");
        let last = g.ppa(EblockId::new(5), (8 << 20) - 64).unwrap();
        assert!(Entry::check(Entry::new(last, 65, false).word(), &g).is_err(), "across the end");
    }
}
