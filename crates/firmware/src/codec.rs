//! Little-endian fields, written and read. Reading trusts nothing: a short buffer is an error that says
//! where.

use lode_base::{EblockId, ExtentId, Geometry, Lpid};

/// Appends fields to bytes.
pub(crate) trait Put {
    fn put_u8(&mut self, v: u8);
    fn put_u16(&mut self, v: u16);
    fn put_u32(&mut self, v: u32);
    fn put_u64(&mut self, v: u64);
    fn put_bytes(&mut self, v: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }

    fn put_u16(&mut self, v: u16) {
        self.extend(v.to_le_bytes());
    }

    fn put_u32(&mut self, v: u32) {
        self.extend(v.to_le_bytes());
    }

    fn put_u64(&mut self, v: u64) {
        self.extend(v.to_le_bytes());
    }

    /// A length of 4 bytes, then the bytes.
    fn put_bytes(&mut self, v: &[u8]) {
        self.put_u32(u32::try_from(v.len()).expect("a field is below 4 GB"));
        self.extend(v);
    }
}

/// Bytes that are not what they should be: what, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) what: &'static str,
    pub(crate) at: usize,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// Takes fields off bytes.
pub(crate) struct Take<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn bad(&self, what: &'static str) -> Malformed {
        Malformed { what, at: self.at }
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len).filter(|&e| e <= self.bytes.len());
        let end = end.ok_or(self.bad("the bytes end too soon"))?;
        let field = &self.bytes[self.at..end];
        self.at = end;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(*self.raw(N)?.first_chunk().expect("as many bytes as asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of things that take at least `each_bytes` each: never more than the bytes can hold.
    pub(crate) fn count(&mut self, each_bytes: usize) -> Result<usize, Malformed> {
        let n = self.u32()? as usize;
        if n.checked_mul(each_bytes).is_none_or(|b| b > self.left()) {
            return Err(self.bad("a count beyond the bytes"));
        }
        Ok(n)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.u32()? as usize;
        self.raw(n)
    }

    pub(crate) fn lpid(&mut self) -> Result<Lpid, Malformed> {
        let raw = self.u64()?;
        Lpid::from_raw(raw).ok_or(self.bad("an LPID of more than 48 bits"))
    }

    pub(crate) fn extent(&mut self) -> Result<ExtentId, Malformed> {
        let raw = self.u64()?;
        ExtentId::new(raw).ok_or(self.bad("an extent of more than 38 bits"))
    }

    pub(crate) fn eblock(&mut self, g: &Geometry) -> Result<EblockId, Malformed> {
        let raw = self.u32()?;
        if raw >= g.eblock_count() {
            return Err(self.bad("an EBLOCK beyond the medium"));
        }
        Ok(EblockId::new(raw))
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.left() == 0 { Ok(()) } else { Err(self.bad("bytes left over")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_and_short_bytes_do_not_panic() {
        let mut b = Vec::new();
        b.put_u8(1);
        b.put_u16(2);
        b.put_u32(3);
        b.put_u64(4);
        b.put_bytes(b"five");
        let read = |b: &[u8]| {
            let mut t = Take::new(b);
            assert_eq!((t.u8()?, t.u16()?, t.u32()?, t.u64()?, t.bytes()?), (1, 2, 3, 4, &b"five"[..]));
            t.end()
        };
        assert_eq!(read(&b), Ok(()));
        for n in 0..b.len() {
            assert!(read(&b[..n]).is_err(), "cut to {n} bytes");
        }
        assert!(Take::new(&[255; 8]).count(1).is_err());
    }
}
