//! What transactions do: statements at random, pairs that conflict, and commits within a merge.

use std::collections::BTreeSet;

use lode_engine::EngineError;
use lode_page::Value;

use super::model::*;
use super::within::{Armed, Within};
use super::world::World;
use crate::support::*;

impl World {
    /// Some rows of a table, as a transaction sees them.
    pub(super) fn some(&mut self, open: &Open, t: usize, most: u64) -> Vec<u64> {
        let all: Vec<u64> = open.seen.0[t].keys().copied().collect();
        let count = self.random.between(1, most);
        let chosen: BTreeSet<u64> = (0..count).filter_map(|_| self.random.pick(&all).copied()).collect();
        chosen.into_iter().collect()
    }

    /// Rows with other values: `d`, and with `rekeys` a key.
    pub(super) fn changed(&mut self, open: &Open, t: usize, ids: &[u64], rekeys: bool) -> Vec<(u64, Row)> {
        let change = |id: &u64| {
            let mut row = self.random_row(t);
            let old = &open.seen.0[t][id];
            let kept = if !rekeys {
                0..2
            } else if self.random.once_in(2) {
                0..1
            } else {
                1..2
            };
            kept.for_each(|c| row[c] = old[c].clone());
            (*id, row)
        };
        ids.iter().map(change).collect()
    }

    /// A statement of an open transaction. In some seeds its end checks keys.
    pub(super) fn statement(&mut self, open: &mut Open) {
        if !self.kind.ends {
            return self.change(open);
        }
        let before = open.save();
        match self.random.once_in(6) {
            true => self.put_in_twice(open),
            false => self.change(open),
        }
        self.end_statement(open, &before);
    }

    fn end_statement(&mut self, open: &mut Open, before: &Saved) {
        let is_twice = open.end_statement(before, &self.committed, self.kind.deferred);
        self.met.twice += u32::from(is_twice);
    }

    /// Inserts a row with a key of one that the transaction sees, mostly of one that it inserted itself.
    fn put_in_twice(&mut self, open: &mut Open) {
        let t = self.random.below(2) as usize;
        let own: Vec<u64> =
            open.seen.0[t].keys().filter(|id| !open.at_begin.0[t].contains_key(id)).copied().collect();
        let own = if self.random.once_in(3) { None } else { self.random.pick(&own).copied() };
        let Some(id) = own.or_else(|| self.some(open, t, 1).first().copied()) else { return };
        let mut row = self.random_row(t);
        let c = if t == PARENT && self.random.once_in(2) { 1 } else { 0 };
        row[c] = open.seen.0[t][&id][c].clone();
        let rows = self.numbered(vec![row]);
        open.insert(t, &rows, false);
    }

    fn change(&mut self, open: &mut Open) {
        let t = self.random.below(2) as usize;
        match self.random.below(22) {
            0..5 => {
                let count = self.random.between(1, 3);
                let rows: Vec<Row> = (0..count).map(|_| self.random_row(t)).collect();
                let rows = self.numbered(rows);
                open.insert(t, &rows, false);
            }
            5..10 => {
                let ids = self.some(open, t, 6);
                let rows = self.changed(open, t, &ids, false);
                open.update(t, &rows);
            }
            10..12 => {
                let ids = self.some(open, t, 1);
                let rows = self.changed(open, t, &ids, true);
                open.update(t, &rows);
            }
            12..15 => {
                let ids = self.some(open, t, if t == PARENT { 1 } else { 6 });
                open.delete(t, &ids);
            }
            15 => {
                // Many rows: pages are made of them at once.
                let ids = self.some(open, t, 60);
                match t {
                    CHILD => open.delete(t, &ids),
                    _ => {
                        let rekeys = self.kind.ends && self.random.once_in(2);
                        let rows = self.changed(open, t, &ids, rekeys);
                        open.update(t, &rows);
                    }
                }
            }
            16 => self.load_some(open, t),
            19 if self.kind.ends => {
                let ids = self.some(open, t, 60);
                let rows = self.changed(open, t, &ids, true);
                open.update(t, &rows);
            }
            17..19 => {
                open.savepoint = Some(open.save());
                self.statement(open);
                if self.random.once_in(2) {
                    open.roll_back();
                }
            }
            _ => open.roll_back(),
        }
    }

    /// Loads a few rows, whose keys ascend, or do not.
    pub(super) fn load_some(&mut self, open: &mut Open, t: usize) {
        let first = 1000 + self.next as i64 * 10;
        let count = self.random.between(5, 40) as i64;
        let mut rows: Vec<Row> = (first..first + count)
            .map(|k| {
                let r =
                    if t == PARENT { Value::Int(k) } else { Value::Int(self.random.below(60) as i64 * 2) };
                self.row(k, r)
            })
            .collect();
        if self.random.once_in(2) {
            rows.reverse();
        }
        let rows = self.numbered(rows);
        open.insert(t, &rows, true);
    }

    /// So many commits of a dozen rows that the claims of all before are forgotten.
    pub(super) fn pass_time(&mut self) {
        for _ in 0..18 {
            let mut open = self.begin();
            let ids = self.some(&open, CHILD, 14);
            let rows = self.changed(&open, CHILD, &ids, false);
            open.update(CHILD, &rows);
            self.commit(open);
        }
    }

    /// Two transactions that cannot both commit.
    pub(super) fn race(&mut self) {
        let (mut a, mut b) = (self.begin(), self.begin());
        let before = [a.save(), b.save()];
        let t = self.random.below(2) as usize;
        match self.random.below(6) {
            0 => {
                let ids = self.some(&a, t, 3);
                let (of_a, of_b) = (self.changed(&a, t, &ids, false), self.changed(&b, t, &ids, false));
                a.update(t, &of_a);
                b.update(t, &of_b);
            }
            1 => {
                let ids = self.some(&a, CHILD, 3);
                let of_a = self.changed(&a, CHILD, &ids, false);
                a.update(CHILD, &of_a);
                b.delete(CHILD, &ids);
            }
            2 => {
                // One key, at random by a load.
                let k = 700 + self.next as i64;
                for open in [&mut a, &mut b] {
                    let r = if t == PARENT { Value::Null } else { Value::Int(2) };
                    let row = self.row(k, r);
                    let rows = self.numbered(vec![row]);
                    let load = self.random.once_in(2);
                    open.insert(t, &rows, load);
                }
            }
            3 => {
                // One value of the unique column.
                let value = Value::Int(1400 + self.next as i64);
                for open in [&mut a, &mut b] {
                    let k = 700 + self.next as i64;
                    let row = self.row(k, value.clone());
                    let rows = self.numbered(vec![row]);
                    open.insert(PARENT, &rows, false);
                }
            }
            _ => {
                // A child, at random by a load, of a parent that goes.
                let used: BTreeSet<i64> =
                    self.committed.0[CHILD].values().filter_map(|r| int(&r[1])).collect();
                let free = |r: &Row| int(&r[0]).is_some_and(|k| !used.contains(&k));
                let free: Vec<(u64, i64)> = self.committed.0[PARENT]
                    .iter()
                    .filter(|(_, r)| free(r))
                    .map(|(&id, r)| (id, int(&r[0]).expect("the key is not NULL")))
                    .collect();
                let Some(&(parent, k)) = self.random.pick(&free) else { return };
                let of_child = 700 + self.next as i64;
                let row = self.row(of_child, Value::Int(k));
                let rows = self.numbered(vec![row]);
                let load = self.random.once_in(2);
                a.insert(CHILD, &rows, load);
                b.delete(PARENT, &[parent]);
            }
        }
        if self.kind.ends {
            self.end_statement(&mut a, &before[0]);
            self.end_statement(&mut b, &before[1]);
        }
        if self.random.once_in(2) {
            std::mem::swap(&mut a, &mut b);
        }
        let (early, late) = (self.random.once_in(6), self.random.once_in(6));
        if early {
            self.pass_time();
        }
        self.commit(a);
        if late {
            self.pass_time();
        }
        self.commit(b);
    }

    /// A merge, within which others commit or merge. Of the batches after these, all fail until the merge has ended.
    pub(super) fn merge_with(&mut self, t: usize, fail_after: Option<u32>) {
        self.db.clear_pool();
        let current = self.db.snapshot().unwrap();
        let table = current.table(NAMES[t]).unwrap();
        let extents = current.page_ranges(&table).into_iter().map(|r| r.extent).collect();
        let reads = self.random.below(6);
        let mut expected = None;
        let within = match self.random.once_in(6) {
            true => Within::Merge(self.db.clone(), t),
            false => {
                let mut open = self.begin();
                match self.random.once_in(3) {
                    true => self.load_some(&mut open, t),
                    // The rows of the delta are those that the merge takes.
                    false => {
                        let recent: BTreeSet<u64> = (self.some(&open, t, 40)).into_iter().collect();
                        let newest = open.seen.0[t].iter().rev().take(8).map(|(&id, _)| id);
                        let ids: Vec<u64> = recent.into_iter().take(8).chain(newest).collect();
                        let ids: Vec<u64> = ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
                        let rows = self.changed(&open, t, &ids, false);
                        open.update(t, &rows);
                    }
                }
                expected = Some(open.expected(&self.committed));
                // Its own reads filled the pool.
                Within::Commit(Box::new(open.txn))
            }
        };
        self.db.clear_pool();
        *self.hook.armed.lock().unwrap() = Some(Armed { extents, reads, within });
        self.inner.fail_after(fail_after);
        let merged = self.db.merge(NAMES[t]);
        let is_cut = |e: &EngineError| fail_after.is_some() && matches!(e, EngineError::OutOfSpace { .. });
        assert!(merged.as_ref().is_ok() || merged.as_ref().is_err_and(is_cut), "{merged:?}");
        let left = self.hook.armed.lock().unwrap().take();
        match left {
            None => self.met.within += 1,
            Some(left) => self.hook.run(left.within),
        }
        self.inner.fail_after(None);
        if let Some(expected) = expected {
            let got = self.hook.ended.lock().unwrap().take().expect("it has committed");
            if !got.as_ref().is_err_and(is_cut) {
                self.ended(got, expected);
            }
        }
    }
}
