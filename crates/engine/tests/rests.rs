//! A database at rest gives redo back.

mod support;

use lode_command::Progress;
use lode_engine::{Changes, Database, DatabaseOptions, Layout};
use support::drive::TestDrive;
use support::{insert, keys, row, sound};

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
