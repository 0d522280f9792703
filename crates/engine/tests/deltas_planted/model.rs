//! The model: the rows of both tables, what a transaction sees of them, and how its commit must end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lode_base::random::Random;
use lode_command::Answer;
use lode_engine::{EngineError, RowAddress, SavedChanges, Snapshot, WriteTxn};
use lode_page::{DataType, Value};
use lode_program::{CompareOp, Expr, Program};

use crate::support::*;

/// Tables by number. Both have the columns `k` (the key), `r`, `d` and `s`, which is another text in each version of a row.
pub(super) const NAMES: [&str; 2] = ["parent", "child"];
pub(super) const PARENT: usize = 0;
pub(super) const CHILD: usize = 1;
pub(super) const TYPES: [DataType; 4] =
    [DataType::BigInt, DataType::BigInt, DataType::BigInt, DataType::Text];

/// The rows of both tables, by numbers that rows keep.
#[derive(Clone, Default)]
pub(super) struct State(pub(super) [BTreeMap<u64, Row>; 2]);

pub(super) fn int(v: &Value) -> Option<i64> {
    if let Value::Int(v) = v { Some(*v) } else { None }
}

impl State {
    /// The keys that are there twice, as table, column and value. With `deferred`, UNIQUE does not count.
    fn twice(&self, deferred: bool) -> Vec<(usize, usize, i64)> {
        let mut twice = Vec::new();
        for (t, c) in [(PARENT, 0), (PARENT, 1), (CHILD, 0)] {
            let mut seen = BTreeSet::new();
            let values = self.0[t].values().filter_map(|r| int(&r[c]));
            if !(deferred && c == 1) {
                twice.extend(values.filter(|v| !seen.insert(*v)).map(|v| (t, c, v)));
            }
        }
        twice
    }

    /// The keys of parents that children reference, and that are not there.
    fn orphans(&self) -> BTreeSet<i64> {
        let parents: BTreeSet<i64> = self.0[PARENT].values().filter_map(|r| int(&r[0])).collect();
        self.0[CHILD].values().filter_map(|r| int(&r[1])).filter(|p| !parents.contains(p)).collect()
    }

    /// Whether keys are distinct, and each child has its parent.
    pub(super) fn is_sound(&self) -> bool {
        let distinct = |t: usize, c: usize| {
            let mut seen = BTreeSet::new();
            self.0[t].values().filter_map(|r| int(&r[c])).all(|v| seen.insert(v))
        };
        let parents: BTreeSet<i64> = self.0[PARENT].values().filter_map(|r| int(&r[0])).collect();
        let mut referenced = self.0[CHILD].values().filter_map(|r| int(&r[1]));
        distinct(PARENT, 0)
            && distinct(PARENT, 1)
            && distinct(CHILD, 0)
            && referenced.all(|p| parents.contains(&p))
    }
}

/// Rows, each with the number of its table.
pub(super) type Touched = BTreeSet<(usize, u64)>;

/// A transaction that is open, and what it sees.
pub(super) struct Open {
    pub(super) txn: WriteTxn,
    pub(super) at_begin: State,
    pub(super) seen: State,
    /// Rows of the begin that it changed.
    pub(super) touched: Touched,
    /// Tables that were rewritten since the begin.
    pub(super) rewritten: [bool; 2],
    pub(super) savepoint: Option<Saved>,
    /// Whether the end of a statement passed a key that the transaction sees twice, because others have freed it.
    pub(super) is_excused: bool,
    /// Parents that the ends of statements missed, because of what others have done.
    pub(super) excused: BTreeSet<i64>,
}

/// What a transaction goes back to.
pub(super) type Saved = (SavedChanges, State, Touched);

/// How a commit must end.
pub(super) enum Expected {
    Done(State),
    Conflict,
    /// It changed nothing of a table that was rewritten, and may have changed something for a while.
    DoneOrConflict(State),
    Broken,
}

impl Open {
    pub(super) fn expected(&self, committed: &State) -> Expected {
        if self.touched.iter().any(|&(t, id)| committed.0[t].get(&id) != self.at_begin.0[t].get(&id)) {
            return Expected::Conflict;
        }
        let mut after = committed.clone();
        for &(t, id) in &self.touched {
            after.0[t].remove(&id);
        }
        for (t, rows) in self.seen.0.iter().enumerate() {
            let mine = |id: &u64| self.touched.contains(&(t, *id)) || !self.at_begin.0[t].contains_key(id);
            after.0[t].extend(rows.iter().filter(|(id, _)| mine(id)).map(|(&id, r)| (id, r.clone())));
        }
        let changed = |t: usize| self.seen.0[t] != self.at_begin.0[t];
        if (0..2).any(|t| self.rewritten[t] && changed(t)) {
            return Expected::Conflict;
        }
        match after.is_sound() {
            true if self.rewritten.contains(&true) => Expected::DoneOrConflict(after),
            true => Expected::Done(after),
            false => Expected::Broken,
        }
    }

    /// Sees that the transaction reads what it should; answers where the rows of a table are.
    pub(super) fn addresses(&mut self, t: usize) -> BTreeMap<String, RowAddress> {
        let rows = scan(&self.txn.current().unwrap(), NAMES[t]);
        same_rows(rows.iter().map(|(_, r)| r), self.seen.0[t].values());
        rows.into_iter().map(|(a, r)| (text(&r), a)).collect()
    }

    pub(super) fn insert(&mut self, t: usize, rows: &[(u64, Row)], load: bool) {
        let values: Vec<Row> = rows.iter().map(|(_, r)| r.clone()).collect();
        let columns = columns(&TYPES, &values);
        match load {
            true => self.txn.load(NAMES[t], columns).unwrap(),
            false => self.txn.insert(NAMES[t], columns).unwrap(),
        };
        self.seen.0[t].extend(rows.iter().cloned());
    }

    pub(super) fn update(&mut self, t: usize, rows: &[(u64, Row)]) {
        let at = self.addresses(t);
        let addresses: Vec<RowAddress> = rows.iter().map(|(id, _)| at[&text(&self.seen.0[t][id])]).collect();
        let values: Vec<Row> = rows.iter().map(|(_, r)| r.clone()).collect();
        self.txn.update(NAMES[t], &addresses, &[0, 1, 2, 3], columns(&TYPES, &values)).unwrap();
        self.touch(t, rows.iter().map(|r| r.0));
        self.seen.0[t].extend(rows.iter().cloned());
    }

    pub(super) fn delete(&mut self, t: usize, ids: &[u64]) {
        let at = self.addresses(t);
        let addresses: Vec<RowAddress> = ids.iter().map(|id| at[&text(&self.seen.0[t][id])]).collect();
        assert_eq!(self.txn.delete(NAMES[t], &addresses).unwrap(), ids.len() as u64);
        self.touch(t, ids.iter().copied());
        ids.iter().for_each(|id| drop(self.seen.0[t].remove(id)));
    }

    pub(super) fn save(&mut self) -> Saved {
        (self.txn.savepoint().unwrap(), self.seen.clone(), self.touched.clone())
    }

    fn go_back(&mut self, (saved, seen, touched): &Saved) {
        self.txn.rollback_to(saved);
        (self.seen, self.touched) = (seen.clone(), touched.clone());
    }

    /// Rolls back to the newest savepoint, if there is one.
    pub(super) fn roll_back(&mut self) {
        if let Some(saved) = self.savepoint.take() {
            self.go_back(&saved);
            self.savepoint = Some(saved);
        }
    }

    /// Ends a statement. If a key is there twice, or a child has no parent, the transaction goes back to where the statement began. Answers whether it did.
    pub(super) fn end_statement(&mut self, before: &Saved, committed: &State, deferred: bool) -> bool {
        let twice = self.seen.twice(deferred);
        let freed = |&(t, c, v): &(usize, usize, i64)| {
            let has = |s: &State| s.0[t].values().any(|r| int(&r[c]) == Some(v));
            has(&self.at_begin) && !has(committed)
        };
        let is_freed = twice.iter().any(freed);
        let orphans = self.seen.orphans();
        // Others have made the parent, or taken the children away.
        let is_theirs = |p: &i64| {
            let has = |s: &State, t: usize, c: usize| s.0[t].values().any(|r| int(&r[c]) == Some(*p));
            has(committed, PARENT, 0) && !has(&self.at_begin, PARENT, 0)
                || has(&self.at_begin, CHILD, 1) && !has(committed, CHILD, 1)
        };
        let (theirs, mine): (BTreeSet<i64>, BTreeSet<i64>) = orphans.iter().partition(|p| is_theirs(p));
        let ended = self.txn.end_statement();
        match &ended {
            Ok(()) => {
                let missed: Vec<&i64> = mine.difference(&self.excused).collect();
                assert!(missed.is_empty(), "a statement ends with children without parents: {missed:?}");
                self.excused.extend(theirs);
                assert!(
                    twice.is_empty() || is_freed || self.is_excused,
                    "a statement ends with a key twice: {twice:?}"
                );
                self.is_excused |= !twice.is_empty();
            }
            Err(EngineError::DuplicateKey { .. } | EngineError::Unique { .. }) => {
                assert!(!twice.is_empty(), "a statement ended with {ended:?}, and no key is there twice");
                self.go_back(before);
            }
            Err(EngineError::ForeignKey { .. }) => {
                assert!(
                    !orphans.is_empty(),
                    "a statement ended with {ended:?}, and every child has its parent"
                );
                self.go_back(before);
            }
            Err(e) => panic!("a statement ended with {e}"),
        }
        ended.is_err()
    }

    pub(super) fn touch(&mut self, t: usize, ids: impl Iterator<Item = u64>) {
        self.touched.extend(ids.filter(|id| self.at_begin.0[t].contains_key(id)).map(|id| (t, id)));
    }
}

/// The text of a row, which no other version of a row has.
pub(super) fn text(r: &Row) -> String {
    match &r[3] {
        Value::Bytes(b) => String::from_utf8_lossy(b).into_owned(),
        _ => panic!("{r:?}"),
    }
}

pub(super) fn same_rows<'a>(got: impl Iterator<Item = &'a Row>, expected: impl Iterator<Item = &'a Row>) {
    let sorted = |rows: &mut dyn Iterator<Item = &'a Row>| {
        let mut rows: Vec<&Row> = rows.collect();
        rows.sort_by_cached_key(|r| text(r));
        rows
    };
    let (mut got, mut expected) = (got, expected);
    let (got, expected) = (sorted(&mut got), sorted(&mut expected));
    if let Some(i) = (0..got.len().max(expected.len())).find(|&i| got.get(i) != expected.get(i)) {
        let shown = |r: Option<&&Row>| r.map_or("no row".into(), |r| format!("{:?} {}", &r[..3], text(r)));
        panic!("read {}, not {}", shown(got.get(i)), shown(expected.get(i)));
    }
}

/// Every way to read shows exactly these rows.
pub(super) fn shows(s: &Snapshot, state: &State, random: &mut Random) {
    for (t, rows) in state.0.iter().enumerate() {
        let got: Vec<Row> = match random.once_in(3) {
            true => read(s, NAMES[t]),
            false => scan(s, NAMES[t]).into_iter().map(|(_, r)| r).collect(),
        };
        same_rows(got.iter(), rows.values());
        let table = s.table(NAMES[t]).unwrap();
        assert_eq!(s.rows(&table).unwrap(), rows.len() as u64, "rows are counted");
        // By the index.
        let (c, v) = (2 - t, random.below(40) as i64);
        let filter = Expr::compare(
            CompareOp::Eq,
            Expr::Column(c as u16),
            Expr::Const(Value::Int(v), DataType::BigInt),
        );
        // An old snapshot does without the index of a table that was rewritten.
        let found = s.index_pages(&table, &filter, u64::MAX).unwrap();
        let pages = found.map_or_else(|| s.page_ranges(&table), |f| f.pages);
        let program = Program::check(table.schema().clone(), Some(filter), vec![0, 1, 2, 3], false).unwrap();
        let mut scan = s.scan(&table, pages, Arc::new(program), Answer::Rows, None).unwrap();
        let mut found: Vec<Row> = Vec::new();
        while let Some(unit) = scan.next().unwrap() {
            for p in unit.pages {
                found.extend((0..p.rows as usize).map(|r| p.columns.iter().map(|c| c.value(r)).collect()));
            }
        }
        same_rows(found.iter(), rows.values().filter(|r| r[c] == Value::Int(v)));
    }
}
