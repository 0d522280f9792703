//! The dependencies of a history as a graph, its strongly connected components, and shortest paths.
//!
//! ```text
//!   transactions 0 .. n      moments n ..: a chain; a transaction leads to the moment of its commit (or return), and the
//!                            moment of a snapshot (or begin) leads to its transaction
//! ```
//!
//! With moments, an order by number or by time needs a few edges per transaction, and not one per pair.

use std::collections::{BTreeMap, VecDeque};

use super::anomaly::About;
use super::model::{History, Options, TxnIndex};
use super::values::Values;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum EdgeKind {
    /// The first transaction wrote the version that the second one replaced.
    Ww,
    /// The first transaction wrote the version that the second one read.
    Wr,
    /// The first transaction read the version that the second one replaced.
    Rw,
    /// Both are in the same session.
    Session,
    /// The first transaction had returned when the second one began.
    RealTime,
    /// The first transaction had committed when the second one took its snapshot.
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
    /// The number of transactions. Nodes below it are transactions.
    pub(super) transactions: usize,
    /// The edges, sorted by their start.
    edges: Vec<Edge>,
    /// The index of each node's first edge, and one more at the end.
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
            // A transaction that returned at the moment at which another begins does not count as returned before it.
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

    /// The shortest path over edges of these kinds, with at least one edge. `may` says which nodes it may pass.
    pub(super) fn way(
        &self,
        from: usize,
        to: usize,
        mask: Mask,
        may: impl Fn(usize) -> bool,
    ) -> Option<Vec<Edge>> {
        shortest(from, to, self.nodes(), |n| self.from(n, mask).filter(|e| may(e.to)).map(|e| (e.to, *e)))
    }

    /// As [`Graph::way`], but no two anti-dependencies may be adjacent. The edge before the path counts as an
    /// anti-dependency.
    pub(super) fn way_apart(&self, from: usize, to: usize, mask: Mask) -> Option<Vec<Edge>> {
        shortest(2 * from + 1, 2 * to, 2 * self.nodes(), |s| {
            self.from(s / 2, mask)
                .filter(move |e| s % 2 == 0 || e.kind != EdgeKind::Rw)
                .map(|e| (2 * e.to + usize::from(e.kind == EdgeKind::Rw), *e))
        })
    }

    /// Whether there is a cycle of these kinds without adjacent anti-dependencies.
    pub(super) fn has_cycle_apart(&self, mask: Mask) -> bool {
        let parts = self.parts_apart(mask);
        (0..2 * self.nodes()).any(|s| parts.is_with_others(s))
    }

    /// The anti-dependencies on such cycles.
    pub(super) fn anti_dependencies_apart(&self, mask: Mask) -> Vec<&Edge> {
        let parts = self.parts_apart(mask);
        let on = |e: &&Edge| e.kind == EdgeKind::Rw && parts.are_together(2 * e.from, 2 * e.to + 1);
        self.edges.iter().filter(on).collect()
    }

    /// The components of the graph of states. At state `2n`, any edge may follow; state `2n + 1` is node n after an
    /// anti-dependency.
    fn parts_apart(&self, mask: Mask) -> Parts {
        parts(2 * self.nodes(), |s, i| {
            let e = self.nth(s / 2, i)?;
            let is_rw = e.kind == EdgeKind::Rw;
            let free = e.kind.bit() & mask != 0 && !(is_rw && s % 2 == 1);
            Some(free.then_some(2 * e.to + usize::from(is_rw)))
        })
    }

    /// The strongly connected components of the graph with edges of these kinds.
    pub(super) fn parts(&self, mask: Mask) -> Parts {
        parts(self.nodes(), |n, i| self.nth(n, i).map(|e| (e.kind.bit() & mask != 0).then_some(e.to)))
    }

    fn nth(&self, node: usize, i: usize) -> Option<&Edge> {
        self.edges[self.starts[node]..self.starts[node + 1]].get(i)
    }
}

/// Strongly connected components.
pub(super) struct Parts {
    /// The component of each node.
    pub(super) of: Vec<usize>,
    /// The number of nodes in each component.
    sizes: Vec<usize>,
}

impl Parts {
    /// Whether a node is on a cycle.
    pub(super) fn is_with_others(&self, node: usize) -> bool {
        self.sizes[self.of[node]] > 1
    }

    /// Whether a cycle goes through both nodes.
    pub(super) fn are_together(&self, a: usize, b: usize) -> bool {
        self.of[a] == self.of[b]
    }
}

/// Tarjan's algorithm without recursion. `next` returns the end of a node's `i`-th edge: `None` after the last edge,
/// `Some(None)` for an edge that does not count.
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

/// The shortest path between two nodes, with at least one edge.
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

/// Adds the order of sessions: a transaction comes after the one before it in its session.
fn session_edges(history: &History, values: &Values<'_>, edges: &mut Vec<Edge>) {
    // An aborted transaction comes after the committed ones before it. No transaction comes after an aborted one.
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

/// Adds a chain of moments as nodes from `first` on. A transaction that ended at a moment comes before those that
/// begin then or later. Returns the next free node.
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
        let at = times.binary_search(&time).expect("every moment is in the list");
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
