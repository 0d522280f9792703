//! What Lode checks and changes in a parsed statement before DataFusion plans it.
//!
//! - Mistakes that the tree shows by itself are errors (`shape.rs`).
//! - Numbers have PostgreSQL's types (`literals.rs`), rows are compared column by column (`rows.rs`).
//! - TIMESTAMP is TIMESTAMP(6).
//! - `CAST(x AS VARCHAR(n))` truncates, as an explicit cast does in PostgreSQL.
//! - A SELECT may repeat an unnamed column, as in `SELECT 0, 0`, and have several subqueries. DataFusion needs distinct
//!   names, so a repeated column gets a number.
//! - A window with an order and without a frame gets its frame (`window_frames.rs`); named windows are written out (`windows.rs`).
//! - Clauses that DataFusion ignores are refused.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CharacterLength, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, LimitClause, ObjectName, OrderBy,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement as Sql, TableFactor,
    TimezoneInfo, TypedString, UnaryOperator, Value, Visit, VisitMut, Visitor, VisitorMut, WindowType,
    visit_expressions,
};

use super::flow::ended;
use super::shape::Shape;
use super::{assignments, fold, literals, rows, windows};
use crate::error::state;
use crate::semantics::timestamp_digits::{DIGITS_MAX, FUNCTION};
use crate::{SqlError, series, window_frames};

/// Prepares a statement. Recurses over it.
///
/// # Errors
/// When the tree shows a mistake by itself; when a clause would be ignored.
pub(crate) fn prepare(parsed: &mut Parsed) -> Result<(), SqlError> {
    prepare_as(parsed, Shape { parameters: false, sets: false })
}

/// Prepares a statement that may have parameters.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn prepare_with_parameters(parsed: &mut Parsed) -> Result<(), SqlError> {
    prepare_as(parsed, Shape { parameters: true, sets: false })
}

fn prepare_as(parsed: &mut Parsed, mut shape: Shape) -> Result<(), SqlError> {
    match parsed {
        Parsed::Explain(explain) => prepare_as(&mut explain.statement, shape),
        Parsed::Statement(sql) => {
            if let Sql::Insert(insert) = sql.as_ref()
                && !insert.into
                && !insert.replace_into
            {
                return Err(SqlError::failed(state::SYNTAX_ERROR, "INSERT needs INTO"));
            }
            assignments::expand(sql)?;
            shape.sets = matches!(sql.as_ref(), Sql::Set(_));
            ended(Visit::visit(sql.as_ref(), &mut shape))?;
            if let Sql::Query(query) = sql.as_mut()
                && let SetExpr::Select(select) = query.body.as_mut()
            {
                tell_columns_apart(select, query.order_by.as_ref())?;
            }
            let is_insert = matches!(sql.as_ref(), Sql::Insert(_));
            let mut preparer = Preparer { next_values_are_inserted: is_insert };
            ended(sql.visit(&mut preparer))?;
            ended(Visit::visit(sql.as_ref(), &mut Leftovers))
        }
        _ => Ok(()),
    }
}

struct Preparer {
    /// The next VALUES are the source of an INSERT: they get their types from the table's columns.
    next_values_are_inserted: bool,
}

impl VisitorMut for Preparer {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if !query.locks.is_empty() {
            return refuse("SELECT ... FOR UPDATE or FOR SHARE");
        }
        if query.for_clause.is_some() || query.settings.is_some() || query.format_clause.is_some() {
            return refuse("FOR XML, FOR JSON, SETTINGS and FORMAT");
        }
        fetch_as_limit(query)?;
        if let Err(e) = windows::in_order(query) {
            return ControlFlow::Break(e);
        }
        let inserted = std::mem::take(&mut self.next_values_are_inserted);
        if !(inserted && matches!(*query.body, SetExpr::Values(_))) {
            literals::give_types_to_values(&mut query.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                refuse("TABLESAMPLE")
            }
            factor => match series::function_in_from(factor, literals::integer) {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => ControlFlow::Break(e),
            },
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        minus_before_power(expr);
        own_functions(expr);
        names_of_relations(expr);
        literals::give_types(expr);
        microseconds(expr);
        cut_casts(expr);
        fewer_digits(expr);
        if let Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) = expr {
            window_frames::write_out(window);
        }
        match rows::expand(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => ControlFlow::Break(e),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if let GroupByExpr::Expressions(by, _) = &mut select.group_by {
            flatten(by);
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                literals::integer(expr);
            }
        }
        if let Err(e) = windows::in_select_list(select) {
            return ControlFlow::Break(e);
        }
        series::in_select_list(select);
        tell_names_apart(select);
        ControlFlow::Continue(())
    }
}

/// Refuses expressions that may not be left in a prepared statement.
struct Leftovers;

impl Visitor for Leftovers {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match rows::refuse(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => ControlFlow::Break(e),
        }
    }
}

fn refuse<T>(what: &str) -> ControlFlow<SqlError, T> {
    ControlFlow::Break(SqlError::Unsupported(what.into()))
}

/// `FETCH FIRST n ROWS ONLY` is `LIMIT n`.
fn fetch_as_limit(query: &mut Query) -> ControlFlow<SqlError> {
    let Some(fetch) = query.fetch.take() else { return ControlFlow::Continue(()) };
    if fetch.with_ties || fetch.percent {
        return refuse("FETCH FIRST WITH TIES and PERCENT");
    }
    let limit = fetch.quantity.unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)));
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit: none @ None, .. }) => *none = Some(limit),
        Some(_) => {
            let message = "multiple LIMIT clauses not allowed";
            return ControlFlow::Break(SqlError::failed(state::SYNTAX_ERROR, message));
        }
    }
    ControlFlow::Continue(())
}

/// `GROUP BY (a, b)` is `GROUP BY a, b`.
fn flatten(by: &mut Vec<Expr>) {
    if by.iter().any(|e| matches!(e, Expr::Tuple(_))) {
        let all = std::mem::take(by).into_iter().flat_map(|e| match e {
            Expr::Tuple(columns) => columns,
            other => vec![other],
        });
        *by = all.collect();
    }
}

/// `-2 ^ 2` is `(-2) ^ 2`: PostgreSQL's minus binds tighter.
fn minus_before_power(expr: &mut Expr) {
    let Expr::UnaryOp { op: op @ UnaryOperator::Minus, expr: inner } = expr else { return };
    if let Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } = inner.as_mut() {
        let take = |e: &mut Box<Expr>| std::mem::replace(e.as_mut(), Expr::value(Value::Null));
        let negated = Expr::UnaryOp { op: *op, expr: Box::new(take(left)) };
        *expr = Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(negated))),
            op: BinaryOperator::PGExp,
            right: Box::new(take(right)),
        };
    }
}

/// `pg_catalog.f(x)` is `f(x)`.
fn own_functions(expr: &mut Expr) {
    let Expr::Function(f) = expr else { return };
    if let [schema, _] = f.name.0.as_slice()
        && schema.as_ident().is_some_and(|i| i.value.eq_ignore_ascii_case("pg_catalog"))
    {
        f.name.0.remove(0);
    }
}

/// `'name'::regclass` is the name: functions over sequences take it as a text.
fn names_of_relations(expr: &mut Expr) {
    let Expr::Cast { expr: of, data_type: DataType::Custom(name, _), .. } = expr else { return };
    let is_class = name.0.last().and_then(|part| part.as_ident());
    let is_class = is_class.is_some_and(|i| i.value.eq_ignore_ascii_case("regclass"));
    if let (true, Expr::Value(v)) = (is_class, of.as_ref())
        && matches!(v.value, Value::SingleQuotedString(_))
    {
        *expr = std::mem::replace(of, Expr::value(Value::Null));
    }
}

/// TIMESTAMP has microseconds: DataFusion's own has nanoseconds, and ends in 2262. And `bpchar` is TEXT.
fn microseconds(expr: &mut Expr) {
    let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) = expr else {
        return;
    };
    match data_type {
        DataType::Timestamp(digits @ None, _) => *digits = Some(6),
        DataType::Dec(digits) => *data_type = DataType::Decimal(*digits),
        // The type of CHAR without a length.
        DataType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("bpchar") => {
            *data_type = DataType::Text;
        }
        _ => {}
    }
}

/// `CAST(x AS TIMESTAMP(n))` becomes a call that rounds the moment: DataFusion has but some digits.
fn fewer_digits(expr: &mut Expr) {
    let Expr::Cast {
        data_type: DataType::Timestamp(given @ Some(_), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone),
        ..
    } = expr
    else {
        return;
    };
    let digits = given.replace(u64::from(DIGITS_MAX)).unwrap_or_default();
    if digits >= u64::from(DIGITS_MAX) {
        return;
    }
    let moment = std::mem::replace(expr, Expr::value(Value::Null));
    *expr = call(FUNCTION, [moment, Expr::value(Value::Number(digits.to_string(), false))]);
}

/// `CAST(x AS VARCHAR(n))` becomes `left(CAST(x AS VARCHAR), n)`: DataFusion ignores n.
fn cut_casts(expr: &mut Expr) {
    let Expr::Cast { data_type, .. } = expr else { return };
    let chars = match data_type {
        DataType::Varchar(Some(n))
        | DataType::CharacterVarying(Some(n))
        | DataType::CharVarying(Some(n))
        | DataType::Char(Some(n))
        | DataType::Character(Some(n)) => match n {
            CharacterLength::IntegerLength { length, .. } => *length,
            CharacterLength::Max => return,
        },
        DataType::Char(None) | DataType::Character(None) => 1,
        _ => return,
    };
    *data_type = DataType::Varchar(None);
    let text = std::mem::replace(expr, Expr::value(Value::Null));
    let length = Expr::value(Value::Number(chars.to_string(), false));
    *expr = call("left", [text, length]);
}

fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e)));
    let args = FunctionArgumentList { duplicate_treatment: None, args: args.collect(), clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn tell_names_apart(select: &mut Select) {
    if select.projection.len() < 2 {
        return;
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let name = if has_subquery(expr) { SUBQUERY.into() } else { expr.to_string() };
        let before = seen.entry(name.clone()).or_default();
        if *before > 0 {
            let alias = Ident::with_quote('"', format!("{name}:{before}"));
            let expr = std::mem::replace(expr, Expr::value(Value::Null));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        *before += 1;
    }
}

/// Renames columns of a statement's result that DataFusion would take for the same as others: `*, a`, `t.a, a`, `a AS x, b AS x`. The
/// result gets the names that the statement says.
///
/// # Errors
/// 42702 when ORDER BY names one of several.
fn tell_columns_apart(select: &mut Select, order_by: Option<&OrderBy>) -> Result<(), SqlError> {
    let is_star =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let among_all = select.projection.iter().any(is_star);
    let mut bare: HashSet<String> = HashSet::new();
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item {
            bare.insert(fold(name));
        }
    }
    let mut aliases: HashSet<String> = HashSet::new();
    for (i, item) in select.projection.iter_mut().enumerate() {
        let expr = match item {
            SelectItem::UnnamedExpr(e @ Expr::Identifier(_)) if among_all => e,
            SelectItem::UnnamedExpr(e @ Expr::CompoundIdentifier(_)) if among_all => e,
            SelectItem::UnnamedExpr(e) => match e {
                Expr::CompoundIdentifier(names) if names.last().is_some_and(|n| bare.contains(&fold(n))) => e,
                _ => continue,
            },
            SelectItem::ExprWithAlias { expr, alias } if !aliases.insert(fold(alias)) => {
                refuse_order_by(order_by, alias)?;
                expr
            }
            _ => continue,
        };
        let expr = std::mem::replace(expr, Expr::value(Value::Null));
        let alias = Ident::with_quote('"', format!("{expr}:column {}", i + 1));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
    Ok(())
}

/// Refuses ORDER BY the name of several columns.
fn refuse_order_by(order_by: Option<&OrderBy>, name: &Ident) -> Result<(), SqlError> {
    let Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) = order_by else { return Ok(()) };
    let names = |e: &OrderByExpr| matches!(&e.expr, Expr::Identifier(of) if fold(of) == fold(name));
    match by.iter().any(names) {
        true => {
            let message = format!("ORDER BY \"{}\" is ambiguous", fold(name));
            Err(SqlError::failed(state::AMBIGUOUS_COLUMN, message))
        }
        false => Ok(()),
    }
}

/// DataFusion's name of every subquery in an expression, whatever it selects.
const SUBQUERY: &str = "(<subquery>)";

/// Whether an expression has a query within it.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let is_subquery =
        |e: &Expr| matches!(e, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. });
    let found = visit_expressions(expr, |e| match is_subquery(e) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
mod tests {
    use crate::statement::Statement;

    fn prepared(sql: &str) -> String {
        let mut parsed = (*Statement::parse(sql).unwrap().remove(0).parsed).clone();
        match super::prepare(&mut parsed) {
            Ok(()) => parsed.to_string(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn numbers_have_the_types_that_postgresql_gives_them() {
        let check = |sql: &str, expected: &str| assert_eq!(prepared(sql), expected);
        check("SELECT 1.5, 3000000000", "SELECT 1.5, 3000000000");
        check("SELECT 1e3 + -2E-5", "SELECT CAST('1e3' AS DOUBLE) + -CAST('2E-5' AS DOUBLE)");
        check("SELECT a + 1 WHERE a > 1 LIMIT 2", "SELECT a + CAST(1 AS INT) WHERE a > 1 LIMIT 2");
        check("SELECT sum(-1), lag(a, 1)", "SELECT sum(CAST(-1 AS INT)), lag(a, 1)");
        check("INSERT INTO t VALUES (1, 1e3)", "INSERT INTO t VALUES (1, CAST('1e3' AS DOUBLE))");
        check("SELECT * FROM (VALUES (1)) AS t", "SELECT * FROM (VALUES (CAST(1 AS INT))) AS t");
        check("SELECT 9223372036854775808", "SELECT CAST('9223372036854775808' AS NUMERIC(19,0))");
    }

    #[test]
    fn repeated_columns_are_told_apart() {
        let check = |sql: &str, expected: &str| assert_eq!(prepared(sql), expected);
        check("SELECT b, a, b, a AS a, b", r#"SELECT b, a, b AS "b:1", a AS a, b AS "b:2""#);
        check("EXPLAIN SELECT b, b", r#"EXPLAIN SELECT b, b AS "b:1""#);
        check("SELECT *, b FROM t", r#"SELECT *, b AS "b:column 2" FROM t"#);
        check("SELECT t.a, u.a, t.b, b", r#"SELECT t.a, u.a, t.b AS "t.b:column 3", b"#);
        check("SELECT a AS x, b AS X", r#"SELECT a AS x, b AS "b:column 2""#);
    }

    #[test]
    fn rows_are_compared_by_column() {
        let check = |sql: &str, expected: &str| {
            assert_eq!(prepared(&format!("SELECT a WHERE {sql}")), format!("SELECT a WHERE {expected}"));
        };
        check("(a, b) = (c, d)", "(a = c AND b = d)");
        check("(a, b) <= (c, d)", "(a < c OR (a = c AND (b <= d)))");
        check("ROW(a, b) IS NULL", "(a IS NULL AND b IS NULL)");
        check("(a, b) NOT IN ((1, 2))", "(NOT ((a = 1 AND b = 2)))");
        assert_eq!(prepared("SELECT (1, 2)"), "not supported: a row as a value: (1, 2)");
        assert!(prepared("SELECT a WHERE (a, b) = (1, 2, 3)").contains("unequal number of entries"));
    }

    #[test]
    fn clauses_that_nothing_carries_out_are_refused() {
        let check = |sql: &str, part: &str| assert!(prepared(sql).contains(part), "{sql}: {}", prepared(sql));
        check("SELECT * FROM t FOR UPDATE", "FOR UPDATE");
        check("SELECT * FROM (SELECT * FROM t FOR SHARE) AS u", "FOR SHARE");
        check("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE");
    }
}
