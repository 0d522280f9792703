//! Functional dependencies of groups and of unnested lists, as they are.
//!
//! ```text
//!   c ⋈ b on c.a_id = b.p          {c.id} ─► c.a_id         a row of c may come several times
//!   GROUP BY b.q, c.id             {b.q, c.id} is unique    c.id alone is not: it does not say b.q
//! ```
//!
//! DataFusion takes a key of an input for unique among the groups as soon as the GROUP BY names it, and keys of rows for unique although lists
//! of them are unnested. Its rules then make semi-joins of joins, leave out a DISTINCT, and group by fewer columns. This rule computes the
//! dependencies anew. It stands before each rule that reads them, because each rule that rebuilds a group computes them in DataFusion's way.
//!
//! Source: the closure of a set of attributes, W. W. Armstrong, "Dependency Structures of Data Base Relationships", IFIP 1974.

mod relation;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Dependency, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Unnest};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

pub(crate) use relation::RelationsInFrom;

/// Corrects the functional dependencies of a plan.
#[derive(Debug)]
pub(crate) struct Dependencies;

impl OptimizerRule for Dependencies {
    fn name(&self) -> &'static str {
        "functional_dependencies"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if are_right(&plan)? { Ok(Transformed::no(plan)) } else { correct(plan) }
    }
}

/// A rule of DataFusion that makes groups and reads, at the nodes above, what they determine: it corrects each plan that it makes.
#[derive(Debug)]
pub(crate) struct Corrected(pub(crate) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Corrected {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let made = self.0.rewrite(plan, config)?;
        if made.transformed { made.map_data(corrected_plan) } else { Ok(made) }
    }
}

/// The plan with the right dependencies.
fn corrected_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    if are_right(&plan)? { Ok(plan) } else { Ok(correct(plan)?.data) }
}

fn are_right(plan: &LogicalPlan) -> Result<bool> {
    let mut are_right = true;
    plan.apply_with_subqueries(|node| {
        are_right &= corrected(node)?.is_none();
        Ok(if are_right { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(are_right)
}

/// Corrects `plan` from its leaves upwards. A node above a correction computes its own dependencies from it.
fn correct(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let below = plan.map_children(correct)?;
    let plan = if below.transformed { below.data.recompute_schema()? } else { below.data };
    let inner = plan.map_subqueries(correct)?;
    let changed = below.transformed || inner.transformed;
    let Some(schema) = corrected(&inner.data)? else {
        return Ok(if changed { Transformed::yes(inner.data) } else { Transformed::no(inner.data) });
    };
    let plan = match inner.data {
        LogicalPlan::Aggregate(mut aggregate) => {
            aggregate.schema = schema;
            LogicalPlan::Aggregate(aggregate)
        }
        LogicalPlan::Unnest(unnest) => LogicalPlan::Unnest(Unnest { schema, ..unnest }),
        other => other,
    };
    Ok(Transformed::yes(plan))
}

/// The schema of a node with the right dependencies, `None` if it has them.
fn corrected(plan: &LogicalPlan) -> Result<Option<DFSchemaRef>> {
    let schema = plan.schema();
    let right = match plan {
        LogicalPlan::Aggregate(aggregate) => of_groups(aggregate),
        LogicalPlan::Unnest(unnest) => of_lists(unnest),
        _ => return Ok(None),
    };
    if right == *schema.functional_dependencies() {
        return Ok(None);
    }
    Ok(Some(Arc::new(schema.as_ref().clone().with_functional_dependencies(right)?)))
}

/// The dependencies of groups: each that the input has between columns of the GROUP BY, and that these together are unique.
fn of_groups(aggregate: &Aggregate) -> FunctionalDependencies {
    let (input, schema) = (aggregate.input.schema(), &aggregate.schema);
    // Groups by grouping sets have none.
    if schema.functional_dependencies().is_empty() {
        return FunctionalDependencies::empty();
    }
    let groups = schema.fields().len() - aggregate.aggr_expr.len();
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    // The column of the input that a group is, if it is one.
    let column = |group: &Expr| match group {
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    };
    let columns: Vec<Option<usize>> = aggregate.group_expr.iter().map(column).collect();
    let mut found: Vec<FunctionalDependence> = Vec::new();
    for dependence in input.functional_dependencies().iter() {
        let place = |source: &usize| columns.iter().position(|c| c.as_ref() == Some(source));
        let Some(sources) = dependence.source_indices.iter().map(place).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let known = closure(&dependence.source_indices, input.functional_dependencies());
        let targets: Vec<usize> =
            (0..columns.len()).filter(|at| columns[*at].is_some_and(|c| known.contains(&c))).collect();
        let is_key = targets.len() == groups;
        let (targets, mode) =
            if is_key { (all.clone(), Dependency::Single) } else { (targets, Dependency::Multi) };
        found.push(FunctionalDependence::new(sources, targets, dependence.nullable).with_mode(mode));
    }
    if groups > 0 && !found.iter().any(|d| d.mode == Dependency::Single) {
        let nullable = schema.fields()[..groups].iter().any(|f| f.is_nullable());
        let key = FunctionalDependence::new((0..groups).collect(), all, nullable);
        found.push(key.with_mode(Dependency::Single));
    }
    FunctionalDependencies::new(found)
}

/// The columns that `sources` determine.
fn closure(sources: &[usize], dependencies: &FunctionalDependencies) -> BTreeSet<usize> {
    let mut known: BTreeSet<usize> = sources.iter().copied().collect();
    loop {
        let before = known.len();
        for dependence in dependencies.iter() {
            if dependence.source_indices.iter().all(|s| known.contains(s)) {
                known.extend(&dependence.target_indices);
            }
        }
        if known.len() == before {
            return known;
        }
    }
}

/// The dependencies of rows that were repeated for each value of their lists: those between their other columns, and no key.
fn of_lists(unnest: &Unnest) -> FunctionalDependencies {
    let input = unnest.input.schema().functional_dependencies();
    let is_list = |column: usize| {
        unnest.list_type_columns.iter().any(|(c, _)| *c == column)
            || unnest.struct_type_columns.contains(&column)
    };
    // The places of a column of the input in the output. A list has several if it is unnested to several depths.
    let places = |column: &usize| {
        let column = *column;
        let of = unnest.dependency_indices.iter().enumerate().filter(move |(_, c)| **c == column);
        of.filter(move |_| !is_list(column)).map(|(place, _)| place)
    };
    let kept = |dependence: &FunctionalDependence| {
        let sources: Option<Vec<usize>> =
            dependence.source_indices.iter().map(|c| places(c).next()).collect();
        let targets = dependence.target_indices.iter().flat_map(places).collect();
        Some(FunctionalDependence::new(sources?, targets, dependence.nullable).with_mode(Dependency::Multi))
    };
    FunctionalDependencies::new(input.iter().filter_map(kept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_follows_dependencies_in_any_order() {
        let of = |s: &[usize], t: &[usize]| FunctionalDependence::new(s.to_vec(), t.to_vec(), false);
        let all = FunctionalDependencies::new(vec![of(&[2], &[3]), of(&[0, 1], &[2]), of(&[4], &[0])]);
        let known = |s: &[usize]| closure(s, &all).into_iter().collect::<Vec<_>>();
        assert_eq!(known(&[0]), [0]);
        assert_eq!(known(&[0, 1]), [0, 1, 2, 3]);
        assert_eq!(known(&[1, 4]), [0, 1, 2, 3, 4]);
    }
}
