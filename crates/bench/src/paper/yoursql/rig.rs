//! A database on the modelled drive, with tables of TPC-H in pages of several kinds.
//!
//! ```text
//!   table, pages ─► a table of its own (part_4096) ─► statement at a level, from an empty pool ─► Took
//! ```

use std::collections::{HashMap, HashSet};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::DataFusionError;
use lode_base::{EnergyUse, Profile, Split, VirtualDuration};
use lode_engine::{ClockReading, Database, DatabaseOptions};
use lode_sql::{JoinBy, Offload, Planner, QueryCounts, Session, SqlError, TableReads};
use tokio::runtime::Runtime;

use crate::BenchError;
use crate::modelled::{ModelledDrive, one_thread};
use crate::paper::run::Run;
use crate::paper::scales::{self, AtScale};
use crate::tpch::Scale;
use crate::tpch::data::generate;
use crate::tpch::queries::Query;
use crate::tpch::schema::{FOREIGN_KEYS, TABLES, Table};

/// The share of the data that the buffer pool takes, as in section 4.1.3.
const POOL_SHARE: f64 = 0.075;
/// Bytes of a node of an index, as those of InnoDB.
const NODE_BYTES: usize = 16_384;
/// Bytes of TPC-H at scale 1: 1.27 GB in row pages, and 0.32 GB of indexes. The paper has 160 GiB at scale 100.
const BYTES_AT_SCALE_1: f64 = 1.6e9;
/// One byte in so many is of an index.
const INDEX_PART: f64 = 5.0;

/// The pages of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pages {
    /// Row pages of so many bytes. With fields for the matcher, if the database is YourSQL.
    Rows {
        /// Bytes of a page.
        page_bytes: u32,
        /// Whether the pages have fields.
        matchable: bool,
    },
    /// Column pages, encoded.
    Columns,
    /// The same with the page index of a table of Lode: of all columns that have bounds, but for wide text.
    Indexed,
}

impl Pages {
    /// The pages of YourSQL.
    pub(super) const YOURSQL: Self = Self::Rows { page_bytes: 4096, matchable: true };
    /// The pages of MySQL.
    pub(super) const MYSQL: Self = Self::Rows { page_bytes: 16_384, matchable: false };

    /// Bytes of a page; of column pages about so many.
    fn bytes(self) -> u64 {
        match self {
            Self::Rows { page_bytes, .. } => page_bytes.into(),
            Self::Columns | Self::Indexed => 1 << 20,
        }
    }

    /// The name of a table in these pages.
    fn named(self, table: &str) -> String {
        format!("{table}_{}", self.suffix())
    }

    fn suffix(self) -> String {
        match self {
            Self::Rows { page_bytes, matchable: true } => format!("matchable_{page_bytes}"),
            Self::Rows { page_bytes, matchable: false } => page_bytes.to_string(),
            Self::Columns => "columns".into(),
            Self::Indexed => "indexed".into(),
        }
    }

    /// Options of a table. The page index has the key alone, so that it excludes no page for another column, unless it is Lode's.
    fn options(self, of: &Table) -> String {
        let pages = match self {
            Self::Rows { page_bytes, matchable } => {
                let encoding = if matchable { "matchable" } else { "plain" };
                format!("layout = 'row', page_bytes = {page_bytes}, encoding = '{encoding}'")
            }
            Self::Columns | Self::Indexed => "layout = 'column', changes = 'pages'".into(),
        };
        let indexed = if self == Self::Indexed { of.page_index } else { of.first_column() };
        format!("WITH ({pages}, page_index = '{indexed}')")
    }
}

/// The tables of a query, with the names that they have in these pages.
fn in_pages(sql: &str, pages: Pages) -> String {
    let mut named = String::new();
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = sql;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end.max(1).min(rest.len()));
        named.push_str(word);
        if TABLES.iter().any(|t| t.name == word) {
            named.push('_');
            named.push_str(&pages.suffix());
        }
        rest = behind;
    }
    named
}

/// How a query is planned and run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) pages: Pages,
    pub(super) level: Offload,
    /// Whether the host reads ahead.
    pub(super) prefetch: bool,
    pub(super) join: JoinBy,
    pub(super) planner: Planner,
    /// Tables that are joined first, separated by commas.
    pub(super) order: String,
    /// The table that is filtered early, or `auto`.
    pub(super) early: String,
}

/// What a statement took.
#[derive(Clone, Debug)]
pub(super) struct Took {
    /// In modelled time.
    pub(super) time: VirtualDuration,
    /// What the time was spent on. The parts add up to it.
    pub(super) split: Split,
    /// The counts of its scans.
    pub(super) counts: QueryCounts,
    /// Pages of each table that the drive sent to the buffer pool, by its name in TPC-H.
    pub(super) reads: Vec<(&'static str, u64)>,
    /// Reads of nodes of indexes.
    pub(super) node_reads: u64,
    /// Joules of each component.
    pub(super) energy: EnergyUse,
    /// Rows of its answer.
    pub(super) rows: u64,
    /// What device and host took in each stretch of it, in order; empty if the rig does not watch.
    pub(super) stretches: Vec<Stretch>,
}

/// A part of a statement's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) time: VirtualDuration,
    pub(super) joules: f64,
}

impl Took {
    /// Pages that the host read of those that the drive named or flagged.
    pub(super) fn flagged(&self) -> u64 {
        self.counts.pages_read - (self.counts.pages - self.counts.pages_skipped)
    }
}

/// A database on the modelled drive.
pub(super) struct Rig {
    runtime: Runtime,
    on: ModelledDrive,
    /// `None` only while it is opened anew.
    open: Option<Open>,
    scale: Scale,
    /// Rows of the tables that were loaded.
    loaded: HashMap<(&'static str, Pages), u64>,
    /// Pages in which all tables are there, with indexes.
    indexed: HashSet<Pages>,
    /// How often the clock is read while a statement runs; `None`: only before and after it.
    watch: Option<VirtualDuration>,
}

struct Open {
    database: Database,
    session: Session,
}

impl Open {
    /// InnoDB keeps pages of tables and of indexes in one pool. Here each kind has its part.
    fn new(on: &ModelledDrive, pool_bytes: f64) -> Result<Self, BenchError> {
        let frame_bytes = (pool_bytes / INDEX_PART) as usize;
        let options = DatabaseOptions {
            pool_bytes: pool_bytes as usize - frame_bytes,
            frame_bytes,
            node_bytes: NODE_BYTES,
            ..DatabaseOptions::default()
        };
        let (database, session) = on.open(options)?;
        Ok(Self { database, session })
    }
}

fn pool_bytes(scale: Scale) -> f64 {
    BYTES_AT_SCALE_1 * scale.factor() * POOL_SHARE
}

impl AtScale for Rig {
    const QUICK_SCALE: f64 = 0.01;

    fn at(profile: &Profile, scale: f64) -> Result<Self, BenchError> {
        let scale = Scale::new(scale).expect("a possible scale");
        let on = ModelledDrive::new(profile)?;
        let open = Some(Open::new(&on, pool_bytes(scale))?);
        let (loaded, indexed) = (HashMap::new(), HashSet::new());
        Ok(Self { runtime: one_thread()?, on, open, scale, loaded, indexed, watch: None })
    }
}

impl Rig {
    /// The rig that all figures share, at the scale at which they run now.
    pub(super) fn of<'a>(run: &'a mut Run<'_>) -> Result<&'a mut Self, BenchError> {
        scales::rig(run)
    }

    fn open(&self) -> &Open {
        self.open.as_ref().expect("it is open, but while it is opened anew")
    }

    /// The scale of its tables.
    pub(super) fn scale(&self) -> f64 {
        self.scale.factor()
    }

    /// A multiple of it.
    pub(super) fn scaled(&self, times: f64) -> Option<Scale> {
        Scale::new(self.scale() * times)
    }

    /// The name of a table in these pages, and its rows. It is loaded if it is not there.
    pub(super) fn table(&mut self, table: &'static str, pages: Pages) -> Result<(String, u64), BenchError> {
        let name = pages.named(table);
        if let Some(rows) = self.loaded.get(&(table, pages)) {
            return Ok((name, *rows));
        }
        let of_tpch = TABLES.iter().find(|t| t.name == table).expect("a table of TPC-H");
        let create = of_tpch.create_as(&name, &pages.options(of_tpch));
        let (session, scale) = (&self.open().session, self.scale);
        let rows = self.runtime.block_on(async {
            session.execute(&create).await?;
            let batches = generate(table, scale).map(|b| b.map_err(DataFusionError::from));
            session.load_batches(&name, futures::stream::iter(batches)).await
        });
        let rows = rows.map_err(|e| failed(&format!("loading {name}"), e))?;
        self.loaded.insert((table, pages), rows);
        Ok((name, rows))
    }

    /// Creates a table of its own, and loads it.
    pub(super) fn load(
        &self,
        table: &str,
        create: &str,
        batches: Vec<RecordBatch>,
    ) -> Result<(), BenchError> {
        self.execute(create)?;
        let batches = futures::stream::iter(batches.into_iter().map(Ok));
        let loaded = self.runtime.block_on(self.open().session.load_batches(table, batches));
        loaded.map(drop).map_err(|e| failed(&format!("loading {table}"), e))
    }

    /// Runs a SELECT from an empty buffer pool, with or without reads ahead of the host.
    pub(super) fn run(&self, sql: &str, level: Offload, prefetch: bool) -> Result<Took, BenchError> {
        Ok(self.answer(sql, level, prefetch)?.0)
    }

    /// The same with the rows of the answer.
    pub(super) fn answer(
        &self,
        sql: &str,
        level: Offload,
        prefetch: bool,
    ) -> Result<(Took, Vec<RecordBatch>), BenchError> {
        self.open().database.clear_pool();
        self.open().session.set_offload(level);
        self.execute(&format!("SET lode.prefetch = {prefetch}"))?;
        self.took(sql)
    }

    /// Runs a join that looks rows up, those of a batch together, from an empty buffer pool.
    pub(super) fn looked_up(&self, sql: &str) -> Result<(Took, Vec<RecordBatch>), BenchError> {
        self.execute("SET lode.join = nested")?;
        self.execute("SET lode.batched_keys = on")?;
        let took = self.answer(sql, Offload::Off, true);
        self.reset()?;
        took
    }

    /// Runs a statement with what the buffer pool and the session have.
    fn took(&self, sql: &str) -> Result<(Took, Vec<RecordBatch>), BenchError> {
        let misses = self.open().database.tree_stats().misses;
        self.watch.into_iter().for_each(|every| self.on.host().watch(every));
        let batches = self.runtime.block_on(self.open().session.collect(sql)).map_err(|e| failed(sql, e))?;
        let readings = self.on.host().watched();
        let modelled = self.open().session.last_modelled().expect("the device is modelled");
        let rows = batches.iter().map(|b| b.num_rows() as u64).sum();
        let reads = self.open().session.last_reads();
        let of_table = |t: &TableReads| {
            let (table, pages) = self.loaded.keys().find(|(name, pages)| pages.named(name) == t.table)?;
            Some((*table, t.link_bytes_up.div_ceil(pages.bytes())))
        };
        let took = Took {
            time: modelled.total,
            split: modelled.split,
            counts: self.open().session.last_counts(),
            reads: reads.iter().filter_map(of_table).collect(),
            node_reads: self.open().database.tree_stats().misses - misses,
            energy: modelled.energy(self.on.profile()),
            rows,
            stretches: readings.windows(2).map(|pair| self.stretch(pair)).collect(),
        };
        Ok((took, batches))
    }

    fn stretch(&self, readings: &[ClockReading]) -> Stretch {
        let between = readings[1].since(&readings[0]);
        Stretch { time: between.total, joules: between.energy(self.on.profile()).total() }
    }

    /// Reads the clock so often while a statement runs, for the stretches of it.
    pub(super) fn watch(&mut self, every: Option<VirtualDuration>) {
        self.watch = every;
    }

    /// Runs a query of TPC-H, or a part of one, by a plan; from an empty buffer pool, or with what the last statement left there.
    pub(super) fn run_plan(&mut self, sql: &str, plan: &Plan, cold: bool) -> Result<Took, BenchError> {
        self.tables(plan.pages)?;
        if cold {
            self.open().database.clear_pool();
        }
        self.set(plan)?;
        let took = self.took(&in_pages(sql, plan.pages));
        self.reset()?;
        Ok(took?.0)
    }

    /// The lines of the physical plan of a query.
    pub(super) fn explain(&mut self, sql: &str, plan: &Plan) -> Result<Vec<String>, BenchError> {
        self.tables(plan.pages)?;
        self.set(plan)?;
        let sql = format!("EXPLAIN {}", in_pages(sql, plan.pages));
        let batches = self.runtime.block_on(self.open().session.collect(&sql));
        self.reset()?;
        let mut lines = Vec::new();
        for batch in batches.map_err(|e| failed(&sql, e))? {
            for row in 0..batch.num_rows() {
                let text = array_value_to_string(batch.column(1), row);
                let text = text.map_err(|e| failed(&sql, DataFusionError::from(e).into()))?;
                lines.extend(text.lines().filter(|line| line.contains("Exec")).map(str::to_owned));
            }
        }
        Ok(lines)
    }

    fn set(&self, plan: &Plan) -> Result<(), BenchError> {
        self.open().session.set_offload(plan.level);
        let settings = [
            format!("SET lode.prefetch = {}", plan.prefetch),
            format!("SET lode.planner = {}", plan.planner),
            format!("SET lode.join = {}", plan.join),
            "SET lode.batched_keys = off".into(),
            format!("SET lode.join_order = '{}'", in_pages(&plan.order, plan.pages)),
            format!("SET lode.early_filter = '{}'", in_pages(&plan.early, plan.pages)),
        ];
        for setting in &settings {
            self.execute(setting)?;
        }
        Ok(())
    }

    fn reset(&self) -> Result<(), BenchError> {
        for setting in ["planner", "join", "batched_keys", "join_order", "early_filter", "prefetch"] {
            self.execute(&format!("RESET lode.{setting}"))?;
        }
        Ok(())
    }

    /// Runs a statement that answers no rows. Tables have their names in TPC-H.
    pub(super) fn define(&self, sql: &str, pages: Pages) -> Result<(), BenchError> {
        self.execute(&in_pages(sql, pages))
    }

    fn execute(&self, sql: &str) -> Result<(), BenchError> {
        self.runtime.block_on(self.open().session.execute(sql)).map(drop).map_err(|e| failed(sql, e))
    }

    /// Opens the database anew with another buffer pool, as a multiple of the paper's.
    pub(super) fn with_pool(&mut self, times: f64) -> Result<(), BenchError> {
        self.open = None;
        self.open = Some(Open::new(&self.on, pool_bytes(self.scale) * times)?);
        Ok(())
    }

    /// The text of a query at the scale of the tables.
    pub(super) fn text(&self, query: &Query) -> String {
        query.sql(self.scale)
    }

    /// Loads all tables in these pages, with the indexes on foreign keys that MySQL has.
    pub(super) fn tables(&mut self, pages: Pages) -> Result<(), BenchError> {
        if !self.indexed.insert(pages) {
            return Ok(());
        }
        for table in &TABLES {
            self.table(table.name, pages)?;
        }
        if matches!(pages, Pages::Rows { .. }) {
            for (table, columns) in FOREIGN_KEYS {
                self.define(&format!("CREATE INDEX ON {table} ({columns})"), pages)?;
            }
        }
        Ok(())
    }
}

pub(super) fn failed(doing: &str, source: SqlError) -> BenchError {
    BenchError::sql(doing, source)
}
