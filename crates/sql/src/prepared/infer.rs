//! The types of a statement's parameters, from what stands beside them.
//!
//! ```text
//!   id = $1, $1 + id, id IN ($1), id BETWEEN $1 AND $2   the type of id
//!   SET v = $1, INSERT INTO t (v) VALUES ($1)            the type of v
//!   CAST($1 AS DATE), $1::date                           DATE
//!   s LIKE $1, s || $1, SELECT $1                        TEXT
//!   LIMIT $1                                             BIGINT
//! ```
//!
//! The first place that says something decides, as in PostgreSQL. Where no place does, the statement is refused:
//! SQLSTATE 42P18.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Expr, Insert, LimitClause, ObjectName, Query, Select, SelectItem,
    SetExpr, Statement as Sql, TableFactor, TableObject, UnaryOperator, Update, Value, ValueWithSpan, Visit,
    Visitor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use lode_engine::{Object, ObjectKind, Snapshot, Table};
use lode_page::DataType;

use crate::SqlError;
use crate::error::state;
use crate::names::split;
use crate::statement::{fold, number, table_name};
use crate::types::declared_type;

/// Most parameters of a statement, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;

/// The types of the parameters of `sql`, from `$1` on. `given` are those that are declared.
///
/// # Errors
/// A placeholder that is no parameter (42P02), or one whose type nothing says (42P18).
pub(super) fn parameter_types(
    sql: &Sql,
    given: &[DataType],
    snapshot: &Snapshot,
) -> Result<Vec<DataType>, SqlError> {
    let mut numbers = Numbers { most: given.len() };
    if let ControlFlow::Break(e) = sql.visit(&mut numbers) {
        return Err(e);
    }
    let tables = Tables::of(sql, snapshot);
    let mut types: Vec<Option<DataType>> = given.iter().copied().map(Some).collect();
    types.resize(numbers.most, None);
    let mut places = Places { tables: tables.found, views: tables.views, types };
    let _ = sql.visit(&mut places);
    let known = places.types.iter().enumerate().map(|(i, t)| {
        t.ok_or_else(|| {
            let message = format!("could not determine data type of parameter ${}", i + 1);
            SqlError::failed(state::INDETERMINATE_DATATYPE, message)
        })
    });
    known.collect()
}

/// The tables that a statement names and that are there, and whether it names views.
pub(super) fn tables(sql: &Sql, snapshot: &Snapshot) -> (Vec<Arc<Table>>, bool) {
    let tables = Tables::of(sql, snapshot);
    (tables.found.into_iter().map(|(_, table)| table).collect(), !tables.views.is_empty())
}

/// The number of a placeholder, from 0.
pub(super) fn placeholder(e: &Expr) -> Option<usize> {
    match e {
        Expr::Value(v) => match &v.value {
            Value::Placeholder(name) => parameter_index(name),
            _ => None,
        },
        Expr::Nested(inner) => placeholder(inner),
        _ => None,
    }
}

fn parameter_index(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1).filter(|&i| i < PARAMETERS_MAX)
}

/// Counts parameters, and refuses placeholders that are none.
struct Numbers {
    most: usize,
}

impl Visitor for Numbers {
    type Break = SqlError;

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<SqlError> {
        let Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
        match parameter_index(name) {
            Some(i) => {
                self.most = self.most.max(i + 1);
                ControlFlow::Continue(())
            }
            None => {
                let message = format!("there is no parameter {name}");
                ControlFlow::Break(SqlError::failed(state::UNDEFINED_PARAMETER, message))
            }
        }
    }
}

/// The columns of a view, with their types.
type ViewColumns = Vec<(String, DataType)>;

/// Tables and views by the names that columns are qualified with.
struct Tables<'a> {
    snapshot: &'a Snapshot,
    found: Vec<(String, Arc<Table>)>,
    views: Vec<(String, ViewColumns)>,
}

impl<'a> Tables<'a> {
    fn of(sql: &Sql, snapshot: &'a Snapshot) -> Self {
        let mut tables = Self { snapshot, found: Vec::new(), views: Vec::new() };
        let _ = sql.visit(&mut tables);
        tables
    }

    fn add(&mut self, name: &ObjectName, alias: Option<String>) {
        let Ok(name) = table_name(name) else { return };
        let alias = alias.unwrap_or_else(|| split(&name).1.to_owned());
        if let Some(table) = self.snapshot.table(&name) {
            self.found.push((alias, table));
        } else if let Some(Object::View(view)) = self.snapshot.object(ObjectKind::View, &name) {
            let column = |(name, t): &(String, String)| Some((name.clone(), type_of_text(t)?));
            self.views.push((alias, view.columns.iter().filter_map(column).collect()));
        }
    }
}

/// The type that a view's definition names.
fn type_of_text(text: &str) -> Option<DataType> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).ok()?;
    declared_type(&parser.parse_data_type().ok()?).ok().map(|(t, _)| t)
}

impl Visitor for Tables<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, sql: &Sql) -> ControlFlow<()> {
        if let Sql::Insert(Insert { table: TableObject::TableName(name), .. }) = sql {
            self.add(name, None);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, .. } = factor {
            self.add(name, alias.as_ref().map(|a| fold(&a.name)));
        }
        ControlFlow::Continue(())
    }
}

/// Looks at the places of parameters.
struct Places {
    tables: Vec<(String, Arc<Table>)>,
    views: Vec<(String, ViewColumns)>,
    types: Vec<Option<DataType>>,
}

impl Places {
    fn is(&mut self, e: &Expr, t: Option<DataType>) {
        if let Some(slot) = placeholder(e).and_then(|i| self.types.get_mut(i))
            && slot.is_none()
        {
            *slot = t;
        }
    }

    /// The type of an expression, where it is easily known.
    fn type_of(&self, e: &Expr) -> Option<DataType> {
        match e {
            Expr::Nested(inner)
            | Expr::UnaryOp { op: UnaryOperator::Plus | UnaryOperator::Minus, expr: inner }
                if number(e).is_none() =>
            {
                self.type_of(inner)
            }
            Expr::Identifier(name) => self.column(None, &fold(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, name] => self.column(Some(&fold(table)), &fold(name)),
                _ => None,
            },
            Expr::Cast { data_type, .. } => declared_type(data_type).ok().map(|(t, _)| t),
            Expr::TypedString(typed) => declared_type(&typed.data_type).ok().map(|(t, _)| t),
            Expr::Value(v) => match &v.value {
                Value::Boolean(_) => Some(DataType::Boolean),
                Value::Number(..) => self.number(e),
                Value::Placeholder(_) => placeholder(e).and_then(|i| self.types.get(i).copied().flatten()),
                _ => None,
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, .. } => self.number(e),
            Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
                let (left, right) = (self.type_of(left), self.type_of(right));
                left.filter(|&t| is_number(t)).or(right).filter(|&t| is_number(t))
            }
            _ => None,
        }
    }

    /// An integer literal is an INTEGER if it fits.
    fn number(&self, e: &Expr) -> Option<DataType> {
        use datafusion::common::ScalarValue;
        match number(e)? {
            (_, ScalarValue::Int64(Some(n))) if i32::try_from(n).is_ok() => Some(DataType::Integer),
            (t, _) => Some(t),
        }
    }

    /// The type of a column, if all tables that have one of this name agree.
    fn column(&self, of: Option<&str>, name: &str) -> Option<DataType> {
        let is_of = |alias: &str| of.is_none_or(|of| alias == of);
        let tables = self.tables.iter().filter(|(alias, _)| is_of(alias));
        let of_tables =
            tables.filter_map(|(_, t)| t.column(name).map(|c| t.schema().columns[usize::from(c)].data_type));
        let views = self.views.iter().filter(|(alias, _)| is_of(alias));
        let of_views = views.filter_map(|(_, all)| all.iter().find(|(n, _)| n == name).map(|(_, t)| *t));
        let mut types = of_tables.chain(of_views);
        let first = types.next()?;
        types.all(|t| t == first).then_some(first)
    }

    fn pair(&mut self, left: &Expr, right: &Expr, admits: impl Fn(DataType) -> bool) {
        if placeholder(left).is_some() {
            let t = self.type_of(right).filter(|&t| admits(t));
            self.is(left, t);
        }
        if placeholder(right).is_some() {
            let t = self.type_of(left).filter(|&t| admits(t));
            self.is(right, t);
        }
    }

    fn of_insert(&mut self, insert: &Insert) {
        let (TableObject::TableName(name), Some(source)) = (&insert.table, &insert.source) else { return };
        let Ok(name) = table_name(name) else { return };
        let Some((_, table)) = self.tables.iter().find(|(_, t)| t.name() == name).cloned() else { return };
        let live: Vec<u16> = table.def().live_columns().collect();
        let of = |i: usize| match insert.columns.is_empty() {
            true => live.get(i).map(|&c| table.schema().columns[usize::from(c)].data_type),
            false => {
                let part = insert.columns.get(i)?.0.last()?.as_ident().map(fold)?;
                table.column(&part).map(|c| table.schema().columns[usize::from(c)].data_type)
            }
        };
        match source.body.as_ref() {
            SetExpr::Values(values) => {
                for row in &values.rows {
                    row.content.iter().enumerate().for_each(|(i, e)| self.is(e, of(i)));
                }
            }
            SetExpr::Select(select) => {
                for (i, item) in select.projection.iter().enumerate() {
                    if let SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } = item {
                        self.is(e, of(i));
                    }
                }
            }
            _ => {}
        }
    }

    fn of_update(&mut self, update: &Update) {
        for assignment in &update.assignments {
            let AssignmentTarget::ColumnName(name) = &assignment.target else { continue };
            let Some(column) = name.0.last().and_then(|part| part.as_ident()).map(fold) else { continue };
            let target = match &update.table.relation {
                TableFactor::Table { name, .. } => table_name(name).ok(),
                _ => None,
            };
            let table = self.tables.iter().find(|(_, t)| target.as_deref() == Some(t.name()));
            let t = table
                .and_then(|(_, t)| t.column(&column).map(|c| t.schema().columns[usize::from(c)].data_type));
            self.is(&assignment.value, t);
        }
    }
}

impl Visitor for Places {
    type Break = ();

    fn pre_visit_statement(&mut self, sql: &Sql) -> ControlFlow<()> {
        match sql {
            Sql::Insert(insert) => self.of_insert(insert),
            Sql::Update(update) => self.of_update(update),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            let counts = limit.iter().chain(offset.iter().map(|o| &o.value));
            counts.for_each(|e| self.is(e, Some(DataType::BigInt)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } = item {
                self.is(e, Some(DataType::Text));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, StringConcat};
        match e {
            Expr::Cast { expr, data_type, .. } => {
                let t = declared_type(data_type).ok().map(|(t, _)| t);
                self.is(expr, t);
            }
            Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right } => {
                self.pair(left, right, |_| true);
            }
            Expr::BinaryOp { left, op, right } if is_arithmetic(op) => self.pair(left, right, is_number),
            Expr::BinaryOp { left, op: StringConcat, right } => {
                self.is(left, Some(DataType::Text));
                self.is(right, Some(DataType::Text));
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.pair(left, right, |_| true);
            }
            Expr::Between { expr, low, high, .. } => {
                self.pair(expr, low, |_| true);
                self.pair(expr, high, |_| true);
            }
            Expr::InList { expr, list, .. } => list.iter().for_each(|item| self.pair(expr, item, |_| true)),
            Expr::Like { expr, pattern, .. } | Expr::ILike { expr, pattern, .. } => {
                self.is(expr, Some(DataType::Text));
                self.is(pattern, Some(DataType::Text));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

fn is_number(t: DataType) -> bool {
    use DataType::{BigInt, Decimal, Double, Integer, Real, SmallInt};
    matches!(t, SmallInt | Integer | BigInt | Real | Double | Decimal { .. })
}
