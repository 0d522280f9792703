//! Foreign keys at the end of a statement: those that are not deferred hold in what the transaction sees.
//!
//! ```text
//!   insert, load, update ─► Touched: columns of foreign keys of new rows ───► end ─► in the parent? ─► else: no such row
//!   delete, update ───────► Touched: referenced columns, as they were before ─► end ─► in the parent again? ─► else:
//!                                                                                      in a child? ─► then: still referenced
//! ```
//!
//! Statements on tables that reference nothing and are referenced by nothing note nothing. The check is made at the transaction's
//! snapshot. A parent that others have made since counts as there, and a child that others have taken away since does not, as in
//! PostgreSQL; then the commit checks again what it would not have to.
//!
//! Invariant: once all statements have ended, no foreign key that is not deferred is broken at the transaction's snapshot with its own
//! changes, unless the transaction notes that it has looked at a newer state.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::{Lpid, TableId};
use lode_page::{Column, Value, ops};

use super::WriteTxn;
use super::foreign::{Foreign, LOOKUP_KEYS_MAX, Wanted, looking_for_all};
use super::key_check::{PAGE_LOOKUPS_MAX, visit_rows, visit_table};
use super::statement::{LOOKUPS_MAX, is_exact};
use super::touched::{Referenced, Touched, foreign_columns, is_immediate};
use crate::EngineError;
use crate::tables::definition::{Constraint, ReferenceAction, Rule};
use crate::tables::key::numbered;
use crate::tables::planted::{self, Planted};
use crate::tables::table::{RowAddress, Table};
use crate::trees::Snapshot;

/// Refuses wanted keys by looking at the other table of a foreign key.
type Find = fn(&mut WriteTxn, &Snapshot, &Foreign<'_>, &mut Wanted) -> Result<(), EngineError>;

impl WriteTxn {
    /// The columns of a table that foreign keys reference which are not deferred.
    pub(super) fn referenced_columns(&mut self, t: &Table) -> Vec<u16> {
        let tables = &self.catalog.tables;
        let known = self.referenced.take().filter(|known| Arc::ptr_eq(&known.tables, tables));
        let known = known.unwrap_or_else(|| Referenced::of(tables));
        let columns = known.columns.get(t.name()).cloned().unwrap_or_default();
        self.referenced = Some(known);
        columns
    }

    /// Notes rows of pages that are about to be deleted, or to get values in some columns.
    pub(super) fn note_rows_of_pages(
        &mut self,
        t: &Table,
        rows: &[RowAddress],
        set: Option<(&[u16], &[Column])>,
    ) -> Result<(), EngineError> {
        let sets = |of: &[u16]| set.is_some_and(|(columns, _)| columns.iter().any(|c| of.contains(c)));
        let (referenced, foreign) = (self.referenced_columns(t), foreign_columns(t));
        let frees = !referenced.is_empty() && (set.is_none() || sets(&referenced));
        let refers = sets(&foreign);
        if rows.is_empty() || !frees && !refers {
            return Ok(());
        }
        let mut read: Vec<u16> = Vec::new();
        read.extend(referenced.iter().filter(|_| frees));
        read.extend(foreign.iter().filter(|c| refers && !(frees && referenced.contains(c))));
        let mut of_pages: BTreeMap<Lpid, Vec<usize>> = BTreeMap::new();
        for (i, row) in rows.iter().enumerate() {
            of_pages.entry(t.page_of(*row).expect("addresses were checked")).or_default().push(i);
        }
        let now = self.current()?;
        let touched = &mut self.changes.entry(t.id()).or_default().touched;
        for (lpid, of_page) in of_pages {
            let page = now.read_columns(lpid, &read)?;
            // Rows that the transaction deleted before stay so.
            let at = |i: usize| match &page.slots {
                Some(slots) => slots.binary_search(&rows[i].slot()).ok().map(|at| at as u32),
                None => Some(rows[i].slot()),
            };
            let found: Vec<(u32, u32)> = of_page.iter().filter_map(|&i| Some((i as u32, at(i)?))).collect();
            let (of_set, slots): (Vec<u32>, Vec<u32>) = found.into_iter().unzip();
            let was: Vec<Column> = page.columns.iter().map(|c| ops::take(c, &slots)).collect();
            if frees {
                touched.note_gone(&referenced, numbered(&read, &was, &referenced));
            }
            if let Some((columns, values)) = set.filter(|_| refers) {
                let value = |c: &u16| match columns.iter().position(|of| of == c) {
                    Some(of) => ops::take(&values[of], &of_set),
                    None => numbered(&read, &was, &[*c]).remove(0),
                };
                touched.children.add(&foreign, foreign.iter().map(value).collect());
            }
        }
        Ok(())
    }

    /// Checks the foreign keys, except deferred ones, that the statements since the last end could break.
    pub(super) fn end_references(&mut self) -> Result<(), EngineError> {
        let all = self.changes.iter_mut().filter(|(_, c)| !c.touched.is_empty());
        let all: Vec<(TableId, Touched)> = all.map(|(id, c)| (*id, std::mem::take(&mut c.touched))).collect();
        if all.is_empty() || planted::is(Planted::ReferencesNotChecked) {
            return Ok(());
        }
        let now = self.current()?;
        for child in now.tables() {
            for c in child.def().constraints.iter().filter(|c| is_immediate(c)) {
                let Some(f) = Foreign::of(child, c, |name| now.table(name))? else { continue };
                let of = |t: &Table| all.iter().find(|(id, _)| *id == t.id()).map(|(_, touched)| touched);
                if let Some(noted) = of(child).map(|t| &t.children).filter(|n| !n.is_empty()) {
                    self.check_noted(&now, &f, noted.of(f.columns), Self::find_parents)?;
                }
                if let Some(noted) = of(&f.parent).map(|t| &t.gone).filter(|n| !n.is_empty()) {
                    self.check_noted(&now, &f, noted.of(f.parent_columns), Self::find_children)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that all rows which a child has now reference a row of their parent.
    pub(super) fn check_whole(&mut self, now: &Snapshot, f: &Foreign<'_>) -> Result<(), EngineError> {
        let mut wanted = Wanted::default();
        visit_table(now, f.child, f.columns, None, None, &mut |columns, row, key| {
            wanted.add(columns, row, key);
            if wanted.keys.len() < LOOKUP_KEYS_MAX { Ok(()) } else { self.find_parents(now, f, &mut wanted) }
        })?;
        self.find_parents(now, f, &mut wanted)
    }

    /// Checks the noted values of columns of a foreign key, some keys at a time; all rows, if too many were changed to note them.
    fn check_noted(
        &mut self,
        now: &Snapshot,
        f: &Foreign<'_>,
        parts: Option<impl Iterator<Item = Vec<Column>>>,
        find: Find,
    ) -> Result<(), EngineError> {
        let Some(parts) = parts else { return self.check_whole(now, f) };
        let mut wanted = Wanted::default();
        for part in parts {
            visit_rows(&part, &mut |columns, row, key| {
                wanted.add(columns, row, key);
                if wanted.keys.len() < LOOKUP_KEYS_MAX { Ok(()) } else { find(self, now, f, &mut wanted) }
            })?;
        }
        find(self, now, f, &mut wanted)
    }

    /// Refuses keys that the parent does not have.
    fn find_parents(
        &mut self,
        now: &Snapshot,
        f: &Foreign<'_>,
        wanted: &mut Wanted,
    ) -> Result<(), EngineError> {
        strike_there(now, &f.parent, f.parent_columns, wanted)?;
        if !wanted.keys.is_empty() {
            // Others may have made the row since.
            let newest = self.trees.heads().current();
            if let Some(parent) = self.at(&newest, &f.parent) {
                let mut new: Wanted = wanted.clone();
                strike_there(&newest, &parent, f.parent_columns, &mut new)?;
                let there: Vec<Vec<u8>> =
                    wanted.keys.keys().filter(|k| !new.keys.contains_key(*k)).cloned().collect();
                // The transaction itself took away those that were there before.
                let mut before: Wanted = wanted.clone();
                if let Some(base) = self.at(&self.snapshot, &f.parent) {
                    strike_there(&self.snapshot, &base, f.parent_columns, &mut before)?;
                }
                for key in there.into_iter().filter(|key| before.keys.contains_key(key)) {
                    wanted.keys.remove(&key);
                    self.looked_at_newer = true;
                }
            }
        }
        wanted.none_left(f)
    }

    /// Refuses keys that the parent does not have any more, and a child has.
    fn find_children(
        &mut self,
        now: &Snapshot,
        f: &Foreign<'_>,
        wanted: &mut Wanted,
    ) -> Result<(), EngineError> {
        if !wanted.keys.is_empty() {
            strike_there(now, &f.parent, f.parent_columns, wanted)?;
        }
        if wanted.keys.is_empty() {
            wanted.parts.clear();
            return Ok(());
        }
        let filter = looking_for_all(&wanted.parts, f.child, f.columns);
        // Others may have taken the children away since, unless the transaction changed some itself.
        let newest = self.trees.heads().current();
        let others = match now.has_own_changes(f.child) {
            true => None,
            false => self.at(&newest, f.child),
        };
        let mut found: BTreeMap<Vec<u8>, EngineError> = BTreeMap::new();
        visit_table(now, f.child, f.columns, Some(filter.clone()), None, &mut |columns, row, key| {
            if !wanted.keys.contains_key(key) {
                return Ok(());
            }
            let broken = f.broken(columns, row, "is still referenced");
            if others.is_none() {
                return Err(broken);
            }
            found.entry(key.into()).or_insert(broken);
            Ok(())
        })?;
        if let Some(child) = others.filter(|_| !found.is_empty()) {
            visit_table(&newest, &child, f.columns, Some(filter), None, &mut |_, _, key| {
                found.remove(key).map_or(Ok(()), Err)
            })?;
            self.looked_at_newer = true;
        }
        *wanted = Wanted::default();
        Ok(())
    }
}

impl<'a> Foreign<'a> {
    /// A constraint of a table, if it is a foreign key. `table` gives tables by their names.
    pub(super) fn of(
        child: &'a Arc<Table>,
        constraint: &'a Constraint,
        table: impl FnOnce(&str) -> Option<Arc<Table>>,
    ) -> Result<Option<Self>, EngineError> {
        let Rule::ForeignKey { columns, parent, parent_columns, on_delete, on_update } = &constraint.rule
        else {
            return Ok(None);
        };
        // A default may be the very key that is gone: then no other transaction is to blame.
        let acts = |action: ReferenceAction| action.acts() && action != ReferenceAction::SetDefault;
        let (acts_on_delete, acts_on_update) = (acts(*on_delete), acts(*on_update));
        let parent = table(parent).ok_or_else(|| EngineError::NoSuchTable(parent.clone()))?;
        Ok(Some(Self { constraint, child, columns, parent, parent_columns, acts_on_delete, acts_on_update }))
    }
}

/// Takes out the keys that rows of a table have at a state.
fn strike_there(at: &Snapshot, t: &Arc<Table>, key: &[u16], wanted: &mut Wanted) -> Result<(), EngineError> {
    if wanted.keys.is_empty() {
        return Ok(());
    }
    let n = t.keys().position(|(_, k)| k == key);
    let has_entries = t.has_delta()
        && !at.own().is_some_and(|own| own.changes_pages(t))
        && n.is_some_and(|n| at.has_entries(t, n));
    let most = match (has_entries, t.finds_keys_by_page()) {
        (true, false) => usize::MAX,
        (true, true) => PAGE_LOOKUPS_MAX,
        (false, _) => LOOKUPS_MAX,
    };
    if !is_exact(t, key) || wanted.keys.len() > most {
        let filter = looking_for_all(&wanted.parts, t, key);
        return visit_table(at, t, key, Some(filter), None, &mut |_, _, key| wanted.strike(key));
    }
    let mut found = Vec::new();
    for (bytes, &(part, row)) in &wanted.keys {
        let values: Vec<Value> = wanted.parts[part].iter().map(|c| c.value(row)).collect();
        if !at.rows_by_key(t, key, &values, 1)?.is_empty() {
            found.push(bytes.clone());
        }
    }
    found.iter().try_for_each(|key| wanted.strike(key))
}
