//! The order of commits to trees: each is validated, gets its number, and waits for its group.
//!
//! ```text
//!   commit ─► validate against recent commits, number ─► wait ─┬─ lead: take all who wait, apply, one batch, show
//!                                                              └─ or be told by the one who leads
//! ```
//!
//! First committer wins: a key that another transaction committed since the snapshot is a conflict. A sequenced commit is
//! validated against at once, and visible once its group is. Keys are remembered as hashes: two that collide cost a needless
//! try, never an answer.
//!
//! ```text
//!   recent: generation | generation | generation | newest       each: hash of a key ─► the newest commit in it that wrote the key
//!           └ forgotten as a whole for the next one              └ the only one that most transactions are not newer than
//! ```
//!
//! Invariant: what is remembered takes no more memory than it may, but for the keys of the last commit.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lode_base::{CommitNo, ViewId};
use lode_command::Batch;
use parking_lot::{Condvar, Mutex};

use crate::database::{DatabaseOptions, Inner};
use crate::planted::{self, Planted};
use crate::trees::commit::rests::Rests;
use crate::trees::page::value::Written;
use crate::trees::writer::state::TreeState;
use crate::trees::{Csn, Tree};
use crate::{EngineError, Map};

/// Generations of recent commits.
const GENERATIONS: usize = 4;
/// Memory for each place of a generation's table, of which seven of eight are filled.
const PLACE_BYTES: usize = size_of::<(u64, Csn)>() + 1;
/// Places of the smallest table.
const PLACES_MIN: usize = 64;
/// Bytes of keys and values that one group takes at most, its first commit aside; less where batches are small.
const GROUP_BYTES_MAX: u64 = 4 << 20;
/// How long a leader waits for others who are likely to join its group, at most: well below what a sync takes.
const JOIN_WAIT: Duration = Duration::from_micros(100);

/// Writes to one tree, by key; `None` deletes.
pub(crate) struct TreeWrites {
    pub(crate) tree: Tree,
    pub(crate) keys: std::collections::BTreeMap<Vec<u8>, Option<Written>>,
}

/// A commit on its way.
pub(crate) struct Pending {
    pub(crate) csn: Csn,
    /// What it writes: values lie in pages that get their names as it is carried out.
    pub(crate) writes: Mutex<Vec<TreeWrites>>,
    pub(crate) durable: bool,
    bytes: usize,
    remembered: Vec<Remembered>,
    outcome: Mutex<Option<Result<(), EngineError>>>,
}

/// The order of commits.
pub(crate) struct Sequencer {
    state: Mutex<State>,
    /// Someone's commit is over, or nobody leads any more.
    over: Condvar,
    /// As many wait as the leader expects.
    joined: Condvar,
    /// Groups that are over.
    groups: AtomicU64,
    rests: Rests,
}

struct State {
    newest: Csn,
    recent: Recent,
    waiting: VecDeque<Arc<Pending>>,
    leading: bool,
    /// How many are likely to be in the next group: those who were just answered, and those who waited then.
    expected: usize,
}

/// A key that a commit wrote.
struct Remembered {
    hash: u64,
    /// The commit of the same generation that wrote it before.
    before: Option<Csn>,
}

/// The keys that were written lately.
struct Recent {
    /// Oldest first; there is always one.
    generations: VecDeque<Generation>,
    /// Places of the table of a generation.
    places: usize,
    /// Commits up to this one are not remembered.
    forgotten: Csn,
}

/// Keys of commits one after the other.
#[derive(Default)]
struct Generation {
    newest: Csn,
    /// The newest of these commits that wrote a key.
    keys: Map<u64, Csn>,
}

impl Sequencer {
    pub(crate) fn new(newest: Csn, options: &DatabaseOptions) -> Self {
        let state = State {
            newest,
            recent: Recent::new(options.recent_bytes),
            waiting: VecDeque::new(),
            leading: false,
            expected: 0,
        };
        let (over, joined, groups) = (Condvar::new(), Condvar::new(), AtomicU64::new(0));
        Self { state: Mutex::new(state), over, joined, groups, rests: Rests::new(options.now) }
    }

    /// A group is over: those who wait for it find what it came to, or lead the next one.
    fn group_over(&self) {
        self.groups.fetch_add(1, Ordering::Release);
        self.over.notify_all();
    }

    /// Validates writes that were made at a snapshot, and gives them their place in the order.
    pub(crate) fn sequence(
        &self,
        at: Csn,
        writes: Vec<TreeWrites>,
        bytes: usize,
        durable: bool,
    ) -> Result<Arc<Pending>, EngineError> {
        let hashed = writes.iter().flat_map(|w| w.keys.keys().map(|k| hash(&w.tree, k)));
        let hashes: Vec<u64> = hashed.collect();
        let mut state = self.state.lock();
        if at < state.recent.forgotten {
            let what = "the transaction is older than the commits that are remembered".into();
            return Err(EngineError::Conflict { what });
        }
        let validated = hashes.len() - usize::from(planted::is(Planted::LastKeyNotValidated));
        if let Some(i) = state.recent.newer(&hashes[..validated], at) {
            let (tree, key) = nth(&writes, i);
            let what = format!("tree \"{}\", key {}", tree.name(), shown(key));
            return Err(EngineError::Conflict { what });
        }
        state.newest = Csn::new(state.newest.raw() + 1);
        let csn = state.newest;
        let remembered = match planted::is(Planted::CommitsNotRemembered) {
            true => Vec::new(),
            false => state.recent.remember(csn, hashes),
        };
        let (writes, outcome) = (Mutex::new(writes), Mutex::new(None));
        let pending = Arc::new(Pending { csn, writes, durable, bytes, remembered, outcome });
        state.waiting.push_back(pending.clone());
        if state.waiting.len() == state.expected {
            self.joined.notify_one();
        }
        Ok(pending)
    }

    /// Those who wait, in order, as many as make a group: the first, and others up to so many bytes of keys and values.
    fn group(&self, bytes_max: usize) -> Vec<Arc<Pending>> {
        // Whoever was just told that its commit is over is likely to come with another. One who commits alone waits for nobody.
        self.rests.until(|| self.state.try_lock().is_some_and(|s| s.waiting.len() >= s.expected));
        let mut state = self.state.lock();
        while state.waiting.len() < state.expected {
            if self.joined.wait_for(&mut state, JOIN_WAIT).timed_out() {
                break;
            }
        }
        let group = next_group(&mut state.waiting, bytes_max);
        state.expected = 0;
        self.rests.count_group();
        group
    }
}

impl Recent {
    fn new(bytes_max: usize) -> Self {
        let places = (bytes_max / GENERATIONS / PLACE_BYTES).max(PLACES_MIN);
        let places = 1 << places.ilog2();
        let generations = VecDeque::from([Generation::default()]);
        Self { generations, places, forgotten: Csn::default() }
    }

    /// The first of these keys that a commit after `at` wrote; `at` is not older than what is forgotten.
    fn newer(&self, hashes: &[u64], at: Csn) -> Option<usize> {
        let newer = |g: &&Generation| g.newest > at;
        let generations = || self.generations.iter().rev().take_while(newer);
        hashes.iter().position(|h| generations().any(|g| g.keys.get(h).is_some_and(|&csn| csn > at)))
    }

    fn remember(&mut self, csn: Csn, hashes: Vec<u64>) -> Vec<Remembered> {
        let keys_max = self.places / 8 * 7;
        let keys = self.generations.back().map_or(0, |g| g.keys.len());
        if keys > 0 && keys + hashes.len() > keys_max {
            let oldest = (self.generations.len() == GENERATIONS).then(|| self.forget());
            // Its table serves again, unless a large commit made it longer than others.
            let keys = oldest.filter(|k| places(k) <= self.places).unwrap_or_default();
            self.generations.push_back(Generation { newest: csn, keys });
        }
        let newest = self.generations.back_mut().expect("there is always one");
        newest.newest = csn;
        let entry = |hash| Remembered { hash, before: newest.keys.insert(hash, csn) };
        let remembered = hashes.into_iter().map(entry).collect();
        let bytes_max = GENERATIONS * self.places * PLACE_BYTES;
        while self.held_bytes() > bytes_max && self.generations.len() > 1 {
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
    fn take_back(&mut self, csn: Csn, remembered: &[Remembered]) {
        for k in remembered {
            let written = self.generations.iter_mut().rev().find_map(|g| g.keys.get_mut(&k.hash));
            // What is removed would leave a gap in its table, which grew for it: no commit has the number 0.
            if let Some(by) = written.filter(|by| **by == csn) {
                *by = k.before.unwrap_or_default();
            }
        }
    }

    /// Bytes of memory.
    fn held_bytes(&self) -> usize {
        self.generations.iter().map(|g| places(&g.keys) * PLACE_BYTES).sum()
    }
}

/// Places of a table: a power of two, of which it fills seven of eight.
fn places(keys: &Map<u64, Csn>) -> usize {
    match keys.capacity() {
        0 => 0,
        capacity => (capacity * 8 / 7).next_power_of_two(),
    }
}

impl Inner {
    /// Sees a commit that has its place through; answers when it is visible and, where asked for, durable.
    pub(crate) fn finish(self: &Arc<Self>, pending: &Pending) -> Result<Csn, EngineError> {
        let sequencer = &self.sequencer;
        let mut rested = None;
        loop {
            let mut state = sequencer.state.lock();
            if let Some(outcome) = pending.outcome.lock().take() {
                return outcome.map(|()| pending.csn);
            }
            let group = sequencer.groups.load(Ordering::Acquire);
            if !state.leading {
                state.leading = true;
                drop(state);
                self.lead();
            } else if rested != Some(group) {
                drop(state);
                sequencer.rests.until(|| sequencer.groups.load(Ordering::Acquire) != group);
                rested = Some(group);
            } else {
                sequencer.over.wait(&mut state);
            }
        }
    }

    /// What a group takes, so that one batch takes the group.
    fn group_bytes_max(&self) -> usize {
        let identity = self.shared.store.identity();
        GROUP_BYTES_MAX.min(identity.batch_bytes_max / 8) as usize
    }

    /// Carries out a group of those who wait.
    fn lead(self: &Arc<Self>) {
        let mut leading = Leading { sequencer: &self.sequencer, answered: 0 };
        let permit = self.permit();
        let led = Led { inner: self, group: self.sequencer.group(self.group_bytes_max()) };
        let _span = tracing::debug_span!("commit_group", transactions = led.group.len()).entered();
        let mut trees = self.trees.lock();
        self.carry_out(&mut trees, &led.group);
        leading.answered = led.group.len();
        drop(led);
        drop(leading);
        // Whoever waits for room waits for this. Where it fails, it is not the fault of those whose commit is over: who commits
        // next tries it again, and is told.
        let _ = self.make_room(&mut trees);
        drop(trees);
        drop(permit);
    }

    /// Applies a group, and tells those who wait for it.
    fn carry_out(&self, trees: &mut TreeState, group: &[Arc<Pending>]) {
        // Who writes to a tree that was dropped fails alone.
        let current = self.heads.newest();
        let check = |p: &Arc<Pending>| p.writes.lock().iter().try_for_each(|w| current.check_tree(&w.tree));
        let mut outcomes: Vec<Result<(), EngineError>> = group.iter().map(check).collect();
        let together = group.iter().zip(&outcomes).filter(|(_, o)| o.is_ok());
        let together: Vec<Arc<Pending>> = together.map(|(p, _)| p.clone()).collect();
        let sharing = outcomes.iter_mut().filter(|o| o.is_ok());
        match trees.commit(self, &together) {
            Ok(()) => {}
            Err(EngineError::TransactionTooLarge { .. }) if together.len() > 1 => {
                // Together they do more to the nodes than one batch takes.
                let alone = together.iter().map(|p| trees.commit(self, std::slice::from_ref(p)));
                sharing.zip(alone).for_each(|(o, done)| *o = done);
            }
            Err(e) => {
                let told = if planted::is(Planted::FollowerAcknowledged) { 1 } else { group.len() };
                sharing.take(told).for_each(|o| *o = Err(e.clone()));
            }
        }
        if outcomes.iter().any(Result::is_err) {
            let mut state = self.sequencer.state.lock();
            let failed = group.iter().zip(&outcomes).filter(|(_, o)| o.is_err());
            planted::unless(Planted::FailedStillConflicts, || {
                failed.rev().for_each(|(p, _)| state.recent.take_back(p.csn, &p.remembered));
            });
        }
        for (p, o) in group.iter().zip(outcomes) {
            *p.outcome.lock() = Some(o);
        }
    }

    /// Sends a batch with changes of trees that nobody else changes, and no group goes before it. Its pages show once the caller
    /// publishes a state of the commit that it answers. Only for who has the right to write.
    pub(crate) fn write_along(
        &self,
        mut writes: Vec<TreeWrites>,
        batch: Batch,
    ) -> Result<(CommitNo, Option<ViewId>, Option<Csn>), EngineError> {
        self.make_room(&mut self.trees.lock())?;
        // Whose number is lower goes first: else a snapshot would go back. Who comes later waits, however many they are.
        let (csn, mut before) = {
            let mut state = self.sequencer.state.lock();
            state.newest = Csn::new(state.newest.raw() + 1);
            (state.newest, std::mem::take(&mut state.waiting))
        };
        while !before.is_empty() {
            let led = Led { inner: self, group: next_group(&mut before, self.group_bytes_max()) };
            self.carry_out(&mut self.trees.lock(), &led.group);
            // Under the lock, so that nobody looks before and waits after.
            let _state = self.sequencer.state.lock();
            self.sequencer.group_over();
        }
        let (commit, view) = self.trees.lock().write_along(self, csn, &mut writes, batch)?;
        Ok((commit, view, Some(csn)))
    }

    /// The same for changes of trees alone, which show at once.
    pub(crate) fn commit_alone(&self, writes: Vec<TreeWrites>, batch: Batch) -> Result<(), EngineError> {
        let (commit, view, csn) = self.write_along(writes, batch)?;
        let view = self.view_at(commit, view);
        let csn = csn.expect("a commit has a number");
        self.heads.show(self.heads.newest().with_commits(csn, Some(view)));
        Ok(())
    }
}

/// Takes the first of those who wait, and others up to so many bytes of keys and values.
fn next_group(waiting: &mut VecDeque<Arc<Pending>>, bytes_max: usize) -> Vec<Arc<Pending>> {
    let mut group: Vec<Arc<Pending>> = Vec::new();
    let mut bytes = 0;
    while let Some(next) = waiting.front() {
        bytes += next.bytes;
        if !group.is_empty() && bytes > bytes_max {
            break;
        }
        group.extend(waiting.pop_front());
    }
    group
}

/// Those whose commits a thread carries out. When it unwinds, nobody knows how far it came: they are told so, and nothing more is
/// committed.
struct Led<'a> {
    inner: &'a Inner,
    group: Vec<Arc<Pending>>,
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let e = self.inner.heads.halt("a thread ended in the middle of a commit");
        for p in &self.group {
            p.outcome.lock().get_or_insert(Err(e.clone()));
        }
    }
}

/// The right to lead, given back also when the leader unwinds.
struct Leading<'a> {
    sequencer: &'a Sequencer,
    answered: usize,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut state = self.sequencer.state.lock();
        state.leading = false;
        state.expected = state.waiting.len() + self.answered;
        drop(state);
        self.sequencer.group_over();
    }
}

fn hash(tree: &Tree, key: &[u8]) -> u64 {
    let mut h = std::hash::DefaultHasher::new();
    (tree.id().raw(), key).hash(&mut h);
    h.finish()
}

fn nth(writes: &[TreeWrites], i: usize) -> (&Tree, &[u8]) {
    let all = writes.iter().flat_map(|w| w.keys.keys().map(move |k| (&w.tree, &k[..])));
    all.into_iter().nth(i).expect("every hash is of a key")
}

/// A key as a message shows it.
pub(crate) fn shown(key: &[u8]) -> String {
    const SHOWN_MAX: usize = 32;
    let dots = if key.len() > SHOWN_MAX { "..." } else { "" };
    let key = &key[..key.len().min(SHOWN_MAX)];
    match std::str::from_utf8(key) {
        Ok(s) if !s.chars().any(char::is_control) => format!("'{s}{dots}'"),
        _ => {
            let hex: String = key.iter().map(|b| format!("{b:02x}")).collect();
            format!("\\x{hex}{dots}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const BYTES: usize = GENERATIONS * PLACES_MIN * PLACE_BYTES;

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
                prop_assert!(recent.held_bytes() <= BYTES, "{} bytes of {BYTES}", recent.held_bytes());
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
        assert!(recent.held_bytes() > BYTES);
        assert_eq!(recent.forgotten, Csn::new(1), "those before it made room");
        recent.remember(Csn::new(3), vec![2]);
        assert_eq!((recent.forgotten, recent.newer(&[1, 2], Csn::new(2))), (Csn::new(2), Some(1)));
        assert!(recent.held_bytes() <= BYTES);
    }

    #[test]
    fn by_default_near_a_million_keys_are_remembered() {
        let recent = Recent::new(crate::DatabaseOptions::default().recent_bytes);
        assert_eq!(recent.places / 8 * 7 * GENERATIONS, 917_504);
    }
}
