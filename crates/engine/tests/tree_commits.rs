//! Commits to trees beyond one at a time: groups of them, those that are not durable yet, and what went wrong there once.

mod support;

use std::sync::Arc;

use lode_engine::{Csn, Database, DatabaseOptions, Durability, EngineError, Transaction, Tree};
use support::drive::TestDrive;

/// Much is kept in memory, and nothing is written back unless a test asks for it.
fn roomy() -> DatabaseOptions {
    DatabaseOptions { frame_bytes: 64 << 20, node_bytes: 512, ..DatabaseOptions::default() }
}

fn open(drive: &TestDrive) -> Database {
    Database::open(Arc::new(drive.clone()), roomy()).unwrap()
}

fn writer(db: &Database, tree: &Tree, key: &[u8], value: &[u8]) -> Transaction {
    let mut txn = db.begin().unwrap();
    txn.put(tree, key, value).unwrap();
    txn
}

fn put(db: &Database, tree: &Tree, key: &[u8], value: &[u8]) -> Csn {
    writer(db, tree, key, value).commit().unwrap()
}

fn get(db: &Database, tree: &Tree, key: &[u8]) -> Option<Vec<u8>> {
    db.begin().unwrap().get(tree, key).unwrap().map(|v| v.to_vec())
}

fn sound(db: &Database) {
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn transactions_that_are_committed_together_share_a_batch_and_answer_each_for_itself() {
    let drive = TestDrive::new();
    let db = open(&drive);
    let (tree, other) = (db.create_tree("t", false).unwrap(), db.create_tree("other", false).unwrap());
    let lost = writer(&db, &other, b"k", b"v");
    db.drop_tree("other", false).unwrap();
    put(&db, &tree, b"b", b"0");
    let before = drive.batches();
    let all = [
        writer(&db, &tree, b"a", b"1"),
        db.begin().unwrap(),
        writer(&db, &tree, b"a", b"2"),
        lost,
        writer(&db, &tree, b"b", b"3"),
    ];
    let done = db.commit_all(all);
    assert_eq!(drive.batches() - before, 1);
    let csn = |i: usize| done[i].clone().unwrap();
    assert!(csn(1) < csn(0) && csn(0) < csn(4), "the second wrote nothing: {done:?}");
    assert!(matches!(done[2], Err(EngineError::Conflict { .. })));
    assert_eq!(done[3], Err(EngineError::NoSuchTree("other".into())));
    drop(db);
    let db = open(&drive);
    assert_eq!((get(&db, &tree, b"a"), get(&db, &tree, b"b")), (Some(b"1".to_vec()), Some(b"3".to_vec())));
    assert!(db.commit_all([]).is_empty());
}

#[test]
fn a_group_whose_batch_fails_fails_whole_and_can_be_tried_again() {
    let drive = TestDrive::new();
    let db = open(&drive);
    let tree = db.create_tree("t", false).unwrap();
    let group = || [b"a", b"b", b"c"].map(|k| writer(&db, &tree, k, b"v"));
    drive.fail_after(Some(0));
    let done = db.commit_all(group());
    assert!(done.iter().all(|r| matches!(r, Err(EngineError::OutOfSpace { .. }))), "{done:?}");
    assert_eq!(get(&db, &tree, b"b"), None);
    drive.fail_after(None);
    assert!(db.commit_all(group()).iter().all(Result::is_ok), "their keys conflict with nobody");
    sound(&db);
}

#[test]
fn a_group_that_one_batch_can_not_take_takes_several() {
    let drive = TestDrive::with_limits(64 << 10, 400);
    let db = open(&drive);
    let tree = db.create_tree("t", false).unwrap();
    for bytes in [8, 200, 3000] {
        let all = (0..60u8).map(|i| writer(&db, &tree, &[i, 0], &vec![i; bytes]));
        let done = db.commit_all(all.collect::<Vec<_>>());
        assert!(done.iter().all(Result::is_ok), "values of {bytes} bytes: {done:?}");
        assert!((0..60u8).all(|i| get(&db, &tree, &[i, 0]) == Some(vec![i; bytes])));
    }
    sound(&db);
}

/// Long keys in small nodes: each put splits nodes up to the root.
fn splits(db: &Database, tree: &Tree, keys: u32) -> Transaction {
    let mut txn = db.begin().unwrap();
    for n in 0..keys {
        let mut key = vec![b'k'; 180];
        key.extend(n.to_be_bytes());
        txn.put(tree, &key, b"").unwrap();
    }
    txn
}

#[test]
fn a_commit_that_changes_more_of_the_nodes_than_a_batch_takes_is_refused_and_nothing_is_stuck() {
    // Found by the simulation of trees: the commit was shown, and no sync went through any more.
    let drive = TestDrive::with_limits(64 << 10, 4000);
    let options = DatabaseOptions { node_bytes: 256, ..roomy() };
    let db = Database::open(Arc::new(drive.clone()), options).unwrap();
    let tree = db.create_tree("t", false).unwrap();
    for durability in [Durability::None, Durability::Commit] {
        let commit = |mut txn: Transaction| {
            txn.set_durability(durability);
            txn.commit()
        };
        commit(splits(&db, &tree, 2)).unwrap();
        assert!(matches!(commit(splits(&db, &tree, 80)), Err(EngineError::TransactionTooLarge { .. })));
        commit(writer(&db, &tree, b"k", b"v")).unwrap();
        db.sync().unwrap();
        sound(&db);
    }
}

#[test]
fn a_tree_that_is_created_after_commits_that_were_not_durable_outlives_a_crash() {
    // Found by the simulation of trees: the new root had the number of a commit that the crash took, and replay left out the
    // commits that got the same number later.
    let drive = TestDrive::new();
    let db = open(&drive);
    let a = db.create_tree("a", false).unwrap();
    db.set_durability(Durability::None);
    put(&db, &a, b"k", b"1");
    db.create_tree("b", false).unwrap();
    drop(db);
    let db = open(&drive);
    let b = db.tree("b").unwrap();
    assert_eq!(get(&db, &b, b"k"), None, "it can be read");
    put(&db, &b, b"k", b"2");
    drop(db);
    let db = open(&drive);
    assert_eq!((get(&db, &a, b"k"), get(&db, &b, b"k")), (Some(b"1".to_vec()), Some(b"2".to_vec())));
    sound(&db);
}

#[test]
fn a_snapshot_reads_the_newest_it_saw_of_a_tree_that_was_dropped() {
    // Found by the simulation of trees: the frames went with the tree, and the older view of the drive answered instead.
    let db = open(&TestDrive::new());
    let tree = db.create_tree("t", false).unwrap();
    put(&db, &tree, b"k", b"written back");
    db.flush().unwrap();
    put(&db, &tree, b"k", b"in memory alone");
    let old = db.begin().unwrap();
    db.drop_tree("t", false).unwrap();
    assert_eq!(old.get(&tree, b"k").unwrap().as_deref(), Some(&b"in memory alone"[..]));
}

#[test]
fn relaxed_commits_can_be_synced_however_many_they_are() {
    // Found by the simulation of trees: their redo became one page, and no drive takes one of any length.
    let limits = [(64 << 20, 1 << 16), (2 << 20, 1 << 16), (256 << 10, 300)];
    for (bytes, pages) in limits {
        let drive = TestDrive::with_limits(bytes, pages);
        let db = open(&drive);
        let tree = db.create_tree("t", false).unwrap();
        db.set_durability(Durability::Group);
        // More than the longest page of this drive, 1 MB.
        for n in 0..5000u32 {
            put(&db, &tree, &n.to_be_bytes(), &[7; 200]);
        }
        db.sync().unwrap();
        drop(db);
        let db = open(&drive);
        assert_eq!(db.begin().unwrap().snapshot().csn(), Csn::new(5000), "batches of {bytes} bytes");
        assert_eq!(get(&db, &tree, &4999u32.to_be_bytes()), Some(vec![7; 200]));
        sound(&db);
    }
}

#[test]
fn keys_that_go_in_either_order_give_their_nodes_back() {
    // Found by counting: what was deleted from the front left every node behind, nearly empty.
    for descending in [false, true] {
        let db = open(&TestDrive::new());
        let tree = db.create_tree("t", false).unwrap();
        let commits: Vec<Vec<u32>> =
            (0..2000).collect::<Vec<u32>>().chunks(40).map(<[u32]>::to_vec).collect();
        for keys in &commits {
            let mut txn = db.begin().unwrap();
            keys.iter().for_each(|n| txn.put(&tree, &n.to_be_bytes(), &[7; 40]).unwrap());
            txn.commit().unwrap();
        }
        let splits = db.tree_stats().splits;
        let mut going: Vec<u32> = commits.concat();
        if descending {
            going.reverse();
        }
        for keys in going.chunks(40) {
            let mut txn = db.begin().unwrap();
            keys.iter().for_each(|n| txn.delete(&tree, &n.to_be_bytes()).unwrap());
            txn.commit().unwrap();
        }
        let stats = db.tree_stats();
        assert!(splits > 200 && stats.splits == splits);
        assert!(stats.merges >= splits * 9 / 10, "{} of {splits}, descending: {descending}", stats.merges);
        sound(&db);
    }
}

/// Few pages of redo are kept, and little of what changed.
fn tight() -> DatabaseOptions {
    DatabaseOptions { frame_bytes: 64 << 10, redo_pages_max: 40, write_back_bytes: 4096, ..roomy() }
}

#[test]
fn values_that_are_overwritten_alone_let_their_redo_go() {
    // Found by an hour of YCSB: a value that is a page of its own changes no node, and redo went with changed nodes alone. It
    // grew for as long as nobody changed one, and the tree could not be dropped any more.
    let drive = TestDrive::new();
    let db = Database::open(Arc::new(drive.clone()), tight()).unwrap();
    let tree = db.create_tree("t", false).unwrap();
    put(&db, &tree, b"k", &[0; 1000]);
    db.flush().unwrap();
    for n in 1..=500u32 {
        put(&db, &tree, b"k", &[n as u8; 1000]);
        let kept = db.tree_stats().redo_pages;
        assert!(kept <= 50, "{kept} pages of redo are kept after {n} commits");
    }
    db.flush().unwrap();
    assert_eq!(db.tree_stats().redo_pages, 1, "the one that says which numbers were used");
    drop(db);
    let db = open(&drive);
    assert_eq!(get(&db, &tree, b"k"), Some(vec![500u32 as u8; 1000]));
    assert_eq!(db.begin().unwrap().snapshot().csn(), Csn::new(501));
    sound(&db);
}

#[test]
fn a_tree_is_dropped_though_the_redo_has_more_pages_than_a_batch_takes() {
    let drive = TestDrive::with_limits(64 << 20, 200);
    let db = open(&drive);
    let tree = db.create_tree("t", false).unwrap();
    for n in 0..700u32 {
        put(&db, &tree, b"k", &n.to_be_bytes());
    }
    assert!(db.tree_stats().redo_pages >= 700);
    assert!(db.drop_tree("t", false).unwrap());
    assert_eq!(db.tree_stats().redo_pages, 1);
    sound(&db);
}

#[test]
fn who_commits_is_told_that_nothing_can_be_written_back() {
    // Commits went on while each write-back failed, and what was in memory alone grew beyond its limit.
    let drive = TestDrive::new();
    let db = Database::open(Arc::new(drive.clone()), tight()).unwrap();
    let tree = db.create_tree("t", false).unwrap();
    let mut refused = 0;
    for n in 0..2000u32 {
        drive.fail_after(Some(1));
        match writer(&db, &tree, &n.to_be_bytes(), &[7; 200]).commit() {
            Ok(_) => {}
            Err(EngineError::OutOfSpace { .. }) => refused += 1,
            Err(e) => panic!("{e}"),
        }
        let dirty = db.tree_stats().dirty_bytes;
        assert!(dirty < 48 << 10, "{dirty} bytes are in memory alone after {n} commits");
    }
    assert!(refused > 0);
    drive.fail_after(None);
    put(&db, &tree, b"k", b"v");
    sound(&db);
}

#[test]
fn a_snapshot_whose_view_is_closed_sees_nothing_of_a_tree_in_the_same_place() {
    // Seed 325030 of the simulation of trees: a new tree's root lay where that of a dropped one had been, of the same commit, and an
    // old transaction took it for its own.
    let makes: [fn(&Database) -> Tree; 2] = [
        |db| db.create_tree("new", false).unwrap(),
        |db| {
            let mut load = db.load_tree("new").unwrap();
            load.put(b"k", b"of another tree").unwrap();
            load.finish().unwrap()
        },
    ];
    for make in makes {
        let drive = TestDrive::new();
        let db = open(&drive);
        let old = db.create_tree("old", false).unwrap();
        put(&db, &old, b"k", b"v");
        db.flush().unwrap();
        let root = drive.pages_with(b"LBTN");
        let txn = db.begin().unwrap();
        db.drop_tree("old", false).unwrap();
        drive.close_views();
        let new = make(&db);
        assert_eq!(drive.pages_with(b"LBTN"), root, "what is tested");
        // They come to memory by a reader of the new one.
        let there = get(&db, &new, b"k");
        assert_eq!(txn.get(&old, b"k"), Err(EngineError::SnapshotTooOld));
        assert_eq!(txn.scan::<&[u8]>(&old, ..).map(drop), Err(EngineError::SnapshotTooOld));
        assert_eq!(get(&db, &new, b"k"), there);
        put(&db, &new, b"k", b"2");
        assert_eq!(get(&db, &new, b"k"), Some(b"2".to_vec()));
        sound(&db);
    }
}

#[test]
fn a_tree_that_could_not_be_created_leaves_no_extent_behind() {
    let drive = TestDrive::new();
    let db = open(&drive);
    db.create_tree("there", false).unwrap();
    let before = drive.extents();
    for _ in 0..10 {
        drive.fail_after(Some(0));
        assert!(matches!(db.create_tree("t", false), Err(EngineError::OutOfSpace { .. })));
    }
    drive.fail_after(None);
    assert_eq!(drive.extents(), before);
    db.create_tree("t", false).unwrap();
    sound(&db);
}

#[test]
fn to_find_a_free_page_changes_nothing() {
    // After an open every full extent was looked through, and all their bitmaps written anew.
    let drive = TestDrive::new();
    let options = || DatabaseOptions { value_page_bytes_min: 64, ..roomy() };
    let db = Database::open(Arc::new(drive.clone()), options()).unwrap();
    let tree = db.create_tree("t", false).unwrap();
    for n in 0..5000u32 {
        put(&db, &tree, &n.to_be_bytes(), &[7; 64]);
    }
    db.flush().unwrap();
    drop(db);
    assert!(drive.extents() > 4);
    let db = Database::open(Arc::new(drive.clone()), options()).unwrap();
    let tree = db.tree("t").unwrap();
    let before = drive.batches();
    // The newest extent has room; then all others are looked at.
    for n in 5000..6100u32 {
        put(&db, &tree, &n.to_be_bytes(), &[7; 64]);
    }
    db.flush().unwrap();
    let commits = drive.commits_with(b"LALC");
    let changed = commits.iter().filter(|&&c| c > before).count();
    assert!(commits.len() > 5 && changed == 2, "{changed} of {} bitmaps were written", commits.len());
    sound(&db);
}
