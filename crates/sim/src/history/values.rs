//! The data flow between transactions: the writes of each transaction by object, and its first read of each object
//! that it had not written. The later reads of the transaction are checked against these.
//!
//! ```text
//!   append 7 to x   read x = [1 2 7]   append 8 to x   read x = [1 2 7 8]
//!                   └ from others: [1 2]               └ must follow from the above; if not, an internal inconsistency
//! ```

use std::collections::{BTreeMap, HashMap};

use super::anomaly::{AnomalyKind, Report};
use super::model::{History, Object, Op, Outcome, TxnIndex};

/// The writer of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) txn: TxnIndex,
    /// Whether it is its transaction's last write to the object.
    pub(super) is_last: bool,
}

/// The operations on a list.
#[derive(Default)]
pub(super) struct ListUse<'a> {
    pub(super) writers: HashMap<u64, Writer>,
    /// The appended values, in the order of transactions and of operations within them.
    pub(super) appends: Vec<(TxnIndex, u64)>,
    /// The reads of values that other transactions wrote.
    pub(super) reads: Vec<(TxnIndex, &'a [u64])>,
}

/// The operations on a register.
#[derive(Default)]
pub(super) struct RegisterUse {
    pub(super) writers: HashMap<u64, Writer>,
    /// The last value that each transaction wrote, or `None` if the transaction deleted the value.
    pub(super) writes: Vec<(TxnIndex, Option<u64>)>,
    /// The reads of values that other transactions wrote.
    pub(super) reads: Vec<(TxnIndex, Option<u64>)>,
}

pub(super) struct Values<'a> {
    pub(super) lists: BTreeMap<u64, ListUse<'a>>,
    pub(super) registers: BTreeMap<u64, RegisterUse>,
    /// Whether each transaction is known to have committed: it was acknowledged, or another transaction saw its
    /// writes.
    pub(super) committed: Vec<bool>,
}

/// What a transaction knows about a list.
#[derive(Default)]
struct ListState<'a> {
    /// The values of other transactions, once the list was read.
    others: Option<&'a [u64]>,
    own: Vec<u64>,
}

impl<'a> Values<'a> {
    pub(super) fn of(history: &'a History, report: &mut Report) -> Self {
        let committed = history.transactions.iter().map(|t| t.outcome == Outcome::Committed).collect();
        let mut values = Self { lists: BTreeMap::new(), registers: BTreeMap::new(), committed };
        for t in 0..history.transactions.len() {
            values.take(history, t, report);
        }
        values.promote(history);
        values
    }

    /// Marks a transaction as committed if another one saw its writes, unless it is known to be aborted.
    fn promote(&mut self, history: &History) {
        let seen_in_lists = self.lists.values().flat_map(|l| {
            let seen = |(reader, values): &(TxnIndex, &'a [u64])| {
                let reader = *reader;
                values.iter().filter_map(|v| l.writers.get(v)).filter(move |w| w.txn != reader).map(|w| w.txn)
            };
            // Most reads are prefixes of each other. So only the last value of each read is checked, and all values of
            // the longest read.
            let longest = l.reads.iter().max_by_key(|r| r.1.len()).copied();
            let others = l.reads.iter().filter(move |r| longest.is_none_or(|x| !x.1.starts_with(r.1)));
            longest.into_iter().chain(others.copied()).flat_map(move |r| seen(&r).collect::<Vec<_>>())
        });
        let seen_in_registers = self.registers.values().flat_map(|r| {
            let writer = |(reader, value): &(TxnIndex, Option<u64>)| {
                value.and_then(|v| r.writers.get(&v)).map(|w| w.txn).filter(|t| t != reader)
            };
            r.reads.iter().filter_map(writer)
        });
        let seen: Vec<TxnIndex> = seen_in_lists.chain(seen_in_registers).collect();
        for t in seen {
            self.committed[t] |= history.transactions[t].outcome == Outcome::Unknown;
        }
    }

    /// Processes the operations of a transaction.
    fn take(&mut self, history: &'a History, t: TxnIndex, report: &mut Report) {
        let mut lists: Vec<(u64, ListState<'a>)> = Vec::new();
        // The expected value of each register, and whether the transaction wrote it.
        let mut registers: Vec<(u64, Option<u64>, bool)> = Vec::new();
        for op in &history.transactions[t].ops {
            match op {
                Op::Append { list, value } => state_of(&mut lists, *list).own.push(*value),
                Op::ReadList { list, values } => {
                    let state = state_of(&mut lists, *list);
                    let others = values.strip_suffix(&state.own[..]);
                    match (state.others, others) {
                        (None, Some(others)) => {
                            state.others = Some(others);
                            self.lists.entry(*list).or_default().reads.push((t, others));
                        }
                        (Some(before), Some(others)) if before == others => {}
                        (before, _) => {
                            let expected = [before.unwrap_or_default(), &state.own].concat();
                            let of = if before.is_some() { "" } else { "... " };
                            let what = format!(
                                "T{t} read {} = {values:?}, and it must have been {of}{expected:?}",
                                Object::List(*list)
                            );
                            report.forbid(AnomalyKind::Internal, vec![t], vec![what]);
                        }
                    }
                }
                Op::Write { register, value } => set(&mut registers, *register, Some(*value), |v| {
                    self.write(*register, t, v);
                }),
                Op::Delete { register } => set(&mut registers, *register, None, |v| {
                    self.write(*register, t, v);
                }),
                Op::Read { register, value } => match registers.iter().find(|r| r.0 == *register) {
                    None => {
                        registers.push((*register, *value, false));
                        self.registers.entry(*register).or_default().reads.push((t, *value));
                    }
                    Some((_, expected, _)) if expected == value => {}
                    Some((_, expected, _)) => {
                        let shown = |v: &Option<u64>| v.map_or("nothing".into(), |v| v.to_string());
                        let what = format!(
                            "T{t} read {} = {}, and it must have been {}",
                            Object::Register(*register),
                            shown(value),
                            shown(expected)
                        );
                        report.forbid(AnomalyKind::Internal, vec![t], vec![what]);
                    }
                },
            }
        }
        for (list, state) in lists {
            let of = self.lists.entry(list).or_default();
            if state.others.is_some_and(|others| state.own.iter().any(|v| others.contains(v))) {
                of.reads.retain(|r| r.0 != t);
                report.forbid(AnomalyKind::Internal, vec![t], vec![early(t, Object::List(list))]);
            }
            for (i, &value) in state.own.iter().enumerate() {
                let writer = Writer { txn: t, is_last: i + 1 == state.own.len() };
                let before = of.writers.insert(value, writer);
                assert!(before.is_none(), "{value} is appended to list {list} twice: nothing can be told");
                of.appends.push((t, value));
            }
        }
        for (register, value, _) in registers.into_iter().filter(|r| r.2) {
            let of = self.registers.entry(register).or_default();
            let own = |v: &u64| of.writers.get(v).is_some_and(|w| w.txn == t);
            if of.reads.last().is_some_and(|r| r.0 == t && r.1.as_ref().is_some_and(own)) {
                of.reads.pop();
                report.forbid(AnomalyKind::Internal, vec![t], vec![early(t, Object::Register(register))]);
            }
            if let Some(writer) = value.and_then(|v| of.writers.get_mut(&v)) {
                writer.is_last = true;
            }
            of.writes.push((t, value));
        }
    }

    /// Records a write, which may not be the transaction's last one to the register.
    fn write(&mut self, register: u64, t: TxnIndex, value: Option<u64>) {
        let of = self.registers.entry(register).or_default();
        if let Some(value) = value {
            let before = of.writers.insert(value, Writer { txn: t, is_last: false });
            assert!(before.is_none(), "{value} is written to register {register} twice: nothing can be told");
        }
    }
}

fn early(t: TxnIndex, object: Object) -> String {
    format!("T{t} read from {object} what it wrote only later")
}

fn state_of<'s, 'a>(lists: &'s mut Vec<(u64, ListState<'a>)>, list: u64) -> &'s mut ListState<'a> {
    let at = lists.iter().position(|l| l.0 == list).unwrap_or_else(|| {
        lists.push((list, ListState::default()));
        lists.len() - 1
    });
    &mut lists[at].1
}

/// Sets what a transaction must see in a register.
fn set(
    registers: &mut Vec<(u64, Option<u64>, bool)>,
    register: u64,
    value: Option<u64>,
    mut write: impl FnMut(Option<u64>),
) {
    write(value);
    match registers.iter_mut().find(|r| r.0 == register) {
        Some(known) => (known.1, known.2) = (value, true),
        None => registers.push((register, value, true)),
    }
}
