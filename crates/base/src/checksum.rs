//! CRC-32C, for tags, log records, headers and frames on the wire.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of `bytes`, continued from `seed`: the checksum of an earlier part, or an address that the bytes must belong to. With an
/// address as seed, the right bytes at the wrong address are detected.
pub fn crc32c_seeded(seed: u32, bytes: &[u8]) -> u32 {
    // A checksum is the inverted state, so the state is the inverted seed.
    let mut state = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!seed));
    state.update(bytes);
    state.finalize() as u32
}

/// The seed that ties bytes to an address: the CRC-32C of the address.
pub fn seed_of(place: u64) -> u32 {
    crc32c(&place.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    /// By the definition.
    fn bit_by_bit(bytes: &[u8]) -> u32 {
        let step = |state: u32, _| (state >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(state & 1));
        !bytes.iter().fold(!0, |state, &b| (0..8).fold(state ^ u32::from(b), step))
    }

    #[test]
    fn parts_give_the_whole_and_places_differ() {
        assert_eq!(crc32c_seeded(crc32c(b"1234"), b"56789"), crc32c(b"123456789"));
        assert_eq!(crc32c_seeded(7, b""), 7);
        let long: Vec<u8> = (0..5000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        for (at, end) in [(0, 1), (1, 15), (7, 300), (20, 4116), (4096, 5000)] {
            let parts = crc32c_seeded(crc32c(&long[..at]), &long[at..end]);
            assert_eq!(parts, crc32c(&long[..end]), "{at}..{end}");
            assert_eq!(parts, bit_by_bit(&long[..end]));
        }
        assert_ne!(crc32c_seeded(seed_of(1), b"x"), crc32c_seeded(seed_of(2), b"x"));
    }
}
