//! What joins cost, in nanoseconds of one thread.
//!
//! The constants are rough, for column pages in memory; only their ratios matter. They come from no measurement yet.

use datafusion::physical_plan::joins::PartitionMode;

/// The most keys of a build side that are sent to scans.
pub(super) const KEYS_MAX: f64 = lode_program::KEYS_MAX as f64;

/// A row that enters a hash table.
const BUILD: f64 = 40.0;
/// A row that is looked up in a hash table which fits the caches.
const PROBE: f64 = 10.0;
/// What the look-up takes longer each time that the table doubles, beyond the caches.
const PROBE_DOUBLED: f64 = 5.0;
/// The rows of a hash table that fit the caches.
const CACHED_ROWS: f64 = 32_768.0;
/// A row that comes out of a join.
const OUT: f64 = 10.0;
/// A row that goes to the thread of its key.
const REPARTITION: f64 = 20.0;
/// A row that enters an aggregate with groups.
const AGGREGATED: f64 = 60.0;
/// A value that a scan answers.
const ANSWERED: f64 = 2.0;
/// A row whose key a scan looks up in a key set.
const LOOKED_UP: f64 = 2.5;
/// A pair of rows that a nested loop compares.
const COMPARED: f64 = 2.0;

/// The rows that are scanned in the time of a look-up in an index, which reads a page.
pub(super) const SCANNED_A_LOOK_UP: f64 = 100.0;

/// The rows of a join.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinRows {
    pub(super) build: f64,
    pub(super) probe: f64,
    pub(super) out: f64,
}

/// What a join costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinCost {
    /// For the rows of the build side.
    pub(super) build: f64,
    /// For those of the probe side, and for the answer.
    pub(super) probe: f64,
    /// Whether it is cheaper with both sides partitioned by key.
    pub(super) mode: PartitionMode,
}

impl JoinCost {
    pub(super) fn total(self) -> f64 {
        self.build + self.probe
    }
}

/// The cost of a hash join.
pub(super) fn hash_join(rows: JoinRows, threads: usize) -> JoinCost {
    let threads = threads as f64;
    let beyond = (rows.build / CACHED_ROWS).log2().max(0.0);
    let build = rows.build * (BUILD + PROBE_DOUBLED * beyond);
    let probe = (rows.probe * (PROBE + PROBE_DOUBLED * beyond) + rows.out * OUT) / threads;
    let collected = JoinCost { build, probe, mode: PartitionMode::CollectLeft };
    let partitioned = JoinCost {
        build: (build + rows.build * REPARTITION) / threads,
        probe: probe + rows.probe * REPARTITION / threads,
        mode: PartitionMode::Partitioned,
    };
    if threads > 1.0 && partitioned.total() < collected.total() { partitioned } else { collected }
}

/// The cost of comparing each row with each.
pub(super) fn nested_loops(rows: JoinRows, threads: usize) -> JoinCost {
    let probe = (rows.build * rows.probe * COMPARED + rows.out * OUT) / threads as f64;
    JoinCost { build: 0.0, probe, mode: PartitionMode::CollectLeft }
}

/// The cost of a scan's answer.
pub(super) fn answered(rows: f64, columns: usize) -> f64 {
    rows * ANSWERED * (1 + columns) as f64
}

/// The cost of an aggregate over so many rows.
pub(super) fn aggregated(rows: f64) -> f64 {
    rows * AGGREGATED
}

/// The cost of the rows that come out of a join.
pub(super) fn joined(rows: f64) -> f64 {
    rows * OUT
}

/// The cost of a key set in a scan of so many rows.
pub(super) fn keys_looked_up(rows: f64) -> f64 {
    rows * LOOKED_UP
}
