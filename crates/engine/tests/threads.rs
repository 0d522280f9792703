//! Trees and tables that threads use at once, with little memory, on a drive that answers when it likes: each
//! test knows what it must be shown.
//!
//! `LODE_SEED=7` tries that seed alone, `LODE_SEEDS=50` as many, from 1 on. What the threads do is the
//! seed's, when they do it is not. The drive pauses where the seed is odd: commands overlap then, and else
//! what is in memory does.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lode_base::Geometry;
use lode_base::TableId;
use lode_base::random::{Random, mix};
use lode_command::{Answer, Device};
use lode_engine::{
    Cursor, Database, Durability, EngineError, IndexDef, IndexKind, Layout, Snapshot, Transaction, Tree,
    Value,
};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_page::{self as page, DataType};
use lode_program::{CompareOp, Expr, Program};
use parking_lot::Mutex;
use support::drive::TestDrive;
use support::hooked::{Hooked, Hooks};
use support::{columns_of, keys, read, row, scan, small, table};

type Model = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// A drive that lets other threads run before and after what it does.
struct Slow {
    commands: AtomicU64,
}

impl Slow {
    fn pause(&self) {
        match mix(self.commands.fetch_add(1, Ordering::Relaxed)) % 8 {
            0 => std::thread::sleep(Duration::from_micros(20)),
            1..4 => std::thread::yield_now(),
            _ => {}
        }
    }
}

impl Hooks for Slow {
    fn before(&self) {
        self.pause();
    }

    fn after(&self) {
        self.pause();
    }
}

/// Tells the others that it is over, also when a thread that they wait for panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|n| n.parse().expect("a number"))
}

/// Runs a test with its seeds.
fn seeds(test: impl Fn(u64)) {
    match number("LODE_SEED") {
        Some(seed) => test(seed),
        None => (1..=number("LODE_SEEDS").unwrap_or(3)).for_each(test),
    }
}

fn open(drive: &(impl Device + Clone + 'static), seed: u64) -> Database {
    if seed.is_multiple_of(2) {
        return Database::open(Arc::new(drive.clone()), small()).unwrap();
    }
    let slow = Slow { commands: AtomicU64::new(seed << 32) };
    Database::open(Arc::new(Hooked::new(drive.clone(), Arc::new(slow))), small()).unwrap()
}

/// A value that tells whose it is, short or long.
fn value(random: &mut Random, whose: &[u64]) -> Arc<[u8]> {
    let whose: Vec<u8> = whose.iter().flat_map(|n| n.to_be_bytes()).collect();
    let times = [1, 1, 2, 5, 7, 40][random.below(6) as usize];
    whose.repeat(times).into()
}

fn first(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

fn durability(random: &mut Random) -> Durability {
    [Durability::Commit, Durability::Group, Durability::None][random.below(3) as usize]
}

/// What keeps a database going while others use it.
fn tend(db: &Database, random: &mut Random) -> Result<(), EngineError> {
    match random.below(6) {
        0 => db.sync()?,
        1 => db.flush()?,
        2 => db.clear_pool(),
        3 => drop(db.tree_stats()),
        _ => drop(db.work(1 << 20)),
    }
    std::thread::sleep(Duration::from_micros(random.below(400)));
    Ok(())
}

/// All of a tree, the one way or the other.
fn all(s: &Snapshot, tree: &Tree, back: bool) -> Result<Vec<(Vec<u8>, Value)>, EngineError> {
    let mut cursor =
        if back { s.range_back(tree, Unbounded, Unbounded)? } else { s.range(tree, Unbounded, Unbounded)? };
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        found.push((key.to_vec(), value));
    }
    Ok(found)
}

fn is_all(s: &Snapshot, tree: &Tree, model: &Model, back: bool) -> Result<(), EngineError> {
    let found = all(s, tree, back)?;
    assert_eq!(found.len(), model.len(), "keys at {}, back: {back}", s.csn());
    let mut expected: Vec<_> = model.iter().collect();
    if back {
        expected.reverse();
    }
    for ((key, value), (k, v)) in found.iter().zip(expected) {
        assert_eq!((key, &value[..]), (k, &v[..]), "at {}, back: {back}", s.csn());
    }
    Ok(())
}

/// A long scan of a snapshot, and what it must still meet.
struct Scan {
    cursor: Cursor,
    left: Vec<(Vec<u8>, Arc<[u8]>)>,
}

impl Scan {
    fn new(s: &Snapshot, tree: &Tree, model: &Model, back: bool) -> Result<Self, EngineError> {
        let mut left: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        if !back {
            left.reverse();
        }
        let cursor = match back {
            false => s.range(tree, Unbounded, Unbounded)?,
            true => s.range_back(tree, Unbounded, Unbounded)?,
        };
        Ok(Self { cursor, left })
    }

    fn step(&mut self) -> Result<(), EngineError> {
        let next = self.cursor.next()?;
        let expected = self.left.pop();
        assert_eq!(
            next.as_ref().map(|(k, v)| (*k, &v[..])),
            expected.as_ref().map(|(k, v)| (&k[..], &v[..]))
        );
        Ok(())
    }
}

/// Looks at what a reader keeps open.
fn look(
    random: &mut Random,
    txn: &Transaction,
    tree: &Tree,
    model: &Model,
    keys: u64,
) -> Result<(), EngineError> {
    match random.below(4) {
        0 => is_all(txn.snapshot(), tree, model, false),
        1 => is_all(txn.snapshot(), tree, model, true),
        way => {
            for _ in 0..20 {
                let key = key_of(random.below(keys));
                let found = match way {
                    2 => txn.get(tree, &key)?.map(|v| v.to_vec()),
                    _ => txn.get_with(tree, &key, <[u8]>::to_vec)?,
                };
                let expected = model.get(&key).map(|v| v.to_vec());
                assert_eq!(found, expected, "key {key:?} at {}, way {way}", txn.snapshot().csn());
            }
            Ok(())
        }
    }
}

/// Keys of which some share long beginnings, and some begin others.
fn key_of(k: u64) -> Vec<u8> {
    let mut key = vec![(k % 3) as u8; (k % 5) as usize * 4];
    key.extend_from_slice(&(k as u16).to_be_bytes());
    key
}

/// Nothing, where a snapshot may have become too old; panics at any other error.
fn unless_too_old<T>(may: bool, result: Result<T, EngineError>) -> Option<T> {
    match result {
        Ok(found) => Some(found),
        Err(EngineError::SnapshotTooOld) if may => None,
        Err(e) => panic!("{e}"),
    }
}

/// The drive may close the view of an idle database, which is found out when it is read.
fn sound(db: &Database, closes: bool) {
    let wrong = unless_too_old(closes, db.check()).unwrap_or_else(|| db.check().unwrap());
    assert_eq!(wrong, Vec::<String>::new());
}

const NEWEST: &[u8] = b"newest";

/// One thread commits, others keep snapshots and scans open that must go on to show what was there when they
/// began; memory is short, pages are freed and taken again. At the end the database is opened anew.
fn history(seed: u64, drive: &(impl Device + Clone + 'static), close_views: Option<&(dyn Fn() + Sync)>) {
    const KEYS: u64 = 120;
    const COMMITS: u64 = 200;
    let db = open(drive, seed);
    let tree = db.create_tree("t", false).unwrap();
    let states: Mutex<Vec<Arc<Model>>> = Mutex::new(vec![Arc::default()]);
    let (newest, durable, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let closes = close_views.is_some();
    std::thread::scope(|s| {
        let (db, tree, states, newest, durable, over) = (&db, &tree, &states, &newest, &durable, &over);
        for reader in 0..2 {
            s.spawn(move || {
                let random = &mut Random(mix(seed) + reader);
                let mut open: Vec<(Transaction, Arc<Model>, Vec<Scan>)> = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    if open.len() < 4 && random.below(3) == 0 {
                        let before = newest.load(Ordering::SeqCst);
                        let Some(txn) = unless_too_old(closes, db.begin()) else { continue };
                        let Some(at) = unless_too_old(closes, txn.get(tree, NEWEST)) else { continue };
                        let n = at.map_or(0, |v| first(&v));
                        assert!(n >= before, "{n} is shown, {before} was committed before");
                        let model = states.lock()[n as usize].clone();
                        open.push((txn, model, Vec::new()));
                    }
                    if open.is_empty() {
                        continue;
                    }
                    let at = random.below(open.len() as u64) as usize;
                    let (txn, model, scans) = &mut open[at];
                    let seen = match random.below(8) {
                        0 => Scan::new(txn.snapshot(), tree, model, random.below(2) == 0)
                            .map(|scan| scans.push(scan)),
                        1..5 => {
                            let steps = random.below(20);
                            scans.iter_mut().try_for_each(|scan| (0..steps).try_for_each(|_| scan.step()))
                        }
                        _ => look(random, txn, tree, model, KEYS),
                    };
                    let goes = if unless_too_old(closes, seen).is_none() { 3 } else { 12 };
                    if random.below(goes) == 0 {
                        drop(open.swap_remove(at));
                    }
                }
            });
        }
        s.spawn(move || {
            let random = &mut Random(mix(seed) + 7);
            while !over.load(Ordering::SeqCst) {
                unless_too_old(closes, tend(db, random));
                if let Some(close) = close_views.filter(|_| random.below(4) == 0) {
                    close();
                }
            }
        });
        let _ends = Ends(over);
        let random = &mut Random(mix(seed) + 8);
        let mut model = Model::new();
        for n in 1..=COMMITS {
            model.insert(NEWEST.to_vec(), value(random, &[n]));
            let mut changed = vec![NEWEST.to_vec()];
            // Now and then most keys go, or come.
            let (count, kept) = [(4, 2), (10, 2), (60, 1), (60, 4)][random.below(4) as usize];
            for _ in 0..count {
                let k = random.below(KEYS);
                let key = key_of(k);
                match random.below(5) < kept {
                    true => drop(model.insert(key.clone(), value(random, &[n, k]))),
                    false => drop(model.remove(&key)),
                }
                changed.push(key);
            }
            states.lock().push(Arc::new(model.clone()));
            let d = durability(random);
            loop {
                let txn = db.begin().and_then(|mut txn| {
                    for key in &changed {
                        match model.get(key) {
                            Some(v) => txn.put(tree, key, v)?,
                            None => txn.delete(tree, key)?,
                        }
                    }
                    txn.set_durability(d);
                    txn.commit()
                });
                if unless_too_old(closes, txn).is_some() {
                    break;
                }
            }
            newest.store(n, Ordering::SeqCst);
            if d == Durability::Commit {
                durable.store(n, Ordering::SeqCst);
            }
        }
    });
    sound(&db, closes);
    drop(db);
    let db = open(drive, seed);
    let (tree, s) = (db.tree("t").unwrap(), db.snapshot().unwrap());
    let n = s.get(&tree, NEWEST).unwrap().map_or(0, |v| first(&v));
    assert!(n >= durable.into_inner(), "{n} is there");
    is_all(&s, &tree, &states.lock()[n as usize], false).unwrap();
    sound(&db, false);
}

#[test]
fn snapshots_and_scans_that_stay_open_show_what_was_there_when_they_began() {
    seeds(|seed| history(seed, &TestDrive::new(), None));
}

#[test]
fn snapshots_whose_views_the_drive_closes_show_what_was_there_or_are_too_old() {
    seeds(|seed| {
        let drive = TestDrive::new();
        history(seed, &drive, Some(&|| drive.close_views()));
    });
}

#[test]
fn a_real_drive_of_few_views_shows_what_was_there_or_says_that_it_is_too_old() {
    seeds(|seed| {
        let options = DriveOptions { views_max: 3, ..DriveOptions::default() };
        let medium = Medium::memory(Geometry::file(1 << 30).unwrap());
        history(seed, &Drive::format(medium, options).unwrap(), Some(&|| {}));
    });
}

/// Money moves between trees, from keys that go to keys that come: whoever looks finds all of it. What a
/// thread was told is durable is there when the database is opened anew, with all that came before it.
fn transfers(seed: u64, fails: bool) {
    const TREES: usize = 3;
    const KEYS: u64 = 40;
    const EACH: u64 = 100;
    const TOTAL: u64 = TREES as u64 * KEYS * EACH;
    const WRITERS: u64 = 3;
    let drive = TestDrive::new();
    let db = open(&drive, seed);
    let name = |i: usize| format!("t{i}");
    let trees: Vec<Tree> = (0..TREES).map(|i| db.create_tree(&name(i), false).unwrap()).collect();
    let log = db.create_tree("log", false).unwrap();
    let mut txn = db.begin().unwrap();
    let all_keys = || (0..TREES).flat_map(|t| (0..KEYS).map(move |k| (t, k)));
    all_keys().for_each(|(t, k)| txn.put(&trees[t], &key_of(k), &EACH.to_be_bytes()).unwrap());
    txn.commit().unwrap();
    let over = AtomicBool::new(false);
    let excused = |e: &EngineError| {
        matches!(e, EngineError::Conflict { .. }) || fails && matches!(e, EngineError::OutOfSpace { .. })
    };
    let sum = |s: &Snapshot, trees: &[Tree], way: u64| -> Result<u64, EngineError> {
        let mut sum = 0;
        for tree in trees {
            match way {
                0 | 1 => sum += all(s, tree, way == 1)?.iter().map(|(_, v)| first(v)).sum::<u64>(),
                _ => {
                    for key in (0..KEYS * 2).map(key_of) {
                        let found = match way {
                            2 => s.get(tree, &key)?.map(|v| first(&v)),
                            _ => s.get_with(tree, &key, first)?,
                        };
                        sum += found.unwrap_or(0);
                    }
                }
            }
        }
        Ok(sum)
    };
    // What each writer was told: the last commit, and the last one that is durable.
    let told: Vec<(u64, u64)> = std::thread::scope(|s| {
        let (db, trees, log, over, drive) = (&db, &trees, &log, &over, &drive);
        for reader in 0..2 {
            s.spawn(move || {
                let random = &mut Random(mix(seed) + reader);
                let mut open: Vec<Snapshot> = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    open.push(db.snapshot().unwrap());
                    for s in &open {
                        let way = random.below(4);
                        assert_eq!(sum(s, trees, way).unwrap(), TOTAL, "way {way} at {}", s.csn());
                    }
                    if open.len() > 4 {
                        open.swap_remove(random.below(4) as usize);
                    }
                }
            });
        }
        s.spawn(move || {
            let random = &mut Random(mix(seed) + 5);
            while !over.load(Ordering::SeqCst) {
                if let Err(e) = tend(db, random) {
                    assert!(excused(&e), "{e}");
                }
                if fails {
                    drive.fail_after((random.below(3) == 0).then(|| random.below(3) as u32));
                }
            }
            drive.fail_after(None);
        });
        let writer = |w: u64| {
            s.spawn(move || {
                let random = &mut Random(mix(seed) + 100 + w);
                let (mut last, mut durable, mut open) = (0, 0, Vec::new());
                for n in 1..=150 {
                    let mut txn = db.begin().unwrap();
                    // The log tells what was committed: a commit that failed must not be in it.
                    let logged = txn.get(log, &w.to_be_bytes()).unwrap().map_or(0, |v| first(&v));
                    assert!(open.is_empty() && logged == last || !open.is_empty() && logged <= last);
                    let tree = |random: &mut Random| &trees[random.below(TREES as u64) as usize];
                    let mut moved = |txn: &mut Transaction| {
                        let (from, to) = (tree(random), tree(random));
                        let (a, b) = (key_of(random.below(KEYS * 2)), key_of(random.below(KEYS * 2)));
                        let Some(has) = txn.get_with(from, &a, first).unwrap() else { return };
                        let moves = if random.below(3) == 0 { has } else { random.below(has + 1) };
                        match has == moves {
                            true => txn.delete(from, &a).unwrap(),
                            false => txn.put(from, &a, &value(random, &[has - moves])).unwrap(),
                        }
                        let had = txn.get(to, &b).unwrap().map_or(0, |v| first(&v));
                        txn.put(to, &b, &value(random, &[had + moves])).unwrap();
                    };
                    moved(&mut txn);
                    let save = txn.savepoint();
                    moved(&mut txn);
                    if n % 3 == 0 {
                        txn.rollback_to(save);
                    }
                    txn.put(log, &w.to_be_bytes(), &value(random, &[n])).unwrap();
                    let d = durability(random);
                    txn.set_durability(d);
                    open.push((n, d, txn));
                    // Some go together: the second of them conflicts.
                    if random.below(4) == 0 {
                        continue;
                    }
                    let (ns, txns): (Vec<_>, Vec<_>) = open.drain(..).map(|(n, d, t)| ((n, d), t)).unzip();
                    for ((n, d), done) in ns.into_iter().zip(db.commit_all(txns)) {
                        match done {
                            Ok(_) => {
                                last = n;
                                durable = if d == Durability::Commit { n } else { durable };
                            }
                            Err(e) => assert!(excused(&e), "{e}"),
                        }
                    }
                }
                (last, durable)
            })
        };
        let _ends = Ends(over);
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        writers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    sound(&db, false);
    drop(db);
    let db = open(&drive, seed);
    let trees: Vec<Tree> = (0..TREES).map(|i| db.tree(&name(i)).unwrap()).collect();
    let s = db.snapshot().unwrap();
    (0..4).for_each(|way| assert_eq!(sum(&s, &trees, way).unwrap(), TOTAL, "way {way}"));
    for (w, (last, durable)) in told.into_iter().enumerate() {
        let logged = s.get(&log, &(w as u64).to_be_bytes()).unwrap().map_or(0, |v| first(&v));
        assert!((durable..=last).contains(&logged), "{logged} of {last}, {durable} is durable");
    }
    sound(&db, false);
}

#[test]
fn money_that_moves_between_trees_is_all_there_at_every_snapshot() {
    seeds(|seed| transfers(seed, false));
}

#[test]
fn money_is_all_there_while_batches_fail() {
    seeds(|seed| transfers(seed, true));
}

/// Trees come, by commits or by loads, and go; their extents are handed out again. Each is of one mark, which
/// no other has.
fn come_and_go(seed: u64, closes: bool) {
    const THREADS: u64 = 2;
    let drive = TestDrive::new();
    let db = open(&drive, seed);
    let marks: Mutex<HashMap<TableId, u64>> = Mutex::default();
    let (next_mark, over) = (AtomicU64::new(1), AtomicBool::new(false));
    // All entries of a tree are of its mark and of one commit, and there are as many as they say.
    let seen = |s: &Snapshot, tree: &Tree, way: u64| -> Result<(), EngineError> {
        let found: Vec<(Vec<u8>, Value)> = match way {
            0 | 1 => all(s, tree, way == 1)?,
            _ => {
                let mut found = Vec::new();
                for key in (0..200).map(key_of) {
                    let value = match way {
                        2 => s.get(tree, &key)?,
                        _ => s.get_with(tree, &key, Value::copy_from)?,
                    };
                    found.extend(value.map(|v| (key, v)));
                }
                found
            }
        };
        let Some((_, one)) = found.first() else { return Ok(()) };
        let (mark, head) = (first(one), one[..24].to_vec());
        assert_eq!(*marks.lock().entry(tree.id()).or_insert(mark), mark, "a page of another tree");
        assert!(found.iter().all(|(_, v)| v[..24] == head && v.chunks(24).all(|c| c == head)), "way {way}");
        let keys = first(&head[16..]).min(if way < 2 { u64::MAX } else { 200 });
        assert_eq!(keys, found.len() as u64, "keys of {}, way {way}", tree.name());
        Ok(())
    };
    std::thread::scope(|s| {
        let (db, next_mark, over, seen, drive) = (&db, &next_mark, &over, &seen, &drive);
        for reader in 0..2 {
            s.spawn(move || {
                let random = &mut Random(mix(seed) + reader);
                let mut open: Vec<Snapshot> = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    open.extend(unless_too_old(closes, db.snapshot()));
                    for s in &open {
                        // Those that are too old, too: they could meet what came later.
                        for t in s.trees() {
                            unless_too_old(closes, seen(s, t, random.below(4)));
                        }
                    }
                    if open.len() > 5 {
                        open.swap_remove(random.below(6) as usize);
                    }
                }
            });
        }
        s.spawn(move || {
            let random = &mut Random(mix(seed) + 5);
            while !over.load(Ordering::SeqCst) {
                unless_too_old(closes, tend(db, random));
                if closes && random.below(3) == 0 {
                    drive.close_views();
                }
            }
        });
        let changes = |w: u64| {
            s.spawn(move || {
                let random = &mut Random(mix(seed) + 100 + w);
                let name = format!("t{w}");
                for _ in 0..12 {
                    let mark = next_mark.fetch_add(1, Ordering::Relaxed);
                    // Sometimes more than an extent has pages for.
                    let keys = if random.below(16) == 0 { 1500 } else { 20 + random.below(180) };
                    let entry =
                        |n: u64, k: u64, random: &mut Random| (key_of(k), value(random, &[mark, n, keys]));
                    let tree = if random.below(2) == 0 {
                        let mut entries: Model = (0..keys).map(|k| entry(0, k, random)).collect();
                        let mut load = db.load_tree(&name).unwrap();
                        load.extend(&entries).unwrap();
                        if random.below(4) == 0 {
                            drop(load);
                            load = db.load_tree(&name).unwrap();
                            entries.extend((0..keys).map(|k| entry(0, k, random)));
                            load.extend(&entries).unwrap();
                        }
                        match unless_too_old(closes, load.finish()) {
                            Some(tree) => tree,
                            None => continue,
                        }
                    } else {
                        let Some(tree) = unless_too_old(closes, db.create_tree(&name, false)) else {
                            continue;
                        };
                        tree
                    };
                    for n in 1..random.below(5) {
                        let done = db.begin().and_then(|mut txn| {
                            for k in 0..keys {
                                let (key, value) = entry(n, k, random);
                                txn.put(&tree, &key, &value)?;
                            }
                            txn.set_durability(durability(random));
                            txn.commit()
                        });
                        unless_too_old(closes, done);
                    }
                    while unless_too_old(closes, db.drop_tree(&name, false)).is_none() {}
                    let late = db.begin().and_then(|t| t.get(&tree, &key_of(1)));
                    assert!(matches!(late, Err(EngineError::NoSuchTree(_) | EngineError::SnapshotTooOld)));
                }
            })
        };
        let _ends = Ends(over);
        let threads: Vec<_> = (0..THREADS).map(changes).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
    sound(&db, closes);
    drop(db);
    let db = open(&drive, seed);
    assert_eq!(db.snapshot().unwrap().trees().count(), 0);
    sound(&db, false);
}

#[test]
fn a_tree_that_was_dropped_is_seen_whole_by_whoever_saw_it() {
    seeds(|seed| come_and_go(seed, false));
}

#[test]
fn nobody_sees_pages_of_a_tree_that_came_where_another_was() {
    seeds(|seed| come_and_go(seed, true));
}

/// An old snapshot keeps the versions that it alone has, not all that others read meanwhile.
#[test]
fn memory_stays_within_its_bounds_while_an_old_snapshot_is_open() {
    let drive = TestDrive::new();
    let db = open(&drive, 1);
    let tree = db.create_tree("t", false).unwrap();
    let commit = |from: u64, to: u64| {
        let mut txn = db.begin().unwrap();
        (from..to).for_each(|k| txn.put(&tree, &k.to_be_bytes(), &[7; 200]).unwrap());
        txn.commit().unwrap();
    };
    (0..50).for_each(|n| commit(n * 40, n * 40 + 40));
    db.flush().unwrap();
    let old = db.snapshot().unwrap();
    commit(0, 1);
    db.flush().unwrap();
    let all = all(&db.snapshot().unwrap(), &tree, false).unwrap();
    assert_eq!(all.len(), 2000);
    let held = db.tree_stats().held_bytes;
    assert!(held < 64 << 10, "{held} bytes in memory");
    drop(old);
}

const KEPT: i64 = 5;

/// The rows of a writer that a scan finds, and the last of them.
fn rows_of(found: &[i64], writer: i64, writers: i64) -> i64 {
    let mut own: Vec<i64> = found.iter().filter(|k| **k % writers == writer).map(|k| k / writers).collect();
    own.sort_unstable();
    let last = own.last().copied().unwrap_or(0);
    assert!(own.iter().copied().eq((last - KEPT + 1).max(1)..=last), "rows {own:?} of writer {writer}");
    last
}

/// Each thread puts a row in and takes one out with one commit, and then tells a tree; others look by scans
/// of the drive, through the pool, and by an index.
fn rows_and_trees(seed: u64) {
    const WRITERS: i64 = 3;
    const COMMITS: i64 = 80;
    let drive = TestDrive::new();
    let db = open(&drive, seed);
    db.create_table(table(Layout::Row), false).unwrap();
    let kind = IndexKind::Btree { unique: true };
    let index = IndexDef::new("by_key", "t", vec![0], kind);
    db.create_index(index, false).unwrap();
    let tree = db.create_tree("told", false).unwrap();
    let over = AtomicBool::new(false);
    let by_index = |s: &Snapshot, key: i64| {
        let t = s.table("t").unwrap();
        let is = Expr::Const(page::Value::Int(key), DataType::BigInt);
        let filter = Expr::compare(CompareOp::Eq, Expr::Column(0), is);
        let pages = s.index_pages(&t, &filter, u64::MAX).unwrap().expect("there is an index").pages;
        let program = Program::check(t.schema().clone(), Some(filter), vec![0], false).unwrap();
        let mut scan = s.scan(&t, pages, Arc::new(program), Answer::Rows, None).unwrap();
        let mut rows = 0;
        while let Some(unit) = scan.next().unwrap() {
            rows += unit.pages.iter().map(|p| p.rows).sum::<u32>();
        }
        rows
    };
    let seen = |s: &Snapshot, random: &mut Random| {
        let found = keys(s, "t");
        for w in 0..WRITERS {
            let last = rows_of(&found, w, WRITERS);
            let told = s.get(&tree, &w.to_be_bytes()).unwrap().map_or(0, |v| first(&v) as i64);
            assert!(told == last || told == last - 1, "{told} told, {last} there, of writer {w}");
        }
        assert_eq!(read(s, "t").len(), found.len(), "through the pool");
        for _ in 0..10 {
            let key = random.below((WRITERS * (COMMITS + 1)) as u64) as i64;
            assert_eq!(by_index(s, key), u32::from(found.contains(&key)), "key {key}");
        }
    };
    std::thread::scope(|s| {
        let (db, tree, over, seen) = (&db, &tree, &over, &seen);
        s.spawn(move || {
            let random = &mut Random(mix(seed));
            let mut open: Vec<Snapshot> = Vec::new();
            while !over.load(Ordering::SeqCst) {
                open.push(db.snapshot().unwrap());
                open.iter().for_each(|s| seen(s, random));
                if open.len() > 3 {
                    open.swap_remove(random.below(4) as usize);
                }
            }
        });
        s.spawn(move || {
            let random = &mut Random(mix(seed) + 5);
            while !over.load(Ordering::SeqCst) {
                tend(db, random).unwrap();
            }
        });
        let writer = |w: i64| {
            s.spawn(move || {
                let random = &mut Random(mix(seed) + 100 + w as u64);
                for n in 1..=COMMITS {
                    let d = durability(random);
                    loop {
                        let mut txn = db.begin_write().unwrap();
                        let rows = scan(txn.snapshot(), "t");
                        let old = row(WRITERS * (n - KEPT) + w);
                        let old: Vec<_> = rows.iter().filter(|r| r.1 == old).map(|r| r.0).collect();
                        assert_eq!(old.len(), usize::from(n > KEPT), "what a thread committed is there");
                        let new = columns_of(txn.snapshot(), "t", &[row(WRITERS * n + w)]);
                        txn.insert("t", new).unwrap();
                        txn.delete("t", &old).unwrap();
                        txn.set_durability(d);
                        match txn.commit() {
                            Ok(_) => break,
                            Err(EngineError::Conflict { .. }) => {}
                            Err(e) => panic!("{e}"),
                        }
                    }
                    let mut txn = db.begin().unwrap();
                    txn.put(tree, &w.to_be_bytes(), &value(random, &[n as u64])).unwrap();
                    txn.set_durability(durability(random));
                    txn.commit().unwrap();
                }
            })
        };
        let _ends = Ends(over);
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
    });
    sound(&db, false);
    db.sync().unwrap();
    drop(db);
    let db = open(&drive, seed);
    seen(&db.snapshot().unwrap(), &mut Random(seed));
    sound(&db, false);
}

#[test]
fn rows_their_index_and_what_a_tree_tells_of_them_are_of_one_moment() {
    seeds(rows_and_trees);
}

/// Loads do not wait for a check, nor a check for them: extents come, and go again, while it looks at whose
/// they are.
#[test]
fn a_check_finds_nothing_wrong_while_others_load() {
    seeds(|seed| {
        let db = open(&TestDrive::new(), seed);
        db.create_table(table(Layout::Column), false).unwrap();
        let (over, loads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|s| {
            let (db, over, loads) = (&db, &over, &loads);
            let _ends = Ends(over);
            s.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    drop(db.load_tree("loaded").unwrap());
                    loads.fetch_add(1, Ordering::SeqCst);
                }
            });
            s.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let mut txn = db.begin_write().unwrap();
                    let rows = columns_of(txn.snapshot(), "t", &[row(1)]);
                    txn.load("t", rows).unwrap();
                }
            });
            while loads.load(Ordering::SeqCst) < 100 {
                sound(db, false);
            }
        });
    });
}

/// What a thread was told before it committed to a table is there wherever that commit is, though it did not
/// ask for it to be durable.
#[test]
fn a_commit_to_a_table_is_not_there_without_commits_to_trees_before_it() {
    const WRITERS: i64 = 3;
    seeds(|seed| {
        let drive = TestDrive::new();
        let db = open(&drive, seed);
        db.create_table(table(Layout::Row), false).unwrap();
        let tree = db.create_tree("t", false).unwrap();
        std::thread::scope(|s| {
            for w in 0..WRITERS {
                let (db, tree) = (&db, &tree);
                s.spawn(move || {
                    let random = &mut Random(mix(seed) + w as u64);
                    for n in 1..=40 {
                        let mut txn = db.begin().unwrap();
                        txn.put(tree, &w.to_be_bytes(), &value(random, &[n as u64])).unwrap();
                        txn.set_durability(durability(random));
                        txn.commit().unwrap();
                        let mut txn = db.begin_write().unwrap();
                        let new = columns_of(txn.snapshot(), "t", &[row(WRITERS * n + w)]);
                        txn.insert("t", new).unwrap();
                        txn.set_durability(durability(random));
                        txn.commit().unwrap();
                    }
                });
            }
        });
        drop(db);
        let db = open(&drive, seed);
        let s = db.snapshot().unwrap();
        for w in 0..WRITERS {
            let told =
                s.get(&db.tree("t").unwrap(), &w.to_be_bytes()).unwrap().map_or(0, |v| first(&v) as i64);
            let there = keys(&s, "t").into_iter().filter(|k| k % WRITERS == w).max().unwrap_or(0) / WRITERS;
            assert!(told >= there, "row {there} is there, {told} was told before, writer {w}");
        }
    });
}
