//! What Lode reads into a parsed statement before DataFusion plans it.
//!
//! - `1e300` is a DOUBLE; without an exponent, a number with a point is a DECIMAL.
//! - Columns of a SELECT without a name may be equal, `SELECT 0, 0`: DataFusion wants names that differ, so a repeated
//!   one is told apart by a number.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Ident, Select, SelectItem, Value, VisitMut, VisitorMut,
};

/// Prepares a statement. Recurses over it.
pub(super) fn prepare(parsed: &mut Parsed) {
    match parsed {
        Parsed::Explain(explain) => prepare(&mut explain.statement),
        Parsed::Statement(sql) => {
            let _ = sql.visit(&mut Preparer);
        }
        _ => {}
    }
}

struct Preparer;

impl VisitorMut for Preparer {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(v) = expr
            && let Value::Number(n, _) = &v.value
            && has_exponent(n)
        {
            let text = Value::SingleQuotedString(n.clone()).with_span(v.span);
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::Value(text)),
                data_type: DataType::Double(ExactNumberInfo::None),
                array: false,
                format: None,
            };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.projection.len() < 2 {
            return ControlFlow::Continue(());
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let name = expr.to_string();
            let before = seen.entry(name.clone()).or_default();
            if *before > 0 {
                let alias = Ident::with_quote('"', format!("{name}:{before}"));
                let expr = std::mem::replace(expr, Expr::value(Value::Null));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            *before += 1;
        }
        ControlFlow::Continue(())
    }
}

fn has_exponent(number: &str) -> bool {
    !number.starts_with("0x") && number.contains(['e', 'E'])
}

#[cfg(test)]
mod tests {
    use crate::statement::Statement;

    #[test]
    fn doubles_and_repeated_columns_are_told() {
        let check = |sql: &str, expected: &str| {
            let mut parsed = (*Statement::parse(sql).unwrap().remove(0).parsed).clone();
            super::prepare(&mut parsed);
            assert_eq!(parsed.to_string(), expected);
        };
        check("SELECT 1.5, 2", "SELECT 1.5, 2");
        check("SELECT 1e3 + -2E-5", "SELECT CAST('1e3' AS DOUBLE) + -CAST('2E-5' AS DOUBLE)");
        check("INSERT INTO t VALUES (1e3)", "INSERT INTO t VALUES (CAST('1e3' AS DOUBLE))");
        check("SELECT 0, a, 0, a AS a, 0", r#"SELECT 0, a, 0 AS "0:1", a AS a, 0 AS "0:2""#);
        check("EXPLAIN SELECT 0, 0", r#"EXPLAIN SELECT 0, 0 AS "0:1""#);
    }
}
