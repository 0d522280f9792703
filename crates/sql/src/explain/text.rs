//! The plan of a query as text: a line for each operator, with the rows that are expected of it and, once it ran, what it counted.
//!
//! ```text
//!   HashJoinExec: ..., expected_rows=57, metrics=[output_rows=57, ...]
//!     LodeScanExec: table=orders, ..., expected_rows=1500000, metrics=[...]
//! ```
//!
//! Forms other than the indented one, and EXPLAIN VERBOSE, are DataFusion's.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::format::{ExplainAnalyzeCategories, ExplainFormat, MetricType};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Analyze, Explain, LogicalPlan};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, SendableRecordBatchStream, execute_stream,
};
use futures::{StreamExt, stream};

use super::expected::expected_rows;
use crate::SqlError;
use crate::explain_rows::explain_rows;
use crate::session::{check_reads, start};

/// Starts a statement that explains a plan.
///
/// # Errors
/// When the plan cannot be made.
pub(super) async fn start_explained(
    state: &SessionState,
    statement: &LogicalPlan,
) -> Result<(SchemaRef, SendableRecordBatchStream), SqlError> {
    check_reads(statement)?;
    match statement {
        LogicalPlan::Explain(explain) if is_ours(state, explain) => planned(state, explain).await,
        LogicalPlan::Analyze(analyze) if is_ours_analyzed(state, analyze) => analyzed(state, statement).await,
        other => start(state, other).await,
    }
}

fn is_ours(state: &SessionState, explain: &Explain) -> bool {
    let set = &state.config_options().explain;
    explain.explain_format == ExplainFormat::Indent
        && !explain.verbose
        && !set.logical_plan_only
        && !set.physical_plan_only
        && !set.show_schema
        && !explain.show_statistics.unwrap_or(set.show_statistics)
}

fn is_ours_analyzed(state: &SessionState, analyze: &Analyze) -> bool {
    let set = &state.config_options().explain;
    analyze.format == ExplainFormat::Indent
        && !analyze.verbose
        && !set.show_statistics
        && analyze.analyze_level.unwrap_or(set.analyze_level) == MetricType::Dev
        && analyze.analyze_categories.is_none()
        && set.analyze_categories == ExplainAnalyzeCategories::All
}

async fn planned(
    state: &SessionState,
    explain: &Explain,
) -> Result<(SchemaRef, SendableRecordBatchStream), SqlError> {
    let logical = state.optimize(&explain.plan)?;
    let physical = state.query_planner().create_physical_plan(&logical, state).await?;
    let text = AsText { plan: &physical, expected: &expected_rows(&physical)?, is_analyzed: false };
    let schema: SchemaRef = explain.schema.inner().clone();
    let rows = [("logical_plan", logical.display_indent().to_string()), ("physical_plan", text.to_string())];
    let rows = explain_rows(&schema, &rows)?;
    Ok((schema.clone(), Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter([Ok(rows)])))))
}

async fn analyzed(
    state: &SessionState,
    statement: &LogicalPlan,
) -> Result<(SchemaRef, SendableRecordBatchStream), SqlError> {
    let physical = state.create_physical_plan(statement).await?;
    let Some(analyze) = physical.downcast_ref::<AnalyzeExec>() else {
        // A rule put something above it.
        let stream = execute_stream(physical, state.task_ctx())?;
        return Ok((stream.schema(), stream));
    };
    let plan = analyze.input().clone();
    let expected = expected_rows(&plan)?;
    let ran = execute_stream(physical, state.task_ctx())?;
    let schema = ran.schema();
    // What DataFusion writes of the plan is replaced: the plan has run by then.
    let of = schema.clone();
    let rows = ran.map(move |written| {
        written?;
        let text = AsText { plan: &plan, expected: &expected, is_analyzed: true };
        explain_rows(&of, &[("Plan with Metrics", text.to_string())])
    });
    Ok((schema.clone(), Box::pin(RecordBatchStreamAdapter::new(schema, rows))))
}

/// A plan as lines.
struct AsText<'a> {
    plan: &'a Arc<dyn ExecutionPlan>,
    /// The rows that are expected of each operator, in the order of the lines.
    expected: &'a [u64],
    is_analyzed: bool,
}

impl fmt::Display for AsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut expected = self.expected.iter();
        self.lines(self.plan, 0, &mut expected, f)
    }
}

impl AsText<'_> {
    fn lines(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        depth: usize,
        expected: &mut std::slice::Iter<'_, u64>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        write!(f, "{:1$}", "", depth * 2)?;
        plan.fmt_as(DisplayFormatType::Default, f)?;
        if let Some(rows) = expected.next() {
            write!(f, ", expected_rows={rows}")?;
        }
        if self.is_analyzed {
            match plan.metrics() {
                Some(metrics) => {
                    let metrics = metrics.aggregate_by_name().sorted_for_display().timestamps_removed();
                    write!(f, ", metrics=[{metrics}]")?;
                }
                None => f.write_str(", metrics=[]")?,
            }
        }
        f.write_char('\n')?;
        plan.children().into_iter().try_for_each(|input| self.lines(input, depth + 1, expected, f))
    }
}
