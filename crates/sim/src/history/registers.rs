//! Registers. The order of their versions comes from commit numbers if they are known, otherwise from transactions
//! that read one version before they wrote another.
//!
//! ```text
//!   nothing ─► 4 ─► 9 ─► deleted ─► 2      by commit number; a version without one is placed behind the version that
//!                   └─► 7                  its transaction read
//! ```
//!
//! An empty register was never written, or was deleted. The checker knows which of the two a reader saw if the reader's
//! snapshot and all commit numbers are known, or if no transaction deleted the register.

use std::collections::BTreeMap;

use super::anomaly::{About, AnomalyKind, Report};
use super::graph::EdgeKind;
use super::model::{Object, TxnIndex};
use super::values::RegisterUse;
use super::versions::Inferred;

/// A version: `None` for the initial one, or the transaction that wrote it.
type Version = Option<TxnIndex>;

struct Register<'a> {
    object: Object,
    of: &'a RegisterUse,
    /// The committed versions with their values.
    versions: BTreeMap<TxnIndex, Option<u64>>,
    /// The versions with a commit number, in the order of the numbers.
    numbered: Vec<(u64, TxnIndex)>,
    /// The versions read by transactions whose reads count.
    reads: Vec<(TxnIndex, Version)>,
    /// The known direct successors of each version.
    next: BTreeMap<Version, Vec<TxnIndex>>,
}

pub(super) fn infer(found: &mut Inferred<'_>, report: &mut Report) {
    let values = found.values;
    for (register, of) in &values.registers {
        let writes = of.writes.iter().filter(|w| found.is_committed(w.0));
        let versions: BTreeMap<TxnIndex, Option<u64>> = writes.copied().collect();
        let mut numbered: Vec<(u64, TxnIndex)> =
            versions.keys().filter_map(|&t| found.txn(t).commit.map(|c| (c, t))).collect();
        numbered.sort_unstable();
        let object = Object::Register(*register);
        let mut r = Register { object, of, versions, numbered, reads: Vec::new(), next: BTreeMap::new() };
        r.take_reads(found, report);
        r.lost_updates(found, report);
        r.order(found, report);
        r.depend(found);
    }
}

impl Register<'_> {
    /// Determines the version that each reader saw, and reports forbidden reads.
    fn take_reads(&mut self, found: &Inferred<'_>, report: &mut Report) {
        for &(reader, value) in self.of.reads.iter().filter(|r| found.counts(r.0)) {
            let Some(value) = value else {
                self.reads.extend(self.absence(found, reader).map(|v| (reader, v)));
                continue;
            };
            let shown = format!("T{reader} read {} = {value}", self.object);
            let (kind, why, transactions) = match self.of.writers.get(&value) {
                None => (AnomalyKind::Unwritten, "no transaction wrote it".into(), vec![reader]),
                Some(w) if found.is_aborted(w.txn) => {
                    let on_top = self.versions.contains_key(&reader);
                    let kind = if on_top { AnomalyKind::DirtyUpdate } else { AnomalyKind::AbortedRead };
                    let then = if on_top { format!("; T{reader} wrote over it") } else { String::new() };
                    (kind, format!("T{} wrote it and aborted{then}", w.txn), vec![w.txn, reader])
                }
                Some(w) if !w.is_last => (
                    AnomalyKind::IntermediateRead,
                    format!("T{} wrote over it itself", w.txn),
                    vec![w.txn, reader],
                ),
                Some(w) => {
                    self.reads.push((reader, Some(w.txn)));
                    continue;
                }
            };
            report.forbid(kind, transactions, vec![shown, why]);
        }
    }

    /// The version that a reader of an empty register saw, if it is certain.
    fn absence(&self, found: &Inferred<'_>, reader: TxnIndex) -> Option<Version> {
        let deletes = || self.of.writes.iter().filter(|w| w.1.is_none() && !found.is_aborted(w.0));
        if deletes().next().is_none() {
            return Some(None);
        }
        let snapshot = found.txn(reader).snapshot?;
        if self.numbered.len() < self.versions.len() || !deletes().all(|w| found.is_committed(w.0)) {
            return None;
        }
        // The newest empty version that the reader may have seen. If a value followed that version, the reader missed
        // the value.
        let seen = self.numbered.iter().rev().filter(|n| n.0 <= snapshot);
        Some(seen.map(|n| n.1).find(|t| self.versions[t].is_none()))
    }

    /// Finds transactions that read the same version and wrote the register.
    fn lost_updates(&self, found: &mut Inferred<'_>, report: &mut Report) {
        let mut by_version: BTreeMap<Version, Vec<TxnIndex>> = BTreeMap::new();
        for (reader, version) in self.reads.iter().filter(|r| self.versions.contains_key(&r.0)) {
            by_version.entry(*version).or_default().push(*reader);
        }
        for (version, group) in by_version.into_iter().filter(|v| v.1.len() > 1) {
            let all = group.iter().map(|t| format!("T{t}")).collect::<Vec<_>>().join(" and ");
            let seen = self.value(version).map_or("nothing".into(), |v| v.to_string());
            group.iter().for_each(|t| found.lost(self.object, *t));
            let story = vec![format!("{all} read {} = {seen}, and each wrote it", self.object)];
            report.forbid(AnomalyKind::LostUpdate, group, story);
        }
    }

    fn value(&self, version: Version) -> Option<u64> {
        version.and_then(|t| self.versions[&t])
    }

    /// Collects what is known about the order of versions.
    fn order(&mut self, found: &Inferred<'_>, report: &mut Report) {
        let mut before: Version = None;
        for &(_, t) in &self.numbered {
            self.next.entry(before).or_default().push(t);
            before = Some(t);
        }
        let number = |t: TxnIndex| found.txn(t).commit;
        let mut placed: Vec<TxnIndex> = self.numbered.iter().map(|n| n.1).collect();
        for &(writer, version) in self.reads.iter().filter(|r| self.versions.contains_key(&r.0)) {
            // If both versions have commit numbers, their order is known, and a contradiction shows as a dependency.
            let known = number(writer).is_some() && version.is_none_or(|v| number(v).is_some());
            if !known {
                self.next.entry(version).or_default().push(writer);
                placed.push(writer);
            }
        }
        for &t in self.versions.keys().filter(|t| !placed.contains(t)) {
            self.next.entry(None).or_default().push(t);
        }
        if let Some(cycle) = self.cycle() {
            let shown: Vec<String> = cycle.iter().map(|&t| format!("T{t}'s")).collect();
            let what = format!("versions of {} come before each other: {}", self.object, shown.join(", "));
            report.forbid(AnomalyKind::IncompatibleOrders, cycle, vec![what]);
            self.next.clear();
        }
    }

    /// A cycle in the order of versions.
    fn cycle(&self) -> Option<Vec<TxnIndex>> {
        let mut waits: BTreeMap<TxnIndex, usize> = self.versions.keys().map(|&t| (t, 0)).collect();
        self.next.values().flatten().for_each(|t| *waits.get_mut(t).expect("it is a version") += 1);
        let mut ready: Vec<Version> = vec![None];
        while let Some(version) = ready.pop() {
            for t in self.next.get(&version).into_iter().flatten() {
                let left = waits.get_mut(t).expect("it is a version");
                *left -= 1;
                if *left == 0 {
                    ready.push(Some(*t));
                }
            }
        }
        let cycle: Vec<TxnIndex> = waits.into_iter().filter(|w| w.1 > 0).map(|w| w.0).collect();
        Some(cycle).filter(|c| !c.is_empty())
    }

    fn depend(&self, found: &mut Inferred<'_>) {
        let about = |old: Version, new: Version| About {
            object: Some(self.object),
            old: self.value(old),
            new: self.value(new),
        };
        for (version, next) in &self.next {
            for (&t, v) in next.iter().filter_map(|t| version.as_ref().map(|v| (t, v))) {
                found.edge(*v, t, EdgeKind::Ww, about(*version, Some(t)));
            }
        }
        for &(reader, version) in &self.reads {
            if let Some(writer) = version {
                found.edge(writer, reader, EdgeKind::Wr, about(version, None));
            }
            for &t in self.next.get(&version).into_iter().flatten() {
                found.edge(reader, t, EdgeKind::Rw, about(version, Some(t)));
            }
        }
    }
}
