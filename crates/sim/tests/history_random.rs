//! Tests the history checker with a tiny store in memory: thousands of random concurrent histories of the correct
//! store are clean, and each planted bug is found. `LODE_HISTORIES=20000` runs more histories.
//!
//! ```text
//!   seed ─► sessions, interleaved ─► Store (versions by commit number, first committer wins) ─► History ─► check
//!                                      └ Bug: one line of the store is wrong
//! ```

use std::collections::BTreeMap;
use std::time::Instant;

use lode_base::random::Random;
use lode_sim::history::{AnomalyKind, History, Level, Object, Op, Options, Outcome, Transaction};

/// The number of histories in an ordinary run. Each has a few hundred transactions.
const HISTORIES: u64 = 2000;
/// The number of histories within which a bug must be found.
const BUG_HISTORIES: u64 = 60;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    NoValidation,
    ValidatesOtherKey,
    ValidatesFirstKeyOnly,
    ForgetsNewestCommit,
    ReadsNewest,
    SnapshotByKey,
    SnapshotOfTomorrow,
    SnapshotOfYesterday,
    DirtyReads,
    AbortedStays,
    LosesOwnWrites,
    LosesOwnDeletes,
    TornCommit,
    CommitTwice,
    ForgetsCommit,
    ConflictAcknowledged,
    DeleteForgotten,
    VersionInFront,
    VersionDroppedTooEarly,
    EarlierWriteKept,
}

const BUGS: [Bug; 20] = [
    Bug::NoValidation,
    Bug::ValidatesOtherKey,
    Bug::ValidatesFirstKeyOnly,
    Bug::ForgetsNewestCommit,
    Bug::ReadsNewest,
    Bug::SnapshotByKey,
    Bug::SnapshotOfTomorrow,
    Bug::SnapshotOfYesterday,
    Bug::DirtyReads,
    Bug::AbortedStays,
    Bug::LosesOwnWrites,
    Bug::LosesOwnDeletes,
    Bug::TornCommit,
    Bug::CommitTwice,
    Bug::ForgetsCommit,
    Bug::ConflictAcknowledged,
    Bug::DeleteForgotten,
    Bug::VersionInFront,
    Bug::VersionDroppedTooEarly,
    Bug::EarlierWriteKept,
];

/// The content of an object: the values of a list, or at most one value of a register.
type Content = Vec<u64>;

/// The versions of every object, by commit number.
#[derive(Default)]
struct Store {
    versions: BTreeMap<Object, Vec<(u64, Content)>>,
    newest: u64,
}

/// A transaction under way.
struct Open {
    session: u32,
    invoked: u64,
    snapshot: u64,
    ops: Vec<Op>,
    left: u64,
    reads: Vec<Object>,
    writes: BTreeMap<Object, Content>,
    /// A snapshot per object, for the bug of that name.
    by_object: BTreeMap<Object, u64>,
}

impl Store {
    fn at(&self, object: Object, commit: u64) -> Content {
        let versions = self.versions.get(&object).into_iter().flatten();
        versions.filter(|v| v.0 <= commit).map(|v| v.1.clone()).next_back().unwrap_or_default()
    }

    fn changed_since(&self, object: Object, commit: u64) -> bool {
        self.versions.get(&object).is_some_and(|v| v.iter().any(|v| v.0 > commit))
    }

    fn put(&mut self, object: Object, commit: u64, content: Content, bug: Option<Bug>) {
        let versions = self.versions.entry(object).or_default();
        match bug {
            Some(Bug::VersionInFront) if commit.is_multiple_of(7) && !versions.is_empty() => {
                versions.insert(versions.len() - 1, (commit, content));
            }
            _ => versions.push((commit, content)),
        }
        if bug == Some(Bug::VersionDroppedTooEarly) && versions.len() > 3 {
            versions.remove(0);
        }
    }
}

struct Run {
    r: Random,
    store: Store,
    bug: Option<Bug>,
    /// Whether reads are validated, too.
    serializable: bool,
    lists: u64,
    registers: u64,
    clock: u64,
    value: u64,
    open: Vec<Option<Open>>,
    history: History,
}

/// Generates a history of about this many transactions from a seed.
fn run(seed: u64, transactions: usize, bug: Option<Bug>, serializable: bool) -> History {
    let mut r = Random(seed);
    let sessions = 1 + r.below(8) as usize;
    let (lists, registers) = (1 + r.below(6), 1 + r.below(8));
    let open = (0..sessions).map(|_| None).collect();
    let (store, history) = (Store::default(), History::default());
    let mut run = Run { r, store, bug, serializable, lists, registers, clock: 0, value: 0, open, history };
    while run.history.transactions.len() < transactions {
        let session = run.r.below(sessions as u64) as usize;
        run.step(session);
    }
    run.history
}

impl Run {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn step(&mut self, session: usize) {
        self.clock += 1;
        let Some(mut t) = self.open[session].take() else {
            self.open[session] = Some(self.begin(session as u32));
            return;
        };
        if t.left == 0 {
            return self.end(t);
        }
        t.left -= 1;
        self.operate(&mut t);
        self.open[session] = Some(t);
    }

    fn begin(&mut self, session: u32) -> Open {
        let newest = self.store.newest;
        let snapshot = match self.bug {
            Some(Bug::SnapshotOfTomorrow) => newest + self.r.below(2),
            Some(Bug::SnapshotOfYesterday) => newest.saturating_sub(self.r.below(2)),
            _ => newest,
        };
        Open {
            session,
            invoked: self.clock,
            snapshot,
            ops: Vec::new(),
            left: self.r.below(7),
            reads: Vec::new(),
            writes: BTreeMap::new(),
            by_object: BTreeMap::new(),
        }
    }

    fn read(&mut self, t: &mut Open, object: Object) -> Content {
        t.reads.push(object);
        if let Some(own) = t.writes.get(&object) {
            let lost = match self.bug {
                Some(Bug::LosesOwnWrites) => self.r.below(8) == 0,
                Some(Bug::LosesOwnDeletes) => own.is_empty(),
                _ => false,
            };
            if !lost {
                return own.clone();
            }
        }
        let mut others = self.open.iter().flatten().filter_map(|o| o.writes.get(&object));
        if self.bug == Some(Bug::DirtyReads)
            && let Some(dirty) = others.next_back()
            && self.r.below(4) == 0
        {
            return dirty.clone();
        }
        let commit = match self.bug {
            Some(Bug::ReadsNewest) => self.store.newest,
            Some(Bug::SnapshotByKey) => *t.by_object.entry(object).or_insert(self.store.newest),
            _ => t.snapshot,
        };
        self.store.at(object, commit)
    }

    fn operate(&mut self, t: &mut Open) {
        let list = self.r.below(self.lists);
        let register = self.r.below(self.registers);
        let (list_object, register_object) = (Object::List(list), Object::Register(register));
        self.value += 1;
        let value = self.value;
        match self.r.below(9) {
            0..=1 => {
                let mut content = self.read(t, list_object);
                content.push(value);
                self.write(t, list_object, content);
                t.ops.push(Op::Append { list, value });
            }
            2..=4 => {
                let values = self.read(t, list_object);
                t.ops.push(Op::ReadList { list, values });
            }
            5 if self.r.below(3) == 0 => {
                self.write(t, register_object, Vec::new());
                t.ops.push(Op::Delete { register });
            }
            5..=6 => {
                self.write(t, register_object, vec![value]);
                t.ops.push(Op::Write { register, value });
            }
            _ => {
                let value = self.read(t, register_object).first().copied();
                t.ops.push(Op::Read { register, value });
            }
        }
    }

    fn write(&mut self, t: &mut Open, object: Object, content: Content) {
        if !(self.has(Bug::EarlierWriteKept) && t.writes.contains_key(&object)) {
            t.writes.insert(object, content);
        }
    }

    fn end(&mut self, t: Open) {
        let gives_up = self.r.below(10) == 0;
        let conflicts = !gives_up && self.conflicts(&t);
        let outcome = match (gives_up, conflicts) {
            (false, false) => Outcome::Committed,
            (false, true) if self.has(Bug::ConflictAcknowledged) => Outcome::Committed,
            _ => Outcome::Aborted,
        };
        let takes_effect = !gives_up && !conflicts || self.has(Bug::AbortedStays) && self.r.below(2) == 0;
        let commit = (takes_effect && !t.writes.is_empty()).then(|| self.store.newest + 1);
        if let Some(commit) = commit {
            self.commit(&t, commit);
        }
        self.history.transactions.push(Transaction {
            session: t.session,
            ops: t.ops,
            outcome,
            snapshot: Some(t.snapshot),
            commit: commit.filter(|_| outcome == Outcome::Committed),
            invoked: Some(t.invoked),
            returned: Some(self.clock),
        });
    }

    fn conflicts(&self, t: &Open) -> bool {
        let snapshot = t.snapshot + u64::from(self.has(Bug::ForgetsNewestCommit));
        let mut keys: Vec<Object> = t.writes.keys().copied().collect();
        if self.serializable && !keys.is_empty() {
            keys.extend(&t.reads);
        }
        match self.bug {
            Some(Bug::NoValidation) => keys.clear(),
            Some(Bug::ValidatesFirstKeyOnly) => keys.truncate(1),
            Some(Bug::ValidatesOtherKey) => keys.iter_mut().for_each(|k| {
                let (Object::Register(n) | Object::List(n)) = k;
                *n += 1;
            }),
            _ => {}
        }
        keys.into_iter().any(|k| self.store.changed_since(k, snapshot))
    }

    fn commit(&mut self, t: &Open, commit: u64) {
        self.store.newest = commit;
        if self.has(Bug::ForgetsCommit) && self.r.below(20) == 0 {
            return;
        }
        for (i, (&object, content)) in t.writes.iter().enumerate() {
            let mut content = content.clone();
            let torn = self.has(Bug::TornCommit) && i > 0 && self.r.below(8) == 0;
            let kept =
                self.has(Bug::DeleteForgotten) && content.is_empty() && matches!(object, Object::Register(_));
            if torn || kept {
                continue;
            }
            if self.has(Bug::CommitTwice) && matches!(object, Object::List(_)) && self.r.below(20) == 0 {
                content.extend(content.last().copied());
            }
            self.store.put(object, commit, content, self.bug);
        }
    }
}

/// A history without the database's numbers and without times.
fn without_numbers(mut h: History) -> History {
    for t in &mut h.transactions {
        (t.snapshot, t.commit, t.invoked, t.returned) = (None, None, None, None);
    }
    h
}

fn histories() -> u64 {
    std::env::var("LODE_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(HISTORIES)
}

#[test]
fn histories_of_a_right_store_are_clean() {
    let options = Options::default();
    let (mut skewed, mut transactions, mut seconds) = (0, 0, 0.0);
    for seed in 0..histories() {
        let history = run(seed, 50 + (seed % 350) as usize, None, false);
        let history = if seed % 2 == 0 { history } else { without_numbers(history) };
        let begin = Instant::now();
        let report = history.check(&options);
        seconds += begin.elapsed().as_secs_f64();
        assert!(report.is_clean(), "seed {seed}: {report}");
        assert!(report.permitted.iter().all(|a| a.kind == AnomalyKind::G2Item));
        skewed += u64::from(!report.permitted.is_empty());
        transactions += history.transactions.len();
    }
    println!(
        "{} histories, {transactions} transactions, checked in {seconds:.2} s; {skewed} with write skew",
        histories()
    );
    assert!(skewed > histories() / 2, "write skew is frequent: {skewed}");
}

#[test]
fn histories_of_a_serializable_store_have_no_cycle() {
    let options = Options { level: Level::Serializable, ..Options::default() };
    for seed in 0..histories() / 4 {
        let history = run(seed, 200, None, true);
        let history = if seed % 2 == 0 { history } else { without_numbers(history) };
        let report = history.check(&options);
        assert!(report.is_clean() && report.permitted.is_empty(), "seed {seed}: {report}");
    }
}

#[test]
fn write_skew_is_found_at_the_serializable_level() {
    let options = Options { level: Level::Serializable, ..Options::default() };
    let found = (0..BUG_HISTORIES)
        .filter(|&seed| run(seed, 200, None, false).check(&options).kinds() == [AnomalyKind::G2Item]);
    assert!(found.count() > 20);
}

/// Each bug is found, also without the database's numbers and without times.
#[test]
fn every_planted_bug_is_found() {
    let options = Options::default();
    for bug in BUGS {
        let mut first = [None; 2];
        let mut kinds = Vec::new();
        for seed in 0..BUG_HISTORIES {
            let history = run(seed, 200, Some(bug), false);
            for (i, history) in [history.clone(), without_numbers(history)].into_iter().enumerate() {
                let report = history.check(&options);
                if !report.is_clean() {
                    first[i] = first[i].or(Some(seed));
                    kinds.extend(report.kinds());
                }
            }
        }
        kinds.sort_unstable();
        kinds.dedup();
        let name = |k: &AnomalyKind| k.name().split(" (").next().unwrap_or_default().to_string();
        let kinds = kinds.iter().map(name).collect::<Vec<_>>().join(", ");
        println!("{bug:?}: seed {:?}, without numbers {:?}: {kinds}", first[0], first[1]);
        assert!(first[0].is_some(), "{bug:?} is not found");
        assert!(first[1].is_some(), "{bug:?} is not found without numbers");
    }
}
