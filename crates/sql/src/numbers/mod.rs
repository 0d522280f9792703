//! Numbers of sequences within statements: the functions that take them, and what a session knows of them.

mod functions;

use std::collections::HashMap;
use std::sync::Arc;

use lode_engine::{AllObjects, Object, ObjectKind, SequenceDef};
use parking_lot::Mutex;

use crate::SqlError;
use crate::error::state;
use crate::names::shown;
use crate::namespaces::NameSpaces;

pub(crate) use functions::{NEXT_BY_ID, call_next, register};

/// What a session knows of sequences. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceSession(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// The objects at the snapshot of the latest statement.
    objects: AllObjects,
    /// The last number that each sequence gave to this session.
    given: HashMap<u32, i64>,
    /// The sequence that gave the last one.
    last: Option<u32>,
}

impl SequenceSession {
    /// Notes the objects that the next statement sees.
    pub(crate) fn sees(&self, objects: AllObjects) {
        self.0.lock().objects = objects;
    }

    fn gave(&self, id: u32, number: i64) {
        let mut known = self.0.lock();
        known.given.insert(id, number);
        known.last = Some(id);
    }

    /// The sequence of this name, as SQL writes it, from where these names lead.
    pub(crate) fn named(&self, text: &str, names: &NameSpaces) -> Result<(String, SequenceDef), SqlError> {
        let parts = parts_of(text)?;
        let known = self.0.lock();
        let name = names.lookup(&parts, &known.objects)?;
        let named = name.as_ref().and_then(|name| known.objects.get(ObjectKind::Sequence, name));
        match (name.as_ref(), named) {
            (Some(name), Some(Object::Sequence(def))) => Ok((name.clone(), def.clone())),
            (Some(name), _) => {
                let message = format!("\"{}\" is not a sequence", shown(name));
                Err(SqlError::failed(state::WRONG_OBJECT_TYPE, message))
            }
            _ => Err(no_relation(&parts.join("."))),
        }
    }

    fn of_id(&self, id: u32) -> Result<(String, SequenceDef), SqlError> {
        let known = self.0.lock();
        let found = known.objects.sequences().find(|(_, def)| def.id == id);
        let (name, def) = found.ok_or_else(|| {
            let message = "the sequence of the column's default does not exist";
            SqlError::failed(state::UNDEFINED_TABLE, message)
        })?;
        Ok((name.to_owned(), def.clone()))
    }
}

/// The name of a relation in a text: `'s'`, `'public.s'`, `'"S"'`.
pub(crate) fn parts_of(text: &str) -> Result<Vec<String>, SqlError> {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    let invalid = || SqlError::failed(state::INVALID_NAME, format!("invalid name syntax: {text:?}"));
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).map_err(|_| invalid())?;
    let name = parser.parse_object_name(false).map_err(|_| invalid())?;
    crate::statement::parts(&name)
}

pub(crate) fn no_relation(name: &str) -> SqlError {
    SqlError::failed(state::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}
