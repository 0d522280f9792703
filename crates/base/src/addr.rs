//! Addresses: of logical pages (LPID), of the medium (PPA, EBLOCK), and the identities that go with them.
//!
//! ```text
//!   LPID (48 bits)   | extent: 38 | page: 10 |      an extent belongs to one owner
//!   PPA  (42 bits)   | cell of 64 bytes, counted from the start of the medium |
//! ```
//!
//! Source: ELEOS §V (LPID to physical address); the widths are Lode's on-disk format.

use std::fmt;

use crate::EXTENT_PAGES;

const PAGE_BITS: u32 = 10;
const EXTENT_BITS: u32 = 38;
const _: () = assert!(1usize << PAGE_BITS == EXTENT_PAGES);

/// An extent: 1,024 consecutive LPIDs with one owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtentId(u64);

impl ExtentId {
    /// The extent with this number; `None` beyond 38 bits.
    pub const fn new(raw: u64) -> Option<Self> {
        if raw >> EXTENT_BITS == 0 { Some(Self(raw)) } else { None }
    }

    /// The extent's number.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The LPID of page `page` (0 to 1,023) of this extent.
    ///
    /// # Panics
    /// When `page` is 1,024 or more.
    pub const fn page(self, page: u16) -> Lpid {
        assert!((page as usize) < EXTENT_PAGES, "a page of an extent is below 1,024");
        Lpid(self.0 << PAGE_BITS | page as u64)
    }
}

impl fmt::Debug for ExtentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extent {}", self.0)
    }
}

impl fmt::Display for ExtentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The identity of a logical page: 48 bits, 38 of extent and 10 of page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpid(u64);

impl Lpid {
    /// The LPID with this number; `None` beyond 48 bits.
    pub const fn from_raw(raw: u64) -> Option<Self> {
        if raw >> (PAGE_BITS + EXTENT_BITS) == 0 { Some(Self(raw)) } else { None }
    }

    /// The LPID's number.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The extent it lies in.
    pub const fn extent(self) -> ExtentId {
        ExtentId(self.0 >> PAGE_BITS)
    }

    /// Its place within its extent, 0 to 1,023.
    pub const fn page(self) -> u16 {
        (self.0 & (EXTENT_PAGES as u64 - 1)) as u16
    }
}

impl fmt::Debug for Lpid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.extent().0, self.page())
    }
}

impl fmt::Display for Lpid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A physical address: a cell of 64 bytes, counted from the start of the medium. Only [`crate::Geometry`] mints one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(u64);

impl Ppa {
    pub(crate) const fn mint(cell: u64) -> Self {
        Self(cell)
    }

    /// The cell's number; the byte offset on the medium is 64 times this.
    pub const fn cell(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Ppa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ppa {:#x}", self.0)
    }
}

impl fmt::Display for Ppa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($raw:ty), $text:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($raw);

        impl $name {
            /// The one with this number.
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// Its number.
            pub const fn raw(self) -> $raw {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($text, " {}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number!(
    /// An erase unit of the medium, counted from 0.
    EblockId(u32), "EBLOCK"
);
number!(
    /// The owner of an extent: the catalog ([`OwnerId::CATALOG`]) or a table ([`TableId`]).
    OwnerId(u32), "owner"
);
number!(
    /// A table of the catalog; the first is 1.
    TableId(u32), "table"
);
number!(
    /// The number of a committed system action: each is one more than the one before.
    CommitNo(u64), "commit"
);
number!(
    /// An open read view.
    ViewId(u64), "view"
);
number!(
    /// A session of ordered writes; the drive draws its number.
    SessionId(u64), "session"
);

impl OwnerId {
    /// The owner of the catalog's extents; extent 0 is its first.
    pub const CATALOG: Self = Self(0);
}

impl From<TableId> for OwnerId {
    fn from(t: TableId) -> Self {
        Self(t.raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lpid_is_an_extent_and_a_page() {
        let l = ExtentId::new(77).unwrap().page(1023);
        assert_eq!((l.extent().raw(), l.page()), (77, 1023));
        assert_eq!(Lpid::from_raw(l.raw()), Some(l));
    }

    #[test]
    fn numbers_beyond_their_width_are_refused() {
        assert_eq!(Lpid::from_raw(1 << 48), None);
        assert_eq!(ExtentId::new(1 << 38), None);
        assert!(Lpid::from_raw((1 << 48) - 1).is_some());
    }
}
