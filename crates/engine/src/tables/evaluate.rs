//! Scans of pages that the reading transaction changed: the host runs the program, as the drive does for all other pages.

use std::convert::Infallible;

use lode_base::Lpid;
use lode_command::{Answer, PageRows, ScanCounts, ScanUnit};
use lode_page::Column;
use lode_program::{ColumnSource, Meter, Passed, Program};

use super::own::OwnChanges;
use super::read::own_columns;
use crate::EngineError;
use crate::storage::clock::HostWork;
use crate::storage::columns::PageColumns;
use crate::trees::Snapshot;

/// What the drive would answer of these pages if it had the changes.
pub(super) fn evaluate(
    snapshot: &Snapshot,
    own: &OwnChanges,
    pages: &[Lpid],
    program: &Program,
    answer: Answer,
) -> Result<ScanUnit, EngineError> {
    let mut unit = ScanUnit::default();
    for &lpid in pages {
        let page = match answer {
            Answer::Mapped | Answer::Index => {
                unit.counts.pages += 1;
                Some(PageRows { lpid, rows: 0, columns: Vec::new(), slots: None })
            }
            Answer::Pages | Answer::Rows => {
                let all = answer == Answer::Pages;
                evaluate_page(snapshot, own, lpid, program, all, &mut unit.counts)?
            }
            Answer::Aggregate => {
                let what = "the drive does not aggregate where a transaction has changes of its own";
                return Err(EngineError::invalid("", what));
            }
        };
        unit.pages.extend(page);
    }
    Ok(unit)
}

/// The rows of a page that pass the program, or with `all` all of its rows if one passes. `None` if none passes.
fn evaluate_page(
    snapshot: &Snapshot,
    own: &OwnChanges,
    lpid: Lpid,
    program: &Program,
    all: bool,
    counts: &mut ScanCounts,
) -> Result<Option<PageRows>, EngineError> {
    let mut numbers: Vec<u16> =
        program.filter_columns().iter().chain(program.projection()).copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let page = own_columns(snapshot, own, lpid, &numbers)?;
    let rows = page.rows;
    let mut source = Numbered { numbers: &numbers, page };
    if let (Some(host), Some(_)) = (snapshot.host(), program.filter()) {
        host.computes(HostWork::Filter, rows as u64);
    }
    let passed = Passed::of(program, &mut source, &mut Meter::default())
        .map_err(|e| EngineError::invalid("", e.to_string()))?;
    counts.pages += 1;
    counts.pages_read += 1;
    counts.rows_in += rows as u64;
    counts.rows_out += passed.count() as u64;
    if passed.count() == 0 {
        return Ok(None);
    }
    let come_out = if all { Passed::unfiltered(rows) } else { passed };
    let Ok(rows) = come_out.rows_of(program, lpid, &mut source);
    Ok(Some(rows))
}

/// Columns of a page by their numbers, ascending.
struct Numbered<'a> {
    numbers: &'a [u16],
    page: PageColumns,
}

impl ColumnSource for Numbered<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.page.rows
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        let at = self.numbers.binary_search(&column).expect("the columns of the program were read");
        Ok(self.page.columns[at].clone())
    }

    fn slots(&self) -> Option<&[u32]> {
        self.page.slots.as_deref()
    }
}
