//! Random statements over random values, as text and prepared, with short statements on and off. `LODE_CASES` sets how
//! many sequences run.

#[path = "short/pair.rs"]
mod pair;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use pair::{Pair, Took, shown_one};

/// xorshift64*: small, and the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.next(of.len() as u64) as usize]
    }
}

const TABLES: &str = "
CREATE TABLE p (a INT PRIMARY KEY, b VARCHAR(4) UNIQUE, c BIGINT, n DECIMAL(6, 2), s SMALLINT, CHECK (s <> 13));
CREATE TABLE q (a INT, b TEXT, d DATE, v INT NOT NULL, PRIMARY KEY (a, b));
CREATE INDEX of_q ON q USING btree (v, d, b);
CREATE TABLE r (n DECIMAL(8, 3) PRIMARY KEY, at TIMESTAMP UNIQUE, p INT REFERENCES p (a), ok BOOLEAN)";

const COLUMNS: [(&str, &[&str]); 3] =
    [("p", &["a", "b", "c", "n", "s"]), ("q", &["a", "b", "d", "v"]), ("r", &["n", "at", "p", "ok"])];
const KEYS: [&[&[&str]]; 3] = [&[&["a"], &["b"]], &[&["a", "b"], &["b", "a"]], &[&["n"], &["at"]]];

/// Literals that suit a column, and some that suit another.
fn literal(r: &mut Random, column: &str) -> String {
    let number = ["1", "2", "3", "7", "-1", "0", "2147483647", "-2147483648", "32767", "13", "99999"];
    let text = ["'a'", "'b'", "''", "'xyz'", "'äöüß'", "'longer'", "'1'", "'it''s'"];
    let decimal = ["1.5", "-0.05", "1234.56", "1", "2.000", "99999.999", "0.0", "1e1", "9999.995"];
    let date = ["'2020-01-01'", "DATE '2020-02-29'", "'0001-01-01'", "'2021-02-29'"];
    let moment = ["'2020-01-01 00:00:00'", "TIMESTAMP '2020-01-01'", "'2020-01-01 12:34:56.789'"];
    let truth = ["true", "false", "'yes'", "'no'"];
    let odd = [
        "NULL",
        "1.5",
        "'x'",
        "true",
        "9223372036854775807",
        "9223372036854775808",
        "'7'",
        "1 + 1",
        "1e0",
        "(2)",
        "DATE '2020-01-01'",
    ];
    if r.next(8) == 0 {
        return (*r.pick(&odd)).into();
    }
    match column {
        "b" => *r.pick(&text),
        "n" => *r.pick(&decimal),
        "d" => *r.pick(&date),
        "at" => *r.pick(&moment),
        "ok" => *r.pick(&truth),
        _ => *r.pick(&number),
    }
    .into()
}

fn condition(r: &mut Random, of: usize, value: &mut impl FnMut(&mut Random, &str) -> String) -> String {
    let key = *r.pick(KEYS[of]);
    let terms = key.iter().map(|c| match r.next(6) {
        0 => format!("{} = {c}", value(r, c)),
        _ => format!("{c} = {}", value(r, c)),
    });
    let mut terms: Vec<String> = terms.collect();
    // A range instead of a whole key.
    if r.next(3) > 0 {
        if r.next(2) == 0 {
            terms.pop();
        }
        if terms.is_empty() {
            let (low, high) = (value(r, key[0]), value(r, key[0]));
            terms.push(format!("{0} >= {low} AND {0} <= {high}", key[0]));
        }
        for _ in 0..1 + r.next(2) {
            let column = *r.pick(COLUMNS[of].1);
            terms.push(match r.next(8) {
                0 => format!("{column} IS {}NULL", r.pick(&["", "NOT "])),
                1 => format!("{column} BETWEEN {} AND {}", value(r, column), value(r, column)),
                2 => format!("{} > {column}", value(r, column)),
                _ => format!(
                    "{column} {} {}",
                    r.pick(&["=", "=", "<", "<=", ">", ">=", "<>"]),
                    value(r, column)
                ),
            });
        }
    }
    terms.join(" AND ")
}

/// What comes behind a condition: without an order, rows come in any.
fn order(r: &mut Random, of: usize) -> String {
    let mut by: Vec<String> = KEYS[of][0].iter().map(|c| format!("{c}{}", r.pick(&["", " DESC"]))).collect();
    if r.next(2) == 0 {
        let column = *r.pick(COLUMNS[of].1);
        by.insert(
            0,
            format!("{column}{}{}", r.pick(&["", " DESC"]), r.pick(&["", " NULLS FIRST", " NULLS LAST"])),
        );
    }
    let limit = ["", " LIMIT 1", " LIMIT 2", " LIMIT 3 OFFSET 1"];
    format!(" ORDER BY {}{}", by.join(", "), r.pick(&limit))
}

/// Joins, their columns, and the columns that tell their rows apart.
const JOINS: [(&str, &[&str], &str); 4] = [
    ("p JOIN q ON q.v = p.a", &["p.a", "p.b", "p.s", "q.a", "q.b", "q.d"], "p.a, q.a, q.b"),
    ("r LEFT JOIN p ON p.a = r.p", &["r.n", "r.at", "r.ok", "p.a", "p.b", "p.c"], "r.n"),
    ("q, p, r WHERE p.a = q.a AND r.p = p.a", &["q.a", "q.b", "q.v", "p.b", "r.n", "r.at"], "q.a, q.b, r.n"),
    ("p AS x JOIN p AS y ON y.b = x.b AND y.s < 9", &["x.a", "x.b", "x.n", "y.a", "y.c"], "x.a, y.a"),
];

fn join(r: &mut Random, value: &mut impl FnMut(&mut Random, &str) -> String) -> String {
    let (from, columns, keys) = *r.pick(&JOINS);
    let terms: Vec<String> = (0..1 + r.next(2))
        .map(|_| {
            let column = *r.pick(columns);
            let bare = &column[2..];
            match r.next(5) {
                0 => format!("{column} BETWEEN {} AND {}", value(r, bare), value(r, bare)),
                1 => format!("{column} {} {}", r.pick(&["<", ">=", "<>"]), value(r, bare)),
                _ => format!("{column} = {}", value(r, bare)),
            }
        })
        .collect();
    let and = if from.contains("WHERE") { "AND" } else { "WHERE" };
    let what = match r.next(3) {
        0 => format!("count(*), max({})", r.pick(columns)),
        1 => "*".to_owned(),
        _ => columns[1..4].join(", "),
    };
    let order = if what.starts_with("count") { String::new() } else { format!(" ORDER BY {keys}") };
    format!("SELECT {what} FROM {from} {and} {}{order}", terms.join(" AND "))
}

/// RETURNING, or nothing.
fn returning(r: &mut Random, of: usize) -> String {
    let (table, columns) = COLUMNS[of];
    match r.next(6) {
        0 => " RETURNING *".to_owned(),
        1 => format!(" RETURNING {}, {} IS NULL AS x", r.pick(columns), r.pick(columns)),
        2 => format!(" RETURNING {table}.{}, {} + 1", r.pick(columns), if of == 2 { "p" } else { "a" }),
        _ => String::new(),
    }
}

/// ON CONFLICT, or nothing.
fn on_conflict(r: &mut Random, of: usize, value: &mut impl FnMut(&mut Random, &str) -> String) -> String {
    let (table, columns) = COLUMNS[of];
    let key = ["(a, b)", "(a)", "(n)"][of];
    let target = if r.next(4) == 0 { format!("({})", r.pick(columns)) } else { key.to_owned() };
    match r.next(5) {
        0 => " ON CONFLICT DO NOTHING".to_owned(),
        1 => format!(" ON CONFLICT {target} DO NOTHING"),
        2 | 3 => {
            let column = *r.pick(columns);
            let new = match r.next(4) {
                0 => value(r, column),
                1 => format!("{table}.{}", r.pick(columns)),
                _ => format!("excluded.{}", r.pick(columns)),
            };
            let condition = match r.next(3) {
                0 => format!(" WHERE {table}.{column} > {}", value(r, column)),
                1 => format!(" WHERE excluded.{column} IS NOT NULL"),
                _ => String::new(),
            };
            format!(" ON CONFLICT {target} DO UPDATE SET {column} = {new}{condition}")
        }
        _ => String::new(),
    }
}

/// A statement; `value` writes the values.
fn statement(r: &mut Random, value: &mut impl FnMut(&mut Random, &str) -> String) -> String {
    let of = r.next(3) as usize;
    let (table, columns) = COLUMNS[of];
    match r.next(12) {
        10.. => join(r, value),
        0..3 => {
            let what = match r.next(4) {
                0 => "*".to_owned(),
                1 => columns.iter().rev().copied().collect::<Vec<_>>().join(", "),
                2 => format!("{0}, {0} AS x", r.pick(columns)),
                _ => format!("{}, {} + 1", columns[0], if of == 2 { "p" } else { "a" }),
            };
            let condition = condition(r, of, value);
            match r.next(5) {
                0 => {
                    let aggregates = [
                        "count(*)",
                        "min({})",
                        "max({})",
                        "count(DISTINCT {}), max({})",
                        "min({}), count({})",
                    ];
                    let column: &str = columns[r.next(columns.len() as u64) as usize];
                    let what = r.pick(&aggregates).replace("{}", column);
                    format!("SELECT {what} FROM {table} WHERE {condition}")
                }
                1 => {
                    let by = *r.pick(columns);
                    format!(
                        "SELECT {by}, count(*) FROM {table} WHERE {condition} GROUP BY {by} ORDER BY {by}"
                    )
                }
                _ => format!("SELECT {what} FROM {table} WHERE {condition}{}", order(r, of)),
            }
        }
        3..6 => {
            let column = *r.pick(columns);
            let number = matches!(column, "a" | "c" | "n" | "s" | "v" | "p");
            let new = match r.next(4) {
                0 if number => format!("{column} {} {}", r.pick(&["+", "-", "*"]), value(r, column)),
                1 => r.pick(columns).to_string(),
                _ => value(r, column),
            };
            let condition = condition(r, of, value);
            format!("UPDATE {table} SET {column} = {new} WHERE {condition}{}", returning(r, of))
        }
        6 => format!("DELETE FROM {table} WHERE {}{}", condition(r, of, value), returning(r, of)),
        7..10 => {
            let few = columns.len() - r.next(2) as usize;
            let rows = 1 + r.next(3);
            let row = |r: &mut Random, value: &mut dyn FnMut(&mut Random, &str) -> String| {
                let values: Vec<String> = columns[..few].iter().map(|c| value(r, c)).collect();
                format!("({})", values.join(", "))
            };
            let rows: Vec<String> = (0..rows).map(|_| row(r, value)).collect();
            let insert =
                format!("INSERT INTO {table} ({}) VALUES {}", columns[..few].join(", "), rows.join(", "));
            let on_conflict = on_conflict(r, of, value);
            format!("{insert}{on_conflict}{}", returning(r, of))
        }
    }
}

fn parameter(r: &mut Random, t: &DataType) -> ScalarValue {
    if r.next(12) == 0 {
        return *Box::new(
            [ScalarValue::Null, ScalarValue::Int64(Some(3_000_000_000)), ScalarValue::Utf8(Some("x".into()))]
                [r.next(3) as usize]
                .clone(),
        );
    }
    let n = *r.pick(&[1i64, 2, 3, 7, 0, -1, 13, 32_767]);
    match t {
        DataType::Int16 => ScalarValue::Int16(Some(n as i16)),
        DataType::Int32 => ScalarValue::Int32(Some(n as i32)),
        DataType::Int64 => ScalarValue::Int64(Some(n)),
        DataType::Decimal128(p, s) => ScalarValue::Decimal128(Some((n * 50).into()), *p, *s),
        DataType::Utf8View => ScalarValue::Utf8(Some((*r.pick(&["a", "b", "", "xyz", "longer"])).into())),
        DataType::Date32 => ScalarValue::Date32(Some(n as i32 * 1000)),
        DataType::Timestamp(..) => ScalarValue::TimestampMicrosecond(Some(n * 1_000_000), None),
        DataType::Boolean => ScalarValue::Boolean(Some(n > 1)),
        other => panic!("{other}"),
    }
}

async fn run(seed: u64) -> (u32, u32) {
    let mut r = Random(seed * 2_654_435_769 + 1);
    let pair = Pair::new();
    pair.both(TABLES).await;
    let (mut short, mut all) = (0, 0);
    for _ in 0..120 {
        all += 1;
        match r.next(16) {
            0 => {
                let sql = *r.pick(&[
                    "BEGIN",
                    "COMMIT",
                    "ROLLBACK",
                    "SAVEPOINT x",
                    "ROLLBACK TO x",
                    "BEGIN READ ONLY",
                ]);
                pair.same(sql, Took::Either).await;
            }
            1 => {
                let sql = *r.pick(&[
                    "CREATE UNIQUE INDEX i ON p (c)",
                    "DROP INDEX i",
                    "CREATE INDEX j ON q (a)",
                    "DROP INDEX j",
                    "DROP TABLE r",
                    "CREATE TABLE r (at TIMESTAMP UNIQUE, n DECIMAL(8, 3) PRIMARY KEY, p INT, ok BOOLEAN)",
                    "SET lode.offload = off",
                    "SET lode.offload = auto",
                ]);
                pair.same(sql, Took::Either).await;
            }
            2..6 => {
                let mut numbered = 0;
                let sql = statement(&mut r, &mut |_, _| {
                    numbered += 1;
                    format!("${numbered}")
                });
                let (a, b) = (pair.short.prepare(&sql).await, pair.general.prepare(&sql).await);
                let (a, b) = match (a, b) {
                    (Ok(a), Ok(b)) => (a, b),
                    (a, b) => {
                        assert_eq!(
                            a.map(drop).map_err(|e| e.to_string()),
                            b.map(drop).map_err(|e| e.to_string()),
                            "{sql}"
                        );
                        continue;
                    }
                };
                for _ in 0..3 {
                    let values: Vec<ScalarValue> =
                        a.parameter_types().iter().map(|t| parameter(&mut r, t)).collect();
                    let plain = |s: String| s.replace(", nullable: true", "");
                    let got = plain(shown_one(pair.short.execute_prepared(&a, &values).await).await);
                    let expected = plain(shown_one(pair.general.execute_prepared(&b, &values).await).await);
                    let was = pair.compare(&format!("{sql} with {values:?}"), Took::Either, &got, &expected);
                    short += u32::from(was);
                    all += 1;
                }
            }
            _ => {
                let sql = statement(&mut r, &mut literal);
                short += u32::from(pair.same(&sql, Took::Either).await);
            }
        }
    }
    if pair.short.transaction_status() != lode_sql::TransactionStatus::Idle {
        pair.same("COMMIT", Took::Either).await;
    }
    for (table, columns) in COLUMNS {
        pair.same(&format!("SELECT * FROM {table} ORDER BY {}", columns.join(", ")), Took::Either).await;
    }
    (short, all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_statements_do_the_same_either_way() {
    let cases: u64 = std::env::var("LODE_CASES").map_or(30, |n| n.parse().expect("a number of cases"));
    let (mut short, mut all) = (0, 0);
    for seed in 0..cases {
        let counts = run(seed).await;
        (short, all) = (short + counts.0, all + counts.1);
    }
    assert!(short * 5 > all, "only {short} of {all} statements were short");
}
