//! Random queries of joins, groups, windows and lists over tables with primary keys, and over the same rows without keys: what a planner
//! concludes from a key never changes an answer.
//!
//! ```text
//!   query ─┬─ tables k0, k1, k2 with primary keys ─► rows
//!          └─ tables n0, n1, n2 without ───────────► the same rows
//! ```
//!
//! `LODE_CASES` sets the number of queries, `LODE_SEED` the seed.

mod support;

use lode_base::random::Random;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Queries, Session, SessionOptions};
use std::fmt::Write;
use std::sync::Arc;
use support::{rows, run};

/// The columns of each table, of which the first `KEYS` are its key.
const COLUMNS: [&[&str]; 3] = [&["a", "b", "c"], &["d", "e", "f"], &["g", "h"]];
const KEYS: [usize; 3] = [1, 2, 1];
/// The values of a column are below this, or NULL.
const VALUES: u64 = 5;

fn session() -> Session {
    let drive = Drive::in_memory(1 << 28);
    let database = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
    Queries::new(database, 1 << 30).and_then(|q| q.session(&SessionOptions::default())).unwrap()
}

async fn fill(s: &Session, random: &mut Random) {
    for (table, columns) in COLUMNS.iter().enumerate() {
        let key = &columns[..KEYS[table]];
        let defined: Vec<String> = columns.iter().map(|c| format!("{c} INT")).collect();
        let defined = defined.join(", ");
        run(s, &format!("CREATE TABLE k{table} ({defined}, PRIMARY KEY ({}))", key.join(", "))).await;
        run(s, &format!("CREATE TABLE n{table} ({defined})")).await;
        for number in 0..VALUES.pow(key.len() as u32) {
            if random.below(4) == 0 {
                continue;
            }
            let mut values: Vec<String> =
                (0..key.len() as u32).map(|at| (number / VALUES.pow(at) % VALUES).to_string()).collect();
            values.extend(columns[key.len()..].iter().map(|_| match random.below(VALUES + 1) {
                VALUES => "NULL".into(),
                value => value.to_string(),
            }));
            let values = values.join(", ");
            run(s, &format!("INSERT INTO k{table} VALUES ({values})")).await;
            run(s, &format!("INSERT INTO n{table} VALUES ({values})")).await;
        }
    }
}

/// Writes queries. A table is written `{0}`, `{1}` or `{2}`.
struct Writer<'a> {
    random: &'a mut Random,
    aliases: u32,
}

impl Writer<'_> {
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        self.random.pick(of).expect("there is something to pick").clone()
    }

    /// A relation with its columns, qualified.
    fn relation(&mut self, depth: u32) -> (String, Vec<String>) {
        self.aliases += 1;
        let alias = format!("r{}", self.aliases);
        let (text, columns) = if depth == 0 {
            let table = self.random.below(3) as usize;
            (format!("{{{table}}}"), COLUMNS[table].iter().map(|c| (*c).to_owned()).collect())
        } else {
            let (query, columns) = self.query(depth - 1);
            (format!("({query})"), columns)
        };
        (format!("{text} AS {alias}"), columns.iter().map(|c| format!("{alias}.{c}")).collect())
    }

    /// A query with the names of its columns.
    fn query(&mut self, depth: u32) -> (String, Vec<String>) {
        let (mut from, mut columns) = self.relation(depth);
        // Tables repeat their keys in joins; groups of such joins are joined at most once.
        let joins = if depth == 0 { 1 + self.random.below(2) } else { self.random.below(2) };
        for _ in 0..joins {
            let (other, its) = self.relation(0);
            let join = self.pick(&["JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            write!(from, " {join} {other} ON {} = {}", self.pick(&columns), self.pick(&its)).unwrap();
            columns.extend(its);
        }
        if self.random.below(4) == 0 {
            write!(from, " WHERE {} {} 2", self.pick(&columns), self.pick(&["=", "<", ">"])).unwrap();
        }
        let taken = 1 + self.random.below(columns.len().min(3) as u64) as usize;
        for at in 0..taken {
            let other = at + self.random.below((columns.len() - at) as u64) as usize;
            columns.swap(at, other);
        }
        let shown: Vec<String> = (0..taken).map(|at| format!("{} AS v{at}", columns[at])).collect();
        let mut names: Vec<String> = (0..taken).map(|at| format!("v{at}")).collect();
        let select = shown.join(", ");
        let text = match self.random.below(6) {
            0 => format!("SELECT {select} FROM {from}"),
            1 | 5 => format!("SELECT DISTINCT {select} FROM {from}"),
            2 => {
                // A column of the GROUP BY may be left out of the list.
                let kept = 1 + self.random.below(taken as u64) as usize;
                let by = columns[..taken].join(", ");
                names.truncate(kept);
                names.push("n".into());
                let call = format!("{}({})", self.pick(&["count", "max", "min"]), self.pick(&columns));
                format!(
                    "SELECT {}, CAST({call} AS INT) AS n FROM {from} GROUP BY {by}",
                    shown[..kept].join(", ")
                )
            }
            3 => {
                names.push("w".into());
                let (by, order, of) = (self.pick(&columns), self.pick(&columns), self.pick(&columns));
                let by = self.pick(&[String::new(), format!("PARTITION BY {by} ")]);
                let window = format!("CAST(count({of}) OVER ({by}ORDER BY {order}) AS INT)");
                format!("SELECT {select}, {window} AS w FROM {from}")
            }
            _ => {
                self.aliases += 1;
                let list = format!("s{}", self.aliases);
                let inner: Vec<String> = (0..taken).map(|at| format!("{} AS x{at}", columns[at])).collect();
                let outer: Vec<String> = (0..taken).map(|at| format!("x{at} AS v{at}")).collect();
                let (inner, outer) = (inner.join(", "), outer.join(", "));
                names.push(list.clone());
                format!(
                    "SELECT {outer}, {list} FROM (SELECT {inner}, generate_series(1, 2) AS {list} FROM {from}) AS i"
                )
            }
        };
        (text, names)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_depends_on_what_is_known_of_keys() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |v| v.parse().unwrap());
    let seed = number("LODE_SEED", 1);
    let mut random = Random::of_seed(seed);
    let s = session();
    fill(&s, &mut random).await;
    let mut answers = 0;
    for case in 0..number("LODE_CASES", 150) {
        let (query, columns) = Writer { random: &mut random, aliases: 0 }.query(2);
        let query = match case % 3 {
            0 => format!("SELECT count(*), sum({}) FROM ({query}) AS q", columns[0]),
            _ => query,
        };
        let of = |letter: &str| {
            (0..3).fold(query.clone(), |q, t| q.replace(&format!("{{{t}}}"), &format!("{letter}{t}")))
        };
        let (with, without) = (rows(&s, &of("k")).await, rows(&s, &of("n")).await);
        assert!(
            with == without,
            "seed {seed}, case {case}: {} rows for {}: {}",
            with.len(),
            without.len(),
            of("k")
        );
        answers += without.len();
    }
    assert!(answers > 600, "{answers} rows");
}
