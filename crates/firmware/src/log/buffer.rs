//! The format of the power-protected buffer: the pending records, as the medium keeps them.
//!
//! ```text
//!   | magic 4 | CRC-32C of the rest 4 | LSN 8 | records |      the LSN is that of the log page that will have them
//! ```
//!
//! Invariant: the records fit one log page, so its LSN is known before the page is written.

use lode_base::checksum::crc32c;
use lode_flash::Medium;

use super::page::PAYLOAD_AT;
use crate::codec::Put;

const MAGIC: [u8; 4] = *b"LPRT";
/// Where the records begin.
pub(crate) const RECORDS_AT: usize = 16;

/// Bytes of records that the buffer of a medium takes, 0 if it has none.
pub(crate) fn records_max(medium: &Medium) -> usize {
    let buffer = (medium.protected_bytes() as usize).saturating_sub(RECORDS_AT);
    buffer.min(medium.geometry().wblock_bytes() as usize - PAYLOAD_AT)
}

/// What the buffer holds while `records` are pending, which will be log page `lsn`.
pub(super) fn encode(lsn: u64, records: &[u8]) -> Vec<u8> {
    let mut b = MAGIC.to_vec();
    b.put_u32(0);
    b.put_u64(lsn);
    b.extend_from_slice(records);
    let crc = crc32c(&b[8..]);
    b[4..8].copy_from_slice(&crc.to_le_bytes());
    b
}

/// The LSN and the records in a buffer; `None` when nothing was ever put there.
pub(crate) fn decode(b: &[u8]) -> Option<(u64, &[u8])> {
    let lsn = u64::from_le_bytes(b.get(8..RECORDS_AT)?.try_into().ok()?);
    let crc = u32::from_le_bytes(b[4..8].try_into().ok()?);
    (b[..4] == MAGIC && crc32c(&b[8..]) == crc).then_some((lsn, &b[RECORDS_AT..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_comes_back_and_changed_bytes_do_not() {
        let b = encode(77, b"records");
        assert_eq!(decode(&b), Some((77, &b"records"[..])));
        assert_eq!(decode(&[]), None);
        for at in 0..b.len() {
            let mut changed = b.clone();
            changed[at] ^= 1;
            assert_eq!(decode(&changed), None, "byte {at}");
            assert_eq!(decode(&b[..at]), None, "cut to {at} bytes");
        }
    }
}
