//! Finds the end of a statement in a text that holds several statements, or only the start of one.
//!
//! A `;` ends a statement unless it is in a string ('...', "...", $tag$...$tag$) or in a comment.

/// The length of the first statement of `text` with its `;`, in bytes. `None` if the statement is not complete.
pub(crate) fn statement_end(text: &str) -> Option<usize> {
    let b = text.as_bytes();
    let mut i = 0;
    while i < b.len() {
        match b[i] {
            b';' => return Some(i + 1),
            quote @ (b'\'' | b'"') => i = skip_past(b, i + 1, &[quote])?,
            b'-' if b.get(i + 1) == Some(&b'-') => i = skip_past(b, i + 2, b"\n")?,
            b'/' if b.get(i + 1) == Some(&b'*') => i = skip_comment(b, i + 2)?,
            b'$' => match dollar_tag(&b[i..]) {
                Some(tag) => i = skip_past(b, i + tag.len(), tag)?,
                None => i += 1,
            },
            _ => i += 1,
        }
    }
    None
}

/// Whether `text` holds only blanks, comments and `;`.
pub(crate) fn is_blank(text: &str) -> bool {
    let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    loop {
        let after = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            match skip_comment(comment.as_bytes(), 0) {
                Some(end) => &comment[end..],
                None => return false,
            }
        } else {
            return rest.is_empty();
        };
        rest = after.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    }
}

/// The offset after the next `end` at or after `from`.
fn skip_past(b: &[u8], from: usize, end: &[u8]) -> Option<usize> {
    let at = b.get(from..)?.windows(end.len()).position(|w| w == end)?;
    Some(from + at + end.len())
}

/// The offset after a comment whose `/*` ends at `from`. Comments nest.
fn skip_comment(b: &[u8], from: usize) -> Option<usize> {
    let (mut i, mut depth) = (from, 1);
    while i + 1 < b.len() {
        match &b[i..i + 2] {
            b"*/" => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return Some(i);
                }
            }
            b"/*" => {
                depth += 1;
                i += 2;
            }
            _ => i += 1,
        }
    }
    None
}

/// The `$tag$` that `b` starts with.
fn dollar_tag(b: &[u8]) -> Option<&[u8]> {
    let end = 1 + b[1..].iter().position(|&c| c == b'$')?;
    let named = b[1..end].iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_');
    let digit_first = b.get(1).is_some_and(u8::is_ascii_digit);
    (named && !digit_first).then_some(&b[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semicolon_ends_a_statement_outside_of_quotes_and_comments() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(statement_end(text).map(|end| &text[..end]), expected, "{text}");
        };
        check("select 1; select 2;", Some("select 1;"));
        check("select ';'", None);
        check("select 'it''s;';x", Some("select 'it''s;';"));
        check("select \"a;b\" from t;", Some("select \"a;b\" from t;"));
        check("select 1 -- no; end\n + 1;", Some("select 1 -- no; end\n + 1;"));
        check("select /* ; /* ; */ ; */ 1;", Some("select /* ; /* ; */ ; */ 1;"));
        check("select $$a;b$$, $x$ $$ ; $x$;", Some("select $$a;b$$, $x$ $$ ; $x$;"));
        check("select $1; x", Some("select $1;"));
        check("select 'ä;ö'; x", Some("select 'ä;ö';"));
        check("", None);
        check("select 'open;", None);
    }

    #[test]
    fn blanks_and_comments_are_no_statement() {
        for text in ["", " \n;", "-- x", "/* a /* b */ */ ; -- c\n"] {
            assert!(is_blank(text), "{text}");
        }
        assert!(!is_blank("-- x\n1"));
        assert!(!is_blank("/* open"));
    }
}
