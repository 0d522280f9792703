//! From a script's text to statements: PostgreSQL's dialect, with DataFusion's additions (EXPLAIN's options).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use datafusion::sql::parser::{DFParser, DFParserBuilder, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{AlterSchema, ObjectName, SetExpr, Statement as Sql};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace, Word};

use super::OutputNames;
use super::conflict_targets::with_named_targets;
use super::cursor::parse_fetch;
use super::depth;
use super::dialect::LodeDialect;
use super::identifiers::Overriding;
use super::inline::{Inline, inline_rows};
use super::likes::{Like, is_word, without_likes};
use super::refused;
use super::relations::{self, RelationStatement};
use super::sequences::{self, SequenceStatement};
use super::short_shape::Shape;
use crate::SqlError;
use crate::error::state;

/// One statement of a script, parsed.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Shared, since cloning recurses over the tree.
    pub(crate) parsed: Arc<Parsed>,
    /// How deep its tree is, at most.
    pub(crate) depth: usize,
    /// The names of its result's columns, if they are known from its text.
    pub(crate) names: Option<Arc<OutputNames>>,
    /// Its shape, once it is known, if it can be short.
    shape: Arc<OnceLock<Option<Arc<Shape>>>>,
    /// What sqlparser has no tree for.
    pub(crate) sequence: Option<Arc<SequenceStatement>>,
    /// The same.
    pub(crate) relation: Option<Arc<RelationStatement>>,
    /// LIKE among the columns of a CREATE TABLE.
    pub(crate) likes: Arc<Vec<Like>>,
    /// Whether it is a MOVE: the tree of both is that of FETCH.
    pub(crate) moves: bool,
    /// The rows of a COPY FROM STDIN that stand behind it.
    pub(crate) rows: Option<Bytes>,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parsed.fmt(f)
    }
}

impl Statement {
    pub(crate) fn new(parsed: Parsed, depth: usize) -> Self {
        let names = match &parsed {
            Parsed::Statement(sql) => match sql.as_ref() {
                Sql::Query(query) => OutputNames::of(query).map(Arc::new),
                _ => None,
            },
            _ => None,
        };
        Self {
            parsed: Arc::new(parsed),
            depth,
            names,
            shape: Arc::default(),
            sequence: None,
            relation: None,
            likes: Arc::default(),
            moves: false,
            rows: None,
        }
    }

    /// The same statement with names in their schemas.
    pub(crate) fn with_names(&self, parsed: Parsed) -> Self {
        Self { parsed: Arc::new(parsed), shape: Arc::default(), ..self.clone() }
    }

    /// Another tree of the same statement, whose result has columns of the same names.
    pub(crate) fn with_tree(&self, sql: Box<Sql>) -> Self {
        Self { names: self.names.clone(), ..Self::new(Parsed::Statement(sql), self.depth) }
    }

    /// Its shape, if it can be short.
    pub(crate) fn shape(&self) -> Option<&Arc<Shape>> {
        self.shape.get_or_init(|| Shape::of(&self.parsed, self.names.clone()).map(Arc::new)).as_ref()
    }

    /// Whether it begins or ends a transaction or a savepoint.
    pub(crate) fn is_control(&self) -> bool {
        matches!(
            self.sql(),
            Some(
                Sql::StartTransaction { .. }
                    | Sql::Commit { .. }
                    | Sql::Rollback { .. }
                    | Sql::Savepoint { .. }
                    | Sql::ReleaseSavepoint { .. }
            )
        )
    }

    /// Whether it may run in a transaction that failed.
    pub(crate) fn ends_failure(&self) -> bool {
        matches!(self.sql(), Some(Sql::Commit { .. } | Sql::Rollback { .. }))
    }

    pub(crate) fn sql(&self) -> Option<&Sql> {
        match &*self.parsed {
            Parsed::Statement(sql) => Some(sql),
            _ => None,
        }
    }

    /// The statements of a script, in order. Empty ones are left out.
    ///
    /// # Errors
    /// [`SqlError::Syntax`] with the line and column in the script.
    pub fn parse(script: &str) -> Result<Vec<Self>, SqlError> {
        let Some(Inline { before, rows, after }) = inline_rows(script) else {
            return Self::parse_sql(script);
        };
        let mut statements = Self::parse_sql(before)?;
        if let Some(copy) = statements.last_mut() {
            copy.rows = Some(Bytes::copy_from_slice(rows.as_bytes()));
        }
        let lines = script[..script.len() - after.len()].bytes().filter(|b| *b == b'\n').count() as u64;
        statements.extend(Self::parse(after).map_err(|e| e.moved_down(lines))?);
        Ok(statements)
    }

    fn parse_sql(script: &str) -> Result<Vec<Self>, SqlError> {
        let dialect = LodeDialect;
        let tokens = Tokenizer::new(&dialect, script).tokenize_with_location()?;
        let depth = depth::depth(&tokens)?;
        let (tokens, overridden) = without_overriding(options_in_order(tokens));
        let (tokens, likes) = without_likes(with_named_targets(tokens));
        let mut parser = DFParserBuilder::new(tokens).with_dialect(&dialect).build()?;
        let mut statements = Vec::new();
        loop {
            let mut separated = statements.is_empty();
            while parser.parser.consume_token(&Token::SemiColon) {
                separated = true;
            }
            let next = parser.parser.peek_token();
            let mut sequence = None;
            let mut moves = false;
            let relation = match &next.token {
                Token::Word(_) if separated => relations::parse(&mut parser.parser),
                _ => Ok(None),
            };
            let relation = relation.map_err(|e| placed(e.into(), script))?.map(Arc::new);
            let parsed = match &next.token {
                _ if relation.is_some() => no_tree(),
                Token::EOF => return Ok(statements),
                found if !separated => {
                    let e = SqlError::Syntax {
                        line: next.span.start.line,
                        column: next.span.start.column,
                        message: format!("Expected: end of statement, found: {found}"),
                    };
                    return Err(placed(e, script));
                }
                Token::Word(Word { keyword: Keyword::ABORT, .. }) => {
                    parser.parser.next_token();
                    let _ = parser.parser.parse_one_of_keywords(&[Keyword::TRANSACTION, Keyword::WORK]);
                    Parsed::Statement(Box::new(Sql::Rollback { chain: false, savepoint: None }))
                }
                Token::Word(Word { keyword: Keyword::SET, .. }) if sets_constraints(&parser) => {
                    let what = "SET CONSTRAINTS: a constraint is checked as CREATE TABLE says";
                    return Err(SqlError::Unsupported(what.into()));
                }
                Token::Word(_) if sequences::is_next(&parser.parser) => {
                    let statement = sequences::parse(&mut parser.parser);
                    let statement = statement.map_err(|e| placed(e.into(), script))?;
                    let name = statement.name.clone();
                    sequence = Some(Arc::new(statement));
                    Parsed::Statement(Box::new(Sql::CreateSequence {
                        temporary: false,
                        if_not_exists: false,
                        name,
                        data_type: None,
                        sequence_options: Vec::new(),
                        owned_by: None,
                    }))
                }
                Token::Word(w) if is_fetch(w) => {
                    moves = w.keyword != Keyword::FETCH;
                    parser.parser.next_token();
                    let fetch = parse_fetch(&mut parser.parser).map_err(|e| placed(e.into(), script))?;
                    Parsed::Statement(Box::new(fetch))
                }
                // DataFusion's own COPY has no FROM.
                Token::Word(Word { keyword: Keyword::COPY, .. }) => {
                    let copy = parser.parser.parse_statement().map_err(|e| placed(e.into(), script))?;
                    Parsed::Statement(Box::new(copy))
                }
                _ => parser.parse_statement().map_err(|e| placed(syntax(e.into()), script))?,
            };
            let mut parsed = parsed;
            let until = parser.parser.peek_token().span.start;
            let within = |at: &Location| (next.span.start <= *at) && (*at < until || until.line == 0);
            if let Some((_, overriding)) = overridden.iter().find(|(at, _)| within(at)) {
                note_overriding(&mut parsed, *overriding);
            }
            let likes = likes.iter().filter(|(at, _)| within(at)).map(|(_, like)| like.clone());
            let likes = Arc::new(likes.collect());
            statements.push(Self { sequence, relation, likes, moves, ..Self::new(parsed, depth) });
        }
    }
}

/// What stands for a statement that sqlparser has no tree for. Nothing carries it out.
fn no_tree() -> Parsed {
    Parsed::Statement(Box::new(Sql::AlterSchema(AlterSchema {
        name: ObjectName(Vec::new()),
        if_exists: false,
        operations: Vec::new(),
    })))
}

/// The tokens with the options of IDENTITY columns in the order in which the parser knows them.
fn options_in_order(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const ORDER: [&str; 6] = ["increment", "minvalue", "maxvalue", "start", "cache", "cycle"];
    let word = |t: &TokenWithSpan| match &t.token {
        Token::Word(w) if w.quote_style.is_none() => w.value.to_lowercase(),
        _ => String::new(),
    };
    let mut at = 0;
    while let Some(found) = tokens[at..].iter().position(|t| is_word(t, "identity")) {
        at += found + 1;
        let solid = |t: &TokenWithSpan| !matches!(t.token, Token::Whitespace(_));
        let Some(open) = tokens[at..].iter().position(solid).map(|i| at + i) else { break };
        let follows_as = tokens[..at - 1].iter().rev().find(|t| solid(t)).is_some_and(|t| word(t) == "as");
        if tokens[open].token != Token::LParen || !follows_as {
            continue;
        }
        let Some(close) = tokens[open..].iter().position(|t| t.token == Token::RParen).map(|i| open + i)
        else {
            break;
        };
        // Each option begins with its word, or with NO.
        let mut options: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
        for t in tokens[open + 1..close].iter().cloned() {
            let rank = ORDER.iter().position(|o| *o == word(&t));
            let follows_no = options.last().is_some_and(|(rank, _)| *rank == usize::MAX);
            match rank {
                Some(rank) if follows_no => {
                    let last = options.last_mut().expect("it was just looked at");
                    last.0 = rank;
                    last.1.push(t);
                }
                Some(rank) => options.push((rank, vec![t])),
                None if word(&t) == "no" => options.push((usize::MAX, vec![t])),
                None => match options.last_mut() {
                    Some(last) => last.1.push(t),
                    None if solid(&t) => options.push((0, vec![t])),
                    None => {}
                },
            }
        }
        options.sort_by_key(|(rank, _)| *rank);
        // What follows an option needs a blank before it.
        let blank = TokenWithSpan::wrap(Token::Whitespace(Whitespace::Space));
        let ordered = options.into_iter().flat_map(|(_, mut of)| {
            of.push(blank.clone());
            of
        });
        let ordered: Vec<TokenWithSpan> = ordered.collect();
        let count = ordered.len();
        tokens.splice(open + 1..close, ordered);
        at = open + 1 + count;
    }
    tokens
}

/// The tokens without `OVERRIDING SYSTEM VALUE` and `OVERRIDING USER VALUE`, which the parser does not know, and where these
/// were.
fn without_overriding(tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Vec<(Location, Overriding)>) {
    if !tokens.iter().any(|t| is_word(t, "overriding")) {
        return (tokens, Vec::new());
    }
    let solid: Vec<usize> =
        (0..tokens.len()).filter(|&i| !matches!(tokens[i].token, Token::Whitespace(_))).collect();
    let (mut left_out, mut found) = (BTreeSet::new(), Vec::new());
    for three in solid.windows(3) {
        let [a, b, c] = [&tokens[three[0]], &tokens[three[1]], &tokens[three[2]]];
        let what = match () {
            () if is_word(b, "system") => Overriding::System,
            () if is_word(b, "user") => Overriding::User,
            () => continue,
        };
        if is_word(a, "overriding") && is_word(c, "value") {
            left_out.extend(three.iter().copied());
            found.push((a.span.start, what));
        }
    }
    let kept = tokens.into_iter().enumerate().filter(|(i, _)| !left_out.contains(i)).map(|(_, t)| t);
    (kept.collect(), found)
}

/// Notes what the INSERT of a statement overrides.
fn note_overriding(parsed: &mut Parsed, overriding: Overriding) {
    match parsed {
        Parsed::Explain(explain) => note_overriding(&mut explain.statement, overriding),
        Parsed::Statement(sql) => {
            let mut sql = sql.as_mut();
            loop {
                sql = match sql {
                    Sql::Insert(insert) => return overriding.note(insert),
                    Sql::Prepare { statement, .. } => statement.as_mut(),
                    Sql::Query(query) => match query.body.as_mut() {
                        SetExpr::Insert(insert) => insert,
                        _ => return,
                    },
                    _ => return,
                };
            }
        }
        _ => {}
    }
}

/// What is wrong with a statement's options, as an option of EXPLAIN that does not exist, is wrong with its syntax.
fn syntax(e: SqlError) -> SqlError {
    match e {
        SqlError::Failed { state: state::SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION, place, message } => {
            SqlError::Failed { state: state::SYNTAX_ERROR, place, message }
        }
        other => other,
    }
}

/// Whether a statement of this first word is about a cursor.
fn is_fetch(first: &Word) -> bool {
    first.quote_style.is_none() && ["fetch", "move"].iter().any(|w| first.value.eq_ignore_ascii_case(w))
}

/// Whether SET CONSTRAINTS follows, which the parser does not know.
fn sets_constraints(parser: &DFParser<'_>) -> bool {
    let plain = |token: &Token, text: &str| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text));
    let (what, then) = (parser.parser.peek_nth_token(1).token, parser.parser.peek_nth_token(2).token);
    plain(&what, "constraints") && matches!(then, Token::Word(_)) && !plain(&then, "to")
}

/// Adds the end of the script as the place of an error for which the parser names none.
fn placed(e: SqlError, script: &str) -> SqlError {
    match e {
        SqlError::Syntax { line: 0, message, .. } => {
            let script = script.trim_end();
            let last = script.lines().last().unwrap_or_default();
            let (line, column) = (script.lines().count().max(1) as u64, last.chars().count() as u64 + 1);
            SqlError::Syntax { line, column, message }
        }
        SqlError::Syntax { line, column, message } => match refused::at(script, line, column) {
            Some(what) => SqlError::Unsupported(what),
            None => SqlError::Syntax { line, column, message },
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    use super::*;
    use crate::statement::table_name;

    #[test]
    fn scripts_are_split_into_statements() {
        let check = |script: &str, expected: &[&str]| {
            let got: Vec<String> =
                Statement::parse(script).unwrap().iter().map(Statement::to_string).collect();
            assert_eq!(got, expected, "{script}");
        };
        check("", &[]);
        check(" ; -- nothing\n ;", &[]);
        check("SELECT 1; SELECT ';' ;", &["SELECT 1", "SELECT ';'"]);
        check("COPY t FROM 'a.csv' (FORMAT csv, HEADER)", &["COPY t FROM 'a.csv' (FORMAT csv, HEADER)"]);
        check("COPY (SELECT 1) TO 'a.csv'; SELECT 2", &["COPY (SELECT 1) TO 'a.csv'", "SELECT 2"]);
    }

    #[test]
    fn syntax_errors_name_line_and_column() {
        let check = |script: &str, expected: &str| {
            let e = Statement::parse(script).unwrap_err().to_string();
            assert!(e.starts_with(expected), "{script}: {e}");
            assert!(!e.contains('\n'));
        };
        check("SELECT 1;\nSELEC 2", "syntax error at line 2, column 1: ");
        check("SELECT 1 FROM t WHERE", "syntax error at line 1, column 22: ");
        check("SELECT 'open", "syntax error at line 1, column 8: ");
        check("SELECT 1 1", "syntax error at line 1, column 10: Expected: end of statement");
        check("COPY t", "syntax error at line 1, ");
    }

    #[test]
    fn names_fold_to_lower_case_unless_quoted() {
        let check = |sql: &str, expected: Option<&str>| {
            let dialect = PostgreSqlDialect {};
            let mut parser =
                datafusion::sql::sqlparser::parser::Parser::new(&dialect).try_with_sql(sql).unwrap();
            let name = parser.parse_object_name(false).unwrap();
            assert_eq!(table_name(&name).ok().as_deref(), expected, "{sql}");
        };
        check("Orders", Some("orders"));
        check("\"Orders\"", Some("Orders"));
        check("public.orders", Some("orders"));
        check("lode.public.orders", Some("orders"));
        check("elsewhere.orders", Some("elsewhere\u{1f}orders"));
        check("nowhere.public.orders", None);
    }
}
