//! The states of groups: one vector for each call, one element for each group.

use lode_base::PageBuf;
use lode_page::{Column, ColumnBuilder, DataType, Value};

use super::{Call, Given};
use crate::lanes::{Data, Lane};

/// The state of one call for all groups.
#[derive(Debug)]
pub(super) enum CallState {
    /// Rows, or values.
    Count(Vec<i64>),
    Ints(Sums<i64>),
    Decimals(Sums<i128>),
    Doubles(Sums<f64>),
    /// The least or greatest number.
    Extreme {
        greatest: bool,
        values: Vec<Option<i128>>,
    },
    /// The least or greatest string, and the bytes of all of them.
    ExtremeBytes {
        greatest: bool,
        values: Vec<Option<Box<[u8]>>>,
        bytes: usize,
    },
}

#[derive(Debug, Default)]
pub(super) struct Sums<T> {
    sums: Vec<T>,
    /// Whether there was a value.
    seen: Vec<bool>,
}

/// The rows of a block: the group of each row (`None`: all are in the first group), and which rows have a value.
pub(super) struct Rows<'a> {
    pub(super) groups: Option<&'a [u32]>,
    pub(super) count: usize,
    /// A bit for each row of the block that has a value; `None` if all have one.
    pub(super) valid: Option<&'a [u64]>,
}

impl Rows<'_> {
    /// Calls `f` with each row that has a value, and its group.
    #[inline]
    fn each(&self, mut f: impl FnMut(usize, usize)) {
        let group = |i: usize| self.groups.map_or(0, |g| g[i] as usize);
        match self.valid {
            None => (0..self.count).for_each(|i| f(i, group(i))),
            Some(words) => {
                (0..self.count).filter(|i| words[i / 64] >> (i % 64) & 1 == 1).for_each(|i| f(i, group(i)));
            }
        }
    }
}

impl CallState {
    /// The state of a call whose result is of type `t`.
    pub(super) fn new(call: &Call, t: DataType) -> Self {
        match (call, t) {
            (Call::CountRows | Call::Count(_), _) => Self::Count(Vec::new()),
            (Call::Sum(_), DataType::Double) => Self::Doubles(Sums::default()),
            (Call::Sum(_), DataType::Decimal { .. }) => Self::Decimals(Sums::default()),
            (Call::Sum(_), _) => Self::Ints(Sums::default()),
            (Call::Min(_) | Call::Max(_), t) => {
                let greatest = matches!(call, Call::Max(_));
                match t.is_variable() {
                    true => Self::ExtremeBytes { greatest, values: Vec::new(), bytes: 0 },
                    false => Self::Extreme { greatest, values: Vec::new() },
                }
            }
        }
    }

    /// Makes room for this many groups.
    pub(super) fn grow(&mut self, groups: usize) {
        match self {
            Self::Count(c) => c.resize(groups, 0),
            Self::Ints(s) => s.grow(groups),
            Self::Decimals(s) => s.grow(groups),
            Self::Doubles(s) => s.grow(groups),
            Self::Extreme { values, .. } => values.resize(groups, None),
            Self::ExtremeBytes { values, .. } => values.resize(groups, None),
        }
    }

    /// Bytes of strings that it holds.
    pub(super) fn bytes(&self) -> usize {
        if let Self::ExtremeBytes { bytes, .. } = self { *bytes } else { 0 }
    }

    /// Counts rows.
    pub(super) fn count(&mut self, rows: &Rows<'_>) {
        let Self::Count(counts) = self else { unreachable!("only counts go without values") };
        match (rows.groups, rows.valid) {
            (None, None) => counts[0] += rows.count as i64,
            _ => rows.each(|_, g| counts[g] += 1),
        }
    }

    /// Takes the values of rows. Returns whether all sums fit.
    #[must_use]
    pub(super) fn take(&mut self, rows: &Rows<'_>, data: &Data<'_>) -> bool {
        match (self, data) {
            (Self::Count(_), _) => unreachable!("counts take no values"),
            (Self::Ints(s), Data::I16(l)) => return s.add(rows, l, |a, v| a.overflowing_add(v.into())),
            (Self::Ints(s), Data::I32(l)) => return s.add(rows, l, |a, v| a.overflowing_add(v.into())),
            (Self::Ints(s), Data::I64(l)) => return s.add(rows, l, i64::overflowing_add),
            (Self::Decimals(s), Data::I32(l)) => return s.add(rows, l, |a, v| a.overflowing_add(v.into())),
            (Self::Decimals(s), Data::I64(l)) => return s.add(rows, l, |a, v| a.overflowing_add(v.into())),
            (Self::Decimals(s), Data::I128(l)) => return s.add(rows, l, i128::overflowing_add),
            (Self::Doubles(s), Data::F32(l)) => return s.add(rows, l, |a, v| (a + f64::from(v), false)),
            (Self::Doubles(s), Data::F64(l)) => return s.add(rows, l, |a, v| (a + v, false)),
            (Self::Extreme { greatest, values }, data) => match data {
                Data::I16(l) => extreme(rows, l, *greatest, values),
                Data::I32(l) => extreme(rows, l, *greatest, values),
                Data::I64(l) => extreme(rows, l, *greatest, values),
                Data::I128(l) => extreme(rows, l, *greatest, values),
                _ => unreachable!("least and greatest of other types were refused"),
            },
            (Self::ExtremeBytes { greatest, values, bytes }, Data::Bytes(strings)) => {
                rows.each(|i, g| {
                    let (new, old) = (strings.get(i), values[g].as_deref());
                    let better = old.is_none_or(|old| if *greatest { new > old } else { new < old });
                    if better {
                        *bytes = *bytes + new.len() - old.map_or(0, <[u8]>::len);
                        values[g] = Some(new.into());
                    }
                });
            }
            _ => unreachable!("the argument's type was checked"),
        }
        true
    }

    /// Takes what is known of rows of the first group.
    pub(super) fn give(&mut self, given: Given) {
        match (self, given) {
            (_, Given::Nothing) => {}
            (Self::Count(counts), Given::Count(n)) => counts[0] += n,
            (Self::Extreme { greatest, values }, Given::Value(v)) => {
                let greatest = *greatest;
                let best = |old: i128| if greatest { old.max(v) } else { old.min(v) };
                values[0] = Some(values[0].map_or(v, best));
            }
            _ => unreachable!("counts count, and the least and the greatest are values"),
        }
    }

    /// Takes out the results of all groups as a column of type `t`. There are no groups afterwards.
    pub(super) fn drain(&mut self, t: DataType) -> Column {
        match self {
            Self::Count(c) => values(t, std::mem::take(c).into_iter().map(Value::Int)),
            Self::Ints(s) => s.drain(t, Value::Int),
            Self::Decimals(s) => s.decimals(t),
            Self::Doubles(s) => s.drain(t, Value::Double),
            Self::Extreme { values: v, .. } => {
                let value = |v: i128| match t {
                    DataType::Decimal { .. } => Value::Decimal(v),
                    _ => Value::Int(v as i64),
                };
                values(t, std::mem::take(v).into_iter().map(|v| v.map_or(Value::Null, value)))
            }
            Self::ExtremeBytes { values: v, bytes, .. } => {
                *bytes = 0;
                values(t, std::mem::take(v).into_iter().map(|v| v.map_or(Value::Null, Value::Bytes)))
            }
        }
    }
}

impl<T: Copy + Default> Sums<T> {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, T::default());
        self.seen.resize(groups, false);
    }

    /// Adds the values of rows. `add` returns a sum and whether it overflowed. Returns whether all sums fit.
    fn add<V: Copy>(&mut self, rows: &Rows<'_>, lane: &Lane<'_, V>, add: impl Fn(T, V) -> (T, bool)) -> bool {
        let mut overflow = false;
        match (lane, rows.groups, rows.valid) {
            (Lane::Slice(values), None, None) => {
                let mut sum = self.sums[0];
                for &v in values.iter() {
                    let (next, over) = add(sum, v);
                    sum = next;
                    overflow |= over;
                }
                self.sums[0] = sum;
                self.seen[0] |= !values.is_empty();
            }
            (lane, ..) => rows.each(|i, g| {
                let (sum, over) = add(self.sums[g], at(lane, i));
                self.sums[g] = sum;
                overflow |= over;
                self.seen[g] = true;
            }),
        }
        !overflow
    }

    fn drain(&mut self, t: DataType, value: impl Fn(T) -> Value) -> Column {
        let (sums, seen) = (std::mem::take(&mut self.sums), std::mem::take(&mut self.seen));
        values(t, sums.into_iter().zip(seen).map(|(v, seen)| if seen { value(v) } else { Value::Null }))
    }
}

impl Sums<i128> {
    /// Sums may have more digits than the type allows. They are sent as they are, and the host checks them when it
    /// merges.
    fn decimals(&mut self, t: DataType) -> Column {
        let (sums, seen) = (std::mem::take(&mut self.sums), std::mem::take(&mut self.seen));
        let validity = (!seen.iter().all(|&s| s)).then(|| {
            let mut bits = vec![0u8; seen.len().div_ceil(8)];
            seen.iter().enumerate().for_each(|(i, &s)| bits[i / 8] |= u8::from(s) << (i % 8));
            PageBuf::copy_from(&bits)
        });
        let data = lode_page::Values::Fixed { width: 16, data: PageBuf::from_values(&sums) };
        Column::new(t, sums.len(), validity, data).expect("sixteen bytes a group")
    }
}

fn at<V: Copy>(lane: &Lane<'_, V>, i: usize) -> V {
    match lane {
        Lane::Const(v) => *v,
        Lane::Slice(s) => s[i],
    }
}

fn extreme<V: Copy + Into<i128>>(
    rows: &Rows<'_>,
    lane: &Lane<'_, V>,
    greatest: bool,
    values: &mut [Option<i128>],
) {
    rows.each(|i, g| {
        let new: i128 = at(lane, i).into();
        if values[g].is_none_or(|old| if greatest { new > old } else { new < old }) {
            values[g] = Some(new);
        }
    });
}

/// A column of these values.
pub(super) fn values(t: DataType, values: impl Iterator<Item = Value>) -> Column {
    let mut column = ColumnBuilder::new(t);
    values.for_each(|v| column.push(&v).expect("a group's values are of their types, and few"));
    column.finish()
}
