//! Tags: 16 bytes beside each read unit that detect misdirected, stale and lost writes.
//!
//! ```text
//!   0      4                  12        16
//!   | crc  | generation       | kind    |      crc: CRC-32C of (address, generation, kind, the read unit's bytes)
//! ```
//!
//! The address is the read unit's first cell, 8 bytes; all fields are little-endian. A tag of zeroes is of no
//! generation: the read unit was never programmed.

use std::fmt;

use lode_base::checksum::{crc32c, crc32c_seeded};

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 16;
/// The kind of a tag beside data; other kinds are for later formats.
const KIND_DATA: u32 = 1;

/// The generation of an EBLOCK since its last erasure: (open epoch, counter). No generation occurs twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    /// For an EBLOCK that was never erased, or whose generation recovery has not set: it can be neither programmed
    /// nor read.
    pub const UNKNOWN: Self = Self(0);

    /// Number `counter` of epoch `epoch`; epochs begin at 1.
    pub(crate) const fn new(epoch: u32, counter: u32) -> Self {
        Self((epoch as u64) << 32 | counter as u64)
    }

    /// The generation with this number, as a log record or a checkpoint has it.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its number.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The open epoch that it began in.
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.0 as u32)
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {self}")
    }
}

/// A decoded tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Tag {
    pub(crate) crc: u32,
    pub(crate) generation: u64,
    pub(crate) kind: u32,
}

impl Tag {
    /// The tag of `data` at `cell` in `generation`.
    pub(crate) fn of(cell: u64, generation: Generation, data: &[u8]) -> Self {
        let mut t = Self { crc: 0, generation: generation.raw(), kind: KIND_DATA };
        t.crc = t.expected_crc(cell, data);
        t
    }

    /// The checksum of this tag's other fields and `data` at `cell`.
    pub(crate) fn expected_crc(&self, cell: u64, data: &[u8]) -> u32 {
        let mut place = [0; 20];
        place[..8].copy_from_slice(&cell.to_le_bytes());
        place[8..16].copy_from_slice(&self.generation.to_le_bytes());
        place[16..].copy_from_slice(&self.kind.to_le_bytes());
        crc32c_seeded(crc32c(&place), data)
    }

    pub(crate) fn to_bytes(self) -> [u8; TAG_BYTES] {
        let mut b = [0; TAG_BYTES];
        b[..4].copy_from_slice(&self.crc.to_le_bytes());
        b[4..12].copy_from_slice(&self.generation.to_le_bytes());
        b[12..].copy_from_slice(&self.kind.to_le_bytes());
        b
    }

    pub(crate) fn from_bytes(b: &[u8; TAG_BYTES]) -> Self {
        Self {
            crc: u32::from_le_bytes(b[..4].try_into().expect("4 bytes")),
            generation: u64::from_le_bytes(b[4..12].try_into().expect("8 bytes")),
            kind: u32::from_le_bytes(b[12..].try_into().expect("4 bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_ties_bytes_to_place_and_generation() {
        let g = Generation::new(3, 7);
        let t = Tag::of(64, g, b"data");
        assert_eq!(Tag::from_bytes(&t.to_bytes()), t);
        assert_eq!(t.expected_crc(64, b"data"), t.crc);
        assert_ne!(t.expected_crc(65, b"data"), t.crc);
        assert_ne!(t.expected_crc(64, b"dat4"), t.crc);
        assert_ne!(Tag { generation: g.raw() + 1, ..t }.expected_crc(64, b"data"), t.crc);
        assert_ne!(Tag { kind: 2, ..t }.expected_crc(64, b"data"), t.crc);
        assert_eq!(g.to_string(), "3.7");
    }
}
