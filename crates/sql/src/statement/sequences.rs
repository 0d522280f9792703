//! CREATE SEQUENCE and ALTER SEQUENCE. sqlparser takes the options of the first in one order only, and does not know the second.

use datafusion::sql::sqlparser::ast::{DataType, Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// An option of CREATE SEQUENCE, ALTER SEQUENCE or an IDENTITY column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SequenceOption {
    /// `AS type`.
    As(DataType),
    /// `INCREMENT [BY] n`.
    Increment(i64),
    /// `MINVALUE n`, or `NO MINVALUE`.
    Min(Option<i64>),
    /// `MAXVALUE n`, or `NO MAXVALUE`.
    Max(Option<i64>),
    /// `START [WITH] n`.
    Start(i64),
    /// `RESTART [[WITH] n]`.
    Restart(Option<i64>),
    /// `CACHE n`.
    Cache(i64),
    /// `CYCLE`, or `NO CYCLE`.
    Cycle(bool),
    /// `OWNED BY table.column`, or `OWNED BY NONE`.
    OwnedBy(Option<ObjectName>),
}

/// CREATE SEQUENCE or ALTER SEQUENCE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SequenceStatement {
    /// Whether it is CREATE SEQUENCE.
    pub(crate) creates: bool,
    /// Whether it is CREATE TEMPORARY SEQUENCE.
    pub(crate) temporary: bool,
    /// IF NOT EXISTS of the first, IF EXISTS of the second.
    pub(crate) if_exists: bool,
    pub(crate) name: ObjectName,
    pub(crate) options: Vec<SequenceOption>,
    /// The new name of ALTER SEQUENCE ... RENAME TO.
    pub(crate) rename: Option<Ident>,
}

/// Whether the next statement is one of these.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    let word = |n: usize, text: &str| match &parser.peek_nth_token_ref(n).token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text),
        _ => false,
    };
    let temporary = word(1, "temporary") || word(1, "temp");
    word(0, "create") && temporary && word(2, "sequence")
        || (word(0, "create") || word(0, "alter")) && word(1, "sequence")
}

/// Parses one of these.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<SequenceStatement, ParserError> {
    let creates = parser.parse_keyword(Keyword::CREATE);
    if !creates {
        parser.expect_keyword_is(Keyword::ALTER)?;
    }
    let temporary = creates && parser.parse_one_of_keywords(&[Keyword::TEMPORARY, Keyword::TEMP]).is_some();
    parser.expect_keyword_is(Keyword::SEQUENCE)?;
    let if_exists = match creates {
        true => parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]),
        false => parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]),
    };
    let name = parser.parse_object_name(false)?;
    if !creates && parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        let rename = Some(parser.parse_identifier()?);
        return Ok(SequenceStatement { creates, temporary, if_exists, name, options: Vec::new(), rename });
    }
    let mut options = Vec::new();
    while let Some(option) = option(parser, creates)? {
        options.push(option);
    }
    if !creates && options.is_empty() {
        return parser.expected_ref("an option of the sequence", parser.peek_token_ref());
    }
    Ok(SequenceStatement { creates, temporary, if_exists, name, options, rename: None })
}

pub(super) fn option(parser: &mut Parser<'_>, creates: bool) -> Result<Option<SequenceOption>, ParserError> {
    if parser.parse_keyword(Keyword::AS) {
        return Ok(Some(SequenceOption::As(parser.parse_data_type()?)));
    }
    if parser.parse_keyword(Keyword::INCREMENT) {
        let _ = parser.parse_keyword(Keyword::BY);
        return Ok(Some(SequenceOption::Increment(number(parser)?)));
    }
    if parser.parse_keyword(Keyword::MINVALUE) {
        return Ok(Some(SequenceOption::Min(Some(number(parser)?))));
    }
    if parser.parse_keyword(Keyword::MAXVALUE) {
        return Ok(Some(SequenceOption::Max(Some(number(parser)?))));
    }
    if parser.parse_keyword(Keyword::NO) {
        return match parser.parse_one_of_keywords(&[Keyword::MINVALUE, Keyword::MAXVALUE, Keyword::CYCLE]) {
            Some(Keyword::MINVALUE) => Ok(Some(SequenceOption::Min(None))),
            Some(Keyword::MAXVALUE) => Ok(Some(SequenceOption::Max(None))),
            Some(_) => Ok(Some(SequenceOption::Cycle(false))),
            None => parser.expected_ref("MINVALUE, MAXVALUE or CYCLE", parser.peek_token_ref()),
        };
    }
    if parser.parse_keyword(Keyword::START) {
        let _ = parser.parse_keyword(Keyword::WITH);
        return Ok(Some(SequenceOption::Start(number(parser)?)));
    }
    if !creates && parser.parse_keyword(Keyword::RESTART) {
        let with = parser.parse_keyword(Keyword::WITH);
        let next = &parser.peek_token_ref().token;
        let is_number = matches!(next, Token::Number(..) | Token::Minus | Token::Plus);
        let n = if with || is_number { Some(number(parser)?) } else { None };
        return Ok(Some(SequenceOption::Restart(n)));
    }
    if parser.parse_keyword(Keyword::CACHE) {
        return Ok(Some(SequenceOption::Cache(number(parser)?)));
    }
    if parser.parse_keyword(Keyword::CYCLE) {
        return Ok(Some(SequenceOption::Cycle(true)));
    }
    if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
        let of = match parser.parse_keyword(Keyword::NONE) {
            true => None,
            false => Some(parser.parse_object_name(false)?),
        };
        return Ok(Some(SequenceOption::OwnedBy(of)));
    }
    Ok(None)
}

fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let negative = parser.consume_token(&Token::Minus) || {
        let _ = parser.consume_token(&Token::Plus);
        false
    };
    let token = parser.next_token();
    let Token::Number(text, _) = &token.token else { return parser.expected("a number", token) };
    let text = if negative { format!("-{text}") } else { text.clone() };
    match text.parse() {
        Ok(n) => Ok(n),
        Err(_) => parser.expected("a number of type bigint", token),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    use super::*;

    #[test]
    fn options_come_in_any_order() {
        let parsed = |sql: &str| parse(&mut Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap());
        let s = parsed("CREATE SEQUENCE IF NOT EXISTS s CACHE 3 START WITH 5 NO CYCLE INCREMENT -2").unwrap();
        let expected = [
            SequenceOption::Cache(3),
            SequenceOption::Start(5),
            SequenceOption::Cycle(false),
            SequenceOption::Increment(-2),
        ];
        assert!(s.creates && s.if_exists);
        assert_eq!(s.options, expected);
        let s = parsed("ALTER SEQUENCE s RESTART MAXVALUE 9 OWNED BY NONE").unwrap();
        let expected =
            [SequenceOption::Restart(None), SequenceOption::Max(Some(9)), SequenceOption::OwnedBy(None)];
        assert_eq!(s.options, expected);
        assert_eq!(parsed("ALTER SEQUENCE s RENAME TO t").unwrap().rename, Some(Ident::new("t")));
        assert!(parsed("ALTER SEQUENCE s").is_err());
        assert!(parsed("CREATE SEQUENCE s START x").is_err());
    }
}
