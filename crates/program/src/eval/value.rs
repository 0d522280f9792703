//! Values of expressions over a block of rows.

use std::ops::Range;

use lode_page::Column;

use crate::lanes::{self, Data};
use crate::plan::Val;

/// The values of a block of rows. `column` returns a fetched column.
pub(crate) fn evaluate<'a>(val: &Val, rows: &Range<usize>, column: &impl Fn(u16) -> &'a Column) -> Data<'a> {
    let of = |v: &Val| evaluate(v, rows, column);
    match val {
        Val::Column(c) => Data::of(column(*c), rows.clone()),
        Val::Const(d) => d.clone(),
        Val::ToI32(a) => match of(a) {
            Data::I16(l) => Data::I32(l.map(i32::from)),
            other => other,
        },
        Val::ToI64(a) => match of(a) {
            Data::I16(l) => Data::I64(l.map(i64::from)),
            Data::I32(l) => Data::I64(l.map(i64::from)),
            other => other,
        },
        Val::ToDouble(a) => match of(a) {
            Data::I16(l) => Data::F64(l.map(f64::from)),
            Data::I32(l) => Data::F64(l.map(f64::from)),
            Data::F32(l) => Data::F64(l.map(f64::from)),
            other => other,
        },
        Val::ToDecimal(a, factor) => Data::I128(of(a).wide(*factor)),
        Val::Arith { op, a, b } => lanes::arith(*op, of(a), of(b)),
    }
}
