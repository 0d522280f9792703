//! The physical rule: hash joins become nested joins where `SET lode.join = nested` asks for it.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::ColumnIndex;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use lode_engine::LookUps;

use super::block::{Kind, Pairing};
use super::exec::{InnerSide, JoinBuffer, LookUpJoinExec};
use super::inner::Inner;
use super::keyed::{Asked, KeyedScanExec};
use super::scanned::BlockJoinExec;
use crate::columns::place_of;
use crate::exchanges::is_exchange;
use crate::key_sets::targets;
use crate::options::{JoinBy, LodeOptions, Planner};
use crate::planner;
use crate::scan::{ScanSpec, engine_error};

/// The rule.
#[derive(Debug)]
pub(crate) struct NestedLoops;

impl PhysicalOptimizerRule for NestedLoops {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = LodeOptions::of(config);
        match options.join {
            JoinBy::Hash => Ok(plan),
            JoinBy::Nested => {
                let buffer = JoinBuffer { bytes: options.join_buffer, batched: options.batched_keys };
                nested(plan, Nested { buffer, is_ordered: options.planner != Planner::Off })
            }
        }
    }

    fn name(&self) -> &'static str {
        "nested_loops"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// How joins are nested.
#[derive(Clone, Copy)]
struct Nested {
    buffer: JoinBuffer,
    /// Whether the left side of an inner join is the one that comes first.
    is_ordered: bool,
}

fn nested(plan: Arc<dyn ExecutionPlan>, how: Nested) -> Result<Arc<dyn ExecutionPlan>> {
    let before = plan.clone();
    let inputs = plan.children().into_iter().map(|input| nested(input.clone(), how));
    let plan = replace_children_if_necessary(plan.clone(), inputs.collect::<Result<Vec<_>>>()?)?;
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(plan) };
    // The planner has put the tables of inner joins in an order. Groups have no place in it.
    let is_ordered = how.is_ordered && *join.join_type() == JoinType::Inner && !is_grouped(join.left());
    let sides: &[JoinSide] = if is_ordered { &[JoinSide::Left] } else { &[JoinSide::Left, JoinSide::Right] };
    for &outer in sides {
        if let Some(by_index) = by_index(join, outer, &before, how.buffer)? {
            return Ok(Arc::new(by_index));
        }
    }
    for &outer in sides {
        if let Some(by_scan) = by_scan(join, outer, &before, how.buffer)? {
            return Ok(Arc::new(by_scan));
        }
    }
    Ok(plan)
}

/// The outer and the inner side of a join whose outer side is `outer`.
fn sides(join: &HashJoinExec, outer: JoinSide) -> (&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) {
    match outer {
        JoinSide::Left => (join.left(), join.right()),
        _ => (join.right(), join.left()),
    }
}

/// The join with this outer side; `None` if no index of the other side helps. `before` is the join over the inputs that it had first: the
/// planner estimates what it knows.
fn by_index(
    join: &HashJoinExec,
    outer: JoinSide,
    before: &Arc<dyn ExecutionPlan>,
    buffer: JoinBuffer,
) -> Result<Option<LookUpJoinExec>> {
    let Some(pairing) = pairing(join, outer)? else { return Ok(None) };
    let (outer_plan, inner_plan) = sides(join, outer);
    let outer_before = before.children()[usize::from(outer == JoinSide::Right)];
    let Some(Found { inner, look_ups, keys }) = found(inner_plan, &pairing.on, outer_before)? else {
        return Ok(None);
    };
    let (outer, replaced) = (outer_plan.clone(), before.clone());
    Ok(Some(LookUpJoinExec::new(outer, inner, look_ups, keys, pairing, buffer, replaced)))
}

/// The join with this outer side that scans the inner side for each block; `None` if that is more than a table.
fn by_scan(
    join: &HashJoinExec,
    outer: JoinSide,
    before: &Arc<dyn ExecutionPlan>,
    buffer: JoinBuffer,
) -> Result<Option<BlockJoinExec>> {
    let (outer_plan, inner_plan) = sides(join, outer);
    if Inner::of(inner_plan).is_none() {
        return Ok(None);
    }
    let nested =
        |pairing| BlockJoinExec::new(outer_plan.clone(), inner_plan.clone(), pairing, buffer, before.clone());
    Ok(pairing(join, outer)?.map(nested))
}

/// How the rows of a join meet; `None` if it needs to see all inner rows, or takes equal what has other bytes.
fn pairing(join: &HashJoinExec, outer: JoinSide) -> Result<Option<Pairing>> {
    let is_plain =
        join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware && join.fetch().is_none();
    let Some(kind) = Kind::of(*join.join_type(), outer).filter(|_| is_plain) else { return Ok(None) };
    let (outer_plan, inner_plan) = sides(join, outer);
    let on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)> = join
        .on()
        .iter()
        .map(|(l, r)| if outer == JoinSide::Left { (l.clone(), r.clone()) } else { (r.clone(), l.clone()) })
        .collect();
    for (outer_key, inner_key) in &on {
        let of_outer = outer_key.data_type(&outer_plan.schema())?;
        let of_inner = inner_key.data_type(&inner_plan.schema())?;
        // Equal floats may differ in their bits.
        if of_outer != of_inner || of_outer.is_floating() || of_outer.is_nested() {
            return Ok(None);
        }
    }
    Ok(Some(Pairing {
        kind,
        outer,
        on,
        filter: join.filter().cloned(),
        answered: answered(join, outer, kind),
        schema: join.schema(),
    }))
}

/// Whether a plan answers groups.
fn is_grouped(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let passes_on = plan.is::<ProjectionExec>() || plan.is::<FilterExec>() || is_exchange(plan);
    plan.is::<AggregateExec>() || passes_on && is_grouped(plan.children()[0])
}

/// How the rows of an inner side are looked up.
struct Found {
    inner: InnerSide,
    look_ups: Arc<LookUps>,
    /// Which of the pairs of keys each column of the look-ups is.
    keys: Vec<usize>,
}

type Keys = [(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)];

fn found(plan: &Arc<dyn ExecutionPlan>, on: &Keys, outer: &Arc<dyn ExecutionPlan>) -> Result<Option<Found>> {
    if let Some(inner) = Inner::of(plan) {
        let stored: Vec<Option<u16>> =
            on.iter().map(|(_, key)| place_of(key).and_then(|place| inner.stored(place))).collect();
        let Some((look_ups, keys)) = look_ups(inner.spec(), &stored)? else { return Ok(None) };
        return Ok(Some(Found { inner: InnerSide::Table(Arc::new(inner)), look_ups, keys }));
    }
    // Below joins and aggregates one key alone is followed: not all keys need to be of one table.
    for (at, (_, key)) in on.iter().enumerate() {
        let mut found: Option<(Arc<LookUps>, Arc<Asked>, Arc<ScanSpec>)> = None;
        let replaced = targets::replaced(plan, key, &mut |scan, key| {
            let stored = place_of(key).and_then(|place| scan.spec().output[place]);
            if found.is_some() || stored.is_none() || !scan.is_plain() {
                return Ok(None);
            }
            let known = scan.spec().snapshot.statistics(&scan.spec().table).map_err(engine_error)?;
            if !planner::pays_to_look_up(outer, known.rows as f64)? {
                return Ok(None);
            }
            let Some((look_ups, _)) = look_ups(scan.spec(), &[stored])? else { return Ok(None) };
            let asked = Arc::new(Asked::default());
            found = Some((look_ups.clone(), asked.clone(), Arc::new(scan.spec().clone())));
            Ok(Some(Arc::new(KeyedScanExec::new(scan, look_ups, asked)) as Arc<dyn ExecutionPlan>))
        })?;
        if let (Some(plan), Some((look_ups, asked, spec))) = (replaced, found)
            && runs_anew(&plan)
        {
            return Ok(Some(Found {
                inner: InnerSide::Plan { plan, asked, spec },
                look_ups,
                keys: vec![at],
            }));
        }
    }
    Ok(None)
}

/// Whether a plan can run for each block: all that it reads are rows that are looked up, and it answers the same each time.
fn runs_anew(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut is_volatile_here = false;
    let noted = plan.apply_expressions(&mut |e| {
        is_volatile_here |= is_volatile(e);
        Ok(TreeNodeRecursion::Continue)
    });
    let inputs = plan.children();
    let is_looked_up = plan.is::<KeyedScanExec>();
    noted.is_ok()
        && !is_volatile_here
        && (is_looked_up || !inputs.is_empty() && inputs.into_iter().all(runs_anew))
}

/// How the rows of a scan are found by these columns, and which of them each column of the look-ups is.
fn look_ups(spec: &ScanSpec, stored: &[Option<u16>]) -> Result<Option<(Arc<LookUps>, Vec<usize>)>> {
    let columns: Vec<u16> = stored.iter().flatten().copied().collect();
    if !spec.path.asks_trees() {
        return Ok(None);
    }
    let found = spec.snapshot.look_ups(&spec.table, &columns).map_err(engine_error)?;
    let key = |c: &u16| stored.iter().position(|s| *s == Some(*c)).expect("the look-up has columns of keys");
    Ok(found.map(|found| {
        let keys = found.columns().iter().map(key).collect();
        (Arc::new(found), keys)
    }))
}

/// The columns that a join answers.
fn answered(join: &HashJoinExec, outer: JoinSide, kind: Kind) -> Vec<ColumnIndex> {
    let of = |side: JoinSide, plan: &Arc<dyn ExecutionPlan>| {
        let columns = 0..plan.schema().fields().len();
        columns.map(|index| ColumnIndex { index, side }).collect::<Vec<_>>()
    };
    let (left, right) = (of(JoinSide::Left, join.left()), of(JoinSide::Right, join.right()));
    let all = match (kind, outer) {
        (Kind::Inner | Kind::Outer, _) => [left, right].concat(),
        (Kind::Semi | Kind::Anti, JoinSide::Left) => left,
        (Kind::Semi | Kind::Anti, _) => right,
    };
    match &join.projection {
        Some(places) => places.iter().map(|&place| all[place].clone()).collect(),
        None => all,
    }
}
