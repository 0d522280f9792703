//! Scans of a table at one snapshot, by the drive or through the buffer pool.
//!
//! ```text
//!   LodeTable ─► ScanSpec ─► LodeScanExec ─┬─ partition 0: pages 0-7, 16-23, ... ─► engine Scan ─► batches
//!                                          └─ partition 1: pages 8-15, 24-31, ... ─► engine Scan ─► batches
//! ```
//!
//! Invariants: all scans of a statement read one snapshot; each page of the table belongs to exactly one partition;
//! no command is sent before a partition is first polled, since run-time filters may still come.

mod access;
mod assumed;
mod batches;
mod cut;
pub(crate) mod distinct;
pub(crate) mod estimate;
mod exec;
mod groups;
mod keys;
pub(crate) mod level_cost;
mod look_up;
mod looked_up;
mod metrics;
mod ordered;
mod partition;
mod runtime;
mod sample;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use lode_base::VirtualDuration;
use lode_command::{Answer, PageRange};
use lode_engine::{AccessPath, EngineError, HostWork, NoMatcher, Snapshot, Table};
use lode_program::answer::Member;
use lode_program::{Expr, Matcher, Program};

pub(crate) use access::{Access, FilterOver, Passing, Trees};
pub use exec::LodeScanExec;
pub(crate) use groups::{GroupForm, StateColumn};
pub(crate) use keys::{JoinKeys, Way};
pub(crate) use look_up::LookUpScan;
pub(crate) use ordered::{FirstRows, Ordered};
pub(crate) use runtime::waits_for_subquery;
pub(crate) use sample::{MatchedPages, Sample, draw};

use crate::StatementCounts;
use crate::offload::Offload;

/// What all partitions of a scan share.
#[derive(Clone)]
pub(crate) struct ScanSpec {
    pub(crate) snapshot: Snapshot,
    pub(crate) table: Arc<Table>,
    pub(crate) offload: Offload,
    /// Whether named pages are read ahead, on a modelled device.
    pub(crate) prefetch: bool,
    /// Whether the planner samples filters of the host. On a modelled device a sample takes as long as hundreds of look-ups, so nested joins do
    /// without.
    pub(crate) samples_in_host: bool,
    pub(crate) counts: Arc<StatementCounts>,
    /// The columns that come out, in order: a column of the table, or `None` for the row's address.
    pub(crate) output: Vec<Option<u16>>,
    /// The Arrow schema of these columns.
    pub(crate) schema: SchemaRef,
    /// The condition on rows. If the level filters exactly, only rows that pass come out; else it is a hint for
    /// skipping pages.
    pub(crate) filter: Option<Expr>,
    /// Conditions of partial indexes, which are true on all rows that pass the filter.
    pub(crate) implied: Vec<Expr>,
    /// The filter as SQL, for EXPLAIN.
    pub(crate) filter_text: String,
    /// The share of the rows that is expected to pass, 0 to 1.
    pub(crate) selectivity: f64,
    /// The sample that says so, if there is one.
    pub(crate) sample: Option<Sample>,
    /// How it finds its pages.
    pub(crate) path: &'static AccessPath,
    /// The most pages that a B+-tree index may name to be used; `None` if none is asked.
    pub(crate) index_pages_max: Option<u64>,
    /// The B+-tree index that named the pages, and how many they are.
    pub(crate) index: Option<(String, u64)>,
    /// The orders whose first rows are enough, if the scan may end early.
    pub(crate) ordered: Option<Arc<Ordered>>,
    /// The partial groups that come out instead of rows, if the drive aggregates.
    pub(crate) groups: Option<GroupForm>,
    /// What the planner decided about filtering the table early, if it was asked to.
    pub(crate) early: Option<Early>,
    /// What the host of a modelled device computes for a row that comes out, in the operators through which it passes at once.
    pub(crate) later: VirtualDuration,
}

/// Whether a table is filtered early.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Early {
    /// Whether it is, and is joined first.
    pub(crate) is_first: bool,
    /// Why, or why not.
    pub(crate) text: String,
}

impl fmt::Display for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = if self.is_first { "early filter" } else { "no early filter" };
        write!(f, "{decision}: {}", self.text)
    }
}

impl ScanSpec {
    /// The filter and what it implies: what finds an index.
    pub(crate) fn index_filter(&self) -> Option<Expr> {
        access::with_implied(self.filter.as_ref(), &self.implied)
    }

    /// The program of the scan before any run-time filter.
    pub(crate) fn program(&self) -> Result<Program> {
        let projection = self.output.iter().flatten().copied().collect();
        let slots = self.output.contains(&None);
        let schema = self.table.schema().clone();
        let program =
            Program::check(schema, self.filter.clone(), projection, slots).map_err(program_error)?;
        match &self.groups {
            Some(form) => program.with_aggregation(form.aggregation.clone()).map_err(program_error),
            None => Ok(program),
        }
    }

    /// The keys that the drive looks for in the pages, at the deepest level that the scan may use.
    ///
    /// # Errors
    /// Why it looks for none.
    pub(crate) fn matcher(&self) -> Result<Matcher, NoMatcher> {
        if !self.offload.members().contains(&Member::Matcher) {
            return Err(NoMatcher::NotAsked);
        }
        // A program that was refused is an error of the scan when it runs.
        let program = self.program().map_err(|_| NoMatcher::NotAsked)?;
        self.snapshot.matcher(&self.table, &program, Answer::Rows)
    }

    /// The Arrow schema of what comes out.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.groups.as_ref().map_or(&self.schema, |form| &form.schema).clone()
    }

    /// With a modelled device: charges the host for `work` on this many rows.
    pub(crate) fn computes(&self, work: HostWork, rows: u64) {
        if let Some(host) = self.snapshot.host() {
            host.computes(work, rows);
        }
    }
}

/// The engine's error on its way through DataFusion.
pub(crate) fn engine_error(e: EngineError) -> DataFusionError {
    DataFusionError::External(Box::new(e))
}

pub(crate) fn program_error(e: lode_program::ProgramError) -> DataFusionError {
    DataFusionError::External(Box::new(e))
}

/// The most consecutive pages in one chunk.
const CHUNK_PAGES_MAX: u32 = 64;
/// Each partition gets at least this many chunks if there are enough pages, so that no partition ends long before the
/// others.
const CHUNKS_MIN: u32 = 8;

/// Deals the pages out evenly to at most `partitions` partitions (at least one), in interleaved chunks.
fn deal(ranges: &[PageRange], partitions: usize) -> Vec<Vec<PageRange>> {
    let pages: u32 = ranges.iter().map(|r| u32::from(r.count)).sum();
    let partitions = partitions.min(pages as usize).max(1);
    let chunk = (pages / (partitions as u32 * CHUNKS_MIN)).clamp(1, CHUNK_PAGES_MAX);
    let mut dealt: Vec<Vec<PageRange>> = vec![Vec::new(); partitions];
    let (mut to, mut room) = (0, chunk);
    for r in ranges {
        let (mut first, mut left) = (r.first, r.count);
        while left > 0 {
            let count = left.min(room as u16);
            dealt[to].push(PageRange { extent: r.extent, first, count });
            (first, left, room) = (first + count, left - count, room - u32::from(count));
            if room == 0 {
                (to, room) = ((to + 1) % partitions, chunk);
            }
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use lode_base::ExtentId;

    use super::*;

    #[test]
    fn each_page_is_dealt_once_and_evenly() {
        let extent = |n| ExtentId::new(n).unwrap();
        let ranges = [
            PageRange { extent: extent(1), first: 0, count: 1024 },
            PageRange { extent: extent(2), first: 0, count: 37 },
        ];
        for partitions in [1, 2, 3, 7] {
            let dealt = deal(&ranges, partitions);
            assert_eq!(dealt.len(), partitions);
            let mut pages: Vec<(ExtentId, u16)> = dealt
                .iter()
                .flatten()
                .flat_map(|r| (r.first..r.first + r.count).map(|p| (r.extent, p)))
                .collect();
            pages.sort_by_key(|(e, p)| (e.raw(), *p));
            pages.dedup();
            assert_eq!(pages.len(), 1061);
            let sizes: Vec<u32> = dealt.iter().map(|d| d.iter().map(|r| u32::from(r.count)).sum()).collect();
            assert!(
                sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= CHUNK_PAGES_MAX,
                "{sizes:?}"
            );
        }
        assert_eq!(deal(&[], 4), vec![Vec::new()]);
        assert_eq!(deal(&[PageRange { extent: extent(1), first: 0, count: 2 }], 8).len(), 2);
    }
}
