//! The model: the rows of all tables after every commit, and the commits that a crash may lose.
//!
//! ```text
//!   states   0 1 2 3 | 4 5?      durable up to 3: a crash leaves state 3 or 4, or 5 with the commit under way
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::rows::{CHILD, Columns, PARENT, Row, int, keys, name, shown};

/// The number of a row, which it keeps.
pub(super) type RowNo = u64;
/// Rows, each with the number of its table.
pub(super) type Touched = BTreeSet<(usize, RowNo)>;

/// A table.
#[derive(Clone, PartialEq)]
pub(super) struct TableState {
    /// Successive tables with the same name have different numbers.
    pub(super) serial: u32,
    /// The columns that have an index.
    pub(super) indexes: BTreeSet<u16>,
    pub(super) columns: Columns,
    pub(super) rows: Arc<BTreeMap<RowNo, Row>>,
}

/// All tables, by their numbers.
#[derive(Clone, Default, PartialEq)]
pub(super) struct State(pub(super) BTreeMap<usize, TableState>);

impl State {
    pub(super) fn rows_mut(&mut self, table: usize) -> &mut BTreeMap<RowNo, Row> {
        Arc::make_mut(&mut self.0.get_mut(&table).expect("the table is there").rows)
    }

    fn row(&self, table: usize, id: RowNo) -> Option<&Row> {
        self.0.get(&table)?.rows.get(&id)
    }

    /// Names a key that two rows have, or a child without a parent.
    pub(super) fn broken(&self) -> Option<String> {
        for (&table, t) in &self.0 {
            for &c in keys(table) {
                let mut seen = BTreeSet::new();
                let mut values = t.rows.values().filter_map(|r| int(&r[usize::from(c)]));
                if let Some(twice) = values.find(|v| !seen.insert(*v)) {
                    return Some(format!("two rows of {} with key {c} = {twice}", name(table)));
                }
            }
        }
        let rows_of = |table: usize| self.0.get(&table).into_iter().flat_map(|t| t.rows.values());
        let parents: BTreeSet<i64> = rows_of(PARENT).filter_map(|r| int(&r[0])).collect();
        let orphan = rows_of(CHILD).find(|r| int(&r[1]).is_some_and(|p| !parents.contains(&p)));
        orphan.map(|r| format!("a child without a parent: {}", shown(Some(r))))
    }
}

/// What a transaction saw at its begin, sees now, and changed.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) at_begin: Arc<State>,
    pub(super) seen: State,
    /// Rows of the begin that it changed.
    pub(super) touched: Touched,
    /// Tables with statements.
    pub(super) tables: BTreeSet<usize>,
    /// Tables that it altered.
    pub(super) altered: BTreeSet<usize>,
}

/// How a commit must end.
pub(super) enum Expected {
    Done(State),
    /// It may conflict: an altered table counts as changed by others if they merged its rows, or looked at them for a constraint.
    DoneOrConflict(State),
    Conflict,
    Broken(String),
}

impl Work {
    pub(super) fn new(at_begin: Arc<State>) -> Self {
        let seen = (*at_begin).clone();
        let (touched, tables, altered) = Default::default();
        Self { at_begin, seen, touched, tables, altered }
    }

    /// Records that rows were changed.
    pub(super) fn touch(&mut self, table: usize, ids: impl Iterator<Item = RowNo>) {
        let at_begin = self.at_begin.clone();
        self.touched.extend(ids.filter(|id| at_begin.row(table, *id).is_some()).map(|id| (table, id)));
    }

    /// Whether all rows are as they were at the begin.
    pub(super) fn changes_nothing(&self) -> bool {
        self.touched.is_empty() && self.seen == *self.at_begin
    }

    /// Whether the definition of a table that it changed is another one now.
    pub(super) fn is_overtaken(&self, committed: &State) -> bool {
        let defined =
            |s: &State, t: usize| s.0.get(&t).map(|t| (t.serial, t.indexes.clone(), t.columns.clone()));
        self.tables.iter().any(|&t| defined(committed, t) != defined(&self.at_begin, t))
            || self.altered.iter().any(|t| committed.0.get(t) != self.at_begin.0.get(t))
    }

    pub(super) fn expected(&self, committed: &State) -> Expected {
        if self.is_overtaken(committed)
            || self.touched.iter().any(|&(t, id)| committed.row(t, id) != self.at_begin.row(t, id))
        {
            return Expected::Conflict;
        }
        let mut after = committed.clone();
        for &(t, id) in self.touched.iter().filter(|(t, _)| !self.altered.contains(t)) {
            after.rows_mut(t).remove(&id);
        }
        for t in &self.altered {
            after.0.insert(*t, self.seen.0[t].clone());
        }
        for &t in self.tables.iter().filter(|t| !self.altered.contains(t)) {
            let mine = |id: &RowNo| self.touched.contains(&(t, *id)) || self.at_begin.row(t, *id).is_none();
            let rows = self.seen.0[&t].rows.iter().filter(|(id, _)| mine(id)).map(|(&id, r)| (id, r.clone()));
            after.rows_mut(t).extend(rows);
        }
        match after.broken() {
            None if !self.altered.is_empty() => Expected::DoneOrConflict(after),
            None => Expected::Done(after),
            Some(what) => Expected::Broken(what),
        }
    }
}

/// The states after all commits.
pub(super) struct Model {
    states: Vec<Arc<State>>,
    /// The number of the newest state that no crash may lose.
    durable: usize,
    /// States after commits whose outcome is unknown.
    unknown: Vec<State>,
}

/// What a crash left.
pub(super) struct Left {
    /// Commits that were lost, of those that returned before they were durable.
    pub(super) lost: usize,
    /// Commits that were kept, of those.
    pub(super) kept: usize,
    /// Whether a commit was under way, and whether it took effect.
    pub(super) under_way: Option<bool>,
}

impl Model {
    pub(super) fn new() -> Self {
        Self { states: vec![Arc::default()], durable: 0, unknown: Vec::new() }
    }

    /// The newest state.
    pub(super) fn newest(&self) -> &Arc<State> {
        self.states.last().expect("there is a first state")
    }

    /// Marks all commits so far as durable.
    pub(super) fn is_durable(&mut self) {
        self.durable = self.states.len() - 1;
        self.unknown.clear();
    }

    pub(super) fn commit(&mut self, state: State) {
        self.states.push(Arc::new(state));
        self.unknown.clear();
    }

    /// Records a commit that may have taken effect after the next opening.
    pub(super) fn may_commit(&mut self, state: State) {
        self.unknown.push(state);
    }

    /// Finds the state that a crash left, the newest that `is_this` accepts. Everything after it is forgotten. The error is the
    /// newest state that had to be there.
    pub(super) fn settle(&mut self, is_this: impl Fn(&State) -> bool) -> Result<Left, Arc<State>> {
        let newest = self.states.len() - 1;
        let under_way = !self.unknown.is_empty();
        if let Some(at) = self.unknown.iter().position(&is_this) {
            let state = self.unknown.swap_remove(at);
            self.commit(state);
            let kept = newest - self.durable;
            self.is_durable();
            return Ok(Left { lost: 0, kept, under_way: Some(true) });
        }
        let Some(at) = (self.durable..=newest).rev().find(|&at| is_this(&self.states[at])) else {
            return Err(self.states[self.durable].clone());
        };
        let kept = at - self.durable;
        self.states.truncate(at + 1);
        self.is_durable();
        Ok(Left { lost: newest - at, kept, under_way: under_way.then_some(false) })
    }
}
