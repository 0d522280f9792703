//! ALTER ... SET SCHEMA, ALTER VIEW and COMMENT ON CONSTRAINT, which sqlparser does not know, and what Lode does not have.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectType};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::refused;
use super::sequences::{SequenceOption, option};

/// A statement about a relation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RelationStatement {
    /// `ALTER TABLE | VIEW | SEQUENCE ...`.
    Alter {
        /// What the relation is said to be.
        kind: ObjectType,
        if_exists: bool,
        name: ObjectName,
        action: RelationAction,
    },
    /// `ALTER TABLE t ALTER c ...`, about what fills the column.
    AlterFilling { if_exists: bool, table: ObjectName, column: Ident, change: FillingChange },
    /// A statement that Lode does not have: its first words.
    Refused(String),
    /// `COMMENT ON CONSTRAINT c ON t IS 'text'`.
    CommentOnConstraint { constraint: Ident, table: ObjectName, text: Option<String> },
}

/// What ALTER does with a relation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RelationAction {
    /// `SET SCHEMA s`.
    SetSchema(Ident),
    /// `RENAME TO n`.
    Rename(Ident),
    /// `RENAME [COLUMN] a TO b`.
    RenameColumn(Ident, Ident),
    /// `OWNER TO o`: there are no owners.
    Owner,
}

/// What ALTER does with the filling of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FillingChange {
    /// `SET GENERATED ALWAYS | BY DEFAULT`, `SET option`, `RESTART`.
    Identity { always: Option<bool>, options: Vec<SequenceOption> },
    /// `DROP IDENTITY [IF EXISTS]`.
    DropIdentity { if_exists: bool },
    /// `DROP EXPRESSION [IF EXISTS]`.
    DropExpression { if_exists: bool },
}

/// Parses one of these, if the next statement is one. Else the parser stays where it is.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<RelationStatement>, ParserError> {
    if let Some(what) = refused::skip(parser) {
        return Ok(Some(RelationStatement::Refused(what)));
    }
    let is = |n: usize, text: &str| match &parser.peek_nth_token_ref(n).token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text),
        _ => false,
    };
    if is(0, "comment") && is(1, "on") && is(2, "constraint") {
        return comment_on_constraint(parser).map(Some);
    }
    if !is(0, "alter") {
        return Ok(None);
    }
    if is(1, "view") {
        // sqlparser knows another form: a new query.
        return parser.maybe_parse(|p| alter(p, ObjectType::View));
    }
    let kind = match () {
        () if is(1, "table") => ObjectType::Table,
        () if is(1, "sequence") => ObjectType::Sequence,
        () if is(1, "index") => return parser.maybe_parse(|p| alter(p, ObjectType::Index)),
        () => return Ok(None),
    };
    if kind == ObjectType::Table
        && let Some(filling) = parser.maybe_parse(alter_filling)?
    {
        return Ok(Some(filling));
    }
    parser.maybe_parse(|p| match alter(p, kind)? {
        found @ RelationStatement::Alter { action: RelationAction::SetSchema(_), .. } => Ok(found),
        _ => p.expected_ref("SET SCHEMA", p.peek_token_ref()),
    })
}

fn alter(parser: &mut Parser<'_>, kind: ObjectType) -> Result<RelationStatement, ParserError> {
    parser.next_token();
    parser.next_token();
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let _ = kind == ObjectType::Table && parser.parse_keyword(Keyword::ONLY);
    let name = parser.parse_object_name(false)?;
    let action = if parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
        RelationAction::SetSchema(parser.parse_identifier()?)
    } else if parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        RelationAction::Rename(parser.parse_identifier()?)
    } else if parser.parse_keyword(Keyword::RENAME) {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        let from = parser.parse_identifier()?;
        parser.expect_keyword_is(Keyword::TO)?;
        RelationAction::RenameColumn(from, parser.parse_identifier()?)
    } else if parser.parse_keywords(&[Keyword::OWNER, Keyword::TO]) {
        parser.parse_identifier()?;
        RelationAction::Owner
    } else {
        return parser.expected_ref("SET SCHEMA, RENAME or OWNER TO", parser.peek_token_ref());
    };
    match &parser.peek_token_ref().token {
        Token::SemiColon | Token::EOF => Ok(RelationStatement::Alter { kind, if_exists, name, action }),
        _ => parser.expected_ref("end of statement", parser.peek_token_ref()),
    }
}

fn alter_filling(parser: &mut Parser<'_>) -> Result<RelationStatement, ParserError> {
    parser.next_token();
    parser.next_token();
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let _ = parser.parse_keyword(Keyword::ONLY);
    let table = parser.parse_object_name(false)?;
    parser.expect_keyword_is(Keyword::ALTER)?;
    let _ = parser.parse_keyword(Keyword::COLUMN);
    let column = parser.parse_identifier()?;
    let word = |parser: &Parser<'_>, text: &str| match &parser.peek_token_ref().token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text),
        _ => false,
    };
    let change = if parser.parse_keyword(Keyword::DROP) {
        let identity = word(parser, "identity");
        if !identity && !word(parser, "expression") {
            return parser.expected_ref("IDENTITY or EXPRESSION", parser.peek_token_ref());
        }
        parser.next_token();
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        match identity {
            true => FillingChange::DropIdentity { if_exists },
            false => FillingChange::DropExpression { if_exists },
        }
    } else {
        let (mut always, mut options) = (None, Vec::new());
        loop {
            let sets = parser.parse_keyword(Keyword::SET);
            if sets && parser.parse_keyword(Keyword::GENERATED) {
                always = Some(parser.parse_keyword(Keyword::ALWAYS));
                if always == Some(false) {
                    parser.expect_keywords(&[Keyword::BY, Keyword::DEFAULT])?;
                }
                continue;
            }
            match option(parser, false)? {
                Some(found) if sets || matches!(found, SequenceOption::Restart(_)) => options.push(found),
                _ if !sets && (always.is_some() || !options.is_empty()) => break,
                _ => return parser.expected_ref("an option of the sequence", parser.peek_token_ref()),
            }
        }
        FillingChange::Identity { always, options }
    };
    match &parser.peek_token_ref().token {
        Token::SemiColon | Token::EOF => {
            Ok(RelationStatement::AlterFilling { if_exists, table, column, change })
        }
        _ => parser.expected_ref("end of statement", parser.peek_token_ref()),
    }
}

fn comment_on_constraint(parser: &mut Parser<'_>) -> Result<RelationStatement, ParserError> {
    (0..3).for_each(|_| {
        parser.next_token();
    });
    let constraint = parser.parse_identifier()?;
    parser.expect_keyword_is(Keyword::ON)?;
    let table = parser.parse_object_name(false)?;
    parser.expect_keyword_is(Keyword::IS)?;
    let text = match parser.parse_keyword(Keyword::NULL) {
        true => None,
        false => Some(parser.parse_comment_value()?),
    };
    Ok(RelationStatement::CommentOnConstraint { constraint, table, text })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    use super::*;

    #[test]
    fn statements_of_other_kinds_are_left_to_sqlparser() {
        let parsed = |sql: &str| {
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap();
            let parsed = parse(&mut parser).unwrap();
            (parsed.is_some(), parser.peek_token_ref().token.to_string())
        };
        assert_eq!(parsed("ALTER TABLE IF EXISTS a.t SET SCHEMA b"), (true, "EOF".into()));
        assert_eq!(parsed("ALTER VIEW v RENAME a TO b;"), (true, ";".into()));
        assert_eq!(parsed("COMMENT ON CONSTRAINT c ON t IS NULL"), (true, "EOF".into()));
        assert_eq!(parsed("ALTER TABLE t RENAME TO u"), (false, "ALTER".into()));
        assert_eq!(parsed("ALTER VIEW v AS SELECT 1"), (false, "ALTER".into()));
        assert_eq!(parsed("COMMENT ON TABLE t IS 'x'"), (false, "COMMENT".into()));
    }
}
