//! INSERT of VALUES as a SELECT of one row that holds all of them.
//!
//! ```text
//!   INSERT INTO t (b, a) VALUES (1, 2), (3, 4)   ─►  SELECT 0, 2 AS a1, 1 AS b1, 4 AS a2, 3 AS b2
//! ```
//!
//! The first column stands where UPDATE has the row's identity, so that the values are cast in the same way.

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, Insert, Query, SetExpr, Value};
use lode_engine::Table;

use super::rewrite;
use super::shared::cast_assigned;
use crate::SqlError;
use crate::statement::fold;

/// The values of an INSERT.
pub(crate) struct ValuesQuery {
    /// For each row, the value of each column of the table.
    cells: Vec<Expr>,
}

impl ValuesQuery {
    /// The values that `insert` puts into `table`. `None` if it has no VALUES, or if they do not match the columns.
    pub(crate) fn of(insert: &Insert, table: &Table) -> Result<Option<Self>, SqlError> {
        let Some(SetExpr::Values(values)) = insert.source.as_ref().map(|s| s.body.as_ref()) else {
            return Ok(None);
        };
        let all = table.def().columns.len();
        let mut given: Vec<usize> = Vec::new();
        for name in &insert.columns {
            let column = match name.0.as_slice() {
                [part] => part.as_ident().and_then(|ident| table.column(&fold(ident))),
                _ => None,
            };
            match column.map(usize::from) {
                Some(c) if !given.contains(&c) => given.push(c),
                _ => return Ok(None),
            }
        }
        if insert.columns.is_empty() {
            given.extend(table.def().live_columns().map(usize::from));
        }
        let mut cells = Vec::with_capacity(values.rows.len() * all);
        for row in &values.rows {
            if row.content.len() != given.len() {
                return Ok(None);
            }
            cells.extend((0..all).map(|c| match given.iter().position(|&g| g == c) {
                Some(at) => row.content[at].clone(),
                None => Expr::value(Value::Null),
            }));
        }
        Ok(Some(Self { cells }))
    }

    /// The query.
    pub(crate) fn query(&self) -> Box<Query> {
        let mut query = rewrite::empty_select();
        let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("SELECT 1 is a SELECT") };
        let zero = Expr::value(Value::Number("0".into(), false));
        let cells = self.cells.iter().cloned();
        let items = std::iter::once(zero).chain(cells).enumerate();
        select.projection = items.map(|(i, e)| rewrite::aliased(e, format!("__lode_value_{i}"))).collect();
        query
    }

    /// The plan of the query, with each value cast to the type of its column.
    pub(crate) fn cast(&self, plan: LogicalPlan, table: &Table) -> Result<LogicalPlan, SqlError> {
        let columns: Vec<u16> = (0..table.def().columns.len() as u16).collect();
        let rows = self.cells.len() / columns.len();
        cast_assigned(plan, table.def(), &columns.repeat(rows))
    }
}
