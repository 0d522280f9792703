//! Tables with deltas on a drive that has no room left: what was acknowledged stays, each statement and each merge works or fails as
//! out of space, and once a table is dropped all of them work again.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::Geometry;
use lode_base::random::Random;
use lode_engine::{Changes, Database, DatabaseOptions, EngineError, Layout};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_page::{DataType, Value};
use support::*;

const TYPES: [DataType; 2] = [DataType::BigInt, DataType::Text];
/// Text that does not compress.
const TEXT_BYTES: u64 = 1500;

struct World {
    drive: Arc<Drive>,
    db: Database,
    random: Random,
    /// What was acknowledged of `t` and `u`.
    rows: [BTreeMap<i64, Row>; 2],
    next: i64,
    /// How many statements and merges found no room.
    refused: u32,
}

fn options() -> DatabaseOptions {
    DatabaseOptions { node_bytes: 1024, write_back_bytes: 64 << 10, redo_bytes_max: 512 << 10, ..small() }
}

fn key(r: &Row) -> i64 {
    if let Value::Int(k) = r[0] { k } else { panic!("{r:?}") }
}

fn is_full(e: &EngineError) -> bool {
    matches!(e, EngineError::OutOfSpace { .. })
}

impl World {
    fn new(seed: u64) -> Self {
        let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 64).unwrap();
        let drive = Arc::new(Drive::format(Medium::memory(geometry), DriveOptions::default()).unwrap());
        let db = Database::open(drive.clone(), options()).unwrap();
        let rows = [BTreeMap::new(), BTreeMap::new()];
        Self { drive, db, random: Random::of_seed(seed), rows, next: 0, refused: 0 }
    }

    fn create(&self, name: &str) {
        let mut def = def(name, &[("k", TYPES[0]), ("s", TYPES[1])], &[0], Layout::Auto);
        def.options.changes = Changes::Delta;
        self.db.create_table(def, false).unwrap();
    }

    fn text(&mut self) -> Value {
        let letters = (0..TEXT_BYTES).map(|_| char::from(b'!' + self.random.below(90) as u8));
        Value::text(&letters.collect::<String>())
    }

    /// Notes how something ended that may find no room. Answers whether it worked.
    fn worked<T>(&mut self, what: &str, ended: Result<T, EngineError>) -> bool {
        if let Err(e) = &ended {
            assert!(is_full(e), "{what}: {e}");
            self.refused += 1;
        }
        ended.is_ok()
    }

    /// Inserts some rows. Answers whether there was room.
    fn insert(&mut self, t: usize, count: i64) -> bool {
        let first = self.next;
        self.next += count;
        let rows: Vec<Row> = (first..first + count).map(|k| vec![Value::Int(k), self.text()]).collect();
        let mut txn = self.db.begin_write().unwrap();
        let columns = columns(&TYPES, &rows);
        let ended = txn.insert(["t", "u"][t], columns).and_then(|_| txn.commit());
        let worked = self.worked("an insert", ended);
        if worked {
            self.rows[t].extend((first..).zip(rows));
        }
        worked
    }

    /// Deletes about one row of these many.
    fn delete(&mut self, t: usize, one_of: i64, most: usize) -> bool {
        let name = ["t", "u"][t];
        let mut txn = self.db.begin_write().unwrap();
        let rows = scan(txn.snapshot(), name);
        let gone: Vec<_> =
            rows.iter().map(|(a, r)| (*a, key(r))).filter(|(_, k)| k % one_of == 0).take(most).collect();
        let addresses: Vec<_> = gone.iter().map(|(a, _)| *a).collect();
        let ended = txn.delete(name, &addresses).and_then(|_| txn.commit());
        let worked = self.worked("a delete", ended);
        if worked {
            gone.iter().for_each(|(_, k)| drop(self.rows[t].remove(k)));
        }
        worked
    }

    fn merge(&mut self, t: usize) -> bool {
        let merged = self.db.merge(["t", "u"][t]);
        self.worked("a merge", merged)
    }

    fn rewrite(&mut self, t: usize) -> bool {
        let rewrite = self.db.begin_write().unwrap().rewrite(["t", "u"][t]);
        let ended = rewrite.and_then(|mut r| r.push_all().and_then(|()| r.finish()));
        self.worked("a rewrite", ended)
    }

    fn work(&mut self) {
        for _ in 0..50 {
            self.db.work(1 << 20);
        }
    }

    /// Sees that everything acknowledged is there, and nothing else.
    fn shows(&self, tables: usize) {
        let snapshot = self.db.snapshot().unwrap();
        for (name, rows) in ["t", "u"].into_iter().zip(&self.rows).take(tables) {
            let mut got = read(&snapshot, name);
            got.sort_by_key(key);
            assert!(got.iter().eq(rows.values()), "{name} has {} rows, not {}", got.len(), rows.len());
        }
    }
}

#[test]
fn a_full_drive_loses_nothing_and_works_again_when_there_is_room() {
    for seed in 0..2 {
        let mut w = World::new(seed);
        ["t", "u"].into_iter().for_each(|name| w.create(name));
        let rows = 1 + (seed as i64 % 3) * 20;
        let mut inserted = 0;
        while w.insert(usize::from(inserted % 3 == 0), rows) {
            inserted += 1;
            if inserted % 16 == 0 {
                w.merge(0);
            }
            if inserted % 7 == 0 {
                w.work();
            }
        }
        assert!(w.refused > 0);
        w.shows(2);
        // Each of them works, or finds no room.
        for _ in 0..4 {
            w.merge(0);
            w.merge(1);
            w.rewrite(0);
            w.insert(0, rows);
            w.work();
            w.shows(2);
        }
        if seed % 2 == 0 {
            let (drive, db) = (w.drive.clone(), Database::open(w.drive.clone(), options()));
            (w.drive, w.db) = (drive, db.expect("a full drive opens"));
            w.shows(2);
        }
        w.db.drop_table("u", false).unwrap_or_else(|e| panic!("seed {seed}: a drop: {e}"));
        w.work();
        w.shows(1);
        let before = w.refused;
        assert!(w.merge(0), "seed {seed}: no merge although there is room");
        assert!(w.insert(0, rows), "seed {seed}: no insert although there is room");
        assert!(w.delete(0, 2, 30), "seed {seed}: no delete although there is room");
        assert!(w.merge(0), "seed {seed}: no second merge although there is room");
        assert_eq!(w.refused, before);
        w.shows(1);
        sound(&w.db);
        w.db = Database::open(w.drive.clone(), options()).unwrap();
        w.shows(1);
    }
}

/// Merges filled the drive with the pages of a snapshot that stayed open, and then no commit had room.
#[test]
fn merges_leave_room_to_commits_while_an_old_snapshot_keeps_its_pages() {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 112).unwrap();
    let drive = Arc::new(Drive::format(Medium::memory(geometry), DriveOptions::default()).unwrap());
    let options = DatabaseOptions { write_back_bytes: 256 << 10, rows_by_id_max: 1000, ..small() };
    let mut w = World { db: Database::open(drive.clone(), options).unwrap(), drive, ..World::new(1) };
    w.create("t");
    let all = 7200;
    for _ in 0..12 {
        assert!(w.insert(0, all / 12) && w.merge(0));
    }
    w.work();
    let old = w.db.snapshot().unwrap();
    let rows = scan(&old, "t");
    let merges = w.db.merge_stats().merges;
    for round in 0..30 {
        let chosen: BTreeSet<usize> = (0..20).map(|_| w.random.below(all as u64) as usize).collect();
        let addresses: Vec<_> = chosen.iter().map(|&i| rows[i].0).collect();
        let values: Vec<Row> = chosen.iter().map(|&i| vec![rows[i].1[0].clone(), w.text()]).collect();
        let mut txn = w.db.begin_write().unwrap();
        let ended = txn.update("t", &addresses, &[0, 1], columns(&TYPES, &values)).and_then(|_| txn.commit());
        assert!(w.worked("an update", ended), "no room in round {round}\n{}", w.drive.info());
        w.rows[0].extend(values.into_iter().map(|v| (key(&v), v)));
        w.work();
    }
    let info = w.drive.info();
    assert!(
        w.db.merge_stats().merges > merges + 8 && info.free_bytes < info.geometry.capacity_bytes() / 12,
        "{info}"
    );
    assert_eq!(
        sorted(scan(&old, "t").into_iter().map(|(_, r)| r).collect()),
        sorted(rows.into_iter().map(|(_, r)| r).collect())
    );
    drop(old);
    w.work();
    assert!(w.merge(0));
    w.shows(1);
    sound(&w.db);
}
