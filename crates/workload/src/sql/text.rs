//! Statements with parameters: prepared, or written out as text for each execution.
//!
//! ```text
//!   "... WHERE a = $1" ─► Template ─► with values: "... WHERE a = 7"
//!                └─► Statement: prepared, or a Template whose text is executed
//! ```

use lode_base::calendar::civil;

use super::{Answer, SqlConnection, StatementId, Value};
use crate::store::StoreResult;

/// How statements with parameters are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// As prepared statements.
    Prepared,
    /// As text that holds the values.
    Text,
}

impl Style {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Text => "text",
        }
    }
}

/// A text with parameters.
#[derive(Clone, Debug)]
pub struct Template {
    /// The text before the first parameter, and after each one.
    texts: Vec<String>,
    /// The numbers of the parameters, from 0, in the order of the text.
    params: Vec<usize>,
}

impl Template {
    /// A text with parameters `$1`, `$2` and so on. It holds no other `$`.
    ///
    /// # Panics
    /// If a `$` is followed by no number from 1.
    pub fn new(sql: &str) -> Self {
        let mut parts = sql.split('$');
        let mut all = Self { texts: vec![parts.next().unwrap_or_default().into()], params: Vec::new() };
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let number = part[..digits].parse::<usize>().ok().filter(|n| *n > 0);
            all.params.push(number.expect("a parameter has a number from 1") - 1);
            all.texts.push(part[digits..].into());
        }
        all
    }

    /// The text with these values.
    ///
    /// # Panics
    /// If a parameter has no value.
    pub fn with(&self, values: &[Value]) -> String {
        let mut sql = self.texts[0].clone();
        for (param, text) in self.params.iter().zip(&self.texts[1..]) {
            push_literal(&mut sql, &values[*param]);
            sql += text;
        }
        sql
    }
}

fn push_literal(sql: &mut String, value: &Value) {
    use std::fmt::Write;
    let written = match value {
        Value::Null => write!(sql, "NULL"),
        Value::Int(n) => write!(sql, "{n}"),
        Value::Real(n) => write!(sql, "{n:?}"),
        Value::Text(text) => write!(sql, "'{}'", text.replace('\'', "''")),
        Value::Time(us) => write!(sql, "TIMESTAMP '{}'", time_text(*us)),
    };
    written.expect("a String takes what is written");
}

/// A point in time as `2024-02-29 01:02:03.000004`.
pub fn time_text(us: i64) -> String {
    const DAY_US: i64 = 86_400_000_000;
    let (days, rest) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}.{fraction:06}")
}

/// A statement of a connection in a style.
#[derive(Clone, Debug)]
pub enum Statement {
    /// It is prepared.
    Prepared(StatementId),
    /// Its text is written out for each execution.
    Text(Template),
}

impl Statement {
    /// Makes a statement ready.
    ///
    /// # Errors
    /// As the connection.
    pub fn new(connection: &mut dyn SqlConnection, style: Style, sql: &str) -> StoreResult<Self> {
        Ok(match style {
            Style::Prepared => Self::Prepared(connection.prepare(sql)?),
            Style::Text => Self::Text(Template::new(sql)),
        })
    }

    /// Executes it on its connection.
    ///
    /// # Errors
    /// As the connection.
    pub fn execute(&self, connection: &mut dyn SqlConnection, params: &[Value]) -> StoreResult<Answer> {
        match self {
            Self::Prepared(id) => connection.execute(*id, params),
            Self::Text(template) => connection.execute_text(&template.with(params)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_their_parameters_stood() {
        let values = [Value::Int(-7), Value::from("it's"), Value::Null, Value::Time(0)];
        let check = |sql: &str, expected: &str| assert_eq!(Template::new(sql).with(&values), expected);
        check("SELECT 1", "SELECT 1");
        check("a = $1 AND b = $2", "a = -7 AND b = 'it''s'");
        check("($3, $4, $1, $1)", "(NULL, TIMESTAMP '1970-01-01 00:00:00.000000', -7, -7)");
    }

    #[test]
    fn points_in_time_are_read_well() {
        let check = |us: i64, text: &str| assert_eq!(time_text(us), text);
        check(1_709_168_523_000_004, "2024-02-29 01:02:03.000004");
        check(951_782_400_000_000, "2000-02-29 00:00:00.000000");
        check(-1, "1969-12-31 23:59:59.999999");
        check(4_107_542_400_000_000, "2100-03-01 00:00:00.000000");
    }
}
