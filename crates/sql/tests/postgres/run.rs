//! Runs a script on a new database, and compares the answers with the recorded ones.

use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::time::Duration;

use futures::StreamExt;
use lode_engine::Database;
use lode_sql::{Offload, Queries, Session, SessionOptions, SqlError, StatementResult};

use super::place::Place;
use super::recording::Recorded;
use super::script::Statement;
use super::text::{copied, escaped};

const STATEMENT_SECONDS_MAX: u64 = 60;
/// Characters of a statement and of an answer that a disagreement shows.
const SHOWN_CHARS: usize = 300;

/// At what the scripts run.
pub(crate) struct Settings {
    /// `lode.offload`.
    pub(crate) offload: Offload,
    /// `lode.default_changes`.
    pub(crate) changes: &'static str,
    /// On what drive.
    pub(crate) place: Place,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offload {}, changes {}, {:?}", self.offload, self.changes, self.place)
    }
}

/// A statement that Lode answers in another way than it should.
pub(crate) struct Disagreement {
    /// The script and the line.
    place: String,
    sql: String,
    expected: String,
    got: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |text: &str| match text.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text.to_owned(),
        };
        let (sql, expected, got) = (short(&self.sql), short(&self.expected), short(&self.got));
        write!(f, "  {}: {sql}\n    expected: {expected}\n    got:      {got}", self.place)
    }
}

/// What came of a script.
pub(crate) struct Outcome {
    /// How many statements it has.
    pub(crate) statements: usize,
    /// Those that do not agree, in order.
    pub(crate) disagreements: Vec<Disagreement>,
}

impl Outcome {
    /// How many statements agree.
    pub(crate) fn agree(&self) -> usize {
        self.statements - self.disagreements.len()
    }
}

/// Lode's answer.
struct Got {
    /// As lines of a recording.
    lines: Vec<String>,
    /// The fields of an error.
    fields: Vec<String>,
    /// What an error says.
    message: String,
}

/// Runs the statements of a script in order.
pub(crate) async fn run(
    name: &str,
    statements: &[Statement],
    recorded: &[Recorded],
    settings: &Settings,
) -> Outcome {
    let opened = settings.place.open();
    let db = opened.db.clone();
    let mut sessions: BTreeMap<char, Session> = BTreeMap::new();
    let mut disagreements = Vec::new();
    assert_eq!(statements.len(), recorded.len(), "{name}: record the answers again");
    for (statement, recorded) in statements.iter().zip(recorded) {
        let place = format!("{name}.sql:{}", statement.line);
        let words = statement.words();
        assert_eq!(words, recorded.words, "{place}: record the answers again");
        let session = match sessions.entry(statement.session) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(free) => free.insert(session(&db, settings).await),
        };
        let got = answer(session, statement).await;
        // The number of a session's schema is its own affair.
        let own = |fields: &[String]| -> Vec<String> {
            let is_temporary = |f: &&String| !f.starts_with("schema pg_temp");
            fields.iter().filter(is_temporary).cloned().collect()
        };
        let expected = expected(statement, recorded);
        let mut lines = got.lines;
        shape(statement, &mut lines);
        let mut shown = lines.join(" ");
        let mut agrees = lines == expected;
        if agrees && statement.differs.is_none() && own(&got.fields) != own(&recorded.fields) {
            agrees = false;
            shown = format!("{shown} {:?}, not {:?}", got.fields, recorded.fields);
        }
        if !agrees {
            let got = if got.message.is_empty() { shown } else { format!("{shown}: {}", got.message) };
            disagreements.push(Disagreement { place, sql: words, expected: expected.join(" "), got });
        }
    }
    drop(sessions);
    Outcome { statements: statements.len(), disagreements }
}

async fn session(db: &Database, settings: &Settings) -> Session {
    let options =
        SessionOptions { target_partitions: 2, offload: settings.offload, ..SessionOptions::default() };
    let session = Queries::new(db.clone(), 1 << 30).and_then(|q| q.session(&options)).expect("a session");
    let changes = format!("SET lode.default_changes = '{}'", settings.changes);
    session.execute(&changes).await.expect("the setting is taken");
    session
}

/// The lines that Lode should answer.
fn expected(statement: &Statement, recorded: &Recorded) -> Vec<String> {
    let mut lines = match &statement.differs {
        Some(differs) => differs.answer.clone(),
        None => recorded.lines.clone(),
    };
    // Rows say it all: a result with rows has no command tag in Lode.
    if lines.first().is_some_and(|l| l.starts_with([':', '>'])) {
        lines.pop();
    }
    shape(statement, &mut lines);
    lines
}

/// Leaves what the marks of a statement let count.
fn shape(statement: &Statement, lines: &mut Vec<String>) {
    let are_rows = lines.first().is_some_and(|l| l.starts_with([':', '|']));
    if statement.any_rows && are_rows {
        *lines = vec![": any".to_owned()];
    }
    if statement.differs.as_ref().is_some_and(|d| d.answer.iter().all(|l| l.starts_with('|'))) {
        lines.retain(|l| !l.starts_with(':'));
    }
    if statement.unordered {
        lines.sort();
    }
}

/// Lode's answer to a statement. A panic and a hang are answers too.
async fn answer(session: &Session, statement: &Statement) -> Got {
    let (session, mut sql) = (session.clone(), statement.sql.clone());
    if let Some(data) = &statement.data {
        sql = format!("{sql};\n{data}\\.\n");
    }
    let task = tokio::spawn(async move { ask(&session, &sql).await });
    let failed =
        |message: &str| Got { lines: vec![message.to_owned()], fields: Vec::new(), message: String::new() };
    match tokio::time::timeout(Duration::from_secs(STATEMENT_SECONDS_MAX), task).await {
        Ok(Ok(Ok(lines))) => Got { lines, fields: Vec::new(), message: String::new() },
        Ok(Ok(Err(e))) => {
            Got { lines: vec![format!("! {}", e.sqlstate())], fields: fields(&e), message: e.to_string() }
        }
        Ok(Err(_)) => failed("a panic"),
        Err(_) => failed("no answer in time"),
    }
}

async fn ask(session: &Session, sql: &str) -> Result<Vec<String>, SqlError> {
    let (schema, mut stream) = match session.execute(sql).await?.pop() {
        Some(StatementResult::Rows { schema, stream }) => (schema, stream),
        Some(StatementResult::Count { verb: "INSERT", rows }) => {
            return Ok(vec![format!("= INSERT 0 {rows}")]);
        }
        Some(StatementResult::CopyOut(mut copy)) => {
            let mut text = Vec::new();
            while let Some(bytes) = copy.next().await? {
                text.extend_from_slice(&bytes);
            }
            let lines: Vec<String> =
                String::from_utf8_lossy(&text).split_terminator('\n').map(|l| format!("> {l}")).collect();
            return Ok(if lines.is_empty() { vec!["= COPY 0".to_owned()] } else { lines });
        }
        Some(done) => return Ok(vec![format!("= {done:?}")]),
        None => return Ok(Vec::new()),
    };
    let names = schema.fields().iter().map(|f| escaped(f.name()));
    let mut lines = vec![format!(": {}", names.collect::<Vec<_>>().join("\t"))];
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| copied(c, row));
            lines.push(format!("| {}", values.collect::<Vec<_>>().join("\t")));
        }
    }
    Ok(lines)
}

/// The fields of an error, as recordings have them: PostgreSQL has them of constraints.
fn fields(e: &SqlError) -> Vec<String> {
    if !e.sqlstate().starts_with("23") {
        return Vec::new();
    }
    let fields = e.fields();
    let named = [
        ("schema", fields.schema),
        ("table", fields.table),
        ("column", fields.column),
        ("constraint", fields.constraint),
    ];
    named.into_iter().filter_map(|(what, name)| Some(format!("{what} {}", name?))).collect()
}
