//! Transactions in SQL: the statements of two sessions and what each session sees.

use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use futures::StreamExt;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::Drive;
use lode_sql::{Offload, Queries, Session, SessionOptions, SqlError, StatementResult, TransactionStatus};

fn database() -> Database {
    Database::open(Arc::new(Drive::in_memory(256 << 20)), DatabaseOptions::default()).unwrap()
}

fn session(db: &Database) -> Session {
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    Queries::new(db.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap()
}

/// The rows of a query as `a,b a,b ...` in its order, or the SQLSTATE of its error.
async fn ask(session: &Session, sql: &str) -> String {
    match rows(session, sql).await {
        Ok(rows) => rows.join(" "),
        Err(e) => e.sqlstate().to_owned(),
    }
}

async fn rows(session: &Session, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut lines = Vec::new();
    for result in session.execute(sql).await? {
        lines.clear();
        match result {
            StatementResult::Rows { mut stream, .. } => {
                while let Some(batch) = stream.next().await {
                    let batch = batch?;
                    for row in 0..batch.num_rows() {
                        let values = batch.columns().iter().map(|c| array_value_to_string(c, row).unwrap());
                        lines.push(values.collect::<Vec<_>>().join(","));
                    }
                }
            }
            other => lines.push(format!("{other:?}")),
        }
    }
    Ok(lines)
}

/// Runs lines of the form `session: statement -> answer`. Sessions have letters.
async fn script(db: &Database, text: &str) {
    let sessions = [("A", session(db)), ("B", session(db)), ("C", session(db))];
    let text = text.replace("\\\n", "");
    let mut wrong: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("--")) {
        let (who, rest) = line.split_once(": ").unwrap();
        let (sql, expected) = rest.split_once(" -> ").unwrap_or((rest, "*"));
        let session = &sessions.iter().find(|(name, _)| *name == who).unwrap().1;
        let got = ask(session, sql).await;
        let failed = got.len() == 5 && got.contains(|c: char| c.is_ascii_digit());
        let agrees = match expected {
            "*err" => failed,
            "*" => !failed,
            expected => got == expected,
        };
        if !agrees {
            wrong.push(format!("{line}: {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
    drop(sessions);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

/// Runs the statements of `transactions.txt`. `scripts/postgres_transactions.py` compares the same answers with
/// PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interleaved_statements_answer_as_postgresql_does() {
    assert_eq!(recorded(include_str!("transactions.txt")).await, 8);
}

/// Runs the statements of `errors.txt`, each of which fails. The same script compares them with PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_the_sqlstates_of_postgresql() {
    assert_eq!(recorded(include_str!("errors.txt")).await, 5);
}

/// Runs each section of a file on a new database. Returns the number of sections.
async fn recorded(text: &str) -> usize {
    let mut sections = 0;
    for section in text.split("\n== ").skip(1) {
        let lines = section.lines().skip(1).filter(|l| !l.starts_with('#'));
        // Of two answers, the first is Lode's.
        let ours = lines.map(|l| match l.rsplit_once(" -> ") {
            Some((sql, answer)) => format!("{sql} -> {}", answer.split(" / ").next().unwrap_or(answer)),
            None => l.to_owned(),
        });
        script(&database(), &ours.collect::<Vec<_>>().join("\n")).await;
        sections += 1;
    }
    sections
}

async fn accounts(db: &Database) {
    let s = session(db);
    s.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_two_updates_of_a_row_wins() {
    let db = database();
    accounts(&db).await;
    script(
        &db,
        "A: BEGIN -> BEGIN
         B: START TRANSACTION ISOLATION LEVEL REPEATABLE READ -> START TRANSACTION
         A: UPDATE t SET v = v + 1 WHERE id = 1 -> UPDATE 1
         B: UPDATE t SET v = v + 5 WHERE id = 1 -> UPDATE 1
         B: SELECT v FROM t WHERE id = 1 -> 15
         A: COMMIT -> COMMIT
         B: SELECT v FROM t WHERE id = 1 -> 15
         B: COMMIT -> 40001
         B: SELECT v FROM t WHERE id = 1 -> 11
         -- Other rows of the same page do not conflict.
         A: BEGIN
         B: BEGIN
         A: UPDATE t SET v = 100 WHERE id = 1 -> UPDATE 1
         B: UPDATE t SET v = 200 WHERE id = 2 -> UPDATE 1
         C: INSERT INTO t VALUES (4, 40) -> INSERT 1
         B: DELETE FROM t WHERE id = 3 -> DELETE 1
         B: COMMIT -> COMMIT
         A: COMMIT -> COMMIT
         A: SELECT id, v FROM t ORDER BY id -> 1,100 2,200 4,40
         -- A row that is gone.
         A: BEGIN
         A: UPDATE t SET v = 0 WHERE id = 2 -> UPDATE 1
         B: DELETE FROM t WHERE id = 2 -> DELETE 1
         A: COMMIT -> 40001
         A: SELECT id, v FROM t ORDER BY id -> 1,100 4,40",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_reads_one_state_and_its_own_changes() {
    let db = database();
    accounts(&db).await;
    script(
        &db,
        "-- Read skew and phantoms do not happen.
         A: BEGIN
         A: SELECT v FROM t WHERE id = 1 -> 10
         B: UPDATE t SET v = v - 10 WHERE id = 1
         B: UPDATE t SET v = v + 10 WHERE id = 2
         B: INSERT INTO t VALUES (4, 40)
         A: SELECT sum(v), count(*) FROM t -> 60,3
         A: INSERT INTO t VALUES (5, 50) -> INSERT 1
         A: SELECT count(*) FROM t -> 4
         A: SELECT id, v FROM t WHERE v >= 20 ORDER BY id -> 2,20 3,30 5,50
         B: SELECT id, v FROM t ORDER BY id -> 1,0 2,30 3,30 4,40
         A: COMMIT -> COMMIT
         A: SELECT id, v FROM t ORDER BY id -> 1,0 2,30 3,30 4,40 5,50
         -- Write skew does: that is what snapshot isolation permits.
         A: BEGIN
         B: BEGIN
         A: SELECT sum(v) FROM t WHERE id IN (1, 2) -> 30
         B: SELECT sum(v) FROM t WHERE id IN (1, 2) -> 30
         A: UPDATE t SET v = -20 WHERE id = 1
         B: UPDATE t SET v = -20 WHERE id = 2
         A: COMMIT -> COMMIT
         B: COMMIT -> COMMIT
         A: SELECT sum(v) FROM t WHERE id IN (1, 2) -> -40
         -- Of two that insert one key the second is told of the key.
         A: BEGIN
         B: BEGIN
         A: INSERT INTO t VALUES (9, 1)
         B: INSERT INTO t VALUES (9, 2)
         A: COMMIT -> COMMIT
         B: COMMIT -> 23505
         A: SELECT v FROM t WHERE id = 9 -> 1",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn savepoints_failures_and_words() {
    let db = database();
    accounts(&db).await;
    script(
        &db,
        "A: SAVEPOINT s -> 25P01
         A: ROLLBACK -> ROLLBACK
         A: COMMIT -> COMMIT
         A: BEGIN WORK -> BEGIN
         A: INSERT INTO t VALUES (4, 40) -> INSERT 1
         A: SAVEPOINT one -> SAVEPOINT
         A: UPDATE t SET v = 0 -> UPDATE 4
         A: SAVEPOINT two -> SAVEPOINT
         A: DELETE FROM t -> DELETE 4
         A: SELECT count(*) FROM t -> 0
         A: ROLLBACK TO SAVEPOINT two -> ROLLBACK
         A: SELECT count(*), sum(v) FROM t -> 4,0
         A: ROLLBACK TO one -> ROLLBACK
         A: SELECT count(*), sum(v) FROM t -> 4,100
         A: ROLLBACK TO two -> 3B001
         A: SELECT 1 -> 25P02
         A: SAVEPOINT x -> 25P02
         A: ROLLBACK TO one -> ROLLBACK
         A: RELEASE one -> RELEASE
         A: SELECT nothing FROM t -> 42703
         A: INSERT INTO t VALUES (5, 50) -> 25P02
         A: COMMIT -> ROLLBACK
         A: SELECT id, v FROM t ORDER BY id -> 1,10 2,20 3,30
         A: START TRANSACTION READ ONLY -> START TRANSACTION
         A: SELECT count(*) FROM t -> 3
         A: INSERT INTO t VALUES (5, 50) -> 25006
         A: ABORT -> ROLLBACK
         A: BEGIN; SET TRANSACTION READ ONLY; SELECT count(*) FROM t -> 3
         A: DELETE FROM t -> 25006
         A: END -> ROLLBACK
         A: BEGIN ISOLATION LEVEL SERIALIZABLE -> 0A000
         A: SELECT * FROM nowhere -> 42P01
         A: SELEC -> 42601
         A: INSERT INTO t VALUES (1, 1) -> 23505
         A: INSERT INTO t VALUES (NULL, 1) -> 23502
         A: CREATE TABLE t (a INT) -> 42P07
         A: SELECT 1 / 0 -> 22012",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_change_within_transactions() {
    let db = database();
    accounts(&db).await;
    script(
        &db,
        "A: BEGIN
         A: CREATE TABLE u (k INT PRIMARY KEY, s TEXT) -> CREATE TABLE
         A: INSERT INTO u SELECT value, 'x' || value FROM generate_series(1, 2000) AS value -> INSERT 2000
         A: SELECT count(*), max(s) FROM u WHERE k % 2 = 0 -> 1000,x998
         A: CREATE INDEX i ON t USING page_index (v) -> CREATE INDEX
         A: SELECT count(*) FROM t JOIN u ON t.id = u.k -> 3
         A: UPDATE t SET v = 7 WHERE id = 1 -> UPDATE 1
         A: SELECT sum(v) FROM t WHERE v < 25 -> 27
         B: SELECT count(*) FROM u -> 42P01
         A: ROLLBACK
         A: SELECT count(*) FROM u -> 42P01
         A: BEGIN
         A: CREATE TABLE u AS SELECT id + 1 AS k FROM t -> SELECT 3
         B: BEGIN
         B: CREATE TABLE u (a INT)
         A: COMMIT -> COMMIT
         B: COMMIT -> 42P07
         B: SELECT sum(k) FROM u -> 9
         -- Who alters a table conflicts with who writes it.
         A: BEGIN
         B: BEGIN
         A: DROP TABLE t -> DROP TABLE
         B: INSERT INTO t VALUES (7, 7) -> INSERT 1
         A: SAVEPOINT s
         A: SELECT * FROM t -> 42P01
         A: ROLLBACK TO s
         A: COMMIT -> COMMIT
         B: SELECT count(*) FROM t -> 4
         B: COMMIT -> 40001
         A: BEGIN
         A: CREATE INDEX i ON u USING page_index (k)
         B: INSERT INTO u VALUES (100) -> INSERT 1
         -- A row of a delta is in no page, so it does not concern an index of pages.
         A: COMMIT -> COMMIT
         A: SELECT count(*) FROM u WHERE k = 100 -> 1
         A: CREATE TABLE w (k INT) WITH (changes = 'pages') -> CREATE TABLE
         A: BEGIN
         A: CREATE INDEX j ON w USING page_index (k)
         B: INSERT INTO w VALUES (100) -> INSERT 1
         A: COMMIT -> 40001
         A: CREATE INDEX j ON w USING page_index (k)",
    )
    .await;
}

/// Every kind of read, at every level, shows what a transaction changed, loaded and deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_changes_show_in_every_read() {
    for offload in Offload::ALL {
        let db = database();
        let s = session(&db);
        s.set_offload(offload);
        s.execute("SET lode.bulk_rows = 1000").await.unwrap();
        s.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, g INT, v BIGINT, s TEXT)").await.unwrap();
        s.execute(
            "INSERT INTO t SELECT value, value % 7, value, 'old' FROM generate_series(1, 20000) AS value",
        )
        .await
        .unwrap();
        s.execute("CREATE TABLE plain (k BIGINT, g INT, v BIGINT, s TEXT)").await.unwrap();
        let other = session(&db);
        let changes = [
            "INSERT INTO t SELECT value, value % 7, value, 'few' FROM generate_series(30001, 30050) AS value",
            "UPDATE t SET v = -k, s = 'new' WHERE k % 100 = 3",
            "DELETE FROM t WHERE k BETWEEN 500 AND 700",
            "INSERT INTO t SELECT value, value % 7, value, 'many' FROM generate_series(40001, 45000) AS value",
            "UPDATE t SET v = v + 1 WHERE s IN ('few', 'many') AND g = 2",
            "DELETE FROM t WHERE g = 5 AND k > 30000",
            "UPDATE t SET k = k + 100000 WHERE k IN (SELECT max(k) FROM t WHERE s = 'many')",
            "INSERT INTO t SELECT k + 1000000, g, v, s FROM t WHERE g = 1 AND k < 100",
        ];
        let questions = [
            "SELECT count(*) FROM t",
            "SELECT count(*), sum(v), min(k), max(k), count(DISTINCT s) FROM t",
            "SELECT g, count(*), sum(v), min(s) FROM t GROUP BY g ORDER BY g",
            "SELECT k, v FROM t WHERE v < 0 ORDER BY k LIMIT 20",
            "SELECT k, s FROM t WHERE s = 'few' AND g IN (1, 2) ORDER BY k",
            "SELECT count(*) FROM t WHERE s LIKE '%a%'",
            "SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.v + 1 WHERE a.g = 3 ORDER BY 1 DESC LIMIT 5",
            "SELECT s, avg(v) FROM t WHERE k > 20000 OR v < 0 GROUP BY s ORDER BY s",
            "SELECT count(*) FROM t WHERE k = 40003",
            "SELECT k FROM t ORDER BY v DESC, k LIMIT 3",
        ];
        let before = ask(&other, "SELECT count(*), sum(v), min(s) FROM t").await;
        s.execute("BEGIN").await.unwrap();
        for change in changes {
            let done = rows(&s, change).await.unwrap_or_else(|e| panic!("{offload}: {change}: {e}"));
            assert!(!done[0].ends_with(" 0"), "{change}: {done:?}");
            // The same rows in a table without changes by this transaction. Its answers are the expected ones.
            let copy = session(&db);
            copy.execute("TRUNCATE plain").await.unwrap();
            let all = s.collect("SELECT * FROM t").await.unwrap();
            copy.load_batches("plain", futures::stream::iter(all.into_iter().map(Ok))).await.unwrap();
            for q in questions {
                let expected =
                    ask(&copy, &q.replace("FROM t", "FROM plain").replace("JOIN t", "JOIN plain")).await;
                assert_eq!(ask(&s, q).await, expected, "{offload}: after {change}: {q}");
            }
            assert_eq!(ask(&other, "SELECT count(*), sum(v), min(s) FROM t").await, before);
        }
        let mine = ask(&s, questions[1]).await;
        s.execute("SAVEPOINT a").await.unwrap();
        s.execute("INSERT INTO t SELECT value, 1, 1, 'x' FROM generate_series(50001, 54000) AS value")
            .await
            .unwrap();
        s.execute("DELETE FROM t WHERE k < 10000").await.unwrap();
        s.execute("ROLLBACK TO a").await.unwrap();
        assert_eq!(ask(&s, questions[1]).await, mine);
        s.execute("INSERT INTO t SELECT value, 1, 1, 'x' FROM generate_series(50001, 54000) AS value")
            .await
            .unwrap();
        s.execute("COMMIT").await.unwrap();
        assert_eq!(s.transaction_status(), TransactionStatus::Idle);
        other.execute("DELETE FROM t WHERE s = 'x'").await.unwrap();
        assert_eq!(ask(&other, questions[1]).await, mine);
        assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{offload}");
    }
}

/// Some threads move money between accounts, others read: the sum is always the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn money_is_neither_made_nor_lost() {
    let db = database();
    let s = session(&db);
    s.execute("CREATE TABLE accounts (id INT PRIMARY KEY, amount BIGINT)").await.unwrap();
    s.execute("INSERT INTO accounts SELECT value, 100 FROM generate_series(0, 9) AS value").await.unwrap();
    let mut tasks = Vec::new();
    for n in 0..4u64 {
        let s = session(&db);
        tasks.push(tokio::spawn(async move {
            let (mut committed, mut conflicts) = (0, 0);
            let mut seed = n + 1;
            while committed < 12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (from, to) = (seed >> 33 & 7, (seed >> 40) % 10);
                let moved = format!(
                    "BEGIN; UPDATE accounts SET amount = amount - 1 WHERE id = {from}; \
                     UPDATE accounts SET amount = amount + 1 WHERE id = {to}; COMMIT"
                );
                match s.execute(&moved).await {
                    Ok(_) => committed += 1,
                    Err(e) => {
                        assert_eq!(e.sqlstate(), "40001", "{e}");
                        conflicts += 1;
                    }
                }
                assert_eq!(s.transaction_status(), TransactionStatus::Idle);
                assert_eq!(ask(&s, "SELECT sum(amount) FROM accounts").await, "1000");
            }
            conflicts
        }));
    }
    let mut conflicts = 0;
    for task in tasks {
        conflicts += task.await.unwrap();
    }
    println!("{conflicts} conflicts");
    assert_eq!(ask(&s, "SELECT sum(amount), count(*) FROM accounts").await, "1000,10");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constraints_hold() {
    let db = database();
    script(
        &db,
        "A: CREATE TABLE p (id INT PRIMARY KEY, code TEXT UNIQUE, a INT, b INT, UNIQUE (a, b))
         A: INSERT INTO p VALUES (1, 'x', 1, 1), (2, 'y', 1, 2), (3, NULL, NULL, 1), (4, NULL, NULL, 1) -> INSERT 4
         A: INSERT INTO p VALUES (5, 'x', 9, 9) -> 23505
         A: INSERT INTO p VALUES (5, 'z', 1, 2) -> 23505
         A: INSERT INTO p VALUES (5, 'z', 7, 7), (6, 'z', 8, 8) -> 23505
         A: UPDATE p SET code = 'y' WHERE id = 1 -> 23505
         A: UPDATE p SET a = 1, b = 1 WHERE id = 3 -> 23505
         A: UPDATE p SET code = 'x' WHERE id = 3 -> 23505
         A: UPDATE p SET code = CASE id WHEN 1 THEN 'y' ELSE 'x' END WHERE id < 3 -> UPDATE 2
         A: SELECT id, code FROM p WHERE id < 3 ORDER BY id -> 1,y 2,x
         -- Both insert one code: each is fine alone.
         A: BEGIN
         B: BEGIN
         A: INSERT INTO p VALUES (10, 'q', 10, 1)
         B: INSERT INTO p VALUES (11, 'q', 11, 1)
         B: COMMIT -> COMMIT
         A: COMMIT -> 23505
         A: CREATE TABLE c (k INT PRIMARY KEY, p INT REFERENCES p, code TEXT, v INT CHECK (v > 0), \
            CONSTRAINT twice CHECK (v * 2 <> k), FOREIGN KEY (code) REFERENCES p (code))
         A: INSERT INTO c VALUES (1, 1, 'x', 1), (2, NULL, NULL, NULL) -> INSERT 2
         A: INSERT INTO c VALUES (3, 99, NULL, 1) -> 23503
         A: INSERT INTO c VALUES (3, 1, 'none', 1) -> 23503
         A: INSERT INTO c VALUES (3, 1, NULL, 0) -> 23514
         A: INSERT INTO c VALUES (4, 1, NULL, 2) -> 23514
         A: UPDATE c SET v = -v WHERE k = 1 -> 23514
         A: UPDATE c SET k = 2 * v WHERE k = 1 -> 23514
         A: UPDATE c SET v = NULL WHERE k = 1 -> UPDATE 1
         A: DELETE FROM p WHERE id = 1 -> 23503
         A: UPDATE p SET id = 100 WHERE id = 1 -> 23503
         A: UPDATE p SET code = 'other' WHERE code = 'x' -> 23503
         A: UPDATE p SET a = 77 WHERE id = 1 -> UPDATE 1
         A: DROP TABLE p -> 2BP01
         -- At the end of each statement, also within a transaction.
         A: BEGIN; DELETE FROM p WHERE id = 1 -> 23503
         A: COMMIT -> ROLLBACK
         A: BEGIN; INSERT INTO c VALUES (20, 50, NULL, 1) -> 23503
         A: COMMIT -> ROLLBACK
         A: BEGIN; UPDATE c SET p = 2 WHERE p = 1; DELETE FROM p WHERE id = 1; COMMIT -> COMMIT
         A: BEGIN; INSERT INTO p VALUES (50, 'fifty', 5, 5); INSERT INTO c VALUES (20, 50, NULL, 1); COMMIT -> COMMIT
         -- Unless it is deferred.
         A: CREATE TABLE late (k INT PRIMARY KEY, p INT REFERENCES p DEFERRABLE INITIALLY DEFERRED)
         A: BEGIN; INSERT INTO late VALUES (1, 51); INSERT INTO p VALUES (51, 'later', 6, 6); COMMIT -> COMMIT
         A: BEGIN; DELETE FROM p WHERE id = 51 -> DELETE 1
         A: COMMIT -> 23503
         A: DROP TABLE late
         A: DELETE FROM p WHERE id = 51 -> DELETE 1
         -- A parent that goes while a child comes, in either order.
         A: BEGIN
         B: BEGIN
         A: DELETE FROM p WHERE id = 11 -> DELETE 1
         B: INSERT INTO c VALUES (30, 11, NULL, 1) -> INSERT 1
         A: COMMIT -> COMMIT
         B: COMMIT -> 23503
         A: INSERT INTO p VALUES (11, 'q', 11, 1)
         A: BEGIN
         B: BEGIN
         A: DELETE FROM p WHERE id = 11 -> DELETE 1
         B: INSERT INTO c VALUES (30, 11, NULL, 1) -> INSERT 1
         B: COMMIT -> COMMIT
         A: COMMIT -> 23503
         A: SELECT count(*) FROM p JOIN c ON p.id = c.p -> 3
         -- A table that references itself; tables that come and go together.
         A: CREATE TABLE tree (id INT PRIMARY KEY, up INT REFERENCES tree (id))
         A: INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2) -> INSERT 3
         A: INSERT INTO tree VALUES (4, 5) -> 23503
         A: DELETE FROM tree WHERE id = 1 -> 23503
         A: DELETE FROM tree -> DELETE 3
         A: CREATE TABLE bad (a INT REFERENCES p (a)) -> 42830
         A: CREATE TABLE bad (a BIGINT REFERENCES p) -> 42804
         A: CREATE TABLE bad (a INT REFERENCES nowhere) -> 42P01
         A: CREATE TABLE bad (a INT CHECK (a + 1)) -> 42804
         A: CREATE TABLE bad (a INT CHECK (nothing > 1)) -> 42703
         A: CREATE TABLE bad (a INT CHECK (a > (SELECT max(id) FROM p))) -> *err
         A: BEGIN
         A: DROP TABLE c
         A: DROP TABLE p
         A: COMMIT -> COMMIT",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_meet_constraints_and_catalogs_keep_them() {
    let drive = Drive::in_memory(256 << 20);
    let open = || Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).unwrap();
    let db = open();
    let s = session(&db);
    s.execute("SET lode.bulk_rows = 1000").await.unwrap();
    s.execute(
        "CREATE TABLE p (id BIGINT PRIMARY KEY, u BIGINT CONSTRAINT once UNIQUE); \
         CREATE TABLE c (k BIGINT, p BIGINT REFERENCES p, CHECK (k <> 77777))",
    )
    .await
    .unwrap();
    s.execute("INSERT INTO p SELECT value, -value FROM generate_series(1, 30000) AS value").await.unwrap();
    s.execute("INSERT INTO c SELECT value, 1 + value % 30000 FROM generate_series(1, 60000) AS value")
        .await
        .unwrap();
    let many = "SELECT value, 1 + value % 30001 FROM generate_series(100001, 160000) AS value";
    assert_eq!(ask(&s, &format!("INSERT INTO c {many}")).await, "23503");
    assert_eq!(
        ask(&s, "INSERT INTO c SELECT value, 1 FROM generate_series(70000, 80000) AS value").await,
        "23514"
    );
    assert_eq!(
        ask(&s, "INSERT INTO p SELECT value, 40000 - value FROM generate_series(30001, 70000) AS value")
            .await,
        "23505"
    );
    assert_eq!(ask(&s, "DELETE FROM p WHERE id > 29000").await, "23503");
    assert_eq!(ask(&s, "DELETE FROM c WHERE p > 29000; DELETE FROM p WHERE id > 29000").await, "DELETE 1000");
    let text = ask(&s, "SHOW CREATE TABLE c").await;
    drop((s, db));
    let db = open();
    let s = session(&db);
    assert_eq!(ask(&s, "SHOW CREATE TABLE c").await, text);
    assert!(
        text.contains("FOREIGN KEY (\"p\") REFERENCES \"p\" (\"id\")") && text.contains("CHECK (k <> 77777)"),
        "{text}"
    );
    let again = text.replacen("c,", "", 1).replace("TABLE \"c\"", "TABLE \"d\"");
    s.execute(&again).await.unwrap();
    assert_eq!(ask(&s, "INSERT INTO d VALUES (1, 29001)").await, "23503");
    assert_eq!(ask(&s, "INSERT INTO p VALUES (29001, -5)").await, "23505");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

/// B+-tree indexes give the same answers as a scan at every level. Every kind of change maintains them, whether
/// unique or not.
/// As schema migrations do it: tables, indexes and rows with one COMMIT.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_are_made_within_a_transaction() {
    let drive = Drive::in_memory(256 << 20);
    let open = || Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).unwrap();
    let db = open();
    let s = session(&db);
    assert_eq!(ask(&s, "CREATE TABLE old (k INT PRIMARY KEY, v INT)").await, "CREATE TABLE");
    assert_eq!(ask(&s, "INSERT INTO old VALUES (1, 5), (2, 5), (3, 7)").await, "INSERT 3");
    let migration = "BEGIN; CREATE TABLE t (k INT PRIMARY KEY, v INT, s TEXT); CREATE INDEX t_v ON t (v); \
         CREATE UNIQUE INDEX t_s ON t (s, k); CREATE INDEX old_v ON old (v, k); \
         INSERT INTO t SELECT value, value % 10, 'x' FROM generate_series(1, 500) AS value";
    s.execute(migration).await.unwrap();
    assert_eq!(ask(&s, "SELECT count(*) FROM t WHERE v = 3").await, "50");
    assert_eq!(ask(&s, "CREATE UNIQUE INDEX twice ON old (v)").await, "23505");
    assert_eq!(ask(&s, "ROLLBACK").await, "ROLLBACK");
    assert_eq!(ask(&s, "SELECT count(*) FROM t").await, "42P01");
    s.execute(migration).await.unwrap();
    assert_eq!(ask(&s, "COMMIT").await, "COMMIT");
    drop((s, db));
    let db = open();
    let s = session(&db);
    assert_eq!(ask(&s, "SELECT count(*) FROM t WHERE v = 3").await, "50");
    assert_eq!(ask(&s, "SELECT k FROM old WHERE v = 5 ORDER BY k").await, "1 2");
    assert_eq!(ask(&s, "BEGIN; DROP INDEX t_v; CREATE INDEX t_v ON t (s); COMMIT").await, "COMMIT");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn btree_indexes_lead_to_the_same_rows() {
    let drive = Drive::in_memory(256 << 20);
    let open = || Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).unwrap();
    let db = open();
    let s = session(&db);
    s.execute(
        "CREATE TABLE t (k INT, g INT, s TEXT, d DECIMAL(12, 2), pad TEXT) WITH (layout = 'row', page_index = 'k')",
    )
    .await
    .unwrap();
    let rows_of = "SELECT value, value * 7919 % 1009, 'name ' || (value * 31 % 5003), value * 1.25, repeat('y', 150) FROM generate_series";
    s.execute(&format!("INSERT INTO t {rows_of}(1, 20000) AS value")).await.unwrap();
    s.execute("CREATE INDEX by_g ON t USING btree (g, k)").await.unwrap();
    s.execute("CREATE INDEX by_s ON t (s)").await.unwrap();
    s.execute("CREATE UNIQUE INDEX by_k ON t USING btree (k)").await.unwrap();
    assert_eq!(ask(&s, "CREATE UNIQUE INDEX no ON t (g)").await, "23505");
    assert_eq!(ask(&s, "CREATE INDEX by_s ON t (s)").await, "42P07");
    assert_eq!(ask(&s, "BEGIN; CREATE INDEX x ON t (d)").await, "CREATE INDEX");
    s.execute("ROLLBACK").await.unwrap();
    let plan = ask(&s, "EXPLAIN SELECT * FROM t WHERE g = 17 AND k > 100").await;
    assert!(plan.contains("index=by_g ("), "{plan}");
    assert!(ask(&s, "EXPLAIN SELECT k FROM t WHERE s = 'name 5'").await.contains("index=by_s"));
    assert!(!ask(&s, "EXPLAIN SELECT k FROM t WHERE g > 5").await.contains("index=by"), "too many pages");
    let wheres = [
        "g = 17",
        "g IN (3, 999, 5000)",
        "g = 4 AND k BETWEEN 500 AND 9000",
        "g > 1003",
        "s = 'name 77'",
        "s >= 'name 998' AND s < 'name 999'",
        "k = 12345",
        "k IN (1, 19999, 20005, 7)",
        "s IS NULL",
        "g = 8 AND s LIKE '%7%'",
        "d = 2.50",
    ];
    let changes = [
        "SELECT 1",
        "UPDATE t SET g = g + 1 WHERE k % 50 = 3",
        "DELETE FROM t WHERE k BETWEEN 4000 AND 4400",
        "UPDATE t SET s = NULL WHERE g = 20",
        "INSERT INTO t SELECT value, 17, 'name 77', 0, '' FROM generate_series(20001, 20400) AS value",
        "UPDATE t SET s = s || 'x' WHERE k > 15000",
    ];
    let check = async |s: &Session, when: &str| {
        for w in wheres {
            let sql = format!("SELECT k, g, s FROM t WHERE {w} ORDER BY k, g, s");
            // An expression that no index supports.
            let slow = sql.replace(
                "FROM t",
                "FROM (SELECT k + 0 AS k, g + 0 AS g, s || '' AS s, d + 0 AS d FROM t) AS t",
            );
            let expected = ask(s, &slow).await;
            let levels =
                if when == "opened again" { &Offload::ALL[..] } else { &[Offload::Index, Offload::Auto] };
            for &level in levels {
                s.set_offload(level);
                assert_eq!(ask(s, &sql).await, expected, "{when}: {level}: {w}");
            }
        }
    };
    for change in changes {
        // Within a transaction and after it.
        s.execute("BEGIN").await.unwrap();
        s.execute(change).await.unwrap();
        check(&s, change).await;
        s.execute("COMMIT").await.unwrap();
        check(&s, change).await;
    }
    assert_eq!(ask(&s, "INSERT INTO t VALUES (7, 1, 'x', 1, '')").await, "23505");
    assert_eq!(ask(&s, "UPDATE t SET k = 8 WHERE k = 7").await, "23505");
    // A load, which writes its pages before the commit.
    s.execute("SET lode.bulk_rows = 1000").await.unwrap();
    s.execute(&format!("INSERT INTO t {rows_of}(30001, 60000) AS value")).await.unwrap();
    check(&s, "a load").await;
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    drop((s, db));
    let db = open();
    let s = session(&db);
    check(&s, "opened again").await;
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    s.execute("DROP INDEX by_s").await.unwrap();
    assert!(!ask(&s, "EXPLAIN SELECT k FROM t WHERE s = 'name 5'").await.contains("index="));
    s.execute("DROP TABLE t").await.unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}
