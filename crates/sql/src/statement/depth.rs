//! The depth of a statement's tree, bounded from its tokens before anything recurses over it.
//!
//! `a OR b OR c` is a tree as deep as it has operators. Planner, optimizer and evaluator recurse over it, and a stack
//! overflow ends the process. So the depth is limited, and deep statements run on a stack of their own
//! ([`crate::threads::on_deep_stack`]).

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::SqlError;

/// The deepest tree that Lode accepts.
pub(crate) const DEPTH_MAX: usize = 1000;

/// One pair of parentheses, or the statement itself.
#[derive(Default)]
struct Level {
    /// Joins and set operations: they nest over the whole level.
    tables: usize,
    /// AND and OR since the last comma.
    chain: usize,
    /// Other operators since the last AND, OR or comma.
    run: usize,
    in_from: bool,
}

impl Level {
    fn depth(&self) -> usize {
        self.tables + self.chain + self.run + 1
    }
}

/// An upper bound of the depth of the deepest statement.
///
/// # Errors
/// [`SqlError::Syntax`] at the token where it exceeds [`DEPTH_MAX`].
pub(super) fn depth(tokens: &[TokenWithSpan]) -> Result<usize, SqlError> {
    let mut open = vec![Level::default()];
    let (mut below, mut deepest) = (0, 0);
    for token in tokens {
        let outermost = open.len() == 1;
        let level = open.last_mut().expect("the statement's own level stays open");
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket => {
                below += level.depth();
                open.push(Level::default());
            }
            Token::RParen | Token::RBracket if !outermost => {
                open.pop();
                below -= open.last().map_or(0, Level::depth);
            }
            Token::SemiColon => {
                (open, below) = (vec![Level::default()], 0);
            }
            Token::Comma => {
                level.tables += usize::from(level.in_from);
                (level.chain, level.run) = (0, 0);
            }
            Token::Word(Word { keyword, quote_style: None, .. }) => match keyword {
                Keyword::AND | Keyword::OR => {
                    level.chain += 1;
                    level.run = 0;
                }
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                    level.tables += 1;
                    (level.chain, level.run, level.in_from) = (0, 0, false);
                }
                Keyword::JOIN => level.tables += 1,
                Keyword::FROM => level.in_from = true,
                Keyword::WHERE | Keyword::SELECT | Keyword::GROUP | Keyword::ORDER | Keyword::SET => {
                    (level.chain, level.run, level.in_from) = (0, 0, false);
                }
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE => level.run = 0,
                Keyword::NOT | Keyword::IS | Keyword::LIKE | Keyword::IN | Keyword::CASE => level.run += 1,
                _ => {}
            },
            Token::Word(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::Period
            | Token::RParen
            | Token::RBracket
            | Token::EOF => {}
            // All other tokens are operators, or count as one.
            _ => level.run += 1,
        }
        let now = below + open.last().map_or(0, Level::depth);
        if now > DEPTH_MAX {
            return Err(SqlError::Syntax {
                line: token.span.start.line,
                column: token.span.start.column,
                message: format!("the statement nests more than {DEPTH_MAX} operators, joins or parentheses"),
            });
        }
        deepest = deepest.max(now);
    }
    Ok(deepest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn depth_of(sql: &str) -> Result<usize, SqlError> {
        let dialect = PostgreSqlDialect {};
        depth(&Tokenizer::new(&dialect, sql).tokenize_with_location().unwrap())
    }

    #[test]
    fn chains_and_nests_are_deep_and_lists_are_not() {
        let check = |sql: &str, at_least: usize, at_most: usize| {
            let got = depth_of(sql).unwrap();
            assert!((at_least..=at_most).contains(&got), "{got}: {sql}");
        };
        let many = |item: &str, between: &str| vec![item; 300].join(between);
        check(&format!("SELECT {}", many("a", " + ")), 299, 310);
        check(&format!("SELECT 1 WHERE {}", many("a = 1", " OR ")), 299, 310);
        check(&format!("SELECT 1 FROM {}", many("t", ", ")), 299, 310);
        check(&format!("SELECT 1 FROM {}", many("t", " CROSS JOIN ")), 299, 310);
        check(&many("SELECT a, b FROM t", " UNION ALL "), 299, 310);
        check(&format!("SELECT {}", vec!["(1"; 100].join("+ ")), 100, 220);
        check(&format!("SELECT {} WHERE a IN ({})", many("a + 1", ", "), many("1", ", ")), 1, 6);
        check(&format!("INSERT INTO t VALUES {}", many("(1, -2)", ", ")), 1, 6);
        check(&many("SELECT a + b", "; "), 1, 6);
        let cases = many("WHEN a = 1 THEN 2", " ");
        check(&format!("SELECT CASE {cases} END"), 1, 6);
    }

    #[test]
    fn bottomless_statements_are_refused_with_their_place() {
        let sql = format!("SELECT\n{}", vec!["a"; 2000].join("+"));
        let e = depth_of(&sql).unwrap_err().to_string();
        assert!(e.starts_with("syntax error at line 2, column 2000"), "{e}");
    }
}
