//! Lists. The longest read gives the order of versions, and every other read must be a prefix of it.
//!
//! ```text
//!   [1]  [1 2]  [1 2 3 4]          appended, and in no read: 5
//!    └────┴───── prefixes ─────┘   so 5 comes after 4, or is lost if a later read lacks it
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::anomaly::{About, AnomalyKind, Report};
use super::graph::EdgeKind;
use super::model::{Object, TxnIndex};
use super::values::ListUse;
use super::versions::Inferred;

/// A read without its forbidden values.
type Read<'a> = (TxnIndex, Cow<'a, [u64]>);

pub(super) fn infer(found: &mut Inferred<'_>, report: &mut Report) {
    let values = found.values;
    for (list, of) in &values.lists {
        let mut counted: Vec<(TxnIndex, &[u64])> =
            of.reads.iter().filter(|r| found.counts(r.0)).copied().collect();
        // The longest read comes first. Most others are prefixes of it, so they need no check of their own.
        counted.sort_by_key(|r| std::cmp::Reverse(r.1.len()));
        let mut sound: &[u64] = &[];
        let mut reads: Vec<Read<'_>> = Vec::with_capacity(counted.len());
        for (reader, values) in counted {
            let kept = if sound.starts_with(values) {
                Cow::Borrowed(values)
            } else {
                clean(found, *list, of, reader, values, report)
            };
            if let Cow::Borrowed(values) = kept
                && values.len() > sound.len()
            {
                sound = values;
            }
            if ends_whole(*list, of, reader, &kept, report) {
                reads.push((reader, kept));
            }
        }
        infer_one(found, *list, of, &reads, report);
    }
}

/// Removes the forbidden values from a read and reports them.
fn clean<'a>(
    found: &Inferred<'_>,
    list: u64,
    of: &ListUse<'_>,
    reader: TxnIndex,
    values: &'a [u64],
    report: &mut Report,
) -> Cow<'a, [u64]> {
    let shown = || format!("T{reader} read {} = {values:?}", Object::List(list));
    let mut seen = HashSet::with_capacity(values.len());
    let mut keep = Vec::new();
    for (i, v) in values.iter().enumerate() {
        let writer = of.writers.get(v);
        let fault = match writer {
            None => Some((AnomalyKind::Unwritten, vec![reader], format!("no transaction appended {v}"))),
            Some(w) if found.is_aborted(w.txn) => {
                let on_top = values[i + 1..]
                    .iter()
                    .filter_map(|v| of.writers.get(v))
                    .find(|x| found.is_committed(x.txn));
                Some(match on_top {
                    Some(x) => (
                        AnomalyKind::DirtyUpdate,
                        vec![w.txn, x.txn],
                        format!("T{} appended {v} and aborted; T{} appended after it", w.txn, x.txn),
                    ),
                    None => (
                        AnomalyKind::AbortedRead,
                        vec![w.txn, reader],
                        format!("T{} appended {v} and aborted", w.txn),
                    ),
                })
            }
            Some(w) if !seen.insert(*v) => {
                Some((AnomalyKind::Duplicate, vec![w.txn, reader], format!("{v} was appended once")))
            }
            Some(_) => None,
        };
        match fault {
            Some((kind, transactions, why)) => {
                if keep.is_empty() {
                    keep = values[..i].iter().map(|v| Some(*v)).collect();
                }
                keep.push(None);
                report.forbid(kind, transactions, vec![shown(), why]);
            }
            None if !keep.is_empty() => keep.push(Some(*v)),
            None => {}
        }
    }
    if keep.is_empty() { values.into() } else { keep.into_iter().flatten().collect() }
}

/// Whether a read ends with the last append of a transaction. If not, it is reported.
fn ends_whole(list: u64, of: &ListUse<'_>, reader: TxnIndex, values: &[u64], report: &mut Report) -> bool {
    let Some((last, w)) = values.last().map(|v| (v, of.writers[v])) else { return true };
    if !w.is_last {
        let story = vec![
            format!("T{reader} read {} = {values:?}", Object::List(list)),
            format!("T{} appended more after {last}", w.txn),
        ];
        report.forbid(AnomalyKind::IntermediateRead, vec![w.txn, reader], story);
    }
    w.is_last
}

fn infer_one(found: &mut Inferred<'_>, list: u64, of: &ListUse<'_>, reads: &[Read<'_>], report: &mut Report) {
    let object = Object::List(list);
    let none = (0, Cow::Borrowed(&[][..]));
    let longest = reads.first().unwrap_or(&none);
    let trace = &longest.1[..];
    let (fit, others): (Vec<&Read<'_>>, Vec<&Read<'_>>) = reads.iter().partition(|r| trace.starts_with(&r.1));
    for (t, values) in others {
        let story =
            vec![format!("T{t} read {object} = {values:?}"), format!("T{} read {trace:?}", longest.0)];
        report.forbid(AnomalyKind::IncompatibleOrders, vec![*t, longest.0], story);
    }

    lost_updates(found, object, of, &fit, report);
    let in_trace: BTreeSet<u64> = trace.iter().copied().collect();
    let unseen: Vec<(TxnIndex, u64)> = of
        .appends
        .iter()
        .filter(|a| found.is_committed(a.0) && !in_trace.contains(&a.1) && !found.is_loser(object, a.0))
        .copied()
        .filter(|&(writer, value)| {
            // A later read that lacks the value.
            let lacks = reads.iter().find(|r| r.0 != writer && found.is_before(writer, r.0));
            if let Some((reader, values)) = lacks {
                let story = vec![
                    format!("T{writer} appended {value} to {object}, and committed"),
                    format!("T{reader}, which comes after it, read {values:?}"),
                ];
                report.forbid(AnomalyKind::LostAppend, vec![writer, *reader], story);
            }
            lacks.is_none()
        })
        .collect();

    let writer = |v: u64| of.writers[&v].txn;
    let about = |old: Option<u64>, new: Option<u64>| About { object: Some(object), old, new };
    for pair in trace.windows(2) {
        found.edge(writer(pair[0]), writer(pair[1]), EdgeKind::Ww, about(Some(pair[0]), Some(pair[1])));
    }
    if let Some(&last) = trace.last() {
        for &(t, value) in &unseen {
            found.edge(writer(last), t, EdgeKind::Ww, about(Some(last), Some(value)));
        }
    }
    for (reader, values) in fit {
        let last = values.last().copied();
        if let Some(last) = last {
            found.edge(writer(last), *reader, EdgeKind::Wr, about(Some(last), None));
        }
        match trace.get(values.len()) {
            Some(&next) => found.edge(*reader, writer(next), EdgeKind::Rw, about(last, Some(next))),
            None => unseen
                .iter()
                .for_each(|&(t, value)| found.edge(*reader, t, EdgeKind::Rw, about(last, Some(value)))),
        }
    }
}

/// Finds transactions that read the same version and appended to it.
fn lost_updates(
    found: &mut Inferred<'_>,
    object: Object,
    of: &ListUse<'_>,
    reads: &[&Read<'_>],
    report: &mut Report,
) {
    let appenders: BTreeSet<TxnIndex> =
        of.appends.iter().map(|a| a.0).filter(|&t| found.is_committed(t)).collect();
    let mut by_version: BTreeMap<usize, (&[u64], Vec<TxnIndex>)> = BTreeMap::new();
    for (t, values) in reads.iter().filter(|r| appenders.contains(&r.0)) {
        by_version.entry(values.len()).or_insert((values, Vec::new())).1.push(*t);
    }
    for (values, group) in by_version.into_values().filter(|v| v.1.len() > 1) {
        let all = group.iter().map(|t| format!("T{t}")).collect::<Vec<_>>().join(" and ");
        let story = vec![format!("{all} read {object} = {values:?}, and each appended to it")];
        group.iter().for_each(|t| found.lost(object, *t));
        report.forbid(AnomalyKind::LostUpdate, group, story);
    }
}
