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
//!
//! Of a join, the rows of one table are found by the conditions on it. The values of its columns that are joined find those of the
//! next table, and so on; so the join gets all rows that it can use, and few others.
//!
//! ```text
//!   FROM lines JOIN stock ON item = id WHERE w = $1 AND order = $2
//!        lines: key (w, order, number), equal=2  ─► 10 rows ─► 10 items ─► stock: key (id) ─► 10 rows
//! ```

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
    Aggregate, Distinct, Expr, FetchType, JoinType, LogicalPlan, LogicalPlanBuilder, SkipType, Sort,
    TableScan, TableType,
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
use super::parameters::{parameter_column, parameter_name};
use crate::arrow_convert::arrow_type;
use crate::names::referenced;

/// A scan of a plan, and what its rows must pass before anything else is done with them.
pub(super) struct Source<'a> {
    scan: &'a TableScan,
    pub(super) table: Arc<Table>,
    pub(super) conditions: Vec<Expr>,
}

/// Rows of one source are joined only with rows of another one that have the same value in these columns.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    /// The source of which only such rows are needed, and its column.
    pub(super) of: (usize, u16),
    /// The source that has the values, and its column.
    pub(super) by: (usize, u16),
}

/// A plan over scans of tables.
pub(super) struct Tree<'a> {
    root: &'a LogicalPlan,
    pub(super) sources: Vec<Source<'a>>,
    pub(super) edges: Vec<Edge>,
}

impl<'a> Tree<'a> {
    /// `None` for a plan with other operators, and for scans of what is no table of the snapshot.
    pub(super) fn of(root: &'a LogicalPlan, tables: &[Arc<Table>]) -> Option<Self> {
        let mut tree = Self { root, sources: Vec::new(), edges: Vec::new() };
        tree.add(root, tables)?;
        Some(tree)
    }

    /// Adds the scans below a node. Answers the source whose rows the node only filters and renames, if there is one.
    fn add(&mut self, node: &'a LogicalPlan, tables: &[Arc<Table>]) -> Option<Option<usize>> {
        match node {
            LogicalPlan::TableScan(scan) => {
                let table = tables.iter().find(|t| t.name() == referenced(&scan.table_name))?.clone();
                self.sources.push(Source { scan, table, conditions: Vec::new() });
                let of = self.sources.len() - 1;
                self.require(of, scan.filters.iter().flat_map(split_conjunction));
                // What stands above a limit sees the first rows only.
                return Some(scan.fetch.is_none().then_some(of));
            }
            LogicalPlan::Join(join) => {
                // Whether a row without a partner on the other side changes nothing.
                let (left, right) = match join.join_type {
                    JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
                    JoinType::Left | JoinType::LeftAnti => (false, true),
                    JoinType::Right | JoinType::RightAnti => (true, false),
                    _ => return None,
                };
                self.add(&join.left, tables)?;
                self.add(&join.right, tables)?;
                for (a, b) in &join.on {
                    let side = |e: &Expr, plan: &LogicalPlan| {
                        let e = match e {
                            // Integers of two types are compared as the wider one.
                            Expr::Cast(cast) if cast.field.data_type().is_signed_integer() => {
                                cast.expr.as_ref()
                            }
                            e => e,
                        };
                        let Expr::Column(c) = e else { return None };
                        self.origin(plan, plan.schema().maybe_index_of_column(c)?)
                    };
                    let (Some((a, a_is_free)), Some((b, b_is_free))) =
                        (side(a, &join.left), side(b, &join.right))
                    else {
                        continue;
                    };
                    if meet(self.data_type(a), self.data_type(b)) {
                        self.edges.extend((left && a_is_free).then_some(Edge { of: a, by: b }));
                        self.edges.extend((right && b_is_free).then_some(Edge { of: b, by: a }));
                    }
                }
                return Some(None);
            }
            _ => {}
        }
        match node {
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => {}
            _ => return None,
        }
        let of = self.add(node.inputs()[0], tables)?;
        if let (LogicalPlan::Filter(f), Some(of)) = (node, of) {
            self.require(of, split_conjunction(&f.predicate).into_iter());
        }
        Some(of.filter(|_| passes_on(node)))
    }

    fn require<'e>(&mut self, of: usize, conditions: impl Iterator<Item = &'e Expr>) {
        let known = &mut self.sources[of].conditions;
        for condition in conditions {
            if !known.contains(condition) {
                known.push(condition.clone());
            }
        }
    }

    fn data_type(&self, (source, column): (usize, u16)) -> DataType {
        self.sources[source].table.schema().columns[usize::from(column)].data_type
    }

    /// The source and the column that a column of a node is, and whether the node needs only those rows of the source that have a value
    /// which is wanted of that column.
    fn origin(&self, node: &LogicalPlan, at: usize) -> Option<((usize, u16), bool)> {
        match node {
            LogicalPlan::TableScan(scan) => {
                let source = self.sources.iter().position(|s| std::ptr::eq(s.scan, scan))?;
                let column = self.sources[source].table.column(scan.projected_schema.field(at).name())?;
                Some(((source, column), scan.fetch.is_none()))
            }
            LogicalPlan::Projection(p) => match &p.expr[at] {
                Expr::Column(c) => self.origin(&p.input, p.input.schema().maybe_index_of_column(c)?),
                Expr::Alias(alias) => match alias.expr.as_ref() {
                    Expr::Column(c) => self.origin(&p.input, p.input.schema().maybe_index_of_column(c)?),
                    _ => None,
                },
                _ => None,
            },
            LogicalPlan::Filter(f) => self.origin(&f.input, at),
            LogicalPlan::SubqueryAlias(alias) => self.origin(&alias.input, at),
            LogicalPlan::Join(join) => {
                use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
                let left = match join.join_type {
                    RightSemi | RightAnti => 0,
                    _ => join.left.schema().fields().len(),
                };
                let (found, kept) = match at.checked_sub(left) {
                    None => {
                        let kept = matches!(join.join_type, Inner | Left | LeftSemi | LeftAnti);
                        (self.origin(&join.left, at), kept)
                    }
                    Some(at) => {
                        let kept = matches!(join.join_type, Inner | Right | RightSemi | RightAnti);
                        (self.origin(&join.right, at), kept)
                    }
                };
                found.map(|(column, is_free)| (column, is_free && kept))
            }
            _ => None,
        }
    }

    /// Which rows of the range are enough for a plan over one source.
    pub(super) fn few(&self, range: &ChosenRange) -> Few {
        self.first_rows(range).unwrap_or(Few::All(ROWS_MAX))
    }

    fn first_rows(&self, range: &ChosenRange) -> Option<Few> {
        let [source] = &self.sources[..] else { return None };
        let table = &source.table;
        let few = |n: Option<usize>| n.filter(|n| (1..=ROWS_MAX).contains(n));
        if !source.conditions.iter().all(|c| range.has(c)) {
            return None;
        }
        let mut nodes = vec![self.root];
        while let Some(input) = nodes[nodes.len() - 1].inputs().first() {
            nodes.push(input);
        }
        let columns = table.def().columns.iter();
        // Columns of the table, by the names that they have at an operator.
        let mut names: HashMap<&str, u16> = columns.zip(0..).map(|(c, n)| (c.name.as_str(), n)).collect();
        for node in nodes.iter().rev() {
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

    /// The plan over rows that were found by these ranges, one for each source, and the parameters.
    fn over_found(&self, found: &[(&ChosenRange, &Leaf)]) -> Result<LogicalPlan> {
        let (plan, _) = self.rebuilt(self.root, found)?;
        // Without a projection the parameters are in the result.
        let wanted = self.root.schema();
        if plan.schema().fields().len() == wanted.fields().len() {
            return Ok(plan);
        }
        let columns = wanted.iter().map(|(q, f)| Expr::Column(ColumnName::from((q, f))));
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    /// A node over the rows that were found, and the source whose rows it only filters and renames.
    fn rebuilt(
        &self,
        node: &LogicalPlan,
        found: &[(&ChosenRange, &Leaf)],
    ) -> Result<(LogicalPlan, Option<usize>)> {
        // The conditions that have found the rows are not evaluated again.
        let rest = |conditions: Vec<&Expr>, of: Option<usize>| {
            conjunction(conditions.into_iter().filter(|c| of.is_none_or(|of| !found[of].0.has(c))).cloned())
        };
        if let LogicalPlan::TableScan(scan) = node {
            let of = self.sources.iter().position(|s| std::ptr::eq(s.scan, scan));
            let of = of.ok_or_else(|| internal_datafusion_err!("a scan of no source"))?;
            let source = Arc::new(FoundRows { leaf: of, schema: found[of].1.seen.clone() });
            let mut made =
                LogicalPlanBuilder::scan(scan.table_name.clone(), provider_as_source(source), None)?;
            if let Some(filter) = rest(scan.filters.iter().flat_map(split_conjunction).collect(), Some(of)) {
                made = made.filter(over_parameters(filter, of)?)?;
            }
            if scan.fetch.is_some() {
                made = made.limit(0, scan.fetch)?;
            }
            return Ok((made.build()?, scan.fetch.is_none().then_some(of)));
        }
        let below = node.inputs().into_iter().map(|input| self.rebuilt(input, found));
        let mut below = below.collect::<Result<Vec<_>>>()?;
        if let LogicalPlan::Filter(f) = node
            && let Some((input, of)) = below.pop()
        {
            let made = LogicalPlanBuilder::from(input);
            let made = match rest(split_conjunction(&f.predicate), of) {
                Some(filter) => made.filter(over_parameters(filter, of.unwrap_or(0))?)?,
                None => made,
            };
            return Ok((made.build()?, of));
        }
        let of = below.first().and_then(|(_, of)| of.filter(|_| passes_on(node)));
        let names = NamePreserver::new(node);
        let with_columns = |e: Expr| {
            let name = names.save(&e);
            Ok(name.restore(over_parameters(e, 0)?))
        };
        let expressions = node.expressions().into_iter().map(with_columns).collect::<Result<Vec<_>>>()?;
        let inputs = below.into_iter().map(|(plan, _)| plan).collect();
        Ok((node.with_new_exprs(expressions, inputs)?, of))
    }

    /// The columns of a source that the plan needs, besides those by which the rows are found.
    pub(super) fn inputs(&self, of: usize, range: &ChosenRange) -> Option<Vec<u16>> {
        let Source { scan, table, .. } = &self.sources[of];
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

/// Whether a node only filters and renames the rows of its input.
fn passes_on(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Projection(p) => p.expr.iter().all(|e| matches!(e, Expr::Column(_))),
        LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => true,
        _ => false,
    }
}

/// Whether equal values of columns of these types are the same value for a key.
fn meet(a: DataType, b: DataType) -> bool {
    let is_integer = |t| matches!(t, DataType::SmallInt | DataType::Integer | DataType::BigInt);
    a == b && !a.is_float() || is_integer(a) && is_integer(b)
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
    table.schema().columns[usize::from(column)].data_type.is_float()
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

/// The expression with columns of a source in the place of parameters.
fn over_parameters(e: Expr, leaf: usize) -> Result<Expr> {
    let replaced = e.transform_up(|e| match &e {
        Expr::Placeholder(p) => match parameter_column(p, leaf) {
            Some(column) => Ok(Transformed::yes(column)),
            None => Err(internal_datafusion_err!("a parameter without a number")),
        },
        _ => Ok(Transformed::no(e)),
    });
    Ok(replaced?.data)
}

/// What the plan sees of a source: columns of its rows, then the parameters.
pub(super) fn seen(table: &Table, inputs: &[u16], types: &[DataType], leaf: usize) -> SchemaRef {
    let of_rows = inputs.iter().map(|&c| {
        let c = &table.def().columns[usize::from(c)];
        Field::new(&c.name, arrow_type(c.ty.data_type), true)
    });
    let parameters =
        types.iter().enumerate().map(|(i, &t)| Field::new(parameter_name(i, leaf), arrow_type(t), true));
    Arc::new(Schema::new(of_rows.chain(parameters).collect::<Vec<_>>()))
}

/// The columns of a source.
pub(super) struct Leaf {
    /// Those of its rows.
    pub(super) inputs: Vec<u16>,
    /// The same, then the parameters.
    pub(super) seen: SchemaRef,
}

/// The physical plan above the rows that were found.
pub(super) struct Rest {
    plan: Arc<dyn ExecutionPlan>,
    /// One for each source.
    pub(super) leaves: Vec<Leaf>,
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
}

impl Rest {
    /// The rest of a plan whose rows these ranges find, one for each source; `None` if it cannot be executed over them.
    pub(super) async fn of(
        state: &SessionState,
        tree: &Tree<'_>,
        types: &[DataType],
        ranges: &[ChosenRange],
    ) -> Option<Self> {
        let leaf = |(of, range): (usize, &ChosenRange)| {
            let inputs = tree.inputs(of, range)?;
            Some(Leaf { seen: seen(&tree.sources[of].table, &inputs, types, of), inputs })
        };
        let leaves = ranges.iter().enumerate().map(leaf).collect::<Option<Vec<_>>>()?;
        let found: Vec<(&ChosenRange, &Leaf)> = ranges.iter().zip(&leaves).collect();
        let logical = tree.over_found(&found).ok()?;
        let mut state = state.clone();
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = 1;
        options.optimizer.enable_dynamic_filter_pushdown = false;
        // The logical plan was optimized, so that only the physical one is made.
        let plan = state.query_planner().create_physical_plan(&logical, &state).await.ok()?;
        let one = plan.output_partitioning().partition_count() == 1;
        let (config, runtime) = (state.config().clone(), state.runtime_env().clone());
        one.then(|| Self { plan, leaves, config, runtime })
    }

    /// The rows of the result for the rows of each source, whose columns are those of `seen`.
    ///
    /// # Errors
    /// Those of DataFusion's operators.
    pub(super) async fn run(&self, rows: Vec<RecordBatch>) -> Result<RecordBatch> {
        let config = self.config.clone().with_extension(Arc::new(Rows(rows)));
        let (runtime, session) = (self.runtime.clone(), String::from("short"));
        let context = TaskContext::new(
            None,
            session,
            config,
            HashMap::new(),
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

/// The rows of an execution, by source.
struct Rows(Vec<RecordBatch>);

/// The table of the rows that were found.
#[derive(Debug)]
struct FoundRows {
    leaf: usize,
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
            None => Ok(Arc::new(FoundRowsExec::new(self.leaf, self.schema.clone()))),
            Some(_) => Err(internal_datafusion_err!("the rows that were found have all columns")),
        }
    }
}

/// Gives the rows of the execution, which come with its context.
#[derive(Debug)]
struct FoundRowsExec {
    leaf: usize,
    properties: Arc<PlanProperties>,
}

impl FoundRowsExec {
    fn new(leaf: usize, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { leaf, properties: Arc::new(properties) }
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
        let rows = rows.as_ref().and_then(|rows| rows.0.get(self.leaf));
        let rows = rows.ok_or_else(|| internal_datafusion_err!("an execution without rows"))?;
        let rows = stream::iter([Ok(rows.clone())]);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
