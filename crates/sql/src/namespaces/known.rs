//! What a session knows of schemas: its path, and its schema of temporary relations.

use std::any::Any;
use std::sync::Arc;

use lode_engine::{AllObjects, Constraint, ObjectKind, Rule, Snapshot, Table, WriteTxn};
use parking_lot::Mutex;

use super::path::SearchPath;
use crate::SqlError;
use crate::error::state;
use crate::names::{CATALOG, SCHEMA, in_schema, primary_key_name, split};

/// The name by which a session calls its schema of temporary relations.
pub(crate) const TEMPORARY: &str = "pg_temp";

/// Where the names of a session lead. A clone shares it.
#[derive(Clone, Default)]
pub(crate) struct NameSpaces(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    path: SearchPath,
    /// Made when the session makes its first temporary relation.
    temporary: Option<Temporary>,
}

/// A session's schema of temporary relations.
#[derive(Clone)]
pub(crate) struct Temporary {
    /// Its name.
    pub(crate) name: String,
    /// Its relations, which go when this is dropped.
    _relations: Arc<dyn Any + Send + Sync>,
}

impl Temporary {
    /// A schema whose relations go when the last clone of it is dropped.
    pub(crate) fn new(name: String, relations: Arc<dyn Any + Send + Sync>) -> Self {
        Self { name, _relations: relations }
    }
}

impl std::fmt::Debug for NameSpaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path().fmt(f)
    }
}

/// What is asked whether it has a relation.
pub(crate) trait Relations {
    /// Whether there is a relation of this name of the engine.
    fn has_relation(&self, name: &str) -> bool;
    /// Whether it is one with rows: no index. This is found without looking at all tables.
    fn has_rows(&self, name: &str) -> bool;
    /// Whether there is a schema of this name.
    fn has_schema(&self, name: &str) -> bool;
}

/// Whether a table has a key of this name: it has an index, whose name is taken as that of any other.
pub(crate) fn has_key(table: &Table, name: &str) -> bool {
    let (schema, own) = split(name);
    let (of, _) = split(table.name());
    let def = table.def();
    let is_unique = |c: &Constraint| matches!(c.rule, Rule::Unique { .. }) && c.name == own;
    let is_primary = || !def.primary_key.is_empty() && own == primary_key_name(def);
    schema == of && (def.constraints.iter().any(is_unique) || is_primary())
}

fn has_index(table: &Table, name: &str) -> bool {
    table.indexes().iter().any(|i| i.name == name) || has_key(table, name)
}

impl Relations for Snapshot {
    fn has_relation(&self, name: &str) -> bool {
        self.has_rows(name) || self.tables().any(|t| has_index(t, name))
    }

    fn has_rows(&self, name: &str) -> bool {
        let is_object = |kind| self.object(kind, name).is_some();
        self.table(name).is_some() || is_object(ObjectKind::View) || is_object(ObjectKind::Sequence)
    }

    fn has_schema(&self, name: &str) -> bool {
        name == SCHEMA || self.object(ObjectKind::Schema, name).is_some()
    }
}

impl Relations for AllObjects {
    fn has_relation(&self, name: &str) -> bool {
        self.has_rows(name) || self.tables().any(|t| has_index(t, name))
    }

    fn has_rows(&self, name: &str) -> bool {
        let is_object = |kind| self.get(kind, name).is_some();
        self.table(name).is_some() || is_object(ObjectKind::View) || is_object(ObjectKind::Sequence)
    }

    fn has_schema(&self, name: &str) -> bool {
        name == SCHEMA || self.get(ObjectKind::Schema, name).is_some()
    }
}

impl Relations for WriteTxn {
    fn has_relation(&self, name: &str) -> bool {
        self.has_rows(name) || self.tables().any(|t| has_index(t, name))
    }

    fn has_rows(&self, name: &str) -> bool {
        let is_object = |kind| self.object(kind, name).is_some();
        self.table(name).is_some() || is_object(ObjectKind::View) || is_object(ObjectKind::Sequence)
    }

    fn has_schema(&self, name: &str) -> bool {
        name == SCHEMA || self.object(ObjectKind::Schema, name).is_some()
    }
}

impl NameSpaces {
    /// The path.
    pub(crate) fn path(&self) -> SearchPath {
        self.0.lock().path.clone()
    }

    /// Sets the path.
    pub(crate) fn set_path(&self, path: SearchPath) {
        self.0.lock().path = path;
    }

    /// Whether names without a schema mean those of `public`, and only those.
    pub(crate) fn is_public(&self) -> bool {
        let known = self.0.lock();
        known.temporary.is_none() && known.path.is_public()
    }

    /// The schema of temporary relations, if the session has one.
    pub(crate) fn temporary(&self) -> Option<Temporary> {
        self.0.lock().temporary.clone()
    }

    /// The schema of temporary relations, made by `make` if the session has none.
    pub(crate) fn temporary_or(&self, make: impl FnOnce() -> Temporary) -> Temporary {
        self.0.lock().temporary.get_or_insert_with(make).clone()
    }

    /// The schemas in which a name without one is looked for, in order.
    fn looked_in(&self) -> Vec<String> {
        let known = self.0.lock();
        let named = known.path.schemas().any(|s| s == TEMPORARY);
        let own = known.temporary.as_ref().map(|t| t.name.clone());
        let first = own.clone().filter(|_| !named);
        let rest = known.path.schemas().filter_map(|s| match s {
            TEMPORARY => own.clone(),
            s => Some(s.to_owned()),
        });
        first.into_iter().chain(rest).collect()
    }

    /// The schema of the relation with rows that is called `name` without a schema.
    pub(crate) fn schema_of(&self, name: &str, of: &impl Relations) -> Option<String> {
        self.looked_in().into_iter().find(|schema| of.has_rows(&in_schema(schema, name)))
    }

    /// The engine's name of a relation that a statement names by these parts.
    ///
    /// # Errors
    /// When it has more parts than schema and name.
    pub(crate) fn lookup(&self, parts: &[String], of: &impl Relations) -> Result<Option<String>, SqlError> {
        let name = match parts {
            [name] => {
                let mut places = self.looked_in().into_iter().map(|schema| in_schema(&schema, name));
                return Ok(places.find(|name| of.has_relation(name)));
            }
            [schema, name] => in_schema(&self.own_schema(schema), name),
            [catalog, schema, name] if catalog == CATALOG => in_schema(&self.own_schema(schema), name),
            parts => {
                let message = format!("cross-database references are not implemented: {}", parts.join("."));
                return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
            }
        };
        Ok(of.has_relation(&name).then_some(name))
    }

    /// A schema as the session calls it: `pg_temp` is its own.
    pub(crate) fn own_schema(&self, schema: &str) -> String {
        match (schema, self.temporary()) {
            (TEMPORARY, Some(own)) => own.name,
            _ => schema.to_owned(),
        }
    }

    /// The first schema of the path that is there: new relations without a schema come into it.
    pub(crate) fn current_schema(&self, of: &impl Relations) -> Option<String> {
        let path = self.path();
        path.schemas().find(|s| of.has_schema(s)).map(str::to_owned)
    }
}
