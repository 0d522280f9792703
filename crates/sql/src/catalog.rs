//! The catalog as one snapshot shows it: every scan that a statement plans comes from here, so two scans of one
//! table never differ.
//!
//! ```text
//!   lode . public . table ─► LodeTable(snapshot)
//!                 . __lode_target ─► the table that a DELETE or UPDATE changes, with its row identities
//! ```

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::DataFusionError;
use lode_engine::{Snapshot, Table};

use crate::names::{CATALOG, SCHEMA, TARGET};
use crate::provider::LodeTable;
use crate::{Offload, StatementCounts};

/// The tables of one snapshot. Catalog list, catalog and schema in one.
#[derive(Clone)]
pub(crate) struct CatalogAt {
    snapshot: Snapshot,
    offload: Offload,
    counts: Arc<StatementCounts>,
    target: Option<Arc<Table>>,
    /// Tables of the statement itself, by name.
    own: Vec<(String, Arc<dyn TableProvider>)>,
}

impl CatalogAt {
    /// The catalog at `snapshot`; what its scans take is added to `counts`.
    pub(crate) fn new(snapshot: Snapshot, offload: Offload, counts: Arc<StatementCounts>) -> Self {
        Self { snapshot, offload, counts, target: None, own: Vec::new() }
    }

    /// The same with `table` under the name [`TARGET`] as well, showing its row identities.
    pub(crate) fn with_target(self, table: Arc<Table>) -> Self {
        Self { target: Some(table), ..self }
    }

    /// The same with tables of the statement itself.
    pub(crate) fn with_own(self, own: Vec<(String, Arc<dyn TableProvider>)>) -> Self {
        Self { own, ..self }
    }

    fn own(&self, name: &str) -> Option<&Arc<dyn TableProvider>> {
        self.own.iter().find(|(own, _)| own == name).map(|(_, table)| table)
    }

    fn provider(&self, table: Arc<Table>) -> LodeTable {
        LodeTable::new(self.snapshot.clone(), table, self.offload, self.counts.clone())
    }
}

impl std::fmt::Debug for CatalogAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CatalogAt({:?})", self.snapshot.commit())
    }
}

impl CatalogProviderList for CatalogAt {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::new(self.clone()) as _)
    }
}

impl CatalogProvider for CatalogAt {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == SCHEMA).then(|| Arc::new(self.clone()) as _)
    }
}

#[async_trait]
impl SchemaProvider for CatalogAt {
    fn table_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.snapshot.tables().map(|t| t.def().name.clone()).collect();
        names.sort_unstable();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let (TARGET, Some(target)) = (name, &self.target) {
            return Ok(Some(Arc::new(self.provider(target.clone()).with_row_identity())));
        }
        if let Some(own) = self.own(name) {
            return Ok(Some(own.clone()));
        }
        Ok(self.snapshot.table(name).map(|t| Arc::new(self.provider(t)) as _))
    }

    fn table_exist(&self, name: &str) -> bool {
        name == TARGET && self.target.is_some()
            || self.own(name).is_some()
            || self.snapshot.table(name).is_some()
    }
}
