//! Validation at the commit: the transaction's changes, made at the state of its begin, are moved onto the current state.
//!
//! ```text
//!   page edited here ─┬─ same version now ───────────────────────────► the edit stands
//!                     └─ changed since ─┬─ no primary key ───────────► conflict
//!                                       └─ rows looked up by key ─┬─ gone, or other values ─► conflict
//!                                                                 └─ the same ─► the edit, where the row is now
//! ```
//!
//! First committer wins: if two transactions change one row, the second to commit conflicts. A row that was changed and changed back
//! counts as unchanged. Inserts conflict with nothing; their keys are checked like all keys. Definitions conflict by table: a
//! transaction that alters or drops a table conflicts with every change that others made to the table or its rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::{CommitNo, Lpid};
use lode_command::Answer;
use lode_page::{Column, Value, ops};
use lode_program::{Expr, Program};

use super::change::Changes;
use super::key_check::looking_for;
use super::stream::Io;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::Rule;
use crate::tables::key::{KeyReader, chosen, show};
use crate::tables::objects;
use crate::tables::own::{Edits, PageEdit, Update};
use crate::tables::read;
use crate::tables::table::Table;
use crate::trees::Snapshot;
use crate::{EngineError, Map};

/// Rows that are looked up at a time.
const LOOKUP_ROWS_MAX: usize = 1 << 16;

/// A transaction that is moved.
pub(super) struct Rebase<'a> {
    /// The state at its begin.
    pub(super) base: &'a Snapshot,
    /// The state that it is moved to.
    pub(super) now: &'a Snapshot,
    /// The tables as the transaction has them.
    pub(super) mine: &'a TableCatalog,
    /// Whether it defines tables or indexes.
    pub(super) defines: bool,
}

impl Rebase<'_> {
    /// Moves the changes, and answers the tables as the transaction has them then.
    pub(super) fn run(&self, io: &mut Io<'_>, changes: &mut Changes) -> Result<TableCatalog, EngineError> {
        let catalog = self.catalog(io)?;
        for (id, change) in changes.iter_mut() {
            let Some(base) = self.base.tables().find(|t| t.id() == *id) else { continue };
            let current = self.now.tables().find(|t| t.id() == *id);
            let Some(current) = current.filter(|c| c.is_defined_as(base)) else {
                return Err(conflict(base, "it was altered or dropped"));
            };
            change.edits = Move { base: self.base, from: base, now: self.now, to: current }
                .edits(std::mem::take(&mut change.edits))?;
        }
        Ok(catalog)
    }

    /// The current catalog with the tables and indexes that the transaction made, altered and dropped.
    fn catalog(&self, io: &mut Io<'_>) -> Result<TableCatalog, EngineError> {
        let mut catalog = TableCatalog::of(self.now);
        let (base, now) = (self.base.tables_state().objects().0, self.now.tables_state().objects().0);
        let objects = objects::rebased(base, &self.mine.objects, now)?;
        catalog.set_objects(objects, |owner| io.allocate(owner))?;
        for base in self.base.tables() {
            let mine = self.mine.table_of_id(base.id());
            if mine.is_some_and(|m| Arc::ptr_eq(m, base)) {
                continue;
            }
            // The transaction altered or dropped it. So no other transaction may have changed it.
            if !catalog.tables.get(base.name()).is_some_and(|c| Arc::ptr_eq(c, base)) {
                return Err(conflict(base, "it is altered or dropped here, and was changed"));
            }
            // One that got another name comes again below.
            if mine.is_none_or(|m| m.name() != base.name()) {
                Arc::make_mut(&mut catalog.tables).remove(base.name());
            }
        }
        let at_begin: BTreeSet<_> = self.base.tables().map(|t| t.id()).collect();
        // New tables come last: the page of a table that got another name is not free.
        let (known, new): (Vec<&Arc<Table>>, Vec<&Arc<Table>>) =
            self.mine.tables.values().partition(|t| at_begin.contains(&t.id()));
        for t in known.into_iter().chain(new) {
            let is_new = !at_begin.contains(&t.id());
            let same = self.base.table(t.name()).is_some_and(|b| Arc::ptr_eq(&b, t));
            if same {
                continue;
            }
            for index in t.indexes() {
                let others = catalog.tables.values().filter(|o| o.id() != t.id());
                if others.flat_map(|o| o.indexes()).any(|i| i.name == index.name) {
                    return Err(EngineError::IndexExists(index.name.clone()));
                }
            }
            if !is_new {
                if catalog.tables.get(t.name()).is_some_and(|other| other.id() != t.id()) {
                    return Err(EngineError::TableExists(t.name().into()));
                }
                Arc::make_mut(&mut catalog.tables).insert(t.name().into(), t.clone());
                continue;
            }
            if catalog.tables.contains_key(t.name()) {
                return Err(EngineError::TableExists(t.name().into()));
            }
            let mut table = t.same();
            catalog.place(&mut table, |owner| io.allocate(owner))?;
            Arc::make_mut(&mut catalog.tables).insert(t.name().into(), Arc::new(table));
        }
        for t in catalog.tables.values().filter(|_| self.defines) {
            for c in &t.def().constraints {
                let Rule::ForeignKey { columns, parent, parent_columns, .. } = &c.rule else { continue };
                let Some(parent) = catalog.tables.get(parent) else {
                    return Err(conflict(t, &format!("\"{parent}\", which it references, was dropped")));
                };
                t.def().check_parent(c, columns, parent.def(), parent_columns)?;
            }
        }
        Ok(catalog)
    }
}

fn conflict(t: &Table, what: &str) -> EngineError {
    EngineError::Conflict { what: format!("table \"{}\": {what}", t.name()) }
}

/// Moves one table's edits from a snapshot to a later one.
struct Move<'a> {
    base: &'a Snapshot,
    from: &'a Table,
    now: &'a Snapshot,
    to: &'a Table,
}

/// A row of a page.
type Slot = (Lpid, u32);

/// A row that is edited: where it was, and all its values then.
struct Row {
    lpid: Lpid,
    slot: u32,
    part: usize,
    at: usize,
}

impl Move<'_> {
    fn edits(&self, edits: Edits) -> Result<Edits, EngineError> {
        let since = self.base.commit();
        if self.from.has_delta() {
            return self.edits_by_id(edits);
        }
        let mut kept = Edits::new();
        let mut moved = Vec::new();
        for (lpid, edit) in edits {
            match self.is_changed(lpid, since) {
                false => drop(kept.insert(lpid, edit)),
                true if self.from.def().primary_key.is_empty() => {
                    return Err(conflict(self.from, "a page of rows without a primary key was changed"));
                }
                true => moved.push((lpid, edit)),
            }
        }
        let mut at = 0;
        while at < moved.len() {
            let (mut to, mut rows) = (at, 0);
            while to < moved.len() && (rows == 0 || rows < LOOKUP_ROWS_MAX) {
                rows += moved[to].1.touched().len();
                to += 1;
            }
            self.look_up(&moved[at..to], &mut kept)?;
            at = to;
        }
        Ok(kept)
    }

    /// The edits of pages whose rows have ids. Whether others changed the rows is found out by their ids.
    fn edits_by_id(&self, edits: Edits) -> Result<Edits, EngineError> {
        let (from, to) = (self.base.directory(self.from)?, self.now.directory(self.to)?);
        if Arc::ptr_eq(&from, &to) {
            return Ok(edits);
        }
        let mut kept = Edits::new();
        for (lpid, edit) in edits {
            let is_same =
                || from.id_of(lpid, 0) == to.id_of(lpid, 0) && from.span_of(lpid) == to.span_of(lpid);
            if self.from.extent_index(lpid.extent()).is_none() || is_same() {
                kept.insert(lpid, edit);
                continue;
            }
            let mut places: Map<u32, Slot> = Map::default();
            for slot in edit.touched() {
                let place = from.id_of(lpid, slot).and_then(|id| to.place(id));
                places.insert(slot, place.ok_or_else(|| conflict(self.from, "a row is gone"))?);
            }
            put(&edit, |slot| places[&slot], &mut kept)?;
        }
        Ok(kept)
    }

    /// Whether the later snapshot has another version of a page.
    fn is_changed(&self, lpid: Lpid, since: CommitNo) -> bool {
        let pool = self.base.storage().pool();
        self.from.extent_index(lpid.extent()).is_some() && pool.changed_since(lpid, since)
    }

    /// Finds the rows of some edited pages in the later snapshot, and puts their edits there.
    fn look_up(&self, pages: &[(Lpid, Arc<PageEdit>)], kept: &mut Edits) -> Result<(), EngineError> {
        let key = &self.from.def().primary_key;
        let all: Vec<u16> = (0..self.from.schema().columns.len() as u16).collect();
        let (mut parts, mut keys) = (Vec::new(), Vec::new());
        let mut wanted: Map<Vec<u8>, Row> = Map::default();
        let mut bytes = Vec::new();
        for (lpid, edit) in pages {
            let slots = edit.touched();
            let page = read::columns(self.base, *lpid, &all)?;
            let columns: Vec<Column> = page.columns.iter().map(|c| ops::take(c, &slots)).collect();
            let of_key = chosen(&columns, key);
            let reader = KeyReader::new(&of_key);
            for (at, &slot) in slots.iter().enumerate() {
                reader.read(at, &mut bytes);
                wanted.insert(bytes.clone(), Row { lpid: *lpid, slot, part: parts.len(), at });
            }
            keys.push(of_key);
            parts.push(columns);
        }
        let found = self.find(&mut wanted, &parts, &keys, &all)?;
        if let Some(gone) = wanted.into_values().next() {
            return Err(self.changed(&keys[gone.part], gone.at, "is gone"));
        }
        for (lpid, edit) in pages {
            put(edit, |slot| found[&(*lpid, slot)], kept)?;
        }
        Ok(())
    }

    /// Where the rows are in the later snapshot. Rows that are found are taken out of `wanted`.
    fn find(
        &self,
        wanted: &mut Map<Vec<u8>, Row>,
        parts: &[Vec<Column>],
        keys: &[Vec<Column>],
        all: &[u16],
    ) -> Result<Map<Slot, Slot>, EngineError> {
        let key = &self.from.def().primary_key;
        let schema = self.to.schema();
        let term = |(i, &c): (usize, &u16)| looking_for(keys, i, c, schema.columns[usize::from(c)].data_type);
        let filter = Expr::And(key.iter().enumerate().map(term).collect());
        let pages = self.now.pages_of_keys(self.to, key, &filter)?.unwrap_or_else(|| self.to.page_ranges());
        let program = Arc::new(Program::check(schema.clone(), Some(filter), all.to_vec(), true)?);
        let mut found = Map::default();
        let mut scan = self.now.scan(self.to, pages, program, Answer::Rows, None)?;
        let mut bytes = Vec::new();
        while let Some(unit) = scan.next()? {
            for page in &unit.pages {
                let of_key = chosen(&page.columns, key);
                let reader = KeyReader::new(&of_key);
                for row in 0..page.rows as usize {
                    reader.read(row, &mut bytes);
                    let Some(was) = wanted.remove(&bytes) else { continue };
                    let old = &parts[was.part];
                    if !old.iter().zip(&page.columns).all(|(a, b)| same(&a.value(was.at), &b.value(row))) {
                        return Err(self.changed(&of_key, row, "was changed"));
                    }
                    let slot = page.slots.as_ref().map_or(row as u32, |s| s[row]);
                    found.insert((was.lpid, was.slot), (page.lpid, slot));
                }
            }
        }
        Ok(found)
    }

    fn changed(&self, key: &[Column], row: usize, how: &str) -> EngineError {
        conflict(self.from, &format!("row {} {how}", show(key, row)))
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (a, b) => a.compare(b).is_some_and(|o| o.is_eq()),
    }
}

/// Adds an edit to `kept`, with each row at the place that `now` says.
fn put(edit: &PageEdit, now: impl Fn(u32) -> Slot, kept: &mut Edits) -> Result<(), EngineError> {
    for slot in edit.deleted.iter() {
        let (lpid, slot) = now(slot);
        Arc::make_mut(kept.entry(lpid).or_default()).deleted.insert(slot);
    }
    for u in &edit.updates {
        let mut order: Vec<(Lpid, u32, u32)> = u
            .slots
            .iter()
            .zip(0u32..)
            .map(|(slot, i)| {
                let (lpid, slot) = now(slot);
                (lpid, slot, i)
            })
            .collect();
        order.sort_unstable();
        let values =
            (0..u.columns.len()).map(|at| u.values.column(at)).collect::<Result<Vec<Column>, _>>()?;
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            let rows: Vec<u32> = group.iter().map(|g| g.2).collect();
            let slots = group.iter().map(|g| g.1).collect();
            let values = u.values.store().keep(values.iter().map(|v| ops::take(v, &rows)).collect());
            let edit = Arc::make_mut(kept.entry(group[0].0).or_default());
            edit.updates.push(Update { columns: u.columns.clone(), slots, values });
        }
    }
    Ok(())
}
