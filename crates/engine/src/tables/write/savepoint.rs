//! Savepoints: states of a transaction that it can go back to.

use std::collections::BTreeMap;

use lode_base::TableId;
use lode_program::IndexRule;

use super::WriteTxn;
use super::change::TableChange;
use super::stream::Io;
use crate::EngineError;
use crate::tables::catalog::TableCatalog;
use crate::tables::planted::{self, Planted};

/// The changes of a transaction when the savepoint was made. The savepoint shares their rows.
#[derive(Clone)]
pub struct SavedChanges {
    catalog: TableCatalog,
    changes: BTreeMap<TableId, TableChange>,
    index_rules: BTreeMap<TableId, Option<IndexRule>>,
}

impl WriteTxn {
    /// Makes a savepoint.
    ///
    /// # Errors
    /// When rows that it loads cannot be written.
    pub fn savepoint(&mut self) -> Result<SavedChanges, EngineError> {
        for t in self.catalog.tables.values() {
            if let Some(change) = self.changes.get_mut(&t.id()) {
                change.settle(&mut Io::new(self.trees.committer().storage(), &mut self.fresh), t)?;
                change.stream.sealed = true;
            }
        }
        let (catalog, changes) = (self.catalog.clone(), self.changes.clone());
        Ok(SavedChanges { catalog, changes, index_rules: self.index_rules.clone() })
    }

    /// Forgets all changes after a savepoint of this transaction. The savepoint stays.
    pub fn rollback_to(&mut self, savepoint: &SavedChanges) {
        let SavedChanges { catalog, changes, index_rules } = savepoint.clone();
        let undone = std::mem::replace(&mut self.changes, changes);
        if planted::is(Planted::SavepointKeepsRow) {
            self.changes.iter_mut().for_each(|(id, c)| c.rows = undone[id].rows.clone());
        }
        (self.catalog, self.index_rules) = (catalog, index_rules);
        self.changes();
    }
}
