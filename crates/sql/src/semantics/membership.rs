//! `x IN (SELECT y ...)` is NULL, not false, if a NULL leaves it undecided.
//!
//! ```text
//!   x NOT IN (SELECT y ...)  ─►  CASE WHEN x IN (SELECT y ...) THEN false
//!                                     WHEN EXISTS (SELECT y ... WHERE y IS NULL)
//!                                       OR x IS NULL AND EXISTS (SELECT y ...) THEN NULL
//!                                     ELSE true END
//! ```
//!
//! DataFusion does so only if `NOT IN` is a whole condition of a WHERE and the subquery names no outer column. Beside
//! an OR, below a NOT or in a CASE it answers false instead of NULL. With outer columns it refuses, and it loses the
//! row that `SELECT count(*) ...` has if nothing matches. The rule rewrites only these cases: not if neither side can
//! be NULL, nor where NULL and false have the same effect.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

const COLUMN: &str = "__list";

/// The rule. It runs before DataFusion's own coercion of types.
#[derive(Debug)]
pub(crate) struct UnknownMembership;

impl AnalyzerRule for UnknownMembership {
    fn name(&self) -> &str {
        "unknown_membership"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(analyze_node)?.data)
    }
}

fn analyze_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(mut filter) = plan else { return Ok(Transformed::no(plan)) };
    let predicate = std::mem::replace(&mut filter.predicate, lit(true));
    let rewritten = settle(predicate, ConditionPosition::Condition, filter.input.schema())?;
    Ok(rewritten.update_data(|predicate| {
        filter.predicate = predicate;
        LogicalPlan::Filter(filter)
    }))
}

/// The position of an expression in a WHERE.
#[derive(Clone, Copy, PartialEq)]
enum ConditionPosition {
    /// A whole condition, or one of those joined by AND.
    Condition,
    /// Below nothing but ANDs and ORs: NULL has the effect of false.
    Certain,
    /// Anywhere else.
    Deep,
}

fn settle(expr: Expr, place: ConditionPosition, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let below = match &expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => place,
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) if place == ConditionPosition::Condition => {
            ConditionPosition::Certain
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => place,
        Expr::Not(inner) if matches!(inner.as_ref(), Expr::InSubquery(_)) => place,
        _ => ConditionPosition::Deep,
    };
    let (expr, negated) = match expr {
        Expr::Not(inner) if matches!(inner.as_ref(), Expr::InSubquery(_)) => (*inner, true),
        other => (other, false),
    };
    match expr {
        Expr::InSubquery(mut e) => {
            e.negated ^= negated;
            let correlated = !e.subquery.outer_ref_columns.is_empty();
            match rows(&e.subquery.subquery) {
                Rows::One if correlated => return Ok(Transformed::yes(against_one(e))),
                Rows::OneOrNone if correlated => return Ok(Transformed::no(Expr::InSubquery(e))),
                _ => {}
            }
            let decided = match place {
                ConditionPosition::Condition => !e.negated || !correlated,
                ConditionPosition::Certain => !e.negated,
                ConditionPosition::Deep => false,
            };
            if place != ConditionPosition::Condition || !decided {
                name_column(&mut e.subquery)?;
            }
            if decided { Ok(Transformed::yes(Expr::InSubquery(e))) } else { three_valued(e, schema) }
        }
        Expr::Exists(e) if matches!(rows(&e.subquery.subquery), Rows::One) => {
            Ok(Transformed::yes(lit(!e.negated)))
        }
        other => other.map_children(|e| settle(e, below, schema)),
    }
}

/// How many rows a subquery has.
enum Rows {
    /// One row: an aggregate over all rows, even if there are none.
    One,
    /// At most one row: such an aggregate below a condition or a limit.
    OneOrNone,
    Many,
}

fn rows(list: &LogicalPlan) -> Rows {
    match list {
        LogicalPlan::Aggregate(a) if a.group_expr.is_empty() => Rows::One,
        LogicalPlan::Projection(p) => rows(&p.input),
        LogicalPlan::SubqueryAlias(a) => rows(&a.input),
        LogicalPlan::Sort(s) => rows(&s.input),
        LogicalPlan::Filter(_) | LogicalPlan::Limit(_) | LogicalPlan::Distinct(_) => {
            match list.inputs().first().map(|input| rows(input)) {
                Some(Rows::One | Rows::OneOrNone) => Rows::OneOrNone,
                _ => Rows::Many,
            }
        }
        _ => Rows::Many,
    }
}

/// `x = (SELECT y ...)`. A join would lose the one row of an aggregate over no rows.
fn against_one(e: InSubquery) -> Expr {
    let one = Expr::ScalarSubquery(e.subquery);
    let op = if e.negated { Operator::NotEq } else { Operator::Eq };
    Expr::BinaryExpr(BinaryExpr::new(e.expr, op, Box::new(one)))
}

/// Names the subquery's column if it is no table's column: otherwise DataFusion would have it twice.
fn name_column(subquery: &mut Subquery) -> Result<()> {
    let list = subquery.subquery.as_ref();
    let (table, field) = list.schema().qualified_field(0);
    if table.is_none() {
        let column = Expr::Column(Column::new_unqualified(field.name())).alias(COLUMN);
        subquery.subquery = LogicalPlanBuilder::from(list.clone()).project([column])?.build()?.into();
    }
    Ok(())
}

fn three_valued(e: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let list = &e.subquery.subquery;
    // If it is not known whether the expression may be NULL, it may.
    let tested_may_be_null = e.expr.nullable(schema).unwrap_or(true);
    let list_may_be_null = list.schema().fields().first().is_none_or(|f| f.is_nullable());
    let mut unknown = None;
    if tested_may_be_null {
        let some = exists(list.as_ref().clone(), &e.subquery);
        unknown = Some(e.expr.as_ref().clone().is_null().and(some));
    }
    if list_may_be_null {
        let y = Expr::Column(Column::from(list.schema().qualified_field(0)));
        let nulls = LogicalPlanBuilder::from(list.as_ref().clone()).filter(y.is_null())?.build()?;
        let nulls = exists(nulls, &e.subquery);
        unknown = Some(unknown.map_or(nulls.clone(), |u| nulls.or(u)));
    }
    let Some(unknown) = unknown else { return Ok(Transformed::yes(Expr::InSubquery(e))) };
    let negated = e.negated;
    let is_member = Expr::InSubquery(InSubquery { negated: false, ..e });
    let null = lit(ScalarValue::Boolean(None));
    let case = when(is_member, lit(!negated)).when(unknown, null).otherwise(lit(negated))?;
    Ok(Transformed::yes(case))
}

fn exists(plan: LogicalPlan, like: &Subquery) -> Expr {
    let subquery = Subquery {
        subquery: plan.into(),
        outer_ref_columns: like.outer_ref_columns.clone(),
        spans: like.spans.clone(),
    };
    Expr::Exists(Exists { subquery, negated: false })
}
