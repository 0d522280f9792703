//! Kills the real binary while it changes schemas and rows at random. Afterwards every acknowledged statement is there, and nothing of
//! the others: no half of an ALTER TABLE, no temporary table, no number of a sequence twice.
//!
//! ```text
//!   round: open ─► read all relations: one of the possible states? ─► statements and transactions, each acknowledged ─► SIGKILL
//! ```
//!
//! `LODE_KILLS=5000` runs thousands of kills, `LODE_SEED=7` another sequence.

mod common;
#[path = "../../sql/tests/schema_random/model.rs"]
mod model;

use std::collections::BTreeSet;
use std::time::Duration;

use common::shell::Shell;
use common::{Dir, number, succeed};
use lode_base::random::Random;
use model::State;

/// The most statements of a round.
const STATEMENTS: usize = 10;

/// The lines that a shell writes for a query of the relations that SHOW TABLES names.
fn read(shell: &mut Shell) -> String {
    shell.send("SHOW TABLES;\n");
    let names: Vec<String> = shell.rows().into_iter().map(|mut row| row.remove(0)).collect();
    let mut text = String::new();
    for name in names {
        shell.send(&format!("{};\n", State::query(&name)));
        let heading: Vec<String> = shell.line().split_whitespace().map(str::to_owned).collect();
        let mut lines = vec![heading.join(" ")];
        lines.extend(shell.rows_below().into_iter().map(|row| row.join(" ")));
        text += &format!("{name}: {}\n", lines.join(" | "));
    }
    text
}

/// The values of a row that says its key alone. It is taken back.
fn new_row(shell: &mut Shell, table: &str) -> Vec<i64> {
    let id = State::KEY_OF_NONE;
    shell.send(&format!(
        "BEGIN;\nINSERT INTO {table} (id) VALUES ({id});\nSELECT * FROM {table} WHERE id = {id};\n"
    ));
    shell.line();
    shell.line();
    let rows = shell.rows();
    shell.send("ROLLBACK;\n");
    shell.line();
    rows[0][1..].iter().map(|v| v.parse().expect("a number")).collect()
}

#[test]
fn every_acknowledged_change_of_a_schema_survives_sigkill_and_nothing_else() {
    let (kills, seed) = (number("LODE_KILLS", 120), number("LODE_SEED", 1));
    let mut random = Random::of_seed(seed);
    let dir = Dir::new();
    let drive = dir.file("schema.lode");
    succeed(["sql", &drive, "-c", "CREATE SEQUENCE numbers"]);
    let mut possible = vec![State::default()];
    let (mut statements, mut last) = (0, 0);
    for kill in 0..kills {
        let mut shell = Shell::open(&drive);
        if kill % 5 == 4 {
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            shell.kill();
            continue;
        }
        let found = read(&mut shell);
        let mut like_it: Vec<State> = possible.iter().filter(|s| s.text() == found).cloned().collect();
        // A default shows only in rows to come.
        for name in like_it.iter().flat_map(State::table_names).collect::<BTreeSet<_>>() {
            if like_it.windows(2).any(|s| s[0].new_row(&name) != s[1].new_row(&name)) {
                let row = new_row(&mut shell, &name);
                like_it.retain(|s| s.new_row(&name) == row);
            }
        }
        let Some(state) = like_it.first().cloned() else {
            let possible: Vec<String> = possible.iter().map(State::text).collect();
            panic!("seed {seed}, kill {kill}: found\n{found}possible were\n{}", possible.join("or\n"));
        };
        shell.send("SELECT nextval('numbers') AS n;\n");
        let number: i64 = shell.rows()[0][0].parse().expect("a number");
        assert!(number > last, "seed {seed}, kill {kill}: number {number} after {last}");
        last = number;

        // What is acknowledged by each line, and the state behind it.
        let (mut states, mut script, mut sent) = (vec![state], String::new(), 0);
        if random.once_in(2) {
            script += "CREATE TEMP TABLE passing (a INT);\nINSERT INTO passing VALUES (1);\n";
            states.extend([states[0].clone(), states[0].clone()]);
        }
        while sent < STATEMENTS {
            let before = states[states.len() - 1].clone();
            let mut after = before.clone();
            let in_transaction = random.once_in(3);
            let count = if in_transaction { 1 + random.below(4) } else { 1 };
            let changes: Vec<String> = (0..count).filter_map(|_| after.change(&mut random)).collect();
            sent += changes.len();
            if in_transaction {
                let ends = if random.once_in(4) { "ROLLBACK" } else { "COMMIT" };
                script += &format!("BEGIN;\n{};\n{ends};\n", changes.join(";\n"));
                states.extend(std::iter::repeat_n(before.clone(), changes.len() + 1));
                states.push(if ends == "COMMIT" { after } else { before });
            } else {
                for change in changes {
                    script += &format!("{change};\n");
                    states.push(after.clone());
                }
            }
        }
        shell.send(&script);
        let wanted = random.below(states.len() as u64 - 1) as usize;
        let mut seen: Vec<String> = (0..wanted).map(|_| shell.line()).collect();
        std::thread::sleep(Duration::from_micros(random.below(8_000)));
        seen.extend(shell.kill());
        let n = seen.len();
        statements += n;
        assert!(n < states.len(), "seed {seed}, kill {kill}: more answers than statements: {seen:?}");
        possible = states[n..(n + 2).min(states.len())].to_vec();
        if kill % 20 == 19 {
            succeed(["drive", "check", &drive]);
        }
    }
    succeed(["drive", "check", &drive]);
    println!("{kills} kills, {statements} statements acknowledged");
    assert!(statements as u64 > kills, "hardly anything was committed: the test does not test");
}
