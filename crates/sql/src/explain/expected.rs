//! The rows that are expected of each operator of a plan.
//!
//! ```text
//!   HashJoinExec: o_orderkey = l_orderkey     the planner's estimate
//!     CollectKeysExec: o_orderkey             the planner's estimate
//!     LodeScanExec: lineitem                  the planner's estimate x the share of the keys of orders
//! ```
//!
//! A key set reduces what comes out of the scan that looks it up, and of the operators between that scan and the join whose keys they are.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;

use crate::key_sets::sets_of;
use crate::planner;
use crate::scan::{JoinKeys, LodeScanExec};

/// What lies below an operator.
#[derive(Default)]
struct Below {
    /// The key sets that scans look up, and the share of the rows that pass.
    looked_up: Vec<(Arc<JoinKeys>, f64)>,
    /// The key sets that build sides make.
    made: Vec<Arc<JoinKeys>>,
}

impl Below {
    fn and(mut self, other: Self) -> Self {
        self.looked_up.extend(other.looked_up);
        self.made.extend(other.made);
        self
    }

    /// The share of the rows that sets from above let through. A set counts once, however many scans look it up: a join of two that do has
    /// rows with the keys of both.
    fn share(&self) -> f64 {
        let mut share = 1.0;
        for (at, (keys, of_keys)) in self.looked_up.iter().enumerate() {
            let is_from_above = !self.made.iter().any(|made| Arc::ptr_eq(made, keys));
            let is_first = !self.looked_up[..at].iter().any(|(known, _)| Arc::ptr_eq(known, keys));
            if is_from_above && is_first {
                share *= of_keys;
            }
        }
        share
    }
}

/// The rows that are expected of `plan` and of the operators below it, in the order of the plan's lines.
///
/// # Errors
/// When statistics of a table cannot be read.
pub(super) fn expected_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<u64>> {
    let mut rows = Vec::new();
    noted(plan, &mut rows)?;
    Ok(rows)
}

fn noted(plan: &Arc<dyn ExecutionPlan>, rows: &mut Vec<u64>) -> Result<Below> {
    let at = rows.len();
    rows.push(0);
    let mut below = Below::default();
    for input in plan.children() {
        below = below.and(noted(input, rows)?);
    }
    below.made.extend(sets_of(plan).cloned());
    if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
        below.looked_up.extend(scan.key_filters().iter().map(|f| (f.keys().clone(), f.share())));
    }
    // An estimate is never 0; this is no estimate.
    let is_empty = plan.is::<EmptyExec>();
    rows[at] = if is_empty { 0 } else { (planner::rows(plan)? * below.share()).round().max(1.0) as u64 };
    Ok(below)
}
