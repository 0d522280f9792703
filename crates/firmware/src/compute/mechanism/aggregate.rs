//! Aggregation: the rows that pass are added to groups.
//!
//! Groups come out when their table is full and at the end of the task, so the same group may come out more than once.

use lode_command::{CommandError, GroupRows, ScanUnit};
use lode_page::Column;
use lode_program::answer::Member;
use lode_program::index::take_entry;
use lode_program::{GroupTable, Passed, Program};

use super::{Asked, Columns, Fold, Mechanism, Page, Stage};
use crate::compute::columns::eval_error;
use crate::compute::{Located, PageCost};

/// The member of the table.
pub(super) struct Aggregate;

struct Compiled {
    table: GroupTable,
    /// Whether the group of each row has to be looked up.
    grouped: bool,
}

impl Mechanism for Aggregate {
    fn member(&self) -> Member {
        Member::Aggregate
    }

    /// Declines a program without an aggregation.
    fn compile(&self, asked: &Asked) -> Option<Stage> {
        let p = &asked.program;
        let grouped = !p.aggregation()?.group_by.is_empty();
        Some(Stage::Fold(Box::new(Compiled { table: GroupTable::new(p)?, grouped })))
    }
}

impl Fold for Compiled {
    fn take(
        &mut self,
        p: &Program,
        at: &Located,
        passed: &Passed,
        columns: &mut Columns<'_>,
        unit: &mut ScanUnit,
    ) -> Result<(), CommandError> {
        let mut full = |groups, columns| answer(unit, groups, columns);
        passed.group(p, columns, &mut self.table, &mut full).map_err(|e| eval_error(at.lpid, e))
    }

    fn take_unread(&mut self, p: &Program, page: &Page<'_>) -> Result<Option<u64>, CommandError> {
        if self.grouped {
            return Ok(None);
        }
        let entry = page.access.index_entry(page.at)?;
        let taken = entry.filter(|(rule, entry)| take_entry(&mut self.table, p, rule, entry));
        Ok(taken.map(|(_, entry)| entry.rows().into()))
    }

    fn holds(&self) -> bool {
        self.table.groups() > 0
    }

    fn end(&mut self, p: &Program, unit: &mut ScanUnit) {
        let (groups, columns) = self.table.drain(p);
        answer(unit, groups, columns);
    }

    fn cost(&self, rows: u64, cost: &mut PageCost) {
        cost.rows_aggregated = rows;
        cost.grouped = self.grouped;
    }
}

/// Puts groups into the answer.
fn answer(unit: &mut ScanUnit, groups: usize, columns: Vec<Column>) {
    unit.counts.groups_out += groups as u64;
    unit.groups.push(GroupRows { rows: groups as u32, columns });
}
