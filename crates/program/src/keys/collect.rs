//! Collects the keys of a column of many pages, in bounded memory.
//!
//! ```text
//!   values of a column ─┬─ folded ─► bit (key mod 64) of one word                        8 bytes, whatever the keys
//!                       └─ sized ──► distinct keys ─┬─ few ──────────────► list
//!                                                   ├─ span of few bits ─► bitmap
//!                                                   └─ else ─────────────► Bloom filter of `bytes_max`
//! ```
//!
//! Invariants: every key that was taken is in the set, and NULL is no key; a collection takes little more memory than its set may.
//! Source: the per-table index of FLIXR (§4.5), which has 8 bytes; sized sets are ours.

use lode_page::{Column, DataType};

use super::bloom::{self, BLOCK_BYTES, BLOCKS_MAX, Bloom};
use super::{BITMAP_BITS_MAX, KeySet, LIST_MAX, NumberKeys};
use crate::order_key::order_of;
use crate::{ProgramError, Selection, bits};

/// Bytes of the smallest and of the largest sized set: a filter of 2 MB, and its bounds.
const SIZED_BYTES: std::ops::RangeInclusive<u32> =
    64..=(BLOCKS_MAX * BLOCK_BYTES + FILTER_HEADER_BYTES) as u32;
/// Bytes of a filter's bounds and length ([`KeySet::link_bytes`]).
const FILTER_HEADER_BYTES: usize = 24;
/// Bytes of a bitmap's least key and length.
const BITMAP_HEADER_BYTES: usize = 16;
/// As many keys at a time are put in order.
const UNSORTED_MAX: usize = 4096;

/// What a set of collected keys is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysForm {
    /// A bit for each remainder of a division by 64: the 8 bytes of the paper.
    Folded,
    /// A list of up to 1,024 keys, a bitmap of keys that lie close together, else a Bloom filter.
    Sized {
        /// The most bytes of the set, 64 to 2 MB.
        bytes_max: u32,
    },
}

impl KeysForm {
    /// The most bytes of a set of this form.
    pub fn bytes_max(self) -> u32 {
        match self {
            Self::Folded => size_of::<u64>() as u32,
            Self::Sized { bytes_max } => bytes_max,
        }
    }

    /// Checks the size.
    ///
    /// # Errors
    /// When the size is out of bounds.
    pub fn check(self) -> Result<(), ProgramError> {
        match self {
            Self::Sized { bytes_max } if !SIZED_BYTES.contains(&bytes_max) => {
                Err(ProgramError::BadKeys("a set of keys has 64 bytes to 2 MB"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether sets of collected keys of these two types can be compared: numbers of which equal ones are equal as integers.
pub fn keys_agree(a: DataType, b: DataType) -> bool {
    let is_integer = |t| matches!(t, DataType::SmallInt | DataType::Integer | DataType::BigInt);
    match (a, b) {
        (DataType::Decimal { scale: a, .. }, DataType::Decimal { scale: b, .. }) => a == b,
        (DataType::Date, DataType::Date) | (DataType::Timestamp, DataType::Timestamp) => true,
        _ => is_integer(a) && is_integer(b),
    }
}

/// Keys under collection.
#[derive(Clone, Debug)]
pub struct KeyCollector {
    bytes_max: usize,
    keys: Keys,
}

#[derive(Clone, Debug)]
enum Keys {
    Folded(u64),
    /// Of `keys` the first `sorted` ascend and are distinct. They are few.
    List {
        keys: Vec<i64>,
        sorted: usize,
    },
    /// Bit i of word w is `base + 64 w + i`. They do not fit a list.
    Bits {
        base: i64,
        words: Vec<u64>,
    },
    Bloom {
        low: i64,
        high: i64,
        bloom: Bloom,
    },
}

impl KeyCollector {
    /// An empty collection of keys of this type.
    ///
    /// # Errors
    /// When the type has no keys that are integers, or the size is out of bounds.
    pub fn new(form: KeysForm, t: DataType) -> Result<Self, ProgramError> {
        form.check()?;
        if !keys_agree(t, t) {
            return Err(ProgramError::Type(format!(
                "a set of collected keys has integers, dates or decimals, not {t}"
            )));
        }
        let keys = match form {
            KeysForm::Folded => Keys::Folded(0),
            KeysForm::Sized { .. } => Keys::List { keys: Vec::new(), sorted: 0 },
        };
        Ok(Self { bytes_max: form.bytes_max() as usize, keys })
    }

    /// Takes the values of these rows of a column.
    ///
    /// # Errors
    /// For a decimal beyond 64 bits, which no set holds.
    pub fn take(&mut self, column: &Column, rows: &Selection) -> Result<(), ProgramError> {
        let t = column.data_type();
        let mut take = |row: usize| {
            let Some(key) = order_of(t, &column.value(row)) else { return Ok(()) };
            self.insert(
                i64::try_from(key).map_err(|_| ProgramError::BadKeys("a decimal is longer than 64 bits"))?,
            );
            Ok(())
        };
        match rows {
            Selection::All => (0..column.rows()).try_for_each(&mut take),
            Selection::None => Ok(()),
            Selection::Some(rows) => rows.iter().try_for_each(&mut take),
        }
    }

    fn insert(&mut self, key: i64) {
        match &mut self.keys {
            Keys::Folded(bits) => *bits |= 1 << key.rem_euclid(64),
            Keys::Bloom { low, high, bloom } => {
                (*low, *high) = (key.min(*low), key.max(*high));
                bloom.insert(bloom::hash_number(key));
            }
            Keys::Bits { base, words } => {
                if !set(base, words, key, words_max(self.bytes_max)) {
                    self.keys = Keys::filter(self.bytes_max, numbers(*base, words).chain([key]));
                }
            }
            Keys::List { keys, sorted } => {
                if keys.last() != Some(&key) {
                    keys.push(key);
                }
                if keys.len() >= *sorted + UNSORTED_MAX {
                    self.settle();
                }
            }
        }
    }

    /// Puts a list in order, and makes bits or a filter of it if it is too long.
    fn settle(&mut self) {
        let Keys::List { keys, sorted } = &mut self.keys else { return };
        keys.sort_unstable();
        keys.dedup();
        *sorted = keys.len();
        if keys.len() <= LIST_MAX && 8 + keys.len() * 8 <= self.bytes_max {
            return;
        }
        let (mut base, mut words) = (keys[0].div_euclid(64) * 64, Vec::new());
        let words_max = words_max(self.bytes_max);
        self.keys = match keys.iter().all(|&key| set(&mut base, &mut words, key, words_max)) {
            true => Keys::Bits { base, words },
            false => Keys::filter(self.bytes_max, keys.iter().copied()),
        };
    }

    /// The set.
    pub fn finish(mut self) -> KeySet {
        self.settle();
        KeySet::Numbers(match self.keys {
            Keys::Folded(bits) => NumberKeys::Folded(bits),
            Keys::Bloom { low, high, bloom } => NumberKeys::Bloom { low, high, bloom },
            Keys::List { keys, .. } => NumberKeys::List(keys),
            Keys::Bits { base, words } => NumberKeys::bitmap(base, &words),
        })
    }
}

/// The most words of a bitmap in so many bytes.
fn words_max(bytes_max: usize) -> usize {
    (bytes_max.saturating_sub(BITMAP_HEADER_BYTES) / 8).min((BITMAP_BITS_MAX / 64) as usize)
}

/// Sets the bit of a key, if that takes at most `words_max` words. `base` is a multiple of 64.
fn set(base: &mut i64, words: &mut Vec<u64>, key: i64, words_max: usize) -> bool {
    if key < *base {
        let (more, room) = (key.abs_diff(*base).div_ceil(64), words_max.saturating_sub(words.len()) as u64);
        if more > room {
            return false;
        }
        // As many again, so that keys that fall move the words seldom; but none below the least number.
        let below = base.abs_diff(i64::MIN) / 64;
        let more = more.max(words.len() as u64).min(room).min(below);
        words.splice(0..0, std::iter::repeat_n(0, more as usize));
        *base -= 64 * more as i64;
    }
    if key.abs_diff(*base) / 64 >= words_max as u64 {
        let zeros = words.iter().take_while(|w| **w == 0).count();
        words.drain(..zeros);
        *base += 64 * zeros as i64;
    }
    let at = key.abs_diff(*base);
    if at / 64 >= words_max as u64 {
        return false;
    }
    words.resize(words.len().max((at / 64) as usize + 1), 0);
    bits::set(words, at);
    true
}

/// The numbers whose bits are set, ascending.
fn numbers(base: i64, words: &[u64]) -> impl Iterator<Item = i64> {
    let of = move |(w, &word): (usize, &u64)| {
        let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
        bits.map(move |bit| base.wrapping_add_unsigned(w as u64 * 64 + bit))
    };
    words.iter().enumerate().flat_map(of)
}

impl Keys {
    /// A Bloom filter of these keys, of which there are some.
    fn filter(bytes_max: usize, keys: impl Iterator<Item = i64>) -> Self {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        let mut bloom = Bloom::within(bytes_max - FILTER_HEADER_BYTES);
        keys.for_each(|k| {
            (low, high) = (low.min(k), high.max(k));
            bloom.insert(bloom::hash_number(k));
        });
        Self::Bloom { low, high, bloom }
    }
}

#[cfg(test)]
mod tests {
    use lode_page::{ColumnBuilder, Value};

    use super::*;
    use crate::RowMask;

    fn column(t: DataType, values: impl IntoIterator<Item = Value>) -> Column {
        let mut b = ColumnBuilder::new(t);
        values.into_iter().for_each(|v| b.push(&v).unwrap());
        b.finish()
    }

    fn collected(form: KeysForm, keys: &[i64]) -> KeySet {
        let mut c = KeyCollector::new(form, DataType::BigInt).unwrap();
        for page in keys.chunks(100) {
            let values = page.iter().map(|&k| Value::Int(k)).chain([Value::Null]);
            c.take(&column(DataType::BigInt, values), &Selection::All).unwrap();
        }
        c.finish()
    }

    #[test]
    fn collected_keys_are_in_the_set_and_it_is_as_long_as_was_allowed() {
        let of = |n: i64, step: i64| (0..n).map(|i| (i * 7919 % n) * step - 3).collect::<Vec<i64>>();
        for (keys, bytes_max, form) in [
            (of(0, 1), 64, "list"),
            (of(7, 1000), 64, "list"),
            (of(8, 1000), 64, "Bloom"),
            (of(300, 2), 128, "bitmap"),
            (of(20_000, 3), 8192, "bitmap"),
            (of(20_000, 3), 7000, "Bloom"),
            (of(50_000, 1 << 40), 1024, "Bloom"),
            (of(50_000, 1), 1024, "Bloom"),
            // Keys that fall, up to the least number, and one above them all at the end.
            ((0..3000).rev().map(|i| i64::MIN + i).chain([i64::MIN + 7000]).collect(), 1024, "bitmap"),
            (vec![i64::MAX, i64::MIN, 0, -1, 1, 7, 8, 9], 64, "Bloom"),
        ] {
            let set = collected(KeysForm::Sized { bytes_max }, &keys);
            assert_eq!(set.form(), form, "{} keys in {bytes_max} bytes", keys.len());
            assert!(set.link_bytes() <= bytes_max as usize, "{} of {bytes_max}", set.link_bytes());
            let KeySet::Numbers(numbers) = &set else { panic!("numbers") };
            assert!(keys.iter().all(|&k| numbers.contains(k)));
            assert!(keys.iter().all(|&k| numbers.meets(&(k.into()..=k.into()))));
        }
    }

    #[test]
    fn a_folded_set_has_remainders_alone() {
        let set = collected(KeysForm::Folded, &[-1, 64, 5]);
        assert_eq!(set, KeySet::Numbers(NumberKeys::Folded(1 << 63 | 1 | 1 << 5)));
        assert_eq!(set.link_bytes(), 8);
        let KeySet::Numbers(n) = &set else { panic!("numbers") };
        assert!(n.contains(63) && n.contains(0) && n.contains(-59) && !n.contains(6));
        assert!(
            n.meets(&(i128::MIN..=i128::MAX))
                && n.meets(&(6..=63))
                && !n.meets(&(6..=62))
                && !n.meets(&(134..=190))
        );
        assert!(n.meets(&(1..=64)) && n.meets(&(134..=192)));
        let KeySet::Numbers(none) = collected(KeysForm::Folded, &[]) else { panic!("numbers") };
        assert!(!none.meets(&(i128::MIN..=i128::MAX)) && none.low().is_none());
    }

    #[test]
    fn only_some_rows_are_taken_and_long_decimals_are_refused() {
        let t = DataType::Decimal { precision: 30, scale: 2 };
        let values = [Value::Decimal(7), Value::Decimal(1 << 90), Value::Decimal(9)];
        let column = column(t, values);
        let sized = KeysForm::Sized { bytes_max: 64 };
        let mut c = KeyCollector::new(sized, t).unwrap();
        c.take(&column, &Selection::Some(RowMask::of_rows([2].into_iter(), 3))).unwrap();
        assert_eq!(c.clone().finish(), KeySet::of_numbers(vec![9]));
        assert!(c.take(&column, &Selection::All).is_err());
        assert!(KeyCollector::new(sized, DataType::Text).is_err());
        assert!(KeyCollector::new(sized, DataType::Double).is_err());
        for bytes_max in [0, 63, (2 << 20) + 25] {
            assert!(KeyCollector::new(KeysForm::Sized { bytes_max }, t).is_err(), "{bytes_max}");
        }
        assert!(
            keys_agree(DataType::Integer, DataType::BigInt) && !keys_agree(DataType::Date, DataType::Integer)
        );
        assert!(!keys_agree(t, DataType::Decimal { precision: 30, scale: 3 }));
    }
}
