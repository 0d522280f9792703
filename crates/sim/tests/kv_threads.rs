//! Conflicting transactions on real threads, in one engine on one drive. Their history satisfies snapshot isolation,
//! and the final state holds everything that was committed. `LODE_ROUNDS=200` runs more rounds.

mod sessions;

use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::random::mix;
use lode_engine::{DatabaseOptions, EngineError, Transaction as Txn, Tree};
use lode_sim::history::{Op, Outcome, Transaction};

use sessions::{Ended, database, durability, rounds, transaction};

const THREADS: u64 = 4;
const TRANSACTIONS: u64 = 120;
const KEYS: u64 = 12;

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

#[test]
fn histories_of_threads_are_clean() {
    let tally = rounds(|round, clock| {
        let db = database(round, DatabaseOptions { value_page_bytes_min: 64, ..DatabaseOptions::default() });
        db.set_durability(durability(round));
        let tree = db.create_tree("t", false).unwrap();
        let one = |seed| {
            let mut txn = db.begin().unwrap();
            let snapshot = txn.snapshot().csn().raw();
            let ops = work(&mut txn, &tree, seed, clock).unwrap();
            let writes = ops.iter().any(|o| !matches!(o, Op::Read { .. } | Op::ReadList { .. }));
            let (outcome, commit) = match txn.commit() {
                Ok(csn) => (Outcome::Committed, writes.then(|| csn.raw())),
                Err(EngineError::Conflict { .. }) => (Outcome::Aborted, None),
                Err(e) => panic!("{e}"),
            };
            Ended { ops, outcome, snapshot, commit }
        };
        let session = |n| -> Vec<Transaction> {
            let one_then_work = |i| {
                let done = transaction((round, n, i), clock, one);
                if i % 16 == 0 {
                    db.work(1 << 16);
                }
                done
            };
            (0..TRANSACTIONS).map(one_then_work).collect()
        };
        let done = std::thread::scope(|s| {
            let sessions: Vec<_> = (0..THREADS).map(|n| s.spawn(move || session(n))).collect();
            sessions.into_iter().flat_map(|s| s.join().unwrap()).collect()
        });
        (db, done)
    });
    println!("{} commits, {} conflicts", tally.commits, tally.conflicts);
    assert!(tally.conflicts > 0, "without conflicts the test proves nothing");
}
