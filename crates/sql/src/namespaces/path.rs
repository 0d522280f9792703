//! `search_path`: the schemas in which names without a schema are looked for.

use datafusion::sql::sqlparser::ast::{Expr, Ident, Value};

use crate::SqlError;
use crate::error::state;
use crate::names::{SCHEMA, fold, quoted};

/// What stands for a schema with the name of the user, which is passed over: there are no users.
const USER: &str = "$user";

/// The schemas of `search_path`, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPath(Vec<String>);

impl Default for SearchPath {
    fn default() -> Self {
        Self(vec![USER.into(), SCHEMA.into()])
    }
}

impl SearchPath {
    /// The path of `SET search_path = a, "b", 'c'`.
    pub(crate) fn of_values(values: &[Expr]) -> Result<Self, SqlError> {
        let schema = |value: &Expr| match value {
            Expr::Identifier(name) => Ok(fold(name)),
            Expr::Value(v) => match &v.value {
                Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => Ok(s.clone()),
                _ => Err(invalid(value)),
            },
            _ => Err(invalid(value)),
        };
        Ok(Self(values.iter().map(schema).collect::<Result<_, _>>()?))
    }

    /// The path that a text lists, as `set_config` takes it.
    pub(crate) fn of_text(text: &str) -> Result<Self, SqlError> {
        use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
        use datafusion::sql::sqlparser::parser::Parser;
        if text.trim().is_empty() {
            return Ok(Self(vec![String::new()]));
        }
        let parse = || {
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text)?;
            parser.parse_comma_separated(Parser::parse_identifier)
        };
        let names: Vec<Ident> = parse().map_err(|_| invalid(text))?;
        Ok(Self(names.iter().map(fold).collect()))
    }

    /// The schemas.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str).filter(|s| !s.is_empty() && *s != USER)
    }

    /// Whether names without a schema mean those of `public`, and only those.
    pub(crate) fn is_public(&self) -> bool {
        self.schemas().eq([SCHEMA])
    }

    /// The path as SHOW tells it.
    pub(crate) fn text(&self) -> String {
        let is_plain = |s: &str| {
            let starts = s.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
            starts && s.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let each = self.0.iter().map(|s| if is_plain(s) { s.clone() } else { quoted(s) });
        each.collect::<Vec<_>>().join(", ")
    }
}

fn invalid(value: impl std::fmt::Display) -> SqlError {
    let message = format!("search_path is a list of schemas, not {value}");
    SqlError::failed(state::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_as_it_can_be_set() {
        let check = |text: &str, told: &str, schemas: &[&str]| {
            let path = SearchPath::of_text(text).unwrap();
            assert_eq!(path.text(), told, "{text}");
            assert_eq!(path.schemas().collect::<Vec<_>>(), schemas, "{text}");
            assert_eq!(SearchPath::of_text(&path.text()).unwrap().schemas().collect::<Vec<_>>(), schemas);
        };
        check("a", "a", &["a"]);
        check("B, \"C d\" ,public", "b, \"C d\", public", &["b", "C d", "public"]);
        check("\"$user\", public", "\"$user\", public", &["public"]);
        check("", "\"\"", &[]);
        assert!(SearchPath::default().is_public());
        assert!(!SearchPath::of_text("public, a").unwrap().is_public());
        assert!(
            SearchPath::of_text("a b").is_ok_and(|p| p.text() == "a") || SearchPath::of_text("a b").is_err()
        );
    }
}
