//! Recordings of `scripts/record_postgres.py`: the answers of PostgreSQL 15 to a script.

/// A statement and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// The statement on one line.
    pub(crate) words: String,
    /// The answer: `: names`, `| values`, `> copied line`, `= tag`, `! SQLSTATE`.
    pub(crate) lines: Vec<String>,
    /// What an error names: `table t`, `column c`, `constraint c`.
    pub(crate) fields: Vec<String>,
}

/// The statements of a recording, in order.
pub(crate) fn read(text: &str) -> Vec<Recorded> {
    let mut all: Vec<Recorded> = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        if let Some(words) = line.strip_prefix("? ") {
            all.push(Recorded { words: words.to_owned(), lines: Vec::new(), fields: Vec::new() });
            continue;
        }
        let last = all.last_mut().unwrap_or_else(|| panic!("an answer before any statement: {line}"));
        match line.strip_prefix("! ") {
            // PostgreSQL waited here. Lode never does.
            None if line == "~" => {}
            None => last.lines.push(line.to_owned()),
            Some(error) => {
                let mut fields = error.split('\t').map(str::to_owned);
                last.lines.push(format!("! {}", fields.next().unwrap_or_default()));
                last.fields = fields.collect();
            }
        }
    }
    all
}
