//! Foreign keys at the end of a statement, on tables whose changes go to pages and on tables with deltas.

mod support;

use lode_engine::{
    Changes, Constraint, Database, Deferral, EngineError, KeyIndex, Layout, ReferenceAction, RowAddress,
    Rule, WriteTxn,
};
use lode_page::{DataType, Value};
use support::drive::TestDrive;
use support::*;

const TYPES: [DataType; 3] = [DataType::BigInt, DataType::BigInt, DataType::Text];

/// Where changes go, and what finds rows by their keys.
const KINDS: [(Changes, KeyIndex); 3] = [
    (Changes::Pages, KeyIndex::Tree),
    (Changes::Delta, KeyIndex::Tree),
    (Changes::Delta, KeyIndex::PageIndex),
];

/// `parent (k PRIMARY KEY, p, s)`, `child (k PRIMARY KEY, p REFERENCES parent, s)` and
/// `self (k PRIMARY KEY, p REFERENCES self, s)`.
fn family((changes, key_index): (Changes, KeyIndex), deferral: Deferral) -> Database {
    let db = open(&TestDrive::new());
    for name in ["parent", "child", "self"] {
        let columns: Vec<(&str, DataType)> = ["k", "p", "s"].into_iter().zip(TYPES).collect();
        let mut def = def(name, &columns, &[0], Layout::Auto);
        (def.options.changes, def.options.key_index) = (changes, key_index);
        let parent = if name == "self" { "self" } else { "parent" };
        let rule = Rule::ForeignKey {
            columns: vec![1],
            parent: parent.into(),
            parent_columns: vec![0],
            on_delete: ReferenceAction::NoAction,
            on_update: ReferenceAction::NoAction,
        };
        if name != "parent" {
            def.constraints = vec![Constraint { name: "rule".into(), rule, deferral }];
        }
        db.create_table(def, false).unwrap();
    }
    db
}

fn row_of(k: i64, p: Option<i64>) -> Row {
    vec![Value::Int(k), p.map_or(Value::Null, Value::Int), Value::text("text")]
}

fn put(txn: &mut WriteTxn, table: &str, rows: &[Row]) {
    txn.insert(table, columns(&TYPES, rows)).unwrap();
}

fn int(v: &Value) -> Option<i64> {
    match v {
        Value::Int(k) => Some(*k),
        _ => None,
    }
}

fn addresses(txn: &mut WriteTxn, table: &str, of: impl Fn(i64) -> bool) -> Vec<RowAddress> {
    let rows = scan(&txn.current().unwrap(), table);
    rows.into_iter().filter(|(_, r)| of(int(&r[0]).unwrap())).map(|(a, _)| a).collect()
}

fn set(txn: &mut WriteTxn, table: &str, of: impl Fn(i64) -> bool, column: u16, value: Option<i64>) {
    let rows = addresses(txn, table, of);
    let values: Vec<Row> = rows.iter().map(|_| vec![value.map_or(Value::Null, Value::Int)]).collect();
    txn.update(table, &rows, &[column], columns(&TYPES[..1], &values)).unwrap();
}

fn broken(done: Result<(), EngineError>, what: &str) {
    match done {
        Err(EngineError::ForeignKey { what: told, .. }) => assert!(told.ends_with(what), "{told}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_statement_that_breaks_a_foreign_key_is_told() {
    for kind in KINDS {
        let db = family(kind, Deferral::None);
        let mut txn = db.begin_write().unwrap();
        put(&mut txn, "parent", &[row_of(1, None), row_of(2, None), row_of(3, None)]);
        put(&mut txn, "child", &[row_of(10, Some(1)), row_of(11, None)]);
        txn.end_statement().unwrap();
        txn.commit().unwrap();
        let mut txn = db.begin_write().unwrap();
        let saved = txn.savepoint().unwrap();
        let mut breaks = |what: &str, does: &dyn Fn(&mut WriteTxn)| {
            does(&mut txn);
            broken(txn.end_statement(), what);
            txn.rollback_to(&saved);
            txn.end_statement().unwrap();
        };
        breaks("is not in its parent", &|txn| put(txn, "child", &[row_of(12, Some(4))]));
        breaks("is not in its parent", &|txn| set(txn, "child", |k| k == 11, 1, Some(4)));
        breaks("is still referenced", &|txn| {
            let rows = addresses(txn, "parent", |k| k == 1);
            txn.delete("parent", &rows).unwrap();
        });
        breaks("is still referenced", &|txn| set(txn, "parent", |k| k == 1, 0, Some(5)));
        // A parent that the transaction made itself goes, and leaves its child.
        put(&mut txn, "parent", &[row_of(6, None)]);
        put(&mut txn, "child", &[row_of(13, Some(6))]);
        txn.end_statement().unwrap();
        let saved = txn.savepoint().unwrap();
        let rows = addresses(&mut txn, "parent", |k| k == 6);
        txn.delete("parent", &rows).unwrap();
        broken(txn.end_statement(), "is still referenced");
        txn.rollback_to(&saved);
        // What one statement breaks and mends is not broken: the key goes to another row.
        set(&mut txn, "parent", |k| k == 1, 0, Some(7));
        set(&mut txn, "parent", |k| k == 2, 0, Some(1));
        txn.end_statement().unwrap();
        // A child and its parent, in this order.
        put(&mut txn, "child", &[row_of(14, Some(8))]);
        put(&mut txn, "parent", &[row_of(8, None)]);
        txn.end_statement().unwrap();
        txn.commit().unwrap();
        sound(&db);
    }
}

#[test]
fn what_others_have_changed_since_the_begin_counts() {
    for kind in KINDS {
        let db = family(kind, Deferral::None);
        let mut txn = db.begin_write().unwrap();
        put(&mut txn, "parent", &[row_of(1, None), row_of(2, None)]);
        put(&mut txn, "child", &[row_of(10, Some(1))]);
        txn.commit().unwrap();
        // A parent that came since, and a child that went since.
        for rolls_back in [false, true] {
            let mut txn = db.begin_write().unwrap();
            let mut other = db.begin_write().unwrap();
            put(&mut other, "parent", &[row_of(3, None)]);
            other.commit().unwrap();
            put(&mut txn, "child", &[row_of(11, Some(3))]);
            txn.end_statement().unwrap();
            // One that the transaction takes away itself does not count.
            let saved = txn.savepoint().unwrap();
            let rows = addresses(&mut txn, "parent", |k| k == 2);
            txn.delete("parent", &rows).unwrap();
            txn.end_statement().unwrap();
            put(&mut txn, "child", &[row_of(12, Some(2))]);
            broken(txn.end_statement(), "is not in its parent");
            txn.rollback_to(&saved);
            match rolls_back {
                true => drop(txn),
                false => {
                    let mut other = db.begin_write().unwrap();
                    let rows = addresses(&mut other, "parent", |k| k == 3);
                    other.delete("parent", &rows).unwrap();
                    other.commit().unwrap();
                    // It went again before the commit.
                    broken(txn.commit().map(drop), "is not in its parent");
                }
            }
            sound(&db);
        }
        let mut txn = db.begin_write().unwrap();
        let mut other = db.begin_write().unwrap();
        let rows = addresses(&mut other, "child", |_| true);
        other.delete("child", &rows).unwrap();
        other.commit().unwrap();
        let rows = addresses(&mut txn, "parent", |k| k == 1);
        txn.delete("parent", &rows).unwrap();
        txn.end_statement().unwrap();
        txn.commit().unwrap();
        sound(&db);
        // A child that came since, which no statement of the transaction could see.
        let mut txn = db.begin_write().unwrap();
        let rows = addresses(&mut txn, "parent", |k| k == 2);
        txn.delete("parent", &rows).unwrap();
        txn.end_statement().unwrap();
        let mut other = db.begin_write().unwrap();
        put(&mut other, "child", &[row_of(20, Some(2))]);
        other.end_statement().unwrap();
        other.commit().unwrap();
        broken(txn.commit().map(drop), "is still referenced");
        sound(&db);
    }
}

#[test]
fn a_deferred_foreign_key_waits_for_the_commit() {
    for kind in KINDS {
        for (deferral, waits) in [(Deferral::Deferred, true), (Deferral::Immediate, false)] {
            for mends in [true, false] {
                let db = family(kind, deferral);
                let mut txn = db.begin_write().unwrap();
                put(&mut txn, "child", &[row_of(10, Some(1))]);
                assert_eq!(txn.end_statement().is_ok(), waits);
                if !waits {
                    continue;
                }
                if mends {
                    put(&mut txn, "parent", &[row_of(1, None)]);
                    txn.end_statement().unwrap();
                }
                assert_eq!(txn.commit().is_ok(), mends);
                sound(&db);
            }
        }
    }
}

/// Numbers below `end`, from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn key(&mut self) -> i64 {
        self.below(16) as i64
    }

    fn key_or_null(&mut self) -> Option<i64> {
        if self.below(4) == 0 { None } else { Some(self.key()) }
    }
}

const TABLES: [&str; 3] = ["parent", "child", "self"];

/// Rows of each table: key and parent.
type Model = [Vec<(i64, Option<i64>)>; 3];

fn is_twice(m: &Model) -> bool {
    m.iter().any(|rows| {
        let mut keys: Vec<i64> = rows.iter().map(|r| r.0).collect();
        keys.sort_unstable();
        keys.windows(2).any(|w| w[0] == w[1])
    })
}

fn is_orphan(m: &Model) -> bool {
    let lacks = |of: usize, p: Option<i64>| p.is_some_and(|p| m[of].iter().all(|r| r.0 != p));
    m[1].iter().any(|r| lacks(0, r.1)) || m[2].iter().any(|r| lacks(2, r.1))
}

fn shows(txn: &mut WriteTxn, m: &Model) {
    let now = txn.current().unwrap();
    for (name, rows) in TABLES.iter().zip(m) {
        let expected = rows.iter().map(|r| row_of(r.0, r.1)).collect();
        assert_eq!(sorted(read(&now, name)), sorted(expected), "{name}");
    }
}

/// A transaction of some statements at random, against a model. Answers whether it committed.
fn transaction(db: &Database, committed: &mut Model, n: &mut Numbers, refused: &mut u32) -> bool {
    let mut txn = db.begin_write().unwrap();
    let mut m = committed.clone();
    let ends = n.below(4) > 0;
    for _ in 0..1 + n.below(8) {
        let (saved, before) = (txn.savepoint().unwrap(), m.clone());
        for _ in 0..1 + n.below(2) {
            let t = n.below(3) as usize;
            let rows = scan(&txn.current().unwrap(), TABLES[t]);
            let some: Vec<(RowAddress, Row)> = rows.into_iter().filter(|_| n.below(5) == 0).collect();
            let at: Vec<RowAddress> = some.iter().map(|(a, _)| *a).collect();
            let chosen: Vec<i64> = some.iter().map(|(_, r)| int(&r[0]).unwrap()).collect();
            let pair = |r: &Row| (int(&r[0]).unwrap(), int(&r[1]));
            match n.below(10) {
                what @ 0..=4 => {
                    let new = (0..1 + n.below(3))
                        .map(|_| row_of(n.key(), if t == 0 { None } else { n.key_or_null() }));
                    let new: Vec<Row> = new.collect();
                    match what {
                        0 => txn.load(TABLES[t], columns(&TYPES, &new)).unwrap(),
                        _ => txn.insert(TABLES[t], columns(&TYPES, &new)).unwrap(),
                    };
                    m[t].extend(new.iter().map(pair));
                }
                5 | 6 => {
                    txn.delete(TABLES[t], &at).unwrap();
                    some.iter().for_each(|(_, r)| {
                        let i = m[t].iter().position(|of| *of == pair(r)).unwrap();
                        m[t].swap_remove(i);
                    });
                }
                7 => {
                    let by = 1 + n.below(3) as i64;
                    let keys: Vec<Row> = chosen.iter().map(|k| vec![Value::Int((k + by) % 16)]).collect();
                    txn.update(TABLES[t], &at, &[0], columns(&TYPES[..1], &keys)).unwrap();
                    let moved: Vec<usize> = some
                        .iter()
                        .map(|(_, r)| m[t].iter().position(|of| *of == pair(r)).unwrap())
                        .collect();
                    moved.into_iter().for_each(|i| m[t][i].0 = (m[t][i].0 + by) % 16);
                }
                _ => {
                    let p = if t == 0 { None } else { n.key_or_null() };
                    let parents: Vec<Row> =
                        at.iter().map(|_| vec![p.map_or(Value::Null, Value::Int)]).collect();
                    txn.update(TABLES[t], &at, &[1], columns(&TYPES[..1], &parents)).unwrap();
                    let moved: Vec<usize> = some
                        .iter()
                        .map(|(_, r)| m[t].iter().position(|of| *of == pair(r)).unwrap())
                        .collect();
                    moved.into_iter().for_each(|i| m[t][i].1 = p);
                }
            }
            if is_twice(&m) {
                // Which of several rows with one key is meant would not be known.
                break;
            }
        }
        if !ends && !is_twice(&m) {
            continue;
        }
        let ended = txn.end_statement();
        match (is_twice(&m), is_orphan(&m)) {
            (false, false) => ended.unwrap(),
            (true, _) => drop(ended.unwrap_err()),
            (false, true) => {
                assert!(matches!(ended, Err(EngineError::ForeignKey { .. })), "{ended:?}");
                *refused += 1;
            }
        }
        if is_twice(&m) || is_orphan(&m) {
            txn.rollback_to(&saved);
            m = before;
        }
        shows(&mut txn, &m);
    }
    match txn.commit() {
        Ok(_) => {
            assert!(!is_orphan(&m) && !is_twice(&m));
            *committed = m;
            true
        }
        Err(e) => {
            assert!(!ends && is_orphan(&m), "{e}");
            false
        }
    }
}

#[test]
fn statements_at_random_keep_foreign_keys() {
    let seeds: u64 = std::env::var("LODE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    for (which, kind) in KINDS.into_iter().enumerate() {
        let (mut commits, mut refused) = (0, 0);
        for seed in 0..seeds {
            let mut n = Numbers(seed * 3 + which as u64);
            let db = family(kind, Deferral::None);
            let mut committed = Model::default();
            for _ in 0..12 {
                commits += u32::from(transaction(&db, &mut committed, &mut n, &mut refused));
                if n.below(4) == 0 {
                    TABLES.iter().for_each(|t| db.merge(t).unwrap());
                }
            }
            sound(&db);
            let s = db.snapshot().unwrap();
            for (name, rows) in TABLES.iter().zip(&committed) {
                assert_eq!(read(&s, name).len(), rows.len());
            }
        }
        assert!(
            commits > 3 * seeds as u32 && refused > 3 * seeds as u32,
            "{commits} commits, {refused} refused"
        );
    }
}

/// More rows than are noted one by one, and rows of pages.
#[test]
fn many_rows_are_checked_too() {
    for kind in KINDS {
        let db = family(kind, Deferral::None);
        let mut txn = db.begin_write().unwrap();
        txn.load("parent", columns(&TYPES, &(0..4000).map(|k| row_of(k, None)).collect::<Vec<_>>())).unwrap();
        txn.end_statement().unwrap();
        let children: Vec<Row> = (0..6000).map(|k| row_of(k, Some(k % 4000))).collect();
        txn.load("child", columns(&TYPES, &children)).unwrap();
        txn.end_statement().unwrap();
        let saved = txn.savepoint().unwrap();
        let more: Vec<Row> = (6000..12_000).map(|k| row_of(k, Some(k - 7000))).collect();
        txn.load("child", columns(&TYPES, &more)).unwrap();
        broken(txn.end_statement(), "is not in its parent");
        txn.rollback_to(&saved);
        let rows = addresses(&mut txn, "parent", |k| k >= 3000);
        txn.delete("parent", &rows).unwrap();
        broken(txn.end_statement(), "is still referenced");
        txn.rollback_to(&saved);
        txn.commit().unwrap();
        let mut txn = db.begin_write().unwrap();
        let saved = txn.savepoint().unwrap();
        set(&mut txn, "child", |k| k < 3000, 1, Some(4000));
        broken(txn.end_statement(), "is not in its parent");
        txn.rollback_to(&saved);
        set(&mut txn, "child", |k| k < 5000, 1, None);
        txn.end_statement().unwrap();
        let rows = addresses(&mut txn, "parent", |k| !(1000..2000).contains(&k));
        txn.delete("parent", &rows).unwrap();
        txn.end_statement().unwrap();
        txn.commit().unwrap();
        sound(&db);
    }
}
