//! Workloads through SQL statements, over a small trait that Lode and other databases implement.
//!
//! ```text
//!   statements: INSERT, UPDATE, DELETE, SELECT by key ─┐
//!   tpcb:       pgbench's transaction                  ├─► SqlConnection: prepare, execute, begin, commit ─► Lode, SQLite
//!   tpcc:       five transactions, twelve conditions   │
//!   ch:         22 analytical queries beside tpcc      │
//!   endure:     UPDATEs by key for an hour             ┘
//!
//!   oltp: which of the first three run, in which order, and how they are told
//! ```
//!
//! A connection serves one thread. Texts of statements are PostgreSQL's, with parameters `$1`, `$2` and so on; a
//! [`Dialect`] holds the words in which databases differ.

pub mod ch;
mod dialect;
pub mod endure;
pub mod oltp;
pub mod statements;
mod text;
pub mod tpcb;
pub mod tpcc;
mod value;

pub use dialect::Dialect;
pub use text::{Statement, Style, Template, time_text};
pub use value::{Answer, Row, Value};

use crate::store::{Intent, StoreResult};

/// A database.
pub trait SqlDatabase: Send + Sync {
    /// Opens a connection, for one thread.
    ///
    /// # Errors
    /// When the database fails.
    fn connect(&self) -> StoreResult<Box<dyn SqlConnection + '_>>;

    /// The words in which it differs from others.
    fn dialect(&self) -> &'static Dialect;
}

/// A prepared statement of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementId(pub usize);

/// A connection. A statement outside of a transaction is a transaction of its own. Every function fails if the database
/// does, and with [`StoreError::Conflict`](crate::store::StoreError::Conflict) if the transaction, or the statement that
/// is one, had no effect and may succeed when it is run again.
#[expect(clippy::missing_errors_doc, reason = "all fail as the trait says")]
pub trait SqlConnection {
    /// Prepares a statement.
    fn prepare(&mut self, sql: &str) -> StoreResult<StatementId>;

    /// Executes a prepared statement with a value for each parameter.
    fn execute(&mut self, statement: StatementId, params: &[Value]) -> StoreResult<Answer>;

    /// Executes a statement without parameters from its text.
    fn execute_text(&mut self, sql: &str) -> StoreResult<Answer>;

    /// Begins a transaction, which reads one snapshot.
    fn begin(&mut self, intent: Intent) -> StoreResult;

    /// Commits the transaction. It has ended when this returns, also with an error.
    fn commit(&mut self) -> StoreResult;

    /// Rolls the transaction back.
    fn rollback(&mut self) -> StoreResult;

    /// Begins a load in bulk, whose rows are there when it is finished. The tables are filled in this order, so one to which
    /// others refer comes before them.
    fn loader(&mut self, tables: &[&'static str]) -> StoreResult<Box<dyn Loader + '_>>;
}

/// A load of rows into any number of tables.
#[expect(clippy::missing_errors_doc, reason = "all fail when the database does")]
pub trait Loader {
    /// Adds a row with a value for each column of the table.
    fn add(&mut self, table: &'static str, row: &[Value]) -> StoreResult;

    /// Makes the rows visible and durable.
    fn finish(self: Box<Self>) -> StoreResult;
}

/// Executes statements of a script, which are separated by semicolons.
///
/// # Errors
/// As the connection.
pub fn execute_all(connection: &mut dyn SqlConnection, script: &str) -> StoreResult {
    let statements = script.split(';').map(str::trim).filter(|s| !s.is_empty());
    for statement in statements {
        connection.execute_text(statement)?;
    }
    Ok(())
}
