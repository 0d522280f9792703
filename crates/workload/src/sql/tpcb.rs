//! TPC-B as pgbench runs it: five statements a transaction, over branches, tellers and accounts. Source: PostgreSQL 15,
//! pgbench, "tpcb-like".
//!
//! ```text
//!   BEGIN ─► UPDATE accounts ─► SELECT accounts ─► UPDATE tellers ─► UPDATE branches ─► INSERT history ─► COMMIT
//! ```
//!
//! Every transaction of a branch changes the branch's row, so with few branches transactions conflict there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::value::Columns;
use super::{SqlConnection, SqlDatabase, Statement, Style, Value, execute_all};
use crate::harness::{self, Measured, Probes, RunError, Schedule, Tally};
use crate::random::Random;
use crate::store::{Intent, StoreError, StoreResult};

/// The number of tellers of a branch.
const TELLERS: u32 = 10;
/// The largest amount of a transaction, to either side.
const DELTA_MAX: i64 = 5000;

/// The sizes of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sizes {
    /// Branches: pgbench's scale.
    pub branches: u32,
    /// Accounts of a branch.
    pub accounts: u32,
}

impl Sizes {
    /// The sizes of pgbench with this scale.
    pub const fn standard(branches: u32) -> Self {
        Self { branches, accounts: 100_000 }
    }
}

const TABLES: &str = "
CREATE TABLE pgbench_branches (bid INTEGER NOT NULL PRIMARY KEY, bbalance INTEGER, filler CHAR(88));
CREATE TABLE pgbench_tellers (tid INTEGER NOT NULL PRIMARY KEY, bid INTEGER, tbalance INTEGER, filler CHAR(84));
CREATE TABLE pgbench_accounts (aid INTEGER NOT NULL PRIMARY KEY, bid INTEGER, abalance INTEGER, filler CHAR(84));
CREATE TABLE pgbench_history (tid INTEGER, bid INTEGER, aid INTEGER, delta INTEGER, mtime {timestamp}, filler CHAR(22))";

const DROPS: &str = "
DROP TABLE pgbench_history; DROP TABLE pgbench_accounts; DROP TABLE pgbench_tellers; DROP TABLE pgbench_branches";

/// The statements of a transaction, in order.
const STATEMENTS: [&str; 5] = [
    "UPDATE pgbench_accounts SET abalance = abalance + $2 WHERE aid = $1",
    "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
    "UPDATE pgbench_tellers SET tbalance = tbalance + $2 WHERE tid = $1",
    "UPDATE pgbench_branches SET bbalance = bbalance + $2 WHERE bid = $1",
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
];

/// Creates the tables and loads them in bulk.
///
/// # Errors
/// When the database fails, or if there are such tables.
pub fn load(database: &impl SqlDatabase, sizes: &Sizes) -> StoreResult {
    let mut connection = database.connect()?;
    execute_all(&mut *connection, &database.dialect().render(TABLES))?;
    let filler = |bytes: usize| Value::Text(" ".repeat(bytes));
    let mut loader = connection.loader(&["pgbench_branches", "pgbench_tellers", "pgbench_accounts"])?;
    for bid in 1..=sizes.branches {
        loader.add("pgbench_branches", &[bid.into(), Value::Int(0), filler(88)])?;
    }
    for tid in 1..=sizes.branches * TELLERS {
        let bid = (tid - 1) / TELLERS + 1;
        loader.add("pgbench_tellers", &[tid.into(), bid.into(), Value::Int(0), filler(84)])?;
    }
    for aid in 1..=sizes.branches * sizes.accounts {
        let bid = (aid - 1) / sizes.accounts + 1;
        loader.add("pgbench_accounts", &[aid.into(), bid.into(), Value::Int(0), filler(84)])?;
    }
    loader.finish()
}

/// Drops the tables.
///
/// # Errors
/// When the database fails, or if a table is missing.
pub fn drop_all(database: &impl SqlDatabase) -> StoreResult {
    execute_all(&mut *database.connect()?, DROPS)
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The sizes of the load.
    pub sizes: Sizes,
    /// The number of connections. Each has a thread.
    pub connections: u16,
    /// How statements are executed.
    pub style: Style,
    /// The times of the run.
    pub schedule: Schedule,
    /// The seed of accounts, tellers and amounts.
    pub seed: u64,
}

/// Runs transactions on all connections. A transaction that conflicts runs again with the same input.
///
/// # Errors
/// When the database fails, or [`RunError::Stopped`].
pub fn run(database: &impl SqlDatabase, plan: &Plan, probes: &Probes<'_>) -> Result<Measured, RunError> {
    let work = |number: u16, tally: &mut Tally, over: &AtomicBool| {
        let mut connection = database.connect()?;
        let statements = Statements::new(&mut *connection, plan.style)?;
        let mut random = Random(plan.seed ^ u64::from(number + 1) << 40);
        while !over.load(Ordering::Relaxed) {
            let input = Input::draw(&mut random, &plan.sizes);
            let (begun, mut conflicts) = (Instant::now(), 0);
            loop {
                match statements.transact(&mut *connection, &input) {
                    Err(StoreError::Conflict) if over.load(Ordering::Relaxed) => return Ok(()),
                    Err(StoreError::Conflict) => {
                        conflicts += 1;
                        harness::give_way(conflicts);
                    }
                    other => break other?,
                }
            }
            tally.ends(0, begun, conflicts);
        }
        Ok(())
    };
    harness::run(plan.connections, 1, &plan.schedule, probes, work)
}

/// The input of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Input {
    aid: u32,
    tid: u32,
    bid: u32,
    delta: i64,
}

impl Input {
    /// Draws account, branch and teller independently, as pgbench does.
    fn draw(random: &mut Random, sizes: &Sizes) -> Self {
        let mut one_of = |n: u32| random.below(n.into()) as u32 + 1;
        let aid = one_of(sizes.branches * sizes.accounts);
        let bid = one_of(sizes.branches);
        let tid = one_of(sizes.branches * TELLERS);
        let delta = random.below(2 * DELTA_MAX as u64 + 1) as i64 - DELTA_MAX;
        Self { aid, tid, bid, delta }
    }
}

struct Statements([Statement; 5]);

impl Statements {
    fn new(connection: &mut dyn SqlConnection, style: Style) -> StoreResult<Self> {
        let all: Vec<Statement> = STATEMENTS
            .iter()
            .map(|sql| Statement::new(connection, style, sql))
            .collect::<StoreResult<_>>()?;
        Ok(Self(all.try_into().expect("there are five")))
    }

    fn transact(&self, connection: &mut dyn SqlConnection, input: &Input) -> StoreResult {
        connection.begin(Intent::Write)?;
        match self.body(connection, input) {
            Ok(()) => connection.commit(),
            Err(e) => {
                // The first error is the one to report. If the rollback fails, so does the next BEGIN.
                let _ = connection.rollback();
                Err(e)
            }
        }
    }

    fn body(&self, connection: &mut dyn SqlConnection, input: &Input) -> StoreResult {
        let Input { aid, tid, bid, delta } = *input;
        let [accounts, balance, tellers, branches, history] = &self.0;
        one(accounts.execute(connection, &[aid.into(), delta.into()])?.count()?)?;
        let row = balance.execute(connection, &[aid.into()])?.row()?;
        Columns::of(row.ok_or(StoreError::Missing("the account"))?).number::<i64>()?;
        one(tellers.execute(connection, &[tid.into(), delta.into()])?.count()?)?;
        one(branches.execute(connection, &[bid.into(), delta.into()])?.count()?)?;
        one(history.execute(connection, &[tid.into(), bid.into(), aid.into(), delta.into()])?.count()?)
    }
}

/// Checks that a statement changed one row.
fn one(count: u64) -> StoreResult {
    if count == 1 { Ok(()) } else { Err(StoreError::Damaged("a statement by key did not change one row")) }
}

/// The sums of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sums {
    /// Of the accounts' balances.
    pub accounts: i64,
    /// Of the tellers' balances.
    pub tellers: i64,
    /// Of the branches' balances.
    pub branches: i64,
    /// Of the history's amounts.
    pub history: i64,
    /// The number of transactions in the history.
    pub transactions: u64,
}

impl Sums {
    /// Whether all sums are the same.
    pub fn agree(&self) -> bool {
        [self.tellers, self.branches, self.history].iter().all(|sum| *sum == self.accounts)
    }
}

/// Reads the sums in one transaction.
///
/// # Errors
/// When the database fails.
pub fn sums(database: &impl SqlDatabase) -> StoreResult<Sums> {
    let mut connection = database.connect()?;
    connection.begin(Intent::Read)?;
    let mut number = |sql: &str| -> StoreResult<i64> {
        let row = connection.execute_text(sql)?.row()?;
        Columns::of(row.ok_or(StoreError::Missing("a sum"))?).number()
    };
    let sums = Sums {
        accounts: number("SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts")?,
        tellers: number("SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers")?,
        branches: number("SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches")?,
        history: number("SELECT coalesce(sum(delta), 0) FROM pgbench_history")?,
        transactions: number("SELECT count(*) FROM pgbench_history")?.cast_unsigned(),
    };
    connection.rollback()?;
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_of_the_seed_and_within_the_sizes() {
        let sizes = Sizes { branches: 3, accounts: 50 };
        let draw = |seed| {
            let mut random = Random(seed);
            (0..5000).map(|_| Input::draw(&mut random, &sizes)).collect::<Vec<_>>()
        };
        let all = draw(1);
        assert_eq!(all, draw(1));
        assert_ne!(all, draw(2));
        for of in &all {
            assert!((1..=150).contains(&of.aid) && (1..=30).contains(&of.tid) && (1..=3).contains(&of.bid));
            assert!((-DELTA_MAX..=DELTA_MAX).contains(&of.delta));
        }
        assert!((1..=150).all(|aid| all.iter().any(|of| of.aid == aid)));
    }
}
