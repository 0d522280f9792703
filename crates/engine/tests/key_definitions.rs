//! Keys and foreign keys that are added to tables with rows, and dropped.

mod support;

use std::sync::Arc;

use lode_base::Geometry;
use lode_engine::{
    Changes, ColumnDef, Constraint, Database, DatabaseOptions, Deferral, EngineError, IndexDef, IndexKind,
    KeyIndex, Layout, ReferenceAction, RowAddress, Rule, Snapshot, TableDef, WriteTxn,
};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::Medium;
use lode_page::{DataType, Value};
use support::drive::TestDrive;
use support::*;

const TYPES: [DataType; 4] = [DataType::BigInt, DataType::BigInt, DataType::BigInt, DataType::Text];

/// Where changes go, and what finds rows by their keys.
const KINDS: [(Changes, KeyIndex); 3] = [
    (Changes::Pages, KeyIndex::Tree),
    (Changes::Delta, KeyIndex::Tree),
    (Changes::Delta, KeyIndex::PageIndex),
];

/// `t (a BIGINT, b BIGINT, c BIGINT, s TEXT)`.
fn defined(name: &str, (changes, key_index): (Changes, KeyIndex), primary_key: &[u16]) -> TableDef {
    let columns: Vec<(&str, DataType)> = ["a", "b", "c", "s"].into_iter().zip(TYPES).collect();
    let mut def = def(name, &columns, primary_key, Layout::Auto);
    (def.options.changes, def.options.key_index) = (changes, key_index);
    def.options.page_index = vec![0, 1, 2];
    def
}

fn row_of(a: i64, b: i64, c: Option<i64>) -> Row {
    vec![Value::Int(a), Value::Int(b), c.map_or(Value::Null, Value::Int), Value::text("some text")]
}

/// Row `a`: `b` falls as `a` rises, `c` is NULL now and then.
fn nth(a: i64) -> Row {
    row_of(a, 100_000 - a, (a % 10 != 0).then_some(a * 2))
}

fn put(txn: &mut WriteTxn, table: &str, rows: &[Row]) {
    txn.insert(table, columns(&TYPES, rows)).unwrap();
}

fn unique(name: &str, on: &[u16]) -> Constraint {
    Constraint { name: name.into(), rule: Rule::Unique { columns: on.into() }, deferral: Deferral::None }
}

fn references(name: &str, on: &[u16], parent: &str, parent_columns: &[u16]) -> Constraint {
    let rule = Rule::ForeignKey {
        columns: on.into(),
        parent: parent.into(),
        parent_columns: parent_columns.into(),
        on_delete: ReferenceAction::NoAction,
        on_update: ReferenceAction::NoAction,
    };
    Constraint { name: name.into(), rule, deferral: Deferral::None }
}

/// Rows in pages, whose `a` rises, and with a delta some in it.
fn filled(db: &Database, kind: (Changes, KeyIndex), primary_key: &[u16]) {
    db.create_table(defined("t", kind, primary_key), false).unwrap();
    let mut txn = db.begin_write().unwrap();
    for part in (0..2000).map(nth).collect::<Vec<_>>().chunks(500) {
        txn.load("t", columns(&TYPES, part)).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = db.begin_write().unwrap();
    put(&mut txn, "t", &(3000..3030).map(nth).collect::<Vec<_>>());
    txn.commit().unwrap();
}

fn int(v: &Value) -> i64 {
    match v {
        Value::Int(k) => *k,
        _ => panic!("{v:?}"),
    }
}

fn addresses(txn: &mut WriteTxn, table: &str, of: impl Fn(&Row) -> bool) -> Vec<RowAddress> {
    let rows = scan(&txn.current().unwrap(), table);
    rows.into_iter().filter(|(_, r)| of(r)).map(|(a, _)| a).collect()
}

/// How many rows have this value in this column, by the key on it.
fn found(s: &Snapshot, column: u16, value: i64) -> usize {
    let t = s.table("t").unwrap();
    s.rows_by_key(&t, &[column], &[Value::Int(value)], 3).unwrap().len()
}

fn is_twice(done: Result<(), EngineError>) {
    assert!(matches!(done, Err(EngineError::Unique { .. } | EngineError::DuplicateKey { .. })), "{done:?}");
}

#[test]
fn a_unique_constraint_comes_to_a_table_with_rows() {
    for kind in KINDS {
        let drive = TestDrive::new();
        let db = open(&drive);
        filled(&db, kind, &[0]);
        let mut txn = db.begin_write().unwrap();
        // Rows that break it, of the transaction itself too.
        put(&mut txn, "t", &[row_of(4000, 1, Some(14))]);
        is_twice(txn.add_constraint("t", unique("u", &[2])));
        assert!(txn.table("t").unwrap().def().constraints.is_empty());
        let rows = addresses(&mut txn, "t", |r| r[0] == Value::Int(4000));
        txn.delete("t", &rows).unwrap();
        txn.add_constraint("t", unique("u", &[2])).unwrap();
        assert_eq!(found(&txn.current().unwrap(), 2, 14), 1);
        txn.end_statement().unwrap();
        let saved = txn.savepoint().unwrap();
        put(&mut txn, "t", &[row_of(4001, 1, Some(14))]);
        is_twice(txn.end_statement());
        txn.rollback_to(&saved);
        put(&mut txn, "t", &[row_of(4001, 1, Some(15))]);
        txn.end_statement().unwrap();
        let s = txn.current().unwrap();
        assert_eq!((found(&s, 2, 14), found(&s, 2, 15), found(&s, 2, 6002)), (1, 1, 1));
        txn.commit().unwrap();
        sound(&db);
        for _ in 0..2 {
            let s = db.snapshot().unwrap();
            assert_eq!((found(&s, 2, 14), found(&s, 2, 15), found(&s, 2, 16)), (1, 1, 1), "{kind:?}");
            let mut txn = db.begin_write().unwrap();
            put(&mut txn, "t", &[row_of(4002, 1, Some(6002))]);
            is_twice(txn.commit().map(drop));
            db.merge("t").unwrap();
            sound(&db);
        }
        drop(db);
        let db = open(&drive);
        sound(&db);
        let mut txn = db.begin_write().unwrap();
        put(&mut txn, "t", &[row_of(4002, 1, Some(14))]);
        is_twice(txn.end_statement());
        drop(txn);
        let mut txn = db.begin_write().unwrap();
        txn.rename_constraint("t", "u", "v").unwrap();
        txn.drop_constraint("t", "v").unwrap();
        put(&mut txn, "t", &[row_of(4002, 1, Some(14))]);
        txn.end_statement().unwrap();
        assert!(matches!(txn.drop_constraint("t", "v"), Err(EngineError::NoSuchConstraint { .. })));
        txn.commit().unwrap();
        sound(&db);
    }
}

#[test]
fn a_primary_key_comes_and_its_columns_are_not_null() {
    for kind in KINDS {
        for by_pages in [false, true] {
            let drive = TestDrive::new();
            let db = open(&drive);
            filled(&db, kind, &[]);
            let mut txn = db.begin_write().unwrap();
            let refused = txn.add_primary_key("t", None, vec![2], Deferral::None);
            assert!(matches!(refused, Err(EngineError::NotNull { column, .. }) if column == "c"));
            let rows = addresses(&mut txn, "t", |r| r[2] == Value::Null);
            let take = if by_pages { rows.len() } else { 40 };
            let values: Vec<Row> = (0..rows.len() as i64).map(|n| vec![Value::Int(50_001 + 2 * n)]).collect();
            for (rows, values) in rows.chunks(take).zip(values.chunks(take)) {
                txn.update("t", rows, &[2], columns(&TYPES[2..3], values)).unwrap();
            }
            txn.add_primary_key("t", None, vec![2], Deferral::None).unwrap();
            assert!(txn.add_primary_key("t", None, vec![0], Deferral::None).is_err());
            txn.end_statement().unwrap();
            let null = txn.insert("t", columns(&TYPES, &[row_of(1, 1, None)]));
            assert!(matches!(null, Err(EngineError::NotNull { .. })));
            assert_eq!(found(&txn.current().unwrap(), 2, 50_003), 1);
            put(&mut txn, "t", &[row_of(5000, 5000, Some(3))]);
            txn.end_statement().unwrap();
            txn.commit().unwrap();
            sound(&db);
            drop(db);
            let db = open(&drive);
            sound(&db);
            let s = db.snapshot().unwrap();
            assert_eq!((found(&s, 2, 50_003), found(&s, 2, 3), found(&s, 2, 4)), (1, 1, 1));
            assert!(!s.table("t").unwrap().def().columns[2].ty.nullable);
            let mut txn = db.begin_write().unwrap();
            put(&mut txn, "t", &[row_of(1, 1, Some(50_003))]);
            is_twice(txn.commit().map(drop));
            db.merge("t").unwrap();
            sound(&db);
        }
    }
}

/// Bounds of pages lead to the keys of a load in order. They do not lead to those of another primary key.
#[test]
fn another_primary_key_takes_the_place_of_the_first() {
    for kind in KINDS {
        for at_once in [true, false] {
            let drive = TestDrive::new();
            let db = open(&drive);
            filled(&db, kind, &[0]);
            let old = db.snapshot().unwrap();
            let mut txn = db.begin_write().unwrap();
            txn.drop_primary_key("t").unwrap();
            assert!(txn.drop_primary_key("t").is_err());
            if !at_once {
                txn.commit().unwrap();
                sound(&db);
                // Pages are folded without a key.
                txn = db.begin_write().unwrap();
                let rows = addresses(&mut txn, "t", |r| int(&r[0]) % 3 == 0);
                let same: Vec<Row> = rows.iter().map(|_| vec![Value::Int(7)]).collect();
                txn.update("t", &rows, &[0], columns(&TYPES[..1], &same)).unwrap();
                txn.commit().unwrap();
                sound(&db);
                txn = db.begin_write().unwrap();
            }
            txn.add_primary_key("t", None, vec![1], Deferral::None).unwrap();
            txn.end_statement().unwrap();
            // A load in the order of the new key, which its bounds lead to.
            let rows: Vec<Row> = (200_000..202_000).map(|n| row_of(n, n, None)).collect();
            txn.load("t", columns(&TYPES, &rows)).unwrap();
            txn.end_statement().unwrap();
            txn.commit().unwrap();
            sound(&db);
            // Many rows get new keys, so that pages are edited and folded.
            for round in 0..2 {
                let mut txn = db.begin_write().unwrap();
                let rows = addresses(&mut txn, "t", |r| int(&r[1]) % 2 == round && int(&r[1]) < 201_000);
                let keys: Vec<Row> =
                    (0..rows.len() as i64).map(|n| vec![Value::Int(1_000_000 * (round + 1) + n)]).collect();
                txn.update("t", &rows, &[1], columns(&TYPES[1..2], &keys)).unwrap();
                txn.end_statement().unwrap();
                txn.commit().unwrap();
                sound(&db);
                db.merge("t").unwrap();
                sound(&db);
            }
            // The old snapshot finds rows by the old key.
            assert_eq!((found(&old, 0, 6), found(&old, 0, 3029), found(&old, 0, 2500)), (1, 1, 0));
            let s = db.snapshot().unwrap();
            assert_eq!((found(&s, 1, 201_500), found(&s, 1, 99_000), found(&s, 1, 1_000_000)), (1, 0, 1));
            drop((old, s, db));
            let db = open(&drive);
            sound(&db);
            let mut rewrite = db.begin_write().unwrap().rewrite("t").unwrap();
            rewrite.push_all().unwrap();
            rewrite.finish().unwrap();
            sound(&db);
            assert_eq!(found(&db.snapshot().unwrap(), 1, 201_500), 1);
        }
    }
}

#[test]
fn a_foreign_key_comes_to_tables_with_rows() {
    for kind in KINDS {
        let drive = TestDrive::new();
        let db = open(&drive);
        filled(&db, kind, &[0]);
        db.create_table(defined("child", kind, &[0]), false).unwrap();
        let mut txn = db.begin_write().unwrap();
        let children: Vec<Row> = (0..300).map(|n| row_of(n, n * 5, None)).collect();
        put(&mut txn, "child", &children);
        txn.commit().unwrap();
        let mut txn = db.begin_write().unwrap();
        // No key, no such column, an orphan.
        let refused = txn.add_constraint("child", references("fk", &[1], "t", &[1]));
        assert!(refused.unwrap_err().to_string().contains("neither its PRIMARY KEY nor UNIQUE"));
        assert!(txn.add_constraint("child", references("fk", &[9], "t", &[0])).is_err());
        put(&mut txn, "child", &[row_of(1000, 2500, None)]);
        let refused = txn.add_constraint("child", references("fk", &[1], "t", &[0]));
        assert!(matches!(refused, Err(EngineError::ForeignKey { .. })), "{refused:?}");
        put(&mut txn, "t", &[nth(2500)]);
        txn.end_statement().unwrap();
        txn.add_constraint("child", references("fk", &[1], "t", &[0])).unwrap();
        txn.add_constraint("t", unique("u", &[1])).unwrap();
        txn.add_constraint("child", references("of_u", &[2], "t", &[1])).unwrap();
        put(&mut txn, "child", &[row_of(1001, 2500, Some(100_000))]);
        txn.end_statement().unwrap();
        let saved = txn.savepoint().unwrap();
        put(&mut txn, "child", &[row_of(1002, 2501, None)]);
        assert!(matches!(txn.end_statement(), Err(EngineError::ForeignKey { .. })));
        txn.rollback_to(&saved);
        txn.commit().unwrap();
        sound(&db);
        drop(db);
        let db = open(&drive);
        sound(&db);
        let mut txn = db.begin_write().unwrap();
        match txn.drop_primary_key("t") {
            Err(e @ EngineError::ReferencedKey { .. }) => {
                let told = "the key of table \"t\" cannot be dropped: the foreign key \"fk\" of \"child\" references it";
                assert_eq!(e.to_string(), told);
            }
            other => panic!("{other:?}"),
        }
        assert!(
            matches!(txn.drop_constraint("t", "u"), Err(EngineError::ReferencedKey { constraint, .. }) if constraint == "of_u")
        );
        let rows = addresses(&mut txn, "t", |r| r[0] == Value::Int(2500));
        txn.delete("t", &rows).unwrap();
        assert!(matches!(txn.commit(), Err(EngineError::ForeignKey { .. })));
        let mut txn = db.begin_write().unwrap();
        txn.drop_constraint("child", "fk").unwrap();
        txn.drop_constraint("child", "of_u").unwrap();
        txn.drop_primary_key("t").unwrap();
        txn.drop_constraint("t", "u").unwrap();
        txn.commit().unwrap();
        sound(&db);
    }
}

#[test]
fn what_others_commit_meanwhile_does_not_slip_through() {
    for kind in KINDS {
        let ended = |done: Result<(), EngineError>| {
            assert!(matches!(done, Err(EngineError::Conflict { .. })), "{kind:?}: {done:?}");
        };
        let begin = || {
            let db = open(&TestDrive::new());
            filled(&db, kind, &[0]);
            db.create_table(defined("child", kind, &[0]), false).unwrap();
            let mut txn = db.begin_write().unwrap();
            put(&mut txn, "child", &[row_of(1, 1, None)]);
            txn.commit().unwrap();
            db
        };
        // A row that breaks a new UNIQUE.
        let db = begin();
        let mut txn = db.begin_write().unwrap();
        txn.add_constraint("t", unique("u", &[1])).unwrap();
        let mut other = db.begin_write().unwrap();
        put(&mut other, "t", &[row_of(4000, 99_999, None)]);
        other.commit().unwrap();
        ended(txn.commit().map(drop));
        sound(&db);
        // An orphan, then a parent that goes.
        for orphan in [true, false] {
            let db = begin();
            let mut txn = db.begin_write().unwrap();
            txn.add_constraint("child", references("fk", &[1], "t", &[0])).unwrap();
            let mut other = db.begin_write().unwrap();
            match orphan {
                true => put(&mut other, "child", &[row_of(2, 2500, None)]),
                false => {
                    let rows = addresses(&mut other, "t", |r| r[0] == Value::Int(1));
                    other.delete("t", &rows).unwrap();
                }
            }
            other.commit().unwrap();
            let done = txn.commit().map(drop);
            match orphan {
                true => ended(done),
                // The child is not changed by others.
                false => assert!(matches!(done, Err(EngineError::ForeignKey { .. })), "{done:?}"),
            }
            sound(&db);
        }
        // A transaction that began before, and commits after, the new constraint.
        let db = begin();
        let mut orphans = db.begin_write().unwrap();
        put(&mut orphans, "child", &[row_of(3, 2500, None)]);
        let mut deletes = db.begin_write().unwrap();
        let rows = addresses(&mut deletes, "t", |r| r[0] == Value::Int(1));
        deletes.delete("t", &rows).unwrap();
        let mut twice = db.begin_write().unwrap();
        put(&mut twice, "t", &[row_of(4000, 99_999, None)]);
        let mut txn = db.begin_write().unwrap();
        txn.add_constraint("child", references("fk", &[1], "t", &[0])).unwrap();
        txn.commit().unwrap();
        for late in [orphans, deletes] {
            assert!(late.commit().is_err());
            sound(&db);
        }
        let mut txn = db.begin_write().unwrap();
        txn.add_constraint("t", unique("u", &[1])).unwrap();
        txn.commit().unwrap();
        assert!(twice.commit().is_err());
        sound(&db);
    }
}

#[test]
fn indexes_and_constraints_are_renamed() {
    for kind in KINDS {
        let drive = TestDrive::new();
        let db = open(&drive);
        filled(&db, kind, &[0]);
        let index = |name: &str, columns: &[u16], kind| IndexDef::new(name, "t", columns, kind);
        let btree = IndexKind::Btree { unique: true };
        db.create_index(index("i", &[1], btree), false).unwrap();
        db.create_index(index("p", &[2], IndexKind::Page), false).unwrap();
        let mut txn = db.begin_write().unwrap();
        assert!(matches!(txn.rename_index("i", "p"), Err(EngineError::IndexExists(_))));
        assert!(matches!(txn.rename_index("x", "y"), Err(EngineError::NoSuchIndex(_))));
        txn.rename_index("i", "j").unwrap();
        txn.rename_index("p", "q").unwrap();
        assert_eq!(found(&txn.current().unwrap(), 1, 99_999), 1);
        txn.commit().unwrap();
        sound(&db);
        // Its old name is free, and its tree is not.
        db.create_index(index("i", &[2, 0], btree), false).unwrap();
        sound(&db);
        drop(db);
        let db = open(&drive);
        sound(&db);
        let s = db.snapshot().unwrap();
        let names: Vec<String> = s.table("t").unwrap().indexes().iter().map(|i| i.name.clone()).collect();
        assert_eq!(names, ["j", "q", "i"]);
        assert_eq!(found(&s, 1, 99_999), 1);
        let mut txn = db.begin_write().unwrap();
        put(&mut txn, "t", &[row_of(4000, 99_999, None)]);
        is_twice(txn.commit().map(drop));
        assert!(db.drop_index("j", false).unwrap());
        sound(&db);
        assert_eq!(
            db.snapshot().unwrap().trees().filter(|t| t.name().starts_with("__lode_index")).count(),
            1
        );
    }
}

/// As schema migrations do it: a column, its index and its key with one commit.
#[test]
fn a_column_comes_with_its_index_and_its_key() {
    for kind in KINDS {
        for absent in [Value::Null, Value::Int(7)] {
            let drive = TestDrive::new();
            let db = open(&drive);
            filled(&db, kind, &[0]);
            let mut txn = db.begin_write().unwrap();
            let mut def = txn.table("t").unwrap().def().clone();
            let column = ColumnDef::new("n", DataType::BigInt);
            def.columns.push(ColumnDef { absent: Some(absent.clone().into()), ..column });
            txn.alter_table("t", def).unwrap();
            txn.end_statement().unwrap();
            let index = |name: &str, columns: &[u16], unique| {
                IndexDef::new(name, "t", columns, IndexKind::Btree { unique })
            };
            txn.create_index(index("by_n", &[4], false), false).unwrap();
            txn.create_index(index("by_n_a", &[4, 0], true), false).unwrap();
            // With `key_index = 'page_index'` a key needs a column in the page index.
            let keyed = kind.1 == KeyIndex::Tree;
            if keyed {
                txn.add_constraint("t", unique("u", &[4, 1])).unwrap();
                let alone = txn.add_constraint("t", unique("n", &[4]));
                assert_eq!(alone.is_ok(), absent == Value::Null, "{alone:?}");
            }
            let types: Vec<DataType> = TYPES.into_iter().chain([DataType::BigInt]).collect();
            let row = |a: i64, n: i64| [nth(a), vec![Value::Int(n)]].concat();
            txn.insert("t", columns(&types, &[row(5000, 1), row(5001, 2)])).unwrap();
            txn.end_statement().unwrap();
            let rows = addresses(&mut txn, "t", |r| r[0] == Value::Int(3));
            txn.update("t", &rows, &[4], columns(&TYPES[..1], &[vec![Value::Int(3)]])).unwrap();
            txn.end_statement().unwrap();
            let saved = txn.savepoint().unwrap();
            // Equal to one of its own, and with a constant to one that was there.
            let twice = if absent == Value::Null { row(5001, 2) } else { row(2, 7) };
            txn.insert("t", columns(&types, &[twice])).unwrap();
            assert!(txn.end_statement().is_err());
            txn.rollback_to(&saved);
            txn.commit().unwrap();
            sound(&db);
            db.merge("t").unwrap();
            sound(&db);
            if keyed {
                // Keys go from the last one on.
                let mut txn = db.begin_write().unwrap();
                let mut def = txn.table("t").unwrap().def().clone();
                def.constraints.pop();
                txn.alter_table("t", def).unwrap();
                txn.commit().unwrap();
                sound(&db);
            }
            drop(db);
            let db = open(&drive);
            sound(&db);
            let s = db.snapshot().unwrap();
            let t = s.table("t").unwrap();
            let key = [Value::Int(3), Value::Int(3)];
            assert_eq!(s.rows_by_key(&t, &[4, 0], &key, 3).unwrap().len(), 1);
        }
    }
}

/// A descriptor says the numbers of the keys that are left.
#[test]
fn keys_go_by_an_alteration_after_others_came() {
    for kind in KINDS {
        let drive = TestDrive::new();
        let db = open(&drive);
        filled(&db, kind, &[]);
        let mut txn = db.begin_write().unwrap();
        txn.add_constraint("t", unique("u", &[1])).unwrap();
        txn.add_constraint("t", unique("v", &[2])).unwrap();
        txn.add_primary_key("t", None, vec![0], Deferral::None).unwrap();
        txn.commit().unwrap();
        let mut txn = db.begin_write().unwrap();
        let mut def = txn.table("t").unwrap().def().clone();
        def.constraints.pop();
        txn.alter_table("t", def).unwrap();
        txn.commit().unwrap();
        sound(&db);
        drop(db);
        let db = open(&drive);
        sound(&db);
        let s = db.snapshot().unwrap();
        assert_eq!((found(&s, 0, 5), found(&s, 1, 99_995)), (1, 1));
    }
}

/// All of the transaction that changes keys, at whatever batch or operation it ends.
fn change(db: &Database) -> Result<(), EngineError> {
    let mut txn = db.begin_write()?;
    txn.drop_primary_key("t")?;
    txn.add_primary_key("t", None, vec![1], Deferral::None)?;
    txn.add_constraint("t", unique("u", &[2]))?;
    txn.insert("t", columns(&TYPES, &[row_of(9000, 9000, Some(9001))]))?;
    txn.commit().map(drop)
}

/// Checks that the transaction is there as a whole, or not at all. Answers which.
fn is_changed(db: &Database, rows: usize) -> bool {
    sound(db);
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    let changed = !t.def().constraints.is_empty();
    assert_eq!(t.def().primary_key, [u16::from(changed)]);
    assert_eq!(scan(&s, "t").len(), rows + usize::from(changed));
    // It goes on.
    let mut txn = db.begin_write().unwrap();
    put(&mut txn, "t", &[nth(5)]);
    is_twice(txn.commit().map(drop));
    changed
}

#[test]
fn a_commit_that_fails_at_any_batch_leaves_the_old_keys() {
    for kind in KINDS {
        let drive = TestDrive::new();
        let db = open(&drive);
        filled(&db, kind, &[0]);
        let mut failed = 0;
        for batches in 0.. {
            drive.fail_after(Some(batches));
            let done = change(&db);
            drive.fail_after(None);
            if done.is_ok() {
                break;
            }
            failed += 1;
            assert!(!is_changed(&db, 2030), "after {batches} batches");
        }
        assert!(failed > 0 && is_changed(&db, 2030));
        drop(db);
        assert!(is_changed(&open(&drive), 2030));
    }
}

#[test]
fn a_crash_leaves_the_old_keys_or_the_new_ones() {
    for kind in KINDS {
        let (mut old, mut new) = (0, 0);
        for seed in 0..60u64 {
            let cut = seed % if kind.0 == Changes::Pages { 6 } else { 20 };
            let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 128).unwrap();
            let (medium, faults) = Medium::simulated(geometry);
            let drive = Drive::format(medium, DriveOptions::default()).unwrap();
            let db = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
            db.create_table(defined("t", kind, &[0]), false).unwrap();
            let mut txn = db.begin_write().unwrap();
            txn.load("t", columns(&TYPES, &(0..300).map(nth).collect::<Vec<_>>())).unwrap();
            txn.commit().unwrap();
            faults.cut_after(cut);
            let told = change(&db).is_ok() && !faults.is_cut();
            if !faults.is_cut() {
                faults.cut();
            }
            drop(db);
            let (medium, _) = faults.restored(seed).unwrap();
            let drive = Unrecovered::new(medium, DriveOptions::default()).recover().unwrap();
            let db = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
            let is_new = is_changed(&db, 300);
            assert!(is_new || !told, "cut at {cut}");
            (old, new) = (old + u32::from(!is_new), new + u32::from(is_new));
        }
        assert!(old > 0 && new > 0, "{kind:?}: {old} old, {new} new");
    }
}

/// Numbers below `end`, from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Whether a key holds for some rows.
fn holds(rows: &[Row], key: &[u16]) -> bool {
    let of = |r: &Row| -> Option<Vec<i64>> {
        let values = key.iter().map(|&c| match &r[usize::from(c)] {
            Value::Int(v) => Some(*v),
            _ => None,
        });
        values.collect()
    };
    let mut keys: Vec<Vec<i64>> = rows.iter().filter_map(of).collect();
    keys.sort();
    keys.windows(2).all(|w| w[0] != w[1])
}

/// Changes of rows and of keys at random, against a list of rows and a list of keys.
#[test]
fn changes_of_rows_and_keys_at_random() {
    let seeds: u64 = std::env::var("LODE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    for (which, kind) in KINDS.into_iter().enumerate() {
        let (mut added, mut refused) = (0, 0);
        for seed in 0..seeds {
            let mut n = Numbers(seed * 5 + which as u64);
            let drive = TestDrive::new();
            let mut db = open(&drive);
            db.create_table(defined("t", kind, &[]), false).unwrap();
            let mut rows: Vec<Row> = Vec::new();
            let (mut primary, mut keys): (Vec<u16>, Vec<(String, Vec<u16>)>) = Default::default();
            for step in 0..25 {
                let mut txn = db.begin_write().unwrap();
                let before = (rows.clone(), primary.clone(), keys.clone());
                let mut is_broken = false;
                for part in 0..1 + n.below(3) {
                    let on: Vec<u16> = match n.below(4) {
                        0 => vec![0],
                        1 => vec![1],
                        2 => vec![2],
                        _ => vec![0, 1],
                    };
                    match n.below(12) {
                        0..=3 => {
                            let first = n.below(60) as i64;
                            let many = if n.below(6) == 0 { 150 } else { 1 + n.below(4) as i64 };
                            let not_null = !txn.table("t").unwrap().def().columns[2].ty.nullable;
                            let new: Vec<Row> = (0..many)
                                .map(|i| first * 7 + i)
                                .map(|v| row_of(v, 2000 - v, (n.below(5) > 0 || not_null).then_some(v * 3)))
                                .collect();
                            match n.below(3) {
                                0 => txn.load("t", columns(&TYPES, &new)).unwrap(),
                                _ => txn.insert("t", columns(&TYPES, &new)).unwrap(),
                            };
                            rows.extend(new);
                        }
                        what @ 4..=7 => {
                            let some: Vec<(RowAddress, Row)> = scan(&txn.current().unwrap(), "t");
                            let part = 2 + n.below(6);
                            let some: Vec<(RowAddress, Row)> =
                                some.into_iter().filter(|_| n.below(part) == 0).collect();
                            let at: Vec<RowAddress> = some.iter().map(|(a, _)| *a).collect();
                            for (_, r) in &some {
                                let i = rows.iter().position(|of| of == r).unwrap();
                                rows.swap_remove(i);
                            }
                            if what < 6 {
                                txn.delete("t", &at).unwrap();
                                continue;
                            }
                            let c = n.below(3) as usize;
                            let first = n.below(400) as i64;
                            let values: Vec<Row> =
                                (0..at.len() as i64).map(|i| vec![Value::Int(first + i)]).collect();
                            txn.update("t", &at, &[c as u16], columns(&TYPES[..1], &values)).unwrap();
                            rows.extend(some.into_iter().zip(values).map(|((_, mut r), mut v)| {
                                r[c] = v.remove(0);
                                r
                            }));
                        }
                        8 | 9 => {
                            is_broken = txn.end_statement().is_err();
                            if is_broken {
                                break;
                            }
                            let name = format!("u{step}_{part}");
                            let done = txn.add_constraint("t", unique(&name, &on));
                            assert_eq!(done.is_ok(), holds(&rows, &on), "{done:?}");
                            match done.is_ok() {
                                true => keys.push((name, on)),
                                false => refused += 1,
                            }
                            added += 1;
                        }
                        10 => {
                            is_broken = txn.end_statement().is_err();
                            if is_broken {
                                break;
                            }
                            if !primary.is_empty() {
                                txn.drop_primary_key("t").unwrap();
                                primary.clear();
                            }
                            let nulls =
                                rows.iter().any(|r| on.iter().any(|&c| r[usize::from(c)] == Value::Null));
                            let done = txn.add_primary_key("t", None, on.clone(), Deferral::None);
                            assert_eq!(done.is_ok(), !nulls && holds(&rows, &on), "{done:?}");
                            if done.is_ok() {
                                primary = on;
                            }
                        }
                        _ => {
                            if !keys.is_empty() {
                                let (name, _) = keys.remove(n.below(keys.len() as u64) as usize);
                                txn.drop_constraint("t", &name).unwrap();
                            }
                        }
                    }
                }
                let all = || keys.iter().map(|k| &k.1).chain([&primary]).filter(|k| !k.is_empty());
                let fine = !is_broken && all().all(|k| holds(&rows, k));
                if n.below(2) == 0 && !is_broken {
                    assert_eq!(txn.end_statement().is_ok(), fine);
                    if !fine {
                        drop(txn);
                        (rows, primary, keys) = before;
                        continue;
                    }
                }
                if is_broken {
                    drop(txn);
                    (rows, primary, keys) = before;
                    continue;
                }
                let done = txn.commit();
                assert_eq!(done.is_ok(), fine, "seed {seed}, {kind:?}: {done:?}");
                if !fine {
                    (rows, primary, keys) = before;
                }
                sound(&db);
                if n.below(4) == 0 {
                    db.merge("t").unwrap();
                    sound(&db);
                }
                if n.below(8) == 0 {
                    drop(db);
                    db = open(&drive);
                    sound(&db);
                }
                assert_eq!(sorted(read(&db.snapshot().unwrap(), "t")), sorted(rows.clone()));
            }
        }
        assert!(added > seeds as u32 && refused > 0, "{added} added, {refused} refused");
    }
}
