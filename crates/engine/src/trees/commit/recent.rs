//! The keys of recent commits, against which the next ones are validated.
//!
//! ```text
//!   generation | generation | generation | newest       each: hash of a key ─► the newest of its commits that wrote the key
//!   └ forgotten as a whole to make room for the next one
//! ```
//!
//! Keys are remembered as hashes. Two keys with one hash cost a needless retry, never a wrong answer. Most transactions are newer
//! than all generations but the newest one, which is then the only one that is searched.
//!
//! Invariant: the memory stays within its limit, except for the keys of the last commit.

use std::collections::VecDeque;

use crate::Map;
use crate::trees::tree::Csn;

/// Generations of recent commits.
const GENERATIONS: usize = 4;
/// Memory for each slot of a generation's table, of which seven of eight are filled.
const SLOT_BYTES: usize = size_of::<(u64, Csn)>() + 1;
/// Slots of the smallest table.
const SLOTS_MIN: usize = 64;

/// A key that a commit wrote.
pub(super) struct Remembered {
    hash: u64,
    /// The commit of the same generation that wrote it before.
    before: Option<Csn>,
}

/// The keys that were written lately.
pub(super) struct Recent {
    /// Oldest first; there is always one.
    generations: VecDeque<Generation>,
    /// Slots of the table of a generation.
    slots: usize,
    /// Commits up to this one are not remembered.
    forgotten: Csn,
}

/// Keys of successive commits.
#[derive(Default)]
struct Generation {
    newest: Csn,
    /// The newest of these commits that wrote a key.
    keys: Map<u64, Csn>,
}

impl Recent {
    pub(super) fn new(bytes_max: usize) -> Self {
        let slots = (bytes_max / GENERATIONS / SLOT_BYTES).max(SLOTS_MIN);
        let slots = 1 << slots.ilog2();
        let generations = VecDeque::from([Generation::default()]);
        Self { generations, slots, forgotten: Csn::default() }
    }

    /// Whether commits after `at` may have been forgotten.
    pub(super) fn has_forgotten(&self, at: Csn) -> bool {
        at < self.forgotten
    }

    /// The first of these keys that a commit after `at` wrote. No commit after `at` was forgotten.
    pub(super) fn newer(&self, hashes: &[u64], at: Csn) -> Option<usize> {
        let newer = |g: &&Generation| g.newest > at;
        let generations = || self.generations.iter().rev().take_while(newer);
        hashes.iter().position(|h| generations().any(|g| g.keys.get(h).is_some_and(|&csn| csn > at)))
    }

    /// Remembers the keys of a commit, which is newer than all before.
    pub(super) fn remember(&mut self, csn: Csn, hashes: Vec<u64>) -> Vec<Remembered> {
        let keys_max = self.slots / 8 * 7;
        let keys = self.generations.back().map_or(0, |g| g.keys.len());
        if keys > 0 && keys + hashes.len() > keys_max {
            let oldest = (self.generations.len() == GENERATIONS).then(|| self.forget());
            // Its table is used again, unless a large commit made it longer than others.
            let keys = oldest.filter(|k| slots(k) <= self.slots).unwrap_or_default();
            self.generations.push_back(Generation { newest: csn, keys });
        }
        let newest = self.generations.back_mut().expect("there is always one");
        newest.newest = csn;
        let entry = |hash| Remembered { hash, before: newest.keys.insert(hash, csn) };
        let remembered = hashes.into_iter().map(entry).collect();
        let bytes_max = GENERATIONS * self.slots * SLOT_BYTES;
        while self.memory_bytes() > bytes_max && self.generations.len() > 1 {
            self.forget();
        }
        remembered
    }

    /// Forgets the oldest generation; answers its table, empty.
    fn forget(&mut self) -> Map<u64, Csn> {
        let mut oldest = self.generations.pop_front().expect("there is always one");
        self.forgotten = oldest.newest;
        oldest.keys.clear();
        oldest.keys
    }

    /// A commit that was remembered did not take place.
    pub(super) fn take_back(&mut self, csn: Csn, remembered: &[Remembered]) {
        for k in remembered {
            let written = self.generations.iter_mut().rev().find_map(|g| g.keys.get_mut(&k.hash));
            // An entry that is removed would leave a gap in its table, which would grow for the next one. No commit has the number 0.
            if let Some(by) = written.filter(|by| **by == csn) {
                *by = k.before.unwrap_or_default();
            }
        }
    }

    /// Bytes of memory.
    fn memory_bytes(&self) -> usize {
        self.generations.iter().map(|g| slots(&g.keys) * SLOT_BYTES).sum()
    }
}

/// The slots of a table: a power of two, of which it fills seven of eight.
fn slots(keys: &Map<u64, Csn>) -> usize {
    match keys.capacity() {
        0 => 0,
        capacity => (capacity * 8 / 7).next_power_of_two(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const BYTES: usize = GENERATIONS * SLOTS_MIN * SLOT_BYTES;

    proptest! {
        #[test]
        fn what_is_remembered_is_all_since_what_is_forgotten_and_takes_no_more_than_it_may(
            commits in prop::collection::vec((prop::collection::vec(0u64..400, 0..40), any::<prop::sample::Index>(), any::<bool>()), 1..80),
        ) {
            let mut recent = Recent::new(BYTES);
            let mut written: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for (csn, (keys, at, fails)) in (1..).zip(commits) {
                let remembered = recent.remember(Csn::new(csn), keys.clone());
                if fails {
                    recent.take_back(Csn::new(csn), &remembered);
                } else {
                    keys.iter().for_each(|k| written.entry(*k).or_default().push(csn));
                }
                prop_assert!(recent.memory_bytes() <= BYTES, "{} bytes of {BYTES}", recent.memory_bytes());
                let at = Csn::new(at.index(csn as usize + 1) as u64);
                if at >= recent.forgotten {
                    let is_newer = |k: &u64| written.get(k).is_some_and(|all| all.iter().any(|c| *c > at.raw()));
                    let all: Vec<u64> = (0..400).collect();
                    prop_assert_eq!(recent.newer(&all, at), all.iter().position(is_newer), "at {}", at);
                }
            }
        }
    }

    #[test]
    fn a_commit_of_more_keys_than_are_remembered_is_so_until_the_next_one() {
        let mut recent = Recent::new(BYTES);
        recent.remember(Csn::new(1), vec![1]);
        recent.remember(Csn::new(2), (0..10_000).collect());
        assert_eq!(recent.newer(&[9_999], Csn::new(1)), Some(0));
        assert!(recent.memory_bytes() > BYTES);
        assert_eq!(recent.forgotten, Csn::new(1), "those before it made room");
        recent.remember(Csn::new(3), vec![2]);
        assert_eq!((recent.forgotten, recent.newer(&[1, 2], Csn::new(2))), (Csn::new(2), Some(1)));
        assert!(recent.memory_bytes() <= BYTES);
    }

    #[test]
    fn by_default_near_a_million_keys_are_remembered() {
        let recent = Recent::new(crate::DatabaseOptions::default().recent_bytes);
        assert_eq!(recent.slots / 8 * 7 * GENERATIONS, 917_504);
    }
}
