//! Point lookups answer what scans do, through B+-tree indexes, the page index and neither, in and out of transactions.

mod support;

use lode_engine::{EngineError, IndexDef, IndexKind, Layout, Snapshot};
use lode_page::{DataType, Value};
use proptest::prelude::*;
use support::drive::TestDrive;
use support::*;

/// Compares lookups of these keys, each twice, with a scan of the snapshot.
fn agrees(s: &Snapshot, key: &[u16], keys: &[Vec<Value>]) {
    let t = s.table("t").unwrap();
    let rows = scan(s, "t");
    let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
    for values in keys.iter().chain(keys) {
        let expected =
            rows.iter().find(|(_, r)| key.iter().zip(values).all(|(&c, v)| r[usize::from(c)] == *v));
        let found = s.row_by_key(&t, key, values).unwrap();
        assert_eq!(found, expected.map(|(a, _)| *a), "{values:?}");
        if let (Some(address), Some((_, row))) = (found, expected) {
            assert_eq!(s.row_values(&t, address, &all).unwrap(), *row);
        }
    }
}

fn ints(keys: impl IntoIterator<Item = i64>) -> Vec<Vec<Value>> {
    keys.into_iter().map(|k| vec![Value::Int(k)]).collect()
}

#[test]
fn a_row_is_found_by_its_key_whatever_leads_to_it() {
    for layout in [Layout::Row, Layout::Column] {
        for index in [None, Some(IndexKind::Btree { unique: true })] {
            let db = open(&TestDrive::new());
            db.create_table(table(layout), false).unwrap();
            // Half of the rows ascend; the others come in no order.
            load(&db, &(0..3000).map(row).collect::<Vec<_>>(), 8192).unwrap();
            load(&db, &(0..3000).map(|i| row(3000 + i * 1009 % 3000)).collect::<Vec<_>>(), 8192).unwrap();
            if let Some(kind) = index {
                let index = IndexDef::new("i", "t", vec![0], kind);
                db.create_index(index, false).unwrap();
            }
            let s = db.snapshot().unwrap();
            agrees(&s, &[0], &ints([0, 1, 2999, 3000, 4711, 5999, 6000, -1, i64::MAX, i64::MIN]));
            // A new version of the table.
            insert(&db, &[row(-5), row(7000)]).unwrap();
            agrees(&db.snapshot().unwrap(), &[0], &ints([-5, 7000, 17, 7001]));
            // Changes of a transaction, beside what others see.
            let mut txn = db.begin_write().unwrap();
            let t = s.table("t").unwrap();
            let now = db.snapshot().unwrap();
            let at = |k| now.row_by_key(&now.table("t").unwrap(), &[0], &[Value::Int(k)]).unwrap().unwrap();
            let gone = [at(5), at(4000), at(7000)];
            let moved = [at(6), at(4001)];
            txn.delete("t", &gone).unwrap();
            let keys = columns(&[DataType::BigInt], &[vec![Value::Int(9000)], vec![Value::Int(9001)]]);
            txn.update("t", &moved, &[0], keys).unwrap();
            let held = columns_of(txn.snapshot(), "t", &[row(5), row(8000)]);
            txn.insert("t", held).unwrap();
            let wanted = ints([5, 6, 7, 4000, 4001, 4002, 7000, 8000, 9000, 9001, 9002]);
            agrees(&txn.current().unwrap(), &[0], &wanted);
            agrees(&db.snapshot().unwrap(), &[0], &wanted);
            agrees(&s, &[0], &wanted);
            txn.commit().unwrap();
            agrees(&db.snapshot().unwrap(), &[0], &wanted);
            assert!(s.row_values(&t, lode_engine::RowAddress::from_raw(u64::MAX), &[0]).is_err());
            sound(&db);
        }
    }
}

#[test]
fn the_second_lookup_in_a_version_keeps_the_bounds_of_its_pages() {
    let drive = TestDrive::new();
    let db = open(&drive);
    db.create_table(table(Layout::Row), false).unwrap();
    load(&db, &(0..5000).map(row).collect::<Vec<_>>(), 8192).unwrap();
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    let commands = |k| {
        let before = db.link().commands;
        assert!(s.row_by_key(&t, &[0], &[Value::Int(k)]).unwrap().is_some());
        db.link().commands - before
    };
    assert!(commands(1) >= 1, "a scan");
    assert!(commands(2) >= 1, "bounds, and a page");
    assert_eq!(commands(2), 0, "all is known");
    assert_eq!(commands(3), 0, "it lies in the same page");
}

#[test]
fn a_key_that_a_transaction_put_in_twice_has_two_rows() {
    let db = open(&TestDrive::new());
    db.create_table(table(Layout::Auto), false).unwrap();
    load(&db, &(0..100).map(row).collect::<Vec<_>>(), 8192).unwrap();
    let mut txn = db.begin_write().unwrap();
    let held = columns_of(txn.snapshot(), "t", &[row(7), row(200), row(200)]);
    txn.insert("t", held).unwrap();
    let now = txn.current().unwrap();
    let t = now.table("t").unwrap();
    let rows = |k, most| now.rows_by_key(&t, &[0], &[Value::Int(k)], most).unwrap().len();
    for _ in 0..2 {
        assert_eq!([rows(7, 2), rows(200, 2), rows(8, 2), rows(201, 2)], [2, 2, 1, 0]);
        assert_eq!([rows(7, 1), rows(200, 1)], [1, 1]);
    }
}

#[test]
fn keys_of_several_columns_and_of_text_are_found() {
    let db = open(&TestDrive::new());
    let text = ("s", DataType::Text);
    let decimal = ("d", DataType::Decimal { precision: 12, scale: 2 });
    db.create_table(def("t", &[("a", DataType::Integer), text, decimal], &[0, 1, 2], Layout::Auto), false)
        .unwrap();
    let key =
        |i: i64| vec![Value::Int(i % 3), Value::text(&format!("k{}", i % 50)), Value::Decimal(i.into())];
    load(&db, &(0..4000).map(key).collect::<Vec<_>>(), 8192).unwrap();
    let wanted: Vec<Vec<Value>> = [0, 1, 49, 50, 3999, 4000].into_iter().map(key).collect();
    agrees(&db.snapshot().unwrap(), &[0, 1, 2], &wanted);
}

#[test]
fn lookups_by_what_is_no_key_are_refused() {
    let db = open(&TestDrive::new());
    db.create_table(
        def("t", &[("k", DataType::Integer), ("f", DataType::Double)], &[0], Layout::Auto),
        false,
    )
    .unwrap();
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    let check = |key: &[u16], values: &[Value]| {
        assert!(matches!(s.row_by_key(&t, key, values), Err(EngineError::Invalid { .. })), "{values:?}");
    };
    check(&[0], &[Value::Null]);
    check(&[0], &[Value::Int(1 << 40)]);
    check(&[0], &[Value::text("1")]);
    check(&[0], &[]);
    check(&[], &[]);
    check(&[1], &[Value::Double(0.0)]);
    check(&[2], &[Value::Int(0)]);
    assert_eq!(s.row_by_key(&t, &[0], &[Value::Int(1)]).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_changes_and_lookups_agree_with_scans(
        layout in prop::sample::select(vec![Layout::Row, Layout::Column, Layout::Auto]),
        indexed: bool,
        commits in prop::collection::vec(
            (prop::collection::vec((0..6u8, 0..400i64), 1..12), any::<bool>()), 1..8),
    ) {
        let db = open(&TestDrive::new());
        db.create_table(table(layout), false).unwrap();
        if indexed {
            let kind = IndexKind::Btree { unique: false };
            db.create_index(IndexDef::new("i", "t", vec![0], kind), false).unwrap();
        }
        load(&db, &(0..200).map(|i| row(i * 7 % 200)).collect::<Vec<_>>(), 8192).unwrap();
        for (changes, commit) in commits {
            let mut txn = db.begin_write().unwrap();
            for &(what, k) in &changes {
                let now = txn.current().unwrap();
                let t = now.table("t").unwrap();
                let found = now.row_by_key(&t, &[0], &[Value::Int(k)]).unwrap();
                match (what, found) {
                    (0..3, None) => {
                        let columns = columns_of(txn.snapshot(), "t", &[row(k)]);
                        txn.insert("t", columns).unwrap();
                    }
                    (3, Some(address)) => drop(txn.delete("t", &[address]).unwrap()),
                    (_, Some(address)) => {
                        let new = columns(&[DataType::Date], &[vec![Value::Int(k + 1)]]);
                        txn.update("t", &[address], &[1], new).unwrap();
                    }
                    _ => {}
                }
            }
            let wanted = ints(changes.iter().map(|c| c.1));
            agrees(&txn.current().unwrap(), &[0], &wanted);
            if commit {
                txn.commit().unwrap();
            }
            agrees(&db.snapshot().unwrap(), &[0], &wanted);
        }
    }
}
