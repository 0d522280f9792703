//! The database of a seed beside its model, and the steps of a history.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::CommitNo;
use lode_base::random::Random;
use lode_engine::{
    Changes, Constraint, Database, DatabaseOptions, Deferral, EngineError, IndexDef, IndexKind, KeyIndex,
    Layout, ReferenceAction, Rule, Snapshot, TableDef,
};
use lode_page::{DataType, Value};

use super::model::*;
use super::within::AtRead;
use crate::support::drive::TestDrive;
use crate::support::hooked::Hooked;
use crate::support::*;

/// What a seed met.
#[derive(Debug, Default)]
pub(super) struct Met {
    pub(super) commits: u32,
    pub(super) conflicts: u32,
    pub(super) broken: u32,
    pub(super) within: u32,
    pub(super) failed: u32,
    pub(super) rewritten: u32,
    /// Statements that ended with a key twice, or without a parent.
    pub(super) twice: u32,
    /// Openings after a merge of which a batch failed, within which others committed.
    pub(super) cut: u32,
}

/// What the tables of a seed are like.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Whether statements end, so that their keys are checked there.
    pub(super) ends: bool,
    /// Whether UNIQUE waits for the commit.
    pub(super) deferred: bool,
    pub(super) key_index: KeyIndex,
}

impl Kind {
    fn of_seed(seed: u64) -> Self {
        let key_index = if seed / 2 % 2 == 1 { KeyIndex::PageIndex } else { KeyIndex::Tree };
        Self { ends: seed % 2 == 1, deferred: seed / 4 % 2 == 1, key_index }
    }
}

pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) inner: TestDrive,
    pub(super) drive: Arc<Hooked<AtRead>>,
    pub(super) hook: Arc<AtRead>,
    pub(super) db: Database,
    pub(super) committed: State,
    pub(super) open: [Option<Open>; 3],
    /// Snapshots, and what they show for ever.
    pub(super) old: Vec<(Snapshot, State)>,
    pub(super) random: Random,
    pub(super) next: u64,
    pub(super) met: Met,
}

fn open_again(drive: &Arc<Hooked<AtRead>>, kind: Kind) -> Database {
    let options = DatabaseOptions {
        // From some rows on, a change edits pages.
        rows_by_id_max: if kind.ends && !kind.deferred { 8 } else { small().rows_by_id_max },
        pool_bytes: 1 << 20,
        key_check_bytes: 1 << 12,
        node_bytes: 512,
        // A few commits of a dozen rows.
        recent_bytes: 1,
        ..small()
    };
    Database::open(drive.clone(), options).unwrap()
}

fn defined(t: usize, kind: Kind) -> TableDef {
    let rule = match t {
        PARENT => Rule::Unique { columns: vec![1] },
        _ => Rule::ForeignKey {
            columns: vec![1],
            parent: NAMES[PARENT].into(),
            parent_columns: vec![0],
            on_delete: ReferenceAction::NoAction,
            on_update: ReferenceAction::NoAction,
        },
    };
    let columns: Vec<(&str, DataType)> = ["k", "r", "d", "s"].into_iter().zip(TYPES).collect();
    let mut def = def(NAMES[t], &columns, &[0], Layout::Auto);
    (def.options.changes, def.options.key_index) = (Changes::Delta, kind.key_index);
    let deferral = if t == PARENT && kind.deferred { Deferral::Deferred } else { Deferral::None };
    def.constraints = vec![Constraint { name: "rule".into(), rule, deferral }];
    def
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let (hook, kind) = (Arc::<AtRead>::default(), Kind::of_seed(seed));
        // A commit of more than 20 rows is not short. In some seeds all are.
        let pages_max = if seed % 8 >= 6 { 1 << 14 } else { 320 };
        let inner = TestDrive::with_limits(256 << 10, pages_max);
        let drive = Arc::new(Hooked::new(inner.clone(), hook.clone()));
        let db = open_again(&drive, kind);
        for t in [PARENT, CHILD] {
            db.create_table(defined(t, kind), false).unwrap();
            let kind = IndexKind::Btree { unique: false };
            let index = IndexDef::new(format!("by_{t}"), NAMES[t], vec![2 - t as u16], kind);
            db.create_index(index, false).unwrap();
        }
        let (committed, open, random) = (State::default(), [None, None, None], Random::of_seed(seed));
        let mut w = Self {
            kind,
            inner,
            drive,
            hook,
            db,
            committed,
            open,
            old: Vec::new(),
            random,
            next: 0,
            met: Met::default(),
        };
        for page in 0..5 {
            let parents: Vec<Row> =
                (page * 50..page * 50 + 50).map(|n| w.row(n * 2, Value::Int(n * 3))).collect();
            w.load(PARENT, parents);
        }
        for page in 0..3 {
            let of = |w: &mut Self, n: i64| {
                let p = Value::Int(w.random.below(60) as i64 * 2);
                w.row(n * 2, p)
            };
            let children: Vec<Row> = (page * 50..page * 50 + 50).map(|n| of(&mut w, n)).collect();
            w.load(CHILD, children);
        }
        w
    }

    pub(super) fn load(&mut self, t: usize, rows: Vec<Row>) {
        let mut open = self.begin();
        let rows = self.numbered(rows);
        open.insert(t, &rows, true);
        self.commit(open);
    }

    /// A new row, with a text of its own.
    pub(super) fn row(&mut self, k: i64, r: Value) -> Row {
        self.next += 1;
        let d = self.random.below(40) as i64;
        vec![Value::Int(k), r, Value::Int(d), Value::text(&format!("version {}", self.next))]
    }

    pub(super) fn numbered(&mut self, rows: Vec<Row>) -> Vec<(u64, Row)> {
        let number = |r: Row| {
            self.next += 1;
            (self.next, r)
        };
        rows.into_iter().map(number).collect()
    }

    /// A row with a key that another one may have.
    pub(super) fn random_row(&mut self, t: usize) -> Row {
        let k = self.random.below(700) as i64;
        let r = match t {
            PARENT if self.random.once_in(6) => Value::Null,
            PARENT => Value::Int(self.random.below(1400) as i64),
            _ => Value::Int(self.random.below(60) as i64 * 2),
        };
        self.row(k, r)
    }

    pub(super) fn begin(&self) -> Open {
        let seen = self.committed.clone();
        let txn = self.db.begin_write().unwrap();
        Open {
            txn,
            at_begin: seen.clone(),
            seen,
            touched: BTreeSet::new(),
            rewritten: [false; 2],
            savepoint: None,
            is_excused: false,
            excused: BTreeSet::new(),
        }
    }

    pub(super) fn commit(&mut self, open: Open) {
        let expected = open.expected(&self.committed);
        let got = open.txn.commit();
        self.ended(got, expected);
    }

    pub(super) fn ended(&mut self, got: Result<CommitNo, EngineError>, expected: Expected) {
        let is_broken = |e: &EngineError| {
            matches!(
                e,
                EngineError::DuplicateKey { .. }
                    | EngineError::Unique { .. }
                    | EngineError::ForeignKey { .. }
            )
        };
        match (got, expected) {
            (Ok(_), Expected::Done(after) | Expected::DoneOrConflict(after)) => {
                self.committed = after;
                self.met.commits += 1;
            }
            (Err(EngineError::Conflict { .. }), Expected::Conflict | Expected::DoneOrConflict(_)) => {
                self.met.conflicts += 1;
            }
            (Err(e), Expected::Broken) if is_broken(&e) => self.met.broken += 1,
            (got, expected) => {
                let expected = match expected {
                    Expected::Done(_) => "success",
                    Expected::Conflict => "a conflict",
                    Expected::DoneOrConflict(_) => "success or a conflict",
                    Expected::Broken => "a broken constraint",
                };
                panic!("a commit ended with {got:?}, where {expected} was expected");
            }
        }
    }

    pub(super) fn step(&mut self) {
        let slot = self.random.below(3) as usize;
        let t = self.random.below(2) as usize;
        match self.random.below(48) {
            0..16 => {
                let mut open = self.open[slot].take().unwrap_or_else(|| self.begin());
                self.statement(&mut open);
                self.open[slot] = Some(open);
            }
            16..23 => {
                if let Some(open) = self.open[slot].take() {
                    self.commit(open);
                }
            }
            23 => {
                if let Some(mut open) = self.open[slot].take() {
                    [PARENT, CHILD].into_iter().for_each(|t| drop(open.addresses(t)));
                }
            }
            24..31 => self.race(),
            31..33 => self.db.merge(NAMES[t]).unwrap(),
            33..36 => self.merge_with(t, None),
            36 => self.pass_time(),
            37 => self.old.push((self.db.snapshot().unwrap(), self.committed.clone())),
            38 => sound(&self.db),
            39..41 => self.work(),
            41..43 => self.fail(t),
            43..45 => self.reopen(),
            45 => self.cut_within(t),
            _ => self.rewrite(t),
        }
        shows(&self.db.snapshot().unwrap(), &self.committed, &mut self.random);
        if let Some((snapshot, state)) = self.random.pick(&self.old).cloned() {
            shows(&snapshot, &state, &mut self.random);
        }
    }

    /// Background work, at rest or not.
    pub(super) fn work(&mut self) {
        for _ in 0..self.random.between(1, 14) {
            self.db.work(1 << 20);
        }
    }

    /// A commit, or a merge, of which a batch fails.
    pub(super) fn fail(&mut self, t: usize) {
        self.inner.fail_after(Some(self.random.below(2) as u32));
        let is_full = |e: &EngineError| matches!(e, EngineError::OutOfSpace { .. });
        if self.random.once_in(3) {
            let merged = self.db.merge(NAMES[t]);
            assert!(merged.as_ref().is_ok() || merged.as_ref().is_err_and(is_full), "{merged:?}");
        } else {
            let mut open = self.begin();
            self.statement(&mut open);
            let expected = open.expected(&self.committed);
            match open.txn.commit() {
                Err(e) if is_full(&e) => self.met.failed += 1,
                got => self.ended(got, expected),
            }
        }
        self.inner.fail_after(None);
    }

    /// A merge, within which others commit, and in which the power goes: before one of its batches, or behind all.
    fn cut_within(&mut self, t: usize) {
        let batches = self.random.below(4) as u32;
        self.merge_with(t, Some(batches));
        self.met.cut += 1;
        self.reopen();
    }

    /// Rewrites a table, in the order of a column or as it is. Sometimes another transaction commits meanwhile, or a batch fails.
    pub(super) fn rewrite(&mut self, t: usize) {
        let mut rewrite = self.db.begin_write().unwrap().rewrite(NAMES[t]).unwrap();
        match self.random.once_in(4) {
            true => rewrite.push_all().unwrap(),
            false => {
                let c = *self.random.pick(&[0usize, 0, 2]).unwrap();
                let mut rows: Vec<Row> =
                    scan(rewrite.snapshot(), NAMES[t]).into_iter().map(|(_, r)| r).collect();
                rows.sort_by_key(|r| int(&r[c]));
                // A page each.
                for rows in rows.chunks(40) {
                    rewrite.push(columns(&TYPES, rows)).unwrap();
                }
            }
        }
        let mut is_overtaken = false;
        match self.random.below(4) {
            0 => {
                let mut open = self.begin();
                self.statement(&mut open);
                is_overtaken = open.seen.0[t] != open.at_begin.0[t];
                let before = self.met.commits;
                self.commit(open);
                is_overtaken &= self.met.commits > before;
            }
            1 => self.inner.fail_after(Some(self.random.below(4) as u32)),
            _ => {}
        }
        let finished = rewrite.finish();
        self.inner.fail_after(None);
        match finished {
            Ok(_) => {
                assert!(!is_overtaken, "a commit of others is lost");
                self.met.rewritten += 1;
                self.open.iter_mut().flatten().for_each(|open| open.rewritten[t] = true);
            }
            Err(EngineError::OutOfSpace { .. }) => {}
            Err(EngineError::Conflict { .. }) => {}
            Err(e) => panic!("a rewrite ended with {e}"),
        }
    }

    pub(super) fn reopen(&mut self) {
        self.open = [None, None, None];
        self.old.clear();
        self.db = open_again(&self.drive, self.kind);
        sound(&self.db);
    }
}
