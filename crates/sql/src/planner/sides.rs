//! The build side of joins that are not ordered: outer joins, semi-joins and anti-joins.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::cost::{self, JoinRows};
use super::estimate::{Estimate, estimate};

/// `plan` with its cheaper side as the build side, if it is a hash join of another kind than inner.
pub(super) fn chosen(plan: Arc<dyn ExecutionPlan>, threads: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(plan) };
    if *join.join_type() == JoinType::Inner || join.null_aware || join.fetch().is_some() {
        return Ok(plan);
    }
    let (left, right) = (estimate(join.left())?, estimate(join.right())?);
    let out = estimate(&plan)?.rows;
    let kept = side_cost(join, &left, &right, *join.join_type(), out, threads);
    let swapped = side_cost(join, &right, &left, join.join_type().swap(), out, threads);
    if swapped.0 >= kept.0 {
        return Ok(plan);
    }
    let is_partitioned = swapped.1 && *join.partition_mode() == PartitionMode::Partitioned;
    join.swap_inputs(if is_partitioned { PartitionMode::Partitioned } else { PartitionMode::CollectLeft })
}

fn side_cost(
    join: &HashJoinExec,
    build: &Estimate,
    probe: &Estimate,
    join_type: JoinType,
    out: f64,
    threads: usize,
) -> (f64, bool) {
    let is_swapped = join_type != *join.join_type();
    let mut share: f64 = 1.0;
    let mut looked_up = 0.0;
    if super::excludes(join_type, join.null_aware)
        && join.null_equality() == NullEquality::NullEqualsNothing
        && build.rows <= cost::KEYS_MAX
    {
        for (a, b) in join.on() {
            let (b_key, p_key) = if is_swapped { (b, a) } else { (a, b) };
            let place = |e: &Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
                e.downcast_ref::<Column>().map(Column::index)
            };
            let (Some(b), Some(p)) = (place(b_key), place(p_key)) else { continue };
            if probe.columns[p].is_stored {
                let keys = build.distinct(b);
                share = share.min(keys / keys.max(probe.columns[p].domain));
                looked_up = cost::keys_looked_up(probe.rows_read) / threads as f64;
            }
        }
    }
    let answered = cost::answered(build.rows, build.columns.len())
        + cost::answered(probe.rows * share, probe.columns.len());
    let rows = JoinRows { build: build.rows, probe: probe.rows * share, out };
    let joined = cost::hash_join(rows, threads);
    (joined.total() + answered / threads as f64 + looked_up, joined.is_partitioned)
}
