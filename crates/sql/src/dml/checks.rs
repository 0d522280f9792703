//! CHECK: an expression that must not be false for any row. The catalog keeps it as SQL. Statements that make rows
//! evaluate it.
//!
//! ```text
//!   INSERT, COPY, loads ─► all columns of the new rows ────────────────┐
//!   UPDATE ─► new values, and the old ones of what a CHECK looks at ───┴─► expression ─► false for a row? refused
//! ```
//!
//! The statement that makes a row checks it. That is enough, since a CHECK looks at one row alone, and a row that
//! another transaction changed meanwhile is a conflict.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::PhysicalExpr;
use lode_engine::{ColumnDef, Rule, TableDef};

use crate::arrow_convert::arrow_type;
use crate::error::state;
use crate::{SqlError, semantics};

/// The CHECKs of one table.
#[derive(Clone)]
pub(crate) struct Checks {
    table: String,
    schema: Arc<Schema>,
    checks: Vec<Check>,
}

#[derive(Clone)]
struct Check {
    name: String,
    /// Columns that it looks at.
    columns: Vec<u16>,
    expression: Arc<dyn PhysicalExpr>,
}

impl Checks {
    /// The CHECKs of `table`.
    ///
    /// # Errors
    /// When an expression cannot be planned, looks beyond the row, or is not a condition.
    pub(crate) fn of(session: &SessionState, table: &TableDef) -> Result<Self, SqlError> {
        // All columns are nullable here: NOT NULL has an error of its own.
        let field = |c: &ColumnDef| Field::new(&c.name, arrow_type(c.ty.data_type), true);
        let schema = Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()));
        let df = DFSchema::try_from(schema.as_ref().clone())?;
        let mut checks = Vec::new();
        for c in &table.constraints {
            let Rule::Check { expression } = &c.rule else { continue };
            let expr = session.create_logical_expr(expression, &df)?;
            let bad = |state, what: &str| {
                SqlError::failed(state, format!("the check constraint \"{}\" {what}", c.name))
            };
            if let Some(state) = looks_further(&expr)? {
                return Err(bad(state, "must look at nothing but its row"));
            }
            if !matches!(expr.get_type(&df)?, DataType::Boolean | DataType::Null) {
                return Err(bad(state::DATATYPE_MISMATCH, "is not a condition"));
            }
            let mut columns: Vec<u16> = expr
                .column_refs()
                .iter()
                .filter_map(|c| df.index_of_column(c).ok())
                .map(|i| i as u16)
                .collect();
            columns.sort_unstable();
            let expression = session.create_physical_expr(semantics::expression(expr, &df)?, &df)?;
            checks.push(Check { name: c.name.clone(), columns, expression });
        }
        Ok(Self { table: table.name.clone(), schema, checks })
    }

    /// The other columns that are needed to check an UPDATE of `assigned`: those of each CHECK that looks at an
    /// assigned column.
    pub(crate) fn others(&self, assigned: &[u16]) -> Vec<u16> {
        let concerned = self.checks.iter().filter(|c| c.columns.iter().any(|n| assigned.contains(n)));
        let mut columns: Vec<u16> = concerned.flat_map(|c| c.columns.iter().copied()).collect();
        columns.retain(|c| !assigned.contains(c));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Checks rows of which only some columns are known. A CHECK that looks at an unknown column is skipped.
    pub(crate) fn verify(&self, known: &BTreeMap<u16, ArrayRef>, rows: usize) -> Result<(), SqlError> {
        if self.checks.is_empty() || rows == 0 {
            return Ok(());
        }
        let arrays = self.schema.fields().iter().zip(0u16..).map(|(f, i)| match known.get(&i) {
            Some(array) => array.clone(),
            None => new_null_array(f.data_type(), rows),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays.collect(), &options)?;
        for c in self.checks.iter().filter(|c| c.columns.iter().all(|n| known.contains_key(n))) {
            let result = c.expression.evaluate(&batch)?.into_array(rows)?;
            let is_false = match result.as_boolean_opt() {
                Some(b) => b.iter().any(|v| v == Some(false)),
                None => false,
            };
            if is_false {
                return Err(SqlError::Check { table: self.table.clone(), constraint: c.name.clone() });
            }
        }
        Ok(())
    }
}

/// The SQLSTATE of an expression that needs more than a row.
fn looks_further(expr: &Expr) -> Result<Option<&'static str>, SqlError> {
    let mut found = expr.is_volatile().then_some(state::FEATURE_NOT_SUPPORTED);
    expr.apply(|e| {
        found = match e {
            Expr::AggregateFunction(_) => Some(state::GROUPING_ERROR),
            Expr::WindowFunction(_) => Some(state::WINDOWING_ERROR),
            Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Placeholder(_) => Some(state::FEATURE_NOT_SUPPORTED),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(found)
}
