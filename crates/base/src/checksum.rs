//! CRC-32C, for tags, log records, headers and (later) the wire.

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// CRC-32C of `bytes`, going on from `seed`: the checksum of an earlier part, or an address that the bytes must
/// belong to (so that the right bytes in the wrong place are found).
pub fn crc32c_seeded(seed: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(seed, bytes)
}

/// The seed that ties bytes to a place: the CRC-32C of the place's number.
pub fn seed_of(place: u64) -> u32 {
    ::crc32c::crc32c(&place.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn parts_give_the_whole_and_places_differ() {
        assert_eq!(crc32c_seeded(crc32c(b"1234"), b"56789"), crc32c(b"123456789"));
        assert_ne!(crc32c_seeded(seed_of(1), b"x"), crc32c_seeded(seed_of(2), b"x"));
    }
}
