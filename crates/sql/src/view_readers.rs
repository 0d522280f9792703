//! What depends on a relation: the views that read it, and those that read these. And DROP VIEW.

use lode_engine::{EngineError, Object, ObjectKind, Relation, ViewDef, WriteTxn};

use crate::SqlError;
use crate::comments;
use crate::error::state;
use crate::names::shown;

/// The views that read a relation, or that need a column of it.
fn readers(txn: &WriteTxn, relation: Relation, column: Option<u16>) -> Vec<String> {
    let reads = |def: &ViewDef| {
        let of = def.reads.iter().filter(|read| read.relation == relation);
        of.into_iter().any(|read| column.is_none_or(|c| read.needs.contains(&c)))
    };
    txn.views().filter(|(_, def)| reads(def)).map(|(name, _)| name.to_owned()).collect()
}

/// Refuses to drop or change what a view needs.
///
/// # Errors
/// The error of this state, about `what`.
pub(crate) fn check_unread(
    txn: &WriteTxn,
    relation: Relation,
    column: Option<u16>,
    state: &'static str,
    what: &str,
) -> Result<(), SqlError> {
    match readers(txn, relation, column).first() {
        Some(view) => {
            Err(SqlError::failed(state, format!("cannot {what}: view \"{}\" depends on it", shown(view))))
        }
        None => Ok(()),
    }
}

/// Drops the views that read a relation, or that need a column of it, and those that read these views.
pub(crate) fn drop_readers(txn: &mut WriteTxn, relation: Relation, column: Option<u16>) {
    for view in readers(txn, relation, column) {
        let Some(Object::View(def)) = txn.drop_object(ObjectKind::View, &view) else { continue };
        comments::forget_all(txn, "view", def.id);
        drop_readers(txn, Relation::View(def.id), None);
    }
}

/// Drops views.
///
/// # Errors
/// SQLSTATE 42P01 when one is not there, 42809 when it is no view, 2BP01 when another view reads it, without CASCADE.
pub(crate) fn drop_views(txn: &mut WriteTxn, names: &[String], cascade: bool) -> Result<(), SqlError> {
    let mut numbers = Vec::with_capacity(names.len());
    for name in names {
        match txn.object(ObjectKind::View, name) {
            Some(Object::View(def)) => numbers.push(def.id),
            _ if txn.table(name).is_some() || txn.object(ObjectKind::Sequence, name).is_some() => {
                let message = format!("\"{}\" is not a view", shown(name));
                return Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message));
            }
            _ => return Err(EngineError::NoSuchTable(name.clone()).into()),
        }
    }
    for &id in &numbers {
        let others = readers(txn, Relation::View(id), None);
        if let Some(other) = others.iter().find(|other| !cascade && !names.contains(other)) {
            let message = format!("cannot drop a view: view \"{}\" depends on it", shown(other));
            return Err(SqlError::failed(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
    }
    for (name, id) in names.iter().zip(numbers) {
        if txn.drop_object(ObjectKind::View, name).is_some() {
            comments::forget_all(txn, "view", id);
        }
        drop_readers(txn, Relation::View(id), None);
    }
    Ok(())
}
