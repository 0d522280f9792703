//! The last physical rule: it wraps operators so that they charge the host.
//!
//! ```text
//!   SortExec                      SortExec
//!     HashJoinExec         ─►       Charged(HashJoinExec): sort
//!       LodeScanExec                  Charged(LodeScanExec): join
//!       LodeScanExec                  Charged(LodeScanExec): join
//! ```
//!
//! A row is charged where it enters an operator, at the cost of that operator. Scans charge for their own work: they
//! know how many rows came from the drive, and which of those the host had to filter.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
    SymmetricHashJoinExec,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use lode_base::VirtualDuration;
use lode_engine::{HostClock, HostWork};

use super::charge::Charged;
use crate::grouping_sets::UnorderedExec;
use crate::join;
use crate::scan::LodeScanExec;

/// The rule, for the clock of a host.
#[derive(Debug)]
pub(crate) struct ChargeHost(pub(crate) Arc<HostClock>);

impl PhysicalOptimizerRule for ChargeHost {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.charged(plan, None, VirtualDuration::ZERO)
    }

    fn name(&self) -> &'static str {
        "charge_host"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl ChargeHost {
    /// `plan`, wrapped so that its rows are charged with `above`, the work of the operator above it. `later` is what each of them takes in all
    /// operators above that it passes through at once.
    fn charged(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        above: Option<HostWork>,
        later: VirtualDuration,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
            let scan: Arc<dyn ExecutionPlan> = Arc::new(scan.with_later(later));
            return Ok(match above {
                Some(work) => Arc::new(Charged::new(scan, vec![work], self.0.clone())),
                None => scan,
            });
        }
        let is_leaf = plan.children().is_empty();
        // An operator that only passes batches on does no work.
        let takes = if hands_on(&*plan) { above } else { Some(work_of(&*plan)) };
        let of_input = |at: usize| {
            let taken = takes.filter(|_| !hands_on(&*plan)).map(|work| work.cost(&self.0.profile().host));
            let passed = if keeps_rows(&*plan, at) { VirtualDuration::ZERO } else { later };
            taken.unwrap_or_default() + passed
        };
        let inputs = plan.children().into_iter().enumerate();
        let inputs = inputs.map(|(at, input)| self.charged(Arc::clone(input), takes, of_input(at)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let makes = is_leaf.then_some(HostWork::Other);
        let above = above.filter(|_| !hands_on(&*plan));
        let work: Vec<HostWork> = makes.into_iter().chain(above).collect();
        let plan = if is_leaf { plan } else { replace_children_if_necessary(plan, inputs)? };
        Ok(match work.is_empty() {
            true => plan,
            false => Arc::new(Charged::new(plan, work, self.0.clone())),
        })
    }
}

fn hands_on(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<CooperativeExec>()
        || plan.is::<AnalyzeExec>()
        || plan.is::<ExplainExec>()
        || plan.is::<UnorderedExec>()
}

/// Whether an operator keeps the rows of an input until all of them are there.
fn keeps_rows(plan: &dyn ExecutionPlan, input: usize) -> bool {
    plan.is::<AggregateExec>() || is_sort(plan) || is_join(plan) && input == 0
}

/// What the host does for a row that an operator takes in.
fn work_of(plan: &dyn ExecutionPlan) -> HostWork {
    if plan.is::<FilterExec>() {
        HostWork::Filter
    } else if plan.is::<ProjectionExec>() {
        HostWork::Project
    } else if plan.is::<AggregateExec>() {
        HostWork::Aggregate
    } else if is_join(plan) {
        HostWork::Join
    } else if is_sort(plan) {
        HostWork::Sort
    } else {
        HostWork::Other
    }
}

fn is_join(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SymmetricHashJoinExec>()
        || plan.is::<PiecewiseMergeJoinExec>()
        || join::is_nested(plan)
}

fn is_sort(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<SortExec>() || plan.is::<PartialSortExec>() || plan.is::<SortPreservingMergeExec>()
}
