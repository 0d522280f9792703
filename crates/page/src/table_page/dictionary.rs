//! Finds the distinct values of a column, or gives up early.
//!
//! ```text
//!   values a b a c ─► hash table ─► codes 0 1 0 2, first rows 0 1 3
//! ```
//!
//! The search gives up if there are more distinct values than the caller can use, if nearly all rows of a sample are
//! distinct, or if too many values collide (as an attacker could arrange).

use bytemuck::Pod;
use lode_base::PageBuf;

use crate::Values;
use crate::ops::numbers;

/// A code for each row, and for each code the first row with its value.
pub(crate) struct Interned {
    pub(crate) codes: Vec<u16>,
    pub(crate) first_rows: Vec<u32>,
}

/// The most slots that are probed for one value before the search gives up.
const PROBES_MAX: usize = 64;

/// The rows of the sample before the search, if there are at least [`SAMPLED_ROWS_MIN`] rows.
const SAMPLE_ROWS: usize = 1024;

/// Fewer rows than this are searched without a sample.
const SAMPLED_ROWS_MIN: usize = 8 * SAMPLE_ROWS;

/// The distinct values among `rows` rows (at most `distinct_max`, itself at most 65,536), by hash and equality of rows.
pub(crate) fn intern(
    rows: usize,
    distinct_max: usize,
    hash_of: impl Fn(usize) -> u64,
    same: impl Fn(usize, usize) -> bool,
) -> Option<Interned> {
    assert!(distinct_max <= 1 << 16, "codes are 16 bits");
    if rows >= SAMPLED_ROWS_MIN && mostly_distinct(rows, &hash_of) {
        return None;
    }
    let mut codes: Vec<u16> = Vec::with_capacity(rows);
    let mut first_rows: Vec<u32> = Vec::new();
    // A slot holds the upper half of its value's hash and the code plus 1; 0 is a free slot.
    let mut slots = vec![0u64; 1024];
    for row in 0..rows {
        if row > 0 && same(row, row - 1) {
            codes.push(codes[row - 1]);
            continue;
        }
        let hash = hash_of(row);
        let mask = slots.len() - 1;
        let mut at = hash as usize & mask;
        let mut probes = 0;
        let code = loop {
            let slot = slots[at];
            if slot == 0 {
                if first_rows.len() == distinct_max {
                    return None;
                }
                first_rows.push(row as u32);
                slots[at] = hash & !0xffff_ffff | first_rows.len() as u64;
                break first_rows.len() - 1;
            }
            let code = (slot & 0xffff_ffff) as usize - 1;
            if slot >> 32 == hash >> 32 && same(first_rows[code] as usize, row) {
                break code;
            }
            probes += 1;
            if probes == PROBES_MAX {
                return None;
            }
            at = (at + 1) & mask;
        };
        codes.push(code as u16);
        if first_rows.len() * 2 > slots.len() {
            slots = grown(slots.len() * 4, &first_rows, &hash_of);
        }
    }
    Some(Interned { codes, first_rows })
}

/// Whether more than 7 of 8 rows drawn at random differ from each other.
///
/// Of 1,024 rows out of 15,000 about 989 are drawn once only, so up to 865 distinct values pass: 2,500 dates
/// show about 840 (and are worth a dictionary), 10,000 keys about 940.
fn mostly_distinct(rows: usize, hash_of: &impl Fn(usize) -> u64) -> bool {
    let mut hashes: Vec<u64> =
        (0..SAMPLE_ROWS as u64).map(|draw| hash_of((hash_u64(draw) % rows as u64) as usize)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let drawn = SAMPLE_ROWS - SAMPLE_ROWS * SAMPLE_ROWS / (2 * rows);
    hashes.len() > drawn / 8 * 7
}

fn grown(len: usize, first_rows: &[u32], hash_of: &impl Fn(usize) -> u64) -> Vec<u64> {
    let mut slots = vec![0u64; len];
    for (code, &row) in first_rows.iter().enumerate() {
        let hash = hash_of(row as usize);
        let mut at = hash as usize & (len - 1);
        while slots[at] != 0 {
            at = (at + 1) & (len - 1);
        }
        slots[at] = hash & !0xffff_ffff | (code as u64 + 1);
    }
    slots
}

/// Finds the distinct values of plain numbers or strings of `rows` rows. `distinct_max` returns how many distinct values
/// of so many bytes each are worth a dictionary. `None` if there are more, and for other values.
pub(crate) fn intern_values(
    values: &Values,
    rows: usize,
    distinct_max: impl Fn(usize) -> usize,
) -> Option<Interned> {
    fn fixed<T: Pod + PartialEq>(data: &PageBuf, max: usize, hash: impl Fn(T) -> u64) -> Option<Interned> {
        let v: &[T] = numbers(data);
        intern(v.len(), max, |row| hash(v[row]), |a, b| v[a] == v[b])
    }
    match values {
        Values::Fixed { width, data } => {
            let max = distinct_max((*width).into());
            match (max, width) {
                (0, _) => None,
                (_, 2) => fixed(data, max, |v: u16| hash_u64(v.into())),
                (_, 4) => fixed(data, max, |v: u32| hash_u64(v.into())),
                (_, 8) => fixed(data, max, hash_u64),
                _ => fixed(data, max, |v: u128| hash_u64(v as u64 ^ hash_u64((v >> 64) as u64))),
            }
        }
        Values::Var { offsets, data } => {
            let max = distinct_max(4 + data.len().checked_div(rows)?);
            if max == 0 {
                return None;
            }
            let (o, data): (&[u32], &[u8]) = (numbers(offsets), data);
            let bytes = |row: usize| &data[o[row] as usize..o[row + 1] as usize];
            intern(rows, max, |row| hash_bytes(bytes(row)), |a, b| bytes(a) == bytes(b))
        }
        _ => None,
    }
}

/// A hash of a number: both halves of its product with an odd constant (2^64 divided by the golden ratio).
pub(crate) fn hash_u64(v: u64) -> u64 {
    let p = u128::from(v ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
    (p >> 64) as u64 ^ p as u64
}

/// A hash of bytes, eight at a time.
pub(crate) fn hash_bytes(b: &[u8]) -> u64 {
    let mut chunks = b.chunks_exact(8);
    let mut h = b.len() as u64;
    for c in &mut chunks {
        h = hash_u64(h ^ u64::from_le_bytes(c.try_into().expect("8 bytes"))).rotate_left(5);
    }
    let mut tail = [0; 8];
    tail[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    hash_u64(h ^ u64::from_le_bytes(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[u64], distinct_max: usize, expected: Option<usize>) {
        let found =
            intern(values.len(), distinct_max, |r| hash_u64(values[r]), |a, b| values[a] == values[b]);
        assert_eq!(found.as_ref().map(|f| f.first_rows.len()), expected);
        if let Some(f) = found {
            let back: Vec<u64> =
                f.codes.iter().map(|&c| values[f.first_rows[usize::from(c)] as usize]).collect();
            assert_eq!(back, values);
        }
    }

    #[test]
    fn every_row_finds_its_value() {
        check(&[], 10, Some(0));
        check(&[7, 7, 8, 7], 2, Some(2));
        check(&[7, 7, 8, 9], 2, None);
        let spread: Vec<u64> = (0..100_000u64).map(|i| (i * i % 2_521) << 20).collect();
        check(&spread, 1 << 16, Some(1_261));
    }

    #[test]
    fn distinct_rows_end_the_search_early() {
        let hashed = std::cell::Cell::new(0);
        let hash = |row: usize| {
            hashed.set(hashed.get() + 1);
            hash_u64(row as u64)
        };
        assert!(intern(100_000, 1 << 16, hash, |a, b| a == b).is_none());
        assert_eq!(hashed.get(), SAMPLE_ROWS);
    }

    #[test]
    fn colliding_values_end_the_search() {
        assert!(intern(1000, 1000, |_| 5, |a, b| a == b).is_none());
    }
}
