//! Cycles of dependencies, by Adya's names.
//!
//! ```text
//!   ww ww           G0                 rw once           G-single       with orders of numbers: G-SI(a), G-SI(b)
//!   ww wr           G1c                rw, never in a row G-nonadjacent
//!                                      rw rw ...         G2-item: what snapshot isolation permits
//! ```
//!
//! One pass over the graph tells whether there is a forbidden cycle. If there is one, a search finds it. The first
//! search uses dependencies alone. The next ones add the orders of sessions, of real time and of snapshots. The first
//! search that finds cycles reports them.

use std::collections::BTreeSet;

use super::anomaly::{AnomalyKind, Report, tell};
use super::graph::{Edge, EdgeKind, Graph, Mask};
use super::model::{History, Level, Options, TxnIndex};

const WW: Mask = EdgeKind::Ww.bit();
const WR: Mask = EdgeKind::Wr.bit();
const RW: Mask = EdgeKind::Rw.bit();
const SESSION: Mask = EdgeKind::Session.bit();
const REAL_TIME: Mask = EdgeKind::RealTime.bit();
const START: Mask = EdgeKind::Start.bit();
const ALL: Mask = WW | WR | RW | SESSION | REAL_TIME | START;

/// The known orders that each search adds to the dependencies.
const ORDERS: [Mask; 4] = [0, SESSION, SESSION | REAL_TIME, SESSION | REAL_TIME | START];

/// The most cycles of a component to try in the search for a short one.
const TRIED_MAX: usize = 32;

pub(super) fn find(history: &History, options: &Options, graph: &Graph, report: &mut Report) {
    let interferes = interference(history, graph, report);
    if graph.has_cycle_apart(ALL) {
        for orders in ORDERS {
            let known = orders & START != 0 && interferes;
            if !known && find_with(graph, orders, report) {
                break;
            }
        }
    }
    match options.level {
        Level::SnapshotIsolation => skew(graph, WW | WR | RW, |cycle| {
            report.permit(AnomalyKind::G2Item, transactions(graph, cycle), story(graph, cycle));
        }),
        Level::Serializable => skew(graph, ALL, |cycle| {
            report.forbid(AnomalyKind::G2Item, transactions(graph, cycle), story(graph, cycle));
        }),
    }
}

/// Finds dependencies on transactions that had not committed when the snapshot was taken.
fn interference(history: &History, graph: &Graph, report: &mut Report) -> bool {
    let mut found = false;
    for e in graph.all().iter().filter(|e| e.kind.bit() & (WW | WR) != 0) {
        let commit = history.transactions[e.from].commit;
        let snapshot = history.transactions[e.to].snapshot;
        if let Some((commit, snapshot)) = commit.zip(snapshot).filter(|(c, s)| c > s) {
            let numbers =
                format!("T{} is commit {commit}, and the snapshot of T{} is {snapshot}", e.from, e.to);
            let story = vec![tell(e.from, e.to, e.kind, &e.about), numbers];
            report.forbid(AnomalyKind::GSIa, vec![e.from, e.to], story);
            found = true;
        }
    }
    found
}

/// Finds forbidden cycles of dependencies and these orders. Returns whether there are any.
fn find_with(graph: &Graph, orders: Mask, report: &mut Report) -> bool {
    let before = report.forbidden.len() + report.untold;
    let numbers = orders & START != 0;
    let mut told: BTreeSet<usize> = BTreeSet::new();
    for (mask, of, kind) in [(WW, EdgeKind::Ww, AnomalyKind::G0), (WW | WR, EdgeKind::Wr, AnomalyKind::G1c)] {
        let kind = if numbers { AnomalyKind::GSIa } else { kind };
        for cycle in shortest_by_part(graph, mask | orders, of, &told) {
            told.extend(cycle.iter().map(|e| e.from));
            tell_cycle(graph, kind, &cycle, report);
        }
    }
    let kind = if numbers { AnomalyKind::GSIb } else { AnomalyKind::GSingle };
    let candidates: Vec<&Edge> = graph.anti_dependencies_apart(WW | WR | RW | orders);
    let untold = |e: &&&Edge| !(told.contains(&e.from) && told.contains(&e.to));
    let mut longer: Vec<&Edge> = Vec::new();
    for e in candidates.iter().filter(untold) {
        if report.is_full(kind) {
            break;
        }
        match graph.way(e.to, e.from, WW | WR | orders, |_| true) {
            Some(way) => tell_cycle(graph, kind, &cycle_of(e, way), report),
            None => longer.push(e),
        }
    }
    // With a report per anti-dependency, the same cycle would be reported several times.
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    for e in longer {
        let kind = AnomalyKind::GNonadjacent;
        if report.is_full(kind) {
            break;
        }
        let way = graph.way_apart(e.to, e.from, WW | WR | RW | orders);
        let cycle = cycle_of(e, way.expect("the edge is on such a cycle"));
        let new = !cycle.iter().all(|e| seen.contains(&e.from));
        seen.extend(cycle.iter().map(|e| e.from));
        // A cycle of transactions that are all in earlier cycles is not reported again. Cycles with a single
        // anti-dependency were reported above.
        if new && cycle.iter().filter(|e| e.kind == EdgeKind::Rw).count() > 1 {
            tell_cycle(graph, kind, &cycle, report);
        }
    }
    report.forbidden.len() + report.untold > before
}

/// For each component with cycles of these kinds, finds a short cycle through an edge of the kind `through`. Cycles
/// through reported transactions are left out.
fn shortest_by_part(graph: &Graph, mask: Mask, through: EdgeKind, told: &BTreeSet<usize>) -> Vec<Vec<Edge>> {
    let parts = graph.parts(mask);
    let mut found: Vec<(usize, usize, Vec<Edge>)> = Vec::new();
    for e in graph.all().iter().filter(|e| e.kind == through && parts.are_together(e.from, e.to)) {
        let part = parts.of[e.from];
        let at = found.iter().position(|f| f.0 == part).unwrap_or_else(|| {
            found.push((part, 0, Vec::new()));
            found.len() - 1
        });
        let (_, tried, best) = &mut found[at];
        *tried += 1;
        if *tried > TRIED_MAX {
            continue;
        }
        let way = graph.way(e.to, e.from, mask, |n| parts.of[n] == part);
        let cycle = cycle_of(e, way.expect("they are in one part"));
        if best.is_empty() || cycle.len() < best.len() {
            *best = cycle;
        }
    }
    let cycles = found.into_iter().map(|f| f.2);
    cycles.filter(|c| !c.iter().any(|e| told.contains(&e.from))).collect()
}

/// Finds a cycle with two adjacent anti-dependencies in each component that has one.
fn skew(graph: &Graph, mask: Mask, mut tell: impl FnMut(&[Edge])) {
    let parts = graph.parts(mask);
    let mut tried: Vec<(usize, usize)> = Vec::new();
    for e in graph.all().iter().filter(|e| e.kind == EdgeKind::Rw && parts.are_together(e.from, e.to)) {
        let part = parts.of[e.from];
        let at = tried.iter().position(|t| t.0 == part).unwrap_or_else(|| {
            tried.push((part, 0));
            tried.len() - 1
        });
        if tried[at].1 >= TRIED_MAX {
            continue;
        }
        tried[at].1 += 1;
        let way = graph.way(e.to, e.from, mask, |n| parts.of[n] == part);
        let cycle = cycle_of(e, way.expect("they are in one part"));
        let is_rw = |e: &Edge| e.kind == EdgeKind::Rw;
        let in_a_row = (0..cycle.len()).any(|i| is_rw(&cycle[i]) && is_rw(&cycle[(i + 1) % cycle.len()]));
        if in_a_row && cycle.len() > 1 {
            tell(&cycle);
            tried[at].1 = TRIED_MAX;
        }
    }
}

fn cycle_of(first: &Edge, way: Vec<Edge>) -> Vec<Edge> {
    std::iter::once(*first).chain(way).collect()
}

fn tell_cycle(graph: &Graph, kind: AnomalyKind, cycle: &[Edge], report: &mut Report) {
    report.forbid(kind, transactions(graph, cycle), story(graph, cycle));
}

fn transactions(graph: &Graph, cycle: &[Edge]) -> Vec<TxnIndex> {
    cycle.iter().map(|e| e.from).filter(|&n| n < graph.transactions).collect()
}

/// A sentence for each dependency. Moments are skipped.
fn story(graph: &Graph, cycle: &[Edge]) -> Vec<String> {
    let is_txn = |n: usize| n < graph.transactions;
    let first = cycle.iter().position(|e| is_txn(e.from)).expect("a cycle contains a transaction");
    let mut lines = Vec::new();
    let mut from = 0;
    for e in cycle[first..].iter().chain(&cycle[..first]) {
        if is_txn(e.from) {
            from = e.from;
        }
        if is_txn(e.to) {
            lines.push(tell(from, e.to, e.kind, &e.about));
        }
    }
    lines
}
