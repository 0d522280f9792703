//! FETCH and MOVE, whose grammar the parser knows in part only.
//!
//! ```text
//!   FETCH | MOVE  [NEXT | PRIOR | FIRST | LAST | ABSOLUTE n | RELATIVE n | n | ALL
//!                  | FORWARD [n | ALL] | BACKWARD [n | ALL]]  [FROM | IN]  cursor
//! ```

use datafusion::sql::sqlparser::ast::{
    FetchDirection, FetchPosition, Statement as Sql, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Parses what follows FETCH or MOVE.
///
/// # Errors
/// Anything else.
pub(super) fn parse_fetch(parser: &mut Parser<'_>) -> Result<Sql, ParserError> {
    let direction = direction(parser)?;
    let position = match parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]) {
        Some(Keyword::IN) => FetchPosition::In,
        _ => FetchPosition::From,
    };
    Ok(Sql::Fetch { name: parser.parse_identifier()?, direction, position, into: None })
}

fn direction(parser: &mut Parser<'_>) -> Result<FetchDirection, ParserError> {
    use Keyword::{ABSOLUTE, ALL, BACKWARD, FIRST, FORWARD, LAST, NEXT, PRIOR, RELATIVE};
    if let Some(limit) = number(parser)? {
        return Ok(FetchDirection::Count { limit });
    }
    // A cursor may have one of these names: then nothing follows it.
    if matches!(parser.peek_nth_token(1).token, Token::SemiColon | Token::EOF) {
        return Ok(FetchDirection::Next);
    }
    let words = [NEXT, PRIOR, FIRST, LAST, ABSOLUTE, RELATIVE, FORWARD, BACKWARD, ALL];
    Ok(match parser.parse_one_of_keywords(&words) {
        Some(PRIOR) => FetchDirection::Prior,
        Some(FIRST) => FetchDirection::First,
        Some(LAST) => FetchDirection::Last,
        Some(ABSOLUTE) => FetchDirection::Absolute { limit: needed(parser)? },
        Some(RELATIVE) => FetchDirection::Relative { limit: needed(parser)? },
        Some(FORWARD) if parser.parse_keyword(ALL) => FetchDirection::ForwardAll,
        Some(FORWARD) => FetchDirection::Forward { limit: number(parser)? },
        Some(BACKWARD) if parser.parse_keyword(ALL) => FetchDirection::BackwardAll,
        Some(BACKWARD) => FetchDirection::Backward { limit: number(parser)? },
        Some(ALL) => FetchDirection::All,
        _ => FetchDirection::Next,
    })
}

fn needed(parser: &mut Parser<'_>) -> Result<ValueWithSpan, ParserError> {
    match number(parser)? {
        Some(n) => Ok(n),
        None => parser.expected("a number of rows", parser.peek_token()),
    }
}

/// A number with a sign, if one follows.
fn number(parser: &mut Parser<'_>) -> Result<Option<ValueWithSpan>, ParserError> {
    let sign = match parser.peek_token().token {
        Token::Minus => "-",
        Token::Plus => "",
        Token::Number(..) => return Ok(Some(parser.parse_number_value()?)),
        _ => return Ok(None),
    };
    parser.next_token();
    let n = parser.parse_number_value()?;
    let Value::Number(digits, long) = &n.value else { return Ok(Some(n)) };
    Ok(Some(Value::Number(format!("{sign}{digits}"), *long).with_span(n.span)))
}
