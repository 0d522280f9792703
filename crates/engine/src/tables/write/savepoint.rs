//! Savepoints: where a transaction can go back to.

use std::collections::BTreeMap;

use lode_base::TableId;
use lode_program::IndexRule;

use super::WriteTxn;
use super::change::TableChange;
use super::stream::Io;
use crate::EngineError;
use crate::tables::catalog::Catalog;

/// A transaction's changes as they were when it was made. It shares rows with them.
#[derive(Clone)]
pub struct SavedChanges {
    catalog: Catalog,
    changes: BTreeMap<TableId, TableChange>,
    index_rules: BTreeMap<TableId, Option<IndexRule>>,
}

impl WriteTxn {
    /// Notes the changes so far.
    ///
    /// # Errors
    /// When rows that it loads cannot be written.
    pub fn savepoint(&mut self) -> Result<SavedChanges, EngineError> {
        for t in self.catalog.tables.values() {
            if let Some(change) = self.changes.get_mut(&t.id()) {
                change.settle(&mut Io::new(&self.database.shared, &mut self.fresh), t)?;
                change.stream.sealed = true;
            }
        }
        let (catalog, changes) = (self.catalog.clone(), self.changes.clone());
        Ok(SavedChanges { catalog, changes, index_rules: self.index_rules.clone() })
    }

    /// Forgets what came after a savepoint of this transaction. It stays, and can be gone back to again.
    pub fn rollback_to(&mut self, savepoint: &SavedChanges) {
        let SavedChanges { catalog, changes, index_rules } = savepoint.clone();
        (self.catalog, self.changes, self.index_rules) = (catalog, changes, index_rules);
        self.changes();
    }
}
