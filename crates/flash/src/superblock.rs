//! The superblock: the properties of an image, written once, in two copies.
//!
//! ```text
//!   0   magic "LODEIMG\0"                              8 bytes
//!   8   major version                                  u32
//!  12   minor version                                  u32     never refused
//!  16   features: compatible, read-only, incompatible  3 x u64
//!  40   uuid                                          16 bytes
//!  56   channels, ways, planes                         3 x u32
//!  68   RBLOCK, WBLOCK, EBLOCK in bytes                3 x u32
//!  80   EBLOCKs                                        u32
//!  84   zeroes
//! 4092  CRC-32C of bytes 0 to 4091                     u32
//! ```
//!
//! Magic, major version and CRC keep their places in every future version. An unknown compatible feature is ignored.
//! An unknown read-only feature forbids writing; since opening writes, the image is refused. An unknown incompatible
//! feature is refused too.

use lode_base::Geometry;
use lode_base::checksum::crc32c;

use crate::layout::SUPERBLOCK_BYTES;

const MAGIC: [u8; 8] = *b"LODEIMG\0";
/// The major version that this code writes and reads.
pub(crate) const MAJOR: u32 = 2;
const MINOR: u32 = 0;
const FEATURES_READ_ONLY: u64 = 0;
const FEATURES_INCOMPATIBLE: u64 = 0;
const CRC_AT: usize = SUPERBLOCK_BYTES - 4;

/// A superblock that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) uuid: [u8; 16],
    pub(crate) geometry: Geometry,
}

/// Why bytes are not a superblock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadSuperblock {
    /// Another magic.
    Foreign,
    /// What is wrong.
    Corrupt(String),
    /// This major version.
    Newer(u32),
    /// This major version, which is no longer read.
    Older(u32),
    /// These features.
    Unknown(u64),
}

impl Superblock {
    pub(crate) fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let g = &self.geometry;
        let mut b = [0; SUPERBLOCK_BYTES];
        b[..8].copy_from_slice(&MAGIC);
        b[8..12].copy_from_slice(&MAJOR.to_le_bytes());
        b[12..16].copy_from_slice(&MINOR.to_le_bytes());
        b[24..32].copy_from_slice(&FEATURES_READ_ONLY.to_le_bytes());
        b[32..40].copy_from_slice(&FEATURES_INCOMPATIBLE.to_le_bytes());
        b[40..56].copy_from_slice(&self.uuid);
        let sizes =
            [g.channels(), g.ways(), g.planes(), g.rblock_bytes(), g.wblock_bytes(), g.eblock_bytes()];
        for (i, v) in sizes.into_iter().chain([g.eblock_count()]).enumerate() {
            b[56 + 4 * i..60 + 4 * i].copy_from_slice(&v.to_le_bytes());
        }
        seal(&mut b);
        b
    }

    pub(crate) fn decode(b: &[u8; SUPERBLOCK_BYTES]) -> Result<Self, BadSuperblock> {
        let u32_at = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"));
        if b[..8] != MAGIC {
            return Err(BadSuperblock::Foreign);
        }
        let (got, expected) = (crc32c(&b[..CRC_AT]), u32_at(CRC_AT));
        if got != expected {
            return Err(BadSuperblock::Corrupt(format!(
                "its checksum is {got:#010x}, expected {expected:#010x}"
            )));
        }
        let major = u32_at(8);
        if major > MAJOR {
            return Err(BadSuperblock::Newer(major));
        }
        if major == 0 {
            return Err(BadSuperblock::Corrupt("format version 0".into()));
        }
        if major < MAJOR {
            return Err(BadSuperblock::Older(major));
        }
        let unknown = (u64_at(24) & !FEATURES_READ_ONLY) | (u64_at(32) & !FEATURES_INCOMPATIBLE);
        if unknown != 0 {
            return Err(BadSuperblock::Unknown(unknown));
        }
        let at = |i: usize| u32_at(56 + 4 * i);
        let geometry = Geometry::new(at(0), at(1), at(2), at(3), at(4), at(5), at(6))
            .map_err(|e| BadSuperblock::Corrupt(e.to_string()))?;
        Ok(Self { uuid: b[40..56].try_into().expect("16 bytes"), geometry })
    }
}

/// Writes the checksum of a superblock.
pub(crate) fn seal(b: &mut [u8; SUPERBLOCK_BYTES]) {
    let crc = crc32c(&b[..CRC_AT]);
    b[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock { uuid: [7; 16], geometry: Geometry::new(4, 2, 1, 4096, 32_768, 1 << 20, 64).unwrap() }
    }

    #[test]
    fn comes_back_and_any_flipped_bit_is_found() {
        let good = sample().encode();
        assert_eq!(Superblock::decode(&good), Ok(sample()));
        for at in 0..SUPERBLOCK_BYTES {
            for bit in [0, 7] {
                let mut b = good;
                b[at] ^= 1 << bit;
                assert!(Superblock::decode(&b).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn versions_and_features_beyond_ours_are_refused_by_name() {
        let check = |at: usize, value: u8, expected| {
            let mut b = sample().encode();
            b[at] = value;
            seal(&mut b);
            assert_eq!(Superblock::decode(&b), expected);
        };
        check(8, 3, Err(BadSuperblock::Newer(3)));
        check(8, 1, Err(BadSuperblock::Older(1)));
        check(8, 0, Err(BadSuperblock::Corrupt("format version 0".into())));
        check(12, 9, Ok(sample()));
        check(16, 1, Ok(sample()));
        check(24, 1, Err(BadSuperblock::Unknown(1)));
        check(33, 1, Err(BadSuperblock::Unknown(256)));
        check(56, 0, Err(BadSuperblock::Corrupt("channels is 0; it must be from 1 to 1,024".into())));
    }
}
