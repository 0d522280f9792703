//! Sequences: no number is given twice, whatever the power does; and objects beside tables as transactions have them.

#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::random::Random;
use lode_command::Command;
use lode_engine::{
    Database, DatabaseOptions, Durability, EngineError, Layout, Object, ObjectKind, Relation, SequenceDef,
    ViewDef, ViewRead,
};
use lode_firmware::{DriveOptions, Unrecovered};
use simulated::{new_drive, opened};
use support::hooked::{Hooked, Hooks};
use support::*;

fn definition(id: u32) -> SequenceDef {
    SequenceDef {
        id,
        epoch: 0,
        declared: "bigint".into(),
        start: 1,
        first: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        cache: 1,
        owner: None,
    }
}

fn create(db: &Database, name: &str) -> SequenceDef {
    let mut txn = db.begin_write().unwrap();
    let def = definition(txn.new_object());
    txn.put_object(name, Object::Sequence(def.clone()));
    txn.commit().unwrap();
    def
}

fn sequence(db: &Database, name: &str) -> Option<SequenceDef> {
    match db.snapshot().unwrap().object(ObjectKind::Sequence, name) {
        Some(Object::Sequence(def)) => Some(def.clone()),
        _ => None,
    }
}

fn next(db: &Database, def: &SequenceDef) -> i64 {
    db.next_numbers("s", def, 1).unwrap().first
}

#[test]
fn no_number_is_given_twice_over_power_cuts() {
    for seed in 0..8 {
        let mut random = Random::of_seed(seed);
        let (drive, mut faults) = new_drive();
        let mut db = opened(drive);
        let def = create(&db, "s");
        db.create_table(table(Layout::Row), false).unwrap();
        let (mut given, mut key) = (BTreeSet::new(), 0);
        for _ in 0..3 {
            faults.cut_after(random.below(300));
            for _ in 0..600 {
                let count = if random.below(8) == 0 { random.below(3000) } else { 1 };
                let Ok(numbers) = db.next_numbers("s", &def, count) else { break };
                if faults.is_cut() {
                    break;
                }
                for n in 0..numbers.count as i64 {
                    assert!(given.insert(numbers.first + n), "seed {seed}: {}", numbers.first + n);
                }
                if random.below(5) == 0 {
                    let mut txn = db.begin_write().unwrap();
                    txn.set_durability(if random.below(2) == 0 {
                        Durability::Commit
                    } else {
                        Durability::None
                    });
                    let columns = columns_of(txn.snapshot(), "t", &[row(key)]);
                    txn.insert("t", columns).unwrap();
                    key += 1;
                    if txn.commit().is_err() {
                        break;
                    }
                }
            }
            faults.cut();
            drop(db);
            let (medium, restored) = faults.restored(seed).unwrap();
            faults = restored;
            db = opened(Unrecovered::new(medium, DriveOptions::default()).recover().unwrap());
            sound(&db);
            assert_eq!(sequence(&db, "s").as_ref(), Some(&def));
        }
    }
}

/// A reopened database goes on where it was closed, and a crash skips few numbers.
#[test]
fn a_closed_database_leaves_no_gap_and_a_crash_a_small_one() {
    let (drive, faults) = new_drive();
    let db = opened(drive);
    let def = create(&db, "s");
    assert_eq!((1..=40).map(|_| next(&db, &def)).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    db.flush().unwrap();
    drop(db);
    let (medium, faults) = faults.restored(1).unwrap();
    let db = opened(Unrecovered::new(medium, DriveOptions::default()).recover().unwrap());
    assert_eq!((db.last_number(&def), next(&db, &def)), ((40, true), 41));
    drop(db);
    let (medium, _) = faults.restored(1).unwrap();
    let db = opened(Unrecovered::new(medium, DriveOptions::default()).recover().unwrap());
    let after = next(&db, &def);
    assert!((42..42 + 64).contains(&after), "{after}");
}

#[derive(Default)]
struct Flushes(AtomicU64);

impl Hooks for Flushes {
    fn submit(&self, c: &Command) {
        if matches!(c, Command::Flush) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// While commits are durable anyway, numbers cost no flush of their own.
#[test]
fn commits_make_reservations_durable() {
    let (drive, _) = new_drive();
    let flushes = Arc::new(Flushes::default());
    let hooked = Hooked::new(drive, flushes.clone());
    let db = Database::open(Arc::new(hooked), DatabaseOptions::default()).unwrap();
    let def = create(&db, "s");
    let tree = db.create_tree("tree", false).unwrap();
    let before = flushes.0.load(Ordering::Relaxed);
    for n in 1..2000i64 {
        assert_eq!(next(&db, &def), n);
        let mut txn = db.begin().unwrap();
        txn.put(&tree, &n.to_be_bytes(), b"").unwrap();
        txn.commit().unwrap();
    }
    let flushes = flushes.0.load(Ordering::Relaxed) - before;
    assert!(flushes <= 1, "{flushes} flushes for 2,000 commits");
}

#[test]
fn a_sequence_ends_and_its_error_says_where() {
    let db = open(&drive::TestDrive::new());
    let mut txn = db.begin_write().unwrap();
    let def = SequenceDef { max: 3, ..definition(txn.new_object()) };
    txn.put_object("s", Object::Sequence(def.clone()));
    // Before the commit, the transaction that makes it takes numbers that a rollback forgets.
    assert_eq!(next(&db, &def), 1);
    txn.commit().unwrap();
    assert_eq!(db.next_numbers("s", &def, 9).unwrap().count, 2);
    let e = db.next_numbers("s", &def, 1).unwrap_err();
    assert_eq!(e.to_string(), "nextval: reached maximum value of sequence \"s\" (3)");
    db.set_number(&def, 2, false).unwrap();
    assert_eq!((next(&db, &def), next(&db, &def)), (2, 3));
    assert!(matches!(db.next_numbers("s", &def, 1), Err(EngineError::SequenceEnd { is_max: true, .. })));
}

/// A sequence that was never committed leaves its number to another, which begins at its own beginning.
#[test]
fn a_sequence_that_a_crash_undid_leaves_nothing_to_the_next_of_its_number() {
    let (drive, faults) = new_drive();
    let db = opened(drive);
    let first = create(&db, "first");
    next(&db, &first);
    let mut txn = db.begin_write().unwrap();
    txn.set_durability(Durability::None);
    let lost = definition(txn.new_object());
    txn.put_object("lost", Object::Sequence(lost.clone()));
    assert_eq!((1..=20).map(|_| next(&db, &lost)).collect::<Vec<_>>().last(), Some(&20));
    txn.commit().unwrap();
    faults.cut();
    drop(db);
    for seed in 0..20 {
        let (medium, _) = faults.restored(seed).unwrap();
        let db = opened(Unrecovered::new(medium, DriveOptions::default()).recover().unwrap());
        if sequence(&db, "lost").is_some() {
            continue;
        }
        let again = create(&db, "again");
        assert_eq!(next(&db, &again), 1, "seed {seed}");
    }
}

#[test]
fn a_restart_is_undone_with_its_transaction() {
    let db = open(&drive::TestDrive::new());
    let def = create(&db, "s");
    assert_eq!((1..=5).map(|_| next(&db, &def)).collect::<Vec<_>>().last(), Some(&5));
    let restarted = SequenceDef { epoch: 1, first: 100, ..def.clone() };
    let mut txn = db.begin_write().unwrap();
    let savepoint = txn.savepoint().unwrap();
    txn.put_object("s", Object::Sequence(restarted.clone()));
    assert_eq!(next(&db, &restarted), 100);
    txn.rollback_to(&savepoint);
    assert_eq!(txn.object(ObjectKind::Sequence, "s"), Some(&Object::Sequence(def.clone())));
    drop(txn);
    assert_eq!(next(&db, &def), 6);
    let mut txn = db.begin_write().unwrap();
    let restarted = SequenceDef { epoch: 1, first: 200, ..def.clone() };
    txn.put_object("s", Object::Sequence(SequenceDef { epoch: 2, ..restarted.clone() }));
    txn.commit().unwrap();
    assert_eq!(next(&db, &SequenceDef { epoch: 2, ..restarted }), 200);
    // A transaction that began before the restart goes on behind the numbers that were given.
    assert_eq!(next(&db, &def), 7);
}

#[test]
fn objects_are_there_again_after_a_reopening_and_conflict_by_name() {
    let drive = drive::TestDrive::new();
    let db = open(&drive);
    let view = |query: &str| {
        let columns = vec![("a".into(), "integer".into())];
        let read = ViewRead {
            name: "t".into(),
            relation: Relation::Table(7),
            columns: vec![(0, "a".into())],
            needs: vec![0],
        };
        Object::View(ViewDef { id: 8, query: query.into(), columns, reads: vec![read] })
    };
    let put = |db: &Database, name: &str, object: Object| {
        let mut txn = db.begin_write().unwrap();
        txn.put_object(name, object);
        txn
    };
    put(&db, "v", view("SELECT 1")).commit().unwrap();
    put(&db, "x", Object::Schema).commit().unwrap();
    let (mine, other) = (put(&db, "v", view("SELECT 2")), put(&db, "w", view("SELECT 3")));
    let late = put(&db, "v", view("SELECT 4"));
    mine.commit().unwrap();
    other.commit().unwrap();
    assert!(matches!(late.commit(), Err(EngineError::Conflict { .. })));
    let db = open(&drive);
    let snapshot = db.snapshot().unwrap();
    assert_eq!(snapshot.object(ObjectKind::View, "v"), Some(&view("SELECT 2")));
    assert_eq!(snapshot.objects(ObjectKind::View).map(|(name, _)| name).collect::<Vec<_>>(), ["v", "w"]);
    let mut txn = db.begin_write().unwrap();
    assert_eq!(txn.drop_object(ObjectKind::Schema, "x"), Some(Object::Schema));
    assert_eq!(txn.drop_object(ObjectKind::Schema, "x"), None);
    assert_eq!(txn.current().unwrap().object(ObjectKind::Schema, "x"), None);
    txn.commit().unwrap();
    assert_eq!(snapshot.object(ObjectKind::Schema, "x"), Some(&Object::Schema), "an older snapshot");
    assert_eq!(db.snapshot().unwrap().object(ObjectKind::Schema, "x"), None);
}
