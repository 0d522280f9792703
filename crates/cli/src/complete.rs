//! The line editor's knowledge of SQL: where a statement ends, and which words can complete the word at the cursor.

use std::sync::{Arc, RwLock};

use lode_engine::Database;
use lode_sql::shown_name;
use rustyline::completion::{Completer, Pair};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Highlighter, Hinter};

use crate::split::{is_blank, statement_end};

const KEYWORDS: &str = "ALL ANALYZE AND AS ASC BEGIN BETWEEN BIGINT BOOLEAN BY BYTEA CASE CAST CHAR COLUMN COPY COUNT \
    CREATE CROSS CSV DATE DECIMAL DELETE DESC DESCRIBE DISTINCT DOUBLE DROP ELSE END EXCEPT EXISTS EXPLAIN EXTRACT \
    FALSE FORMAT FROM FULL GROUP HAVING HEADER IF IN INDEX INNER INSERT INTEGER INTERSECT INTERVAL INTO IS JOIN KEY \
    LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER OVER PARQUET PARTITION PRIMARY REAL RIGHT SELECT SET SHOW \
    SMALLINT SUBSTRING SUM TABLE TABLES TEXT THEN TIMESTAMP TO TRUE TRUNCATE UNION UPDATE USING VALUES VARCHAR WHEN \
    WHERE WITH AVG MIN MAX lode.offload page_index";

/// The helper of the line editor.
#[derive(Helper, Hinter, Highlighter)]
pub(crate) struct SqlHelper {
    names: Arc<RwLock<Vec<String>>>,
}

impl SqlHelper {
    /// A helper that completes keywords and these names of tables and columns.
    pub(crate) fn new(names: Arc<RwLock<Vec<String>>>) -> Self {
        Self { names }
    }
}

/// The names of all tables and columns, sorted.
pub(crate) fn names(database: &Database) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(snapshot) = database.snapshot() {
        for table in snapshot.tables() {
            names.push(shown_name(table.name()));
            names.extend(table.def().columns.iter().map(|c| c.name.clone()));
        }
    }
    names.sort();
    names.dedup();
    names
}

/// The completions of the last word of `line`, and the offset at which that word starts.
fn candidates(line: &str, names: &[String]) -> (usize, Vec<String>) {
    let start = line
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |i| i + line[i..].chars().next().map_or(1, char::len_utf8));
    let word = &line[start..];
    if word.is_empty() {
        return (start, Vec::new());
    }
    let lower = word.to_lowercase();
    let shouted = !word.chars().any(char::is_lowercase);
    let mut found: Vec<String> =
        names.iter().filter(|n| n.to_lowercase().starts_with(&lower)).cloned().collect();
    for keyword in KEYWORDS.split_whitespace().filter(|k| k.to_lowercase().starts_with(&lower)) {
        found.push(if shouted { keyword.to_string() } else { keyword.to_lowercase() });
    }
    found.dedup();
    (start, found)
}

impl Completer for SqlHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let names = self.names.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (start, found) = candidates(&line[..pos], &names);
        Ok((start, found.into_iter().map(|w| Pair { display: w.clone(), replacement: w }).collect()))
    }
}

impl Validator for SqlHelper {
    fn validate(&self, input: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = input.input();
        let whole = text.trim_start().starts_with('\\') || is_blank(text) || statement_end(text).is_some();
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_keywords_in_the_case_that_was_typed() {
        let names: Vec<String> = ["lineitem", "l_orderkey", "größe"].map(String::from).to_vec();
        let check = |line: &str, start: usize, expected: &[&str]| {
            assert_eq!(
                candidates(line, &names),
                (start, expected.iter().map(|s| s.to_string()).collect()),
                "{line}"
            );
        };
        check("select l", 7, &["lineitem", "l_orderkey", "left", "like", "limit", "lode.offload"]);
        check("SELECT * FROM t WHERE l_o", 22, &["l_orderkey"]);
        check("SEL", 0, &["SELECT"]);
        check("sum(gr", 4, &["größe", "group"]);
        check("é+lim", 3, &["limit"]);
        check("select ", 7, &[]);
    }
}
