//! Databases in files: created, closed, dropped, refused.

use lode::{Database, Durability, EngineError, Error, Options};

fn put(db: &Database, key: &[u8], value: &[u8]) {
    let tree = db.create_tree("t", true).unwrap();
    let mut txn = db.begin().unwrap();
    txn.put(&tree, key, value).unwrap();
    txn.commit().unwrap();
}

fn get(db: &Database, key: &[u8]) -> Option<Vec<u8>> {
    let tree = db.tree("t").unwrap();
    db.begin().unwrap().get(&tree, key).unwrap().map(|v| v.to_vec())
}

#[test]
fn what_was_committed_is_there_however_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my.lode");
    let db = Database::open(&path).unwrap();
    put(&db, b"closed", b"1");
    db.close().unwrap();
    let db = Database::open(&path).unwrap();
    put(&db, b"dropped", &[2; 5000]);
    drop(db);
    let db = Database::open(&path).unwrap();
    assert_eq!(get(&db, b"closed").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&db, b"dropped").as_deref(), Some(&[2; 5000][..]));
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_group_is_durable_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my.lode");
    let options = Options { durability: Durability::Group, group_ms: 5, ..Options::default() };
    let db = Database::open_with(&path, options).unwrap();
    put(&db, b"k", b"v");
    while db.tree_stats().redo_pages == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(db);
    assert_eq!(get(&Database::open(&path).unwrap(), b"k").as_deref(), Some(&b"v"[..]));
}

#[test]
fn what_is_no_database_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "remember the milk").unwrap();
    let e = Database::open(&path).err().unwrap();
    assert!(matches!(&e, Error::File { .. }), "{e}");
    assert!(!e.to_string().contains('\n'), "{e}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "remember the milk");
    let small = Options { capacity_bytes: 1 << 20, ..Options::default() };
    let e = Database::open_with(dir.path().join("small.lode"), small).err().unwrap();
    assert_eq!(e.to_string(), "a drive has a capacity of at least 134217728 bytes, not 1048576");
    assert!(Database::open(dir.path().join("nowhere").join("my.lode")).is_err());
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing half-done stays");
}

#[test]
fn one_opener_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my.lode");
    let first = Database::open(&path).unwrap();
    assert!(matches!(Database::open(&path), Err(Error::File { .. })));
    drop(first);
    Database::open(&path).unwrap();
}

#[test]
fn a_full_file_says_so_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { capacity_bytes: 128 << 20, memory_bytes: 16 << 20, ..Options::default() };
    let db = Database::open_with(dir.path().join("my.lode"), options).unwrap();
    let tree = db.create_tree("t", false).unwrap();
    let mut written = 0u32;
    let e = loop {
        let mut txn = db.begin().unwrap();
        for i in 0..16 {
            txn.put(&tree, &(written + i).to_be_bytes(), &vec![1; 100_000]).unwrap();
        }
        match txn.commit() {
            Ok(_) => written += 16,
            Err(e) => break e,
        }
    };
    assert!(matches!(e, EngineError::OutOfSpace { .. }), "{e}");
    assert!(written > 500, "{written} values of 100 kB in 128 MB");
    // Freed space can be used again.
    for part in 0..4 {
        let mut txn = db.begin().unwrap();
        for i in 0..50u32 {
            txn.delete(&tree, &(part * 50 + i).to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
    }
    db.flush().unwrap();
    let mut txn = db.begin().unwrap();
    for i in 0..50u32 {
        txn.put(&tree, &i.to_be_bytes(), &vec![2; 100_000]).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}
