//! The sequencer puts commits to trees in order: it validates each commit, gives it its CSN, and keeps it until a group takes it.
//!
//! ```text
//!   commit ─► validated against recent commits ─► CSN ─► waits ─┬─ leads: takes all that wait, and carries them out
//!                                                               └─ or waits until the leader sets its outcome
//! ```
//!
//! First committer wins: a transaction conflicts if one that committed after its snapshot wrote one of its keys. Keys are compared
//! by hash, so a collision costs a needless retry. Later commits are validated against a commit as soon as it is sequenced. The
//! commit becomes visible with its group.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::claims::Claims;
use super::recent::{Recent, Remembered};
use super::yields::Yields;
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::trees::tree::{Csn, Tree};
use crate::trees::writes::{TreeWrites, nth_shown};

/// How long a leader waits for commits that are likely to join its group, at most: well below the time of a sync.
const JOIN_WAIT: Duration = Duration::from_micros(100);

/// A commit that was sequenced.
pub(crate) struct Pending {
    csn: Csn,
    /// What it writes. Its values become pages, and get their LPIDs, when it is carried out.
    writes: Mutex<Vec<TreeWrites>>,
    is_durable: bool,
    /// Bytes of keys and values.
    bytes: usize,
    remembered: Vec<Remembered>,
    outcome: Mutex<Option<Result<(), EngineError>>>,
}

impl Pending {
    pub(super) fn csn(&self) -> Csn {
        self.csn
    }

    /// What it writes. Only the thread that carries it out may ask.
    pub(super) fn writes(&self) -> MutexGuard<'_, Vec<TreeWrites>> {
        self.writes.lock()
    }

    /// Whether it asks to be durable when it returns.
    pub(super) fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Sets its outcome.
    pub(super) fn end(&self, outcome: Result<(), EngineError>) {
        *self.outcome.lock() = Some(outcome);
    }

    /// Sets the outcome to a failure, unless it is set.
    pub(super) fn fail(&self, e: &EngineError) {
        self.outcome.lock().get_or_insert(Err(e.clone()));
    }
}

/// The order of commits to trees.
pub(super) struct Sequencer {
    state: Mutex<State>,
    /// Signalled when a group ends, or when its leader leaves.
    over: Condvar,
    /// Signalled when as many commits wait as the leader expects.
    joined: Condvar,
    /// Signalled when commits of tables are sequenced again.
    opened: Condvar,
    /// Groups that are over.
    groups: AtomicU64,
    yields: Yields,
}

struct State {
    newest: Csn,
    recent: Recent,
    waiting: VecDeque<Arc<Pending>>,
    is_led: bool,
    /// Expected size of the next group: the commits of the last group, and those that waited at its end.
    expected: usize,
    /// Commits of tables wait until this is over.
    is_closed: bool,
}

/// A commit that joins no group.
pub(super) struct Passing {
    pub(super) csn: Csn,
    /// The commits that wait and come before it.
    pub(super) before: VecDeque<Arc<Pending>>,
    pub(super) remembered: Vec<Remembered>,
}

/// What became of a commit that asked for its place.
pub(crate) enum Sequenced {
    /// It has its place.
    Waits(Arc<Pending>),
    /// A later commit has a claim that conflicts with the claim of this number.
    Conflicts(usize),
    /// Commits after its snapshot were forgotten.
    TooOld,
}

/// What a commit that was sequenced does next.
pub(super) enum Next<'a> {
    /// Nothing: the commit is over, with this outcome.
    Over(Result<(), EngineError>),
    /// Its thread leads a group.
    Lead(Leading<'a>),
}

impl Sequencer {
    /// `newest`: the newest commit so far. `recent_bytes`: memory for the keys of recent commits.
    pub(super) fn new(newest: Csn, recent_bytes: usize, now: Option<fn() -> Instant>) -> Self {
        let (recent, waiting) = (Recent::new(recent_bytes), VecDeque::new());
        let state =
            Mutex::new(State { newest, recent, waiting, is_led: false, expected: 0, is_closed: false });
        let (over, joined, opened) = (Condvar::new(), Condvar::new(), Condvar::new());
        Self { state, over, joined, opened, groups: AtomicU64::new(0), yields: Yields::new(now) }
    }

    /// Validates writes that were made at a snapshot, and puts the commit behind all others.
    pub(super) fn sequence(
        &self,
        at: Csn,
        writes: Vec<TreeWrites>,
        bytes: usize,
        is_durable: bool,
    ) -> Result<Arc<Pending>, EngineError> {
        let hashes: Vec<u64> = writes.iter().flat_map(|w| w.keys.keys().map(|k| hash(&w.tree, k))).collect();
        let mut state = self.state.lock();
        if state.recent.has_forgotten(at) {
            let what =
                "the transaction is too old to be validated: commits after its snapshot were forgotten"
                    .into();
            return Err(EngineError::Conflict { what });
        }
        let validated =
            planted::instead(Planted::LastKeyNotValidated, || &hashes[..], || &hashes[..hashes.len() - 1]);
        if let Some(i) = state.recent.newer(validated, at) {
            return Err(EngineError::Conflict { what: nth_shown(&writes, i) });
        }
        Ok(self.wait_in(&mut state, writes, hashes, bytes, is_durable))
    }

    /// Validates the claims of a commit of tables that was made at a snapshot, and puts the commit behind all others.
    pub(super) fn sequence_claims(
        &self,
        at: Csn,
        writes: Vec<TreeWrites>,
        claims: &Claims,
        bytes: usize,
        is_durable: bool,
    ) -> Sequenced {
        let mut state = self.state.lock();
        while state.is_closed {
            self.opened.wait(&mut state);
        }
        match state.conflict(at, claims) {
            Some(conflict) => conflict,
            None => {
                let hashes = claims.remembered();
                Sequenced::Waits(self.wait_in(&mut state, writes, hashes, bytes, is_durable))
            }
        }
    }

    /// Whether claims conflict with commits after a snapshot, as [`Sequencer::sequence_claims`] finds out.
    pub(super) fn conflict(&self, at: Csn, claims: &Claims) -> Option<Sequenced> {
        self.state.lock().conflict(at, claims)
    }

    fn wait_in(
        &self,
        state: &mut State,
        writes: Vec<TreeWrites>,
        hashes: Vec<u64>,
        bytes: usize,
        is_durable: bool,
    ) -> Arc<Pending> {
        let csn = state.next_csn();
        let remember = || state.recent.remember(csn, hashes);
        let remembered = planted::instead(Planted::CommitsNotRemembered, remember, Vec::new);
        let (writes, outcome) = (Mutex::new(writes), Mutex::new(None));
        let pending = Arc::new(Pending { csn, writes, is_durable, bytes, remembered, outcome });
        state.waiting.push_back(pending.clone());
        if state.waiting.len() == state.expected {
            self.joined.notify_one();
        }
        pending
    }

    /// From now on commits of tables wait. Returns the commits that were sequenced before, which the caller must carry out. Only the
    /// holder of the right to write may call this.
    pub(super) fn close(&self) -> VecDeque<Arc<Pending>> {
        let mut state = self.state.lock();
        state.is_closed = true;
        std::mem::take(&mut state.waiting)
    }

    /// Commits of tables need not wait any more.
    pub(super) fn open(&self) {
        self.state.lock().is_closed = false;
        self.opened.notify_all();
    }

    /// Gives a CSN to a commit that joins no group, and remembers its claims, which the caller validated. Returns the CSN, and the waiting commits with lower CSNs. The caller must carry them
    /// out first; otherwise a snapshot would show this CSN without them. Later commits wait until the caller releases the right to
    /// write.
    pub(super) fn pass(&self, claims: &Claims) -> Passing {
        let mut state = self.state.lock();
        let csn = state.next_csn();
        let remembered = match claims.len() {
            0 => Vec::new(),
            _ => state.recent.remember(csn, claims.remembered()),
        };
        Passing { csn, before: std::mem::take(&mut state.waiting), remembered }
    }

    /// Forgets the claims of a commit that joined no group and failed.
    pub(super) fn take_back_passing(&self, csn: Csn, remembered: &[Remembered]) {
        self.state.lock().recent.take_back(csn, remembered);
    }

    /// Waits until a commit is over, or until no thread leads. In the second case the caller becomes the leader.
    pub(super) fn next(&self, pending: &Pending) -> Next<'_> {
        let mut yielded = None;
        loop {
            let mut state = self.state.lock();
            if let Some(outcome) = pending.outcome.lock().take() {
                return Next::Over(outcome);
            }
            let group = self.groups.load(Ordering::Acquire);
            if !state.is_led {
                state.is_led = true;
                return Next::Lead(Leading { sequencer: self, answered: 0 });
            }
            if yielded != Some(group) {
                drop(state);
                self.yields.until(|| self.groups.load(Ordering::Acquire) != group);
                yielded = Some(group);
            } else {
                self.over.wait(&mut state);
            }
        }
    }

    /// The commits of the next group, in order: the first that waits, and others up to so many bytes of keys and values.
    pub(super) fn group(&self, bytes_max: usize) -> Vec<Arc<Pending>> {
        // A thread whose commit was just answered is likely to commit again soon. A thread that commits alone does not wait.
        self.yields.until(|| self.state.try_lock().is_some_and(|s| s.waiting.len() >= s.expected));
        let mut state = self.state.lock();
        while state.waiting.len() < state.expected {
            if self.joined.wait_for(&mut state, JOIN_WAIT).timed_out() {
                break;
            }
        }
        let group = next_group(&mut state.waiting, bytes_max);
        state.expected = 0;
        self.yields.count_group();
        group
    }

    /// Forgets the keys of failed commits, so that no later commit conflicts with them.
    pub(super) fn take_back<'a>(&self, failed: impl DoubleEndedIterator<Item = &'a Arc<Pending>>) {
        let mut state = self.state.lock();
        planted::unless(Planted::FailedStillConflicts, || {
            failed.rev().for_each(|p| state.recent.take_back(p.csn, &p.remembered));
        });
    }

    /// Ends a group that [`Sequencer::pass`] took out.
    pub(super) fn passed_group_over(&self) {
        // Under the lock, so that no thread checks its outcome before this and begins to wait after it.
        let _state = self.state.lock();
        self.group_over();
    }

    /// Ends a group: its threads find their outcomes, or one leads the next group.
    fn group_over(&self) {
        self.groups.fetch_add(1, Ordering::Release);
        self.over.notify_all();
    }
}

impl State {
    fn conflict(&self, at: Csn, claims: &Claims) -> Option<Sequenced> {
        if self.recent.has_forgotten(at) {
            return Some(Sequenced::TooOld);
        }
        let mut conflicting = claims.conflicting();
        let found = conflicting.find(|(_, hash)| self.recent.newer(&[*hash], at).is_some());
        found.map(|(claim, _)| Sequenced::Conflicts(claim))
    }

    fn next_csn(&mut self) -> Csn {
        self.newest = Csn::new(self.newest.raw() + 1);
        self.newest
    }
}

/// Takes the first commits that wait, as [`Sequencer::group`] does.
pub(super) fn next_group(waiting: &mut VecDeque<Arc<Pending>>, bytes_max: usize) -> Vec<Arc<Pending>> {
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

/// The right to lead a group. It is given back when this drops, also when the leader unwinds.
pub(super) struct Leading<'a> {
    sequencer: &'a Sequencer,
    answered: usize,
}

impl Leading<'_> {
    /// Notes how many commits were answered.
    pub(super) fn answered(&mut self, commits: usize) {
        self.answered = commits;
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut state = self.sequencer.state.lock();
        state.is_led = false;
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
