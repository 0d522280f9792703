//! Schemas and changes: scripts as people write them, answered as PostgreSQL 15 answers them.
//!
//! ```text
//!   postgres/NAME.sql ─► statements ─► Lode, at some settings ─► answer ─┐
//!   postgres/recorded/NAME.txt ──────────────────► PostgreSQL's answer ──┴─► disagreements, by line of the script
//! ```
//!
//! `scripts/record_postgres.py` recorded the answers: names of columns and rows, or a command tag, or an SQLSTATE. Each script
//! runs on a new database. These comments before a statement mean something:
//!
//! - `-- session B`: from here on another session speaks. A script begins with session A.
//! - `-- unordered`: the rows may come in any order.
//! - `-- any rows`: only the kind of answer counts, as with EXPLAIN.
//! - `-- differs: NAME: ANSWER`: Lode means to answer something else: an SQLSTATE, a command tag, or `rows` and then a comment
//!   `-- | VALUES` for each row, or `-- > LINE` for each line of a COPY. `docs/sql.md` explains the name.
//!
//! `cargo test --test postgres all_scripts -- --ignored --nocapture` runs all scripts, also those that do not pass yet, and tells
//! how many statements of each agree. `LODE_POSTGRES=NAME` does so for one script, and shows all its disagreements.

mod postgres {
    pub(crate) mod place;
    pub(crate) mod recording;
    pub(crate) mod run;
    pub(crate) mod script;
    pub(crate) mod text;
}

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lode_sql::Offload;
use postgres::place::Place;
use postgres::run::{Disagreement, Outcome, Settings, run};
use postgres::script;

/// The scripts of which every statement agrees. The others wait in the folder for what they need.
const SCRIPTS: &[&str] = &[
    "alembic",
    "alter_add_drop_column",
    "alter_defaults_not_null",
    "alter_in_transactions",
    "alter_rename",
    "bad_schema",
    "basics",
    "comments",
    "cursors",
    "defaults",
    "django",
    "drop_cascade",
    "explain_changes",
    "generated_columns",
    "identity",
    "if_exists",
    "index_expressions",
    "job_queue",
    "later_types",
    "ledger",
    "mistakes",
    "not_there",
    "old_snapshots",
    "on_conflict",
    "on_conflict_sessions",
    "prisma",
    "rails",
    "returning",
    "schemas",
    "search_path",
    "sequence_limits",
    "serial",
    "set_functions",
    "shop",
    "temporary_tables",
    "tenants",
    "truncate",
    "update_tuples",
    "views",
    "views_replace_drop",
];
/// Disagreements of a script that `all_scripts` shows: later ones often follow from the first.
const SHOWN_MAX: usize = 3;
/// The table of `docs/sql.md` that explains the names of differences.
const HEADING: &str = "### Differences by name";

const SETTINGS: [Settings; 9] = [
    Settings { offload: Offload::Off, changes: "delta", place: Place::Memory },
    Settings { offload: Offload::Off, changes: "pages", place: Place::Memory },
    Settings { offload: Offload::Auto, changes: "delta", place: Place::Memory },
    Settings { offload: Offload::Auto, changes: "pages", place: Place::Memory },
    Settings { offload: Offload::Index, changes: "delta", place: Place::Memory },
    Settings { offload: Offload::Pages, changes: "pages", place: Place::Memory },
    Settings { offload: Offload::Aggregate, changes: "pages", place: Place::Memory },
    Settings { offload: Offload::Rows, changes: "delta", place: Place::Tcp },
    Settings { offload: Offload::Auto, changes: "delta", place: Place::Modelled },
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/postgres")
}

/// The names of all scripts in the folder.
fn all_names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder of scripts");
    let paths = entries.map(|e| e.expect("an entry").path());
    let scripts = paths.filter(|p| p.extension().is_some_and(|e| e == "sql"));
    let mut names: Vec<String> =
        scripts.map(|p| p.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn run_script(name: &str, settings: &Settings) -> Outcome {
    let statements = script::split(&read(&folder().join(format!("{name}.sql"))))
        .unwrap_or_else(|e| panic!("{name}.sql: {e}"));
    let answers = postgres::recording::read(&read(&folder().join(format!("recorded/{name}.txt"))));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(name, &statements, &answers, settings))
}

fn passes(settings: &Settings) {
    let outcomes = SCRIPTS.iter().map(|name| run_script(name, settings));
    let shown: Vec<String> =
        outcomes.flat_map(|o| o.disagreements).map(|d: Disagreement| d.to_string()).collect();
    assert!(shown.is_empty(), "at {settings}, {} statements disagree:\n{}", shown.len(), shown.join("\n"));
}

#[test]
fn scripts_agree_with_postgres_without_offload_on_deltas() {
    passes(&SETTINGS[0]);
}

#[test]
fn scripts_agree_with_postgres_without_offload_on_pages() {
    passes(&SETTINGS[1]);
}

#[test]
fn scripts_agree_with_postgres_with_offload_on_deltas() {
    passes(&SETTINGS[2]);
}

#[test]
fn scripts_agree_with_postgres_with_offload_on_pages() {
    passes(&SETTINGS[3]);
}

#[test]
fn scripts_agree_with_postgres_with_the_index_on_deltas() {
    passes(&SETTINGS[4]);
}

#[test]
fn scripts_agree_with_postgres_with_pages_of_the_drive() {
    passes(&SETTINGS[5]);
}

#[test]
fn scripts_agree_with_postgres_with_aggregates_of_the_drive() {
    passes(&SETTINGS[6]);
}

#[test]
fn scripts_agree_with_postgres_over_a_connection() {
    passes(&SETTINGS[7]);
}

#[test]
fn scripts_agree_with_postgres_on_a_modelled_device() {
    passes(&SETTINGS[8]);
}

#[test]
fn every_script_that_shall_pass_is_there_once() {
    let all: BTreeSet<String> = all_names().into_iter().collect();
    let listed: BTreeSet<String> = SCRIPTS.iter().map(|&s| s.to_owned()).collect();
    assert_eq!(listed.len(), SCRIPTS.len(), "a script is listed twice");
    assert!(listed.is_subset(&all), "no such script: {:?}", listed.difference(&all));
}

/// A difference without an explanation is a bug that somebody wrote down.
#[test]
fn every_difference_is_explained_in_the_documentation() {
    let mut used = BTreeSet::new();
    let mut statements = 0;
    for name in all_names() {
        let script = script::split(&read(&folder().join(format!("{name}.sql")))).expect("a script");
        statements += script.len();
        used.extend(script.into_iter().filter_map(|s| s.differs).map(|d| d.name));
    }
    let document = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md"));
    let (_, section) = document.split_once(HEADING).unwrap_or_else(|| panic!("docs/sql.md has no {HEADING}"));
    let section = section.split("\n#").next().expect("the section");
    let rows = section.lines().filter_map(|l| l.strip_prefix("| `")?.split_once('`'));
    let explained: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(used, explained, "differences of the scripts, and those of docs/sql.md");
    assert!(statements >= 700, "only {statements} statements");
}

#[test]
#[ignore = "a report: it fails for nothing"]
fn all_scripts() {
    let only = std::env::var("LODE_POSTGRES").unwrap_or_default();
    let (mut agree, mut total, mut whole) = (0, 0, 0);
    let names = all_names();
    for name in names.iter().filter(|n| only.is_empty() || **n == only) {
        let outcome = run_script(name, &SETTINGS[2]);
        let listed = if SCRIPTS.contains(&name.as_str()) { "" } else { "  (not listed)" };
        println!("{name}: {} of {} agree{listed}", outcome.agree(), outcome.statements);
        let shown = if only.is_empty() { SHOWN_MAX } else { usize::MAX };
        for disagreement in outcome.disagreements.iter().take(shown) {
            println!("{disagreement}");
        }
        agree += outcome.agree();
        total += outcome.statements;
        whole += usize::from(outcome.disagreements.is_empty());
    }
    println!("{agree} of {total} statements agree; {whole} scripts as a whole");
}
