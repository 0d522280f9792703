//! The build side of joins that are not ordered: outer joins, semi-joins and anti-joins.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::cardinality::is_dense;
use super::carried::RowWidth;
use super::cost::{self, JoinColumns, JoinRows};
use super::estimate::{Estimate, estimate, of_join};
use super::excludes;
use crate::columns::place_of;

/// `plan` with its cheaper side as the build side, if it is a hash join of another kind than inner.
pub(super) fn chosen(plan: Arc<dyn ExecutionPlan>, threads: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(plan) };
    if *join.join_type() == JoinType::Inner || join.null_aware || join.fetch().is_some() {
        return Ok(plan);
    }
    let (left, right) = (estimate(join.left())?, estimate(join.right())?);
    let out = of_join(join, left.clone(), right.clone()).rows;
    let keys = join.on().iter().map(|(a, b)| (place_of(a), place_of(b)));
    let keys: Vec<(usize, usize)> = keys.filter_map(|(a, b)| Some((a?, b?))).collect();
    let other_way = keys.iter().map(|&(a, b)| (b, a)).collect::<Vec<_>>();
    let sends =
        |join_type| excludes(join_type, false) && join.null_equality() == NullEquality::NullEqualsNothing;
    let columns = columns_of(join, &left, false);
    let sent = if sends(*join.join_type()) { &keys[..] } else { &[] };
    let kept = cost_of(&left, &right, sent, out, &columns, threads);
    let columns = columns_of(join, &right, true);
    let sent = if sends(join.join_type().swap()) { &other_way[..] } else { &[] };
    let swapped = cost_of(&right, &left, sent, out, &columns, threads);
    if swapped.0 >= kept.0 {
        return Ok(plan);
    }
    let both =
        swapped.1 == PartitionMode::Partitioned && *join.partition_mode() == PartitionMode::Partitioned;
    join.swap_inputs(if both { PartitionMode::Partitioned } else { PartitionMode::CollectLeft })
}

/// What the rows of a join have, with its build side first; that is the right one if it is swapped.
fn columns_of(join: &HashJoinExec, build: &Estimate, is_swapped: bool) -> JoinColumns {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (of_build, of_probe) = if is_swapped { (right, left) } else { (left, right) };
    let out = join.schema();
    let lefts = join.left().schema().fields().len();
    // A semi-join that answers its build side goes through it once, at its end.
    let answers_both = !matches!(
        join.join_type(),
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::RightSemi | JoinType::RightAnti
    );
    let is_of_build = |place: &usize| answers_both && (*place < lefts) != is_swapped;
    let out_of_build = match &join.projection {
        Some(places) => places.iter().filter(|place| is_of_build(place)).count(),
        None => (0..out.fields().len()).filter(is_of_build).count(),
    };
    let is_array = match join.on() {
        [(left, right)] => {
            let key = if is_swapped { right } else { left };
            place_of(key).is_some_and(|c| {
                let is_integer = of_build.field(c).data_type().is_integer();
                is_integer && is_dense(build.rows, build.distinct(c), build.columns[c].domain)
            })
        }
        _ => false,
    };
    let build = RowWidth::of(&of_build);
    JoinColumns {
        build,
        probe: RowWidth::of(&of_probe),
        out: RowWidth::of(&out),
        out_of_build: out_of_build as f64,
        is_array,
    }
}

/// The cost of a join that sends these keys, columns of the build side and of the probe side; and its mode.
fn cost_of(
    build: &Estimate,
    probe: &Estimate,
    sent: &[(usize, usize)],
    out: f64,
    columns: &JoinColumns,
    threads: usize,
) -> (f64, PartitionMode) {
    let mut share: f64 = 1.0;
    let mut looked_up = 0.0;
    let is_asked = |(_, p): &&(usize, usize)| probe.columns[*p].takes_keys && build.rows <= cost::KEYS_MAX;
    for &(b, p) in sent.iter().filter(is_asked) {
        share = share.min(Estimate::key_share(build.distinct(b), probe.columns[p].domain));
        looked_up = cost::keys_looked_up(probe.looked_up) / threads as f64;
    }
    let answered = build.work + probe.work * share;
    let rows = JoinRows { build: build.rows, probe: probe.rows * share, out };
    let joined = cost::hash_join(rows, columns, threads);
    (joined.total() + answered / threads as f64 + looked_up, joined.mode)
}
