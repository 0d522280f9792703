//! Sums of what the scans of one statement read, sent and received.

use lode_base::TableId;
use lode_command::ScanCounts;
use lode_program::Expr;
use parking_lot::Mutex;

use crate::scan::Sample;

/// Sums over all scans of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryCounts {
    /// Table scans that started; the partitions of one are not counted separately.
    pub scans: u64,
    /// Mapped pages considered.
    pub pages: u64,
    /// Of those, skipped by the page index without being read.
    pub pages_skipped: u64,
    /// Of those, read by the drive or by the host.
    pub pages_read: u64,
    /// Of those, dropped by the drive as it read them, since keys of the filter are not in them.
    pub pages_unmatched: u64,
    /// Bytes read from the medium by scan tasks, in whole read units.
    pub media_bytes: u64,
    /// Bytes sent to the drive.
    pub link_bytes_down: u64,
    /// Bytes that the drive sent.
    pub link_bytes_up: u64,
    /// Rows that the drive looked at.
    pub rows_in: u64,
    /// Values that the drive compared.
    pub values_compared: u64,
    /// Rows that the scans handed to the plan above them.
    pub rows_out: u64,
    /// Partial groups that the drive sent in the place of rows.
    pub groups: u64,
    /// Run-time filters handed to running scans.
    pub narrowed: u64,
    /// Keys that nested joins looked up.
    pub look_ups: u64,
    /// Whether the statement was a short one: its scan is then a lookup of one row, which counts no pages.
    pub short: bool,
}

/// The sums of a statement while it runs, and what it has sampled. Its scans share them, and the session reads the sums.
#[derive(Debug, Default)]
pub struct StatementCounts {
    sums: Mutex<QueryCounts>,
    /// A sample for each table and filter.
    samples: Mutex<Vec<(TableId, Expr, Sample)>>,
}

impl StatementCounts {
    /// The sums so far.
    pub fn get(&self) -> QueryCounts {
        *self.sums.lock()
    }

    /// Changes the sums.
    pub fn with(&self, change: impl FnOnce(&mut QueryCounts)) {
        change(&mut self.sums.lock());
    }

    /// What the statement has sampled of a table, by a filter.
    pub(crate) fn sample(&self, table: TableId, filter: &Expr) -> Option<Sample> {
        let samples = self.samples.lock();
        samples.iter().find(|(of, by, _)| *of == table && by == filter).map(|(.., sample)| *sample)
    }

    /// Keeps a sample for the rest of the statement.
    pub(crate) fn keep_sample(&self, table: TableId, filter: &Expr, sample: Sample) {
        self.samples.lock().push((table, filter.clone(), sample));
    }

    /// Adds the counts of a drive's task. Rows that come out are counted where they leave the scan.
    pub(crate) fn add_task(&self, c: &ScanCounts) {
        self.with(|q| {
            q.pages += c.pages;
            q.pages_skipped += c.pages_skipped;
            q.pages_read += c.pages_read;
            q.pages_unmatched += c.pages_unmatched;
            q.media_bytes += c.media_bytes;
            q.rows_in += c.rows_in;
            q.values_compared += c.values_compared;
            q.groups += c.groups_out;
        });
    }
}
