//! Changes of what is no table: views take none.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, SelectItem, SetExpr, Statement as Sql, visit_expressions,
};
use lode_engine::{Object, ObjectKind, Snapshot, Table};

use super::shared::find_table;
use crate::SqlError;
use crate::error::state as sqlstate;
use crate::names::{fold, shown};
use crate::statement::Statement;

/// Functions by which a view has other rows than its table.
const AGGREGATES: [&str; 8] = ["count", "sum", "min", "max", "avg", "string_agg", "bool_and", "bool_or"];

/// The table whose rows a statement changes.
///
/// # Errors
/// SQLSTATE 0A000 for a view whose rows PostgreSQL changes in its table, 55000 for another view; 42P01 when there is no such relation.
pub(super) fn find_changed(snapshot: &Snapshot, name: &str) -> Result<Arc<Table>, SqlError> {
    let Some(Object::View(view)) = snapshot.object(ObjectKind::View, name) else {
        return find_table(snapshot, name);
    };
    let name = shown(name);
    let query = Statement::parse(&view.query)?.pop();
    match query.as_ref().and_then(|s| s.sql()) {
        Some(Sql::Query(query)) if is_of_rows(query) => {
            Err(SqlError::Unsupported(format!("a change of the view \"{name}\": change its table")))
        }
        _ => {
            let message = format!("cannot change view \"{name}\": its rows are not those of one table");
            Err(SqlError::failed(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
        }
    }
}

/// Whether each row of a query is one row of one table.
fn is_of_rows(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let grouped = match &select.group_by {
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let aggregates = |e: &Expr| {
        let found = visit_expressions(e, |e| match e {
            Expr::Function(f) => {
                let name = f.name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
                let is = f.over.is_some() || AGGREGATES.contains(&name.as_str());
                if is { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    };
    let plain = select.projection.iter().all(|item| match item {
        SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => !aggregates(e),
        _ => true,
    });
    let one = matches!(select.from.as_slice(), [from] if from.joins.is_empty());
    let whole = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    one && plain && whole && !grouped && select.distinct.is_none() && select.having.is_none()
}
