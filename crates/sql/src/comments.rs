//! COMMENT: a text about a table, a column, an index, a view, a sequence, a schema or a constraint.
//!
//! A comment is an object of the catalog. Its name says what it is about: by number where there is one, so that it stays when names
//! change.

use datafusion::sql::sqlparser::ast::{CommentObject, Ident, ObjectName};
use lode_engine::{AllObjects, Object, ObjectKind, Table, WriteTxn};

use crate::error::state;
use crate::names::{fold, primary_key_name, shown};
use crate::namespaces::{NameSpaces, no_schema};
use crate::statement::{StatementResult, parts};
use crate::{Session, SqlError};

/// What a comment is about.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// A relation or a schema, or a column by its name behind that of its table.
    Object(CommentObject, ObjectName),
    /// A constraint of a table.
    Constraint(Ident, ObjectName),
}

/// The name of the comment about a table or a view with its sequences, by number; with a column, the name of the comment about that.
fn about(kind: &str, id: u32, column: Option<usize>) -> String {
    match column {
        Some(column) => format!("{kind} {id} column {column}"),
        None => format!("{kind} {id}"),
    }
}

fn about_named(kind: &str, name: &str) -> String {
    format!("{kind} {name}")
}

/// `COMMENT ON ... IS 'text'`, or NULL: then there is none any more. An empty text is none too.
pub(crate) async fn comment(
    session: &Session,
    subject: Subject,
    text: Option<String>,
) -> Result<StatementResult, SqlError> {
    let names = session.namespaces().clone();
    session
        .define(move |txn| {
            let name = subject_name(txn, &names, &subject)?;
            match text.filter(|text| !text.is_empty()) {
                Some(text) => txn.put_object(&name, Object::Comment(text)),
                None => {
                    txn.drop_object(ObjectKind::Comment, &name);
                }
            }
            Ok(())
        })
        .await?;
    Ok(StatementResult::done("COMMENT"))
}

fn subject_name(txn: &WriteTxn, names: &NameSpaces, subject: &Subject) -> Result<String, SqlError> {
    let (object, name) = match subject {
        Subject::Object(object, name) => (object, name),
        Subject::Constraint(constraint, table) => {
            let parts = parts(table)?;
            let found = names.lookup(&parts, txn)?.and_then(|name| txn.table(&name));
            let table = found.ok_or_else(|| no_relation(&parts))?;
            let constraint = fold(constraint);
            let is_key = !table.def().primary_key.is_empty() && constraint == primary_key_name(table.def());
            if !is_key && !table.def().constraints.iter().any(|c| c.name == constraint) {
                let message = format!(
                    "constraint \"{constraint}\" for table \"{}\" does not exist",
                    shown(table.name())
                );
                return Err(SqlError::failed(state::UNDEFINED_OBJECT, message));
            }
            return Ok(format!("{} constraint {constraint}", about("table", table.id().raw(), None)));
        }
    };
    let mut parts = parts(name)?;
    match object {
        CommentObject::Schema => {
            let schema = parts.join(".");
            let is_there =
                schema == crate::names::SCHEMA || txn.object(ObjectKind::Schema, &schema).is_some();
            return if is_there { Ok(about_named("schema", &schema)) } else { Err(no_schema(&schema)) };
        }
        CommentObject::Column => {
            let column = parts.pop().unwrap_or_default();
            if parts.is_empty() {
                let message = format!("the name of a column needs that of its table: {name}");
                return Err(SqlError::failed(state::SYNTAX_ERROR, message));
            }
            let relation = names.lookup(&parts, txn)?.ok_or_else(|| no_relation(&parts))?;
            let no_column = || SqlError::NoColumn { table: relation.clone(), column: column.clone() };
            if let Some(table) = txn.table(&relation) {
                let number = table.column(&column).ok_or_else(no_column)?;
                return Ok(about("table", table.id().raw(), Some(usize::from(number))));
            }
            return match txn.object(ObjectKind::View, &relation) {
                Some(Object::View(view)) => {
                    let number = view.columns.iter().position(|(name, _)| *name == column);
                    Ok(about("view", view.id, Some(number.ok_or_else(no_column)?)))
                }
                _ => Err(wrong_kind(&relation, "a table or a view")),
            };
        }
        CommentObject::Table | CommentObject::View | CommentObject::Sequence | CommentObject::Index => {}
        other => return Err(SqlError::Unsupported(format!("COMMENT ON {other}"))),
    }
    let relation = names.lookup(&parts, txn)?.ok_or_else(|| no_relation(&parts))?;
    let found = (txn.table(&relation), txn.object(ObjectKind::View, &relation));
    Ok(match (object, found, txn.object(ObjectKind::Sequence, &relation)) {
        (CommentObject::Table, (Some(table), _), _) => about("table", table.id().raw(), None),
        (CommentObject::Table, ..) => return Err(wrong_kind(&relation, "a table")),
        (CommentObject::View, (_, Some(Object::View(view))), _) => about("view", view.id, None),
        (CommentObject::View, ..) => return Err(wrong_kind(&relation, "a view")),
        (CommentObject::Sequence, _, Some(Object::Sequence(def))) => about("sequence", def.id, None),
        (CommentObject::Sequence, ..) => return Err(wrong_kind(&relation, "a sequence")),
        _ if txn.has_index(&relation) => about_named("index", &relation),
        _ => return Err(wrong_kind(&relation, "an index")),
    })
}

fn no_relation(parts: &[String]) -> SqlError {
    crate::numbers::no_relation(&parts.join("."))
}

fn wrong_kind(relation: &str, expected: &str) -> SqlError {
    let message = format!("\"{}\" is not {expected}", shown(relation));
    SqlError::failed(state::WRONG_OBJECT_TYPE, message)
}

/// The comment about a relation of this name, or about the column of this number, from 1 on.
pub(crate) fn comment_on(objects: &AllObjects, relation: &str, column: Option<usize>) -> Option<String> {
    let column = match column {
        Some(number) => Some(number.checked_sub(1)?),
        None => None,
    };
    let name = if let Some(table) = objects.table(relation) {
        about("table", table.id().raw(), column)
    } else {
        match objects.get(ObjectKind::View, relation) {
            Some(Object::View(view)) => about("view", view.id, column),
            _ => match objects.get(ObjectKind::Sequence, relation) {
                Some(Object::Sequence(def)) => about("sequence", def.id, column),
                _ => about_named("index", relation),
            },
        }
    };
    match objects.get(ObjectKind::Comment, &name) {
        Some(Object::Comment(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Makes a comment about a column of a table.
pub(crate) fn put_on_column(txn: &mut WriteTxn, table: &Table, column: u16, text: String) {
    let name = about("table", table.id().raw(), Some(usize::from(column)));
    txn.put_object(&name, Object::Comment(text));
}

/// Lets the comments about an index or a schema follow it to another name.
pub(crate) fn follow(txn: &mut WriteTxn, kind: &str, from: &str, to: &str) {
    if let Some(comment) = txn.drop_object(ObjectKind::Comment, &about_named(kind, from)) {
        txn.put_object(&about_named(kind, to), comment);
    }
}

/// Drops the comment about an index or a schema.
pub(crate) fn forget(txn: &mut WriteTxn, kind: &str, name: &str) {
    txn.drop_object(ObjectKind::Comment, &about_named(kind, name));
}

/// Drops the comments about a table, a view or a sequence, and about what is of it.
pub(crate) fn forget_all(txn: &mut WriteTxn, kind: &str, id: u32) {
    let (own, of_it) = (about(kind, id, None), format!("{} ", about(kind, id, None)));
    let doomed: Vec<String> = txn
        .objects(ObjectKind::Comment)
        .filter(|(name, _)| *name == own || name.starts_with(&of_it))
        .map(|(name, _)| name.to_owned())
        .collect();
    for name in doomed {
        txn.drop_object(ObjectKind::Comment, &name);
    }
}
