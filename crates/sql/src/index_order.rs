//! Uses the order of an index: below a sort with a limit, or MIN and MAX, a scan may end early.
//!
//! ```text
//!   SortExec: TopK(fetch=10), expr=[b]              SortExec: TopK(fetch=10), expr=[b]
//!     FilterExec: c > 5                     ─►        FilterExec: c > 5
//!       LodeScanExec, filter=a = 1                      LodeScanExec, filter=a = 1, in order: first 10 of index=ab by (b)
//!
//!   AggregateExec: min(a), max(a)           ─►      the same above: first 1 of index=..., last 1 of index=...
//! ```
//!
//! The sort and the aggregate stay in the plan. Operators between them and the scan must work row by row; the scan is
//! given their filters. If no index has the order (one column has another direction, or NULLs are at the other end),
//! the plan does not change, and EXPLAIN shows no `in order`.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use lode_engine::{NullsAt, OrderColumn};

use crate::columns;
use crate::exchanges::is_exchange;
use crate::scan::{FirstRows, LodeScanExec, Ordered, waits_for_subquery};

/// The largest limit, in rows: their keys are kept in memory.
const ROWS_MAX: usize = 65_536;

/// The physical rule. It runs after all of DataFusion's, and before aggregates move into the drive.
#[derive(Debug)]
pub(crate) struct OrderByIndex;

impl PhysicalOptimizerRule for OrderByIndex {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let by_index = |plan: Arc<dyn ExecutionPlan>| {
            let below = match (plan.downcast_ref::<SortExec>(), plan.downcast_ref::<AggregateExec>()) {
                (Some(sort), _) => below_sort(sort)?,
                (_, Some(aggregate)) => below_aggregate(aggregate)?,
                _ => None,
            };
            Ok(match below {
                Some(below) => Transformed::yes(replace_children_if_necessary(plan, vec![below])?),
                None => Transformed::no(plan),
            })
        };
        plan.transform_up(by_index).data()
    }

    fn name(&self) -> &'static str {
        "order_by_index"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn below_sort(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(rows) = sort.fetch().filter(|n| (1..=ROWS_MAX).contains(n)) else { return Ok(None) };
    let by = sort.expr().iter().map(|s| (s.expr.clone(), s.options)).collect::<Vec<_>>();
    let Some(path) = Path::of(sort.input())? else { return Ok(None) };
    let order: Option<Vec<OrderColumn>> = by
        .iter()
        .map(|(e, options)| {
            let nulls = if options.nulls_first { NullsAt::First } else { NullsAt::Last };
            let column = path.column(e)?.1;
            Some(OrderColumn { column, descending: options.descending, nulls })
        })
        .collect();
    let Some(walk) = order.and_then(|order| path.first_rows(&order, rows)) else { return Ok(None) };
    path.in_order(sort.input(), vec![walk]).map(Some)
}

fn below_aggregate(a: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let at_rows =
        matches!(a.mode(), AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned);
    let plain = a.group_expr().is_empty() && a.filter_expr().iter().all(Option::is_none);
    if !at_rows || !plain || a.aggr_expr().is_empty() {
        return Ok(None);
    }
    let Some(path) = Path::of(a.input())? else { return Ok(None) };
    let mut walks: Vec<FirstRows> = Vec::new();
    for f in a.aggr_expr() {
        let descending = match f.fun().name() {
            "min" => false,
            "max" => true,
            _ => return Ok(None),
        };
        let arguments = f.expressions();
        let column = match &arguments[..] {
            [argument] => path.column(argument).map(|(_, c)| c),
            _ => None,
        };
        let order = column.map(|column| OrderColumn { column, descending, nulls: NullsAt::Nowhere });
        match order.filter(|o| !path.is_float(o.column)).and_then(|o| path.first_rows(&[o], 1)) {
            Some(walk) => walks.push(walk),
            None => return Ok(None),
        }
    }
    path.in_order(a.input(), walks).map(Some)
}

/// A scan, and the row-by-row operators above it.
struct Path<'a> {
    scan: &'a LodeScanExec,
    /// For each column of the topmost operator, an expression over the scan's columns.
    outputs: Vec<Arc<dyn PhysicalExpr>>,
    /// The filters on the way, over the scan's columns.
    predicates: Vec<Arc<dyn PhysicalExpr>>,
}

impl<'a> Path<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        if let Some(scan) = plan.downcast_ref::<LodeScanExec>() {
            let may = scan.fetch().is_none() && !scan.answers_groups() && !scan.is_in_order();
            let schema = &scan.spec().schema;
            let outputs = (0..schema.fields().len()).map(|i| columns::column_at(schema, i)).collect();
            return Ok(may.then_some(Self { scan, outputs, predicates: Vec::new() }));
        }
        let passes_on = plan.is::<CooperativeExec>() || is_exchange(plan);
        let (filter, projection) = (plan.downcast_ref::<FilterExec>(), plan.downcast_ref::<ProjectionExec>());
        if plan.fetch().is_some() || (!passes_on && filter.is_none() && projection.is_none()) {
            return Ok(None);
        }
        let Some(mut path) = Self::of(plan.children()[0])? else { return Ok(None) };
        if let Some(filter) = filter {
            let predicate = path.inlined(filter.predicate())?;
            // The predicate is evaluated twice: by the scan, and where it is in the plan.
            if is_volatile(&predicate) || waits_for_subquery(&predicate) {
                return Ok(None);
            }
            path.predicates.push(predicate);
            if let Some(kept) = filter.projection() {
                path.outputs = kept.iter().map(|&i| path.outputs[i].clone()).collect();
            }
        }
        if let Some(projection) = projection {
            let outputs = projection.expr().iter().map(|e| path.inlined(&e.expr));
            path.outputs = outputs.collect::<Result<_>>()?;
        }
        Ok(Some(path))
    }

    /// An expression over the topmost columns, rewritten over the scan's columns.
    fn inlined(&self, e: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        columns::replaced(e, |place| self.outputs[place].clone())
    }

    /// The column of the scan, and of the table, that a topmost expression is.
    fn column(&self, e: &Arc<dyn PhysicalExpr>) -> Option<(usize, u16)> {
        let e = self.inlined(e).ok()?;
        let at = columns::place_of(&e)?;
        Some((at, (*self.scan.spec().output.get(at)?)?))
    }

    fn is_float(&self, column: u16) -> bool {
        self.scan.spec().table.schema().columns[usize::from(column)].data_type.is_float()
    }

    /// The first rows of an order, if an index has that order.
    fn first_rows(&self, order: &[OrderColumn], rows: usize) -> Option<FirstRows> {
        let spec = self.scan.spec();
        if !spec.path.asks_trees() {
            return None;
        }
        let order = spec.snapshot.index_order(&spec.table, spec.index_filter().as_ref(), order)?;
        let at = |c: &u16| spec.output.iter().position(|o| *o == Some(*c));
        let columns = order.columns.iter().map(at).collect::<Option<_>>()?;
        Some(FirstRows { order, columns, rows })
    }

    /// `plan`, with the scan in order.
    fn in_order(
        self,
        plan: &Arc<dyn ExecutionPlan>,
        walks: Vec<FirstRows>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ordered = Ordered { walks, predicates: self.predicates };
        replaced(plan, &Arc::new(self.scan.in_order(ordered)))
    }
}

/// `plan` with another scan at its end.
fn replaced(plan: &Arc<dyn ExecutionPlan>, scan: &Arc<LodeScanExec>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<LodeScanExec>() {
        return Ok(scan.clone());
    }
    let input = replaced(plan.children()[0], scan)?;
    replace_children_if_necessary(plan.clone(), vec![input])
}
