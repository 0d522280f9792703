//! A region's joins as operators, in the order of a tree.
//!
//! Each join answers the columns alone that something above it reads. An equality is checked at the lowest join that has
//! both sides; a predicate at the lowest operator that has its columns.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::binary;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExecBuilder, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::projection::ProjectionExec;

use super::inputs::Inputs;
use super::order::Tree;
use super::region::{InputColumn, Predicate, Region, Term};
use crate::columns::{self, column_at};

/// An operator, and which column of the region each of its columns is.
struct Built {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<InputColumn>,
}

impl Built {
    fn place(&self, column: InputColumn) -> usize {
        self.columns.iter().position(|c| *c == column).expect("what is read above is answered below")
    }

    /// A term over the operator's columns.
    fn expr(&self, term: &Term) -> Result<Arc<dyn PhysicalExpr>> {
        let place = |column| self.place(InputColumn { input: term.input, column });
        moved(&term.expr, &self.plan.schema(), place)
    }
}

/// The region, joined in the order of `tree`. The answer has the columns of `schema`.
pub(super) fn rebuild(region: &Region, tree: &Tree, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
    let top = build(region, tree, &region.outputs)?;
    if top.columns == region.outputs && top.plan.schema().fields() == schema.fields() {
        return Ok(top.plan);
    }
    let answered = top.plan.schema();
    let columns = region.outputs.iter().zip(schema.fields()).map(|(column, field)| {
        let place = top.place(*column);
        (column_at(&answered, place), field.name().clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), top.plan)?))
}

fn build(region: &Region, tree: &Tree, read_above: &[InputColumn]) -> Result<Built> {
    match tree {
        Tree::Input(input) => build_input(region, *input),
        Tree::Join { build: left, probe: right, mode } => build_join(region, left, right, *mode, read_above),
    }
}

fn build_input(region: &Region, input: usize) -> Result<Built> {
    let mut plan = region.inputs[input].clone();
    let own = |p: &&Predicate| Inputs::one(input).covers(p.inputs()) && (input == 0 || !p.columns.is_empty());
    for p in region.predicates.iter().filter(own) {
        let predicate = moved(&p.expr, &plan.schema(), |i| p.columns[i].column)?;
        plan = Arc::new(FilterExec::try_new(predicate, plan)?);
    }
    let columns = (0..plan.schema().fields().len()).map(|column| InputColumn { input, column });
    Ok(Built { columns: columns.collect(), plan })
}

fn build_join(
    region: &Region,
    left: &Tree,
    right: &Tree,
    mode: PartitionMode,
    read_above: &[InputColumn],
) -> Result<Built> {
    let (left_inputs, right_inputs) = (left.inputs(), right.inputs());
    let both = left_inputs.or(right_inputs);
    let pairs: Vec<(&Term, &Term)> = region
        .classes
        .iter()
        .filter_map(|class| {
            let of = |side: Inputs| class.iter().find(|t| side.has(t.input));
            Some((of(left_inputs)?, of(right_inputs)?))
        })
        .collect();
    let is_new = |p: &&Predicate| {
        let inputs = p.inputs();
        both.covers(inputs) && !left_inputs.covers(inputs) && !right_inputs.covers(inputs)
    };
    let predicates: Vec<&Predicate> = region.predicates.iter().filter(is_new).collect();

    let mut read: Vec<InputColumn> = read_above.to_vec();
    read.extend(pairs.iter().flat_map(|(a, b)| a.columns().chain(b.columns())));
    read.extend(predicates.iter().flat_map(|p| p.columns.iter().copied()));
    let of = |side: Inputs| read.iter().copied().filter(|c| side.has(c.input)).collect::<Vec<_>>();
    let left = build(region, left, &of(left_inputs))?;
    let right = build(region, right, &of(right_inputs))?;

    let on = pairs.iter().map(|(a, b)| Ok((left.expr(a)?, right.expr(b)?))).collect::<Result<Vec<_>>>()?;
    let filter = join_filter(&predicates, &left, &right)?;
    let joined: Vec<InputColumn> = left.columns.iter().chain(&right.columns).copied().collect();
    let mut places: Vec<usize> = (0..joined.len()).filter(|&i| read_above.contains(&joined[i])).collect();
    if places.is_empty() && !joined.is_empty() {
        // A join that answers no column would answer no number of rows either.
        places.push(0);
    }
    let columns = places.iter().map(|&i| joined[i]).collect();
    let all = places.len() == joined.len();
    let projection = (!all).then_some(places);
    let plan: Arc<dyn ExecutionPlan> = if !on.is_empty() {
        HashJoinExecBuilder::new(left.plan, right.plan, on, JoinType::Inner)
            .with_filter(filter)
            .with_projection(projection)
            .with_partition_mode(mode)
            .build_exec()?
    } else if filter.is_some() {
        Arc::new(NestedLoopJoinExec::try_new(left.plan, right.plan, filter, &JoinType::Inner, projection)?)
    } else {
        let plan = Arc::new(CrossJoinExec::new(left.plan, right.plan));
        return Ok(Built { plan, columns: joined });
    };
    Ok(Built { plan, columns })
}

/// All predicates as the filter of a join of these sides.
fn join_filter(predicates: &[&Predicate], left: &Built, right: &Built) -> Result<Option<JoinFilter>> {
    let mut indices: Vec<ColumnIndex> = Vec::new();
    let mut fields = Vec::new();
    let mut whole: Option<Arc<dyn PhysicalExpr>> = None;
    let mut parts = Vec::new();
    for p in predicates {
        let mut places = Vec::new();
        for column in &p.columns {
            let (side, at) = match left.columns.contains(column) {
                true => (JoinSide::Left, left),
                false => (JoinSide::Right, right),
            };
            let index = at.place(*column);
            let known = indices.iter().position(|c| c.side == side && c.index == index);
            places.push(known.unwrap_or_else(|| {
                indices.push(ColumnIndex { index, side });
                fields.push(at.plan.schema().field(index).clone());
                indices.len() - 1
            }));
        }
        parts.push((p, places));
    }
    let schema = Arc::new(Schema::new(fields));
    for (p, places) in parts {
        let e = moved(&p.expr, &schema, |i| places[i])?;
        whole = Some(match whole {
            Some(all) => binary(all, Operator::And, e, &schema)?,
            None => e,
        });
    }
    Ok(whole.map(|e| JoinFilter::new(e, indices, schema)))
}

/// The expression over columns of `schema` at other places.
fn moved(
    e: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    place: impl Fn(usize) -> usize,
) -> Result<Arc<dyn PhysicalExpr>> {
    columns::replaced(e, |i| column_at(schema, place(i)))
}
