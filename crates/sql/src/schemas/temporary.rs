//! Temporary relations. They live in a schema of their session, `pg_temp_` and a number, and go with the session. What a crash leaves is
//! dropped when the database is next opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_engine::{Database, EngineError, ObjectKind, Snapshot};
use parking_lot::Mutex;

use crate::drop::drop_contents;
use crate::names::{TEMPORARY_PREFIX as PREFIX, qualified, split};
use crate::namespaces::Temporary;
use crate::{Session, SqlError};

/// Dropping the relations of a session is tried so often, since others may change what they are about.
const TRIES_MAX: u32 = 4;

/// The numbers of the sessions of this process that have temporary relations.
static LIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The temporary relations of a session: dropped, they go.
struct TempSchema {
    db: Database,
    number: u32,
}

impl Drop for TempSchema {
    fn drop(&mut self) {
        let name = format!("{PREFIX}{}", self.number);
        let mut dropped = drop_relations(&self.db, &name);
        let mut tries = 1;
        while tries < TRIES_MAX && matches!(dropped, Err(SqlError::Engine(EngineError::Conflict { .. }))) {
            tries += 1;
            dropped = drop_relations(&self.db, &name);
        }
        LIVE.lock().remove(&self.number);
        if let Err(e) = dropped {
            // The next opening of the database drops them.
            tracing::warn!(schema = name, error = %e, "temporary relations could not be dropped");
        }
    }
}

fn drop_relations(db: &Database, schema: &str) -> Result<(), SqlError> {
    if schemas(&db.snapshot()?).contains(schema) {
        let mut txn = db.begin_write()?;
        drop_contents(&mut txn, schema)?;
        txn.commit()?;
    }
    Ok(())
}

/// The schemas of temporary relations.
fn schemas(snapshot: &Snapshot) -> BTreeSet<String> {
    let tables = snapshot.tables().map(|t| t.name());
    let objects = [ObjectKind::View, ObjectKind::Sequence].into_iter().flat_map(|k| snapshot.objects(k));
    let names = tables.chain(objects.map(|(name, _)| name));
    names.map(|n| split(n).0).filter(|s| s.starts_with(PREFIX)).map(str::to_owned).collect()
}

/// Drops the temporary relations of sessions that are gone.
pub(crate) fn drop_left(db: &Database) -> Result<(), SqlError> {
    let live: BTreeSet<String> = LIVE.lock().iter().map(|n| format!("{PREFIX}{n}")).collect();
    let left: Vec<String> = schemas(&db.snapshot()?).into_iter().filter(|s| !live.contains(s)).collect();
    left.iter().try_for_each(|schema| drop_relations(db, schema))
}

/// The session's schema of temporary relations, made if it has none.
pub(crate) fn temporary_schema(session: &Session) -> Result<String, SqlError> {
    if let Some(temporary) = session.namespaces().temporary() {
        return Ok(temporary.name);
    }
    let taken = schemas(&session.database().snapshot()?);
    let made = session.namespaces().temporary_or(|| {
        let mut live = LIVE.lock();
        let is_free = |n: &u32| !live.contains(n) && !taken.contains(&format!("{PREFIX}{n}"));
        let number = (1..).find(is_free).expect("there are more numbers than sessions");
        live.insert(number);
        let relations = Arc::new(TempSchema { db: session.database().clone(), number });
        Temporary::new(format!("{PREFIX}{number}"), relations)
    });
    session.names_changed();
    Ok(made.name)
}

/// What becomes of a session's temporary tables at the end of each transaction. A clone shares it.
#[derive(Clone, Default)]
pub(crate) struct Temporaries(Arc<Mutex<BTreeMap<String, OnCommit>>>);

/// What ON COMMIT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnCommit {
    DeleteRows,
    Drop,
}

impl Temporaries {
    /// Notes ON COMMIT of a new temporary table.
    pub(crate) fn on_commit(&self, table: &str, given: Option<&datafusion::sql::sqlparser::ast::OnCommit>) {
        use datafusion::sql::sqlparser::ast::OnCommit as Given;
        let mut known = self.0.lock();
        match given {
            Some(Given::DeleteRows) => known.insert(table.to_owned(), OnCommit::DeleteRows),
            Some(Given::Drop) => known.insert(table.to_owned(), OnCommit::Drop),
            Some(Given::PreserveRows) | None => known.remove(table),
        };
    }

    /// Whether there is nothing to do at the end of a transaction.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// What the end of a transaction does, in SQL.
    ///
    /// # Errors
    /// When the drive fails.
    pub(crate) fn at_commit(&self, snapshot: &Snapshot) -> Result<Vec<String>, SqlError> {
        let mut statements = Vec::new();
        for (name, what) in &*self.0.lock() {
            let Some(table) = snapshot.table(name) else { continue };
            match what {
                OnCommit::Drop => statements.push(format!("DROP TABLE {} CASCADE", qualified(name))),
                OnCommit::DeleteRows if snapshot.rows(&table)? > 0 => {
                    statements.push(format!("TRUNCATE TABLE {} CASCADE", qualified(name)));
                }
                OnCommit::DeleteRows => {}
            }
        }
        Ok(statements)
    }
}
