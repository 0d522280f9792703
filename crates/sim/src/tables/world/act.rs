//! Executes each step and checks its answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::VirtualTime;
use lode_command::{Budget, Device, Progress};
use lode_engine::EngineError;

use super::{Done, Held, OpenTxn, World, look};
use crate::machine::durability;
use crate::random::{Random, nth};
use crate::tables::model::TableState;
use crate::tables::rows::{self, CHILD, Columns, PARENT};
use crate::tables::scenario::HELD;
use crate::tables::step::{TablesStep as Step, TablesWork, What};

impl World<'_> {
    pub(super) fn act(&mut self, step: &Step) -> Done {
        match step {
            Step::Statement { slot, work } => {
                if self.open[*slot].is_none() {
                    self.open[*slot] = self.begin()?;
                }
                self.in_slot(*slot, |w, open| w.statement(open, work))
            }
            Step::Read { slot, seed } => self.in_slot(*slot, |w, open| {
                let current = open.txn.current();
                let compared = current
                    .map_err(Into::into)
                    .and_then(|c| look::compare(&c, &open.work.seen, &mut Random::of_seed(*seed)));
                w.compared("a read in a transaction", open.began, compared)
            }),
            Step::Savepoint { slot } => self.in_slot(*slot, |w, open| match open.txn.savepoint() {
                Ok(saved) => {
                    open.savepoints.push((saved, open.work.clone()));
                    Ok(true)
                }
                Err(e) => w.machine.excused_read("a savepoint", open.began, &e).map(|()| false),
            }),
            Step::RollbackTo { slot, which } => self.in_slot(*slot, |w, open| {
                if let Some(at) = which.checked_rem(open.savepoints.len() as u64) {
                    open.savepoints.truncate(at as usize + 1);
                    let (saved, work) = open.savepoints.last().expect("it was not cut off");
                    open.txn.rollback_to(saved);
                    open.work = work.clone();
                    w.machine.met("savepoints gone back to");
                }
                Ok(true)
            }),
            Step::Commit { slot } => match self.open[*slot].take() {
                Some(open) => self.commit(open, None),
                None => Ok(()),
            },
            Step::Rollback { slot } => {
                if let Some(open) = self.open[*slot].take() {
                    self.abandon(open);
                }
                Ok(())
            }
            Step::Whole { works } => self.whole(works),
            Step::Churn { seed, times } => self.churn(*seed, *times),
            Step::Merge { table } => self.merge(*table),
            Step::Hold => self.hold(),
            Step::Look { which, seed } => match which.checked_rem(self.held.len() as u64) {
                Some(at) => self.look(at as usize, *seed),
                None => Ok(()),
            },
            Step::LetGo { which } => {
                if let Some(at) = which.checked_rem(self.held.len() as u64) {
                    self.held.swap_remove(at as usize);
                    self.machine.crowd.leave();
                }
                Ok(())
            }
            Step::Sync => {
                if self.machine.sync()? {
                    self.model.is_durable();
                }
                Ok(())
            }
            Step::Flush => {
                if self.machine.flush()? {
                    self.model.is_durable();
                }
                Ok(())
            }
            Step::Work { times, bytes, drive } => {
                self.work(*times, *bytes, *drive);
                Ok(())
            }
            Step::ClearPool => {
                self.database().clear_pool();
                Ok(())
            }
            Step::SetDurability { mode } => {
                self.durability = durability(*mode);
                Ok(())
            }
            Step::CreateTable { table, seed, rows } => self.create_table(*table, *seed, *rows),
            Step::DropTable { table } => self.drop_table(*table),
            Step::Index { table, column } => self.index(*table, *column),
            Step::Check => {
                self.compare_all()?;
                self.machine.checks_itself()
            }
            Step::Close { cut } => self.close(cut),
            Step::Crash(cut) => self.reopen(cut),
            Step::CutAfter { operations, cut } => {
                self.machine.cut_after(*operations, cut);
                Ok(())
            }
            Step::Arm { kind, after, seed } => {
                self.machine.faults.arm(*kind, *after, *seed);
                Ok(())
            }
            Step::Disarm => {
                self.machine.faults.disarm_all();
                Ok(())
            }
        }
    }

    /// Runs `act` with the transaction of a slot. A transaction that cannot continue is dropped.
    fn in_slot(&mut self, slot: usize, act: impl FnOnce(&mut Self, &mut OpenTxn) -> Done<bool>) -> Done {
        let Some(mut open) = self.open[slot].take() else { return Ok(()) };
        match act(self, &mut open)? {
            true => self.open[slot] = Some(open),
            false => self.abandon(open),
        }
        Ok(())
    }

    fn whole(&mut self, works: &[TablesWork]) -> Done {
        let Some(mut open) = self.begin()? else { return Ok(()) };
        for work in works {
            if !self.statement(&mut open, work)? {
                self.abandon(open);
                return Ok(());
            }
        }
        let loads = works.iter().any(|w| w.what == What::Load);
        self.commit(open, loads.then_some("power cuts within a load"))
    }

    fn churn(&mut self, seed: u64, times: u32) -> Done {
        for i in 0..u64::from(times) {
            let what = if i % 4 == 3 { What::Insert } else { What::Update };
            self.whole(&[TablesWork { seed: nth(seed, i), what, rows: 1 + (i % 3) as u32 }])?;
            for table in [PARENT, CHILD] {
                self.merge(table)?;
            }
            if self.machine.is_cut() || self.machine.halted {
                break;
            }
        }
        Ok(())
    }

    fn merge(&mut self, table: usize) -> Done {
        if self.machine.is_cut() {
            return Ok(());
        }
        let began = self.machine.crowd.enter();
        let merged = self.database().merge(rows::name(table));
        let done = match merged {
            _ if self.machine.is_cut() => {
                self.machine.met("power cuts within a merge");
                Ok(())
            }
            Ok(()) => {
                self.merges += 1;
                self.machine.met("merges");
                Ok(())
            }
            Err(EngineError::SnapshotTooOld) => {
                self.machine.excused_read("a merge", began, &EngineError::SnapshotTooOld)
            }
            Err(e) => self.machine.excused("a merge", &e).map(drop),
        };
        self.machine.crowd.leave();
        done
    }

    fn hold(&mut self) -> Done {
        if self.held.len() >= HELD {
            return Ok(());
        }
        let began = self.machine.crowd.enter();
        match self.database().snapshot() {
            Ok(snapshot) => {
                let (state, merges) = (self.model.newest().clone(), self.merges);
                self.held.push(Held { snapshot, state, began, merges });
                Ok(())
            }
            Err(e) => {
                let done = self.machine.excused_read("a snapshot", began, &e);
                self.machine.crowd.leave();
                done
            }
        }
    }

    fn work(&mut self, times: u32, bytes: u64, drive: bool) {
        for _ in 0..times {
            match drive {
                true => {
                    let progress = self.machine.drive.work(VirtualTime::ZERO, Budget { write_bytes: bytes });
                    if progress == Progress::Idle {
                        break;
                    }
                }
                // Deltas are at rest after several calls.
                false => drop(self.database().work(bytes)),
            }
            if self.machine.is_cut() {
                self.machine.met("power cuts within background work");
                break;
            }
        }
    }

    fn create_table(&mut self, table: usize, seed: u64, count: u32) -> Done {
        let newest = self.model.newest().clone();
        if newest.0.contains_key(&table) || table == CHILD && !newest.0.contains_key(&PARENT) {
            return Ok(());
        }
        self.clock += 1;
        let mut after = (*newest).clone();
        let serial = self.clock as u32;
        let columns = Columns::created(table);
        after.0.insert(table, TableState { serial, indexes: BTreeSet::new(), columns, rows: Arc::default() });
        let new = self.new_rows(&newest, table, count, true, &mut Random::of_seed(seed));
        after.rows_mut(table).extend(new.iter().cloned());
        if after.broken().is_some() {
            after.rows_mut(table).clear();
        }
        let filled = !after.0[&table].rows.is_empty();
        let made = self.database().begin_write().and_then(|mut txn| {
            txn.create_table(rows::definition(table), false)?;
            if filled {
                txn.load(rows::name(table), Columns::created(table).of_rows(new.iter().map(|(_, row)| row)))?;
            }
            txn.commit().map(drop)
        });
        if self.defined("the creation of a table", made, after)? {
            self.machine.met("tables created");
        }
        Ok(())
    }

    fn drop_table(&mut self, table: usize) -> Done {
        let newest = self.model.newest().clone();
        if !newest.0.contains_key(&table) || table == PARENT && newest.0.contains_key(&CHILD) {
            return Ok(());
        }
        let mut after = (*newest).clone();
        after.0.remove(&table);
        let dropped = self.database().drop_table(rows::name(table), false).map(drop);
        if self.defined("the drop of a table", dropped, after)? {
            self.machine.met("tables dropped");
        }
        Ok(())
    }

    fn index(&mut self, table: usize, column: u16) -> Done {
        let newest = self.model.newest().clone();
        let Some(t) = newest.0.get(&table) else { return Ok(()) };
        let mut after = (*newest).clone();
        let indexes = &mut after.0.get_mut(&table).expect("it is there").indexes;
        let def = rows::index(table, column);
        if t.indexes.contains(&column) {
            indexes.remove(&column);
            let dropped = self.database().drop_index(&def.name, false).map(drop);
            let done = self.defined("the drop of an index", dropped, after)?;
            self.machine.met_times("indexes dropped", done.into());
        } else {
            indexes.insert(column);
            let created = self.database().create_index(def, false).map(drop);
            let done = self.defined("the creation of an index", created, after)?;
            self.machine.met_times("indexes created", done.into());
        }
        Ok(())
    }
}
