//! lineitem on the modelled drive, in order of l_shipdate, which is its primary key in the paper.

use datafusion::arrow::array::{Array, Date32Array};
use datafusion::error::DataFusionError;
use lode_base::{Profile, Split, VirtualDuration};
use lode_engine::{Database, DatabaseOptions};
use lode_sql::{Offload, QueryCounts, Session};
use tokio::runtime::Runtime;

use crate::BenchError;
use crate::modelled::{ModelledDrive, one_thread};
use crate::paper::run::Run;
use crate::paper::scales::{self, AtScale};
use crate::tpch::Scale;
use crate::tpch::data::generate;
use crate::tpch::schema::TABLES;

/// The scale of the paper.
const PAPER_SCALE: f64 = 10.0;
/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 16_384;
/// The host's buffer pool, which is emptied before each statement.
const POOL_BYTES: usize = 64 << 20;
/// Its table.
pub(super) const TABLE: &str = "lineitem";

/// What a statement took.
#[derive(Clone, Debug)]
pub(super) struct Took {
    pub(super) time: VirtualDuration,
    pub(super) split: Split,
    pub(super) counts: QueryCounts,
    /// Pages that the host or the drive read.
    pub(super) pages_read: u64,
}

/// A database on the modelled drive, with lineitem.
pub(super) struct Rig {
    runtime: Runtime,
    database: Database,
    session: Session,
    /// How many rows were shipped on each day, by day since 1970.
    shipped: Vec<(i32, u64)>,
}

impl AtScale for Rig {
    const QUICK_SCALE: f64 = 0.02;

    fn at(profile: &Profile, scale: f64) -> Result<Self, BenchError> {
        let scale = Scale::new(scale).expect("a possible scale");
        let mut profile = profile.clone();
        // As much of the data as at the paper's scale, and a page at least.
        let buffer_kb = f64::from(profile.dram.buffer_kb) * scale.factor() / PAPER_SCALE;
        profile.dram.buffer_kb = (buffer_kb as u32).max((PAGE_BYTES / 1024) as u32);
        let on = ModelledDrive::new(&profile)?;
        let runtime = one_thread()?;
        let options = DatabaseOptions { pool_bytes: POOL_BYTES, ..DatabaseOptions::default() };
        let (database, session) = on.open(options)?;
        let of_tpch = TABLES.iter().find(|t| t.name == TABLE).expect("a table of TPC-H");
        let options = format!(
            "WITH (layout = 'row', page_bytes = {PAGE_BYTES}, encoding = 'plain', page_index = 'l_shipdate', \
             cluster_by = 'l_shipdate')"
        );
        let mut shipped = std::collections::BTreeMap::new();
        let loaded = runtime.block_on(async {
            session.execute(&of_tpch.create_as(TABLE, &options)).await?;
            let batches = generate(TABLE, scale).map(|b| {
                let batch = b.map_err(DataFusionError::from)?;
                let dates = batch.column_by_name("l_shipdate").expect("a column of lineitem");
                let dates = dates.as_any().downcast_ref::<Date32Array>().expect("dates");
                (0..dates.len()).for_each(|row| *shipped.entry(dates.value(row)).or_default() += 1);
                Ok(batch)
            });
            session.load_batches(TABLE, futures::stream::iter(batches.collect::<Vec<_>>())).await?;
            session.execute("CREATE INDEX by_shipdate ON lineitem (l_shipdate)").await
        });
        loaded.map_err(|e| BenchError::sql("loading lineitem", e))?;
        Ok(Self { runtime, database, session, shipped: shipped.into_iter().collect() })
    }
}

impl Rig {
    /// The rig that all figures share, at the scale at which they run now.
    pub(super) fn of<'a>(run: &'a mut Run<'_>) -> Result<&'a mut Self, BenchError> {
        scales::rig(run)
    }

    /// Rows before the days from `first` on, and within the `days` days from there; all rows.
    pub(super) fn rows(&self, first: i32, days: i32) -> (u64, u64, u64) {
        let sum =
            |of: &dyn Fn(i32) -> bool| self.shipped.iter().filter(|(d, _)| of(*d)).map(|(_, n)| n).sum();
        (sum(&|d| d < first), sum(&|d| d >= first && d < first + days), sum(&|_| true))
    }

    /// Runs a SELECT by an access path at a level, from an empty buffer pool. The page buffer of the device has the end of the table.
    pub(super) fn run(&self, sql: &str, path: &str, level: Offload) -> Result<Took, BenchError> {
        self.collect(&format!("SELECT max(l_tax) FROM {TABLE}"), "none", Offload::Off)?;
        self.collect(sql, path, level)?;
        let modelled = self.session.last_modelled().expect("the device is modelled");
        let counts = self.session.last_counts();
        // At a level at which the host filters, a page that is not left out is named by the drive, and read by the host.
        let pages_read = counts.pages - counts.pages_skipped;
        Ok(Took { time: modelled.total, split: modelled.split, counts, pages_read })
    }

    fn collect(&self, sql: &str, path: &str, level: Offload) -> Result<(), BenchError> {
        self.database.clear_pool();
        self.session.set_offload(level);
        let set = format!("SET lode.index = {path}");
        self.runtime.block_on(self.session.execute(&set)).map_err(|e| BenchError::sql(&set, e))?;
        self.runtime.block_on(self.session.collect(sql)).map_err(|e| BenchError::sql(sql, e)).map(drop)
    }
}
