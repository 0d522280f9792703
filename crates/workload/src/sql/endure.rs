//! Uniform UPDATEs by key for a long time, beside a transaction that stays open and a snapshot that grows old.
//!
//! ```text
//!   ids:  1 ... 64: the long transaction's | 65 ......................... n: the terminals', uniform
//!
//!   terminals ────────► UPDATE of a row, each a commit ──────────► latencies of the interval ─► sample
//!   long transaction ─► UPDATE of a row of its own, 4 a second ─► COMMIT in the end
//!   old snapshot ─────► count, sum and a hash of all rows, after each merge: the same as at the beginning
//! ```
//!
//! Each UPDATE adds 1 to a number of its row. So the sum of all numbers is the number of UPDATEs that took effect, whatever happened
//! to the process meanwhile.

use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::value::Columns;
use super::{SqlConnection, SqlDatabase, Statement, Style, Value};
use crate::harness::{RunError, give_way};
use crate::measure::{Latencies, Percentiles};
use crate::random::Random;
use crate::store::{Intent, StoreError, StoreResult};

/// The table that is updated.
pub const TABLE: &str = "endured";
/// The table that nothing changes.
pub const STILL: &str = "still";

/// The rows that only the long transaction updates: the first ids.
pub const OWN_ROWS: u32 = 64;
/// How often the long transaction writes.
const WRITE_EVERY: Duration = Duration::from_millis(250);
/// How often threads look for what they wait for.
const LOOK: Duration = Duration::from_millis(20);
/// Rows of a scan for the hash of the old snapshot.
const SCAN_ROWS: u32 = 50_000;
/// The length of the text of a row.
const FILLER_BYTES: usize = 76;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rows of the table.
    pub rows: u32,
    /// Terminals. Each has a connection and a thread.
    pub terminals: u16,
    /// How long.
    pub length: Duration,
    /// The time of a sample.
    pub interval: Duration,
    /// How long the long transaction is open. It begins so long after the beginning, too.
    pub long: Option<Duration>,
    /// Whether a snapshot is held from the beginning.
    pub old_snapshot: bool,
    /// The seed of keys and values.
    pub seed: u64,
}

/// What happened in an interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Seconds from the beginning to the end of the interval.
    pub at_s: f64,
    /// The length of the interval in seconds.
    pub seconds: f64,
    /// The latencies of the commits that ended in it.
    pub latency: Percentiles,
    /// Statements that were run again after a conflict.
    pub conflicts: u64,
    /// Whether the long transaction was open at its end.
    pub is_long_open: bool,
    /// Answers of the old snapshot so far.
    pub checks: u64,
}

/// What became of the long transaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Long {
    /// Seconds from its begin to its commit.
    pub seconds: f64,
    /// Rows that it wrote.
    pub writes: u64,
    /// Milliseconds of its COMMIT.
    pub commit_ms: f64,
    /// Why it did not commit.
    pub failure: Option<String>,
}

/// What the table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Its rows.
    pub rows: u64,
    /// UPDATEs by terminals that took effect.
    pub updates: u64,
    /// UPDATEs by long transactions that took effect.
    pub own_updates: u64,
}

/// Makes a table, and loads so many rows at a time until `is_full`. Returns the number of rows.
///
/// # Errors
/// When the database fails, or if there is such a table.
pub fn load(
    database: &impl SqlDatabase,
    table: &'static str,
    rows_a_load: u32,
    seed: u64,
    is_full: &dyn Fn() -> bool,
) -> StoreResult<u32> {
    let mut connection = database.connect()?;
    connection.execute_text(&format!(
        "CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, n INTEGER NOT NULL, filler VARCHAR(80) NOT NULL)"
    ))?;
    let (mut random, mut rows) = (Random(seed), 0);
    while rows <= OWN_ROWS || !is_full() {
        let mut loader = connection.loader(&[table])?;
        for id in rows + 1..=rows + rows_a_load {
            loader.add(table, &[id.into(), Value::Int(0), filler(&mut random)])?;
        }
        loader.finish()?;
        rows += rows_a_load;
    }
    Ok(rows)
}

/// A text that no encoding makes much smaller.
fn filler(random: &mut Random) -> Value {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut bits = 0;
    let letter = |at: usize| {
        if at.is_multiple_of(10) {
            bits = random.next_u64();
        }
        let letter = LETTERS[(bits & 63) as usize];
        bits >>= 6;
        char::from(letter)
    };
    Value::Text((0..FILLER_BYTES).map(letter).collect())
}

/// Reads what the table holds.
///
/// # Errors
/// When the database fails.
pub fn totals(database: &impl SqlDatabase) -> StoreResult<Totals> {
    let mut connection = database.connect()?;
    let mut of = |what: &str| -> StoreResult<(u64, u64)> {
        let sql = format!("SELECT count(*), sum(n) FROM {TABLE} WHERE id {what} {OWN_ROWS}");
        let row = connection.execute_text(&sql)?.row()?.ok_or(StoreError::Missing("a count"))?;
        let mut columns = Columns::of(row);
        Ok((columns.number()?, columns.optional()?.unwrap_or(0)))
    };
    let ((own_rows, own_updates), (rows, updates)) = (of("<=")?, of(">")?);
    Ok(Totals { rows: own_rows + rows, updates, own_updates })
}

/// What the terminals did in an interval.
#[derive(Default)]
struct Interval {
    latencies: Latencies,
    conflicts: u64,
}

/// What the threads of a run share.
struct Shared<'a, D> {
    database: &'a D,
    plan: Plan,
    merges: &'a (dyn Fn() -> u64 + Sync),
    start: Instant,
    over: AtomicBool,
    interval: Mutex<Interval>,
    is_long_open: AtomicBool,
    /// The long transaction, once it has ended.
    long: Mutex<Option<Long>>,
    checks: AtomicU64,
}

/// Runs the terminals for the plan's time. `merges` reads how many merges there were so far. `each` takes the sample of each interval,
/// and the long transaction with that of the interval in which it ended.
///
/// # Errors
/// When the database fails, [`StoreError::Damaged`] when the old snapshot answers differently, or [`RunError::Stopped`].
pub fn run<D: SqlDatabase>(
    database: &D,
    plan: &Plan,
    merges: &(dyn Fn() -> u64 + Sync),
    stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&Sample, Option<Long>) -> StoreResult,
) -> Result<(), RunError> {
    let shared = &Shared {
        database,
        plan: *plan,
        merges,
        start: Instant::now(),
        over: AtomicBool::new(false),
        interval: Mutex::default(),
        is_long_open: AtomicBool::new(false),
        long: Mutex::default(),
        checks: AtomicU64::new(0),
    };
    std::thread::scope(|s| {
        let (ready, begun) = channel();
        let snapshot =
            plan.old_snapshot.then(|| s.spawn(move || shared.or_over(shared.hold_snapshot(ready))));
        // Nothing changes before the snapshot has given its first answer. If it fails, this returns, too.
        let _ = begun.recv();
        let terminals: Vec<_> =
            (0..plan.terminals).map(|t| s.spawn(move || shared.or_over(shared.update(t)))).collect();
        let long = plan.long.map(|time| s.spawn(move || shared.or_over(shared.stay_open(time))));
        let sampled = shared.sample(stop, each);
        shared.over.store(true, Ordering::Relaxed);
        for t in terminals {
            t.join().expect("a terminal does not panic")?;
        }
        long.map(|l| l.join().expect("the long transaction does not panic")).transpose()?;
        snapshot.map(|t| t.join().expect("the snapshot does not panic")).transpose()?;
        sampled
    })
}

impl<D: SqlDatabase> Shared<'_, D> {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// If a thread fails, all end.
    fn or_over<T>(&self, done: StoreResult<T>) -> StoreResult<T> {
        if done.is_err() {
            self.over.store(true, Ordering::Relaxed);
        }
        done
    }

    /// Waits until a point in time, or until the run is over. Answers whether that time came.
    fn wait(&self, until: Instant) -> bool {
        while !self.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK));
        }
        false
    }

    fn sample(
        &self,
        stop: &dyn Fn() -> bool,
        each: &mut dyn FnMut(&Sample, Option<Long>) -> StoreResult,
    ) -> Result<(), RunError> {
        let (start, end) = (Instant::now(), Instant::now() + self.plan.length);
        let mut begun = start;
        while begun < end && !self.is_over() {
            let due = (begun + self.plan.interval).min(end);
            while Instant::now() < due && !self.is_over() {
                std::thread::sleep(LOOK.min(due.saturating_duration_since(Instant::now())));
                if stop() {
                    return Err(RunError::Stopped);
                }
            }
            let Interval { latencies, conflicts } = std::mem::take(&mut *self.interval.lock());
            let now = Instant::now();
            let sample = Sample {
                at_s: (now - start).as_secs_f64(),
                seconds: (now - begun).as_secs_f64(),
                latency: latencies.percentiles(),
                conflicts,
                is_long_open: self.is_long_open.load(Ordering::Relaxed),
                checks: self.checks.load(Ordering::Relaxed),
            };
            each(&sample, self.long.lock().take())?;
            begun = now;
        }
        Ok(())
    }

    /// A terminal.
    fn update(&self, number: u16) -> StoreResult {
        let mut connection = self.database.connect()?;
        let sql = format!("UPDATE {TABLE} SET n = n + 1, filler = $2 WHERE id = $1");
        let statement = Statement::new(&mut *connection, Style::Prepared, &sql)?;
        let mut random = Random(self.plan.seed ^ u64::from(number + 1) << 40);
        while !self.is_over() {
            let id = OWN_ROWS + 1 + random.below(u64::from(self.plan.rows - OWN_ROWS)) as u32;
            let params = [Value::from(id), filler(&mut random)];
            let (begun, mut conflicts) = (Instant::now(), 0);
            let changed = loop {
                match statement.execute(&mut *connection, &params) {
                    Err(StoreError::Conflict) => {
                        conflicts += 1;
                        give_way(conflicts);
                    }
                    other => break other?.count()?,
                }
            };
            let latency = begun.elapsed();
            if changed != 1 {
                return Err(StoreError::Damaged("an UPDATE by key did not change one row"));
            }
            let mut interval = self.interval.lock();
            interval.latencies.record(latency);
            interval.conflicts += conflicts;
        }
        Ok(())
    }

    /// Runs the long transaction: as long after the beginning as it is open. It is rolled back if the run ends before it.
    fn stay_open(&self, time: Duration) -> StoreResult {
        if !self.wait(self.start + time) {
            return Ok(());
        }
        let mut connection = self.database.connect()?;
        let sql = format!("UPDATE {TABLE} SET n = n + 1 WHERE id = $1");
        let statement = Statement::new(&mut *connection, Style::Prepared, &sql)?;
        connection.begin(Intent::Write)?;
        self.is_long_open.store(true, Ordering::Relaxed);
        let (begun, mut long) = (Instant::now(), Long::default());
        while begun.elapsed() < time {
            let id = 1 + (long.writes % u64::from(OWN_ROWS)) as u32;
            if statement.execute(&mut *connection, &[id.into()])?.count()? != 1 {
                return Err(StoreError::Damaged("an UPDATE by key did not change one row"));
            }
            long.writes += 1;
            if !self.wait(begun + time.min(WRITE_EVERY * long.writes as u32)) {
                return connection.rollback();
            }
        }
        let at_commit = Instant::now();
        long.failure = connection.commit().err().map(|e| e.to_string());
        long.commit_ms = at_commit.elapsed().as_secs_f64() * 1e3;
        long.seconds = begun.elapsed().as_secs_f64();
        self.is_long_open.store(false, Ordering::Relaxed);
        *self.long.lock() = Some(long);
        Ok(())
    }

    /// Holds a snapshot, and compares its answers with its first one after each merge.
    fn hold_snapshot(&self, ready: Sender<()>) -> StoreResult {
        let mut connection = self.database.connect()?;
        connection.begin(Intent::Read)?;
        let first = answer(&mut *connection, self.plan.rows)?;
        let mut seen = (self.merges)();
        let _ = ready.send(());
        drop(ready);
        while !self.is_over() {
            let now = (self.merges)();
            if now == seen {
                std::thread::sleep(LOOK / 10);
                continue;
            }
            seen = now;
            if answer(&mut *connection, self.plan.rows)? != first {
                return Err(StoreError::Damaged("an old snapshot answers otherwise than at first"));
            }
            self.checks.fetch_add(1, Ordering::Relaxed);
        }
        connection.commit()
    }
}

/// What a snapshot says of the table: its rows, the sum of their numbers, and a hash of all rows that does not depend on their order.
fn answer(connection: &mut dyn SqlConnection, rows: u32) -> StoreResult<(u64, u64, u64)> {
    let sql = format!("SELECT count(*), sum(n) FROM {TABLE}");
    let row = connection.execute_text(&sql)?.row()?.ok_or(StoreError::Missing("a count"))?;
    let mut columns = Columns::of(row);
    let (count, sum) = (columns.number()?, columns.number()?);
    let mut hash = 0u64;
    for from in (1..=rows).step_by(SCAN_ROWS as usize) {
        let to = from.saturating_add(SCAN_ROWS);
        let sql = format!("SELECT id, n, filler FROM {TABLE} WHERE id >= {from} AND id < {to}");
        for row in connection.execute_text(&sql)?.rows()? {
            let mut columns = Columns::of(row);
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write_u64(columns.number()?);
            hasher.write_u64(columns.number()?);
            hasher.write(columns.text()?.as_bytes());
            hash = hash.wrapping_add(hasher.finish());
        }
    }
    Ok((count, sum, hash))
}
