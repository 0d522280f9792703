//! A database at rest: rows that came a few at a time share pages, and redo is given back.

mod support;

use lode_command::Progress;
use lode_engine::{Changes, Database, DatabaseOptions, Layout};
use support::drive::TestDrive;
use support::{insert, keys, load, open, row, sorted, sound};

/// Calls `work` until it has long had nothing to do.
fn rest(db: &Database) {
    let mut idle = 0;
    while idle < 30 {
        idle = if db.work(1 << 20) == Progress::More { 0 } else { idle + 1 };
    }
}

fn with_delta(db: &Database) {
    let mut def = support::table(Layout::Column);
    def.options.changes = Changes::Delta;
    db.create_table(def, false).unwrap();
}

#[test]
fn rows_of_many_rests_share_pages() {
    let db = open(&TestDrive::new());
    with_delta(&db);
    let pages = || db.snapshot().unwrap().table("t").unwrap().pages();
    load(&db, &(0..1000).map(row).collect::<Vec<_>>(), 1000).unwrap();
    let loaded = pages();
    let mut expected: Vec<i64> = (0..1000).collect();
    let held = db.snapshot().unwrap();
    for n in 0..60i64 {
        let from = 1000 + n * 20;
        insert(&db, &(from..from + 20).map(row).collect::<Vec<_>>()).unwrap();
        expected.extend(from..from + 20);
        if n % 3 == 2 {
            // Some rows at the end of the last page, and some of earlier ones, go.
            let gone = [from - 1, from - 2, from - 45, 7 * n];
            delete(&db, &gone);
            expected.retain(|k| !gone.contains(k));
        }
        rest(&db);
        let s = db.snapshot().unwrap();
        assert_eq!(s.delta_rows(&s.table("t").unwrap()).unwrap(), (0, 0));
    }
    assert!(pages() <= loaded + 2, "{} pages, {loaded} of them loaded", pages());
    let s = db.snapshot().unwrap();
    assert_eq!(keys(&s, "t"), expected);
    let rows = expected.iter().map(|k| row(*k)).collect();
    assert_eq!(sorted(support::read(&s, "t")), sorted(rows));
    assert_eq!(keys(&held, "t"), (0..1000).collect::<Vec<_>>(), "an old snapshot");
    sound(&db);
}

#[test]
fn redo_is_given_back_once_nobody_commits() {
    let drive = TestDrive::new();
    let options = DatabaseOptions { redo_pages_max: 640, ..DatabaseOptions::default() };
    let db = Database::open(std::sync::Arc::new(drive.clone()), options).unwrap();
    with_delta(&db);
    for k in 0..200 {
        insert(&db, &[row(k)]).unwrap();
    }
    assert!(db.tree_stats().redo_pages > 100);
    rest(&db);
    assert!(db.tree_stats().redo_pages <= 10, "{:?}", db.tree_stats());
    // A commit now and then is not written back at once.
    insert(&db, &[row(200)]).unwrap();
    let before = db.tree_stats();
    rest(&db);
    assert!(db.tree_stats().dirty_bytes > 0 && db.tree_stats().redo_pages >= before.redo_pages.min(1));
    assert_eq!(keys(&db.snapshot().unwrap(), "t"), (0..=200).collect::<Vec<_>>());
    sound(&db);
}

fn delete(db: &Database, gone: &[i64]) {
    let mut txn = db.begin_write().unwrap();
    let shown = txn.snapshot().clone();
    let addresses = support::scan(&shown, "t")
        .into_iter()
        .filter(|(_, r)| matches!(r[0], lode_page::Value::Int(k) if gone.contains(&k)))
        .map(|(address, _)| address);
    let addresses: Vec<_> = addresses.collect();
    assert_eq!(addresses.len(), gone.len());
    txn.delete("t", &addresses).unwrap();
    txn.commit().unwrap();
}
