//! Tables of one snapshot, as DataFusion plans over them: which filters a scan takes, and the scan.
//!
//! ```text
//!   filter ─► translates? ─┬─ no ──────────────────► stays in the plan
//!                          └─ yes ─┬─ rows, aggregate, auto ─► leaves the plan: the scan filters exactly
//!                                  └─ index, pages ──────────► stays, and tells the drive which pages to skip
//!   filters that the scan is given ─► Access (scan/access.rs) ─► ScanSpec ─► LodeScanExec
//! ```

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use lode_base::VirtualDuration;
use lode_engine::{Deferral, Snapshot, Table};

use crate::arrow_convert::arrow_type;
use crate::hidden_columns::HiddenValues;
use crate::options::{JoinBy, LodeOptions, Planner};
use crate::scan::{Access, FilterOver, LodeScanExec, ScanSpec, Trees, engine_error, estimate};
use crate::translate::{lower, translate_filter};
use crate::{Offload, StatementCounts};

/// The hidden column that addresses a row at its snapshot: what DELETE and UPDATE change.
pub const ROW_IDENTITY: &str = "__lode_row";

/// A table at one snapshot.
pub struct LodeTable {
    snapshot: Snapshot,
    table: Arc<Table>,
    offload: Offload,
    counts: Arc<StatementCounts>,
    schema: SchemaRef,
    /// The table's column of each field.
    columns: Vec<u16>,
    constraints: Constraints,
    hidden: OnceLock<HiddenValues>,
    /// Whether scans are told of filters that the host evaluates.
    keeps_filters: bool,
}

impl LodeTable {
    /// `table` as `snapshot` shows it; what its scans take is added to `counts`.
    pub fn new(
        snapshot: Snapshot,
        table: Arc<Table>,
        offload: Offload,
        counts: Arc<StatementCounts>,
    ) -> Self {
        let columns: Vec<u16> = table.def().live_columns().collect();
        let field = |c: &u16| {
            let c = &table.def().columns[usize::from(*c)];
            Field::new(&c.name, arrow_type(c.ty.data_type), c.ty.nullable)
        };
        let fields: Vec<Field> = columns.iter().map(field).collect();
        let place = |key: &u16| columns.iter().position(|c| c == key);
        let key: Vec<usize> = table.def().primary_key.iter().filter_map(place).collect();
        // A transaction may have a key twice whose check waits for its commit. Then no column follows from the key.
        let is_known = !key.is_empty() && table.def().primary_key_deferral == Deferral::None;
        let keys = if is_known { vec![Constraint::PrimaryKey(key)] } else { vec![] };
        let constraints = Constraints::new_unverified(keys);
        let schema = Arc::new(Schema::new(fields));
        let hidden = OnceLock::new();
        Self { snapshot, table, offload, counts, schema, columns, constraints, hidden, keeps_filters: false }
    }

    /// The same, whose scans are told of filters that the host evaluates, if `keeps_filters`.
    pub(crate) fn keeping_filters(self, keeps_filters: bool) -> Self {
        Self { keeps_filters, ..self }
    }

    /// The name of the table.
    pub(crate) fn name(&self) -> &str {
        self.table.name()
    }

    /// The counts of the statement that reads it.
    pub(crate) fn counts(&self) -> &Arc<StatementCounts> {
        &self.counts
    }

    /// All columns that the engine has, also dropped and hidden ones, each under its number as a name.
    pub(crate) fn of_engine(snapshot: Snapshot, table: Arc<Table>, counts: Arc<StatementCounts>) -> Self {
        let types = table.def().columns.iter().map(|c| arrow_type(c.ty.data_type));
        let fields = types.enumerate().map(|(number, t)| Field::new(number.to_string(), t, true));
        let (schema, columns) =
            (Schema::new(fields.collect::<Vec<_>>()), (0..table.def().columns.len() as u16).collect());
        Self {
            schema: Arc::new(schema),
            columns,
            constraints: Constraints::default(),
            hidden: OnceLock::new(),
            ..Self::new(snapshot, table, Offload::default(), counts)
        }
    }

    /// The same with these columns alone, by number, under these names. What is no column any more is left out.
    #[must_use]
    pub fn with_columns(self, columns: &[(u16, String)]) -> Self {
        let known = |(number, name): &(u16, String)| {
            let place = self.columns.iter().position(|c| c == number)?;
            Some((*number, self.schema.field(place).clone().with_name(name)))
        };
        let (columns, fields): (Vec<u16>, Vec<Field>) = columns.iter().filter_map(known).unzip();
        let (schema, constraints) = (Arc::new(Schema::new(fields)), Constraints::default());
        Self { schema, columns, constraints, hidden: OnceLock::new(), ..self }
    }

    /// The same with [`ROW_IDENTITY`] as a last column.
    #[must_use]
    pub fn with_row_identity(self) -> Self {
        let mut fields: Vec<_> = self.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(ROW_IDENTITY, DataType::UInt64, false)));
        Self { schema: Arc::new(Schema::new(fields)), ..self }
    }

    /// The hidden columns of its indexes.
    fn hidden(&self) -> &HiddenValues {
        self.hidden.get_or_init(|| HiddenValues::of(self.table.def(), &self.columns, &self.schema))
    }

    fn translates(&self, filter: &Expr) -> bool {
        let (schema, fields) = (self.table.schema(), self.schema.fields().len());
        let values = self.hidden().expressions();
        lower(&self.schema, filter)
            .and_then(|f| translate_filter(schema, &self.columns, fields, &f, values))
            .is_some()
    }

    /// For each column of a projection the stored column; `None` for the row identity.
    fn stored_columns(&self, projection: &[usize]) -> Vec<Option<u16>> {
        projection.iter().map(|&i| self.columns.get(i).copied()).collect()
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
            Offload::Off if !self.keeps_filters => TableProviderFilterPushDown::Unsupported,
            Offload::Off | Offload::Index | Offload::Matches | Offload::Hints | Offload::Pages => {
                TableProviderFilterPushDown::Inexact
            }
            Offload::Rows | Offload::Aggregate | Offload::Auto => TableProviderFilterPushDown::Exact,
        };
        let support = |f: &&Expr| match translates {
            TableProviderFilterPushDown::Unsupported => TableProviderFilterPushDown::Unsupported,
            _ if self.translates(f) => translates.clone(),
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
        let (snapshot, table) = (&self.snapshot, &self.table);
        let of = FilterOver { schema: &self.schema, stored: &self.columns, hidden: self.hidden() };
        let options = LodeOptions::of(state.config_options());
        let few = table.pages() * u64::from(options.index_percent) / 100;
        let index_pages_max = options.index.tree_pages_max(few);
        let trees = Trees { path: options.index, few };
        let access = Access::of(snapshot, table, of, self.offload, filters, trees, &self.counts)?;
        let spec = ScanSpec {
            snapshot: snapshot.clone(),
            table: table.clone(),
            offload: self.offload,
            prefetch: options.prefetch,
            samples_in_host: options.planner == Planner::Cost && options.join == JoinBy::Hash,
            counts: self.counts.clone(),
            path: options.index,
            index_pages_max,
            later: VirtualDuration::ZERO,
            output: self.stored_columns(projection),
            schema: Arc::new(self.schema.project(projection)?),
            selectivity: access.selectivity,
            sample: access.sample,
            index: access.index(),
            filter: access.filter,
            implied: access.implied,
            filter_text: access.filter_text,
            ordered: None,
            groups: None,
            early: None,
        };
        let known = snapshot.statistics(table).map_err(engine_error)?;
        let statistics = estimate::statistics(&spec, &known);
        let pages = access.pages.dealt(snapshot, table, known.rows, state.config());
        Ok(Arc::new(LodeScanExec::new(Arc::new(spec), pages, statistics, limit)))
    }
}
