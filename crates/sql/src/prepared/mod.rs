//! Prepared statements: parsed and typed once, run with values for their parameters.
//!
//! ```text
//!   prepare: text ─► tree ─► types of $1, $2 ... (infer.rs) ─► planned once: errors, columns of the result
//!   execute: values ─► their types ─┬─ short ────► the plan in the cache (short/)
//!                                   └─ otherwise ─► values in the tree (substitute.rs) ─► the general path
//! ```
//!
//! Invariants: the types of parameters and of the result never change. A plan is used only for the definitions for
//! which it was made.

mod infer;
mod substitute;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::datatypes::{DataType as ArrowType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, Ident, ObjectName, SelectItem, SetExpr, Statement as Sql, Value,
    visit_expressions,
};
use futures::TryStreamExt;
use lode_engine::{Snapshot, Table};
use lode_page::DataType;
use parking_lot::Mutex;

use crate::arrow_convert::arrow_type;
use crate::error::state;
use crate::execute::planned_schema;
use crate::semantics::{cast_or_null, to_column_type, unfit};
use crate::short::is_same_definition;
use crate::statement::{
    ShortShape as Shape, Statement, StatementResult, check_names, fold, literal_value,
    prepare_with_parameters,
};
use crate::types::{column_type, declared_type, sql_type};
use crate::{Session, SqlError, dml};

/// Most digits of a decimal.
const DIGITS_MAX: u32 = 38;

/// A statement that was prepared in a session. A clone is the same.
#[derive(Clone)]
pub struct Prepared(Arc<PreparedStatement>);

struct PreparedStatement {
    /// Its name, for messages.
    name: String,
    /// With its names in the schemas to which they led.
    statement: Statement,
    /// As it was given.
    given: Statement,
    /// The session's count of changes of settings with which the names were last found to lead there.
    names: AtomicU64,
    types: Vec<DataType>,
    parameter_types: Vec<ArrowType>,
    schema: Option<SchemaRef>,
    shape: Option<Arc<Shape>>,
    /// The tables that it names, as they were when its result was last found to have these columns.
    tables: Mutex<Vec<Arc<Table>>>,
    /// Whether it names views, whose columns may change.
    views: bool,
}

impl Prepared {
    /// The types of its parameters, from `$1` on.
    pub fn parameter_types(&self) -> &[ArrowType] {
        &self.0.parameter_types
    }

    /// The columns of its rows; `None` if it has no rows.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.0.schema.as_ref()
    }

    pub(crate) fn statement(&self) -> &Statement {
        &self.0.statement
    }

    pub(crate) fn shape(&self) -> Option<&Arc<Shape>> {
        self.0.shape.as_ref()
    }

    /// The values as they are of the parameters' types.
    ///
    /// # Errors
    /// A wrong number of values (42601), a value of an unrelated type (42804), one that does not fit (22003).
    pub(crate) fn values(&self, values: &[ScalarValue]) -> Result<Vec<ScalarValue>, SqlError> {
        self.check_number(values.len())?;
        let each = values.iter().zip(&self.0.types).enumerate();
        each.map(|(i, (v, &t))| coerced(v, t, i)).collect()
    }

    fn check_number(&self, given: usize) -> Result<(), SqlError> {
        let (name, expected) = (&self.0.name, self.0.types.len());
        if given == expected {
            return Ok(());
        }
        let message = format!(
            "wrong number of parameters for prepared statement \"{name}\": expected {expected}, got {given}"
        );
        Err(SqlError::failed(state::SYNTAX_ERROR, message))
    }

    /// The statement with these values, which are of the parameters' types, in the place of its parameters.
    pub(crate) fn with_values(&self, values: &[ScalarValue]) -> Result<Statement, SqlError> {
        let statement = &self.0.statement;
        if self.0.types.is_empty() {
            return Ok(statement.clone());
        }
        substituted(statement, &self.0.types, values)
    }

    /// The statement with these values, if its names lead elsewhere than when it was prepared.
    pub(crate) fn led_elsewhere(
        &self,
        session: &Session,
        values: &[ScalarValue],
    ) -> Result<Option<Statement>, SqlError> {
        let names = session.settings_changes();
        if self.0.names.load(Ordering::Relaxed) == names {
            return Ok(None);
        }
        let resolved = session.resolved(&self.0.given)?;
        let now = match resolved.as_ref().unwrap_or(&self.0.given).parsed.as_ref() {
            Parsed::Statement(sql) if takes_parameters(sql) => {
                let mut sql = sql.clone();
                substitute::name_columns(&mut sql);
                self.0.given.with_tree(sql)
            }
            _ => self.0.given.clone(),
        };
        if now.parsed == self.0.statement.parsed {
            self.0.names.store(names, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(Some(if self.0.types.is_empty() { now } else { substituted(&now, &self.0.types, values)? }))
    }

    /// Checks that the result still has the columns that it had when the statement was prepared.
    pub(crate) async fn check_result(&self, session: &Session) -> Result<(), SqlError> {
        let Some(schema) = &self.0.schema else { return Ok(()) };
        let snapshot = session.snapshot_now()?;
        let now = {
            let known = self.0.tables.lock();
            let is_same = |t: &Arc<Table>| {
                snapshot
                    .table(t.name())
                    .is_some_and(|now| Arc::ptr_eq(t, &now) || is_same_definition(t, &now))
            };
            if !self.0.views && known.iter().all(is_same) {
                return Ok(());
            }
            let Some(sql) = self.0.statement.sql() else { return Ok(()) };
            infer::tables(sql, &snapshot).0
        };
        let nulls = self.0.types.iter().map(null).collect::<Result<Vec<_>, _>>()?;
        let with_nulls = self.with_values(&nulls)?;
        match planned_schema(session, snapshot, &with_nulls).await? {
            Some(now) if has_same_types(schema, &now) => {}
            _ => {
                let message = "cached plan must not change result type";
                return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
            }
        }
        *self.0.tables.lock() = now;
        Ok(())
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({} {:?})", self.0.name, self.0.types)
    }
}

fn has_same_types(a: &SchemaRef, b: &SchemaRef) -> bool {
    let of = |s: &SchemaRef| -> Vec<(String, ArrowType)> {
        s.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect()
    };
    of(a) == of(b)
}

fn null(t: &DataType) -> Result<ScalarValue, SqlError> {
    Ok(ScalarValue::try_from(&arrow_type(*t))?)
}

fn substituted(
    statement: &Statement,
    types: &[DataType],
    values: &[ScalarValue],
) -> Result<Statement, SqlError> {
    let Parsed::Statement(sql) = statement.parsed.as_ref() else { return Ok(statement.clone()) };
    let mut sql = sql.clone();
    substitute::substitute(&mut sql, types, values)?;
    Ok(statement.with_tree(sql))
}

/// `value` as a value of type `t`, for parameter `i`.
fn coerced(value: &ScalarValue, t: DataType, i: usize) -> Result<ScalarValue, SqlError> {
    let (from, to) = (value.data_type(), arrow_type(t));
    // Nothing else checks that a decimal has no more digits than its type says.
    if let ScalarValue::Decimal128(Some(n), precision, _) = value
        && n.unsigned_abs() >= 10u128.pow(u32::from(*precision).min(DIGITS_MAX))
    {
        return Err(SqlError::OutOfRange("numeric"));
    }
    if from == to {
        return Ok(value.clone());
    }
    if value.is_null() {
        return null(&t);
    }
    // What most clients send, without an array.
    match (value, t) {
        (ScalarValue::Utf8(text), DataType::Text) => return Ok(ScalarValue::Utf8View(text.clone())),
        (ScalarValue::Int64(Some(n)), DataType::Integer) => {
            if let Ok(n) = i32::try_from(*n) {
                return Ok(ScalarValue::Int32(Some(n)));
            }
        }
        (ScalarValue::Int64(Some(n)), DataType::SmallInt) => {
            if let Ok(n) = i16::try_from(*n) {
                return Ok(ScalarValue::Int16(Some(n)));
            }
        }
        _ => {}
    }
    let is_text = |t: &ArrowType| matches!(t, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View);
    let is_bytes =
        |t: &ArrowType| matches!(t, ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView);
    let is_moment = |t: &ArrowType| matches!(t, ArrowType::Date32 | ArrowType::Timestamp(_, None));
    let related = from.is_numeric() && to.is_numeric()
        || is_text(&from) && is_text(&to)
        || is_bytes(&from) && is_bytes(&to)
        || is_moment(&from) && is_moment(&to);
    if !related {
        let from = column_type(&from).map_or_else(|| from.to_string(), |t| t.to_string());
        let message =
            format!("parameter ${} of type {from} cannot be coerced to the expected type {t}", i + 1);
        return Err(SqlError::failed(state::DATATYPE_MISMATCH, message));
    }
    let array = value.to_array()?;
    let cast = match to_column_type(&array, &to) {
        Some(rounded) => rounded?,
        None => match cast_or_null(&array, &to)? {
            (cast, None) => cast,
            (_, Some(row)) => return Err(unfit(&array, row, &to)),
        },
    };
    Ok(ScalarValue::try_from_array(&cast, 0)?)
}

/// The prepared statements of a session that have a name. Shared by the session's clones.
#[derive(Clone, Default)]
pub(crate) struct PreparedStatements(Arc<Mutex<BTreeMap<String, Prepared>>>);

impl Session {
    /// Prepares a statement. Its parameters are `$1`, `$2` and so on; their types are those of the columns that they are
    /// compared with or assigned to.
    ///
    /// # Errors
    /// Those of planning it; more than one statement (42601); a parameter whose type nothing says (42P18).
    pub async fn prepare(&self, sql: &str) -> Result<Prepared, SqlError> {
        let mut statements = self.parse(sql)?;
        let statement = match statements.len() {
            1 => statements.remove(0),
            0 => Err(SqlError::failed(state::SYNTAX_ERROR, "there is no statement to prepare"))?,
            _ => {
                let message = "cannot insert multiple commands into a prepared statement";
                self.transactions().fail();
                return Err(SqlError::failed(state::SYNTAX_ERROR, message));
            }
        };
        self.prepare_in_turn(statement).await
    }

    /// Prepares one statement. `name` is for messages.
    pub(crate) async fn prepared(
        &self,
        name: &str,
        statement: Statement,
        given: &[DataType],
    ) -> Result<Prepared, SqlError> {
        let (names, as_given) = (self.settings_changes(), statement.clone());
        let statement = self.resolved(&statement)?.unwrap_or(statement);
        let mut checked = (*statement.parsed).clone();
        prepare_with_parameters(&mut checked)?;
        let statement = match statement.parsed.as_ref() {
            Parsed::Statement(sql) if takes_parameters(sql) => {
                let mut sql = sql.clone();
                substitute::name_columns(&mut sql);
                statement.with_tree(sql)
            }
            _ => statement,
        };
        let snapshot: Snapshot = self.snapshot().await?;
        let (mut types, mut tables, mut views) = (given.to_vec(), Vec::new(), false);
        let (mut schema, mut shape) = (None, None);
        if let Some(sql) = statement.sql().filter(|sql| takes_parameters(sql)) {
            check_names(&self.state_at(snapshot.clone(), None), &checked)?;
            types = infer::parameter_types(sql, given, &snapshot)?;
            (tables, views) = infer::tables(sql, &snapshot);
            let nulls = types.iter().map(null).collect::<Result<Vec<_>, _>>()?;
            let with_nulls = substituted(&statement, &types, &nulls)?;
            schema = planned_schema(self, snapshot, &with_nulls).await?;
            shape = Shape::with_parameters(&statement.parsed, statement.names.clone(), types.clone())
                .map(Arc::new);
        } else {
            // What has no parameters refuses placeholders.
            crate::statement::prepare(&mut (*statement.parsed).clone())?;
        }
        let parameter_types = types.iter().map(|&t| arrow_type(t)).collect();
        Ok(Prepared(Arc::new(PreparedStatement {
            name: name.to_owned(),
            statement,
            given: as_given,
            names: names.into(),
            types,
            parameter_types,
            schema,
            shape,
            tables: Mutex::new(tables),
            views,
        })))
    }

    /// `PREPARE name [(types)] AS statement`.
    pub(crate) async fn prepare_named(
        &self,
        name: &Ident,
        types: &[SqlType],
        statement: Statement,
    ) -> Result<StatementResult, SqlError> {
        let name = fold(name);
        if !statement.sql().is_some_and(takes_parameters) {
            let message = "PREPARE takes a SELECT, INSERT, UPDATE or DELETE";
            return Err(SqlError::failed(state::SYNTAX_ERROR, message));
        }
        let exists = || {
            let message = format!("prepared statement \"{name}\" already exists");
            SqlError::failed(state::DUPLICATE_PREPARED_STATEMENT, message)
        };
        if self.kept().of::<PreparedStatements>().0.lock().contains_key(&name) {
            return Err(exists());
        }
        let types = types.iter().map(|t| declared_type(t).map(|(t, _)| t)).collect::<Result<Vec<_>, _>>()?;
        let prepared = self.prepared(&name, statement, &types).await?;
        match self.kept().of::<PreparedStatements>().0.lock().entry(name.clone()) {
            std::collections::btree_map::Entry::Occupied(_) => return Err(exists()),
            std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(prepared)),
        }
        Ok(StatementResult::done("PREPARE"))
    }

    /// The statement and the values of `EXECUTE name(values)`.
    pub(crate) async fn named(
        &self,
        name: &ObjectName,
        arguments: &[Expr],
    ) -> Result<(Prepared, Vec<ScalarValue>), SqlError> {
        let name = match name.0.as_slice() {
            [part] => part.as_ident().map(fold),
            _ => None,
        };
        let found =
            name.as_ref().and_then(|n| self.kept().of::<PreparedStatements>().0.lock().get(n).cloned());
        let prepared = found.ok_or_else(|| no_statement(&name.unwrap_or_default()))?;
        if prepared.0.types.is_empty() {
            // As in PostgreSQL, values that nothing takes are ignored.
            return Ok((prepared, Vec::new()));
        }
        prepared.check_number(arguments.len())?;
        let is_query =
            |e: &Expr| matches!(e, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. });
        let has_query = |e: &Expr| {
            let found = visit_expressions(e, |e| match is_query(e) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
            found.is_break()
        };
        if arguments.iter().any(has_query) {
            return Err(SqlError::Unsupported("a subquery as a value of EXECUTE".into()));
        }
        let quick: Option<Vec<ScalarValue>> = arguments.iter().map(literal_value).collect();
        let is_plain =
            |v: &ScalarValue, t: &DataType| !matches!(v, ScalarValue::Utf8View(_)) || *t == DataType::Text;
        let values = match quick.filter(|v| v.iter().zip(&prepared.0.types).all(|(v, t)| is_plain(v, t))) {
            Some(values) => values,
            None => self.evaluated(arguments, &prepared.0.types).await?,
        };
        let values = prepared.values(&values)?;
        Ok((prepared, values))
    }

    /// The values of expressions without a row. A quoted literal is of the type that is expected.
    async fn evaluated(&self, arguments: &[Expr], types: &[DataType]) -> Result<Vec<ScalarValue>, SqlError> {
        let cast = |(e, &t): (&Expr, &DataType)| match e {
            Expr::Value(v) if matches!(v.value, Value::SingleQuotedString(_)) => Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(e.clone()),
                data_type: sql_type(t),
                array: false,
                format: None,
            },
            e => e.clone(),
        };
        let items = arguments.iter().zip(types).map(cast).enumerate().map(|(i, expr)| {
            SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', format!("${}", i + 1)) }
        });
        let mut query = dml::empty_select();
        let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("SELECT 1 is a SELECT") };
        select.projection = items.collect();
        let result = self.query(Parsed::Statement(Box::new(Sql::Query(query)))).await?;
        let StatementResult::Rows { stream, .. } = result else { unreachable!("a query has rows") };
        let batches: Vec<_> = stream.try_collect().await?;
        let batch = batches.iter().find(|b| b.num_rows() > 0).ok_or_else(|| {
            SqlError::failed(state::FEATURE_NOT_SUPPORTED, "a parameter of EXECUTE that is no value")
        })?;
        batch.columns().iter().map(|c| Ok(ScalarValue::try_from_array(c, 0)?)).collect()
    }

    /// `DEALLOCATE name | ALL`.
    pub(crate) fn deallocate(&self, name: &Ident) -> Result<StatementResult, SqlError> {
        let named = self.kept().of::<PreparedStatements>();
        let mut statements = named.0.lock();
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
            statements.clear();
            return Ok(StatementResult::done("DEALLOCATE ALL"));
        }
        let name = fold(name);
        match statements.remove(&name) {
            Some(_) => Ok(StatementResult::done("DEALLOCATE")),
            None => Err(no_statement(&name)),
        }
    }
}

fn no_statement(name: &str) -> SqlError {
    let message = format!("prepared statement \"{name}\" does not exist");
    SqlError::failed(state::INVALID_STATEMENT_NAME, message)
}

fn takes_parameters(sql: &Sql) -> bool {
    matches!(sql, Sql::Query(_) | Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_))
}
