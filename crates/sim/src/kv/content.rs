//! Keys and values. A key is generated from its number, a value from its number and its length.
//!
//! ```text
//!   register keys   value: | number: 8 | bytes that follow from it ...
//!   list keys       value: | number: 8 | number: 8 | ...      each appended once
//! ```

use crate::random::{mix, nth};

/// One key in this many holds a list, which grows and is never deleted.
const LIST_EVERY: u32 = 8;
/// Keys from this number on hold no lists, so that nodes there can become empty.
const LISTS_END: u32 = 64;
/// The longest key.
const KEY_BYTES_MAX: u64 = 200;

/// The key with this number. Keys of consecutive numbers share prefixes.
pub(super) fn key(seed: u64, n: u32) -> Vec<u8> {
    let group = n / 16;
    let m = nth(seed, u64::from(group));
    // Some groups have long keys that differ only at their ends.
    let long = if m.is_multiple_of(4) { (m >> 8) % KEY_BYTES_MAX } else { (m >> 8) % 12 };
    let mut key = group.to_be_bytes()[2..].to_vec();
    key.extend((0..long).map(|i| (m >> (i % 8 * 4)) as u8 & 3));
    if !n.is_multiple_of(16) {
        key.push(n as u8 % 16);
        key.extend(vec![0; (mix(nth(seed, n.into())) % 6) as usize]);
    }
    key
}

/// Whether a key holds a list.
pub(super) fn is_list(n: u32) -> bool {
    n < LISTS_END && n % LIST_EVERY == 3
}

/// The value with this number and about this length.
pub(super) fn value(number: u64, bytes: u32) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    let mut at = number;
    while value.len() < bytes as usize {
        at = mix(at.wrapping_add(1));
        value.extend(at.to_le_bytes());
    }
    value.truncate((bytes as usize).max(8));
    value
}

/// The number in a value.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.get(..8)?.try_into().ok()?))
}

/// The numbers in a list.
pub(super) fn numbers(value: &[u8]) -> Vec<u64> {
    value.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("8 bytes"))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_differ_and_values_tell_their_number() {
        let keys: BTreeSet<Vec<u8>> = (0..5000).map(|n| key(7, n)).collect();
        assert_eq!(keys.len(), 5000);
        assert!(keys.iter().any(|k| k.len() > 150) && keys.iter().any(|k| k.len() == 2));
        for bytes in [0, 8, 9, 1000] {
            assert_eq!(number(&value(77, bytes)), Some(77));
            assert_eq!(value(77, bytes).len(), bytes.max(8) as usize);
        }
        assert_eq!(number(b"short"), None);
        assert_eq!(numbers(&[value(1, 8), value(2, 8)].concat()), [1, 2]);
    }
}
