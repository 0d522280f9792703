//! YCSB: records of some fields under a key, in six mixes.
//!
//! | workload | reads | updates | inserts | scans | read-modify-writes | records chosen |
//! |---|---|---|---|---|---|---|
//! | A | 50 % | 50 % | | | | zipfian |
//! | B | 95 % | 5 % | | | | zipfian |
//! | C | 100 % | | | | | zipfian |
//! | D | 95 % | | 5 % | | | latest |
//! | E | | | 5 % | 95 %, of 1 to 100 records | | zipfian |
//! | F | 50 % | | | | 50 % | zipfian |
//!
//! Each operation is a transaction, which is retried after a conflict. A key is `user` followed by the hash of the
//! record's number. A read gets the whole record; an update changes one field. A record begins with its number, so that
//! a read can check that it got the right record.
//!
//! Source: B. Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;

use crate::choose::{Chooser, Distribution, fnv};
use crate::harness::{self, Measured, Probes, RunError, Schedule, Tally};
use crate::random::Random;
use crate::store::{StoreError, StoreResult, Transactional, Txn};

/// The longest scan, in records.
const SCAN_MAX: u64 = 100;
/// The records per transaction of the load.
const LOAD_RECORDS: u64 = 1000;
/// The bytes of the number at the beginning of a record.
const NUMBER_BYTES: usize = 8;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Reads a record.
    Read,
    /// Writes a field of a record.
    Update,
    /// Adds a record.
    Insert,
    /// Reads several records from one on.
    Scan,
    /// Reads a record and writes a field of it in one transaction.
    ReadModifyWrite,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Update, Self::Insert, Self::Scan, Self::ReadModifyWrite];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// A mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names are the benchmark's")]
pub enum Mix {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// Its letter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
        }
    }

    /// The percentage of the first kind of operation, and the two kinds.
    const fn parts(self) -> (u64, Op, Op) {
        match self {
            Self::A => (50, Op::Read, Op::Update),
            Self::B => (95, Op::Read, Op::Update),
            Self::C => (100, Op::Read, Op::Update),
            Self::D => (95, Op::Read, Op::Insert),
            Self::E => (95, Op::Scan, Op::Insert),
            Self::F => (50, Op::Read, Op::ReadModifyWrite),
        }
    }

    /// The default distribution of its records.
    pub const fn distribution(self) -> Distribution {
        if matches!(self, Self::D) { Distribution::Latest } else { Distribution::Zipfian }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of loaded records.
    pub records: u64,
    /// Fields of a record.
    pub fields: u32,
    /// Bytes of a field.
    pub field_bytes: u32,
    /// Threads.
    pub threads: u16,
    /// How records are chosen. `None` for the default of the mix.
    pub distribution: Option<Distribution>,
    /// The times of the run.
    pub schedule: Schedule,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Plan {
    fn record_bytes(&self) -> usize {
        (self.fields * self.field_bytes) as usize
    }
}

/// The result of a run. Latencies are in the order of [`Op::ALL`].
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The mix.
    pub mix: Mix,
    /// How records were chosen.
    pub distribution: Distribution,
    /// All operations.
    #[serde(flatten)]
    pub measured: Measured,
}

/// YCSB on a store.
pub struct Ycsb<'s, S: Transactional> {
    store: &'s S,
    tree: S::Tree,
    plan: Plan,
    /// The number of existing records. All records have lower numbers.
    there: AtomicU64,
    inserts: Mutex<Inserts>,
}

/// The inserts that are under way, or that ended before an older one.
#[derive(Default)]
struct Inserts {
    next: u64,
    done: BTreeSet<u64>,
}

impl<'s, S: Transactional> Ycsb<'s, S> {
    /// YCSB on a store that already holds `there` records.
    ///
    /// # Errors
    /// When the store fails.
    ///
    /// # Panics
    /// If a record is too short for its number.
    pub fn new(store: &'s S, plan: Plan, there: u64) -> StoreResult<Self> {
        assert!(plan.record_bytes() >= NUMBER_BYTES, "a record holds its number");
        let inserts = Mutex::new(Inserts { next: there, ..Inserts::default() });
        Ok(Self { store, tree: store.tree("ycsb")?, plan, there: there.into(), inserts })
    }

    /// Loads the records of the plan.
    ///
    /// # Errors
    /// When the store fails, or [`RunError::Stopped`].
    pub fn load(&self, stop: &dyn Fn() -> bool) -> Result<(), RunError> {
        let mut random = Random(self.plan.seed);
        let mut n = self.there.load(Ordering::Relaxed);
        while n < self.plan.records {
            if stop() {
                return Err(RunError::Stopped);
            }
            let mut txn = self.store.begin()?;
            let end = (n + LOAD_RECORDS).min(self.plan.records);
            for n in n..end {
                txn.put(&self.tree, &key(n), &self.record(&mut random, n))?;
            }
            txn.commit()?;
            n = end;
        }
        self.there.store(n, Ordering::Release);
        self.inserts.lock().next = n;
        Ok(())
    }

    fn record(&self, random: &mut Random, n: u64) -> Vec<u8> {
        let mut bytes = noise(random, self.plan.record_bytes());
        bytes[..NUMBER_BYTES].copy_from_slice(&n.to_le_bytes());
        bytes
    }

    /// Runs a mix.
    ///
    /// # Errors
    /// If the store fails or returns a wrong record; [`RunError::Stopped`].
    pub fn run(&self, mix: Mix, probes: &Probes<'_>) -> Result<Report, RunError> {
        let plan = &self.plan;
        let distribution = plan.distribution.unwrap_or(mix.distribution());
        let work = |t: u16, tally: &mut Tally, over: &AtomicBool| {
            let mut random = Random(plan.seed ^ (u64::from(t) + 1) << 40 ^ (mix as u64) << 32);
            let mut chooser = Chooser::new(distribution, self.there.load(Ordering::Acquire));
            let (share, first, second) = mix.parts();
            while !over.load(Ordering::Relaxed) {
                let op = if random.below(100) < share { first } else { second };
                let begun = Instant::now();
                let conflicts = self.operation(op, &mut random, &mut chooser, over)?;
                tally.ends(op as usize, begun, conflicts);
            }
            Ok(())
        };
        let measured = harness::run(plan.threads, Op::ALL.len(), &plan.schedule, probes, work)?;
        Ok(Report { mix, distribution, measured })
    }

    /// Executes an operation and returns the number of its conflicts.
    fn operation(
        &self,
        op: Op,
        random: &mut Random,
        chooser: &mut Chooser,
        over: &AtomicBool,
    ) -> StoreResult<u64> {
        let n = match op {
            Op::Insert => {
                let mut inserts = self.inserts.lock();
                inserts.next += 1;
                inserts.next - 1
            }
            _ => chooser.next(random, self.there.load(Ordering::Acquire)),
        };
        let key = key(n);
        let mut conflicts = 0;
        loop {
            let mut txn = self.store.begin()?;
            match op {
                Op::Read => _ = self.read(&mut txn, &key, n)?,
                Op::Update | Op::ReadModifyWrite => {
                    let mut record = self.read(&mut txn, &key, n)?;
                    let field = random.below(self.plan.fields.into()) as usize;
                    let bytes = self.plan.field_bytes as usize;
                    // The number at the beginning of the first field stays.
                    let (from, to) = ((field * bytes).max(NUMBER_BYTES), (field + 1) * bytes);
                    if from < to {
                        record[from..to].copy_from_slice(&noise(random, to - from));
                    }
                    txn.put(&self.tree, &key, &record)?;
                }
                Op::Insert => txn.put(&self.tree, &key, &self.record(random, n))?,
                Op::Scan => {
                    let (mut left, mut whole) = (random.below(SCAN_MAX) + 1, true);
                    txn.scan(&self.tree, &key, b"v", |_, value| {
                        whole &= value.len() == self.plan.record_bytes();
                        left -= 1;
                        left > 0
                    })?;
                    if !whole {
                        return Err(StoreError::Damaged("a record has the wrong length"));
                    }
                }
            }
            match txn.commit() {
                Err(StoreError::Conflict) if !over.load(Ordering::Relaxed) => {
                    conflicts += 1;
                    harness::give_way(conflicts);
                }
                Err(StoreError::Conflict) => return Ok(conflicts),
                other => break other?,
            }
        }
        if op == Op::Insert {
            let mut inserts = self.inserts.lock();
            inserts.done.insert(n);
            let mut there = self.there.load(Ordering::Relaxed);
            while inserts.done.remove(&there) {
                there += 1;
            }
            self.there.store(there, Ordering::Release);
        }
        Ok(conflicts)
    }

    fn read(&self, txn: &mut S::Txn<'_>, key: &[u8], n: u64) -> StoreResult<Vec<u8>> {
        let record = txn.get(&self.tree, key, <[u8]>::to_vec)?.ok_or(StoreError::Missing("a record"))?;
        match record.len() == self.plan.record_bytes() && record[..NUMBER_BYTES] == n.to_le_bytes() {
            true => Ok(record),
            false => Err(StoreError::Damaged("a read returned another record")),
        }
    }
}

/// `user` and the hash of the number, padded so that all keys have the same length.
fn key(n: u64) -> [u8; 24] {
    let mut key = *b"user00000000000000000000";
    let mut hash = fnv(n);
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (hash % 10) as u8;
        hash /= 10;
    }
    key
}

fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::MemoryStore;

    const PLAN: Plan = Plan {
        records: 2500,
        fields: 4,
        field_bytes: 10,
        threads: 3,
        distribution: None,
        schedule: Schedule {
            warm_up: Duration::from_millis(5),
            length: Duration::from_millis(60),
            interval: Duration::from_millis(20),
        },
        seed: 5,
    };

    #[test]
    fn every_mix_runs_with_its_shares() {
        let store = MemoryStore::default();
        let ycsb = Ycsb::new(&store, PLAN, 0).unwrap();
        ycsb.load(&|| false).unwrap();
        for mix in Mix::ALL {
            let report = ycsb.run(mix, &Probes::NONE).unwrap();
            let count = |op: Op| report.measured.latencies[op as usize].count as f64;
            let (share, first, second) = mix.parts();
            let all = report.measured.operations as f64;
            assert_eq!(count(first) + count(second), all, "{mix:?}");
            assert!(all > 50.0 && (count(first) / all - share as f64 / 100.0).abs() < 0.2, "{report:?}");
        }
        let there = ycsb.there.load(Ordering::Relaxed);
        assert!(there > PLAN.records, "D and E insert");
        let mut txn = store.begin().unwrap();
        for n in 0..there {
            ycsb.read(&mut txn, &key(n), n).unwrap();
        }
    }

    #[test]
    fn a_wrong_record_is_noticed() {
        let store = MemoryStore::default();
        let ycsb = Ycsb::new(&store, Plan { records: 10, ..PLAN }, 0).unwrap();
        ycsb.load(&|| false).unwrap();
        let mut txn = store.begin().unwrap();
        let other = txn.get(&ycsb.tree, &key(3), <[u8]>::to_vec).unwrap().unwrap();
        (0..10).for_each(|n| txn.put(&ycsb.tree, &key(n), &other).unwrap());
        txn.commit().unwrap();
        assert!(matches!(ycsb.run(Mix::C, &Probes::NONE), Err(RunError::Store(StoreError::Damaged(_)))));
    }

    #[test]
    fn keys_are_of_one_length_and_differ() {
        let keys: BTreeSet<[u8; 24]> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        assert_eq!(&key(0), b"user06284781860667377211");
    }
}
