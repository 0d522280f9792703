//! Values in the place of parameters, for the general path.
//!
//! ```text
//!   SELECT v + $1 AS "v + $1" FROM t WHERE id = $2
//!   ─►  SELECT v + CAST('5' AS INT) AS "v + $1" FROM t WHERE id = CAST('7' AS INT)
//! ```
//!
//! A value is written as a cast of its text, so it has the type of its parameter and no other.

use std::fmt::Write;
use std::ops::ControlFlow;

use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Ident, Select, SelectItem, Statement as Sql, Value, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};
use lode_page::DataType;

use super::infer::placeholder;
use crate::SqlError;
use crate::types::sql_type;

/// Puts the values of the parameters into a statement.
///
/// # Errors
/// None for values of the parameters' types.
pub(super) fn substitute(sql: &mut Sql, types: &[DataType], values: &[ScalarValue]) -> Result<(), SqlError> {
    let literals = types.iter().zip(values).map(|(&t, v)| literal(v, t));
    let mut substituted = Substitution { literals: literals.collect::<Result<_, _>>()? };
    let _ = sql.visit(&mut substituted);
    Ok(())
}

struct Substitution {
    literals: Vec<Expr>,
}

impl VisitorMut for Substitution {
    type Break = ();

    fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        if matches!(e, Expr::Value(_))
            && let Some(literal) = placeholder(e).and_then(|i| self.literals.get(i))
        {
            *e = literal.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Names the columns of the result that parameters are part of, so that the names are the same for all values.
pub(super) fn name_columns(sql: &mut Sql) {
    let _ = sql.visit(&mut Naming);
}

struct Naming;

impl VisitorMut for Naming {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(e) = item
                && has_placeholder(e)
            {
                let alias = Ident::with_quote('"', e.to_string());
                let expr = std::mem::replace(e, Expr::value(Value::Null));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }
}

fn has_placeholder(e: &Expr) -> bool {
    struct Found;
    impl Visitor for Found {
        type Break = ();

        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
            match value.value {
                Value::Placeholder(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    e.visit(&mut Found).is_break()
}

fn literal(value: &ScalarValue, t: DataType) -> Result<Expr, SqlError> {
    let expr = match text(value)? {
        Some(text) => Expr::value(Value::SingleQuotedString(text)),
        None => Expr::value(Value::Null),
    };
    let (expr, data_type) = (Box::new(expr), sql_type(t));
    Ok(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None })
}

/// A value as its type reads it; `None` for NULL.
fn text(value: &ScalarValue) -> Result<Option<String>, SqlError> {
    Ok(match value {
        v if v.is_null() => None,
        ScalarValue::Utf8(Some(s)) | ScalarValue::Utf8View(Some(s)) => Some(s.clone()),
        ScalarValue::Binary(Some(b)) | ScalarValue::BinaryView(Some(b)) => {
            let mut text = String::from("\\x");
            b.iter().for_each(|b| {
                // Writing to a string does not fail.
                let _ = write!(text, "{b:02x}");
            });
            Some(text)
        }
        ScalarValue::Float32(Some(v)) => Some(v.to_string()),
        ScalarValue::Float64(Some(v)) => Some(v.to_string()),
        // A year of five digits has a sign, which no text of a date has.
        v => Some(array_value_to_string(&v.to_array()?, 0)?.trim_start_matches('+').to_owned()),
    })
}
