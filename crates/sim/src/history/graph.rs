//! The dependencies of a history as a graph, its strongly connected parts, and shortest ways.
//!
//! ```text
//!   transactions 0 .. n      moments n ..: a chain; a transaction leads to the moment of its commit (or return), and the
//!                            moment of a snapshot (or begin) leads to its transaction
//! ```
//!
//! So orders by number and by time take a few edges a transaction, not one for each pair.

use std::collections::{BTreeMap, VecDeque};

use super::anomaly::About;
use super::model::{History, Options, TxnIndex};
use super::values::Values;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum EdgeKind {
    /// It wrote the version before.
    Ww,
    /// It wrote the version that the other read.
    Wr,
    /// It read the version before the one that the other wrote.
    Rw,
    /// They are of one session.
    Session,
    /// It had returned when the other began.
    RealTime,
    /// It had committed when the other took its snapshot.
    Start,
}

/// Kinds of edges, as bits.
pub(super) type Mask = u8;

impl EdgeKind {
    pub(super) const fn bit(self) -> Mask {
        1 << self as u8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: EdgeKind,
    pub(super) about: About,
}

pub(super) struct Graph {
    /// Nodes below this are transactions.
    pub(super) transactions: usize,
    /// By where they begin.
    edges: Vec<Edge>,
    /// Where the edges of each node begin; one more at the end.
    starts: Vec<usize>,
}

impl Graph {
    pub(super) fn new(history: &History, options: &Options, values: &Values<'_>, edges: Vec<Edge>) -> Self {
        let n = history.transactions.len();
        let mut all = edges;
        if options.session_order {
            session_edges(history, values, &mut all);
        }
        let txns = || history.transactions.iter().enumerate();
        let mut nodes = n;
        if options.real_time {
            let ends = txns().filter_map(|(t, x)| Some((x.returned.filter(|_| values.committed[t])?, t)));
            // To have returned when another begins is to have returned before.
            let begins = txns().filter_map(|(t, x)| Some((x.invoked?.checked_sub(1)?, t)));
            nodes = moments(nodes, ends.collect(), begins.collect(), EdgeKind::RealTime, &mut all);
        }
        let ends = txns().filter_map(|(t, x)| Some((x.commit.filter(|_| values.committed[t])?, t)));
        let begins = txns().filter_map(|(t, x)| Some((x.snapshot?, t)));
        nodes = moments(nodes, ends.collect(), begins.collect(), EdgeKind::Start, &mut all);
        Self::of(n, nodes, all)
    }

    fn of(transactions: usize, nodes: usize, mut edges: Vec<Edge>) -> Self {
        edges.sort_by_key(|e| (e.from, e.kind, e.to));
        edges.dedup_by_key(|e| (e.from, e.kind, e.to));
        let mut starts = vec![0; nodes + 1];
        edges.iter().for_each(|e| starts[e.from + 1] += 1);
        (0..nodes).for_each(|i| starts[i + 1] += starts[i]);
        Self { transactions, edges, starts }
    }

    pub(super) fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn all(&self) -> &[Edge] {
        &self.edges
    }

    /// The edges of these kinds that begin at a node.
    pub(super) fn from(&self, node: usize, mask: Mask) -> impl Iterator<Item = &Edge> {
        let edges = &self.edges[self.starts[node]..self.starts[node + 1]];
        edges.iter().filter(move |e| e.kind.bit() & mask != 0)
    }

    /// The shortest way by edges of these kinds, `to` being reached by at least one; `may` says which nodes it may
    /// pass.
    pub(super) fn way(
        &self,
        from: usize,
        to: usize,
        mask: Mask,
        may: impl Fn(usize) -> bool,
    ) -> Option<Vec<Edge>> {
        shortest(from, to, self.nodes(), |n| self.from(n, mask).filter(|e| may(e.to)).map(|e| (e.to, *e)))
    }

    /// As [`Graph::way`], with no two anti-dependencies in a row, neither the one before it and the first.
    pub(super) fn way_apart(&self, from: usize, to: usize, mask: Mask) -> Option<Vec<Edge>> {
        shortest(2 * from + 1, 2 * to, 2 * self.nodes(), |s| {
            self.from(s / 2, mask)
                .filter(move |e| s % 2 == 0 || e.kind != EdgeKind::Rw)
                .map(|e| (2 * e.to + usize::from(e.kind == EdgeKind::Rw), *e))
        })
    }

    /// Whether there is a cycle of these kinds in which no two anti-dependencies follow each other.
    pub(super) fn has_cycle_apart(&self, mask: Mask) -> bool {
        let parts = self.parts_apart(mask);
        (0..2 * self.nodes()).any(|s| parts.is_with_others(s))
    }

    /// The anti-dependencies that are on such a cycle.
    pub(super) fn anti_dependencies_apart(&self, mask: Mask) -> Vec<&Edge> {
        let parts = self.parts_apart(mask);
        let on = |e: &&Edge| e.kind == EdgeKind::Rw && parts.are_together(2 * e.from, 2 * e.to + 1);
        self.edges.iter().filter(on).collect()
    }

    /// The parts of the graph of states: `2n` where any edge may follow, `2n + 1` after an anti-dependency.
    fn parts_apart(&self, mask: Mask) -> Parts {
        parts(2 * self.nodes(), |s, i| {
            let e = self.nth(s / 2, i)?;
            let is_rw = e.kind == EdgeKind::Rw;
            let free = e.kind.bit() & mask != 0 && !(is_rw && s % 2 == 1);
            Some(free.then_some(2 * e.to + usize::from(is_rw)))
        })
    }

    /// The parts of the graph within which every node reaches every other, by edges of these kinds.
    pub(super) fn parts(&self, mask: Mask) -> Parts {
        parts(self.nodes(), |n, i| self.nth(n, i).map(|e| (e.kind.bit() & mask != 0).then_some(e.to)))
    }

    fn nth(&self, node: usize, i: usize) -> Option<&Edge> {
        self.edges[self.starts[node]..self.starts[node + 1]].get(i)
    }
}

/// Strongly connected parts, by node.
pub(super) struct Parts {
    /// Of each node, which part it is in.
    pub(super) of: Vec<usize>,
    /// Of each part, how many nodes are in it.
    sizes: Vec<usize>,
}

impl Parts {
    /// Whether a node is on a cycle.
    pub(super) fn is_with_others(&self, node: usize) -> bool {
        self.sizes[self.of[node]] > 1
    }

    /// Whether a cycle goes through both.
    pub(super) fn are_together(&self, a: usize, b: usize) -> bool {
        self.of[a] == self.of[b]
    }
}

/// Tarjan's algorithm without recursion. `next` says where the `i`-th edge of a node leads: `None` after the last,
/// `Some(None)` for one that does not count.
fn parts(nodes: usize, next: impl Fn(usize, usize) -> Option<Option<usize>>) -> Parts {
    const NEW: usize = usize::MAX;
    let mut order = vec![NEW; nodes];
    let mut low = vec![0; nodes];
    let mut of = vec![NEW; nodes];
    let (mut stack, mut path, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    for root in 0..nodes {
        if order[root] != NEW {
            continue;
        }
        path.push((root, 0));
        while let Some((node, i)) = path.last_mut() {
            let (node, edge) = (*node, *i);
            *i += 1;
            if edge == 0 {
                (order[node], low[node]) = (count, count);
                count += 1;
                stack.push(node);
            }
            match next(node, edge) {
                Some(None) => {}
                Some(Some(to)) if order[to] == NEW => path.push((to, 0)),
                Some(Some(to)) if of[to] == NEW => low[node] = low[node].min(order[to]),
                Some(Some(_)) => {}
                None => {
                    path.pop();
                    if let Some((above, _)) = path.last() {
                        low[*above] = low[*above].min(low[node]);
                    }
                    if low[node] == order[node] {
                        let at = stack.iter().rposition(|&n| n == node).expect("it is on the stack");
                        sizes.push(stack.len() - at);
                        stack.drain(at..).for_each(|n| of[n] = sizes.len() - 1);
                    }
                }
            }
        }
    }
    Parts { of, sizes }
}

/// The shortest way between two nodes, of at least one edge.
fn shortest<I: Iterator<Item = (usize, Edge)>>(
    from: usize,
    to: usize,
    nodes: usize,
    next: impl Fn(usize) -> I,
) -> Option<Vec<Edge>> {
    let mut came: Vec<Option<(usize, Edge)>> = vec![None; nodes];
    let mut todo = VecDeque::from([from]);
    'search: while let Some(node) = todo.pop_front() {
        for (reached, edge) in next(node) {
            if came[reached].is_none() {
                came[reached] = Some((node, edge));
                if reached == to {
                    break 'search;
                }
                todo.push_back(reached);
            }
        }
    }
    let mut way = Vec::new();
    let mut at = to;
    loop {
        let (before, edge) = came[at]?;
        way.push(edge);
        if before == from {
            break;
        }
        at = before;
    }
    way.reverse();
    Some(way)
}

/// Each transaction of a session that took effect, or read, comes after the one before it.
fn session_edges(history: &History, values: &Values<'_>, edges: &mut Vec<Edge>) {
    // What aborted is after what committed before it; nothing is after it.
    let mut last: BTreeMap<u32, TxnIndex> = BTreeMap::new();
    for (t, txn) in history.transactions.iter().enumerate() {
        if let Some(&from) = last.get(&txn.session) {
            edges.push(Edge { from, to: t, kind: EdgeKind::Session, about: About::default() });
        }
        if values.committed[t] {
            last.insert(txn.session, t);
        }
    }
}

/// A chain of moments from node `first` on: what ended at one is before what begins then or later. The next free node.
fn moments(
    first: usize,
    ends: Vec<(u64, TxnIndex)>,
    begins: Vec<(u64, TxnIndex)>,
    kind: EdgeKind,
    edges: &mut Vec<Edge>,
) -> usize {
    let mut times: Vec<u64> = ends.iter().map(|e| e.0).collect();
    times.sort_unstable();
    times.dedup();
    let about = About::default();
    for i in 1..times.len() {
        edges.push(Edge { from: first + i - 1, to: first + i, kind, about });
    }
    for (time, t) in ends {
        let at = times.binary_search(&time).expect("it is among them");
        edges.push(Edge { from: t, to: first + at, kind, about });
    }
    for (time, t) in begins {
        let at = times.partition_point(|&x| x <= time);
        if at > 0 {
            edges.push(Edge { from: first + at - 1, to: t, kind, about });
        }
    }
    first + times.len()
}
