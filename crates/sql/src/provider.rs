//! Tables of one snapshot, as DataFusion plans over them.
//!
//! ```text
//!   filter ─► translates? ─┬─ no ──────────────────► stays in the plan
//!                          └─ yes ─┬─ rows, aggregate, auto ─► leaves the plan: the scan filters exactly
//!                                  └─ index, pages ──────────► stays, and tells the drive which pages to skip
//!   filter ─► a B+-tree index on its columns? ─► the pages that it names, in the place of all
//! ```

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use lode_engine::{IndexedPages, Snapshot, Table};
use lode_program as program;

use crate::arrow_convert::arrow_type;
use crate::scan::{LodeScanExec, ScanSpec, deal, engine_error, estimate};
use crate::translate::translate_filter;
use crate::{Offload, StatementCounts};

/// The hidden column that addresses a row at its snapshot: what DELETE and UPDATE change.
pub const ROW_IDENTITY: &str = "__lode_row";

/// A B+-tree index is used where it leaves at most one page in so many.
const INDEX_PART_MAX: u64 = 4;
/// Of the rows of a page that an index names, one in so many is taken to pass.
const ROWS_A_PAGE_PASS: u64 = 16;
/// Pages of an index that one thread reads.
const FEW_PAGES_MAX: u64 = 16;

/// A table at one snapshot.
pub struct LodeTable {
    snapshot: Snapshot,
    table: Arc<Table>,
    offload: Offload,
    counts: Arc<StatementCounts>,
    schema: SchemaRef,
    constraints: Constraints,
}

impl LodeTable {
    /// `table` as `snapshot` shows it; what its scans take is added to `counts`.
    pub fn new(
        snapshot: Snapshot,
        table: Arc<Table>,
        offload: Offload,
        counts: Arc<StatementCounts>,
    ) -> Self {
        let columns = table.def().columns.iter();
        let fields: Vec<Field> =
            columns.map(|c| Field::new(&c.name, arrow_type(c.ty.data_type), c.ty.nullable)).collect();
        let key: Vec<usize> = table.def().primary_key.iter().map(|&c| usize::from(c)).collect();
        let keys = if key.is_empty() { vec![] } else { vec![Constraint::PrimaryKey(key)] };
        let constraints = Constraints::new_unverified(keys);
        Self { snapshot, table, offload, counts, schema: Arc::new(Schema::new(fields)), constraints }
    }

    /// The same with [`ROW_IDENTITY`] as a last column.
    #[must_use]
    pub fn with_row_identity(self) -> Self {
        let mut fields: Vec<_> = self.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(ROW_IDENTITY, DataType::UInt64, false)));
        Self { schema: Arc::new(Schema::new(fields)), ..self }
    }

    fn translated(&self, filter: &Expr) -> Option<program::Expr> {
        translate_filter(self.table.schema(), &self.schema, filter)
    }

    /// The filters that the drive is given, as one expression of a program and as EXPLAIN shows them.
    fn pushed(&self, filters: &[Expr]) -> Result<(Option<program::Expr>, String)> {
        let mut terms = Vec::new();
        let mut texts = Vec::new();
        for f in filters {
            match self.translated(f) {
                Some(e) => {
                    terms.push(e);
                    texts.push(f.human_display().to_string());
                }
                // `supports_filters_pushdown` said that the scan applies it, so the plan no longer does.
                None if self.offload.filters_exactly() => {
                    return internal_err!("filter {f} no longer translates");
                }
                None => {}
            }
        }
        let filter = if terms.len() > 1 { Some(program::Expr::And(terms)) } else { terms.pop() };
        Ok((filter, texts.join(" AND ")))
    }

    /// The pages that a B+-tree index names for a filter, where they are few enough.
    fn indexed(&self, filter: Option<&program::Expr>) -> Result<Option<IndexedPages>> {
        let Some(filter) = filter else { return Ok(None) };
        let pages_max = self.table.pages() / INDEX_PART_MAX;
        self.snapshot.index_pages(&self.table, filter, pages_max).map_err(engine_error)
    }

    /// The share of the table's rows that a filter is taken to let through.
    fn selectivity(&self, filter: Option<&program::Expr>, indexed: Option<&IndexedPages>) -> Result<f64> {
        match (filter, indexed) {
            (Some(_), Some(indexed)) => {
                Ok(indexed.count as f64 / (self.table.pages() * ROWS_A_PAGE_PASS).max(1) as f64)
            }
            (Some(f), None) if self.offload.filters_exactly() => {
                estimate::sample(&self.snapshot, &self.table, f, &self.counts)
            }
            _ => Ok(1.0),
        }
    }

    /// For each column of a projection the stored column; `None` for the row identity.
    fn stored_columns(&self, projection: &[usize]) -> Vec<Option<u16>> {
        let stored = self.table.schema().columns.len();
        projection.iter().map(|&i| (i < stored).then_some(i as u16)).collect()
    }
}

impl fmt::Debug for LodeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LodeTable({} at {:?})", self.table.name(), self.snapshot.commit())
    }
}

#[async_trait]
impl TableProvider for LodeTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let translates = match self.offload {
            Offload::Off => TableProviderFilterPushDown::Unsupported,
            Offload::Index | Offload::Pages => TableProviderFilterPushDown::Inexact,
            Offload::Rows | Offload::Aggregate | Offload::Auto => TableProviderFilterPushDown::Exact,
        };
        let support = |f: &&Expr| match translates {
            TableProviderFilterPushDown::Unsupported => TableProviderFilterPushDown::Unsupported,
            _ if self.translated(f).is_some() => translates.clone(),
            _ => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize>;
        let projection = match projection {
            Some(p) => p,
            None => {
                all = (0..self.schema.fields().len()).collect();
                &all
            }
        };
        let (filter, filter_text) = self.pushed(filters)?;
        let indexed = self.indexed(filter.as_ref())?;
        let spec = ScanSpec {
            snapshot: self.snapshot.clone(),
            table: self.table.clone(),
            offload: self.offload,
            counts: self.counts.clone(),
            output: self.stored_columns(projection),
            schema: Arc::new(self.schema.project(projection)?),
            selectivity: self.selectivity(filter.as_ref(), indexed.as_ref())?,
            filter,
            filter_text,
            index: indexed.as_ref().map(|i| (i.index.clone(), i.count)),
            ordered: None,
            groups: None,
        };
        let known = self.snapshot.statistics(&self.table).map_err(engine_error)?;
        let statistics = estimate::statistics(&spec, &known);
        let partitions = partitions(state.config(), known.rows, indexed.as_ref());
        let ranges = indexed.map_or_else(|| self.snapshot.page_ranges(&self.table), |i| i.pages);
        let pages = deal(&ranges, partitions);
        Ok(Arc::new(LodeScanExec::new(Arc::new(spec), pages, statistics, limit)))
    }
}

/// How many threads scan. What fits one batch, or a few pages of an index, is not worth a second.
fn partitions(config: &SessionConfig, rows: u64, indexed: Option<&IndexedPages>) -> usize {
    let few = rows as usize <= config.batch_size() || indexed.is_some_and(|i| i.count <= FEW_PAGES_MAX);
    if few { 1 } else { config.target_partitions() }
}
