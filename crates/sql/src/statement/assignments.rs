//! `UPDATE ... SET (a, b) = ...` as one assignment for each column.
//!
//! ```text
//!   SET (a, b) = (x, y)                     ─►  SET a = x, b = y
//!   SET (a, b) = (SELECT x, y FROM u ...)   ─►  SET a = (SELECT x FROM u ...), b = (SELECT y FROM u ...)
//! ```

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
    OnConflictAction, OnInsert, SelectItem, SetExpr, Statement as Sql,
};

use crate::SqlError;
use crate::error::state;

/// Takes the lists of columns of a statement apart.
///
/// # Errors
/// 42601 for a wrong number of values, 0A000 for a source that is neither a row nor a subquery of single expressions.
pub(super) fn expand(sql: &mut Sql) -> Result<(), SqlError> {
    let assignments = match sql {
        Sql::Update(update) => &mut update.assignments,
        Sql::Insert(insert) => match &mut insert.on {
            Some(OnInsert::OnConflict(on)) => match &mut on.action {
                OnConflictAction::DoUpdate(update) => &mut update.assignments,
                OnConflictAction::DoNothing => return Ok(()),
            },
            _ => return Ok(()),
        },
        Sql::Query(query) => {
            return match query.body.as_mut() {
                SetExpr::Update(sql) | SetExpr::Insert(sql) => expand(sql),
                _ => Ok(()),
            };
        }
        Sql::Prepare { statement, .. } => return expand(statement),
        _ => return Ok(()),
    };
    if !assignments.iter().any(|a| matches!(a.target, AssignmentTarget::Tuple(_))) {
        return Ok(());
    }
    let mut each = Vec::with_capacity(assignments.len());
    for assignment in std::mem::take(assignments) {
        match &assignment.target {
            AssignmentTarget::ColumnName(_) => each.push(assignment),
            AssignmentTarget::Tuple(names) => {
                let pairs = tuple(names, &assignment.value)?.into_iter();
                each.extend(pairs.map(|(name, value)| {
                    let target = AssignmentTarget::ColumnName(name);
                    Assignment { target, value }
                }));
            }
        }
    }
    *assignments = each;
    Ok(())
}

/// `(a, b) = (x, y)`, or `(a, b) = (SELECT x, y ...)`, column by column.
fn tuple(names: &[ObjectName], value: &Expr) -> Result<Vec<(ObjectName, Expr)>, SqlError> {
    let wrong_count = || {
        let message = "number of columns does not match number of values";
        SqlError::failed(state::SYNTAX_ERROR, message)
    };
    let values = match value {
        Expr::Tuple(values) => values.clone(),
        Expr::Function(f) if f.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &f.args else { return Err(wrong_count()) };
            let value = |a: &FunctionArg| match a {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Ok(e.clone()),
                other => Err(SqlError::Unsupported(format!("the value {other}"))),
            };
            list.args.iter().map(value).collect::<Result<_, _>>()?
        }
        Expr::Subquery(query) => {
            let selects = match query.body.as_ref() {
                SetExpr::Select(select) if select.distinct.is_none() => select.projection.len(),
                _ => 0,
            };
            let plain = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            let one = |i: usize| {
                let mut query = query.clone();
                let SetExpr::Select(select) = query.body.as_mut() else { return None };
                if !select.projection.iter().all(plain) {
                    return None;
                }
                select.projection = vec![select.projection[i].clone()];
                Some(Expr::Subquery(query))
            };
            let each: Option<Vec<Expr>> = (0..selects).map(one).collect();
            each.filter(|each| !each.is_empty()).ok_or_else(|| {
                let what = "UPDATE ... SET (columns) = a subquery with DISTINCT, * or a set operation";
                SqlError::Unsupported(what.into())
            })?
        }
        _ => {
            let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
            return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
        }
    };
    if names.len() != values.len() {
        return Err(wrong_count());
    }
    Ok(names.iter().cloned().zip(values).collect())
}
