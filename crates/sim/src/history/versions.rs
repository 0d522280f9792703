//! The inferences about versions so far: dependencies, and transactions whose lost updates were reported already.

use std::collections::BTreeSet;

use super::anomaly::About;
use super::graph::{Edge, EdgeKind};
use super::model::{History, Object, Options, Outcome, Transaction, TxnIndex};
use super::values::Values;

pub(super) struct Inferred<'a> {
    pub(super) history: &'a History,
    pub(super) values: &'a Values<'a>,
    pub(super) options: &'a Options,
    pub(super) edges: Vec<Edge>,
    /// Transactions with a reported lost update of an object. Anomalies that follow from it are not reported again.
    losers: BTreeSet<(Object, TxnIndex)>,
}

impl<'a> Inferred<'a> {
    pub(super) fn new(history: &'a History, options: &'a Options, values: &'a Values<'a>) -> Self {
        Self { history, values, options, edges: Vec::new(), losers: BTreeSet::new() }
    }

    pub(super) fn txn(&self, t: TxnIndex) -> &'a Transaction {
        &self.history.transactions[t]
    }

    /// Whether a transaction is known to have committed.
    pub(super) fn is_committed(&self, t: TxnIndex) -> bool {
        self.values.committed[t]
    }

    /// Whether a transaction is known to have aborted.
    pub(super) fn is_aborted(&self, t: TxnIndex) -> bool {
        self.txn(t).outcome == Outcome::Aborted
    }

    /// Whether the reads of a transaction are checked.
    pub(super) fn counts(&self, reader: TxnIndex) -> bool {
        self.options.aborted_reads || self.is_committed(reader)
    }

    pub(super) fn lost(&mut self, object: Object, t: TxnIndex) {
        self.losers.insert((object, t));
    }

    pub(super) fn is_loser(&self, object: Object, t: TxnIndex) -> bool {
        self.losers.contains(&(object, t))
    }

    /// Adds a dependency between two transactions because of an object.
    pub(super) fn edge(&mut self, from: TxnIndex, to: TxnIndex, kind: EdgeKind, about: About) {
        let told = about.object.is_some_and(|o| match kind {
            EdgeKind::Ww => self.is_loser(o, from) && self.is_loser(o, to),
            EdgeKind::Rw => self.is_loser(o, from),
            _ => false,
        });
        if from != to && !told {
            self.edges.push(Edge { from, to, kind, about });
        }
    }

    /// Whether one transaction was certainly visible to another: by its snapshot, or by the order of the two.
    pub(super) fn is_before(&self, first: TxnIndex, then: TxnIndex) -> bool {
        let (a, b) = (self.txn(first), self.txn(then));
        let known = |x: Option<u64>, y: Option<u64>| x.zip(y);
        known(a.commit, b.snapshot).is_some_and(|(commit, snapshot)| commit <= snapshot)
            || self.options.real_time && known(a.returned, b.invoked).is_some_and(|(end, begin)| end < begin)
            || self.options.session_order && a.session == b.session && first < then
    }
}
