//! Aggregates that the drive makes: a partial aggregate right above a scan becomes part of the scan.
//!
//! ```text
//!   Aggregate(Final)                        Aggregate(Final)
//!     Repartition by key            ─►        Repartition by key
//!       Aggregate(Partial)                      LodeScanExec, groups
//!         Projection
//!           LodeScanExec, rows
//! ```
//!
//! DISTINCT, FILTER, ORDER BY, other functions and types, and expressions that do not translate stay in the plan: the
//! drive cannot compute them as DataFusion does. With `auto`, a sample decides whether the groups are few enough. On
//! a modelled device its profile also decides whether its cores are fast enough.
//!
//! Invariants: the plan's schema does not change; each state has exactly the type that the final aggregate expects.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use lode_program::{Aggregation, Call};

use crate::Offload;
use crate::arrow_convert::arrow_type;
use crate::planner;
use crate::scan::{GroupForm, LodeScanExec, StateColumn, estimate, level_cost};
use crate::semantics::CHECKED_SUM;
use crate::translate::Translator;

/// Groups that the drive keeps at a time. With their keys and states they take some megabytes of its memory.
const GROUPS_MAX: u32 = 16_384;
/// With `auto`, the average rows per group that a sample must have for the drive to aggregate.
const ROWS_A_GROUP_MIN: u64 = 4;

/// The physical rule. It runs after all of DataFusion's.
#[derive(Debug)]
pub(crate) struct AggregateInDrive;

impl PhysicalOptimizerRule for AggregateInDrive {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let in_drive = |plan: Arc<dyn ExecutionPlan>| {
            let made = plan.downcast_ref::<AggregateExec>().map(in_drive).transpose()?.flatten();
            Ok(made.map_or_else(|| Transformed::no(plan), Transformed::yes))
        };
        plan.transform_up(in_drive).data()
    }

    fn name(&self) -> &'static str {
        "aggregate_in_drive"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan that replaces an aggregate, if the drive can compute it.
fn in_drive(a: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match a.mode() {
        AggregateMode::Partial => {
            let scan = grouped_scan(a, a.schema())?;
            Ok(scan.map(|s| Arc::new(s) as Arc<dyn ExecutionPlan>))
        }
        AggregateMode::Single if a.input().properties().output_partitioning().partition_count() == 1 => {
            let group_by = Arc::new(a.group_expr().clone());
            let none = vec![None; a.aggr_expr().len()];
            let calls = a.aggr_expr().to_vec();
            let input = a.input().clone();
            let partial = AggregateExec::try_new(
                AggregateMode::Partial,
                group_by.clone(),
                calls.clone(),
                a.filter_expr().to_vec(),
                input,
                a.input_schema(),
            )?;
            let Some(scan) = grouped_scan(a, partial.schema())? else { return Ok(None) };
            let last = AggregateExec::try_new(
                AggregateMode::Final,
                group_by.as_final(),
                calls,
                none,
                Arc::new(scan),
                a.input_schema(),
            )?;
            Ok(Some(Arc::new(last)))
        }
        _ => Ok(None),
    }
}

/// The scan below an aggregate, changed to answer partial groups with the columns of `schema`.
fn grouped_scan(a: &AggregateExec, schema: SchemaRef) -> Result<Option<LodeScanExec>> {
    let plain = a.filter_expr().iter().all(Option::is_none)
        && !a.group_expr().has_grouping_set()
        && a.limit_options().is_none();
    if !plain {
        return Ok(None);
    }
    let Some(below) = Below::of(a.input()) else { return Ok(None) };
    let Some(form) = below.form(a, schema) else { return Ok(None) };
    let spec = below.scan.spec();
    // The program may still exceed a limit of programs.
    if spec.program()?.with_aggregation(form.aggregation.clone()).is_err() {
        return Ok(None);
    }
    if spec.offload == Offload::Auto {
        let of = &form.aggregation;
        let pays = level_cost::groups_pay(spec, of)?
            && (of.group_by.is_empty() || has_rows_a_group(below.scan, of)?);
        if !pays {
            return Ok(None);
        }
    }
    Ok(Some(below.scan.grouped(form)))
}

/// Whether groups have enough rows on average. On a modelled device a sample of groups takes as long as a part of the scan: there bounds say how
/// many values numbers have, and text to group by is taken to have few.
fn has_rows_a_group(scan: &LodeScanExec, of: &Aggregation) -> Result<bool> {
    let spec = scan.spec();
    if spec.snapshot.host().is_none() {
        return estimate::sample_groups(spec, of, ROWS_A_GROUP_MIN);
    }
    let columns = &spec.table.schema().columns;
    let is_number = |c: &u16| {
        !matches!(columns[usize::from(*c)].data_type, lode_page::DataType::Text | lode_page::DataType::Bytea)
    };
    let numbers: Vec<u16> = of.group_by.iter().copied().filter(is_number).collect();
    Ok(planner::rows_a_group(scan, &numbers)? >= ROWS_A_GROUP_MIN as f64)
}

/// A scan, and the projections between it and an aggregate.
struct Below<'a> {
    scan: &'a LodeScanExec,
    /// From the top.
    projections: Vec<&'a ProjectionExec>,
}

impl<'a> Below<'a> {
    /// The scan at the end of `plan`, below projections and operators that only move rows; `None` where the drive may
    /// not aggregate.
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut projections = Vec::new();
        let mut at = plan;
        loop {
            if let Some(scan) = at.downcast_ref::<LodeScanExec>() {
                let spec = scan.spec();
                // The drive does not have the changes of an open transaction yet.
                let is_committed = !spec.snapshot.has_own_changes(&spec.table);
                let may = is_committed && scan.offload().aggregates() && scan.is_plain();
                return may.then_some(Self { scan, projections });
            } else if let Some(p) = at.downcast_ref::<ProjectionExec>() {
                projections.push(p);
                at = p.input();
            } else if let Some(c) = at.downcast_ref::<CooperativeExec>() {
                at = c.input();
            } else if let Some(r) = at.downcast_ref::<RepartitionExec>()
                && matches!(r.partitioning(), Partitioning::RoundRobinBatch(_))
            {
                at = r.input();
            } else {
                return None;
            }
        }
    }

    /// An expression over the aggregate's input, rewritten over the scan's columns.
    fn inlined(&self, e: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let through = |e: Arc<dyn PhysicalExpr>, p: &&ProjectionExec| {
            let replace = |e: Arc<dyn PhysicalExpr>| {
                Ok(match e.downcast_ref::<Column>() {
                    Some(c) => Transformed::yes(p.expr()[c.index()].expr.clone()),
                    None => Transformed::no(e),
                })
            };
            e.transform_up(replace).data().ok()
        };
        self.projections.iter().try_fold(e.clone(), through)
    }

    /// The aggregation for the drive, and the columns of its answer; `None` where the result would differ from
    /// DataFusion's.
    fn form(&self, a: &AggregateExec, schema: SchemaRef) -> Option<GroupForm> {
        let spec = self.scan.spec();
        let of_table = spec.table.schema();
        let mut group_by = Vec::new();
        for (e, _) in a.group_expr().expr() {
            let e = self.inlined(e)?;
            let column = (*spec.output.get(e.downcast_ref::<Column>()?.index())?)?;
            let t = of_table.columns[usize::from(column)].data_type;
            let field = schema.field(group_by.len());
            if t.is_float() || *field.data_type() != arrow_type(t) {
                return None;
            }
            group_by.push(column);
        }
        let mut calls = Calls { schema: &schema, at: group_by.len(), calls: Vec::new(), states: Vec::new() };
        for f in a.aggr_expr() {
            self.call(f, &mut calls)?;
        }
        let names = |names: Vec<&str>| names.join(", ");
        let keys = names(a.group_expr().expr().iter().map(|(_, name)| name.as_str()).collect());
        let results = names(a.aggr_expr().iter().map(|f| f.name()).collect());
        let text = match group_by.is_empty() {
            true => format!("aggregates=[{results}]"),
            false => format!("group by=[{keys}], aggregates=[{results}]"),
        };
        let Calls { calls, states, .. } = calls;
        let aggregation = Aggregation { group_by, calls, groups_max: GROUPS_MAX };
        Some(GroupForm { aggregation, states, text, schema })
    }

    fn call(&self, f: &AggregateFunctionExpr, calls: &mut Calls<'_>) -> Option<()> {
        if f.is_distinct() || !f.order_bys().is_empty() || f.is_reversed() {
            return None;
        }
        let [argument] = &f.expressions()[..] else { return None };
        let name = f.fun().name();
        if name == "count"
            && let Some(l) = argument.downcast_ref::<Literal>()
        {
            return if l.value().is_null() { None } else { calls.state(Call::CountRows, &ArrowType::Int64) };
        }
        let spec = self.scan.spec();
        let inlined = self.inlined(argument)?;
        let t = inlined.data_type(&spec.schema).ok()?;
        let e = Translator::new(spec.table.schema(), &spec.output).argument(&inlined, &t)?;
        match name {
            "count" => calls.state(Call::Count(e), &ArrowType::Int64),
            "sum" | CHECKED_SUM => calls.sum(e, &t),
            "min" => calls.state(Call::Min(e), &t),
            "max" => calls.state(Call::Max(e), &t),
            "avg" => {
                let count = calls.index(Call::Count(e.clone()));
                calls.next(&ArrowType::UInt64, StateColumn::CountOrNull(count))?;
                calls.sum(e, &t)
            }
            _ => None,
        }
    }
}

/// The aggregation's calls as they are gathered, each once, and the states that they feed.
struct Calls<'a> {
    schema: &'a SchemaRef,
    /// The next column of the schema.
    at: usize,
    calls: Vec<Call>,
    states: Vec<StateColumn>,
}

impl Calls<'_> {
    fn index(&mut self, call: Call) -> usize {
        self.calls.iter().position(|c| *c == call).unwrap_or_else(|| {
            self.calls.push(call);
            self.calls.len() - 1
        })
    }

    /// The next state, if it is of type `t`.
    fn next(&mut self, t: &ArrowType, state: StateColumn) -> Option<()> {
        let wanted = self.schema.fields().get(self.at)?.data_type();
        self.at += 1;
        self.states.push(state);
        (wanted == t).then_some(())
    }

    fn state(&mut self, call: Call, t: &ArrowType) -> Option<()> {
        let i = self.index(call);
        self.next(t, StateColumn::Result(i))
    }

    /// A sum of an argument of type `of`. DataFusion gives the sum of a decimal more digits and the same scale.
    fn sum(&mut self, e: lode_program::Expr, of: &ArrowType) -> Option<()> {
        let wanted = self.schema.fields().get(self.at)?.data_type().clone();
        let same = match (of, &wanted) {
            (ArrowType::Int64, ArrowType::Int64) | (ArrowType::Float64, ArrowType::Float64) => true,
            (ArrowType::Decimal128(_, a), ArrowType::Decimal128(_, b)) => a == b,
            _ => false,
        };
        if !same {
            return None;
        }
        self.state(Call::Sum(e), &wanted)
    }
}
