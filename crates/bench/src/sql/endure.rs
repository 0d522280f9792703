//! What `lode bench endure` reads at each interval, how much a drive may program for an UPDATE by key, and plots of both.
//!
//! ```text
//!   a commit ─┬─► log page, twice                                        log
//!             ├─► redo, inlined in that page ─► moved to an EBLOCK ─┐    redo
//!             ├─► a leaf of the delta, written back ────────────────┼─► moved again by GC: g times in all
//!             └─► its part of a merged page ────────────────────────┘    leaves, merges
//!
//!   bytes of a commit <= log + g (redo + leaves + merges) + other
//! ```
//!
//! With an entry of e bytes (row id and image), when each commit has a group of the log of its own:
//!
//! - log: two copies of one WBLOCK.
//! - redo: the entry and 128 bytes around it, and again e for its removal by a merge and for the merge's directory and catalog.
//! - leaves: the leaf of the entry, at most one node. The removal by a merge touches leaves whose entries all go.
//! - merges: a page is merged when the delta has an eighth of its bytes, so a merge writes at most 8 e for each entry.
//! - g: GC under uniform writes with the space that the drive has for its live bytes ([`oldest_uniform`]).
//! - other: each checkpoint writes at most the whole mapping, and there is one for so many bytes of log.
//!
//! Worked example: e = 100, 80 % full, WBLOCKs of 4 KB. g = 2.7. log 8,192 + 2.7 x (328 + 4,096 + 800) = 22,300 bytes, which is 223 times
//! the entry. A durable commit alone is a third of that.
//!
//! Source: docs/tables.md (merges), docs/drive.md (log, inlined batches, checkpoints), `gc/theory.rs`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lode_engine::{Database, EngineError};
use lode_firmware::Drive;
use lode_workload::measure::resident_bytes;
use lode_workload::sql::endure::{self, Long, Totals};
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::gc::theory::oldest_uniform;
use crate::paper::plot::{Axis, Heading, LinePlot, Series, colour};

/// Bytes that a drive programmed, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Log pages, with their copies.
    pub log: u64,
    /// Redo, which is inlined in log pages, and the catalog. It is part of [`Written::log`] and of [`Written::moved`].
    pub redo: u64,
    /// Nodes of trees that were written back.
    pub leaves: u64,
    /// Column pages that merges wrote.
    pub merges: u64,
    /// What GC moved, and inlined pages that left the log.
    pub moved: u64,
    /// All.
    pub all: u64,
}

impl Written {
    /// What was written since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let of = |f: fn(&Self) -> u64| f(&self).saturating_sub(f(&before));
        Self {
            log: of(|w| w.log),
            redo: of(|w| w.redo),
            leaves: of(|w| w.leaves),
            merges: of(|w| w.merges),
            moved: of(|w| w.moved),
            all: of(|w| w.all),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            log: self.log + other.log,
            redo: self.redo + other.redo,
            leaves: self.leaves + other.leaves,
            merges: self.merges + other.merges,
            moved: self.moved + other.moved,
            all: self.all + other.all,
        }
    }

    /// The mapping, metadata, alignment, and redo of batches that were too large to be inlined.
    pub fn other(self) -> u64 {
        self.all.saturating_sub(self.log + self.leaves + self.merges + self.moved)
    }
}

/// What there is at a point in time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Gauges {
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// Entries of the delta.
    pub delta_rows: u64,
    /// Their bytes, keys included.
    pub delta_bytes: u64,
    /// Redo that the next open would read.
    pub redo_bytes: u64,
    /// Log of the drive since its last checkpoint.
    pub log_bytes: u64,
    /// Live bytes of the drive.
    pub live_bytes: u64,
    /// Bytes that only open snapshots need.
    pub pinned_bytes: u64,
    /// Bytes of pages that the drive takes at most.
    pub usable_bytes: u64,
    /// Memory of the mapping.
    pub map_bytes: u64,
    /// Bytes that the image takes on disk.
    pub disk_bytes: u64,
    /// Merges since the database was opened.
    pub merges: u64,
    /// What the drive programmed since it was opened.
    pub written: Written,
}

impl Gauges {
    /// Reads them.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn read(database: &Database, drive: &Drive, image: &Path) -> Result<Self, EngineError> {
        let (info, trees, merged) = (drive.info(), database.tree_stats(), database.merge_stats());
        let snapshot = database.snapshot()?;
        let table = snapshot.table(endure::TABLE);
        let (delta_rows, delta_bytes) = table.map_or(Ok((0, 0)), |t| snapshot.delta_size(&t))?;
        let group_bytes = u64::from(info.geometry.wblock_bytes()) * LOG_COPIES;
        Ok(Self {
            resident_bytes: resident_bytes().unwrap_or(0),
            delta_rows,
            delta_bytes,
            redo_bytes: trees.redo_bytes,
            log_bytes: info.log_bytes,
            live_bytes: info.live_bytes,
            pinned_bytes: info.pinned_bytes,
            usable_bytes: info.usable_bytes,
            map_bytes: info.map_bytes,
            disk_bytes: std::fs::metadata(image).map_or(0, |m| m.blocks() * 512),
            merges: merged.merges,
            written: Written {
                log: info.log_groups * group_bytes,
                redo: info.user_bytes_written.saturating_sub(trees.written_bytes + merged.written_bytes),
                leaves: trees.written_bytes,
                merges: merged.written_bytes,
                moved: info.gc_bytes_moved,
                all: info.media_bytes_written,
            },
        })
    }
}

/// An interval.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Minutes of updates so far, over all lives of the process.
    pub minutes: f64,
    /// Commits that ended in the interval.
    pub commits: u64,
    /// Commits per second.
    pub rate: f64,
    /// Statements that were run again after a conflict.
    pub conflicts: u64,
    /// Latencies of the commits, in microseconds.
    pub p50_us: f64,
    /// See [`Sample::p50_us`].
    pub p99_us: f64,
    /// See [`Sample::p50_us`].
    pub max_us: f64,
    /// Whether the long transaction was open.
    pub is_long_open: bool,
    /// Answers of the old snapshot so far.
    pub checks: u64,
    /// UPDATEs that were acknowledged to the terminals since the process began.
    pub acknowledged: u64,
    /// What the drive programmed in the interval.
    pub written: Written,
    /// What there was at its end.
    pub gauges: Gauges,
}

/// An open after a kill.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reopened {
    /// Minutes of updates before the kill.
    pub minutes: f64,
    /// Milliseconds until the database was open.
    pub open_ms: f64,
    /// Milliseconds until a row was read by its key, from the beginning of the open.
    pub row_ms: f64,
    /// Pages of the drive's log that were read.
    pub log_pages: u64,
    /// Bytes of redo that were read.
    pub redo_bytes: u64,
}

/// What a process tells its parent, one line of JSON each, until it is killed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "kebab-case")]
pub enum Told {
    /// The database is open, and holds these rows.
    Opened {
        /// What the open took.
        #[serde(flatten)]
        opened: Reopened,
        /// What the table holds.
        totals: Totals,
    },
    /// An interval is over.
    Sample(Sample),
    /// The long transaction has ended.
    Long(Long),
    /// All pages and entries of indexes were checked. It is the last line of a process that is not killed.
    Checked {
        /// What is wrong.
        found: Vec<String>,
    },
}

/// Copies of a log page.
const LOG_COPIES: u64 = 2;
/// A page is merged when the delta has this part of its bytes.
const DUE_PART: f64 = 8.0;
/// The most bytes of a node.
const NODE_BYTES: f64 = 4096.0;
/// What is around an entry in a page of redo.
const REDO_BYTES: f64 = 128.0;
/// What the delta may have beyond its part of the pages: rows behind the pages, and what was written since the last survey.
const DELTA_BESIDE: f64 = (3 << 20) as f64;

/// The most bytes that a drive programs for a commit of one UPDATE by key.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cap {
    /// Bytes of an entry of the delta.
    pub entry: f64,
    /// Log pages.
    pub log: f64,
    /// Redo.
    pub redo: f64,
    /// Leaves of the delta.
    pub leaves: f64,
    /// Merged pages.
    pub merges: f64,
    /// What GC multiplies the last three with.
    pub collection: f64,
    /// Mapping pages.
    pub other: f64,
}

impl Cap {
    /// The cap for a run with these samples on a drive of this capacity and unit of programming.
    pub fn of(samples: &[Sample], capacity_bytes: u64, wblock_bytes: u32) -> Self {
        let most = |f: fn(&Gauges) -> u64| samples.iter().map(|s| f(&s.gauges)).max().unwrap_or(0) as f64;
        let (rows, bytes) = samples
            .iter()
            .fold((0, 0), |(rows, bytes), s| (rows + s.gauges.delta_rows, bytes + s.gauges.delta_bytes));
        let entry = bytes as f64 / rows.max(1) as f64;
        let space = most(|g| g.usable_bytes) / most(|g| g.live_bytes).max(1.0);
        let log = LOG_COPIES as f64 * f64::from(wblock_bytes);
        let log_of_checkpoint = (64u64 << 20).min(capacity_bytes / 16) as f64;
        Self {
            entry,
            log,
            redo: 2.0 * entry + REDO_BYTES,
            leaves: NODE_BYTES,
            merges: DUE_PART * entry,
            collection: oldest_uniform(space.max(1.0 + 1e-3)),
            other: most(|g| g.map_bytes) * log / log_of_checkpoint,
        }
    }

    /// All bytes of a commit.
    pub fn bytes(&self) -> f64 {
        self.log + self.collection * (self.redo + self.leaves + self.merges) + self.other
    }

    /// The most bytes that are programmed per byte of an entry.
    pub fn amplification(&self) -> f64 {
        self.bytes() / self.entry.max(1.0)
    }
}

/// The most bytes that the delta of a table with pages of so many bytes has, when merges keep up.
pub fn delta_cap(table_bytes: u64) -> f64 {
    table_bytes as f64 / DUE_PART + DELTA_BESIDE
}

/// How the last quarter of the samples compares with the second quarter.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Growth {
    /// The largest delta.
    pub delta: f64,
    /// The most resident memory.
    pub resident: f64,
    /// The median of the intervals' 99th percentile.
    pub p99: f64,
    /// Bytes on disk at most.
    pub disk: f64,
}

impl Growth {
    /// The ratios. `None` if there are too few samples.
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let n = samples.len();
        let quarter = |q: usize| &samples[n * q / 4..n * (q + 1) / 4];
        let (second, last) = (n >= 8).then(|| (quarter(1), quarter(3)))?;
        let of = |f: fn(&[Sample]) -> f64| f(last) / f(second).max(1e-9);
        Some(Self {
            delta: of(|s| most(s, |s| s.gauges.delta_bytes as f64)),
            resident: of(|s| most(s, |s| s.gauges.resident_bytes as f64)),
            p99: of(|s| median(s.iter().map(|s| s.p99_us))),
            disk: of(|s| most(s, |s| s.gauges.disk_bytes as f64)),
        })
    }
}

fn most(samples: &[Sample], f: fn(&Sample) -> f64) -> f64 {
    samples.iter().map(f).fold(0.0, f64::max)
}

/// The median of some numbers; 0 if there are none.
pub fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

/// Plots of a run, with the names of their files.
///
/// # Errors
/// When one cannot be drawn.
pub fn plots(
    samples: &[Sample],
    reopened: &[Reopened],
    table_bytes: u64,
    subtitle: &str,
) -> Result<Vec<(&'static str, String)>, BenchError> {
    let minutes = samples.last().map_or(1.0, |s| s.minutes).max(1e-3);
    let draw = |title: &str, y: &str, series: Vec<Series>, log: bool| -> Result<String, BenchError> {
        let all = || series.iter().flat_map(|s| &s.points).map(|p| p.1);
        let top = all().fold(0.0, f64::max);
        let y = match log {
            true => Axis::decades(y, all().filter(|v| *v > 0.0).fold(f64::MAX, f64::min), top),
            false => Axis::upwards(y, top),
        };
        LinePlot {
            heading: Heading { title: title.into(), subtitle: subtitle.into() },
            x: Axis::upwards("minutes of updates", minutes),
            y,
            series,
        }
        .svg()
    };
    let of = |name: &str, colour, f: &dyn Fn(&Sample) -> f64| Series {
        name: name.into(),
        colour,
        dashed: false,
        points: samples.iter().map(|s| (s.minutes, f(s))).collect(),
    };
    const MB: f64 = 1e6;
    let mut cap = of("its cap", colour::ORANGE, &|_| delta_cap(table_bytes) / MB);
    cap.dashed = true;
    let delta = vec![of("delta", colour::BLUE, &|s| s.gauges.delta_bytes as f64 / MB), cap];
    let memory = vec![of("resident", colour::BLUE, &|s| s.gauges.resident_bytes as f64 / MB)];
    let latency = vec![
        of("p50", colour::BLUE, &|s| s.p50_us.max(1.0) / 1e3),
        of("p99", colour::VERMILION, &|s| s.p99_us.max(1.0) / 1e3),
        of("longest", colour::ORANGE, &|s| s.max_us.max(1.0) / 1e3),
    ];
    let space = vec![
        of("usable", colour::GREEN, &|s| s.gauges.usable_bytes as f64 / MB),
        of("live", colour::BLUE, &|s| s.gauges.live_bytes as f64 / MB),
        of("on disk", colour::VERMILION, &|s| s.gauges.disk_bytes as f64 / MB),
        of("pinned", colour::PURPLE, &|s| s.gauges.pinned_bytes as f64 / MB),
    ];
    let each = |f: fn(Written) -> u64| move |s: &Sample| f(s.written) as f64 / s.commits.max(1) as f64 / 1e3;
    let bytes = vec![
        of("all", colour::ORANGE, &each(|w| w.all)),
        of("log", colour::BLUE, &each(|w| w.log)),
        of("moved", colour::VERMILION, &each(|w| w.moved)),
        of("leaves", colour::GREEN, &each(|w| w.leaves)),
        of("merges", colour::PURPLE, &each(|w| w.merges)),
    ];
    let rate = vec![of("commits", colour::BLUE, &|s| s.rate)];
    let points = |f: fn(&Reopened) -> f64| reopened.iter().map(|r| (r.minutes, f(r))).collect();
    let opens = vec![
        Series { name: "open".into(), colour: colour::BLUE, dashed: false, points: points(|r| r.open_ms) },
        Series {
            name: "first row".into(),
            colour: colour::ORANGE,
            dashed: true,
            points: points(|r| r.row_ms),
        },
    ];
    let mut plots = vec![
        ("delta.svg", draw("The delta", "MB", delta, false)?),
        ("memory.svg", draw("Resident memory", "MB", memory, false)?),
        ("latency.svg", draw("Latency of commits", "ms", latency, true)?),
        ("space.svg", draw("The drive's space", "MB", space, false)?),
        ("bytes.svg", draw("Bytes programmed per commit", "KB", bytes, false)?),
        ("rate.svg", draw("Commits per second", "commits/s", rate, false)?),
    ];
    if !reopened.is_empty() {
        plots.push(("reopen.svg", draw("Time to reopen after kill -9", "ms", opens, false)?));
    }
    Ok(plots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u32, delta_bytes: u64) -> Sample {
        let gauges = Gauges {
            resident_bytes: 100,
            delta_rows: delta_bytes / 100,
            delta_bytes,
            redo_bytes: 0,
            log_bytes: 0,
            live_bytes: 800,
            pinned_bytes: 0,
            usable_bytes: 1000,
            map_bytes: 0,
            disk_bytes: 900,
            merges: 0,
            written: Written::default(),
        };
        Sample {
            minutes: f64::from(at),
            commits: 10,
            rate: 1.0,
            conflicts: 0,
            p50_us: 10.0,
            p99_us: 1000.0,
            max_us: 5000.0,
            is_long_open: false,
            checks: 0,
            acknowledged: 0,
            written: Written { log: 8192, all: 10_000, ..Written::default() },
            gauges,
        }
    }

    /// The worked example above.
    #[test]
    fn the_cap_of_the_example_is_what_it_says() {
        let cap = Cap::of(&[sample(1, 10_000)], 1 << 30, 4096);
        assert_eq!((cap.entry, cap.log, cap.redo, cap.merges), (100.0, 8192.0, 328.0, 800.0));
        assert!((cap.collection - 2.69).abs() < 0.02, "{cap:?}");
        assert!((cap.amplification() - 223.0).abs() < 2.0, "{}", cap.amplification());
        // A fuller drive has a higher cap.
        let mut full = sample(1, 10_000);
        full.gauges.live_bytes = 900;
        assert!(Cap::of(&[full], 1 << 30, 4096).collection > 4.0);
    }

    #[test]
    fn growth_is_that_of_the_last_quarter() {
        let steady: Vec<Sample> = (0..16).map(|n| sample(n, 5000)).collect();
        let growth = Growth::of(&steady).unwrap();
        assert_eq!((growth.delta, growth.resident, growth.p99), (1.0, 1.0, 1.0));
        let growing: Vec<Sample> = (0..16).map(|n| sample(n, 1000 * u64::from(n + 1))).collect();
        assert_eq!(Growth::of(&growing).unwrap().delta, 2.0);
        assert!(Growth::of(&steady[..7]).is_none());
    }

    #[test]
    fn all_plots_are_drawn() {
        let samples: Vec<Sample> = (1..16).map(|n| sample(n, 5000)).collect();
        let reopened =
            [Reopened { minutes: 4.0, open_ms: 12.0, row_ms: 13.0, log_pages: 9, redo_bytes: 1 }; 1];
        let plots = plots(&samples, &reopened, 1 << 20, "1 GiB").unwrap();
        assert_eq!(plots.len(), 7);
        assert!(plots.iter().all(|(_, svg)| svg.contains("minutes of updates") && svg.contains("1 GiB")));
    }
}
