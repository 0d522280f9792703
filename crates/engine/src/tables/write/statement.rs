//! The end of a statement: no key that it put in may be there twice, unless the check of the key is deferred. Foreign keys:
//! `references.rs`.
//!
//! ```text
//!   statement ─► insert, load, update ─► Unchecked: its new keys ─► end ─┬─ rows by id ─► each key is looked up
//!                                                                        ├─ a load ─────► the check of the commit, at the snapshot
//!                                                                        ├─ few rows ───► a scan for just these keys
//!                                                                        └─ many rows ──► a scan of all keys
//! ```
//!
//! The commit checks what others may have committed since the transaction's snapshot. A transaction whose statements do not end here is
//! checked at its commit alone. A key that others have freed since the snapshot counts as free.
//!
//! Invariant: what is not in `Unchecked` breaks no key at the transaction's snapshot, unless others have changed the key's row since.

use std::cell::RefCell;
use std::sync::Arc;

use lode_base::TableId;
use lode_page::{Column, Value, ops};
use lode_program::Expr;

use super::WriteTxn;
use super::key_check::{
    Checked, PAGE_LOOKUPS_MAX, check_key, duplicate, looking_for, visit_rows, visit_table,
};
use super::stream::Io;
use super::unchecked::{Unchecked, key_columns};
use crate::tables::delta::OwnRows;
use crate::tables::key::{has_null, numbered};
use crate::tables::planted::{self, Planted};
use crate::tables::table::Table;
use crate::trees::Snapshot;
use crate::{EngineError, Map};

/// As many keys of a table whose changes go to pages are looked up. A scan looks for more.
pub(super) const LOOKUPS_MAX: usize = 4;

impl WriteTxn {
    /// Ends a statement: checks the keys and foreign keys of what changed since the last call, at the transaction's snapshot with its own
    /// changes. Those that are DEFERRABLE INITIALLY DEFERRED wait for the commit.
    ///
    /// # Errors
    /// [`EngineError::DuplicateKey`], [`EngineError::Unique`] or [`EngineError::ForeignKey`], or when the drive fails. Then the transaction can only go back to a
    /// savepoint, or be dropped.
    pub fn end_statement(&mut self) -> Result<(), EngineError> {
        let changed: Vec<TableId> =
            self.changes.iter().filter(|(_, c)| !c.unchecked.is_empty()).map(|(id, _)| *id).collect();
        for id in changed {
            let change = self.changes.get_mut(&id).expect("it was just found");
            let unchecked = std::mem::take(&mut change.unchecked);
            let is_checked = !planted::is(Planted::EndNotChecked);
            if is_checked && !self.working(id).keys_at_statement().is_empty() {
                self.check_unchecked(id, unchecked)?;
            }
        }
        self.end_references()
    }

    fn check_unchecked(&mut self, id: TableId, unchecked: Unchecked) -> Result<(), EngineError> {
        let t = self.working(id);
        let change = self.changes.get_mut(&id).expect("there are changes of it");
        if change.is_load() {
            if change.rows.is_empty() && change.edits.is_empty() && change.held.rows() == 0 {
                change.stream.flush(Io::new(self.trees.committer().storage(), &mut self.fresh).store)?;
                return self.check_load(&t);
            }
            // The rows of a load that wrote no page get ids.
            self.current()?;
        }
        let change = &self.changes[&id];
        // A key without entries is looked for by a scan.
        let most = match (self.lacks_entries(&t), t.finds_keys_by_page()) {
            (true, _) => LOOKUPS_MAX,
            (false, true) => PAGE_LOOKUPS_MAX,
            (false, false) => usize::MAX,
        };
        let is_fast = unchecked.rows <= most;
        if t.has_delta() && change.edits.is_empty() && !change.is_load() && !unchecked.many && is_fast {
            return self.look_up_new(&t, &change.rows, &unchecked);
        }
        let now = self.current()?;
        let t = now.tables().find(|t| t.id() == id).cloned().expect("its rows were changed");
        match unchecked.many {
            false => self.search(&now, &t, unchecked),
            true => self.search_all(&now, &t),
        }
    }

    /// Whether the table was there at the transaction's begin, and has a key of which nothing has entries then.
    fn lacks_entries(&self, t: &Table) -> bool {
        let count = t.keys().count();
        self.base(t.id()).is_some() && (0..count).any(|n| !self.snapshot.has_entries(t, n))
    }

    /// Checks a load, which is all that the transaction did to its table.
    fn check_load(&self, t: &Table) -> Result<(), EngineError> {
        let (change, bytes) = (&self.changes[&t.id()], self.limits.key_check_bytes);
        let check = |at: &Snapshot, base: Option<&Table>| {
            change.check_flushed(at, bytes, base, t, Checked::Immediate)
        };
        let broken = match check(&self.snapshot, self.base(t.id()).as_deref()) {
            Err(e) if e.is_of_constraint() => e,
            checked => return checked,
        };
        // Others may have freed the key since.
        let newest = self.trees.heads().current();
        match self.at(&newest, t) {
            Some(base) => check(&newest, Some(&base)),
            None => Err(broken),
        }
    }

    /// Looks up the keys of rows that have ids. No page of the table was changed.
    fn look_up_new(&self, t: &Table, own: &OwnRows, new: &Unchecked) -> Result<(), EngineError> {
        let of_keys = key_columns(t);
        for KeyOf { n, constraint, key } in t.keys_at_statement() {
            for part in &new.parts {
                let part = numbered(&of_keys, part, key);
                for row in (0..part[0].rows()).filter(|&row| !has_null(&part, row)) {
                    let values: Vec<Value> = part.iter().map(|c| c.value(row)).collect();
                    let own_rows = own.with_key(t.schema(), key, &values)?.len();
                    let own_rows = planted::instead(Planted::OwnTwiceMissed, || own_rows, || own_rows.min(1));
                    let mut others = self.snapshot.rows_of_key(t, n, key, &values)?;
                    others.retain(|id| own.get(*id).is_none() && !planted::is(Planted::MainKeyMissed));
                    if own_rows + others.len() > 1 && (own_rows > 1 || !self.is_freed(t, n, key, &values)?) {
                        return Err(duplicate(t, constraint, &part, row));
                    }
                }
            }
        }
        Ok(())
    }

    /// Searches what the transaction sees, `now`, for two rows with one of the new keys.
    fn search(&self, now: &Snapshot, t: &Arc<Table>, new: Unchecked) -> Result<(), EngineError> {
        let (types, of_keys) = (t.types(), key_columns(t));
        let mut parts = new.parts;
        for (lpid, slots) in &new.edited {
            let page = now.read_columns(*lpid, &of_keys)?;
            let at = |slot: u32| match &page.slots {
                Some(slots) => slots.binary_search(&slot).ok().map(|at| at as u32),
                None => Some(slot),
            };
            let rows: Vec<u32> = slots.iter().filter_map(at).collect();
            parts.push(page.columns.iter().map(|c| ops::take(c, &rows)).collect());
        }
        for KeyOf { n, constraint, key } in t.keys_at_statement() {
            let parts: Vec<Vec<Column>> = parts.iter().map(|part| numbered(&of_keys, part, key)).collect();
            if !t.has_delta() && new.rows <= LOOKUPS_MAX && is_exact(t, key) {
                for part in &parts {
                    for row in (0..part[0].rows()).filter(|&row| !has_null(part, row)) {
                        let values: Vec<Value> = part.iter().map(|c| c.value(row)).collect();
                        let found = now.rows_by_key(t, key, &values, 3)?.len();
                        if found > 1 && (found > 2 || !self.is_freed(t, n, key, &values)?) {
                            return Err(duplicate(t, constraint, part, row));
                        }
                    }
                }
                continue;
            }
            // How many rows have each key, and how many may.
            let mut seen: Map<Vec<u8>, (u32, u32)> = Map::default();
            for part in &parts {
                visit_rows(part, &mut |_, _, key| {
                    seen.entry(key.into()).or_insert((0, 1));
                    Ok(())
                })?;
            }
            if seen.is_empty() {
                continue;
            }
            let terms = key.iter().enumerate();
            let terms = terms.map(|(i, &c)| looking_for(&parts, i, c, types[usize::from(c)]));
            let filter = Expr::And(terms.collect());
            visit_table(now, t, key, Some(filter), None, &mut |columns, row, bytes| {
                let Some((rows, most)) = seen.get_mut(bytes) else { return Ok(()) };
                *rows += 1;
                if *rows == 2 {
                    let values: Vec<Value> = columns.iter().map(|c| c.value(row)).collect();
                    *most += u32::from(self.is_freed(t, n, key, &values)?);
                }
                if *rows > *most { Err(duplicate(t, constraint, columns, row)) } else { Ok(()) }
            })?;
        }
        Ok(())
    }

    /// Searches what the transaction sees, `now`, for two rows with one key. If others have freed the first that it finds, the commit
    /// checks all of them.
    fn search_all(&self, now: &Snapshot, t: &Arc<Table>) -> Result<(), EngineError> {
        for KeyOf { n, constraint, key } in t.keys_at_statement() {
            let first = RefCell::new(Vec::new());
            let twice = |columns: &[Column], row: usize| {
                *first.borrow_mut() = columns.iter().map(|c| c.value(row)).collect();
                duplicate(t, constraint, columns, row)
            };
            match check_key(now, self.limits.key_check_bytes, t, key, twice) {
                Err(e) if e.is_of_constraint() && self.is_freed(t, n, key, &first.borrow())? => {}
                checked => checked?,
            }
        }
        Ok(())
    }

    /// Whether a row had a key at the transaction's snapshot, and others have freed the key since. The commit finds out whether it
    /// stays free.
    fn is_freed(&self, t: &Table, n: usize, key: &[u16], values: &[Value]) -> Result<bool, EngineError> {
        let newest = self.trees.heads().current();
        let (Some(base), Some(table)) = (self.at(&self.snapshot, t), self.at(&newest, t)) else {
            return Ok(false);
        };
        let is_taken = |at: &Snapshot, t: &Arc<Table>| -> Result<bool, EngineError> {
            match t.has_delta() {
                true => Ok(!at.rows_of_key(t, n, key, values)?.is_empty()),
                false => Ok(at.row_by_key(t, key, values)?.is_some()),
            }
        };
        if !t.has_delta() && !is_exact(t, key) {
            return Ok(false);
        }
        Ok(is_taken(&self.snapshot, &base)? && !is_taken(&newest, &table)?)
    }

    /// A table at a state, if it is defined there as the transaction has it.
    pub(super) fn at(&self, state: &Snapshot, t: &Table) -> Option<Arc<Table>> {
        let table = state.tables().find(|other| other.id() == t.id())?;
        table.is_defined_as(t).then(|| table.clone())
    }
}

/// A key of a table: its number, the name of its constraint, its columns.
struct KeyOf<'a> {
    n: usize,
    constraint: Option<&'a str>,
    key: &'a [u16],
}

impl Table {
    /// The keys that are checked at the end of a statement.
    fn keys_at_statement(&self) -> Vec<KeyOf<'_>> {
        let all = self.keys().enumerate().filter(|(n, _)| Checked::Immediate.has(self, None, *n));
        all.map(|(n, (constraint, key))| KeyOf { n, constraint, key }).collect()
    }
}

/// Whether equal values of a key are equal in their bits, as lookups need it.
pub(super) fn is_exact(t: &Table, key: &[u16]) -> bool {
    key.iter().all(|c| !t.schema().columns[usize::from(*c)].data_type.is_float())
}
