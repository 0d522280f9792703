//! The recorded cases: statements with PostgreSQL 15's answers.

use std::path::Path;

/// A statement and its answer in PostgreSQL.
pub(crate) struct Case {
    pub(crate) theme: String,
    pub(crate) sql: String,
    pub(crate) answer: Answer,
}

/// PostgreSQL's answer.
pub(crate) enum Answer {
    /// An error, by its SQLSTATE.
    Error(String),
    /// The types of the columns, and the rows: a value as text, or none for NULL.
    Rows { types: Vec<String>, rows: Vec<Vec<Option<String>>> },
}

/// The cases of all files, theme by theme.
pub(crate) fn read() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edges/postgres15");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the recorded answers")
        .map(|e| e.expect("an entry").path())
        .collect();
    files.sort();
    let cases: Vec<Case> =
        files.iter().flat_map(|f| parse(&std::fs::read_to_string(f).expect("a file of cases"))).collect();
    assert!(!cases.is_empty(), "no cases");
    cases
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut theme = "";
    let mut sql = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            theme = name;
        } else if let Some(statement) = line.strip_prefix("? ") {
            sql = statement;
        } else if let Some(state) = line.strip_prefix("! ") {
            cases.push(Case { theme: theme.into(), sql: sql.into(), answer: Answer::Error(state.into()) });
        } else if let Some(types) = line.strip_prefix(": ") {
            let types = types_of(types);
            cases.push(Case {
                theme: theme.into(),
                sql: sql.into(),
                answer: Answer::Rows { types, rows: Vec::new() },
            });
        } else if let Some(row) = line.strip_prefix('|') {
            let Some(Case { answer: Answer::Rows { rows, .. }, .. }) = cases.last_mut() else {
                panic!("a row without types: {line}");
            };
            rows.push(row.split('\t').map(value).collect());
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "not a line of cases: {line}");
        }
    }
    cases
}

/// The types of `numeric(4,2), interval day`, without lengths, precisions and fields: `numeric` and `interval`.
fn types_of(line: &str) -> Vec<String> {
    let plain = |part: &str| match (part.split_once('('), part.strip_prefix("interval ")) {
        (_, Some(_)) => "interval".to_owned(),
        (Some((name, rest)), None) => name.to_owned() + rest.split_once(')').map_or("", |(_, after)| after),
        (None, None) => part.to_owned(),
    };
    line.split(", ").map(plain).collect()
}

/// COPY's text of a value.
fn value(text: &str) -> Option<String> {
    if text == "\\N" {
        return None;
    }
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some('r')) => out.push('\r'),
            ('\\', Some('b')) => out.push('\u{8}'),
            ('\\', Some('f')) => out.push('\u{c}'),
            ('\\', Some('v')) => out.push('\u{b}'),
            ('\\', Some(other)) => out.push(other),
            (c, _) => out.push(c),
        }
    }
    Some(out)
}

#[test]
fn answers_are_read_as_copy_wrote_them() {
    let text = "# made by\n\n== theme\n? SELECT a, b\n: numeric(4,2), interval day, timestamp(3) without time zone\n|1.00\t\\N\ta\\tb\n||\t\\\\N\t\n? SELECT\n! 42601\n";
    let cases = parse(text);
    let Answer::Rows { types, rows } = &cases[0].answer else { panic!("rows") };
    assert_eq!(*types, ["numeric", "interval", "timestamp without time zone"]);
    let row = |values: [Option<&str>; 3]| values.map(|v| v.map(str::to_owned)).to_vec();
    assert_eq!(*rows, [row([Some("1.00"), None, Some("a\tb")]), row([Some("|"), Some("\\N"), Some("")])]);
    assert!(matches!(&cases[1].answer, Answer::Error(state) if state == "42601"));
    assert_eq!((cases[1].theme.as_str(), cases[1].sql.as_str()), ("theme", "SELECT"));
}
