//! DataFusion's expressions over a table's rows and over parameters, made ready to be evaluated.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column as ColumnName, DFSchema};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use lode_engine::{Few, Table};
use lode_page::DataType;

use super::access::{Access, ChosenRange, Comparison, JoinedColumn, Pause, ROWS_MAX, RangeAccess, Wanted};
use super::computed::{Computed, Output};
use super::conditions::Found;
use super::parameters::{parameter_column, parameter_of};
use super::rest::seen;
use crate::SqlError;
use crate::numbers::NEXT_BY_ID;

/// The parameters of a plan.
pub(super) struct Parameters {
    pub(super) types: Vec<DataType>,
    /// Whether the last one is the moment of the statement.
    pub(super) has_moment: bool,
}

/// What expressions over the rows and the parameters are made with.
pub(super) struct Expressions<'a> {
    state: &'a SessionState,
    pub(super) inputs: Vec<u16>,
    seen: SchemaRef,
    df: DFSchema,
}

impl<'a> Expressions<'a> {
    pub(super) fn new(
        state: &'a SessionState,
        table: &Table,
        inputs: Vec<u16>,
        parameters: &Parameters,
    ) -> Result<Self, SqlError> {
        let seen = seen(table, &inputs, &parameters.types, 0);
        let df = DFSchema::try_from(seen.as_ref().clone())?;
        Ok(Self { state, inputs, seen, df })
    }

    /// These expressions over bare names, to be evaluated.
    pub(super) fn computed(&self, table: &Table, outputs: Vec<Expr>) -> Result<Computed, SqlError> {
        let outputs = outputs.into_iter().map(|e| {
            if let Some(i) = parameter_of(&e) {
                return Ok(Output::Parameter(i));
            }
            if let Expr::Column(c) = &e
                && let Some(i) = self.inputs.iter().position(|&n| table.column(&c.name) == Some(n))
            {
                return Ok(Output::Input(i));
            }
            let of_row = e.column_refs().iter().any(|c| table.column(&c.name).is_some());
            let takes =
                e.exists(|e| Ok(matches!(e, Expr::ScalarFunction(f) if f.func.name() == NEXT_BY_ID)))?;
            Ok(Output::Expression { expression: self.physical(e)?, of_row, takes })
        });
        let outputs = outputs.collect::<Result<Vec<_>, SqlError>>()?;
        Ok(Computed { inputs: self.inputs.clone(), outputs, seen: self.seen.clone() })
    }

    pub(super) fn physical(&self, e: Expr) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
        Ok(self.state.create_physical_expr(e, &self.df)?)
    }

    /// The value of a comparison; `None` if it is more than values and parameters.
    fn wanted(&self, table: &Table, comparison: Comparison) -> Result<Option<Wanted>, SqlError> {
        if let Some(joined) = JoinedColumn::of_expr(&comparison.value) {
            return Ok(Some(Wanted::Joined(joined)));
        }
        let t = table.schema().columns[usize::from(comparison.column)].data_type;
        let mut names = Names::of(table);
        let Some(value) = names.bare(comparison.value) else { return Ok(None) };
        Ok(Some(match value {
            Expr::Literal(value, _) => Wanted::Constant(value, t),
            value => match parameter_of(&value) {
                Some(i) => Wanted::Parameter(i, t),
                None => Wanted::Expression(self.physical(value)?, t),
            },
        }))
    }

    fn all_wanted(
        &self,
        table: &Table,
        comparisons: Vec<Comparison>,
    ) -> Result<Option<Vec<Wanted>>, SqlError> {
        comparisons.into_iter().map(|c| self.wanted(table, c)).collect()
    }

    pub(super) fn access(
        &self,
        table: &Table,
        found: Found,
        residual: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Option<Access>, SqlError> {
        match found {
            Found::Key(comparisons) => {
                let columns = comparisons.iter().map(|c| c.column).collect();
                let values = self.all_wanted(table, comparisons)?;
                Ok(values.map(|values| Access::Key { columns, values }))
            }
            Found::Range(range) if !range.is_narrow() => Ok(None),
            Found::Range(range) => {
                let few = Few::All(ROWS_MAX);
                Ok(self.range(table, *range, few, residual)?.map(|range| Access::Range(Box::new(range))))
            }
        }
    }

    pub(super) fn range(
        &self,
        table: &Table,
        range: ChosenRange,
        few: Few,
        residual: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Option<RangeAccess>, SqlError> {
        let ChosenRange { order, equal, low, high } = range;
        let Some(equal) = self.all_wanted(table, equal)? else { return Ok(None) };
        let end = |comparison: Option<Comparison>| match comparison {
            None => Ok(Some(None)),
            Some(c) => {
                let has = matches!(c.op, Operator::GtEq | Operator::LtEq);
                Ok::<_, SqlError>(self.wanted(table, c)?.map(|wanted| Some((wanted, has))))
            }
        };
        let (Some(low), Some(high)) = (end(low)?, end(high)?) else { return Ok(None) };
        let pause = Pause::default();
        Ok(Some(RangeAccess { order, equal, low, high, few, residual, pause }))
    }
}

/// The columns that expressions name.
pub(super) struct Names<'a> {
    table: &'a Table,
    pub(super) inputs: Vec<u16>,
}

impl<'a> Names<'a> {
    pub(super) fn of(table: &'a Table) -> Self {
        Self { table, inputs: Vec::new() }
    }

    /// The expression over bare names of columns and parameters; `None` if it names anything else.
    pub(super) fn bare(&mut self, e: Expr) -> Option<Expr> {
        let mut known = true;
        let bare = e.unalias_nested().data.transform_up(|e| {
            Ok(match e {
                Expr::Column(c) => {
                    match self.table.column(&c.name) {
                        Some(n) if !self.inputs.contains(&n) => self.inputs.push(n),
                        Some(_) => {}
                        None => known = false,
                    }
                    Transformed::yes(Expr::Column(ColumnName::from_name(c.name)))
                }
                Expr::Placeholder(p) => match parameter_column(&p, 0) {
                    Some(column) => Transformed::yes(column),
                    None => {
                        known = false;
                        Transformed::no(Expr::Placeholder(p))
                    }
                },
                other => Transformed::no(other),
            })
        });
        bare.ok().map(|t| t.data).filter(|_| known)
    }
}
