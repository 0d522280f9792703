//! Values of a block of rows: typed slices, borrowed from the columns where possible.
//!
//! Invariants: the slices of a block are as long as the block; a constant stands for all rows. NULLs are kept
//! elsewhere, since a value is NULL exactly where one of its columns is. The value of a NULL row is unspecified.

use std::borrow::Cow;
use std::ops::Range;

use lode_page::packed::{Number, Packed, Scratch};
use lode_page::{Column, DataType, Value, Values};

use crate::ArithOp;

/// Values of one type: one for each row, or one for all.
#[derive(Clone, Debug)]
pub(crate) enum Lane<'a, T: Copy> {
    Const(T),
    Slice(Cow<'a, [T]>),
}

/// Values of a block. A decimal column keeps its stored width; computed decimals have 128 bits.
#[derive(Clone, Debug)]
pub(crate) enum Data<'a> {
    I16(Lane<'a, i16>),
    I32(Lane<'a, i32>),
    I64(Lane<'a, i64>),
    I128(Lane<'a, i128>),
    F32(Lane<'a, f32>),
    F64(Lane<'a, f64>),
    Bytes(Strings<'a>),
}

/// Strings of a block.
#[derive(Clone, Debug)]
pub(crate) enum Strings<'a> {
    Const(Box<[u8]>),
    /// Offsets of the block's rows and one more, into `data`.
    Var {
        offsets: Cow<'a, [u32]>,
        data: Cow<'a, [u8]>,
    },
    Dict {
        codes: Codes<'a>,
        offsets: Cow<'a, [u32]>,
        data: Cow<'a, [u8]>,
    },
}

/// Codes of a block's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Codes<'a> {
    Byte(&'a [u8]),
    Short(&'a [u16]),
}

impl<'a> Codes<'a> {
    pub(crate) fn new(code_width: u8, codes: &'a lode_base::PageBuf, rows: Range<usize>) -> Self {
        match code_width {
            1 => Self::Byte(&codes[rows]),
            _ => Self::Short(&codes.try_values().expect("codes were checked to be aligned")[rows]),
        }
    }

    pub(crate) fn get(&self, row: usize) -> usize {
        match self {
            Self::Byte(c) => c[row].into(),
            Self::Short(c) => c[row].into(),
        }
    }

    /// The values that the codes stand for.
    fn gather<T: Copy>(&self, values: &[T]) -> Lane<'static, T> {
        Lane::Slice(match self {
            Self::Byte(c) => c.iter().map(|&c| values[usize::from(c)]).collect(),
            Self::Short(c) => c.iter().map(|&c| values[usize::from(c)]).collect(),
        })
    }
}

impl Strings<'_> {
    pub(crate) fn get(&self, row: usize) -> &[u8] {
        let (offsets, data, at) = match self {
            Self::Const(b) => return b,
            Self::Var { offsets, data } => (offsets, data, row),
            Self::Dict { codes, offsets, data } => (offsets, data, codes.get(row)),
        };
        &data[offsets[at] as usize..offsets[at + 1] as usize]
    }
}

impl<T: Copy> Lane<'_, T> {
    pub(crate) fn map<U: Copy>(&self, f: impl Fn(T) -> U) -> Lane<'static, U> {
        match self {
            Self::Const(v) => Lane::Const(f(*v)),
            Self::Slice(s) => Lane::Slice(s.iter().map(|&v| f(v)).collect()),
        }
    }

    pub(crate) fn zip<U: Copy>(&self, other: &Self, f: impl Fn(T, T) -> U) -> Lane<'static, U> {
        match (self, other) {
            (_, Self::Const(b)) => self.map(|a| f(a, *b)),
            (Self::Const(a), _) => other.map(|b| f(*a, b)),
            (Self::Slice(a), Self::Slice(b)) => {
                Lane::Slice(a.iter().zip(&**b).map(|(&a, &b)| f(a, b)).collect())
            }
        }
    }
}

impl<'a> Data<'a> {
    /// A constant for all rows; `None` when it is NULL. Not for BOOLEAN.
    pub(crate) fn constant(t: DataType, v: &Value) -> Option<Data<'static>> {
        Some(match (v, t) {
            (Value::Int(v), DataType::SmallInt) => Data::I16(Lane::Const(*v as i16)),
            (Value::Int(v), DataType::Integer | DataType::Date) => Data::I32(Lane::Const(*v as i32)),
            (Value::Int(v), _) => Data::I64(Lane::Const(*v)),
            (Value::Decimal(v), _) => Data::I128(Lane::Const(*v)),
            (Value::Real(v), _) => Data::F32(Lane::Const(*v)),
            (Value::Double(v), _) => Data::F64(Lane::Const(*v)),
            (Value::Bytes(b), _) => Data::Bytes(Strings::Const(b.clone())),
            (Value::Null | Value::Boolean(_), _) => return None,
        })
    }

    /// These rows of a column that is not BOOLEAN.
    pub(crate) fn of(column: &'a Column, rows: Range<usize>) -> Self {
        match column.values() {
            Values::Dict { code_width, codes, dictionary } => {
                let codes = Codes::new(*code_width, codes, rows);
                match Data::of(dictionary, 0..dictionary.rows()) {
                    Data::I16(Lane::Slice(v)) => Data::I16(codes.gather(&v)),
                    Data::I32(Lane::Slice(v)) => Data::I32(codes.gather(&v)),
                    Data::I64(Lane::Slice(v)) => Data::I64(codes.gather(&v)),
                    Data::I128(Lane::Slice(v)) => Data::I128(codes.gather(&v)),
                    Data::F32(Lane::Slice(v)) => Data::F32(codes.gather(&v)),
                    Data::F64(Lane::Slice(v)) => Data::F64(codes.gather(&v)),
                    Data::Bytes(Strings::Var { offsets, data }) => {
                        Data::Bytes(Strings::Dict { codes, offsets, data })
                    }
                    _ => unreachable!("a dictionary is a column of Fixed or Var"),
                }
            }
            Values::Var { offsets, data } => {
                let offsets: &[u32] = offsets.try_values().expect("offsets were checked to be aligned");
                let offsets = Cow::Borrowed(&offsets[rows.start..=rows.end]);
                Data::Bytes(Strings::Var { offsets, data: Cow::Borrowed(data) })
            }
            Values::Symbols(s) => {
                let (offsets, data) = s.strings(rows);
                Data::Bytes(Strings::Var { offsets: offsets.into(), data: data.into() })
            }
            Values::Packed(p) => match (column.data_type(), p.width()) {
                (DataType::Real, _) => Data::F32(unpacked::<i32>(p, rows).map(|v| f32::from_bits(v as u32))),
                (DataType::Double, _) => {
                    Data::F64(unpacked::<i64>(p, rows).map(|v| f64::from_bits(v as u64)))
                }
                (_, 2) => Data::I16(unpacked(p, rows)),
                (_, 4) => Data::I32(unpacked(p, rows)),
                (_, 8) => Data::I64(unpacked(p, rows)),
                _ => Data::I128(unpacked(p, rows)),
            },
            Values::Fixed { width, data } => {
                macro_rules! lane {
                    ($variant:ident, $t:ty) => {{
                        let all: &'a [$t] = data.try_values().expect("data was checked to be aligned");
                        Data::$variant(Lane::Slice(Cow::Borrowed(&all[rows])))
                    }};
                }
                match (column.data_type(), width) {
                    (DataType::Real, _) => lane!(F32, f32),
                    (DataType::Double, _) => lane!(F64, f64),
                    (_, 2) => lane!(I16, i16),
                    (_, 4) => lane!(I32, i32),
                    (_, 8) => lane!(I64, i64),
                    _ => lane!(I128, i128),
                }
            }
            Values::Bits(_) => unreachable!("BOOLEAN columns are predicates"),
        }
    }

    /// Integers or decimals as 128 bits, times `factor`. Only values with more digits than their type wrap.
    pub(crate) fn wide(self, factor: i128) -> Lane<'a, i128> {
        match self {
            Data::I128(l) if factor == 1 => l,
            Data::I16(l) => l.map(|v| i128::from(v).wrapping_mul(factor)),
            Data::I32(l) => l.map(|v| i128::from(v).wrapping_mul(factor)),
            Data::I64(l) => l.map(|v| i128::from(v).wrapping_mul(factor)),
            Data::I128(l) => l.map(|v| v.wrapping_mul(factor)),
            Data::F32(_) | Data::F64(_) | Data::Bytes(_) => unreachable!("only exact numbers are widened"),
        }
    }
}

/// Unpacks a range of rows.
fn unpacked<T: Number>(p: &Packed, rows: Range<usize>) -> Lane<'static, T> {
    let mut out = vec![T::zeroed(); rows.len()];
    p.read(rows.start, &mut out, &mut Scratch::default());
    Lane::Slice(out.into())
}

/// Integers are widened so that they hold any result. The check made sure that decimals have enough digits.
pub(crate) fn arith<'a>(op: ArithOp, a: Data<'a>, b: Data<'a>) -> Data<'a> {
    match (a, b) {
        (Data::I16(a), Data::I16(b)) => Data::I32(match op {
            ArithOp::Add => a.zip(&b, |a, b| i32::from(a) + i32::from(b)),
            ArithOp::Sub => a.zip(&b, |a, b| i32::from(a) - i32::from(b)),
            ArithOp::Mul => a.zip(&b, |a, b| i32::from(a) * i32::from(b)),
        }),
        (Data::I32(a), Data::I32(b)) => Data::I64(match op {
            ArithOp::Add => a.zip(&b, |a, b| i64::from(a) + i64::from(b)),
            ArithOp::Sub => a.zip(&b, |a, b| i64::from(a) - i64::from(b)),
            ArithOp::Mul => a.zip(&b, |a, b| i64::from(a) * i64::from(b)),
        }),
        // Only values with more digits than their type wrap.
        (Data::I128(a), Data::I128(b)) => Data::I128(match op {
            ArithOp::Add => a.zip(&b, i128::wrapping_add),
            ArithOp::Sub => a.zip(&b, i128::wrapping_sub),
            ArithOp::Mul => a.zip(&b, i128::wrapping_mul),
        }),
        _ => unreachable!("arithmetic was checked to be on one exact type"),
    }
}
