//! Run-time filters of one partition: what they say now, and whether that has changed.
//!
//! ```text
//!   hash join, TopK, aggregate ─ update ─► filter ─ tracker: changed? ─► weak translation ─► narrower program
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr};
use lode_program::{Expr, Program};

use super::ScanSpec;
use crate::translate::Translator;

/// Whether a filter gets its value only when the query runs.
pub(super) fn is_runtime(e: &Arc<dyn PhysicalExpr>) -> bool {
    contains(e, |e| is_dynamic_node(e) || e.downcast_ref::<ScalarSubqueryExpr>().is_some())
}

/// Whether an operator changes the filter while it runs.
pub(super) fn is_dynamic(e: &Arc<dyn PhysicalExpr>) -> bool {
    contains(e, is_dynamic_node)
}

fn is_dynamic_node(e: &Arc<dyn PhysicalExpr>) -> bool {
    e.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
}

fn contains(e: &Arc<dyn PhysicalExpr>, is: impl Fn(&Arc<dyn PhysicalExpr>) -> bool) -> bool {
    let mut found = false;
    e.apply(|e| {
        found |= is(e);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .expect("the visitor returns no error");
    found
}

/// The run-time filters of a running partition.
pub(super) struct RuntimeFilters {
    filters: Vec<Arc<dyn PhysicalExpr>>,
    tracking: Vec<DynamicFilterTracking>,
    /// What they said last.
    said: Option<Expr>,
}

impl RuntimeFilters {
    pub(super) fn new(filters: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self { filters, tracking: Vec::new(), said: None }
    }

    /// The program with what the filters say at the start of the scan.
    pub(super) fn start(&mut self, spec: &ScanSpec, base: &Arc<Program>) -> Arc<Program> {
        // Watched before read: an update in between is seen twice rather than never.
        self.tracking = self.filters.iter().map(DynamicFilterTracking::classify).collect();
        self.said = self.now(spec);
        narrowed(base, self.said.as_ref())
    }

    /// The program with what the filters say now, if that has changed since it was last asked.
    pub(super) fn changed(&mut self, spec: &ScanSpec, base: &Arc<Program>) -> Option<Arc<Program>> {
        let mut changed = false;
        for t in &mut self.tracking {
            changed |= t.watcher().is_some_and(|w| w.changed());
        }
        if !changed {
            return None;
        }
        let now = self.now(spec);
        if now == self.said {
            return None;
        }
        self.said = now;
        Some(narrowed(base, self.said.as_ref()))
    }

    /// Whether they say anything.
    pub(super) fn narrow(&self) -> bool {
        self.said.is_some()
    }

    fn now(&self, spec: &ScanSpec) -> Option<Expr> {
        let translator = Translator::new(spec.table.schema(), &spec.output);
        let mut said: Vec<Expr> = self.filters.iter().filter_map(|f| translator.weak(f)).collect();
        match said.len() {
            0 => None,
            1 => said.pop(),
            _ => Some(Expr::And(said)),
        }
    }
}

/// The base program and `more`; the base alone where both together pass a bound of programs.
fn narrowed(base: &Arc<Program>, more: Option<&Expr>) -> Arc<Program> {
    more.and_then(|m| base.with_filter(m.clone()).ok()).map_or_else(|| base.clone(), Arc::new)
}
