//! Functions in FROM.
//!
//! ```text
//!   generate_series(a, b)  ─► SubqueryAlias ◄ Projection (names) ◄ Unnest ◄ Projection (lists) ◄ one row
//!   unnest(l, m)           ─► the same
//!   upper('x')             ─► SubqueryAlias ◄ Projection ◄ one row
//! ```
//!
//! `prepare` makes a function LATERAL whose arguments name columns. DataFusion then puts a Subquery below the alias, with
//! outer references in the lists. `lateral.rs` knows this shape.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, NullHandling, Result, ScalarValue, UnnestOptions};
use datafusion::datasource::provider_as_source;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarUDF, Volatility};
use datafusion::physical_expr::create_physical_expr;
use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, TableAlias, TableFactor};

use super::list::{Ordinals, SeriesList};
use super::table::table;
use super::values::{Series, SeriesType};
use super::{GENERATE_SERIES, UNNEST};
use crate::SqlError;
use crate::error::state;
use crate::names::fold;
use crate::semantics;

/// Begins the names of the lists that are unnested.
pub(super) const LIST: &str = "__lode_list_";

/// Plans functions in FROM.
#[derive(Debug)]
pub(super) struct FunctionsInFrom;

impl RelationPlanner for FunctionsInFrom {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let original = |relation| Ok(RelationPlanning::Original(Box::new(relation)));
        let TableFactor::Function { name, args, with_ordinality, alias, .. } = &relation else {
            return original(relation);
        };
        let [part] = name.0.as_slice() else { return original(relation) };
        let Some(function) = part.as_ident().map(fold) else { return original(relation) };
        let scalar = context.context_provider().get_function_meta(&function);
        if function != GENERATE_SERIES && function != UNNEST && scalar.is_none() {
            return original(relation);
        }
        let empty = DFSchema::empty();
        let mut arguments = Vec::new();
        for argument in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = argument else {
                return Err(
                    SqlError::Unsupported(format!("the argument {argument} of a function in FROM")).into()
                );
            };
            arguments.push(context.sql_expr_to_logical_expr(e.clone(), &empty)?);
        }
        let names = Names { function: &function, alias: alias.as_ref() };
        let plan = match (function.as_str(), scalar) {
            (GENERATE_SERIES, _) => series(arguments, &names, *with_ordinality)?,
            (UNNEST, _) => unnest(arguments, &names, *with_ordinality)?,
            (_, Some(udf)) => {
                if *with_ordinality {
                    return Err(SqlError::Unsupported(format!("{function} WITH ORDINALITY")).into());
                }
                let call =
                    udf.call(arguments).alias(names.columns(std::slice::from_ref(&function))?.remove(0));
                let plan = LogicalPlanBuilder::empty(true).project(vec![call])?;
                plan.alias(names.table())?.build()?
            }
            (_, None) => return original(relation),
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// How a function in FROM and its columns are called.
struct Names<'a> {
    function: &'a str,
    alias: Option<&'a TableAlias>,
}

impl Names<'_> {
    fn table(&self) -> String {
        self.alias.map_or_else(|| self.function.to_owned(), |a| fold(&a.name))
    }

    /// The names of columns that are called `own` where no alias says otherwise. The first one is that of the function;
    /// where it is the only one that is not `ordinality`, an alias of the table names it too.
    fn columns(&self, own: &[String]) -> Result<Vec<String>, SqlError> {
        let mut names = own.to_vec();
        let is_one = own.len() == 1 || own.len() == 2 && own[1] == ORDINALITY;
        let Some(alias) = self.alias else { return Ok(names) };
        if is_one {
            names[0] = fold(&alias.name);
        }
        if alias.columns.len() > own.len() {
            let message = format!(
                "table \"{}\" has {} columns available but {} columns specified",
                self.table(),
                own.len(),
                alias.columns.len()
            );
            return Err(SqlError::failed(state::INVALID_COLUMN_REFERENCE, message));
        }
        for (name, given) in names.iter_mut().zip(&alias.columns) {
            *name = fold(&given.name);
        }
        Ok(names)
    }
}

const ORDINALITY: &str = "ordinality";

fn series(arguments: Vec<Expr>, names: &Names<'_>, with_ordinality: bool) -> Result<LogicalPlan> {
    let list = ScalarUDF::from(SeriesList::default()).call(arguments);
    if let Some((series, ty)) = constant_series(&list)? {
        let source = provider_as_source(Arc::new(table(series, &ty, with_ordinality)?));
        let own = [names.function.to_owned(), ORDINALITY.to_owned()];
        let own = if with_ordinality { &own[..] } else { &own[..1] };
        let columns = ["value", ORDINALITY];
        let named = columns.iter().zip(names.columns(own)?);
        let named: Vec<Expr> =
            named.map(|(c, name)| Expr::Column(Column::new(Some(GENERATE_SERIES), *c)).alias(name)).collect();
        let plan = LogicalPlanBuilder::scan(GENERATE_SERIES, source, None)?.project(named)?;
        return plan.alias(names.table())?.build();
    }
    unnested(vec![list], names, with_ordinality)
}

fn unnest(lists: Vec<Expr>, names: &Names<'_>, with_ordinality: bool) -> Result<LogicalPlan> {
    let empty = DFSchema::empty();
    if lists.is_empty() {
        return Err(no_unnest("").into());
    }
    for list in &lists {
        let ty = list.get_type(&empty)?;
        if !matches!(ty, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)) {
            return Err(no_unnest(&semantics::sql_name(&ty)).into());
        }
    }
    unnested(lists, names, with_ordinality)
}

fn no_unnest(types: &str) -> SqlError {
    SqlError::failed(state::UNDEFINED_FUNCTION, format!("function unnest({types}) does not exist"))
}

/// The elements of lists, beside one another.
fn unnested(mut lists: Vec<Expr>, names: &Names<'_>, with_ordinality: bool) -> Result<LogicalPlan> {
    let mut own = vec![names.function.to_owned(); lists.len()];
    if with_ordinality {
        lists.push(ScalarUDF::from(Ordinals::default()).call(lists.clone()));
        own.push(ORDINALITY.to_owned());
    }
    let mut columns = names.columns(&own)?;
    for i in 1..columns.len() {
        // DataFusion needs distinct names.
        if columns[..i].contains(&columns[i]) {
            columns[i] = format!("{}:{i}", columns[i]);
        }
    }
    let lists: Vec<Expr> =
        lists.into_iter().enumerate().map(|(i, e)| e.alias(format!("{LIST}{i}"))).collect();
    let of: Vec<Column> = (0..columns.len()).map(|i| Column::new_unqualified(format!("{LIST}{i}"))).collect();
    let named = of.iter().zip(columns).map(|(c, name)| Expr::Column(c.clone()).alias(name));
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::empty(true)
        .project(lists)?
        .unnest_columns_with_options(of, options(NullHandling::Drop))?
        .project(named)?
        .alias(names.table())?
        .build()
}

pub(super) fn options(null_handling: NullHandling) -> UnnestOptions {
    UnnestOptions { null_handling, ..UnnestOptions::default() }
}

/// A batch of one row without columns, for expressions without columns.
fn one_row() -> Result<RecordBatch> {
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one)?)
}

/// The series of a call whose arguments are constants.
fn constant_series(list: &Expr) -> Result<Option<(Series, DataType)>> {
    let mut constant = true;
    list.apply(|e| {
        constant &= match e {
            Expr::Literal(..) | Expr::Cast(_) | Expr::Negative(_) | Expr::BinaryExpr(_) => true,
            Expr::ScalarFunction(f) => f.func.signature().volatility == Volatility::Immutable,
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !constant {
        return Ok(None);
    }
    let empty = DFSchema::empty();
    let Expr::ScalarFunction(call) = semantics::expression(list.clone(), &empty)? else { return Ok(None) };
    let types = call.args.iter().map(|e| e.get_type(&empty)).collect::<Result<Vec<_>>>()?;
    let ty = SeriesType::of(&types)?;
    let row = one_row()?;
    let mut values = Vec::new();
    for (i, argument) in call.args.iter().enumerate() {
        let physical = create_physical_expr(argument, &empty, &ExecutionProps::new(), &Default::default())?;
        let array = physical.evaluate(&row)?.into_array(1)?;
        values.push(ScalarValue::try_from_array(&ty.argument(i, &array)?, 0)?);
    }
    let series = Series::new(&ty, &values)?;
    Ok(Some((series, ty.value)))
}
