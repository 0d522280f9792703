//! Frames of windows.
//!
//! ```text
//!   OVER (ORDER BY k)          ─► RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW     written out before planning
//!   k is a key of the rows     ─► ROWS  BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW     no two rows are peers
//! ```
//!
//! DataFusion takes frames of rows as soon as a key of an input orders a window, also where a join or a group has repeated it. With the frame
//! written out it does not. A rule takes rows where the partition and the order together hold a key; a frame of rows needs no search for peers.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Dependency, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Window, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast;

/// Writes out the frame of a window that has an order and no frame.
pub(crate) fn write_out(window: &mut ast::WindowSpec) {
    if !window.order_by.is_empty() && window.window_frame.is_none() {
        window.window_frame = Some(ast::WindowFrame {
            units: ast::WindowFrameUnits::Range,
            start_bound: ast::WindowFrameBound::Preceding(None),
            end_bound: Some(ast::WindowFrameBound::CurrentRow),
        });
    }
}

/// Makes a range up to the current row a frame of rows where no two rows are peers.
#[derive(Debug)]
pub(crate) struct FramesOfRows;

impl OptimizerRule for FramesOfRows {
    fn name(&self) -> &'static str {
        "frames_of_rows"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Window(window) = plan else { return Ok(Transformed::no(plan)) };
        let input = window.input.schema();
        if !window.window_expr.iter().any(|e| is_for_rows(e, input)) {
            return Ok(Transformed::no(LogicalPlan::Window(window)));
        }
        let Window { input, window_expr, schema } = window;
        let names = NamePreserver::new_for_projection();
        let by_rows = |e: Expr| {
            if is_for_rows(&e, input.schema()) {
                let name = names.save(&e);
                name.restore(with_rows(e))
            } else {
                e
            }
        };
        let window_expr = window_expr.into_iter().map(by_rows).collect();
        let window = Window::try_new_with_schema(window_expr, Arc::clone(&input), schema)?;
        Ok(Transformed::yes(LogicalPlan::Window(window)))
    }
}

fn function(e: &Expr) -> Option<&WindowFunction> {
    match e {
        Expr::WindowFunction(f) => Some(f),
        Expr::Alias(alias) => function(&alias.expr),
        _ => None,
    }
}

fn is_for_rows(e: &Expr, input: &DFSchema) -> bool {
    let Some(f) = function(e) else { return false };
    let frame = &f.params.window_frame;
    let up_to_here = frame.units == WindowFrameUnits::Range
        && frame.start_bound.is_unbounded()
        && frame.end_bound == WindowFrameBound::CurrentRow;
    let order = f.params.order_by.iter().map(|by| &by.expr);
    let given: Vec<usize> = order
        .chain(&f.params.partition_by)
        .filter_map(|e| e.try_as_col().and_then(|column| input.maybe_index_of_column(column)))
        .collect();
    up_to_here
        && input.functional_dependencies().iter().any(|key| {
            key.mode == Dependency::Single
                && !key.nullable
                && key.source_indices.iter().all(|source| given.contains(source))
        })
}

fn with_rows(e: Expr) -> Expr {
    match e {
        Expr::WindowFunction(mut f) => {
            f.params.window_frame = WindowFrame::new_bounds(
                WindowFrameUnits::Rows,
                WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
                WindowFrameBound::CurrentRow,
            );
            Expr::WindowFunction(f)
        }
        Expr::Alias(mut alias) => {
            alias.expr = Box::new(with_rows(*alias.expr));
            Expr::Alias(alias)
        }
        other => other,
    }
}
