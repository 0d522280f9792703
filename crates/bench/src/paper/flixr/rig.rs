//! Tables of TPC-H on the modelled drive, in order of the keys that the paper's queries restrict, and statements by each access path.
//!
//! ```text
//!   table, on its first use ─► loaded in order of its key ─► a tree with an entry a row, and one with an entry a page
//!   statement, system ─► from an empty buffer pool, with the nodes that the statements before left ─► Took
//! ```

use std::collections::{BTreeMap, BTreeSet};

use datafusion::arrow::array::{Array, Date32Array};
use datafusion::error::DataFusionError;
use lode_base::{Part, Profile, Split, VirtualDuration};
use lode_engine::{Database, DatabaseOptions, HostClock, ModelledTime};
use lode_firmware::DriveOptions;
use lode_sql::Session;
use tokio::runtime::Runtime;

use super::systems::{NO_INDEX, SYSTEMS, System, TREE_OF_ROWS};
use crate::BenchError;
use crate::modelled::{ModelledDrive, one_thread};
use crate::paper::run::{Run, SizeOption};
use crate::paper::scales::{self, AtScale};
use crate::tpch::Scale;
use crate::tpch::data::generate;
use crate::tpch::schema::TABLES;

/// The scale of the paper.
const PAPER_SCALE: f64 = 10.0;
/// Bytes of a page, and of a node of a tree.
pub(super) const PAGE_BYTES: u64 = 16_384;
/// The host's buffer pool at the scale of the paper, and at least.
const POOL_BYTES: f64 = 64e6;
const POOL_BYTES_MIN: f64 = 1e6;
/// The drive's memory for entries of the page index, if they lie apart from the mapping (section 6.4).
const INDEX_CACHE_BYTES: f64 = (16 << 20) as f64;
/// Entries of the pages of an extent.
const INDEX_CACHE_BYTES_MIN: usize = 64 << 10;
/// Memory for nodes that holds all.
const ALL_NODES_BYTES: usize = 8 << 30;
/// Its main table.
pub(super) const TABLE: &str = "lineitem";

/// The share of a tree's nodes that memory holds, which the paper does not publish.
pub(super) const NODES: SizeOption = SizeOption {
    name: "nodes-percent",
    about: "Share of the nodes of the tree of rows that memory holds, in percent",
    default: 10,
    allowed: 1..=100,
};

/// A table of the rig.
struct Stored {
    name: &'static str,
    of: &'static str,
    /// Its order, and the column of its trees.
    key: &'static str,
    page_index: &'static str,
}

const STORED: [Stored; 4] = [
    Stored { name: "lineitem", of: "lineitem", key: "l_shipdate", page_index: "l_shipdate" },
    Stored {
        name: "lineitem_keys",
        of: "lineitem",
        key: "l_shipdate",
        page_index: "l_shipdate, l_discount, l_quantity, l_orderkey, l_partkey",
    },
    Stored { name: "orders", of: "orders", key: "o_orderdate", page_index: "o_orderdate, o_orderkey" },
    Stored { name: "part", of: "part", key: "p_partkey", page_index: "p_partkey" },
];

/// The order of the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// In order of l_shipdate.
    ByKey,
    /// As the generator makes them: in order of l_orderkey.
    Generated,
}

/// What a statement took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) time: VirtualDuration,
    pub(super) split: Split,
    /// Pages that the host or the drive read.
    pub(super) pages_read: u64,
    /// Nodes of trees that were read.
    pub(super) nodes_read: u64,
    /// Bytes that crossed the link to the host.
    pub(super) link_bytes: u64,
}

impl Took {
    fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.split += other.split;
        self.pages_read += other.pages_read;
        self.nodes_read += other.nodes_read;
        self.link_bytes += other.link_bytes;
    }

    pub(super) fn ms(&self) -> f64 {
        self.time.as_secs_f64() * 1e3
    }

    /// What the time was spent on.
    pub(super) fn spent(&self) -> String {
        let all = self.split.total().as_secs_f64();
        let parts = Part::ALL.map(|p| (p, self.split.of(p).as_secs_f64() / all));
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, part)| *part >= 0.01)
            .map(|(p, part)| format!("{p} {:.0} %", part * 100.0))
            .collect();
        parts.join(", ")
    }
}

/// A database on the modelled drive.
pub(super) struct Rig {
    runtime: Runtime,
    on: ModelledDrive,
    /// `None` only while it is opened anew.
    open: Option<(Database, Session)>,
    scale: Scale,
    loaded: BTreeSet<&'static str>,
    /// How many rows of lineitem were shipped on each day, by day since 1970.
    shipped: Vec<(i32, u64)>,
    /// Bytes of the nodes of the tree of rows of each table.
    tree_bytes: BTreeMap<&'static str, u64>,
    /// The table whose end the page buffer has.
    swept: &'static str,
    /// What Figs 10 and 11 show of the same run.
    pub(super) of_queries: Option<Vec<Vec<Took>>>,
}

impl AtScale for Rig {
    const QUICK_SCALE: f64 = 0.01;

    fn at(profile: &Profile, scale: f64) -> Result<Self, BenchError> {
        Self::with(profile, scale, DriveOptions::default())
    }
}

impl Rig {
    /// The rig that all figures share, at the scale at which they run now.
    pub(super) fn of<'a>(run: &'a mut Run<'_>) -> Result<&'a mut Self, BenchError> {
        scales::rig(run)
    }

    /// A rig whose drive has these options.
    pub(super) fn with(profile: &Profile, scale: f64, drive: DriveOptions) -> Result<Self, BenchError> {
        let mut profile = profile.clone();
        // As much of the data as at the paper's scale, and a page at least.
        let buffer_kb = f64::from(profile.dram.buffer_kb) * scale / PAPER_SCALE;
        profile.dram.buffer_kb = (buffer_kb as u32).max((PAGE_BYTES / 1024) as u32);
        Self::unscaled(&profile, scale, drive)
    }

    /// The same on the device as it is.
    pub(super) fn unscaled(profile: &Profile, scale: f64, drive: DriveOptions) -> Result<Self, BenchError> {
        let scale = Scale::new(scale).expect("a possible scale");
        let on = ModelledDrive::with(profile, drive)?;
        let open = Some(Self::opened(&on, scale, ALL_NODES_BYTES)?);
        let (loaded, shipped, tree_bytes, of_queries) = Default::default();
        let (runtime, swept) = (one_thread()?, TABLE);
        Ok(Self { runtime, on, open, scale, loaded, shipped, tree_bytes, swept, of_queries })
    }

    /// Options of a drive whose memory holds as much of the index's entries as at the paper's scale.
    pub(super) fn with_index_cache(scale: f64) -> DriveOptions {
        let bytes = ((INDEX_CACHE_BYTES * scale / PAPER_SCALE) as usize).max(INDEX_CACHE_BYTES_MIN);
        DriveOptions { index_cache_bytes: bytes, ..DriveOptions::default() }
    }

    fn opened(
        on: &ModelledDrive,
        scale: Scale,
        frame_bytes: usize,
    ) -> Result<(Database, Session), BenchError> {
        let pool_bytes = (POOL_BYTES * scale.factor() / PAPER_SCALE).max(POOL_BYTES_MIN) as usize;
        let node_bytes = PAGE_BYTES as usize;
        on.open(DatabaseOptions { pool_bytes, frame_bytes, node_bytes, ..DatabaseOptions::default() })
    }

    fn session(&self) -> &Session {
        &self.open.as_ref().expect("it is open, but while it is opened anew").1
    }

    fn database(&self) -> &Database {
        &self.open.as_ref().expect("it is open, but while it is opened anew").0
    }

    pub(super) fn scale(&self) -> Scale {
        self.scale
    }

    /// Loads a table, unless it is there.
    pub(super) fn table(&mut self, name: &'static str) -> Result<(), BenchError> {
        if !self.loaded.insert(name) {
            return Ok(());
        }
        let stored = STORED.iter().find(|s| s.name == name).expect("a table of the rig");
        let of_tpch = TABLES.iter().find(|t| t.name == stored.of).expect("a table of TPC-H");
        let options = format!(
            "WITH (layout = 'row', page_bytes = {PAGE_BYTES}, encoding = 'plain', page_index = '{}', cluster_by = '{}')",
            stored.page_index, stored.key
        );
        let (mut shipped, scale) = (BTreeMap::new(), self.scale);
        let loaded = self.runtime.block_on(async {
            self.session().execute(&of_tpch.create_as(name, &options)).await?;
            let batches = generate(stored.of, scale).map(|b| {
                let batch = b.map_err(DataFusionError::from)?;
                if let Some(dates) = batch.column_by_name("l_shipdate") {
                    let dates = dates.as_any().downcast_ref::<Date32Array>().expect("dates");
                    (0..dates.len()).for_each(|row| *shipped.entry(dates.value(row)).or_default() += 1);
                }
                Ok(batch)
            });
            self.session().load_batches(name, futures::stream::iter(batches.collect::<Vec<_>>())).await?;
            let on = format!("ON {name} ({})", stored.key);
            self.session().execute(&format!("CREATE INDEX {name}_rows {on} WITH (entries = 'rows')")).await?;
            self.session().execute(&format!("CREATE INDEX {name}_pages {on} WITH (entries = 'pages')")).await
        });
        loaded.map_err(|e| BenchError::sql(format!("loading {name}"), e))?;
        if name == TABLE {
            self.shipped = shipped.into_iter().collect();
        }
        self.with_all_nodes()?;
        self.run(&whole(name, stored.key), &TREE_OF_ROWS)?;
        self.tree_bytes.insert(name, self.held_bytes());
        Ok(())
    }

    /// Loads lineitem as a table without a key and without trees, with or without a page index: of l_shipdate, and in the order of the
    /// generator of l_orderkey too.
    pub(super) fn bare_table(
        &mut self,
        name: &'static str,
        order: Order,
        has_index: bool,
    ) -> Result<(), BenchError> {
        let of_tpch = TABLES.iter().find(|t| t.name == TABLE).expect("a table of TPC-H");
        let (cluster_by, keys) = match order {
            Order::ByKey => (", cluster_by = 'l_shipdate'", "l_shipdate"),
            Order::Generated => ("", "l_shipdate, l_orderkey"),
        };
        let page_index = if has_index { keys } else { "" };
        let options = format!(
            "WITH (layout = 'row', page_bytes = {PAGE_BYTES}, encoding = 'plain', page_index = '{page_index}'{cluster_by})"
        );
        self.swept = name;
        self.execute(&of_tpch.create_without_key(name, &options))?;
        let batches = generate(TABLE, self.scale).map(|b| b.map_err(DataFusionError::from));
        let load = self.session().load_batches(name, futures::stream::iter(batches));
        self.runtime.block_on(load).map(drop).map_err(|e| BenchError::sql(format!("loading {name}"), e))
    }

    /// Opens the database anew, with memory for so many bytes of nodes.
    fn with_memory(&mut self, frame_bytes: usize) -> Result<(), BenchError> {
        self.open = None;
        self.open = Some(Self::opened(&self.on, self.scale, frame_bytes)?);
        Ok(())
    }

    /// Opens the database anew, with memory for a share of the nodes of the trees of rows. It then holds those nodes of the system's trees that
    /// searches of whole trees met last.
    pub(super) fn with_nodes(&mut self, percent: u64, system: &System) -> Result<(), BenchError> {
        self.table(TABLE)?;
        match percent {
            100 => self.with_all_nodes()?,
            _ => self.with_node_bytes(self.tree_bytes.values().sum::<u64>() * percent / 100)?,
        }
        if system.searches_trees() {
            // lineitem last, so that memory has nodes of it.
            let stored = STORED.iter().rev().filter(|s| self.loaded.contains(s.name));
            stored.clone().try_for_each(|s| self.run(&whole(s.name, s.key), system).map(drop))?;
        }
        Ok(())
    }

    /// The same for a bare table, with memory for so many bytes of nodes.
    pub(super) fn with_nodes_of(
        &mut self,
        table: &str,
        bytes: u64,
        system: &System,
    ) -> Result<(), BenchError> {
        self.with_node_bytes(bytes)?;
        match system.searches_trees() {
            true => self.run(&whole(table, "l_shipdate"), system).map(drop),
            false => Ok(()),
        }
    }

    /// Opens the database anew, with memory for all nodes of trees.
    pub(super) fn with_all_nodes(&mut self) -> Result<(), BenchError> {
        self.with_memory(ALL_NODES_BYTES)
    }

    /// Opens the database anew, with memory for so many bytes of nodes, and for some at least.
    pub(super) fn with_node_bytes(&mut self, bytes: u64) -> Result<(), BenchError> {
        self.with_memory(bytes.max(8 * PAGE_BYTES) as usize)
    }

    /// Bytes of nodes in memory.
    pub(super) fn held_bytes(&self) -> u64 {
        self.database().tree_stats().held_bytes as u64
    }

    /// The clock of the host.
    pub(super) fn host(&self) -> &HostClock {
        self.on.host()
    }

    /// Runs statements one after the other, of which some change rows.
    pub(super) fn change_all(&self, statements: &[String], system: &System) -> Result<Took, BenchError> {
        self.measured(system, || {
            let begun = self.host().read();
            statements.iter().try_for_each(|sql| self.execute(sql))?;
            Ok((self.host().read().since(&begun), 0))
        })
    }

    /// Bytes of the nodes of lineitem's tree of rows.
    pub(super) fn tree_bytes(&self) -> u64 {
        self.tree_bytes[TABLE]
    }

    /// Pages of lineitem.
    pub(super) fn pages(&self) -> u64 {
        self.pages_and_rows(TABLE).0
    }

    /// Pages and rows of a table that was loaded.
    pub(super) fn pages_and_rows(&self, table: &str) -> (u64, u64) {
        let snapshot = self.database().snapshot().expect("a view of the newest commit");
        let table = snapshot.table(table).expect("it was loaded");
        (table.pages(), table.rows())
    }

    /// Rows of lineitem before the days from `first` on, and within the `days` days from there; all rows.
    pub(super) fn rows(&self, first: i32, days: i32) -> (u64, u64, u64) {
        let sum =
            |of: &dyn Fn(i32) -> bool| self.shipped.iter().filter(|(d, _)| of(*d)).map(|(_, n)| n).sum();
        (sum(&|d| d < first), sum(&|d| d >= first && d < first + days), sum(&|_| true))
    }

    /// The first and the last day on which something was shipped.
    pub(super) fn days(&self) -> (i32, i32) {
        let day = |of: Option<&(i32, u64)>| of.expect("lineitem has rows").0;
        (day(self.shipped.first()), day(self.shipped.last()))
    }

    /// Runs each list of SELECTs by each system, in the order of [`SYSTEMS`]. `percent`: nodes of trees in memory.
    pub(super) fn run_systems(
        run: &mut Run<'_>,
        statements: &[Vec<String>],
        percent: u64,
    ) -> Result<Vec<Vec<Took>>, BenchError> {
        let mut all = Vec::new();
        for system in SYSTEMS {
            let mut of_system = Vec::new();
            Self::of(run)?.with_nodes(system.nodes_percent.unwrap_or(percent), system)?;
            for statements in statements {
                run.go_on()?;
                let rig = Self::of(run)?;
                if system.learns() {
                    rig.run(&statements[0], system)?;
                }
                of_system.push(rig.run_all(statements, system)?);
            }
            all.push(of_system);
        }
        Ok(all)
    }

    /// Runs SELECTs one after the other by a system. The page buffer of the device has the end of lineitem, or of the bare table, before.
    pub(super) fn run_all(&self, statements: &[String], system: &System) -> Result<Took, BenchError> {
        self.run(&format!("SELECT max(l_tax) FROM {}", self.swept), &NO_INDEX)?;
        let mut all: Option<Took> = None;
        for sql in statements {
            let took = self.run(sql, system)?;
            match &mut all {
                Some(all) => all.add(&took),
                None => all = Some(took),
            }
        }
        Ok(all.expect("there are statements"))
    }

    /// Runs a SELECT by a system.
    pub(super) fn run(&self, sql: &str, system: &System) -> Result<Took, BenchError> {
        self.measured(system, || {
            self.runtime.block_on(self.session().collect(sql)).map_err(|e| BenchError::sql(sql, e))?;
            let counts = self.session().last_counts();
            // At a level at which the host filters, a page that is not left out is named by the drive, and read by the host.
            let pages_read = counts.pages - counts.pages_skipped;
            Ok((self.session().last_modelled().expect("the device is modelled"), pages_read))
        })
    }

    /// What a system takes for work, which answers its time and the pages that it read.
    fn measured(
        &self,
        system: &System,
        work: impl FnOnce() -> Result<(ModelledTime, u64), BenchError>,
    ) -> Result<Took, BenchError> {
        self.session().set_offload(system.level);
        self.execute(&format!("SET lode.index = {}", system.path))?;
        let so_far = || (self.database().tree_stats().misses, self.database().link().bytes_up);
        let (nodes, bytes) = so_far();
        let (ModelledTime { total: time, split, .. }, pages_read) = work()?;
        let (nodes_read, link_bytes) = (so_far().0 - nodes, so_far().1 - bytes);
        Ok(Took { time, split, pages_read, nodes_read, link_bytes })
    }

    pub(super) fn execute(&self, sql: &str) -> Result<(), BenchError> {
        self.runtime.block_on(self.session().execute(sql)).map(drop).map_err(|e| BenchError::sql(sql, e))
    }
}

/// The rows of so many days of l_shipdate from a day on, as a condition.
pub(super) fn on_days(day: i32, days: i32) -> String {
    let end = day + days;
    format!("l_shipdate >= DATE '1970-01-01' + {day} AND l_shipdate < DATE '1970-01-01' + {end}")
}

/// A statement that looks at the rows of some days.
pub(super) fn scan(table: &str, day: i32, days: i32) -> String {
    format!("SELECT sum(l_extendedprice) FROM {table} WHERE {}", on_days(day, days))
}

/// A statement that looks at all of a tree of a table.
fn whole(table: &str, key: &str) -> String {
    let least = if key.ends_with("date") { "DATE '1970-01-01'" } else { "0" };
    format!("SELECT count(*) FROM {table} WHERE {key} >= {least}")
}
