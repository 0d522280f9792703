//! Finds the group of each row. The values of each column become numbers, and the numbers of several columns become
//! one.
//!
//! ```text
//!   column 0: value ─► number ─┐
//!   column 1: value ─► number ─┴─► (number, number) ─► number ─┐
//!   column 2: value ─► number ─────────────────────────────────┴─► (number, number) ─► group
//! ```
//!
//! Invariant: no table has more entries than the limit of groups. If a row needs one entry more, that row and all
//! rows after it get no group.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::ops::Range;

use lode_page::{Column, DataType, Value, Values};

use super::arguments::Inputs;
use crate::bits;
use crate::lanes::{Codes, Data, Lane, Strings};

/// Pairs of numbers that are both below this limit are looked up in an array.
const SMALL: u32 = 64;
const NONE: u32 = u32::MAX;

/// The values of the keys, and the groups.
#[derive(Debug)]
pub(super) struct Keys {
    columns: Vec<KeyColumn>,
    pairs: Vec<Pairs>,
    groups_max: usize,
}

impl Keys {
    pub(super) fn new(types: &[DataType], groups_max: usize) -> Self {
        Self {
            columns: types.iter().map(|&t| KeyColumn::new(t)).collect(),
            pairs: types.iter().skip(1).map(|_| Pairs::default()).collect(),
            groups_max,
        }
    }

    /// Returns the number of groups so far.
    pub(super) fn groups(&self) -> usize {
        match self.pairs.last() {
            Some(last) => last.made.len(),
            None => self.columns[0].values.len(),
        }
    }

    /// Returns the bytes of the strings among the values.
    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().map(|c| c.bytes).sum()
    }

    /// Returns the groups of the rows from row `from` on. The list ends at the first row without room.
    pub(super) fn groups_of(&mut self, inputs: &Inputs, numbers: &[u16], from: usize) -> Vec<u32> {
        let max = self.groups_max;
        let mut columns = self.columns.iter_mut().zip(numbers);
        let (first, number) = columns.next().expect("there is a key");
        let mut groups = first.numbers(inputs.column(*number), from, inputs.rows, max);
        for ((column, number), pairs) in columns.zip(&mut self.pairs) {
            let with = column.numbers(inputs.column(*number), from, from + groups.len(), max);
            groups.truncate(with.len());
            pairs.join(&mut groups, &with, max);
        }
        groups
    }

    /// Removes and returns the keys of all groups, as one list for each column. The tables are empty afterwards.
    pub(super) fn drain(&mut self) -> Vec<Vec<Value>> {
        // The loop runs from the last column to the first, since a group is a pair of an earlier group and a value.
        let mut at: Vec<u32> = (0..self.groups() as u32).collect();
        let mut keys = Vec::new();
        for i in (0..self.columns.len()).rev() {
            let made = i.checked_sub(1).map(|p| &self.pairs[p].made);
            let value = |&g: &u32| made.map_or(g, |m| m[g as usize].1);
            keys.push(at.iter().map(|g| self.columns[i].values[value(g) as usize].clone()).collect());
            if let Some(made) = made {
                at.iter_mut().for_each(|g| *g = made[*g as usize].0);
            }
        }
        keys.reverse();
        self.columns.iter_mut().for_each(KeyColumn::clear);
        self.pairs.iter_mut().for_each(Pairs::clear);
        keys
    }
}

/// The distinct values of one key column, numbered in order of first appearance.
#[derive(Debug)]
struct KeyColumn {
    data_type: DataType,
    ints: HashMap<i128, u32, BuildHasherDefault<Mix>>,
    /// The hasher gives the same hashes on every run.
    strings: HashMap<Box<[u8]>, u32, BuildHasherDefault<DefaultHasher>>,
    null: Option<u32>,
    values: Vec<Value>,
    bytes: usize,
}

impl KeyColumn {
    fn new(data_type: DataType) -> Self {
        Self {
            data_type,
            ints: HashMap::default(),
            strings: HashMap::default(),
            null: None,
            values: Vec::new(),
            bytes: 0,
        }
    }

    fn clear(&mut self) {
        self.ints.clear();
        self.strings.clear();
        self.values.clear();
        (self.null, self.bytes) = (None, 0);
    }

    /// Returns the number of an integer; `None` if the integer is new and there is no room.
    fn int(&mut self, v: i128, max: usize) -> Option<u32> {
        if let Some(&n) = self.ints.get(&v) {
            return Some(n);
        }
        let value = match self.data_type {
            DataType::Boolean => Value::Boolean(v != 0),
            DataType::Decimal { .. } => Value::Decimal(v),
            _ => Value::Int(v as i64),
        };
        let n = self.add(value, max)?;
        self.ints.insert(v, n);
        Some(n)
    }

    fn string(&mut self, s: &[u8], max: usize) -> Option<u32> {
        if let Some(&n) = self.strings.get(s) {
            return Some(n);
        }
        let n = self.add(Value::Bytes(s.into()), max)?;
        self.strings.insert(s.into(), n);
        self.bytes += s.len();
        Some(n)
    }

    fn nothing(&mut self, max: usize) -> Option<u32> {
        if self.null.is_none() {
            self.null = Some(self.add(Value::Null, max)?);
        }
        self.null
    }

    fn add(&mut self, value: Value, max: usize) -> Option<u32> {
        if self.values.len() >= max {
            return None;
        }
        self.values.push(value);
        Some(self.values.len() as u32 - 1)
    }

    /// Returns the numbers of the rows `from..to`, up to the first row without room.
    fn numbers(&mut self, column: &Column, from: usize, to: usize, max: usize) -> Vec<u32> {
        let is_null = |row| column.is_null(row);
        let mut out = Vec::with_capacity(to - from);
        match column.values() {
            Values::Bits(b) => {
                for row in from..to {
                    let n = match is_null(row) {
                        true => self.nothing(max),
                        false => self.int((bits::word(b, row / 64) >> (row % 64) & 1).into(), max),
                    };
                    let Some(n) = n else { break };
                    out.push(n);
                }
            }
            // Each value of a dictionary is looked up once.
            Values::Dict { code_width, codes, dictionary } => {
                let mut known = vec![NONE; dictionary.rows()];
                let mut number = |keys: &mut Self, row: usize, code: usize| {
                    if column.validity().is_some() && is_null(row) {
                        return keys.nothing(max);
                    }
                    if known[code] == NONE {
                        let one = keys.numbers(dictionary, code, code + 1, max);
                        known[code] = one.first().copied().unwrap_or(NONE);
                    }
                    Some(known[code]).filter(|&n| n != NONE)
                };
                let has =
                    match Codes::new(*code_width, codes, from..to) {
                        Codes::Byte(c) => c.iter().enumerate().try_for_each(|(i, &code)| {
                            number(self, from + i, code.into()).map(|n| out.push(n))
                        }),
                        Codes::Short(c) => c.iter().enumerate().try_for_each(|(i, &code)| {
                            number(self, from + i, code.into()).map(|n| out.push(n))
                        }),
                    };
                // The loop has ended at the first row without room.
                let _ended_early = has.is_none();
            }
            // The value of each run is looked up once.
            Values::Packed(p) if p.is_runs() && column.validity().is_none() => {
                let (ends, numbers) = p.runs().expect("they are runs");
                let values = Values::Fixed { width: p.width(), data: numbers };
                let each = Column::new(self.data_type, ends.len(), None, values).expect("one number a run");
                let first = ends.partition_point(|&end| end as usize <= from);
                let mut row = from;
                for (run, &end) in ends.iter().enumerate().skip(first) {
                    if row >= to {
                        break;
                    }
                    let Some(&n) = self.numbers(&each, run, run + 1, max).first() else { break };
                    let end = (end as usize).min(to);
                    out.resize(out.len() + (end - row), n);
                    row = end;
                }
            }
            _ => match Data::of(column, from..to) {
                Data::I16(l) => self.of_ints(&l, |v| v.into(), from, is_null, max, &mut out),
                Data::I32(l) => self.of_ints(&l, |v| v.into(), from, is_null, max, &mut out),
                Data::I64(l) => self.of_ints(&l, |v| v.into(), from, is_null, max, &mut out),
                Data::I128(l) => self.of_ints(&l, |v| v, from, is_null, max, &mut out),
                Data::Bytes(strings) => self.of_strings(&strings, from..to, is_null, max, &mut out),
                Data::F32(_) | Data::F64(_) => unreachable!("groups by floats were refused"),
            },
        }
        out
    }

    fn of_ints<T: Copy + PartialEq>(
        &mut self,
        lane: &Lane<'_, T>,
        wide: impl Fn(T) -> i128,
        from: usize,
        is_null: impl Fn(usize) -> bool,
        max: usize,
        out: &mut Vec<u32>,
    ) {
        let Lane::Slice(values) = lane else { unreachable!("a column is no constant") };
        let mut last: Option<(T, u32)> = None;
        for (i, &v) in values.iter().enumerate() {
            let n = match last {
                _ if is_null(from + i) => self.nothing(max),
                // Equal values are often adjacent, so the previous value is compared first.
                Some((same, n)) if same == v => Some(n),
                _ => self.int(wide(v), max).inspect(|&n| last = Some((v, n))),
            };
            let Some(n) = n else { return };
            out.push(n);
        }
    }

    fn of_strings(
        &mut self,
        strings: &Strings<'_>,
        rows: Range<usize>,
        is_null: impl Fn(usize) -> bool,
        max: usize,
        out: &mut Vec<u32>,
    ) {
        let mut last: Option<(&[u8], u32)> = None;
        for row in rows.clone() {
            let n = if is_null(row) {
                self.nothing(max)
            } else {
                let s = strings.get(row - rows.start);
                match last {
                    Some((same, n)) if same == s => Some(n),
                    _ => self.string(s, max).inspect(|&n| last = Some((s, n))),
                }
            };
            let Some(n) = n else { return };
            out.push(n);
        }
    }
}

/// Distinct pairs of numbers, numbered in order of first appearance.
#[derive(Debug, Default)]
struct Pairs {
    /// The number of each pair of numbers below [`SMALL`], indexed by `SMALL * first + second`.
    small: Vec<u32>,
    map: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    made: Vec<(u32, u32)>,
}

impl Pairs {
    fn clear(&mut self) {
        self.small.clear();
        self.map.clear();
        self.made.clear();
    }

    /// Replaces each number by the number of its pair with the number in `with`, up to the first pair without room.
    fn join(&mut self, numbers: &mut Vec<u32>, with: &[u32], max: usize) {
        if self.small.is_empty() {
            self.small.resize((SMALL * SMALL) as usize, NONE);
        }
        for (i, &b) in with.iter().enumerate() {
            let a = numbers[i];
            let Some(n) = self.number(a, b, max) else { return numbers.truncate(i) };
            numbers[i] = n;
        }
    }

    fn number(&mut self, a: u32, b: u32, max: usize) -> Option<u32> {
        if a < SMALL && b < SMALL {
            let at = (a * SMALL + b) as usize;
            if self.small[at] == NONE {
                self.small[at] = self.add(a, b, max)?;
            }
            return Some(self.small[at]);
        }
        let key = u64::from(a) << 32 | u64::from(b);
        if let Some(&n) = self.map.get(&key) {
            return Some(n);
        }
        let n = self.add(a, b, max)?;
        self.map.insert(key, n);
        Some(n)
    }

    fn add(&mut self, a: u32, b: u32, max: usize) -> Option<u32> {
        if self.made.len() >= max {
            return None;
        }
        self.made.push((a, b));
        Some(self.made.len() as u32 - 1)
    }
}

/// A hasher of integers that gives the same hashes on every run and machine.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            self.write_u64(chunk.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b)));
        }
    }

    fn write_u64(&mut self, v: u64) {
        let product = u128::from(self.0 ^ v ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_i128(&mut self, v: i128) {
        self.write_u64(v as u64);
        self.write_u64((v >> 64) as u64);
    }
}
