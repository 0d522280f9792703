//! What the blocks are: page 0 of extent 0.
//!
//! ```text
//!   0   magic "LODEBLK\0"    8
//!   8   version              2
//!  10   zero                 2
//!  12   bytes of a block     4
//!  16   blocks               8
//!  24   zero                36
//!  60   CRC-32C              4   of bytes 0..60
//! ```

use lode_base::checksum::crc32c;
use lode_base::{ExtentId, Lpid, PAGE_BYTES_MIN, PageBuf};

use super::BLOCK_BYTES;
use crate::codec::{Malformed, Put, Take};

const MAGIC: [u8; 8] = *b"LODEBLK\0";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 64;
const CRC_AT: usize = 60;
const _: () = assert!(HEADER_BYTES >= PAGE_BYTES_MIN);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) block_bytes: u32,
    pub(super) capacity_blocks: u64,
}

impl Header {
    /// Where it lies.
    pub(super) fn lpid() -> Lpid {
        ExtentId::new(0).expect("0 is an extent").page(0)
    }

    pub(super) fn encode(&self) -> PageBuf {
        let mut b = MAGIC.to_vec();
        b.put_u16(VERSION);
        b.put_u16(0);
        b.put_u32(self.block_bytes);
        b.put_u64(self.capacity_blocks);
        b.resize(CRC_AT, 0);
        b.put_u32(crc32c(&b));
        PageBuf::copy_from(&b)
    }

    /// The header in these bytes, or what is wrong with them.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() != HEADER_BYTES || bytes[..8] != MAGIC {
            return Err("page 0 of extent 0 is no header of blocks".into());
        }
        let expected = crc32c(&bytes[..CRC_AT]);
        let crc = Take::new(&bytes[CRC_AT..]).u32().expect("4 bytes");
        if crc != expected {
            return Err(format!("the header's checksum is {crc:#010x}, expected {expected:#010x}"));
        }
        let mut fields = Take::new(&bytes[8..CRC_AT]);
        let mut read = || -> Result<_, Malformed> {
            let version = fields.u16()?;
            fields.u16()?;
            Ok((version, Self { block_bytes: fields.u32()?, capacity_blocks: fields.u64()? }))
        };
        let (version, header) = read().expect("the header is long enough");
        if version > VERSION {
            return Err(format!("the header has format version {version}; this Lode reads up to {VERSION}"));
        }
        if !BLOCK_BYTES.contains(&header.block_bytes) || !(1..1 << 40).contains(&header.capacity_blocks) {
            return Err(format!("{} blocks of {} bytes", header.capacity_blocks, header.block_bytes));
        }
        Ok(header)
    }
}

/// Whether these bytes are a header, once magic and checksum are made right.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn decodes(bytes: &[u8]) -> bool {
    let mut b = [0; HEADER_BYTES];
    let len = bytes.len().min(CRC_AT);
    b[..len].copy_from_slice(&bytes[..len]);
    b[..8].copy_from_slice(&MAGIC);
    let crc = crc32c(&b[..CRC_AT]);
    b[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    let Ok(header) = Header::decode(&b) else { return false };
    assert_eq!(Header::decode(&header.encode()), Ok(header));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_no_other_bytes_do() {
        let header = Header { block_bytes: 16_384, capacity_blocks: 1000 };
        let bytes = header.encode();
        assert_eq!((bytes.len(), Header::decode(&bytes)), (HEADER_BYTES, Ok(header)));
        for at in 0..bytes.len() {
            let mut other = bytes.to_vec();
            other[at] ^= 0x10;
            assert!(Header::decode(&other).is_err(), "byte {at}");
            assert!(Header::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
        let odd = Header { block_bytes: 512, ..header }.encode();
        assert_eq!(Header::decode(&odd), Err("1000 blocks of 512 bytes".into()));
    }
}
