//! The elements of an index, and of a target of ON CONFLICT: columns and expressions.

use datafusion::sql::sqlparser::ast::{CastKind, Expr, IndexColumn, ObjectName, Statement as Sql};
use lode_engine::{Hidden, TableDef};

use crate::error::state;
use crate::names::fold;
use crate::statement::Statement;
use crate::{SqlError, hidden_columns};

/// Operator classes that order as an index does anyway: texts are ordered by their bytes.
const OPERATOR_CLASSES: [&str; 13] = [
    "text_ops",
    "text_pattern_ops",
    "varchar_ops",
    "varchar_pattern_ops",
    "bpchar_ops",
    "bpchar_pattern_ops",
    "int2_ops",
    "int4_ops",
    "int8_ops",
    "numeric_ops",
    "date_ops",
    "timestamp_ops",
    "bool_ops",
];

/// What an index is on.
pub(crate) enum Element {
    /// A column of this name.
    Column(String),
    Expression(Box<Expr>),
}

impl Element {
    /// # Errors
    /// An operator class that orders in another way.
    pub(crate) fn of(column: &IndexColumn) -> Result<Self, SqlError> {
        if let Some(class) = &column.operator_class {
            let known = class.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
            if !OPERATOR_CLASSES.contains(&known.as_str()) {
                return Err(SqlError::Unsupported(format!("the operator class {class}")));
            }
        }
        let mut expr = &column.column.expr;
        if let Expr::BinaryOp { .. } | Expr::UnaryOp { .. } | Expr::Cast { kind: CastKind::DoubleColon, .. } =
            expr
        {
            let message = format!("an expression of an index stands in parentheses of its own: (({expr}))");
            return Err(SqlError::failed(state::SYNTAX_ERROR, message));
        }
        loop {
            expr = match expr {
                Expr::Nested(inner) => inner,
                Expr::Collate { expr, collation } if is_by_bytes(collation) => expr,
                Expr::Identifier(name) => return Ok(Element::Column(fold(name))),
                other => return Ok(Element::Expression(Box::new(other.clone()))),
            }
        }
    }
}

/// Whether a collation orders texts by their bytes.
fn is_by_bytes(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident()).map(|i| i.value.to_uppercase());
    name.is_some_and(|name| ["C", "POSIX", "UCS_BASIC"].contains(&name.as_str()))
}

/// What a target of ON CONFLICT asks for.
pub(crate) struct Target {
    /// Columns of the table. `None`: an expression that no index has.
    pub(crate) columns: Option<Vec<u16>>,
    /// The parts of its condition, which are joined by AND.
    conditions: Vec<String>,
}

impl Target {
    /// A target, given as `(elements) WHERE condition`.
    ///
    /// # Errors
    /// When it does not parse, or names a column that is not there.
    pub(crate) fn parse(text: &str, def: &TableDef) -> Result<Self, SqlError> {
        let parsed = Statement::parse(&format!("CREATE INDEX ON t {text}"))?.pop();
        let Some(Sql::CreateIndex(index)) = parsed.as_ref().and_then(|s| s.sql()) else {
            return Err(SqlError::Unsupported(format!("ON CONFLICT {text}")));
        };
        let number = |name: &str, hidden: Option<Hidden>| {
            let same = |c: &&(u16, &lode_engine::ColumnDef)| {
                c.1.name == name && c.1.hidden == hidden && !c.1.is_dropped
            };
            let all: Vec<_> = (0u16..).zip(&def.columns).collect();
            all.iter().find(same).map(|(i, _)| *i)
        };
        let mut columns = Some(Vec::new());
        for column in &index.columns {
            let found =
                match Element::of(column)? {
                    Element::Column(name) => Some(number(&name, None).ok_or_else(|| SqlError::NoColumn {
                        table: def.name.clone(),
                        column: name.clone(),
                    })?),
                    Element::Expression(e) => {
                        number(&hidden_columns::name_of(&e.to_string()), Some(Hidden::Expression))
                    }
                };
            columns = columns.zip(found).map(|(mut all, c)| {
                all.push(c);
                all
            });
        }
        let conditions = index.predicate.as_ref().map(hidden_columns::parts_of).unwrap_or_default();
        Ok(Self { columns, conditions })
    }

    /// A target of columns alone.
    pub(crate) fn of_columns(columns: Vec<u16>) -> Self {
        Self { columns: Some(columns), conditions: Vec::new() }
    }

    /// Whether the rows of a partial index with this condition are all rows with the condition of the target.
    pub(crate) fn implies(&self, condition: &str) -> bool {
        let parts = hidden_columns::parts_of_text(condition);
        parts.is_some_and(|parts| parts.iter().all(|part| self.conditions.contains(part)))
    }
}
