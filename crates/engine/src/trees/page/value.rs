//! Pages that hold one value each.
//!
//! ```text
//!   0  magic "LVAL"   4  bytes of the value   8  LPID   16  commit sequence number   24  the value
//! ```

use std::ops::Range;

use lode_base::{Lpid, PAGE_BYTES_MIN, PageBuf, PageBufMut};

use crate::trees::tree::Csn;

const MAGIC: [u8; 4] = *b"LVAL";
/// Bytes before the value.
pub(crate) const HEADER_BYTES: usize = 24;

/// The page of a value.
pub(crate) fn encode(lpid: Lpid, csn: Csn, value: &[u8]) -> PageBuf {
    let mut page = unnamed(value);
    name(&mut page, lpid, csn);
    page.freeze()
}

/// The page of a value, without LPID and commit.
fn unnamed(value: &[u8]) -> PageBufMut {
    let bytes = HEADER_BYTES + value.len();
    let mut page =
        if bytes < PAGE_BYTES_MIN { PageBufMut::zeroed(PAGE_BYTES_MIN) } else { PageBufMut::tight(bytes) };
    page[..4].copy_from_slice(&MAGIC);
    page[4..8].copy_from_slice(&(value.len() as u32).to_le_bytes());
    page[HEADER_BYTES..HEADER_BYTES + value.len()].copy_from_slice(value);
    page
}

fn name(page: &mut [u8], lpid: Lpid, csn: Csn) {
    page[8..16].copy_from_slice(&lpid.raw().to_le_bytes());
    page[16..24].copy_from_slice(&csn.raw().to_le_bytes());
}

/// A value that a transaction wrote, in a page that lacks only LPID and commit. So the value is copied once.
#[derive(Clone, Debug)]
pub(crate) struct Written(PageBuf);

impl Written {
    pub(crate) fn new(value: &[u8]) -> Self {
        Self(unnamed(value).freeze())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[range(&self.0)]
    }

    pub(crate) fn len(&self) -> usize {
        range(&self.0).len()
    }

    /// The value, which shares the page's bytes.
    pub(crate) fn share(&self) -> PageBuf {
        value(&self.0)
    }

    /// Its page, with LPID and commit. If others share the value, the page is a copy.
    pub(crate) fn page(&mut self, lpid: Lpid, csn: Csn) -> PageBuf {
        match self.0.get_mut() {
            Some(page) => name(page, lpid, csn),
            None => self.0 = encode(lpid, csn, self.bytes()),
        }
        self.0.clone()
    }
}

/// Whether a page claims to hold a value.
pub(crate) fn is_one(page: &[u8]) -> bool {
    page.starts_with(&MAGIC)
}

/// Checks the page of a value; answers the commit that wrote it, or what is wrong.
pub(crate) fn check(lpid: Lpid, page: &[u8]) -> Result<Csn, &'static str> {
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

/// Whether a page that was checked is the page of this LPID that this commit wrote.
pub(crate) fn is_of(page: &[u8], lpid: Lpid, csn: Csn) -> bool {
    is_seen(page, lpid, csn) && page[16..24] == csn.raw().to_le_bytes()
}

/// Whether a page that was checked is a page of this LPID that a commit up to this one wrote.
#[inline]
pub(crate) fn is_seen(page: &[u8], lpid: Lpid, csn: Csn) -> bool {
    let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    word(8) == lpid.raw() && word(16) <= csn.raw()
}

/// The value of a page that was checked. It shares the page's bytes.
pub(crate) fn value(page: &PageBuf) -> PageBuf {
    page.slice(range(page))
}

/// Where the value is in a page that was checked.
#[inline]
pub(crate) fn range(page: &[u8]) -> Range<usize> {
    // Only the shortest pages are longer than their contents. For all others the length field need not be read.
    let end = if page.len() > PAGE_BYTES_MIN { page.len() } else { HEADER_BYTES + value_bytes(page) };
    HEADER_BYTES..end
}

fn value_bytes(page: &[u8]) -> usize {
    u32::from_le_bytes(page[4..8].try_into().expect("4 bytes")) as usize
}

#[cfg(test)]
mod tests {
    use lode_base::ExtentId;

    use super::*;

    #[test]
    fn a_page_that_another_has_is_not_named_again() {
        let lpid = |n| ExtentId::new(1).unwrap().page(n);
        for len in [0, 10, 40, 41, 5000] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut written = Written::new(&bytes);
            let first = written.page(lpid(1), Csn::new(1));
            let place = first.as_ptr();
            let second = written.page(lpid(2), Csn::new(2));
            assert_eq!((first.as_ptr(), &first), (place, &encode(lpid(1), Csn::new(1), &bytes)));
            assert_eq!(second, encode(lpid(2), Csn::new(2), &bytes));
            // Once nobody shares it, the page is renamed in place: a group that did not fit a batch is carried out again, one by one.
            let place = second.as_ptr();
            drop(second);
            assert_eq!(written.page(lpid(3), Csn::new(3)).as_ptr(), place);
            // The transaction itself has read the value, and shares it.
            let shared = written.share();
            assert_ne!(written.page(lpid(4), Csn::new(4)).as_ptr(), place);
            assert_eq!((&*shared, written.bytes(), written.len()), (&bytes[..], &bytes[..], len));
        }
    }
}
