//! DELETE of whole pages: those of which the page index proves that each row passes go unread, and the query finds the rows of the others.
//!
//! ```text
//!   LodeScanExec: filter=day < 2020-01-01 ─► pages that the index proves ─► WriteTxn::delete_unread
//!                                        └─► the other pages ────────────► rows ─► WriteTxn::delete
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use lode_base::Lpid;
use lode_command::Skip;

use super::parts::Parts;
use crate::SqlError;
use crate::scan::LodeScanExec;
use crate::session::check_reads;
use crate::threads::blocking;
use crate::transaction::StatementTxn;

/// Deletes what it can unread. Answers how many rows that were, and what finds the other rows.
pub(super) async fn delete_unread(
    mut work: StatementTxn,
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<(StatementTxn, u64, Parts), SqlError> {
    check_reads(plan)?;
    let mut plan = state.create_physical_plan(plan).await?;
    let mut rows = 0;
    if let Some(scan) =
        bare_scan(&plan).filter(|s| s.expects_a_page() && s.spec().path.skip != Skip::Never).cloned()
    {
        let deleted;
        (work, deleted) = blocking(move || {
            let program = Arc::new(scan.spec().program()?);
            let deleted = work.txn.delete_unread(scan.spec().table.name(), scan.pages(), &program)?;
            let pages = deleted.pages.len() as u64;
            scan.spec().counts.with(|q| {
                q.pages += pages;
                q.pages_skipped += pages;
            });
            Ok::<_, SqlError>((work, deleted))
        })
        .await?;
        rows = deleted.rows;
        if rows > 0 {
            plan = without(plan, &deleted.pages)?;
        }
    }
    Ok((work, rows, Parts::of(state, plan)?))
}

/// The scan of a plan that answers the rows of its scan and no others.
fn bare_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&LodeScanExec> {
    if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
        let is_whole = scan.is_plain() && scan.key_filters().is_empty() && scan.runtime_filters().is_empty();
        return Some(scan).filter(|_| is_whole);
    }
    let passes_on = plan.is::<ProjectionExec>() || plan.is::<CoalescePartitionsExec>();
    match plan.children()[..] {
        [input] if passes_on => bare_scan(input),
        _ => None,
    }
}

/// The plan without the rows of some pages.
fn without(plan: Arc<dyn ExecutionPlan>, pages: &BTreeSet<Lpid>) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let replace = |node: Arc<dyn ExecutionPlan>| {
        Ok(match node.downcast_ref::<LodeScanExec>() {
            Some(scan) => Transformed::yes(Arc::new(scan.without(pages)) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    };
    Ok(plan.transform_up(replace)?.data)
}
