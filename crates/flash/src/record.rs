//! Records that are written alternately to two places, so that one is whole after any power cut: the open epoch, and
//! the firmware's checkpoint record.
//!
//! ```text
//!   0   magic            8 bytes     4 payload length  u32  at 8
//!   12  CRC-32C          u32         of bytes 16.. and the payload, seeded with the record's position
//!   16  sequence         u64         the higher of two whole records counts
//!   24  image length     u64         bytes that the image had and keeps
//!   32  payload
//! ```

use lode_base::checksum::{crc32c_seeded, seed_of};

/// Longest checkpoint record, in bytes.
pub const CHECKPOINT_RECORD_BYTES_MAX: usize = 64 << 10;
/// Bytes before the payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;

/// The highest valid sequence. It is never reached, so every sequence has a successor.
const SEQUENCE_MAX: u64 = 1 << 62;

pub(crate) const EPOCH_MAGIC: [u8; 8] = *b"LODEEPO\0";
pub(crate) const CHECKPOINT_MAGIC: [u8; 8] = *b"LODECKP\0";

/// A whole record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) sequence: u64,
    pub(crate) image_bytes: u64,
    pub(crate) payload: Vec<u8>,
}

/// The contents of a record's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Zeroes: nothing was ever written.
    Never,
    /// Something that is not a whole record.
    Damaged,
    /// A record.
    Whole(Record),
}

impl Slot {
    pub(crate) fn record(&self) -> Option<&Record> {
        match self {
            Self::Whole(r) => Some(r),
            Self::Never | Self::Damaged => None,
        }
    }
}

/// The bytes of a record for position `at`.
pub(crate) fn encode(magic: [u8; 8], at: u64, r: &Record) -> Vec<u8> {
    let mut b = Vec::with_capacity(RECORD_HEADER_BYTES + r.payload.len());
    b.extend_from_slice(&magic);
    b.extend_from_slice(&(r.payload.len() as u32).to_le_bytes());
    b.extend_from_slice(&[0; 4]);
    b.extend_from_slice(&r.sequence.to_le_bytes());
    b.extend_from_slice(&r.image_bytes.to_le_bytes());
    b.extend_from_slice(&r.payload);
    let crc = crc32c_seeded(seed_of(at), &b[16..]);
    b[12..16].copy_from_slice(&crc.to_le_bytes());
    b
}

/// Decodes `b`, which was read at position `at` and is as long as the longest record there.
pub(crate) fn decode(magic: [u8; 8], at: u64, b: &[u8]) -> Slot {
    if b.iter().all(|&x| x == 0) {
        return Slot::Never;
    }
    let u64_at = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"));
    let u32_at = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"));
    let len = u32_at(8) as usize;
    if b[..8] != magic || len > b.len() - RECORD_HEADER_BYTES {
        return Slot::Damaged;
    }
    let end = RECORD_HEADER_BYTES + len;
    if crc32c_seeded(seed_of(at), &b[16..end]) != u32_at(12) || u64_at(16) > SEQUENCE_MAX {
        return Slot::Damaged;
    }
    Slot::Whole(Record {
        sequence: u64_at(16),
        image_bytes: u64_at(24),
        payload: b[RECORD_HEADER_BYTES..end].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_or_damaged() {
        let r = Record { sequence: 3, image_bytes: 1 << 20, payload: b"where the log begins".to_vec() };
        let mut b = encode(CHECKPOINT_MAGIC, 4096, &r);
        b.resize(100, 0);
        assert_eq!(decode(CHECKPOINT_MAGIC, 4096, &b), Slot::Whole(r));
        assert_eq!(decode(CHECKPOINT_MAGIC, 8192, &b), Slot::Damaged, "in another place");
        assert_eq!(decode(EPOCH_MAGIC, 4096, &b), Slot::Damaged);
        assert_eq!(decode(EPOCH_MAGIC, 4096, &[0; 100]), Slot::Never);
        for at in 0..RECORD_HEADER_BYTES + 20 {
            let mut torn = b.clone();
            torn[at] ^= 0x10;
            assert_eq!(decode(CHECKPOINT_MAGIC, 4096, &torn), Slot::Damaged, "byte {at}");
        }
    }

    /// Found by review: the successor of such a sequence overflowed when the image was opened.
    #[test]
    fn a_sequence_that_nothing_follows_is_of_no_record() {
        for (sequence, whole) in [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false), (u64::MAX, false)] {
            let r = Record { sequence, image_bytes: 0, payload: vec![] };
            let b = encode(EPOCH_MAGIC, 8192, &r);
            assert_eq!(decode(EPOCH_MAGIC, 8192, &b), if whole { Slot::Whole(r) } else { Slot::Damaged });
        }
    }
}
