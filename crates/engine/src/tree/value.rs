//! Pages that hold one value each.
//!
//! ```text
//!   0  magic "LVAL"   4  bytes of the value   8  LPID   16  commit sequence number   24  the value
//! ```

use std::ops::Range;

use lode_base::{Lpid, PAGE_BYTES_MIN, PageBuf, PageBufMut};

use super::Csn;

const MAGIC: [u8; 4] = *b"LVAL";
/// Bytes before the value.
pub(crate) const HEADER_BYTES: usize = 24;

/// The page of a value.
pub(super) fn encode(lpid: Lpid, csn: Csn, value: &[u8]) -> PageBuf {
    let mut page = PageBufMut::zeroed((HEADER_BYTES + value.len()).max(PAGE_BYTES_MIN));
    page[..4].copy_from_slice(&MAGIC);
    page[4..8].copy_from_slice(&(value.len() as u32).to_le_bytes());
    page[8..16].copy_from_slice(&lpid.raw().to_le_bytes());
    page[16..24].copy_from_slice(&csn.raw().to_le_bytes());
    page[HEADER_BYTES..HEADER_BYTES + value.len()].copy_from_slice(value);
    page.freeze()
}

/// Whether a page claims to hold a value.
pub(super) fn is_one(page: &[u8]) -> bool {
    page.starts_with(&MAGIC)
}

/// Checks the page of a value; answers the commit that wrote it, or what is wrong.
pub(super) fn check(lpid: Lpid, page: &[u8]) -> Result<Csn, &'static str> {
    if page.len() < PAGE_BYTES_MIN || !is_one(page) {
        return Err("not the page of a value");
    }
    if page[8..16] != lpid.raw().to_le_bytes() {
        return Err("the page of another LPID");
    }
    let bytes = HEADER_BYTES + value_bytes(page);
    if page.len() != bytes.max(PAGE_BYTES_MIN) {
        return Err("a value of another length than its page");
    }
    Ok(Csn::new(u64::from_le_bytes(page[16..24].try_into().expect("8 bytes"))))
}

/// Whether a page that was checked is the one that a commit made of an LPID.
pub(super) fn is_of(page: &[u8], lpid: Lpid, csn: Csn) -> bool {
    is_seen(page, lpid, csn) && page[16..24] == csn.raw().to_le_bytes()
}

/// Whether a page that was checked is that of an LPID, and made by a commit up to this one.
#[inline]
pub(super) fn is_seen(page: &[u8], lpid: Lpid, csn: Csn) -> bool {
    let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    word(8) == lpid.raw() && word(16) <= csn.raw()
}

/// The value of a page that was checked; it shares the page's bytes.
pub(super) fn value(page: &PageBuf) -> PageBuf {
    page.slice(range(page))
}

/// Where the value is in a page that was checked.
#[inline]
pub(super) fn range(page: &[u8]) -> Range<usize> {
    // But for the shortest, pages are as long as what is in them, which need not be looked at.
    let end = if page.len() > PAGE_BYTES_MIN { page.len() } else { HEADER_BYTES + value_bytes(page) };
    HEADER_BYTES..end
}

fn value_bytes(page: &[u8]) -> usize {
    u32::from_le_bytes(page[4..8].try_into().expect("4 bytes")) as usize
}
