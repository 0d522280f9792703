//! What the statements that change something share.

use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch, UInt64Array};
use datafusion::arrow::compute::concat_batches;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::Column as ColumnName;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Query, Statement as Sql};
use lode_engine::{EngineError, ObjectKind, Snapshot, Table, TableDef};

use super::views::find_changed;
use crate::arrow_convert::arrow_type;
use crate::error::state as sqlstate;
use crate::names::shown;
use crate::session::{plan, start};
use crate::transaction::StatementTxn;
use crate::types::assignable;
use crate::{Session, SqlError};

/// A change of one table.
pub(crate) struct Change {
    pub(crate) work: StatementTxn,
    pub(crate) snapshot: Snapshot,
    pub(crate) table: Arc<Table>,
}

impl Change {
    /// Begins a change. The statement reads everything at the snapshot of this moment.
    pub(crate) async fn begin(session: &Session, table: &str) -> Result<Self, SqlError> {
        let (work, snapshot) = session.work().await?.snapshot().await?;
        let table = find_table(&snapshot, table)?;
        Ok(Self { work, snapshot, table })
    }

    /// The same of a statement that changes rows.
    pub(super) async fn of_rows(session: &Session, table: &str) -> Result<Self, SqlError> {
        let (work, snapshot) = session.work().await?.snapshot().await?;
        let table = find_changed(&snapshot, table)?;
        Ok(Self { work, snapshot, table })
    }
}

/// The table `name`, or an error that names it.
pub(crate) fn find_table(snapshot: &Snapshot, name: &str) -> Result<Arc<Table>, SqlError> {
    if let Some(table) = snapshot.table(name) {
        return Ok(table);
    }
    let is_object = |kind| snapshot.object(kind, name).is_some();
    if is_object(ObjectKind::View) || is_object(ObjectKind::Sequence) {
        let message = format!("\"{}\" is not a table", shown(name));
        return Err(SqlError::failed(sqlstate::WRONG_OBJECT_TYPE, message));
    }
    Err(EngineError::NoSuchTable(name.to_owned()).into())
}

/// The numbers of the columns with these names.
pub(crate) fn column_numbers(table: &Table, names: &[String]) -> Result<Vec<u16>, SqlError> {
    names
        .iter()
        .map(|name| {
            table
                .column(name)
                .ok_or_else(|| SqlError::NoColumn { table: table.name().to_owned(), column: name.clone() })
        })
        .collect()
}

pub(super) async fn plan_query(state: &SessionState, query: Box<Query>) -> Result<LogicalPlan, SqlError> {
    plan(state, Parsed::Statement(Box::new(Sql::Query(query)))).await
}

/// Casts the new values, which follow the row identity, to the types of their columns. What follows them stays as it is. Where possible the cast is put
/// directly over a value's expression, so that a literal is converted from its own digits.
pub(crate) fn cast_assigned(
    plan: LogicalPlan,
    table: &TableDef,
    columns: &[u16],
) -> Result<LogicalPlan, SqlError> {
    let (input, values): (LogicalPlan, Vec<(Expr, String)>) = match plan {
        LogicalPlan::Projection(projection) => {
            let names = projection.schema.fields().iter().map(|f| f.name().clone());
            let values = projection.expr.into_iter().map(Expr::unalias).zip(names).collect();
            (Arc::unwrap_or_clone(projection.input), values)
        }
        other => {
            let values = other.schema().iter().map(|(qualifier, field)| {
                (Expr::Column(ColumnName::from((qualifier, field))), field.name().clone())
            });
            let values = values.collect();
            (other, values)
        }
    };
    let mut exprs = Vec::with_capacity(values.len());
    for (i, (value, name)) in values.into_iter().enumerate() {
        if i == 0 {
            exprs.push(value.alias(name));
            continue;
        }
        let Some(&column) = columns.get(i - 1) else {
            exprs.push(value.alias(name));
            continue;
        };
        let column = &table.columns[usize::from(column)];
        let to = arrow_type(column.ty.data_type);
        let from = value.get_type(input.schema())?;
        // A literal has no type yet, a column of text has one.
        if from.is_string() && !to.is_string() && matches!(value, Expr::Column(_)) {
            return Err(unassignable(&from, &column.name, &column.declared));
        }
        check_assignable(&from, &to, &column.name, &column.declared)?;
        exprs.push(value.cast_to(&to, input.schema())?.alias(name));
    }
    Ok(LogicalPlanBuilder::from(input).project(exprs)?.build()?)
}

/// Refuses values of a type that is not assignable to the column.
pub(super) fn check_assignable(
    from: &datafusion::arrow::datatypes::DataType,
    to: &datafusion::arrow::datatypes::DataType,
    column: &str,
    declared: &str,
) -> Result<(), SqlError> {
    if assignable(from, to) {
        return Ok(());
    }
    Err(unassignable(from, column, declared))
}

pub(super) fn unassignable(
    from: &datafusion::arrow::datatypes::DataType,
    column: &str,
    declared: &str,
) -> SqlError {
    let from = crate::types::column_type(from).map_or_else(|| from.to_string(), |t| t.to_string());
    let message = format!("column \"{column}\" is {declared}; a value of type {from} needs a CAST");
    SqlError::failed(sqlstate::DATATYPE_MISMATCH, message)
}

pub(super) async fn run_to_end(state: &SessionState, plan: &LogicalPlan) -> Result<RecordBatch, SqlError> {
    let (schema, stream) = start(state, plan).await?;
    let batches = datafusion::physical_plan::common::collect(stream).await?;
    Ok(concat_batches(&schema, &batches)?)
}

/// The first column of a change's query.
pub(super) fn row_identities(batch: &RecordBatch) -> &UInt64Array {
    let rows =
        batch.column(0).as_any().downcast_ref::<UInt64Array>().expect("row identities are 64-bit numbers");
    assert_eq!(rows.null_count(), 0, "the changed table is never the optional side of a join");
    rows
}
