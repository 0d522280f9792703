//! Named windows. DataFusion knows `OVER w` in a select list; here each window is written out where it is used.
//!
//! ```text
//!   sum(x) OVER (w ORDER BY k) … WINDOW w AS (PARTITION BY g)  ─►  sum(x) OVER (PARTITION BY g ORDER BY k)
//! ```
//!
//! Rules and messages are PostgreSQL's: a copy adds an order or a frame; a window with a frame has no copies.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByKind, Query, Select,
    SelectItem, SetExpr, VisitMut, VisitorMut, WindowSpec, WindowType, visit_expressions,
};

use super::flow::ended;
use super::{fold, literals};
use crate::error::state;
use crate::{SqlError, series};

type Windows = HashMap<String, WindowSpec>;

/// Writes out the windows in the list of a SELECT. Its WINDOW clause is empty then.
pub(super) fn in_select_list(select: &mut Select) -> Result<(), SqlError> {
    let windows = defined(std::mem::take(&mut select.named_window))?;
    let uses = &mut UsesOf { windows: &windows, depth: 0 };
    ended(select.distinct.visit(uses))?;
    ended(select.projection.visit(uses))?;
    ended(select.qualify.visit(uses))
}

/// Writes out the windows in the ORDER BY of a query. An item of a grouped list that has a window and is ordered by its position is
/// ordered by its name or by itself: DataFusion refuses the position.
pub(super) fn in_order(query: &mut Query) -> Result<(), SqlError> {
    let (Some(select), Some(order)) = (select_of(&query.body), &mut query.order_by) else { return Ok(()) };
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
    };
    if let OrderByKind::Expressions(by) = &mut order.kind
        && is_grouped
    {
        by.iter_mut().for_each(|by| expand_position(&mut by.expr, select));
    }
    let windows = defined(select.named_window.clone())?;
    ended(order.visit(&mut UsesOf { windows: &windows, depth: 0 }))
}

/// The SELECT that a query is, perhaps in parentheses.
fn select_of(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => select_of(&query.body),
        _ => None,
    }
}

fn expand_position(expr: &mut Expr, select: &Select) {
    let is_wild = |i: &SelectItem| matches!(i, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let is_known = |at: &usize| !select.projection.iter().take(at + 1).any(is_wild);
    let Some(at) = literals::position(expr).and_then(|at| at.checked_sub(1)).filter(is_known) else { return };
    match select.projection.get(at) {
        Some(SelectItem::ExprWithAlias { expr: item, alias }) if has_window(item) => {
            *expr = Expr::Identifier(alias.clone());
        }
        // A function that returns a set is moved out of the list.
        Some(SelectItem::UnnamedExpr(item)) if has_window(item) && !series::has_set(item) => {
            *expr = item.clone();
        }
        _ => {}
    }
}

fn has_window(expr: &Expr) -> bool {
    let found = |e: &Expr| match e {
        Expr::Function(Function { over: Some(_), .. }) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, found).is_break()
}

/// The windows of a WINDOW clause, each of which may copy one before it.
fn defined(definitions: Vec<NamedWindowDefinition>) -> Result<Windows, SqlError> {
    let mut windows = Windows::new();
    for definition in definitions {
        let name = fold(&definition.0);
        let spec = match definition.1 {
            NamedWindowExpr::WindowSpec(mut spec) => {
                copy(&mut spec, &windows)?;
                spec
            }
            NamedWindowExpr::NamedWindow(other) => find(&other, &windows)?.clone(),
        };
        if windows.insert(name.clone(), spec).is_some() {
            let message = format!("window \"{name}\" is already defined");
            return Err(SqlError::failed(state::WINDOWING_ERROR, message));
        }
    }
    Ok(windows)
}

fn find<'a>(name: &Ident, windows: &'a Windows) -> Result<&'a WindowSpec, SqlError> {
    let name = fold(name);
    let missing = || SqlError::failed(state::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"));
    windows.get(&name).ok_or_else(missing)
}

/// Completes a window that copies another.
fn copy(spec: &mut WindowSpec, windows: &Windows) -> Result<(), SqlError> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let copied = find(&name, windows)?;
    let wrong = |what: &str| SqlError::failed(state::WINDOWING_ERROR, what.replace("{}", &fold(&name)));
    if !spec.partition_by.is_empty() {
        return Err(wrong("cannot override PARTITION BY clause of window \"{}\""));
    }
    if !spec.order_by.is_empty() && !copied.order_by.is_empty() {
        return Err(wrong("cannot override ORDER BY clause of window \"{}\""));
    }
    if copied.window_frame.is_some() {
        return Err(wrong("cannot copy window \"{}\" because it has a frame clause"));
    }
    spec.partition_by.clone_from(&copied.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&copied.order_by);
    }
    Ok(())
}

/// The functions of one SELECT that have windows, without those of its subqueries.
struct UsesOf<'a> {
    windows: &'a Windows,
    depth: u32,
}

impl VisitorMut for UsesOf<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(Function { over: Some(over), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let written = match over {
            WindowType::WindowSpec(spec) => copy(spec, self.windows).map(|()| None),
            WindowType::NamedWindow(name) => find(name, self.windows).cloned().map(Some),
        };
        match written {
            Ok(Some(spec)) => *over = WindowType::WindowSpec(spec),
            Ok(None) => {}
            Err(e) => return ControlFlow::Break(e),
        }
        ControlFlow::Continue(())
    }
}
