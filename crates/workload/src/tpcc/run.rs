//! A run: terminals, each on its thread, without think time.
//!
//! ```text
//!   terminal: (an arrival) ─► next input ─► (its turn at hot rows) ─► execute ─┬─ Conflict ─► again, with the same input
//!                                                                              └─ done ─► latency, timeline, acknowledgement
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::Sizes;
use super::input::{Input, Inputs};
use super::rows::{D, O, W};
use super::store::TpccStore;
use super::transactions::{Outcome, execute};
use crate::harness::{self, Arrivals, Measured, Probes, RunError, Schedule, Tally};
use crate::store::{StoreError, StoreResult};

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum TransactionKind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl TransactionKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "New-Order",
            Self::Payment => "Payment",
            Self::OrderStatus => "Order-Status",
            Self::Delivery => "Delivery",
            Self::StockLevel => "Stock-Level",
        }
    }

    fn of(input: &Input) -> Self {
        match input {
            Input::NewOrder { .. } => Self::NewOrder,
            Input::Payment { .. } => Self::Payment,
            Input::OrderStatus { .. } => Self::OrderStatus,
            Input::Delivery { .. } => Self::Delivery,
            Input::StockLevel { .. } => Self::StockLevel,
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The sizes.
    pub sizes: Sizes,
    /// The number of terminals. Each has a thread.
    pub terminals: u16,
    /// The times of the run.
    pub schedule: Schedule,
    /// The seed of the load.
    pub seed: u64,
    /// The number of the run. It differs for each run on the same rows.
    pub run: u64,
    /// Whether terminals wait for their turn at the rows of a warehouse and a district before they begin, as with
    /// `SELECT ... FOR UPDATE`. Otherwise they conflict there, and all but one retry.
    pub queue_at_hot_rows: bool,
    /// How many transactions arrive in a second, whether earlier ones are done or not; `None`: each terminal begins one when
    /// its last one is done. A latency begins at the arrival.
    pub arrivals_a_second: Option<f64>,
}

/// Called for each New-Order after its commit.
pub type Acknowledged<'a> = &'a (dyn Fn((W, D, O)) + Sync);

/// The result of a run. A latency begins at the first try and includes the wait for the turn.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// New-Orders per minute that were committed, or rolled back because their input requires it.
    pub new_orders_a_minute: f64,
    /// New-Orders that were rolled back because their input requires it.
    pub rolled_back: u64,
    /// All transactions; latencies are in the order of [`TransactionKind::ALL`].
    #[serde(flatten)]
    pub measured: Measured,
}

/// Locks of the rows that only one transaction at a time can change.
struct HotRows {
    warehouses: Vec<Mutex<()>>,
    districts: Vec<Mutex<()>>,
    deliveries: Vec<Mutex<()>>,
    each: usize,
}

impl HotRows {
    fn new(sizes: &Sizes) -> Self {
        let (w, each) = (usize::from(sizes.warehouses), usize::from(sizes.districts));
        let locks = |n: usize| (0..n).map(|_| Mutex::new(())).collect();
        Self { warehouses: locks(w), districts: locks(w * each), deliveries: locks(w), each }
    }

    /// Waits for a transaction's turn. It always locks in the same order: first the warehouse, then the district.
    fn turn(&self, input: &Input) -> [Option<MutexGuard<'_, ()>>; 2] {
        let of = |w: W| usize::from(w) - 1;
        let district = |w: W, d: D| self.districts[of(w) * self.each + usize::from(d) - 1].lock();
        match input {
            Input::NewOrder { w, d, .. } => [Some(district(*w, *d)), None],
            Input::Payment { w, d, .. } => {
                let warehouse = self.warehouses[of(*w)].lock();
                [Some(warehouse), Some(district(*w, *d))]
            }
            Input::Delivery { w, .. } => [Some(self.deliveries[of(*w)].lock()), None],
            Input::OrderStatus { .. } | Input::StockLevel { .. } => [None, None],
        }
    }
}

/// Runs the terminals for the time in the plan.
///
/// # Errors
/// When the store fails, or [`RunError::Stopped`].
pub fn run(
    store: &impl TpccStore,
    plan: &Plan,
    probes: &Probes<'_>,
    acknowledged: Acknowledged<'_>,
) -> Result<Report, RunError> {
    let hot = plan.queue_at_hot_rows.then(|| HotRows::new(&plan.sizes));
    let rolled_back = AtomicU64::new(0);
    let arrivals = plan.arrivals_a_second.map(|rate| Arrivals::new(rate, plan.seed ^ plan.run));
    let pace = Pace { hot: hot.as_ref(), arrivals: arrivals.as_ref() };
    let work = |number: u16, tally: &mut Tally, over: &AtomicBool| {
        let rolled = terminal(store, plan, number, tally, over, pace, acknowledged)?;
        rolled_back.fetch_add(rolled, Ordering::Relaxed);
        Ok(())
    };
    let measured = harness::run(plan.terminals, TransactionKind::ALL.len(), &plan.schedule, probes, work)?;
    let new_orders = measured.latencies[TransactionKind::NewOrder as usize].count;
    Ok(Report {
        new_orders_a_minute: new_orders as f64 * 60.0 / measured.seconds,
        rolled_back: rolled_back.into_inner(),
        measured,
    })
}

/// What a terminal waits for before a transaction.
#[derive(Clone, Copy)]
struct Pace<'a> {
    hot: Option<&'a HotRows>,
    arrivals: Option<&'a Arrivals>,
}

/// Runs a terminal. Returns how many New-Orders in the measured time were rolled back.
fn terminal(
    store: &impl TpccStore,
    plan: &Plan,
    number: u16,
    tally: &mut Tally,
    over: &AtomicBool,
    pace: Pace<'_>,
    acknowledged: Acknowledged<'_>,
) -> StoreResult<u64> {
    let mut terminal = store.terminal()?;
    let mut inputs = Inputs::new(plan.sizes, plan.seed, plan.run, number);
    let mut rolled_back = 0;
    while !over.load(Ordering::Relaxed) {
        let begun = match pace.arrivals {
            Some(arrivals) => arrivals.wait(over),
            None => Instant::now(),
        };
        let input = inputs.next(now_us());
        let turn = pace.hot.map(|h| h.turn(&input));
        let mut conflicts = 0;
        let outcome = loop {
            match execute(&mut terminal, &input, &plan.sizes) {
                Err(StoreError::Conflict) if over.load(Ordering::Relaxed) => return Ok(rolled_back),
                Err(StoreError::Conflict) => {
                    conflicts += 1;
                    harness::give_way(conflicts);
                }
                other => break other?,
            }
        };
        drop(turn);
        if let Outcome::Ordered { order, .. } = outcome {
            acknowledged(order);
        }
        if tally.ends(TransactionKind::of(&input) as usize, begun, conflicts) {
            rolled_back += u64::from(outcome == Outcome::RolledBack);
        }
    }
    Ok(rolled_back)
}

/// Microseconds since 1970.
fn now_us() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}
