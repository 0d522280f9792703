//! The border between host and drive: whatever is evaluated where, the answer is the same.
//!
//! Random conditions, joins and top-k queries run on random tables (all types, NULLs, extreme values, row pages and
//! column pages). Level `off`, where DataFusion evaluates everything, is the model; every other level must answer the
//! same rows. The drive's counters must show that it evaluated, so that a silent fallback fails the test.
//!
//! `LODE_BORDER_SEEDS=n` runs n seeds (default 3); `LODE_BORDER_SEED=s` replays one.

mod border {
    pub(crate) mod conditions;
    pub(crate) mod random;
    pub(crate) mod tables;
}

use std::ops::Range;
use std::sync::Arc;

use border::conditions::Conditions;
use border::random::{Choices, Random};
use border::tables;
use datafusion::arrow::util::pretty::pretty_format_batches;
use lode_base::{Geometry, Profile};
use lode_engine::{Database, DatabaseOptions, HostClock};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_sql::{Offload, Queries, QueryCounts, Session, SessionOptions};

const DRIVE_BYTES: u64 = 256 << 20;
const CONDITIONS: usize = 60;
const JOINS: usize = 12;

fn seeds() -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().expect("a number"));
    match number("LODE_BORDER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LODE_BORDER_SEEDS").unwrap_or(3),
    }
}

fn session() -> Session {
    let drive = Arc::new(Drive::in_memory(DRIVE_BYTES));
    let database = Database::open(drive, DatabaseOptions::default()).expect("an empty drive opens");
    let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
    Queries::new(database, 1 << 30).and_then(|q| q.session(&options)).expect("a session starts")
}

/// The rows as text in the query's order, or the message of the error.
async fn answer(session: &Session, level: Offload, sql: &str) -> (Result<String, String>, QueryCounts) {
    session.set_offload(level);
    let rows = session.collect(sql).await.map_err(|e| e.to_string());
    let text = rows.map(|batches| pretty_format_batches(&batches).expect("batches print").to_string());
    (text, session.last_counts())
}

/// Runs a query at every level and compares with `off`. Returns the counts by level, `off` first.
async fn agree(session: &Session, seed: u64, sql: &str) -> Vec<QueryCounts> {
    let (expected, off) = answer(session, Offload::Off, sql).await;
    let expected = expected.unwrap_or_else(|e| panic!("seed {seed}: {sql}\nfails: {e}"));
    assert_eq!(off.rows_in, 0, "seed {seed}: at level off the drive filters nothing");
    let mut counts = vec![off];
    for level in Offload::ALL.into_iter().filter(|&l| l != Offload::Off) {
        let (got, c) = answer(session, level, sql).await;
        let got = got.unwrap_or_else(|e| panic!("seed {seed}, level {level}: {sql}\nfails: {e}"));
        assert!(got == expected, "seed {seed}, level {level}: {sql}\nexpected\n{expected}\ngot\n{got}");
        counts.push(c);
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_select_the_same_rows_at_every_level() {
    let (mut asked, mut evaluated, mut skipped) = (0, 0, 0);
    for seed in seeds() {
        let session = session();
        let mut random = Random::of_seed(seed);
        tables::create(&session, "t", &mut random).await;
        for n in 0..CONDITIONS {
            let condition = Conditions::new(&mut random).condition(3);
            let sql = match n % 3 {
                0 => format!("SELECT id FROM t WHERE {condition} ORDER BY id"),
                1 => format!("SELECT * FROM t WHERE {condition} ORDER BY id"),
                _ => format!("SELECT count(*), min(id), max(id), count(s) FROM t WHERE {condition}"),
            };
            let counts = agree(&session, seed, &sql).await;
            let [_, index, matches, hints, pages, rows, _, auto] = counts[..] else { panic!("eight levels") };
            asked += 1;
            evaluated += usize::from(rows.rows_in > 0 || rows.pages_skipped > 0);
            skipped += index.pages_skipped + pages.pages_skipped + auto.pages_skipped;
            assert!(
                matches.pages_skipped == index.pages_skipped && hints.pages_skipped == index.pages_skipped
            );
            assert!(rows.rows_out <= pages.rows_out, "seed {seed}: {sql}");
        }
    }
    // Some conditions have parts that the drive declines; most have none.
    assert!(evaluated * 2 > asked, "the drive evaluated {evaluated} of {asked} conditions");
    assert!(skipped > 0, "the page index never skipped a page");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runtime_filters_keep_every_row_that_joins() {
    let (mut narrowed, mut fewer) = (0, 0);
    for seed in seeds() {
        let session = session();
        let mut random = Random::of_seed(seed ^ 0x6a09_e667);
        tables::create(&session, "t", &mut random).await;
        tables::create(&session, "u", &mut random).await;
        for n in 0..JOINS {
            let condition = Conditions::new(&mut random).of("u").condition(2);
            let key = *random.one(&["si", "i", "l", "n", "s", "dt", "ts", "d", "x", "b"]);
            let sql = match n % 4 {
                0 => format!(
                    "SELECT t.id, u.id FROM t JOIN u ON t.{key} = u.{key} WHERE u.id < 40 AND ({condition}) \
                     ORDER BY t.id, u.id"
                ),
                1 => format!(
                    "SELECT id FROM t WHERE {key} IN (SELECT {key} FROM u WHERE {condition}) ORDER BY id"
                ),
                2 => format!("SELECT {key} FROM t ORDER BY {key} DESC NULLS LAST LIMIT 7"),
                _ => format!(
                    "SELECT id FROM t WHERE i > (SELECT min(i) FROM u WHERE {condition}) \
                     AND NOT EXISTS (SELECT 1 FROM u WHERE u.{key} = t.{key} AND u.id < 30) ORDER BY id"
                ),
            };
            let counts = agree(&session, seed, &sql).await;
            narrowed += counts[5].narrowed + counts[7].narrowed;
            fewer += u64::from(counts[5].rows_out < counts[0].rows_out);
        }
    }
    assert!(narrowed > 0, "no run-time filter reached a scan");
    assert!(fewer > 0, "no run-time filter held a row back");
}

/// A session over the drive of YourSQL, whose scan units are pattern matchers.
fn session_of_matchers() -> Session {
    let mut profile = Profile::find("yoursql-pm1725").unwrap();
    let g = &profile.geometry;
    // Small EBLOCKs, and as many as the tables need.
    profile.geometry =
        Geometry::new(g.channels(), g.ways(), g.planes(), g.rblock_bytes(), g.wblock_bytes(), 1 << 20, 256)
            .unwrap();
    let model = Arc::new(Model::new(profile.clone()));
    let medium = Medium::memory(profile.geometry).with_model(model.clone());
    let drive = Drive::format(medium, DriveOptions::default()).unwrap();
    let meter = model.clone();
    let host = HostClock::new(profile, model.latest(), Box::new(move || meter.operations()));
    let options = DatabaseOptions { host: Some(Arc::new(host)), ..DatabaseOptions::default() };
    let database = Database::open(Arc::new(drive), options).expect("an empty drive opens");
    Queries::new(database, 1 << 30).and_then(|q| q.session(&SessionOptions::default())).expect("it starts")
}

/// Conditions have keys in part, on tables of row pages of each size and of column pages, with rows that changed and a column that older
/// pages do not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_without_a_filters_keys_are_dropped_and_no_row_is_lost() {
    let (mut unmatched, mut hinted, mut named) = (0, 0, 0);
    for seed in seeds() {
        let session = session_of_matchers();
        let mut random = Random::of_seed(seed ^ 0x510e_527f);
        for (n, options) in [
            "layout = 'row', page_bytes = 4096",
            "layout = 'row', page_bytes = 8192",
            "layout = 'row', page_bytes = 16384",
            "layout = 'row'",
            "layout = 'column'",
            "layout = 'column', changes = 'pages'",
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("t{n}");
            let with = format!("WITH ({options}, encoding = 'matchable', page_index = 'id')");
            tables::create_with(&session, &name, &with, &mut random).await;
            if random.once_in(2) {
                tables::run(&session, &format!("UPDATE {name} SET i = 5, s = s || 'x' WHERE id % 5 = 1"))
                    .await;
            }
            tables::run(&session, &format!("ALTER TABLE {name} ADD COLUMN added INTEGER DEFAULT 7")).await;
            tables::run(&session, &format!("UPDATE {name} SET added = 8 WHERE id % 100 = 3")).await;
            for m in 0..CONDITIONS / 3 {
                let v = random.signed(-9, 9);
                let condition = match m % 6 {
                    0 => format!("i = {v} AND si = {}", v + 1),
                    1 => "s LIKE '%longer%日本%' OR l IN (-3, 5)".to_owned(),
                    2 => format!("dt BETWEEN DATE '1970-01-0{}' AND DATE '1970-01-09'", v.abs().max(1)),
                    3 => format!("added = {}", 7 + v % 2),
                    4 => {
                        "ts >= TIMESTAMP '1970-01-01' AND ts < TIMESTAMP '1970-01-02' AND s = 'ab'".to_owned()
                    }
                    _ => Conditions::new(&mut random).condition(2),
                };
                let sql = format!("SELECT id, s FROM {name} WHERE {condition} ORDER BY id");
                let counts = agree(&session, seed, &sql).await;
                let [_, index, matches, hints, _, rows, ..] = counts[..] else { panic!("eight levels") };
                unmatched += rows.pages_unmatched;
                // The host reads what is flagged: the fewer, the more the drive looked at.
                let by_host = |c: QueryCounts, in_drive: u64| c.pages_read - in_drive;
                named += index.pages_read;
                hinted += by_host(hints, hints.pages - hints.pages_skipped);
                assert!(matches.pages_unmatched == hints.pages_unmatched, "{sql}");
                assert!(index.pages_unmatched == 0, "{sql}");
            }
            let plan =
                session.collect(&format!("EXPLAIN SELECT id FROM {name} WHERE i = 3 AND s = 'a'")).await;
            let plan = pretty_format_batches(&plan.unwrap()).unwrap().to_string();
            assert!(plan.contains("matcher keys=2"), "{plan}");
            let plan = session.collect(&format!("EXPLAIN SELECT id FROM {name} WHERE added = 3")).await;
            let plan = pretty_format_batches(&plan.unwrap()).unwrap().to_string();
            assert!(plan.contains("no matcher: no condition can be searched for"), "{plan}");
        }
    }
    assert!(unmatched > 0, "no page was dropped");
    assert!(hinted < named, "hints named {hinted} pages, and the page index {named}");
}

/// A random aggregate over a column for which the result does not depend on the order of rounding.
fn call(random: &mut Random) -> String {
    let exact = ["si", "i", "l", "n", "w", "n * 2", "n * n", "w - n", "CAST(i AS BIGINT) + i", "n * (1 - n)"];
    let any = ["b", "si", "i", "l", "n", "w", "s", "x", "dt", "ts", "r", "d"];
    let ordered = ["si", "i", "l", "n", "w", "s", "dt", "ts", "n + w"];
    match random.below(7) {
        0 => "count(*)".into(),
        1 => format!("count({})", random.one(&any)),
        2 => format!("sum({})", random.one(&exact)),
        3 => format!("min({})", random.one(&ordered)),
        4 => format!("max({})", random.one(&ordered)),
        5 => format!("avg({})", random.one(&["n", "w", "n * n"])),
        _ => format!("count(DISTINCT {})", random.one(&["i", "s", "dt"])),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_their_aggregates_agree() {
    let (mut asked, mut grouped, mut fewer) = (0, 0, 0);
    for seed in seeds() {
        let session = session();
        let mut random = Random::of_seed(seed ^ 0x3c6e_f372);
        tables::create(&session, "t", &mut random).await;
        for n in 0..CONDITIONS {
            let calls: Vec<String> = (0..1 + random.below(4)).map(|_| call(&mut random)).collect();
            let keys = ["b", "si", "i", "l", "n", "w", "s", "x", "dt", "ts"];
            let keys: Vec<&str> = (0..random.below(4)).map(|_| *random.one(&keys)).collect();
            let condition = Conditions::new(&mut random).condition(2);
            let filter = if n % 3 == 0 { "true".to_owned() } else { condition };
            let (list, calls) = (keys.join(", "), calls.join(", "));
            let sql = match keys.len() {
                0 => format!("SELECT {calls} FROM t WHERE {filter}"),
                _ => format!(
                    "SELECT {list}, {calls} FROM t WHERE {filter} GROUP BY {list} HAVING count(*) > 0 \
                     ORDER BY {list}, {calls}"
                ),
            };
            let counts = agree(&session, seed, &sql).await;
            asked += 1;
            grouped += usize::from(counts[6].groups > 0);
            fewer += usize::from(counts[6].groups > 0 && counts[6].link_bytes_up < counts[5].link_bytes_up);
            assert!(counts[..6].iter().all(|c| c.groups == 0), "{sql}");
        }
    }
    assert!(grouped * 3 > asked, "the drive aggregated {grouped} of {asked}");
    assert!(fewer > 0, "groups never took fewer bytes than rows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_go_into_the_drive_where_it_makes_them_as_the_host_does() {
    let session = session();
    tables::create(&session, "t", &mut Random::of_seed(3)).await;
    session.set_offload(Offload::Aggregate);
    let check = async |sql: &str, in_drive: bool| {
        let plan = session.collect(&format!("EXPLAIN {sql}")).await.expect(sql);
        let plan = pretty_format_batches(&plan).expect("a plan prints").to_string();
        assert_eq!(plan.contains("aggregates=["), in_drive, "{sql}\n{plan}");
    };
    for sql in [
        "SELECT count(*) FROM t WHERE i > 3",
        "SELECT s, sum(n * (1 - n) * (1 + n)), avg(n) FROM t GROUP BY s",
        "SELECT b, min(dt), max(s) FROM t WHERE l < 7 GROUP BY b",
        "SELECT DISTINCT i, s FROM t",
        "SELECT i, count(DISTINCT s) FROM t GROUP BY i",
        "SELECT avg(si), sum(d) FROM t WHERE id < 1000",
        "SELECT x, count(r) FROM (SELECT x, r, i + 1 AS j FROM t) GROUP BY x",
    ] {
        check(sql, true).await;
    }
    for sql in [
        "SELECT i FROM t",
        "SELECT sum(n) FILTER (WHERE i > 2) FROM t",
        "SELECT r, count(*) FROM t GROUP BY r",
        "SELECT max(d) FROM t WHERE id < 1000",
        "SELECT i, count(*) FROM t GROUP BY ROLLUP (i)",
        "SELECT i + 1, count(*) FROM t GROUP BY i + 1",
        "SELECT sum(i / 2) FROM t WHERE id < 1000",
        "SELECT median(i) FROM t",
        "SELECT string_agg(s, ',' ORDER BY s) FROM t",
        "SELECT sum(n) FROM t WHERE s ILIKE 'a%'",
        "SELECT count(*) FROM (SELECT id FROM t LIMIT 11)",
    ] {
        check(sql, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auto_leaves_groups_of_single_rows_to_the_host() {
    let session = session();
    tables::create(&session, "t", &mut Random::of_seed(4)).await;
    session.set_offload(Offload::Auto);
    let groups = async |sql: &str| {
        session.collect(sql).await.expect(sql);
        session.last_counts().groups
    };
    assert!(groups("SELECT b, count(*) FROM t WHERE id < 900 GROUP BY b").await > 0);
    assert_eq!(groups("SELECT id, count(*) FROM t WHERE id < 900 GROUP BY id").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_product_of_too_many_digits_is_an_error_at_every_level() {
    let session = session();
    session.collect("CREATE TABLE p (a DECIMAL(38, 0))").await.unwrap();
    session.collect("INSERT INTO p VALUES (3), (12345678901234567890123456789012345678)").await.unwrap();
    for level in Offload::ALL {
        let (got, _) = answer(&session, level, "SELECT sum(a * a) FROM p").await;
        let e = got.expect_err("no answer can hold it");
        assert!(!e.contains('\n') && (e.contains("out of range") || e.contains("digits")), "{level}: {e}");
        let (got, _) = answer(&session, level, "SELECT sum(a * a) FROM p WHERE a < 10").await;
        assert!(got.expect("9").contains("| 9 "), "{level}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_bare_counts_agree() {
    let session = session();
    tables::create(&session, "t", &mut Random::of_seed(1)).await;
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM (SELECT id FROM t LIMIT 11)",
        "SELECT count(*) FROM (SELECT id FROM t WHERE id >= 100 LIMIT 13)",
        "SELECT count(*) FROM (SELECT id FROM t WHERE id >= 100 LIMIT 13 OFFSET 5)",
        "SELECT count(*) FROM t WHERE id < 0",
        "SELECT count(*) FROM t a, t b WHERE a.id = b.id AND a.id < 50",
    ] {
        agree(&session, 1, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_what_the_drive_did() {
    let session = session();
    tables::create(&session, "t", &mut Random::of_seed(2)).await;
    let sql = "EXPLAIN ANALYZE SELECT s FROM t WHERE id BETWEEN 10 AND 20";
    let (plan, counts) = answer(&session, Offload::Rows, sql).await;
    let plan = plan.expect("the query runs");
    assert!(
        plan.contains("LodeScanExec: table=t, offload=rows, projection=[s], filter=id >= 10 AND id <= 20")
    );
    assert!(plan.contains("output_rows=11,"), "{plan}");
    for metric in ["pages=", "pages_skipped=", "pages_read=", "media_bytes=", "link_bytes=", "drive_rows="] {
        assert!(plan.contains(metric), "{metric} is missing in {plan}");
    }
    assert!(counts.pages_skipped > 0 && counts.pages_read < counts.pages, "{counts:?}");
    assert!(!plan.contains("FilterExec"), "the filter left the plan: {plan}");
}
