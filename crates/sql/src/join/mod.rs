//! Joins by nested loops: for some rows of the outer side at a time, the rows of the inner side that they meet.
//!
//! ```text
//!   LookUpJoinExec: table=part, by primary key (p_partkey)      outer rows ─► block ─► keys ─► pages of part ─► rows ─┐
//!     outer side                                                              └─────────────── pairs that meet ◄──────┘
//! ```
//!
//! With `SET lode.join = nested` each join of two tables becomes one of these where an index of the inner table begins with columns of
//! the join. A block is as many outer rows as `lode.join_buffer` holds, so that each page is read once for all of them; with
//! `lode.batched_keys = off` it is one row, as in a plain index nested loop.
//!
//! An inner side that is more than a table, such as a subquery with an aggregate, runs again for each block, over the rows that have
//! its keys (`keyed.rs`).
//!
//! Source: "Batched Key Access" of MySQL and MariaDB.

mod block;
mod exec;
mod inner;
mod keyed;
mod rule;

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use lode_engine::IndexKind;

use self::inner::Inner;

pub(crate) use exec::LookUpJoinExec;
pub(crate) use rule::NestedLoops;

/// Whether an index of the table that `plan` reads begins with one of these columns of it.
pub(crate) fn may_look_up(plan: &Arc<dyn ExecutionPlan>, places: &[usize]) -> bool {
    let Some(inner) = Inner::of(plan) else { return false };
    let columns: Vec<u16> = places.iter().filter_map(|&place| inner.stored(place)).collect();
    let table = &inner.spec().table;
    let trees = table.indexes().iter().filter(|i| i.kind != IndexKind::Page).map(|i| &i.columns);
    trees.chain([&table.def().primary_key]).any(|of| of.first().is_some_and(|c| columns.contains(c)))
}
