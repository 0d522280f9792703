//! Checks the operand types of operators while the statement is planned: SQLSTATEs 42883 and 42804.
//!
//! ```text
//!   true + 1        ─►  42883  operator does not exist: boolean + integer
//!   1 AND 2         ─►  42804  argument of AND must be type boolean, not type bigint
//!   '1' + '1'       ─►  42725  operator is not unique: unknown + unknown
//!   'maybe' = true  ─►  the quoted literal has no type yet: it takes the other side's
//! ```
//!
//! DataFusion's planner has one kind of error for all of these. It calls this extension before its own check.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::cast::sql_name;
use super::compare::{is_comparison, is_untyped};
use super::interval_times::{divided, times};
use crate::SqlError;
use crate::error::state;

/// A larger operand is not checked here: computing its type walks all its nodes, once for each operator above.
const NODES_MAX: usize = 32;

/// The planner's check of operators.
#[derive(Debug)]
pub(super) struct Operands;

impl ExprPlanner for Operands {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(op) = operator(&expr.op) else { return Ok(PlannerResult::Original(expr)) };
        let (Some(l), Some(r)) = (small_type(&expr.left, schema), small_type(&expr.right, schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        if BinaryTypeCoercer::new(&l, &op, &r).get_result_type().is_ok() {
            return Ok(PlannerResult::Original(expr));
        }
        let RawBinaryExpr { left, right, .. } = expr;
        let planned = |left: Expr, right: Expr| {
            Ok(PlannerResult::Planned(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))))
        };
        let is_interval = |t: &DataType| matches!(t, DataType::Interval(_));
        let is_moment = |t: &DataType| matches!(t, DataType::Date32 | DataType::Timestamp(..));
        let scaled = match op {
            Operator::Multiply if is_interval(&l) && r.is_numeric() => {
                Some(times(left.clone(), right.clone()))
            }
            Operator::Multiply if l.is_numeric() && is_interval(&r) => {
                Some(times(right.clone(), left.clone()))
            }
            Operator::Divide if is_interval(&l) && r.is_numeric() => {
                Some(divided(left.clone(), right.clone()))
            }
            _ => None,
        };
        if let Some(scaled) = scaled {
            return Ok(PlannerResult::Planned(scaled));
        }
        let takes_types = is_comparison(op) || op == Operator::And || op == Operator::Or;
        match (is_untyped(&left), is_untyped(&right)) {
            (true, false) if takes_types || r.is_numeric() => planned(cast(left, r), right),
            (false, true) if takes_types || l.is_numeric() => planned(left, cast(right, l)),
            (false, true) if op == Operator::Minus && is_moment(&l) => planned(left, cast(right, l)),
            (true, true) => Err(SqlError::failed(
                state::AMBIGUOUS_FUNCTION,
                format!("operator is not unique: unknown {op} unknown"),
            )
            .into()),
            _ => Err(refused(&l, op, &r).into()),
        }
    }
}

/// The operators that are checked.
fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        BinaryOperator::And => Operator::And,
        BinaryOperator::Or => Operator::Or,
        BinaryOperator::StringConcat => Operator::StringConcat,
        _ => return None,
    })
}

/// The type of an expression of few nodes.
fn small_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let mut nodes = 0;
    let walked = expr.apply(|_| {
        nodes += 1;
        Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    if walked.is_err() || nodes > NODES_MAX { None } else { expr.get_type(schema).ok() }
}

fn refused(l: &DataType, op: Operator, r: &DataType) -> SqlError {
    if matches!(op, Operator::And | Operator::Or) {
        let other = if *l == DataType::Boolean { r } else { l };
        let message = format!("argument of {op} must be type boolean, not type {}", sql_name(other));
        return SqlError::failed(state::DATATYPE_MISMATCH, message);
    }
    SqlError::NoOperator(format!("{} {op} {}", sql_name(l), sql_name(r)))
}
