//! EXCEPT ALL and INTERSECT ALL count copies; both sides of a set operation have one type.
//!
//! ```text
//!   l EXCEPT ALL r     ─►  number the copies of each row on both sides, then EXCEPT with the number as a column
//!   (1), (1), (2) EXCEPT ALL (1)   ─►  (1, #1), (1, #2), (2, #1) without (1, #1)   ─►  (1), (2)
//! ```
//!
//! DataFusion plans them as an anti join or a semi join. In it, one row on the right matches all copies on the left,
//! and the result has the left side's types.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Projection, cast,
};
use datafusion::optimizer::AnalyzerRule;

use super::cast::sql_name;
use super::text::is_text;
use crate::SqlError;

/// The column with the number of a copy.
const COPY: &str = "__copy";

/// The rule. Before the optimizer, no other clause makes a join of these kinds in which NULL equals NULL.
#[derive(Debug)]
pub(super) struct CountedSetOperations;

impl AnalyzerRule for CountedSetOperations {
    fn name(&self) -> &str {
        "counted_set_operations"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
    let is_set_operation = matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none();
    if !is_set_operation {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let Join { left, right, on, join_type, .. } = join;
    // If the left side has no copies, the copies on the right do not matter.
    let counts = !matches!(*left, LogicalPlan::Distinct(_));
    let types: Vec<Option<DataType>> = left
        .schema()
        .fields()
        .iter()
        .zip(right.schema().fields())
        .map(|(l, r)| match l.data_type() == r.data_type() {
            true => None,
            false => type_union_coercion(l.data_type(), r.data_type()),
        })
        .collect();
    let columns = left.schema().columns();
    let left = side(&left, &types, counts)?;
    let right = side(&right, &types, counts)?;
    let (mut on_left, mut on_right): (Vec<Expr>, Vec<Expr>) = on.into_iter().unzip();
    if counts {
        on_left.push(Expr::Column(Column::from_name(COPY)));
        on_right.push(Expr::Column(Column::from_name(COPY)));
    }
    let on = on_left.into_iter().zip(on_right).collect();
    let joined = Join::try_new(
        left.into(),
        right.into(),
        on,
        None,
        join_type,
        datafusion::logical_expr::JoinConstraint::On,
        NullEquality::NullEqualsNull,
        false,
    )?;
    let plan = LogicalPlan::Join(joined);
    if !counts {
        return Ok(Transformed::yes(plan));
    }
    let plan = LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?.build()?;
    Ok(Transformed::yes(plan))
}

/// Unions with unequal types: a quoted literal takes the type of the others, and types that do not match are refused.
#[derive(Debug)]
pub(super) struct TypedUnions;

impl AnalyzerRule for TypedUnions {
    fn name(&self) -> &str {
        "typed_unions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(type_union)?.data)
    }
}

fn type_union(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(mut union) = plan else { return Ok(Transformed::no(plan)) };
    let mut changed = false;
    for column in 0..union.schema.fields().len() {
        let types: Vec<DataType> = union
            .inputs
            .iter()
            .filter_map(|i| i.schema().fields().get(column).map(|f| f.data_type().clone()))
            .collect();
        let unmatched = types.windows(2).find(|pair| {
            let texts = pair.iter().filter(|t| is_text(t)).count();
            texts != 1 && type_union_coercion(&pair[0], &pair[1]).is_none()
        });
        if let Some([a, b]) = unmatched {
            let types = format!("UNION types {} and {}", sql_name(a), sql_name(b));
            return Err(SqlError::NoMatch(types).into());
        }
        let is_other = |t: &&DataType| !is_text(t) && **t != DataType::Null;
        let Some(other) = types.iter().find(is_other) else { continue };
        for (input, t) in union.inputs.iter_mut().zip(&types).filter(|(_, t)| is_text(t)) {
            let Some(typed) = typed_literal(input, column, other)? else {
                let types = format!("UNION types {} and {}", sql_name(t), sql_name(other));
                return Err(SqlError::NoMatch(types).into());
            };
            *input = typed.into();
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Union(union), changed))
}

/// `input` with its literal in `column` as a value of type `t`; `None` where there is no literal.
fn typed_literal(input: &LogicalPlan, column: usize, t: &DataType) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(p) = input else { return Ok(None) };
    let mut exprs = p.expr.clone();
    let is_literal = |e: &Expr| matches!(e, Expr::Literal(value, _) if value.data_type() == DataType::Utf8);
    let name = exprs[column].schema_name().to_string();
    match &mut exprs[column] {
        Expr::Alias(alias) if is_literal(&alias.expr) => {
            *alias.expr = cast(alias.expr.as_ref().clone(), t.clone());
        }
        e if is_literal(e) => *e = cast(e.clone(), t.clone()).alias(name),
        _ => return Ok(None),
    }
    Ok(Some(LogicalPlan::Projection(Projection::try_new(exprs, p.input.clone())?)))
}

/// One side with the types of both, and with its copies numbered.
fn side(plan: &LogicalPlan, types: &[Option<DataType>], counts: bool) -> Result<LogicalPlan> {
    let mut builder = LogicalPlanBuilder::from(plan.clone());
    if types.iter().any(Option::is_some) {
        let columns = plan.schema().columns().into_iter().zip(types).map(|(column, t)| match t {
            Some(t) => {
                let (relation, name) = (column.relation.clone(), column.name.clone());
                cast(Expr::Column(column), t.clone()).alias_qualified(relation, name)
            }
            None => Expr::Column(column),
        });
        builder = builder.project(columns)?;
    }
    if counts {
        let columns: Vec<Expr> = builder.schema().columns().into_iter().map(Expr::Column).collect();
        let number = row_number().partition_by(columns.clone()).build()?;
        let name = number.schema_name().to_string();
        builder = builder.window([number])?;
        let copy = Expr::Column(Column::from_name(name)).alias(COPY);
        builder = builder.project(columns.into_iter().chain([copy]))?;
    }
    builder.build()
}
