//! CREATE INDEX and ALTER INDEX.

use std::slice;

use datafusion::arrow::datatypes::DataType;
use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, CreateIndex, Expr, Ident, IndexColumn, IndexType, ObjectName,
    Statement as Sql,
};
use lode_engine::{ColumnDef, EntryOf, IndexDef, IndexKind, KeyOrder, Snapshot, Table, TableDef, WriteTxn};

use crate::dml::{Checks, column_numbers, find_table, type_of, update_all};
use crate::error::state;
use crate::index_elements::Element;
use crate::names::{beside, check_name, fold, primary_key_name, shown, split};
use crate::namespaces::{Relations, has_key};
use crate::statement::{Statement, StatementResult, column_name, table_name};
use crate::threads::blocking;
use crate::transaction::{StatementTxn, TransactionStatus};
use crate::types::column_type;
use crate::{Session, SqlError, comments, hidden_columns, summaries};

/// `CREATE [UNIQUE] INDEX [CONCURRENTLY] [[IF NOT EXISTS] name] ON t [USING page_index | btree] (columns and expressions) [WHERE ...]`.
/// Without USING it is a B+-tree, whose entries name pages, or `WITH (entries = 'rows')` rows. What the page index keeps of each column: `summaries.rs`.
pub(crate) async fn create_index(
    session: &Session,
    create: &CreateIndex,
) -> Result<StatementResult, SqlError> {
    let is_alone = session.transaction_status() == TransactionStatus::Idle;
    if create.concurrently && !is_alone {
        let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(SqlError::failed(state::ACTIVE_SQL_TRANSACTION, message));
    }
    let snapshot = session.snapshot().await?;
    let Some(made) = NewIndex::of(session, &snapshot, create).await? else {
        return Ok(StatementResult::done("CREATE INDEX"));
    };
    if !made.columns.is_empty() {
        let work = made.make(session, session.work().await?).await?;
        blocking(move || work.finish()).await?;
        return Ok(StatementResult::done("CREATE INDEX"));
    }
    let (def, if_not_exists) = (made.def, create.if_not_exists);
    // Alone, a B+-tree is made with the right to write, so nothing that others commit meanwhile is in its way.
    if def.kind == IndexKind::Page || !is_alone {
        session.define(move |txn| Ok(txn.create_index(def, if_not_exists)?)).await?;
        return Ok(StatementResult::done("CREATE INDEX"));
    }
    let db = session.database().clone();
    blocking(move || Ok(db.create_index(def, if_not_exists)?)).await?;
    Ok(StatementResult::done("CREATE INDEX"))
}

/// Makes the index of a CREATE INDEX statement within `work`.
pub(crate) async fn create_within(
    session: &Session,
    work: StatementTxn,
    statement: &str,
) -> Result<StatementTxn, SqlError> {
    let parsed = Statement::parse(statement)?.pop();
    let Some(Sql::CreateIndex(create)) = parsed.as_ref().and_then(|s| s.sql()) else {
        return Err(SqlError::failed(state::INTERNAL_ERROR, "the declaration of an index is none"));
    };
    let (work, snapshot) = work.snapshot().await?;
    match NewIndex::of(session, &snapshot, create).await? {
        Some(made) => made.make(session, work).await,
        None => Ok(work),
    }
}

/// An index that a statement makes.
struct NewIndex {
    def: IndexDef,
    /// The hidden columns that it adds to its table.
    columns: Vec<ColumnDef>,
}

impl NewIndex {
    /// `None` if there is one with this name already, and the statement allows that.
    async fn of(
        session: &Session,
        snapshot: &Snapshot,
        create: &CreateIndex,
    ) -> Result<Option<Self>, SqlError> {
        let kind = kind(create)?;
        let unusual = match () {
            () if !create.include.is_empty() => Some("INCLUDE"),
            () if create.nulls_distinct == Some(false) => Some("NULLS NOT DISTINCT"),
            () if !create.index_options.is_empty() || !create.alter_options.is_empty() => {
                Some("more options")
            }
            () => None,
        };
        let table_name_of = table_name(&create.table_name)?;
        let table = find_table(snapshot, &table_name_of)?;
        let element = |c: &IndexColumn| match kind {
            IndexKind::Page => Element::of(&summaries::without_kind(c)),
            IndexKind::Btree { .. } => Element::of(c),
        };
        let elements = create.columns.iter().map(element).collect::<Result<Vec<_>, _>>()?;
        let orders = orders(&create.columns, kind, create.predicate.is_some())?;
        let name = match &create.name {
            // An index is in the schema of its table.
            Some(name) => beside(&table_name_of, &table_name(name)?),
            None => free_name(snapshot, table.name(), &elements),
        };
        check_name("index", split(&name).1)?;
        let state = session.state_at(snapshot.clone(), None);
        let mut probe = table.def().clone();
        let old = probe.columns.len();
        let mut columns = Vec::with_capacity(elements.len() + 1);
        if let Some(condition) = &create.predicate {
            columns.push(add_condition(&state, &mut probe, &condition.to_string())?);
        }
        for element in &elements {
            columns.push(match element {
                Element::Column(name) => column_numbers(&table, slice::from_ref(name))?[0],
                Element::Expression(e) => add_expression(&state, &mut probe, &e.to_string())?,
            });
        }
        if let Some(twice) = (1..columns.len()).find(|&i| columns[..i].contains(&columns[i])) {
            let column = shown(&probe.columns[usize::from(columns[twice])].name);
            return Err(SqlError::ColumnTwice { column, how: "named" });
        }
        let columns_of_index = columns;
        if kind == IndexKind::Page && create.predicate.is_some() {
            return Err(SqlError::Unsupported("a page index of a part of the rows".into()));
        }
        // An expression that cannot be computed for a row is an error of CREATE INDEX, not of the first INSERT.
        Checks::of(&state, &probe)?;
        if let Some(what) = unusual {
            return Err(SqlError::Unsupported(format!("CREATE INDEX with {what}")));
        }
        if snapshot.has_relation(&name) {
            if create.if_not_exists {
                return Ok(None);
            }
            let message = format!("relation \"{}\" already exists", split(&name).1);
            return Err(SqlError::failed(state::DUPLICATE_TABLE, message));
        }
        let mut def = IndexDef { orders, ..IndexDef::new(name, table_name_of, columns_of_index, kind) };
        match kind {
            IndexKind::Page if summaries::is_composite(create)? => {
                let (snapshot, columns) = (snapshot.clone(), std::mem::take(&mut def.columns));
                (def.columns, def.summaries) = summaries::chosen(snapshot, table, create, columns).await?;
            }
            IndexKind::Page => def.summaries = summaries::declared(&state, create, &probe, &def).await?,
            IndexKind::Btree { .. } => def.entries = entries(&create.with, &table)?,
        }
        let columns = probe.columns.split_off(old);
        Ok(Some(Self { def, columns }))
    }

    /// Adds the hidden columns, computes them for the rows that are there, and makes the index.
    async fn make(self, session: &Session, work: StatementTxn) -> Result<StatementTxn, SqlError> {
        let Self { def, columns } = self;
        let (table, names) = (def.table.clone(), columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>());
        let of_table = table.clone();
        let mut work = change(work, move |txn| {
            if columns.is_empty() {
                return Ok(());
            }
            let table = txn.table(&of_table).expect("it was just found");
            let mut altered = table.def().clone();
            altered.columns.extend(columns);
            Ok(txn.alter_table(&of_table, altered)?)
        })
        .await?;
        for name in names {
            let set = Assignment {
                target: AssignmentTarget::ColumnName(ObjectName::from(vec![Ident::with_quote('"', name)])),
                value: Expr::Identifier(Ident::new("DEFAULT")),
            };
            work = update_all(session, work, &table, set).await?;
        }
        change(work, move |txn| Ok(txn.create_index(def, false).map(drop)?)).await
    }
}

/// Changes definitions on a thread for blocking work.
async fn change(
    mut work: StatementTxn,
    f: impl FnOnce(&mut WriteTxn) -> Result<(), SqlError> + Send + 'static,
) -> Result<StatementTxn, SqlError> {
    blocking(move || {
        f(&mut work.txn)?;
        Ok(work)
    })
    .await
}

fn kind(create: &CreateIndex) -> Result<IndexKind, SqlError> {
    let kind = match &create.using {
        Some(IndexType::Custom(kind)) => fold(kind),
        Some(other) => other.to_string().to_lowercase(),
        None => "btree".into(),
    };
    match (kind.as_str(), create.unique) {
        ("page_index", false) => Ok(IndexKind::Page),
        ("btree", unique) => Ok(IndexKind::Btree { unique }),
        ("hash" | "gin" | "gist" | "spgist" | "brin" | "page_index", _) => {
            Err(SqlError::Unsupported(format!(
                "CREATE INDEX of this kind ({kind}): expected CREATE [UNIQUE] INDEX name ON table USING btree (columns), \
                 or CREATE INDEX name ON table USING page_index (columns with range, prefix, bitmap, bloom, trigram or composite) [WITH (bytes = n, domain = 'a, b')]"
            )))
        }
        _ => {
            let message = format!("access method \"{kind}\" does not exist");
            Err(SqlError::failed(state::UNDEFINED_OBJECT, message))
        }
    }
}

/// What entries of a B+-tree name: `WITH (entries = 'pages' | 'rows')`.
fn entries(with: &[Expr], table: &Table) -> Result<EntryOf, SqlError> {
    let invalid = |message: String| Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, message));
    let mut named = EntryOf::default();
    for option in with {
        named = match option.to_string().to_ascii_lowercase().as_str() {
            "entries = 'pages'" if table.has_delta() => {
                return invalid("entries of a table with changes = 'delta' name rows".into());
            }
            "entries = 'pages'" => EntryOf::Pages,
            // Those of a table with a delta do so by themselves.
            "entries = 'rows'" if table.has_delta() => EntryOf::default(),
            "entries = 'rows'" => EntryOf::Rows,
            _ => {
                return invalid(format!("expected entries = 'pages' or 'rows' of a B+-tree, found {option}"));
            }
        };
    }
    Ok(named)
}

/// The number of the hidden column for an expression. A new one is added to `def`.
fn add_expression(state: &SessionState, def: &mut TableDef, text: &str) -> Result<u16, SqlError> {
    let t = type_of(state, def, text)?;
    let Some(data_type) = column_type(&t) else {
        return Err(SqlError::Unsupported(format!("an index on values of type {t}")));
    };
    add_hidden(def, hidden_columns::of_expression(text, data_type))
}

/// The number of the hidden column for the condition of a partial index. A new one is added to `def`.
fn add_condition(state: &SessionState, def: &mut TableDef, text: &str) -> Result<u16, SqlError> {
    if !matches!(type_of(state, def, text)?, DataType::Boolean | DataType::Null) {
        let message = "argument of WHERE must be of type boolean";
        return Err(SqlError::failed(state::DATATYPE_MISMATCH, message));
    }
    add_hidden(def, hidden_columns::of_condition(text)?)
}

fn add_hidden(def: &mut TableDef, column: ColumnDef) -> Result<u16, SqlError> {
    let same = |c: &ColumnDef| c.hidden == column.hidden && c.name == column.name;
    let place = def.columns.iter().position(same).unwrap_or(def.columns.len());
    if place == def.columns.len() {
        def.columns.push(column);
    }
    Ok(place as u16)
}

/// How an index orders its columns. Empty if all ascend with NULL last, or all descend with NULL first: an index is read from either
/// end. The condition of a partial index comes before the columns.
fn orders(columns: &[IndexColumn], kind: IndexKind, is_partial: bool) -> Result<Vec<KeyOrder>, SqlError> {
    let order = |c: &IndexColumn| {
        let descending = c.column.options.asc == Some(false);
        KeyOrder { descending, nulls_first: c.column.options.nulls_first.unwrap_or(descending) }
    };
    let declared: Vec<KeyOrder> = columns.iter().map(order).collect();
    let usual = KeyOrder::default();
    let backward = KeyOrder { descending: true, nulls_first: true };
    if [usual, backward].iter().any(|all| declared.iter().all(|o| o == all)) {
        return Ok(Vec::new());
    }
    if kind == IndexKind::Page {
        return Err(SqlError::Unsupported("a page index with an order".into()));
    }
    Ok(is_partial.then_some(usual).into_iter().chain(declared).collect())
}

/// The name that PostgreSQL gives an index: of table and columns, with a number if it is taken.
fn free_name(of: &impl Relations, table: &str, elements: &[Element]) -> String {
    let mut columns: Vec<String> = Vec::with_capacity(elements.len());
    for element in elements {
        let wanted = match element {
            Element::Column(name) => name.clone(),
            Element::Expression(e) => column_name(e).unwrap_or_else(|| "expr".into()),
        };
        let numbered = (1..).map(|n| format!("{wanted}{n}"));
        let mut names = std::iter::once(wanted.clone()).chain(numbered);
        columns.extend(names.find(|name| !columns.contains(name)));
    }
    let wanted = format!("{}_{}_idx", split(table).1, columns.join("_"));
    let numbered = (1..).map(|n| format!("{wanted}{n}"));
    let mut names = std::iter::once(wanted.clone()).chain(numbered).map(|name| beside(table, &name));
    names.find(|name| !of.has_relation(name)).expect("there is no end of numbers")
}

/// `ALTER INDEX i RENAME TO j`: also of the index of a key, which has the name of its constraint.
pub(crate) fn rename_index(txn: &mut WriteTxn, name: &str, to: &str) -> Result<(), SqlError> {
    let to = beside(name, to);
    check_name("index", split(&to).1)?;
    if txn.has_relation(&to) {
        let message = format!("relation \"{}\" already exists", split(&to).1);
        return Err(SqlError::failed(state::DUPLICATE_TABLE, message));
    }
    let of_key = txn.tables().find(|t| has_key(t, name)).cloned();
    if let Some(table) = of_key {
        let (from, to) = (split(name).1, split(&to).1);
        return match from == primary_key_name(table.def()) {
            true => Ok(txn.rename_primary_key(table.name(), to)?),
            false => Ok(txn.rename_constraint(table.name(), from, to)?),
        };
    }
    txn.rename_index(name, &to)?;
    comments::follow(txn, "index", name, &to);
    Ok(())
}
