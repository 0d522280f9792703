//! Scripts: text into statements. `scripts/postgres/script.py` does the same for the recordings.

/// A statement of a script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    /// The line where it begins, from 1.
    pub(crate) line: usize,
    /// Who says it: a letter.
    pub(crate) session: char,
    /// Its text, without `;`.
    pub(crate) sql: String,
    /// What COPY FROM STDIN reads: whole lines. `None` for other statements.
    pub(crate) data: Option<String>,
    /// Whether its rows may come in any order.
    pub(crate) unordered: bool,
    /// Whether its rows may be any.
    pub(crate) any_rows: bool,
    /// What Lode means to answer instead of PostgreSQL's answer.
    pub(crate) differs: Option<Differs>,
}

/// A meant difference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Differs {
    /// Its name in `docs/sql.md`.
    pub(crate) name: String,
    /// Lode's answer, as lines of a recording.
    pub(crate) answer: Vec<String>,
}

impl Statement {
    /// The statement on one line, as recordings have it.
    pub(crate) fn words(&self) -> String {
        self.sql.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// The statements of a script.
pub(crate) fn split(text: &str) -> Result<Vec<Statement>, String> {
    let mut statements = Vec::new();
    let mut session = 'A';
    let mut rest = text;
    let mut comments: Vec<&str> = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(statements);
        }
        if rest.starts_with("--") {
            let (comment, after) = rest.split_once('\n').unwrap_or((rest, ""));
            comments.push(comment.trim_end_matches([' ', '\r']));
            rest = after;
            continue;
        }
        let line = 1 + text[..text.len() - rest.len()].matches('\n').count();
        let end = end_of_statement(rest).ok_or_else(|| format!("line {line}: no ; ends the statement"))?;
        let sql = rest[..end].to_owned();
        rest = &rest[end + 1..];
        let mut data = None;
        if reads_lines(&sql) {
            let lines = rest.split_once('\n').map_or("", |(_, lines)| lines);
            let stop =
                if lines.starts_with("\\.\n") { Some(0) } else { lines.find("\n\\.\n").map(|n| n + 1) };
            let stop = stop.ok_or_else(|| format!("line {line}: no \\. ends the lines of COPY"))?;
            data = Some(lines[..stop].to_owned());
            rest = &lines[stop + 3..];
        }
        let mut statement = Statement {
            line,
            session,
            sql,
            data,
            unordered: comments.contains(&"-- unordered"),
            any_rows: comments.contains(&"-- any rows"),
            differs: None,
        };
        for comment in comments.drain(..) {
            if let Some(name) = comment.strip_prefix("-- session ") {
                session =
                    name.chars().next().ok_or_else(|| format!("line {line}: a session without a name"))?;
                statement.session = session;
            } else if let Some(said) = comment.strip_prefix("-- differs: ") {
                let (name, answer) = said
                    .split_once(": ")
                    .ok_or_else(|| format!("line {line}: a difference is `NAME: ANSWER`, not {said}"))?;
                statement.differs = Some(Differs { name: name.to_owned(), answer: lines_of(answer) });
            } else if let Some(differs) = &mut statement.differs
                && let Some(line) = comment.strip_prefix("-- ").filter(|l| l.starts_with(['|', '>']))
            {
                differs.answer.push(line.to_owned());
            }
        }
        statements.push(statement);
    }
}

/// An answer as a difference tells it, as lines of a recording.
fn lines_of(answer: &str) -> Vec<String> {
    let is_state = answer.len() == 5
        && answer.contains(|c: char| c.is_ascii_digit())
        && answer.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
    match answer {
        "rows" => Vec::new(),
        _ if is_state => vec![format!("! {answer}")],
        tag => vec![format!("= {tag}")],
    }
}

/// Whether the lines after the statement are data, up to one with `\.`.
fn reads_lines(sql: &str) -> bool {
    let words = sql.to_ascii_lowercase();
    let words: Vec<&str> = words.split(|c: char| c.is_whitespace() || c == '(').collect();
    words[0] == "copy" && words.windows(2).any(|w| w == ["from", "stdin"])
}

/// The place of the `;` that ends the statement at the beginning of `text`.
fn end_of_statement(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut place = 0;
    while let Some(&byte) = bytes.get(place) {
        // Where a piece that hides a `;` ends: the place after it.
        place = match byte {
            b';' => return Some(place),
            b'\'' => {
                let escapes = place > 0
                    && matches!(bytes[place - 1], b'e' | b'E')
                    && !(place > 1 && bytes[place - 2].is_ascii_alphanumeric());
                let mut end = place + 1;
                while *bytes.get(end)? != b'\'' {
                    end += if escapes && bytes[end] == b'\\' { 2 } else { 1 };
                }
                end + 1
            }
            b'"' => place + 2 + text[place + 1..].find('"')?,
            b'-' if text[place..].starts_with("--") => place + text[place..].find('\n')?,
            b'/' if text[place..].starts_with("/*") => place + text[place..].find("*/")? + 2,
            b'$' => match dollar_tag(&text[place..]) {
                Some(tag) => {
                    let body = place + tag.len();
                    body + text[body..].find(tag)? + tag.len()
                }
                None => place + 1,
            },
            _ => place + 1,
        };
    }
    None
}

/// The `$tag$` that begins a text.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = 1 + text[1..].find('$')?;
    let name = &text[1..end];
    let is_name = !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then(|| &text[..=end])
}

#[test]
fn a_script_is_split_into_statements() {
    let text = "-- A comment; of no account.\nSELECT ';', \"a;b\" -- ; here\n;\n\
                -- session B\nCOPY t (a) FROM STDIN (FORMAT csv);\n1;2\n\\.\n\
                -- differs: some-name: 0A000\n/* ; */ SELECT $x$ ; $x$, E'\\';', $1;\n\
                -- differs: other: rows\n-- | 1\n-- unordered\nSELECT 1;";
    let statements = split(text).unwrap();
    let shown: Vec<_> = statements.iter().map(|s| (s.line, s.session, s.words())).collect();
    assert_eq!(
        shown,
        [
            (2, 'A', "SELECT ';', \"a;b\" -- ; here".to_owned()),
            (5, 'B', "COPY t (a) FROM STDIN (FORMAT csv)".to_owned()),
            (9, 'B', "/* ; */ SELECT $x$ ; $x$, E'\\';', $1".to_owned()),
            (13, 'B', "SELECT 1".to_owned()),
        ]
    );
    assert_eq!(statements[1].data.as_deref(), Some("1;2\n"));
    assert_eq!(statements[2].differs.as_ref().unwrap().answer, ["! 0A000"]);
    assert_eq!(statements[3].differs.as_ref().unwrap().answer, ["| 1"]);
    assert!(statements[3].unordered && !statements[2].unordered);
    assert!(split("SELECT 1").is_err());
    assert!(split("COPY t FROM STDIN;\n1\n").is_err());
}
