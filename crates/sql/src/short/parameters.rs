//! Parameters of a short statement as columns beside its rows.
//!
//! ```text
//!   v + $2  ─► v + __lode_parameter_2          of a join's second source: __lode_parameter_2_of_1
//! ```

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;

/// The name of the column with a parameter, from 0, beside the rows of a source. Above a join the names differ.
pub(super) fn parameter_name(i: usize, source: usize) -> String {
    match source {
        0 => format!("__lode_parameter_{}", i + 1),
        source => format!("__lode_parameter_{}_of_{source}", i + 1),
    }
}

/// The parameter that an expression is, from 0, beside the rows of the first source.
pub(super) fn parameter_of(e: &Expr) -> Option<usize> {
    let Expr::Column(c) = e else { return None };
    c.name.strip_prefix("__lode_parameter_")?.parse::<usize>().ok()?.checked_sub(1)
}

/// The column in the place of a parameter; `None` if the parameter has no number.
pub(super) fn parameter_column(p: &Placeholder, source: usize) -> Option<Expr> {
    let i = p.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
    Some(Expr::Column(Column::from_name(parameter_name(i, source))))
}
