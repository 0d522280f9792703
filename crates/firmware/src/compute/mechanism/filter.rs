//! The filter: the program is evaluated over the columns of the page.
//!
//! It reads no further than the filter needs, and knows of each row. Without a filter every row passes.

use std::sync::Arc;

use lode_command::CommandError;
use lode_program::answer::Member;
use lode_program::{CompareOp, Expr, Meter, Passed, Program};

use super::{Asked, Columns, Exact, Mechanism, Stage};
use crate::compute::columns::eval_error;
use crate::compute::{Located, PageCost};
use crate::planted::{self, Planted};

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
        let program = planted::instead(
            Planted::KeySetHalved,
            || asked.program.clone(),
            || with_half_the_keys(&asked.program),
        );
        Some(Stage::Exact(Box::new(Compiled { program })))
    }
}

impl Exact for Compiled {
    fn passed(
        &self,
        at: &Located,
        columns: &mut Columns<'_>,
        meter: &mut Meter,
    ) -> Result<Passed, CommandError> {
        Passed::of(&self.program, columns, meter).map_err(|e| eval_error(at.lpid, e))
    }

    fn cost(&self, rows: u64, cost: &mut PageCost) {
        cost.read = true;
        cost.rows_in = rows;
    }
}

/// The program as if the first list of keys in it ended in its middle.
fn with_half_the_keys(program: &Arc<Program>) -> Arc<Program> {
    let terms = match program.filter() {
        Some(Expr::And(terms)) => terms.as_slice(),
        other => other.map_or(&[][..], std::slice::from_ref),
    };
    let lower_half = |term: &Expr| {
        let Expr::InKeys { value, keys } = term else { return None };
        let Expr::Column(column) = **value else { return None };
        let of = program.schema().columns[usize::from(column)].data_type;
        let listed = keys.listed(of)?;
        let middle = Expr::Const(listed.get(listed.len() / 2)?.clone(), of);
        Some(Expr::compare(CompareOp::Lt, Expr::Column(column), middle))
    };
    let Some(less) = terms.iter().find_map(lower_half) else { return program.clone() };
    Arc::new(program.with_filter(less).expect("the column and its type are of the schema"))
}
