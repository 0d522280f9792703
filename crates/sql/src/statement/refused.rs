//! Statements of PostgreSQL that Lode does not have, and that sqlparser has no tree for. They are told by their first words: else a script
//! would hear of a syntax error.

use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::dialect::LodeDialect;

/// First words of such statements.
const REFUSED: [&[&str]; 30] = [
    &["do"],
    &["create", "rule"],
    &["create", "or", "replace", "rule"],
    &["drop", "rule"],
    &["create", "unlogged", "table"],
    &["create", "statistics"],
    &["drop", "statistics"],
    &["create", "procedure"],
    &["create", "or", "replace", "procedure"],
    &["create", "function"],
    &["create", "or", "replace", "function"],
    &["create", "aggregate"],
    &["create", "cast"],
    &["create", "collation"],
    &["create", "event"],
    &["create", "foreign"],
    &["create", "language"],
    &["create", "publication"],
    &["create", "subscription"],
    &["create", "tablespace"],
    &["create", "text", "search"],
    &["create", "access", "method"],
    &["prepare", "transaction"],
    &["commit", "prepared"],
    &["rollback", "prepared"],
    &["alter", "default", "privileges"],
    &["reassign", "owned"],
    &["security", "label"],
    &["import", "foreign"],
    &["cluster"],
];

/// What the next statement is, if it is one of these. The parser then stands behind it.
pub(super) fn skip(parser: &mut Parser<'_>) -> Option<String> {
    let word = |n: usize| match &parser.peek_nth_token_ref(n).token {
        Token::Word(w) if w.quote_style.is_none() => Some(w.value.to_lowercase()),
        _ => None,
    };
    let begins = |words: &&&[&str]| words.iter().enumerate().all(|(n, w)| word(n).as_deref() == Some(w));
    let words = REFUSED.iter().find(begins)?;
    let mut depth = 0;
    loop {
        match &parser.peek_token_ref().token {
            Token::EOF => break,
            Token::SemiColon if depth <= 0 => break,
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        parser.next_token();
    }
    Some(words.join(" ").to_uppercase())
}

/// Clauses that the parser does not know.
const CLAUSES: [&[&str]; 2] = [&["where", "current", "of"], &["exclude", "using"]];

/// The clause of PostgreSQL that the parser has stopped within, or right behind. Lode has none of these.
pub(super) fn at(script: &str, line: u64, column: u64) -> Option<String> {
    let tokens = Tokenizer::new(&LodeDialect, script).tokenize_with_location().ok()?;
    let tokens: Vec<_> = tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
    let stopped = tokens.iter().position(|t| (t.span.start.line, t.span.start.column) == (line, column))?;
    let is = |at: usize, word: &str| match &tokens[at].token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    let begins = |words: &[&str], at: usize| words.iter().enumerate().all(|(n, word)| is(at + n, word));
    let found = CLAUSES.iter().find(|words| {
        let first = (stopped + 1).saturating_sub(words.len() + 1);
        (first..=stopped).any(|at| at + words.len() <= tokens.len() && begins(words, at))
    })?;
    Some(found.join(" ").to_uppercase())
}

#[cfg(test)]
mod tests {
    use crate::statement::Statement;

    #[test]
    fn the_statements_around_one_that_is_refused_are_parsed() {
        let script = "SELECT 1; CREATE RULE r AS ON DELETE TO t DO (SELECT 1; SELECT 2); DO $$ BEGIN; END $$; SELECT 2";
        assert_eq!(Statement::parse(script).unwrap().len(), 4);
        assert_eq!(Statement::parse("SELECT \"do\" FROM t").unwrap().len(), 1);
    }
}
