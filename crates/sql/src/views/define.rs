//! CREATE VIEW.

use std::collections::BTreeSet;

use datafusion::common::TableReference;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{CreateTableOptions, CreateView, Statement as Sql};
use lode_engine::{Object, ObjectKind, Relation, Snapshot, ViewDef, ViewRead};

use super::plan::planned;
use crate::error::state;
use crate::names::{check_name, fold, referenced, shown, split};
use crate::namespaces::Relations;
use crate::schemas::temporary_schema;
use crate::session::plan;
use crate::statement::{OutputNames, StatementResult, prepare};
use crate::threads::blocking;
use crate::types::column_type;
use crate::{Session, SqlError};

/// The most views that read each other in a row.
const DEPTH_MAX: usize = 64;

/// `CREATE [OR REPLACE] [TEMPORARY] VIEW v [(columns)] AS query`. `given` is the statement before it was prepared.
pub(crate) async fn create_view(session: &Session, given: &CreateView) -> Result<StatementResult, SqlError> {
    check_plain(given)?;
    let (work, snapshot) = session.work().await?.snapshot().await?;
    let text = given.query.to_string();
    let mut parsed = Parsed::Statement(Box::new(Sql::Query(given.query.clone())));
    prepare(&mut parsed)?;
    let state = session.state_at(snapshot.clone(), None);
    let reads = relations(&snapshot, state.resolve_table_references(&parsed)?);
    let planned_once = plan(&state, parsed).await?;
    let schema = std::sync::Arc::new(state.optimize(&planned_once)?.schema().as_arrow().clone());
    let named = match OutputNames::of(&given.query) {
        Some(names) => names.name(&schema),
        None => schema.clone(),
    };
    let columns = columns(given, &named)?;
    let needs = needed(session, &snapshot, &text, &reads, columns.len()).await?;
    let reads: Vec<ViewRead> =
        reads.into_iter().zip(needs).map(|(read, needs)| ViewRead { needs, ..read }).collect();

    let is_temporary =
        |read: &ViewRead| session.namespaces().temporary().is_some_and(|t| split(&read.name).0 == t.name);
    let temporary = given.temporary || given.name.0.len() == 1 && reads.iter().any(is_temporary);
    if temporary {
        temporary_schema(session)?;
    }
    let name = session.namespaces().created(&given.name, temporary, &snapshot)?;
    check_name("view", split(&name).1)?;
    let def = ViewDef { id: 0, query: text, columns, reads };
    let (mut work, replaces) = (work, given.or_replace);
    blocking(move || {
        let id = match work.txn.object(ObjectKind::View, &name) {
            Some(Object::View(old)) if replaces => {
                check_follows(old, &def)?;
                old.id
            }
            _ if work.txn.has_relation(&name) => {
                return Err(taken(&work.txn.table(&name).is_some(), replaces, &name));
            }
            _ => work.txn.new_object(),
        };
        let def = ViewDef { id, ..def };
        check_depth(&def, |id| work.txn.views().find(|(_, v)| v.id == id).map(|(_, v)| v.clone()))?;
        work.txn.put_object(&name, Object::View(def));
        work.finish()
    })
    .await?;
    Ok(StatementResult::done("CREATE VIEW"))
}

fn check_plain(view: &CreateView) -> Result<(), SqlError> {
    if view.materialized {
        return Err(SqlError::Unsupported("CREATE MATERIALIZED VIEW".into()));
    }
    let plain = !view.or_alter
        && !view.secure
        && !view.if_not_exists
        && view.options == CreateTableOptions::None
        && view.cluster_by.is_empty()
        && view.comment.is_none()
        && !view.with_no_schema_binding
        && !view.copy_grants
        && view.to.is_none()
        && view.params.is_none()
        && view.columns.iter().all(|c| c.data_type.is_none() && c.options.is_none());
    match plain {
        true => Ok(()),
        false => Err(SqlError::Unsupported("CREATE VIEW with more than names of columns and a query".into())),
    }
}

fn taken(is_table: &bool, replaces: bool, name: &str) -> SqlError {
    let name = shown(name);
    match (*is_table, replaces) {
        (true, true) => SqlError::failed(state::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a view")),
        _ => SqlError::failed(state::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")),
    }
}

/// The names and types of a view's columns.
fn columns(
    view: &CreateView,
    schema: &datafusion::arrow::datatypes::Schema,
) -> Result<Vec<(String, String)>, SqlError> {
    let given: Vec<String> = view.columns.iter().map(|c| fold(&c.name)).collect();
    if given.len() > schema.fields().len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(SqlError::failed(state::SYNTAX_ERROR, message));
    }
    let mut seen = BTreeSet::new();
    let each = schema.fields().iter().enumerate().map(|(i, field)| {
        let name = given.get(i).unwrap_or(field.name()).clone();
        if !seen.insert(name.clone()) {
            return Err(SqlError::ColumnTwice { column: name, how: "named" });
        }
        let t = field.data_type();
        let t = column_type(t).map_or_else(|| t.to_string(), |t| t.to_string());
        Ok((name, t))
    });
    each.collect()
}

/// The relations that a query names, with all their columns. Those of the catalog itself are left out.
fn relations(snapshot: &Snapshot, references: Vec<TableReference>) -> Vec<ViewRead> {
    let mut reads = Vec::new();
    for reference in references {
        let name = referenced(&reference);
        let (relation, columns) = if let Some(table) = snapshot.table(&name) {
            let def = table.def();
            let columns = def.live_columns().map(|c| (c, def.columns[usize::from(c)].name.clone()));
            (Relation::Table(table.id().raw()), columns.collect())
        } else if let Some(Object::View(view)) = snapshot.object(ObjectKind::View, &name) {
            let columns = (0u16..).zip(&view.columns).map(|(i, (name, _))| (i, name.clone()));
            (Relation::View(view.id), columns.collect())
        } else {
            continue;
        };
        reads.push(ViewRead { name, relation, columns, needs: Vec::new() });
    }
    reads
}

/// The columns of each relation without which the query cannot be planned, or has other columns.
async fn needed(
    session: &Session,
    snapshot: &Snapshot,
    query: &str,
    reads: &[ViewRead],
    columns: usize,
) -> Result<Vec<Vec<u16>>, SqlError> {
    // What is stored is the text: so it is the text that must have a plan.
    planned(session, snapshot.clone(), query, reads).await?;
    let mut needs = Vec::with_capacity(reads.len());
    for (i, read) in reads.iter().enumerate() {
        let mut of_read = Vec::new();
        for (place, (number, _)) in read.columns.iter().enumerate() {
            let mut without = reads.to_vec();
            without[i].columns.remove(place);
            let plan = planned(session, snapshot.clone(), query, &without).await;
            if !plan.is_ok_and(|p| p.schema().fields().len() == columns) {
                of_read.push(*number);
            }
        }
        needs.push(of_read);
    }
    Ok(needs)
}

/// Checks that a view may replace another: its columns begin with those of the old one.
fn check_follows(old: &ViewDef, new: &ViewDef) -> Result<(), SqlError> {
    let refused = |message: String| Err(SqlError::failed(state::INVALID_TABLE_DEFINITION, message));
    if new.columns.len() < old.columns.len() {
        return refused("cannot drop columns from view".into());
    }
    for ((was, of), (is, to)) in old.columns.iter().zip(&new.columns) {
        if was != is {
            return refused(format!("cannot change name of view column \"{was}\" to \"{is}\""));
        }
        if of != to {
            return refused(format!("cannot change data type of view column \"{was}\" from {of} to {to}"));
        }
    }
    Ok(())
}

/// Checks that a view does not read itself, and that views do not read each other too deep.
fn check_depth(view: &ViewDef, of: impl Fn(u32) -> Option<ViewDef>) -> Result<(), SqlError> {
    let read_by = |view: &ViewDef| -> Vec<u32> {
        let views = view.reads.iter().filter_map(|r| match r.relation {
            Relation::View(id) => Some(id),
            _ => None,
        });
        views.collect()
    };
    let mut level: BTreeSet<u32> = read_by(view).into_iter().collect();
    for _ in 0..DEPTH_MAX {
        if level.contains(&view.id) {
            let message = "infinite recursion detected in rules for relation: the view reads itself";
            return Err(SqlError::failed(state::INVALID_OBJECT_DEFINITION, message));
        }
        if level.is_empty() {
            return Ok(());
        }
        level = level.into_iter().filter_map(&of).flat_map(|v| read_by(&v)).collect();
    }
    let message = format!("more than {DEPTH_MAX} views read each other in a row");
    Err(SqlError::failed(state::STATEMENT_TOO_COMPLEX, message))
}
