//! Relations in FROM whose dependencies are corrected before the query around them is planned.
//!
//! ```text
//!   SELECT id, max(q) FROM (SELECT q, id FROM … GROUP BY q, id) s GROUP BY id
//! ```
//!
//! DataFusion adds to a GROUP BY the columns that it determines. It must know by then that `id` does not determine `q`.

use datafusion::common::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{TableFactor, TableSample, TableSampleKind, TableSampleModifier};

use super::corrected_plan;

/// Plans derived tables and names in FROM.
#[derive(Debug)]
pub(crate) struct RelationsInFrom;

impl RelationPlanner for RelationsInFrom {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (sample, alias) = match &mut relation {
            TableFactor::Table { sample, alias, args: None, .. } => (sample, alias),
            TableFactor::Derived { sample, alias, .. } => (sample, alias),
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        // DataFusion plans the relation itself once it comes with the mark.
        if sample.is_some() {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        *sample = Some(mark());
        let alias = alias.take();
        let plan = corrected_plan(context.plan(relation)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// Marks a relation that has been seen: no statement has such a clause, because `prepare` refuses TABLESAMPLE.
fn mark() -> TableSampleKind {
    TableSampleKind::BeforeTableAlias(Box::new(TableSample {
        modifier: TableSampleModifier::Sample,
        name: None,
        quantity: None,
        seed: None,
        bucket: None,
        offset: None,
    }))
}
