//! The filter: the program is evaluated over the columns of the page.
//!
//! It reads no further than the filter needs, and knows of each row. Without a filter every row passes.

use std::sync::Arc;

use lode_command::CommandError;
use lode_program::answer::Member;
use lode_program::{CompareOp, EvalError, Expr, Meter, Passed, Program};

use super::{Asked, Columns, Exact, Mechanism, Stage};
use crate::compute::columns::bad_page;
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
            Planted::KeySetLacksKey,
            || asked.program.clone(),
            || without_a_key(&asked.program),
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

/// The program as if the first list of keys in it had its last key not.
fn without_a_key(program: &Arc<Program>) -> Arc<Program> {
    let terms = match program.filter() {
        Some(Expr::And(terms)) => terms.as_slice(),
        other => other.map_or(&[][..], std::slice::from_ref),
    };
    let other_than_last = |term: &Expr| {
        let Expr::InKeys { value, keys } = term else { return None };
        let Expr::Column(column) = **value else { return None };
        let of = program.schema().columns[usize::from(column)].data_type;
        let last = Expr::Const(keys.listed(of)?.pop()?, of);
        Some(Expr::Not(Box::new(Expr::compare(CompareOp::Eq, Expr::Column(column), last))))
    };
    let Some(lacking) = terms.iter().find_map(other_than_last) else { return program.clone() };
    Arc::new(program.with_filter(lacking).expect("the column and its type are of the schema"))
}
