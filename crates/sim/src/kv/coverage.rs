//! What runs over trees met: a search that never met something proves nothing about it.

use std::collections::BTreeMap;

use lode_flash::FaultKind;

use super::step::KV_STEP_KINDS;

/// Counts over one run or many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvCoverage {
    /// Runs.
    pub runs: u64,
    /// Steps of each of [`KV_STEP_KINDS`].
    pub steps: [u64; KV_STEP_KINDS.len()],
    /// How often things happened, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// How often each kind of fault struck.
    pub struck: BTreeMap<FaultKind, u64>,
}

/// What must have been met by a search that is to prove something.
pub(super) const EVENTS: [&str; 27] = [
    "commits",
    "conflicts",
    "transactions over several trees",
    "savepoints gone back to",
    "snapshots across flushes",
    "snapshots too old",
    "reads of trees that were dropped since",
    "reads of values that are pages",
    "pages read from the drive",
    "reopens after a power cut",
    "reopens with redo to replay",
    "reopens without redo",
    "reopens in order",
    "recoveries cut",
    "power cuts with a commit under way that took effect",
    "power cuts with a commit under way that did not",
    "power cuts within a flush",
    "power cuts within a sync",
    "power cuts within the creation of a tree",
    "power cuts within the drop of a tree",
    "power cuts within background work",
    "relaxed commits that were lost",
    "relaxed commits that were kept",
    "commits refused on a full drive",
    "commits that a fault failed",
    "databases halted",
    "write skew",
];

impl KvCoverage {
    pub(super) fn met(&mut self, what: &'static str) {
        self.met_times(what, 1);
    }

    pub(super) fn met_times(&mut self, what: &'static str, times: u64) {
        debug_assert!(EVENTS.contains(&what), "{what}");
        if times > 0 {
            *self.counts.entry(what).or_default() += times;
        }
    }

    /// Puts the counts of another search to these.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.steps.iter_mut().zip(other.steps).for_each(|(a, b)| *a += b);
        other.counts.iter().for_each(|(k, n)| *self.counts.entry(k).or_default() += n);
        other.struck.iter().for_each(|(k, n)| *self.struck.entry(*k).or_default() += n);
    }

    /// All counts, by name.
    pub fn table(&self) -> Vec<(String, u64)> {
        let steps = KV_STEP_KINDS.iter().zip(self.steps).map(|(k, n)| (format!("steps: {k}"), n));
        let events = EVENTS.iter().map(|e| ((*e).to_string(), self.counts.get(e).copied().unwrap_or(0)));
        let faults = super::scenario::KV_FAULTS
            .iter()
            .map(|f| (format!("faults: {}", f.name()), self.struck.get(f).copied().unwrap_or(0)));
        let runs = [("runs".to_string(), self.runs)];
        runs.into_iter().chain(steps).chain(events).chain(faults).collect()
    }

    /// What was never met; write skew is too rare here to be asked for.
    pub fn missing(&self) -> Vec<String> {
        self.table().into_iter().filter(|c| c.1 == 0 && c.0 != "write skew").map(|c| c.0).collect()
    }
}
