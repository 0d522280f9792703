//! TPC-C through SQL statements: the transactions of [`crate::tpcc`], each of whose statements is one or two of SQL.
//!
//! ```text
//!   create, load ─► SqlTpcc: TpccStore ─► SqlTerminal: a connection, its prepared statements ─► SqlTxn: BEGIN ... COMMIT
//!                                         conditions: the twelve consistency conditions, a query each
//! ```
//!
//! Money is in cents, and taxes and discounts are in ten-thousandths, so that all columns of amounts are integers and
//! every database adds them up exactly.

mod conditions;
mod rows;
mod schema;
mod statements;
mod txn;

pub use conditions::{CONDITIONS, Condition, check, violations};
pub use schema::{Schema, TABLES, create, create_indexes, drop_all};
pub use txn::{SqlTerminal, SqlTxn};

use super::{SqlDatabase, Style};
use crate::store::StoreResult;
use crate::tpcc::store::TpccStore;
use crate::tpcc::{Sizes, population};

/// TPC-C in a database.
pub struct SqlTpcc<'a, D> {
    database: &'a D,
    style: Style,
}

impl<'a, D: SqlDatabase> SqlTpcc<'a, D> {
    /// TPC-C in a database, whose statements are executed in this style.
    pub fn new(database: &'a D, style: Style) -> Self {
        Self { database, style }
    }
}

impl<D: SqlDatabase> TpccStore for SqlTpcc<'_, D> {
    type Terminal<'t>
        = SqlTerminal<'t>
    where
        Self: 't;

    fn terminal(&self) -> StoreResult<SqlTerminal<'_>> {
        SqlTerminal::new(self.database.connect()?, self.style)
    }
}

/// Creates the tables, loads data of these sizes in bulk, as [`crate::tpcc::load`] does row by row, and makes the
/// indexes.
///
/// # Errors
/// When the database fails, or if there are such tables.
pub fn load(database: &impl SqlDatabase, schema: Schema, sizes: &Sizes, seed: u64, date: i64) -> StoreResult {
    let dialect = database.dialect();
    let mut connection = database.connect()?;
    create(&mut *connection, dialect, schema)?;
    let mut loader = connection.loader(&TABLES.map(|table| table.name))?;
    population(sizes, seed, date, &mut |all| {
        all.iter().try_for_each(|row| {
            let (table, values) = rows::encode(row);
            loader.add(table, &values)
        })
    })?;
    loader.finish()?;
    create_indexes(&mut *connection, dialect)
}
