//! ALTER ... SET SCHEMA and ALTER VIEW.

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use lode_engine::{EngineError, Object, ObjectKind, ViewDef, WriteTxn};

use super::define::{move_to_schema, rename};
use crate::error::state;
use crate::indexes::rename_index;
use crate::names::{beside, check_name, fold, shown, split};
use crate::namespaces::has_key;
use crate::sequences::alter_filling;
use crate::statement::{RelationAction, RelationStatement, StatementResult, parts};
use crate::{Session, SqlError, comments};

/// Runs a statement about a relation.
pub(crate) async fn alter_relation(
    session: &Session,
    statement: &RelationStatement,
) -> Result<StatementResult, SqlError> {
    let (kind, if_exists, name, action) = match statement {
        RelationStatement::Alter { kind, if_exists, name, action } => {
            (*kind, *if_exists, name, action.clone())
        }
        RelationStatement::AlterFilling { if_exists, table, column, change } => {
            return alter_filling(session, *if_exists, table, column, change).await;
        }
        RelationStatement::Refused(what) => return Err(SqlError::Unsupported(what.clone())),
        RelationStatement::CommentOnConstraint { constraint, table, text } => {
            let subject = comments::Subject::Constraint(constraint.clone(), table.clone());
            return comments::comment(session, subject, text.clone()).await;
        }
    };
    let verb = match kind {
        ObjectType::View => "ALTER VIEW",
        ObjectType::Sequence => "ALTER SEQUENCE",
        ObjectType::Index => "ALTER INDEX",
        _ => "ALTER TABLE",
    };
    let (names, name): (_, ObjectName) = (session.namespaces().clone(), name.clone());
    session
        .define(move |txn| {
            let wanted = parts(&name)?;
            let Some(relation) = names.lookup(&wanted, txn)? else {
                let missing = EngineError::NoSuchTable(wanted.join("."));
                return if if_exists { Ok(()) } else { Err(missing.into()) };
            };
            let is_kind = match kind {
                ObjectType::View => txn.object(ObjectKind::View, &relation).is_some(),
                ObjectType::Sequence => txn.object(ObjectKind::Sequence, &relation).is_some(),
                ObjectType::Index => is_index(txn, &relation),
                _ => !txn.has_index(&relation),
            };
            if !is_kind {
                let message =
                    format!("\"{}\" is not a {}", shown(&relation), kind.to_string().to_lowercase());
                return Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message));
            }
            match (kind, action) {
                (ObjectType::Index, RelationAction::Rename(to)) => rename_index(txn, &relation, &fold(&to)),
                (ObjectType::Index, _) => {
                    Err(SqlError::Unsupported("ALTER INDEX with more than RENAME TO".into()))
                }
                (_, action) => act(txn, &relation, action),
            }
        })
        .await?;
    session.names_changed();
    Ok(StatementResult::done(verb))
}

fn is_index(txn: &WriteTxn, name: &str) -> bool {
    txn.has_index(name) || txn.tables().any(|t| has_key(t, name))
}

fn act(txn: &mut WriteTxn, relation: &str, action: RelationAction) -> Result<(), SqlError> {
    match action {
        RelationAction::SetSchema(schema) => move_to_schema(txn, relation, &schema),
        RelationAction::Rename(to) => {
            let to = beside(relation, &fold(&to));
            check_name("view", split(&to).1)?;
            rename(txn, relation, &to)
        }
        RelationAction::RenameColumn(from, to) => {
            let (from, to) = (fold(&from), fold(&to));
            check_name("column", &to)?;
            let Some(Object::View(mut view)) = txn.object(ObjectKind::View, relation).cloned() else {
                unreachable!("only views come here");
            };
            rename_column(relation, &mut view, &from, &to)?;
            txn.put_object(relation, Object::View(view));
            Ok(())
        }
        RelationAction::Owner => Err(SqlError::Unsupported("OWNER TO: there are no owners".into())),
    }
}

fn rename_column(relation: &str, view: &mut ViewDef, from: &str, to: &str) -> Result<(), SqlError> {
    if view.columns.iter().any(|(name, _)| name == to) {
        let message = format!("column \"{to}\" of relation \"{}\" already exists", shown(relation));
        return Err(SqlError::failed(state::DUPLICATE_COLUMN, message));
    }
    match view.columns.iter_mut().find(|(name, _)| name == from) {
        Some((name, _)) => {
            *name = to.to_owned();
            Ok(())
        }
        None => Err(SqlError::NoColumn { table: relation.to_owned(), column: from.to_owned() }),
    }
}
