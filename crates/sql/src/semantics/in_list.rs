//! `x IN (...)` is unknown where x is NULL, also beside another list over the same x.
//!
//! ```text
//!   x NOT IN (1, NULL)               ─►  x NOT IN (1) AND NULL
//!   x NOT IN (1) OR x NOT IN (2)     ─►  same(x) NOT IN (1) OR same(x) NOT IN (2), two functions of that name
//! ```
//!
//! DataFusion joins two lists over one expression: what is left of them it takes for the whole truth, so that
//! `x NOT IN (1) OR x NOT IN (2)` is true where x is NULL, and `x IN (1, 2) AND x NOT IN (2, NULL)` where x is 1. `same` is the
//! identity by another name, which keeps the lists apart: only where x, or a value of a list, may be NULL.

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

/// Gives the expression of each list a name of its own, where several look at the same one.
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

/// What a list, or an equality that DataFusion makes a list of, looks at.
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

/// The identity of this number.
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
