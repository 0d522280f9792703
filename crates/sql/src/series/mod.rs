//! Functions that return sets: generate_series and unnest, in FROM and in a SELECT list; and other functions in FROM.
//!
//! ```text
//!   FROM generate_series(1, 9) AS n                ─► a table whose rows are made as they are read   (table.rs)
//!   FROM generate_series(1, (SELECT ...)) AS n     ─► Unnest over the list of the values             (from.rs, list.rs)
//!   FROM t, generate_series(1, t.n) AS g (i)       ─► Unnest over t beside the list of each row      (lateral.rs)
//!   SELECT generate_series(1, 9)                   ─► SELECT unnest(__lode_series(1, 9))             (select.rs)
//! ```
//!
//! Names are PostgreSQL's: an alias of a function with one column names the column as well.

mod from;
mod lateral;
mod list;
mod select;
mod table;
mod values;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::ScalarUDF;

pub(crate) use lateral::LateralFunctions;
pub(crate) use select::{function_in_from, has_set, in_select_list};

/// The function of PostgreSQL.
pub(crate) const GENERATE_SERIES: &str = "generate_series";
/// The other function of PostgreSQL.
pub(crate) const UNNEST: &str = "unnest";

/// Adds the functions to the planner.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(Arc::new(ScalarUDF::from(list::SeriesList::default())))?;
    state.register_relation_planner(Arc::new(from::FunctionsInFrom))
}
