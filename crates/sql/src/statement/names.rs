//! Looks up the tables and functions of a statement before DataFusion plans it, so that unknown ones have errors of
//! their own: SQLSTATEs 42P01 and 42883.
//!
//! ```text
//!   SELECT * FROM nowhere              ─►  there is no table nowhere
//!   SELECT nofunc(1)                   ─►  function nofunc does not exist
//!   SELECT rank() FROM t               ─►  window function rank requires an OVER clause
//!   SELECT 1 FROM t WHERE sum(a) > 1   ─►  aggregate functions are not allowed in WHERE
//! ```

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    JoinConstraint, JoinOperator, ObjectName, Query, Select, Statement as Sql, TableFactor, Visit, Visitor,
    visit_expressions,
};

use super::fold;
use super::shape::at;
use crate::SqlError;
use crate::error::state;
use crate::names::{CATALOG, SCHEMA};
use crate::series::{GENERATE_SERIES, UNNEST};

/// Functions that DataFusion's planner handles by their names.
const OF_THE_PLANNER: [&str; 4] = ["unnest", "unnest_outer", "make_map", "map"];

/// Looks up every table and function that a statement names.
///
/// # Errors
/// The first name that is unknown, or is used where it may not be.
pub(crate) fn check_names(state: &SessionState, parsed: &Parsed) -> Result<(), SqlError> {
    let Some(sql) = statement(parsed) else { return Ok(()) };
    let mut names = Names { state, from_functions: Vec::new() };
    if let ControlFlow::Break(e) = sql.visit(&mut names) {
        return Err(e);
    }
    for reference in state.resolve_table_references(parsed)? {
        let resolved = reference.clone().resolve(CATALOG, SCHEMA);
        let exists = state.schema_for_ref(resolved.clone()).is_ok_and(|s| s.table_exist(&resolved.table));
        if !exists && !names.from_functions.contains(&reference) {
            return Err(no_table(sql, &reference));
        }
    }
    Ok(())
}

fn statement(parsed: &Parsed) -> Option<&Sql> {
    match parsed {
        Parsed::Statement(sql) => Some(sql),
        Parsed::Explain(explain) => statement(&explain.statement),
        _ => None,
    }
}

fn reference(name: &ObjectName) -> Option<TableReference> {
    object_name_to_table_reference(name.clone(), true).ok()
}

/// The error of an unknown table, at the first place that names it.
fn no_table(sql: &Sql, missing: &TableReference) -> SqlError {
    struct FirstMention<'a>(&'a TableReference);
    impl Visitor for FirstMention<'_> {
        type Break = Ident;

        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Ident> {
            match name.0.first().and_then(|part| part.as_ident()) {
                Some(ident) if reference(name).as_ref() == Some(self.0) => ControlFlow::Break(ident.clone()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let e = SqlError::failed(state::UNDEFINED_TABLE, format!("there is no table {missing}"));
    match sql.visit(&mut FirstMention(missing)) {
        ControlFlow::Break(ident) => at(e, &ident),
        ControlFlow::Continue(()) => e,
    }
}

struct Names<'a> {
    state: &'a SessionState,
    /// Functions in FROM. DataFusion lists them among the tables.
    from_functions: Vec<TableReference>,
}

impl Visitor for Names<'_> {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        let (TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }) = factor
        else {
            return ControlFlow::Continue(());
        };
        let (function, state) = (name_of(name), self.state);
        let exists = [GENERATE_SERIES, UNNEST].contains(&function.as_str())
            || state.table_functions().contains_key(&function)
            || state.scalar_functions().contains_key(&function);
        if !exists {
            return ControlFlow::Break(no_function(name));
        }
        self.from_functions.extend(reference(name));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        if let Some(condition) = &select.selection {
            self.refuse_aggregates(condition, "WHERE")?;
        }
        if let GroupByExpr::Expressions(by, _) = &select.group_by {
            by.iter().try_for_each(|e| self.refuse_aggregates(e, "GROUP BY"))?;
        }
        for join in select.from.iter().flat_map(|table| &table.joins) {
            if let JoinOperator::Join(JoinConstraint::On(on))
            | JoinOperator::Inner(JoinConstraint::On(on))
            | JoinOperator::Left(JoinConstraint::On(on))
            | JoinOperator::LeftOuter(JoinConstraint::On(on)) = &join.join_operator
            {
                self.refuse_aggregates(on, "JOIN conditions")?;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match expr {
            // Without parentheses it may be the name of a column.
            Expr::Function(f) if !matches!(f.args, FunctionArguments::None) => self.function(f),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Names<'_> {
    fn function(&self, f: &Function) -> ControlFlow<SqlError> {
        let (state, name) = (self.state, name_of(&f.name));
        let wrong = |message: String| {
            let e = SqlError::failed(state::WRONG_OBJECT_TYPE, message);
            ControlFlow::Break(placed(e, &f.name))
        };
        if name == GENERATE_SERIES {
            let what = "a function that returns a set, outside FROM and a SELECT list";
            return ControlFlow::Break(SqlError::Unsupported(what.into()));
        }
        let is_scalar = state.scalar_functions().contains_key(&name)
            || state.higher_order_functions().contains_key(&name);
        if is_scalar || OF_THE_PLANNER.contains(&name.as_str()) {
            let distinct = match &f.args {
                FunctionArguments::List(list) => {
                    list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
                }
                _ => false,
            };
            let clause = match () {
                () if f.over.is_some() => "OVER",
                () if f.filter.is_some() => "FILTER",
                () if distinct => "DISTINCT",
                () if has_star(f) => return ControlFlow::Break(no_function(&f.name)),
                () => return ControlFlow::Continue(()),
            };
            return wrong(format!("{clause} specified, but {name} is not an aggregate function"));
        }
        if state.aggregate_functions().contains_key(&name) {
            self.arguments_of_aggregate(f, &name)?;
            let nested = f.over.is_none() && self.aggregates(&f.args);
            return match nested {
                true => {
                    ControlFlow::Break(placed(grouping("aggregate function calls cannot be nested"), &f.name))
                }
                false => ControlFlow::Continue(()),
            };
        }
        match (state.window_functions().contains_key(&name), &f.over) {
            (true, Some(_)) => ControlFlow::Continue(()),
            (true, None) => wrong(format!("window function {name} requires an OVER clause")),
            (false, _) => ControlFlow::Break(no_function(&f.name)),
        }
    }

    /// `*` is an argument of count alone, which takes one at most.
    fn arguments_of_aggregate(&self, f: &Function, name: &str) -> ControlFlow<SqlError> {
        let FunctionArguments::List(list) = &f.args else { return ControlFlow::Continue(()) };
        let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        if name != "count" {
            return match has_star(f) {
                true => ControlFlow::Break(no_function(&f.name)),
                false => ControlFlow::Continue(()),
            };
        }
        match list.args.len() {
            0 => {
                let message = "count(*) must be used to call a parameterless aggregate function";
                let e = SqlError::failed(state::WRONG_OBJECT_TYPE, message);
                ControlFlow::Break(placed(e, &f.name))
            }
            1 => ControlFlow::Continue(()),
            // Of several columns, DataFusion counts what PostgreSQL writes as a row.
            _ if distinct => ControlFlow::Continue(()),
            _ => ControlFlow::Break(no_function(&f.name)),
        }
    }

    /// Refuses aggregates and window functions in a clause that is evaluated before them.
    fn refuse_aggregates(&self, expr: &Expr, clause: &str) -> ControlFlow<SqlError> {
        if self.aggregates(expr) {
            return ControlFlow::Break(grouping(&format!("aggregate functions are not allowed in {clause}")));
        }
        let mut queries = Vec::new();
        let windowed = visit_expressions(expr, |e| {
            match e {
                Expr::Subquery(q)
                | Expr::InSubquery { subquery: q, .. }
                | Expr::Exists { subquery: q, .. } => {
                    queries.push(q.to_string());
                }
                Expr::Function(f) if f.over.is_some() => {
                    let text = f.to_string();
                    if !queries.iter().any(|q| q.contains(&text)) {
                        return ControlFlow::Break(());
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        if windowed.is_continue() {
            return ControlFlow::Continue(());
        }
        let message = format!("window functions are not allowed in {clause}");
        ControlFlow::Break(SqlError::failed(state::WINDOWING_ERROR, message))
    }

    /// Whether there is an aggregate in `part`, other than those of its subqueries.
    fn aggregates(&self, part: &impl Visit) -> bool {
        struct Aggregates<'a> {
            state: &'a SessionState,
            queries: usize,
        }
        impl Visitor for Aggregates<'_> {
            type Break = ();

            fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
                self.queries += 1;
                ControlFlow::Continue(())
            }

            fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
                self.queries -= 1;
                ControlFlow::Continue(())
            }

            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
                match expr {
                    Expr::Function(f) if self.queries == 0 && f.over.is_none() => {
                        let name = name_of(&f.name);
                        let is_aggregate = self.state.aggregate_functions().contains_key(&name)
                            && !self.state.scalar_functions().contains_key(&name);
                        if is_aggregate { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
        }
        part.visit(&mut Aggregates { state: self.state, queries: 0 }).is_break()
    }
}

fn has_star(f: &Function) -> bool {
    let FunctionArguments::List(list) = &f.args else { return false };
    list.args.iter().any(|a| matches!(a, FunctionArg::Unnamed(FunctionArgExpr::Wildcard)))
}

/// A function's name as DataFusion knows it.
fn name_of(name: &ObjectName) -> String {
    match name.0.as_slice() {
        [part] => part.as_ident().map_or_else(|| name.to_string(), fold),
        _ => name.to_string(),
    }
}

fn no_function(name: &ObjectName) -> SqlError {
    let e = SqlError::failed(state::UNDEFINED_FUNCTION, format!("function {name} does not exist"));
    placed(e, name)
}

fn grouping(message: &str) -> SqlError {
    SqlError::failed(state::GROUPING_ERROR, message)
}

fn placed(e: SqlError, name: &ObjectName) -> SqlError {
    match name.0.first().and_then(|part| part.as_ident()) {
        Some(ident) => at(e, ident),
        None => e,
    }
}
