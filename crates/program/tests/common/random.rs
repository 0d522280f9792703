//! Random columns and programs from a seed.

use std::sync::Arc;

use lode_base::random::Random;
use lode_base::{CommitNo, ExtentId, PageBuf, TableId};
use lode_page::{Column, DataType, Value, Values};
use lode_page::{EncodingChoice, PageKind, PageMeta, decode_page, encode_as};
use lode_program::{ArithOp, CompareOp, Expr, KeySet};
/// A seeded [`Random`] that chooses indexes and values.
pub(crate) struct Rng(Random);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.0.once_in(n as u64)
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        self.0.pick(of).expect("there is something to choose").clone()
    }
}

const fn dec(precision: u8, scale: u8) -> DataType {
    DataType::Decimal { precision, scale }
}

/// Every type, most of them twice, so that columns meet columns.
pub(crate) const TYPES: [DataType; 23] = [
    DataType::Boolean,
    DataType::SmallInt,
    DataType::Integer,
    DataType::BigInt,
    DataType::Real,
    DataType::Double,
    dec(5, 2),
    dec(15, 2),
    dec(30, 2),
    dec(4, 0),
    DataType::Text,
    DataType::Bytea,
    DataType::Date,
    DataType::Timestamp,
    DataType::Boolean,
    DataType::Integer,
    DataType::BigInt,
    DataType::Double,
    dec(5, 2),
    DataType::Text,
    DataType::Date,
    DataType::SmallInt,
    DataType::Real,
];

fn int(rng: &mut Rng, bits: u32) -> i64 {
    let (min, max) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
    match rng.below(12) {
        0 => min,
        1 => max,
        2 => rng.next() as i64 >> (64 - bits),
        _ => rng.below(9) as i64 - 4,
    }
}

fn decimal(rng: &mut Rng, precision: u8) -> i128 {
    let max = 10i128.pow(precision.into()) - 1;
    match rng.below(12) {
        0 => max,
        1 => -max,
        2 => (i128::from(rng.next() as i64) * i128::from(rng.next() as i64)) % (max + 1),
        _ => rng.below(9) as i128 - 4,
    }
}

pub(crate) fn text(rng: &mut Rng, letters: &[char]) -> String {
    let base = rng.pick(&["", "", "abcdefg", "abcdefgh"]);
    let n = rng.below(5);
    base.chars().chain((0..n).map(|_| rng.pick(letters))).collect()
}

/// A value of the type that is not NULL, often one of a few.
pub(crate) fn value(rng: &mut Rng, t: DataType) -> Value {
    let floats = [-f64::NAN, f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1.5, 2.5, f64::INFINITY, f64::NAN];
    match t {
        DataType::Boolean => Value::Boolean(rng.one_in(2)),
        DataType::SmallInt => Value::Int(int(rng, 16)),
        DataType::Integer | DataType::Date => Value::Int(int(rng, 32)),
        DataType::BigInt | DataType::Timestamp => Value::Int(int(rng, 64)),
        DataType::Real => Value::Real(rng.pick(&floats) as f32),
        DataType::Double => Value::Double(rng.pick(&floats)),
        DataType::Decimal { precision, .. } => Value::Decimal(decimal(rng, precision)),
        DataType::Text => Value::text(&text(rng, &['a', 'b', 'é', '%', '\0', '日'])),
        DataType::Bytea => Value::Bytes((0..rng.below(10)).map(|_| rng.pick(&[0, 1, 0x61, 0xff])).collect()),
    }
}

/// A column of values that are not NULL, plain.
pub(crate) fn plain(rng: &mut Rng, t: DataType, values: &[Value]) -> Column {
    let n = values.len();
    let ints = || values.iter().map(|v| if let Value::Int(i) = v { *i } else { 0 });
    let fixed = |width, data| Values::Fixed { width, data };
    let values = match t {
        DataType::Boolean => {
            let mut bits = vec![0u8; n.div_ceil(8)];
            for (i, v) in values.iter().enumerate() {
                bits[i / 8] |= u8::from(*v == Value::Boolean(true)) << (i % 8);
            }
            Values::Bits(PageBuf::copy_from(&bits))
        }
        DataType::SmallInt => fixed(2, PageBuf::from_values(&ints().map(|v| v as i16).collect::<Vec<_>>())),
        DataType::Integer | DataType::Date => {
            fixed(4, PageBuf::from_values(&ints().map(|v| v as i32).collect::<Vec<_>>()))
        }
        DataType::BigInt | DataType::Timestamp => fixed(8, PageBuf::from_values(&ints().collect::<Vec<_>>())),
        DataType::Real => {
            let real = |v: &Value| if let Value::Real(f) = v { *f } else { 0.0 };
            fixed(4, PageBuf::from_values(&values.iter().map(real).collect::<Vec<_>>()))
        }
        DataType::Double => {
            let double = |v: &Value| if let Value::Double(f) = v { *f } else { 0.0 };
            fixed(8, PageBuf::from_values(&values.iter().map(double).collect::<Vec<_>>()))
        }
        DataType::Decimal { .. } => {
            let d: Vec<i128> =
                values.iter().map(|v| if let Value::Decimal(d) = v { *d } else { 0 }).collect();
            let fits = |bits: u32| d.iter().all(|v| v >> (bits - 1) == 0 || v >> (bits - 1) == -1);
            let widths: Vec<u8> =
                [(4, 32), (8, 64), (16, 128)].iter().filter(|w| fits(w.1)).map(|w| w.0).collect();
            match rng.pick(&widths) {
                4 => fixed(4, PageBuf::from_values(&d.iter().map(|v| *v as i32).collect::<Vec<_>>())),
                8 => fixed(8, PageBuf::from_values(&d.iter().map(|v| *v as i64).collect::<Vec<_>>())),
                _ => fixed(16, PageBuf::from_values(&d)),
            }
        }
        DataType::Text | DataType::Bytea => {
            let (mut offsets, mut data) = (vec![0u32], Vec::new());
            for v in values {
                if let Value::Bytes(b) = v {
                    data.extend_from_slice(b);
                }
                offsets.push(data.len() as u32);
            }
            Values::Var { offsets: PageBuf::from_values(&offsets), data: PageBuf::copy_from(&data) }
        }
    };
    Column::new(t, n, None, values).expect("a good column")
}

/// A column of random values, NULLs and encoding.
pub(crate) fn column(rng: &mut Rng, t: DataType, rows: usize) -> Column {
    let validity = match rng.below(5) {
        0 | 1 => None,
        2 => Some(vec![0u8; rows.div_ceil(8)]),
        _ => Some((0..rows.div_ceil(8)).map(|_| (rng.next() | rng.next()) as u8).collect::<Vec<u8>>()),
    };
    let validity = validity.map(|v| PageBuf::copy_from(&v));
    // A page's values often lie close together.
    let few: Vec<Value> = (0..1 + rng.below(6)).map(|_| value(rng, t)).collect();
    let narrow = rng.one_in(2);
    let one = |rng: &mut Rng| if narrow { rng.pick(&few) } else { value(rng, t) };
    if t != DataType::Boolean && rng.one_in(3) {
        let distinct: Vec<Value> = (0..1 + rng.below(20)).map(|_| one(rng)).collect();
        let dictionary = Arc::new(plain(rng, t, &distinct));
        let codes: Vec<u16> = (0..rows).map(|_| rng.below(distinct.len()) as u16).collect();
        let (code_width, codes) = match rng.below(2) {
            0 => (1, PageBuf::from_values(&codes.iter().map(|&c| c as u8).collect::<Vec<_>>())),
            _ => (2, PageBuf::from_values(&codes)),
        };
        return Column::new(t, rows, validity, Values::Dict { code_width, codes, dictionary })
            .expect("good codes");
    }
    let mut values: Vec<Value> = (0..rows).map(|_| one(rng)).collect();
    if rng.one_in(3) {
        (1..rows).for_each(|row| {
            if !rng.one_in(9) {
                values[row] = values[row - 1].clone();
            }
        });
    }
    let c = plain(rng, t, &values);
    let c = Column::new(t, rows, validity, c.values().clone()).expect("a good column");
    if rng.one_in(2) { encoded(rng, &c) } else { c }
}

/// The column as it comes out of a page that has it in a random encoding.
fn encoded(rng: &mut Rng, c: &Column) -> Column {
    let choices: Vec<EncodingChoice> = EncodingChoice::names()
        .map(|name| EncodingChoice::named(name).expect("a name of the table"))
        .filter(|choice| choice.takes(c.data_type()))
        .collect();
    let lpid = ExtentId::new(1).expect("an extent").page(0);
    let (table, kind, commit) = (TableId::new(1), PageKind::Column, CommitNo::new(0));
    let meta = PageMeta { lpid, table, schema_version: 1, kind, commit };
    let page =
        encode_as(&meta, std::slice::from_ref(c), &[rng.pick(&choices)], usize::MAX).expect("it fits a page");
    decode_page(lpid, &page).expect("what was encoded").1.remove(0)
}

/// A random predicate over columns of [`TYPES`].
pub(crate) fn predicate(rng: &mut Rng, depth: usize) -> Expr {
    let b = DataType::Boolean;
    if depth == 0 {
        return match rng.below(6) {
            0 => Expr::Const(rng.pick(&[Value::Null, Value::Boolean(true), Value::Boolean(false)]), b),
            1 => scalar(rng, b, 0),
            _ => leaf(rng, 0),
        };
    }
    let terms = |rng: &mut Rng| (0..rng.below(4)).map(|_| predicate(rng, depth - 1)).collect();
    match rng.below(10) {
        0 | 1 => Expr::And(terms(rng)),
        2 | 3 => Expr::Or(terms(rng)),
        4 => Expr::Not(Box::new(predicate(rng, depth - 1))),
        5 => Expr::IsNull(Box::new(predicate(rng, depth - 1))),
        6 => Expr::compare(operator(rng), predicate(rng, depth - 1), predicate(rng, depth - 1)),
        7 => {
            let list = (0..1 + rng.below(3)).map(|_| nullable(rng, b)).collect();
            Expr::In { value: Box::new(predicate(rng, depth - 1)), list }
        }
        _ => leaf(rng, depth),
    }
}

fn operator(rng: &mut Rng) -> CompareOp {
    use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    rng.pick(&[Eq, NotEq, Lt, LtEq, Gt, GtEq])
}

fn nullable(rng: &mut Rng, t: DataType) -> Value {
    if rng.one_in(8) { Value::Null } else { value(rng, t) }
}

fn leaf(rng: &mut Rng, depth: usize) -> Expr {
    let t = rng.pick(&TYPES[1..14]);
    match rng.below(8) {
        0..3 => {
            let constant = Expr::Const(nullable(rng, t), t);
            let v = scalar(rng, t, depth);
            let op = operator(rng);
            if rng.one_in(3) { Expr::compare(op, constant, v) } else { Expr::compare(op, v, constant) }
        }
        3 => {
            let v = scalar(rng, t, depth);
            Expr::between(v, Expr::Const(value(rng, t), t), Expr::Const(value(rng, t), t))
        }
        4 => Expr::compare(operator(rng), scalar(rng, t, depth), scalar(rng, t, depth)),
        5 => {
            let n = rng.pick(&[1, 2, 5, 8, 9, 40]);
            let list = (0..n).map(|_| if rng.one_in(20) { Value::Null } else { value(rng, t) }).collect();
            Expr::In { value: Box::new(scalar(rng, t, depth)), list }
        }
        6 if rng.one_in(2) => in_keys(rng, depth),
        6 => Expr::IsNull(Box::new(scalar(rng, t, depth))),
        _ => {
            let pattern = text(rng, &['a', 'b', 'é', '%', '%', '_', '\\', '日']);
            let pattern = if rng.one_in(2) { format!("%{pattern}%") } else { pattern };
            let value = Box::new(scalar(rng, DataType::Text, 0));
            Expr::Like { value, pattern, case_insensitive: false }
        }
    }
}

/// A value in a set of few keys, or of many that lie close together.
fn in_keys(rng: &mut Rng, depth: usize) -> Expr {
    use DataType::{BigInt, Date, Decimal, Integer, SmallInt, Text, Timestamp};
    let decimals = TYPES.iter().copied().filter(|t| matches!(t, Decimal { .. }));
    let types: Vec<DataType> =
        [BigInt, Date, Integer, SmallInt, Text, Timestamp].into_iter().chain(decimals).collect();
    let t = rng.pick(&types);
    let n = rng.pick(&[0, 1, 2, 9, 40, 1500]);
    let keys = match t {
        Text => KeySet::of_strings(
            (0..n.min(40))
                .filter_map(|_| if let Value::Bytes(b) = value(rng, t) { Some(b) } else { None })
                .collect(),
        ),
        _ => {
            let near = |v| match v {
                Value::Int(v) => Some(v),
                Value::Decimal(v) => i64::try_from(v).ok(),
                _ => None,
            };
            let from = near(value(rng, t)).unwrap_or(0).clamp(i64::MIN / 2, i64::MAX / 2) / 2;
            let step = rng.pick(&[1, 3, 2000]);
            let many = (0..n as i64).map(|i| from + i * step);
            let few: Vec<i64> = (0..n).filter_map(|_| near(value(rng, t))).collect();
            KeySet::of_numbers(if n > 40 { many.collect() } else { few })
        }
    };
    Expr::InKeys { value: Box::new(scalar(rng, t, depth)), keys: Arc::new(keys) }
}

/// An expression of type `t`.
pub(crate) fn scalar(rng: &mut Rng, t: DataType, depth: usize) -> Expr {
    use DataType::{BigInt, Decimal, Double, Integer, Real, SmallInt};
    if depth > 0 && rng.one_in(3) {
        let op = rng.pick(&[ArithOp::Add, ArithOp::Sub, ArithOp::Mul]);
        let cast = |rng: &mut Rng, from| Expr::Cast(Box::new(scalar(rng, from, depth - 1)), t);
        match t {
            BigInt if rng.one_in(3) => return cast(rng, Integer),
            BigInt | Integer if rng.one_in(3) => return cast(rng, SmallInt),
            Double if rng.one_in(3) => return cast(rng, SmallInt),
            Double if rng.one_in(3) => return cast(rng, Real),
            Decimal { precision: 30, .. } if rng.one_in(2) => return cast(rng, BigInt),
            Decimal { precision: 30, .. } => return cast(rng, dec(4, 0)),
            // The result is twice as wide as its operands.
            Integer | BigInt => {
                let of = if t == BigInt { Integer } else { SmallInt };
                let (a, b) = (scalar(rng, of, depth - 1), scalar(rng, of, depth - 1));
                return Expr::Arith(op, Box::new(a), Box::new(b));
            }
            // The result has scale 2, as a comparison needs. The precision may differ.
            Decimal { scale: 2, .. } => {
                let op = rng.pick(&[ArithOp::Add, ArithOp::Sub]);
                let (a, b) = (scalar(rng, dec(4, 0), 0), scalar(rng, dec(5, 2), 0));
                return Expr::Arith(op, Box::new(a), Box::new(b));
            }
            Decimal { scale: 0, .. } => {
                let (a, b) = (scalar(rng, t, 0), scalar(rng, t, 0));
                return Expr::Arith(ArithOp::Mul, Box::new(a), Box::new(b));
            }
            _ => {}
        }
    }
    if depth > 0 && rng.one_in(8) {
        return Expr::Const(nullable(rng, t), t);
    }
    let of_type: Vec<u16> = (0..TYPES.len() as u16).filter(|&c| TYPES[usize::from(c)] == t).collect();
    Expr::Column(rng.pick(&of_type))
}
