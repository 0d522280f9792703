//! What all sessions on a database share: one memory limit for their queries, and the directory for spilled data.

use std::sync::Arc;

use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use lode_engine::Database;

use crate::memory::query_memory;
use crate::schemas::drop_left;
use crate::views::open_view;
use crate::{Session, SessionOptions, SqlError};

/// The queries of a database. A clone is the same.
#[derive(Clone)]
pub struct Queries {
    db: Database,
    runtime: Arc<RuntimeEnv>,
}

impl Queries {
    /// Queries on `db`. The operators of all sessions have `memory_bytes` together, and borrow more from the buffer
    /// pool while they run. A query that needs more than that spills to disk or fails.
    ///
    /// # Errors
    /// When the directory for spilled data cannot be made, or the temporary relations of an earlier process cannot be dropped.
    pub fn new(db: Database, memory_bytes: usize) -> Result<Self, SqlError> {
        drop_left(&db)?;
        let memory = query_memory(db.clone(), memory_bytes);
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(memory).build_arc()?;
        Ok(Self { db, runtime })
    }

    /// A session. With a modelled device its queries have one partition.
    ///
    /// # Errors
    /// When the session's functions cannot be made.
    pub fn session(&self, options: &SessionOptions) -> Result<Session, SqlError> {
        Session::new(self.db.clone(), self.runtime.clone(), options, open_view)
    }

    /// Bytes that operators hold at this moment.
    pub fn used_bytes(&self) -> usize {
        self.runtime.memory_pool.reserved()
    }
}
