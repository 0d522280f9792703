//! DROP: tables, indexes and sequences, with what depends on them.

use datafusion::sql::sqlparser::ast::{ObjectType, Statement as Sql};
use lode_engine::{ColumnDef, Constraint, EngineError, Fill, Object, ObjectKind, Rule, TableDef, WriteTxn};

use crate::error::state;
use crate::statement::{StatementResult, table_name};
use crate::{Session, SqlError, ddl, sequences};

/// `DROP TABLE | INDEX | SEQUENCE [IF EXISTS] a, b, ... [CASCADE]`.
pub(crate) async fn drop(session: &Session, statement: &Sql) -> Result<StatementResult, SqlError> {
    let Sql::Drop { object_type, if_exists, names, cascade, purge, temporary, table, .. } = statement else {
        unreachable!("the caller matched DROP");
    };
    let cascade = *cascade;
    if *purge || *temporary || table.is_some() {
        return Err(SqlError::Unsupported("DROP with options".into()));
    }
    let names = names.iter().map(table_name).collect::<Result<Vec<_>, _>>()?;
    let if_exists = *if_exists;
    match object_type {
        ObjectType::Table => {
            ddl::change(session, move |txn| drop_tables(txn, &names, if_exists, cascade)).await?;
            Ok(StatementResult::done("DROP TABLE"))
        }
        ObjectType::Index => {
            ddl::change(session, move |txn| {
                for name in &names {
                    txn.drop_index(name, if_exists)?;
                }
                Ok(true)
            })
            .await?;
            Ok(StatementResult::done("DROP INDEX"))
        }
        ObjectType::Sequence => {
            ddl::change(session, move |txn| {
                for name in &names {
                    drop_sequence(txn, name, if_exists, cascade)?;
                }
                Ok(true)
            })
            .await?;
            Ok(StatementResult::done("DROP SEQUENCE"))
        }
        other => Err(SqlError::Unsupported(format!("DROP {other}"))),
    }
}

/// Drops tables, and the sequences that belong to them. Tables that reference each other go together.
fn drop_tables(
    txn: &mut WriteTxn,
    names: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<bool, SqlError> {
    let mut left = Vec::with_capacity(names.len());
    for name in names {
        match txn.table(name) {
            Some(table) if !left.contains(&(name, table.id().raw())) => left.push((name, table.id().raw())),
            Some(_) => {}
            None if txn.object(ObjectKind::Sequence, name).is_some() => {
                let message = format!("\"{name}\" is not a table");
                return Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message));
            }
            None if if_exists => {}
            None => return Err(EngineError::NoSuchTable(name.clone()).into()),
        }
    }
    if cascade {
        for name in names {
            drop_references(txn, name, None)?;
        }
    }
    // One that another references goes after it.
    while !left.is_empty() {
        let before = left.len();
        let mut first = None;
        let mut kept = Vec::with_capacity(left.len());
        for (name, id) in left {
            match txn.drop_table(name, false) {
                Ok(_) => sequences::drop_owned(txn, id, None),
                Err(e @ EngineError::Referenced { .. }) => {
                    first.get_or_insert(e);
                    kept.push((name, id));
                }
                Err(e) => return Err(e.into()),
            }
        }
        left = kept;
        if let Some(e) = first.filter(|_| left.len() == before) {
            return Err(e.into());
        }
    }
    Ok(true)
}

/// Drops the foreign keys of other tables that reference a table, or those of all tables that reference this key of it.
pub(crate) fn drop_references(txn: &mut WriteTxn, parent: &str, key: Option<&[u16]>) -> Result<(), SqlError> {
    let mut doomed = Vec::new();
    for t in txn.tables() {
        let references = |c: &&Constraint| match &c.rule {
            Rule::ForeignKey { parent: of, parent_columns, .. } => {
                of == parent && key.map_or(t.name() != parent, |key| parent_columns == key)
            }
            _ => false,
        };
        let names = t.def().constraints.iter().filter(references).map(|c| c.name.clone());
        doomed.extend(names.map(|c| (t.name().to_owned(), c)));
    }
    for (table, name) in doomed {
        txn.drop_constraint(&table, &name)?;
    }
    Ok(())
}

fn drop_sequence(txn: &mut WriteTxn, name: &str, if_exists: bool, cascade: bool) -> Result<(), SqlError> {
    let Some(Object::Sequence(def)) = txn.object(ObjectKind::Sequence, name).cloned() else {
        return match (txn.table(name).is_some(), if_exists) {
            (true, _) => {
                let message = format!("\"{name}\" is not a sequence");
                Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message))
            }
            (false, true) => Ok(()),
            (false, false) => {
                let message = format!("sequence \"{name}\" does not exist");
                Err(SqlError::failed(state::UNDEFINED_TABLE, message))
            }
        };
    };
    let takes = |c: &ColumnDef| c.fill.sequence() == Some(def.id);
    let users: Vec<TableDef> =
        txn.tables().filter(|t| t.def().columns.iter().any(takes)).map(|t| t.def().clone()).collect();
    let is_identity = def.owner.as_ref().is_some_and(|o| o.identity);
    if cascade && !is_identity {
        for mut user in users {
            user.columns.iter_mut().filter(|c| takes(c)).for_each(|c| c.fill = Fill::Null);
            let table = user.name.clone();
            txn.alter_table(&table, user)?;
        }
    } else if let Some(user) = users.first() {
        let table = &user.name;
        let column = user.columns.iter().find(|c| takes(c)).map_or("", |c| c.name.as_str());
        let message = format!(
            "cannot drop sequence \"{name}\": the default of column \"{column}\" of table \"{table}\" depends on it"
        );
        return Err(SqlError::failed(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
    }
    txn.drop_object(ObjectKind::Sequence, name);
    Ok(())
}
