//! The counters of a scan for EXPLAIN ANALYZE, and the sums of its statement.

use datafusion::arrow::array::RecordBatch;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, RecordOutput,
};
use lode_command::ScanCounts;

use super::ScanSpec;
use crate::StatementCounts;

/// The counters of one partition. Clones share them.
#[derive(Clone)]
pub(super) struct ScanMetrics {
    pub(super) baseline: BaselineMetrics,
    pages: Count,
    pages_skipped: Count,
    pages_read: Count,
    pages_unmatched: Count,
    media_bytes: Count,
    link_bytes: Count,
    drive_rows: Count,
    drive_groups: Count,
    narrowed: Count,
    looked_up: Count,
}

impl ScanMetrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(set, partition),
            pages: counter("pages"),
            pages_skipped: counter("pages_skipped"),
            pages_read: counter("pages_read"),
            pages_unmatched: counter("pages_unmatched"),
            media_bytes: counter("media_bytes"),
            link_bytes: counter("link_bytes"),
            drive_rows: counter("drive_rows"),
            drive_groups: counter("drive_groups"),
            narrowed: counter("runtime_filters"),
            looked_up: counter("pages_by_key"),
        }
    }

    /// Counts one unit of a task.
    pub(super) fn task(&self, c: &ScanCounts, sums: &StatementCounts) {
        self.pages.add(c.pages as usize);
        self.pages_skipped.add(c.pages_skipped as usize);
        self.pages_read.add(c.pages_read as usize);
        self.pages_unmatched.add(c.pages_unmatched as usize);
        self.media_bytes.add(c.media_bytes as usize);
        self.drive_rows.add(c.rows_in as usize);
        self.drive_groups.add(c.groups_out as usize);
        sums.add_task(c);
    }

    /// Counts a page that the host read.
    pub(super) fn page_read(&self, spec: &ScanSpec) {
        self.pages_read.add(1);
        spec.counts.with(|q| q.pages_read += 1);
        spec.counts.read_of(spec.table.name(), 1, 0);
    }

    /// Counts bytes of pages that the buffer pool did not have.
    pub(super) fn pool_missed(&self, down: u64, up: u64, spec: &ScanSpec) {
        self.link(down, up, &spec.counts);
        if up > 0 {
            spec.counts.read_of(spec.table.name(), 0, up);
        }
    }

    /// Counts bytes that crossed the link.
    pub(super) fn link(&self, down: u64, up: u64, sums: &StatementCounts) {
        self.link_bytes.add((down + up) as usize);
        sums.with(|q| {
            q.link_bytes_down += down;
            q.link_bytes_up += up;
        });
    }

    /// Counts run-time filters that reached the scan.
    pub(super) fn narrowed(&self, sums: &StatementCounts) {
        self.narrowed.add(1);
        sums.with(|q| q.narrowed += 1);
    }

    /// Counts pages that an index named for the keys of a join.
    pub(super) fn looked_up(&self, pages: usize) {
        self.looked_up.add(pages);
    }

    /// Counts a batch that leaves the scan.
    pub(super) fn leaves(&self, batch: RecordBatch, sums: &StatementCounts) -> RecordBatch {
        sums.with(|q| q.rows_out += batch.num_rows() as u64);
        batch.record_output(&self.baseline)
    }
}
