//! Counts the events that runs met. A search proves nothing about an event that it never met.

use std::collections::BTreeMap;

use lode_flash::FaultKind;

/// The names of everything that the runs of a simulation can meet.
#[derive(Debug)]
pub struct Names {
    /// Kinds of steps.
    pub(crate) steps: &'static [&'static str],
    /// The events that steps can cause.
    pub(crate) events: &'static [&'static str],
    /// The records that can be the last of the log in recovery.
    pub(crate) last_records: &'static [&'static str],
    /// The kinds of faults that can strike.
    pub(crate) faults: &'static [FaultKind],
    /// A rare event, another event, and a count. The rare event is required only after the other was met this often.
    pub(crate) rare: (&'static str, &'static str, u64),
}

/// Counts over one run or many.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// Runs.
    pub runs: u64,
    names: &'static Names,
    steps: Vec<u64>,
    /// Events and records, by name.
    counts: BTreeMap<&'static str, u64>,
    struck: BTreeMap<FaultKind, u64>,
}

impl Coverage {
    pub(crate) fn new(names: &'static Names) -> Self {
        let steps = vec![0; names.steps.len()];
        Self { runs: 0, names, steps, counts: BTreeMap::new(), struck: BTreeMap::new() }
    }

    /// Counts a step of this kind.
    pub(crate) fn step(&mut self, kind: usize) {
        self.steps[kind] += 1;
    }

    pub(crate) fn met(&mut self, what: &'static str) {
        self.met_times(what, 1);
    }

    pub(crate) fn met_times(&mut self, what: &'static str, times: u64) {
        debug_assert!(self.names.events.contains(&what) || self.names.last_records.contains(&what), "{what}");
        *self.counts.entry(what).or_default() += times;
    }

    /// How often an event was met.
    pub(crate) fn times(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Sets how often faults struck in the whole run.
    pub(crate) fn set_struck(&mut self, struck: BTreeMap<FaultKind, u64>) {
        self.struck = struck;
    }

    /// Adds the counts of other runs.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.steps.iter_mut().zip(&other.steps).for_each(|(to, n)| *to += n);
        other.counts.iter().for_each(|(name, n)| *self.counts.entry(name).or_default() += n);
        other.struck.iter().for_each(|(kind, n)| *self.struck.entry(*kind).or_default() += n);
    }

    /// The steps, events and faults that were met: (name, count).
    pub fn table(&self) -> Vec<(String, u64)> {
        let n = self.names;
        let steps = n.steps.iter().zip(&self.steps).map(|(name, n)| (format!("step: {name}"), *n));
        let events = n.events.iter().map(|name| (name.to_string(), self.times(name)));
        let last = |name: &&str| (format!("last durable records: {name}"), self.times(name));
        let struck = |kind| self.struck.get(kind).copied().unwrap_or(0);
        let faults = n.faults.iter().map(|kind| (format!("fault: {}", kind.name()), struck(kind)));
        steps.chain(events).chain(n.last_records.iter().map(last)).chain(faults).collect()
    }

    /// The steps, events and faults that should have been met but were not.
    pub fn missing(&self) -> Vec<String> {
        let (rare, with, from) = self.names.rare;
        let expected = |name: &str| name != rare || self.times(with) >= from;
        let never = self.table().into_iter().filter(|(name, count)| *count == 0 && expected(name));
        never.map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names {
        steps: &["go", "stop"],
        events: &["met", "never met", "rarely met"],
        last_records: &["a record"],
        faults: &[FaultKind::PowerCut],
        rare: ("rarely met", "met", 3),
    };

    #[test]
    fn what_was_met_adds_up_and_what_was_not_is_told() {
        let mut all = Coverage::new(&NAMES);
        for _ in 0..2 {
            let mut one = Coverage::new(&NAMES);
            one.runs = 1;
            one.step(1);
            one.met("met");
            one.met("a record");
            one.set_struck([(FaultKind::PowerCut, 2)].into());
            all.add(&one);
        }
        let counts: Vec<u64> = all.table().into_iter().map(|row| row.1).collect();
        assert_eq!((all.runs, counts), (2, vec![0, 2, 2, 0, 0, 2, 4]));
        assert_eq!(all.missing(), ["step: go", "never met"]);
        all.met("met");
        assert_eq!(all.missing(), ["step: go", "never met", "rarely met"]);
    }
}
