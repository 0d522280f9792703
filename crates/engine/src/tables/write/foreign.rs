//! FOREIGN KEY at the commit: once the transaction is committed, every row of a child references a row of its parent.
//!
//! ```text
//!   new or changed child rows ─► their keys ─► among the parent's new rows? ─► in the parent? ─► else: no such row
//!   parent rows gone ──────────► their keys ─► among the parent's new rows? ─► in the child? ──► then: still referenced
//! ```
//!
//! Both are looked up in the state that the commit follows, with the right to write. So no parent that another transaction deleted
//! meanwhile is missed, and no child that another one inserted. Rows with a NULL among the columns reference nothing.
//!
//! The ends of statements check at the transaction's snapshot (`references.rs`). A commit that follows that very state leaves out what
//! they have checked.

use std::sync::Arc;

use lode_base::TableId;
use lode_page::{Column, Value, ops};
use lode_program::Expr;

use super::change::{Changes, TableChange};
use super::delta::is_new;
use super::key_check::{EachKey, looking_for, visit_rows, visit_table};
use super::touched::is_immediate;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::{Constraint, Rule};
use crate::tables::delta::OwnRows;
use crate::tables::delta::RowId;
use crate::tables::key::show;
use crate::tables::own::{Edits, FreedSlots, SlotSet};
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::Snapshot;
use crate::{EngineError, Map, Set};

/// Keys that are looked up at a time.
pub(super) const LOOKUP_KEYS_MAX: usize = 1 << 17;

/// A foreign key of a table of the transaction's catalog.
pub(super) struct Foreign<'a> {
    pub(super) constraint: &'a Constraint,
    pub(super) child: &'a Arc<Table>,
    pub(super) columns: &'a [u16],
    pub(super) parent: Arc<Table>,
    pub(super) parent_columns: &'a [u16],
    /// Whether ON DELETE does something with the children of a deleted parent.
    pub(super) acts_on_delete: bool,
    /// Whether ON UPDATE does something with the children of a parent that gets another key.
    pub(super) acts_on_update: bool,
}

/// Keys that are looked for, each with a row that a message can show.
#[derive(Clone, Default)]
pub(super) struct Wanted {
    pub(super) keys: Map<Vec<u8>, (usize, usize)>,
    pub(super) parts: Vec<Vec<Column>>,
}

/// The foreign keys of a transaction at its commit.
pub(super) struct ForeignKeys<'a> {
    /// The state that the commit follows.
    pub(super) snapshot: &'a Snapshot,
    /// The tables as the transaction has them.
    pub(super) catalog: &'a TableCatalog,
    /// Its changes: held rows are in `inserts`, loads are flushed.
    pub(super) changes: &'a Changes,
    /// Whether the ends of statements have checked all but deferred ones at this very state.
    pub(super) deferred_only: bool,
}

impl ForeignKeys<'_> {
    /// Checks the foreign keys that the changes could break.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        for child in self.catalog.tables.values() {
            for constraint in &child.def().constraints {
                let of_name = |name: &str| self.catalog.tables.get(name).cloned();
                let Some(f) = Foreign::of(child, constraint, of_name)? else { continue };
                if self.deferred_only && is_immediate(constraint) {
                    continue;
                }
                if let Some(change) = self.changes.get(&child.id()) {
                    self.check_children(&f, Some(change), false)?;
                }
                let frees = |c: &&TableChange| !c.edits.is_empty() || !c.rows.is_empty();
                if let Some(change) = self.changes.get(&f.parent.id()).filter(frees) {
                    self.check_parents(&f, change)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that every row that rows of the child reference is there.
    pub(super) fn check_all_children(&self, f: &Foreign<'_>) -> Result<(), EngineError> {
        self.check_children(f, self.changes.get(&f.child.id()), true)
    }

    /// Checks that every row that new rows of the child reference is there; with `all`, every row that any references.
    fn check_children(
        &self,
        f: &Foreign<'_>,
        change: Option<&TableChange>,
        all: bool,
    ) -> Result<(), EngineError> {
        let mut wanted = Wanted::default();
        let check = |wanted: &mut Wanted| -> Result<(), EngineError> {
            if wanted.keys.is_empty() {
                return Ok(());
            }
            self.strike_new(f, wanted)?;
            let parent = self.committed(f.parent.id());
            if parent.as_deref().is_some_and(|p| p.has_delta()) {
                self.strike_found(&f.parent, f.parent_columns, wanted)?;
                return wanted.none_left(f);
            }
            let filter = looking_for_all(&wanted.parts, &f.parent, f.parent_columns);
            let strike = &mut |_: &[Column], _: usize, key: &[u8]| wanted.strike(key);
            self.visit_committed(
                parent.as_deref(),
                f.parent_columns,
                Some(filter),
                self.changes.get(&f.parent.id()),
                strike,
            )?;
            wanted.none_left(f)
        };
        let mut each = |columns: &[Column], row: usize, key: &[u8]| {
            wanted.add(columns, row, key);
            if wanted.keys.len() < LOOKUP_KEYS_MAX { Ok(()) } else { check(&mut wanted) }
        };
        if let Some(change) = change {
            change.visit_new(self.snapshot, f.child, f.columns, &mut each)?;
        }
        if all {
            let child = self.committed(f.child.id());
            self.visit_committed(child.as_deref(), f.columns, None, change, &mut each)?;
        }
        check(&mut wanted)
    }

    /// Checks that no row references a row of the parent that is gone. If ON DELETE or ON UPDATE made the transaction delete or change
    /// the children of the row, a child that is there now was inserted by another transaction meanwhile: a conflict.
    fn check_parents(&self, f: &Foreign<'_>, change: &TableChange) -> Result<(), EngineError> {
        let (Some(child), Some(_)) = (self.committed(f.child.id()), self.committed(f.parent.id())) else {
            return Ok(());
        };
        let (mut wanted, mut acted_on) = (Wanted::default(), Set::default());
        let check = |wanted: &mut Wanted, acted_on: &Set<Vec<u8>>| -> Result<(), EngineError> {
            self.strike_new(f, wanted)?;
            if wanted.keys.is_empty() {
                return Ok(());
            }
            let filter = looking_for_all(&wanted.parts, f.child, f.columns);
            let found = &mut |columns: &[Column], row: usize, key: &[u8]| match wanted.keys.contains_key(key)
            {
                true if acted_on.contains(key) => Err(f.missed(columns, row)),
                true => Err(f.broken(columns, row, "is still referenced")),
                false => Ok(()),
            };
            self.visit_committed(
                Some(&child),
                f.columns,
                Some(filter),
                self.changes.get(&f.child.id()),
                found,
            )?;
            *wanted = Wanted::default();
            Ok(())
        };
        for (&lpid, edit) in &change.edits {
            let freed = edit.freed(f.parent_columns).to_vec();
            if freed.is_empty() {
                continue;
            }
            let page = read::columns(self.snapshot, lpid, f.parent_columns)?;
            let gone: Vec<Column> = page.columns.iter().map(|c| ops::take(c, &freed)).collect();
            let moved: SlotSet = edit.rekeyed_ever(f.parent_columns).collect();
            visit_rows(&gone, &mut |columns, row, key| {
                wanted.add(columns, row, key);
                if f.acts(moved.contains(freed[row])) {
                    acted_on.insert(key.to_vec());
                }
                Ok(())
            })?;
            if wanted.keys.len() >= LOOKUP_KEYS_MAX {
                check(&mut wanted, &acted_on)?;
                acted_on.clear();
            }
        }
        if let Some((gone, moved)) = change.rows_freed(&f.parent, f.parent_columns)? {
            visit_rows(&gone, &mut |columns, row, key| {
                wanted.add(columns, row, key);
                if f.acts(moved[row]) {
                    acted_on.insert(key.to_vec());
                }
                Ok(())
            })?;
        }
        check(&mut wanted, &acted_on)
    }

    /// The table of this number in the state that the commit follows.
    fn committed(&self, id: TableId) -> Option<Arc<Table>> {
        self.snapshot.tables().find(|t| t.id() == id).cloned()
    }

    /// Takes out the keys that new rows of the parent have.
    fn strike_new(&self, f: &Foreign<'_>, wanted: &mut Wanted) -> Result<(), EngineError> {
        let Some(change) = self.changes.get(&f.parent.id()) else { return Ok(()) };
        change.visit_new(self.snapshot, &f.parent, f.parent_columns, &mut |_, _, key| wanted.strike(key))
    }

    /// Takes out the keys that rows of a table with a delta have, by a look-up each.
    fn strike_found(&self, t: &Table, key: &[u16], wanted: &mut Wanted) -> Result<(), EngineError> {
        let n = t.keys().position(|(_, k)| k == key).expect("a foreign key references a key");
        let change = self.changes.get(&t.id());
        let directory = self.snapshot.directory(t)?;
        let no_edits = Edits::new();
        let mut freed = FreedSlots::new(change.map_or(&no_edits, |c| &c.edits), key);
        let mut is_freed = |id: RowId| {
            change.is_some_and(|c| frees_key(t, &c.rows, id, key))
                || directory.place(id).is_some_and(|(lpid, slot)| freed.contains(lpid, slot))
        };
        let mut found = Vec::new();
        for (bytes, &(part, row)) in &wanted.keys {
            let values: Vec<Value> = wanted.parts[part].iter().map(|c| c.value(row)).collect();
            let rows = self.snapshot.rows_of_key(t, n, key, &values)?;
            if rows.iter().any(|id| !is_freed(*id)) {
                found.push(bytes.clone());
            }
        }
        found.iter().try_for_each(|key| wanted.strike(key))
    }

    /// Visits the keys of a table's rows in the state that the commit follows, except those that `change` frees.
    fn visit_committed(
        &self,
        table: Option<&Table>,
        columns: &[u16],
        filter: Option<Expr>,
        change: Option<&TableChange>,
        each: &mut EachKey<'_>,
    ) -> Result<(), EngineError> {
        let Some(t) = table else { return Ok(()) };
        if self.snapshot.rows(t)? == 0 {
            return Ok(());
        }
        visit_table(self.snapshot, t, columns, filter, change.map(|c| (&c.edits, &c.rows)), each)?;
        // Those leave out all rows of a delta that the transaction changed.
        match change.map(|c| c.rows_with_old(t, columns)).transpose()?.flatten() {
            Some(kept) => visit_rows(&kept, each),
            None => Ok(()),
        }
    }
}

/// Refuses to drop a table that others reference.
pub(super) fn check_unreferenced(catalog: &TableCatalog, name: &str) -> Result<(), EngineError> {
    let references = |t: &Table| {
        t.name() != name
            && t.def()
                .constraints
                .iter()
                .any(|c| matches!(&c.rule, Rule::ForeignKey { parent, .. } if parent == name))
    };
    match catalog.tables.values().find(|t| references(t)) {
        Some(t) => Err(EngineError::Referenced { table: name.into(), by: t.name().into() }),
        None => Ok(()),
    }
}

/// Whether a transaction deleted a row, or changed its key.
fn frees_key(t: &Table, own: &OwnRows, id: RowId, key: &[u16]) -> bool {
    own.get(id).is_some_and(|c| c.after.is_none() || is_new(t, c, key).unwrap_or(true))
}

impl Wanted {
    /// Refuses keys that were not found.
    pub(super) fn none_left(&mut self, f: &Foreign<'_>) -> Result<(), EngineError> {
        match self.keys.values().next() {
            None => self.parts.clear(),
            Some(&(part, row)) => return Err(f.broken(&self.parts[part], row, "is not in its parent")),
        }
        Ok(())
    }

    pub(super) fn strike(&mut self, key: &[u8]) -> Result<(), EngineError> {
        self.keys.remove(key);
        Ok(())
    }

    pub(super) fn add(&mut self, columns: &[Column], row: usize, key: &[u8]) {
        if self.keys.contains_key(key) {
            return;
        }
        let one: Vec<Column> = columns.iter().map(|c| ops::slice(c, row, 1)).collect();
        self.keys.insert(key.into(), (self.parts.len(), 0));
        self.parts.push(one);
    }
}

impl Foreign<'_> {
    /// Whether the children of a parent that is gone are acted on. `moved`: it has another key.
    fn acts(&self, moved: bool) -> bool {
        if moved { self.acts_on_update } else { self.acts_on_delete }
    }

    fn missed(&self, columns: &[Column], row: usize) -> EngineError {
        let what = format!(
            "table \"{}\": a row that references {} of \"{}\" came meanwhile",
            self.child.name(),
            show(columns, row),
            self.parent.name()
        );
        EngineError::Conflict { what }
    }

    pub(super) fn broken(&self, columns: &[Column], row: usize, how: &str) -> EngineError {
        EngineError::ForeignKey {
            table: self.child.name().into(),
            constraint: self.constraint.name.clone(),
            parent: self.parent.name().into(),
            what: format!("{} {how}", show(columns, row)),
        }
    }
}

pub(super) fn looking_for_all(parts: &[Vec<Column>], t: &Table, columns: &[u16]) -> Expr {
    let data_type = |c: u16| t.schema().columns[usize::from(c)].data_type;
    Expr::And(columns.iter().enumerate().map(|(i, &c)| looking_for(parts, i, c, data_type(c))).collect())
}

/// Checks the foreign keys of a table at a snapshot, for the check of a whole database.
pub(crate) fn check_table(snapshot: &Snapshot, t: &Arc<Table>) -> Result<(), EngineError> {
    for constraint in &t.def().constraints {
        let Some(f) = Foreign::of(t, constraint, |name| snapshot.table(name))? else { continue };
        let (columns, parent, parent_columns) = (f.columns, &f.parent, f.parent_columns);
        let mut wanted = Wanted::default();
        let all = |wanted: &mut Wanted| -> Result<(), EngineError> {
            if wanted.keys.is_empty() {
                return Ok(());
            }
            let filter = looking_for_all(&wanted.parts, parent, parent_columns);
            visit_table(snapshot, parent, parent_columns, Some(filter), None, &mut |_, _, key| {
                wanted.strike(key)
            })?;
            match wanted.keys.values().next() {
                None => wanted.parts.clear(),
                Some(&(part, row)) => {
                    return Err(f.broken(&wanted.parts[part], row, "is not in its parent"));
                }
            }
            Ok(())
        };
        visit_table(snapshot, t, columns, None, None, &mut |columns, row, key| {
            wanted.add(columns, row, key);
            if wanted.keys.len() < LOOKUP_KEYS_MAX { Ok(()) } else { all(&mut wanted) }
        })?;
        all(&mut wanted)?;
    }
    Ok(())
}
