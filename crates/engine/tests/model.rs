//! Random histories of transactions, aborts, snapshots and reopenings, against a plain map.

mod support;

use std::collections::BTreeMap;

use lode_base::Geometry;
use lode_engine::{Database, EngineError, Layout, RowAddress, Snapshot};
use lode_firmware::{Drive, DriveOptions};
use lode_page::{DataType, Value};
use proptest::prelude::*;
use support::drive::TestDrive;
use support::*;
use tempfile::TempDir;

type Model = BTreeMap<i64, Row>;

/// One statement of a transaction. Keys are drawn from a small set, so that they meet.
#[derive(Clone, Debug)]
enum Step {
    Insert { first: i64, rows: i64, width: usize },
    Load { first: i64, rows: i64, width: usize, backwards: bool },
    Delete { modulus: i64, rest: i64 },
    Update { modulus: i64, rest: i64, width: usize },
    Rekey { modulus: i64, rest: i64, by: i64 },
}

#[derive(Clone, Debug)]
struct Transaction {
    steps: Vec<Step>,
    commits: bool,
    keeps_snapshot: bool,
    reopens: bool,
    merges: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let width = prop_oneof![Just(0usize), Just(5), Just(40), Just(3000)];
    prop_oneof![
        (0i64..3000, 1i64..60, width.clone()).prop_map(|(first, rows, width)| Step::Insert {
            first,
            rows,
            width
        }),
        (0i64..3000, 1i64..1500, Just(20usize), any::<bool>())
            .prop_map(|(first, rows, width, backwards)| Step::Load { first, rows, width, backwards }),
        (1i64..40, 0i64..40).prop_map(|(modulus, rest)| Step::Delete { modulus, rest }),
        (1i64..40, 0i64..40, width).prop_map(|(modulus, rest, width)| Step::Update { modulus, rest, width }),
        (5i64..40, 0i64..40, -50i64..50).prop_map(|(modulus, rest, by)| Step::Rekey { modulus, rest, by }),
    ]
}

fn transaction() -> impl Strategy<Value = Transaction> {
    (
        prop::collection::vec(step(), 1..4),
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(steps, commits, keeps_snapshot, reopens, merges)| Transaction {
            steps,
            commits,
            keeps_snapshot,
            reopens,
            merges,
        })
}

fn row_of(k: i64, width: usize) -> Row {
    let text = format!("{k}-{}", "x".repeat(width));
    vec![Value::Int(k), if k % 7 == 0 { Value::Null } else { Value::Int(k % 100) }, Value::text(&text)]
}

fn key(r: &Row) -> i64 {
    match r[0] {
        Value::Int(k) => k,
        _ => panic!("{r:?}"),
    }
}

const TYPES: [DataType; 3] = [DataType::BigInt, DataType::Date, DataType::Text];

/// Runs a transaction on both; `false` when the model says that keys collide.
fn run(db: &Database, model: &Model, t: &Transaction) -> Result<Option<Model>, EngineError> {
    let mut txn = db.begin_write()?;
    let at_begin = scan(txn.snapshot(), "t");
    // What becomes of each row of the snapshot, and what is new.
    let mut old: BTreeMap<RowAddress, Option<Row>> =
        at_begin.iter().map(|(a, r)| (*a, Some(r.clone()))).collect();
    let mut new: Vec<Row> = Vec::new();
    let chosen = |modulus: i64, rest: i64| -> Vec<RowAddress> {
        at_begin.iter().filter(|(_, r)| key(r) % modulus == rest % modulus).map(|(a, _)| *a).collect()
    };
    for step in &t.steps {
        match *step {
            Step::Insert { first, rows, width } => {
                let rows: Vec<Row> = (first..first + rows).map(|k| row_of(k, width)).collect();
                assert_eq!(txn.insert("t", columns(&TYPES, &rows))?, rows.len() as u64);
                new.extend(rows);
            }
            Step::Load { first, rows, width, backwards } => {
                let mut rows: Vec<Row> = (first..first + rows).map(|k| row_of(k, width)).collect();
                if backwards {
                    rows.reverse();
                }
                for part in rows.chunks(100) {
                    txn.load("t", columns(&TYPES, part))?;
                }
                new.extend(rows);
            }
            Step::Delete { modulus, rest } => {
                let rows = chosen(modulus, rest);
                let expected = rows.iter().filter(|a| old[a].is_some()).count() as u64;
                assert_eq!(txn.delete("t", &rows)?, expected);
                rows.iter().for_each(|a| {
                    old.insert(*a, None);
                });
            }
            Step::Update { modulus, rest, width } => {
                let rows = chosen(modulus, rest);
                let text: Vec<Value> =
                    (0..rows.len()).map(|i| Value::text(&format!("{i}{}", "y".repeat(width)))).collect();
                let values: Vec<Row> = text.iter().map(|v| vec![v.clone(), Value::Null]).collect();
                txn.update("t", &rows, &[2, 1], columns(&[DataType::Text, DataType::Date], &values))?;
                for (a, v) in rows.iter().zip(text) {
                    if let Some(Some(r)) = old.get_mut(a) {
                        (r[1], r[2]) = (Value::Null, v);
                    }
                }
            }
            Step::Rekey { modulus, rest, by } => {
                let rows = chosen(modulus, rest);
                let key_at =
                    |a: &RowAddress| at_begin.iter().find(|(b, _)| a == b).map(|(_, r)| key(r)).unwrap();
                let values: Vec<Row> = rows.iter().map(|a| vec![Value::Int(key_at(a) + by)]).collect();
                txn.update("t", &rows, &[0], columns(&[DataType::BigInt], &values))?;
                for (a, v) in rows.iter().zip(values) {
                    if let Some(Some(r)) = old.get_mut(a) {
                        r[0] = v[0].clone();
                    }
                }
            }
        }
    }
    if !t.commits {
        return Ok(Some(model.clone()));
    }
    let rows: Vec<Row> = old.into_values().flatten().chain(new).collect();
    let after: Model = rows.iter().map(|r| (key(r), r.clone())).collect();
    match txn.commit() {
        Ok(_) if after.len() == rows.len() => Ok(Some(after)),
        Ok(_) => panic!("two rows have one key, and the commit did not notice"),
        Err(EngineError::DuplicateKey { .. }) if after.len() < rows.len() => Ok(None),
        Err(e) => Err(e),
    }
}

fn same(s: &Snapshot, model: &Model) {
    let expected = sorted(model.values().cloned().collect());
    assert_eq!(sorted(scan(s, "t").into_iter().map(|(_, r)| r).collect()), expected);
    assert_eq!(sorted(read(s, "t")), expected);
    let t = s.table("t").unwrap();
    let stats = s.statistics(&t).unwrap();
    assert_eq!((s.rows(&t).unwrap(), stats.rows), (model.len() as u64, model.len() as u64));
    for row in model.values() {
        for c in t.index_columns().into_iter().map(usize::from) {
            match (&row[c], &stats.columns[c]) {
                (Value::Null, _) => assert_eq!(stats.has_nulls[c], Some(true)),
                (v, Some((min, max))) => {
                    assert!(
                        min.compare(v).unwrap().is_le() && max.compare(v).unwrap().is_ge(),
                        "{v:?} {stats:?}"
                    );
                }
                (v, None) => panic!("column {c} has {v:?}, and no bounds"),
            }
        }
    }
}

/// A drive that can be opened again.
trait Rig {
    fn open(&mut self) -> Database;
    /// Views that are open; after all of the database was dropped, none.
    fn views(&self) -> usize;
    fn check(&self) {}
}

impl Rig for TestDrive {
    fn open(&mut self) -> Database {
        open(self)
    }

    fn views(&self) -> usize {
        TestDrive::views(self)
    }
}

/// The real drive, in memory, or in a file whose drive is dropped and recovered each time.
struct Real {
    drive: Option<Drive>,
    file: Option<TempDir>,
}

impl Real {
    fn in_memory() -> Self {
        Self { drive: Some(Drive::in_memory(256 << 20)), file: None }
    }

    /// Limits that make changes of a few hundred rows large.
    fn small() -> DriveOptions {
        DriveOptions { batch_bytes_max: 128 << 10, page_bytes_max: 64 << 10, ..DriveOptions::default() }
    }

    fn in_a_file() -> Self {
        let dir = TempDir::new().unwrap();
        let geometry = Geometry::file(256 << 20).unwrap();
        drop(Drive::create_file(&dir.path().join("d.lode"), geometry, Self::small(), 1).unwrap());
        Self { drive: None, file: Some(dir) }
    }
}

impl Rig for Real {
    fn open(&mut self) -> Database {
        if let Some(dir) = &self.file {
            self.drive = None;
            let path = dir.path().join("d.lode");
            self.drive = Some(Drive::open_file(&path, Self::small()).unwrap());
        }
        open(self.drive.as_ref().unwrap())
    }

    fn views(&self) -> usize {
        self.drive.as_ref().unwrap().info().views as usize
    }

    fn check(&self) {
        assert_eq!(self.drive.as_ref().unwrap().check().problems, Vec::<String>::new());
    }
}

fn history(layout: Layout, mut drive: impl Rig, transactions: Vec<Transaction>) {
    let mut db = drive.open();
    db.create_table(table(layout), false).unwrap();
    let mut model = Model::new();
    let mut kept: Vec<(Snapshot, Model)> = Vec::new();
    for t in transactions {
        if let Some(after) = run(&db, &model, &t).unwrap() {
            model = after;
        }
        same(&db.snapshot().unwrap(), &model);
        if t.keeps_snapshot {
            kept.push((db.snapshot().unwrap(), model.clone()));
        }
        if t.merges {
            db.merge("t").unwrap();
            same(&db.snapshot().unwrap(), &model);
            sound(&db);
        }
        if t.reopens {
            kept.iter().for_each(|(s, m)| same(s, m));
            kept.clear();
            drop(db);
            assert_eq!(drive.views(), 0);
            db = drive.open();
            same(&db.snapshot().unwrap(), &model);
        }
    }
    kept.iter().for_each(|(s, m)| same(s, m));
    sound(&db);
    drive.check();
}

fn config() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(20_261_121);
    ProptestConfig { cases: 24, failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_database_is_a_map(
        row in any::<bool>(), transactions in prop::collection::vec(transaction(), 1..12),
    ) {
        history(if row { Layout::Row } else { Layout::Auto }, TestDrive::new(), transactions);
    }

    #[test]
    fn also_on_a_drive_with_small_batches(
        row in any::<bool>(), transactions in prop::collection::vec(transaction(), 1..12),
    ) {
        history(if row { Layout::Row } else { Layout::Auto }, TestDrive::with_limits(100 << 10, 64), transactions);
    }

    #[test]
    fn on_the_real_drive_in_memory(
        row in any::<bool>(), transactions in prop::collection::vec(transaction(), 1..12),
    ) {
        history(if row { Layout::Row } else { Layout::Auto }, Real::in_memory(), transactions);
    }

    #[test]
    fn on_the_real_drive_in_a_file(
        row in any::<bool>(), transactions in prop::collection::vec(transaction(), 1..12),
    ) {
        history(if row { Layout::Row } else { Layout::Auto }, Real::in_a_file(), transactions);
    }
}
