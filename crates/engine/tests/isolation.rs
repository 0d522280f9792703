//! Snapshot isolation: several transactions open at a time, interleaved at random, against a plain model; and by hand.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::Geometry;
use lode_command::Answer;
use lode_engine::{
    Changes, Database, EngineError, IndexDef, IndexKind, Layout, RowAddress, SavedChanges, Snapshot, WriteTxn,
};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_page::{DataType, Value};
use lode_program::{CompareOp, Expr, Program};
use proptest::prelude::*;
use support::drive::TestDrive;
use support::*;

const TYPES: [DataType; 3] = [DataType::BigInt, DataType::Date, DataType::Text];

type Model = BTreeMap<i64, Row>;

fn key(r: &Row) -> i64 {
    match r[0] {
        Value::Int(k) => k,
        _ => panic!("{r:?}"),
    }
}

fn row_of(k: i64, text: &str) -> Row {
    vec![Value::Int(k), if k % 7 == 0 { Value::Null } else { Value::Int(k % 100) }, Value::text(text)]
}

/// What one of the open transactions does.
#[derive(Clone, Debug)]
enum Step {
    Insert {
        first: i64,
        rows: i64,
    },
    Load {
        first: i64,
        rows: i64,
    },
    Update {
        modulus: i64,
        rest: i64,
        width: usize,
    },
    Rekey {
        modulus: i64,
        rest: i64,
        by: i64,
    },
    Delete {
        modulus: i64,
        rest: i64,
    },
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
    /// Merges the delta, if the table has one.
    Merge,
}

fn step() -> impl Strategy<Value = Step> {
    let chosen = || (prop_oneof![2i64..8, 20i64..60], 0i64..60);
    prop_oneof![
        4 => (0i64..20_000, 1i64..40).prop_map(|(first, rows)| Step::Insert { first, rows }),
        2 => (0i64..20_000, 1i64..900).prop_map(|(first, rows)| Step::Load { first, rows }),
        4 => (chosen(), 0usize..60).prop_map(|((modulus, rest), width)| Step::Update { modulus, rest, width }),
        1 => (chosen(), -50i64..50).prop_map(|((modulus, rest), by)| Step::Rekey { modulus, rest, by }),
        3 => chosen().prop_map(|(modulus, rest)| Step::Delete { modulus, rest }),
        1 => Just(Step::Savepoint),
        1 => Just(Step::RollbackTo),
        4 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        2 => Just(Step::Merge),
    ]
}

/// Rows as a transaction sees them, each with the key that it had at the begin.
#[derive(Clone)]
struct Seen {
    rows: Vec<(Option<i64>, Row)>,
    touched: BTreeSet<i64>,
}

struct Open {
    txn: WriteTxn,
    at_begin: Model,
    seen: Seen,
    savepoint: Option<(SavedChanges, Seen)>,
}

impl Open {
    fn begin(db: &Database, committed: &Model) -> Self {
        let rows = committed.iter().map(|(&k, r)| (Some(k), r.clone())).collect();
        let seen = Seen { rows, touched: BTreeSet::new() };
        Self { txn: db.begin_write().unwrap(), at_begin: committed.clone(), seen, savepoint: None }
    }

    /// Addresses of the rows that it sees with such keys.
    fn addresses(&mut self, modulus: i64, rest: i64) -> Vec<(RowAddress, Row)> {
        let mut rows = scan(&self.txn.current().unwrap(), "t");
        rows.retain(|(_, r)| key(r) % modulus == rest % modulus);
        rows
    }

    fn change(&mut self, modulus: i64, rest: i64, mut to: impl FnMut(&Row) -> Option<Row>) {
        let mut kept = Vec::new();
        for (base, row) in std::mem::take(&mut self.seen.rows) {
            if key(&row) % modulus != rest % modulus {
                kept.push((base, row));
                continue;
            }
            self.seen.touched.extend(base);
            kept.extend(to(&row).map(|new| (base, new)));
        }
        self.seen.rows = kept;
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Insert { first, rows } | Step::Load { first, rows } => {
                // Loads are wide enough to fill pages, so that they go to the drive before the commit.
                let width = if matches!(step, Step::Load { .. }) { 120 } else { 1 };
                let text = |k: i64| format!("{k:width$}");
                let rows: Vec<Row> = (first..first + rows).map(|k| row_of(k, &text(k))).collect();
                let columns = columns(&TYPES, &rows);
                match step {
                    Step::Insert { .. } => self.txn.insert("t", columns).unwrap(),
                    _ => self.txn.load("t", columns).unwrap(),
                };
                self.seen.rows.extend(rows.into_iter().map(|r| (None, r)));
            }
            Step::Update { modulus, rest, width } => {
                let rows = self.addresses(modulus, rest);
                let text = |r: &Row| Value::text(&format!("{}{}", key(r), "u".repeat(width)));
                let values: Vec<Row> = rows.iter().map(|(_, r)| vec![text(r), Value::Null]).collect();
                let rows: Vec<RowAddress> = rows.into_iter().map(|(a, _)| a).collect();
                let values = columns(&[DataType::Text, DataType::Date], &values);
                self.txn.update("t", &rows, &[2, 1], values).unwrap();
                self.change(modulus, rest, |r| Some(vec![r[0].clone(), Value::Null, text(r)]));
            }
            Step::Rekey { modulus, rest, by } => {
                let rows = self.addresses(modulus, rest);
                let values: Vec<Row> = rows.iter().map(|(_, r)| vec![Value::Int(key(r) + by)]).collect();
                let rows: Vec<RowAddress> = rows.into_iter().map(|(a, _)| a).collect();
                self.txn.update("t", &rows, &[0], columns(&[DataType::BigInt], &values)).unwrap();
                self.change(modulus, rest, |r| {
                    Some(vec![Value::Int(key(r) + by), r[1].clone(), r[2].clone()])
                });
            }
            Step::Delete { modulus, rest } => {
                let rows = self.addresses(modulus, rest);
                let rows: Vec<RowAddress> = rows.into_iter().map(|(a, _)| a).collect();
                assert_eq!(self.txn.delete("t", &rows).unwrap(), rows.len() as u64);
                self.change(modulus, rest, |_| None);
            }
            Step::Savepoint => self.savepoint = Some((self.txn.savepoint().unwrap(), self.seen.clone())),
            Step::RollbackTo => {
                if let Some((savepoint, seen)) = &self.savepoint {
                    self.txn.rollback_to(savepoint);
                    self.seen = seen.clone();
                }
            }
            Step::Commit | Step::Rollback | Step::Merge => unreachable!("the caller ends transactions"),
        }
    }

    /// The state after its commit, as snapshot isolation has it.
    fn merged(&self, committed: &Model) -> Result<Model, &'static str> {
        if self.seen.touched.iter().any(|k| committed.get(k) != self.at_begin.get(k)) {
            return Err("conflict");
        }
        let mut after: Model = committed
            .iter()
            .filter(|(k, _)| !self.seen.touched.contains(k))
            .map(|(&k, r)| (k, r.clone()))
            .collect();
        for (base, row) in &self.seen.rows {
            let mine = base.is_none_or(|k| self.seen.touched.contains(&k));
            if mine && after.insert(key(row), row.clone()).is_some() {
                return Err("duplicate");
            }
        }
        Ok(after)
    }
}

/// Every way to read shows exactly these rows.
fn shows(s: &Snapshot, rows: &[Row]) {
    let expected = sorted(rows.to_vec());
    assert_eq!(sorted(scan(s, "t").into_iter().map(|(_, r)| r).collect()), expected);
    assert_eq!(sorted(read(s, "t")), expected);
    let t = s.table("t").unwrap();
    let stats = s.statistics(&t).unwrap();
    assert_eq!((s.rows(&t).unwrap(), stats.rows), (rows.len() as u64, rows.len() as u64));
    for row in rows {
        if let (v @ Value::Int(_), Some((min, max))) = (&row[1], &stats.columns[1]) {
            assert!(min.compare(v).unwrap().is_le() && max.compare(v).unwrap().is_ge(), "{v:?} {stats:?}");
        }
    }
    finds(s, rows);
    // A filter, by rows and by pages, with the slots that lead back to the pool's rows.
    let below = Expr::compare(CompareOp::Lt, Expr::Column(1), Expr::Const(Value::Int(50), DataType::Date));
    let expected = sorted(rows.iter().filter(|r| matches!(r[1], Value::Int(d) if d < 50)).cloned().collect());
    for answer in [Answer::Rows, Answer::Index] {
        let program = Program::check(t.schema().clone(), Some(below.clone()), vec![0, 1, 2], true).unwrap();
        let mut scan = s.scan(&t, s.page_ranges(&t), Arc::new(program), answer, None).unwrap();
        let mut found = Vec::new();
        while let Some(unit) = scan.next().unwrap() {
            for p in unit.pages {
                let page = s.read_columns(p.lpid, &[0, 1, 2]).unwrap();
                let whole = |at: usize| -> Row { page.columns.iter().map(|c| c.value(at)).collect() };
                if answer == Answer::Index {
                    let all = (0..page.rows).map(whole);
                    found.extend(all.filter(|r| matches!(r[1], Value::Int(d) if d < 50)));
                    continue;
                }
                for r in 0..p.rows as usize {
                    let slot = p.slots.as_ref().map_or(r as u32, |s| s[r]);
                    let at = page.slots.as_ref().map_or(slot as usize, |s| s.binary_search(&slot).unwrap());
                    found.push(whole(at));
                    assert_eq!(p.columns[0].value(r), whole(at)[0]);
                }
            }
        }
        assert_eq!(sorted(found), expected, "{answer:?}");
    }
}

/// What a B+-tree index leads to, where there is one: by one value, by several, by a range.
fn finds(s: &Snapshot, rows: &[Row]) {
    let t = s.table("t").unwrap();
    let date = |v| Expr::Const(Value::Int(v), DataType::Date);
    let bound = |op, v| Expr::compare(op, Expr::Column(1), date(v));
    let list = Expr::In { value: Box::new(Expr::Column(1)), list: vec![Value::Int(3), Value::Int(44)] };
    let key = Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::Const(Value::Int(40), DataType::BigInt));
    type Passes = fn(i64, Option<i64>) -> bool;
    let questions: [(Expr, Passes); 4] = [
        (bound(CompareOp::Eq, 17), |_, d| d == Some(17)),
        (list, |_, d| matches!(d, Some(3 | 44))),
        (Expr::And(vec![bound(CompareOp::Gt, 20), bound(CompareOp::LtEq, 23)]), |_, d| {
            matches!(d, Some(21..=23))
        }),
        (key, |k, _| k == 40),
    ];
    for (filter, passes) in questions {
        let Some(indexed) = s.index_pages(&t, &filter, u64::MAX).unwrap() else {
            assert!(t.indexes().is_empty());
            continue;
        };
        let program = Program::check(t.schema().clone(), Some(filter), vec![0], false).unwrap();
        let mut scan = s.scan(&t, indexed.pages, Arc::new(program), Answer::Rows, None).unwrap();
        let mut found = Vec::new();
        while let Some(unit) = scan.next().unwrap() {
            for p in unit.pages {
                found.extend((0..p.rows as usize).map(|r| vec![p.columns[0].value(r)]));
            }
        }
        let date = |r: &Row| if let Value::Int(d) = r[1] { Some(d) } else { None };
        let expected =
            rows.iter().filter(|r| passes(key_of(r), date(r))).map(|r| vec![r[0].clone()]).collect();
        assert_eq!(sorted(found), sorted(expected), "{}", indexed.index);
    }
}

fn key_of(r: &Row) -> i64 {
    key(r)
}

fn btree(name: &str, columns: &[u16], unique: bool) -> IndexDef {
    let kind = IndexKind::Btree { unique };
    IndexDef::new(name, "t", columns, kind)
}

/// `(which of three transactions, what it does)`.
fn history(layout: Layout, db: &Database, steps: &[(usize, Step)]) -> (u32, u32, u32) {
    db.create_table(table(layout), false).unwrap();
    let indexed = layout == Layout::Row || crate::support::changes(layout) == Changes::Delta;
    if indexed {
        db.create_index(btree("by_date", &[1, 0], false), false).unwrap();
    }
    load(db, &(0..900).map(|k| row_of(k * 2, "old")).collect::<Vec<_>>(), 300).unwrap();
    if indexed {
        db.create_index(btree("by_key", &[0], true), false).unwrap();
    }
    let mut committed: Model = (0..900).map(|k| (k * 2, row_of(k * 2, "old"))).collect();
    let mut open: [Option<Open>; 3] = [None, None, None];
    let (mut commits, mut conflicts, mut duplicates) = (0, 0, 0);
    let all = |m: &Model| m.values().cloned().collect::<Vec<_>>();
    for (which, step) in steps {
        if let Step::Merge = step {
            db.merge("t").unwrap();
            shows(&db.snapshot().unwrap(), &all(&committed));
            continue;
        }
        let slot = &mut open[*which];
        let of = slot.get_or_insert_with(|| Open::begin(db, &committed));
        match step {
            Step::Rollback => *slot = None,
            Step::Commit => {
                let expected = of.merged(&committed);
                let open = slot.take().unwrap();
                match (open.txn.commit(), expected) {
                    (Ok(_), Ok(after)) => (committed, commits) = (after, commits + 1),
                    (Err(EngineError::Conflict { .. }), Err("conflict")) => conflicts += 1,
                    (
                        Err(EngineError::DuplicateKey { .. } | EngineError::Unique { .. }),
                        Err("duplicate"),
                    ) => {
                        duplicates += 1;
                    }
                    (got, expected) => panic!("{got:?} where {:?} was expected", expected.map(|m| m.len())),
                }
                shows(&db.snapshot().unwrap(), &all(&committed));
            }
            step => {
                of.run(step);
                let seen: Vec<Row> = of.seen.rows.iter().map(|(_, r)| r.clone()).collect();
                shows(&of.txn.current().unwrap(), &seen);
                if matches!(step, Step::Savepoint) {
                    shows(of.txn.snapshot(), &all(&of.at_begin));
                }
            }
        }
    }
    drop(open);
    shows(&db.snapshot().unwrap(), &all(&committed));
    sound(db);
    (commits, conflicts, duplicates)
}

fn config() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(20_261_122);
    let cases = std::env::var("LODE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    ProptestConfig { cases, failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    prop::collection::vec((0usize..3, step()), 1..40)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn interleaved_transactions_are_isolated(row in any::<bool>(), steps in steps()) {
        history(if row { Layout::Row } else { Layout::Auto }, &open(&TestDrive::new()), &steps);
    }

    #[test]
    fn also_on_a_drive_with_small_batches(row in any::<bool>(), steps in steps()) {
        let drive = TestDrive::with_limits(100 << 10, 64);
        history(if row { Layout::Row } else { Layout::Auto }, &open(&drive), &steps);
    }

    #[test]
    fn on_the_real_drive(row in any::<bool>(), steps in steps()) {
        let drive = small_drive();
        let db = open(&drive);
        history(if row { Layout::Row } else { Layout::Auto }, &db, &steps);
        prop_assert_eq!(drive.info().views, 1);
        drop(db);
        prop_assert_eq!(drive.check().problems, Vec::<String>::new());
    }
}

/// A drive of small pages: a few hundred rows fill some, so that loads go to the drive before their commit.
fn small_drive() -> Drive {
    let options =
        DriveOptions { batch_bytes_max: 256 << 10, page_bytes_max: 64 << 10, ..DriveOptions::default() };
    Drive::format(Medium::memory(Geometry::file(256 << 20).unwrap()), options).unwrap()
}

/// The random histories above are worth something only if they meet conflicts and duplicates.
#[test]
fn random_histories_conflict() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let mut sum = (0, 0, 0);
    for _ in 0..8 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        let (a, b, c) = history(Layout::Auto, &open(&TestDrive::new()), &steps);
        sum = (sum.0 + a, sum.1 + b, sum.2 + c);
    }
    assert!(sum.0 > 5 && sum.1 > 0 && sum.2 > 0, "{sum:?}");
}
