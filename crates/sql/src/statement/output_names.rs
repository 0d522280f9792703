//! Names of the columns of a result, as PostgreSQL gives them: those of columns and functions, else `?column?`.
//!
//! ```text
//!   SELECT a, t.b, count(*), a + 1, CAST(1 AS INT), a::TEXT   ─►  a, b, count, ?column?, int4, a
//! ```
//!
//! Source: PostgreSQL 15, `FigureColname` in parse_target.c.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{DataType, Expr, Query, SelectItem, SetExpr, Value};

use super::fold;

const UNNAMED: &str = "?column?";

/// Names of the columns of a result. Columns in the place of `*` keep theirs.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputNames {
    /// From the first column on.
    first: Vec<String>,
    /// Up to the last column.
    last: Vec<String>,
    /// Whether all columns are named.
    all: bool,
}

impl OutputNames {
    /// The names of a query's columns; `None` if they are not known from its text.
    pub(crate) fn of(query: &Query) -> Option<Self> {
        let mut body = query.body.as_ref();
        loop {
            body = match body {
                SetExpr::Query(query) => query.body.as_ref(),
                SetExpr::SetOperation { left, .. } => left,
                SetExpr::Select(select) => return Some(Self::of_items(&select.projection)),
                _ => return None,
            };
        }
    }

    /// These names, one for each column.
    pub(crate) fn of_all(names: Vec<String>) -> Self {
        Self { first: names, last: Vec::new(), all: true }
    }

    /// The name of the first column, if it is known.
    pub(crate) fn first_name(self) -> Option<String> {
        self.first.into_iter().next()
    }

    /// The names of these columns.
    pub(crate) fn of_items(items: &[SelectItem]) -> Self {
        let name = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(e) => Some(figured(e)),
            SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        };
        let first: Vec<String> = items.iter().map_while(name).collect();
        let all = first.len() == items.len();
        let mut last: Vec<String> = items.iter().rev().map_while(name).collect();
        last.reverse();
        Self { first, last: if all { Vec::new() } else { last }, all }
    }

    /// `schema` with these names.
    pub(crate) fn name(&self, schema: &SchemaRef) -> SchemaRef {
        let columns = schema.fields().len();
        let fits = match self.all {
            true => self.first.len() == columns,
            false => self.first.len() + self.last.len() <= columns,
        };
        if !fits {
            return schema.clone();
        }
        let name_of = |i: usize| match self.first.get(i) {
            Some(name) => Some(name),
            None => (i + self.last.len()).checked_sub(columns).map(|i| &self.last[i]),
        };
        let same = |(i, f): (usize, &Arc<_>)| {
            let f: &datafusion::arrow::datatypes::Field = f;
            name_of(i).is_none_or(|name| name == f.name())
        };
        if schema.fields().iter().enumerate().all(same) {
            return schema.clone();
        }
        let fields = schema.fields().iter().enumerate().map(|(i, f)| match name_of(i) {
            Some(name) => Arc::new(f.as_ref().clone().with_name(name)),
            None => f.clone(),
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }
}

/// The name of an expression without an alias, if it has one.
pub(crate) fn column_name(e: &Expr) -> Option<String> {
    figure(e).map(|(name, _)| name)
}

/// The name of an expression without an alias.
fn figured(e: &Expr) -> String {
    figure(e).map_or_else(|| UNNAMED.to_owned(), |(name, _)| name)
}

/// The name, and whether it is a strong one: that of a column or a function, which a cast keeps.
fn figure(e: &Expr) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    let weak = |name: &str| Some((name.to_owned(), false));
    match e {
        Expr::Identifier(name) => Some((fold(name), true)),
        Expr::CompoundIdentifier(names) => names.last().map(|name| (fold(name), true)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Function(f) => {
            let name = f.name.0.last().and_then(|part| part.as_ident()).map(fold)?;
            Some((name, true))
        }
        Expr::Cast { expr, data_type, .. } => match figure(expr) {
            Some((name, true)) => Some((name, true)),
            _ => Some((type_name(data_type), false)),
        },
        Expr::TypedString(typed) => Some((type_name(&typed.data_type), false)),
        Expr::Interval(_) => weak("interval"),
        Expr::Value(v) if matches!(v.value, Value::Boolean(_)) => weak("bool"),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(figure) {
            Some((name, true)) => Some((name, true)),
            _ => weak("case"),
        },
        Expr::Exists { .. } => strong("exists"),
        Expr::Subquery(query) => {
            let names = OutputNames::of(query)?;
            names.first.into_iter().next().filter(|name| name != UNNAMED).map(|name| (name, true))
        }
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Trim { trim_where, .. } => strong(match trim_where.map(|w| w.to_string()).as_deref() {
            Some("LEADING") => "ltrim",
            Some("TRAILING") => "rtrim",
            _ => "btrim",
        }),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        _ => None,
    }
}

/// The name that PostgreSQL's catalog has for a type.
fn type_name(t: &DataType) -> String {
    let name = match t {
        DataType::Boolean | DataType::Bool => "bool",
        DataType::SmallInt(_) | DataType::Int2(_) => "int2",
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4",
        DataType::BigInt(_) | DataType::Int8(_) => "int8",
        DataType::Real | DataType::Float4 => "float4",
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => "float8",
        DataType::Decimal(_) | DataType::Numeric(_) | DataType::Dec(_) => "numeric",
        DataType::Text | DataType::String(_) => "text",
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => "varchar",
        DataType::Char(_) | DataType::Character(_) => "bpchar",
        DataType::Bytea => "bytea",
        DataType::Date => "date",
        DataType::Timestamp(..) => "timestamp",
        DataType::Time(..) => "time",
        DataType::Interval { .. } => "interval",
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Statement;
    use datafusion::sql::sqlparser::ast::Statement as Sql;

    #[test]
    fn columns_have_the_names_that_postgresql_gives_them() {
        let check = |sql: &str, expected: &[&str]| {
            let statement = Statement::parse(sql).unwrap().remove(0);
            let Some(Sql::Query(query)) = statement.sql() else { panic!("{sql}") };
            assert_eq!(OutputNames::of(query).unwrap().first, expected, "{sql}");
        };
        check("SELECT a, t.b, T.C AS d, \"E\"", &["a", "b", "d", "E"]);
        check(
            "SELECT count(*), sum(a) + 1, -a, 1, NULL",
            &["count", "?column?", "?column?", "?column?", "?column?"],
        );
        check("SELECT CAST(1 AS INT), a::TEXT, '1'::BIGINT, (a)", &["int4", "a", "int8", "a"]);
        check("SELECT CASE WHEN a THEN 1 END, CASE WHEN a THEN b ELSE c END", &["case", "c"]);
        check("SELECT EXISTS (SELECT 1), (SELECT max(a) FROM t), (SELECT 1)", &["exists", "max", "?column?"]);
        check(
            "SELECT true, DATE '2020-01-01', a IS NULL, coalesce(a, 1)",
            &["bool", "date", "?column?", "coalesce"],
        );
        check("SELECT a FROM t UNION SELECT b FROM u", &["a"]);
    }
}
