//! Mistakes that a statement's tree shows by itself, without the catalog and without types.
//!
//! ```text
//!   VALUES (1, 2), (3)             rows of different lengths         42601
//!   SELECT 1 UNION SELECT 1, 2     sides of different lengths        42601
//!   ORDER BY 5, GROUP BY 0         a position that is no column      42P10
//!   ROWS BETWEEN 1 FOLLOWING ...   a frame that ends before it begins  42P20
//!   LIMIT -1                       a negative count                  2201W
//!   FROM t, t                      one name for two tables           42712
//! ```
//!
//! DataFusion finds most of these as well, but its errors differ in their text alone.

use datafusion::arrow::compute::kernels::cast_utils::{
    IntervalParseConfig, IntervalUnit, parse_interval_month_day_nano_config,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Interval,
    LimitClause, NamedWindowExpr, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement as Sql, TableAlias, TableFactor, TableWithJoins, TypedString, UnaryOperator, Value,
    ValueWithSpan, Visitor, WindowFrame, WindowFrameBound, WindowType, With,
};

use super::flow::Flow;
use super::{fold, is_default, literals};
use crate::SqlError;
use crate::error::state;
use crate::types::unknown_type;

/// Finds the first mistake of a tree that it visits.
pub(super) struct Shape {
    /// Whether the statement may have parameters.
    pub(super) parameters: bool,
    /// Whether the statement is SET: `on` and `group` are values there, not names.
    pub(super) sets: bool,
}

/// PostgreSQL's reserved words that the parser takes for names. Those that stand for values are not among them.
const RESERVED: [&str; 52] = [
    "analyse",
    "analyze",
    "and",
    "any",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "except",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "not",
    "offset",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "some",
    "symmetric",
    "then",
    "to",
    "trailing",
    "union",
    "where",
    "with",
];

/// Refuses a reserved word as a name. Quoted it is one.
fn not_reserved(name: &Ident) -> Flow {
    let word = name.value.to_ascii_lowercase();
    match name.quote_style.is_none() && RESERVED.contains(&word.as_str()) {
        true => wrong(
            state::SYNTAX_ERROR,
            format!("{} is a reserved word: quoted it is a name", word.to_uppercase()),
        ),
        false => Flow::Continue(()),
    }
}

impl Visitor for Shape {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        if let Some(with) = &query.with {
            distinct_queries(with)?;
        }
        set_operations(&query.body)?;
        if let Some(order_by) = &query.order_by
            && let OrderByKind::Expressions(by) = &order_by.kind
        {
            let columns = column_count(query);
            by.iter().try_for_each(|e| position(&e.expr, columns, "ORDER BY"))?;
        }
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                count(limit.as_ref(), state::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT")?;
                count(offset.as_ref().map(|o| &o.value), state::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET")
            }
            Some(LimitClause::OffsetCommaLimit { .. }) | None => Flow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        select.projection.iter().try_for_each(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } if alias.quote_style == Some('\'') => {
                wrong(state::SYNTAX_ERROR, format!("{alias} is a string, not a name"))
            }
            _ => Flow::Continue(()),
        })?;
        distinct_tables(&select.from)?;
        if let GroupByExpr::Expressions(by, _) = &select.group_by {
            let columns = select_count(select);
            by.iter().try_for_each(|e| position(e, columns, "GROUP BY"))?;
        }
        select.named_window.iter().try_for_each(|window| match &window.1 {
            NamedWindowExpr::WindowSpec(spec) => spec.window_frame.as_ref().map_or(Flow::Continue(()), frame),
            NamedWindowExpr::NamedWindow(_) => Flow::Continue(()),
        })
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> Flow {
        name.0.iter().filter_map(|part| part.as_ident()).try_for_each(not_reserved)
    }

    fn pre_visit_statement(&mut self, statement: &Sql) -> Flow {
        match statement {
            Sql::CreateTable(create) => create.columns.iter().try_for_each(|c| not_reserved(&c.name)),
            _ => Flow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        match expr {
            Expr::Identifier(name) if !self.sets => not_reserved(name),
            Expr::BinaryOp { left, right, .. } if is_default(left) || is_default(right) => {
                wrong(state::SYNTAX_ERROR, "DEFAULT stands for itself")
            }
            Expr::Subquery(query) if column_count(query).is_some_and(|n| n != 1) => {
                wrong(state::SYNTAX_ERROR, "subquery must return only one column")
            }
            Expr::InSubquery { expr, subquery, .. }
                if !matches!(expr.as_ref(), Expr::Tuple(_))
                    && column_count(subquery).is_some_and(|n| n != 1) =>
            {
                wrong(state::SYNTAX_ERROR, "subquery has too many columns")
            }
            Expr::InSubquery { expr, subquery, .. } => match expr.as_ref() {
                Expr::Tuple(row) if column_count(subquery).is_some_and(|n| n < row.len()) => {
                    wrong(state::SYNTAX_ERROR, "subquery has too few columns")
                }
                Expr::Tuple(row) if column_count(subquery).is_some_and(|n| n > row.len()) => {
                    wrong(state::SYNTAX_ERROR, "subquery has too many columns")
                }
                _ => Flow::Continue(()),
            },
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
                unknown_type(data_type).map_or(Flow::Continue(()), Flow::Break)
            }
            Expr::Function(f) => {
                ntile(f)?;
                match &f.over {
                    Some(WindowType::WindowSpec(spec)) => {
                        spec.window_frame.as_ref().map_or(Flow::Continue(()), frame)
                    }
                    _ => Flow::Continue(()),
                }
            }
            Expr::Like { escape_char: Some(escape), .. } | Expr::ILike { escape_char: Some(escape), .. } => {
                escape_character(escape)
            }
            Expr::Interval(interval) => interval_literal(interval),
            _ => Flow::Continue(()),
        }
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> Flow {
        match &value.value {
            Value::Placeholder(name) if !self.parameters => {
                wrong(state::UNDEFINED_PARAMETER, format!("there is no parameter for the placeholder {name}"))
            }
            _ => Flow::Continue(()),
        }
    }
}

fn wrong(state: &'static str, message: impl AsRef<str>) -> Flow {
    Flow::Break(SqlError::failed(state, message))
}

/// The number of a query's columns; `None` if a `*` stands for some of them.
pub(crate) fn column_count(query: &Query) -> Option<usize> {
    body_count(&query.body)
}

fn body_count(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => select_count(select),
        SetExpr::Query(query) => column_count(query),
        SetExpr::SetOperation { left, .. } => body_count(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

fn select_count(select: &Select) -> Option<usize> {
    let plain =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    select.projection.iter().all(plain).then_some(select.projection.len())
}

/// Both sides of a set operation have the same number of columns, and so have all rows of VALUES.
fn set_operations(body: &SetExpr) -> Flow {
    match body {
        SetExpr::SetOperation { left, right, op, .. } => {
            set_operations(left)?;
            set_operations(right)?;
            match (body_count(left), body_count(right)) {
                (Some(l), Some(r)) if l != r => {
                    let message =
                        format!("each {op} query must have the same number of columns: {l} and {r}");
                    wrong(state::SYNTAX_ERROR, message)
                }
                _ => Flow::Continue(()),
            }
        }
        SetExpr::Values(values) => {
            let mut lengths = values.rows.iter().map(|row| row.content.len());
            let first = lengths.next();
            match lengths.find(|&n| Some(n) != first) {
                Some(other) => {
                    let first = first.unwrap_or_default();
                    let message = format!("VALUES lists must all be the same length: {first} and {other}");
                    wrong(state::SYNTAX_ERROR, message)
                }
                None => Flow::Continue(()),
            }
        }
        _ => Flow::Continue(()),
    }
}

/// A position in ORDER BY or GROUP BY must be one of the select list.
fn position(expr: &Expr, columns: Option<usize>, clause: &str) -> Flow {
    match literals::position(expr) {
        Some(n) if n == 0 || columns.is_some_and(|columns| n > columns) => {
            let message = format!("{clause} position {n} is not in the select list");
            wrong(state::INVALID_COLUMN_REFERENCE, message)
        }
        _ => Flow::Continue(()),
    }
}

/// A count of rows is not negative.
fn count(expr: Option<&Expr>, state: &'static str, clause: &str) -> Flow {
    match expr {
        Some(e) if is_negative(e) => wrong(state, format!("{clause} must not be negative")),
        Some(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {
            let message = format!("argument of {clause} must not contain variables");
            wrong(state::INVALID_COLUMN_REFERENCE, message)
        }
        Some(Expr::Value(value)) => match &value.value {
            Value::SingleQuotedString(text) if text.trim().parse::<i64>().is_err() => {
                Flow::Break(SqlError::bad_input("bigint", text.clone()))
            }
            _ => Flow::Continue(()),
        },
        _ => Flow::Continue(()),
    }
}

fn is_negative(expr: &Expr) -> bool {
    let is_nonzero = |value: &Value| match value {
        Value::Number(n, _) => n.bytes().any(|b| (b'1'..=b'9').contains(&b)),
        _ => false,
    };
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            matches!(expr.as_ref(), Expr::Value(value) if is_nonzero(&value.value))
        }
        Expr::Nested(inner) => is_negative(inner),
        _ => false,
    }
}

/// A frame begins no later than it ends, and its offsets are not negative.
fn frame(frame: &WindowFrame) -> Flow {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let end = frame.end_bound.as_ref().unwrap_or(&CurrentRow);
    for bound in [&frame.start_bound, end] {
        if let Preceding(Some(offset)) | Following(Some(offset)) = bound
            && is_negative(offset)
        {
            return wrong(state::INVALID_PRECEDING_OR_FOLLOWING_SIZE, "frame offset must not be negative");
        }
    }
    let message = match (&frame.start_bound, end) {
        (Following(None), _) => "frame start cannot be UNBOUNDED FOLLOWING",
        (_, Preceding(None)) => "frame end cannot be UNBOUNDED PRECEDING",
        (CurrentRow, Preceding(_)) => "frame starting from current row cannot have preceding rows",
        (Following(_), Preceding(_) | CurrentRow) => {
            "frame starting from following row cannot have preceding rows"
        }
        _ => return Flow::Continue(()),
    };
    wrong(state::WINDOWING_ERROR, message)
}

/// The number of buckets is positive.
fn ntile(f: &Function) -> Flow {
    let FunctionArguments::List(list) = &f.args else { return Flow::Continue(()) };
    let is_ntile =
        matches!(f.name.0.as_slice(), [name] if name.as_ident().is_some_and(|i| fold(i) == "ntile"));
    let is_zero =
        |e: &Expr| matches!(e, Expr::Value(v) if matches!(&v.value, Value::Number(n, _) if n == "0"));
    match list.args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(e)))
            if is_ntile && (is_zero(e) || is_negative(e)) =>
        {
            wrong(state::INVALID_ARGUMENT_FOR_NTILE, "argument of ntile must be greater than zero")
        }
        _ => Flow::Continue(()),
    }
}

fn escape_character(escape: &ValueWithSpan) -> Flow {
    match &escape.value {
        Value::SingleQuotedString(s) if s.chars().count() > 1 => {
            wrong(state::INVALID_ESCAPE_SEQUENCE, "the escape of LIKE must be empty or one character")
        }
        Value::SingleQuotedString(s) if s != "\\" => {
            Flow::Break(SqlError::Unsupported(format!("LIKE with the escape character '{s}': expected \\")))
        }
        _ => Flow::Continue(()),
    }
}

/// The text of an interval literal is valid. DataFusion parses it in the same way.
fn interval_literal(interval: &Interval) -> Flow {
    let Expr::Value(value) = interval.value.as_ref() else { return Flow::Continue(()) };
    let Value::SingleQuotedString(text) = &value.value else { return Flow::Continue(()) };
    let whole = match &interval.leading_field {
        Some(unit) => format!("{text} {unit}"),
        None => text.clone(),
    };
    let config = IntervalParseConfig::new(IntervalUnit::Second);
    match parse_interval_month_day_nano_config(&whole, config) {
        Ok(_) => Flow::Continue(()),
        Err(_) => Flow::Break(SqlError::BadInput {
            state: state::INVALID_DATETIME_FORMAT,
            of: "interval".into(),
            value: text.clone(),
        }),
    }
}

fn distinct_queries(with: &With) -> Flow {
    let mut names: Vec<String> = Vec::new();
    for cte in &with.cte_tables {
        let name = fold(&cte.alias.name);
        if names.contains(&name) {
            let message = format!("WITH query name \"{name}\" specified more than once");
            return Flow::Break(at(SqlError::failed(state::DUPLICATE_ALIAS, message), &cte.alias.name));
        }
        names.push(name);
    }
    Flow::Continue(())
}

fn distinct_tables(from: &[TableWithJoins]) -> Flow {
    let mut names = Vec::new();
    from.iter().try_for_each(|table| name_tables(table, &mut names))
}

fn name_tables(table: &TableWithJoins, names: &mut Vec<String>) -> Flow {
    let relations = std::iter::once(&table.relation).chain(table.joins.iter().map(|j| &j.relation));
    for relation in relations {
        let alias: &Option<TableAlias> = match relation {
            TableFactor::Table { name, alias: None, .. } => {
                let name = name.to_string().to_lowercase();
                name_table(name, None, names)?;
                continue;
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                name_tables(table_with_joins, names)?;
                continue;
            }
            TableFactor::Table { alias, .. }
            | TableFactor::NestedJoin { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. } => alias,
            _ => continue,
        };
        if let Some(alias) = alias {
            name_table(fold(&alias.name), Some(&alias.name), names)?;
        }
    }
    Flow::Continue(())
}

fn name_table(name: String, ident: Option<&Ident>, names: &mut Vec<String>) -> Flow {
    if names.contains(&name) {
        let message = format!("table name \"{name}\" specified more than once");
        let e = SqlError::failed(state::DUPLICATE_ALIAS, message);
        return Flow::Break(match ident {
            Some(ident) => at(e, ident),
            None => e,
        });
    }
    names.push(name);
    Flow::Continue(())
}

/// `e` at the place of an identifier, where the parser knows it.
pub(super) fn at(e: SqlError, ident: &Ident) -> SqlError {
    match ident.span.start {
        start if start.line > 0 => e.at(start.line, start.column),
        _ => e,
    }
}
