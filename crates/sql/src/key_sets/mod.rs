//! Key sets: the keys of a join's build side, sent to the scans of its probe side.
//!
//! ```text
//!   HashJoinExec: o_orderkey = l_orderkey
//!     CollectKeysExec: o_orderkey ── slot ──┐       a row of lineitem without an order in the set never leaves
//!       orders                              │       the drive
//!     LodeScanExec: lineitem, l_orderkey ◄──┘
//! ```
//!
//! The rule is the last one before operators move into the drive. A scan waits for the sets of the joins above it: the
//! join itself takes no row of its probe side before its build side is complete, so the wait costs nothing.
//! Source: semi-join reduction by run-time filters, as in most engines.

mod collect;
mod gather;
mod slot;
pub(crate) mod targets;

use std::sync::Arc;

use datafusion::common::{NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use self::collect::{CollectKeysExec, KeyColumn};
use self::gather::Keys;
use self::slot::Slot;
use crate::exchanges::is_exchange;
use crate::planner::{self, excludes};
use crate::scan::{JoinKeys, LodeScanExec, Way};

/// A set that lets through this share of the probe side's keys, by estimate, is not made.
const SHARE_MAX: f64 = 0.9;

/// The physical rule.
#[derive(Debug)]
pub(crate) struct SendKeys;

impl PhysicalOptimizerRule for SendKeys {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        sent(plan)
    }

    fn name(&self) -> &'static str {
        "send_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan`, whose joins send their keys, the topmost join first.
fn sent(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = match plan.downcast_ref::<HashJoinExec>() {
        Some(join) => of_join(join)?.unwrap_or(plan),
        None => plan,
    };
    let inputs = plan.children().into_iter().map(|input| sent(input.clone())).collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, inputs)
}

fn of_join(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_plain = join.null_equality() == NullEquality::NullEqualsNothing;
    if !is_plain || !excludes(*join.join_type(), join.null_aware) {
        return Ok(None);
    }
    let mut probe = join.right().clone();
    let mut columns: Vec<KeyColumn> = Vec::new();
    let built = planner::build_columns(join.left(), join.on().iter().map(|(build_key, _)| build_key))?;
    for ((build_key, probe_key), built) in join.on().iter().zip(built) {
        let data_type = build_key.data_type(&join.left().schema())?;
        let Some(keys) = Keys::of(&data_type)
            .filter(|_| probe_key.data_type(&probe.schema()).ok() == Some(data_type.clone()))
        else {
            continue;
        };
        let outcome = Arc::new(JoinKeys::default());
        let mut range: Option<(i64, i64)> = None;
        let mut is_bounded = true;
        let changed = targets::replaced(&probe, probe_key, &mut |scan, key| {
            let Some((filter, bounds)) = scan.key_filter(key, &data_type, outcome.clone()) else {
                return Ok(None);
            };
            let domain = planner::distinct_before(scan, key)?;
            let share = built.zip(domain).map(|(b, domain)| (b.values / domain.max(1.0)).min(1.0));
            if share.is_some_and(|share| share >= SHARE_MAX) {
                return Ok(None);
            }
            match (bounds, range) {
                (Some((low, high)), Some(known)) => range = Some((low.min(known.0), high.max(known.1))),
                (Some(bounds), None) => range = Some(bounds),
                (None, _) => is_bounded = false,
            }
            // Values between the bounds of a key are taken to be some of its values.
            let refers = |(_, (min, max)): &(f64, (i64, i64))| {
                bounds.is_some_and(|(low, high)| *min <= low && high <= *max)
            };
            let domain = built.and_then(|b| b.of_key).filter(refers).map(|(values, _)| values);
            let filter = filter.with_share(share.unwrap_or(1.0)).with_way(way(&probe, scan), domain);
            Ok(Some(Arc::new(scan.with_keys(filter)) as Arc<dyn ExecutionPlan>))
        })?;
        let Some(changed) = changed else { continue };
        probe = changed;
        let keys = match keys {
            Keys::Numbers { .. } => Keys::Numbers { range: range.filter(|_| is_bounded) },
            Keys::Strings => Keys::Strings,
        };
        let slot = Arc::new(Slot::new(outcome));
        columns.push(KeyColumn { expr: build_key.clone(), keys, slot });
    }
    if columns.is_empty() {
        return Ok(None);
    }
    let build = collected(join.left(), columns)?;
    join.builder().with_new_children(vec![build, probe])?.build_exec().map(Some)
}

/// What a row of a scan goes through in `plan` and in the join above it; `None` where a row more means more rows, or other work.
fn way(plan: &Arc<dyn ExecutionPlan>, scan: &LodeScanExec) -> Option<Way> {
    if let Some(found) = plan.downcast_ref::<LodeScanExec>() {
        return std::ptr::eq(found, scan).then_some(Way { joins: 1, aggregates: 0 });
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return way(join.right(), scan).map(|way| Way { joins: way.joins + 1, ..way });
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return way(aggregate.input(), scan).map(|way| Way { aggregates: way.aggregates + 1, ..way });
    }
    let passes_on = is_exchange(plan)
        || plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<CooperativeExec>()
        || collects_keys(plan);
    if passes_on { way(plan.children()[0], scan) } else { None }
}

/// Whether an operator passes its input on and collects keys.
pub(crate) fn collects_keys(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CollectKeysExec>()
}

/// The sets that an operator makes of keys.
pub(crate) fn sets_of(plan: &Arc<dyn ExecutionPlan>) -> impl Iterator<Item = &Arc<JoinKeys>> {
    plan.downcast_ref::<CollectKeysExec>().into_iter().flat_map(CollectKeysExec::sets)
}

/// The build side with its keys gathered below its exchanges, where they are gathered by all threads.
fn collected(build: &Arc<dyn ExecutionPlan>, columns: Vec<KeyColumn>) -> Result<Arc<dyn ExecutionPlan>> {
    match below_exchange(build) {
        Some(input) => replace_children_if_necessary(build.clone(), vec![collected(input, columns)?]),
        None => Ok(Arc::new(CollectKeysExec::new(build.clone(), columns))),
    }
}

fn below_exchange(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    (is_exchange(plan) && plan.fetch().is_none()).then(|| plan.children()[0])
}
