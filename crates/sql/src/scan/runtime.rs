//! Run-time filters of one partition: their current values, and whether these have changed.
//!
//! ```text
//!   hash join, TopK, aggregate ─ update ─► filter ─ tracker: changed? ─► weak translation ─► narrower program
//! ```

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr};
use lode_engine::TableStatistics;
use lode_page::Value;
use lode_program::{CompareOp, Expr, Program};

use super::ScanSpec;
use super::cut::cut;
use super::keys::{KeyFilter, SentKeys};
use crate::translate::Translator;

/// Whether a filter gets its value only when the query runs.
pub(super) fn is_runtime(e: &Arc<dyn PhysicalExpr>) -> bool {
    contains(e, |e| is_dynamic_node(e) || e.downcast_ref::<ScalarSubqueryExpr>().is_some())
}

/// Whether an operator changes the filter while it runs.
pub(super) fn is_dynamic(e: &Arc<dyn PhysicalExpr>) -> bool {
    contains(e, is_dynamic_node)
}

/// Whether a filter has a subquery's value in it.
pub(crate) fn waits_for_subquery(e: &Arc<dyn PhysicalExpr>) -> bool {
    contains(e, |e| e.downcast_ref::<ScalarSubqueryExpr>().is_some())
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

/// The run-time filters of a partition that runs.
pub(super) struct RuntimeFilters {
    filters: Vec<Arc<dyn PhysicalExpr>>,
    keys: Vec<KeyFilter>,
    tracking: Vec<DynamicFilterTracking>,
    /// Their translation when they were last read.
    said: Option<Expr>,
}

impl RuntimeFilters {
    pub(super) fn new(filters: Vec<Arc<dyn PhysicalExpr>>, keys: Vec<KeyFilter>) -> Self {
        Self { filters, keys, tracking: Vec::new(), said: None }
    }

    /// The program, narrowed by the filters' values at the start of the scan.
    pub(super) fn start(&mut self, spec: &ScanSpec, base: &Arc<Program>) -> Arc<Program> {
        // The filters are tracked before they are read, so that an update in between is seen twice rather than never.
        self.tracking = self.filters.iter().map(DynamicFilterTracking::classify).collect();
        self.said = self.now(spec);
        narrowed(base, self.said.as_ref())
    }

    /// The program, narrowed by the filters' current values, if these have changed since the last call.
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

    /// Whether a filter may change while the scan runs.
    pub(super) fn may_change(&mut self) -> bool {
        self.tracking.iter_mut().any(|t| t.watcher().is_some())
    }

    /// Forgets all filters: the operators that made them apply them.
    pub(super) fn give_up(&mut self) {
        *self = Self::new(Vec::new(), Vec::new());
    }

    /// Whether the filters exclude anything.
    pub(super) fn narrow(&self) -> bool {
        self.said.is_some()
    }

    /// The key sets that are known.
    pub(super) fn keys(&self) -> SentKeys {
        SentKeys::of(&self.keys)
    }

    fn now(&self, spec: &ScanSpec) -> Option<Expr> {
        let translator = Translator::new(spec.table.schema(), &spec.output);
        let known = spec.snapshot.statistics(&spec.table).ok();
        let said = self.filters.iter().filter_map(|f| translator.weak(f)).flat_map(|e| match e {
            Expr::And(terms) => terms,
            e => vec![e],
        });
        let said = said.chain(self.keys.iter().filter_map(KeyFilter::now));
        let mut said: Vec<Expr> =
            said.filter(|e| !known.as_ref().is_some_and(|k| says_nothing(e, k))).collect();
        match said.len() {
            0 => None,
            1 => said.pop(),
            _ => Some(Expr::And(said)),
        }
    }
}

/// A bound that excludes at most this part of the column's range is not worth an evaluation of each row.
const CUT_MIN: f64 = 0.02;

/// Whether a bound or a list lets nearly every value of the column through: then evaluating it costs more than it
/// saves. Skipping it is safe, since the operator that made the filter still applies it.
fn says_nothing(e: &Expr, known: &TableStatistics) -> bool {
    let range = |column: &Expr| match column {
        Expr::Column(c) => known.columns.get(usize::from(*c))?.as_ref(),
        _ => None,
    };
    match e {
        Expr::Compare(op, column, constant) => {
            let (Some((min, max)), Expr::Const(v, _)) = (range(column), &**constant) else { return false };
            match op {
                CompareOp::GtEq => v.compare(min).is_some_and(Ordering::is_le) || cut(min, v, max) < CUT_MIN,
                CompareOp::LtEq => v.compare(max).is_some_and(Ordering::is_ge) || cut(max, v, min) < CUT_MIN,
                _ => false,
            }
        }
        Expr::In { value, list } => match range(value) {
            Some((Value::Int(min), Value::Int(max))) => {
                let span = i128::from(*max) - i128::from(*min);
                // A join sends its keys with duplicates, so only distinct keys are counted.
                let within = |v: &Value| match v {
                    Value::Int(i) if min <= i && i <= max => Some(*i),
                    _ => None,
                };
                let distinct = || list.iter().filter_map(within).collect::<HashSet<i64>>().len();
                list.len() as i128 > span && distinct() as i128 > span
            }
            _ => false,
        },
        Expr::InKeys { value, keys } => match (range(value), keys.exact_len()) {
            (Some((Value::Int(min), Value::Int(max))), Some(keys)) => keys > max.abs_diff(*min),
            _ => false,
        },
        _ => false,
    }
}

/// The base program with `more` as another condition; the base alone if both together exceed a limit of programs.
fn narrowed(base: &Arc<Program>, more: Option<&Expr>) -> Arc<Program> {
    more.and_then(|m| base.with_filter(m.clone()).ok()).map_or_else(|| base.clone(), Arc::new)
}

#[cfg(test)]
mod tests {
    use lode_page::DataType;

    use super::*;

    #[test]
    fn a_filter_that_every_value_passes_says_nothing() {
        let mut known = TableStatistics::default();
        known.columns =
            vec![Some((Value::Int(1), Value::Int(4))), None, Some((Value::Int(0), Value::Int(1000)))];
        let check = |e: Expr, expected| assert_eq!(says_nothing(&e, &known), expected, "{e:?}");
        let int = |v| Expr::Const(Value::Int(v), DataType::BigInt);
        let bound = |op, c, v| Expr::compare(op, Expr::Column(c), int(v));
        check(bound(CompareOp::GtEq, 0, 1), true);
        check(bound(CompareOp::GtEq, 0, 2), false);
        check(bound(CompareOp::LtEq, 0, 4), true);
        check(bound(CompareOp::LtEq, 0, 3), false);
        check(bound(CompareOp::LtEq, 1, 4), false);
        check(bound(CompareOp::GtEq, 2, 10), true);
        check(bound(CompareOp::LtEq, 2, 990), true);
        check(bound(CompareOp::GtEq, 2, 30), false);
        check(bound(CompareOp::LtEq, 2, 500), false);
        let list = |of: &[i64]| Expr::In {
            value: Box::new(Expr::Column(0)),
            list: of.iter().map(|&v| Value::Int(v)).collect(),
        };
        check(list(&[4, 3, 2, 1, 9]), true);
        check(list(&[4, 3, 2, 9]), false);
        check(list(&[4, 3, 2, 2, 2]), false);
    }
}
