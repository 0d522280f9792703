//! Loads of whole trees: what is put is there, packed; nothing shows before the end, nor after a load that did not come there.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_engine::{Database, DatabaseOptions, Durability, EngineError, Tree};
use support::drive::TestDrive;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open_with(drive: &TestDrive, node_bytes: usize) -> Database {
    let options = DatabaseOptions { node_bytes, value_page_bytes_min: 100, ..DatabaseOptions::default() };
    Database::open(Arc::new(drive.clone()), options).unwrap()
}

fn open(drive: &TestDrive) -> Database {
    open_with(drive, 512)
}

fn all(db: &Database, tree: &Tree) -> Model {
    let txn = db.begin().unwrap();
    let mut range = txn.scan::<&[u8]>(tree, ..).unwrap();
    let mut found = Model::new();
    while let Some((k, v)) = range.next().unwrap() {
        found.insert(k.to_vec(), v.to_vec());
    }
    found
}

fn sound(db: &Database) {
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

fn numbers(count: u32, value_bytes: usize) -> Model {
    (0..count).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; value_bytes])).collect()
}

/// Keys of every shape: long ones that differ at their ends, prefixes of others, and values of every length.
fn mixed(count: u32) -> Model {
    let key = |n: u32| {
        let mut key = (n / 50).to_be_bytes().to_vec();
        if n / 50 % 3 == 1 {
            key.extend([7; 900]);
        }
        key.extend(std::iter::repeat_n(b'x', (n % 50) as usize));
        key
    };
    (0..count).map(|n| (key(n), vec![n as u8; [0, 5, 99, 100, 5000][n as usize % 5]])).collect()
}

/// Hundreds of keys that have nearly all in common, and then others: a node may not lose that unawares.
fn alike(groups: u8) -> Model {
    let key = |g: u8, n: u16| [&[g; 1000][..], &n.to_be_bytes()].concat();
    (0..groups).flat_map(|g| (0..700).map(move |n| (key(g, n), vec![g; 2]))).collect()
}

#[test]
fn what_was_put_is_there_and_takes_commits() {
    for (node_bytes, model) in [
        (512, Model::new()),
        (512, numbers(1, 3)),
        (512, numbers(20_000, 10)),
        (256, mixed(3000)),
        (4096, mixed(5000)),
        (4096, alike(1)),
        (4096, alike(4)),
        (4096, numbers(3000, 150)),
    ] {
        let drive = TestDrive::new();
        let db = open_with(&drive, node_bytes);
        db.create_tree("other", false).unwrap();
        let mut load = db.load_tree("t").unwrap();
        load.extend(&model).unwrap();
        assert!(db.tree("t").is_none(), "nothing shows");
        let tree = load.finish().unwrap();
        assert_eq!(db.tree("t"), Some(tree.clone()));
        assert!(all(&db, &tree) == model, "{} entries in nodes of {node_bytes} bytes", model.len());
        sound(&db);
        // Commits split its nodes, and merge them, also after a crash.
        let mut model = model;
        for round in 0..4u8 {
            let db = open_with(&drive, node_bytes);
            let tree = db.tree("t").unwrap();
            let mut txn = db.begin().unwrap();
            let keys: Vec<Vec<u8>> = model.keys().step_by(3 + usize::from(round)).cloned().collect();
            for (i, mut key) in keys.into_iter().enumerate().take(2000) {
                match i % 3 {
                    0 => {
                        txn.delete(&tree, &key).unwrap();
                        model.remove(&key);
                        continue;
                    }
                    1 => {}
                    _ => key.push(round),
                }
                txn.put(&tree, &key, &[round; 60]).unwrap();
                model.insert(key, vec![round; 60]);
            }
            txn.commit().unwrap();
            assert!(all(&db, &tree) == model, "after a commit");
            sound(&db);
        }
        let db = open_with(&drive, node_bytes);
        assert!(all(&db, &db.tree("t").unwrap()) == model, "after the end");
        assert!(db.drop_tree("t", false).unwrap());
        sound(&db);
    }
}

#[test]
fn nodes_are_as_full_as_asked_and_batches_are_large() {
    let pages = |fill: Option<u8>| {
        let drive = TestDrive::new();
        let db = open_with(&drive, 4096);
        let before = (drive.batches(), drive.pages());
        let load = db.load_tree("t").unwrap();
        let mut load = match fill {
            Some(percent) => load.fill_percent(percent),
            None => load,
        };
        load.extend(numbers(100_000, 50)).unwrap();
        load.finish().unwrap();
        assert!(drive.batches() - before.0 <= 5, "{} batches", drive.batches() - before.0);
        drive.pages() - before.1
    };
    // 64 bytes an entry, less what keys have in common.
    let (full, half) = (pages(None), pages(Some(50)));
    assert!((100_000 * 61 / 4096..100_000 * 66 / 4096).contains(&full), "{full} pages");
    assert!((full * 19 / 10..full * 22 / 10).contains(&half), "{half} and {full} pages");
}

#[test]
fn what_is_refused_changes_nothing() {
    let drive = TestDrive::new();
    let db = open(&drive);
    let there = db.create_tree("there", false).unwrap();
    assert_eq!(db.load_tree("there").err(), Some(EngineError::TreeExists("there".into())));
    let (mut load, mut late) = (db.load_tree("t").unwrap(), db.load_tree("t").unwrap());
    load.put(b"b", b"1").unwrap();
    for key in [&b"a"[..], b"b", b""] {
        assert!(matches!(load.put(key, b"2"), Err(EngineError::KeyOrder { .. })));
    }
    let e = load.put(b"a", b"2").unwrap_err();
    assert_eq!(e.to_string(), "tree \"t\": key 'a' does not come after key 'b'");
    assert!(matches!(load.put(&[b'c'; 1025], b""), Err(EngineError::EntryTooLong { .. })));
    assert!(matches!(load.put(b"c", &vec![0; 1 << 20]), Err(EngineError::EntryTooLong { .. })));
    load.put(b"c", b"3").unwrap();
    late.put(b"x", b"late").unwrap();
    let tree = load.finish().unwrap();
    assert_eq!(late.finish(), Err(EngineError::TreeExists("t".into())));
    let expected = Model::from([(b"b".to_vec(), b"1".to_vec()), (b"c".to_vec(), b"3".to_vec())]);
    assert_eq!((all(&db, &tree), all(&db, &there)), (expected, Model::new()));
    sound(&db);
}

#[test]
fn a_load_that_does_not_end_leaves_nothing() {
    let drive = TestDrive::with_limits(64 << 10, 2000);
    let db = open(&drive);
    let tree = db.create_tree("kept", false).unwrap();
    let extents = drive.extents();
    let mut load = db.load_tree("t").unwrap();
    load.extend(numbers(20_000, 40)).unwrap();
    assert!(drive.extents() > extents);
    sound(&db);
    drop(load);
    assert_eq!(drive.extents(), extents, "given back at once");
    // A crash: the load never hears of it.
    let mut load = db.load_tree("t").unwrap();
    load.extend(numbers(20_000, 40)).unwrap();
    std::mem::forget(load);
    assert!(drive.extents() > extents);
    let db = open(&drive);
    assert_eq!((drive.extents(), db.tree("t")), (extents, None));
    let again = db.create_tree("another", false).unwrap();
    assert!(all(&db, &again).is_empty() && all(&db, &tree).is_empty());
    sound(&db);
}

#[test]
fn whichever_batch_fails_there_is_no_such_tree() {
    let model = numbers(6000, 40);
    for batch in 0.. {
        let drive = TestDrive::with_limits(64 << 10, 2000);
        let db = open(&drive);
        drive.fail_after(Some(batch));
        let mut load = db.load_tree("t").unwrap();
        let loaded = load.extend(&model).and_then(|()| load.finish());
        drive.fail_after(None);
        match loaded {
            Ok(tree) => {
                assert!(batch > 10 && all(&db, &tree) == model);
                sound(&db);
                return;
            }
            Err(e) => assert!(matches!(e, EngineError::OutOfSpace { .. }), "{e}"),
        }
        assert_eq!(db.tree("t"), None);
        sound(&db);
        let mut load = db.load_tree("t").unwrap();
        load.put(b"k", b"v").unwrap();
        assert_eq!(all(&db, &load.finish().unwrap()).len(), 1, "it can be tried again");
    }
}

#[test]
fn commits_go_on_beside_a_load_and_snapshots_do_not_see_it() {
    let drive = TestDrive::new();
    let db = open(&drive);
    let other = db.create_tree("other", false).unwrap();
    db.set_durability(Durability::None);
    let mut load = db.load_tree("t").unwrap();
    for n in 0..2000u32 {
        load.put(&n.to_be_bytes(), &[1; 30]).unwrap();
        let mut txn = db.begin().unwrap();
        txn.put(&other, &n.to_be_bytes(), b"v").unwrap();
        txn.commit().unwrap();
    }
    let before = db.begin().unwrap();
    let tree = load.finish().unwrap();
    assert_eq!(before.get(&tree, &[0; 4]), Err(EngineError::NoSuchTree("t".into())));
    let mut txn = db.begin().unwrap();
    txn.put(&tree, &7u32.to_be_bytes(), b"changed").unwrap();
    txn.commit().unwrap();
    drop(before);
    db.sync().unwrap();
    drop(db);
    let db = open(&drive);
    let (tree, other) = (db.tree("t").unwrap(), db.tree("other").unwrap());
    assert_eq!((all(&db, &tree).len(), all(&db, &other).len()), (2000, 2000));
    assert_eq!(all(&db, &tree)[&7u32.to_be_bytes().to_vec()], b"changed");
    sound(&db);
}
