//! Key sets: the keys of one side of a join, for a scan of the other side.
//!
//! ```text
//!   keys of a build side ─┬─ few ────────────────────► list     exact
//!                         ├─ span of up to 4 Mi ─────► bitmap   exact, however sparse
//!                         └─ else ───────────────────► Bloom    lets about one other key in a hundred through
//!   keys that a drive collects, in 64 bits ──────────► folded   lets all keys of the same remainder through
//! ```
//!
//! A number is a place in its type's order ([`crate::order_key`]) that fits 64 bits. An absent key is certain, a present one is
//! not: whoever made the set still compares the keys.
//!
//! Invariants: a list ascends and has no key twice; a bitmap has a key at both ends; `low <= high`.
//! Source: "semi-join by run-time filters", as in most engines; the split-block Bloom filter of Parquet.

mod bloom;
mod collect;
mod wire;

use std::ops::RangeInclusive;

pub use bloom::Bloom;
pub(crate) use bloom::hash_bytes;
pub use collect::{KeyCollector, KeysForm, keys_agree};
use lode_page::{DataType, Value};
pub(crate) use wire::{put_keys, take_keys};

use crate::bits;
use crate::order_key::bytes_key;

/// The most bits of a bitmap: 512 KB.
pub const BITMAP_BITS_MAX: u64 = 1 << 22;
/// Up to this many keys are a list: it is short on the link.
const LIST_MAX: usize = 1024;
/// The most keys of a set. With more, a Bloom filter of its largest size would let too much through.
pub const KEYS_MAX: usize = 1 << 20;
/// Spans of up to this many numbers are asked of a Bloom filter one by one.
const ASKED_SPAN_MAX: u64 = 64;

/// A set of keys of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySet {
    /// Places in the order of a type that is neither text nor float.
    Numbers(NumberKeys),
    /// Texts or byte strings.
    Strings(StringKeys),
}

/// A set of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberKeys {
    /// Ascending, distinct; may be empty.
    List(Vec<i64>),
    /// A bit for each number from `low` on. The first bit is set, and one of the last word.
    Bitmap {
        /// The least key.
        low: i64,
        /// Bit i of word w is `low + 64 w + i`.
        words: Vec<u64>,
    },
    /// Some numbers from `low` to `high`.
    Bloom {
        /// The least key.
        low: i64,
        /// The greatest key.
        high: i64,
        /// Which of them.
        bloom: Bloom,
    },
    /// All numbers whose remainder of a division by 64 has its bit set. [`KeyCollector`] makes such sets.
    Folded(u64),
}

/// A set of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StringKeys {
    /// Ascending, distinct; may be empty.
    List(Vec<Box<[u8]>>),
    /// Some strings, the first 8 bytes of which lie from `low` to `high` as big-endian numbers.
    Bloom {
        /// The first bytes of the least key.
        low: u64,
        /// The first bytes of the greatest key.
        high: u64,
        /// Which of them.
        bloom: Bloom,
    },
}

impl KeySet {
    /// The set of these numbers, in any order, some of them more than once.
    ///
    /// # Panics
    /// With more than [`KEYS_MAX`] distinct keys.
    pub fn of_numbers(mut keys: Vec<i64>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self::Numbers(match (keys.first(), keys.last()) {
            (Some(&low), Some(&high)) if keys.len() > LIST_MAX => match high.abs_diff(low) {
                span if span < BITMAP_BITS_MAX => NumberKeys::Bitmap { low, words: bits::of_numbers(&keys) },
                _ => {
                    assert!(keys.len() <= KEYS_MAX, "a key set has too many keys");
                    let mut bloom = Bloom::for_keys(keys.len());
                    keys.iter().for_each(|&k| bloom.insert(bloom::hash_number(k)));
                    NumberKeys::Bloom { low, high, bloom }
                }
            },
            _ => NumberKeys::List(keys),
        })
    }

    /// The set of the numbers whose bits are set: bit i of word w is `low + 64 w + i`.
    ///
    /// # Panics
    /// When a set bit stands for no number of 64 bits, or the bits are more than [`BITMAP_BITS_MAX`].
    pub fn of_bits(low: i64, words: &[u64]) -> Self {
        assert!(words.len() as u64 * 64 <= BITMAP_BITS_MAX, "a bitmap is too long");
        let count: usize = words.iter().map(|w| w.count_ones() as usize).sum();
        if count <= LIST_MAX {
            let mut keys = Vec::with_capacity(count);
            for (w, &word) in words.iter().enumerate() {
                bits::each(word, |bit| {
                    keys.push(low.checked_add_unsigned((w * 64 + bit) as u64).expect("a number of 64 bits"));
                });
            }
            return Self::Numbers(NumberKeys::List(keys));
        }
        Self::Numbers(NumberKeys::bitmap(low, words))
    }

    /// The set of these strings, in any order, some of them more than once.
    ///
    /// # Panics
    /// With more than [`KEYS_MAX`] distinct keys.
    pub fn of_strings(mut keys: Vec<Box<[u8]>>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self::Strings(match (keys.first(), keys.last()) {
            (Some(low), Some(high)) if keys.len() > LIST_MAX => {
                assert!(keys.len() <= KEYS_MAX, "a key set has too many keys");
                let mut bloom = Bloom::for_keys(keys.len());
                keys.iter().for_each(|k| bloom.insert(bloom::hash_bytes(k)));
                StringKeys::Bloom { low: bytes_key(low), high: bytes_key(high), bloom }
            }
            _ => StringKeys::List(keys),
        })
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Numbers(NumberKeys::List(l)) => l.is_empty(),
            Self::Numbers(NumberKeys::Folded(bits)) => *bits == 0,
            Self::Strings(StringKeys::List(l)) => l.is_empty(),
            _ => false,
        }
    }

    /// How many keys are in the set; of a Bloom filter that is not known.
    pub fn exact_len(&self) -> Option<u64> {
        match self {
            Self::Numbers(NumberKeys::List(l)) => Some(l.len() as u64),
            Self::Strings(StringKeys::List(l)) => Some(l.len() as u64),
            Self::Numbers(NumberKeys::Bitmap { words, .. }) => {
                Some(words.iter().map(|w| u64::from(w.count_ones())).sum())
            }
            _ => None,
        }
    }

    /// Bytes that the set takes on the link, and about those that it takes in memory.
    pub fn link_bytes(&self) -> usize {
        match self {
            Self::Numbers(NumberKeys::Folded(_)) => 8,
            Self::Numbers(NumberKeys::List(l)) => 8 + l.len() * 8,
            Self::Numbers(NumberKeys::Bitmap { words, .. }) => 16 + words.len() * 8,
            Self::Strings(StringKeys::List(l)) => 8 + l.iter().map(|k| 4 + k.len()).sum::<usize>(),
            Self::Numbers(NumberKeys::Bloom { bloom, .. })
            | Self::Strings(StringKeys::Bloom { bloom, .. }) => 24 + bloom.bytes(),
        }
    }

    /// The form of the set, for EXPLAIN.
    pub fn form(&self) -> &'static str {
        match self {
            Self::Numbers(NumberKeys::List(_)) | Self::Strings(StringKeys::List(_)) => "list",
            Self::Numbers(NumberKeys::Bitmap { .. }) => "bitmap",
            Self::Numbers(NumberKeys::Folded(_)) => "folded",
            Self::Numbers(NumberKeys::Bloom { .. }) | Self::Strings(StringKeys::Bloom { .. }) => "Bloom",
        }
    }

    /// The values of a list of keys of type `t`, ascending; `None` if the set is no list, or its keys are of another type.
    pub fn listed(&self, t: DataType) -> Option<Vec<Value>> {
        match (self, t) {
            (
                Self::Numbers(NumberKeys::List(l)),
                DataType::SmallInt
                | DataType::Integer
                | DataType::BigInt
                | DataType::Date
                | DataType::Timestamp,
            ) => Some(l.iter().map(|k| Value::Int(*k)).collect()),
            (Self::Numbers(NumberKeys::List(l)), DataType::Decimal { .. }) => {
                Some(l.iter().map(|k| Value::Decimal((*k).into())).collect())
            }
            (Self::Strings(StringKeys::List(l)), DataType::Text | DataType::Bytea) => {
                Some(l.iter().map(|k| Value::Bytes(k.clone())).collect())
            }
            _ => None,
        }
    }
}

impl NumberKeys {
    /// The bitmap of the numbers whose bits are set, of which there are some: bit i of word w is `low + 64 w + i`.
    fn bitmap(low: i64, words: &[u64]) -> Self {
        let first = words.iter().position(|w| *w != 0).expect("bits are set");
        let last = words.iter().rposition(|w| *w != 0).expect("bits are set");
        let shift = words[first].trailing_zeros();
        let words = &words[first..=last];
        let mut moved: Vec<u64> = (0..words.len())
            .map(|w| {
                let next = words.get(w + 1).map_or(0, |n| n.checked_shl(64 - shift).unwrap_or(0));
                words[w] >> shift | next
            })
            .collect();
        if moved.last() == Some(&0) {
            moved.pop();
        }
        let low =
            low.checked_add_unsigned(first as u64 * 64 + u64::from(shift)).expect("a number of 64 bits");
        Self::Bitmap { low, words: moved }
    }

    /// Whether `key` may be in the set.
    pub(crate) fn contains(&self, key: i64) -> bool {
        match self {
            Self::List(l) => l.binary_search(&key).is_ok(),
            Self::Bitmap { low, words } => bits::has_number(words, *low, key),
            Self::Folded(bits) => bits >> key.rem_euclid(64) & 1 == 1,
            Self::Bloom { low, high, bloom } => {
                *low <= key && key <= *high && bloom.contains(bloom::hash_number(key))
            }
        }
    }

    /// The same of a number of any size: one that does not fit 64 bits is in no set.
    pub(crate) fn contains_wide(&self, key: i128) -> bool {
        i64::try_from(key).is_ok_and(|key| self.contains(key))
    }

    /// Whether a number of `range` may be in the set.
    pub(crate) fn meets(&self, range: &RangeInclusive<i128>) -> bool {
        let (Some(low), Some(high)) = (self.low(), self.high()) else { return false };
        let from = i128::from(low).max(*range.start());
        let to = i128::from(high).min(*range.end());
        if from > to {
            return false;
        }
        let (from, to) = (from as i64, to as i64);
        match self {
            Self::List(l) => l.get(l.partition_point(|k| *k < from)).is_some_and(|k| *k <= to),
            Self::Bitmap { low, words } => bits::any(words, from.abs_diff(*low), to.abs_diff(*low)),
            Self::Folded(_) => to.abs_diff(from) >= 63 || (from..=to).any(|key| self.contains(key)),
            Self::Bloom { .. } => {
                to.abs_diff(from) >= ASKED_SPAN_MAX || (from..=to).any(|key| self.contains(key))
            }
        }
    }

    /// The least key.
    pub(crate) fn low(&self) -> Option<i64> {
        match self {
            Self::List(l) => l.first().copied(),
            Self::Folded(bits) => (*bits != 0).then_some(i64::MIN),
            Self::Bitmap { low, .. } | Self::Bloom { low, .. } => Some(*low),
        }
    }

    /// The greatest key.
    pub(crate) fn high(&self) -> Option<i64> {
        match self {
            Self::List(l) => l.last().copied(),
            Self::Folded(bits) => (*bits != 0).then_some(i64::MAX),
            Self::Bitmap { low, words } => {
                let top = words.last()?.checked_ilog2()?;
                low.checked_add_unsigned((words.len() as u64 - 1) * 64 + u64::from(top))
            }
            Self::Bloom { high, .. } => Some(*high),
        }
    }
}

impl StringKeys {
    /// Whether `key` may be in the set.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        match self {
            Self::List(l) => l.binary_search_by(|k| (**k).cmp(key)).is_ok(),
            Self::Bloom { bloom, .. } => bloom.contains(bloom::hash_bytes(key)),
        }
    }

    /// Whether a string may be in the set whose first 8 bytes lie from `min` to `max`.
    pub(crate) fn meets(&self, min: u64, max: u64) -> bool {
        match self {
            Self::List(l) => {
                l.get(l.partition_point(|k| bytes_key(k) < min)).is_some_and(|k| bytes_key(k) <= max)
            }
            Self::Bloom { low, high, .. } => *low <= max && min <= *high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(set: &KeySet) -> &NumberKeys {
        let KeySet::Numbers(n) = set else { panic!("a set of numbers") };
        n
    }

    #[test]
    fn each_form_has_its_keys_and_knows_its_bounds() {
        let check = |keys: Vec<i64>, form: &str, is_exact: bool| {
            let set = KeySet::of_numbers(keys.clone());
            assert_eq!(set.form(), form);
            let (n, sorted) =
                (numbers(&set), keys.iter().copied().collect::<std::collections::BTreeSet<_>>());
            assert_eq!((n.low(), n.high()), (sorted.first().copied(), sorted.last().copied()));
            for &k in &keys {
                assert!(n.contains(k), "{k}");
                let near = [k.saturating_sub(1), k.saturating_add(1)];
                if is_exact {
                    assert!(near.iter().all(|k| n.contains(*k) == sorted.contains(k)), "{near:?}");
                    assert!(near.iter().all(|&k| n.meets(&(k.into()..=k.into())) == sorted.contains(&k)));
                }
                // The words at both ends of the range have no other key.
                let wide = i128::from(k);
                assert!(n.meets(&(wide - 300..=wide + 300)));
                assert!(n.meets(&(k.into()..=k.into())) && n.meets(&(i128::MIN..=i128::MAX)));
            }
        };
        check(vec![3, 1, 3, i64::MIN, i64::MAX], "list", true);
        check((0..5000).map(|i| i * 800 - 70).collect(), "bitmap", true);
        check((0..2000).map(|i| i64::MAX - i * 64).collect(), "bitmap", true);
        check((0..5000).map(|i| i * 80_000_000_000 - 7).collect(), "Bloom", false);
        assert!(KeySet::of_numbers(vec![]).is_empty());
        assert!(!numbers(&KeySet::of_numbers(vec![])).meets(&(i128::MIN..=i128::MAX)));
    }

    #[test]
    fn bits_become_the_same_set_as_their_numbers() {
        for (low, step, keys) in
            [(-3, 1, 100), (1000, 7, 5000), (64, 64, 2000), (0, 63, 1025), (5, 900, 4000)]
        {
            let keys: Vec<i64> = (1..=keys).map(|i| low + i * step).collect();
            let mut words = vec![0; (keys[keys.len() - 1] - low) as usize / 64 + 1];
            keys.iter().for_each(|k| bits::set(&mut words, k.abs_diff(low)));
            assert_eq!(KeySet::of_bits(low, &words), KeySet::of_numbers(keys));
        }
        assert!(KeySet::of_bits(9, &[0, 0]).is_empty());
    }

    #[test]
    fn strings_are_found_by_value_and_by_their_first_bytes() {
        for n in [3, 3000] {
            let keys: Vec<Box<[u8]>> = (0..n).map(|i| format!("key {i:06}").into_bytes().into()).collect();
            let KeySet::Strings(set) = KeySet::of_strings(keys.clone()) else { panic!("a set of strings") };
            assert!(keys.iter().all(|k| set.contains(k)));
            let others = (0..3000).filter(|i| set.contains(format!("other {i}").as_bytes())).count();
            assert!(others < 100, "{others} of 3000");
            assert!(
                set.meets(bytes_key(b"key 0"), bytes_key(b"key 1")) && !set.meets(bytes_key(b"l"), u64::MAX)
            );
        }
    }
}
