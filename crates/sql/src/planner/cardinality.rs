//! The rows that sets of a region's inputs have when they are joined.
//!
//! ```text
//!   a key of input r meets the others ─► rows of the others x the share of r that passes
//!   else                              ─► product of the rows / the values of each class of equal columns
//! ```

use std::collections::HashMap;

use super::estimate::Estimate;
use super::inputs::Inputs;
use super::region::{Predicate, Region, Term};
use super::unique;

/// The share of rows that is assumed to pass a predicate over several inputs.
const PREDICATE_SHARE: f64 = 1.0 / 3.0;

/// A term of a class, as far as rows are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) input: usize,
    column: Option<usize>,
    /// Distinct values before any condition.
    pub(super) domain: f64,
    /// Distinct values in the input's rows.
    distinct: f64,
    /// Whether it is an integer.
    is_integer: bool,
    /// Whether a key set can exclude rows of the input before they are answered.
    pub(super) takes_keys: bool,
}

/// DataFusion makes an array of keys of which so large a share of the values between the least and the greatest is there, or of few:
/// `perfect_hash_join_min_key_density` and `perfect_hash_join_small_build_threshold`. What is known here are the values of the column.
const ARRAY_ROWS: f64 = 1024.0;
const ARRAY_SHARE: f64 = 0.15;
/// Keys that repeat more often are chained, which takes as long as to hash them: 70 ns a row where lines are built by order.
const ROWS_A_KEY: f64 = 1.1;

/// Whether the integer keys of so many rows, of so many values, are found in an array as fast as keys that do not repeat.
pub(super) fn is_dense(rows: f64, distinct: f64, domain: f64) -> bool {
    let keys = distinct.min(rows);
    rows <= keys * ROWS_A_KEY && (keys <= ARRAY_ROWS || keys >= domain * ARRAY_SHARE)
}

/// What is known of a region's rows.
pub(super) struct Cardinality {
    pub(super) inputs: Vec<Estimate>,
    /// The keys of each input.
    keys: Vec<Vec<Vec<usize>>>,
    classes: Vec<Vec<Member>>,
    class_inputs: Vec<Inputs>,
    predicates: Vec<Inputs>,
    known: HashMap<Inputs, f64>,
}

impl Cardinality {
    pub(super) fn of(region: &Region, inputs: Vec<Estimate>) -> Self {
        let member = |t: &Term| {
            let (of, column) = (&inputs[t.input], t.column());
            let (domain, distinct) = match column {
                Some(c) => (of.columns[c].domain, of.distinct(c)),
                None => (of.rows_before, of.rows),
            };
            let is_integer =
                column.is_some_and(|c| region.inputs[t.input].schema().field(c).data_type().is_integer());
            let takes_keys = column.is_some_and(|c| of.columns[c].takes_keys);
            Member { input: t.input, column, domain, distinct, is_integer, takes_keys }
        };
        let classes: Vec<Vec<Member>> =
            region.classes.iter().map(|c| c.iter().map(member).collect()).collect();
        let class_inputs = classes.iter().map(|c| c.iter().map(|m| m.input).collect()).collect();
        let predicates = region.predicates.iter().map(Predicate::inputs).collect();
        let keys = region.inputs.iter().map(unique::keys).collect();
        Self { inputs, keys, classes, class_inputs, predicates, known: HashMap::new() }
    }

    /// The rows of these inputs, joined.
    pub(super) fn rows(&mut self, set: Inputs) -> f64 {
        if let Some(rows) = self.known.get(&set) {
            return *rows;
        }
        let rows = self.count(set).max(1.0);
        self.known.insert(set, rows);
        rows
    }

    /// Whether an equality connects the two sets.
    pub(super) fn connects(&self, a: Inputs, b: Inputs) -> bool {
        self.connecting(a, b).next().is_some()
    }

    /// The classes that have terms in both sets.
    pub(super) fn connecting(&self, a: Inputs, b: Inputs) -> impl Iterator<Item = &[Member]> {
        let classes = self.classes.iter().zip(&self.class_inputs);
        classes.filter_map(move |(c, of)| {
            (!of.and(a).is_empty() && !of.and(b).is_empty()).then_some(c.as_slice())
        })
    }

    /// Whether the keys of `build` are found in an array: integers of which there are many between the least and the greatest.
    pub(super) fn is_array(&mut self, build: Inputs, probe: Inputs) -> bool {
        let rows = self.rows(build);
        let mut connecting = self.connecting(build, probe);
        let (Some(class), None) = (connecting.next(), connecting.next()) else { return false };
        class
            .iter()
            .filter(|m| build.has(m.input))
            .any(|m| m.is_integer && is_dense(rows, m.distinct, m.domain))
    }

    /// The inputs of `all`, in the parts that equalities connect.
    pub(super) fn components(&self, all: Inputs) -> Vec<Inputs> {
        let mut left = all;
        let mut parts = Vec::new();
        while let Some(first) = left.iter().next() {
            let part = self.grown(Inputs::one(first), all);
            left = left.without(part);
            parts.push(part);
        }
        parts
    }

    pub(super) fn is_connected(&self, set: Inputs) -> bool {
        set.iter().next().is_some_and(|first| self.grown(Inputs::one(first), set) == set)
    }

    fn grown(&self, mut part: Inputs, within: Inputs) -> Inputs {
        loop {
            let met = self.class_inputs.iter().filter(|of| !of.and(part).is_empty());
            let next = met.fold(part, |all, of| all.or(of.and(within)));
            if next == part {
                return part;
            }
            part = next;
        }
    }

    fn count(&mut self, set: Inputs) -> f64 {
        if set.len() == 1 {
            let input = set.iter().next().expect("the set has one");
            return self.inputs[input].rows * self.predicates_within(set, Inputs::default());
        }
        let ends: Vec<usize> =
            set.iter().filter(|&r| self.is_connected(set.without(Inputs::one(r)))).collect();
        let keyed = ends.iter().copied().find(|&r| self.met_key(r, set).is_some());
        let last = keyed.or(ends.last().copied());
        let last = last.unwrap_or_else(|| set.iter().last().expect("the set is not empty"));
        let rest = set.without(Inputs::one(last));
        let others = self.rows(rest);
        let passed = self.predicates_within(set, rest) * self.predicates_within(Inputs::one(last), rest);
        let matched = match self.met_key(last, set) {
            Some(key) => self.share_by_key(last, key, rest),
            None => self.inputs[last].rows * self.share_by_values(last, &[], rest),
        };
        others * matched * passed
    }

    /// A key of `input` each column of which equals a term of another input of the set.
    fn met_key(&self, input: usize, set: Inputs) -> Option<&[usize]> {
        let rest = set.without(Inputs::one(input));
        let is_met = |column: &usize| {
            self.classes.iter().any(|c| {
                c.iter().any(|m| m.input == input && m.column == Some(*column))
                    && c.iter().any(|m| rest.has(m.input))
            })
        };
        self.keys[input].iter().find(|key| key.iter().all(is_met)).map(Vec::as_slice)
    }

    /// The rows of `input` that one row of the others meets by a key.
    fn share_by_key(&self, input: usize, key: &[usize], rest: Inputs) -> f64 {
        let of = &self.inputs[input];
        // Where the others have more values than there are keys, some of theirs meet nothing.
        let other_values = match key {
            [column] => {
                let class = self
                    .classes
                    .iter()
                    .find(|c| c.iter().any(|m| m.input == input && m.column == Some(*column)));
                let others = class.into_iter().flatten().filter(|m| rest.has(m.input));
                others.map(|m| m.domain).fold(f64::INFINITY, f64::min)
            }
            _ => of.rows_before,
        };
        let found = (of.rows_before / other_values.max(1.0)).min(1.0);
        of.share() * found * self.share_by_values(input, key, rest)
    }

    /// The share of pairs that agree in the columns which connect `input` with the others, but those of `key`.
    fn share_by_values(&self, input: usize, key: &[usize], rest: Inputs) -> f64 {
        let mut share = 1.0;
        for class in self.connecting(Inputs::one(input), rest) {
            let own = class.iter().find(|m| m.input == input).expect("the class connects it");
            if own.column.is_some_and(|c| key.contains(&c)) {
                continue;
            }
            let others = class.iter().filter(|m| rest.has(m.input)).map(|m| m.domain);
            share /= own.domain.max(others.fold(f64::INFINITY, f64::min)).max(1.0);
        }
        share
    }

    /// The share that passes the predicates over `set` that `rest` alone does not decide.
    fn predicates_within(&self, set: Inputs, rest: Inputs) -> f64 {
        let new = self.predicates.iter().filter(|p| set.covers(**p) && !rest.covers(**p));
        // A predicate over one input is counted with that input.
        new.filter(|p| set.len() == 1 || p.len() > 1).map(|_| PREDICATE_SHARE).product()
    }

    /// The share of the values of `probe`, of a class, that the keys of the joined `build` inputs have.
    pub(super) fn key_share(class: &[Member], build: Inputs, build_rows: f64, probe: &Member) -> f64 {
        let values = class.iter().filter(|m| build.has(m.input)).map(|m| m.distinct);
        Estimate::key_share(values.fold(build_rows, f64::min), probe.domain)
    }
}
