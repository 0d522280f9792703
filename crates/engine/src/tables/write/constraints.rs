//! Constraints that a transaction adds to tables with rows, and drops.
//!
//! ```text
//!   ADD ─► rows that the transaction sees are checked ─► definition ─► commit: entries of a new key, and the check again if others
//!                                                                       have changed rows since
//! ```
//!
//! With a delta, a new key gets a number that entries of the table's keys do not have. Entries of a dropped key stay until VACUUM FULL:
//! an entry counts only if its row has its values. Pages have bounds of the primary key that they were loaded with. Once the table has
//! another one, they do not count.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_command::Answer;
use lode_program::Program;

use super::WriteTxn;
use super::foreign::Foreign;
use crate::EngineError;
use crate::tables::catalog::TableCatalog;
use crate::tables::definition::{Constraint, Deferral, Rule, TableDef};
use crate::tables::table::Table;

impl WriteTxn {
    /// Adds a constraint to a table. UNIQUE and FOREIGN KEY are checked for all rows that the transaction sees, also if they are
    /// deferred. The caller evaluates a CHECK.
    ///
    /// # Errors
    /// [`EngineError::Unique`] or [`EngineError::ForeignKey`] if a row breaks it; [`EngineError::Invalid`] for a name that is there, for
    /// columns that are not, and for a foreign key to columns that are no key; or when the drive fails. The table is as it was.
    pub fn add_constraint(&mut self, table: &str, c: Constraint) -> Result<(), EngineError> {
        let t = self.catalog.table(table)?.clone();
        let mut def = t.def().clone();
        def.constraints.push(c.clone());
        self.redefine(&t, def, |txn| match &c.rule {
            Rule::Check { .. } => Ok(()),
            Rule::Unique { columns } => txn.check_distinct(table, Some(&c.name), columns),
            Rule::ForeignKey { .. } => {
                let now = txn.current()?;
                let child = now.table(table).ok_or_else(|| EngineError::NoSuchTable(table.into()))?;
                match Foreign::of(&child, &c, |name| now.table(name))? {
                    Some(f) => txn.check_whole(&now, &f),
                    None => Ok(()),
                }
            }
        })
    }

    /// Gives a table a primary key. Its columns become NOT NULL.
    ///
    /// # Errors
    /// [`EngineError::NotNull`] or [`EngineError::DuplicateKey`] if rows that the transaction sees break it; [`EngineError::Invalid`] if
    /// the table has one, or for columns that are not there; or when the drive fails. The table is as it was.
    pub fn add_primary_key(
        &mut self,
        table: &str,
        name: Option<String>,
        columns: Vec<u16>,
        deferral: Deferral,
    ) -> Result<(), EngineError> {
        let t = self.catalog.table(table)?.clone();
        if !t.def().primary_key.is_empty() {
            return Err(EngineError::invalid(table, "it has a primary key already"));
        }
        if columns.is_empty() {
            return Err(EngineError::invalid(table, "a primary key has at least one column"));
        }
        let mut def = t.def().clone();
        (def.primary_key, def.primary_key_deferral) = (columns.clone(), deferral);
        def.primary_key_name = name;
        def.check()?;
        self.check_no_nulls(table, &columns)?;
        self.redefine(&t, def.completed(), |txn| txn.check_distinct(table, None, &columns))
    }

    /// Drops a constraint of a table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchConstraint`]; [`EngineError::ReferencedKey`] for a UNIQUE that a foreign key references.
    pub fn drop_constraint(&mut self, table: &str, name: &str) -> Result<(), EngineError> {
        let t = self.catalog.table(table)?.clone();
        let mut def = t.def().clone();
        let at = constraint(&def, name)?;
        let dropped = def.constraints.remove(at);
        if let Rule::Unique { columns } = &dropped.rule {
            check_key_unreferenced(&self.catalog, &def, columns)?;
        }
        self.redefine(&t, def, |_| Ok(()))
    }

    /// Drops the primary key of a table. Its columns stay NOT NULL.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] if there is none; [`EngineError::ReferencedKey`] if a foreign key references it.
    pub fn drop_primary_key(&mut self, table: &str) -> Result<(), EngineError> {
        let t = self.catalog.table(table)?.clone();
        let mut def = t.def().clone();
        let key = std::mem::take(&mut def.primary_key);
        if key.is_empty() {
            return Err(EngineError::invalid(table, "it has no primary key"));
        }
        (def.primary_key_deferral, def.primary_key_name) = (Deferral::None, None);
        check_key_unreferenced(&self.catalog, &def, &key)?;
        self.redefine(&t, def, |_| Ok(()))
    }

    /// Gives a constraint of a table another name. The primary key has none.
    ///
    /// # Errors
    /// [`EngineError::NoSuchConstraint`], or [`EngineError::Invalid`] if the new name is there.
    pub fn rename_constraint(&mut self, table: &str, name: &str, to: &str) -> Result<(), EngineError> {
        let t = self.catalog.table(table)?.clone();
        let mut def = t.def().clone();
        let at = constraint(&def, name)?;
        def.constraints[at].name = to.into();
        self.redefine(&t, def, |_| Ok(()))
    }

    /// Gives the primary key of a table another name.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] if there is none.
    pub fn rename_primary_key(&mut self, table: &str, to: &str) -> Result<(), EngineError> {
        let t = self.catalog.table(table)?.clone();
        if t.def().primary_key.is_empty() {
            return Err(EngineError::invalid(table, "it has no primary key"));
        }
        let def = TableDef { primary_key_name: Some(to.into()), ..t.def().clone() };
        self.redefine(&t, def, |_| Ok(()))
    }

    /// Gives an index another name.
    ///
    /// # Errors
    /// [`EngineError::NoSuchIndex`] or [`EngineError::IndexExists`].
    pub fn rename_index(&mut self, name: &str, to: &str) -> Result<(), EngineError> {
        let of_name = |name: &str| {
            let has = |t: &Table| t.indexes().iter().any(|i| i.name == name);
            self.catalog.tables.values().find(|t| has(t)).cloned()
        };
        let Some(t) = of_name(name) else { return Err(EngineError::NoSuchIndex(name.into())) };
        if of_name(to).is_some() {
            return Err(EngineError::IndexExists(to.into()));
        }
        let mut indexes = t.indexes().to_vec();
        let at = indexes.iter().position(|i| i.name == name).expect("the table has the index");
        // A tree keeps its name.
        let tree = (!indexes[at].kind.is_page()).then(|| t.index_tree(&indexes[at]));
        indexes[at].name = to.into();
        let next = t.next(indexes, t.extents.clone());
        self.put_table(match tree {
            Some(tree) => next.with_index_tree(to, tree),
            None => next,
        });
        self.hold_merges(&t);
        Ok(())
    }

    /// Gives a table another definition, unless `check`, which sees it, refuses it.
    fn redefine(
        &mut self,
        t: &Arc<Table>,
        def: TableDef,
        check: impl FnOnce(&mut Self) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        def.check()?;
        self.catalog.check_parents(&def)?;
        let (was, primary) = (self.catalog.clone(), def.primary_key != t.def().primary_key);
        let (numbers, new) = self.numbered_keys(t, &def);
        let next = t.redefined(def, numbers, new);
        let rule = next.index_rule()?;
        let differs = rule != t.index_rule()?;
        let pending = t.index_pending || differs;
        self.put_table(next.with_contents(t.rows, t.bytes, t.tail, pending));
        if let Err(e) = check(self) {
            (self.catalog, self.current) = (was, None);
            return Err(e);
        }
        if differs {
            self.index_rules.insert(t.id(), Some(rule));
        }
        if let Some(change) = self.changes.get_mut(&t.id()) {
            change.forget_keys(primary);
        }
        self.hold_merges(t);
        Ok(())
    }

    /// The numbers of the keys of another definition of a table, and which of them are new. A key that stays keeps its number.
    fn numbered_keys(&self, t: &Table, def: &TableDef) -> (Vec<u16>, BTreeSet<u16>) {
        let base = self.base(t.id()).filter(|b| b.has_delta());
        let Some(base) = base else { return ((0..def.keys().count() as u16).collect(), BTreeSet::new()) };
        let mut next = base.key_numbers().into_iter().chain(t.key_numbers()).max().map_or(0, |n| n + 1);
        let is_renamed = t.def().primary_key == def.primary_key
            && t.def().keys().map(|(_, key)| key).eq(def.keys().map(|(_, key)| key));
        let (mut numbers, mut new) = (Vec::new(), BTreeSet::new());
        for (n, key) in def.keys().enumerate() {
            // Keys with the same columns are not the same: bounds of pages lead to a primary key alone.
            let old = if is_renamed { Some(n) } else { t.def().keys().position(|of| of == key) };
            let number = old.map_or(next, |old| t.key_number(old) as u16);
            next += u16::from(old.is_none());
            numbers.push(number);
            new.extend(old.is_none_or(|old| t.is_new_key(old)).then_some(number));
        }
        (numbers, new)
    }

    /// Checks that the rows which the transaction sees have no NULL in these columns.
    fn check_no_nulls(&mut self, table: &str, columns: &[u16]) -> Result<(), EngineError> {
        let now = self.current()?;
        let t = now.table(table).ok_or_else(|| EngineError::NoSuchTable(table.into()))?;
        let program = Program::check(t.schema().clone(), None, columns.to_vec(), false)?;
        let mut scan = now.scan(&t, t.all_ranges(), Arc::new(program), Answer::Rows, None)?;
        while let Some(unit) = scan.next()? {
            for page in &unit.pages {
                for (&c, column) in columns.iter().zip(&page.columns) {
                    if (0..page.rows as usize).any(|row| column.is_null(row)) {
                        let column = t.def().columns[usize::from(c)].name.clone();
                        return Err(EngineError::NotNull { table: table.into(), column });
                    }
                }
            }
        }
        Ok(())
    }
}

fn constraint(def: &TableDef, name: &str) -> Result<usize, EngineError> {
    let missing = || EngineError::NoSuchConstraint { table: def.name.clone(), constraint: name.into() };
    def.constraints.iter().position(|c| c.name == name).ok_or_else(missing)
}

/// Refuses to take a key from a table, which has this definition then, if a foreign key references it.
fn check_key_unreferenced(catalog: &TableCatalog, def: &TableDef, key: &[u16]) -> Result<(), EngineError> {
    if def.keys().any(|(_, other)| other == key) {
        return Ok(());
    }
    let references = |c: &&Constraint| matches!(&c.rule, Rule::ForeignKey { parent, parent_columns, .. } if *parent == def.name && parent_columns == key);
    for t in catalog.tables.values() {
        if let Some(c) = t.def().constraints.iter().find(references) {
            let (table, constraint, by) = (def.name.clone(), c.name.clone(), t.name().into());
            return Err(EngineError::ReferencedKey { table, constraint, by });
        }
    }
    Ok(())
}
