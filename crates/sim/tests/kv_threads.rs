//! Conflicting transactions on real threads, in one engine on one drive. Their history satisfies snapshot isolation,
//! and the final state holds everything that was committed. `LODE_ROUNDS=200` runs more rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::Geometry;
use lode_base::random::mix;
use lode_engine::{Database, DatabaseOptions, Durability, EngineError, Transaction as Txn, Tree};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_sim::history::{History, Op, Options, Outcome, Transaction};

/// The number of histories in an ordinary run.
const ROUNDS: u64 = 12;
const THREADS: u64 = 4;
const TRANSACTIONS: u64 = 120;
const KEYS: u64 = 12;

fn database(round: u64) -> Database {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 128).unwrap();
    let (medium, _) = Medium::simulated(geometry);
    let drive = Drive::format(medium, DriveOptions::default()).unwrap();
    let options = DatabaseOptions {
        frame_bytes: if round.is_multiple_of(2) { 8 << 10 } else { 1 << 20 },
        node_bytes: 256,
        value_page_bytes_min: 64,
        write_back_bytes: 4 << 10,
        redo_bytes_max: 32 << 10,
        ..DatabaseOptions::default()
    };
    let database = Database::open(Arc::new(drive), options).unwrap();
    let modes = [Durability::Commit, Durability::Group, Durability::None];
    database.set_durability(modes[(round % 3) as usize]);
    database
}

/// The reads and writes of a transaction. Even keys are registers, odd keys are lists.
fn work(txn: &mut Txn, tree: &Tree, seed: u64, numbers: &AtomicU64) -> Result<Vec<Op>, EngineError> {
    let mut ops = Vec::new();
    for i in 0..1 + mix(seed) % 6 {
        let r = mix(seed.wrapping_mul(31).wrapping_add(i));
        let (key, writes) = (r % KEYS, (r >> 32).is_multiple_of(2));
        let bytes = key.to_be_bytes();
        let found = txn.get(tree, &bytes)?;
        let values: Vec<u64> = found
            .iter()
            .flat_map(|v| {
                v.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect::<Vec<_>>()
            })
            .collect();
        let value = numbers.fetch_add(1, Ordering::Relaxed);
        match (key % 2, writes) {
            (1, _) => {
                ops.push(Op::ReadList { list: key, values: values.clone() });
                if writes {
                    let all = [values, vec![value]].concat();
                    let all: Vec<u8> = all.iter().flat_map(|v| v.to_le_bytes()).collect();
                    txn.put(tree, &bytes, &all)?;
                    ops.push(Op::Append { list: key, value });
                }
            }
            (_, false) => ops.push(Op::Read { register: key, value: values.first().copied() }),
            (_, true) if r >> 60 == 0 => {
                txn.delete(tree, &bytes)?;
                ops.push(Op::Delete { register: key });
            }
            (_, true) => {
                let long = value.to_le_bytes().repeat(1 + (r >> 40) as usize % 20);
                txn.put(tree, &bytes, &long)?;
                ops.push(Op::Write { register: key, value });
            }
        }
    }
    Ok(ops)
}

fn session(n: u64, round: u64, db: &Database, tree: &Tree, clock: &AtomicU64) -> Vec<Transaction> {
    let mut done = Vec::new();
    for i in 0..TRANSACTIONS {
        let seed = mix(round << 32 | n << 16 | i);
        let invoked = clock.fetch_add(1, Ordering::SeqCst);
        let mut txn = db.begin().unwrap();
        let snapshot = txn.snapshot().csn().raw();
        let ops = work(&mut txn, tree, seed, clock).unwrap();
        let writes = ops.iter().any(|o| !matches!(o, Op::Read { .. } | Op::ReadList { .. }));
        let (outcome, commit) = match txn.commit() {
            Ok(csn) => (Outcome::Committed, writes.then(|| csn.raw())),
            Err(EngineError::Conflict { .. }) => (Outcome::Aborted, None),
            Err(e) => panic!("{e}"),
        };
        let returned = clock.fetch_add(1, Ordering::SeqCst);
        done.push(Transaction {
            session: n as u32,
            ops,
            outcome,
            snapshot: Some(snapshot),
            commit,
            invoked: Some(invoked),
            returned: Some(returned),
        });
        if i % 16 == 0 {
            db.work(1 << 16);
        }
    }
    done
}

#[test]
fn histories_of_threads_are_clean() {
    let rounds = std::env::var("LODE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS);
    let (mut commits, mut conflicts) = (0, 0);
    for round in 0..rounds {
        let db = database(round);
        let tree = db.create_tree("t", false).unwrap();
        let clock = AtomicU64::new(1);
        let mut history = History::default();
        std::thread::scope(|s| {
            let (db, tree, clock) = (&db, &tree, &clock);
            let sessions: Vec<_> =
                (0..THREADS).map(|n| s.spawn(move || session(n, round, db, tree, clock))).collect();
            for session in sessions {
                history.transactions.extend(session.join().unwrap());
            }
        });
        let report = history.check(&Options::default());
        assert!(report.is_clean(), "round {round}: {report}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new(), "round {round}");
        let count = |o| history.transactions.iter().filter(|t| t.outcome == o).count();
        commits += count(Outcome::Committed);
        conflicts += count(Outcome::Aborted);
    }
    println!("{commits} commits, {conflicts} conflicts");
    assert!(conflicts > 0, "without conflicts the test proves nothing");
}
