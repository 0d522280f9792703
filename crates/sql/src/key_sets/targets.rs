//! The scans below an operator whose rows a key set can exclude.
//!
//! ```text
//!   HashJoinExec: build.k = probe.k        every row of the probe side whose k is not in the set is dropped here
//!     probe side: AggregateExec by k         ─► so rows of other groups need not be aggregated
//!       HashJoinExec: t.k = u.k              ─► nor joined; and u.k equals t.k
//!         t, u                               ─► both scans look k up
//! ```
//!
//! Invariant: a row that a scan leaves out changes the answer of the operators up to the join only in rows whose key is
//! not in the set, or is NULL.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::collect::CollectKeysExec;
use crate::columns::{self, column_at, places_read};
use crate::exchanges::is_exchange;
use crate::join;
use crate::scan::LodeScanExec;

type Plan = Arc<dyn ExecutionPlan>;
type Key = Arc<dyn PhysicalExpr>;

/// What is done with a scan that can look the key up: the scan, and the key over its columns. `None`: nothing.
pub(crate) type AtScan<'a> = dyn FnMut(&LodeScanExec, &Key) -> Result<Option<Plan>> + 'a;

/// `plan` with its scans replaced that can look up `key`, an expression over the plan's columns.
pub(crate) fn replaced(plan: &Plan, key: &Key, at_scan: &mut AtScan<'_>) -> Result<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
        return at_scan(scan, key);
    }
    if plan.fetch().is_some() {
        return Ok(None);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(key) = over(key, |i| Some(projection.expr()[i].expr.clone()))? else { return Ok(None) };
        return below(plan, &[(0, key)], at_scan);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        let column = |i: usize| filter.projection().as_ref().map_or(i, |p| p[i]);
        let Some(key) = over(key, |i| Some(column_at(&schema, column(i))))? else { return Ok(None) };
        return below(plan, &[(0, key)], at_scan);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        if !groups.is_single() || aggregate.limit_options().is_some() {
            return Ok(None);
        }
        let group = |i: usize| groups.expr().get(i).map(|(e, _)| e.clone());
        let Some(key) = over(key, group)? else { return Ok(None) };
        return below(plan, &[(0, key)], at_scan);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return below_join(plan, join, key, at_scan);
    }
    if join::is_nested(plan.as_ref()) {
        let schema = plan.children()[0].schema();
        let outer = |i: usize| join::outer_column(plan.as_ref(), i).map(|c| column_at(&schema, c));
        let Some(key) = over(key, outer)? else { return Ok(None) };
        return below(plan, &[(0, key)], at_scan);
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        let Some((side, key)) = of_side(plan, key, &of_both(join.left(), join.right()))? else {
            return Ok(None);
        };
        return below(plan, &[(side, key)], at_scan);
    }
    if plan.is::<UnionExec>() {
        let mut keys = Vec::new();
        for (i, input) in plan.children().iter().enumerate() {
            let schema = input.schema();
            keys.extend(over(key, |c| Some(column_at(&schema, c)))?.map(|key| (i, key)));
        }
        return below(plan, &keys, at_scan);
    }
    let passes_on = is_exchange(plan)
        || plan.is::<CooperativeExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<CollectKeysExec>();
    if passes_on { below(plan, &[(0, key.clone())], at_scan) } else { Ok(None) }
}

/// `plan` with the scans below these inputs replaced.
fn below(plan: &Plan, keys: &[(usize, Key)], at_scan: &mut AtScan<'_>) -> Result<Option<Plan>> {
    let mut inputs: Vec<Plan> = plan.children().into_iter().cloned().collect();
    let mut any = false;
    for (input, key) in keys {
        if let Some(changed) = replaced(&inputs[*input], key, at_scan)? {
            inputs[*input] = changed;
            any = true;
        }
    }
    if !any {
        return Ok(None);
    }
    replace_children_if_necessary(plan.clone(), inputs).map(Some)
}

/// The key of a join's answer belongs to one side. Where a row of that side meets rows of the other side by the key, the
/// other side's rows without it meet nothing that is left.
fn below_join(plan: &Plan, join: &HashJoinExec, key: &Key, at_scan: &mut AtScan<'_>) -> Result<Option<Plan>> {
    let of_one = |side: usize, of: &Plan| (0..of.schema().fields().len()).map(|i| (side, i)).collect();
    let answered: Vec<(usize, usize)> = match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti => of_one(0, join.left()),
        JoinType::RightSemi | JoinType::RightAnti => of_one(1, join.right()),
        JoinType::Inner | JoinType::Left | JoinType::Right => of_both(join.left(), join.right()),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => return Ok(None),
    };
    if join.null_aware {
        return Ok(None);
    }
    let answered: Vec<(usize, usize)> = match &join.projection {
        Some(places) => places.iter().map(|&i| answered[i]).collect(),
        None => answered,
    };
    let Some((side, own)) = of_side(plan, key, &answered)? else { return Ok(None) };
    // The keys of the side of an outer join whose rows may be missing are left alone: a missing row is NULL above.
    let is_kept = match join.join_type() {
        JoinType::Left => side == 0,
        JoinType::Right => side == 1,
        _ => true,
    };
    if !is_kept {
        return Ok(None);
    }
    let mut keys = vec![(side, own.clone())];
    let is_anti = matches!(join.join_type(), JoinType::LeftAnti | JoinType::RightAnti);
    if !is_anti && join.null_equality() == NullEquality::NullEqualsNothing {
        for (a, b) in join.on() {
            let (own_key, other_key) = if side == 0 { (a, b) } else { (b, a) };
            if own_key.eq(&own) {
                keys.push((1 - side, other_key.clone()));
            }
        }
    }
    below(plan, &keys, at_scan)
}

/// The columns that a join of both sides answers: of which side, and where there.
fn of_both(left: &Plan, right: &Plan) -> Vec<(usize, usize)> {
    let of = |side: usize, of: &Plan| (0..of.schema().fields().len()).map(move |i| (side, i));
    of(0, left).chain(of(1, right)).collect()
}

/// The side that a key belongs to, and the key over its columns; `None` if it reads both sides.
fn of_side(plan: &Plan, key: &Key, answered: &[(usize, usize)]) -> Result<Option<(usize, Key)>> {
    let mut read = places_read(key).into_iter().map(|i| answered[i].0);
    let Some(side) = read.next().filter(|side| read.all(|s| s == *side)) else { return Ok(None) };
    let schema = plan.children()[side].schema();
    Ok(over(key, |i| Some(column_at(&schema, answered[i].1)))?.map(|key| (side, key)))
}

/// The key with each column replaced; `None` if one has no replacement, or it reads no column.
fn over(key: &Key, replacement: impl Fn(usize) -> Option<Key>) -> Result<Option<Key>> {
    let read = places_read(key);
    if read.is_empty() || read.iter().any(|place| replacement(*place).is_none()) {
        return Ok(None);
    }
    columns::replaced(key, |place| replacement(place).expect("each column has one")).map(Some)
}
