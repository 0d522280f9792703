//! CREATE INDEX and ALTER INDEX.

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexColumn, IndexType, ObjectName};
use lode_engine::{IndexDef, IndexKind, TableDef, WriteTxn};

use crate::dml::{column_numbers, find_table};
use crate::error::state;
use crate::names::{beside, check_name, fold, primary_key_name, split};
use crate::namespaces::{Relations, has_key};
use crate::statement::{StatementResult, table_name};
use crate::threads::blocking;
use crate::transaction::TransactionStatus;
use crate::{Session, SqlError, comments};

/// Operator classes that order as an index does anyway: texts are ordered by their bytes.
const OPERATOR_CLASSES: [&str; 13] = [
    "text_ops",
    "text_pattern_ops",
    "varchar_ops",
    "varchar_pattern_ops",
    "bpchar_ops",
    "bpchar_pattern_ops",
    "int2_ops",
    "int4_ops",
    "int8_ops",
    "numeric_ops",
    "date_ops",
    "timestamp_ops",
    "bool_ops",
];

/// `CREATE [UNIQUE] INDEX [CONCURRENTLY] [[IF NOT EXISTS] name] ON t [USING page_index | btree] (columns)`. Without USING it is a B+-tree.
pub(crate) async fn create_index(
    session: &Session,
    create: &CreateIndex,
) -> Result<StatementResult, SqlError> {
    let kind = match &create.using {
        Some(IndexType::Custom(kind)) => fold(kind),
        Some(other) => other.to_string().to_lowercase(),
        None => "btree".into(),
    };
    let kind = match (kind.as_str(), create.unique) {
        ("page_index", false) => IndexKind::Page,
        ("btree", unique) => IndexKind::Btree { unique },
        ("hash" | "gin" | "gist" | "spgist" | "brin" | "page_index", _) => {
            return Err(SqlError::Unsupported(format!(
                "CREATE INDEX of this kind ({kind}): expected CREATE [UNIQUE] INDEX name ON table USING btree (columns), \
                 or CREATE INDEX name ON table USING page_index (columns)"
            )));
        }
        _ => {
            let message = format!("access method \"{kind}\" does not exist");
            return Err(SqlError::failed(state::UNDEFINED_OBJECT, message));
        }
    };
    let unusual = match () {
        () if !create.include.is_empty() => Some("INCLUDE"),
        () if create.nulls_distinct == Some(false) => Some("NULLS NOT DISTINCT"),
        () if !create.with.is_empty() => Some("WITH (...)"),
        () if create.predicate.is_some() => Some("WHERE"),
        () if !create.index_options.is_empty() || !create.alter_options.is_empty() => Some("more options"),
        () => None,
    };
    let is_alone = session.transaction_status() == TransactionStatus::Idle;
    if create.concurrently && !is_alone {
        let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(SqlError::failed(state::ACTIVE_SQL_TRANSACTION, message));
    }
    let table_name_of = table_name(&create.table_name)?;
    let snapshot = session.snapshot().await?;
    let table = find_table(&snapshot, &table_name_of)?;
    let columns: Vec<String> = create.columns.iter().map(column).collect::<Result<_, _>>()?;
    check_directions(&create.columns)?;
    let columns = column_numbers(&table, &columns)?;
    let name = match &create.name {
        // An index is in the schema of its table.
        Some(name) => beside(&table_name_of, &table_name(name)?),
        None => free_name(&snapshot, table.def(), &columns),
    };
    check_name("index", split(&name).1)?;
    if let Some(what) = unusual {
        return Err(SqlError::Unsupported(format!("CREATE INDEX with {what}")));
    }
    if snapshot.has_relation(&name) {
        if create.if_not_exists {
            return Ok(StatementResult::done("CREATE INDEX"));
        }
        let message = format!("relation \"{}\" already exists", split(&name).1);
        return Err(SqlError::failed(state::DUPLICATE_TABLE, message));
    }
    let if_not_exists = create.if_not_exists;
    let def = IndexDef { name, table: table_name_of, columns, kind };
    // Alone, a B+-tree is made with the right to write, so nothing that others commit meanwhile is in its way.
    if kind == IndexKind::Page || !is_alone {
        session.define(move |txn| Ok(txn.create_index(def, if_not_exists)?)).await?;
        return Ok(StatementResult::done("CREATE INDEX"));
    }
    let db = session.database().clone();
    blocking(move || Ok(db.create_index(def, if_not_exists)?)).await?;
    Ok(StatementResult::done("CREATE INDEX"))
}

/// The name of a column of an index.
fn column(column: &IndexColumn) -> Result<String, SqlError> {
    if let Some(class) = &column.operator_class {
        let known = class.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
        if !OPERATOR_CLASSES.contains(&known.as_str()) {
            return Err(SqlError::Unsupported(format!("the operator class {class}")));
        }
    }
    let mut expr = &column.column.expr;
    loop {
        expr = match expr {
            Expr::Nested(inner) => inner,
            Expr::Collate { expr, collation } if is_by_bytes(collation) => expr,
            Expr::Identifier(name) => return Ok(fold(name)),
            other => {
                return Err(SqlError::Unsupported(format!("{other} in an index: expected a column's name")));
            }
        }
    }
}

/// Whether a collation orders texts by their bytes.
fn is_by_bytes(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident()).map(|i| i.value.to_uppercase());
    name.is_some_and(|name| ["C", "POSIX", "UCS_BASIC"].contains(&name.as_str()))
}

/// An index is read from either end. So all its columns ascend, with NULL last, or all descend, with NULL first.
fn check_directions(columns: &[IndexColumn]) -> Result<(), SqlError> {
    let descends = |c: &IndexColumn| c.column.options.asc == Some(false);
    let usual = |c: &IndexColumn| c.column.options.nulls_first.is_none_or(|first| first == descends(c));
    let first = columns.first().is_some_and(descends);
    if columns.iter().all(|c| descends(c) == first && usual(c)) {
        return Ok(());
    }
    let what = "an index whose columns have different directions, or NULL at the other end";
    Err(SqlError::Unsupported(what.into()))
}

/// The name that PostgreSQL gives an index: of table and columns, with a number if it is taken.
fn free_name(of: &impl Relations, table: &TableDef, columns: &[u16]) -> String {
    let columns: Vec<&str> = columns.iter().map(|&c| table.columns[usize::from(c)].name.as_str()).collect();
    let wanted = format!("{}_{}_idx", split(&table.name).1, columns.join("_"));
    let numbered = (1..).map(|n| format!("{wanted}{n}"));
    let mut names = std::iter::once(wanted.clone()).chain(numbered).map(|name| beside(&table.name, &name));
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
