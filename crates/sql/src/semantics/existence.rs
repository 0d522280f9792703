//! EXISTS and IN (SELECT ...) outside of a condition, as comparisons of counts.
//!
//! ```text
//!   SELECT t.a IN (SELECT y FROM s)
//!      ─►  CASE WHEN EXISTS (SELECT y FROM s WHERE y = t.a) THEN true
//!               WHEN EXISTS (SELECT y FROM s WHERE y IS NULL) OR t.a IS NULL AND EXISTS (SELECT y FROM s) THEN NULL
//!               ELSE false END
//!   SELECT EXISTS (SELECT ... FROM s)                    ─►  (SELECT count(*) FROM (SELECT ... FROM s LIMIT 1)) > 0
//!   SELECT EXISTS (SELECT ... FROM s WHERE s.a = t.a)    ─►  (SELECT count(*) FROM s WHERE s.a = t.a) > 0
//! ```
//!
//! DataFusion has both only as joins below a condition of WHERE.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, ExprSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, lit, when};
use datafusion::optimizer::AnalyzerRule;

/// Counts the rows of each EXISTS that is no condition.
#[derive(Debug)]
pub(super) struct CountedExistence;

impl AnalyzerRule for CountedExistence {
    fn name(&self) -> &str {
        "counted_existence"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let of_node = |node: LogicalPlan| {
            if matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
                return node.map_expressions(|e| e.transform_up(without_limit));
            }
            let names = NamePreserver::new(&node);
            let schema = node.inputs().first().map(|input| input.schema().clone());
            node.map_expressions(|e| {
                let name = names.save(&e);
                let e = e.transform_up(|e| of_membership(e, schema.as_deref()))?;
                let e = e.transform_data(|e| e.transform_up(without_limit))?;
                let e = e.transform_data(|e| e.transform_up(of_existence))?;
                Ok(e.update_data(|e| name.restore(e)))
            })
        };
        plan.transform_up_with_subqueries(of_node).data()
    }
}

fn of_membership(e: Expr, schema: Option<&DFSchema>) -> Result<Transformed<Expr>> {
    let (Expr::InSubquery(of), Some(schema)) = (&e, schema) else { return Ok(Transformed::no(e)) };
    let InSubquery { expr: tested, subquery, negated } = of;
    let list = &subquery.subquery;
    let y = Expr::Column(Column::from(list.schema().qualified_field(0)));
    // The tested expression as the subquery sees it.
    let mut outer = Vec::new();
    let seen = tested.as_ref().clone().transform_up(|e| {
        let Expr::Column(c) = &e else { return Ok(Transformed::no(e)) };
        let field = Arc::clone(schema.field_from_column(c)?);
        let reference = Expr::OuterReferenceColumn(field, c.clone());
        outer.push(reference.clone());
        Ok(Transformed::yes(reference))
    })?;
    let exists = |condition: Option<Expr>, outer: &[Expr]| {
        let mut rows = LogicalPlanBuilder::from(list.as_ref().clone());
        if let Some(condition) = condition {
            rows = rows.filter(condition)?;
        }
        let outer_ref_columns = subquery.outer_ref_columns.iter().chain(outer).cloned().collect();
        let subquery = Subquery { subquery: Arc::new(rows.build()?), outer_ref_columns, ..subquery.clone() };
        Ok::<_, DataFusionError>(Expr::Exists(Exists { subquery, negated: false }))
    };
    let matched = exists(Some(seen.data.eq(y.clone())), &outer)?;
    let unknown = exists(Some(y.is_null()), &[])?;
    let unknown = unknown.or(tested.as_ref().clone().is_null().and(exists(None, &[])?));
    let null = lit(ScalarValue::Boolean(None));
    Ok(Transformed::yes(when(matched, lit(!negated)).when(unknown, null).otherwise(lit(*negated))?))
}

/// EXISTS of the first rows is EXISTS of all rows. DataFusion makes no join of a correlated LIMIT.
fn without_limit(e: Expr) -> Result<Transformed<Expr>> {
    let Expr::Exists(mut of) = e else { return Ok(Transformed::no(e)) };
    let LogicalPlan::Limit(limit) = of.subquery.subquery.as_ref() else {
        return Ok(Transformed::no(Expr::Exists(of)));
    };
    let (skip, fetch) = (limit.get_skip_type()?, limit.get_fetch_type()?);
    let first = matches!((skip, fetch), (SkipType::Literal(0), FetchType::Literal(Some(1..))));
    if first {
        of.subquery.subquery = limit.input.clone();
    }
    Ok(Transformed::new_transformed(Expr::Exists(of), first))
}

fn of_existence(e: Expr) -> Result<Transformed<Expr>> {
    let Expr::Exists(Exists { subquery, negated }) = e else { return Ok(Transformed::no(e)) };
    let mut rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    if subquery.outer_ref_columns.is_empty() {
        rows = rows.limit(0, Some(1))?;
    }
    let counted = rows.aggregate(Vec::<Expr>::new(), [count(lit(1i64)).alias("__lode_rows")])?.build()?;
    let counted = Expr::ScalarSubquery(Subquery { subquery: Arc::new(counted), ..subquery });
    let none = lit(0i64);
    Ok(Transformed::yes(if negated { counted.eq(none) } else { counted.gt(none) }))
}
