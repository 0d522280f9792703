//! What a short statement does with the rows that were found, if that is more than to compute columns: DataFusion's physical plan,
//! made once.
//!
//! ```text
//!   Sort: c DESC, fetch=1                    SortExec
//!     Projection: c                    ─►      ProjectionExec
//!       Filter: a = $1 AND d > $2                FilterExec: d > parameter 2
//!         TableScan                                FoundRowsExec: columns of the rows, then the parameters
//! ```
//!
//! The condition `a = $1` has found the rows, and is not evaluated again.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session as CatalogSession, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as ColumnName, internal_datafusion_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, Sort, TableType,
};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, reset_plan_states,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion::prelude::SessionConfig;
use futures::{TryStreamExt, stream};
use lode_engine::{Few, Table};
use lode_page::DataType;

use super::access::{ChosenRange, ROWS_MAX};
use super::plan::parameter_name;
use crate::types::arrow_schema;

/// The operators of a plan, from the topmost to the scan, and how many of them, from the scan on, only filter and rename.
pub(super) struct Chain<'a> {
    nodes: Vec<&'a LogicalPlan>,
    bottom: usize,
    /// What the rows must pass.
    pub(super) conditions: Vec<Expr>,
}

impl<'a> Chain<'a> {
    /// The operators of a plan that has one input, a scan of this table; `None` for any other plan.
    pub(super) fn of(plan: &'a LogicalPlan, table: &str) -> Option<Self> {
        let mut nodes = vec![plan];
        loop {
            let node = nodes[nodes.len() - 1];
            nodes.push(match node {
                LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Distinct(Distinct::All(_)) => node.inputs()[0],
                LogicalPlan::TableScan(scan) if scan.table_name.table() == table => break,
                _ => return None,
            });
        }
        let passes_on = |node: &&&LogicalPlan| match node {
            LogicalPlan::Projection(p) => p.expr.iter().all(|e| matches!(e, Expr::Column(_))),
            LogicalPlan::TableScan(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => true,
            _ => false,
        };
        let bottom = match nodes.last() {
            // What stands above a limit sees the first rows only.
            Some(LogicalPlan::TableScan(scan)) if scan.fetch.is_some() => 1,
            _ => nodes.iter().rev().take_while(passes_on).count(),
        };
        let mut conditions: Vec<Expr> = Vec::new();
        for node in nodes.iter().rev().take(bottom) {
            let of_node: Vec<&Expr> = match node {
                LogicalPlan::TableScan(scan) => scan.filters.iter().flat_map(split_conjunction).collect(),
                LogicalPlan::Filter(f) => split_conjunction(&f.predicate),
                _ => Vec::new(),
            };
            for condition in of_node {
                if !conditions.contains(condition) {
                    conditions.push(condition.clone());
                }
            }
        }
        Some(Self { nodes, bottom, conditions })
    }

    /// Which rows of a range are enough for the plan.
    pub(super) fn few(&self, table: &Table, range: &ChosenRange) -> Few {
        self.first_rows(table, range).unwrap_or(Few::All(ROWS_MAX))
    }

    fn first_rows(&self, table: &Table, range: &ChosenRange) -> Option<Few> {
        let few = |n: Option<usize>| n.filter(|n| (1..=ROWS_MAX).contains(n));
        if !self.conditions.iter().all(|c| range.has(c)) {
            return None;
        }
        let columns = table.def().columns.iter();
        // Columns of the table, by the names that they have at an operator.
        let mut names: HashMap<&str, u16> = columns.zip(0..).map(|(c, n)| (c.name.as_str(), n)).collect();
        for node in self.nodes.iter().rev() {
            match node {
                LogicalPlan::TableScan(scan) if scan.fetch.is_some() => {
                    return few(scan.fetch).map(Few::First);
                }
                LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) => {}
                LogicalPlan::Projection(p) => {
                    let named = p.schema.fields().iter().zip(&p.expr);
                    let named =
                        named.filter_map(|(field, e)| Some((field.name().as_str(), column(e, &names)?)));
                    names = named.collect();
                }
                LogicalPlan::Limit(limit) => {
                    let skip = match limit.get_skip_type().ok()? {
                        SkipType::Literal(n) => n,
                        SkipType::UnsupportedExpr => return None,
                    };
                    let FetchType::Literal(fetch) = limit.get_fetch_type().ok()? else { return None };
                    return few(fetch?.checked_add(skip)).map(Few::First);
                }
                LogicalPlan::Sort(sort) => {
                    let n = few(sort.fetch)?;
                    let ends = sorted_by(table, range, sort, &names)?;
                    return Some(if ends { Few::Last(n) } else { Few::First(n) });
                }
                LogicalPlan::Aggregate(a) => {
                    let ends = is_extreme(table, range, a, &names)?;
                    return Some(if ends { Few::Last(1) } else { Few::First(1) });
                }
                _ => return None,
            }
        }
        None
    }

    /// The plan over rows with these columns, and the parameters.
    fn above(
        &self,
        table: &Table,
        inputs: &[u16],
        types: &[DataType],
        range: &ChosenRange,
    ) -> Result<LogicalPlan> {
        let mut plan: Option<LogicalPlan> = None;
        for (i, node) in self.nodes.iter().rev().enumerate() {
            let rest = |conditions: Vec<&Expr>| {
                let left = conditions.into_iter().filter(|c| i >= self.bottom || !range.has(c));
                conjunction(left.cloned())
            };
            let (below, filter, fetch) = match (node, plan.take()) {
                (LogicalPlan::TableScan(scan), _) => {
                    let source = Arc::new(FoundRows { schema: seen(table, inputs, types) });
                    let found =
                        LogicalPlanBuilder::scan(scan.table_name.clone(), provider_as_source(source), None)?;
                    let filters = scan.filters.iter().flat_map(split_conjunction).collect();
                    (found.build()?, rest(filters), scan.fetch)
                }
                (LogicalPlan::Filter(f), Some(below)) => (below, rest(split_conjunction(&f.predicate)), None),
                (node, Some(below)) => {
                    let names = NamePreserver::new(node);
                    let with_columns = |e: Expr| {
                        let name = names.save(&e);
                        Ok(name.restore(over_parameters(e)?))
                    };
                    let expressions =
                        node.expressions().into_iter().map(with_columns).collect::<Result<Vec<_>>>()?;
                    (node.with_new_exprs(expressions, vec![below])?, None, None)
                }
                (_, None) => return Err(internal_datafusion_err!("a plan without a scan")),
            };
            let mut made = LogicalPlanBuilder::from(below);
            if let Some(filter) = filter {
                made = made.filter(over_parameters(filter)?)?;
            }
            if fetch.is_some() {
                made = made.limit(0, fetch)?;
            }
            plan = Some(made.build()?);
        }
        let plan = plan.ok_or_else(|| internal_datafusion_err!("a plan without operators"))?;
        // Without a projection the parameters are in the result.
        let wanted = self.nodes[0].schema();
        if plan.schema().fields().len() == wanted.fields().len() {
            return Ok(plan);
        }
        let columns = wanted.iter().map(|(q, f)| Expr::Column(ColumnName::from((q, f))));
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    /// The columns of the table that the plan needs, besides those by which the rows are found.
    fn inputs(&self, table: &Table, range: &ChosenRange) -> Option<Vec<u16>> {
        let Some(LogicalPlan::TableScan(scan)) = self.nodes.last() else { return None };
        let of_scan = scan.projected_schema.fields().iter().map(|f| f.name().clone());
        let residual = scan.filters.iter().flat_map(split_conjunction).filter(|c| !range.has(c));
        let of_filters = residual.flat_map(|c| c.column_refs().into_iter().map(|c| c.name.clone()));
        let mut inputs = Vec::new();
        for name in of_scan.chain(of_filters) {
            let column = table.column(&name)?;
            if !inputs.contains(&column) {
                inputs.push(column);
            }
        }
        Some(inputs)
    }
}

/// The column of the table that an expression is.
fn column(e: &Expr, names: &HashMap<&str, u16>) -> Option<u16> {
    match e {
        Expr::Column(c) => names.get(c.name.as_str()).copied(),
        Expr::Alias(alias) => column(&alias.expr, names),
        _ => None,
    }
}

fn is_float(table: &Table, column: u16) -> bool {
    matches!(table.schema().columns[usize::from(column)].data_type, DataType::Real | DataType::Double)
}

/// Whether a sort wants the rows from the end of the range's order; `None` if it wants another order.
fn sorted_by(table: &Table, range: &ChosenRange, sort: &Sort, names: &HashMap<&str, u16>) -> Option<bool> {
    let fixed = &range.order.columns[..range.equal.len()];
    let mut next = range.order.columns[range.equal.len()..].iter();
    let mut backward = None;
    for by in &sort.expr {
        let c = column(&by.expr, names)?;
        if fixed.contains(&c) {
            continue;
        }
        let nulls = !table.schema().columns[usize::from(c)].nullable || by.nulls_first != by.asc;
        let follows = next.next() == Some(&c) && nulls && !is_float(table, c);
        if !follows || *backward.get_or_insert(!by.asc) == by.asc {
            return None;
        }
    }
    Some(backward.unwrap_or(false))
}

/// Whether an aggregate wants the last row of the range: it is `max` of the column behind those that are fixed, or `min`, which wants
/// the first.
fn is_extreme(table: &Table, range: &ChosenRange, a: &Aggregate, names: &HashMap<&str, u16>) -> Option<bool> {
    let wanted = *range.order.columns.get(range.equal.len())?;
    let [e] = &a.aggr_expr[..] else { return None };
    let e = match e {
        Expr::Alias(alias) => &alias.expr,
        e => e,
    };
    let Expr::AggregateFunction(f) = e else { return None };
    let [argument] = &f.params.args[..] else { return None };
    let plain = a.group_expr.is_empty() && f.params.filter.is_none() && f.params.order_by.is_empty();
    let nullable = table.schema().columns[usize::from(wanted)].nullable;
    if !plain || nullable || is_float(table, wanted) || column(argument, names) != Some(wanted) {
        return None;
    }
    match f.func.name() {
        "min" => Some(false),
        "max" => Some(true),
        _ => None,
    }
}

/// The expression with columns in the place of parameters.
fn over_parameters(e: Expr) -> Result<Expr> {
    let replaced = e.transform_up(|e| match &e {
        Expr::Placeholder(p) => match p.id.strip_prefix('$').and_then(|n| n.parse::<usize>().ok()) {
            Some(n) if n > 0 => {
                Ok(Transformed::yes(Expr::Column(ColumnName::from_name(parameter_name(n - 1)))))
            }
            _ => Err(internal_datafusion_err!("a parameter without a number")),
        },
        _ => Ok(Transformed::no(e)),
    });
    Ok(replaced?.data)
}

/// What the plan sees: columns of the rows, then the parameters.
pub(super) fn seen(table: &Table, inputs: &[u16], types: &[DataType]) -> SchemaRef {
    let arrow = arrow_schema(table.def());
    let of_rows = inputs.iter().map(|&c| arrow.field(usize::from(c)).clone().with_nullable(true));
    let parameters = types
        .iter()
        .enumerate()
        .map(|(i, &t)| Field::new(parameter_name(i), crate::arrow_convert::arrow_type(t), true));
    Arc::new(Schema::new(of_rows.chain(parameters).collect::<Vec<_>>()))
}

/// The physical plan above the rows that were found.
pub(super) struct Rest {
    plan: Arc<dyn ExecutionPlan>,
    /// The columns of the rows.
    pub(super) inputs: Vec<u16>,
    /// The columns of the rows, then the parameters.
    pub(super) seen: SchemaRef,
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
}

impl Rest {
    /// The rest of a plan whose rows a range finds; `None` if it cannot be executed over them.
    pub(super) async fn of(
        state: &SessionState,
        chain: &Chain<'_>,
        table: &Table,
        types: &[DataType],
        range: &ChosenRange,
    ) -> Option<Self> {
        let inputs = chain.inputs(table, range)?;
        let logical = chain.above(table, &inputs, types, range).ok()?;
        let mut state = state.clone();
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = 1;
        options.optimizer.enable_dynamic_filter_pushdown = false;
        // The logical plan was optimized, so that only the physical one is made.
        let plan = state.query_planner().create_physical_plan(&logical, &state).await.ok()?;
        let one = plan.output_partitioning().partition_count() == 1;
        let (config, runtime) = (state.config().clone(), state.runtime_env().clone());
        one.then(|| Self { plan, seen: seen(table, &inputs, types), inputs, config, runtime })
    }

    /// The rows of the result for these rows; the types of the columns are those of `seen`.
    ///
    /// # Errors
    /// Those of DataFusion's operators.
    pub(super) async fn run(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let config = self.config.clone().with_extension(Arc::new(Rows(rows)));
        let (runtime, session) = (self.runtime.clone(), String::from("short"));
        let none = HashMap::new;
        let context = TaskContext::new(
            None,
            session,
            config,
            none(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            runtime,
        );
        // A sort keeps what it knows of the rows that it has seen.
        let plan = reset_plan_states(self.plan.clone())?;
        let batches: Vec<RecordBatch> = plan.execute(0, Arc::new(context))?.try_collect().await?;
        Ok(concat_batches(&plan.schema(), &batches)?)
    }
}

/// The rows of an execution.
struct Rows(RecordBatch);

/// The table of the rows that were found.
#[derive(Debug)]
struct FoundRows {
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for FoundRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match projection {
            None => Ok(Arc::new(FoundRowsExec::new(self.schema.clone()))),
            Some(_) => Err(internal_datafusion_err!("the rows that were found have all columns")),
        }
    }
}

/// Gives the rows of the execution, which come with its context.
#[derive(Debug)]
struct FoundRowsExec {
    properties: Arc<PlanProperties>,
}

impl FoundRowsExec {
    fn new(schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { properties: Arc::new(properties) }
    }
}

impl DisplayAs for FoundRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FoundRowsExec")
    }
}

impl ExecutionPlan for FoundRowsExec {
    fn name(&self) -> &'static str {
        "FoundRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = context.session_config().get_extension::<Rows>();
        let rows = rows.ok_or_else(|| internal_datafusion_err!("an execution without rows"))?;
        let rows = stream::iter([Ok(rows.0.clone())]);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
