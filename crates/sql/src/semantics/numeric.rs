//! DOUBLE beside DECIMAL: both become DOUBLE, as in PostgreSQL.
//!
//! ```text
//!   f > 0.5       f DOUBLE, 0.5 a decimal literal     ─►  f > DOUBLE 0.5
//!   CASE WHEN c THEN f ELSE 0.0 END                   ─►  CASE WHEN c THEN f ELSE DOUBLE 0.0 END
//! ```
//!
//! DataFusion would convert the DOUBLE to DECIMAL(30, 15), which fails for NaN and large values and rounds small
//! ones. A decimal literal becomes the DOUBLE nearest to its digits, also if it is stored in a column. DataFusion's
//! way over the unscaled integer rounds twice.

use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, cast};

/// Functions whose arguments must be of one type.
const ONE_TYPE: [&str; 6] = ["coalesce", "nullif", "nvl", "nvl2", "greatest", "least"];

pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(meet(expr, schema))
}

fn meet(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(mut e) if is_numeric(e.op) => {
            let changed = unify([e.left.as_mut(), e.right.as_mut()], schema);
            with(Expr::BinaryExpr(e), changed)
        }
        Expr::Between(mut e) => {
            let changed = unify([e.expr.as_mut(), e.low.as_mut(), e.high.as_mut()], schema);
            with(Expr::Between(e), changed)
        }
        Expr::InList(mut e) => {
            let changed = unify(std::iter::once(e.expr.as_mut()).chain(&mut e.list), schema);
            with(Expr::InList(e), changed)
        }
        Expr::Case(mut e) => {
            let results = e.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            let mut changed = unify(results.chain(e.else_expr.as_deref_mut()), schema);
            if let Some(base) = e.expr.as_deref_mut() {
                let whens = e.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
                changed |= unify(whens.chain([base]), schema);
            }
            with(Expr::Case(e), changed)
        }
        Expr::ScalarFunction(mut f) if ONE_TYPE.contains(&f.func.name()) => {
            let changed = unify(&mut f.args, schema);
            with(Expr::ScalarFunction(f), changed)
        }
        Expr::Cast(e) if matches!(e.field.data_type(), DataType::Float64 | DataType::Float32) => {
            match literal_as_double(&e.expr) {
                Some(double) if *e.field.data_type() == DataType::Float64 => Transformed::yes(double),
                Some(double) => Transformed::yes(cast(double, DataType::Float32)),
                None => Transformed::no(Expr::Cast(e)),
            }
        }
        other => Transformed::no(other),
    }
}

fn with(expr: Expr, changed: bool) -> Transformed<Expr> {
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn is_numeric(op: Operator) -> bool {
    use Operator::{
        Divide, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, Minus, Modulo, Multiply,
    };
    use Operator::{NotEq, Plus};
    let compares = matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
    compares || matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// Makes the decimals among `exprs` doubles if there is a float among them.
fn unify<'a>(exprs: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let (mut floats, mut decimals) = (false, Vec::new());
    for expr in exprs {
        // An expression without a type yet is left alone.
        match expr.get_type(schema) {
            Ok(t) if t.is_floating() => floats = true,
            Ok(t) if t.is_decimal() => decimals.push(expr),
            _ => {}
        }
    }
    if !floats || decimals.is_empty() {
        return false;
    }
    for expr in decimals {
        *expr = literal_as_double(expr).unwrap_or_else(|| {
            cast(std::mem::replace(expr, Expr::Literal(ScalarValue::Null, None)), DataType::Float64)
        });
    }
    true
}

/// The double nearest to a decimal literal.
fn literal_as_double(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else { return None };
    let digits = match value {
        ScalarValue::Decimal128(v, p, s) => v.map(|v| Decimal128Type::format_decimal(v, *p, *s)),
        ScalarValue::Decimal256(v, p, s) => v.map(|v| Decimal256Type::format_decimal(v, *p, *s)),
        _ => return None,
    };
    let double = match digits {
        Some(digits) => Some(digits.parse().ok()?),
        None => None,
    };
    Some(Expr::Literal(ScalarValue::Float64(double), metadata.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::common::tree_node::TreeNode;
    use datafusion::logical_expr::{col, lit};

    fn decimal(unscaled: i128, precision: u8, scale: i8) -> Expr {
        lit(ScalarValue::Decimal128(Some(unscaled), precision, scale))
    }

    #[test]
    fn decimals_become_doubles_only_beside_doubles() {
        let schema = Schema::new(vec![
            Field::new("f", DataType::Float64, true),
            Field::new("d", DataType::Decimal128(10, 2), true),
        ]);
        let schema = DFSchema::try_from(schema).unwrap();
        let check = |expr: Expr, expected: Expr| {
            assert_eq!(expr.transform_up(|e| Ok(meet(e, &schema))).unwrap().data, expected);
        };
        check(col("f").gt(decimal(5, 2, 1)), col("f").gt(lit(0.5)));
        check(col("d").gt(decimal(5, 2, 1)), col("d").gt(decimal(5, 2, 1)));
        check(col("f").eq(col("d")), col("f").eq(cast(col("d"), DataType::Float64)));
        check(col("f").between(decimal(1, 2, 1), decimal(2, 2, 1)), col("f").between(lit(0.1), lit(0.2)));
        check(col("f").in_list(vec![decimal(7, 1, 1)], true), col("f").in_list(vec![lit(0.7)], true));
        // With 17 digits, the way over the unscaled integer would give the next double.
        check(cast(decimal(12_345_678_901_234_567, 17, 16), DataType::Float64), lit(1.234_567_890_123_456_7));
    }
}
