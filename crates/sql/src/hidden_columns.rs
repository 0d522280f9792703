//! Columns that an index has for itself: the values of its expressions, and the condition of a partial index.
//!
//! ```text
//!   CREATE UNIQUE INDEX i ON t (lower(email)) WHERE gone IS NULL   ─►   hidden columns of t, generated for each row:
//!                                                                         CASE WHEN gone IS NULL THEN true END
//!                                                                         lower(email)
//!                                                                       and an index on both, in this order
//!   WHERE lower(email) = 'x'                                       ─►   the scan compares the hidden column
//!   WHERE gone IS NULL AND ...                                     ─►   the index is read where its first column is true
//! ```
//!
//! A row to which the condition does not apply has NULL in the first column, so a unique index does not compare it. The name of a
//! hidden column begins with a control character, which no name in SQL has. Indexes with the same expression share its column.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column as ColumnName, DFSchema};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as SqlExpr};
use lode_engine::{ColumnDef, Fill, Hidden, IndexDef, IndexKind, KeyOrder, TableDef, WriteTxn};
use lode_page::DataType;

use crate::arrow_convert::arrow_type;
use crate::names::{qualified, quoted, split};
use crate::statement::parse_expression;
use crate::translate::lower;
use crate::{SqlError, semantics, summary_text};

/// What the names of hidden columns begin with.
const NAME_PREFIX: char = '\u{1f}';
const CONDITION_BEGIN: &str = "CASE WHEN ";
const CONDITION_END: &str = " THEN true END";

/// The column for an expression of an index, given as SQL.
pub(crate) fn of_expression(text: &str, data_type: DataType) -> ColumnDef {
    hidden(text.to_owned(), data_type, Hidden::Expression)
}

/// The column for the condition of a partial index.
///
/// # Errors
/// When the condition does not parse.
pub(crate) fn of_condition(text: &str) -> std::result::Result<ColumnDef, SqlError> {
    // The text is that of the parsed expression, so that it stays the same when a column of it is renamed.
    let generating = parse_expression(&format!("{CONDITION_BEGIN}{text}{CONDITION_END}"))?;
    Ok(hidden(generating.to_string(), DataType::Boolean, Hidden::Condition))
}

fn hidden(text: String, data_type: DataType, hidden: Hidden) -> ColumnDef {
    let name = name_of(&text);
    ColumnDef { fill: Fill::Generated(text), hidden: Some(hidden), ..ColumnDef::new(&name, data_type) }
}

/// The name of the hidden column for an expression.
pub(crate) fn name_of(text: &str) -> String {
    format!("{NAME_PREFIX}{text}")
}

/// The parts of a condition, which are joined by AND, as SQL.
pub(crate) fn parts_of(condition: &SqlExpr) -> Vec<String> {
    match condition {
        SqlExpr::Nested(inner) => parts_of(inner),
        SqlExpr::BinaryOp { left, op: BinaryOperator::And, right } => {
            [left, right].into_iter().flat_map(|side| parts_of(side)).collect()
        }
        other => vec![other.to_string()],
    }
}

/// The same of a text; `None` if it does not parse.
pub(crate) fn parts_of_text(condition: &str) -> Option<Vec<String>> {
    parse_expression(condition).ok().map(|e| parts_of(&e))
}

/// Gives a hidden column the name of its expression, which has changed.
pub(crate) fn rename(column: &mut ColumnDef) {
    if let (Some(_), Fill::Generated(text)) = (column.hidden, &column.fill) {
        column.name = name_of(text);
    }
}

fn generating(column: &ColumnDef) -> &str {
    match &column.fill {
        Fill::Generated(text) => text,
        _ => "",
    }
}

/// The condition of a hidden column, as SQL.
pub(crate) fn condition(column: &ColumnDef) -> &str {
    let text = generating(column);
    let inner = text.strip_prefix(CONDITION_BEGIN).and_then(|t| t.strip_suffix(CONDITION_END));
    inner.unwrap_or(text)
}

/// An index as it was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredIndex {
    /// Its columns and expressions, in its order. Expressions other than calls of functions are in parentheses.
    pub elements: Vec<String>,
    /// What it says of its columns, in parentheses: sizes and domains that the page index keeps.
    pub options: Option<String>,
    /// The condition of a partial index.
    pub condition: Option<String>,
}

impl DeclaredIndex {
    /// An index of a table with this definition. `column` spells the name of a column.
    pub fn of(def: &TableDef, index: &IndexDef, column: impl Fn(&str) -> String) -> Self {
        let options = summary_text::options_text(def, index);
        let mut declared = Self { elements: Vec::new(), options, condition: None };
        for (n, &c) in index.columns.iter().enumerate() {
            let c = &def.columns[usize::from(c)];
            let element = match c.hidden {
                None => column(&c.name),
                Some(Hidden::Condition) => {
                    declared.condition = Some(condition(c).to_owned());
                    continue;
                }
                Some(Hidden::Expression) => match parse_expression(generating(c)) {
                    Ok(SqlExpr::Function(f)) => f.to_string(),
                    _ => format!("({})", generating(c)),
                },
            };
            let order = match index.order(n) {
                KeyOrder { descending: false, nulls_first: false } => "",
                KeyOrder { descending: false, nulls_first: true } => " NULLS FIRST",
                KeyOrder { descending: true, nulls_first: true } => " DESC",
                KeyOrder { descending: true, nulls_first: false } => " DESC NULLS LAST",
            };
            declared.elements.push(element + &summary_text::kind_text(index, n) + order);
        }
        declared
    }
}

impl std::fmt::Display for DeclaredIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.elements.join(", "))?;
        if let Some(options) = &self.options {
            write!(f, " with {options}")?;
        }
        match &self.condition {
            Some(condition) => write!(f, " where {condition}"),
            None => Ok(()),
        }
    }
}

/// The statement that makes an index on `table`. Without a name it gets one.
pub(crate) fn create_text(def: &TableDef, index: &IndexDef, table: &str, is_named: bool) -> String {
    let declared = DeclaredIndex::of(def, index, quoted);
    let (unique, kind) = match index.kind {
        IndexKind::Page => ("", "page_index"),
        IndexKind::Btree { unique: false } => ("", "btree"),
        IndexKind::Btree { unique: true } => (" UNIQUE", "btree"),
    };
    let name = if is_named { format!(" {}", quoted(split(&index.name).1)) } else { String::new() };
    let condition = declared.condition.map(|c| format!(" WHERE {c}")).unwrap_or_default();
    let (table, elements) = (qualified(table), declared.elements.join(", "));
    let options = declared.options.map(|o| format!(" WITH {o}")).unwrap_or_default();
    format!("CREATE{unique} INDEX{name} ON {table} USING {kind} ({elements}){options}{condition}")
}

/// The names of a table's indexes that have one of these hidden columns.
pub(crate) fn indexes_with<'a>(
    indexes: &'a [IndexDef],
    hidden: &'a [u16],
) -> impl Iterator<Item = &'a IndexDef> {
    indexes.iter().filter(|i| i.columns.iter().any(|c| hidden.contains(c)))
}

/// Drops the hidden columns of a table that no index has any more.
pub(crate) fn drop_unused(txn: &mut WriteTxn, table: &str) -> std::result::Result<(), SqlError> {
    let Some(table) = txn.table(table) else { return Ok(()) };
    let mut def = table.def().clone();
    let is_used = |c: u16| table.indexes().iter().any(|i| i.columns.contains(&c));
    for (i, column) in (0u16..).zip(&mut def.columns) {
        if column.hidden.is_some() && !is_used(i) {
            (column.is_dropped, column.hidden, column.fill) = (true, None, Fill::Null);
        }
    }
    if def != *table.def() {
        txn.alter_table(table.name(), def)?;
    }
    Ok(())
}

/// The functions that expressions of a row may call.
static FUNCTIONS: LazyLock<Option<SessionState>> = LazyLock::new(|| {
    let mut config = datafusion::prelude::SessionConfig::new();
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let mut state = SessionStateBuilder::new().with_config(config).with_default_features().build();
    semantics::register(&mut state).ok()?;
    Some(state)
});

/// The hidden columns of a table, as a scan of some of its columns knows them.
#[derive(Debug, Default)]
pub(crate) struct HiddenValues {
    expressions: Vec<(Arc<dyn PhysicalExpr>, u16)>,
    /// The parts of each condition, which are joined by AND.
    conditions: Vec<(Vec<Arc<dyn PhysicalExpr>>, u16)>,
}

impl HiddenValues {
    /// `columns`: the table's column of each field of `schema`. A hidden column that looks at another column is not known.
    pub(crate) fn of(def: &TableDef, columns: &[u16], schema: &Schema) -> Self {
        let mut values = Self::default();
        if def.columns.iter().all(|c| c.hidden.is_none()) {
            return values;
        }
        for (c, column) in (0u16..).zip(&def.columns) {
            let text = match column.hidden {
                Some(Hidden::Expression) => generating(column),
                Some(Hidden::Condition) => condition(column),
                None => continue,
            };
            // What cannot be planned has no match: the index is not used.
            let Ok(Some(logical)) = planned(def, columns, schema, text) else { continue };
            if column.hidden == Some(Hidden::Expression) {
                values.expressions.extend(lower(schema, &logical).map(|e| (e, c)));
            } else {
                let parts = split_conjunction_owned(logical);
                let parts: Option<Vec<_>> = parts.iter().map(|part| lower(schema, part)).collect();
                values.conditions.extend(parts.map(|parts| (parts, c)));
            }
        }
        values
    }

    /// Expressions, each with the column that has its values.
    pub(crate) fn expressions(&self) -> &[(Arc<dyn PhysicalExpr>, u16)] {
        &self.expressions
    }

    /// The conditions that are true on all rows which pass `filters`.
    pub(crate) fn implied(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Vec<u16> {
        if self.conditions.is_empty() {
            return Vec::new();
        }
        let mut given = Vec::new();
        filters.iter().for_each(|f| conjuncts(f, &mut given));
        let holds = |parts: &[Arc<dyn PhysicalExpr>]| parts.iter().all(|p| given.contains(&p));
        self.conditions.iter().filter(|(parts, _)| holds(parts)).map(|(_, c)| *c).collect()
    }
}

fn conjuncts<'a>(e: &'a Arc<dyn PhysicalExpr>, out: &mut Vec<&'a Arc<dyn PhysicalExpr>>) {
    match e.downcast_ref::<BinaryExpr>() {
        Some(b) if *b.op() == Operator::And => {
            [b.left(), b.right()].into_iter().for_each(|e| conjuncts(e, out))
        }
        _ => out.push(e),
    }
}

/// An expression over a table's columns as the optimizer leaves it in a filter, over the fields of `schema`; `None` if a column of it
/// has no field.
fn planned(def: &TableDef, columns: &[u16], schema: &Schema, text: &str) -> Result<Option<Expr>> {
    let Some(functions) = FUNCTIONS.as_ref() else { return Ok(None) };
    let field = |(i, c): (usize, &ColumnDef)| {
        let name = if c.is_dropped { format!("{NAME_PREFIX}{i}") } else { c.name.clone() };
        Field::new(name, arrow_type(c.ty.data_type), c.ty.nullable)
    };
    let table =
        DFSchema::try_from(Schema::new(def.columns.iter().enumerate().map(field).collect::<Vec<_>>()))?;
    let mut is_whole = true;
    let renamed = functions.create_logical_expr(text, &table)?.transform(|e| {
        let Expr::Column(c) = &e else { return Ok(Transformed::no(e)) };
        let number = table.index_of_column(c)?;
        let place = columns.iter().position(|n| usize::from(*n) == number);
        is_whole &= place.is_some();
        Ok(match place {
            Some(place) => {
                Transformed::yes(Expr::Column(ColumnName::new_unqualified(schema.field(place).name())))
            }
            None => Transformed::no(e),
        })
    });
    let renamed = renamed.data()?;
    if !is_whole {
        return Ok(None);
    }
    let over = DFSchema::try_from(schema.clone())?;
    semantics::expression(renamed, &over).map(Some)
}
