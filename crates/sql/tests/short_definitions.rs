//! Definitions change between the statements of two sessions, at random: tables are dropped and made anew with other columns, other
//! keys and checks, and the same columns in other places; indexes come and go; VACUUM FULL moves the rows. Every statement, plain
//! or prepared, runs in two databases, with `lode.short_statements` on and off, and the answers are compared. A plan that outlives
//! its definition answers something else. `LODE_CASES` sets how many sequences run.

#[path = "short/pair.rs"]
mod pair;

use lode_base::random::Random;
use lode_sql::TransactionStatus;
use pair::{Pair, Took};

/// Definitions of `t`. All have the columns `a` and `b`.
const DEFINITIONS: [&str; 8] = [
    "(a INT PRIMARY KEY, b INT, c INT)",
    "(c INT, b INT, a INT PRIMARY KEY)",
    "(a BIGINT PRIMARY KEY, b TEXT, c SMALLINT)",
    "(a INT, b INT PRIMARY KEY, c INT, UNIQUE (a))",
    "(a INT, b INT, c INT)",
    "(a INT PRIMARY KEY, b INT NOT NULL, c INT, CHECK (b < 6))",
    "(a INT, b INT, c INT, PRIMARY KEY (a, b)) WITH (changes = 'pages')",
    "(a INT PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, b INT, d INT) WITH (key_index = 'page_index')",
];
const OTHERS: [&str; 6] = [
    "CREATE UNIQUE INDEX i ON t (b)",
    "CREATE INDEX i ON t USING btree (b)",
    "CREATE UNIQUE INDEX j ON t (c)",
    "DROP INDEX i",
    "DROP INDEX j",
    "VACUUM FULL t",
];
/// Statements with parameters. Few of them, so that each meets many definitions.
const STATEMENTS: [&str; 10] = [
    "SELECT * FROM t WHERE a = $1",
    "SELECT b, a FROM t WHERE a = $1",
    "SELECT a FROM t WHERE b = $1 ORDER BY a",
    "SELECT a, b FROM t WHERE a >= $1 ORDER BY a, b LIMIT 3",
    "UPDATE t SET b = $2 WHERE a = $1",
    "UPDATE t SET c = $2 WHERE b = $1",
    "DELETE FROM t WHERE a = $1",
    "INSERT INTO t VALUES ($1, $2, $3)",
    "INSERT INTO t (b, a) VALUES ($2, $1)",
    "SELECT count(*), max(b) FROM t WHERE a = $1",
];

/// A statement with its values, and how it is executed if it is prepared as `p<n>`.
fn statement(r: &mut Random) -> (String, String) {
    let n = r.below(STATEMENTS.len() as u64) as usize;
    let (mut sql, mut values) = (STATEMENTS[n].to_owned(), Vec::new());
    for i in (1..=3).filter(|i| STATEMENTS[n].contains(&format!("${i}"))) {
        let value = r.below(8).to_string();
        sql = sql.replace(&format!("${i}"), &value);
        values.push(value);
    }
    (sql, format!("EXECUTE p{n}({})", values.join(", ")))
}

/// Answers how many statements were short, and how many there were.
async fn run(seed: u64) -> (u32, u32) {
    let mut r = Random::of_seed(seed);
    let first = Pair::new();
    let sessions = [first.beside(), first];
    let (mut short, mut all) = (0, 0);
    for _ in 0..150 {
        let s = &sessions[r.below(2) as usize];
        let sql = match r.below(20) {
            0 => "DROP TABLE t".to_owned(),
            1 | 2 => format!("CREATE TABLE t {}", r.pick(&DEFINITIONS).expect("there are some")),
            3 => {
                // A new definition at once, with rows.
                s.same("DROP TABLE t", Took::Either).await;
                let definition = *r.pick(&DEFINITIONS).expect("there are some");
                s.same(&format!("CREATE TABLE t {definition}"), Took::Either).await;
                "INSERT INTO t (a, b) VALUES (1, 3), (2, 1), (3, 5), (5, 2)".to_owned()
            }
            4 => (*r.pick(&OTHERS).expect("there are some")).to_owned(),
            5 => {
                let words = ["BEGIN", "COMMIT", "COMMIT", "ROLLBACK"];
                (*r.pick(&words).expect("there are some")).to_owned()
            }
            6 | 7 => {
                let n = r.below(STATEMENTS.len() as u64) as usize;
                s.same(&format!("DEALLOCATE p{n}"), Took::Either).await;
                format!("PREPARE p{n} AS {}", STATEMENTS[n])
            }
            8..14 => statement(&mut r).1,
            _ => statement(&mut r).0,
        };
        all += 1;
        short += u32::from(s.same(&sql, Took::Either).await);
    }
    for s in &sessions {
        if s.short.transaction_status() != TransactionStatus::Idle {
            s.same("COMMIT", Took::Either).await;
        }
    }
    sessions[0].same("SELECT * FROM t ORDER BY a, b", Took::Either).await;
    (short, all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_plan_outlives_the_definition_it_was_made_for() {
    let cases: u64 = std::env::var("LODE_CASES").map_or(25, |n| n.parse().expect("a number of cases"));
    let (mut short, mut all) = (0, 0);
    for seed in 0..cases {
        let counts = run(seed).await;
        (short, all) = (short + counts.0, all + counts.1);
    }
    assert!(short * 8 > all, "only {short} of {all} statements were short");
}

/// The plan of an INSERT outlives a restart of the sequence that fills its column: found by reading, no seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_plan_takes_the_numbers_of_a_sequence_that_was_restarted() {
    let pair = Pair::new();
    pair.both("CREATE TABLE t (id SERIAL PRIMARY KEY, b INT)").await;
    for _ in 0..3 {
        pair.same("INSERT INTO t (b) VALUES (1)", Took::Short).await;
    }
    pair.both("ALTER SEQUENCE t_id_seq RESTART WITH 100").await;
    pair.same("INSERT INTO t (b) VALUES (2)", Took::Short).await;
    pair.beside().both("ALTER SEQUENCE t_id_seq RESTART WITH 200").await;
    pair.same("INSERT INTO t (b) VALUES (3)", Took::Short).await;
    pair.same("SELECT id, b FROM t WHERE id >= 100 ORDER BY id", Took::Either).await;
    pair.same("SELECT count(*) FROM t WHERE id = 100 AND b = 2 OR id = 200 AND b = 3", Took::Either).await;
    let rows = pair::shown(pair.short.execute("SELECT id FROM t WHERE id >= 100 ORDER BY id").await).await;
    assert!(rows.ends_with("\"100\"\n\"200\"\n"), "{rows}");
}
