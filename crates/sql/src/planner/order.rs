//! The order of a region's joins: the cheapest tree of hash joins, each with its build side.
//!
//! ```text
//!   up to 10 inputs: for each connected set, for each input at the bottom of its probe sides: the cheapest tree
//!   more: the two sets that join to the fewest rows, again and again
//! ```
//!
//! A join sends the keys of its build side to the scans of its probe side (`key_sets`). So a build side makes
//! what lies below the probe side cheaper. The cost of a tree is kept for each input that it is due to, and shrinks by
//! the share of the input's keys that the build side has.

use std::collections::HashMap;

use datafusion::physical_plan::joins::PartitionMode;

use super::cardinality::Cardinality;
use super::carried::Carried;
use super::cost::{self, JoinColumns, JoinRows};
use super::inputs::Inputs;

/// Up to this many inputs the best order is searched; with more, a good one.
const SEARCHED_MAX: usize = 10;

/// How a region is joined.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Input(usize),
    Join { build: Box<Self>, probe: Box<Self>, mode: PartitionMode },
}

impl Tree {
    pub(super) fn inputs(&self) -> Inputs {
        match self {
            Self::Input(i) => Inputs::one(*i),
            Self::Join { build, probe, .. } => build.inputs().or(probe.inputs()),
        }
    }
}

/// No equality connects the input with those before it in a forced order.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrossJoin {
    pub(super) input: usize,
}

/// A way to join a set.
#[derive(Clone, Debug)]
struct Way {
    /// For each input of the region, the part of the cost that shrinks with its rows.
    by_input: Vec<f64>,
    /// The rest of the cost.
    fixed: f64,
    /// The input at the bottom of the probe sides.
    spine: usize,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Input,
    /// Of which sets, and by which of their ways.
    Join {
        build: (Inputs, usize),
        probe: (Inputs, usize),
        mode: PartitionMode,
    },
}

impl Way {
    fn cost(&self) -> f64 {
        self.fixed + self.by_input.iter().sum::<f64>()
    }
}

/// The cheapest tree of all inputs, over so many threads. The inputs of `first` are joined first, in their order.
///
/// # Errors
/// When nothing equates an input of `first` with those before it.
pub(super) fn cheapest(
    of: &mut Cardinality,
    carried: &Carried,
    threads: usize,
    first: &[usize],
) -> Result<Tree, CrossJoin> {
    let mut search = Search { of, carried, threads, ways: HashMap::new() };
    let all = Inputs::first(search.of.inputs.len());
    all.iter().for_each(|i| search.start(i));
    let mut parts = search.of.components(all);
    for part in &parts {
        if first.iter().any(|i| part.has(*i)) {
            search.forced(first)?;
            let mut sets: Vec<Inputs> =
                part.without(first.iter().copied().collect()).iter().map(Inputs::one).collect();
            sets.push(first.iter().copied().collect());
            search.greedy(sets);
        } else if part.len() <= SEARCHED_MAX {
            search.all_of(*part);
        } else {
            search.greedy(part.iter().map(Inputs::one).collect());
        }
    }
    // What no equality connects is a cross product, of the smallest parts first.
    while parts.len() > 1 {
        parts.sort_by(|a, b| search.of.rows(*b).total_cmp(&search.of.rows(*a)));
        let (a, b) = (parts.pop().expect("two parts"), parts.pop().expect("two parts"));
        search.join(a, b);
        parts.push(a.or(b));
    }
    Ok(search.tree(all, search.best(all)))
}

/// The tree of joins by look-ups: one input after the other, each looked up for the rows of those before it. The inputs of `first`
/// come first, in their order. `is_indexed` says whether an index finds the rows of an input that meet those of a set.
///
/// # Errors
/// When nothing equates an input of `first` with those before it.
pub(super) fn left_deep(
    of: &mut Cardinality,
    first: &[usize],
    is_indexed: &dyn Fn(usize, Inputs) -> bool,
) -> Result<Tree, CrossJoin> {
    let all = Inputs::first(of.inputs.len());
    let mut parts = Vec::new();
    for part in of.components(all) {
        let first: Vec<usize> = first.iter().copied().filter(|i| part.has(*i)).collect();
        let starts: Vec<Vec<usize>> = match first.is_empty() {
            true => part.iter().map(|i| vec![i]).collect(),
            false => vec![first],
        };
        let mut best: Option<(f64, Vec<usize>)> = None;
        for start in starts {
            let (cost, order) = grown(of, start, part, is_indexed)?;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, order));
            }
        }
        parts.push((of.rows(part), best.expect("a part has an input").1));
    }
    // What no equality connects is a cross product, of the smallest parts first.
    parts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let trees = parts.into_iter().map(|(_, order)| order.into_iter().map(Tree::Input).reduce(joined));
    Ok(trees.flatten().reduce(joined).expect("the region has inputs"))
}

fn joined(build: Tree, probe: Tree) -> Tree {
    Tree::Join { build: Box::new(build), probe: Box::new(probe), mode: PartitionMode::CollectLeft }
}

/// An order of a part that begins with `start`, and what it takes.
fn grown(
    of: &mut Cardinality,
    start: Vec<usize>,
    part: Inputs,
    is_indexed: &dyn Fn(usize, Inputs) -> bool,
) -> Result<(f64, Vec<usize>), CrossJoin> {
    let mut order: Vec<usize> = Vec::new();
    let (mut set, mut cost) = (Inputs::default(), 0.0);
    let mut given = start.into_iter();
    while order.len() < part.len() {
        let next = match given.next() {
            Some(next) if !set.is_empty() && !of.connects(set, Inputs::one(next)) => {
                return Err(CrossJoin { input: next });
            }
            Some(next) => next,
            None => {
                let near: Vec<usize> =
                    part.without(set).iter().filter(|&i| of.connects(set, Inputs::one(i))).collect();
                let cost_of = |of: &mut Cardinality, i: usize| step_cost(of, set, i, is_indexed);
                let costs: Vec<(f64, usize)> = near.into_iter().map(|i| (cost_of(of, i), i)).collect();
                costs.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("the part is connected").1
            }
        };
        cost += step_cost(of, set, next, is_indexed);
        set = set.or(Inputs::one(next));
        order.push(next);
    }
    Ok((cost, order))
}

/// What it takes to join one more input, in rows that are scanned.
fn step_cost(
    of: &mut Cardinality,
    set: Inputs,
    next: usize,
    is_indexed: &dyn Fn(usize, Inputs) -> bool,
) -> f64 {
    if set.is_empty() {
        return of.inputs[next].rows_before;
    }
    let (rows, out) = (of.rows(set), of.rows(set.or(Inputs::one(next))));
    let found =
        if is_indexed(next, set) { rows * cost::SCANNED_A_LOOK_UP } else { of.inputs[next].rows_before };
    rows + out + found
}

struct Search<'a> {
    of: &'a mut Cardinality,
    carried: &'a Carried,
    threads: usize,
    ways: HashMap<Inputs, Vec<Way>>,
}

impl Search<'_> {
    fn start(&mut self, input: usize) {
        let estimate = &self.of.inputs[input];
        let mut by_input = vec![0.0; self.of.inputs.len()];
        by_input[input] = estimate.work / self.threads as f64;
        let way = Way { by_input, fixed: 0.0, spine: input, how: How::Input };
        self.ways.insert(Inputs::one(input), vec![way]);
    }

    /// Finds the ways of each connected subset, small ones first.
    fn all_of(&mut self, set: Inputs) {
        let mut subsets: Vec<Inputs> = set.parts().chain([set]).filter(|s| s.len() > 1).collect();
        subsets.retain(|s| self.of.is_connected(*s));
        subsets.sort_by_key(|s| s.len());
        for subset in subsets {
            for build in subset.parts() {
                let probe = subset.without(build);
                if self.ways.contains_key(&build)
                    && self.ways.contains_key(&probe)
                    && self.of.connects(build, probe)
                {
                    self.joined(build, probe);
                }
            }
        }
    }

    /// Joins inputs one after the other, each as the cheaper side.
    fn forced(&mut self, order: &[usize]) -> Result<(), CrossJoin> {
        let mut joined = Inputs::default();
        for &next in order {
            if !joined.is_empty() {
                if !self.of.connects(joined, Inputs::one(next)) {
                    return Err(CrossJoin { input: next });
                }
                self.join(joined, Inputs::one(next));
            }
            joined = joined.or(Inputs::one(next));
        }
        Ok(())
    }

    fn greedy(&mut self, mut sets: Vec<Inputs>) {
        while sets.len() > 1 {
            let mut fewest: Option<(f64, usize, usize)> = None;
            for a in 0..sets.len() {
                for b in a + 1..sets.len() {
                    if !self.of.connects(sets[a], sets[b]) {
                        continue;
                    }
                    let rows = self.of.rows(sets[a].or(sets[b]));
                    if fewest.is_none_or(|(least, ..)| rows < least) {
                        fewest = Some((rows, a, b));
                    }
                }
            }
            let (_, a, b) = fewest.expect("the sets are connected");
            let (b, a) = (sets.remove(b), sets.remove(a));
            self.join(a, b);
            sets.push(a.or(b));
        }
    }

    /// Joins two sets, with either as the build side.
    fn join(&mut self, a: Inputs, b: Inputs) {
        self.joined(a, b);
        self.joined(b, a);
    }

    /// Joins two sets: the cheapest way of the build side, probed by each way of the probe side.
    fn joined(&mut self, build: Inputs, probe: Inputs) {
        let build_rows = self.of.rows(build);
        let shares = self.shares(build, build_rows, probe);
        let least = shares.iter().copied().fold(1.0, f64::min);
        let probe_rows = self.of.rows(probe) * least;
        let rows = JoinRows { build: build_rows, probe: probe_rows, out: self.of.rows(build.or(probe)) };
        let cost = match self.of.connects(build, probe) {
            true => cost::hash_join(rows, &self.columns(build, probe), self.threads),
            false => cost::nested_loops(rows, self.threads),
        };
        let asked = probe.iter().filter(|&i| shares[i] < 1.0).map(|i| self.of.inputs[i].looked_up);
        let looked_up = asked.map(cost::keys_looked_up).sum::<f64>() / self.threads as f64;

        let best = self.best(build);
        let of_build = &self.ways[&build][best];
        let new = self.ways[&probe].iter().enumerate().map(|(at, of_probe)| {
            let mut by_input = of_build.by_input.clone();
            probe.iter().for_each(|i| by_input[i] = of_probe.by_input[i] * shares[i]);
            by_input[of_build.spine] += cost.build;
            by_input[of_probe.spine] += cost.probe;
            let fixed = of_build.fixed + of_probe.fixed + looked_up;
            let how = How::Join { build: (build, best), probe: (probe, at), mode: cost.mode };
            Way { by_input, fixed, spine: of_probe.spine, how }
        });
        let new: Vec<Way> = new.collect();
        let ways = self.ways.entry(build.or(probe)).or_default();
        for way in new {
            match ways.iter_mut().find(|w| w.spine == way.spine) {
                Some(known) if way.cost() < known.cost() => *known = way,
                Some(_) => {}
                None => ways.push(way),
            }
        }
    }

    /// What the rows of a join have.
    fn columns(&mut self, build: Inputs, probe: Inputs) -> JoinColumns {
        let all = build.or(probe);
        JoinColumns {
            build: self.carried.width(build, build),
            probe: self.carried.width(probe, probe),
            out: self.carried.width(all, all),
            out_of_build: self.carried.width(build, all).columns,
            is_array: self.of.is_array(build, probe),
        }
    }

    /// The share of each input's rows that the keys of the build side let through.
    fn shares(&self, build: Inputs, build_rows: f64, probe: Inputs) -> Vec<f64> {
        let mut shares = vec![1.0; self.of.inputs.len()];
        if build_rows > cost::KEYS_MAX {
            return shares;
        }
        for class in self.of.connecting(build, probe) {
            for m in class.iter().filter(|m| m.takes_keys && probe.has(m.input)) {
                let share = Cardinality::key_share(class, build, build_rows, m);
                shares[m.input] = f64::min(shares[m.input], share);
            }
        }
        shares
    }

    fn best(&self, set: Inputs) -> usize {
        let ways = self.ways[&set].iter().enumerate();
        ways.min_by(|a, b| a.1.cost().total_cmp(&b.1.cost())).expect("each set has a way").0
    }

    fn tree(&self, set: Inputs, at: usize) -> Tree {
        match self.ways[&set][at].how {
            How::Input => Tree::Input(set.iter().next().expect("an input")),
            How::Join { build, probe, mode } => Tree::Join {
                build: Box::new(self.tree(build.0, build.1)),
                probe: Box::new(self.tree(probe.0, probe.1)),
                mode,
            },
        }
    }
}
