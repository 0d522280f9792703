//! The targets of ON CONFLICT that sqlparser does not know: with expressions, or with the condition of a partial index.
//!
//! ```text
//!   ON CONFLICT (lower(email)) WHERE gone IS NULL DO NOTHING
//!     ─►  ON CONFLICT ON CONSTRAINT "..." DO NOTHING, where the name is a control character and the text of the target
//! ```

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::likes::{is_solid, is_word};

/// What the name of a target begins with. No constraint has such a name.
const PREFIX: char = '\u{1f}';

/// The tokens with such targets as names of constraints.
pub(super) fn with_named_targets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "conflict")) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let follows_on =
            || out.iter().rev().find(|t| is_solid(t)).is_some_and(|t: &TokenWithSpan| is_word(t, "on"));
        let is_conflict = is_word(&tokens[at], "conflict") && follows_on();
        out.push(tokens[at].clone());
        at += 1;
        if !is_conflict {
            continue;
        }
        let Some(open) = (at..tokens.len()).find(|&i| is_solid(&tokens[i])) else { continue };
        let Some(end) = target_end(&tokens, open) else { continue };
        let text: String = tokens[open..end].iter().map(|t| t.token.to_string()).collect();
        let span = tokens[open].span;
        let name = Token::make_word(&format!("{PREFIX}{text}"), Some('"'));
        let named = [Token::make_keyword("ON"), Token::make_keyword("CONSTRAINT"), name];
        out.extend(named.into_iter().map(|token| TokenWithSpan { token, span }));
        at = end;
    }
    out
}

/// Where the target ends that begins at `open`, if sqlparser does not know it.
fn target_end(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    if tokens[open].token != Token::LParen {
        return None;
    }
    let (mut depth, mut is_plain, mut close) = (0, true, None);
    for (i, t) in tokens.iter().enumerate().skip(open) {
        match &t.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(_) | Token::Comma | Token::Whitespace(_) => {}
            _ => is_plain = false,
        }
        is_plain &= depth <= 1;
        if depth == 0 {
            close = Some(i);
            break;
        }
    }
    let close = close?;
    let next = (close + 1..tokens.len()).find(|&i| is_solid(&tokens[i]))?;
    if !is_word(&tokens[next], "where") {
        return (!is_plain).then_some(close + 1);
    }
    let mut depth = 0;
    for (i, t) in tokens.iter().enumerate().skip(next) {
        match &t.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::SemiColon => return None,
            _ if depth == 0 && is_word(t, "do") => return Some(i),
            _ => {}
        }
    }
    None
}

/// The text of the target that this name stands for: elements in parentheses, and a condition.
pub(crate) fn target_text(constraint: &ObjectName) -> Option<&str> {
    let [part] = constraint.0.as_slice() else { return None };
    part.as_ident()?.value.strip_prefix(PREFIX)
}
