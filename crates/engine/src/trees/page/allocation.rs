//! The bitmap of an extent says which of its pages are in use. It is the first page of the extent, and counts itself.
//!
//! ```text
//!   0  magic "LALC"   4  version   5  0   8  LPID   16  commit sequence number   24  0   64  1,024 bits
//! ```

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, PageBuf, PageBufMut};

use crate::trees::tree::Csn;

const MAGIC: [u8; 4] = *b"LALC";
const VERSION: u8 = 1;
const BITS_AT: usize = 64;
const PAGE_BYTES: usize = BITS_AT + EXTENT_PAGES / 8;

/// A bitmap that is being changed.
#[derive(Clone)]
pub(crate) struct Allocation {
    buf: PageBufMut,
}

/// The page of the bitmap of an extent.
pub(crate) fn page_of(extent: ExtentId) -> Lpid {
    extent.page(0)
}

/// Whether a page claims to be a bitmap.
pub(crate) fn is_one(page: &[u8]) -> bool {
    page.starts_with(&MAGIC)
}

/// Checks a bitmap; answers the commit that wrote it, or what is wrong.
pub(crate) fn check(lpid: Lpid, page: &[u8]) -> Result<Csn, &'static str> {
    if page.len() != PAGE_BYTES || !is_one(page) {
        return Err("not an extent's bitmap");
    }
    if page[4] != VERSION {
        return Err("a bitmap of another format version");
    }
    if page[8..16] != lpid.raw().to_le_bytes() || lpid.page() != 0 {
        return Err("the page of another LPID");
    }
    if page[BITS_AT] & 1 == 0 {
        return Err("a bitmap that does not count itself");
    }
    Ok(Csn::new(u64::from_le_bytes(page[16..24].try_into().expect("8 bytes"))))
}

/// Whether a page of an extent is in use, according to its bitmap, which was checked.
pub(crate) fn is_used(bitmap: &[u8], page: u16) -> bool {
    bitmap[BITS_AT + usize::from(page) / 8] >> (page % 8) & 1 == 1
}

/// The first free page from `from` on, according to a bitmap that was checked.
pub(crate) fn first_free(bitmap: &[u8], from: u16) -> Option<u16> {
    (from..EXTENT_PAGES as u16).find(|&p| !is_used(bitmap, p))
}

impl Allocation {
    /// Nothing but the bitmap itself is in use.
    pub(crate) fn empty(extent: ExtentId) -> Self {
        let mut buf = PageBufMut::zeroed(PAGE_BYTES);
        buf[..4].copy_from_slice(&MAGIC);
        buf[4] = VERSION;
        buf[8..16].copy_from_slice(&page_of(extent).raw().to_le_bytes());
        buf[BITS_AT] = 1;
        Self { buf }
    }

    /// A copy of a bitmap that was checked.
    pub(crate) fn of(page: &PageBuf) -> Self {
        let mut buf = PageBufMut::zeroed(page.len());
        buf.copy_from_slice(page);
        Self { buf }
    }

    /// The first free page from `from` on.
    pub(crate) fn first_free(&self, from: u16) -> Option<u16> {
        first_free(&self.buf, from)
    }

    /// Says whether a page is in use.
    pub(crate) fn set(&mut self, page: u16, used: bool) {
        let (at, bit) = (BITS_AT + usize::from(page) / 8, 1 << (page % 8));
        match used {
            true => self.buf[at] |= bit,
            false => self.buf[at] &= !bit,
        }
    }

    pub(crate) fn set_csn(&mut self, csn: Csn) {
        self.buf[16..24].copy_from_slice(&csn.raw().to_le_bytes());
    }

    pub(crate) fn freeze(self) -> PageBuf {
        self.buf.freeze()
    }
}
