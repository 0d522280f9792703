//! The format of own pages. They lie in EBLOCKs of their own stream, and are found from the checkpoint record.
//!
//! ```text
//!   0   magic "LDPG"   4   kind 1   version 1   zero 2
//!   8   number         8   which of its kind: an extent, or a piece of a table
//!   16  payload bytes  4
//!   20  CRC-32C        4   of bytes 0..20 and the payload
//!   24  zero           8
//!   32  payload
//! ```
//!
//! The medium's tags prove that the bytes are those that were programmed there. The header proves that they are the page
//! that was looked for.
//!
//! Source: ELEOS §VIII-B (tables are flushed as pages of the log-structured store).

use std::fmt;

use lode_base::PAGE_BYTES_MIN;
use lode_base::checksum::{crc32c, crc32c_seeded};
use lode_flash::Medium;

use super::kind::OwnKind;
use crate::FirmwareError;
use crate::codec::{Malformed, Put, Take};
use crate::entry::Entry;

const MAGIC: [u8; 4] = *b"LDPG";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 32;

/// A page as bytes.
pub(crate) fn encode(kind: OwnKind, number: u64, payload: &[u8]) -> Vec<u8> {
    let mut b = Vec::with_capacity((HEADER_BYTES + payload.len()).max(PAGE_BYTES_MIN));
    b.extend(MAGIC);
    b.put_u8(kind.tag());
    b.put_u8(VERSION);
    b.put_u16(0);
    b.put_u64(number);
    b.put_u32(payload.len() as u32);
    let crc = crc32c_seeded(crc32c(&b), payload);
    b.put_u32(crc);
    b.put_u64(0);
    b.extend(payload);
    b.resize(b.len().max(PAGE_BYTES_MIN), 0);
    b
}

/// The payload of a page.
pub(crate) fn decode(kind: OwnKind, number: u64, bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut t = Take::new(bytes);
    if t.raw(4)? != MAGIC {
        return Err(t.bad("not a page of the drive"));
    }
    let (k, version, zero) = (t.u8()?, t.u8()?, t.u16()?);
    if version != VERSION {
        return Err(t.bad("an unknown version"));
    }
    if k != kind.tag() || zero != 0 || t.u64()? != number {
        return Err(t.bad("another page of the drive"));
    }
    let (len, crc) = (t.u32()? as usize, t.u32()?);
    t.u64()?;
    let payload = t.raw(len)?;
    if crc32c_seeded(crc32c(&bytes[..20]), payload) != crc {
        return Err(t.bad("wrong checksum"));
    }
    Ok(payload)
}

/// The payload of the page at `home`, read and verified.
pub(crate) fn read(
    medium: &Medium,
    kind: OwnKind,
    number: u64,
    home: Entry,
) -> Result<Vec<u8>, FirmwareError> {
    let ppa = home.ppa(medium.geometry());
    let damaged = |what: &dyn fmt::Display| {
        FirmwareError::damaged(medium.path(), format!("{kind} {number} at {ppa}: {what}"))
    };
    let bytes = medium.read(ppa, home.len_bytes() as u32).map_err(|e| damaged(&e))?;
    // On a modelled device the next step waits for what the page holds.
    medium.wait();
    decode(kind, number, &bytes).map(<[u8]>::to_vec).map_err(|e| damaged(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_was_asked_for_or_an_error() {
        let b = encode(OwnKind::Map, 7, b"payload");
        assert_eq!(b.len(), 64);
        assert_eq!(decode(OwnKind::Map, 7, &b).unwrap(), b"payload");
        assert!(decode(OwnKind::Map, 8, &b).is_err());
        assert!(decode(OwnKind::Index, 7, &b).is_err());
        for at in 0..24 + 8 + 7 {
            let mut flipped = b.clone();
            flipped[at] ^= 1;
            assert!(decode(OwnKind::Map, 7, &flipped).is_err() || (24..32).contains(&at), "byte {at}");
        }
    }
}
