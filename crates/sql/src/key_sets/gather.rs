//! The keys of one partition of a build side, from its batches.
//!
//! ```text
//!   numbers, of which the scans know their range ─► bits
//!   other numbers, strings ───────────────────────► a list, from which doubles are dropped when it grows
//! ```

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::execution::memory_pool::MemoryReservation;
use lode_program::{BITMAP_BITS_MAX, KEYS_MAX, KeySet};

/// The most bytes of a list of strings.
const STRING_BYTES_MAX: usize = 1 << 23;
/// A list drops its doubles when it has so many entries, and again each time that it has doubled.
const DOUBLES_AT: usize = 1 << 15;

/// What the keys of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Numbers of 64 bits. Those outside the range, if there is one, concern no scan.
    Numbers {
        range: Option<(i64, i64)>,
    },
    Strings,
}

impl Keys {
    /// The keys of a column of this type; `None` if it has no key sets.
    pub(super) fn of(t: &DataType) -> Option<Self> {
        Some(match t {
            DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, None)
            | DataType::Decimal128(..) => Self::Numbers { range: None },
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Self::Strings,
            _ => return None,
        })
    }
}

/// The keys of a partition so far.
#[derive(Debug)]
pub(super) struct Gathered {
    keys: Found,
    memory: MemoryReservation,
}

#[derive(Debug)]
enum Found {
    /// Bit i of word w is `low + 64 w + i`.
    Bits {
        low: i64,
        high: i64,
        words: Vec<u64>,
    },
    Numbers {
        keys: Vec<i64>,
        doubles_at: usize,
    },
    Strings {
        keys: Vec<Box<[u8]>>,
        bytes: usize,
        doubles_at: usize,
    },
    /// Too many, or one that no set can have.
    Nothing,
}

impl Gathered {
    /// No keys yet.
    pub(super) fn new(of: Keys, memory: MemoryReservation) -> Self {
        let span = |low: i64, high: i64| high.checked_sub(low).and_then(|s| u64::try_from(s).ok());
        let bits = match of {
            Keys::Numbers { range: Some((low, high)) } => {
                span(low, high).filter(|s| *s < BITMAP_BITS_MAX).map(|s| (low, high, s as usize / 64 + 1))
            }
            Keys::Numbers { range: None } | Keys::Strings => None,
        };
        let keys = match (of, bits) {
            (_, Some((low, high, words))) => match memory.try_resize(words * 8) {
                Ok(()) => Found::Bits { low, high, words: vec![0; words] },
                Err(_) => Found::Nothing,
            },
            (Keys::Numbers { .. }, None) => Found::Numbers { keys: Vec::new(), doubles_at: DOUBLES_AT },
            (Keys::Strings, None) => Found::Strings { keys: Vec::new(), bytes: 0, doubles_at: DOUBLES_AT },
        };
        Self { keys, memory }
    }

    /// Whether there will be no set.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.keys, Found::Nothing)
    }

    /// Adds the keys of a column. NULL equals nothing, so it is no key.
    pub(super) fn take(&mut self, column: &ArrayRef) {
        let all = match column.data_type() {
            DataType::Int16 => {
                self.numbers(column.as_primitive::<Int16Type>().iter().flatten().map(i64::from))
            }
            DataType::Int32 => {
                self.numbers(column.as_primitive::<Int32Type>().iter().flatten().map(i64::from))
            }
            DataType::Int64 => self.numbers(column.as_primitive::<Int64Type>().iter().flatten()),
            DataType::Date32 => {
                self.numbers(column.as_primitive::<Date32Type>().iter().flatten().map(i64::from))
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                self.numbers(column.as_primitive::<TimestampMicrosecondType>().iter().flatten())
            }
            DataType::Decimal128(..) => {
                let values = column.as_primitive::<Decimal128Type>();
                match values.iter().flatten().all(|v| i64::try_from(v).is_ok()) {
                    true => self.numbers(values.iter().flatten().map(|v| v as i64)),
                    false => false,
                }
            }
            DataType::Utf8 => self.strings(column.as_string::<i32>().iter().flatten().map(str::as_bytes)),
            DataType::LargeUtf8 => {
                self.strings(column.as_string::<i64>().iter().flatten().map(str::as_bytes))
            }
            DataType::Utf8View => self.strings(column.as_string_view().iter().flatten().map(str::as_bytes)),
            DataType::Binary => self.strings(column.as_binary::<i32>().iter().flatten()),
            DataType::LargeBinary => self.strings(column.as_binary::<i64>().iter().flatten()),
            DataType::BinaryView => self.strings(column.as_binary_view().iter().flatten()),
            _ => false,
        };
        if !all || !self.is_paid() {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.keys = Found::Nothing;
        self.memory.free();
    }

    /// Reserves the memory of the keys.
    fn is_paid(&mut self) -> bool {
        let bytes = match &self.keys {
            Found::Bits { words, .. } => words.len() * 8,
            Found::Numbers { keys, .. } => keys.capacity() * 8,
            Found::Strings { keys, bytes, .. } => keys.capacity() * 16 + bytes,
            Found::Nothing => 0,
        };
        self.memory.try_resize(bytes).is_ok()
    }

    /// Adds numbers. False if they are too many.
    fn numbers(&mut self, values: impl Iterator<Item = i64>) -> bool {
        match &mut self.keys {
            Found::Bits { low, high, words } => {
                for v in values.filter(|v| (*low..=*high).contains(v)) {
                    let at = v.abs_diff(*low);
                    words[(at / 64) as usize] |= 1 << (at % 64);
                }
                true
            }
            Found::Numbers { keys, doubles_at } => {
                keys.extend(values);
                if keys.len() >= (*doubles_at).min(KEYS_MAX) {
                    *doubles_at = drop_doubles(keys);
                }
                keys.len() <= KEYS_MAX
            }
            Found::Strings { .. } => false,
            Found::Nothing => true,
        }
    }

    /// Adds strings. False if they are too many, or too long.
    fn strings<'a>(&mut self, values: impl Iterator<Item = &'a [u8]>) -> bool {
        match &mut self.keys {
            Found::Strings { keys, bytes, doubles_at } => {
                for v in values {
                    *bytes += v.len();
                    keys.push(v.into());
                }
                if keys.len() >= (*doubles_at).min(KEYS_MAX) || *bytes > STRING_BYTES_MAX {
                    *doubles_at = drop_doubles(keys);
                    *bytes = keys.iter().map(|k| k.len()).sum();
                }
                keys.len() <= KEYS_MAX && *bytes <= STRING_BYTES_MAX
            }
            Found::Nothing => true,
            Found::Bits { .. } | Found::Numbers { .. } => false,
        }
    }

    /// Adds the keys of another partition of the same column.
    pub(super) fn merge(&mut self, other: Self) {
        let all = match (&mut self.keys, other.keys) {
            (Found::Bits { words, .. }, Found::Bits { words: more, .. }) => {
                words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
                true
            }
            (Found::Numbers { .. }, Found::Numbers { keys, .. }) => self.numbers(keys.into_iter()),
            (Found::Strings { .. }, Found::Strings { keys, .. }) => self.strings(keys.iter().map(|k| &**k)),
            _ => false,
        };
        if !all || !self.is_paid() {
            self.give_up();
        }
    }

    /// The set of all keys, and the memory that it takes.
    pub(super) fn into_set(mut self) -> Option<(KeySet, MemoryReservation)> {
        let set = match std::mem::replace(&mut self.keys, Found::Nothing) {
            Found::Bits { low, words, .. } => Some(KeySet::of_bits(low, &words)),
            Found::Numbers { keys, .. } => Some(KeySet::of_numbers(keys)),
            Found::Strings { keys, .. } => Some(KeySet::of_strings(keys)),
            Found::Nothing => None,
        }?;
        self.memory.try_resize(set.link_bytes()).ok()?;
        Some((set, self.memory))
    }
}

/// Drops what is there twice. Returns the length at which it pays to do so again.
fn drop_doubles<T: Ord>(keys: &mut Vec<T>) -> usize {
    keys.sort_unstable();
    keys.dedup();
    (keys.len() * 2).max(DOUBLES_AT)
}
