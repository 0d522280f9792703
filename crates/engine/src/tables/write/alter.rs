//! ALTER TABLE: another definition of a table, whose pages and rows stay as they are.
//!
//! ```text
//!   definition ─► may it follow the old one? ─► rows are looked at where it demands more of them ─► the table, with its pages and its delta
//! ```
//!
//! Columns keep their numbers for good. A column that is added comes last, with a constant that all rows read which were written without
//! it. A column that is dropped stays in pages and rows, and only its name is free. So the drive's index rule stays too: it knows the first
//! columns of the pages, and the added ones are not in the page index until an index is made of them.
//!
//! Others that change the table meanwhile conflict: the commit claims it (`delta_commit.rs`), and finds another version of it
//! (`rebase.rs`).

use std::sync::Arc;

use lode_command::Answer;
use lode_page::{Constant, Value};
use lode_program::{Expr, Program};

use super::WriteTxn;
use super::foreign;
use crate::EngineError;
use crate::tables::definition::{ColumnDef, Constraint, Fill, IndexDef, Rule, TableDef};
use crate::tables::table::Table;
use crate::trees::Snapshot;

impl WriteTxn {
    /// Gives a table another definition. No row is written again.
    ///
    /// - The old columns come first, in their order and with their types. Names, NOT NULL, `max_chars` and `declared` may differ, and
    ///   `is_dropped` may be set. NOT NULL is checked by a scan. What else a type demands is the caller's to check.
    /// - New columns follow. [`ColumnDef::absent`] is what the rows have in them that are there; without it NULL.
    /// - The name may differ. Foreign keys that reference the table follow it.
    /// - CHECKs may come and go, and are the caller's to check. Keys may only go, from the last one on. A foreign key comes to a table that
    ///   has rows only in a transaction that has the right to write.
    /// - Options stay.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::TableExists`], [`EngineError::DuplicateColumn`], [`EngineError::ContainsNulls`],
    /// [`EngineError::ForeignKey`], [`EngineError::Invalid`] for all other definitions that may not follow the old one, or when the drive
    /// fails. The table is as it was.
    pub fn alter_table(&mut self, name: &str, def: TableDef) -> Result<(), EngineError> {
        let old = self.catalog.table(name)?.clone();
        if def.name != name && self.catalog.tables.contains_key(&def.name) {
            return Err(EngineError::TableExists(def.name));
        }
        let def = following(&old, def)?;
        def.check()?;
        check_indexes(&old, &def)?;
        self.check_keys_kept(&old, &def)?;
        let not_null = (0u16..).zip(&def.columns).filter(|(i, c)| {
            let has_nulls = match old.def().columns.get(usize::from(*i)) {
                Some(was) => was.ty.nullable,
                None => c.absent.as_ref().is_some_and(|a| a.value().is_null()),
            };
            !c.ty.nullable && has_nulls
        });
        let not_null: Vec<u16> = not_null.map(|(i, _)| i).collect();
        let adds_foreign_keys = adds_foreign_keys(old.def(), &def);
        if !not_null.is_empty() || adds_foreign_keys {
            // Rows that are loaded get their pages first. If the check fails, they have them already.
            self.current()?;
        }
        let saved = (self.catalog.clone(), self.changes.clone());
        let indexes: Vec<IndexDef> =
            old.indexes().iter().map(|i| IndexDef { table: def.name.clone(), ..i.clone() }).collect();
        let new = old.next_of(def, indexes, old.extents.clone());
        let id = new.id();
        let page_bytes_max = self.snapshot.storage().store().identity().page_bytes_max as usize;
        if let Some(change) = self.changes.get_mut(&id) {
            change.add_columns(&new, page_bytes_max);
        }
        if name != new.name() {
            Arc::make_mut(&mut self.catalog.tables).remove(name);
            self.rename_references(name, new.name(), id.raw());
        }
        let new_name = new.name().to_string();
        self.changes();
        self.put_table(new);
        self.hold_merges(&old);
        let checked = self.check_altered(&new_name, &not_null, adds_foreign_keys);
        if checked.is_err() {
            (self.catalog, self.changes) = saved;
            self.changes();
        }
        checked
    }

    /// Checks the rows of a table that was altered, and the foreign keys from and to it.
    fn check_altered(
        &mut self,
        name: &str,
        not_null: &[u16],
        adds_foreign_keys: bool,
    ) -> Result<(), EngineError> {
        for t in self.catalog.tables.values() {
            for c in &t.def().constraints {
                let Rule::ForeignKey { columns, parent, parent_columns, .. } = &c.rule else { continue };
                if t.name() == name || parent == name {
                    t.def().check_parent(c, columns, self.catalog.table(parent)?.def(), parent_columns)?;
                }
            }
        }
        if not_null.is_empty() && !adds_foreign_keys {
            return Ok(());
        }
        let now = self.current()?;
        let t = now.table(name).expect("it was just put there");
        if now.rows(&t)? == 0 {
            return Ok(());
        }
        for &c in not_null {
            if has_null(&now, &t, c)? {
                let column = t.def().columns[usize::from(c)].name.clone();
                return Err(EngineError::ContainsNulls { table: name.into(), column });
            }
        }
        if adds_foreign_keys {
            if self.permit.is_none() {
                let what = "a foreign key is added to rows by a transaction that has the right to write";
                return Err(EngineError::invalid(name, what));
            }
            foreign::check_table(&now, &t)?;
        }
        Ok(())
    }

    /// Lets the foreign keys of other tables follow a table that got another name.
    fn rename_references(&mut self, from: &str, to: &str, id: u32) {
        let references = |t: &&Arc<Table>| {
            let of = |c: &Constraint| matches!(&c.rule, Rule::ForeignKey { parent, .. } if parent == from);
            t.id().raw() != id && t.def().constraints.iter().any(of)
        };
        let children: Vec<Arc<Table>> = self.catalog.tables.values().filter(references).cloned().collect();
        for child in children {
            let mut def = child.def().clone();
            rename_parent(&mut def, from, to);
            self.put_table(child.next_of(def, child.indexes().to_vec(), child.extents.clone()));
        }
    }

    /// Keys have entries under their numbers in the tree of a table with a delta: those that stay keep their numbers.
    fn check_keys_kept(&self, old: &Table, def: &TableDef) -> Result<(), EngineError> {
        let keys = |def: &TableDef| -> Vec<Vec<u16>> { def.keys().map(|(_, key)| key.to_vec()).collect() };
        let (was, is) = (keys(old.def()), keys(def));
        // Without a delta, nothing has the numbers of keys.
        let goes_only = match old.has_delta() {
            true => was.starts_with(&is),
            false => is.iter().all(|key| was.contains(key)),
        };
        if goes_only || self.base(old.id()).is_none() {
            return Ok(());
        }
        let what = match is.iter().find(|key| !was.contains(key)) {
            Some(_) => "a key cannot be added to a table that is there",
            None => "a key can be dropped only if no key is behind it",
        };
        Err(EngineError::invalid(&def.name, what))
    }

    /// The tables of its snapshot to which the transaction gave other definitions.
    pub(super) fn altered(&self) -> Vec<Arc<Table>> {
        let tables = self.snapshot.tables();
        let is_altered =
            |t: &&Arc<Table>| self.catalog.table_of_id(t.id()).is_some_and(|now| now.def() != t.def());
        tables.filter(is_altered).cloned().collect()
    }

    /// The state that the transaction follows, with the definitions of the tables that it altered. It has the right to write, and is
    /// moved to that state.
    pub(super) fn with_definitions(&self) -> Snapshot {
        let tables = self.snapshot.tables_state().tables();
        let altered =
            |t: &Arc<Table>| self.catalog.table_of_id(t.id()).filter(|now| now.def() != t.def()).cloned();
        if tables.values().all(|t| altered(t).is_none()) {
            return self.snapshot.clone();
        }
        // A table that it drops may have the name that another one gets.
        let stays = tables.values().filter(|t| self.catalog.table_of_id(t.id()).is_some());
        let shown = stays.map(|t| altered(t).unwrap_or_else(|| t.clone()));
        let shown = shown.map(|t| (t.name().to_string(), t)).collect();
        self.snapshot.showing(Arc::new(shown))
    }
}

/// Whether a definition has a foreign key that the old one has not. One to the table itself follows its name.
pub(super) fn adds_foreign_keys(old: &TableDef, new: &TableDef) -> bool {
    type Key = (Vec<u16>, Option<String>, Vec<u16>);
    let keys = |def: &TableDef| -> Vec<Key> {
        let of = def.constraints.iter().filter_map(|c| match &c.rule {
            Rule::ForeignKey { columns, parent, parent_columns, .. } => {
                let other = Some(parent.clone()).filter(|p| *p != def.name);
                Some((columns.clone(), other, parent_columns.clone()))
            }
            _ => None,
        });
        of.collect()
    };
    let was = keys(old);
    keys(new).iter().any(|key| !was.contains(key))
}

/// The definition with all that follows from the old one, if it may follow it.
fn following(old: &Table, mut def: TableDef) -> Result<TableDef, EngineError> {
    let was = old.def();
    let invalid = |what: String| EngineError::invalid(&was.name, what);
    if def.columns.len() < was.columns.len() {
        return Err(invalid(format!("{} columns cannot become {}", was.columns.len(), def.columns.len())));
    }
    if def.options != was.options {
        return Err(invalid("its options cannot be altered".into()));
    }
    for (c, was) in def.columns.iter_mut().zip(&was.columns) {
        let column = |what: &str| invalid(format!("column \"{}\" {what}", was.name));
        if c.ty.data_type != was.ty.data_type {
            return Err(column(&format!("is {} and cannot become {}", was.ty.data_type, c.ty.data_type)));
        }
        if c.absent != was.absent {
            return Err(column("keeps the value that older rows have in it"));
        }
        if was.is_dropped && !c.is_dropped {
            return Err(column("was dropped"));
        }
        if c.is_dropped {
            (c.ty.nullable, c.fill) = (true, Fill::Null);
        }
    }
    for c in &mut def.columns[was.columns.len()..] {
        c.absent.get_or_insert(Constant::from(Value::Null));
        if c.is_dropped {
            return Err(invalid(format!("column \"{}\" is added and dropped at once", c.name)));
        }
    }
    let (from, to) = (was.name.clone(), def.name.clone());
    rename_parent(&mut def, &from, &to);
    Ok(def.completed())
}

/// Lets foreign keys name a table by its new name.
fn rename_parent(def: &mut TableDef, from: &str, to: &str) {
    for c in &mut def.constraints {
        if let Rule::ForeignKey { parent, .. } = &mut c.rule
            && parent == from
        {
            *parent = to.into();
        }
    }
}

/// Checks that no index of the table has a column that is dropped.
fn check_indexes(old: &Table, def: &TableDef) -> Result<(), EngineError> {
    let is_dropped =
        |c: &u16| -> Option<&ColumnDef> { Some(&def.columns[usize::from(*c)]).filter(|c| c.is_dropped) };
    for index in old.indexes() {
        if let Some(column) = index.columns.iter().find_map(is_dropped) {
            let what =
                format!("column \"{}\" cannot be dropped: the index \"{}\" has it", column.name, index.name);
            return Err(EngineError::invalid(&def.name, what));
        }
    }
    Ok(())
}

/// Whether a column of a table has a NULL.
fn has_null(now: &Snapshot, t: &Table, column: u16) -> Result<bool, EngineError> {
    let is_null = Expr::IsNull(Box::new(Expr::Column(column)));
    let program = Arc::new(Program::check(t.schema().clone(), Some(is_null), Vec::new(), false)?);
    let mut scan = now.scan(t, now.page_ranges(t), program, Answer::Rows, Some(1))?;
    while let Some(unit) = scan.next()? {
        if unit.pages.iter().any(|p| p.rows > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}
