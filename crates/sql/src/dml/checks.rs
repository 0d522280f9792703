//! CHECK, an expression that must not be false for any row, and generated columns, whose values are those of an expression. The
//! catalog keeps both as SQL. Statements that make rows evaluate them.
//!
//! ```text
//!   INSERT, COPY, loads ─► all columns of the new rows ────────────────┐
//!   UPDATE ─► new values, and the old ones of what a CHECK looks at ───┴─► expression ─► false for a row? refused
//! ```
//!
//! The statement that makes a row checks it. That is enough, since a CHECK looks at one row alone, and a row that
//! another transaction changed meanwhile is a conflict.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use lode_engine::{ColumnDef, Fill, Rule, TableDef};

use crate::arrow_convert::arrow_type;
use crate::error::state;
use crate::semantics::timestamp_digits::rounded;
use crate::statement::{has_subquery, parse_expression};
use crate::types::timestamp_digits;
use crate::{SqlError, semantics};

/// The CHECKs of one table.
#[derive(Clone)]
pub(crate) struct Checks {
    table: String,
    schema: Arc<Schema>,
    checks: Vec<Check>,
    generated: Vec<Generated>,
    /// Columns of TIMESTAMP(n), with n.
    rounded: Vec<(u16, u32)>,
    /// The table's definition, if it has generated columns.
    def: Option<Arc<TableDef>>,
}

/// A generated column.
#[derive(Clone)]
struct Generated {
    column: u16,
    /// Whether it may look at generated columns: one of an index may.
    is_hidden: bool,
    /// Columns that its expression looks at.
    columns: Vec<u16>,
    expression: Arc<dyn PhysicalExpr>,
}

#[derive(Clone)]
struct Check {
    name: String,
    /// Columns that it looks at.
    columns: Vec<u16>,
    expression: Arc<dyn PhysicalExpr>,
}

impl Checks {
    /// The CHECKs of `table`.
    ///
    /// # Errors
    /// When an expression cannot be planned, looks beyond the row, or is not a condition.
    pub(crate) fn of(session: &SessionState, table: &TableDef) -> Result<Self, SqlError> {
        let schema = schema_of(table);
        let df = DFSchema::try_from(schema.as_ref().clone())?;
        let mut checks = Vec::new();
        for c in &table.constraints {
            let Rule::Check { expression } = &c.rule else { continue };
            let expr = logical(session, expression, &df)?;
            let bad = |state, what: &str| {
                SqlError::failed(state, format!("the check constraint \"{}\" {what}", c.name))
            };
            if let Some(state) = looks_further(&expr)? {
                return Err(bad(state, "must look at nothing but its row"));
            }
            if !matches!(expr.get_type(&df)?, DataType::Boolean | DataType::Null) {
                return Err(bad(state::DATATYPE_MISMATCH, "is not a condition"));
            }
            let columns = columns_of(&expr, &df);
            let expression = session.create_physical_expr(semantics::expression(expr, &df)?, &df)?;
            checks.push(Check { name: c.name.clone(), columns, expression });
        }
        // Of several that a row breaks, PostgreSQL reports the first by name.
        checks.sort_by(|a: &Check, b| a.name.cmp(&b.name));
        let mut generated = Vec::new();
        for (column, c) in (0u16..).zip(&table.columns) {
            let Fill::Generated(text) = &c.fill else { continue };
            let expr = logical(session, text, &df)?;
            let bad = |state, what: &str| SqlError::failed(state, format!("{what} column \"{}\"", c.name));
            let is_hidden = c.hidden.is_some();
            if expr.is_volatile() || calls_moment(&expr)? {
                return Err(match is_hidden {
                    true => of_index(state::INVALID_OBJECT_DEFINITION, "functions in it must be immutable"),
                    false => {
                        bad(state::INVALID_OBJECT_DEFINITION, "the generation expression is not immutable:")
                    }
                });
            }
            match looks_further(&expr)? {
                Some(state::GROUPING_ERROR) if is_hidden => {
                    return Err(of_index(state::GROUPING_ERROR, "aggregate functions are not allowed in it"));
                }
                Some(state) if is_hidden => {
                    return Err(of_index(state, "it must look at nothing but its row"));
                }
                Some(state::GROUPING_ERROR) => {
                    return Err(bad(state::GROUPING_ERROR, "an aggregate function cannot generate"));
                }
                Some(state) => return Err(bad(state, "a row's own values alone can generate")),
                None => {}
            }
            let columns = columns_of(&expr, &df);
            let of_generated = |n: &u16| matches!(table.columns[usize::from(*n)].fill, Fill::Generated(_));
            if !is_hidden && columns.iter().any(of_generated) {
                return Err(bad(
                    state::INVALID_OBJECT_DEFINITION,
                    "a generated column cannot look at a generated one:",
                ));
            }
            let expr = semantics::expression(expr, &df)?;
            let from = expr.get_type(&df)?;
            let to = arrow_type(c.ty.data_type);
            if from.is_string() && !to.is_string() && !matches!(expr, Expr::Literal(..)) {
                return Err(super::shared::unassignable(&from, &c.name, &c.declared));
            }
            super::shared::check_assignable(&from, &to, &c.name, &c.declared)?;
            let expression = session.create_physical_expr(expr, &df)?;
            generated.push(Generated { column, is_hidden, columns, expression });
        }
        // Those of indexes come last, and know the others.
        generated.sort_by_key(|g: &Generated| g.is_hidden);
        let def = (!generated.is_empty()).then(|| Arc::new(table.clone()));
        let rounded = (0u16..).zip(&table.columns).filter_map(|(i, c)| Some((i, timestamp_digits(c)?)));
        let rounded = rounded.collect();
        Ok(Self { table: table.name.clone(), schema, checks, generated, rounded, def })
    }

    /// The CHECKs that look at one of these columns.
    pub(crate) fn looking_at(&self, columns: &[u16]) -> Vec<String> {
        let looks = |c: &&Check| c.columns.iter().any(|n| columns.contains(n));
        self.checks.iter().filter(looks).map(|c| c.name.clone()).collect()
    }

    /// The generated columns whose values an UPDATE of `assigned` changes.
    pub(crate) fn generated_by(&self, assigned: &[u16]) -> Vec<u16> {
        let mut changed: Vec<u16> = Vec::new();
        for g in &self.generated {
            let changes = |c: &u16| assigned.contains(c) || g.is_hidden && changed.contains(c);
            if changes(&g.column) || g.columns.iter().any(changes) {
                changed.push(g.column);
            }
        }
        changed
    }

    /// These columns, and the generated ones that change with them.
    pub(crate) fn with_generated(&self, assigned: &[u16]) -> Vec<u16> {
        let more = self.generated_by(assigned).into_iter().filter(|c| !assigned.contains(c));
        assigned.iter().copied().chain(more).collect()
    }

    /// Computes the generated columns of rows, as far as the columns are known that they look at, and checks the rows.
    pub(crate) fn complete(&self, known: &mut BTreeMap<u16, ArrayRef>, rows: usize) -> Result<(), SqlError> {
        self.round(known)?;
        if let Some(def) = self.def.as_ref().filter(|_| rows > 0) {
            let (of_table, of_indexes) =
                self.generated.split_at(self.generated.partition_point(|g| !g.is_hidden));
            for generated in [of_table, of_indexes].into_iter().filter(|g| !g.is_empty()) {
                let batch = self.batch(known, rows)?;
                for g in generated {
                    if g.columns.iter().all(|c| known.contains_key(c)) {
                        let values = g.expression.evaluate(&batch)?.into_array(rows)?;
                        known.insert(g.column, super::load::cast_to(def, g.column, &values)?);
                    }
                }
                self.round(known)?;
            }
        }
        self.verify(known, rows)
    }

    /// Rounds the values of TIMESTAMP(n) columns.
    fn round(&self, known: &mut BTreeMap<u16, ArrayRef>) -> Result<(), SqlError> {
        for (column, digits) in &self.rounded {
            if let Some(moments) = known.get_mut(column) {
                *moments = rounded(moments, *digits)?;
            }
        }
        Ok(())
    }

    /// The other columns that are needed for an UPDATE of `assigned`: those of each CHECK that looks at a column that
    /// changes, and those that generate one.
    pub(crate) fn others(&self, assigned: &[u16]) -> Vec<u16> {
        let generated = self.generated_by(assigned);
        let changes = |n: &u16| assigned.contains(n) || generated.contains(n);
        let concerned = self.checks.iter().filter(|c| c.columns.iter().any(changes));
        let mut columns: Vec<u16> = concerned.flat_map(|c| c.columns.iter().copied()).collect();
        let generating = self.generated.iter().filter(|g| generated.contains(&g.column));
        columns.extend(generating.flat_map(|g| g.columns.iter().copied()));
        columns.retain(|c| !changes(c));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// These, and those of `wanted` that an UPDATE of `assigned` leaves as they are.
    pub(crate) fn others_with(&self, assigned: &[u16], wanted: &[u16]) -> Vec<u16> {
        let mut others = self.others(assigned);
        let changed = self.with_generated(assigned);
        others.extend(wanted.iter().filter(|c| !changed.contains(c)));
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Rows of which only some columns are known, as expressions see them.
    fn batch(&self, known: &BTreeMap<u16, ArrayRef>, rows: usize) -> Result<RecordBatch, SqlError> {
        let arrays = self.schema.fields().iter().zip(0u16..).map(|(f, i)| match known.get(&i) {
            Some(array) => array.clone(),
            None => new_null_array(f.data_type(), rows),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays.collect(), &options)?)
    }

    /// Checks rows of which only some columns are known. A CHECK that looks at an unknown column is skipped.
    pub(crate) fn verify(&self, known: &BTreeMap<u16, ArrayRef>, rows: usize) -> Result<(), SqlError> {
        if self.checks.is_empty() || rows == 0 {
            return Ok(());
        }
        let batch = self.batch(known, rows)?;
        for c in self.checks.iter().filter(|c| c.columns.iter().all(|n| known.contains_key(n))) {
            let result = c.expression.evaluate(&batch)?.into_array(rows)?;
            let is_false = match result.as_boolean_opt() {
                Some(b) => b.iter().any(|v| v == Some(false)),
                None => false,
            };
            if is_false {
                return Err(SqlError::Check { table: self.table.clone(), constraint: c.name.clone() });
            }
        }
        Ok(())
    }
}

/// The columns of a table, as expressions over its rows see them. All are nullable: NOT NULL has an error of its own.
fn schema_of(table: &TableDef) -> Arc<Schema> {
    let field = |(i, c): (usize, &ColumnDef)| {
        // The name of a dropped column is free.
        let name = if c.is_dropped { format!("__lode_dropped_{i}") } else { c.name.clone() };
        Field::new(name, arrow_type(c.ty.data_type), true)
    };
    Arc::new(Schema::new(table.columns.iter().enumerate().map(field).collect::<Vec<_>>()))
}

/// The type of an expression over the rows of a table.
///
/// # Errors
/// When it cannot be planned.
pub(crate) fn type_of(session: &SessionState, table: &TableDef, text: &str) -> Result<DataType, SqlError> {
    let df = DFSchema::try_from(schema_of(table).as_ref().clone())?;
    let expr = logical(session, text, &df)?;
    if expr.is_volatile() || calls_moment(&expr)? {
        return Err(of_index(state::INVALID_OBJECT_DEFINITION, "functions in it must be immutable"));
    }
    // An aggregate has a type only within a query.
    if let Some(state) = looks_further(&expr)? {
        return Err(of_index(state, "it must look at nothing but its row"));
    }
    Ok(semantics::expression(expr, &df)?.get_type(&df)?)
}

/// Plans the text of a CHECK, a generated column or an index.
///
/// # Errors
/// 0A000 for a subquery, whose tables are not known here; those of planning.
fn logical(session: &SessionState, text: &str, df: &DFSchema) -> Result<Expr, SqlError> {
    if has_subquery(&parse_expression(text)?) {
        let message = format!("cannot use a subquery in an expression over one row: {text}");
        return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(session.create_logical_expr(text, df)?)
}

fn of_index(state: &'static str, what: &str) -> SqlError {
    SqlError::failed(state, format!("an expression of an index cannot be used: {what}"))
}

/// The columns that an expression looks at.
fn columns_of(expr: &Expr, df: &DFSchema) -> Vec<u16> {
    let numbers = expr.column_refs().into_iter().filter_map(|c| df.index_of_column(c).ok());
    let mut columns: Vec<u16> = numbers.map(|i| i as u16).collect();
    columns.sort_unstable();
    columns
}

/// Whether an expression depends on the moment.
fn calls_moment(expr: &Expr) -> Result<bool, SqlError> {
    let stable = |e: &Expr| match e {
        Expr::ScalarFunction(f) => f.func.signature().volatility != Volatility::Immutable,
        _ => false,
    };
    Ok(expr.exists(|e| Ok(stable(e)))?)
}

/// The SQLSTATE of an expression that needs more than a row.
fn looks_further(expr: &Expr) -> Result<Option<&'static str>, SqlError> {
    let mut found = expr.is_volatile().then_some(state::FEATURE_NOT_SUPPORTED);
    expr.apply(|e| {
        found = match e {
            Expr::AggregateFunction(_) => Some(state::GROUPING_ERROR),
            Expr::WindowFunction(_) => Some(state::WINDOWING_ERROR),
            Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Placeholder(_) => Some(state::FEATURE_NOT_SUPPORTED),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(found)
}
