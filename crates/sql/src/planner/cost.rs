//! What joins cost, in nanoseconds of one thread.
//!
//! The constants of hash joins are what EXPLAIN ANALYZE of `lode bench joins` shows of DataFusion's operators on a machine with 2 cores of
//! 2 MB second-level cache: docs/decisions.md has the measurements. The others are rough; only their ratios matter.

use datafusion::physical_plan::joins::PartitionMode;

use super::carried::RowWidth;

/// The most keys of a build side that are sent to scans.
pub(super) const KEYS_MAX: f64 = lode_program::KEYS_MAX as f64;

/// How keys are found.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    /// A row that enters the table.
    build: f64,
    /// A row that is looked up.
    probe: f64,
    /// What both take longer each time that the table doubles, beyond the caches.
    doubled: f64,
}

/// Integers close to each other are places of an array.
const ARRAY: Lookup = Lookup { build: 4.0, probe: 4.0, doubled: 0.0 };
/// Other keys are hashed.
const HASHED: Lookup = Lookup { build: 40.0, probe: 10.0, doubled: 5.0 };
/// The rows of a hash table that fit the caches.
const CACHED_ROWS: f64 = 32_768.0;

/// A byte that a row of the build side brings.
const BUILD_BYTE: f64 = 0.25;
/// A byte of a row that comes out.
const OUT_BYTE: f64 = 0.15;
/// The bytes of a build side that the caches hold.
const CACHED_BYTES: f64 = 1_048_576.0;
/// What a column of the build side takes longer in each row that comes out, each time that the build side doubles beyond the caches.
const MISSED_DOUBLED: f64 = 4.0;
/// The most that it takes longer.
const MISSED_MAX: f64 = 12.0;
/// A row that goes to the thread of its key, and each of its bytes.
const REPARTITION: f64 = 2.0;
const REPARTITION_BYTE: f64 = 0.5;
/// A row that comes out of a join of which nothing more is known.
const OUT: f64 = 10.0;
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

/// What the rows of a join have.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinColumns {
    /// A row of the build side.
    pub(super) build: RowWidth,
    /// A row of the probe side.
    pub(super) probe: RowWidth,
    /// A row that comes out.
    pub(super) out: RowWidth,
    /// The columns that come out of the build side.
    pub(super) out_of_build: f64,
    /// Whether the keys are integers close to each other.
    pub(super) is_array: bool,
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
pub(super) fn hash_join(rows: JoinRows, columns: &JoinColumns, threads: usize) -> JoinCost {
    let collected = JoinCost {
        build: built(rows.build, columns),
        probe: probed(rows, rows.build, columns) / threads as f64,
        mode: PartitionMode::CollectLeft,
    };
    if threads == 1 {
        return collected;
    }
    let of_thread = rows.build / threads as f64;
    // A part of the keys is as close together as all of them are, less by the number of parts; it is taken to be hashed.
    let hashed = JoinColumns { is_array: false, ..*columns };
    let sent = |rows: f64, width: RowWidth| rows * (REPARTITION + REPARTITION_BYTE * width.bytes);
    let partitioned = JoinCost {
        build: built(of_thread, &hashed) + sent(rows.build, columns.build) / threads as f64,
        probe: (probed(rows, of_thread, &hashed) + sent(rows.probe, columns.probe)) / threads as f64,
        mode: PartitionMode::Partitioned,
    };
    if partitioned.total() < collected.total() { partitioned } else { collected }
}

/// What the rows of a build side take.
fn built(rows: f64, columns: &JoinColumns) -> f64 {
    let by = lookup(columns);
    rows * (by.build + by.doubled * beyond(rows, CACHED_ROWS) + BUILD_BYTE * columns.build.bytes)
}

/// What the rows of a probe side take, beside so many of the build side, and those that come out.
fn probed(rows: JoinRows, build: f64, columns: &JoinColumns) -> f64 {
    let by = lookup(columns);
    let missed = (MISSED_DOUBLED * beyond(build * columns.build.bytes, CACHED_BYTES)).min(MISSED_MAX);
    rows.probe * (by.probe + by.doubled * beyond(build, CACHED_ROWS))
        + rows.out * (OUT_BYTE * columns.out.bytes + missed * columns.out_of_build)
}

fn lookup(columns: &JoinColumns) -> Lookup {
    if columns.is_array { ARRAY } else { HASHED }
}

/// How many times something doubles beyond a size.
fn beyond(size: f64, cached: f64) -> f64 {
    (size / cached).log2().max(0.0)
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
