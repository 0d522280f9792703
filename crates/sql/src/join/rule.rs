//! The physical rule: hash joins become joins by index where `SET lode.join = nested` asks for it.

use std::sync::Arc;

use datafusion::common::{JoinSide, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::ColumnIndex;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::block::{Kind, Pairing};
use super::exec::{JoinBuffer, LookUpJoinExec};
use super::inner::Inner;
use crate::columns::place_of;
use crate::options::{JoinBy, LodeOptions};
use crate::scan::engine_error;

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
                nested(plan, buffer)
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

fn nested(plan: Arc<dyn ExecutionPlan>, buffer: JoinBuffer) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = plan.children().into_iter().map(|input| nested(input.clone(), buffer));
    let plan = replace_children_if_necessary(plan.clone(), inputs.collect::<Result<Vec<_>>>()?)?;
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(plan) };
    for outer in [JoinSide::Left, JoinSide::Right] {
        if let Some(by_index) = by_index(join, outer, buffer)? {
            return Ok(Arc::new(by_index));
        }
    }
    Ok(plan)
}

/// The join with this outer side; `None` if no index of the other side helps.
fn by_index(join: &HashJoinExec, outer: JoinSide, buffer: JoinBuffer) -> Result<Option<LookUpJoinExec>> {
    let is_plain =
        join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware && join.fetch().is_none();
    let Some(kind) = Kind::of(*join.join_type(), outer).filter(|_| is_plain) else { return Ok(None) };
    let (outer_plan, inner_plan) = match outer {
        JoinSide::Left => (join.left(), join.right()),
        _ => (join.right(), join.left()),
    };
    let Some(inner) = Inner::of(inner_plan) else { return Ok(None) };
    let on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)> = join
        .on()
        .iter()
        .map(|(l, r)| if outer == JoinSide::Left { (l.clone(), r.clone()) } else { (r.clone(), l.clone()) })
        .collect();
    let mut stored: Vec<Option<u16>> = Vec::new();
    for (outer_key, inner_key) in &on {
        let of_outer = outer_key.data_type(&outer_plan.schema())?;
        let of_inner = inner_key.data_type(&inner_plan.schema())?;
        // Equal floats may differ in their bits.
        if of_outer != of_inner || of_outer.is_floating() || of_outer.is_nested() {
            return Ok(None);
        }
        stored.push(place_of(inner_key).and_then(|place| inner.stored(place)));
    }
    let columns: Vec<u16> = stored.iter().flatten().copied().collect();
    let spec = inner.spec();
    let Some(look_ups) = spec.snapshot.look_ups(&spec.table, &columns).map_err(engine_error)? else {
        return Ok(None);
    };
    let key = |c: &u16| stored.iter().position(|s| *s == Some(*c)).expect("the look-up has columns of keys");
    let keys = look_ups.columns().iter().map(key).collect();
    let pairing = Pairing {
        kind,
        outer,
        on,
        filter: join.filter().cloned(),
        answered: answered(join, outer, kind),
        schema: join.schema(),
    };
    Ok(Some(LookUpJoinExec::new(outer_plan.clone(), inner, look_ups, keys, pairing, buffer)))
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
