//! EXPLAIN of queries, which DataFusion explains, and of changes.
//!
//! ```text
//!   EXPLAIN UPDATE t SET a = 1 WHERE b = 2           change         Update on t: a
//!                                                    logical_plan   of the query that finds the rows
//!                                                    physical_plan
//!   EXPLAIN ANALYZE UPDATE t SET a = 1 WHERE b = 2   change         Update on t: a; 3 rows in 1.2 ms, rolled back
//!                                                    Plan with Metrics
//! ```
//!
//! EXPLAIN ANALYZE makes a change and undoes it: in the open transaction up to a savepoint, else in a transaction of its
//! own that is rolled back. PostgreSQL keeps the change.

mod expected;
mod text;

use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::{ExplainStatement, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Insert, ObjectName, Query, SetExpr, Statement as Sql};
use futures::{StreamExt, stream};
use lode_engine::Table;

use self::text::start_explained;
use crate::error::state;
use crate::execute::{change_with, run_sql, some_target, verb};
use crate::explain_rows::explain_rows;
use crate::session::plan;
use crate::statement::{StatementResult, fold, prepare};
use crate::{Session, SqlError, TransactionStatus, dml, modelled, short};

/// The savepoint up to which an analysed change is undone.
const SAVEPOINT: &str = "__lode_explain";

/// Explains a prepared statement. `given` is the statement as it was parsed.
pub(crate) async fn run(
    session: &Session,
    explain: &ExplainStatement,
    given: &ExplainStatement,
) -> Result<StatementResult, SqlError> {
    if let Some(named) = named(session, explain).await? {
        let mut prepared = named.clone();
        prepare(&mut prepared.statement)?;
        return explained(session, &prepared, &named).await;
    }
    explained(session, explain, given).await
}

/// The statement of EXPLAIN EXECUTE, with its values.
async fn named(session: &Session, explain: &ExplainStatement) -> Result<Option<ExplainStatement>, SqlError> {
    let Parsed::Statement(sql) = explain.statement.as_ref() else { return Ok(None) };
    let Sql::Execute { name: Some(name), parameters, .. } = sql.as_ref() else { return Ok(None) };
    let (prepared, values) = session.named(name, parameters).await?;
    let statement = (*prepared.with_values(&values)?.parsed).clone();
    Ok(Some(ExplainStatement { options: explain.options.clone(), statement: Box::new(statement) }))
}

async fn explained(
    session: &Session,
    explain: &ExplainStatement,
    given: &ExplainStatement,
) -> Result<StatementResult, SqlError> {
    let Parsed::Statement(sql) = explain.statement.as_ref() else {
        return Err(SqlError::Unsupported("EXPLAIN of this statement".into()));
    };
    let (change, with) = match sql.as_ref() {
        Sql::Query(query) => match change_with(query)? {
            Some((with, change)) => (change.clone(), Some(with)),
            None => return query_explained(session, explain, given).await,
        },
        other => (other.clone(), None),
    };
    let snapshot = session.snapshot().await?;
    let (change, found, what) = match change {
        Sql::Insert(insert) => {
            let insert = match with {
                Some(with) => dml::with_source(&insert, with)?,
                None => insert,
            };
            let table = dml::inserted_table(&snapshot, &insert)?;
            let names: Vec<String> = insert.columns.iter().map(last_part).collect();
            dml::column_numbers(&table, &names)?;
            dml::planned_insert(&session.state_at(snapshot.clone(), None), &table, &insert).await?;
            let found = source(&insert).map(|query| (query, None));
            let columns = insert.columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let columns = if columns.is_empty() { columns } else { format!(" ({columns})") };
            let what = format!("Insert on {}{columns}{}", insert.table, of_values(&insert));
            (Sql::Insert(insert), found, what)
        }
        Sql::Update(mut update) => {
            let (mut query, target) = some_target(dml::explain_update(&snapshot, &update)?);
            query.with = with.clone().or(query.with);
            let columns = update.assignments.iter().map(|a| a.target.to_string()).collect::<Vec<_>>();
            let what = format!("Update on {}: {}", name_of(target.as_ref()), columns.join(", "));
            update.optimizer_hints = Vec::new();
            (in_with(Sql::Update(update), with), Some((query, target)), what)
        }
        Sql::Delete(delete) => {
            let (mut query, target) = some_target(dml::explain_delete(&snapshot, &delete)?);
            query.with = with.clone().or(query.with);
            let what = format!("Delete on {}", name_of(target.as_ref()));
            (in_with(Sql::Delete(delete), with), Some((query, target)), what)
        }
        other => {
            let message = format!("EXPLAIN explains queries and changes of rows, not {}", verb(&other, 2));
            return Err(SqlError::failed(state::SYNTAX_ERROR, message));
        }
    };
    let mut what = what;
    if explain.options.analyze {
        let began = Instant::now();
        let rows = undone(session, &change).await?;
        let noun = if rows == 1 { "row" } else { "rows" };
        let ms = began.elapsed().as_secs_f64() * 1e3;
        what += &format!("; {rows} {noun} in {ms:.3} ms, rolled back");
    }
    let (schema, rows) = match found {
        Some((query, target)) => {
            let state = session.state_at(snapshot, target);
            let statement = Parsed::Explain(ExplainStatement {
                options: explain.options.clone(),
                statement: Box::new(Parsed::Statement(Box::new(Sql::Query(query)))),
            });
            let plan = plan(&state, statement).await?;
            start_explained(&state, &plan).await?
        }
        None => {
            let one = Parsed::Explain(ExplainStatement {
                options: explain.options.clone(),
                statement: Box::new(Parsed::Statement(Box::new(Sql::Query(dml::empty_select())))),
            });
            let state = session.state_at(snapshot, None);
            let (schema, _) = start_explained(&state, &plan(&state, one).await?).await?;
            (schema.clone(), Box::pin(RecordBatchStreamAdapter::new(schema, stream::empty())) as _)
        }
    };
    let first = stream::iter([Ok(explain_rows(&schema, &[("change", what)])?)]);
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), first.chain(rows)));
    let result = StatementResult::Rows { schema, stream };
    match explain.options.analyze {
        true => Ok(result),
        false => short::explained(session, &given.statement, result).await,
    }
}

async fn query_explained(
    session: &Session,
    explain: &ExplainStatement,
    given: &ExplainStatement,
) -> Result<StatementResult, SqlError> {
    let state = session.state_at(session.snapshot().await?, None);
    let plan = plan(&state, Parsed::Explain(explain.clone())).await?;
    let (schema, stream) = start_explained(&state, &plan).await?;
    let result = session.watched(schema, stream);
    match explain.options.analyze {
        true if session.database().host().is_some() => modelled::explained(session, result),
        // EXPLAIN ANALYZE runs the plan that it shows.
        true => Ok(result),
        false => short::explained(session, &given.statement, result).await,
    }
}

/// The column that an INSERT names.
fn last_part(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map_or_else(|| name.to_string(), fold)
}

fn name_of(table: Option<&Arc<Table>>) -> &str {
    table.map_or("", |t| t.name())
}

/// A change with the WITH that the parser took for a query's.
fn in_with(change: Sql, with: Option<datafusion::sql::sqlparser::ast::With>) -> Sql {
    let Some(with) = with else { return change };
    let mut query = *dml::empty_select();
    query.body = Box::new(match change {
        Sql::Update(_) => SetExpr::Update(change),
        _ => SetExpr::Delete(change),
    });
    query.with = Some(with);
    Sql::Query(Box::new(query))
}

/// The query whose rows an INSERT puts in. VALUES with DEFAULT are none.
fn source(insert: &Insert) -> Option<Box<Query>> {
    let is_default = |e: &Expr| matches!(e, Expr::Identifier(i) if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"));
    let query = insert.source.as_ref()?;
    match query.body.as_ref() {
        SetExpr::Values(v) if v.rows.iter().any(|row| row.content.iter().any(is_default)) => None,
        _ => Some(query.clone()),
    }
}

/// How many rows of VALUES there are, where there are any.
fn of_values(insert: &Insert) -> String {
    match insert.source.as_ref().map(|s| s.body.as_ref()) {
        Some(SetExpr::Values(v)) if v.rows.len() == 1 => ": 1 row of VALUES".into(),
        Some(SetExpr::Values(v)) => format!(": {} rows of VALUES", v.rows.len()),
        Some(_) => String::new(),
        None => ": DEFAULT VALUES".into(),
    }
}

/// Makes a change and undoes it. Returns how many rows it changed.
async fn undone(session: &Session, change: &Sql) -> Result<u64, SqlError> {
    let rows = |result| match result {
        StatementResult::Count { rows, .. } => rows,
        _ => 0,
    };
    if session.transaction_status() == TransactionStatus::Idle {
        // No other statement of the session may get into this transaction.
        let apart = session.with_own_transaction();
        apart.begin(false).await?;
        let done = run_sql(&apart, change).await;
        apart.roll_back();
        return done.map(rows);
    }
    let savepoint = Ident::new(SAVEPOINT);
    session.savepoint(&savepoint).await?;
    let done = run_sql(session, change).await?;
    session.roll_back_to(&savepoint).await?;
    session.release(&savepoint)?;
    Ok(rows(done))
}
