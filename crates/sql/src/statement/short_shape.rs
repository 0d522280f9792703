//! Short statements by their tree alone: whether one may be short, its literals as parameters, and the query of its
//! values.
//!
//! ```text
//!   UPDATE t SET v = v + 5 WHERE id = 7   ─►  UPDATE t SET v = v + $1 WHERE id = $2    INTEGER 5, BIGINT 7
//!                                         ─►  the same key in the cache, whatever the numbers are
//! ```
//!
//! A literal becomes a parameter of the type that the planner would give it, so that the plan is the same. A statement
//! whose plan depends on the literal itself (`id = '7'` with an INTEGER `id`) keeps its literals:
//! [`Shape::with_literals`].

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Delete, Expr, FromTable, Function, FunctionArguments,
    Insert, JoinOperator, OnConflictAction, OnInsert, Query, SetExpr, Statement as Sql, TableFactor,
    TableObject, UnaryOperator, Update, Value,
};
use lode_page::DataType as LodeType;

use super::OutputNames;
use super::{prepare, prepare_with_parameters, table_name};
use crate::SqlError;
use crate::arrow_convert::arrow_type;

/// An INSERT of more rows is planned as all others.
const ROWS_MAX: usize = 64;
/// Most digits of a decimal.
const DIGITS_MAX: usize = 38;
/// A SELECT from more tables is planned as all others.
const TABLES_MAX: usize = 4;

/// A statement that may be short.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The tables that it reads, or the one that it changes.
    pub(crate) tables: Vec<String>,
    /// Columns that its condition compares with values. Empty for INSERT.
    pub(crate) compared: Vec<String>,
    /// The statement, prepared, with parameters.
    pub(crate) statement: Sql,
    /// The types of its parameters, from `$1` on.
    pub(crate) types: Vec<LodeType>,
    /// Literals that became parameters. None in a statement with parameters of its own.
    pub(super) values: Vec<ScalarValue>,
    /// Statements with the same key have the same plan.
    pub(crate) key: String,
    /// The names of its result's columns, if they are known from its text.
    pub(crate) names: Option<Arc<OutputNames>>,
    /// The same statement with its literals, if some became parameters.
    literal: Option<(Sql, OnceLock<Arc<Shape>>)>,
}

impl Shape {
    /// The values of the parameters that were literals.
    pub(crate) fn values(&self) -> &[ScalarValue] {
        &self.values
    }

    /// The shape of a parsed statement, whose literals become parameters. `None` if it cannot be short.
    pub(crate) fn of(parsed: &Parsed, names: Option<Arc<OutputNames>>) -> Option<Self> {
        let Candidate { tables, compared } = candidate(parsed)?;
        let prepared = prepared(parsed, prepare).ok()?;
        let mut statement = prepared.clone();
        let mut literals = Literals::default();
        literals.take_from(&mut statement);
        let Literals { types, values } = literals;
        let literal = (!values.is_empty()).then(|| (prepared, OnceLock::new()));
        Some(Self {
            key: key(&statement, &types),
            tables,
            compared,
            statement,
            types,
            values,
            names,
            literal,
        })
    }

    /// The shape of a statement with parameters of these types.
    pub(crate) fn with_parameters(
        parsed: &Parsed,
        names: Option<Arc<OutputNames>>,
        types: Vec<LodeType>,
    ) -> Option<Self> {
        let Candidate { tables, compared } = candidate(parsed)?;
        let statement = prepared(parsed, prepare_with_parameters).ok()?;
        Some(Self {
            key: key(&statement, &types),
            tables,
            compared,
            statement,
            types,
            values: Vec::new(),
            names,
            literal: None,
        })
    }

    /// The same statement, none of whose literals is a parameter; `None` if none is.
    pub(crate) fn with_literals(&self) -> Option<&Arc<Self>> {
        let (statement, made) = self.literal.as_ref()?;
        Some(made.get_or_init(|| {
            Arc::new(Self {
                tables: self.tables.clone(),
                compared: self.compared.clone(),
                key: key(statement, &[]),
                statement: statement.clone(),
                types: Vec::new(),
                values: Vec::new(),
                names: self.names.clone(),
                literal: None,
            })
        }))
    }
}

fn prepared(
    parsed: &Parsed,
    prepare: impl FnOnce(&mut Parsed) -> Result<(), SqlError>,
) -> Result<Sql, SqlError> {
    let mut parsed = parsed.clone();
    prepare(&mut parsed)?;
    match parsed {
        Parsed::Statement(sql) => Ok(*sql),
        _ => unreachable!("a candidate is a plain statement"),
    }
}

fn key(statement: &Sql, types: &[LodeType]) -> String {
    use std::fmt::Write;
    let mut key = statement.to_string();
    for t in types {
        // Writing to a string does not fail.
        let _ = write!(key, "|{t}");
    }
    key
}

/// A statement that may be short.
struct Candidate {
    tables: Vec<String>,
    compared: Vec<String>,
}

fn candidate(parsed: &Parsed) -> Option<Candidate> {
    let Parsed::Statement(sql) = parsed else { return None };
    match sql.as_ref() {
        Sql::Query(query) => of_query(query),
        Sql::Insert(insert) => of_insert(insert),
        Sql::Update(update) => of_update(update),
        Sql::Delete(delete) => of_delete(delete),
        _ => None,
    }
}

fn of_query(query: &Query) -> Option<Candidate> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let mut tables = Vec::new();
    for from in &select.from {
        tables.push(&from.relation);
        for join in &from.joins {
            // Their conditions stay as they are.
            match &join.join_operator {
                JoinOperator::Join(_)
                | JoinOperator::Inner(_)
                | JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
                | JoinOperator::CrossJoin(_) => tables.push(&join.relation),
                _ => return None,
            }
        }
    }
    let plain = query.with.is_none() && select.into.is_none() && (1..=TABLES_MAX).contains(&tables.len());
    plain.then(|| by_condition(&tables, select.selection.as_ref()))?
}

fn of_update(update: &Update) -> Option<Candidate> {
    let plain = update.from.is_none() && update.limit.is_none();
    let joins = !update.table.joins.is_empty();
    (plain && !joins).then(|| by_condition(&[&update.table.relation], update.selection.as_ref()))?
}

fn of_delete(delete: &Delete) -> Option<Candidate> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [from] = from.as_slice() else { return None };
    let plain = delete.using.is_none() && delete.limit.is_none() && from.joins.is_empty();
    plain.then(|| by_condition(&[&from.relation], delete.selection.as_ref()))?
}

fn by_condition(from: &[&TableFactor], condition: Option<&Expr>) -> Option<Candidate> {
    let mut compared = Vec::new();
    let simple = is_simple(condition?, from.len() > 1, &mut compared) && !compared.is_empty();
    let tables = from.iter().map(|from| of_table(from)).collect::<Option<Vec<_>>>()?;
    simple.then_some(Candidate { tables, compared })
}

/// Only the clauses that an INSERT of VALUES needs: the planner refuses others, or gives them a meaning.
fn of_insert(insert: &Insert) -> Option<Candidate> {
    let source = insert.source.as_ref()?;
    let SetExpr::Values(values) = source.body.as_ref() else { return None };
    let plain_query = source.with.is_none() && source.order_by.is_none() && source.limit_clause.is_none();
    let plain = insert.optimizer_hints.is_empty()
        && insert.or.is_none()
        && !insert.ignore
        && !insert.overwrite
        && insert.assignments.is_empty()
        && insert.partitioned.is_none()
        && insert.after_columns.is_empty()
        && !insert.has_table_keyword
        && matches!(insert.on, None | Some(OnInsert::OnConflict(_)))
        && insert.output.is_none()
        && !insert.replace_into
        && insert.priority.is_none()
        && insert.insert_alias.is_none()
        && insert.settings.is_none()
        && insert.format_clause.is_none()
        && insert.multi_table_insert_type.is_none();
    let TableObject::TableName(name) = &insert.table else { return None };
    let few = (1..=ROWS_MAX).contains(&values.rows.len());
    let cells = values.rows.iter().flat_map(|row| &row.content);
    let simple = plain && plain_query && few && cells.into_iter().all(|e| is_value(e) || is_default(e));
    let table = table_name(name).ok()?;
    simple.then_some(Candidate { tables: vec![table], compared: Vec::new() })
}

fn of_table(from: &TableFactor) -> Option<String> {
    match from {
        TableFactor::Table { name, args: None, .. } => table_name(name).ok(),
        _ => None,
    }
}

/// Whether a condition is `column = value AND column < value AND ...`; of a join, columns may also be compared with each other.
/// `compared` gets the columns by which rows may be found.
fn is_simple(condition: &Expr, joins: bool, compared: &mut Vec<String>) -> bool {
    match condition {
        Expr::Nested(inner) => is_simple(inner, joins, compared),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            is_simple(left, joins, compared) && is_simple(right, joins, compared)
        }
        Expr::BinaryOp { left, op, right } if is_comparison(op) => {
            let column = match (column(left), column(right)) {
                (Some(column), None) if is_value(right) => column,
                (None, Some(column)) if is_value(left) => column,
                (Some(_), Some(_)) => return joins,
                _ => return false,
            };
            compared.extend((*op != BinaryOperator::NotEq).then_some(column));
            true
        }
        Expr::Between { expr, negated: false, low, high } => {
            compared.extend(column(expr));
            column(expr).is_some() && is_value(low) && is_value(high)
        }
        Expr::IsNull(e) | Expr::IsNotNull(e) => column(e).is_some(),
        _ => false,
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The name of a column.
fn column(e: &Expr) -> Option<String> {
    let name = match e {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    };
    Some(match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    })
}

/// Whether an expression is a value by itself.
fn is_value(e: &Expr) -> bool {
    match e {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr }
        | Expr::Cast { expr, .. }
        | Expr::Nested(expr) => is_value(expr),
        Expr::BinaryOp { left, op, right } => is_arithmetic(op) && is_value(left) && is_value(right),
        Expr::Function(f) => tells_moment(f),
        _ => false,
    }
}

/// Whether an expression in VALUES or SET is the word DEFAULT.
pub(crate) fn is_default(e: &Expr) -> bool {
    matches!(e, Expr::Identifier(i) if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"))
}

/// Whether a function may be one that tells the moment of the statement. The plan decides.
fn tells_moment(f: &Function) -> bool {
    let [name] = f.name.0.as_slice() else { return false };
    let named = name.as_ident().is_some_and(|name| {
        ["now", "current_timestamp", "current_date"].iter().any(|n| name.value.eq_ignore_ascii_case(n))
    });
    let no_arguments = match &f.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    named && no_arguments && f.over.is_none() && f.filter.is_none()
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply)
}

/// Literals that become parameters.
#[derive(Default)]
struct Literals {
    pub(crate) types: Vec<LodeType>,
    values: Vec<ScalarValue>,
}

impl Literals {
    fn take_from(&mut self, statement: &mut Sql) {
        match statement {
            Sql::Query(query) => {
                if let SetExpr::Select(select) = query.body.as_mut() {
                    select.selection.iter_mut().for_each(|e| self.condition(e));
                }
            }
            Sql::Update(update) => {
                update.assignments.iter_mut().for_each(|a| self.value(&mut a.value));
                update.selection.iter_mut().for_each(|e| self.condition(e));
            }
            Sql::Delete(delete) => delete.selection.iter_mut().for_each(|e| self.condition(e)),
            Sql::Insert(insert) => {
                let Some(source) = &mut insert.source else { return };
                if let SetExpr::Values(values) = source.body.as_mut() {
                    let cells = values.rows.iter_mut().flat_map(|row| row.content.iter_mut());
                    cells.for_each(|e| self.value(e));
                }
                if let Some(OnInsert::OnConflict(on)) = &mut insert.on
                    && let OnConflictAction::DoUpdate(update) = &mut on.action
                {
                    update.assignments.iter_mut().for_each(|a| self.value(&mut a.value));
                    update.selection.iter_mut().for_each(|e| self.condition(e));
                }
            }
            _ => {}
        }
    }

    fn condition(&mut self, e: &mut Expr) {
        match e {
            Expr::Nested(inner) => self.condition(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.condition(left);
                self.condition(right);
            }
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                self.value(left);
                self.value(right);
            }
            Expr::Between { low, high, .. } => {
                self.value(low);
                self.value(high);
            }
            _ => {}
        }
    }

    /// A value: a string by itself, or numbers.
    fn value(&mut self, e: &mut Expr) {
        let text = match e {
            Expr::Value(v) => match &v.value {
                Value::SingleQuotedString(s) => Some(s.clone()),
                _ => None,
            },
            _ => None,
        };
        match text {
            Some(text) => self.put(e, LodeType::Text, ScalarValue::Utf8View(Some(text))),
            None => self.numbers(e),
        }
    }

    fn numbers(&mut self, e: &mut Expr) {
        if let Some((t, value)) = number(e) {
            self.put(e, t, value);
            return;
        }
        match e {
            Expr::Nested(inner) => self.numbers(inner),
            Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
                self.numbers(left);
                self.numbers(right);
            }
            _ => {}
        }
    }

    fn put(&mut self, e: &mut Expr, t: LodeType, value: ScalarValue) {
        self.types.push(t);
        self.values.push(value);
        *e = Expr::value(Value::Placeholder(format!("${}", self.values.len())));
    }
}

/// The value of a literal: a number, a string, a truth value or NULL.
pub(crate) fn literal_value(e: &Expr) -> Option<ScalarValue> {
    if let Some((_, value)) = number(e) {
        return Some(value);
    }
    let Expr::Value(v) = e else { return None };
    match &v.value {
        Value::SingleQuotedString(s) => Some(ScalarValue::Utf8View(Some(s.clone()))),
        Value::Boolean(b) => Some(ScalarValue::Boolean(Some(*b))),
        Value::Null => Some(ScalarValue::Null),
        _ => None,
    }
}

/// The type and the value of a number as the planner reads it.
pub(crate) fn number(e: &Expr) -> Option<(LodeType, ScalarValue)> {
    match e {
        // Where the type of an integer matters, the preparation has cast it.
        Expr::Cast {
            kind: CastKind::Cast,
            expr,
            data_type: SqlType::Int(None),
            array: false,
            format: None,
        } => {
            let n: i32 = signed(expr)?.parse().ok()?;
            Some((LodeType::Integer, ScalarValue::Int32(Some(n))))
        }
        _ => {
            let text = signed(e)?;
            match text.parse::<i64>() {
                Ok(n) => Some((LodeType::BigInt, ScalarValue::Int64(Some(n)))),
                Err(_) => decimal(&text),
            }
        }
    }
}

/// The digits of a number, with its sign.
fn signed(e: &Expr) -> Option<Cow<'_, str>> {
    match e {
        Expr::Value(v) => match &v.value {
            Value::Number(n, false) => Some(n.as_str().into()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(v) => match &v.value {
                Value::Number(n, false) => Some(format!("-{n}").into()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// `12.50` is a DECIMAL(4, 2); `0.05` a DECIMAL(2, 2).
fn decimal(text: &str) -> Option<(LodeType, ScalarValue)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.')?;
    if !whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit()) || digits.len() < 2 {
        return None;
    }
    let all = format!("{whole}{part}");
    let all = all.trim_start_matches('0');
    let precision = all.len().max(1).max(part.len());
    if precision > DIGITS_MAX {
        return None;
    }
    let value: i128 = if all.is_empty() { 0 } else { all.parse().ok()? };
    let (precision, scale) = (precision as u8, part.len() as u8);
    let t = LodeType::Decimal { precision, scale };
    debug_assert_eq!(arrow_type(t), DataType::Decimal128(precision, scale as i8));
    Some((t, ScalarValue::Decimal128(Some(sign * value), precision, scale as i8)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Statement;

    fn shape(sql: &str) -> Option<Shape> {
        Shape::of(&Statement::parse(sql).unwrap().remove(0).parsed, None)
    }

    #[test]
    fn literals_become_parameters_of_their_types() {
        let check = |sql: &str, expected: &str| assert_eq!(shape(sql).unwrap().key, expected);
        check("SELECT a, 1 FROM t WHERE id = 7", "SELECT a, CAST(1 AS INT) FROM t WHERE id = $1|BIGINT");
        check(
            "DELETE FROM t WHERE a = -1.50 AND 'x' = b",
            "DELETE FROM t WHERE a = $1 AND $2 = b|DECIMAL(3,2)|TEXT",
        );
        check(
            "UPDATE t SET v = v + 5, w = -7, x = NULL WHERE id = 3000000000",
            "UPDATE t SET v = v + $1, w = $2, x = NULL WHERE id = $3|INTEGER|BIGINT|BIGINT",
        );
        check(
            "INSERT INTO t VALUES (1, 0.05, 'a'), (DATE '2020-01-01', true, 1e3)",
            "INSERT INTO t VALUES ($1, $2, $3), (DATE '2020-01-01', true, CAST('1e3' AS DOUBLE))\
             |BIGINT|DECIMAL(2,2)|TEXT",
        );
        check(
            "SELECT max(a) FROM t WHERE id = 7 AND B >= 'x' AND (2 > c AND d IS NULL) AND t.e BETWEEN 1 AND 2.5 \
             ORDER BY 1 LIMIT 3",
            "SELECT max(a) FROM t WHERE id = $1 AND B >= $2 AND ($3 > c AND d IS NULL) AND t.e BETWEEN $4 AND $5 \
             ORDER BY 1 LIMIT 3|BIGINT|TEXT|BIGINT|BIGINT|DECIMAL(2,1)",
        );
        let compared = |sql: &str| shape(sql).unwrap().compared;
        assert_eq!(
            compared("DELETE FROM t WHERE T.A = 1 AND b <> 2 AND 3 < \"C\" AND d IS NULL"),
            ["a", "C"]
        );
        let shape = shape("SELECT a FROM t WHERE id = '7'").unwrap();
        assert_eq!(shape.with_literals().unwrap().key, "SELECT a FROM t WHERE id = '7'");
        assert_eq!(shape.values, [ScalarValue::Utf8View(Some("7".into()))]);
    }

    #[test]
    fn other_statements_are_no_candidates() {
        let check = |sql: &str| assert!(shape(sql).is_none(), "{sql}");
        check("SELECT 1");
        check("SELECT * FROM t");
        check("SELECT * FROM t WHERE a = 1 OR b = 2");
        check("SELECT * FROM t WHERE a = b");
        check("SELECT * FROM t RIGHT JOIN u ON true WHERE a = 1");
        check("SELECT * FROM t, LATERAL (SELECT 1) WHERE a = 1");
        check("SELECT * FROM t, u, v, w, x WHERE a = 1");
        check("SELECT * FROM t, u WHERE a = b");
        check("SELECT * FROM t WHERE a <> 1");
        check("SELECT * FROM t WHERE a = 1 AND b LIKE 'x%'");
        check("SELECT * FROM t WHERE a = 1 AND b NOT BETWEEN 1 AND 2");
        check("SELECT * FROM t WHERE a IS NULL");
        check("SELECT * FROM t WHERE a = 1 UNION SELECT 1");
        check("SELECT * FROM t WHERE a = (SELECT 1)");
        check("UPDATE t SET a = 1");
        check("UPDATE t SET a = 1 FROM u WHERE a = 1");
        check("DELETE FROM t USING u WHERE a = 1");
        check("INSERT INTO t SELECT 1");
        check("INSERT INTO t VALUES (random())");
    }

    #[test]
    fn decimals_have_the_digits_that_the_planner_counts() {
        let check = |text: &str, p: u8, s: u8, v: i128| {
            let got = decimal(text).map(|(_, v)| v);
            assert_eq!(got, Some(ScalarValue::Decimal128(Some(v), p, s as i8)), "{text}");
        };
        check("0.05", 2, 2, 5);
        check("-12.50", 4, 2, -1250);
        check("100.00", 5, 2, 10_000);
        check("0.0", 1, 1, 0);
        check(".5", 1, 1, 5);
        check("007.1", 2, 1, 71);
        assert!(decimal("1e5").is_none());
    }
}
