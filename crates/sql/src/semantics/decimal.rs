//! Arithmetic on NUMERIC: a result of more than 38 digits is an error, and quotients have at least 16 decimal places.
//!
//! ```text
//!   a + b, a - b, a * b     where the result's type has 38 digits and might need more  ─►  checked, SQLSTATE 22003
//!   1 / 3.0                 ─►  0.3333333333333333, rounded
//! ```
//!
//! DataFusion wraps around beyond 38 digits, and truncates quotients at four decimal places more than the dividend's.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, i256};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast,
};

use crate::SqlError;

/// Most digits of a NUMERIC.
const DIGITS_MAX: u8 = 38;
/// The least decimal places of a quotient, as in PostgreSQL.
const QUOTIENT_SCALE_MIN: i8 = 16;
/// The most decimal places of a product. A product with more is rounded.
const PRODUCT_SCALE_MAX: i8 = 24;

/// Before the coercion of types: quotients, and products that are rounded. Their types are not those that DataFusion gives the operators, and what
/// is above them is coerced to their types.
pub(super) fn before_coercion(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Divide | Operator::Multiply), right }) = expr
    else {
        return Ok(Transformed::no(expr));
    };
    // Digits of a NUMERIC, and those of an integer as one.
    let digits = |e: &Expr| match e.get_type(schema) {
        Ok(DataType::Decimal128(p, s)) if s >= 0 => Some((p, s, false)),
        Ok(DataType::Int16) => Some((5, 0, true)),
        Ok(DataType::Int32) => Some((10, 0, true)),
        Ok(DataType::Int64) => Some((20, 0, true)),
        _ => None,
    };
    let operation = match (digits(&left), digits(&right)) {
        (Some((p1, s1, left_is_int)), Some((p2, s2, right_is_int))) if !(left_is_int && right_is_int) => {
            let operation = Operation::of(op, (p1, s1), (p2, s2));
            let is_of_other_type = op == Operator::Divide || s1 + s2 > PRODUCT_SCALE_MAX;
            operation.filter(|_| is_of_other_type).map(|operation| {
                let numeric = |e: Expr, is_int: bool, p| match is_int {
                    true => cast(e, DataType::Decimal128(p, 0)),
                    false => e,
                };
                (
                    operation,
                    numeric(*left.clone(), left_is_int, p1),
                    numeric(*right.clone(), right_is_int, p2),
                )
            })
        }
        _ => None,
    };
    Ok(match operation {
        Some((operation, left, right)) => Transformed::yes(operation.call(vec![left, right])),
        None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}

/// After the coercion of types: both sides are NUMERIC.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
    let digits = |e: &Expr| match e.get_type(schema) {
        Ok(DataType::Decimal128(p, s)) if s >= 0 => Some((p, s)),
        _ => None,
    };
    let operation = match (digits(&left), digits(&right)) {
        (Some(a), Some(b)) => Operation::of(op, a, b),
        _ => None,
    };
    Ok(match operation {
        Some(operation) => Transformed::yes(operation.call(vec![*left, *right])),
        None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}

/// One operation, and the decimal places of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Operation {
    op: Operator,
    scale: i8,
}

/// The operator that a function of this name checks. The drive checks it as well.
pub(crate) fn checked_operator(name: &str) -> Option<Operator> {
    match name {
        "checked_numeric_add" => Some(Operator::Plus),
        "checked_numeric_subtract" => Some(Operator::Minus),
        "checked_numeric_multiply" => Some(Operator::Multiply),
        _ => None,
    }
}

impl Operation {
    /// `None` if the result's type has room for all digits, so that nothing needs checking.
    fn of(op: Operator, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> Option<Self> {
        let (whole1, whole2) = (i32::from(p1) - i32::from(s1), i32::from(p2) - i32::from(s2));
        let scale = s1.max(s2);
        match op {
            Operator::Plus | Operator::Minus => {
                let digits = whole1.max(whole2) + 1 + i32::from(scale);
                (digits > i32::from(DIGITS_MAX)).then_some(Self { op, scale })
            }
            Operator::Multiply => {
                let digits = i32::from(p1) + i32::from(p2) + 1;
                let product = s1 + s2;
                let scale = if product > PRODUCT_SCALE_MAX { scale.max(QUOTIENT_SCALE_MIN) } else { product };
                (digits > i32::from(DIGITS_MAX)).then_some(Self { op, scale })
            }
            Operator::Divide => Some(Self { op, scale: scale.max(QUOTIENT_SCALE_MIN) }),
            _ => None,
        }
    }

    fn call(self, args: Vec<Expr>) -> Expr {
        let signature = Signature::any(2, Volatility::Immutable);
        ScalarUDF::from(CheckedNumeric { operation: self, signature }).call(args)
    }

    fn apply(self, (a, s1): (i128, i8), (b, s2): (i128, i8)) -> Result<i128, SqlError> {
        let out = || SqlError::OutOfRange("numeric");
        let up = |v: i128, from: i8| power(self.scale - from).and_then(|f| v.checked_mul(f)).ok_or_else(out);
        let result = match self.op {
            Operator::Plus => up(a, s1)?.checked_add(up(b, s2)?).ok_or_else(out)?,
            Operator::Minus => up(a, s1)?.checked_sub(up(b, s2)?).ok_or_else(out)?,
            Operator::Multiply if self.scale == s1 + s2 => a.checked_mul(b).ok_or_else(out)?,
            Operator::Multiply => {
                let unit = power(s1 + s2 - self.scale).ok_or_else(out)?;
                quotient(i256::from_i128(a).wrapping_mul(i256::from_i128(b)), i256::from_i128(unit))
                    .ok_or_else(out)?
            }
            _ => {
                if b == 0 {
                    return Err(SqlError::DivisionByZero);
                }
                // a / 10^s1 divided by b / 10^s2, times 10^scale.
                let factor = power(self.scale + s2 - s1).ok_or_else(out)?;
                match a.checked_mul(factor) {
                    Some(a) => rounded(a, b),
                    None => {
                        let wide = i256::from_i128(a).checked_mul(i256::from_i128(factor)).ok_or_else(out)?;
                        quotient(wide, i256::from_i128(b)).ok_or_else(out)?
                    }
                }
            }
        };
        match result.unsigned_abs() < 10u128.pow(u32::from(DIGITS_MAX)) {
            true => Ok(result),
            false => Err(out()),
        }
    }
}

/// 10 to the power of `n`, if 128 bits hold it.
fn power(n: i8) -> Option<i128> {
    10i128.checked_pow(u32::try_from(n).ok()?)
}

/// `a / b`, halves away from zero.
fn rounded(a: i128, b: i128) -> i128 {
    let (whole, rest) = (a / b, a % b);
    let is_up = rest.unsigned_abs() >= b.unsigned_abs() - rest.unsigned_abs();
    if is_up { whole + if (a < 0) == (b < 0) { 1 } else { -1 } } else { whole }
}

fn quotient(a: i256, b: i256) -> Option<i128> {
    let is_negative = (a < i256::ZERO) != (b < i256::ZERO);
    let (a, b) = (a.wrapping_abs(), b.wrapping_abs());
    let (whole, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    let whole = if rest >= b.wrapping_sub(rest) { whole.wrapping_add(i256::ONE) } else { whole };
    let whole = whole.to_i128()?;
    Some(if is_negative { -whole } else { whole })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedNumeric {
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedNumeric {
    fn name(&self) -> &str {
        match self.operation.op {
            Operator::Plus => "checked_numeric_add",
            Operator::Minus => "checked_numeric_subtract",
            Operator::Multiply => "checked_numeric_multiply",
            _ => "numeric_quotient",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(DIGITS_MAX, self.operation.scale))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let t = args.return_field.data_type();
        let is_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (a, b) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
        let ((a, s1), (b, s2)) = (numbers(&a), numbers(&b));
        let each = a.iter().zip(b).map(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => self.operation.apply((a, s1), (b, s2)).map(Some),
            _ => Ok(None),
        });
        let made = each.collect::<Result<Decimal128Array, SqlError>>()?.with_data_type(t.clone());
        let made: ArrayRef = Arc::new(made);
        debug_assert_eq!(made.len(), rows);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

fn numbers(array: &ArrayRef) -> (&Decimal128Array, i8) {
    let scale = match array.data_type() {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    (array.as_primitive::<Decimal128Type>(), scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_rounded_and_what_needs_more_digits_is_an_error() {
        let divide = |a, b| Operation::of(Operator::Divide, (10, 0), (2, 1)).unwrap().apply((a, 0), (b, 1));
        assert_eq!(divide(1, 30).unwrap(), 3_333_333_333_333_333);
        assert_eq!(divide(-2, 30).unwrap(), -6_666_666_666_666_667);
        assert!(matches!(divide(1, 0), Err(SqlError::DivisionByZero)));
        let most = 10i128.pow(38) - 1;
        let add = Operation::of(Operator::Plus, (38, 0), (5, 0)).unwrap();
        assert!(add.apply((most, 0), (1, 0)).is_err());
        assert_eq!(add.apply((most, 0), (-1, 0)).unwrap(), most - 1);
        assert_eq!(Operation::of(Operator::Plus, (15, 2), (15, 2)), None);
        let wide = Operation::of(Operator::Multiply, (38, 16), (38, 16)).unwrap();
        let one = 10i128.pow(16);
        assert_eq!(wide.apply((3 * one, 16), (one / 2, 16)).unwrap(), 3 * one / 2);
    }
}
