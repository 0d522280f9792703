//! From a statement's text to its result: which module runs which kind of statement.
//!
//! ```text
//!   script ─► statements ─► Session::run ─► one snapshot each, again after a conflict
//!   SELECT, EXPLAIN ─► Session::query      CREATE, DROP ─► ddl      SET, RESET, SHOW, DESCRIBE ─► show
//!   INSERT, UPDATE, DELETE, TRUNCATE ─► dml      COPY ─► copy      BEGIN, COMMIT, SAVEPOINT ... ─► Session::control
//!   the rest is refused by name
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{ObjectType, Query, Set, SetExpr, Statement as Sql, With};
use futures::future::BoxFuture;
use lode_engine::{EngineError, Snapshot, Table};
use tracing::Instrument;

use crate::modifying_with::modifies;
use crate::namespaces::resolve;
use crate::schemas::{Temporaries, temporary_schema};
use crate::session::plan;
use crate::session_functions::{set_config, tell};
use crate::statement::{OutputNames, ShortShape as Shape, Statement, StatementResult, prepare};
use crate::threads::on_deep_stack;
use crate::transaction::TransactionStatus;
use crate::{
    Prepared, Session, SqlError, alter, comments, copy, create_like, ddl, dml, drop, explain, indexes,
    modifying_with, schemas, sequences, short, show, upkeep, views,
};

/// A deeper statement runs on a stack of its own. A statement of this depth fits 2 MB in a debug build too.
const SHALLOW_DEPTH_MAX: usize = 32;
/// A statement that is a transaction of its own runs at most this often if it conflicts with others, the last time
/// alone.
const RUNS_MAX: u32 = 4;

impl Session {
    /// Runs all statements of a script in order, each as its own transaction unless BEGIN opened one.
    ///
    /// # Errors
    /// If a statement is malformed, none runs. If one fails, the statements before it keep their effect,
    /// except within an open transaction, which can then only be rolled back. A query can also fail later, while its
    /// rows are taken.
    pub async fn execute(&self, script: &str) -> Result<Vec<StatementResult>, SqlError> {
        let mut results = Vec::new();
        for statement in self.parse(script)? {
            results.push(self.run(&statement).await?);
        }
        Ok(results)
    }

    /// The statements of a script. A malformed one fails the open transaction, as any error within it does.
    ///
    /// # Errors
    /// As [`Statement::parse`].
    pub fn parse(&self, script: &str) -> Result<Vec<Statement>, SqlError> {
        Statement::parse(script).inspect_err(|_| self.transactions().fail())
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub async fn run(&self, statement: &Statement) -> Result<StatementResult, SqlError> {
        self.run_in_turn(Work::Statement(statement)).await
    }

    /// Runs a prepared statement with these values of its parameters. A value of a related type is converted: another
    /// number, a date for a timestamp.
    ///
    /// # Errors
    /// A wrong number of values (SQLSTATE 42601), a value of an unrelated type (42804), one that does not fit (22003), a
    /// result whose columns have changed since (0A000); and those of [`Session::execute`].
    pub async fn execute_prepared(
        &self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<StatementResult, SqlError> {
        self.run_in_turn(Work::Prepared(prepared, values)).await
    }

    /// Prepares a statement at its turn within the open transaction.
    pub(crate) async fn prepare_in_turn(&self, statement: Statement) -> Result<Prepared, SqlError> {
        let transactions = self.transactions();
        let within = transactions.status() != TransactionStatus::Idle;
        let _turn = if within { Some(transactions.turn().await) } else { None };
        if transactions.status() == TransactionStatus::Failed && !statement.ends_failure() {
            return Err(SqlError::TransactionFailed);
        }
        let prepared = self.prepared("", statement, &[]).await;
        prepared.inspect_err(|_| transactions.fail())
    }

    async fn run_in_turn(&self, work: Work<'_>) -> Result<StatementResult, SqlError> {
        self.begin_counts();
        let statement = work.statement();
        let transactions = self.transactions();
        let within = transactions.status() != TransactionStatus::Idle;
        let _turn = if within || statement.is_control() { Some(transactions.turn().await) } else { None };
        let status = transactions.status();
        if status == TransactionStatus::Failed && !statement.ends_failure() {
            return Err(SqlError::TransactionFailed);
        }
        let mut result = self.run_once(work).await;
        let mut runs = 1;
        while status == TransactionStatus::Idle
            && transactions.status() == TransactionStatus::Idle
            && runs < RUNS_MAX
            && matches!(result, Err(SqlError::Engine(EngineError::Conflict { .. })))
        {
            runs += 1;
            result =
                if runs == RUNS_MAX { self.alone().run_once(work).await } else { self.run_once(work).await };
        }
        if result.is_err() {
            transactions.fail();
        } else if transactions.status() == TransactionStatus::Idle && !statement.is_control() {
            self.end_of_transaction().await?;
        }
        result
    }

    /// What ON COMMIT of temporary tables says, as a part of the open transaction or in transactions of their own.
    async fn end_of_transaction(&self) -> Result<(), SqlError> {
        let temporaries: Temporaries = self.kept().of();
        match temporaries.is_empty() {
            true => Ok(()),
            false => self.clear_temporaries(temporaries).await,
        }
    }

    fn clear_temporaries(&self, temporaries: Temporaries) -> BoxFuture<'_, Result<(), SqlError>> {
        Box::pin(async move {
            for sql in temporaries.at_commit(&self.snapshot().await?)? {
                for statement in Statement::parse(&sql)? {
                    self.run_generally(&statement).await?;
                }
            }
            Ok(())
        })
    }

    async fn run_once(&self, work: Work<'_>) -> Result<StatementResult, SqlError> {
        match work {
            Work::Statement(statement) => {
                let named;
                let statement = match statement.depth <= SHALLOW_DEPTH_MAX {
                    true => match self.resolved(statement)? {
                        Some(resolved) => {
                            named = resolved;
                            &named
                        }
                        None => statement,
                    },
                    false => statement,
                };
                if statement.depth <= SHALLOW_DEPTH_MAX
                    && let Some(shape) = statement.shape()
                    && let Some(done) = self.run_short(statement, shape, shape.values()).await?
                {
                    return Ok(done);
                }
                self.run_generally(statement).await
            }
            Work::Prepared(prepared, values) => self.run_prepared(prepared, &prepared.values(values)?).await,
        }
    }

    /// Runs a prepared statement with values of its parameters' types. It is boxed, since EXECUTE is a statement too.
    fn run_prepared<'a>(
        &'a self,
        prepared: &'a Prepared,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<StatementResult, SqlError>> {
        Box::pin(async move {
            if let Some(now) = prepared.led_elsewhere(self, values)? {
                return self.run_generally(&now).await;
            }
            prepared.check_result(self).await?;
            if let Some(shape) = prepared.shape()
                && let Some(done) = self.run_short(prepared.statement(), shape, values).await?
            {
                return Ok(done);
            }
            self.run_generally(&prepared.with_values(values)?).await
        })
    }

    /// The statement with its names in the schemas to which they lead; `None` if it needs no such step.
    ///
    /// # Errors
    /// When a name leads to no relation.
    pub(crate) fn resolved(&self, statement: &Statement) -> Result<Option<Statement>, SqlError> {
        let table = matches!(statement.sql(), Some(Sql::CreateTable(create)) if create.temporary);
        if table || statement.sequence.as_ref().is_some_and(|sequence| sequence.temporary) {
            temporary_schema(self)?;
        }
        if self.namespaces().is_public() || statement.is_control() {
            return Ok(None);
        }
        let mut parsed = (*statement.parsed).clone();
        resolve(&mut parsed, self.namespaces(), &self.snapshot_now()?)?;
        Ok(Some(statement.with_names(parsed)))
    }

    async fn run_short(
        &self,
        statement: &Statement,
        shape: &Arc<Shape>,
        values: &[ScalarValue],
    ) -> Result<Option<StatementResult>, SqlError> {
        let span = tracing::info_span!("statement", sql = %TracedSql(statement));
        short::run(self, shape, values).instrument(span).await
    }

    /// Boxed: a short statement shall not carry the room for the general path.
    fn run_generally<'a>(
        &'a self,
        statement: &'a Statement,
    ) -> BoxFuture<'a, Result<StatementResult, SqlError>> {
        Box::pin(async move {
            let span = tracing::info_span!("statement", sql = %TracedSql(statement));
            if statement.depth <= SHALLOW_DEPTH_MAX {
                return run(self, statement).instrument(span).await;
            }
            let (session, statement) = (self.clone(), statement.clone());
            let run = async move {
                let resolved = session.resolved(&statement)?;
                run(&session, resolved.as_ref().unwrap_or(&statement)).instrument(span).await
            };
            on_deep_stack(run).await
        })
    }

    /// Runs a script and collects the rows of its last statement; empty when that has none.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub async fn collect(&self, script: &str) -> Result<Vec<RecordBatch>, SqlError> {
        match self.execute(script).await?.pop() {
            Some(StatementResult::Rows { stream, .. }) => {
                Ok(datafusion::physical_plan::common::collect(stream).await?)
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// What a session runs.
#[derive(Clone, Copy)]
enum Work<'a> {
    Statement(&'a Statement),
    Prepared(&'a Prepared, &'a [ScalarValue]),
}

impl<'a> Work<'a> {
    fn statement(&self) -> &'a Statement {
        match self {
            Self::Statement(statement) => statement,
            Self::Prepared(prepared, _) => prepared.statement(),
        }
    }
}

/// A statement as `tracing` shows it: the beginning of its text. Of a deep one only the depth is shown, since writing
/// it out needs a deep stack.
struct TracedSql<'a>(&'a Statement);

impl fmt::Display for TracedSql<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARS: usize = 200;
        if self.0.depth > SHALLOW_DEPTH_MAX {
            return write!(f, "of depth {}", self.0.depth);
        }
        let text = self.0.to_string();
        match text.char_indices().nth(CHARS) {
            Some((end, _)) => write!(f, "{}...", &text[..end]),
            None => f.write_str(&text),
        }
    }
}

/// Runs one statement of `session`.
async fn run(session: &Session, statement: &Statement) -> Result<StatementResult, SqlError> {
    // A statement that is prepared has parameters.
    if let Some(Sql::Prepare { name, data_types, statement: prepared }) = statement.sql() {
        let prepared = Statement::new(Parsed::Statement(prepared.clone()), statement.depth);
        return session.prepare_named(name, data_types, prepared).await;
    }
    if let Some(sequence) = &statement.sequence {
        return sequences::define(session, sequence).await;
    }
    if let Some(relation) = &statement.relation {
        return schemas::alter_relation(session, relation).await;
    }
    if let (Some(Sql::CreateTable(create)), false) = (statement.sql(), statement.likes.is_empty()) {
        return create_like::create_table_like(session, create, &statement.likes).await;
    }
    // A view keeps its query as it was written.
    if let Some(Sql::CreateView(view)) = statement.sql() {
        return views::create_view(session, view).await;
    }
    if let (Some(Sql::Commit { .. }), TransactionStatus::Open) =
        (statement.sql(), session.transaction_status())
    {
        session.end_of_transaction().await?;
    }
    if let Some(Sql::Fetch { name, direction, into: None, .. }) = statement.sql() {
        return session.fetch(name, direction, statement.moves).await;
    }
    if let Some(Sql::Query(query)) = statement.sql()
        && let Some((name, value, local)) = set_config(query)
    {
        show::put(session, &name, &value, local)?;
        let rows = show::rows(&["set_config"], vec![vec![value]])?;
        return Ok(rows.named(statement.names.as_deref()));
    }
    let mut parsed = (*statement.parsed).clone();
    prepare(&mut parsed)?;
    tell(&mut parsed, session)?;
    if let (Some(Sql::Declare { stmts: given }), Parsed::Statement(sql)) = (statement.sql(), &parsed)
        && let Sql::Declare { stmts } = sql.as_ref()
    {
        let query = given.first().and_then(|d| d.for_query.as_ref());
        return session.declare_cursor(stmts, query.and_then(|q| OutputNames::of(q))).await;
    }
    match &parsed {
        Parsed::Statement(sql) => {
            let mut result = run_sql(session, sql).await?;
            if let StatementResult::CopyIn(mut copy) = result {
                let Some(rows) = &statement.rows else { return Ok(StatementResult::CopyIn(copy)) };
                copy.write(rows.clone()).await;
                result = StatementResult::Count { verb: "COPY", rows: copy.finish().await? };
            }
            Ok(match statement.sql() {
                Some(Sql::Query(_)) => result.named(statement.names.as_deref()),
                _ => result,
            })
        }
        Parsed::Explain(explain) => {
            let Parsed::Explain(given) = statement.parsed.as_ref() else {
                unreachable!("a statement keeps its kind");
            };
            explain::run(session, explain, given).await
        }
        Parsed::Reset(reset) => show::reset(session, reset),
        Parsed::CreateExternalTable(_) => Err(SqlError::Unsupported(
            "CREATE EXTERNAL TABLE: create a table and fill it by COPY t FROM 'file'".into(),
        )),
        Parsed::CopyTo(_) => Err(SqlError::Unsupported("this form of COPY".into())),
    }
}

pub(crate) async fn run_sql(session: &Session, sql: &Sql) -> Result<StatementResult, SqlError> {
    match sql {
        Sql::Query(query) if modifies(query) => modifying_with::run(session, query).await,
        Sql::Query(query) => match change_with(query)? {
            Some((with, change)) => dml::change(session, change, Some(with)).await,
            None => session.query(Parsed::Statement(Box::new(sql.clone()))).await,
        },
        Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) => dml::change(session, sql, None).await,
        Sql::Truncate(truncate) => dml::truncate(session, truncate).await,
        Sql::Copy { source, to, target, options, legacy_options, values } => {
            let copy = copy::Copy::parse(source, *to, target, options, legacy_options, values)?;
            copy::run(session, copy).await
        }
        Sql::CreateTable(create) => ddl::create_table(session, create).await,
        Sql::AlterTable(alter) => alter::alter_table(session, alter).await,
        Sql::CreateIndex(create) => indexes::create_index(session, create).await,
        Sql::Drop { object_type: ObjectType::Schema, if_exists, names, cascade, .. } => {
            schemas::drop_schemas(session, names, *if_exists, *cascade).await
        }
        Sql::Drop { .. } => drop::drop(session, sql).await,
        Sql::CreateSchema { .. } => schemas::create_schema(session, sql).await,
        Sql::AlterSchema(alter) => schemas::alter_schema(session, alter).await,
        Sql::Comment { object_type, object_name, comment, if_exists: false } => {
            let subject = comments::Subject::Object(*object_type, object_name.clone());
            comments::comment(session, subject, comment.clone()).await
        }
        Sql::Execute {
            name: Some(name),
            parameters,
            immediate: false,
            into,
            using,
            output: false,
            default: false,
            ..
        } if into.is_empty() && using.is_empty() => {
            let (prepared, values) = session.named(name, parameters).await?;
            session.run_prepared(&prepared, &values).await
        }
        Sql::Deallocate { name, .. } => session.deallocate(name),
        Sql::Close { cursor } => session.close_cursor(cursor),
        Sql::Set(Set::SetTransaction { modes, snapshot: None, session: false }) => {
            session.set_transaction(modes)
        }
        Sql::Set(set) => show::set(session, set).await,
        Sql::ShowVariable { .. }
        | Sql::ShowTables { .. }
        | Sql::ShowColumns { .. }
        | Sql::ShowCreate { .. }
        | Sql::ExplainTable { .. } => show::show(session, sql).await,
        Sql::StartTransaction { .. }
        | Sql::Commit { .. }
        | Sql::Rollback { .. }
        | Sql::Savepoint { .. }
        | Sql::ReleaseSavepoint { .. } => session.control(sql).await,
        Sql::Vacuum(vacuum) => upkeep::vacuum(session, vacuum).await,
        Sql::Analyze(analyze) => upkeep::analyze(session, analyze).await,
        other => Err(SqlError::Unsupported(verb(other, 2))),
    }
}

/// Plans a statement at `snapshot` without running it. Returns the columns of its rows, if it is a query.
///
/// # Errors
/// Those of planning it.
pub(crate) async fn planned_schema(
    session: &Session,
    snapshot: Snapshot,
    statement: &Statement,
) -> Result<Option<SchemaRef>, SqlError> {
    let mut parsed = (*statement.parsed).clone();
    prepare(&mut parsed)?;
    tell(&mut parsed, session)?;
    let Parsed::Statement(sql) = parsed else { return Ok(None) };
    let of = |sql: Sql| Parsed::Statement(Box::new(sql));
    let is_query = matches!(sql.as_ref(), Sql::Query(query) if change_with(query)?.is_none());
    let (query, target) = match sql.as_ref() {
        Sql::Query(query) if !is_query => match change_with(query)? {
            Some((_, Sql::Update(update))) => some_target(dml::explain_update(&snapshot, update)?),
            Some((_, Sql::Delete(delete))) => some_target(dml::explain_delete(&snapshot, delete)?),
            _ => return Ok(None),
        },
        Sql::Update(update) => some_target(dml::explain_update(&snapshot, update)?),
        Sql::Delete(delete) => some_target(dml::explain_delete(&snapshot, delete)?),
        sql_statement => {
            if let Sql::Insert(insert) = sql_statement {
                let table = dml::inserted_table(&snapshot, insert)?;
                let state = session.state_at(snapshot, None);
                let plan = dml::planned_insert(&state, &table, insert).await?;
                state.optimize(&plan)?;
                return Ok(None);
            }
            let state = session.state_at(snapshot, None);
            let plan = plan(&state, of(*sql)).await?;
            let plan = state.optimize(&plan)?;
            let schema = Arc::new(plan.schema().as_arrow().clone());
            let named = statement.names.as_ref().map_or_else(|| schema.clone(), |names| names.name(&schema));
            return Ok(is_query.then_some(named));
        }
    };
    let state = session.state_at(snapshot, target);
    let plan = plan(&state, of(Sql::Query(query))).await?;
    state.optimize(&plan)?;
    Ok(None)
}

/// The parts of `WITH ... INSERT | UPDATE | DELETE`, which the parser takes for a query.
pub(crate) fn change_with(query: &Query) -> Result<Option<(With, &Sql)>, SqlError> {
    let (SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change)) = query.body.as_ref()
    else {
        return Ok(None);
    };
    let more = query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some();
    match &query.with {
        Some(with) if !more => Ok(Some((with.clone(), change))),
        _ => Err(SqlError::Unsupported(format!("{} within a query", verb(change, 1)))),
    }
}

pub(crate) fn some_target((query, table): (Box<Query>, Arc<Table>)) -> (Box<Query>, Option<Arc<Table>>) {
    (query, Some(table))
}

/// The first words of a statement, for messages.
pub(crate) fn verb(sql: &Sql, words: usize) -> String {
    let text = sql.to_string();
    text.split_whitespace().take(words).collect::<Vec<_>>().join(" ").trim_end_matches(';').to_owned()
}
