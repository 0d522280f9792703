//! Kills the real binary at random moments. Afterwards every acknowledged commit is there, and nothing of the others.
//!
//! ```text
//!   round: open ─► verify against the model ─► statements, each acknowledged on standard output ─► SIGKILL
//! ```
//!
//! The model is the state after each statement. After a kill with n acknowledgements, the drive must hold the state
//! after n statements, or after n + 1 if the next one was committed but not yet acknowledged. It must never hold a
//! part of a statement. `LODE_KILLS=5000` runs thousands of kills, `LODE_SEED=7` another sequence.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use common::shell::Shell;
use common::{Dir, lode, number, succeed};
use lode_base::random::Random;

/// The most statements of a round.
const STATEMENTS: usize = 12;

/// The number of rows in the file that COPY loads.
const COPY_ROWS: i64 = 3000;

const TABLES: [&str; 8] =
    ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

/// The expected content of the drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    rows: BTreeMap<i64, i64>,
    tables: BTreeSet<String>,
}

impl State {
    fn text(&self) -> String {
        let sum: i64 = self.rows.values().sum();
        format!(
            "{} rows, sum {sum}, ids {:?}..{:?}, tables {:?}",
            self.rows.len(),
            self.rows.keys().next(),
            self.rows.keys().last(),
            self.tables
        )
    }
}

/// Generates a statement and applies it to the model.
fn statement(random: &mut Random, state: &mut State, copy_from: &str) -> String {
    let next = state.rows.keys().next_back().map_or(0, |k| k + 1);
    let (m, d) = (1 + random.below(7) as i64, random.below(1000) as i64 + 1);
    let r = random.below(m as u64) as i64;
    let hit = |id: &i64| id % m == r;
    match random.below(11) {
        0..=3 => {
            let n = 1 + random.below(40) as i64;
            state.rows.extend((next..next + n).map(|id| (id, d)));
            let rows: Vec<String> = (next..next + n).map(|id| format!("({id}, {d})")).collect();
            format!("INSERT INTO acc VALUES {};", rows.join(", "))
        }
        4 | 5 => {
            state.rows.iter_mut().filter(|(id, _)| hit(id)).for_each(|(_, v)| *v += d);
            format!("UPDATE acc SET v = v + {d} WHERE id % {m} = {r};")
        }
        6 => {
            state.rows.retain(|id, _| !hit(id));
            format!("DELETE FROM acc WHERE id % {m} = {r};")
        }
        7 if state.rows.len() < 2 * COPY_ROWS as usize => {
            // The file's ids differ from those of INSERT. The file is loaded only after its earlier rows were
            // deleted.
            if state.rows.range(-COPY_ROWS..0).next().is_some() {
                state.rows.retain(|id, _| *id >= 0);
                return "DELETE FROM acc WHERE id < 0;".into();
            }
            state.rows.extend((-COPY_ROWS..0).map(|id| (id, -id)));
            format!("COPY acc FROM '{copy_from}' (FORMAT csv, HEADER true);")
        }
        8 => {
            let name = format!("extra_{d}");
            if state.tables.remove(&name) {
                return format!("DROP TABLE {name};");
            }
            state.tables.insert(name.clone());
            format!("CREATE TABLE {name} (a INTEGER PRIMARY KEY, b TEXT);")
        }
        10 => "VACUUM acc;".into(),
        9 if state.tables.len() > 1 => {
            let name = state.tables.iter().find(|t| *t != "acc").cloned().unwrap();
            state.tables.remove(&name);
            format!("DROP TABLE {name};")
        }
        _ => {
            // A statement that changes every row. It must be visible as a whole or not at all.
            state.rows.values_mut().for_each(|v| *v += 1);
            "UPDATE acc SET v = v + 1;".into()
        }
    }
}

/// The state that a shell reads.
fn state_of(shell: &mut Shell) -> State {
    let int = |s: &String| s.parse::<i64>().unwrap_or_else(|_| panic!("{s} is not a number"));
    let rows = shell.rows().iter().map(|r| (int(&r[0]), int(&r[1]))).collect();
    let tables = shell.rows().into_iter().map(|mut r| r.remove(0)).collect();
    State { rows, tables }
}

const READ: &str = "SELECT id, v FROM acc;\n\
    SELECT table_name, 0 FROM information_schema.tables WHERE table_schema = 'public';\n";

#[test]
fn every_acknowledged_commit_survives_sigkill_and_nothing_else() {
    let (kills, seed) = (number("LODE_KILLS", 120), number("LODE_SEED", 1));
    let mut random = Random::of_seed(seed);
    let dir = Dir::new();
    let (drive, copy_from) = (dir.file("crash.lode"), dir.file("rows.csv"));
    let mut csv = "id,v\n".to_string();
    (-COPY_ROWS..0).for_each(|id| writeln!(csv, "{id},{}", -id).unwrap());
    std::fs::write(&copy_from, csv).unwrap();
    let table = "CREATE TABLE acc (id BIGINT PRIMARY KEY, v BIGINT NOT NULL) WITH (page_index = 'id')";
    succeed(["sql", &drive, "-c", table]);
    let mut possible = vec![State { rows: BTreeMap::new(), tables: BTreeSet::from(["acc".to_string()]) }];
    let (mut statements, mut unacknowledged) = (0, 0);
    for kill in 0..kills {
        let mut shell = Shell::open(&drive);
        if kill % 5 == 4 {
            // The kill comes during the opening and recovery, or soon after.
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            shell.kill();
            continue;
        }
        shell.send(READ);
        let found = state_of(&mut shell);
        assert!(
            possible.contains(&found),
            "seed {seed}, kill {kill}: found {}; possible were {:?}",
            found.text(),
            possible.iter().map(State::text).collect::<Vec<_>>()
        );
        unacknowledged +=
            u64::from(possible.len() == 2 && possible[0] != possible[1] && found == possible[1]);
        let mut states = vec![found];
        let mut script = String::new();
        for _ in 0..STATEMENTS {
            let mut next = states[states.len() - 1].clone();
            script += &statement(&mut random, &mut next, &copy_from);
            script.push('\n');
            states.push(next);
        }
        shell.send(&script);
        let wanted = random.below(STATEMENTS as u64) as usize;
        let mut seen: Vec<String> = (0..wanted).map(|_| shell.line()).collect();
        std::thread::sleep(Duration::from_micros(random.below(8_000)));
        seen.extend(shell.kill());
        let n = seen.len();
        statements += n;
        assert!(n <= STATEMENTS, "seed {seed}, kill {kill}: more answers than statements: {seen:?}");
        possible = states[n..(n + 2).min(states.len())].to_vec();
        if kill % 20 == 19 {
            succeed(["drive", "check", &drive]);
        }
    }
    succeed(["drive", "check", &drive]);
    println!(
        "{kills} kills, {statements} statements acknowledged, {unacknowledged} more committed before their acknowledgement"
    );
    assert!(statements as u64 > kills, "hardly anything was committed: the test does not test");
}

#[test]
fn a_killed_load_leaves_each_table_whole_or_empty() {
    let (kills, seed) = (number("LODE_KILLS", 120) / 20, number("LODE_SEED", 1));
    let mut random = Random::of_seed(!seed);
    let dir = Dir::new();
    let drive = dir.file("load.lode");
    succeed(["drive", "format", &drive]);
    let start = Instant::now();
    succeed(["load", "tpch", "--scale", "0.01", "--drive", &drive]);
    let load_us = start.elapsed().as_micros() as u64;
    let count = |table: &str| -> Option<u64> {
        let out =
            common::run(["sql", &drive, "--format", "csv", "-c", &format!("SELECT count(*) FROM {table}")]);
        out.status
            .success()
            .then(|| String::from_utf8_lossy(&out.stdout).lines().nth(1).unwrap().parse().unwrap())
    };
    let whole: Vec<u64> = TABLES.iter().map(|t| count(t).unwrap()).collect();
    for kill in 0..kills {
        let drop_all: String = TABLES.iter().map(|t| format!("DROP TABLE IF EXISTS {t};")).collect();
        succeed(["sql", &drive, "-c", &drop_all]);
        let mut child = lode().args(["load", "tpch", "--scale", "0.01", "--drive", &drive]).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(random.below(load_us)));
        child.kill().unwrap();
        child.wait().unwrap();
        for (table, whole) in TABLES.iter().zip(&whole) {
            let found = count(table);
            let allowed = found.is_none_or(|n| n == 0 || n == *whole);
            assert!(allowed, "seed {seed}, kill {kill}: {table} has {found:?} of {whole} rows");
        }
        succeed(["drive", "check", &drive]);
    }
}
