//! Single statements by primary key: INSERT, UPDATE, DELETE and SELECT, each of which is a transaction, on rows of about
//! 100 bytes with none to four secondary indexes.
//!
//! ```text
//!   loaded ids:  1 ................ n/2 ................ n     inserted: n + 1 ...
//!                | SELECT (main)    | UPDATE, DELETE     |     SELECT (delta): of those that were inserted or updated
//! ```
//!
//! The order of the kinds is fixed: rows are inserted and updated before they are read as changed ones, and deleted
//! last. Counts and sums of the table are compared with what the statements reported.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;

use super::value::Columns;
use super::{Answer, SqlConnection, SqlDatabase, Statement, Style, Value};
use crate::harness::{self, Measured, Probes, RunError, Schedule, Tally};
use crate::random::Random;
use crate::store::{StoreError, StoreResult};

/// A kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// SELECT of a row that was loaded and not changed since.
    SelectMain,
    /// INSERT of a row, with ascending keys.
    Insert,
    /// UPDATE of columns without an index.
    Update,
    /// UPDATE of the four columns that may have an index.
    UpdateIndexed,
    /// SELECT of a row that was inserted or updated since the load.
    SelectDelta,
    /// DELETE of a row.
    Delete,
}

impl Kind {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 6] =
        [Self::SelectMain, Self::Insert, Self::Update, Self::UpdateIndexed, Self::SelectDelta, Self::Delete];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SelectMain => "SELECT (main)",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::UpdateIndexed => "UPDATE (indexed)",
            Self::SelectDelta => "SELECT (delta)",
            Self::Delete => "DELETE",
        }
    }

    const fn sql(self) -> &'static str {
        match self {
            Self::SelectMain | Self::SelectDelta => "SELECT * FROM small_rows WHERE id = $1",
            Self::Insert => "INSERT INTO small_rows VALUES ($1, $2, $3, $4, $5, $6, $7)",
            Self::Update => "UPDATE small_rows SET n = n + 1, filler = $2 WHERE id = $1",
            Self::UpdateIndexed => {
                "UPDATE small_rows SET n = n + 1, a = $2, b = $3, c = $4, d = $5 WHERE id = $1"
            }
            Self::Delete => "DELETE FROM small_rows WHERE id = $1",
        }
    }
}

/// The most secondary indexes.
pub const INDEXES_MAX: u8 = 4;
/// The columns of the indexes, in the order in which they get one.
const INDEXED: [&str; INDEXES_MAX as usize] = ["a", "b", "c", "d"];

const TABLE: &str = "CREATE TABLE small_rows (id INTEGER NOT NULL PRIMARY KEY, n INTEGER NOT NULL, a INTEGER NOT NULL, \
    b INTEGER NOT NULL, c INTEGER NOT NULL, d INTEGER NOT NULL, filler VARCHAR(80) NOT NULL)";

/// The length of the filler. With it a row has 100 bytes.
const FILLER_BYTES: usize = 76;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rows of the load.
    pub rows: u32,
    /// Secondary indexes, at most [`INDEXES_MAX`].
    pub indexes: u8,
    /// Connections. Each has a thread.
    pub connections: u16,
    /// How statements are executed.
    pub style: Style,
    /// The times of each kind's run.
    pub schedule: Schedule,
    /// The seed of rows and keys.
    pub seed: u64,
}

/// The table with what the statements have done to it.
pub struct Bench {
    plan: Plan,
    state: State,
}

impl Bench {
    /// Creates and loads the table.
    ///
    /// # Errors
    /// When the database fails, or if there is such a table.
    pub fn load(database: &impl SqlDatabase, plan: Plan) -> StoreResult<Self> {
        load(database, &plan)?;
        Ok(Self { plan, state: State::new(&plan) })
    }

    /// Runs statements of a kind on all connections. The kinds must run in their order. Then compares the table with what
    /// the statements reported.
    ///
    /// # Errors
    /// When the database fails or the table is not what the statements made it, or [`RunError::Stopped`].
    pub fn run(
        &self,
        database: &impl SqlDatabase,
        kind: Kind,
        probes: &Probes<'_>,
    ) -> Result<Measured, RunError> {
        let Self { plan, state } = self;
        if kind == Kind::Delete {
            state.begin_deletes(plan);
        }
        let work = |number: u16, tally: &mut Tally, over: &AtomicBool| {
            state.work(database, plan, kind, number, tally, over)
        };
        let measured = harness::run(plan.connections, 1, &plan.schedule, probes, work)?;
        state.compare(&mut *database.connect()?, plan)?;
        Ok(measured)
    }

    /// Drops the table.
    ///
    /// # Errors
    /// When the database fails.
    pub fn end(self, database: &impl SqlDatabase) -> StoreResult {
        database.connect()?.execute_text("DROP TABLE small_rows").map(drop)
    }
}

/// Creates the table with its rows and indexes.
fn load(database: &impl SqlDatabase, plan: &Plan) -> StoreResult {
    let mut connection = database.connect()?;
    connection.execute_text(TABLE)?;
    let mut random = Random(plan.seed);
    let mut loader = connection.loader(&["small_rows"])?;
    for id in 1..=plan.rows {
        loader.add("small_rows", &row(&mut random, id))?;
    }
    loader.finish()?;
    for column in &INDEXED[..usize::from(plan.indexes)] {
        let text = format!("CREATE INDEX small_rows_{column} ON small_rows {{btree}}({column})");
        connection.execute_text(&database.dialect().render(&text))?;
    }
    Ok(())
}

fn row(random: &mut Random, id: u32) -> [Value; 7] {
    let [a, b, c, d] = indexed(random);
    [id.into(), Value::Int(0), a, b, c, d, filler(random)]
}

/// Values of the columns that may have an index.
fn indexed(random: &mut Random) -> [Value; 4] {
    std::array::from_fn(|_| Value::Int(random.below(1 << 30) as i64))
}

fn filler(random: &mut Random) -> Value {
    const LETTERS: &[u8; 16] = b"abcdefghijklmnop";
    let mut bits = 0;
    let letter = |at: usize| {
        if at.is_multiple_of(16) {
            bits = random.next_u64();
        }
        let letter = LETTERS[(bits & 15) as usize];
        bits >>= 4;
        char::from(letter)
    };
    Value::Text((0..FILLER_BYTES).map(letter).collect())
}

/// What the statements have done to the table so far.
struct State {
    /// The last id that was given to a row.
    last: AtomicU32,
    inserted: AtomicU64,
    updated: AtomicU64,
    deleted: AtomicU64,
    /// Rows that were inserted or updated; an id may be there more than once.
    changed: Mutex<Vec<u32>>,
    /// The rows to delete, in the order in which they are.
    doomed: Mutex<Vec<u32>>,
    next_doomed: AtomicUsize,
}

impl State {
    fn new(plan: &Plan) -> Self {
        Self {
            last: AtomicU32::new(plan.rows),
            inserted: AtomicU64::new(0),
            updated: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            changed: Mutex::default(),
            doomed: Mutex::default(),
            next_doomed: AtomicUsize::new(0),
        }
    }

    /// Chooses the rows to delete: those of the upper half and the inserted ones, in a random order.
    fn begin_deletes(&self, plan: &Plan) {
        let mut all: Vec<u32> = (plan.rows / 2 + 1..=plan.rows).collect();
        // An id was skipped if its INSERT was interrupted by the end of the run, so only those that were told count.
        all.extend(self.changed.lock().iter().filter(|id| **id > plan.rows));
        Random(plan.seed ^ 0xDE1E).shuffle(&mut all);
        *self.doomed.lock() = all;
    }

    /// Runs statements of a kind on a connection.
    fn work(
        &self,
        database: &impl SqlDatabase,
        plan: &Plan,
        kind: Kind,
        number: u16,
        tally: &mut Tally,
        over: &AtomicBool,
    ) -> StoreResult {
        let mut connection = database.connect()?;
        let statement = Statement::new(&mut *connection, plan.style, kind.sql())?;
        let mut random = Random(plan.seed ^ u64::from(number + 1) << 40 ^ (kind as u64) << 56);
        let known = if kind == Kind::SelectDelta { self.changed.lock().clone() } else { Vec::new() };
        let doomed = if kind == Kind::Delete { self.doomed.lock().clone() } else { Vec::new() };
        let half = plan.rows / 2;
        let mut changed = Vec::new();
        let mut done = 0;
        while !over.load(Ordering::Relaxed) {
            let id = match kind {
                Kind::SelectMain => random.below(half.into()) as u32 + 1,
                Kind::Insert => self.last.fetch_add(1, Ordering::Relaxed) + 1,
                Kind::Update | Kind::UpdateIndexed => {
                    half + 1 + random.below((plan.rows - half).into()) as u32
                }
                Kind::SelectDelta if known.is_empty() => half + 1,
                Kind::SelectDelta => known[random.below(known.len() as u64) as usize],
                Kind::Delete => match doomed.get(self.next_doomed.fetch_add(1, Ordering::Relaxed)) {
                    Some(id) => *id,
                    None => {
                        over.store(true, Ordering::Relaxed);
                        break;
                    }
                },
            };
            let params = params(kind, id, &mut random);
            let (begun, mut conflicts) = (Instant::now(), 0);
            let answer = loop {
                match statement.execute(&mut *connection, &params) {
                    Err(StoreError::Conflict) => {
                        conflicts += 1;
                        harness::give_way(conflicts);
                    }
                    other => break other?,
                }
            };
            tally.ends(0, begun, conflicts);
            verify(answer, id)?;
            done += 1;
            if matches!(kind, Kind::Insert | Kind::Update | Kind::UpdateIndexed) {
                changed.push(id);
            }
        }
        match kind {
            Kind::Insert => _ = self.inserted.fetch_add(done, Ordering::Relaxed),
            Kind::Update | Kind::UpdateIndexed => _ = self.updated.fetch_add(done, Ordering::Relaxed),
            Kind::Delete => _ = self.deleted.fetch_add(done, Ordering::Relaxed),
            Kind::SelectMain | Kind::SelectDelta => {}
        }
        self.changed.lock().append(&mut changed);
        Ok(())
    }

    /// Compares the table's count and sum with what the statements reported.
    fn compare(&self, connection: &mut dyn SqlConnection, plan: &Plan) -> StoreResult {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let sql = "SELECT count(*), sum(n) FROM small_rows";
        let row = connection.execute_text(sql)?.row()?.ok_or(StoreError::Missing("a count"))?;
        let mut columns = Columns::of(row);
        let (count, sum) = (columns.number::<u64>()?, columns.optional::<u64>()?.unwrap_or(0));
        if count != u64::from(plan.rows) + of(&self.inserted) - of(&self.deleted) {
            return Err(StoreError::Damaged("the number of rows is not what was inserted and deleted"));
        }
        // Deleted rows take their updates along.
        let updates_hold =
            if of(&self.deleted) == 0 { sum == of(&self.updated) } else { sum <= of(&self.updated) };
        if !updates_hold {
            return Err(StoreError::Damaged("the sum of the rows is not the number of updates"));
        }
        Ok(())
    }
}

fn params(kind: Kind, id: u32, random: &mut Random) -> Vec<Value> {
    match kind {
        Kind::SelectMain | Kind::SelectDelta | Kind::Delete => vec![id.into()],
        Kind::Insert => row(random, id).into(),
        Kind::Update => vec![id.into(), filler(random)],
        Kind::UpdateIndexed => std::iter::once(id.into()).chain(indexed(random)).collect(),
    }
}

/// Checks that the statement found its row.
fn verify(answer: Answer, id: u32) -> StoreResult {
    match answer {
        Answer::Count(1) => Ok(()),
        Answer::Count(_) => Err(StoreError::Damaged("a statement by key did not change one row")),
        Answer::Rows(rows) => match &rows[..] {
            [row] if row.first() == Some(&id.into()) => Ok(()),
            _ => Err(StoreError::Damaged("a query by key did not answer its row")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_of_the_seed_and_of_their_size() {
        let of = |seed| {
            let mut random = Random(seed);
            (1..100).map(|id| row(&mut random, id)).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let Value::Text(text) = &of(1)[0][6] else { panic!("the filler is a text") };
        assert_eq!(text.len() + 6 * size_of::<i32>(), 100);
    }
}
