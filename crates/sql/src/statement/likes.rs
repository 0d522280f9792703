//! LIKE among the columns of CREATE TABLE, whose options sqlparser does not know.
//!
//! ```text
//!   CREATE TABLE t (a INT, LIKE s INCLUDING ALL, b INT)   ─►   CREATE TABLE t (a INT, b INT), and: LIKE s in place 1
//! ```

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// Whether it is INCLUDED, and what.
type Options = Vec<(bool, String)>;

/// LIKE of another relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Like {
    /// How many columns and constraints stand before it, beside other LIKE.
    pub(crate) place: usize,
    pub(crate) name: ObjectName,
    /// What is INCLUDED (or EXCLUDED), in order, in lower case.
    pub(crate) options: Options,
}

/// Whether a token is this word, unquoted and in any case.
pub(super) fn is_word(t: &TokenWithSpan, text: &str) -> bool {
    matches!(&t.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text))
}

fn word(t: &TokenWithSpan) -> Option<String> {
    match &t.token {
        Token::Word(w) if w.quote_style.is_none() => Some(w.value.to_lowercase()),
        _ => None,
    }
}

pub(super) fn is_solid(t: &TokenWithSpan) -> bool {
    !matches!(t.token, Token::Whitespace(_))
}

/// The tokens without these, and where they were.
pub(super) fn without_likes(tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Vec<(Location, Like)>) {
    if !tokens.iter().any(|t| is_word(t, "like")) {
        return (tokens, Vec::new());
    }
    let (mut kept, mut found): (Vec<TokenWithSpan>, Vec<(Location, Like)>) = Default::default();
    let mut at = 0;
    while at < tokens.len() {
        let is_first = kept.iter().rev().find(|t| is_solid(t)).is_some_and(|t| t.token == Token::LParen);
        let follows = kept.iter().rev().find(|t| is_solid(t)).is_some_and(|t| t.token == Token::Comma);
        if word(&tokens[at]).as_deref() == Some("like")
            && (is_first || follows)
            && let Some((name, options, end)) = parsed(&tokens, at + 1)
        {
            let place = place(&kept);
            found.push((tokens[at].span.start, Like { place, name, options }));
            at = end;
            if follows {
                while kept.pop().is_some_and(|t| t.token != Token::Comma) {}
            } else if tokens[at].token == Token::Comma {
                at += 1;
            }
            continue;
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    (kept, found)
}

/// The name and the options behind LIKE, and the index of the token that ends them, which is a comma or a parenthesis.
fn parsed(tokens: &[TokenWithSpan], from: usize) -> Option<(ObjectName, Options, usize)> {
    let mut solid = (from..tokens.len()).filter(|&i| is_solid(&tokens[i])).peekable();
    let mut parts: Vec<Ident> = Vec::new();
    loop {
        match &tokens[solid.next()?].token {
            Token::Word(w) => parts.push(Ident {
                value: w.value.clone(),
                quote_style: w.quote_style,
                span: tokens[from].span,
            }),
            _ => return None,
        }
        match solid.peek().map(|&i| &tokens[i].token) {
            Some(Token::Period) => drop(solid.next()),
            _ => break,
        }
    }
    let mut options = Vec::new();
    loop {
        let i = solid.next()?;
        match (&tokens[i].token, word(&tokens[i]).as_deref()) {
            (Token::Comma | Token::RParen, _) => return Some((ObjectName::from(parts), options, i)),
            (_, Some(what @ ("including" | "excluding"))) => {
                let option = word(&tokens[solid.next()?])?;
                options.push((what == "including", option));
            }
            _ => return None,
        }
    }
}

/// How many elements of the open list are kept.
fn place(kept: &[TokenWithSpan]) -> usize {
    let (mut depth, mut commas, mut any) = (0, 0, false);
    for t in kept.iter().rev().filter(|t| is_solid(t)) {
        match t.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => break,
            Token::LParen => depth -= 1,
            Token::Comma if depth == 0 => commas += 1,
            _ => any = true,
        }
    }
    // The comma before LIKE ends an element, if there is one.
    if any { commas } else { 0 }
}
