//! Columns that no two rows of an operator have in common. Unlike an estimate, this is certain.

use std::sync::Arc;

use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use lode_engine::Deferral;

use crate::scan::LodeScanExec;

/// The keys of `plan`: sets of columns in which any two rows differ.
pub(super) fn keys(plan: &Arc<dyn ExecutionPlan>) -> Vec<Vec<usize>> {
    if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
        let (spec, def) = (scan.spec(), scan.spec().table.def());
        // A transaction may have a key twice whose check waits for its commit.
        let is_known = spec.groups.is_none() && def.primary_key_deferral == Deferral::None;
        let place = |c: &u16| spec.output.iter().position(|o| *o == Some(*c));
        let key: Option<Vec<usize>> = def.primary_key.iter().map(place).collect();
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
        let place = |c: usize| {
            projection
                .expr()
                .iter()
                .position(|p| p.expr.downcast_ref::<Column>().is_some_and(|e| e.index() == c))
        };
        return placed(&keys(projection.input()), place);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let is_whole = !matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
        if is_whole && groups.is_single() && !groups.expr().is_empty() {
            return vec![(0..groups.expr().len()).collect()];
        }
    }
    Vec::new()
}

fn placed(keys: &[Vec<usize>], place: impl Fn(usize) -> Option<usize>) -> Vec<Vec<usize>> {
    keys.iter().filter_map(|key| key.iter().map(|c| place(*c)).collect()).collect()
}
