//! Values that a statement does not give: DEFAULT, sequences, IDENTITY.
//!
//! ```text
//!   t (id SERIAL, a INT DEFAULT 7, b TEXT)
//!   INSERT INTO t (b) VALUES ('x')     ─►  INSERT INTO t (b, id, a) VALUES ('x', __lode_nextval(3), 7)
//!   INSERT INTO t (b) SELECT c FROM u  ─►  INSERT INTO t (b, id, a) SELECT q.*, __lode_nextval(3), 7 FROM (SELECT ...) q
//!   UPDATE t SET a = DEFAULT           ─►  UPDATE t SET a = 7
//! ```
//!
//! Generated columns are not filled here: `checks.rs` computes them from the other values of the row.

use std::borrow::Cow;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Expr, Ident, Insert, ObjectName, Parens, Query, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement as Sql, TableAlias, TableAliasColumnDef, TableFactor,
    TableWithJoins, Update, Value as SqlValue, Values, WildcardAdditionalOptions,
};
use lode_engine::{ColumnDef, Fill, Table, TableDef};
use lode_page::Value;

use super::rewrite;
use super::shared::{cast_assigned, plan_query, run_to_end};
use crate::SqlError;
use crate::error::state;
use crate::numbers::call_next;
use crate::semantics::timestamp_digits::rounded;
use crate::statement::{Overriding, column_count, fold, is_default, overriding, parse_expression, prepare};
use crate::types::timestamp_digits;

/// What a column is filled with if nothing is given.
pub(crate) fn filling(column: &ColumnDef) -> Result<Expr, SqlError> {
    match &column.fill {
        Fill::Null | Fill::Generated(_) => Ok(Expr::value(SqlValue::Null)),
        Fill::Default(text) => prepared(parse_expression(text)?),
        Fill::Sequence(id) | Fill::Identity { sequence: id, .. } => Ok(call_next(*id)),
    }
}

/// The expression as it would be prepared in a statement.
fn prepared(expression: Expr) -> Result<Expr, SqlError> {
    let mut query = rewrite::empty_select();
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("SELECT 1 is a SELECT") };
    select.projection = vec![SelectItem::UnnamedExpr(expression)];
    let mut parsed = Parsed::Statement(Box::new(Sql::Query(query)));
    prepare(&mut parsed)?;
    let Parsed::Statement(sql) = parsed else { unreachable!("it is still a statement") };
    let Sql::Query(query) = *sql else { unreachable!("it is still a query") };
    match *query.body {
        SetExpr::Select(mut select) => match select.projection.pop() {
            Some(SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) => Ok(e),
            _ => unreachable!("it still selects one expression"),
        },
        _ => unreachable!("it is still a SELECT"),
    }
}

/// The columns that INSERT gives values for; `None` if it names one that is not there, or one twice.
fn given(insert: &Insert, table: &Table) -> Option<Vec<usize>> {
    let mut given: Vec<usize> = Vec::new();
    for name in &insert.columns {
        let [part] = name.0.as_slice() else { return None };
        let column = usize::from(table.column(&fold(part.as_ident()?))?);
        if given.contains(&column) {
            return None;
        }
        given.push(column);
    }
    if insert.columns.is_empty() {
        let count = insert.source.as_deref().and_then(column_count).unwrap_or(usize::MAX);
        given.extend(table.def().live_columns().map(usize::from).take(count));
    }
    Some(given)
}

/// What becomes of a value that is given for a column.
enum Given {
    Taken,
    Replaced,
}

fn check_given(c: &ColumnDef, overriding: Option<Overriding>) -> Result<Given, SqlError> {
    let refused = || {
        let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", c.name);
        Err(SqlError::failed(state::GENERATED_ALWAYS, message))
    };
    match (&c.fill, overriding) {
        (Fill::Generated(_), _) => refused(),
        (Fill::Identity { .. }, Some(Overriding::User)) => Ok(Given::Replaced),
        (Fill::Identity { always: true, .. }, None) => refused(),
        _ => Ok(Given::Taken),
    }
}

/// `insert` with a value for each column that has a filling, and with no DEFAULT left. An INSERT that names columns in a way
/// that is wrong stays as it is: planning it reports that.
pub(crate) fn filled<'a>(insert: &'a Insert, table: &Table) -> Result<Cow<'a, Insert>, SqlError> {
    let mut filled = with_fillings(insert, table)?;
    if !filled.optimizer_hints.is_empty() {
        filled.to_mut().optimizer_hints.clear();
    }
    Ok(filled)
}

fn with_fillings<'a>(insert: &'a Insert, table: &Table) -> Result<Cow<'a, Insert>, SqlError> {
    let def = table.def();
    let Some(given) = given(insert, table) else { return Ok(Cow::Borrowed(insert)) };
    let overriding = overriding(insert);
    let live: Vec<usize> = def.live_columns().map(usize::from).collect();
    let mut missing: Vec<usize> = live.iter().copied().filter(|c| !given.contains(c)).collect();
    let names = |columns: &[usize]| -> Vec<ObjectName> {
        let name = |&c: &usize| ObjectName::from(vec![Ident::with_quote('"', &def.columns[c].name)]);
        columns.iter().map(name).collect()
    };
    let Some(source) = &insert.source else {
        let is_default_values = insert.columns.is_empty() && insert.assignments.is_empty();
        if !is_default_values {
            return Ok(Cow::Borrowed(insert));
        }
        let row = live.iter().map(|&c| filling(&def.columns[c])).collect::<Result<Vec<_>, _>>()?;
        let mut filled = insert.clone();
        filled.columns = names(&live);
        filled.source = Some(values_query(vec![row]));
        return Ok(Cow::Owned(filled));
    };
    missing.retain(|&c| !matches!(def.columns[c].fill, Fill::Null | Fill::Generated(_)));
    let is_short_list = insert.columns.is_empty() && given.len() < live.len();
    if let SetExpr::Values(values) = source.body.as_ref()
        && values.rows.iter().any(|row| row.content.len() != given.len())
        && !insert.columns.is_empty()
    {
        return Ok(Cow::Borrowed(insert));
    }
    let SetExpr::Values(values) = source.body.as_ref() else {
        let mut replaced = Vec::new();
        for &c in &given {
            if let Given::Replaced = check_given(&def.columns[c], overriding)? {
                replaced.push(c);
            }
        }
        if missing.is_empty() && replaced.is_empty() {
            let mut insert = Cow::Borrowed(insert);
            if is_short_list {
                insert.to_mut().columns = names(&given);
            }
            return Ok(insert);
        }
        let mut filled = insert.clone();
        filled.columns = names(&[&given[..], &missing].concat());
        filled.source = Some(with_more(source, &given, &missing, &replaced, def)?);
        return Ok(Cow::Owned(filled));
    };
    let all_taken = given.iter().all(|&c| {
        let is_plain = matches!(def.columns[c].fill, Fill::Null | Fill::Default(_) | Fill::Sequence(_));
        is_plain && overriding.is_none()
    });
    let has_default = || values.rows.iter().any(|row| row.content.iter().any(is_default));
    if missing.is_empty() && all_taken && !is_short_list && !has_default() {
        return Ok(Cow::Borrowed(insert));
    }
    let mut filled = insert.clone();
    filled.columns = names(&[&given[..], &missing].concat());
    let Some(SetExpr::Values(values)) = filled.source.as_mut().map(|s| s.body.as_mut()) else {
        unreachable!("it was just looked at")
    };
    for row in &mut values.rows {
        for (cell, &c) in row.content.iter_mut().zip(&given) {
            let column = &def.columns[c];
            if is_default(cell) || matches!(check_given(column, overriding)?, Given::Replaced) {
                *cell = filling(column)?;
            }
        }
        if row.content.len() == given.len() {
            for &c in &missing {
                row.content.push(filling(&def.columns[c])?);
            }
        }
    }
    if values.rows.iter().any(|row| row.content.len() != given.len() + missing.len()) {
        // The wrong number of values is reported for what was written.
        return Ok(Cow::Borrowed(insert));
    }
    Ok(Cow::Owned(filled))
}

fn values_query(rows: Vec<Vec<Expr>>) -> Box<Query> {
    let mut query = rewrite::empty_select();
    let rows = rows.into_iter().map(Parens::with_empty_span).collect();
    *query.body = SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows });
    query
}

/// A query of the source's columns, and of the fillings of the columns that are missing.
fn with_more(
    source: &Query,
    given: &[usize],
    missing: &[usize],
    replaced: &[usize],
    def: &TableDef,
) -> Result<Box<Query>, SqlError> {
    const SOURCE: &str = "__lode_source";
    let quoted = |name: &str| Ident::with_quote('"', name);
    let column = |i: usize| quoted(&format!("__lode_given_{i}"));
    let known = column_count(source) == Some(given.len());
    let mut query = rewrite::empty_select();
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("SELECT 1 is a SELECT") };
    let mut items = Vec::with_capacity(given.len() + missing.len());
    match known {
        true => {
            for (i, c) in given.iter().enumerate() {
                items.push(match replaced.contains(c) {
                    true => filling(&def.columns[*c])?,
                    false => Expr::CompoundIdentifier(vec![quoted(SOURCE), column(i)]),
                });
            }
        }
        false if replaced.is_empty() => {}
        false => {
            let message = "OVERRIDING USER VALUE with a source of unknown columns: name them";
            return Err(SqlError::Unsupported(message.into()));
        }
    }
    for &c in missing {
        items.push(filling(&def.columns[c])?);
    }
    let names = (0..).map(|i| format!("__lode_insert_{i}"));
    select.projection = items.into_iter().zip(names).map(|(e, name)| rewrite::aliased(e, name)).collect();
    if !known {
        let all = SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![quoted(SOURCE)])),
            WildcardAdditionalOptions::default(),
        );
        select.projection.insert(0, all);
    }
    let columns = match known {
        true => (0..given.len()).map(|i| TableAliasColumnDef { name: column(i), data_type: None }).collect(),
        false => Vec::new(),
    };
    let alias = TableAlias { explicit: true, name: quoted(SOURCE), columns, at: None };
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(source.clone()),
        alias: Some(alias),
        sample: None,
    };
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    Ok(query)
}

/// `update` without DEFAULT.
///
/// # Errors
/// 428C9 for another value of a generated column, or of one that is GENERATED ALWAYS AS IDENTITY.
pub(crate) fn assigned<'a>(update: &'a Update, table: &Table) -> Result<Cow<'a, Update>, SqlError> {
    let column_of = |name: &ObjectName| match name.0.as_slice() {
        [part] => part.as_ident().and_then(|i| table.column(&fold(i))),
        _ => None,
    };
    let mut filled = Cow::Borrowed(update);
    for (i, assignment) in update.assignments.iter().enumerate() {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { continue };
        let Some(column) = column_of(name) else { continue };
        let column = &table.def().columns[usize::from(column)];
        if is_default(&assignment.value) {
            filled.to_mut().assignments[i].value = filling(column)?;
        } else if matches!(column.fill, Fill::Generated(_) | Fill::Identity { always: true, .. }) {
            let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
            return Err(SqlError::failed(state::GENERATED_ALWAYS, message));
        }
    }
    Ok(filled)
}

/// Checks the expression of a DEFAULT for a column. Answers its value now, unless each row gets another.
///
/// # Errors
/// What PostgreSQL says to expressions that need a row, and to values of another type.
pub(crate) async fn check_default(
    session: &SessionState,
    table: &TableDef,
    column: u16,
    text: &str,
) -> Result<Option<Value>, SqlError> {
    let expression = prepared(parse_expression(text)?)?;
    refuse_rows(&expression)?;
    let mut query = rewrite::empty_select();
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("SELECT 1 is a SELECT") };
    let zero = Expr::value(SqlValue::Number("0".into(), false));
    select.projection = vec![
        rewrite::aliased(zero, "__lode_row".into()),
        rewrite::aliased(expression, "__lode_default".into()),
    ];
    let plan: LogicalPlan = cast_assigned(plan_query(session, query).await?, table, &[column])?;
    if super::returning::aggregates(&plan) {
        let message = "aggregate functions are not allowed in DEFAULT expressions";
        return Err(SqlError::failed(state::GROUPING_ERROR, message));
    }
    let mut differs_by_row = false;
    plan.apply(|node| {
        node.apply_expressions(|e| {
            differs_by_row |= e.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if differs_by_row {
        return Ok(None);
    }
    // A constant that its column cannot hold is an error of the definition.
    let batch = run_to_end(session, &plan).await?;
    let mut value = super::load::cast_to(table, column, batch.column(1))?;
    if let Some(digits) = timestamp_digits(&table.columns[usize::from(column)]) {
        value = rounded(&value, digits)?;
    }
    Ok(Some(super::column_of(table, column, &value)?.value(0)))
}

/// Refuses what a DEFAULT cannot look at.
fn refuse_rows(expression: &Expr) -> Result<(), SqlError> {
    use std::ops::ControlFlow;

    use datafusion::sql::sqlparser::ast::visit_expressions;
    let found = visit_expressions(expression, |e| {
        let what = match e {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => "column reference",
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => "subquery",
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(what)
    });
    match found {
        ControlFlow::Break(what) => {
            let message = format!("cannot use {what} in DEFAULT expression");
            Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}
