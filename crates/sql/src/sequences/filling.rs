//! ALTER TABLE ... ALTER COLUMN, about IDENTITY and generated columns.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use lode_engine::{EngineError, Fill, Object, ObjectKind, TableDef, WriteTxn};

use super::options::defined;
use crate::error::state;
use crate::names::{fold, shown};
use crate::namespaces::NameSpaces;
use crate::statement::{FillingChange, SequenceOption, StatementResult, parts};
use crate::{Session, SqlError, comments};

/// Runs `ALTER TABLE table ALTER column` with one of these changes.
pub(crate) async fn alter_filling(
    session: &Session,
    if_exists: bool,
    table: &ObjectName,
    column: &Ident,
    change: &FillingChange,
) -> Result<StatementResult, SqlError> {
    let names: NameSpaces = session.namespaces().clone();
    let (wanted, column, change) = (parts(table)?, fold(column), change.clone());
    session
        .define(move |txn| match names.lookup(&wanted, txn)? {
            Some(name) => alter(txn, &name, &column, change),
            None if if_exists => Ok(()),
            None => Err(EngineError::NoSuchTable(wanted.join(".")).into()),
        })
        .await?;
    Ok(StatementResult::done("ALTER TABLE"))
}

fn alter(txn: &mut WriteTxn, name: &str, column: &str, change: FillingChange) -> Result<(), SqlError> {
    let Some(table) = txn.table(name) else {
        return Err(SqlError::failed(
            state::WRONG_OBJECT_TYPE,
            format!("\"{}\" is not a table", shown(name)),
        ));
    };
    let no_column = || SqlError::NoColumn { table: name.to_owned(), column: column.to_owned() };
    let number = usize::from(table.column(column).ok_or_else(no_column)?);
    let mut def: TableDef = table.def().clone();
    let is_not = |what: &str| {
        let message = format!("column \"{column}\" of relation \"{}\" is not {what}", shown(name));
        Err(SqlError::failed(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
    };
    match (change, def.columns[number].fill.clone()) {
        (FillingChange::Identity { always, options }, Fill::Identity { sequence, always: was }) => {
            set_options(txn, sequence, &options)?;
            def.columns[number].fill = Fill::Identity { sequence, always: always.unwrap_or(was) };
        }
        (FillingChange::Identity { .. }, _) => return is_not("an identity column"),
        (FillingChange::DropIdentity { .. }, Fill::Identity { sequence, .. }) => {
            def.columns[number].fill = Fill::Null;
            let found = txn.sequences().find(|(_, def)| def.id == sequence).map(|(name, _)| name.to_owned());
            if let Some(found) = found {
                txn.drop_object(ObjectKind::Sequence, &found);
                comments::forget_all(txn, "sequence", sequence);
            }
        }
        (FillingChange::DropIdentity { if_exists: false }, _) => return is_not("an identity column"),
        (FillingChange::DropExpression { .. }, Fill::Generated(_)) => def.columns[number].fill = Fill::Null,
        (FillingChange::DropExpression { if_exists: false }, _) => {
            return is_not("a stored generated column");
        }
        (FillingChange::DropIdentity { .. } | FillingChange::DropExpression { .. }, _) => return Ok(()),
    }
    Ok(txn.alter_table(name, def)?)
}

fn set_options(txn: &mut WriteTxn, sequence: u32, options: &[SequenceOption]) -> Result<(), SqlError> {
    let found = txn.sequences().find(|(_, def)| def.id == sequence);
    let Some((name, old)) = found.map(|(name, def)| (name.to_owned(), def.clone())) else { return Ok(()) };
    let def = defined(old.id, options, Some(&old))?;
    if def != old {
        txn.put_object(&name, Object::Sequence(def));
    }
    Ok(())
}
