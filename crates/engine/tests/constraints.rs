//! Constraints within one transaction, on tables whose changes go to pages and on tables with deltas.

mod support;

use lode_engine::{Changes, Constraint, Database, EngineError, Layout, OnDelete, Rule};
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
            let rule =
                Rule::ForeignKey { columns: vec![1], parent, parent_columns, on_delete: OnDelete::NoAction };
            def.constraints = vec![Constraint { name: "rule".into(), rule }];
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
