//! The lists of IN, prepared for look-up.
//!
//! Look-ups use a bitmap if the values lie close together, else binary search. There is no hash, so no list can make
//! it slow.

use std::ops::RangeInclusive;

use crate::bits;
use crate::keys::BITMAP_BITS_MAX;

/// A set of places in an order ([`crate::order_key::order_of`]).
#[derive(Clone, Debug)]
pub(crate) struct IntSet {
    /// Ascending, distinct.
    sorted: Vec<i128>,
    /// Those that fit 64 bits, ascending.
    narrow: Vec<i64>,
    /// A bit for each value from the least narrow one on, when they are dense.
    bitmap: Option<Vec<u64>>,
}

/// Lists of up to this many values are compared one by one.
pub(crate) const FEW: usize = 8;
/// The most bits of a bitmap for each value where there are few values.
const BITS_PER_VALUE_MAX: usize = 128;
/// From this many values on, a bitmap may be as sparse as it is: making it costs less than searching for the values of a page.
const MANY: usize = 64;

impl IntSet {
    pub(crate) fn new(mut values: Vec<i128>) -> Self {
        values.sort_unstable();
        values.dedup();
        let narrow: Vec<i64> = values.iter().filter_map(|&v| i64::try_from(v).ok()).collect();
        let bitmap = match (narrow.first(), narrow.last()) {
            (Some(&min), Some(&max)) => {
                let limit = match narrow.len() {
                    few if few < MANY => (few * BITS_PER_VALUE_MAX) as u64,
                    _ => BITMAP_BITS_MAX,
                };
                let span = max.abs_diff(min);
                (span < limit).then(|| bits::of_numbers(&narrow))
            }
            _ => None,
        };
        Self { sorted: values, narrow, bitmap }
    }

    /// The values, ascending and distinct.
    pub(crate) fn values(&self) -> &[i128] {
        &self.sorted
    }

    /// Whether a value that fits 64 bits is in the set.
    pub(crate) fn contains_narrow(&self, v: i64) -> bool {
        match (&self.bitmap, self.narrow.first()) {
            (Some(words), Some(&min)) => bits::has_number(words, min, v),
            _ => self.narrow.binary_search(&v).is_ok(),
        }
    }

    /// Whether a value is in the set.
    pub(crate) fn contains(&self, v: i128) -> bool {
        match i64::try_from(v) {
            Ok(v) => self.contains_narrow(v),
            Err(_) => self.sorted.binary_search(&v).is_ok(),
        }
    }

    /// The values that lie in `range`.
    pub(crate) fn within(&self, range: RangeInclusive<i128>) -> &[i128] {
        let from = self.sorted.partition_point(|v| v < range.start());
        let to = self.sorted.partition_point(|v| v <= range.end());
        &self.sorted[from..to.max(from)]
    }

    /// Whether a value of the set lies in `range`.
    pub(crate) fn meets(&self, range: RangeInclusive<i128>) -> bool {
        let at = self.sorted.partition_point(|v| v < range.start());
        self.sorted.get(at).is_some_and(|v| v <= range.end())
    }
}

/// A set of strings.
#[derive(Clone, Debug)]
pub(crate) struct BytesSet {
    /// Ascending, distinct.
    sorted: Vec<Box<[u8]>>,
    /// Bit min(length, 63) is set for every string.
    lengths: u64,
}

impl BytesSet {
    pub(crate) fn new(mut values: Vec<Box<[u8]>>) -> Self {
        values.sort_unstable();
        values.dedup();
        let lengths = values.iter().fold(0, |l, v| l | 1 << v.len().min(63));
        Self { sorted: values, lengths }
    }

    /// The strings, ascending and distinct.
    pub(crate) fn values(&self) -> &[Box<[u8]>] {
        &self.sorted
    }

    pub(crate) fn contains(&self, v: &[u8]) -> bool {
        if self.lengths >> v.len().min(63) & 1 == 0 {
            return false;
        }
        match &*self.sorted {
            few if few.len() <= 4 => few.iter().any(|x| **x == *v),
            many => many.binary_search_by(|x| (**x).cmp(v)).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let check = |values: &[i128]| {
            let set = IntSet::new(values.to_vec());
            for &v in values {
                for near in [v.saturating_sub(1), v, v.saturating_add(1), -v.saturating_add(1)] {
                    assert_eq!(set.contains(near), values.contains(&near), "{near} in {values:?}");
                    assert_eq!(set.meets(near..=near), values.contains(&near));
                }
            }
            assert!(!set.meets(RangeInclusive::new(5, 4)));
        };
        check(&[3, 1, 3, 64, 65, 127, -1]);
        check(&[0, 1 << 40, i64::MIN.into(), i64::MAX.into()]);
        check(&[i128::MAX, i128::MIN + 1, 7]);
        check(&[]);
        let words = ["", "a", "b", "bb", "abc", "zz"].map(|s| s.as_bytes().into());
        let set = BytesSet::new(words.clone().into());
        assert!(words.iter().all(|w| set.contains(w)));
        assert!(!set.contains(b"c") && !set.contains(b"aaaa"));
    }
}
