//! The rows of a COPY FROM STDIN that stand behind it in a script.
//!
//! ```text
//!   COPY t FROM STDIN;       the statement
//!   1 ⇥ one                  its rows, which are no SQL: a quote in them opens nothing
//!   \.                       their end
//!   SELECT 1;                the rest of the script
//! ```

/// Where the rows of the first COPY FROM STDIN lie.
#[derive(Debug, PartialEq)]
pub(super) struct Inline<'a> {
    /// The script up to the statement's `;`.
    pub(super) before: &'a str,
    pub(super) rows: &'a str,
    pub(super) after: &'a str,
}

/// The rows of the first COPY FROM STDIN of a script, if anything stands behind it.
pub(super) fn inline_rows(script: &str) -> Option<Inline<'_>> {
    let is_stdin = |w: &[u8]| w.eq_ignore_ascii_case(b"stdin");
    if !script.as_bytes().windows(5).any(is_stdin) {
        return None;
    }
    let (mut at, mut words) = (0, Vec::new());
    while at < script.len() {
        let (piece, next) = piece(script, at)?;
        match piece {
            Piece::Word(word) => words.push(word.to_ascii_lowercase()),
            Piece::Semicolon => {
                let reads = words.first().is_some_and(|w| w == "copy")
                    && words.windows(2).any(|w| w[0] == "from" && w[1] == "stdin");
                let line = script[next..].find('\n').map(|n| next + n + 1);
                match line.filter(|_| reads) {
                    Some(line) if script[next..line].trim().is_empty() => {
                        if script[line..].trim().is_empty() {
                            return None;
                        }
                        return Some(split(script, next, line));
                    }
                    _ => words.clear(),
                }
            }
            Piece::Other => words.push(String::new()),
            Piece::Blank => {}
        }
        at = next;
    }
    None
}

fn split(script: &str, end: usize, rows: usize) -> Inline<'_> {
    let mut at = rows;
    for line in script[rows..].split_inclusive('\n') {
        let next = at + line.len();
        if line.trim_end_matches(['\r', '\n']) == "\\." {
            return Inline { before: &script[..end], rows: &script[rows..at], after: &script[next..] };
        }
        at = next;
    }
    Inline { before: &script[..end], rows: &script[rows..], after: "" }
}

enum Piece<'a> {
    Word(&'a str),
    Semicolon,
    /// A comment or blanks.
    Blank,
    Other,
}

/// The piece at `at`, and where the next one begins; `None` if it is not closed.
fn piece(script: &str, at: usize) -> Option<(Piece<'_>, usize)> {
    let rest = &script[at..];
    let behind = |end: &str, from: usize| rest[from..].find(end).map(|n| at + from + n + end.len());
    let c = rest.chars().next()?;
    Some(match c {
        ';' => (Piece::Semicolon, at + 1),
        '\'' => (Piece::Other, behind("'", 1)?),
        '"' => (Piece::Other, behind("\"", 1)?),
        '-' if rest.starts_with("--") => (Piece::Blank, behind("\n", 2).unwrap_or(script.len())),
        '/' if rest.starts_with("/*") => (Piece::Blank, behind("*/", 2)?),
        '$' => {
            let tag = rest[1..].find('$').map(|n| &rest[..n + 2]);
            let is_tag = |t: &&str| t[1..t.len() - 1].chars().all(|c| c.is_alphanumeric() || c == '_');
            match tag.filter(is_tag) {
                Some(tag) => (Piece::Other, behind(tag, tag.len())?),
                None => (Piece::Other, at + 1),
            }
        }
        c if c.is_whitespace() => (Piece::Blank, at + c.len_utf8()),
        c if c.is_alphanumeric() || c == '_' => {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Piece::Word(&rest[..end]), at + end)
        }
        c => (Piece::Other, at + c.len_utf8()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_between_the_statement_and_its_end() {
        let check = |script: &str, expected: Option<(&str, &str, &str)>| {
            let got = inline_rows(script).map(|i| (i.before, i.rows, i.after));
            assert_eq!(got, expected, "{script}");
        };
        check("COPY t FROM STDIN;", None);
        check("COPY t FROM STDIN;\n", None);
        check("SELECT 'copy t from stdin;\n1'", None);
        check("COPY t FROM STDIN;\n\\.\n", Some(("COPY t FROM STDIN;", "", "")));
        check(
            "SELECT 1; copy t (a) from stdin;\nit's;\n\\.\nSELECT 2",
            Some(("SELECT 1; copy t (a) from stdin;", "it's;\n", "SELECT 2")),
        );
        check(
            "-- it's\nCOPY t FROM STDIN;\r\n1\r\n\\.\r\n",
            Some(("-- it's\nCOPY t FROM STDIN;", "1\r\n", "")),
        );
        check("COPY t FROM STDIN;\n1\n2\n", Some(("COPY t FROM STDIN;", "1\n2\n", "")));
        check("COPY t FROM 'stdin';\n1", None);
    }
}
