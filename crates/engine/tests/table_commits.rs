//! When commits of tables are durable, and when they show: on a real drive whose power goes.

#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lode_base::random::mix;
use lode_command::Command;
use lode_engine::{Database, DatabaseOptions, Durability, EngineError, IndexDef, IndexKind, Layout, Tree};
use lode_firmware::{DriveOptions, Unrecovered};
use lode_flash::Faults;
use simulated::{new_drive, opened};
use support::hooked::{Hooked, Hooks};
use support::*;

/// Power goes, if it is not gone yet, and comes back.
fn after_a_cut(db: Database, faults: &Faults, seed: u64) -> Database {
    if !faults.is_cut() {
        faults.cut();
    }
    drop(db);
    let (medium, _) = faults.restored(seed).unwrap();
    let db = opened(Unrecovered::new(medium, DriveOptions::default()).recover().unwrap());
    sound(&db);
    db
}

/// A table with a key, and an index that each commit changes too.
fn table_with_index(db: &Database) {
    db.create_table(table(Layout::Row), false).unwrap();
    let kind = IndexKind::Btree { unique: true };
    let index = IndexDef::new("by_key", "t", vec![0], kind);
    db.create_index(index, false).unwrap();
}

fn insert_with(db: &Database, key: i64, d: Durability) -> Result<(), EngineError> {
    let mut txn = db.begin_write()?;
    txn.set_durability(d);
    let columns = columns_of(txn.snapshot(), "t", &[row(key)]);
    txn.insert("t", columns)?;
    txn.commit().map(drop)
}

fn shown(db: &Database) -> BTreeSet<i64> {
    keys(&db.snapshot().unwrap(), "t").into_iter().collect()
}

#[test]
fn what_need_not_be_durable_shows_at_once_and_a_crash_leaves_a_prefix_of_it() {
    let mut left = BTreeSet::new();
    for seed in 0..40 {
        let (drive, faults) = new_drive();
        let db = opened(drive);
        table_with_index(&db);
        let mode = if seed % 2 == 0 { Durability::None } else { Durability::Group };
        for key in 0..20 {
            insert_with(&db, key, mode).unwrap();
            assert_eq!(shown(&db).len() as i64, key + 1);
        }
        let db = after_a_cut(db, &faults, seed);
        let there = shown(&db);
        assert!(there.iter().copied().eq(0..there.len() as i64), "seed {seed}: {there:?}");
        left.insert(there.len());
    }
    assert!(left.len() > 3 && *left.first().unwrap() < 20, "{left:?}");
}

#[test]
fn a_sync_or_a_durable_commit_makes_all_before_it_durable() {
    for seed in 0..20 {
        let (drive, faults) = new_drive();
        let db = opened(drive);
        table_with_index(&db);
        let tree = db.create_tree("tree", false).unwrap();
        (0..10).for_each(|key| insert_with(&db, key, Durability::None).unwrap());
        match seed % 4 {
            0 => db.sync().unwrap(),
            1 => insert_with(&db, 10, Durability::Commit).unwrap(),
            2 => db.flush().and_then(|()| db.sync()).unwrap(),
            _ => {
                let mut txn = db.begin().unwrap();
                txn.put(&tree, b"key", b"value").unwrap();
                txn.commit().unwrap();
            }
        }
        (20..25).for_each(|key| insert_with(&db, key, Durability::None).unwrap());
        let db = after_a_cut(db, &faults, seed);
        let there = shown(&db);
        assert!((0..10).all(|key| there.contains(&key)), "seed {seed}: {there:?}");
    }
}

/// What a thread was told, and what anybody saw, is there after a crash.
#[test]
fn threads_that_commit_together_share_flushes_and_show_nothing_that_a_crash_takes() {
    const THREADS: i64 = 6;
    let mut told = 0;
    for seed in 0..40u64 {
        let (drive, faults) = new_drive();
        let db = opened(drive.clone());
        table_with_index(&db);
        let tree = db.create_tree("tree", false).unwrap();
        faults.cut_after(40 + mix(seed) % 400);
        let over = AtomicBool::new(false);
        let (acknowledged, seen) = std::thread::scope(|s| {
            let inserts = |n: i64| {
                let (db, faults, tree) = (&db, &faults, &tree);
                s.spawn(move || {
                    let mut acknowledged = Vec::new();
                    for i in 0..40 {
                        let key = i * THREADS + n;
                        if insert_with(db, key, Durability::Commit).is_err() || faults.is_cut() {
                            break;
                        }
                        assert!(shown(db).contains(&key), "a thread sees what it committed");
                        acknowledged.push(key);
                        if n == 0 {
                            // Commits to trees that need not be durable go between the others.
                            let mut txn = db.begin().unwrap();
                            txn.set_durability(Durability::None);
                            txn.put(tree, &key.to_be_bytes(), b"value").unwrap();
                            if txn.commit().is_err() {
                                break;
                            }
                            let found = db.begin().unwrap().get(tree, &key.to_be_bytes());
                            assert!(found.is_err() || found.unwrap().is_some());
                        }
                    }
                    acknowledged
                })
            };
            let threads: Vec<_> = (0..THREADS).map(inserts).collect();
            let reader = s.spawn(|| {
                let mut seen = BTreeSet::new();
                while !over.load(Ordering::Relaxed) {
                    let now = shown(&db);
                    if faults.is_cut() {
                        break;
                    }
                    seen.extend(now);
                }
                seen
            });
            let acknowledged: Vec<i64> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
            over.store(true, Ordering::Relaxed);
            (acknowledged, reader.join().unwrap())
        });
        drop(drive);
        let db = after_a_cut(db, &faults, seed);
        let there = shown(&db);
        let lost: Vec<_> = acknowledged.iter().chain(&seen).filter(|k| !there.contains(k)).collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} of {} are gone", acknowledged.len());
        told += acknowledged.len();
        // It goes on.
        insert_with(&db, 1_000_000, Durability::Commit).unwrap();
    }
    assert!(told > 200, "{told} commits were acknowledged");
}

/// Tells when the drive has answered, and waits a little before the host learns of it.
#[derive(Default)]
struct Telling(Mutex<Option<Sender<()>>>);

impl Hooks for Telling {
    fn after(&self) {
        if let Some(told) = &*self.0.lock().unwrap() {
            told.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

/// The host ends in the middle of a batch, once it is told to.
#[derive(Default)]
struct Ending(AtomicBool);

impl Hooks for Ending {
    fn submit(&self, c: &Command) {
        if matches!(c, Command::Write(_)) && self.0.swap(false, Ordering::SeqCst) {
            // Others come to wait for this one.
            std::thread::sleep(Duration::from_millis(50));
            panic!("the host ends here, as the test wants it to");
        }
    }
}

#[test]
fn a_thread_that_ends_in_the_middle_of_a_commit_leaves_nobody_waiting_and_nothing_is_committed_after_it() {
    // Found by a review: those whose commits it carried out waited for ever, and the next commit went on from wherever it was.
    let ends = Arc::new(Ending::default());
    let device = Arc::new(Hooked::new(new_drive().0, ends.clone()));
    let db = Database::open(device, DatabaseOptions::default()).unwrap();
    let tree = db.create_tree("tree", false).unwrap();
    let put = |db: &Database, tree: &Tree, n: u64| {
        let mut txn = db.begin().unwrap();
        txn.put(tree, &n.to_be_bytes(), b"v").unwrap();
        txn.commit().map(drop)
    };
    put(&db, &tree, 0).unwrap();
    ends.0.store(true, Ordering::SeqCst);
    let (done, results) = mpsc::channel();
    let all: Vec<_> = (1..6)
        .map(|n| {
            let (db, tree, done) = (db.clone(), tree.clone(), done.clone());
            std::thread::spawn(move || done.send(put(&db, &tree, n)).unwrap())
        })
        .collect();
    drop(done);
    for _ in 0..4 {
        let result = results.recv_timeout(Duration::from_secs(30)).expect("nobody waits for ever");
        assert!(matches!(result, Err(EngineError::Halted(_))), "{result:?}");
    }
    assert_eq!(all.into_iter().filter_map(|t| t.join().err()).count(), 1);
    assert!(matches!(put(&db, &tree, 9), Err(EngineError::Halted(_))));
    let txn = db.begin().unwrap();
    assert_eq!(txn.get(&tree, &0u64.to_be_bytes()).unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_commit_with_entries_does_not_wait_for_as_long_as_others_commit_to_trees() {
    // Found by a review: it waited for a moment in which nobody else did.
    const COMMITS: u64 = 60;
    let (telling, heard) = (Arc::new(Telling::default()), mpsc::channel());
    let device = Arc::new(Hooked::new(new_drive().0, telling.clone()));
    let db = Database::open(device, DatabaseOptions::default()).unwrap();
    table_with_index(&db);
    let tree = db.create_tree("tree", false).unwrap();
    let begun = AtomicU64::new(0);
    std::thread::scope(|s| {
        *telling.0.lock().unwrap() = Some(heard.0);
        let (db, tree, begun) = (&db, &tree, &begun);
        // Each answer of the drive has one more commit wait for its turn.
        s.spawn(move || {
            for n in 0..COMMITS {
                if heard.1.recv().is_err() {
                    return;
                }
                begun.fetch_add(1, Ordering::Relaxed);
                s.spawn(move || {
                    let mut txn = db.begin().unwrap();
                    txn.put(tree, &n.to_be_bytes(), b"v").unwrap();
                    txn.commit().unwrap();
                });
            }
            heard.1.iter().for_each(drop);
        });
        insert_with(db, 1, Durability::Commit).unwrap();
        let waited = begun.load(Ordering::Relaxed);
        *telling.0.lock().unwrap() = None;
        assert!((1..COMMITS / 2).contains(&waited), "{waited} commits to trees came before it");
    });
    sound(&db);
}
