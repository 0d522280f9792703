//! Phrases by which errors of the libraries are told apart that differ in nothing else. No other file looks at an error's text.
//!
//! DataFusion's planner has one kind of error, `Plan(String)`, for most of what can be wrong with a query; some of its operators
//! have `Execution(String)`. sqlparser writes the place of a syntax error at the end of its text. Lode checks what it can before
//! DataFusion does (`statement/resolve.rs`, `semantics/operands.rs`, `semantics/checked_cast.rs`). What is left needs the types
//! of a whole plan, or its rows.
//!
//! Each phrase has a query that leads to it. The test runs the queries, so it fails when a library changes its words.

use super::state;

/// Errors that contain `text` have this SQLSTATE.
struct Phrase {
    text: &'static str,
    state: &'static str,
    /// A query over a table `t (a INTEGER, b TEXT)` that fails so.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test runs it"))]
    example: &'static str,
}

/// Begins the list of an unknown function's argument types.
const NO_FUNCTION: &str = "No function matches the given name and argument types '";

/// Ends the error of a list of names that is not as long as the columns are many. PostgreSQL lets it be shorter.
const NAMES_GIVEN: &str = "names given as column alias";

/// Whether such an error tells of fewer names than columns: `contains 3 columns but only 2 names given`.
fn names_fewer(text: &str) -> bool {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok());
    matches!(numbers.collect::<Vec<_>>()[..], [columns, names, ..] if names < columns)
}

const PHRASES: &[Phrase] = &[
    Phrase { text: NO_FUNCTION, state: state::UNDEFINED_FUNCTION, example: "SELECT upper(1, 2)" },
    // Outside of a query. Within one the error tells the function by itself.
    Phrase {
        text: "Invalid function '",
        state: state::UNDEFINED_FUNCTION,
        example: "SELECT nosuch(a) FROM t",
    },
    Phrase {
        text: "Unary operator '-' only supports",
        state: state::UNDEFINED_FUNCTION,
        example: "SELECT -b FROM t",
    },
    Phrase {
        text: "must be in GROUP BY or an aggregate function",
        state: state::GROUPING_ERROR,
        example: "SELECT a FROM t GROUP BY b",
    },
    Phrase {
        text: "must appear in the GROUP BY clause or be used in an aggregate function",
        state: state::GROUPING_ERROR,
        example: "SELECT a FROM t HAVING a > 1",
    },
    Phrase {
        text: "must appear in select list",
        state: state::INVALID_COLUMN_REFERENCE,
        example: "SELECT DISTINCT a FROM t ORDER BY b",
    },
    Phrase {
        text: "Cannot create filter with non-boolean predicate",
        state: state::DATATYPE_MISMATCH,
        example: "SELECT a FROM t WHERE a",
    },
    Phrase {
        text: "Unary operator 'NOT' requires a boolean expression",
        state: state::DATATYPE_MISMATCH,
        example: "SELECT NOT a FROM t",
    },
    Phrase {
        text: "regex parse error",
        state: state::INVALID_REGULAR_EXPRESSION,
        example: "SELECT b ~ '(' FROM t",
    },
    Phrase {
        text: " DISTINCT FROM ",
        state: state::UNDEFINED_FUNCTION,
        example: "SELECT a IS DISTINCT FROM true FROM t",
    },
    // `semantics/operands.rs` finds it of operators. EXCEPT and INTERSECT are left.
    Phrase {
        text: "Cannot infer common argument type for comparison operation",
        state: state::DATATYPE_MISMATCH,
        example: "SELECT a FROM t EXCEPT SELECT true",
    },
    Phrase {
        text: "queries have different number of columns",
        state: state::SYNTAX_ERROR,
        example: "SELECT * FROM t UNION SELECT a FROM t",
    },
    Phrase {
        text: "Timestamp out of range",
        state: state::DATETIME_FIELD_OVERFLOW,
        example: "SELECT TIMESTAMP '2024-01-01' + INTERVAL '300000 years'",
    },
    Phrase {
        text: "The subquery should only return one column",
        state: state::SYNTAX_ERROR,
        example: "SELECT (SELECT * FROM t)",
    },
    Phrase {
        text: "Scalar subquery returned more than one row",
        state: state::CARDINALITY_VIOLATION,
        example: "SELECT (SELECT a FROM t)",
    },
    Phrase {
        text: "Correlated scalar subquery must be aggregated to return at most one row",
        state: state::CARDINALITY_VIOLATION,
        example: "SELECT (SELECT u.a FROM t AS u WHERE u.b = t.b) FROM t",
    },
    Phrase {
        text: "Projections require unique expression names",
        state: state::FEATURE_NOT_SUPPORTED,
        example: "SELECT a AS x, b AS x FROM t",
    },
    Phrase { text: "SELECT * with no tables specified", state: state::SYNTAX_ERROR, example: "SELECT *" },
    Phrase { text: "Invalid qualifier ", state: state::UNDEFINED_TABLE, example: "SELECT u.* FROM t" },
    Phrase {
        text: "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
        state: state::INVALID_COLUMN_REFERENCE,
        example: "SELECT DISTINCT ON (a) a FROM t ORDER BY b",
    },
    Phrase {
        text: NAMES_GIVEN,
        state: state::INVALID_COLUMN_REFERENCE,
        example: "SELECT * FROM t AS x (p, q, r)",
    },
    Phrase {
        text: " is not defined!",
        state: state::UNDEFINED_OBJECT,
        example: "SELECT sum(a) OVER w FROM t",
    },
    Phrase {
        text: " is defined multiple times!",
        state: state::WINDOWING_ERROR,
        example: "SELECT sum(a) OVER w FROM t WINDOW w AS (), w AS ()",
    },
];

/// The SQLSTATE of an error with this text, where a phrase tells it.
pub(super) fn sqlstate(text: &str) -> Option<&'static str> {
    if text.contains(NAMES_GIVEN) && names_fewer(text) {
        return Some(state::FEATURE_NOT_SUPPORTED);
    }
    PHRASES.iter().find(|p| text.contains(p.text)).map(|p| p.state)
}

/// A shorter message in the place of DataFusion's list of all signatures that a function has.
pub(super) fn clearer(message: &str) -> Option<String> {
    let (_, after) = message.split_once(NO_FUNCTION)?;
    let (call, _) = after.split_once('\'')?;
    Some(format!("function {call} does not exist"))
}

/// A message of sqlparser and the place (line, column) at its end: `... at Line: 1, Column: 8`.
pub(super) fn split_place(text: &str) -> (&str, Option<(u64, u64)>) {
    let place = text.rfind(" at Line: ").and_then(|at| {
        let (line, column) = text[at + " at Line: ".len()..].split_once(", Column: ")?;
        Some((at, line.trim().parse().ok()?, column.trim().parse().ok()?))
    });
    match place {
        Some((at, line, column)) => (&text[..at], Some((line, column))),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::{Parser, ParserError};

    use super::*;

    #[tokio::test]
    async fn the_libraries_still_use_these_words() {
        let context = SessionContext::new();
        let rows = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x'), (2, 'x')) AS t (a, b)";
        context.sql(rows).await.unwrap().collect().await.unwrap();
        for phrase in PHRASES {
            let failed = match context.sql(phrase.example).await {
                Ok(query) => query.collect().await.map(|_| ()),
                Err(e) => Err(e),
            };
            let text = failed.expect_err(phrase.example).to_string();
            assert!(text.contains(phrase.text), "{}: {text}", phrase.example);
        }
    }

    #[test]
    fn sqlparser_still_writes_the_place_at_the_end() {
        let failed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT 1\nFROM 1").unwrap_err();
        let ParserError::ParserError(text) = failed else { panic!("{failed}") };
        assert_eq!(split_place(&text).1, Some((2, 6)), "{text}");
    }

    #[test]
    fn an_unknown_function_is_named_with_its_types() {
        let message =
            "Function 'f' expects 1. No function matches the given name and argument types 'f(INTEGER)'. You";
        assert_eq!(clearer(message).as_deref(), Some("function f(INTEGER) does not exist"));
        assert_eq!(clearer("something else"), None);
    }
}
