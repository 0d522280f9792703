//! DELETE and UPDATE as the SELECT that finds their rows.
//!
//! ```text
//!   DELETE FROM t AS a USING u WHERE p      ─►  SELECT a.__lode_row FROM __lode_target AS a, u WHERE p
//!   UPDATE t SET c = e FROM u WHERE p       ─►  SELECT t.__lode_row, e FROM __lode_target AS t, u WHERE p
//! ```
//!
//! Only the changed table's own scan is renamed: `t` inside a subquery is still the plain table. The clauses that
//! choose rows stay one query, which is planned as a whole.
//!
//! DataFusion's `delete_from` and `update` are not used: they pass only the filters that could be pushed to the scan.
//! After `IN (SELECT ...)` or LIMIT that list can be empty, which would mean every row.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Ident, LimitClause, ObjectName, OrderBy,
    OrderByExpr, OrderByKind, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    TableAlias, TableFactor, TableWithJoins, Truncate, Update, UpdateTableFromKind,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use lode_engine::TableDef;

use super::fill::filling;
use crate::SqlError;
use crate::error::state;
use crate::names::{TARGET, split};
use crate::provider::ROW_IDENTITY;
use crate::statement::{fold, table_name};

/// A change as a query that finds the rows to change.
#[derive(Debug)]
pub(crate) struct RowQuery {
    /// The changed table's name.
    pub(crate) table: String,
    /// UPDATE: the names of the assigned columns. Their new values are the query's columns from the second on.
    pub(crate) assigned: Vec<String>,
    /// Its first column is the row identity.
    pub(crate) query: Box<Query>,
}

impl RowQuery {
    /// The name by which its expressions know the changed table.
    pub(crate) fn alias(&self) -> Ident {
        let SetExpr::Select(select) = self.query.body.as_ref() else { unreachable!("it was made so") };
        match &select.from[0].relation {
            TableFactor::Table { alias: Some(alias), .. } => alias.name.clone(),
            _ => unreachable!("it was made so"),
        }
    }

    /// Adds columns of the changed table to the query's result.
    pub(crate) fn also_select<'a>(&mut self, columns: impl Iterator<Item = &'a str>) {
        let SetExpr::Select(select) = self.query.body.as_mut() else { unreachable!("it was made so") };
        let TableFactor::Table { alias: Some(alias), .. } = &select.from[0].relation else {
            unreachable!("it was made so")
        };
        let of = alias.name.clone();
        let begin = 1 + self.assigned.len();
        for column in columns {
            let value = Expr::CompoundIdentifier(vec![of.clone(), Ident::with_quote('"', column)]);
            let name = format!("__lode_old_{}", select.projection.len() - begin);
            select.projection.push(aliased(value, name));
        }
    }
}

impl RowQuery {
    /// Adds all columns of the tables in FROM or USING to the query's result. Answers whether there are any.
    ///
    /// # Errors
    /// When one of them has no name.
    pub(super) fn also_select_others(&mut self) -> Result<bool, SqlError> {
        let SetExpr::Select(select) = self.query.body.as_mut() else { unreachable!("it was made so") };
        let mut all = Vec::new();
        for from in &select.from[1..] {
            let joined = from.joins.iter().map(|join| &join.relation);
            for relation in std::iter::once(&from.relation).chain(joined) {
                let (TableFactor::Table { alias: Some(alias), .. }
                | TableFactor::Derived { alias: Some(alias), .. }
                | TableFactor::Function { alias: Some(alias), .. }) = relation
                else {
                    let TableFactor::Table { name, alias: None, .. } = relation else {
                        return Err(SqlError::Unsupported(format!("RETURNING beside {relation}")));
                    };
                    all.push(name.clone());
                    continue;
                };
                all.push(ObjectName::from(vec![alias.name.clone()]));
            }
        }
        let star = |name| {
            let of = SelectItemQualifiedWildcardKind::ObjectName(name);
            SelectItem::QualifiedWildcard(of, WildcardAdditionalOptions::default())
        };
        let any = !all.is_empty();
        select.projection.extend(all.into_iter().map(star));
        Ok(any)
    }

    /// Adds the defaults of columns to the query's result.
    ///
    /// # Errors
    /// When a default is no expression.
    pub(super) fn also_defaults(&mut self, table: &TableDef, columns: &[u16]) -> Result<(), SqlError> {
        let SetExpr::Select(select) = self.query.body.as_mut() else { unreachable!("it was made so") };
        for (i, &c) in columns.iter().enumerate() {
            let value = filling(&table.columns[usize::from(c)])?;
            select.projection.push(aliased(value, format!("__lode_default_{i}")));
        }
        Ok(())
    }
}

/// What `delete` deletes.
pub(crate) fn delete(delete: &Delete) -> Result<RowQuery, SqlError> {
    let Delete {
        tables, from, using, selection, returning: _, output, order_by, limit, optimizer_hints, ..
    } = delete;
    refuse("DELETE with OUTPUT", output.is_some())?;
    refuse("DELETE of several tables", !tables.is_empty())?;
    refuse("DELETE with hints", !optimizer_hints.is_empty())?;
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
    let [target] = from.as_slice() else {
        return Err(SqlError::Unsupported("DELETE of several tables".into()));
    };
    let others = using.clone().unwrap_or_default();
    find("DELETE", target, others, Vec::new(), selection, order_by, limit)
}

/// The table that `update` updates.
pub(crate) fn updated_table(update: &Update) -> Result<String, SqlError> {
    match &update.table.relation {
        TableFactor::Table { name, .. } => table_name(name),
        other => {
            let message = format!("UPDATE takes the name of a table, not {other}");
            Err(SqlError::failed(state::SYNTAX_ERROR, message))
        }
    }
}

/// What `update` updates, and to which values.
pub(crate) fn update(update: &Update) -> Result<RowQuery, SqlError> {
    let Update {
        table,
        assignments,
        from,
        selection,
        returning: _,
        output,
        or,
        order_by,
        limit,
        optimizer_hints,
        ..
    } = update;
    refuse("UPDATE with OUTPUT", output.is_some())?;
    refuse("UPDATE OR", or.is_some())?;
    refuse("UPDATE with hints", !optimizer_hints.is_empty())?;
    let others = match from {
        None => Vec::new(),
        Some(UpdateTableFromKind::AfterSet(from)) => from.clone(),
        Some(UpdateTableFromKind::BeforeSet(_)) => {
            return Err(SqlError::Unsupported("UPDATE with FROM before SET".into()));
        }
    };
    let mut sets: Vec<(String, Expr)> = Vec::new();
    for assignment in assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            unreachable!("preparing a statement takes lists of columns apart")
        };
        let value = &assignment.value;
        let column = match name.0.as_slice() {
            [part] => part.as_ident().map(fold),
            _ => None,
        }
        .ok_or_else(|| {
            let message = format!("SET takes the column's bare name, not {name}");
            SqlError::failed(state::UNDEFINED_COLUMN, message)
        })?;
        if sets.iter().any(|(c, _)| *c == column) {
            let message = format!("multiple assignments to the column \"{column}\"");
            return Err(SqlError::failed(state::SYNTAX_ERROR, message));
        }
        sets.push((column, value.clone()));
    }
    find("UPDATE", table, others, sets, selection, order_by, limit)
}

/// `UPDATE target SET ... FROM other WHERE selection`.
pub(super) fn update_of(
    target: TableFactor,
    assignments: Vec<Assignment>,
    other: Option<TableFactor>,
    selection: Option<Expr>,
) -> Update {
    let of = |relation| TableWithJoins { relation, joins: Vec::new() };
    Update {
        update_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        table: of(target),
        assignments,
        from: other.map(|other| UpdateTableFromKind::AfterSet(vec![of(other)])),
        selection,
        returning: None,
        output: None,
        or: None,
        order_by: Vec::new(),
        limit: None,
    }
}

/// `UPDATE table SET ...`.
pub(super) fn update_of_all(table: &str, set: Assignment) -> Result<Update, SqlError> {
    let name = ObjectName::from(vec![Ident::with_quote('"', table)]);
    Ok(update_of(named(name, None)?, vec![set], None, None))
}

/// All rows of a table.
pub(crate) fn all_of(table: &str) -> Result<RowQuery, SqlError> {
    let name = ObjectName::from(vec![Ident::with_quote('"', table)]);
    let target = TableWithJoins { relation: named(name, None)?, joins: Vec::new() };
    find("DELETE", &target, Vec::new(), Vec::new(), &None, &[], &None)
}

/// The tables of a TRUNCATE.
pub(crate) fn truncated(truncate: &Truncate) -> Result<Vec<String>, SqlError> {
    let Truncate { table_names, partitions, if_exists, on_cluster, .. } = truncate;
    if *if_exists {
        return Err(SqlError::failed(state::SYNTAX_ERROR, "TRUNCATE has no IF EXISTS"));
    }
    refuse("TRUNCATE with options", partitions.is_some() || on_cluster.is_some())?;
    let mut names: Vec<String> = Vec::with_capacity(table_names.len());
    for table in table_names {
        let name = table_name(&table.name)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn find(
    verb: &str,
    target: &TableWithJoins,
    others: Vec<TableWithJoins>,
    sets: Vec<(String, Expr)>,
    selection: &Option<Expr>,
    order_by: &[OrderByExpr],
    limit: &Option<Expr>,
) -> Result<RowQuery, SqlError> {
    refuse(&format!("{verb} of a join: name the other tables in USING or FROM"), !target.joins.is_empty())?;
    // A LIMIT would count joined rows, not rows of the table.
    refuse(&format!("{verb} with LIMIT over several tables"), limit.is_some() && !others.is_empty())?;
    let TableFactor::Table { name, alias, .. } = &target.relation else {
        let message = format!("{verb} takes the name of a table, not {}", target.relation);
        return Err(SqlError::failed(state::SYNTAX_ERROR, message));
    };
    let table = table_name(name)?;
    let plain = named(name.clone(), alias.clone())?;
    refuse(&format!("{verb} of {}", target.relation), plain != target.relation)?;
    refuse(
        &format!("{verb} with renamed columns"),
        alias.as_ref().is_some_and(|a| !a.columns.is_empty() || a.at.is_some()),
    )?;

    let alias = match alias {
        Some(alias) => alias.clone(),
        None => {
            let name = Ident::with_quote('"', split(&table).1);
            TableAlias { explicit: true, name, columns: Vec::new(), at: None }
        }
    };
    let row = Expr::CompoundIdentifier(vec![alias.name.clone(), Ident::with_quote('"', ROW_IDENTITY)]);
    let mut projection = vec![aliased(row, ROW_IDENTITY.to_owned())];
    let mut assigned = Vec::with_capacity(sets.len());
    for (i, (column, value)) in sets.into_iter().enumerate() {
        projection.push(aliased(value, format!("__lode_set_{i}")));
        assigned.push(column);
    }

    let mut query = empty_select();
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("SELECT 1 is a SELECT") };
    select.projection = projection;
    let scan = named(ObjectName::from(vec![Ident::with_quote('"', TARGET)]), Some(alias))?;
    select.from = vec![TableWithJoins { relation: scan, joins: Vec::new() }];
    select.from.extend(others);
    select.selection.clone_from(selection);
    if !order_by.is_empty() {
        query.order_by =
            Some(OrderBy { kind: OrderByKind::Expressions(order_by.to_vec()), interpolate: None });
    }
    if let Some(limit) = limit {
        query.limit_clause =
            Some(LimitClause::LimitOffset { limit: Some(limit.clone()), offset: None, limit_by: Vec::new() });
    }
    Ok(RowQuery { table, assigned, query })
}

pub(super) fn aliased(expr: Expr, alias: String) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) }
}

/// `name [AS alias]`, without anything else that SQL allows there.
pub(super) fn named(name: ObjectName, alias: Option<TableAlias>) -> Result<TableFactor, SqlError> {
    Ok(TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    })
}

/// `SELECT 1`, to be filled in.
pub(crate) fn empty_select() -> Box<Query> {
    let statements = Parser::parse_sql(&GenericDialect {}, "SELECT 1").expect("SELECT 1 is SQL");
    match statements.into_iter().next() {
        Some(Statement::Query(query)) => query,
        _ => unreachable!("SELECT 1 is a query"),
    }
}

fn refuse(what: &str, if_so: bool) -> Result<(), SqlError> {
    if if_so { Err(SqlError::Unsupported(what.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    fn rewrite(sql: &str) -> Result<RowQuery, SqlError> {
        match Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0) {
            Statement::Delete(d) => delete(&d),
            Statement::Update(u) => update(&u),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn changes_become_queries_over_the_target() {
        let check = |sql: &str, expected: &str| assert_eq!(rewrite(sql).unwrap().query.to_string(), expected);
        check("DELETE FROM T", r#"SELECT "t"."__lode_row" AS "__lode_row" FROM "__lode_target" AS "t""#);
        check(
            "DELETE FROM t AS a USING u WHERE a.x IN (SELECT x FROM t WHERE t.y = u.y)",
            "SELECT a.\"__lode_row\" AS \"__lode_row\" FROM \"__lode_target\" AS a, u \
             WHERE a.x IN (SELECT x FROM t WHERE t.y = u.y)",
        );
        check(
            "UPDATE t SET a = b + 1, b = (SELECT max(b) FROM t) WHERE a > 0",
            "SELECT \"t\".\"__lode_row\" AS \"__lode_row\", b + 1 AS \"__lode_set_0\", \
             (SELECT max(b) FROM t) AS \"__lode_set_1\" FROM \"__lode_target\" AS \"t\" WHERE a > 0",
        );
        check(
            "DELETE FROM t WHERE a = 1 ORDER BY b LIMIT 3",
            "SELECT \"t\".\"__lode_row\" AS \"__lode_row\" FROM \"__lode_target\" AS \"t\" WHERE a = 1 \
             ORDER BY b LIMIT 3",
        );
        assert_eq!(rewrite("UPDATE t SET A = 1, \"B\" = 2").unwrap().assigned, ["a", "B"]);
    }

    #[test]
    fn what_cannot_be_told_exactly_is_refused() {
        let check = |sql: &str, part: &str| {
            let e = rewrite(sql).unwrap_err().to_string();
            assert!(e.contains(part), "{sql}: {e}");
        };
        check("UPDATE t SET a = 1, a = 2", "multiple assignments");
        check("UPDATE t SET t.a = 1", "bare name");
        check("DELETE FROM t USING u WHERE t.a = u.a LIMIT 1", "LIMIT over several tables");
        check("DELETE FROM elsewhere.public.t", "cross-database references");
    }
}
