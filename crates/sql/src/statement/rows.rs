//! Comparisons of rows, column by column.
//!
//! ```text
//!   (a, b) = (c, d)              ─►  a = c AND b = d
//!   (a, b) < (c, d)              ─►  a < c OR a = c AND b < d
//!   (a, b) IN ((1, 2), (3, 4))   ─►  a = 1 AND b = 2 OR a = 3 AND b = 4
//!   ROW(a, b) IS NULL            ─►  a IS NULL AND b IS NULL
//! ```
//!
//! DataFusion compares rows as structs, so that the result is never NULL. Rows anywhere else are refused.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value,
};

use crate::SqlError;
use crate::error::state;

/// Rewrites `expr` if it compares rows.
///
/// # Errors
/// Rows of different lengths.
pub(super) fn expand(expr: &mut Expr) -> Result<(), SqlError> {
    let expanded = match expr {
        Expr::BinaryOp { left, op, right } => match (columns(left), columns(right)) {
            (Some(a), Some(b)) => Some(compare(a, op, b)?),
            _ => None,
        },
        Expr::IsDistinctFrom(left, right) => match (columns(left), columns(right)) {
            (Some(a), Some(b)) => Some(negated(not_distinct(a, b)?)),
            _ => None,
        },
        Expr::IsNotDistinctFrom(left, right) => match (columns(left), columns(right)) {
            (Some(a), Some(b)) => Some(not_distinct(a, b)?),
            _ => None,
        },
        Expr::IsNull(inner) => columns(inner).map(|c| all(c.into_iter().map(|e| Expr::IsNull(Box::new(e))))),
        Expr::IsNotNull(inner) => {
            columns(inner).map(|c| all(c.into_iter().map(|e| Expr::IsNotNull(Box::new(e)))))
        }
        Expr::InList { expr, list, negated: is_negated } => match columns(expr) {
            Some(row) => {
                let mut found = Vec::new();
                for item in list {
                    let Some(item) = columns(item) else {
                        return Err(SqlError::Unsupported("a row beside another value in IN (...)".into()));
                    };
                    found.push(compare(row.clone(), &BinaryOperator::Eq, item)?);
                }
                let found = found.into_iter().reduce(|a, b| joined(a, BinaryOperator::Or, b));
                let found = nested(found.unwrap_or_else(|| Expr::value(Value::Boolean(false))));
                Some(if *is_negated { negated(found) } else { found })
            }
            None => None,
        },
        Expr::Between { expr, negated: is_negated, low, high } => {
            match (columns(expr), columns(low), columns(high)) {
                (Some(row), Some(low), Some(high)) => {
                    let from = compare(row.clone(), &BinaryOperator::GtEq, low)?;
                    let to = compare(row, &BinaryOperator::LtEq, high)?;
                    let between = nested(joined(from, BinaryOperator::And, to));
                    Some(if *is_negated { negated(between) } else { between })
                }
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(expanded) = expanded {
        *expr = expanded;
    }
    Ok(())
}

/// Refuses a row that was not expanded.
///
/// # Errors
/// [`SqlError::Unsupported`].
pub(super) fn refuse(expr: &Expr) -> Result<(), SqlError> {
    match columns(expr) {
        Some(_) if !matches!(expr, Expr::Nested(_)) => {
            Err(SqlError::Unsupported(format!("a row as a value: {expr}")))
        }
        _ => Ok(()),
    }
}

/// The columns of a row: `(a, b)` or `ROW(a, b)`.
fn columns(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(columns) => Some(columns.clone()),
        Expr::Nested(inner) => columns(inner),
        Expr::Function(f) if is_row(f) => {
            let FunctionArguments::List(list) = &f.args else { return None };
            let column = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e.clone()),
                _ => None,
            };
            list.args.iter().map(column).collect()
        }
        _ => None,
    }
}

fn is_row(f: &Function) -> bool {
    let [name] = &f.name.0[..] else { return false };
    name.as_ident().is_some_and(|i| i.quote_style.is_none() && i.value.eq_ignore_ascii_case("row"))
}

fn compare(a: Vec<Expr>, op: &BinaryOperator, b: Vec<Expr>) -> Result<Expr, SqlError> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let pairs = paired(a, b)?;
    let each = |op: BinaryOperator| pairs.clone().into_iter().map(move |(a, b)| joined(a, op.clone(), b));
    match op {
        Eq => Ok(all(each(Eq))),
        NotEq => Ok(nested(
            each(NotEq).reduce(|a, b| joined(a, BinaryOperator::Or, b)).expect("a row has columns"),
        )),
        Lt | LtEq | Gt | GtEq => {
            let strict = if matches!(op, Lt | LtEq) { Lt } else { Gt };
            // Built from the last column to the first: a column decides if all columns before it are equal.
            let mut pairs = pairs.into_iter().rev();
            let (a, b) = pairs.next().expect("a row has columns");
            let last = joined(a, op.clone(), b);
            Ok(pairs.fold(nested(last), |rest, (a, b)| {
                let less = joined(a.clone(), strict.clone(), b.clone());
                let equal = joined(a, Eq, b);
                nested(joined(less, BinaryOperator::Or, nested(joined(equal, BinaryOperator::And, rest))))
            }))
        }
        other => Err(SqlError::Unsupported(format!("rows joined by {other}"))),
    }
}

fn not_distinct(a: Vec<Expr>, b: Vec<Expr>) -> Result<Expr, SqlError> {
    let same = |(a, b)| Expr::IsNotDistinctFrom(Box::new(a), Box::new(b));
    Ok(all(paired(a, b)?.into_iter().map(same)))
}

fn paired(a: Vec<Expr>, b: Vec<Expr>) -> Result<Vec<(Expr, Expr)>, SqlError> {
    if a.len() != b.len() || a.is_empty() {
        return Err(SqlError::failed(state::SYNTAX_ERROR, "unequal number of entries in row expressions"));
    }
    Ok(a.into_iter().zip(b).collect())
}

fn all(conditions: impl Iterator<Item = Expr>) -> Expr {
    let all = conditions.reduce(|a, b| joined(a, BinaryOperator::And, b));
    nested(all.unwrap_or_else(|| Expr::value(Value::Boolean(true))))
}

fn joined(a: Expr, op: BinaryOperator, b: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(a), op, right: Box::new(b) }
}

fn nested(e: Expr) -> Expr {
    Expr::Nested(Box::new(e))
}

fn negated(e: Expr) -> Expr {
    nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(e) })
}
