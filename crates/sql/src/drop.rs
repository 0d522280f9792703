//! DROP: tables, views, indexes and sequences, with what depends on them.

use datafusion::sql::sqlparser::ast::{ObjectType, Statement as Sql};
use lode_engine::{
    ColumnDef, Constraint, EngineError, Fill, Object, ObjectKind, Relation, Rule, SequenceDef, Table,
    TableDef, WriteTxn,
};

use crate::error::state;
use crate::names::{shown, split};
use crate::namespaces::has_key;
use crate::statement::{StatementResult, parts};
use crate::view_readers::{check_unread, drop_readers, drop_views};
use crate::{Session, SqlError, comments, hidden_columns, sequences};

/// `DROP TABLE | VIEW | INDEX | SEQUENCE [IF EXISTS] a, b, ... [CASCADE]`.
pub(crate) async fn drop(session: &Session, statement: &Sql) -> Result<StatementResult, SqlError> {
    let Sql::Drop { object_type, if_exists, names, cascade, purge, temporary, table, .. } = statement else {
        unreachable!("the caller matched DROP");
    };
    let cascade = *cascade;
    if *purge || *temporary || table.is_some() {
        return Err(SqlError::Unsupported("DROP with options".into()));
    }
    let (verb, kind): (_, DropKind) = match object_type {
        ObjectType::Table => ("DROP TABLE", drop_tables),
        ObjectType::View => ("DROP VIEW", |txn, names, cascade| drop_views(txn, &names, cascade)),
        ObjectType::Index => {
            ("DROP INDEX", |txn, names, _| names.iter().try_for_each(|n| drop_index(txn, n)))
        }
        ObjectType::Sequence => ("DROP SEQUENCE", |txn, names, cascade| {
            names.iter().try_for_each(|n| drop_sequence(txn, n, cascade))
        }),
        other => return Err(SqlError::Unsupported(format!("DROP {other}"))),
    };
    let wanted = names.iter().map(parts).collect::<Result<Vec<_>, _>>()?;
    let (if_exists, namespaces) = (*if_exists, session.namespaces().clone());
    session
        .define(move |txn| {
            let mut found = Vec::with_capacity(wanted.len());
            for parts in &wanted {
                match namespaces.lookup(parts, txn)? {
                    Some(name) if !found.contains(&name) => found.push(name),
                    Some(_) => {}
                    None if if_exists => {}
                    None => return Err(missing(verb, &parts.join("."))),
                }
            }
            kind(txn, found, cascade)
        })
        .await?;
    Ok(StatementResult::done(verb))
}

/// Drops what has these names, with what depends on it if CASCADE says so.
type DropKind = fn(&mut WriteTxn, Vec<String>, bool) -> Result<(), SqlError>;

fn missing(verb: &str, name: &str) -> SqlError {
    match verb {
        "DROP TABLE" => EngineError::NoSuchTable(name.into()).into(),
        "DROP INDEX" => EngineError::NoSuchIndex(name.into()).into(),
        _ => {
            let kind = verb.trim_start_matches("DROP ").to_lowercase();
            SqlError::failed(state::UNDEFINED_TABLE, format!("{kind} \"{name}\" does not exist"))
        }
    }
}

fn drop_index(txn: &mut WriteTxn, name: &str) -> Result<(), SqlError> {
    if let Some(table) = txn.tables().find(|t| has_key(t, name)) {
        let (own, table) = (split(name).1, shown(table.name()));
        let message =
            format!("cannot drop index {own} because constraint {own} on table {table} requires it");
        return Err(SqlError::failed(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
    }
    if !txn.has_index(name) {
        let message = format!("\"{}\" is not an index", shown(name));
        return Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message));
    }
    let of_it = |t: &&std::sync::Arc<Table>| t.indexes().iter().any(|i| i.name == name);
    let table = txn.tables().find(of_it).map(|t| t.name().to_owned());
    txn.drop_index(name, false)?;
    comments::forget(txn, "index", name);
    table.map_or(Ok(()), |table| hidden_columns::drop_unused(txn, &table))
}

/// Drops all relations of a schema, with what depends on them.
pub(crate) fn drop_contents(txn: &mut WriteTxn, schema: &str) -> Result<(), SqlError> {
    let is_of = |name: &str| split(name).0 == schema;
    let tables: Vec<String> = txn.tables().map(|t| t.name().to_owned()).filter(|n| is_of(n)).collect();
    drop_tables(txn, tables, true)?;
    let views: Vec<String> = txn.views().map(|(n, _)| n.to_owned()).filter(|n| is_of(n)).collect();
    drop_views(txn, &views, true)?;
    let sequences: Vec<String> = txn.sequences().map(|(n, _)| n.to_owned()).filter(|n| is_of(n)).collect();
    sequences.iter().try_for_each(|name| drop_sequence(txn, name, true))
}

/// Drops tables, and the sequences that belong to them. Tables that reference each other go together.
fn drop_tables(txn: &mut WriteTxn, names: Vec<String>, cascade: bool) -> Result<(), SqlError> {
    let mut left = Vec::with_capacity(names.len());
    for name in &names {
        match txn.table(name) {
            Some(table) => left.push((name, table.id().raw())),
            None => {
                let message = format!("\"{}\" is not a table", shown(name));
                return Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message));
            }
        }
    }
    for &(name, id) in &left {
        let relation = Relation::Table(id);
        if cascade {
            drop_references(txn, name, None)?;
            drop_readers(txn, relation, None);
        } else {
            let what = format!("drop table \"{}\"", shown(name));
            check_unread(txn, relation, None, state::DEPENDENT_OBJECTS_STILL_EXIST, &what)?;
        }
    }
    for (_, id) in &left {
        for (name, def) in sequences::owned_by(txn, *id, None) {
            free_sequence(txn, &name, &def, &names, cascade)?;
        }
    }
    // Those that go together do not keep each other.
    for (name, _) in &left {
        let Some(table) = txn.table(name) else { continue };
        for c in &table.def().constraints {
            let goes = matches!(&c.rule, Rule::ForeignKey { parent, .. } if names.contains(parent) && parent != *name);
            if goes {
                txn.drop_constraint(name, &c.name)?;
            }
        }
    }
    // One that another references goes after it.
    while !left.is_empty() {
        let before = left.len();
        let mut first = None;
        let mut kept = Vec::with_capacity(left.len());
        for (name, id) in left {
            let indexes: Vec<String> =
                txn.table(name).iter().flat_map(|t| t.indexes()).map(|i| i.name.clone()).collect();
            match txn.drop_table(name, false) {
                Ok(_) => {
                    sequences::drop_owned(txn, id, None);
                    comments::forget_all(txn, "table", id);
                    indexes.iter().for_each(|index| comments::forget(txn, "index", index));
                }
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
    Ok(())
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

fn drop_sequence(txn: &mut WriteTxn, name: &str, cascade: bool) -> Result<(), SqlError> {
    let Some(Object::Sequence(def)) = txn.object(ObjectKind::Sequence, name).cloned() else {
        let message = format!("\"{}\" is not a sequence", shown(name));
        return Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message));
    };
    let is_identity = def.owner.as_ref().is_some_and(|o| o.identity);
    free_sequence(txn, name, &def, &[], cascade && !is_identity)?;
    txn.drop_object(ObjectKind::Sequence, name);
    comments::forget_all(txn, "sequence", def.id);
    Ok(())
}

/// Takes a sequence from the defaults of columns, those of `going` excepted.
///
/// # Errors
/// 2BP01 if there are such columns and `cascade` is not given.
pub(crate) fn free_sequence(
    txn: &mut WriteTxn,
    name: &str,
    def: &SequenceDef,
    going: &[String],
    cascade: bool,
) -> Result<(), SqlError> {
    let takes = |c: &ColumnDef| c.fill.sequence() == Some(def.id);
    let uses = |t: &Table| !going.iter().any(|name| name == t.name()) && t.def().columns.iter().any(takes);
    let users: Vec<TableDef> = txn.tables().filter(|t| uses(t)).map(|t| t.def().clone()).collect();
    for mut user in users {
        let table = user.name.clone();
        if !cascade {
            let column = user.columns.iter().find(|c| takes(c)).map_or("", |c| c.name.as_str());
            let message = format!(
                "cannot drop sequence \"{name}\": the default of column \"{column}\" of table \"{table}\" depends on it"
            );
            return Err(SqlError::failed(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        user.columns.iter_mut().filter(|c| takes(c)).for_each(|c| c.fill = Fill::Null);
        txn.alter_table(&table, user)?;
    }
    Ok(())
}
