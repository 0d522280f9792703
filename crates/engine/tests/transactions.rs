//! Atomicity and isolation: a transaction happens whole or not at all, and readers keep what they began with.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lode_base::{Lpid, OwnerId};
use lode_command::Device;
use lode_engine::{Database, DatabaseOptions, EngineError, Layout};
use lode_firmware::Drive;
use lode_page::{DataType, EncodingChoice, Value};
use support::drive::TestDrive;
use support::*;

fn filled(drive: &TestDrive, rows: i64) -> Database {
    let db = open(drive);
    db.create_table(table(Layout::Auto), false).unwrap();
    load(&db, &(0..rows).map(row).collect::<Vec<_>>(), 5000).unwrap();
    db
}

fn is_updated(r: &Row, text: &str) -> bool {
    matches!(&r[2], Value::Bytes(b) if b.starts_with(text.as_bytes()))
}

/// Gives every row a text of its own that begins with `text`.
fn update_all(db: &Database, text: &str) -> Result<(), EngineError> {
    let mut txn = db.begin_write()?;
    let addresses: Vec<_> = scan(txn.snapshot(), "t").iter().map(|(a, _)| *a).collect();
    let values: Vec<Row> = (0..addresses.len()).map(|i| vec![Value::text(&format!("{text} {i}"))]).collect();
    txn.update("t", &addresses, &[2], columns(&[DataType::Text], &values))?;
    txn.commit().map(drop)
}

#[test]
fn an_old_snapshot_keeps_its_rows() {
    let drive = TestDrive::new();
    let db = filled(&drive, 10_000);
    let old = db.snapshot().unwrap();
    let before = sorted(read(&old, "t"));
    update_all(&db, "changed").unwrap();
    let middle = db.snapshot().unwrap();
    let mut txn = db.begin_write().unwrap();
    let all: Vec<_> = scan(txn.snapshot(), "t").iter().map(|(a, _)| *a).collect();
    assert_eq!(txn.delete("t", &all).unwrap(), 10_000);
    txn.commit().unwrap();
    let empty = db.snapshot().unwrap();
    db.drop_table("t", false).unwrap();
    insert(
        &{
            db.create_table(table(Layout::Row), false).unwrap();
            db.clone()
        },
        &[row(1)],
    )
    .unwrap();

    assert_eq!(sorted(read(&old, "t")), before);
    assert_eq!(sorted(scan(&old, "t").into_iter().map(|(_, r)| r).collect()), before);
    assert!(read(&middle, "t").iter().all(|r| is_updated(r, "changed")));
    assert_eq!(read(&middle, "t").len(), 10_000);
    assert_eq!((scan(&empty, "t").len(), empty.rows(&empty.table("t").unwrap()).unwrap()), (0, 0));
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), [1]);
    drop((old, middle, empty));
    assert_eq!(drive.views(), 1, "only the current view is open");
    // Those of the catalog, of the new table, and of redo if there was any.
    assert!(drive.extents() <= 3, "extents of the old table are free");
    sound(&db);
}

#[test]
fn a_dropped_transaction_leaves_nothing() {
    let drive = TestDrive::new();
    let db = filled(&drive, 1000);
    let extents = drive.extents();
    let mut txn = db.begin_write().unwrap();
    for part in 0..20 {
        let rows: Vec<Row> = (0..10_000).map(|k| row(10_000 + part * 10_000 + k)).collect();
        let columns = columns_of(txn.snapshot(), "t", &rows);
        txn.load("t", columns).unwrap();
    }
    assert!(drive.extents() > extents, "the load wrote pages already");
    drop(txn);
    assert_eq!(drive.extents(), extents);
    assert_eq!(keys(&db.snapshot().unwrap(), "t").len(), 1000);
    sound(&db);
}

#[test]
fn a_load_that_died_is_forgotten_at_the_next_open() {
    let drive = TestDrive::new();
    let db = filled(&drive, 1000);
    let extents = drive.extents();
    let mut txn = db.begin_write().unwrap();
    for part in 0..20 {
        let rows: Vec<Row> = (0..10_000).map(|k| row(10_000 + part * 10_000 + k)).collect();
        let columns = columns_of(txn.snapshot(), "t", &rows);
        txn.load("t", columns).unwrap();
    }
    std::mem::forget(txn);
    assert!(drive.extents() > extents);
    let db = open(&drive);
    assert_eq!(drive.extents(), extents);
    assert_eq!(keys(&db.snapshot().unwrap(), "t").len(), 1000);
    sound(&db);
}

#[test]
fn a_change_larger_than_a_batch_is_atomic_too() {
    let drive = TestDrive::with_limits(2 << 20, 4096);
    let db = open(&drive);
    // In whole bytes: what is the same in all rows takes next to nothing otherwise.
    let mut plain = table(Layout::Auto);
    plain.options.encoding.all = EncodingChoice::Plain;
    db.create_table(plain, false).unwrap();
    load(&db, &(0..100_000).map(row).collect::<Vec<_>>(), 5000).unwrap();
    let long = "x".repeat(100);
    let batches_until = |fail: Option<u32>| {
        drive.fail_after(fail);
        let r = update_all(&db, &long);
        drive.fail_after(None);
        r
    };
    for n in [0, 1, 3] {
        assert!(matches!(batches_until(Some(n)), Err(EngineError::OutOfSpace { .. })));
        assert!(read(&db.snapshot().unwrap(), "t").iter().all(|r| !is_updated(r, &long)));
    }
    batches_until(None).unwrap();
    let rows = read(&db.snapshot().unwrap(), "t");
    assert_eq!(rows.len(), 100_000);
    assert!(rows.iter().all(|r| is_updated(r, &long)));
    sound(&db);
    assert_eq!(
        sorted(rows),
        sorted(scan(&db.snapshot().unwrap(), "t").into_iter().map(|(_, r)| r).collect())
    );
}

#[test]
fn more_trims_than_a_batch_holds() {
    let drive = TestDrive::with_limits(1 << 20, 200);
    let db = open(&drive);
    db.create_table(table(Layout::Row), false).unwrap();
    load(&db, &(0..100_000).map(row).collect::<Vec<_>>(), 5000).unwrap();
    let pages = db.snapshot().unwrap().table("t").unwrap().pages();
    assert!(pages > 300, "{pages} pages");
    let mut txn = db.begin_write().unwrap();
    let odd = |r: &Row| matches!(r[0], Value::Int(k) if k % 2 == 1 || k / 400 % 2 == 0);
    let rows: Vec<_> =
        scan(txn.snapshot(), "t").into_iter().filter(|(_, r)| odd(r)).map(|(a, _)| a).collect();
    txn.delete("t", &rows).unwrap();
    txn.commit().unwrap();
    let left: Vec<i64> = (0..100_000).filter(|k| !(k % 2 == 1 || k / 400 % 2 == 0)).collect();
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), left);
    sound(&db);
}

#[test]
fn a_failed_batch_changes_nothing() {
    let drive = TestDrive::new();
    let db = filled(&drive, 5000);
    let before = sorted(read(&db.snapshot().unwrap(), "t"));
    let extents = drive.extents();
    drive.fail_after(Some(0));
    assert!(matches!(insert(&db, &[row(9000)]), Err(EngineError::OutOfSpace { .. })));
    assert!(update_all(&db, "x").is_err());
    assert!(db.drop_table("t", false).is_err());
    drive.fail_after(None);
    assert_eq!(sorted(read(&db.snapshot().unwrap(), "t")), before);
    insert(&db, &[row(9000)]).unwrap();
    assert_eq!(drive.extents(), extents);
    sound(&db);
}

#[test]
fn a_table_and_its_rows_can_be_made_in_one_transaction() {
    let drive = TestDrive::new();
    let db = open(&drive);
    let mut txn = db.begin_write().unwrap();
    txn.create_table(table(Layout::Column), false).unwrap();
    let types = [DataType::BigInt, DataType::Date, DataType::Text];
    for part in 0..10 {
        let rows: Vec<Row> = (0..20_000).map(|k| row(part * 20_000 + k)).collect();
        txn.load("t", columns(&types, &rows)).unwrap();
    }
    txn.commit().unwrap();
    let s = db.snapshot().unwrap();
    assert_eq!(s.rows(&s.table("t").unwrap()).unwrap(), 200_000);
    let stats = s.statistics(&s.table("t").unwrap()).unwrap();
    assert_eq!(stats.columns[0], Some((Value::Int(0), Value::Int(199_999))));
    sound(&db);
    let mut txn = db.begin_write().unwrap();
    txn.drop_table("t", false).unwrap();
    txn.create_table(table(Layout::Row), false).unwrap();
    txn.insert("t", columns(&types, &[row(4)])).unwrap();
    txn.commit().unwrap();
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), [4]);
    drop(s);
    sound(&db);
}

#[test]
fn the_pool_keeps_to_its_limit_and_saves_the_link() {
    let drive = TestDrive::new();
    drop(filled(&drive, 200_000));
    let options = DatabaseOptions { pool_bytes: 1 << 20, ..DatabaseOptions::default() };
    let db = Database::open(Arc::new(drive.clone()), options).unwrap();
    let s = db.snapshot().unwrap();
    assert_eq!(read(&s, "t").len(), 200_000);
    let stats = db.pool();
    assert!(stats.bytes <= 1 << 20 && stats.evictions > 0, "{stats:?}");
    let t = s.table("t").unwrap();
    let page = s.page_ranges(&t)[0].extent.page(0);
    let db = open(&drive);
    let s = db.snapshot().unwrap();
    let cold = s.read_columns(page, &[0]).unwrap();
    let warm = s.read_columns(page, &[0]).unwrap();
    assert!(cold.link_bytes_up > 0 && warm.link_bytes_up == 0);
    assert!(s.read_columns(page, &[1, 0, 1]).unwrap().columns[1].value(5) == cold.columns[0].value(5));
    db.clear_pool();
    assert!(s.read_columns(page, &[0]).unwrap().link_bytes_up > 0);
}

#[test]
fn a_view_that_the_drive_closed_is_replaced() {
    let drive = TestDrive::new();
    let db = filled(&drive, 1000);
    let s = db.snapshot().unwrap();
    let t = s.table("t").unwrap();
    drive.close_views();
    let page = s.page_ranges(&t)[0].extent.page(0);
    assert_eq!(s.read_columns(page, &[0]).unwrap_err(), EngineError::SnapshotTooOld);
    let s = db.snapshot().unwrap();
    assert_eq!(keys(&s, "t").len(), 1000);
    insert(&db, &[row(1000)]).unwrap();
    sound(&db);
}

#[test]
fn damage_is_found() {
    let drive = TestDrive::new();
    let db = filled(&drive, 50_000);
    let page = {
        let s = db.snapshot().unwrap();
        s.page_ranges(&s.table("t").unwrap())[0].extent.page(1)
    };
    drive.damage(page, |b| b[70] ^= 1);
    let problems = db.check().unwrap();
    assert!(problems.iter().any(|p| p.starts_with(&format!("table \"t\", page {page}:"))), "{problems:?}");
    let root = Lpid::from_raw(0).unwrap();
    drive.damage(root, |b| b[30] ^= 1);
    let e = Database::open(Arc::new(drive), DatabaseOptions::default()).err().unwrap();
    assert_eq!(e.to_string(), "catalog page 0:0: wrong checksum");
}

#[test]
fn a_drive_with_other_pages_is_left_alone() {
    use lode_base::{PageBuf, VirtualTime};
    use lode_command::{Align, Batch, Command, PageWrite, Until};
    let drive = TestDrive::new();
    let mut q = drive.open_queue(2).unwrap();
    q.submit(VirtualTime::ZERO, Command::AllocateExtents { owner: OwnerId::new(9), count: 1 }).unwrap();
    let data = PageBuf::copy_from(&[1; 64]);
    let writes = vec![PageWrite { lpid: Lpid::from_raw(3).unwrap(), data, align: Align::Cell }];
    q.submit(VirtualTime::ZERO, Command::Write(Batch { writes, ..Batch::default() })).unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    let e = Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).err().unwrap();
    assert_eq!(e, EngineError::NoCatalog { pages: 1 });
    assert_eq!(drive.extents(), 1);
}

#[test]
fn readers_beside_a_writer_see_whole_transactions() {
    let drive = Drive::in_memory(256 << 20);
    let db = open(&drive);
    db.create_table(table(Layout::Auto), false).unwrap();
    load(&db, &(0..3000).map(row).collect::<Vec<_>>(), 1000).unwrap();
    let over = AtomicBool::new(false);
    // Each transaction gives every row the same date: a reader that sees two was between transactions.
    let set = |date: i64| {
        let mut txn = db.begin_write().unwrap();
        let rows: Vec<_> = scan(txn.snapshot(), "t").iter().map(|(a, _)| *a).collect();
        let values = vec![vec![Value::Int(date)]; rows.len()];
        txn.update("t", &rows, &[1], columns(&[DataType::Date], &values)).unwrap();
        txn.insert(
            "t",
            columns(
                &[DataType::BigInt, DataType::Date, DataType::Text],
                &[{
                    let mut r = row(10_000 + date);
                    r[1] = Value::Int(date);
                    r
                }],
            ),
        )
        .unwrap();
        txn.commit().unwrap();
    };
    set(0);
    std::thread::scope(|threads| {
        for way in 0..3 {
            let (db, over) = (&db, &over);
            threads.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let s = db.snapshot().unwrap();
                    let rows = match way {
                        0 => read(&s, "t"),
                        _ => scan(&s, "t").into_iter().map(|(_, r)| r).collect(),
                    };
                    assert!(rows.iter().all(|r| r[1] == rows[0][1]), "commit {:?}", s.commit());
                    assert!(matches!(rows[0][1], Value::Int(date) if rows.len() as i64 == 3001 + date));
                }
            });
        }
        (1..60).for_each(set);
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(drive.info().views, 1);
    sound(&db);
    assert_eq!(drive.check().problems, Vec::<String>::new());
}

/// A value that has a page of its own changed in place, and its leaf did not: scans showed what the leaf had before.
#[test]
fn long_rows_that_are_updated_again_show_in_scans() {
    let drive = TestDrive::new();
    let db = open(&drive);
    db.create_table(table(Layout::Auto), false).unwrap();
    let long = |k: i64, n: i64| vec![Value::Int(k), Value::Int(n), Value::text(&"x".repeat(400))];
    load(&db, &(0..50).map(|k| long(k, 0)).collect::<Vec<_>>(), 50).unwrap();
    for n in 1..4 {
        let mut txn = db.begin_write().unwrap();
        let rows = scan(txn.snapshot(), "t");
        let address = rows.iter().find(|(_, r)| r[0] == Value::Int(7)).unwrap().0;
        txn.update("t", &[address], &[1], columns(&[DataType::Date], &[vec![Value::Int(n)]])).unwrap();
        txn.commit().unwrap();
        let now = scan(&db.snapshot().unwrap(), "t");
        let (_, row) = now.iter().find(|(_, r)| r[0] == Value::Int(7)).unwrap();
        assert_eq!(row[1], Value::Int(n));
    }
}
