//! INSERT: few rows go to row pages in one call; many rows are loaded in bulk as they come.

use std::sync::Arc;

use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Column as ColumnName, DFSchema, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Values, WriteOp,
};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Insert, ObjectName, OnInsert, Query, SetExpr, Statement as Sql, TableObject, With,
};
use futures::{StreamExt, stream};
use lode_engine::{ColumnDef, Snapshot, Table, TableDef};
use lode_page::Column;

use super::checks::Checks;
use super::conflict::Conflict;
use super::load;
use super::load::{clustered, columns_of, completed};
use super::returning::Returning;
use super::shared::{Change, check_assignable};
use crate::arrow_convert::arrow_type;
use crate::error::state;
use crate::options::LodeOptions;
use crate::session::{plan, start};
use crate::statement::{StatementResult, column_count, fold, table_name};
use crate::threads::blocking;
use crate::transaction::StatementTxn;
use crate::{Session, SqlError};

/// An INSERT buffers at most this many bytes; then it loads in bulk, however few rows there are.
const HELD_BYTES_MAX: usize = 64 << 20;

/// `INSERT INTO t [(columns)] VALUES ... | SELECT ...`. Columns that are not named become NULL.
pub(crate) async fn insert(session: &Session, statement: &Insert) -> Result<StatementResult, SqlError> {
    let TableObject::TableName(name) = &statement.table else {
        return Err(SqlError::Unsupported("INSERT into anything but a table".into()));
    };
    let name = table_name(name)?;
    let Change { mut work, snapshot, table } = Change::of_rows(session, &name).await?;
    let state = session.state_at(snapshot.clone(), None);
    let input = planned_insert(&state, &table, statement).await?;
    let def = Arc::new(table.def().clone());
    let checks = Checks::of(&state, &def)?;
    let alias = statement.table_alias.as_ref().map(|a| &a.alias);
    let mut returning = Returning::of(&statement.returning, &table, alias);
    let conflict = match &statement.on {
        None => None,
        Some(OnInsert::OnConflict(on)) => Some(Conflict::of(on, &table)?),
        Some(_) => return Err(SqlError::Unsupported("INSERT ... ON DUPLICATE KEY".into())),
    };

    let (schema, mut rows) = start(&state, &input).await?;
    let bulk_rows = LodeOptions::of(state.config_options()).bulk_rows;
    let mut held = BufferedRows::default();
    let holds_all = returning.is_some() || conflict.is_some();
    while let Some(batch) = rows.next().await {
        held.push(batch?);
        if !holds_all && (held.rows > bulk_rows || held.bytes > HELD_BYTES_MAX) {
            let all = stream::iter(held.batches.into_iter().map(Ok)).chain(rows);
            let (work, rows) = load(&state, work, def, checks, all).await?;
            return finish(work, rows).await;
        }
    }
    let proposed = completed(&held.concat(&schema)?, &def, &checks)?;
    let mut updated = None;
    let (inserted, mut places) = match conflict.filter(|_| held.rows > 0) {
        None => (proposed, Vec::new()),
        Some(conflict) => {
            let (on, of, all) = (snapshot.clone(), table.clone(), proposed.clone());
            let (conflict, found) = blocking(move || {
                let found = conflict.resolve(&on, &of, &all, held.rows)?;
                Ok((conflict, found))
            })
            .await?;
            updated = conflict.updated(session, &snapshot, &table, alias, &found, &proposed).await?;
            found.inserted(&proposed)?
        }
    };
    let (work, updated, inserted, count) = blocking(move || {
        let updates = match &mut updated {
            Some(updated) => updated.apply(&mut work.txn, &table)?,
            None => 0,
        };
        let columns = columns_of(&def, &clustered(&def, &inserted)?)?;
        let inserts = match columns.first().map_or(0, Column::rows) {
            0 => 0,
            rows if rows > bulk_rows => work.txn.load(&name, columns)?,
            _ => work.txn.insert(&name, columns)?,
        };
        Ok((work, updated, inserted, updates + inserts))
    })
    .await?;
    if let Some(returning) = &mut returning {
        returning.add(&inserted, None)?;
        if let Some(updated) = updated {
            returning.add(&updated.columns, None)?;
            places.extend(&updated.places);
            returning.sort(&places)?;
        }
    }
    let result = match returning {
        Some(returning) => returning.result(session, &snapshot).await?,
        None => StatementResult::Count { verb: "INSERT", rows: count },
    };
    let may_run_again = statement.on.is_some() && work.is_own_transaction() && !session.commits_alone();
    if statement.on.is_some() {
        session.transactions().upserts();
    }
    blocking(move || work.finish().map_err(|e| if may_run_again { e.of_race() } else { e })).await?;
    Ok(result)
}

/// The plan of the rows that an INSERT proposes.
///
/// # Errors
/// Those of planning it; and for a source with another number of columns, or with values that are not assignable.
pub(crate) async fn planned_insert(
    state: &SessionState,
    table: &Table,
    statement: &Insert,
) -> Result<LogicalPlan, SqlError> {
    for name in &statement.columns {
        let column = name.0.last().and_then(|part| part.as_ident()).map(fold);
        if let Some(column) = column.filter(|c| table.column(c).is_none()) {
            return Err(SqlError::NoColumn { table: table.name().into(), column });
        }
    }
    check_count(statement, table.def())?;
    let mut plain = super::filled(statement, table)?.into_owned();
    (plain.on, plain.returning, plain.table_alias) = (None, None, None);
    if let Some(source) = plain.source.take_if(|source| !matches!(source.body.as_ref(), SetExpr::Values(_))) {
        let input = projected(state, table.def(), &plain.columns, source).await?;
        check_inserted(&input, table.def())?;
        return Ok(input);
    }
    let plan = plan(state, Parsed::Statement(Box::new(Sql::Insert(plain)))).await?;
    let LogicalPlan::Dml(DmlStatement { op: WriteOp::Insert(InsertOp::Append), input, .. }) = plan else {
        return Err(SqlError::Unsupported("INSERT that overwrites or replaces".into()));
    };
    check_inserted(&input, table.def())?;
    with_nullable_values(Arc::unwrap_or_clone(input))
}

/// The plan of an INSERT from a query: its columns in the order of the table's, each cast to the type of its column. DataFusion's own
/// plan of an INSERT takes every VALUES in the query for the rows of the table.
async fn projected(
    state: &SessionState,
    table: &TableDef,
    columns: &[ObjectName],
    source: Box<Query>,
) -> Result<LogicalPlan, SqlError> {
    let source = plan(state, Parsed::Statement(Box::new(Sql::Query(source)))).await?;
    let live: Vec<&ColumnDef> = table.live_columns().map(|c| &table.columns[usize::from(c)]).collect();
    let names: Vec<String> = match columns {
        [] => live.iter().map(|c| c.name.clone()).collect(),
        named => named.iter().filter_map(|n| n.0.last()?.as_ident().map(fold)).collect(),
    };
    if let Some(twice) = (1..names.len()).find(|&i| names[..i].contains(&names[i])) {
        return Err(SqlError::ColumnTwice { column: names[twice].clone(), how: "named" });
    }
    let given = source.schema().fields().len();
    if given != names.len() && !(columns.is_empty() && given < names.len()) {
        let message = format!("INSERT has {given} expressions for {} target columns", names.len());
        return Err(SqlError::failed(state::SYNTAX_ERROR, message));
    }
    let mut exprs = Vec::with_capacity(live.len());
    for column in live {
        let to = arrow_type(column.ty.data_type);
        let place = names.iter().position(|name| *name == column.name).filter(|place| *place < given);
        let value = match place {
            Some(place) => {
                let field = source.schema().qualified_field(place);
                Expr::Column(ColumnName::from(field)).cast_to(&to, source.schema())?
            }
            None => Expr::Literal(ScalarValue::Null, None).cast_to(&to, source.schema())?,
        };
        exprs.push(value.alias(&column.name));
    }
    Ok(LogicalPlanBuilder::from(source).project(exprs)?.build()?)
}

/// The INSERT with the statement's WITH moved to its source.
pub(crate) fn with_source(insert: &Insert, with: With) -> Result<Insert, SqlError> {
    let mut insert = insert.clone();
    match &mut insert.source {
        Some(source) if source.with.is_none() => source.with = Some(with),
        _ => return Err(SqlError::Unsupported("INSERT with two WITH".into())),
    }
    Ok(insert)
}

/// The table of an INSERT.
pub(crate) fn inserted_table(snapshot: &Snapshot, statement: &Insert) -> Result<Arc<Table>, SqlError> {
    match &statement.table {
        TableObject::TableName(name) => super::views::find_changed(snapshot, &table_name(name)?),
        _ => Err(SqlError::Unsupported("INSERT into anything but a table".into())),
    }
}

/// The source has as many columns as the INSERT names, or the table has.
fn check_count(statement: &Insert, table: &TableDef) -> Result<(), SqlError> {
    let (targets, named) = match statement.columns.len() {
        0 => (table.live_columns().count(), false),
        named => (named, true),
    };
    let message = match statement.source.as_deref().and_then(column_count) {
        Some(n) if n > targets => {
            format!("INSERT has more expressions than target columns: {n} and {targets}")
        }
        Some(n) if n < targets && named => {
            format!("INSERT has more target columns than expressions: {targets} and {n}")
        }
        _ => return Ok(()),
    };
    Err(SqlError::failed(state::SYNTAX_ERROR, message))
}

async fn finish(work: StatementTxn, rows: u64) -> Result<StatementResult, SqlError> {
    blocking(move || {
        work.finish()?;
        Ok(StatementResult::Count { verb: "INSERT", rows })
    })
    .await
}

#[derive(Default)]
struct BufferedRows {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl BufferedRows {
    fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch);
    }

    fn concat(&self, schema: &SchemaRef) -> Result<RecordBatch, SqlError> {
        Ok(concat_batches(schema, &self.batches)?)
    }
}

/// Refuses values that are not assignable, such as numbers for dates. DataFusion casts them silently: in the
/// projection that it puts over the source, and in VALUES itself.
fn check_inserted(input: &LogicalPlan, table: &TableDef) -> Result<(), SqlError> {
    let LogicalPlan::Projection(projection) = input else { return Ok(()) };
    for (i, expr) in projection.expr.iter().enumerate() {
        let Expr::Cast(cast) = unaliased(expr) else { continue };
        let from = cast.expr.get_type(projection.input.schema())?;
        check(table, i, &from)?;
    }
    let LogicalPlan::Values(values) = projection.input.as_ref() else { return Ok(()) };
    // Finds which column of VALUES feeds which column of the table.
    for (i, expr) in projection.expr.iter().enumerate() {
        let source = match unaliased(expr) {
            Expr::Cast(cast) => cast.expr.as_ref(),
            other => other,
        };
        let Expr::Column(source) = source else { continue };
        let Some(at) = values.schema.maybe_index_of_column(source) else { continue };
        for row in &values.values {
            if let Some(Expr::Cast(cast)) = row.get(at) {
                check(table, i, &cast.expr.get_type(&values.schema)?)?;
            }
        }
    }
    Ok(())
}

/// Makes the columns of VALUES nullable. DataFusion takes NOT NULL over from the table, and its error for a NULL does
/// not name the column. The engine checks NOT NULL afterwards, and names it.
fn with_nullable_values(input: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let (expr, source) = match input {
        LogicalPlan::Projection(p) if matches!(*p.input, LogicalPlan::Values(_)) => (p.expr, p.input),
        other => return Ok(other),
    };
    let LogicalPlan::Values(Values { schema, values }) = Arc::unwrap_or_clone(source) else {
        unreachable!("it was just looked at")
    };
    let nullable = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_nullable(true));
    let fields = schema.iter().map(|(qualifier, field)| (qualifier.cloned(), nullable(field)));
    let schema = DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?;
    let source = LogicalPlan::Values(Values { schema: Arc::new(schema), values });
    Ok(LogicalPlan::Projection(Projection::try_new(expr, Arc::new(source))?))
}

fn check(table: &TableDef, i: usize, from: &datafusion::arrow::datatypes::DataType) -> Result<(), SqlError> {
    let column = table.live_columns().nth(i).expect("the plan has the table's columns");
    let column = &table.columns[usize::from(column)];
    check_assignable(
        from,
        &crate::arrow_convert::arrow_type(column.ty.data_type),
        &column.name,
        &column.declared,
    )
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}
