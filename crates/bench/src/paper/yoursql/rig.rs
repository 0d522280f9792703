//! A database on the modelled drive, with tables of TPC-H in pages of several kinds.
//!
//! ```text
//!   table, pages ─► a table of its own (part_4096) ─► statement at a level, from an empty pool ─► Took
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use lode_base::{Profile, Split, VirtualDuration};
use lode_engine::{Database, DatabaseOptions, HostClock};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_sql::{Offload, Queries, QueryCounts, Session, SessionOptions, SqlError};
use tokio::runtime::{Builder, Runtime};

use crate::BenchError;
use crate::drive_host::DriveError;
use crate::paper::run::Run;
use crate::tpch::Scale;
use crate::tpch::data::generate;
use crate::tpch::schema::TABLES;

/// The scale of the tables.
const SCALE: f64 = 0.25;
const QUICK_SCALE: f64 = 0.02;
/// The share of the data that the buffer pool takes, as in section 4.1.3.
const POOL_SHARE: f64 = 0.075;
/// Bytes of TPC-H at scale 1 in row pages, roughly.
const BYTES_AT_SCALE_1: f64 = 1.2e9;

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
}

impl Pages {
    /// The pages of YourSQL.
    pub(super) const YOURSQL: Self = Self::Rows { page_bytes: 4096, matchable: true };
    /// The pages of MySQL.
    pub(super) const MYSQL: Self = Self::Rows { page_bytes: 16_384, matchable: false };

    fn suffix(self) -> String {
        match self {
            Self::Rows { page_bytes, matchable: true } => format!("matchable_{page_bytes}"),
            Self::Rows { page_bytes, matchable: false } => page_bytes.to_string(),
            Self::Columns => "columns".into(),
        }
    }

    /// Options of the table. The page index has the key alone, so that it excludes no page for another column.
    fn options(self, key: &str) -> String {
        let pages = match self {
            Self::Rows { page_bytes, matchable } => {
                let encoding = if matchable { "matchable" } else { "plain" };
                format!("layout = 'row', page_bytes = {page_bytes}, encoding = '{encoding}'")
            }
            Self::Columns => "layout = 'column', changes = 'pages'".into(),
        };
        format!("WITH ({pages}, page_index = '{key}')")
    }
}

/// What a statement took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    /// In modelled time.
    pub(super) time: VirtualDuration,
    /// What the time was spent on. The parts add up to it.
    pub(super) split: Split,
    /// The counts of its scans.
    pub(super) counts: QueryCounts,
    /// Rows of its answer.
    pub(super) rows: u64,
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
    database: Database,
    session: Session,
    scale: Scale,
    /// Rows of the tables that were loaded.
    loaded: HashMap<(&'static str, Pages), u64>,
}

impl Rig {
    /// The rig that all figures share.
    pub(super) fn of<'a>(run: &'a mut Run<'_>) -> Result<&'a mut Self, BenchError> {
        run.shared(|run| Self::new(run.profile(), run.quick()))
    }

    fn new(profile: &Profile, quick: bool) -> Result<Self, BenchError> {
        let scale = Scale::new(if quick { QUICK_SCALE } else { SCALE }).expect("a possible scale");
        let model = Arc::new(Model::new(profile.clone()));
        let medium = Medium::memory(profile.geometry).with_model(model.clone());
        let options = DriveOptions { log_copies: 1, ..DriveOptions::default() };
        let drive = Drive::format(medium, options).map_err(DriveError::from)?;
        let meter = model.clone();
        let host = HostClock::new(profile.clone(), model.latest(), Box::new(move || meter.operations()));
        let pool_bytes = (BYTES_AT_SCALE_1 * scale.factor() * POOL_SHARE) as usize;
        let options =
            DatabaseOptions { host: Some(Arc::new(host)), pool_bytes, ..DatabaseOptions::default() };
        let database =
            Database::open(Arc::new(drive), options).map_err(|e| failed("a new drive", e.into()))?;
        let queries = Queries::new(database.clone(), 1 << 30).map_err(|e| failed("a new drive", e))?;
        let session = queries.session(&SessionOptions::default()).map_err(|e| failed("a new session", e))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|source| BenchError::File { path: "a thread".into(), source })?;
        Ok(Self { runtime, database, session, scale, loaded: HashMap::new() })
    }

    /// The scale of its tables.
    pub(super) fn scale(&self) -> f64 {
        self.scale.factor()
    }

    /// The name of a table in these pages, and its rows. It is loaded if it is not there.
    pub(super) fn table(&mut self, table: &'static str, pages: Pages) -> Result<(String, u64), BenchError> {
        let name = format!("{table}_{}", pages.suffix());
        if let Some(rows) = self.loaded.get(&(table, pages)) {
            return Ok((name, *rows));
        }
        let of_tpch = TABLES.iter().find(|t| t.name == table).expect("a table of TPC-H");
        let create = of_tpch.create_as(&name, &pages.options(of_tpch.first_column()));
        let (session, scale) = (&self.session, self.scale);
        let rows = self.runtime.block_on(async {
            session.execute(&create).await?;
            let batches = generate(table, scale).map(|b| b.map_err(DataFusionError::from));
            session.load_batches(&name, futures::stream::iter(batches)).await
        });
        let rows = rows.map_err(|e| failed(&format!("loading {name}"), e))?;
        self.loaded.insert((table, pages), rows);
        Ok((name, rows))
    }

    /// Runs a SELECT from an empty buffer pool, with or without reads ahead of the host.
    pub(super) fn run(&self, sql: &str, level: Offload, prefetch: bool) -> Result<Took, BenchError> {
        self.database.clear_pool();
        self.session.set_offload(level);
        let batches = self.runtime.block_on(async {
            self.session.execute(&format!("SET lode.prefetch = {prefetch}")).await?;
            self.session.collect(sql).await
        });
        let batches = batches.map_err(|e| failed(sql, e))?;
        let modelled = self.session.last_modelled().expect("the device is modelled");
        let rows = batches.iter().map(|b| b.num_rows() as u64).sum();
        Ok(Took { time: modelled.total, split: modelled.split, counts: self.session.last_counts(), rows })
    }
}

fn failed(doing: &str, source: SqlError) -> BenchError {
    BenchError::Sql { doing: doing.into(), source: Box::new(source) }
}
