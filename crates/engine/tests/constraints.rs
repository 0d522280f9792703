//! Constraints within one transaction, on tables whose changes go to pages and on tables with deltas.

mod support;

use std::sync::Arc;

use lode_engine::{
    Changes, Constraint, Database, DatabaseOptions, Deferral, EngineError, KeyIndex, Layout, ReferenceAction,
    Rule, TableDef,
};
use lode_page::{DataType, Value};
use support::drive::TestDrive;
use support::*;

const TYPES: [DataType; 2] = [DataType::BigInt, DataType::BigInt];

/// `parent (k PRIMARY KEY, v)` and `child (k PRIMARY KEY, p REFERENCES parent)`, with one row each.
fn family(changes: Changes) -> Database {
    let db = open(&TestDrive::new());
    for name in ["parent", "child"] {
        let columns = [("k", TYPES[0]), ("p", TYPES[1])];
        let mut def = def(name, &columns, &[0], Layout::Auto);
        def.options.changes = changes;
        if name == "child" {
            let (parent, parent_columns) = ("parent".into(), vec![0]);
            let rule = Rule::ForeignKey {
                columns: vec![1],
                parent,
                parent_columns,
                on_delete: ReferenceAction::NoAction,
                on_update: ReferenceAction::NoAction,
            };
            def.constraints = vec![Constraint { name: "rule".into(), rule, deferral: Deferral::None }];
        }
        db.create_table(def, false).unwrap();
    }
    let mut txn = db.begin_write().unwrap();
    txn.insert("parent", columns(&TYPES, &[vec![Value::Int(7), Value::Int(0)]])).unwrap();
    txn.insert("child", columns(&TYPES, &[vec![Value::Int(1), Value::Int(7)]])).unwrap();
    txn.commit().unwrap();
    db
}

/// The simulation of tables found this (seed 229): a child that its transaction had changed was not looked at when the
/// transaction deleted its parent.
#[test]
fn a_parent_does_not_go_although_its_child_was_changed_in_the_same_transaction() {
    for changes in [Changes::Pages, Changes::Delta] {
        let db = family(changes);
        let address = |table: &str| scan(&db.snapshot().unwrap(), table)[0].0;
        // The child gets another key, and references the same parent.
        let mut txn = db.begin_write().unwrap();
        txn.update("child", &[address("child")], &[0], columns(&TYPES[..1], &[vec![Value::Int(2)]])).unwrap();
        txn.delete("parent", &[address("parent")]).unwrap();
        let ended = txn.commit();
        assert!(matches!(ended, Err(EngineError::ForeignKey { .. })), "{changes:?}: {ended:?}");
        sound(&db);
        // The parent may go if the child goes, or references nothing.
        for deletes in [true, false] {
            let db = family(changes);
            let address = |table: &str| scan(&db.snapshot().unwrap(), table)[0].0;
            let mut txn = db.begin_write().unwrap();
            let child = [address("child")];
            match deletes {
                true => txn.delete("child", &child).unwrap(),
                false => {
                    txn.update("child", &child, &[1], columns(&TYPES[..1], &[vec![Value::Null]])).unwrap()
                }
            };
            txn.delete("parent", &[address("parent")]).unwrap();
            txn.commit().unwrap();
            sound(&db);
        }
    }
}

/// The simulation of tables found this (seed 498): the new key of an edited page was not compared with the keys of rows of the
/// delta that the transaction had changed, but whose keys it had left alone.
#[test]
fn a_page_edit_does_not_take_the_key_of_a_row_that_was_changed_by_its_id() {
    for changes in [Changes::Pages, Changes::Delta] {
        let db = open(&TestDrive::new());
        let mut def = def("t", &[("k", TYPES[0]), ("v", TYPES[1])], &[0], Layout::Auto);
        def.options.changes = changes;
        db.create_table(def, false).unwrap();
        let row = |k: i64| vec![Value::Int(k), Value::Int(0)];
        let mut txn = db.begin_write().unwrap();
        txn.load("t", columns(&TYPES, &(0..200).map(row).collect::<Vec<_>>())).unwrap();
        txn.commit().unwrap();
        let mut txn = db.begin_write().unwrap();
        txn.insert("t", columns(&TYPES, &[row(5000)])).unwrap();
        txn.commit().unwrap();
        let rows = scan(&db.snapshot().unwrap(), "t");
        let is_late = |r: &Row| r[0] == Value::Int(5000);
        let late: Vec<_> = rows.iter().filter(|(_, r)| is_late(r)).map(|(a, _)| *a).collect();
        let others: Vec<_> = rows.iter().filter(|(_, r)| !is_late(r)).map(|(a, _)| *a).collect();
        let mut txn = db.begin_write().unwrap();
        txn.update("t", &late, &[1], columns(&TYPES[..1], &[vec![Value::Int(1)]])).unwrap();
        // So many rows that pages are edited. One of them gets the key of the other row.
        let keys: Vec<Row> = (0..others.len() as i64).map(|k| vec![Value::Int(4900 + k)]).collect();
        txn.update("t", &others, &[0], columns(&TYPES[..1], &keys)).unwrap();
        let ended = txn.commit();
        assert!(matches!(ended, Err(EngineError::DuplicateKey { .. })), "{changes:?}: {ended:?}");
        sound(&db);
    }
}

/// `t (k BIGINT PRIMARY KEY, u BIGINT UNIQUE, s TEXT)`. UNIQUE is deferred if asked for.
const WITH_TEXT: [DataType; 3] = [DataType::BigInt, DataType::BigInt, DataType::Text];

fn keyed((changes, key_index): (Changes, KeyIndex), u: Deferral) -> TableDef {
    let columns = [("k", WITH_TEXT[0]), ("u", WITH_TEXT[1]), ("s", WITH_TEXT[2])];
    let mut def = def("t", &columns, &[0], Layout::Auto);
    (def.options.changes, def.options.key_index) = (changes, key_index);
    def.constraints =
        vec![Constraint { name: "u".into(), rule: Rule::Unique { columns: vec![1] }, deferral: u }];
    def
}

/// Where changes go, and what finds rows by their keys.
const KINDS: [(Changes, KeyIndex); 3] = [
    (Changes::Pages, KeyIndex::Tree),
    (Changes::Delta, KeyIndex::Tree),
    (Changes::Delta, KeyIndex::PageIndex),
];

/// The histories of tables with deltas found this (seed 2): no Lode opened a database again that had such a table.
#[test]
fn a_database_with_a_deferrable_key_or_keys_by_the_page_index_opens_again() {
    let delta = (Changes::Delta, KeyIndex::Tree);
    for (kind, u) in [(delta, Deferral::Deferred), (delta, Deferral::Immediate), (KINDS[2], Deferral::None)] {
        let drive = TestDrive::new();
        let db = open(&drive);
        db.create_table(keyed(kind, u), false).unwrap();
        let row = vec![Value::Int(1), Value::Int(2), Value::text("x")];
        insert(&db, std::slice::from_ref(&row)).unwrap();
        drop(db);
        let db = open(&drive);
        let table = db.snapshot().unwrap().table("t").unwrap();
        assert_eq!(table.def().constraints[0].deferral, u);
        assert_eq!(table.def().options.key_index, kind.1);
        assert_eq!(read(&db.snapshot().unwrap(), "t"), [row]);
        sound(&db);
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
        self.below(24) as i64
    }

    fn key_or_null(&mut self) -> Value {
        if self.below(4) == 0 { Value::Null } else { Value::Int(self.key()) }
    }
}

/// Whether two rows have the same value in a column, and it is not NULL.
fn is_twice(rows: &[Row], column: usize) -> bool {
    let mut values: Vec<i64> = Vec::new();
    for row in rows {
        if let Value::Int(v) = row[column] {
            values.push(v);
        }
    }
    let all = values.len();
    values.sort_unstable();
    values.dedup();
    values.len() < all
}

/// Statements at random, against a model: a list of rows. Answers whether the transaction committed.
fn statements(db: &Database, committed: &mut Vec<Row>, numbers: &mut Numbers, u: Deferral) -> bool {
    let mut txn = db.begin_write().unwrap();
    let mut model = committed.clone();
    for _ in 0..1 + numbers.below(8) {
        let savepoint = (numbers.below(3) > 0).then(|| (txn.savepoint().unwrap(), model.clone()));
        let rows = scan(&txn.current().unwrap(), "t");
        assert_eq!(sorted(rows.iter().map(|r| r.1.clone()).collect()), sorted(model.clone()));
        let some: Vec<_> = rows.into_iter().filter(|_| numbers.below(3) == 0).take(60).collect();
        let addresses: Vec<_> = some.iter().map(|(a, _)| *a).collect();
        let mut rest = model.clone();
        for (_, row) in &some {
            let at = rest.iter().position(|r| r == row).unwrap();
            rest.swap_remove(at);
        }
        let what = numbers.below(24);
        match what {
            0..=8 => {
                let new = (0..1 + numbers.below(3))
                    .map(|_| vec![Value::Int(numbers.key()), numbers.key_or_null(), Value::text("inserted")]);
                let new: Vec<Row> = new.collect();
                match what {
                    0..=2 => txn.load("t", columns(&WITH_TEXT, &new)).unwrap(),
                    _ => txn.insert("t", columns(&WITH_TEXT, &new)).unwrap(),
                };
                model.extend(new);
            }
            // So many rows that the load writes pages.
            9 => {
                let first = 1000 + 5000 * numbers.below(3) as i64;
                let falls = numbers.below(2) == 0;
                let text = Value::text(&"wide ".repeat(120));
                let new: Vec<Row> = (0..2500)
                    .map(|n| if falls { first + 2499 - n } else { first + n })
                    .map(|k| vec![Value::Int(k), Value::Int(100_000 - k), text.clone()])
                    .collect();
                txn.load("t", columns(&WITH_TEXT, &new)).unwrap();
                model.extend(new);
            }
            10..=13 => {
                txn.delete("t", &addresses).unwrap();
                model = rest;
            }
            14..=18 => {
                let by = 1 + numbers.below(2) as i64;
                let next = |r: &Row| match r[0] {
                    Value::Int(k) => vec![Value::Int(k + by), r[1].clone(), r[2].clone()],
                    _ => panic!("{r:?}"),
                };
                let new: Vec<Row> = some.iter().map(|(_, r)| next(r)).collect();
                txn.update("t", &addresses, &[0], columns(&WITH_TEXT, &new)[..1].to_vec()).unwrap();
                model = rest;
                model.extend(new);
            }
            _ => {
                let new = |r: &Row, u: Value| vec![r[0].clone(), u, r[2].clone()];
                let new: Vec<Row> = some.iter().map(|(_, r)| new(r, numbers.key_or_null())).collect();
                txn.update("t", &addresses, &[1], columns(&WITH_TEXT, &new)[1..2].to_vec()).unwrap();
                model = rest;
                model.extend(new);
            }
        }
        let broken = is_twice(&model, 0) || u != Deferral::Deferred && is_twice(&model, 1);
        match (txn.end_statement(), savepoint) {
            (Ok(()), _) => assert!(!broken, "a key is there twice"),
            (Err(e), savepoint) => {
                assert!(matches!(e, EngineError::DuplicateKey { .. } | EngineError::Unique { .. }), "{e}");
                assert!(broken, "{e}");
                let Some((saved, before)) = savepoint else { return false };
                txn.rollback_to(&saved);
                model = before;
            }
        }
    }
    match txn.commit() {
        Ok(_) => {
            assert!(!is_twice(&model, 1), "a deferred key is there twice");
            *committed = model;
            true
        }
        Err(e) => {
            assert!(matches!(e, EngineError::Unique { .. }) && is_twice(&model, 1), "{e}");
            false
        }
    }
}

#[test]
fn a_key_that_is_there_twice_is_told_at_the_end_of_the_statement() {
    let seeds = std::env::var("LODE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    for seed in 0..seeds {
        for kind in KINDS {
            let u = if seed % 2 == 0 { Deferral::Deferred } else { Deferral::Immediate };
            // From some rows on, a change of a table with a delta edits pages.
            let options = DatabaseOptions {
                rows_by_id_max: 3,
                key_check_bytes: 1 << 16,
                pool_bytes: 32 << 20,
                ..small()
            };
            let db = Database::open(carry(Arc::new(TestDrive::new())), options).unwrap();
            db.create_table(keyed(kind, u), false).unwrap();
            let mut numbers = Numbers(seed);
            let (mut committed, mut commits) = (Vec::new(), 0);
            for _ in 0..12 {
                commits += u32::from(statements(&db, &mut committed, &mut numbers, u));
                if kind.0 == Changes::Delta {
                    match numbers.below(6) {
                        0 | 1 => db.merge("t").unwrap(),
                        2 => {
                            let mut rewrite = db.begin_write().unwrap().rewrite("t").unwrap();
                            rewrite.push_all().unwrap();
                            rewrite.finish().unwrap();
                        }
                        _ => {}
                    }
                }
                assert_eq!(sorted(read(&db.snapshot().unwrap(), "t")), sorted(committed.clone()));
            }
            assert!(commits > 0);
            sound(&db);
        }
    }
}

/// What others commit meanwhile: a key that they have freed is free, one that they have taken is found by the commit.
#[test]
fn the_end_of_a_statement_honours_keys_that_others_have_freed() {
    for kind in KINDS {
        let row = |k: i64| vec![Value::Int(k), Value::Null, Value::text("x")];
        let many = |first: i64| -> Vec<Row> { (first..first + 3000).map(row).collect() };
        for loads in [false, true] {
            let db = open(&TestDrive::new());
            db.create_table(keyed(kind, Deferral::None), false).unwrap();
            insert(&db, &[row(1), row(2), row(3)]).unwrap();
            let mut txn = db.begin_write().unwrap();
            let new = if loads { many(2) } else { vec![row(2)] };
            // Others free keys that the transaction takes.
            let mut other = db.begin_write().unwrap();
            let gone: Vec<_> = scan(&db.snapshot().unwrap(), "t").into_iter().map(|(a, _)| a).collect();
            other.delete("t", &gone[1..]).unwrap();
            other.commit().unwrap();
            match loads {
                true => txn.load("t", columns(&WITH_TEXT, &new)).unwrap(),
                false => txn.insert("t", columns(&WITH_TEXT, &new)).unwrap(),
            };
            txn.end_statement().unwrap();
            txn.insert("t", columns(&WITH_TEXT, &[row(1)])).unwrap();
            let ended = txn.end_statement();
            assert!(matches!(ended, Err(EngineError::DuplicateKey { .. })), "{kind:?}: {ended:?}");
            drop(txn);
            // And one that they take.
            let mut txn = db.begin_write().unwrap();
            insert(&db, &[row(2)]).unwrap();
            txn.insert("t", columns(&WITH_TEXT, &new)).unwrap();
            txn.end_statement().unwrap();
            let ended = txn.commit();
            assert!(matches!(ended, Err(EngineError::DuplicateKey { .. })), "{kind:?}: {ended:?}");
            sound(&db);
        }
    }
}
