//! Statements of transactions.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use lode_engine::{EngineError, RowAddress};
use lode_page::Value;

use super::{Done, OpenTxn, Read, World, look};
use crate::failure::{FailureKind, Wrong};
use crate::random::{Random, mix};
use crate::tables::model::{RowNo, State, Work};
use crate::tables::rows::{self, CHILD, CREATED, Columns, PARENT, Row, int};
use crate::tables::step::{TablesWork, What};

/// Values of the column `d` are below this number.
const VALUES: u64 = 40;

impl World<'_> {
    /// Begins a transaction. `None` if that failed.
    pub(super) fn begin(&mut self) -> Done<Option<OpenTxn>> {
        let began = self.machine.crowd.enter();
        let mut txn = match self.database().begin_write() {
            Ok(txn) => txn,
            Err(e) => {
                self.machine.excused_read("a beginning", began, &e)?;
                self.machine.crowd.leave();
                return Ok(None);
            }
        };
        txn.set_durability(self.durability);
        let (durability, work) = (self.durability, Work::new(self.model.newest().clone()));
        Ok(Some(OpenTxn { txn, durability, work, savepoints: Vec::new(), began }))
    }

    /// Drops a transaction.
    pub(super) fn abandon(&mut self, open: OpenTxn) {
        drop(open);
        self.machine.crowd.leave();
    }

    /// Runs a statement. Returns false if the transaction cannot continue.
    pub(super) fn statement(&mut self, open: &mut OpenTxn, work: &TablesWork) -> Done<bool> {
        let mut r = Random::of_seed(work.seed);
        let tables: Vec<usize> = open.work.seen.0.keys().copied().collect();
        let first = r.skewed(0, tables.len().saturating_sub(1) as u64) as usize;
        let Some(&table) = tables.get(first) else { return Ok(true) };
        let done = match work.what {
            What::Insert | What::Load => self.insert(open, table, work, &mut r),
            What::Alter => self.alter(open, table, &mut r),
            _ => self.change(open, table, work, &mut r),
        };
        match done {
            Ok(()) => Ok(!self.machine.is_cut()),
            Err(Read::Wrong(_)) if self.machine.is_cut() => Ok(false),
            Err(Read::Wrong(w)) => Err(w),
            Err(Read::Failed(e)) => self.machine.excused_read("a statement", open.began, &e).map(|()| false),
        }
    }

    fn insert(
        &mut self,
        open: &mut OpenTxn,
        table: usize,
        work: &TablesWork,
        r: &mut Random,
    ) -> Result<(), Read> {
        let loads = work.what == What::Load;
        let rows = self.new_rows(&open.work.seen, table, work.rows, loads, r);
        if rows.is_empty() {
            return Ok(());
        }
        let columns = open.work.seen.0[&table].columns.of_rows(rows.iter().map(|(_, row)| row));
        match loads {
            true => open.txn.load(rows::name(table), columns)?,
            false => open.txn.insert(rows::name(table), columns)?,
        };
        open.work.tables.insert(table);
        open.work.seen.rows_mut(table).extend(rows);
        Ok(())
    }

    /// Alters a table: refused if, and only if, a column should be NOT NULL and has a NULL.
    fn alter(&mut self, open: &mut OpenTxn, table: usize, r: &mut Random) -> Result<(), Read> {
        self.clock += 1;
        let state = &open.work.seen.0[&table];
        let mut columns = state.columns.clone();
        columns.alter(table, self.clock, r);
        if columns == state.columns {
            return Ok(());
        }
        let mut all = (*state.rows).clone();
        for row in all.values_mut() {
            let constants = columns.added.iter().skip(row.len() - CREATED).map(|(_, v)| v.clone());
            let extended: Vec<Value> = row.iter().cloned().chain(constants).collect();
            *row = Arc::new(extended);
        }
        let now_not_null = columns.not_null.difference(&state.columns.not_null);
        let has_null = |c: &usize| all.values().any(|row| row[*c].is_null());
        let is_refused = now_not_null.into_iter().any(has_null);
        let name = rows::name(table);
        let def = open.txn.table(name).ok_or(EngineError::NoSuchTable(name.into()))?.def().clone();
        match open.txn.alter_table(name, columns.definition(def)) {
            Err(EngineError::ContainsNulls { .. }) if is_refused => {
                self.machine.met("alterations refused for a NULL");
                return Ok(());
            }
            Ok(()) if is_refused => {
                let what = format!("{name} has a NULL in a column that became NOT NULL");
                return Err(Read::Wrong(Wrong { kind: FailureKind::Answer, what }));
            }
            done => done?,
        }
        let state = open.work.seen.0.get_mut(&table).expect("it is there");
        (state.columns, state.rows) = (columns, Arc::new(all));
        open.work.tables.insert(table);
        open.work.altered.insert(table);
        Ok(())
    }

    /// New rows, with their numbers. Keys of some loads ascend.
    pub(super) fn new_rows(
        &mut self,
        seen: &State,
        table: usize,
        count: u32,
        loads: bool,
        r: &mut Random,
    ) -> Vec<(RowNo, Row)> {
        let ascends = loads && !r.once_in(3);
        let first = i64::from(self.scenario.keys) + self.clock as i64 * 10;
        let mut of = |w: &mut Self, i: i64| {
            let k = (ascends).then_some(first + i);
            let row = w.new_row(seen, table, k, r);
            w.clock += 1;
            (w.clock, row)
        };
        let mut rows: Vec<(RowNo, Row)> = (0..i64::from(count)).map(|i| of(self, i)).collect();
        if !ascends {
            // A statement that repeats a key would break its constraint most of the time.
            let mut keys = BTreeSet::new();
            let all = seen.0.get(&table).into_iter().flat_map(|t| t.rows.values());
            let mut taken: BTreeSet<i64> = all.filter_map(|row| int(&row[0])).collect();
            if r.once_in(6) || rows::keys(table).is_empty() {
                taken.clear();
            }
            rows.retain(|(_, row)| int(&row[0]).is_none_or(|k| !taken.contains(&k) && keys.insert(k)));
        }
        rows
    }

    /// A row with these or other values, and a text of its own.
    fn new_row(&mut self, seen: &State, table: usize, k: Option<i64>, r: &mut Random) -> Row {
        self.clock += 1;
        let version = self.clock;
        let k = k.unwrap_or_else(|| r.below(self.scenario.keys.into()) as i64);
        let columns = seen.0.get(&table).map_or_else(|| Columns::created(table), |t| t.columns.clone());
        let of_column = match table {
            _ if r.once_in(6) && !columns.not_null.contains(&1) => Value::Null,
            // A value that no other row has, as a rule.
            PARENT if r.once_in(10) => Value::Int(r.below(1000) as i64),
            PARENT => Value::Int(1000 + version as i64),
            CHILD => {
                let parents: Vec<&Row> =
                    seen.0.get(&PARENT).iter().flat_map(|t| t.rows.values().take(50)).collect();
                match r.pick(&parents) {
                    Some(parent) if !r.once_in(20) => parent[0].clone(),
                    Some(_) => Value::Int(r.below(self.scenario.keys.into()) as i64),
                    None => Value::Null,
                }
            }
            _ => Value::Int(r.below(100) as i64),
        };
        let bytes = r.skewed(1, self.scenario.text_bytes.into()) as usize;
        let mut text = format!("version-{version} ");
        let mut at = version;
        while text.len() < bytes {
            at = mix(at.wrapping_add(1));
            text.push_str(&format!("{at:x}"));
        }
        let row = vec![Value::Int(k), of_column, Value::Int(r.below(VALUES) as i64), Value::text(&text)];
        columns.completed(row, r)
    }

    fn change(
        &mut self,
        open: &mut OpenTxn,
        table: usize,
        work: &TablesWork,
        r: &mut Random,
    ) -> Result<(), Read> {
        let all: Vec<RowNo> = open.work.seen.0[&table].rows.keys().copied().collect();
        let range = (work.what == What::Delete && r.once_in(3)).then(|| {
            let keys = i64::from(self.scenario.keys);
            let low = if r.once_in(2) { 0 } else { r.below(keys as u64) as i64 };
            let end = if r.once_in(2) { keys } else { low + 1 + r.below(keys as u64) as i64 };
            low..end.max(low + 1)
        });
        let chosen: BTreeSet<RowNo> = match &range {
            Some(range) => {
                let key = |id: &RowNo| int(&open.work.seen.0[&table].rows[id][0]);
                all.iter().copied().filter(|id| key(id).is_some_and(|k| range.contains(&k))).collect()
            }
            None => (0..work.rows).filter_map(|_| r.pick(&all).copied()).collect(),
        };
        if chosen.is_empty() {
            return Ok(());
        }
        let name = rows::name(table);
        let addresses = self.addresses(open, table, &chosen)?;
        if work.what == What::Delete {
            let unread = match &range {
                Some(range) => self.delete_unread(open, table, range)?,
                None => 0,
            };
            let deleted = unread + open.txn.delete(name, &addresses)?;
            if deleted != chosen.len() as u64 {
                let what =
                    format!("{deleted} of {} rows of \"{name}\" are deleted, {unread} unread", chosen.len());
                return Err(Read::Wrong(Wrong { kind: FailureKind::Answer, what }));
            }
            open.work.touch(table, chosen.iter().copied());
            let rows = open.work.seen.rows_mut(table);
            chosen.iter().for_each(|id| drop(rows.remove(id)));
        } else {
            let changed: Vec<(RowNo, Row)> = chosen
                .iter()
                .map(|id| {
                    let old = open.work.seen.0[&table].rows[id].clone();
                    let mut row = (*self.new_row(&open.work.seen, table, None, r)).clone();
                    let keeps = work.what == What::Update;
                    let kept = if keeps || r.once_in(2) { 0..1 } else { 1..2 };
                    kept.for_each(|c| row[c] = old[c].clone());
                    if keeps && table != CHILD {
                        row[1] = old[1].clone();
                    }
                    (*id, Arc::new(row))
                })
                .collect();
            let defined = &open.work.seen.0[&table].columns;
            let columns = defined.of_rows(changed.iter().map(|(_, row)| row));
            open.txn.update(name, &addresses, &defined.numbers(), columns)?;
            open.work.touch(table, chosen.iter().copied());
            open.work.seen.rows_mut(table).extend(changed);
        }
        open.work.tables.insert(table);
        Ok(())
    }

    /// Deletes rows whose first column is in a range, as far as no page has to be read for it.
    fn delete_unread(
        &mut self,
        open: &mut OpenTxn,
        table: usize,
        range: &Range<i64>,
    ) -> Result<u64, EngineError> {
        let current = open.txn.current()?;
        let name = rows::name(table);
        let t = current.table(name).ok_or(EngineError::NoSuchTable(name.into()))?;
        let program = Arc::new(rows::in_range(&t, range)?);
        Ok(open.txn.delete_unread(name, current.page_ranges(&t), &program)?.rows)
    }

    /// The addresses of rows, as the transaction sees them. Compares all that it reads.
    fn addresses(
        &mut self,
        open: &mut OpenTxn,
        table: usize,
        chosen: &BTreeSet<RowNo>,
    ) -> Result<Vec<RowAddress>, Read> {
        let current = open.txn.current()?;
        let t = current.table(rows::name(table)).ok_or(EngineError::NoSuchTable(rows::name(table).into()))?;
        let found = rows::scan(&current, &t)?;
        let seen = &open.work.seen.0[&table].rows;
        look::same_rows(rows::name(table), found.iter().map(|f| f.1.clone()).collect(), seen.values())?;
        let at = |id: &RowNo| {
            let text = rows::text(&seen[id]);
            found.iter().find(|(_, row)| rows::text(row) == text).expect("the rows are the same").0
        };
        Ok(chosen.iter().map(at).collect())
    }
}
