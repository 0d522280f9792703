//! The join graph of a plan: the largest part that inner joins alone connect.
//!
//! ```text
//!   HashJoinExec: b = c                      inputs     a, b, c
//!     ProjectionExec: b                      equalities a.x = b.x, b.y = c.y
//!       HashJoinExec: a = b, a.z < b.z  ─►   predicates a.z < b.z
//!         a, b                               outputs    the columns of the topmost operator
//!     c
//! ```
//!
//! Invariant: the region's rows are those of the cross product of its inputs that pass all equalities and predicates,
//! in any order.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;

use super::inputs::Inputs;
use super::unique;
use crate::columns::{self, column_at, place_of, places_read};

/// A column of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct InputColumn {
    pub(super) input: usize,
    pub(super) column: usize,
}

/// One side of an equality: an expression over the columns of one input.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) input: usize,
    pub(super) expr: Arc<dyn PhysicalExpr>,
}

impl Term {
    fn is(&self, other: &Self) -> bool {
        self.input == other.input && self.expr.eq(&other.expr)
    }

    /// The columns that it reads.
    pub(super) fn columns(&self) -> impl Iterator<Item = InputColumn> {
        let input = self.input;
        places_read(&self.expr).into_iter().map(move |column| InputColumn { input, column })
    }

    /// The column of the input, if it is one.
    pub(super) fn column(&self) -> Option<usize> {
        place_of(&self.expr)
    }
}

/// A condition that is no equality of two inputs.
#[derive(Clone, Debug)]
pub(super) struct Predicate {
    /// Its columns are places in `columns`.
    pub(super) expr: Arc<dyn PhysicalExpr>,
    pub(super) columns: Vec<InputColumn>,
}

impl Predicate {
    pub(super) fn inputs(&self) -> Inputs {
        self.columns.iter().map(|c| c.input).collect()
    }
}

/// A join graph.
#[derive(Debug, Default)]
pub(super) struct Region {
    pub(super) inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// Classes of terms that are equal in each row of the region. Each has terms of two inputs or more, and at most
    /// one of each input.
    pub(super) classes: Vec<Vec<Term>>,
    pub(super) predicates: Vec<Predicate>,
    /// The columns of the topmost operator.
    pub(super) outputs: Vec<InputColumn>,
}

impl Region {
    /// The region whose topmost join is `plan`; `None` if it is no inner join.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        if !is_inner(plan) {
            return Ok(None);
        }
        let mut taken = Taken::default();
        let outputs = taken.take(plan)?;
        let Taken { inputs, equalities, mut predicates } = taken;
        if inputs.len() < 2 {
            return Ok(None);
        }
        let classes = classes(&inputs, equalities, &mut predicates)?;
        Ok(Some(Self { inputs, classes, predicates, outputs }))
    }

    /// The columns of an input that equal something of the others.
    pub(super) fn columns_met(&self, input: usize, others: Inputs) -> Vec<usize> {
        let met = self.classes.iter().filter(|c| c.iter().any(|t| others.has(t.input)));
        met.flat_map(|c| c.iter().filter(|t| t.input == input).filter_map(Term::column)).collect()
    }
}

fn is_inner(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<HashJoinExec>() {
        Some(join) => {
            is_like_inner(join)
                && join.null_equality() == NullEquality::NullEqualsNothing
                && join.fetch().is_none()
        }
        None => plan.is::<CrossJoinExec>(),
    }
}

/// Whether the join answers a row for each pair of rows that match. A semi-join does if its other side has each key once.
fn is_like_inner(join: &HashJoinExec) -> bool {
    let keys = |right: bool| join.on().iter().map(move |(a, b)| if right { b } else { a });
    let (other, keys): (_, Vec<_>) = match join.join_type() {
        JoinType::Inner => return true,
        JoinType::LeftSemi => (join.right(), keys(true).collect()),
        JoinType::RightSemi => (join.left(), keys(false).collect()),
        _ => return false,
    };
    let met: Vec<usize> = keys.into_iter().filter_map(place_of).collect();
    unique::keys(other).iter().any(|key| key.iter().all(|c| met.contains(c)))
}

#[derive(Default)]
struct Taken {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    equalities: Vec<(Term, Term)>,
    predicates: Vec<Predicate>,
}

impl Taken {
    /// Takes `plan` into the region, as operators that it can order or as an input. Returns its columns.
    fn take(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<InputColumn>> {
        let before = (self.inputs.len(), self.equalities.len(), self.predicates.len());
        if let Some(columns) = self.take_operator(plan)? {
            return Ok(columns);
        }
        self.inputs.truncate(before.0);
        self.equalities.truncate(before.1);
        self.predicates.truncate(before.2);
        let input = self.inputs.len();
        self.inputs.push(plan.clone());
        Ok((0..plan.schema().fields().len()).map(|column| InputColumn { input, column }).collect())
    }

    /// An expression over `columns` as a term; `None` if it reads no input, or several.
    fn term(&self, e: &Arc<dyn PhysicalExpr>, columns: &[InputColumn]) -> Result<Option<Term>> {
        let read = places_read(e);
        let Some(input) = read.first().map(|i| columns[*i].input) else { return Ok(None) };
        if read.iter().any(|i| columns[*i].input != input) || is_volatile(e) {
            return Ok(None);
        }
        let schema = self.inputs[input].schema();
        let expr = columns::replaced(e, |i| column_at(&schema, columns[i].column))?;
        Ok(Some(Term { input, expr }))
    }

    fn take_operator(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Vec<InputColumn>>> {
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let places: Option<Vec<usize>> = projection
                .expr()
                .iter()
                .map(|p| p.expr.downcast_ref::<Column>().map(Column::index))
                .collect();
            let Some(places) = places.filter(|_| leads_to_join(plan)) else { return Ok(None) };
            let columns = self.take(projection.input())?;
            return Ok(Some(places.into_iter().map(|i| columns[i]).collect()));
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let plain = filter.projection().is_none() && filter.fetch().is_none();
            if !plain || is_volatile(filter.predicate()) || !leads_to_join(plan) {
                return Ok(None);
            }
            let columns = self.take(filter.input())?;
            self.predicates.push(predicate(filter.predicate(), |i| columns[i])?);
            return Ok(Some(columns));
        }
        if !is_inner(plan) {
            return Ok(None);
        }
        let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
            let mut columns = Vec::new();
            for side in plan.children() {
                columns.extend(self.take(side)?);
            }
            return Ok(Some(columns));
        };
        let (left, right) = (self.take(join.left())?, self.take(join.right())?);
        for (a, b) in join.on() {
            let (Some(a), Some(b)) = (self.term(a, &left)?, self.term(b, &right)?) else { return Ok(None) };
            self.equalities.push((a, b));
        }
        if let Some(filter) = join.filter() {
            if is_volatile(filter.expression()) {
                return Ok(None);
            }
            let place = |i: usize| side_column(filter, i, &left, &right);
            self.predicates.push(predicate(filter.expression(), place)?);
        }
        let both: Vec<InputColumn> = match join.join_type() {
            JoinType::LeftSemi => left,
            JoinType::RightSemi => right,
            _ => left.into_iter().chain(right).collect(),
        };
        Ok(Some(match &join.projection {
            Some(places) => places.iter().map(|&i| both[i]).collect(),
            None => both,
        }))
    }
}

/// Whether row-by-row operators lead from `plan` down to an inner join.
fn leads_to_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(p) = plan.downcast_ref::<ProjectionExec>() {
        return leads_to_join(p.input());
    }
    if let Some(f) = plan.downcast_ref::<FilterExec>() {
        return leads_to_join(f.input());
    }
    is_inner(plan)
}

fn side_column(filter: &JoinFilter, i: usize, left: &[InputColumn], right: &[InputColumn]) -> InputColumn {
    let at = &filter.column_indices()[i];
    if at.side == JoinSide::Left { left[at.index] } else { right[at.index] }
}

/// A condition over columns at other places.
fn predicate(e: &Arc<dyn PhysicalExpr>, column: impl Fn(usize) -> InputColumn) -> Result<Predicate> {
    let read = places_read(e);
    let columns: Vec<InputColumn> = read.iter().map(|i| column(*i)).collect();
    let place = |i: usize| read.binary_search(&i).expect("the expression reads it");
    // The operator that gets the predicate names its columns.
    let expr = columns::replaced(e, |i| Arc::new(Column::new("", place(i))))?;
    Ok(Predicate { expr, columns })
}

/// The classes of terms that the equalities make equal. Two terms of one input in a class become a predicate.
fn classes(
    inputs: &[Arc<dyn ExecutionPlan>],
    equalities: Vec<(Term, Term)>,
    predicates: &mut Vec<Predicate>,
) -> Result<Vec<Vec<Term>>> {
    let mut classes: Vec<Vec<Term>> = Vec::new();
    for (a, b) in equalities {
        let class_of = |t: &Term| classes.iter().position(|c| c.iter().any(|m| m.is(t)));
        match (class_of(&a), class_of(&b)) {
            (Some(i), Some(j)) if i == j => {}
            (Some(i), Some(j)) => {
                let merged = classes.remove(i.max(j));
                classes[i.min(j)].extend(merged);
            }
            (Some(i), None) => classes[i].push(b),
            (None, Some(j)) => classes[j].push(a),
            (None, None) => classes.push(vec![a, b]),
        }
    }
    for class in &mut classes {
        let mut one_each: Vec<Term> = Vec::new();
        for term in std::mem::take(class) {
            match one_each.iter().find(|t| t.input == term.input) {
                Some(first) => predicates.push(equal(inputs, first, &term)?),
                None => one_each.push(term),
            }
        }
        *class = one_each;
    }
    classes.retain(|c| c.len() > 1);
    Ok(classes)
}

/// `a = b` for two terms of one input.
fn equal(inputs: &[Arc<dyn ExecutionPlan>], a: &Term, b: &Term) -> Result<Predicate> {
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::binary;
    let schema = inputs[a.input].schema();
    let e = binary(a.expr.clone(), Operator::Eq, b.expr.clone(), &schema)?;
    predicate(&e, |column| InputColumn { input: a.input, column })
}
