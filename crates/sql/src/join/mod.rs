//! Joins by nested loops: for some rows of the outer side at a time, the rows of the inner side that they meet.
//!
//! ```text
//!   LookUpJoinExec: table=part, by primary key (p_partkey)      outer rows ─► block ─► keys ─► pages of part ─► rows ─┐
//!     outer side                                                              └─────────────── pairs that meet ◄──────┘
//! ```
//!
//! With `SET lode.join = nested` each join of two tables becomes one of these where an index of the inner table begins with columns of
//! the join. A block is as many outer rows as `lode.join_buffer` holds, so that each page is read once for all of them; with
//! `lode.batched_keys = off` it is one row, as in a plain index nested loop. Where no index helps, the inner table is scanned once for
//! each block (`scanned.rs`).
//!
//! An inner side that is more than a table, such as a subquery with an aggregate, runs again for each block, over the rows that have
//! its keys (`keyed.rs`).
//!
//! Sources: "Batched Key Access" and "Block Nested-Loop Join" of MySQL and MariaDB.

mod block;
mod exec;
mod inner;
mod keyed;
mod rule;
mod scanned;

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use lode_engine::IndexKind;

use self::block::Pairing;
use self::exec::LookUpJoinExec;
use self::inner::Inner;
use self::scanned::BlockJoinExec;

pub(crate) use rule::NestedLoops;

/// The column of the outer side, its first input, that a column of a nested join is, if it is one.
pub(crate) fn outer_column(plan: &dyn ExecutionPlan, place: usize) -> Option<usize> {
    pairing(plan)?.outer_column(place)
}

/// The hash join that a nested join was planned as first, over the inputs that it had then.
pub(crate) fn replaced(plan: &dyn ExecutionPlan) -> Option<&Arc<dyn ExecutionPlan>> {
    let by_index = plan.downcast_ref::<LookUpJoinExec>().map(|join| &join.replaced);
    by_index.or_else(|| plan.downcast_ref::<BlockJoinExec>().map(|join| &join.replaced))
}

/// Whether a plan is a nested join.
pub(crate) fn is_nested(plan: &dyn ExecutionPlan) -> bool {
    pairing(plan).is_some()
}

fn pairing(plan: &dyn ExecutionPlan) -> Option<&Pairing> {
    let by_index = plan.downcast_ref::<LookUpJoinExec>().map(|join| &*join.pairing);
    by_index.or_else(|| plan.downcast_ref::<BlockJoinExec>().map(|join| &*join.pairing))
}

/// Whether an index of the table that `plan` reads begins with one of these columns of it.
pub(crate) fn may_look_up(plan: &Arc<dyn ExecutionPlan>, places: &[usize]) -> bool {
    let Some(inner) = Inner::of(plan).filter(|inner| inner.spec().path.asks_trees()) else {
        return false;
    };
    let columns: Vec<u16> = places.iter().filter_map(|&place| inner.stored(place)).collect();
    let table = &inner.spec().table;
    let trees = table.indexes().iter().filter(|i| i.kind != IndexKind::Page).map(|i| &i.columns);
    trees.chain([&table.def().primary_key]).any(|of| of.first().is_some_and(|c| columns.contains(c)))
}
