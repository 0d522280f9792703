//! The interactive shell: statements of several lines up to `;`, history, completion, and a few commands that begin
//! with `\`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use lode_engine::{Database, IndexKind, KeyIndex, Object, ObjectKind, Rule, Snapshot, Table, ViewDef};
use lode_sql::{DeclaredIndex, TransactionStatus, shown_name};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::complete::{SqlHelper, names};
use crate::drive_file::{Opened, Resources};
use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::output::Format;
use crate::script::{ROLLED_BACK, Runner, println_quietly, standard_input};
use crate::table::{TextTable, bytes, count};

const HELP: &str = "\
Statements end with ';' and may take several lines.
  \\d          list the tables
  \\d TABLE    describe a table: columns, keys, indexes, size
  \\timing     show the time of each statement, or stop showing it
  \\?          this text
  \\q          leave (or Ctrl-D)
Within a transaction the prompt is lode*>. It is lode!> once the transaction has failed and needs a ROLLBACK.
Ctrl-C cancels a statement. TAB completes keywords and names. SET lode.offload = off, index, matches, hints, pages, rows, aggregate or auto
chooses how much the drive does; EXPLAIN ANALYZE shows what it did.";

/// Reads statements from the terminal until `\q` or the end of input.
pub(crate) fn run(path: &Path, opened: &mut Opened, resources: Resources, format: Format) -> CliResult {
    let known = Arc::new(RwLock::new(names(&opened.database)));
    let terminal = |e: ReadlineError| CliError::Failed(format!("terminal: {e}"));
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let mut editor: Editor<SqlHelper, FileHistory> = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(SqlHelper::new(Arc::clone(&known))));
    let history = history_file();
    if let Some(file) = &history {
        // Before the first session, there is no history.
        let _ = editor.load_history(file);
    }
    println_quietly(&format!(
        "{}: Lode {}. \\? for help, \\q to leave.",
        path.display(),
        env!("CARGO_PKG_VERSION")
    ))?;
    let mut timing = false;
    loop {
        let prompt = match opened.session.transaction_status() {
            TransactionStatus::Idle => "lode> ",
            TransactionStatus::Open => "lode*> ",
            TransactionStatus::Failed => "lode!> ",
        };
        let text = match interrupt::idle(|| editor.readline(prompt)) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(terminal(e)),
        };
        interrupt::forget();
        let trimmed = text.trim();
        let result = match trimmed.strip_prefix('\\') {
            Some("q" | "quit") => break,
            Some(command) => own_command(command.trim(), &opened.database, &mut timing),
            None => run_statements(&text, opened, resources, format, timing),
        };
        match result {
            Ok(()) => {}
            Err(e @ (CliError::Failed(_) | CliError::Sql(_) | CliError::Interrupted)) => {
                // If the terminal is gone, the next readline returns an error.
                let _ = writeln!(std::io::stderr(), "lode: {}", e.message().unwrap_or_default());
            }
            Err(e) => return Err(e),
        }
        interrupt::forget();
        *known.write().unwrap_or_else(std::sync::PoisonError::into_inner) = names(&opened.database);
    }
    if opened.session.roll_back() {
        println_quietly(ROLLED_BACK)?;
    }
    if let Some(file) = &history {
        // If the home directory is not writable, only the history is lost.
        let _ = editor.save_history(file);
    }
    Ok(())
}

fn run_statements(
    text: &str,
    opened: &mut Opened,
    resources: Resources,
    format: Format,
    timing: bool,
) -> CliResult {
    let session = Arc::clone(&opened.session);
    let mut changed = false;
    let mut done = || changed = true;
    let result = resources.block_on(async {
        let mut runner = Runner { session: &session, format, timing, done: &mut done };
        let mut told = false;
        let mut rows = || {
            if !std::mem::replace(&mut told, true) {
                println_quietly("Enter rows, a line each, and then \\. on a line of its own.")?;
            }
            standard_input()
        };
        runner.run(text, &mut rows).await
    });
    if changed {
        opened.keep();
    }
    result
}

fn own_command(command: &str, database: &Database, timing: &mut bool) -> CliResult {
    let (word, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match (word, argument.trim().trim_end_matches(';')) {
        ("?" | "h" | "help", _) => println_quietly(HELP),
        ("timing", _) => {
            *timing = !*timing;
            println_quietly(if *timing { "Timing is on." } else { "Timing is off." })
        }
        ("d", "") => list_tables(database),
        ("d", table) => describe(database, table),
        _ => Err(CliError::Failed(format!("there is no command \\{word}: \\? lists them"))),
    }
}

fn list_tables(database: &Database) -> CliResult {
    let snapshot = database.snapshot()?;
    let named = |t: &Arc<Table>| (shown_name(t.name()), t.clone());
    let mut tables: Vec<(String, Arc<Table>)> = snapshot.tables().map(named).collect();
    if tables.is_empty() {
        return println_quietly("There are no tables.");
    }
    tables.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = TextTable::new(&["table", ">rows", ">pages", ">size"]);
    for (name, table) in tables {
        let s = snapshot.statistics(&table)?;
        out.row([name, count(s.rows), count(s.pages), bytes(s.bytes)]);
    }
    println_quietly(out.render().trim_end())
}

/// The view of this name.
fn view_of<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a ViewDef> {
    let lower = name.to_lowercase();
    let is_it = |view: &str| shown_name(view) == name || shown_name(view) == lower;
    match snapshot.objects(ObjectKind::View).find(|(view, _)| is_it(view))?.1 {
        Object::View(view) => Some(view),
        _ => None,
    }
}

fn describe_view(view: &ViewDef) -> CliResult {
    let mut out = TextTable::new(&["column", "type"]);
    for (name, data_type) in &view.columns {
        out.row([name.clone(), data_type.clone()]);
    }
    println_quietly(&format!("{}view: {}", out.render(), view.query))
}

fn describe(database: &Database, name: &str) -> CliResult {
    let snapshot = database.snapshot()?;
    let unquoted = name.replace('"', "");
    let of_name = |name: &str| snapshot.tables().find(|t| shown_name(t.name()) == name).cloned();
    let table = of_name(&unquoted).or_else(|| of_name(&unquoted.to_lowercase()));
    if let (None, Some(view)) = (&table, view_of(&snapshot, &unquoted)) {
        return describe_view(view);
    }
    let table = table.ok_or_else(|| CliError::Failed(format!("there is no table {name}")))?;
    let mut out = TextTable::new(&["column", "type", "null", "key"]);
    for i in table.def().live_columns().map(usize::from) {
        let (column, ty) = (&table.def().columns[i], &table.schema().columns[i]);
        let key = table.def().primary_key.iter().position(|k| usize::from(*k) == i);
        out.row([
            column.name.clone(),
            column.declared.clone(),
            if ty.nullable { "yes" } else { "no" }.into(),
            key.map_or_else(String::new, |k| format!("primary {}", k + 1)),
        ]);
    }
    let name_of = |c: &u16| table.def().columns[usize::from(*c)].name.as_str();
    let list = |columns: &[u16]| columns.iter().map(name_of).collect::<Vec<_>>().join(", ");
    let mut text = out.render();
    if !table.def().options.page_index.is_empty() {
        text += &format!("page index: {}\n", list(&table.def().options.page_index));
    }
    if table.def().options.key_index != KeyIndex::Tree {
        text += &format!("key index: {}\n", table.def().options.key_index.name());
    }
    for index in table.indexes() {
        let kind = match index.kind {
            IndexKind::Page => "page index",
            IndexKind::Btree { unique: false } => "B+-tree",
            IndexKind::Btree { unique: true } => "unique B+-tree",
        };
        text += &format!(
            "index {}, {kind}: {}\n",
            index.name,
            DeclaredIndex::of(table.def(), index, str::to_owned)
        );
    }
    let deferral = table.def().primary_key_deferral.declared();
    if !deferral.is_empty() {
        text += &format!("primary key{deferral}\n");
    }
    for constraint in &table.def().constraints {
        let what = match &constraint.rule {
            Rule::Unique { columns } => format!("unique: {}", list(columns)),
            Rule::Check { expression } => format!("check: {expression}"),
            Rule::ForeignKey { columns, parent, on_delete, on_update, .. } => {
                let actions = [on_update.declared("ON UPDATE"), on_delete.declared("ON DELETE")].into_iter();
                let actions: String =
                    actions.filter(|a| !a.is_empty()).map(|a| format!(",{}", a.to_lowercase())).collect();
                format!("references {parent}: {}{actions}", list(columns))
            }
        };
        text += &format!("constraint {} {what}{}\n", constraint.name, constraint.deferral.declared());
    }
    let s = snapshot.statistics(&table)?;
    text += &format!("{} rows in {} pages, {}", count(s.rows), count(s.pages), bytes(s.bytes));
    println_quietly(&text)
}

/// The file of the history: `$LODE_HISTORY`, or `.lode_history` in the home directory.
fn history_file() -> Option<PathBuf> {
    let named = std::env::var_os("LODE_HISTORY").filter(|v| !v.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".lode_history")))
}
