//! Tables as their users see them: rows in, rows out, errors by name.

mod support;

use lode_engine::{Changes, EngineError, IndexDef, IndexKind, Layout};
use lode_page::{DataType, Value};
use support::drive::TestDrive;
use support::*;

#[test]
fn rows_come_back_whatever_way_they_went_in() {
    for layout in [Layout::Row, Layout::Column, Layout::Auto] {
        let drive = TestDrive::new();
        let db = open(&drive);
        assert!(db.create_table(table(layout), false).unwrap());
        let rows: Vec<Row> = (0..60_000).map(row).collect();
        load(&db, &rows[..50_000], 8192).unwrap();
        insert(&db, &rows[50_000..50_001]).unwrap();
        insert(&db, &rows[50_001..]).unwrap();
        let s = db.snapshot().unwrap();
        assert_eq!(s.rows(&s.table("t").unwrap()).unwrap(), 60_000);
        assert_eq!(sorted(scan(&s, "t").into_iter().map(|(_, r)| r).collect()), sorted(rows.clone()));
        assert_eq!(sorted(read(&s, "t")), sorted(rows));
        sound(&db);
    }
}

#[test]
fn a_reopened_database_is_the_same() {
    let drive = TestDrive::new();
    let db = open(&drive);
    db.create_table(table(Layout::Auto), false).unwrap();
    insert(&db, &(0..1000).map(row).collect::<Vec<_>>()).unwrap();
    let index = IndexDef::new("i", "t", vec![2], IndexKind::Page);
    db.create_index(index, false).unwrap();
    drop(db);
    assert_eq!(drive.views(), 0, "views close with the database");
    let db = open(&drive);
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    assert_eq!((s.rows(&t).unwrap(), t.indexes().len(), t.index_columns()), (1000, 1, vec![0, 1, 2]));
    assert_eq!(keys(&s, "t"), (0..1000).collect::<Vec<_>>());
    insert(&db, &[row(1000)]).unwrap();
    sound(&db);
}

#[test]
fn small_inserts_fill_one_page_after_another() {
    let drive = TestDrive::new();
    let db = open(&drive);
    let mut pages = table(Layout::Auto);
    pages.options.changes = Changes::Pages;
    db.create_table(pages, false).unwrap();
    for k in 0..500 {
        insert(&db, &[row(k)]).unwrap();
    }
    let t = db.snapshot().unwrap().table("t").unwrap();
    assert!((2..8).contains(&t.pages()), "{} pages", t.pages());
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), (0..500).collect::<Vec<_>>());
    sound(&db);
}

#[test]
fn what_is_wrong_is_named() {
    let db = open(&TestDrive::new());
    db.create_table(table(Layout::Auto), false).unwrap();
    let message = |r: Result<(), EngineError>| r.unwrap_err().to_string();
    assert_eq!(message(db.create_table(table(Layout::Row), false).map(drop)), "table \"t\" already exists");
    assert!(!db.create_table(table(Layout::Row), true).unwrap());
    assert_eq!(message(db.drop_table("u", false).map(drop)), "table \"u\" does not exist");
    assert!(!db.drop_table("u", true).unwrap());
    assert_eq!(message(db.drop_index("i", false).map(drop)), "index \"i\" does not exist");
    insert(&db, &[row(7)]).unwrap();
    assert_eq!(message(insert(&db, &[row(8), row(7)])), "table \"t\": duplicate primary key (7)");
    assert_eq!(message(insert(&db, &[row(8), row(8)])), "table \"t\": duplicate primary key (8)");
    let null = vec![Value::Null, Value::Null, Value::Null];
    assert_eq!(message(insert(&db, &[null])), "table \"t\": column \"k\" may not be NULL");
    let mut short = def("u", &[("s", DataType::Text)], &[], Layout::Auto);
    short.columns[0].max_chars = Some(3);
    db.create_table(short, false).unwrap();
    let mut txn = db.begin_write().unwrap();
    let values = columns(&[DataType::Text], &[vec![Value::text("äöü")], vec![Value::text("four")]]);
    let e = txn.insert("u", values).unwrap_err().to_string();
    assert_eq!(e, "table \"u\": a value of 4 characters is too long for column \"s\" (3)");
    let wrong = columns(&[DataType::Integer], &[vec![Value::Int(1)]]);
    assert_eq!(
        txn.insert("u", wrong).unwrap_err().to_string(),
        "table \"u\": column \"s\" is TEXT, not INTEGER"
    );
    drop(txn);
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), [7]);
    sound(&db);
}

#[test]
fn keys_are_unique_however_they_arrive() {
    let drive = TestDrive::new();
    let db = open(&drive);
    db.create_table(table(Layout::Auto), false).unwrap();
    let rows = |keys: std::ops::Range<i64>| keys.map(row).collect::<Vec<_>>();
    load(&db, &rows(0..40_000), 1000).unwrap();
    let mut backwards = rows(50_000..90_000);
    backwards.reverse();
    load(&db, &backwards, 1000).unwrap();
    let duplicate = |r: Result<(), EngineError>, key: &str| match r {
        Err(EngineError::DuplicateKey { key: k, .. }) => assert_eq!(k, key),
        r => panic!("{r:?}"),
    };
    let mut in_the_table = rows(100_000..140_000);
    in_the_table[39_999][0] = Value::Int(77);
    duplicate(load(&db, &in_the_table, 1000), "(77)");
    let mut in_itself = rows(100_000..140_000);
    in_itself[0][0] = Value::Int(120_000);
    duplicate(load(&db, &in_itself, 1000), "(120000)");
    duplicate(load(&db, &[row(3)], 1), "(3)");
    duplicate(
        load(
            &db,
            &[vec![Value::Int(200_000); 1], vec![Value::Int(200_000)]].map(|k| {
                let mut r = row(0);
                r[0] = k[0].clone();
                r
            }),
            1,
        ),
        "(200000)",
    );
    load(&db, &rows(40_000..50_000), 1000).unwrap();
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), (0..90_000).collect::<Vec<_>>());
    sound(&db);
}

#[test]
fn keys_may_move_within_one_transaction() {
    let db = open(&TestDrive::new());
    db.create_table(table(Layout::Auto), false).unwrap();
    insert(&db, &(0..100).map(row).collect::<Vec<_>>()).unwrap();
    let shift = |by: i64| {
        let mut txn = db.begin_write()?;
        let rows = scan(txn.snapshot(), "t");
        let addresses: Vec<_> = rows.iter().map(|(a, _)| *a).collect();
        let values: Vec<Row> = rows
            .iter()
            .map(|(_, r)| match r[0] {
                Value::Int(k) => vec![Value::Int((k + by).max(1))],
                _ => panic!("{r:?}"),
            })
            .collect();
        txn.update("t", &addresses, &[0], columns(&[DataType::BigInt], &values))?;
        txn.commit().map(drop)
    };
    shift(1).unwrap();
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), (1..101).collect::<Vec<_>>());
    assert_eq!(shift(-1).unwrap_err().to_string(), "table \"t\": duplicate primary key (1)");
    let mut txn = db.begin_write().unwrap();
    let first = scan(txn.snapshot(), "t").into_iter().find(|(_, r)| r[0] == Value::Int(5)).unwrap().0;
    assert_eq!(txn.delete("t", &[first, first]).unwrap(), 1);
    let again = columns_of(txn.snapshot(), "t", &[row(5)]);
    txn.insert("t", again).unwrap();
    txn.commit().unwrap();
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), (1..101).collect::<Vec<_>>());
    sound(&db);
}

#[test]
fn statistics_bound_the_values() {
    let db = open(&TestDrive::new());
    db.create_table(table(Layout::Auto), false).unwrap();
    load(&db, &(5..20_000).map(row).collect::<Vec<_>>(), 5000).unwrap();
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    let stats = s.statistics(&t).unwrap();
    assert_eq!((stats.rows, stats.pages), (19_995, t.pages()));
    assert_eq!(stats.columns[0], Some((Value::Int(5), Value::Int(19_999))));
    assert_eq!(stats.columns[1], Some((Value::Int(0), Value::Int(999))));
    assert_eq!((&stats.columns[2], stats.has_nulls[2]), (&None, None));
    assert_eq!(stats.has_nulls[0], Some(false));
    // Later changes keep them bounds, without asking the drive.
    insert(&db, &[row(30_500), vec![Value::Int(-3), Value::Null, Value::Null]]).unwrap();
    let mut txn = db.begin_write().unwrap();
    let all: Vec<_> =
        scan(txn.snapshot(), "t").into_iter().filter(|(_, r)| r[1] == Value::Int(999)).collect();
    let addresses: Vec<_> = all.iter().map(|(a, _)| *a).collect();
    txn.delete("t", &addresses).unwrap();
    txn.commit().unwrap();
    let s = db.snapshot().unwrap();
    let commands = db.link().commands;
    let stats = s.statistics(&s.table("t").unwrap()).unwrap();
    assert_eq!(db.link().commands, commands);
    assert_eq!(stats.rows, 19_997 - addresses.len() as u64);
    assert_eq!(stats.columns[0], Some((Value::Int(-3), Value::Int(30_500))));
    assert_eq!(
        (&stats.columns[1], stats.has_nulls[1]),
        (&Some((Value::Int(0), Value::Int(999))), Some(true))
    );
    load(&db, &[row(40_000)], 1).unwrap();
    let s = db.snapshot().unwrap();
    let stats = s.statistics(&s.table("t").unwrap()).unwrap();
    assert_eq!(stats.columns[0], Some((Value::Int(-3), Value::Int(40_000))));
}

#[test]
fn indexes_come_and_go() {
    let db = open(&TestDrive::new());
    db.create_table(table(Layout::Auto), false).unwrap();
    load(&db, &(0..20_000).map(row).collect::<Vec<_>>(), 5000).unwrap();
    let index = || IndexDef::new("i", "t", vec![2], IndexKind::Page);
    assert!(db.create_index(index(), false).unwrap());
    assert!(!db.create_index(index(), true).unwrap());
    assert!(matches!(db.create_index(index(), false), Err(EngineError::IndexExists(_))));
    let s = db.snapshot().unwrap();
    let stats = s.statistics(&s.table("t").unwrap()).unwrap();
    assert_eq!(stats.has_nulls[2], Some(false), "the new entries are there");
    sound(&db);
    assert!(db.drop_index("i", false).unwrap());
    assert_eq!(db.snapshot().unwrap().table("t").unwrap().index_columns(), [0, 1]);
    sound(&db);
}
