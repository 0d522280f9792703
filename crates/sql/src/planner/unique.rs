//! Columns that no two rows of an operator have in common. Unlike an estimate, this is certain.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use lode_engine::Deferral;
use lode_page::DataType;

use crate::columns::place_of;
use crate::compact_text::CompactTextExec;
use crate::exchanges::is_exchange;
use crate::key_sets::collects_keys;
use crate::scan::LodeScanExec;

/// The keys of `plan`: sets of columns in which any two rows differ.
pub(super) fn keys(plan: &Arc<dyn ExecutionPlan>) -> Vec<Vec<usize>> {
    if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
        let (spec, def) = (scan.spec(), scan.spec().table.def());
        // A transaction may have a key twice whose check waits for its commit.
        let is_known = spec.groups.is_none() && def.primary_key_deferral == Deferral::None;
        let place = |c: &u16| spec.output.iter().position(|o| *o == Some(*c));
        let key: Option<Vec<usize>> = def.primary_key.iter().map(place).collect();
        // A key tells 0 from -0, which joins take for equal.
        let columns = &spec.table.schema().columns;
        let is_exact =
            |c: &u16| !matches!(columns[usize::from(*c)].data_type, DataType::Real | DataType::Double);
        let is_known = is_known && def.primary_key.iter().all(is_exact);
        return key.filter(|k| is_known && !k.is_empty()).into_iter().collect();
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let below = keys(filter.input());
        return match filter.projection() {
            Some(places) => placed(&below, |c| places.iter().position(|p| *p == c)),
            None => below,
        };
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let place = |c: usize| projection.expr().iter().position(|p| place_of(&p.expr) == Some(c));
        return placed(&keys(projection.input()), place);
    }
    if is_exchange(plan) || collects_keys(plan) || plan.is::<CompactTextExec>() {
        return keys(plan.children()[0]);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let is_whole = !matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
        if is_whole && groups.is_single() && !groups.expr().is_empty() {
            return vec![(0..groups.expr().len()).collect()];
        }
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let below = match join.join_type() {
            JoinType::LeftSemi | JoinType::LeftAnti => keys(join.left()),
            JoinType::RightSemi | JoinType::RightAnti => keys(join.right()),
            JoinType::Inner => of_pairs(join),
            _ => return Vec::new(),
        };
        return match &join.projection {
            Some(places) => placed(&below, |c| places.iter().position(|p| *p == c)),
            None => below,
        };
    }
    Vec::new()
}

/// The keys of an inner join: those of a side each row of which meets at most one of the other.
fn of_pairs(join: &HashJoinExec) -> Vec<Vec<usize>> {
    let (of_left, of_right) = (keys(join.left()), keys(join.right()));
    let [left_is_key, right_is_key] = met(join, &of_left, &of_right);
    let behind = join.left().schema().fields().len();
    let of_right = if left_is_key { placed(&of_right, |c| Some(behind + c)) } else { Vec::new() };
    if right_is_key { [of_left, of_right].concat() } else { of_right }
}

/// Whether the columns that a join compares are a key of its left side, and of its right side.
pub(super) fn met_by_key(join: &HashJoinExec) -> [bool; 2] {
    met(join, &keys(join.left()), &keys(join.right()))
}

fn met(join: &HashJoinExec, of_left: &[Vec<usize>], of_right: &[Vec<usize>]) -> [bool; 2] {
    let has_key = |keys: &[Vec<usize>], on: Vec<Option<usize>>| {
        keys.iter().any(|key| key.iter().all(|c| on.contains(&Some(*c))))
    };
    let (left, right) = join.on().iter().map(|(l, r)| (place_of(l), place_of(r))).unzip();
    [has_key(of_left, left), has_key(of_right, right)]
}

fn placed(keys: &[Vec<usize>], place: impl Fn(usize) -> Option<usize>) -> Vec<Vec<usize>> {
    keys.iter().filter_map(|key| key.iter().map(|c| place(*c)).collect()).collect()
}
