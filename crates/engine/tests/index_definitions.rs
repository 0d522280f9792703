//! B+-tree indexes that a transaction defines beside its other work.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::Geometry;
use lode_engine::{
    Changes, Database, DatabaseOptions, EngineError, IndexDef, IndexKind, Layout, PageBytes, Summary,
    TableDef, WriteTxn,
};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::Medium;
use lode_page::{DataType, Value};
use lode_program::{CompareOp, Expr};
use support::drive::TestDrive;
use support::*;

const KINDS: [Changes; 2] = [Changes::Pages, Changes::Delta];
const TYPES: [DataType; 3] = [DataType::BigInt, DataType::Date, DataType::Text];

/// `t (k BIGINT PRIMARY KEY, d DATE, s TEXT)`.
fn defined(changes: Changes) -> TableDef {
    let mut def = table(Layout::Auto);
    def.options.changes = changes;
    def
}

fn index(name: &str, columns: &[u16], unique: bool) -> IndexDef {
    let kind = IndexKind::Btree { unique };
    IndexDef::new(name, "t", columns, kind)
}

/// A table with rows in pages, and with a delta some more in it.
fn filled(db: &Database, changes: Changes) {
    db.create_table(defined(changes), false).unwrap();
    load(db, &(0..2500).map(row).collect::<Vec<_>>(), 500).unwrap();
    insert(db, &(5000..5040).map(row).collect::<Vec<_>>()).unwrap();
}

fn put(txn: &mut WriteTxn, rows: impl IntoIterator<Item = i64>) {
    let rows: Vec<Row> = rows.into_iter().map(row).collect();
    txn.insert("t", columns(&TYPES, &rows)).unwrap();
}

/// The pages that an index names for a date, if one does.
fn pages_of(db: &Database, date: i64) -> Option<String> {
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    let filter = Expr::compare(CompareOp::Eq, Expr::Column(1), Expr::Const(Value::Int(date), DataType::Date));
    s.index_pages(&t, &filter, 1 << 20).unwrap().map(|found| found.index)
}

/// The trees of indexes.
fn trees(db: &Database) -> usize {
    let s = db.snapshot().unwrap();
    s.trees().filter(|t| t.name().starts_with("__lode_index")).count()
}

#[test]
fn a_table_its_index_and_its_rows_come_with_one_commit() {
    for changes in KINDS {
        for loads in [false, true] {
            let drive = TestDrive::new();
            let db = open(&drive);
            let mut txn = db.begin_write().unwrap();
            txn.create_table(defined(changes), false).unwrap();
            txn.create_index(index("by_d", &[1], false), false).unwrap();
            txn.create_index(index("by_k", &[0, 1], true), false).unwrap();
            let rows: Vec<Row> = (0..3000).map(row).collect();
            match loads {
                true => txn.load("t", columns(&TYPES, &rows)).unwrap(),
                false => txn.insert("t", columns(&TYPES, &rows)).unwrap(),
            };
            txn.end_statement().unwrap();
            assert!(txn.table("t").unwrap().indexes().iter().any(|i| i.name == "by_d"));
            txn.commit().unwrap();
            sound(&db);
            assert_eq!(pages_of(&db, 7).as_deref(), Some("by_d"));
            insert(&db, &[row(9000)]).unwrap();
            drop(db);
            let db = open(&drive);
            sound(&db);
            assert_eq!((pages_of(&db, 7).as_deref(), trees(&db)), (Some("by_d"), 2));
            insert(&db, &[row(9001)]).unwrap();
            db.merge("t").unwrap();
            sound(&db);
        }
    }
}

/// The entries of an index are sorted in runs where memory is short, and nothing of the runs is left.
#[test]
fn an_index_of_more_rows_than_memory_has_all_of_them() {
    for changes in KINDS {
        let drive = TestDrive::new();
        let db = open(&drive);
        filled(&db, changes);
        let extents = drive.extents();
        db.create_index(index("by_d", &[1], false), false).unwrap();
        db.create_index(index("by_s", &[2, 0], true), false).unwrap();
        assert_eq!(drive.extents(), extents + 2, "a tree each");
        sound(&db);
        assert_eq!(pages_of(&db, 7).as_deref(), Some("by_d"));
        drop(db);
        let db = open(&drive);
        assert_eq!(drive.extents(), extents + 2, "nothing was left for the next open");
        sound(&db);
        insert(&db, &[row(9000)]).unwrap();
        sound(&db);
    }
}

#[test]
fn an_index_has_the_rows_before_the_transaction_and_those_of_it() {
    for changes in KINDS {
        let drive = TestDrive::new();
        let db = open(&drive);
        filled(&db, changes);
        let old = db.snapshot().unwrap();
        let mut txn = db.begin_write().unwrap();
        let rows = scan(&txn.current().unwrap(), "t");
        let some: Vec<_> = rows.iter().filter(|(_, r)| key(r) % 5 == 0).map(|(a, _)| *a).collect();
        txn.delete("t", &some).unwrap();
        txn.create_index(index("by_d", &[1], false), false).unwrap();
        let rows = scan(&txn.current().unwrap(), "t");
        let some: Vec<_> = rows.iter().filter(|(_, r)| key(r) % 7 == 0).map(|(a, _)| *a).collect();
        let dates: Vec<Row> = some.iter().map(|_| vec![Value::Int(1234)]).collect();
        txn.update("t", &some, &[1], columns(&TYPES[1..2], &dates)).unwrap();
        put(&mut txn, 7000..7100);
        txn.end_statement().unwrap();
        let expected = sorted(read(&txn.current().unwrap(), "t"));
        txn.commit().unwrap();
        sound(&db);
        assert_eq!(sorted(read(&db.snapshot().unwrap(), "t")), expected);
        assert_eq!(pages_of(&db, 1234).as_deref(), Some("by_d"));
        // A snapshot from before does not know the index.
        assert!(old.table("t").unwrap().indexes().is_empty());
        assert_eq!(read(&old, "t").len(), 2540);
        drop((old, db));
        let db = open(&drive);
        sound(&db);
        assert_eq!((pages_of(&db, 1234).as_deref(), trees(&db)), (Some("by_d"), 1));
    }
}

fn key(r: &Row) -> i64 {
    match r[0] {
        Value::Int(k) => k,
        _ => panic!("{r:?}"),
    }
}

#[test]
fn equal_values_are_refused_by_the_statement_that_meets_them() {
    for changes in KINDS {
        let db = open(&TestDrive::new());
        filled(&db, changes);
        let broken = |done: Result<(), EngineError>| {
            assert!(
                matches!(&done, Err(EngineError::Unique { constraint, .. }) if constraint == "u"),
                "{changes:?}: {done:?}"
            );
        };
        // Among the rows that are there: dates come again after a thousand keys.
        let mut txn = db.begin_write().unwrap();
        put(&mut txn, [8000]);
        broken(txn.create_index(index("u", &[1], true), false).map(drop));
        drop(txn);
        // Among the transaction's own.
        let mut txn = db.begin_write().unwrap();
        let rows: Vec<_> = scan(&txn.current().unwrap(), "t").into_iter().map(|(a, _)| a).collect();
        txn.delete("t", &rows).unwrap();
        put(&mut txn, [1, 1001]);
        broken(txn.create_index(index("u", &[1], true), false).map(drop));
        drop(txn);
        // Statements after it, few rows and many, and loads.
        for count in [1, 3, 200, 2000] {
            for clashes in [true, false] {
                let mut txn = db.begin_write().unwrap();
                txn.create_index(index("u", &[1, 0], true), false).unwrap();
                txn.end_statement().unwrap();
                let saved = txn.savepoint().unwrap();
                let first = if clashes { row(4) } else { row(9004) };
                let rows: Vec<Row> = [first].into_iter().chain((10_000..9999 + count).map(row)).collect();
                txn.insert("t", columns(&TYPES, &rows)).unwrap();
                match clashes {
                    // The primary key is checked first.
                    true => assert!(matches!(txn.end_statement(), Err(EngineError::DuplicateKey { .. }))),
                    false => txn.end_statement().unwrap(),
                }
                txn.rollback_to(&saved);
                txn.commit().unwrap();
                sound(&db);
                assert!(db.drop_index("u", false).unwrap());
                assert_eq!(trees(&db), 0);
            }
        }
        // The key of the index alone.
        let mut txn = db.begin_write().unwrap();
        let rows: Vec<_> = scan(&txn.current().unwrap(), "t").into_iter().collect();
        let gone: Vec<_> = rows.iter().filter(|(_, r)| key(r) >= 1000).map(|(a, _)| *a).collect();
        txn.delete("t", &gone).unwrap();
        txn.create_index(index("u", &[1], true), false).unwrap();
        put(&mut txn, [20_005]);
        broken(txn.end_statement());
        drop(txn);
        sound(&db);
    }
}

#[test]
fn an_index_goes_back_with_the_transaction_and_its_savepoints() {
    for changes in KINDS {
        let db = open(&TestDrive::new());
        filled(&db, changes);
        db.create_index(index("kept", &[1], false), false).unwrap();
        let mut txn = db.begin_write().unwrap();
        txn.create_index(index("a", &[1], false), false).unwrap();
        drop(txn);
        assert_eq!(trees(&db), 1);
        let mut txn = db.begin_write().unwrap();
        txn.create_index(index("a", &[1], false), false).unwrap();
        let saved = txn.savepoint().unwrap();
        txn.create_index(index("b", &[2], false), false).unwrap();
        assert!(matches!(
            txn.create_index(index("b", &[2], false), false),
            Err(EngineError::IndexExists(name)) if name == "b"
        ));
        txn.rollback_to(&saved);
        assert!(!txn.drop_index("b", true).unwrap());
        assert!(txn.drop_index("a", false).unwrap());
        txn.create_index(index("c", &[2], false), false).unwrap();
        // Another index of the name of one that was there: nothing finds rows by the old one's tree.
        assert!(txn.drop_index("kept", false).unwrap());
        txn.create_index(index("kept", &[2], false), false).unwrap();
        let s = txn.current().unwrap();
        let t = s.table("t").unwrap();
        let text = Expr::Const(Value::text("row 1"), DataType::Text);
        let filter = Expr::compare(CompareOp::Eq, Expr::Column(2), text);
        assert!(s.index_pages(&t, &filter, 1 << 20).unwrap().is_none());
        drop((s, t));
        put(&mut txn, [6000]);
        txn.commit().unwrap();
        sound(&db);
        assert_eq!((trees(&db), pages_of(&db, 1)), (2, None));
        let names: Vec<String> =
            db.snapshot().unwrap().table("t").unwrap().indexes().iter().map(|i| i.name.clone()).collect();
        assert_eq!(names, ["c", "kept"]);
    }
}

#[test]
fn what_others_commit_meanwhile_is_in_the_index_or_a_conflict() {
    for changes in KINDS {
        for unique in [false, true] {
            let db = open(&TestDrive::new());
            db.create_table(defined(changes), false).unwrap();
            insert(&db, &(0..500).map(row).collect::<Vec<_>>()).unwrap();
            let mut txn = db.begin_write().unwrap();
            txn.create_index(index("u", &[1], unique), false).unwrap();
            put(&mut txn, [700]);
            txn.end_statement().unwrap();
            insert(&db, &[row(1005)]).unwrap();
            db.work(1 << 20);
            let ended = txn.commit();
            match (changes, unique) {
                (Changes::Pages, _) => {
                    assert!(matches!(ended, Err(EngineError::Conflict { .. })), "{ended:?}")
                }
                (Changes::Delta, true) => {
                    assert!(matches!(ended, Err(EngineError::Unique { .. })), "{ended:?}")
                }
                (Changes::Delta, false) => assert!(ended.is_ok(), "{ended:?}"),
            }
            sound(&db);
            assert_eq!(trees(&db), usize::from(ended.is_ok()));
            // A transaction that began before the index and commits after it keeps it up to date, or conflicts.
            let mut begun = db.begin_write().unwrap();
            put(&mut begun, [800]);
            let mut txn = db.begin_write().unwrap();
            txn.create_index(index("later", &[2], unique), false).unwrap();
            txn.commit().unwrap();
            let ended = begun.commit();
            assert!(matches!(ended, Ok(_) | Err(EngineError::Conflict { .. })), "{ended:?}");
            sound(&db);
        }
    }
}

#[test]
fn a_commit_that_fails_at_any_batch_leaves_no_index() {
    for changes in KINDS {
        let drive = TestDrive::new();
        let db = open(&drive);
        filled(&db, changes);
        let define = |db: &Database| -> Result<(), EngineError> {
            let mut txn = db.begin_write()?;
            let mut other = defined(changes);
            other.name = "u".into();
            txn.create_table(other, false)?;
            txn.create_index(index("by_d", &[1], false), false)?;
            let of_u = IndexDef { table: "u".into(), ..index("u_by_d", &[1], true) };
            txn.create_index(of_u, false)?;
            txn.insert("u", columns(&TYPES, &(0..900).map(row).collect::<Vec<_>>()))?;
            txn.insert("t", columns(&TYPES, &[row(7777)]))?;
            txn.commit().map(drop)
        };
        let mut failed = 0;
        for batches in 0.. {
            drive.fail_after(Some(batches));
            let done = define(&db);
            drive.fail_after(None);
            if done.is_ok() {
                break;
            }
            failed += 1;
            sound(&db);
            let s = db.snapshot().unwrap();
            assert!(s.table("u").is_none() && s.table("t").unwrap().indexes().is_empty(), "{batches}");
            assert_eq!(keys(&s, "t").len(), 2540, "after {batches} batches");
        }
        assert!(failed > 2);
        sound(&db);
        // Trees that the drive had no room to drop go with the next open.
        drop(db);
        let db = open(&drive);
        sound(&db);
        assert_eq!(trees(&db), 2);
    }
}

/// Power goes at any operation of the medium.
#[test]
fn a_crash_leaves_all_of_the_transaction_or_nothing() {
    for changes in KINDS {
        let (mut without, mut with) = (0, 0);
        for cut in 0..60u64 {
            let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 128).unwrap();
            let (medium, faults) = Medium::simulated(geometry);
            let drive = Drive::format(medium, DriveOptions::default()).unwrap();
            let db = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
            db.create_table(defined(changes), false).unwrap();
            insert(&db, &(0..300).map(row).collect::<Vec<_>>()).unwrap();
            let define = || -> Result<(), EngineError> {
                let mut txn = db.begin_write()?;
                txn.create_index(index("by_d", &[1], true), false)?;
                txn.insert("t", columns(&TYPES, &(500..560).map(row).collect::<Vec<_>>()))?;
                txn.commit().map(drop)
            };
            faults.cut_after(cut);
            let told = define().is_ok() && !faults.is_cut();
            if !faults.is_cut() {
                faults.cut();
            }
            drop(db);
            let (medium, _) = faults.restored(cut).unwrap();
            let drive = Unrecovered::new(medium, DriveOptions::default()).recover().unwrap();
            let db = Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap();
            sound(&db);
            let s = db.snapshot().unwrap();
            let (rows, indexes) = (keys(&s, "t"), s.table("t").unwrap().indexes().len());
            let expected: BTreeSet<i64> =
                if indexes == 1 { (0..300).chain(500..560).collect() } else { (0..300).collect() };
            assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), expected, "cut at {cut}");
            assert_eq!(trees(&db), indexes, "cut at {cut}");
            assert!(!told || indexes == 1);
            (without, with) = (without + usize::from(indexes == 0), with + usize::from(indexes == 1));
        }
        assert!(without > 0 && with > 0, "{changes:?}: {without} without, {with} with");
    }
}

/// A batch carries the entries of its pages: long ones need long pages.
#[test]
fn long_entries_are_refused_where_pages_are_short() {
    let page_index = |name: &str, bytes: u16| IndexDef {
        summaries: vec![Summary::Bloom { bytes }],
        ..IndexDef::new(name, "t", [2], IndexKind::Page)
    };
    let invalid = |r: Result<bool, EngineError>| match r {
        Err(EngineError::Invalid { what, .. }) => what,
        r => panic!("{r:?}"),
    };
    let pages = |layout, page_bytes: Option<PageBytes>| {
        let drive = TestDrive::new();
        let db = open(&drive);
        let mut def = table(layout);
        def.options.page_bytes = page_bytes;
        db.create_table(def, false).unwrap();
        insert(&db, &(0..300).map(row).collect::<Vec<_>>()).unwrap();
        (drive, db)
    };
    // Row pages of 8 KB have short entries only.
    let (drive, db) = pages(Layout::Row, None);
    let what = invalid(db.create_index(page_index("long", 30_000), false));
    let expected =
        " bytes are too long for pages of 8192 bytes: more than 2000 bytes only up to a sixteenth of a page";
    assert!(what.starts_with("entries of 300") && what.ends_with(expected), "{what}");
    invalid(db.create_index(page_index("long", 2100), false));
    db.create_index(page_index("short", 1900), false).unwrap();
    sound(&db);
    drop(db);
    let db = open(&drive);
    sound(&db);
    assert!(db.drop_index("short", false).unwrap());
    let (_drive, db) = pages(Layout::Row, PageBytes::new(16 << 10));
    invalid(db.create_index(page_index("long", 2100), false));
    // Column pages have any.
    let (_drive, db) = pages(Layout::Auto, None);
    db.create_index(page_index("long", 31_000), false).unwrap();
    insert(&db, &(1000..1300).map(row).collect::<Vec<_>>()).unwrap();
    sound(&db);
}
