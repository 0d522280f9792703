//! Writes and reads little-endian fields of messages. Reading trusts nothing.
//!
//! ```text
//!   message = fields ... | length 4 | zeroes up to a multiple of 64 | bytes | fields ...
//! ```
//!
//! Long bytes begin at a multiple of 64 of their message. So a receiver that read the message into a [`PageBuf`] can
//! take them out as aligned slices, without a copy. Crates add their own types by writing and reading fields.
//!
//! Invariants: a [`Reader`] never reads beyond its bytes; a count that it returns is never larger than the remaining
//! bytes allow.

use crate::{ExtentId, Lpid, PageBuf};

/// The alignment of long bytes in a message.
const ALIGN: usize = crate::CELL_BYTES;

/// Appends the fields of one message to a buffer, which may hold others before it.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    /// A message that begins at the end of `buffer`.
    pub fn new(buffer: &'a mut Vec<u8>) -> Self {
        let start = buffer.len();
        Self { buffer, start }
    }

    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.buffer.push(v);
    }

    /// Two bytes.
    pub fn u16(&mut self, v: u16) {
        self.buffer.extend_from_slice(&v.to_le_bytes());
    }

    /// Four bytes.
    pub fn u32(&mut self, v: u32) {
        self.buffer.extend_from_slice(&v.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.buffer.extend_from_slice(&v.to_le_bytes());
    }

    /// Sixteen bytes.
    pub fn i128(&mut self, v: i128) {
        self.buffer.extend_from_slice(&v.to_le_bytes());
    }

    /// A byte that is 0 or 1.
    pub fn flag(&mut self, v: bool) {
        self.u8(v.into());
    }

    /// How many things follow.
    ///
    /// # Panics
    /// When there are 2^32 or more.
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("a message has fewer than 2^32 of anything"));
    }

    /// A length of 4 bytes, then the bytes.
    pub fn bytes(&mut self, v: &[u8]) {
        self.count(v.len());
        self.buffer.extend_from_slice(v);
    }

    /// A length of 4 bytes, then the bytes of a text.
    pub fn text(&mut self, v: &str) {
        self.bytes(v.as_bytes());
    }

    /// A length of 4 bytes, then the bytes from the next multiple of 64 on.
    pub fn long(&mut self, v: &[u8]) {
        self.count(v.len());
        let len = self.buffer.len() - self.start;
        self.buffer.resize(self.start + len.next_multiple_of(ALIGN), 0);
        self.buffer.extend_from_slice(v);
    }
}

/// A malformed message: what is wrong, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at} of a message")]
pub struct Malformed {
    /// What is wrong.
    pub what: &'static str,
    /// Where.
    pub at: usize,
}

/// What `take` reads of bytes that hold it and nothing else.
///
/// # Errors
/// Those of `take`; when bytes are left.
pub fn read_whole<T>(
    bytes: &PageBuf,
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<T, Malformed> {
    let r = &mut Reader::new(bytes);
    let t = take(r)?;
    r.end().map(|()| t)
}

/// Reads the fields of one message.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a PageBuf,
    at: usize,
}

impl<'a> Reader<'a> {
    /// From the first byte on.
    pub fn new(bytes: &'a PageBuf) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error at the reader's position.
    pub fn bad(&self, what: &'static str) -> Malformed {
        Malformed { what, at: self.at }
    }

    /// Bytes that were not read yet.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn skip(&mut self, len: usize) -> Result<usize, Malformed> {
        if len > self.left() {
            return Err(self.bad("the bytes end too soon"));
        }
        let from = self.at;
        self.at += len;
        Ok(from)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let from = self.skip(N)?;
        Ok(*self.bytes[from..].first_chunk().expect("as many bytes as asked for"))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// Sixteen bytes.
    pub fn i128(&mut self) -> Result<i128, Malformed> {
        self.array().map(i128::from_le_bytes)
    }

    /// A byte that is 0 or 1.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.bad("a flag that is neither 0 nor 1")),
        }
    }

    /// A count of items of at least `each_bytes` (1 or more) that follow: never more than the remaining bytes can hold.
    pub fn count(&mut self, each_bytes: usize) -> Result<usize, Malformed> {
        let n = self.u32()? as usize;
        if n > self.left() / each_bytes {
            return Err(self.bad("a count beyond the bytes"));
        }
        Ok(n)
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        let from = self.skip(len)?;
        Ok(&self.bytes[from..from + len])
    }

    /// A text behind its length.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.bad("a text that is not UTF-8"))
    }

    /// Long bytes: a slice of the message, 64-byte aligned if the message is.
    pub fn long(&mut self) -> Result<PageBuf, Malformed> {
        let len = self.u32()? as usize;
        let pad = self.at.next_multiple_of(ALIGN) - self.at;
        let from = self.skip(pad)?;
        if self.bytes[from..from + pad].iter().any(|&b| b != 0) {
            return Err(self.bad("something between fields"));
        }
        let from = self.skip(len)?;
        Ok(self.bytes.slice(from..from + len))
    }

    /// An LPID.
    pub fn lpid(&mut self) -> Result<Lpid, Malformed> {
        let raw = self.u64()?;
        Lpid::from_raw(raw).ok_or(self.bad("an LPID of more than 48 bits"))
    }

    /// An extent.
    pub fn extent(&mut self) -> Result<ExtentId, Malformed> {
        let raw = self.u64()?;
        ExtentId::new(raw).ok_or(self.bad("an extent of more than 38 bits"))
    }

    /// Checks that nothing is left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.left() == 0 { Ok(()) } else { Err(self.bad("bytes left over")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Vec<u8> {
        let mut b = vec![9; 5];
        let mut w = Writer::new(&mut b);
        w.u8(1);
        w.u16(2);
        w.u32(3);
        w.u64(4);
        w.i128(-5);
        w.flag(true);
        w.text("seven");
        w.long(&[8; 100]);
        w.count(0);
        b.split_off(5)
    }

    fn read(bytes: &[u8]) -> Result<(), Malformed> {
        let b = PageBuf::copy_from(bytes);
        let r = &mut Reader::new(&b);
        assert_eq!((r.u8()?, r.u16()?, r.u32()?, r.u64()?, r.i128()?), (1, 2, 3, 4, -5));
        assert_eq!((r.flag()?, r.text()?), (true, "seven"));
        let long = r.long()?;
        assert_eq!((&*long, long.as_ptr() as usize % 64), (&[8; 100][..], 0));
        assert_eq!(r.count(1)?, 0);
        r.end()
    }

    #[test]
    fn fields_come_back_and_short_bytes_do_not_panic() {
        let m = message();
        assert_eq!(read(&m), Ok(()));
        for n in 0..m.len() {
            assert!(read(&m[..n]).is_err(), "cut to {n} bytes");
        }
        assert!(read(&[m, vec![0]].concat()).is_err());
    }

    #[test]
    fn counts_are_bounded_by_the_bytes() {
        let b = PageBuf::copy_from(&[2, 0, 0, 0, 1, 2, 3]);
        assert_eq!(Reader::new(&b).count(1), Ok(2));
        assert!(Reader::new(&b).count(2).is_err());
        let b = PageBuf::copy_from(&[255; 12]);
        assert!(Reader::new(&b).count(1).is_err());
        assert!(Reader::new(&b).bytes().is_err());
        assert!(Reader::new(&b).long().is_err());
        assert!(Reader::new(&b).flag().is_err());
    }
}
