//! Prepared statements: types of parameters, values, PREPARE and EXECUTE, and definitions that change underneath.

#[path = "short/pair.rs"]
mod pair;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use pair::{Pair, Took, session, shown, shown_one};

fn int(n: i32) -> ScalarValue {
    ScalarValue::Int32(Some(n))
}

fn text(s: &str) -> ScalarValue {
    ScalarValue::Utf8(Some(s.into()))
}

const TABLES: &str = r"
CREATE TABLE t (id INT PRIMARY KEY, small SMALLINT, big BIGINT UNIQUE, r REAL, d DOUBLE, n DECIMAL(6, 2),
    s VARCHAR(5), b BYTEA, day DATE, at TIMESTAMP, ok BOOLEAN, CHECK (small < 100));
INSERT INTO t VALUES (1, 1, 1, 1.5, 2.5, 3.25, 'one', '\x01', '2020-01-01', '2020-01-01 12:00:00', true),
    (2, NULL, NULL, NULL, NULL, NULL, 'two', NULL, NULL, NULL, NULL);
CREATE TABLE u (id INT PRIMARY KEY, t INT);
INSERT INTO u VALUES (1, 1), (2, 1), (3, 2)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_have_the_types_of_what_stands_beside_them() {
    let session = session();
    session.execute(TABLES).await.unwrap();
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    use DataType::{
        BinaryView, Boolean, Date32, Decimal128, Float32, Float64, Int16, Int32, Int64, Utf8View,
    };
    for (sql, expected) in [
        ("SELECT * FROM t WHERE id = $1", vec![Int32]),
        ("SELECT * FROM t AS x WHERE $2 < x.big AND x.small = $1", vec![Int16, Int64]),
        ("SELECT id + $1 FROM t WHERE s LIKE $2", vec![Int32, Utf8View]),
        ("SELECT $1", vec![Utf8View]),
        ("SELECT $1 + 1, $2::date, CAST($3 AS BIGINT)", vec![Int32, Date32, Int64]),
        (
            "SELECT * FROM t WHERE at BETWEEN $1 AND $2 LIMIT $3 OFFSET $4",
            vec![micros.clone(), micros.clone(), Int64, Int64],
        ),
        ("SELECT * FROM t WHERE n IN ($1, 2, $2)", vec![Decimal128(6, 2), Decimal128(6, 2)]),
        ("UPDATE t SET s = $1, r = $2, d = d * $3 WHERE id = $4", vec![Utf8View, Float32, Float64, Int32]),
        ("INSERT INTO t (ok, b, id) VALUES ($1, $2, $3)", vec![Boolean, BinaryView, Int32]),
        ("INSERT INTO u VALUES ($1, $2), ($3, $1)", vec![Int32, Int32, Int32]),
        ("INSERT INTO u SELECT $1, t.id FROM t WHERE day = $2", vec![Int32, Date32]),
        ("DELETE FROM t WHERE at = $1 AND ok = $2", vec![micros, Boolean]),
        ("SELECT u.id FROM u JOIN t ON u.t = t.id WHERE t.n > $1", vec![Decimal128(6, 2)]),
        ("SELECT 1", vec![]),
        ("BEGIN", vec![]),
    ] {
        let prepared = session.prepare(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(prepared.parameter_types(), expected, "{sql}");
    }
    let names = |s: &str| {
        let session = session.clone();
        let sql = s.to_owned();
        async move {
            let prepared = session.prepare(&sql).await.unwrap();
            prepared
                .schema()
                .map(|s| s.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect())
        }
    };
    assert_eq!(
        names("SELECT id, s AS x, n + $1 FROM t WHERE id = $2").await,
        Some(vec!["id Int32".to_owned(), "x Utf8View".to_owned(), "?column? Decimal128(7, 2)".to_owned()])
    );
    assert_eq!(names("DELETE FROM t WHERE id = $1").await, None::<Vec<String>>);
    for (sql, expected) in [
        ("SELECT abs($1)", "42P18: could not determine data type of parameter $1"),
        ("SELECT * FROM t WHERE id = $2", "42P18: could not determine data type of parameter $1"),
        ("SELECT * FROM t WHERE $1 = $2", "42P18: could not determine data type of parameter $1"),
        ("SELECT * FROM t WHERE id = $0", "42P02: there is no parameter $0"),
        ("SELECT * FROM t WHERE id = $x", "42P02: there is no parameter $x"),
        ("SELECT * FROM nowhere WHERE id = $1::int", "42P01: line 1, column 15: there is no table nowhere"),
        ("SELECT nothing FROM t WHERE id = $1", "42703: line 1, column 8: there is no column nothing among"),
        ("UPDATE t SET nothing = 1 WHERE id = $1", "42703: table \"t\" has no column \"nothing\""),
        (
            "INSERT INTO u (id, t) VALUES ($1)",
            "42601: INSERT has more target columns than expressions: 2 and 1",
        ),
        ("INSERT INTO nowhere VALUES ($1::int)", "42P01: line 1, column 13: there is no table nowhere"),
        ("SELECT 1; SELECT 2", "42601: cannot insert multiple commands into a prepared statement"),
        ("", "42601: there is no statement to prepare"),
        ("SELEC 1", "42601: syntax error at line 1, column 1"),
        ("CREATE TABLE x (a INT CHECK (a > $1))", "42P02: there is no parameter for the placeholder $1"),
    ] {
        let e = session.prepare(sql).await.expect_err(sql);
        let shown = format!("{}: {e}", e.sqlstate());
        assert!(shown.starts_with(expected) && !shown.contains('\n'), "{sql}: {shown}");
    }
}

impl Pair {
    /// Prepares a statement in both, runs it with each of these values, and compares.
    async fn same_prepared(&self, sql: &str, took: Took, values: &[Vec<ScalarValue>]) {
        let (a, b) = (self.short.prepare(sql).await.unwrap(), self.general.prepare(sql).await.unwrap());
        assert_eq!(a.parameter_types(), b.parameter_types());
        for values in values {
            let short = self.short.execute_prepared(&a, values).await;
            if let (Ok(lode_sql::StatementResult::Rows { schema, .. }), Some(expected)) = (&short, a.schema())
            {
                let types = |s: &datafusion::arrow::datatypes::SchemaRef| {
                    s.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect::<Vec<_>>()
                };
                assert_eq!(types(schema), types(expected), "{sql}");
            }
            let short = shown_one(short).await.replace(", nullable: true", "");
            let general = shown_one(self.general.execute_prepared(&b, values).await).await;
            // Whether a parameter may be NULL is known only where its value is.
            let general = general.replace(", nullable: true", "");
            self.compare(&format!("{sql} with {values:?}"), took, &short, &general);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_answer_the_same_either_way() {
    let pair = Pair::new();
    pair.both(TABLES).await;
    let ids = [vec![int(1)], vec![int(2)], vec![int(7)], vec![int(i32::MAX)], vec![ScalarValue::Int32(None)]];
    pair.same_prepared("SELECT * FROM t WHERE id = $1", Took::Short, &ids).await;
    pair.same_prepared("SELECT s, n AS x FROM t WHERE $1 = id", Took::Short, &ids).await;
    pair.same_prepared(
        "SELECT id + $2 FROM t WHERE id = $1",
        Took::Either,
        &[vec![int(1), int(5)], vec![int(1), int(i32::MAX)], vec![int(7), int(i32::MAX)]],
    )
    .await;
    pair.same_prepared("SELECT $2, s || $2 FROM t WHERE id = $1", Took::Short, &[vec![int(1), text("x")]])
        .await;
    pair.same_prepared(
        "SELECT id FROM t WHERE big = $1",
        Took::Either,
        &[
            vec![ScalarValue::Int64(Some(1))],
            vec![int(1)],
            vec![ScalarValue::Int64(Some(i64::MAX))],
            vec![ScalarValue::Null],
            vec![ScalarValue::Float64(Some(1.0))],
            vec![ScalarValue::Float64(Some(1e300))],
            vec![ScalarValue::Decimal128(Some(15), 2, 1)],
            vec![ScalarValue::Decimal128(Some(1500), 3, 1)],
            vec![text("1")],
            vec![ScalarValue::Boolean(Some(true))],
            vec![],
            vec![int(1), int(2)],
        ],
    )
    .await;
    pair.same_prepared(
        "SELECT count(*), sum(t + $1) FROM u WHERE id > $2",
        Took::General,
        &[vec![int(1), int(1)]],
    )
    .await;
    pair.same_prepared(
        "SELECT id FROM u ORDER BY id LIMIT $1 OFFSET $2",
        Took::General,
        &[vec![int(1), int(1)], vec![ScalarValue::Null, int(2)], vec![int(-1), int(0)]],
    )
    .await;
    let row = |id, s: &str| {
        vec![
            int(id),
            ScalarValue::Int16(Some(7)),
            ScalarValue::Int64(Some(i64::from(id) * 5_000_000_000)),
            ScalarValue::Float32(Some(0.1)),
            ScalarValue::Float64(Some(-1e-300)),
            ScalarValue::Decimal128(Some(-12345), 6, 2),
            text(s),
            ScalarValue::Binary(Some(vec![0, 255, 39])),
            ScalarValue::Date32(Some(-719_162)),
            ScalarValue::TimestampMicrosecond(Some(253_402_300_799_999_999), None),
            ScalarValue::Boolean(Some(false)),
        ]
    };
    let nulls = |id| {
        let mut row = row(id, "");
        row[1..].iter_mut().for_each(|v| *v = ScalarValue::Null);
        row
    };
    let large = |id| {
        let mut row = row(id, "x");
        row[1] = int(100);
        row
    };
    let wide = |id| {
        let mut row = row(id, "x");
        row[1] = int(40_000);
        row
    };
    pair.same_prepared(
        "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        Took::Either,
        &[
            row(10, "it's"),
            row(11, "äöüßx"),
            row(10, "twice"),
            row(12, "toolong"),
            nulls(13),
            large(14),
            wide(15),
        ],
    )
    .await;
    pair.same_prepared(
        "INSERT INTO u VALUES ($1, $2), ($1 + 1, $2)",
        Took::Short,
        &[vec![int(50), int(1)], vec![int(60), ScalarValue::Null]],
    )
    .await;
    pair.same_prepared(
        "UPDATE t SET small = small + $1, s = $2 WHERE id = $3",
        Took::Either,
        &[
            vec![int(1), text("a"), int(1)],
            vec![int(1), text("toolong"), int(1)],
            vec![int(32_767), text("b"), int(1)],
            vec![int(98), text("b"), int(1)],
            vec![ScalarValue::Null, ScalarValue::Null, int(2)],
            vec![int(1), text("c"), int(99)],
        ],
    )
    .await;
    pair.same_prepared(
        "UPDATE t SET n = $1, day = $2, at = $3, b = $4, ok = $5, d = $6 WHERE id = $7",
        Took::Either,
        &[
            vec![
                ScalarValue::Decimal128(Some(1005), 4, 3),
                ScalarValue::Date32(Some(0)),
                ScalarValue::Date32(Some(1)),
                ScalarValue::BinaryView(Some(vec![])),
                ScalarValue::Boolean(None),
                ScalarValue::Float64(Some(f64::NAN)),
                int(1),
            ],
            vec![
                ScalarValue::Decimal128(Some(100_050), 6, 1),
                ScalarValue::Null,
                ScalarValue::Null,
                ScalarValue::Null,
                ScalarValue::Null,
                ScalarValue::Float64(Some(f64::NEG_INFINITY)),
                int(1),
            ],
        ],
    )
    .await;
    pair.same_prepared(
        "DELETE FROM t WHERE big = $1",
        Took::Short,
        &[vec![ScalarValue::Int64(Some(50_000_000_000))], vec![ScalarValue::Int64(Some(50_000_000_000))]],
    )
    .await;
    pair.same_prepared("DELETE FROM u WHERE t = $1", Took::General, &[vec![int(2)]]).await;
    pair.same("SELECT * FROM t ORDER BY id", Took::Either).await;
    pair.same("SELECT * FROM u ORDER BY id", Took::Either).await;
    // Within a transaction, and in one that failed.
    pair.both("BEGIN").await;
    pair.same_prepared("UPDATE u SET t = t + $2 WHERE id = $1", Took::Short, &[vec![int(1), int(5)]]).await;
    pair.same_prepared("SELECT * FROM u WHERE id = $1", Took::Short, &[vec![int(1)]]).await;
    pair.same_prepared("SELECT 1 / $1 FROM u", Took::General, &[vec![int(0)]]).await;
    let (a, b) = (pair.short.prepare("SELECT 1").await, pair.general.prepare("SELECT 1").await);
    assert_eq!(a.unwrap_err().sqlstate(), b.unwrap_err().sqlstate());
    pair.both("ROLLBACK").await;
    pair.same("SELECT * FROM u ORDER BY id", Took::Either).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_prepared_executed_and_deallocated_by_name() {
    let pair = Pair::new();
    pair.both(TABLES).await;
    for (sql, expected) in [
        ("PREPARE get AS SELECT id, s FROM t WHERE id = $1", "PREPARE"),
        ("PREPARE get AS SELECT 1", "42P05: prepared statement \"get\" already exists"),
        ("EXECUTE get(1)", "1"),
        ("EXECUTE GET('1')", "1"),
        ("EXECUTE get(0 + 1)", "1"),
        ("EXECUTE get(1.2)", "1"),
        ("EXECUTE get(NULL)", ""),
        ("EXECUTE get(9)", ""),
        (
            "EXECUTE get",
            "42601: wrong number of parameters for prepared statement \"get\": expected 1, got 0",
        ),
        (
            "EXECUTE get(1, 2)",
            "42601: wrong number of parameters for prepared statement \"get\": expected 1, got 2",
        ),
        ("EXECUTE get('x')", "22P02: invalid input syntax for type integer: \"x\""),
        (
            "EXECUTE get(true)",
            "42804: parameter $1 of type BOOLEAN cannot be coerced to the expected type INTEGER",
        ),
        (
            "EXECUTE get(DATE '2020-01-01')",
            "42804: parameter $1 of type DATE cannot be coerced to the expected type INTEGER",
        ),
        ("EXECUTE get(3000000000)", "22003: "),
        ("EXECUTE nothing(1)", "26000: prepared statement \"nothing\" does not exist"),
        ("PREPARE put(int, text) AS INSERT INTO t (id, s) VALUES ($1, $2)", "PREPARE"),
        ("EXECUTE put(20, 'x')", "INSERT 1"),
        ("EXECUTE put(20, 'x')", "23505: "),
        ("EXECUTE put(21, 'toolong')", "22001: "),
        ("PREPARE add AS UPDATE t SET small = small + $2 WHERE id = $1", "PREPARE"),
        ("EXECUTE add(1, 1)", "UPDATE 1"),
        ("EXECUTE add(1, -(-1))", "UPDATE 1"),
        ("EXECUTE add(1, 100)", "23514: "),
        (
            "PREPARE bad(text) AS SELECT * FROM t WHERE id = $1",
            "42883: operator does not exist: integer = text",
        ),
        ("PREPARE bad AS SELECT abs($1)", "42P18: could not determine data type of parameter $1"),
        ("PREPARE bad(nonsense) AS SELECT $1", "42704: "),
        ("PREPARE bad AS CREATE TABLE x (a INT)", "42601: PREPARE takes a SELECT, INSERT, UPDATE or DELETE"),
        ("PREPARE gone AS DELETE FROM t WHERE id = $1", "PREPARE"),
        ("EXECUTE gone(20)", "DELETE 1"),
        ("EXECUTE gone(20)", "DELETE 0"),
        ("PREPARE wide(bigint) AS SELECT id FROM t WHERE id = $1", "PREPARE"),
        ("EXECUTE wide(1)", "1"),
        ("EXECUTE wide(3000000000)", ""),
        (
            "PREPARE two AS SELECT t.id, u.id FROM t JOIN u ON t.id = u.t WHERE u.id = $1 ORDER BY 1",
            "PREPARE",
        ),
        ("EXECUTE two(2)", "1"),
        ("BEGIN", "BEGIN"),
        ("EXECUTE add(1, 1)", "UPDATE 1"),
        ("EXECUTE get(1)", "1"),
        ("EXECUTE nothing(1)", "26000: "),
        ("EXECUTE get(1)", "25P02: "),
        ("ROLLBACK", "ROLLBACK"),
        ("BEGIN READ ONLY", "BEGIN"),
        ("EXECUTE put(22, 'x')", "25006: "),
        ("ROLLBACK", "ROLLBACK"),
        ("DEALLOCATE get", "DEALLOCATE"),
        ("DEALLOCATE get", "26000: prepared statement \"get\" does not exist"),
        ("EXECUTE get(1)", "26000: prepared statement \"get\" does not exist"),
        ("DEALLOCATE PREPARE put", "DEALLOCATE"),
        ("DEALLOCATE ALL", "DEALLOCATE ALL"),
        ("EXECUTE add(1, 1)", "26000: "),
        ("SELECT id FROM t WHERE id = $1", "42P02: "),
    ] {
        let got = shown(pair.short.execute(sql).await).await;
        assert_eq!(got, shown(pair.general.execute(sql).await).await, "{sql}");
        let rows = got.strip_prefix("Schema").map(|s| s.split_once('\n').map_or("", |(_, rows)| rows));
        match rows {
            Some(rows) => {
                let first = rows.lines().next().map_or("", |l| l.split(',').next().unwrap_or_default());
                assert_eq!(first.trim_matches('"'), expected, "{sql}: {got}");
            }
            None => assert!(got.starts_with(expected) && !expected.is_empty(), "{sql}: {got}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_plan_is_never_used() {
    let pair = Pair::new();
    pair.both("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT); INSERT INTO t VALUES (1, 10, 100)").await;
    pair.both(
        "PREPARE all_of AS SELECT * FROM t WHERE id = $1; PREPARE v_of AS SELECT v FROM t WHERE id = $1",
    )
    .await;
    pair.both("PREPARE set_v AS UPDATE t SET v = $2 WHERE id = $1; PREPARE put AS INSERT INTO t VALUES ($1, $2, $3)").await;
    pair.both(
        "PREPARE gone AS DELETE FROM t WHERE id = $1; PREPARE sums AS SELECT sum(v) FROM t WHERE id > $1",
    )
    .await;
    let all = [
        "EXECUTE all_of(1)",
        "EXECUTE v_of(1)",
        "EXECUTE set_v(1, 11)",
        "EXECUTE put(2, 20, 200)",
        "EXECUTE sums(0)",
        "EXECUTE gone(2)",
    ];
    for sql in all {
        pair.same(sql, Took::Either).await;
    }
    pair.both("DROP TABLE t").await;
    for sql in all {
        assert!(shown(pair.short.execute(sql).await).await.starts_with("42P01: "), "{sql}");
        pair.same(sql, Took::General).await;
    }
    // The columns have other places, and one has another type.
    pair.both("CREATE TABLE t (w INT, v INT, id INT PRIMARY KEY); INSERT INTO t VALUES (100, 10, 1)").await;
    assert_eq!(
        shown(pair.short.execute("EXECUTE all_of(1)").await).await,
        "0A000: cached plan must not change result type"
    );
    for sql in all {
        pair.same(sql, Took::Either).await;
    }
    assert!(shown(pair.short.execute("EXECUTE v_of(1)").await).await.ends_with("\"11\"\n"));
    pair.same("SELECT * FROM t ORDER BY 1, 2, 3", Took::Either).await;
    pair.both(
        "DROP TABLE t; CREATE TABLE t (id TEXT PRIMARY KEY, v INT, w INT); INSERT INTO t VALUES ('1', 7, 8)",
    )
    .await;
    for sql in all {
        pair.same(sql, Took::Either).await;
    }
    pair.both(
        "DROP TABLE t; CREATE TABLE t (id INT, v INT, w INT); INSERT INTO t VALUES (1, 7, 8), (1, 9, 10)",
    )
    .await;
    for sql in all {
        pair.same(sql, Took::Either).await;
    }
    pair.same("SELECT * FROM t ORDER BY 1, 2, 3", Took::Either).await;
    // An index that makes a column a key, and its end.
    pair.both("DROP TABLE t; CREATE TABLE t (id INT, v INT, w INT); CREATE UNIQUE INDEX i ON t (id); INSERT INTO t VALUES (1, 7, 8)").await;
    pair.same("EXECUTE all_of(1)", Took::Short).await;
    pair.both("DROP INDEX i; INSERT INTO t VALUES (1, 9, 10)").await;
    pair.same("EXECUTE all_of(1)", Took::General).await;
    pair.same("EXECUTE set_v(1, 5)", Took::General).await;
    pair.same("SELECT * FROM t ORDER BY 1, 2, 3", Took::Either).await;
    // A foreign key that acts.
    pair.both("DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT); INSERT INTO t VALUES (1, 7, 8), (2, 7, 8)").await;
    pair.same("EXECUTE gone(1)", Took::Short).await;
    pair.both(
        "CREATE TABLE c (id INT PRIMARY KEY REFERENCES t (id) ON DELETE CASCADE); INSERT INTO c VALUES (2)",
    )
    .await;
    pair.same("EXECUTE gone(2)", Took::General).await;
    pair.same("SELECT * FROM c", Took::Either).await;
}
