//! Trees against a map: random commits, snapshots that stay open, little memory, crashes between batches.

mod support;

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lode_engine::{Csn, Database, DatabaseOptions, Durability, EngineError, Snapshot, Transaction, Tree};
use proptest::prelude::*;
use support::drive::TestDrive;
use support::small;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(drive: &TestDrive) -> Database {
    Database::open(Arc::new(drive.clone()), small()).unwrap()
}

fn all(txn: &Transaction, tree: &Tree) -> Model {
    let mut range = txn.scan::<&[u8]>(tree, ..).unwrap();
    let mut found = Model::new();
    while let Some((k, v)) = range.next().unwrap() {
        assert!(found.insert(k.to_vec(), v.to_vec()).is_none());
    }
    found
}

/// Ranges with all kinds of bounds, either way.
fn ranges(txn: &Transaction, tree: &Tree, model: &Model, salt: usize) {
    let some = |n: usize| key((n % 400) as u16);
    let bounds = |k: Vec<u8>| [Bound::Included(k.clone()), Bound::Excluded(k), Bound::Unbounded];
    for start in bounds(some(salt * 31)) {
        for end in bounds(some(salt * 57 + 3)) {
            let is_in = |k: &Vec<u8>| (start.clone(), end.clone()).contains(k);
            let mut expected: Vec<_> = model.iter().filter(|(k, _)| is_in(k)).collect();
            for back in [false, true] {
                let range = (start.clone(), end.clone());
                let mut found = match back {
                    false => txn.scan(tree, range).unwrap(),
                    true => txn.scan_back(tree, range).unwrap(),
                };
                for (k, v) in &expected {
                    let (key, value) = found.next().unwrap().expect("there are more");
                    assert_eq!((key, &value[..]), (&k[..], &v[..]), "back: {back}, {start:?} to {end:?}");
                }
                assert!(found.next().unwrap().is_none(), "back: {back}, {start:?} to {end:?}");
                assert!(found.next().unwrap().is_none(), "it stays at its end");
                expected.reverse();
            }
        }
    }
}

fn seen(snapshot: &Snapshot, tree: &Tree, model: &Model) {
    // From the last key to the first: all, or a part that the sizes choose.
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let some = keys.get(keys.len() / 2).map_or(&[7][..], |k| &k[..]);
    let (start, end) = match keys.len() % 5 {
        0 => (Bound::Unbounded, Bound::Unbounded),
        1 => (Bound::Unbounded, Bound::Included(some)),
        2 => (Bound::Unbounded, Bound::Excluded(some)),
        3 => (Bound::Included(some), Bound::Unbounded),
        _ => (Bound::Excluded(some), Bound::Unbounded),
    };
    let mut expected = model.range::<[u8], _>((start, end)).rev();
    let mut back = snapshot.range_back(tree, start, end).unwrap();
    while let Some((k, v)) = back.next().unwrap() {
        assert_eq!(Some((k, &v[..])), expected.next().map(|(k, v)| (&k[..], &v[..])));
    }
    assert_eq!(expected.next(), None);
    for (k, v) in model {
        assert_eq!(snapshot.get(tree, k).unwrap().as_deref(), Some(&v[..]), "{k:?}");
        assert!(snapshot.get_with(tree, k, |found| found == v).unwrap().is_some_and(|same| same), "{k:?}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Commit(Vec<(u16, Option<usize>)>, Durability),
    Abandon(Vec<(u16, Option<usize>)>),
    Keep,
    Drop,
    Sync,
    Flush,
    Crash,
    FailNext,
}

fn writes() -> impl Strategy<Value = Vec<(u16, Option<usize>)>> {
    let size = prop_oneof![4 => 0usize..60, 1 => 90usize..110, 1 => 200usize..3000];
    prop::collection::vec((0u16..400, prop::option::weighted(0.65, size)), 1..40)
}

fn op() -> impl Strategy<Value = Op> {
    let durability = prop_oneof![
        3 => Just(Durability::Commit), 1 => Just(Durability::Group), 1 => Just(Durability::None)
    ];
    prop_oneof![
        12 => (writes(), durability).prop_map(|(w, d)| Op::Commit(w, d)),
        1 => writes().prop_map(Op::Abandon),
        2 => Just(Op::Keep),
        2 => Just(Op::Drop),
        1 => Just(Op::Sync),
        1 => Just(Op::Flush),
        2 => Just(Op::Crash),
        1 => Just(Op::FailNext),
    ]
}

fn key(k: u16) -> Vec<u8> {
    // Some keys share long prefixes, some are prefixes of others.
    let mut key = vec![(k % 3) as u8; usize::from(k % 5) * 4];
    key.extend_from_slice(&k.to_be_bytes()[usize::from(k.is_multiple_of(2))..]);
    key
}

fn apply(
    txn: &mut Transaction,
    tree: &Tree,
    model: &mut Model,
    writes: &[(u16, Option<usize>)],
    salt: usize,
) {
    for &(k, size) in writes {
        match size {
            Some(size) => {
                let value = vec![(salt + usize::from(k)) as u8; size];
                txn.put(tree, &key(k), &value).unwrap();
                model.insert(key(k), value);
            }
            None => {
                txn.delete(tree, &key(k)).unwrap();
                model.remove(&key(k));
            }
        }
    }
}

fn run(ops: &[Op]) {
    let drive = TestDrive::new();
    let mut db = open(&drive);
    let mut tree = db.create_tree("t", false).unwrap();
    let mut model = Model::new();
    // States since the last durable one: after a crash one of them is there.
    let mut since_durable: Vec<Model> = vec![model.clone()];
    let mut kept: Vec<(Snapshot, Model)> = Vec::new();
    let mut failing = false;
    for (i, op) in ops.iter().enumerate() {
        match op {
            Op::Commit(writes, d) => {
                let mut txn = db.begin().unwrap();
                let mut next = model.clone();
                apply(&mut txn, &tree, &mut next, writes, i);
                assert_eq!(all(&txn, &tree), next, "own writes");
                ranges(&txn, &tree, &next, i);
                txn.set_durability(*d);
                match txn.commit() {
                    Ok(_) => {
                        model = next;
                        match d {
                            Durability::Commit => since_durable.clear(),
                            Durability::Group | Durability::None => {}
                        }
                        since_durable.push(model.clone());
                    }
                    Err(EngineError::OutOfSpace { .. }) if failing => {}
                    Err(e) => panic!("{e}"),
                }
            }
            Op::Abandon(writes) => {
                let mut txn = db.begin().unwrap();
                apply(&mut txn, &tree, &mut model.clone(), writes, i);
                txn.rollback();
            }
            Op::Keep => kept.push((db.snapshot().unwrap(), model.clone())),
            Op::Drop => drop((!kept.is_empty()).then(|| kept.remove(0))),
            Op::Sync | Op::Flush => {
                let done = if matches!(op, Op::Sync) { db.sync() } else { db.flush() };
                match done {
                    Ok(()) => since_durable = vec![model.clone()],
                    Err(EngineError::OutOfSpace { .. }) if failing => {}
                    Err(e) => panic!("{e}"),
                }
            }
            Op::Crash => {
                drive.fail_after(None);
                failing = false;
                kept.clear();
                drop(db);
                db = open(&drive);
                tree = db.tree("t").unwrap();
                let found = all(&db.begin().unwrap(), &tree);
                assert!(since_durable.contains(&found), "a state that never was");
                model = found;
                since_durable = vec![model.clone()];
            }
            Op::FailNext => {
                drive.fail_after(Some(i as u32 % 3));
                failing = true;
            }
        }
        let txn = db.begin().unwrap();
        assert_eq!(all(&txn, &tree), model, "after step {i}: {op:?}");
        seen(txn.snapshot(), &tree, &model);
        ranges(&txn, &tree, &model, i + 7);
        for (snapshot, model) in &kept {
            seen(snapshot, &tree, model);
        }
    }
    drive.fail_after(None);
    for (snapshot, model) in &kept {
        let mut found = Model::new();
        let mut cursor = snapshot.range(&tree, Bound::Unbounded, Bound::Unbounded).unwrap();
        while let Some((k, v)) = cursor.next().unwrap() {
            found.insert(k.to_vec(), v.to_vec());
        }
        assert_eq!(&found, model);
    }
    kept.clear();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    db.flush().unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    let held = db.tree_stats().held_bytes;
    assert!(held < 24 << 10, "{held} bytes in memory");
    assert_eq!(drive.views(), 1, "views are closed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn a_tree_does_what_a_map_does(ops in prop::collection::vec(op(), 1..60)) {
        run(&ops);
    }
}

#[test]
fn a_transaction_that_is_older_than_what_is_remembered_fails() {
    let options = DatabaseOptions { recent_bytes: 8 << 10, ..small() };
    let db = Database::open(Arc::new(TestDrive::new()), options).unwrap();
    let tree = db.create_tree("t", false).unwrap();
    let commit = |i: u32| {
        let mut txn = db.begin().unwrap();
        txn.put(&tree, &i.to_be_bytes(), b"v").unwrap();
        txn.commit().unwrap();
    };
    let (mut young, mut old, reader) = (db.begin().unwrap(), db.begin().unwrap(), db.begin().unwrap());
    (0..20).for_each(commit);
    young.put(&tree, b"young", b"v").unwrap();
    young.commit().unwrap();
    (20..1000).for_each(commit);
    old.put(&tree, b"old", b"v").unwrap();
    let e = old.commit().unwrap_err();
    assert!(matches!(&e, EngineError::Conflict { what } if what.contains("too old to be validated")), "{e}");
    assert!(all(&reader, &tree).is_empty(), "who only reads needs nothing that is remembered");
    reader.commit().unwrap();
}

// Found by `lode bench memory`: a value of 1 KB kept the 4 or 8 KB alive that the drive had read for it.
#[test]
fn a_page_keeps_no_more_memory_than_its_own() {
    let drive = lode_firmware::Drive::in_memory(1 << 30);
    let options = DatabaseOptions { frame_bytes: 1 << 20, ..DatabaseOptions::default() };
    let db = Database::open(Arc::new(drive), options).unwrap();
    let tree = db.create_tree("t", false).unwrap();
    for i in 0..200u32 {
        let mut txn = db.begin().unwrap();
        (0..10).for_each(|k| txn.put(&tree, &(10 * i + k).to_be_bytes(), &[7; 1000]).unwrap());
        txn.commit().unwrap();
    }
    db.flush().unwrap();
    let txn = db.begin().unwrap();
    for i in 0..2000u32 {
        let value = txn.get(&tree, &i.to_be_bytes()).unwrap().unwrap();
        assert!(value.memory_bytes() <= 1536, "{} bytes for {}", value.memory_bytes(), value.len());
    }
}

#[test]
fn the_first_committer_wins() {
    let db = open(&TestDrive::new());
    let tree = db.create_tree("t", false).unwrap();
    let (mut a, mut b, mut c) = (db.begin().unwrap(), db.begin().unwrap(), db.begin().unwrap());
    a.put(&tree, b"k", b"a").unwrap();
    b.put(&tree, b"k", b"b").unwrap();
    c.put(&tree, b"other", b"c").unwrap();
    assert!(a.commit().unwrap() > Csn::new(0));
    let e = b.commit().unwrap_err();
    assert_eq!(e.to_string(), "could not serialize access due to concurrent update: tree \"t\", key 'k'");
    c.commit().unwrap();
    let txn = db.begin().unwrap();
    assert_eq!(txn.get(&tree, b"k").unwrap().as_deref(), Some(&b"a"[..]));
    assert_eq!(txn.get(&tree, b"other").unwrap().as_deref(), Some(&b"c"[..]));
}

#[test]
fn savepoints_take_back_what_came_after() {
    let db = open(&TestDrive::new());
    let tree = db.create_tree("t", false).unwrap();
    let mut txn = db.begin().unwrap();
    txn.put(&tree, b"a", b"1").unwrap();
    let s = txn.savepoint();
    txn.put(&tree, b"a", b"2").unwrap();
    txn.delete(&tree, b"a").unwrap();
    txn.put(&tree, b"b", b"3").unwrap();
    txn.rollback_to(s);
    txn.put(&tree, b"c", b"4").unwrap();
    txn.rollback_to(s);
    txn.commit().unwrap();
    let expected = Model::from([(b"a".to_vec(), b"1".to_vec())]);
    assert_eq!(all(&db.begin().unwrap(), &tree), expected);
}

#[test]
fn ranges_have_the_ends_that_were_asked_for() {
    let db = open(&TestDrive::new());
    let tree = db.create_tree("t", false).unwrap();
    let mut txn = db.begin().unwrap();
    for i in 0..200u8 {
        txn.put(&tree, &[i], &[i; 30]).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = db.begin().unwrap();
    txn.delete(&tree, &[12]).unwrap();
    txn.put(&tree, &[13, 0], b"new").unwrap();
    let keys = |range: (Bound<[u8; 1]>, Bound<[u8; 1]>)| {
        let mut found = Vec::new();
        let mut range = txn.scan(&tree, range).unwrap();
        while let Some((k, _)) = range.next().unwrap() {
            found.push(k.to_vec());
        }
        found
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(keys((Included([11]), Included([14]))), [vec![11], vec![13], vec![13, 0], vec![14]]);
    assert_eq!(keys((Excluded([11]), Excluded([14]))), [vec![13], vec![13, 0]]);
    assert_eq!(keys((Excluded([197]), Unbounded)), [vec![198], vec![199]]);
    assert_eq!(keys((Unbounded, Excluded([2]))), [vec![0], vec![1]]);
    assert_eq!(keys((Included([9]), Excluded([9]))), Vec::<Vec<u8>>::new());
    assert_eq!(keys((Excluded([9]), Excluded([9]))), Vec::<Vec<u8>>::new());
    assert_eq!(keys((Included([10]), Included([9]))), Vec::<Vec<u8>>::new());
}

#[test]
fn trees_come_and_go() {
    let drive = TestDrive::new();
    let db = open(&drive);
    let extents = drive.extents();
    let a = db.create_tree("a", false).unwrap();
    assert_eq!(db.create_tree("a", false), Err(EngineError::TreeExists("a".into())));
    assert_eq!(db.create_tree("a", true).unwrap(), a);
    let mut txn = db.begin().unwrap();
    for i in 0..3000u32 {
        txn.put(&a, &i.to_be_bytes(), &[7; 90]).unwrap();
    }
    txn.commit().unwrap();
    let old = db.begin().unwrap();
    let mut late = db.begin().unwrap();
    late.put(&a, b"k", b"v").unwrap();
    assert!(db.drop_tree("a", false).unwrap());
    assert_eq!(late.commit(), Err(EngineError::NoSuchTree("a".into())));
    assert_eq!(all(&old, &a).len(), 3000, "a snapshot keeps what it sees");
    assert_eq!(db.begin().unwrap().get(&a, b"k"), Err(EngineError::NoSuchTree("a".into())));
    let b = db.create_tree("b", false).unwrap();
    drop(old);
    assert!(all(&db.begin().unwrap(), &b).is_empty());
    assert!(db.drop_tree("b", false).unwrap());
    assert!(!db.drop_tree("b", true).unwrap());
    drop(db);
    let db = open(&drive);
    assert!(db.tree("a").is_none());
    assert!(drive.extents() <= extents + 3, "{} extents", drive.extents());
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn bad_input_changes_nothing() {
    let db = open(&TestDrive::new());
    let tree = db.create_tree("t", false).unwrap();
    let mut txn = db.begin().unwrap();
    let e = txn.put(&tree, &[0; 1025], b"").unwrap_err();
    assert_eq!(e.to_string(), "tree \"t\": a key of 1025 bytes is too long, the limit is 1024");
    let e = txn.put(&tree, b"", &vec![0; 1 << 20]).unwrap_err();
    assert_eq!(e.to_string(), "tree \"t\": a value of 1048576 bytes is too long, the limit is 1048552");
    assert_eq!(txn.commit().unwrap(), Csn::new(0));
}

#[test]
fn threads_that_add_up_lose_nothing() {
    let db = open(&TestDrive::new());
    let tree = db.create_tree("t", false).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let (db, tree) = (db.clone(), tree.clone());
            std::thread::spawn(move || {
                let mut conflicts = 0;
                for i in 0..200u32 {
                    let key = [((i + t) % 5) as u8];
                    loop {
                        let mut txn = db.begin().unwrap();
                        let old = txn.get(&tree, &key).unwrap();
                        let n = old.map_or(0, |v| u32::from_le_bytes(v[..4].try_into().unwrap()));
                        txn.put(&tree, &key, &(n + 1).to_le_bytes()).unwrap();
                        match txn.commit() {
                            Ok(_) => break,
                            Err(EngineError::Conflict { .. }) => conflicts += 1,
                            Err(e) => panic!("{e}"),
                        }
                    }
                }
                conflicts
            })
        })
        .collect();
    let conflicts: u32 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    let sum: u32 = all(&db.begin().unwrap(), &tree)
        .values()
        .map(|v| u32::from_le_bytes(v[..4].try_into().unwrap()))
        .sum();
    assert_eq!(sum, 800, "{conflicts} conflicts");
}

#[test]
fn threads_that_read_meet_whole_values_of_their_snapshot_while_others_commit_and_memory_is_short() {
    const KEYS: u32 = 60;
    let db = open(&TestDrive::new());
    let tree = db.create_tree("t", false).unwrap();
    // Every value tells its key and its commit, over and over; those of all keys are of the same commit. Some stand in their leaf,
    // most are pages of their own.
    let value = |key: u32, n: u32| {
        [key.to_be_bytes(), n.to_be_bytes()].concat().repeat(if key.is_multiple_of(5) { 2 } else { 20 })
    };
    let commit = |n: u32| {
        let mut txn = db.begin().unwrap();
        (0..KEYS).for_each(|k| txn.put(&tree, &k.to_be_bytes(), &value(k, n)).unwrap());
        txn.commit().unwrap();
    };
    commit(0);
    let (newest, over) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        for t in 0..2 {
            let (db, tree, newest, over, value) = (&db, &tree, &newest, &over, &value);
            s.spawn(move || {
                let mut reads = 0;
                while !over.load(Ordering::SeqCst) || reads == 0 {
                    let before = newest.load(Ordering::SeqCst);
                    let txn = db.begin().unwrap();
                    let mut seen = None;
                    for key in (0..KEYS).map(|k| (k * 7 + t) % KEYS) {
                        let found = match (key + t) % 3 {
                            0 => txn.get(tree, &key.to_be_bytes()).unwrap().map(|v| v.to_vec()),
                            _ => txn.get_with(tree, &key.to_be_bytes(), <[u8]>::to_vec).unwrap(),
                        };
                        let found = found.expect("every commit has all keys");
                        let n = u32::from_be_bytes(found[4..8].try_into().unwrap());
                        assert!(n >= before, "{n} is shown, and {before} was committed before");
                        assert_eq!(*seen.get_or_insert(n), n, "key {key}");
                        assert!(found == value(key, n), "key {key} of {n}");
                        reads += 1;
                    }
                }
            });
        }
        for n in 1..1000 {
            commit(n);
            newest.store(n, Ordering::SeqCst);
            if n.is_multiple_of(16) {
                db.clear_pool();
            }
        }
        over.store(true, Ordering::SeqCst);
    });
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_version_that_a_view_has_does_not_hide_behind_an_older_one() {
    // Found by the test above: memory was short, the middle of three versions was in a snapshot's view and left the chain,
    // and the snapshot was shown the oldest.
    let one = vec![(93, Some(27)), (0, Some(6)), (40, Some(10))];
    let two = vec![
        (19, Some(90)),
        (181, Some(22)),
        (215, Some(90)),
        (29, Some(200)),
        (243, Some(41)),
        (32, Some(6)),
        (208, Some(1257)),
        (104, Some(873)),
        (158, Some(33)),
        (59, Some(34)),
    ];
    let three =
        vec![(0, None), (0, Some(200)), (102, Some(0)), (161, Some(0)), (160, Some(91)), (28, Some(1513))];
    let commit = |w, d| Op::Commit(w, d);
    run(&[
        commit(one, Durability::Commit),
        Op::Keep,
        commit(two, Durability::Group),
        Op::Keep,
        commit(three, Durability::Commit),
    ]);
}

/// Seed 41 of the simulation of trees: commits that need not be durable went on while batches failed, until what they left
/// was more than one batch takes, and nothing could be made durable any more.
#[test]
fn commits_that_are_not_durable_do_not_outgrow_a_batch_while_batches_fail() {
    let drive = TestDrive::with_limits(256 << 10, 1 << 12);
    // Memory is not what ends it.
    let options = DatabaseOptions { frame_bytes: 64 << 20, ..small() };
    let db = Database::open(Arc::new(drive.clone()), options).unwrap();
    let tree = db.create_tree("t", false).unwrap();
    drive.fail_after(Some(0));
    let (mut model, mut failed) = (Model::new(), 0);
    for n in 0..2000u32 {
        let mut txn = db.begin().unwrap();
        txn.set_durability(Durability::None);
        let entries = (0..20).map(|i| ((n * 20 + i).to_be_bytes().to_vec(), vec![n as u8; 40]));
        let entries: Model = entries.collect();
        entries.iter().for_each(|(k, v)| txn.put(&tree, k, v).unwrap());
        match txn.commit() {
            Ok(_) => model.extend(entries),
            Err(_) => failed += 1,
        }
    }
    assert!(failed > 0 && model.len() > 500, "{failed} failed, {} keys are there", model.len());
    drive.fail_after(None);
    db.sync().unwrap();
    drop(db);
    let db = open(&drive);
    let tree = db.tree("t").unwrap();
    assert_eq!(all(&db.begin().unwrap(), &tree), model);
}

/// Values are read some at a time: a value that cannot be read is reported when it is the next, not before.
#[test]
fn a_scan_shows_all_that_comes_before_a_damaged_value() {
    let drive = TestDrive::new();
    let db = open(&drive);
    let tree = db.create_tree("t", false).unwrap();
    let mut txn = db.begin().unwrap();
    (0..100u8).for_each(|n| txn.put(&tree, &[n], &[n; 200]).unwrap());
    txn.commit().unwrap();
    db.flush().unwrap();
    drop(db);
    for lpid in drive.pages_with(b"LVAL") {
        drive.damage(lpid, |b| {
            if b[24] == 60 {
                b[8] ^= 1;
            }
        });
    }
    let db = open(&drive);
    let tree = db.tree("t").unwrap();
    let txn = db.begin().unwrap();
    for back in [false, true] {
        let range = if back { txn.scan_back::<&[u8]>(&tree, ..) } else { txn.scan::<&[u8]>(&tree, ..) };
        let mut range = range.unwrap();
        let before: Vec<u8> = if back { (61..100).rev().collect() } else { (0..60).collect() };
        for n in before {
            let (key, value) = range.next().unwrap().unwrap();
            assert_eq!((key, &value[..]), (&[n][..], &[n; 200][..]));
        }
        assert!(matches!(range.next(), Err(EngineError::BadTreePage { .. })), "back: {back}");
        assert!(range.next().is_err(), "it stays there");
    }
}
