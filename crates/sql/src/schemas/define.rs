//! CREATE, ALTER and DROP SCHEMA, and SET SCHEMA.

use datafusion::sql::sqlparser::ast::{
    AlterSchema, AlterSchemaOperation, Ident, ObjectName, SchemaName, Statement as Sql,
};
use lode_engine::{Object, ObjectKind, TableDef, WriteTxn};

use crate::comments;
use crate::drop::drop_contents;
use crate::error::state;
use crate::names::{SCHEMA, check_name, fold, in_schema, shown, split};
use crate::namespaces::{Relations, no_schema};
use crate::statement::{StatementResult, parts};
use crate::{Session, SqlError};

/// Schemas whose names begin with this are PostgreSQL's own.
const RESERVED_PREFIX: &str = "pg_";
/// Schemas that are always there, and cannot be changed.
const FIXED: [&str; 2] = [SCHEMA, "information_schema"];

/// `CREATE SCHEMA [IF NOT EXISTS] s`.
pub(crate) async fn create_schema(session: &Session, statement: &Sql) -> Result<StatementResult, SqlError> {
    let Sql::CreateSchema { schema_name, if_not_exists, with, options, default_collate_spec, clone } =
        statement
    else {
        unreachable!("the caller matched CREATE SCHEMA");
    };
    let more = with.is_some() || options.is_some() || default_collate_spec.is_some() || clone.is_some();
    let name = match schema_name {
        SchemaName::Simple(name) if !more => one_part(name)?,
        _ => return Err(SqlError::Unsupported("CREATE SCHEMA with more than a name".into())),
    };
    check_name("schema", &name)?;
    check_unreserved(&name)?;
    let if_not_exists = *if_not_exists;
    session
        .define(move |txn| {
            if txn.has_schema(&name) || FIXED.contains(&name.as_str()) {
                return match if_not_exists {
                    true => Ok(()),
                    false => Err(exists(&name)),
                };
            }
            txn.put_object(&name, Object::Schema);
            Ok(())
        })
        .await?;
    session.names_changed();
    Ok(StatementResult::done("CREATE SCHEMA"))
}

/// `ALTER SCHEMA s RENAME TO t`.
pub(crate) async fn alter_schema(
    session: &Session,
    alter: &AlterSchema,
) -> Result<StatementResult, SqlError> {
    let name = one_part(&alter.name)?;
    let to = match alter.operations.as_slice() {
        [AlterSchemaOperation::Rename { name }] => one_part(name)?,
        _ => return Err(SqlError::Unsupported("ALTER SCHEMA with more than RENAME TO".into())),
    };
    session
        .define(move |txn| {
            if txn.object(ObjectKind::Schema, &name).is_none() && !FIXED.contains(&name.as_str()) {
                return Err(no_schema(&name));
            }
            check_name("schema", &to)?;
            check_unreserved(&to)?;
            if FIXED.contains(&name.as_str()) {
                return Err(SqlError::Unsupported(format!("another name for the schema {name}")));
            }
            if txn.has_schema(&to) {
                return Err(exists(&to));
            }
            let moved: Vec<String> = relations(txn, &name);
            for relation in moved {
                let own = split(&relation).1.to_owned();
                rename(txn, &relation, &in_schema(&to, &own))?;
            }
            txn.drop_object(ObjectKind::Schema, &name);
            txn.put_object(&to, Object::Schema);
            comments::follow(txn, "schema", &name, &to);
            Ok(())
        })
        .await?;
    session.names_changed();
    Ok(StatementResult::done("ALTER SCHEMA"))
}

/// `DROP SCHEMA [IF EXISTS] a, b, ... [CASCADE]`.
pub(crate) async fn drop_schemas(
    session: &Session,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<StatementResult, SqlError> {
    let names = names.to_vec();
    session
        .define(move |txn| names.iter().try_for_each(|name| drop_schema(txn, name, if_exists, cascade)))
        .await?;
    session.names_changed();
    Ok(StatementResult::done("DROP SCHEMA"))
}

/// Drops a schema.
///
/// # Errors
/// SQLSTATE 3F000 when it is not there; 2BP01 when it is not empty, without CASCADE.
fn drop_schema(
    txn: &mut WriteTxn,
    name: &ObjectName,
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    let name = one_part(name)?;
    if FIXED.contains(&name.as_str()) {
        return Err(SqlError::Unsupported(format!("DROP SCHEMA {name}: it is always there")));
    }
    if txn.object(ObjectKind::Schema, &name).is_none() {
        return if if_exists { Ok(()) } else { Err(no_schema(&name)) };
    }
    let within = relations(txn, &name);
    if let (Some(relation), false) = (within.first(), cascade) {
        let message = format!(
            "cannot drop schema \"{name}\" because other objects depend on it: \"{}\"",
            shown(relation)
        );
        return Err(SqlError::failed(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
    }
    drop_contents(txn, &name)?;
    txn.drop_object(ObjectKind::Schema, &name);
    comments::forget(txn, "schema", &name);
    Ok(())
}

/// `ALTER TABLE | VIEW | SEQUENCE r SET SCHEMA s`, of a relation that is there. Its indexes and sequences go with a table.
///
/// # Errors
/// SQLSTATE 3F000 when the schema is not there; 42P07 when it has a relation of the name; 0A000 for temporary relations.
pub(super) fn move_to_schema(txn: &mut WriteTxn, relation: &str, schema: &Ident) -> Result<(), SqlError> {
    let schema = fold(schema);
    if !txn.has_schema(&schema) {
        return Err(no_schema(&schema));
    }
    let (from, own) = split(relation);
    if from.starts_with(RESERVED_PREFIX) {
        let message = "cannot move objects into or out of temporary schemas";
        return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
    }
    let (from, own) = (from.to_owned(), own.to_owned());
    if from == schema {
        return Ok(());
    }
    let table = txn.table(relation);
    rename(txn, relation, &in_schema(&schema, &own))?;
    let Some(table) = table else { return Ok(()) };
    for index in table.indexes() {
        let to = in_schema(&schema, split(&index.name).1);
        rename(txn, &index.name, &to)?;
    }
    let id = table.id().raw();
    let owned = txn.sequences().filter(|(_, def)| def.owner.as_ref().is_some_and(|o| o.table == id));
    let owned: Vec<String> = owned.map(|(name, _)| name.to_owned()).collect();
    for sequence in owned {
        let to = in_schema(&schema, split(&sequence).1);
        rename(txn, &sequence, &to)?;
    }
    Ok(())
}

/// The relations of a schema, by their names in the engine.
fn relations(txn: &WriteTxn, schema: &str) -> Vec<String> {
    let tables = txn
        .tables()
        .flat_map(|t| std::iter::once(t.name().to_owned()).chain(t.indexes().iter().map(|i| i.name.clone())));
    let objects = [ObjectKind::View, ObjectKind::Sequence].into_iter().flat_map(|kind| txn.objects(kind));
    let all = tables.chain(objects.map(|(name, _)| name.to_owned()));
    all.filter(|name| split(name).0 == schema).collect()
}

/// Gives a relation another name of the engine.
///
/// # Errors
/// SQLSTATE 42P07 when the name is taken.
pub(super) fn rename(txn: &mut WriteTxn, from: &str, to: &str) -> Result<(), SqlError> {
    if txn.has_relation(to) {
        let message = format!("relation \"{}\" already exists", split(to).1);
        return Err(SqlError::failed(state::DUPLICATE_TABLE, message));
    }
    if let Some(table) = txn.table(from) {
        let def = TableDef { name: to.to_owned(), ..table.def().clone() };
        txn.alter_table(from, def)?;
    } else if txn.has_index(from) {
        txn.rename_index(from, to)?;
        comments::follow(txn, "index", from, to);
    } else {
        for kind in [ObjectKind::View, ObjectKind::Sequence] {
            if let Some(object) = txn.drop_object(kind, from) {
                txn.put_object(to, object);
            }
        }
    }
    Ok(())
}

fn one_part(name: &ObjectName) -> Result<String, SqlError> {
    match parts(name)?.as_slice() {
        [name] => Ok(name.clone()),
        _ => {
            let message = format!("the name of a schema has one part: {name}");
            Err(SqlError::failed(state::SYNTAX_ERROR, message))
        }
    }
}

fn check_unreserved(name: &str) -> Result<(), SqlError> {
    if !name.starts_with(RESERVED_PREFIX) {
        return Ok(());
    }
    let message = format!("unacceptable schema name \"{name}\": the prefix \"pg_\" is reserved");
    Err(SqlError::failed(state::RESERVED_NAME, message))
}

fn exists(name: &str) -> SqlError {
    SqlError::failed(state::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists"))
}
