//! Evaluation of a program over the columns of one page.

use lode_page::{Column, DataType, Schema, Value};

use crate::index::key_of;
use crate::{ArithOp, CompareOp, EvalError, Expr, Program, RowMask, Selection};

/// Where the columns of a page come from. Columns are asked for as they are needed, each at most once.
pub trait ColumnSource {
    /// Why a column can not be had.
    type Error;

    /// Rows of the page.
    fn rows(&self) -> usize;

    /// The column of that number in the schema.
    ///
    /// # Errors
    /// When it can not be read.
    fn column(&mut self, column: u16) -> Result<Column, Self::Error>;
}

/// What evaluation took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Rows met.
    pub rows: u64,
    /// Values looked at.
    pub values_compared: u64,
}

pub(crate) fn fetch<S: ColumnSource>(
    schema: &Schema,
    source: &mut S,
    column: u16,
) -> Result<Column, EvalError<S::Error>> {
    let data_type = schema.columns[usize::from(column)].data_type;
    let rows = source.rows();
    let c = source.column(column).map_err(EvalError::Source)?;
    if c.data_type() != data_type || c.rows() != rows {
        return Err(EvalError::Mismatch { column, got: c.data_type(), got_rows: c.rows(), data_type, rows });
    }
    Ok(c)
}

pub(crate) fn bounds(c: &Column) -> (Option<(u64, u64)>, bool) {
    let mut range: Option<(u64, u64)> = None;
    let mut nulls = false;
    for row in 0..c.rows() {
        match key_of(c.data_type(), &c.value(row)) {
            None => nulls = true,
            Some(k) => range = Some(range.map_or((k, k), |(a, b)| (a.min(k), b.max(k)))),
        }
    }
    (range, nulls)
}

/// The rows of the page that pass the filter of `p`.
///
/// # Errors
/// When the source fails, or gives a column of another type or length than the schema says.
pub fn select<S: ColumnSource>(
    p: &Program,
    source: &mut S,
    meter: &mut Meter,
) -> Result<Selection, EvalError<S::Error>> {
    let rows = source.rows();
    meter.rows += rows as u64;
    let Some(filter) = p.filter() else { return Ok(Selection::All) };
    let mut columns = vec![None; p.schema().columns.len()];
    for &c in p.filter_columns() {
        columns[usize::from(c)] = Some(fetch(p.schema(), source, c)?);
        meter.values_compared += rows as u64;
    }
    let mut words = vec![0u64; rows.div_ceil(64)];
    for row in 0..rows {
        let (v, _) = value(p.schema(), filter, &|c| {
            columns[usize::from(c)].as_ref().map_or(Value::Null, |c| c.value(row))
        });
        words[row / 64] |= u64::from(v == Value::Boolean(true)) << (row % 64);
    }
    Ok(Selection::from_mask(RowMask::new(words, rows)))
}

/// The value and type of `e` in the row whose values `get` gives.
fn value(schema: &Schema, e: &Expr, get: &dyn Fn(u16) -> Value) -> (Value, DataType) {
    let t = crate::type_of(schema, e).expect("checked");
    let sub = |e: &Expr| value(schema, e, get);
    let bool3 = |e: &Expr| match sub(e).0 {
        Value::Boolean(b) => Some(b),
        _ => None,
    };
    let lift = |b: Option<bool>| b.map_or(Value::Null, Value::Boolean);
    let v = match e {
        Expr::Column(c) => get(*c),
        Expr::Const(v, _) => v.clone(),
        Expr::Compare(op, a, b) => lift(sub(a).0.compare(&sub(b).0).map(|o| match op {
            CompareOp::Eq => o.is_eq(),
            CompareOp::NotEq => o.is_ne(),
            CompareOp::Lt => o.is_lt(),
            CompareOp::LtEq => o.is_le(),
            CompareOp::Gt => o.is_gt(),
            CompareOp::GtEq => o.is_ge(),
        })),
        Expr::And(terms) => lift(terms.iter().map(bool3).fold(Some(true), |a, b| match (a, b) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        })),
        Expr::Or(terms) => lift(terms.iter().map(bool3).fold(Some(false), |a, b| match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        })),
        Expr::Not(a) => lift(bool3(a).map(|b| !b)),
        Expr::IsNull(a) => Value::Boolean(sub(a).0.is_null()),
        Expr::In { value, list } => {
            let v = sub(value).0;
            let hit = list.iter().any(|x| v.compare(x).is_some_and(|o| o.is_eq()));
            let unknown = v.is_null() || list.iter().any(Value::is_null);
            lift(if hit { Some(true) } else { (!unknown).then_some(false) })
        }
        Expr::Like { value, pattern, .. } => match sub(value).0 {
            Value::Bytes(b) => {
                let text: Vec<char> = std::str::from_utf8(&b).expect("checked text").chars().collect();
                Value::Boolean(like(&text, &pattern.chars().collect::<Vec<_>>()))
            }
            _ => Value::Null,
        },
        Expr::Arith(op, a, b) => {
            let ((a, ta), (b, tb)) = (sub(a), sub(b));
            arith(*op, (a, ta), (b, tb), t)
        }
        Expr::Cast(a, to) => {
            let (v, from) = sub(a);
            let scale = |t| if let DataType::Decimal { scale, .. } = t { u32::from(scale) } else { 0 };
            match (v, to) {
                (Value::Int(i), DataType::Double) => Value::Double(i as f64),
                (Value::Int(i), DataType::Decimal { .. }) => {
                    Value::Decimal(i128::from(i).wrapping_mul(10i128.pow(scale(*to))))
                }
                (Value::Real(f), DataType::Double) => Value::Double(f.into()),
                (Value::Decimal(d), _) => {
                    Value::Decimal(d.wrapping_mul(10i128.pow(scale(*to) - scale(from))))
                }
                (v, _) => v,
            }
        }
    };
    (v, t)
}

fn arith(op: ArithOp, (a, ta): (Value, DataType), (b, tb): (Value, DataType), t: DataType) -> Value {
    let scale = |t| if let DataType::Decimal { scale, .. } = t { u32::from(scale) } else { 0 };
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            let wide = match op {
                ArithOp::Add => a.wrapping_add(b),
                ArithOp::Sub => a.wrapping_sub(b),
                ArithOp::Mul => a.wrapping_mul(b),
            };
            Value::Int(match t {
                DataType::SmallInt => (wide as i16).into(),
                DataType::Integer => (wide as i32).into(),
                _ => wide,
            })
        }
        (Value::Real(a), Value::Real(b)) => Value::Real(match op {
            ArithOp::Add => a + b,
            ArithOp::Sub => a - b,
            ArithOp::Mul => a * b,
        }),
        (Value::Double(a), Value::Double(b)) => Value::Double(match op {
            ArithOp::Add => a + b,
            ArithOp::Sub => a - b,
            ArithOp::Mul => a * b,
        }),
        (Value::Decimal(a), Value::Decimal(b)) => {
            let s = scale(ta).max(scale(tb));
            let up = |v: i128, from| v.wrapping_mul(10i128.pow(s - scale(from)));
            Value::Decimal(match op {
                ArithOp::Add => up(a, ta).wrapping_add(up(b, tb)),
                ArithOp::Sub => up(a, ta).wrapping_sub(up(b, tb)),
                ArithOp::Mul => a.wrapping_mul(b),
            })
        }
        _ => Value::Null,
    }
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|n| like(&text[n..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest),
        ['\\', c, rest @ ..] | [c, rest @ ..] => text.first() == Some(c) && like(&text[1..], rest),
    }
}
