//! Joins in the drive: the keys of the pages of one table, and the pages of another that may have them.
//!
//! ```text
//!   read with `collect`:  page that the index does not exclude ─► whole to the host
//!                                                              └► its rows ─► passing ones, or all ─► keys ─► set
//!   read with `among`:    program AND column IN set ─► index entry of each page ─► No: stays unread
//! ```
//!
//! The set of a `collect` is a condition of an `among`, so that the page index is asked about both at once, before flash is read.
//!
//! Source: FLIXR §4.5, READ_IDX_JOIN1 and READ_IDX_JOIN2.

use std::sync::Arc;

use lode_base::PageBuf;
use lode_command::{CommandError, KeysRule, ScanCounts};
use lode_page::DataType;
use lode_program::{ColumnSource, Expr, KeyCollector, KeySet, Meter, Passed, Program, keys_agree};

use super::columns::{PageColumns, eval_error};
use super::{Located, PageCost};
use crate::pages::KeysPlace;

/// Keys under collection.
pub(crate) struct Collect {
    rule: KeysRule,
    data_type: DataType,
    keys: KeyCollector,
    place: KeysPlace,
}

impl Collect {
    /// Collects by `rule` from pages of the program's schema.
    ///
    /// # Errors
    /// When the column has no keys, or there is no such column.
    pub(crate) fn new(rule: KeysRule, program: &Program, place: KeysPlace) -> Result<Self, CommandError> {
        let data_type = type_of(program, rule.column)?;
        let keys =
            KeyCollector::new(rule.form, data_type).map_err(|e| CommandError::Invalid(e.to_string()))?;
        Ok(Self { rule, data_type, keys, place })
    }

    /// Takes the keys of a page, and adds what that costs and counts.
    ///
    /// # Errors
    /// When the page is not what the program names, or has a key that no set holds.
    pub(super) fn take(
        &mut self,
        program: &Program,
        at: &Located,
        page: &PageBuf,
        cost: &mut PageCost,
        counts: &mut ScanCounts,
    ) -> Result<(), CommandError> {
        let fetch = |range: std::ops::Range<u32>| {
            at.check_has(&range)?;
            Ok(page.slice(range.start as usize..range.end as usize))
        };
        let columns = &mut PageColumns::open(at.lpid, at.len_bytes(), program.schema(), fetch)?;
        let rows = columns.rows();
        let mut passed = Passed::unfiltered(rows);
        if !self.rule.all_rows && program.filter().is_some() {
            let mut meter = Meter::default();
            passed = Passed::of(program, columns, &mut meter).map_err(|e| eval_error(at.lpid, e))?;
            cost.rows_in += rows as u64;
            counts.values_compared += meter.values_compared;
        }
        let keys = columns.column(self.rule.column)?;
        let too_long = |e| CommandError::Invalid(format!("page {}: {e}", at.lpid));
        self.keys.take(&keys, passed.selection()).map_err(too_long)?;
        counts.rows_in += rows as u64;
        cost.rows_in += passed.count() as u64;
        cost.unpacked_bytes += columns.unpacked_bytes();
        Ok(())
    }

    /// The set, the type of its keys, and where it goes.
    pub(crate) fn finish(self) -> (KeysPlace, KeySet, DataType) {
        (self.place, self.keys.finish(), self.data_type)
    }
}

/// The program, with the condition that `column` has a key of `set`, whose keys are of type `of`.
///
/// # Errors
/// When there is no such column, or its values are no such keys.
pub(crate) fn among(
    program: &Arc<Program>,
    column: u16,
    set: Arc<KeySet>,
    of: DataType,
) -> Result<Arc<Program>, CommandError> {
    let t = type_of(program, column)?;
    if !keys_agree(t, of) {
        return Err(CommandError::Invalid(format!(
            "keys of type {of} are not those of column {column}, which is {t}"
        )));
    }
    let condition = Expr::InKeys { value: Box::new(Expr::Column(column)), keys: set };
    program.with_filter(condition).map(Arc::new).map_err(|e| CommandError::Invalid(e.to_string()))
}

fn type_of(program: &Program, column: u16) -> Result<DataType, CommandError> {
    let columns = &program.schema().columns;
    let found = columns.get(usize::from(column)).map(|c| c.data_type);
    let what = || format!("column {column} of a program with {} columns has no keys", columns.len());
    found.ok_or_else(|| CommandError::Invalid(what()))
}
