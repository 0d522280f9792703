//! `x IN (...)` is NULL where x is NULL, even beside another list over the same x.
//!
//! ```text
//!   x NOT IN (1, NULL)               ─►  x NOT IN (1) AND NULL
//!   x NOT IN (1) OR x NOT IN (2)     ─►  same(x) NOT IN (1) OR same(x) NOT IN (2), two functions of that name
//! ```
//!
//! DataFusion merges two lists over one expression, and loses NULL doing so: `x NOT IN (1) OR x NOT IN (2)` becomes
//! true where x is NULL, and `x IN (1, 2) AND x NOT IN (2, NULL)` becomes true where x is 1. `same` is an identity
//! function. It makes the expressions differ, so that the lists are not merged. It is used only where x, or a value
//! of a list, may be NULL.

use std::collections::HashMap;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};

/// The name of the identity.
pub(crate) const SAME: &str = "same";

/// Rewrites the lists of a whole expression.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut lists = 0;
    expr.apply(|e| {
        lists += usize::from(matches!(e, Expr::InList(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if lists == 0 {
        return Ok(Transformed::no(expr));
    }
    let without_nulls = expr.transform_up(|e| match e {
        Expr::InList(list) if list.negated && list.list.iter().any(is_null) => {
            Ok(Transformed::yes(without_null(list)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    without_nulls.transform_data(|expr| keep_apart(expr, schema))
}

fn is_null(e: &Expr) -> bool {
    matches!(e, Expr::Literal(value, _) if value.is_null())
}

fn without_null(mut list: InList) -> Expr {
    list.list.retain(|e| !is_null(e));
    let unknown = lit(ScalarValue::Boolean(None));
    if list.list.is_empty() { unknown } else { Expr::InList(list).and(unknown) }
}

/// Wraps the expression of each list in an identity of its own, if several lists have the same expression.
fn keep_apart(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut lists: HashMap<Expr, usize> = HashMap::new();
    expr.apply(|e| {
        if let Some(of) = listed(e)
            && of.nullable(schema).unwrap_or(true)
        {
            *lists.entry(of.clone()).or_default() += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    lists.retain(|_, count| *count > 1);
    let mut number = 0;
    expr.transform_down(|e| {
        Ok(match e {
            Expr::InList(mut l) if lists.contains_key(l.expr.as_ref()) => {
                number += 1;
                l.expr = Box::new(same(*l.expr, number));
                Transformed::yes(Expr::InList(l))
            }
            other => Transformed::no(other),
        })
    })
}

/// The expression of a list, or of an equality that DataFusion turns into a list.
fn listed(e: &Expr) -> Option<&Expr> {
    match e {
        Expr::InList(l) => Some(&l.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            match (left.as_ref(), right.as_ref()) {
                (Expr::Column(_), Expr::Literal(..)) => Some(left),
                (Expr::Literal(..), Expr::Column(_)) => Some(right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The identity function with this number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Same {
    number: usize,
    signature: Signature,
}

fn same(of: Expr, number: usize) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Same { number, signature }).call(vec![of])
}

impl ScalarUDFImpl for Same {
    fn name(&self) -> &str {
        SAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
