//! An analyzer rule that notes where the tables of a query are, before its subqueries become joins.

use std::sync::Arc;

use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::AnalyzerRule;

use crate::StatementCounts;
use crate::options::{LodeOptions, Planner};
use crate::provider::LodeTable;
use crate::query_shape::{Place, Shape};

/// The rule.
#[derive(Debug)]
pub(crate) struct NoteShape;

impl AnalyzerRule for NoteShape {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if LodeOptions::of(config).planner == Planner::Yoursql {
            let mut noted = Noted::default();
            noted.plan(&plan, Place::From)?;
            if let Some(counts) = noted.counts {
                counts.keep_shape(noted.shape);
            }
        }
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "note_shape"
    }
}

#[derive(Default)]
struct Noted {
    shape: Shape,
    counts: Option<Arc<StatementCounts>>,
}

impl Noted {
    fn plan(&mut self, plan: &LogicalPlan, place: Place) -> Result<()> {
        let mut below = place;
        match plan {
            LogicalPlan::TableScan(scan) => {
                let source = scan.source.downcast_ref::<DefaultTableSource>();
                if let Some(table) = source.and_then(|s| s.table_provider.downcast_ref::<LodeTable>()) {
                    self.shape.0.push((table.name().to_owned(), place));
                    self.counts = Some(table.counts().clone());
                }
            }
            LogicalPlan::SubqueryAlias(alias) if !is_table(&alias.input) && place == Place::From => {
                below = Place::Derived;
            }
            _ => {}
        }
        plan.apply_expressions(|e| {
            e.apply(|e| {
                let subquery = match e {
                    Expr::Exists(e) => &e.subquery,
                    Expr::InSubquery(e) => &e.subquery,
                    Expr::SetComparison(e) => &e.subquery,
                    Expr::ScalarSubquery(subquery) => subquery,
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                self.subquery(subquery)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        plan.inputs().into_iter().try_for_each(|input| self.plan(input, below))
    }

    fn subquery(&mut self, subquery: &Subquery) -> Result<()> {
        let is_correlated = !subquery.outer_ref_columns.is_empty();
        self.plan(&subquery.subquery, if is_correlated { Place::Subquery } else { Place::Materialized })
    }
}

fn is_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        plan => matches!(plan, LogicalPlan::TableScan(_)),
    }
}
