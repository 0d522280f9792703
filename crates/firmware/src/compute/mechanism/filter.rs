//! The filter: the program is evaluated over the columns of the page.
//!
//! It reads no further than the filter needs, and knows of each row. Without a filter every row passes.

use std::sync::Arc;

use lode_command::CommandError;
use lode_program::answer::Member;
use lode_program::{EvalError, Meter, Passed, Program};

use super::{Asked, Columns, Exact, Mechanism, Stage};
use crate::compute::columns::bad_page;
use crate::compute::{Located, PageCost};

/// The member of the table.
pub(super) struct Filter;

struct Compiled {
    program: Arc<Program>,
}

impl Mechanism for Filter {
    fn member(&self) -> Member {
        Member::Filter
    }

    /// Never declines.
    fn compile(&self, asked: &Asked) -> Option<Stage> {
        Some(Stage::Exact(Box::new(Compiled { program: asked.program.clone() })))
    }
}

impl Exact for Compiled {
    fn passed(
        &self,
        at: &Located,
        columns: &mut Columns<'_>,
        meter: &mut Meter,
    ) -> Result<Passed, CommandError> {
        Passed::of(&self.program, columns, meter).map_err(|e| match e {
            EvalError::Source(e) => e,
            e => bad_page(at.lpid, e),
        })
    }

    fn cost(&self, rows: u64, cost: &mut PageCost) {
        cost.read = true;
        cost.rows_in = rows;
    }
}
