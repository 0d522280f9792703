//! Rounds of sessions on real threads, in one engine on one drive, whose history is checked after each round.
//! `LODE_ROUNDS=200` runs more rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::Geometry;
use lode_base::random::mix;
use lode_engine::{Database, DatabaseOptions, Durability};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_sim::history::{History, Op, Options, Outcome, Transaction};

/// The number of histories in an ordinary run.
const ROUNDS: u64 = 12;

/// What a transaction did, and how it ended.
pub(crate) struct Ended {
    pub(crate) ops: Vec<Op>,
    pub(crate) outcome: Outcome,
    /// The commit that it saw.
    pub(crate) snapshot: u64,
    pub(crate) commit: Option<u64>,
}

/// How transactions ended, over all rounds.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) commits: usize,
    pub(crate) conflicts: usize,
}

/// An empty database, with little memory in even rounds.
pub(crate) fn database(round: u64, options: DatabaseOptions) -> Database {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 128).unwrap();
    let (medium, _) = Medium::simulated(geometry);
    let drive = Drive::format(medium, DriveOptions::default()).unwrap();
    let options = DatabaseOptions {
        frame_bytes: if round.is_multiple_of(2) { 8 << 10 } else { 1 << 20 },
        node_bytes: 256,
        write_back_bytes: 4 << 10,
        redo_bytes_max: 32 << 10,
        ..options
    };
    Database::open(Arc::new(drive), options).unwrap()
}

/// The durability mode of a round.
pub(crate) fn durability(round: u64) -> Durability {
    [Durability::Commit, Durability::Group, Durability::None][(round % 3) as usize]
}

/// Runs the `i`-th transaction of session `n`. `run` gets its seed.
pub(crate) fn transaction(
    (round, n, i): (u64, u64, u64),
    clock: &AtomicU64,
    run: impl FnOnce(u64) -> Ended,
) -> Transaction {
    let invoked = clock.fetch_add(1, Ordering::SeqCst);
    let Ended { ops, outcome, snapshot, commit } = run(mix(round << 32 | n << 16 | i));
    let returned = clock.fetch_add(1, Ordering::SeqCst);
    Transaction {
        session: n as u32,
        ops,
        outcome,
        snapshot: Some(snapshot),
        commit,
        invoked: Some(invoked),
        returned: Some(returned),
    }
}

/// Checks the histories and the databases of all rounds. `play` plays a round with a clock that begins at 1.
pub(crate) fn rounds(mut play: impl FnMut(u64, &AtomicU64) -> (Database, Vec<Transaction>)) -> Tally {
    let rounds = std::env::var("LODE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS);
    let mut tally = Tally::default();
    for round in 0..rounds {
        let (db, transactions) = play(round, &AtomicU64::new(1));
        let history = History { transactions };
        let report = history.check(&Options::default());
        assert!(report.is_clean(), "round {round}: {report}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new(), "round {round}");
        let count = |o| history.transactions.iter().filter(|t| t.outcome == o).count();
        tally.commits += count(Outcome::Committed);
        tally.conflicts += count(Outcome::Aborted);
    }
    tally
}
