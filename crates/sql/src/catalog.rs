//! The catalog as one snapshot shows it: every scan that a statement plans comes from here, so two scans of one
//! table never differ.
//!
//! ```text
//!   lode . schema . table ─► LodeTable(snapshot)
//!                 . view  ─► the plan of its query, over the relations and columns that it knows
//!        . public . __lode_target ─► the table that a DELETE or UPDATE changes, with its row identities
//! ```

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Column as ColumnName;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use futures::future::BoxFuture;
use lode_engine::{Object, ObjectKind, Relation, Snapshot, Table, ViewDef, ViewRead};

use crate::names::{CATALOG, SCHEMA, TARGET, in_schema, split};
use crate::provider::LodeTable;
use crate::{Offload, SqlError, StatementCounts};

/// Opens a view at a snapshot.
pub(crate) type OpenView = Arc<
    dyn Fn(Snapshot, ViewDef) -> BoxFuture<'static, Result<Arc<dyn TableProvider>, SqlError>> + Send + Sync,
>;

/// The relations of one snapshot. Catalog list, catalog and schema in one.
#[derive(Clone)]
pub(crate) struct CatalogAt {
    /// The schema that it is.
    schema: String,
    snapshot: Snapshot,
    offload: Offload,
    counts: Arc<StatementCounts>,
    target: Option<Arc<Table>>,
    /// Tables of the statement itself, by name.
    own: Vec<(String, Arc<dyn TableProvider>)>,
    open_view: OpenView,
    /// Whether scans are told of filters that the host evaluates.
    keeps_filters: bool,
    /// Within a view, what it reads: it sees nothing else.
    reads: Option<Arc<Vec<ViewRead>>>,
}

impl CatalogAt {
    /// The catalog at `snapshot`; what its scans take is added to `counts`.
    pub(crate) fn new(
        snapshot: Snapshot,
        offload: Offload,
        counts: Arc<StatementCounts>,
        open_view: OpenView,
    ) -> Self {
        let schema = SCHEMA.to_owned();
        Self {
            schema,
            snapshot,
            offload,
            counts,
            target: None,
            own: Vec::new(),
            open_view,
            keeps_filters: false,
            reads: None,
        }
    }

    /// The same, whose scans are told of filters that the host evaluates, if `keeps_filters`.
    pub(crate) fn keeping_filters(self, keeps_filters: bool) -> Self {
        Self { keeps_filters, ..self }
    }

    /// The same as a view sees it, which reads these relations.
    pub(crate) fn with_reads(self, reads: Vec<ViewRead>) -> Self {
        Self { reads: Some(Arc::new(reads)), ..self }
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
        let table = LodeTable::new(self.snapshot.clone(), table, self.offload, self.counts.clone());
        table.keeping_filters(self.keeps_filters)
    }

    /// The relation of a name of the engine.
    async fn relation(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        if let Some(reads) = &self.reads {
            return match reads.iter().find(|read| read.name == name) {
                Some(read) => self.read(read).await,
                None => Ok(None),
            };
        }
        if let Some(table) = self.snapshot.table(name) {
            return Ok(Some(Arc::new(self.provider(table))));
        }
        match self.snapshot.object(ObjectKind::View, name) {
            Some(Object::View(view)) => {
                Ok(Some((self.open_view)(self.snapshot.clone(), view.clone()).await?))
            }
            _ => Ok(None),
        }
    }

    /// A relation that a view reads, with the columns that it knows, under their names there.
    async fn read(&self, read: &ViewRead) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        match read.relation {
            Relation::Table(id) => {
                let Some(table) = self.snapshot.tables().find(|t| t.id().raw() == id) else {
                    return Ok(None);
                };
                Ok(Some(Arc::new(self.provider(table.clone()).with_columns(&read.columns))))
            }
            Relation::View(id) => {
                let all = self.snapshot.all_objects();
                let Some((_, view)) = all.views().find(|(_, view)| view.id == id) else { return Ok(None) };
                let opened = (self.open_view)(self.snapshot.clone(), view.clone()).await?;
                let Some(plan) = opened.get_logical_plan() else { return Ok(Some(opened.clone())) };
                let plan = LogicalPlanBuilder::from(plan.into_owned());
                let fields: Vec<Expr> =
                    plan.schema().iter().map(|(q, f)| Expr::Column(ColumnName::from((q, f)))).collect();
                let named = read
                    .columns
                    .iter()
                    .filter_map(|(i, name)| Some(fields.get(usize::from(*i))?.clone().alias(name)));
                let plan = plan.project(named.collect::<Vec<_>>())?.build()?;
                Ok(Some(Arc::new(ViewTable::new(plan, None))))
            }
            Relation::Sequence(_) => Ok(None),
        }
    }

    fn has(&self, name: &str) -> bool {
        match &self.reads {
            Some(reads) => reads.iter().any(|read| read.name == name),
            None => {
                self.snapshot.table(name).is_some() || self.snapshot.object(ObjectKind::View, name).is_some()
            }
        }
    }

    /// The names of the engine of all relations that a query can read.
    fn names(&self) -> impl Iterator<Item = &str> {
        let views = self.snapshot.objects(ObjectKind::View).map(|(name, _)| name);
        self.snapshot.tables().map(|t| t.name()).chain(views)
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
        let named = self.snapshot.objects(ObjectKind::Schema).map(|(name, _)| name.to_owned());
        std::iter::once(SCHEMA.to_owned()).chain(named).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        // A schema of temporary relations is no object.
        let is_there = name == SCHEMA
            || self.snapshot.object(ObjectKind::Schema, name).is_some()
            || self.reads.is_some()
            || self.names().any(|n| split(n).0 == name);
        is_there.then(|| Arc::new(Self { schema: name.to_owned(), ..self.clone() }) as _)
    }
}

#[async_trait]
impl SchemaProvider for CatalogAt {
    fn table_names(&self) -> Vec<String> {
        let of_schema = self.names().map(split).filter(|(schema, _)| *schema == self.schema);
        let mut names: Vec<String> = of_schema.map(|(_, name)| name.to_owned()).collect();
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
        self.relation(&in_schema(&self.schema, name)).await.map_err(DataFusionError::from)
    }

    fn table_exist(&self, name: &str) -> bool {
        name == TARGET && self.target.is_some()
            || self.own(name).is_some()
            || self.has(&in_schema(&self.schema, name))
    }
}
