//! The order of joins, by sampled selectivity.
//!
//! ```text
//!   inner joins as FROM names them ─► region: inputs, equal columns, predicates
//!                                       │  rows of each input: sampled; values: keys and bounds
//!                                       ▼
//!                                     cheapest tree of hash joins ─► operators, each with its build side
//!   other joins ────────────────────► the cheaper build side
//! ```
//!
//! The rule runs behind DataFusion's choice of join sides, before anything is partitioned. `SET lode.planner = off`
//! leaves that choice as it is.

mod cardinality;
mod carried;
mod cost;
mod early;
mod estimate;
mod forced;
mod inputs;
mod order;
mod rebuild;
mod region;
mod sides;
mod unique;

use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use self::cardinality::Cardinality;
use self::carried::Carried;
use self::forced::ForcedOrder;
use self::inputs::Inputs;
use self::region::Region;
use crate::columns::place_of;
use crate::exchanges::is_exchange;
use crate::join;
use crate::options::{JoinBy, LodeOptions, Planner};
use crate::scan::LodeScanExec;

/// The physical rule.
#[derive(Debug)]
pub(crate) struct OrderJoins;

impl PhysicalOptimizerRule for OrderJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = LodeOptions::of(config);
        let plan = early::decided(plan, &options)?;
        match options.planner {
            Planner::Off => Ok(plan),
            Planner::Cost | Planner::Yoursql => {
                let forced = ForcedOrder::of(&options.join_order);
                let by = Joins { threads: config.execution.target_partitions, join: options.join };
                ordered(plan, by, &forced, &[])
            }
        }
    }

    fn name(&self) -> &'static str {
        "order_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a join drops rows of its right side whose key its left side does not have.
pub(crate) fn excludes(join_type: JoinType, null_aware: bool) -> bool {
    match join_type {
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::RightSemi => true,
        // A row of the right side whose key is NULL decides all.
        JoinType::LeftAnti => !null_aware,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::LeftMark | JoinType::RightMark => {
            false
        }
    }
}

/// The rows that an operator answers, by estimate.
pub(crate) fn rows(plan: &Arc<dyn ExecutionPlan>) -> Result<f64> {
    Ok(estimate::estimate(plan)?.rows)
}

/// What is expected of a column of a build side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildColumn {
    /// Its distinct values.
    pub(crate) values: f64,
    /// If it is the key of a table: how many values that has in all, and between which bounds.
    pub(crate) of_key: Option<(f64, (i64, i64))>,
}

/// What is expected of each expression over a build side; `None` for one that is no column.
pub(crate) fn build_columns<'a>(
    plan: &Arc<dyn ExecutionPlan>,
    expressions: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
) -> Result<Vec<Option<BuildColumn>>> {
    let of = estimate::estimate(plan)?;
    let column = |place: usize| {
        let column = &of.columns[place];
        let of_key = column.key_bounds.map(|bounds| (column.domain, bounds));
        BuildColumn { values: of.distinct(place), of_key }
    };
    Ok(expressions.map(|e| place_of(e).map(column)).collect())
}

/// The distinct values of an expression in a scan's table, by estimate; `None` if it is no column.
pub(crate) fn distinct_before(scan: &LodeScanExec, e: &Arc<dyn PhysicalExpr>) -> Result<Option<f64>> {
    let Some(place) = place_of(e) else { return Ok(None) };
    Ok(Some(estimate::of_scan(scan)?.columns[place].domain))
}

/// The rows of a scan for each group by these columns of its table, by estimate. The scan answers the columns.
pub(crate) fn rows_a_group(scan: &LodeScanExec, columns: &[u16]) -> Result<f64> {
    let of = estimate::of_scan(scan)?;
    let program = scan.spec().program()?;
    let values = |c: &u16| {
        let place = scan.spec().output.iter().position(|stored| stored == &Some(*c));
        let Some(place) = place else { return of.rows };
        // A condition on the column alone leaves as large a share of its values as of its rows.
        match program.filter_columns() {
            [only] if only == c => (of.columns[place].domain * of.share()).min(of.rows),
            _ => of.distinct(place),
        }
    };
    Ok(of.rows / columns.iter().map(values).product::<f64>().clamp(1.0, of.rows))
}

/// Whether to look rows of a table of `table_rows` rows up for each row of `outer` is expected to take less than to scan the table.
pub(crate) fn pays_to_look_up(outer: &Arc<dyn ExecutionPlan>, table_rows: f64) -> Result<bool> {
    Ok(estimate::estimate(outer)?.rows * cost::SCANNED_A_LOOK_UP <= table_rows)
}

/// What joins are ordered for.
#[derive(Clone, Copy)]
struct Joins {
    threads: usize,
    join: JoinBy,
}

/// `plan` with its joins in order. Where joins are nested, `wanted` are columns of its answer by whose values its rows will be looked
/// up: the table that has one of them is then joined first.
fn ordered(
    plan: Arc<dyn ExecutionPlan>,
    by: Joins,
    forced: &ForcedOrder,
    wanted: &[usize],
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(mut region) = Region::of(&plan)?.filter(|r| r.inputs.len() <= Inputs::MAX) else {
        let below: Vec<usize> = wanted.iter().filter_map(|&place| column_below(&plan, place)).collect();
        let inputs = plan.children().into_iter().map(|input| ordered(input.clone(), by, forced, &below));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        return sides::chosen(replace_children_if_necessary(plan, inputs)?, by.threads);
    };
    for i in 0..region.inputs.len() {
        let wanted = match by.join {
            JoinBy::Hash => Vec::new(),
            JoinBy::Nested => {
                region.columns_met(i, Inputs::first(region.inputs.len()).without(Inputs::one(i)))
            }
        };
        region.inputs[i] = ordered(region.inputs[i].clone(), by, forced, &wanted)?;
    }
    let estimates = region.inputs.iter().map(estimate::estimate).collect::<Result<Vec<_>>>()?;
    let mut rows = Cardinality::of(&region, estimates);
    let first = match wanted.first() {
        Some(place) => vec![region.outputs[*place].input],
        None => match forced.inputs_of(&region) {
            named if named.is_empty() => {
                (0..region.inputs.len()).filter(|i| early::is_first(&region.inputs[*i])).take(1).collect()
            }
            named => named,
        },
    };
    let tree = match by.join {
        JoinBy::Hash => order::cheapest(&mut rows, &Carried::of(&region), by.threads, &first),
        JoinBy::Nested => order::left_deep(&mut rows, &first, &|input, others| {
            join::may_look_up(&region.inputs[input], &region.columns_met(input, others))
        }),
    };
    let tree = tree.map_err(|e| forced.needs_cross_join(&region, e.input))?;
    rebuild::rebuild(&region, &tree, &plan.schema())
}

/// The column of the input that a column of an operator over one input is.
fn column_below(plan: &Arc<dyn ExecutionPlan>, place: usize) -> Option<usize> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return place_of(&projection.expr()[place].expr);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(filter.projection().as_ref().map_or(place, |p| p[place]));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return place_of(&aggregate.group_expr().expr().get(place)?.0);
    }
    is_exchange(plan).then_some(place)
}
