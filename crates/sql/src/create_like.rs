//! CREATE TABLE (LIKE ...): the columns of another relation, and what of it is included.

use datafusion::sql::sqlparser::ast::{
    ColumnDef as SqlColumn, CreateTable, Statement as Sql, TableConstraint,
};
use lode_engine::{Fill, IndexDef, Object, ObjectKind, Rule, Snapshot, Table, TableDef};

use crate::error::state;
use crate::indexes::create_within;
use crate::names::{quoted, split};
use crate::statement::{Like, Statement, StatementResult, parts};
use crate::threads::blocking;
use crate::transaction::TransactionStatus;
use crate::{Session, SqlError, comments, ddl, hidden_columns};

/// What LIKE may include.
const OPTIONS: [&str; 9] = [
    "all",
    "comments",
    "compression",
    "constraints",
    "defaults",
    "generated",
    "identity",
    "indexes",
    "statistics",
];

/// What one LIKE brings.
#[derive(Default)]
struct Brought {
    columns: Vec<SqlColumn>,
    constraints: Vec<TableConstraint>,
    /// Indexes, each with the table that has it.
    indexes: Vec<(TableDef, IndexDef)>,
    /// Comments about columns, by name.
    comments: Vec<(String, String)>,
}

/// Runs CREATE TABLE with these.
pub(crate) async fn create_table_like(
    session: &Session,
    create: &CreateTable,
    likes: &[Like],
) -> Result<StatementResult, SqlError> {
    let snapshot = session.snapshot().await?;
    if create.if_not_exists
        && let Ok(name) = session.namespaces().created(&create.name, create.temporary, &snapshot)
        && snapshot.table(&name).is_some()
    {
        return Ok(StatementResult::done("CREATE TABLE"));
    }
    let (mut expanded, mut indexes, mut comments) = (create.clone(), Vec::new(), Vec::new());
    let mut more = 0;
    for like in likes {
        let brought = brought(session, &snapshot, like)?;
        let place = (like.place + more).min(expanded.columns.len());
        more += brought.columns.len();
        expanded.columns.splice(place..place, brought.columns);
        expanded.constraints.extend(brought.constraints);
        indexes.extend(brought.indexes);
        comments.extend(brought.comments);
    }
    if indexes.is_empty() && comments.is_empty() {
        return ddl::create_table(session, &expanded).await;
    }
    // Table, indexes and comments come together.
    let within = session.transaction_status() != TransactionStatus::Idle;
    let apart = if within { session.clone() } else { session.with_own_transaction() };
    if !within {
        apart.begin(false).await?;
    }
    let done = with_indexes(&apart, &expanded, indexes, comments).await;
    if within {
        return done;
    }
    match done {
        Ok(done) => apart.commit().await.map(|_| done),
        Err(e) => {
            apart.roll_back();
            Err(e)
        }
    }
}

async fn with_indexes(
    session: &Session,
    create: &CreateTable,
    indexes: Vec<(TableDef, IndexDef)>,
    comments: Vec<(String, String)>,
) -> Result<StatementResult, SqlError> {
    let names = session.namespaces();
    let name = names.created(&create.name, create.temporary, &session.snapshot().await?)?;
    if create.if_not_exists && session.snapshot().await?.table(&name).is_some() {
        return Ok(StatementResult::done("CREATE TABLE"));
    }
    let done = ddl::create_table(session, create).await?;
    let mut work = session.work().await?;
    for (def, index) in &indexes {
        let statement = hidden_columns::create_text(def, index, &name, false);
        work = create_within(session, work, &statement).await?;
    }
    blocking(move || work.finish()).await?;
    session
        .define(move |txn| {
            let Some(table) = txn.table(&name) else { return Ok(()) };
            for (column, text) in comments {
                if let Some(column) = table.column(&column) {
                    comments::put_on_column(txn, &table, column, text);
                }
            }
            Ok(())
        })
        .await?;
    Ok(done)
}

fn brought(session: &Session, snapshot: &Snapshot, like: &Like) -> Result<Brought, SqlError> {
    let mut included: Vec<&str> = Vec::new();
    for (includes, option) in &like.options {
        if !OPTIONS.contains(&option.as_str()) && option != "storage" {
            let message = format!("LIKE has no option {}", option.to_uppercase());
            return Err(SqlError::failed(state::SYNTAX_ERROR, message));
        }
        match (includes, option.as_str()) {
            (true, "all") => included.extend(OPTIONS),
            (false, "all") => included.clear(),
            (true, option) => included.push(option),
            (false, option) => included.retain(|o| *o != option),
        }
    }
    let wanted = parts(&like.name)?;
    let missing = || crate::numbers::no_relation(&wanted.join("."));
    let name = session.namespaces().lookup(&wanted, snapshot)?.ok_or_else(missing)?;
    if let Some(table) = snapshot.table(&name) {
        return of_table(snapshot, &table, &included);
    }
    match snapshot.object(ObjectKind::View, &name) {
        Some(Object::View(view)) => {
            let columns = view.columns.iter().map(|(name, t)| format!("{} {t}", quoted(name)));
            let (columns, _) = parsed(&columns.collect::<Vec<_>>())?;
            Ok(Brought { columns, ..Brought::default() })
        }
        _ => Err(SqlError::failed(
            state::WRONG_OBJECT_TYPE,
            format!("\"{}\" is not a table or view", split(&name).1),
        )),
    }
}

fn of_table(snapshot: &Snapshot, table: &Table, included: &[&str]) -> Result<Brought, SqlError> {
    let def = table.def();
    let has = |option: &str| included.contains(&option);
    let names = |columns: &[u16]| -> Vec<String> {
        columns.iter().map(|&c| def.columns[usize::from(c)].name.clone()).collect()
    };
    let list = |columns: &[u16]| names(columns).iter().map(|n| quoted(n)).collect::<Vec<_>>().join(", ");
    let mut lines = Vec::new();
    for c in def.live_columns() {
        let column = &def.columns[usize::from(c)];
        let is_filled = match &column.fill {
            Fill::Null => false,
            Fill::Default(_) | Fill::Sequence(_) => has("defaults"),
            Fill::Generated(_) => has("generated"),
            Fill::Identity { .. } => has("identity"),
        };
        let fill = if is_filled { ddl::filling_text(&column.fill, snapshot) } else { String::new() };
        let not_null = if column.ty.nullable { "" } else { " NOT NULL" };
        lines.push(format!("{} {}{fill}{not_null}", quoted(&column.name), column.declared));
    }
    let mut brought = Brought::default();
    for c in &def.constraints {
        match &c.rule {
            Rule::Check { expression } if has("constraints") => {
                lines.push(format!("CONSTRAINT {} CHECK ({expression})", quoted(&c.name)));
            }
            Rule::Unique { columns } if has("indexes") => lines.push(format!("UNIQUE ({})", list(columns))),
            _ => {}
        }
    }
    if has("indexes") {
        if !def.primary_key.is_empty() {
            lines.push(format!("PRIMARY KEY ({})", list(&def.primary_key)));
        }
        brought.indexes = table.indexes().iter().map(|i| (def.clone(), i.clone())).collect();
    }
    if has("comments") {
        let objects = snapshot.all_objects();
        for c in def.live_columns() {
            let text = comments::comment_on(&objects, table.name(), Some(usize::from(c) + 1));
            brought.comments.extend(text.map(|text| (def.columns[usize::from(c)].name.clone(), text)));
        }
    }
    (brought.columns, brought.constraints) = parsed(&lines)?;
    Ok(brought)
}

/// Elements of CREATE TABLE from their text.
fn parsed(lines: &[String]) -> Result<(Vec<SqlColumn>, Vec<TableConstraint>), SqlError> {
    let statement = Statement::parse(&format!("CREATE TABLE t ({})", lines.join(", ")))?.pop();
    match statement.as_ref().and_then(|s| s.sql()) {
        Some(Sql::CreateTable(create)) => Ok((create.columns.clone(), create.constraints.clone())),
        _ => Err(SqlError::failed(state::INTERNAL_ERROR, "the columns of a table are no columns")),
    }
}
