//! The type of a number literal: PostgreSQL's rule.
//!
//! ```text
//!   5              INTEGER, where its type matters: operands, results of CASE, columns of a SELECT, arguments of aggregates
//!   3000000000     BIGINT
//!   9223372036854775808   NUMERIC
//!   1e300          DOUBLE; without an exponent, a number with a point is a NUMERIC
//! ```
//!
//! DataFusion makes every integer literal a BIGINT, so that `2147483647 + 1` has an answer and `sum(1) / 2` has a
//! fraction. Where the type follows from the context (comparisons, lists, LIMIT, most functions) literals are left
//! alone.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, SetExpr, UnaryOperator, Value,
};

/// Functions whose result has the type of their arguments.
const TYPED_BY_ARGUMENTS: [&str; 10] =
    ["sum", "avg", "min", "max", "coalesce", "nullif", "greatest", "least", "abs", "mod"];
/// Most digits of a NUMERIC.
const DIGITS_MAX: usize = 38;

/// Gives the integers directly below `expr` their type; and `expr` itself, if it is too large for a BIGINT.
pub(super) fn give_types(expr: &mut Expr) {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, PGBitwiseShiftLeft, PGBitwiseShiftRight, Plus};
    match expr {
        Expr::Value(value) => {
            if let Value::Number(n, _) = &value.value
                && let Some(data_type) = wide_type(n)
            {
                let text = Value::SingleQuotedString(n.clone()).with_span(value.span);
                *expr = cast(Expr::Value(text), data_type);
            }
        }
        Expr::BinaryOp {
            left,
            op: Plus | Minus | Multiply | Divide | Modulo | PGBitwiseShiftLeft | PGBitwiseShiftRight,
            right,
        } => {
            integer(left);
            integer(right);
        }
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter_mut().for_each(|when| integer(&mut when.result));
            else_result.iter_mut().for_each(|e| integer(e));
        }
        Expr::Function(f) if is_typed_by_arguments(f) => {
            let FunctionArguments::List(list) = &mut f.args else { return };
            for argument in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = argument {
                    integer(e);
                }
            }
        }
        _ => {}
    }
}

/// Gives the integers of VALUES their type.
pub(super) fn give_types_to_values(body: &mut SetExpr) {
    if let SetExpr::Values(values) = body {
        values.rows.iter_mut().flat_map(|row| row.content.iter_mut()).for_each(integer);
    }
}

/// Makes a literal an INTEGER if it fits.
pub(super) fn integer(expr: &mut Expr) {
    if is_small_integer(expr) {
        let literal = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = cast(literal, DataType::Int(None));
    }
}

fn is_small_integer(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(&value.value, Value::Number(n, _) if n.parse::<i32>().is_ok()),
        // PostgreSQL reads -2147483648 as one number.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => {
                matches!(&value.value, Value::Number(n, _) if format!("-{n}").parse::<i32>().is_ok())
            }
            _ => false,
        },
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => is_small_integer(expr),
        Expr::Nested(inner) => is_small_integer(inner),
        _ => false,
    }
}

/// The type of a number that is neither an INTEGER, nor a BIGINT, nor a decimal as DataFusion reads it.
fn wide_type(n: &str) -> Option<DataType> {
    if n.starts_with("0x") {
        return None;
    }
    if n.contains(['e', 'E']) {
        return Some(DataType::Double(ExactNumberInfo::None));
    }
    let digits = n.bytes().all(|b| b.is_ascii_digit());
    let wide = digits && n.parse::<i64>().is_err() && n.len() <= DIGITS_MAX;
    wide.then_some(DataType::Numeric(ExactNumberInfo::PrecisionAndScale(n.len() as u64, 0)))
}

fn is_typed_by_arguments(f: &Function) -> bool {
    let [name] = &f.name.0[..] else { return false };
    let Some(name) = name.as_ident() else { return false };
    TYPED_BY_ARGUMENTS.iter().any(|known| name.value.eq_ignore_ascii_case(known))
}

pub(super) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// The position of a column, from 1, that an expression of ORDER BY or GROUP BY is if it is a number.
pub(super) fn position(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(n, _) => n.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
