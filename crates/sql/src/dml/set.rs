//! New values of columns of rows, for every statement and action that changes rows.

use std::collections::BTreeMap;

use datafusion::arrow::array::ArrayRef;
use lode_engine::{RowAddress, Table, WriteTxn};

use super::checks::Checks;
use super::load::column_of;
use crate::SqlError;

/// Sets the columns `assigned`, and those generated from them, of some rows. `known`: the new values of these columns, and the values of
/// the other columns that CHECKs and generated columns look at. The generated ones are added to it.
///
/// # Errors
/// When a CHECK is false, or a value does not fit.
pub(crate) fn set(
    txn: &mut WriteTxn,
    table: &Table,
    rows: &[RowAddress],
    assigned: &[u16],
    known: &mut BTreeMap<u16, ArrayRef>,
    checks: &Checks,
) -> Result<u64, SqlError> {
    if rows.is_empty() {
        return Ok(0);
    }
    checks.complete(known, rows.len())?;
    set_completed(txn, table, rows, assigned, known, checks)
}

/// The same for values that the CHECKs have passed, and with those of generated columns.
///
/// # Errors
/// When a value does not fit.
pub(crate) fn set_completed(
    txn: &mut WriteTxn,
    table: &Table,
    rows: &[RowAddress],
    assigned: &[u16],
    known: &BTreeMap<u16, ArrayRef>,
    checks: &Checks,
) -> Result<u64, SqlError> {
    let columns = checks.with_generated(assigned);
    let values = columns.iter().map(|c| column_of(table.def(), *c, &known[c]));
    let values = values.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(txn.update(table.name(), rows, &columns, values)?)
}
