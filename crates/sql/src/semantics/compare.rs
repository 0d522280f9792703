//! Comparisons of unrelated types are refused: SQLSTATE 42883.
//!
//! ```text
//!   d = 1        DATE and number          ─►  operator does not exist: date = integer
//!   t = 1        TEXT column and number   ─►  operator does not exist: text = integer
//!   '1' = i      a literal of no type yet ─►  takes the other side's type
//! ```
//!
//! DataFusion would compare both sides as text, or a date as a number of days.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::type_coercion::binary::{like_coercion, type_union_coercion};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};

use super::cast::sql_name;
use super::text::{is_bytes, is_text};
use crate::SqlError;
use crate::error::state;

/// Families of types that are comparable with each other.
#[derive(Clone, Copy, PartialEq)]
enum Comparable {
    Boolean,
    Number,
    Text,
    Bytes,
    Moment,
    Interval,
}

/// `'a' = b` becomes `b = 'a'`. Where DataFusion looks for the strictest of several comparisons of a column, it takes `'a' = b` and
/// `b = 'a'` for a contradiction, and `5 > b` for no stricter than `b <= 5`.
pub(super) fn column_first(expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
    let swapped =
        op.swap().filter(|_| is_comparison(op) && !left.any_column_refs() && right.any_column_refs());
    Ok(match swapped {
        Some(op) => Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: right, op, right: left })),
        None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (mut left, mut right) = (left, right);
            let changed = settle(&mut left, &mut right, op, schema)?;
            Ok(Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed))
        }
        Expr::Between(mut b) => {
            let mut changed = settle(&mut b.expr, &mut b.low, Operator::GtEq, schema)?;
            changed |= settle(&mut b.expr, &mut b.high, Operator::LtEq, schema)?;
            Ok(Transformed::new_transformed(Expr::Between(b), changed))
        }
        Expr::InList(mut l) => {
            let mut changed = false;
            for item in &mut l.list {
                changed |= settle(&mut l.expr, item, Operator::Eq, schema)?;
            }
            Ok(Transformed::new_transformed(Expr::InList(l), changed))
        }
        Expr::Like(l) => {
            if let (Ok(of), Ok(pattern)) = (l.expr.get_type(schema), l.pattern.get_type(schema))
                && like_coercion(&of, &pattern).is_none()
            {
                let op = if l.case_insensitive { "ILIKE" } else { "LIKE" };
                let types = format!("{} {op} {}", sql_name(&of), sql_name(&pattern));
                return Err(SqlError::NoOperator(types).into());
            }
            Ok(Transformed::no(Expr::Like(l)))
        }
        Expr::Case(c) => {
            check_case(&c, schema)?;
            Ok(Transformed::no(Expr::Case(c)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Results of CASE have a type in common, and its conditions are conditions.
fn check_case(case: &Case, schema: &DFSchema) -> Result<(), SqlError> {
    let mut common: Option<DataType> = None;
    for result in case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr) {
        let Ok(t) = result.get_type(schema) else { return Ok(()) };
        common = Some(match common {
            None => t,
            Some(before) => type_union_coercion(&before, &t).ok_or_else(|| {
                SqlError::NoMatch(format!("CASE types {} and {}", sql_name(&before), sql_name(&t)))
            })?,
        });
    }
    if case.expr.is_none() {
        for (when, _) in &case.when_then_expr {
            match when.get_type(schema) {
                Ok(t) if t.is_numeric() || comparable(&t) == Some(Comparable::Moment) => {
                    let message =
                        format!("argument of CASE/WHEN must be type boolean, not type {}", sql_name(&t));
                    return Err(SqlError::failed(state::DATATYPE_MISMATCH, message));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Gives an untyped literal the type of the other side. Returns whether it did.
fn settle(a: &mut Expr, b: &mut Expr, op: Operator, schema: &DFSchema) -> Result<bool> {
    let (Ok(ta), Ok(tb)) = (a.get_type(schema), b.get_type(schema)) else { return Ok(false) };
    let (Some(fa), Some(fb)) = (comparable(&ta), comparable(&tb)) else { return Ok(false) };
    if fa == fb {
        return Ok(false);
    }
    let typed = |literal: &mut Expr, t: &DataType| {
        let inner = literal.clone();
        *literal = cast(inner, t.clone());
    };
    if is_untyped(b) {
        typed(b, &ta);
        return Ok(true);
    }
    if is_untyped(a) {
        typed(a, &tb);
        return Ok(true);
    }
    Err(SqlError::NoOperator(format!("{} {op} {}", sql_name(&ta), sql_name(&tb))).into())
}

/// Whether an expression is a quoted literal, whose type depends on its context.
pub(super) fn is_untyped(e: &Expr) -> bool {
    match e {
        Expr::Literal(value, _) => matches!(value.data_type(), DataType::Utf8),
        Expr::Alias(alias) => is_untyped(&alias.expr),
        _ => false,
    }
}

fn comparable(t: &DataType) -> Option<Comparable> {
    Some(match t {
        DataType::Boolean => Comparable::Boolean,
        t if t.is_numeric() => Comparable::Number,
        t if is_text(t) => Comparable::Text,
        t if is_bytes(t) => Comparable::Bytes,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Comparable::Moment,
        DataType::Interval(_) | DataType::Duration(_) => Comparable::Interval,
        _ => return None,
    })
}
