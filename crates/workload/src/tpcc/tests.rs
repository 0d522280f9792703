//! TPC-C on the reference store: the conditions hold after runs, and the check finds each violation.

use std::time::Duration;

use super::rows::{Order, OrderLine};
use super::store::{Intent, Terminal, TpccStore, TpccTxn};
use super::*;
use crate::harness::{Probes, RunError, Schedule};
use crate::memory::MemoryStore;
use crate::store::{StoreError, StoreResult, Transactional, Txn};

const SMALL: Sizes = Sizes { warehouses: 2, districts: 3, customers: 20, items: 50 };

fn loaded() -> KvTpcc<MemoryStore> {
    let store = KvTpcc::new(MemoryStore::default()).unwrap();
    load(&store, &SMALL, 7, 1_700_000_000_000_000).unwrap();
    store
}

fn violations(store: &impl TpccStore) -> Violations {
    check(store, &SMALL).unwrap()
}

fn plan(terminals: u16, queue_at_hot_rows: bool) -> Plan {
    Plan {
        sizes: SMALL,
        terminals,
        schedule: Schedule {
            warm_up: Duration::ZERO,
            length: Duration::from_millis(300),
            interval: Duration::from_millis(100),
        },
        seed: 7,
        run: 1,
        queue_at_hot_rows,
        arrivals_a_second: None,
    }
}

#[test]
fn what_is_loaded_is_consistent_and_of_the_seed() {
    let store = loaded();
    assert_eq!(violations(&store), Violations::default());
    let rows = |store: &KvTpcc<MemoryStore>| {
        let mut all = Vec::new();
        let mut terminal = store.terminal().unwrap();
        let mut txn = terminal.begin(Intent::Read).unwrap();
        txn.each_customer(2, &mut |c| all.push(c)).unwrap();
        all
    };
    assert_eq!(rows(&store), rows(&loaded()));
    assert_eq!(rows(&store).len(), 60);
}

#[test]
fn one_input_after_the_other_keeps_the_conditions() {
    let store = loaded();
    let mut terminal = store.terminal().unwrap();
    let mut inputs = input::Inputs::new(SMALL, 7, 1, 0);
    let (mut ordered, mut rolled_back, mut delivered, mut idle) = (0, 0, 0, 0);
    for n in 0..4000 {
        match execute(&mut terminal, &inputs.next(n), &SMALL).unwrap() {
            Outcome::Ordered { total, .. } => {
                ordered += 1;
                assert!(total > 0);
            }
            Outcome::RolledBack => rolled_back += 1,
            Outcome::Delivered(n, left) => {
                delivered += u32::from(n);
                idle += u32::from(left);
            }
            Outcome::Status(lines) => assert!((5..=15).contains(&lines)),
            Outcome::Low(items) => assert!(items <= SMALL.items),
            Outcome::Paid(_) => {}
        }
        if n % 500 == 0 {
            assert_eq!(violations(&store), Violations::default(), "after {n}");
        }
    }
    assert_eq!(violations(&store), Violations::default());
    assert!(
        ordered > 1600 && rolled_back > 5 && delivered > 100 && idle == 0,
        "{ordered} {rolled_back} {delivered} {idle}"
    );
}

#[test]
fn terminals_beside_each_other_keep_the_conditions() {
    for queue in [false, true] {
        let store = loaded();
        let orders = parking_lot::Mutex::new(Vec::new());
        let acknowledged = |o| orders.lock().push(o);
        let report = run(&store, &plan(4, queue), &Probes::NONE, &acknowledged).unwrap();
        assert_eq!(violations(&store), Violations::default(), "queue: {queue}");
        assert!(report.measured.operations > 50 && report.measured.timeline.len() == 3, "{report:?}");
        assert!(report.measured.latencies.iter().all(|p| p.count > 0), "{report:?}");
        let orders = orders.into_inner();
        let distinct: std::collections::BTreeSet<_> = orders.iter().collect();
        assert_eq!(distinct.len(), orders.len(), "an order's number was given twice");
        let mut terminal = store.terminal().unwrap();
        let mut txn = terminal.begin(Intent::Read).unwrap();
        assert!(orders.iter().all(|(w, d, o)| txn.order(*w, *d, *o).unwrap().is_some()));
    }
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    let probes = Probes { stop: &|| true, ..Probes::NONE };
    let stopped = run(&loaded(), &plan(2, false), &probes, &|_| {});
    assert!(matches!(stopped, Err(RunError::Stopped)), "{stopped:?}");
}

/// Breaks something in a transaction and returns the conditions that the check finds violated.
fn broken(breach: impl FnOnce(&mut KvTxn<'_, MemoryStore>) -> StoreResult) -> Vec<String> {
    let store = loaded();
    let mut terminal = store.terminal().unwrap();
    let mut txn = terminal.begin(Intent::Write).unwrap();
    breach(&mut txn).unwrap();
    txn.commit().unwrap();
    let found = violations(&store);
    assert_eq!(found.count as usize, found.told.len());
    let name = |line: &String| line.split(':').next().unwrap().replace("condition ", "");
    let mut names: Vec<String> = found.told.iter().map(name).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn each_breach_is_found() {
    assert_eq!(broken(|t| t.pay_warehouse(1, 1).map(drop)), ["1", "8"]);
    assert_eq!(broken(|t| t.pay_district(1, 1, 1).map(drop)), ["1", "9"]);
    assert_eq!(broken(|t| t.take_order_number(2, 3).map(drop)), ["2"]);
    assert_eq!(broken(|t| t.remove_new_order(1, 1, 20)), ["11", "2", "5"]);
    assert_eq!(broken(|t| t.remove_new_order(1, 1, 16)), ["11", "3", "5"]);
    let line = |number| OrderLine {
        w: 1,
        d: 1,
        o: 20,
        number,
        i: 1,
        supply_w: 1,
        delivered: None,
        quantity: 1,
        amount: 1,
        dist_info: [b'x'; 24],
    };
    assert_eq!(broken(|t| t.add_line(&line(99))), ["4", "6"]);
    assert_eq!(broken(|t| t.add_line(&OrderLine { o: 999, ..line(1) })), ["4"]);
    assert_eq!(broken(|t| t.carry(1, 1, 20, 3).map(drop)), ["5", "7"]);
    assert_eq!(broken(|t| t.deliver_lines(1, 1, 20, 5).map(drop)), ["10", "12", "7"]);
    assert_eq!(broken(|t| t.deliver_to(1, 1, 1, 0)), ["11"]);
    assert_eq!(broken(|t| t.deliver_to(1, 1, 1, 7)), ["10", "11", "12"]);
    let paid = |t: &mut KvTxn<'_, MemoryStore>| {
        let mut c = t.customer(1, 2, 3)?;
        c.pay(1, 2, 500);
        t.store_payment(&c)
    };
    assert_eq!(broken(paid), ["10"]);
    let order = Order { w: 2, d: 1, o: 21, c: 1, entry: 0, carrier: None, lines: 0, all_local: true };
    assert_eq!(broken(|t| t.add_order(&order)), ["11", "2", "5"]);
}

/// A broken store: its commits sometimes lose the writes of one tree.
struct Forgetful(MemoryStore);

struct ForgetfulTxn<'a>(<MemoryStore as Transactional>::Txn<'a>);

impl Transactional for Forgetful {
    type Tree = usize;
    type Txn<'a> = ForgetfulTxn<'a>;

    fn tree(&self, name: &str) -> StoreResult<usize> {
        self.0.tree(name)
    }

    fn begin(&self) -> StoreResult<ForgetfulTxn<'_>> {
        Ok(ForgetfulTxn(self.0.begin()?))
    }
}

impl Txn for ForgetfulTxn<'_> {
    type Tree = usize;

    fn get<R>(&mut self, tree: &usize, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> StoreResult<Option<R>> {
        self.0.get(tree, key, f)
    }

    fn scan(
        &mut self,
        tree: &usize,
        from: &[u8],
        to: &[u8],
        f: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult {
        self.0.scan(tree, from, to, f)
    }

    fn put(&mut self, tree: &usize, key: &[u8], value: &[u8]) -> StoreResult {
        self.0.put(tree, key, value)
    }

    fn delete(&mut self, tree: &usize, key: &[u8]) -> StoreResult {
        self.0.delete(tree, key)
    }

    fn commit(self) -> StoreResult {
        match self.0.commit() {
            // A transaction that conflicts reports success, although its writes are lost.
            Err(StoreError::Conflict) => Ok(()),
            other => other,
        }
    }
}

#[test]
fn lost_commits_are_noticed() {
    let store = KvTpcc::new(Forgetful(MemoryStore::default())).unwrap();
    load(&store, &SMALL, 7, 1_700_000_000_000_000).unwrap();
    let orders = parking_lot::Mutex::new(Vec::new());
    let acknowledged = |o| orders.lock().push(o);
    // An order number that was assigned twice shows in the acknowledgements. The rows stay consistent, because all
    // writes of a transaction are lost or none.
    for attempt in 0..20 {
        run(&store, &Plan { run: attempt, ..plan(8, false) }, &Probes::NONE, &acknowledged).unwrap();
        let all = orders.lock();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        if distinct.len() < all.len() {
            return;
        }
    }
    panic!("eight terminals on two warehouses never met");
}
