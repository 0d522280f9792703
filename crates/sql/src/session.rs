//! A session: its settings, its transaction, and the planning of statements.
//!
//! ```text
//!   script ─► statements ─► one snapshot each ─► SELECT: a stream of rows, read as it is taken
//!                                            └─► change: the open transaction, or one of its own that is committed
//!                                                before the result
//! ```
//!
//! Invariants: each statement sees one snapshot, including the reads of a change; a statement that fails changes
//! nothing, and the open transaction can then only be rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::config::ConfigOptions;
use datafusion::execution::context::{SQLOptions, SessionState};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{SendableRecordBatchStream, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement as Parsed;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use lode_engine::{
    Changes, ClockReading, Database, ModelledTime, Snapshot, SyncEvery, Table, ViewDef, ViewRead,
};
use parking_lot::{Mutex, RwLock};

use crate::catalog::CatalogAt;
use crate::config::configure;
use crate::functional_dependencies::RelationsInFrom;
use crate::kept::Kept;
use crate::logical_rules::logical_rules;
use crate::modelled::ChargeHost;
use crate::names::{CATALOG, SCHEMA};
use crate::namespaces::NameSpaces;
use crate::note_shape::NoteShape;
use crate::numbers::SequenceSession;
use crate::options::{CommitDurability, LodeOptions, ShortSettings};
use crate::physical_rules::physical_rules;
use crate::statement::{StatementResult, check_names};
use crate::threads::blocking;
use crate::transaction::{TransactionStatus, Transactions};
use crate::{Offload, QueryCounts, SqlError, StatementCounts, TableReads, numbers, semantics};

/// How a session starts; `SET` changes most of it later.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The most partitions of a query: the number of threads that it keeps busy.
    pub target_partitions: usize,
    /// How deep scans go into the drive.
    pub offload: Offload,
    /// Whether short statements and COMMIT may block the thread that polls them. It saves two switches of threads a
    /// commit. Set it only where that thread has no other session to run: it may have to wait for one.
    pub may_block: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            target_partitions: std::thread::available_parallelism().map_or(1, usize::from),
            offload: Offload::default(),
            may_block: false,
        }
    }
}

/// Opens a view for a session, at a snapshot.
pub(crate) type OpenViewOf =
    fn(Session, Snapshot, ViewDef) -> BoxFuture<'static, Result<Arc<dyn TableProvider>, SqlError>>;

/// A session on a database. A clone is the same session. Several statements may run at the same time, but only one
/// writer.
#[derive(Clone)]
pub struct Session {
    db: Database,
    state: Arc<RwLock<SessionState>>,
    initial: Arc<ConfigOptions>,
    counts: Arc<Mutex<Arc<StatementCounts>>>,
    /// With a modelled device: when the last statement began.
    begun: Arc<Mutex<Option<ClockReading>>>,
    transactions: Transactions,
    namespaces: NameSpaces,
    open_view: OpenViewOf,
    /// Tables of the statement itself, in a clone that runs a part of it.
    tables: Arc<Vec<(String, Arc<dyn TableProvider>)>>,
    kept: Kept,
    /// Counts changes of settings.
    settings: Arc<AtomicU64>,
    /// With `lode.durability = group(..)`: makes the database sync that often.
    syncs: Arc<Mutex<Option<SyncEvery>>>,
    /// Whether its statements exclude the commits of others: set in the clone that runs a statement for the last
    /// time.
    alone: bool,
    may_block: bool,
}

impl Session {
    pub(crate) fn new(
        db: Database,
        runtime: Arc<RuntimeEnv>,
        options: &SessionOptions,
        open_view: OpenViewOf,
    ) -> Result<Self, SqlError> {
        let host = db.host().cloned();
        let (target_partitions, profile) = match &host {
            Some(host) => (1, host.profile().name.clone()),
            None => (options.target_partitions.max(1), "none".to_owned()),
        };
        let mut config = configure(SessionConfig::new(), runtime.memory_pool.memory_limit())
            .with_target_partitions(target_partitions)
            // Rows of a source that has one part keep their order, as those of generate_series.
            .with_round_robin_repartition(false)
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_option_extension(LodeOptions {
                offload: options.offload,
                profile,
                // The modelled time of a statement is that of the general path, unless the session asks for another.
                short_statements: host.is_none(),
                ..LodeOptions::default()
            });
        let sql = &mut config.options_mut().sql_parser;
        // 0.05 is a decimal, as in the standard, so that comparisons with DECIMAL columns are exact.
        sql.parse_float_as_decimal = true;
        // Needed for errors that name their line and column.
        sql.collect_spans = true;
        let initial = config.options().clone();
        let charges = host.map(ChargeHost);
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .with_analyzer_rules(analyzer_rules())
            .with_optimizer_rules(logical_rules())
            .with_physical_optimizer_rules(physical_rules(charges.map(|rule| Arc::new(rule) as _)))
            .build();
        state.register_relation_planner(Arc::new(RelationsInFrom))?;
        semantics::register(&mut state)?;
        let (kept, namespaces) = (Kept::default(), NameSpaces::default());
        numbers::register(&mut state, &db, &kept.of(), &namespaces)?;
        Ok(Self {
            db,
            state: Arc::new(RwLock::new(state)),
            initial,
            counts: Arc::default(),
            begun: Arc::default(),
            transactions: Transactions::default(),
            namespaces,
            open_view,
            tables: Arc::default(),
            kept,
            settings: Arc::default(),
            syncs: Arc::default(),
            alone: false,
            may_block: options.may_block,
        })
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// How deep scans go into the drive from the next statement on.
    pub fn offload(&self) -> Offload {
        LodeOptions::of(self.state.read().config_options()).offload
    }

    /// `SET lode.offload`.
    pub fn set_offload(&self, offload: Offload) {
        self.with_config(|c| {
            let options = LodeOptions { offload, ..LodeOptions::of(c) };
            c.extensions.insert(options);
        });
    }

    /// `SET lode.short_statements`.
    pub fn set_short_statements(&self, short_statements: bool) {
        self.with_config(|c| {
            let options = LodeOptions { short_statements, ..LodeOptions::of(c) };
            c.extensions.insert(options);
        });
    }

    /// When the session's commits are durable.
    pub fn durability(&self) -> CommitDurability {
        LodeOptions::of(self.state.read().config_options()).durability
    }

    /// Where changes of few rows go in tables whose CREATE TABLE does not say.
    pub(crate) fn default_changes(&self) -> Changes {
        LodeOptions::of(self.state.read().config_options()).default_changes
    }

    /// Applies a change of `lode.durability`.
    pub(crate) fn durability_set(&self) {
        let syncs = match self.durability() {
            CommitDurability::Group(ms) => Some(self.db.sync_every(ms)),
            CommitDurability::Commit | CommitDurability::None => None,
        };
        *self.syncs.lock() = syncs;
    }

    /// The counts of the last statement's scans so far. They are complete once its rows are taken.
    pub fn last_counts(&self) -> QueryCounts {
        self.counts.lock().get()
    }

    /// What the last statement's scans read of each table through the buffer pool so far.
    pub fn last_reads(&self) -> Vec<TableReads> {
        self.counts.lock().reads()
    }

    /// With a modelled device: the modelled time of the last statement so far, and its parts. It is complete once the
    /// rows are taken.
    pub fn last_modelled(&self) -> Option<ModelledTime> {
        let (host, begun) = (self.db.host()?, (*self.begun.lock())?);
        Some(host.since(&begun))
    }

    /// DataFusion's state without tables, for expressions.
    pub(crate) fn state(&self) -> SessionState {
        self.state.read().clone()
    }

    pub(crate) fn config(&self) -> Arc<ConfigOptions> {
        self.state.read().config_options().clone()
    }

    pub(crate) fn initial_config(&self) -> &ConfigOptions {
        &self.initial
    }

    pub(crate) fn with_config<T>(&self, change: impl FnOnce(&mut ConfigOptions) -> T) -> T {
        let changed = change(self.state.write().config_mut().options_mut());
        self.settings.fetch_add(1, Ordering::Relaxed);
        changed
    }

    /// What of the settings concerns short statements.
    pub(crate) fn short_settings(&self) -> ShortSettings {
        let state = self.state.read();
        match state.config_options().extensions.get::<LodeOptions>() {
            // A short statement takes the way of its key, whatever path is asked for.
            Some(options) => ShortSettings {
                on: options.short_statements && options.index.is_auto(),
                bulk_rows: options.bulk_rows,
            },
            None => ShortSettings { on: false, bulk_rows: 0 },
        }
    }

    /// Where its names lead.
    pub(crate) fn namespaces(&self) -> &NameSpaces {
        &self.namespaces
    }

    /// Notes that names may lead elsewhere from now on.
    pub(crate) fn names_changed(&self) {
        self.settings.fetch_add(1, Ordering::Relaxed);
    }

    /// What other parts keep in the session.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// How often settings were changed.
    pub(crate) fn settings_changes(&self) -> u64 {
        self.settings.load(Ordering::Relaxed)
    }

    /// The counts of the statement that runs.
    pub(crate) fn statement_counts(&self) -> Arc<StatementCounts> {
        self.counts.lock().clone()
    }

    /// DataFusion's state for one statement at `snapshot`. `target` is the table that the statement changes, if any.
    pub(crate) fn state_at(&self, snapshot: Snapshot, target: Option<Arc<Table>>) -> SessionState {
        self.state_with(snapshot, target, Vec::new())
    }

    /// The same, with tables of the statement itself.
    pub(crate) fn state_with(
        &self,
        snapshot: Snapshot,
        target: Option<Arc<Table>>,
        own: Vec<(String, Arc<dyn TableProvider>)>,
    ) -> SessionState {
        self.kept.of::<SequenceSession>().sees(snapshot.all_objects());
        let own = own.into_iter().chain(self.tables.iter().cloned()).collect();
        let mut catalog = self.catalog_at(snapshot).with_own(own);
        if let Some(table) = target {
            catalog = catalog.with_target(table);
        }
        self.state_over(catalog)
    }

    /// DataFusion's state for the query of a view, which reads these relations.
    pub(crate) fn state_of_view(&self, snapshot: Snapshot, reads: Vec<ViewRead>) -> SessionState {
        self.state_over(self.catalog_at(snapshot).with_reads(reads))
    }

    fn catalog_at(&self, snapshot: Snapshot) -> CatalogAt {
        let session = self.clone();
        let open = Arc::new(move |snapshot, view| (session.open_view)(session.clone(), snapshot, view));
        let keeps_filters = LodeOptions::of(&self.config()).may_filter_early();
        CatalogAt::new(snapshot, self.offload(), self.counts.lock().clone(), open)
            .keeping_filters(keeps_filters)
    }

    fn state_over(&self, catalog: CatalogAt) -> SessionState {
        let mut state = self.state.read().clone();
        state.register_catalog_list(Arc::new(catalog));
        state.mark_start_execution();
        state.execution_props_mut().query_execution_start_time = Some(self.moment());
        state
    }

    pub(crate) fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// Resets the counts and the modelled time for a new statement.
    pub(crate) fn begin_counts(&self) {
        *self.counts.lock() = Arc::default();
        if let Some(host) = self.db.host() {
            host.set_depth(LodeOptions::of(&self.config()).queue_depth);
            *self.begun.lock() = Some(host.read());
        }
    }

    /// The same session, whose statements exclude the commits of others.
    pub(crate) fn alone(&self) -> Self {
        Self { alone: true, ..self.clone() }
    }

    /// The same session with a transaction of its own, which none of its other statements sees.
    pub(crate) fn with_own_transaction(&self) -> Self {
        Self { transactions: Transactions::default(), ..self.clone() }
    }

    /// The same session, which also sees these tables.
    pub(crate) fn with_tables(&self, tables: Vec<(String, Arc<dyn TableProvider>)>) -> Self {
        Self { tables: Arc::new(tables), ..self.clone() }
    }

    /// Whether its statements exclude the commits of others.
    pub(crate) fn commits_alone(&self) -> bool {
        self.alone
    }

    /// Runs brief `work`, which may wait for the drive or for another writer.
    pub(crate) async fn brief<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        if self.may_block { work() } else { blocking(work).await }
    }

    /// Plans a statement that only reads, and starts it.
    pub(crate) async fn query(&self, statement: Parsed) -> Result<StatementResult, SqlError> {
        let state = self.state_at(self.snapshot().await?, None);
        let plan = plan(&state, statement).await?;
        let (schema, stream) = start(&state, &plan).await?;
        Ok(self.watched(schema, stream))
    }

    /// The answer of a query. An error in an open transaction makes it fail.
    pub(crate) fn watched(&self, schema: SchemaRef, stream: SendableRecordBatchStream) -> StatementResult {
        if self.transactions.status() == TransactionStatus::Idle {
            return StatementResult::Rows { schema, stream };
        }
        let of = self.transactions.clone();
        let watched = stream.inspect_err(move |_| of.fail());
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), watched));
        StatementResult::Rows { schema, stream }
    }
}

/// Plans a statement. Unknown tables and functions are errors of their own.
pub(crate) async fn plan(state: &SessionState, statement: Parsed) -> Result<LogicalPlan, SqlError> {
    check_names(state, &statement)?;
    Ok(state.statement_to_plan(statement).await?)
}

/// Starts a plan that only reads.
pub(crate) async fn start(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<(SchemaRef, SendableRecordBatchStream), SqlError> {
    check_reads(plan)?;
    let physical = state.create_physical_plan(plan).await?;
    let stream = execute_stream(physical, state.task_ctx())?;
    Ok((stream.schema(), stream))
}

/// Checks that a plan only reads. Statements that change something take another way; this makes sure.
pub(crate) fn check_reads(plan: &LogicalPlan) -> Result<(), SqlError> {
    if let LogicalPlan::Ddl(_) = plan {
        return Err(SqlError::Unsupported("SELECT INTO: use CREATE TABLE ... AS SELECT".into()));
    }
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(plan)?;
    Ok(())
}

/// The analyzer's rules. The first sees a query as it was written.
fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = semantics::analyzer_rules();
    rules.insert(0, Arc::new(NoteShape));
    rules
}
