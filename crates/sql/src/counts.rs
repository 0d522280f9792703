//! Sums of what the scans of one statement read, sent and received.

use lode_base::TableId;
use lode_command::ScanCounts;
use lode_program::Expr;
use parking_lot::Mutex;

use crate::query_shape::Shape;
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
    /// What is known of the different values of a table's column.
    distinct: Mutex<Vec<(TableId, u16, Option<f64>)>>,
    /// Where its tables are.
    shape: Mutex<Shape>,
    reads: Mutex<Vec<TableReads>>,
}

/// What a statement read of a table through the buffer pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReads {
    /// The table.
    pub table: String,
    /// Pages that were asked for.
    pub pages: u64,
    /// Bytes that the drive sent, since the pool did not have them.
    pub link_bytes_up: u64,
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

    /// What was read of each table through the buffer pool.
    pub(crate) fn reads(&self) -> Vec<TableReads> {
        self.reads.lock().clone()
    }

    /// Counts pages of a table that were asked for, and bytes that the drive sent for them.
    pub(crate) fn read_of(&self, table: &str, pages: u64, link_bytes_up: u64) {
        let mut reads = self.reads.lock();
        match reads.iter_mut().find(|r| r.table == table) {
            Some(known) => {
                known.pages += pages;
                known.link_bytes_up += link_bytes_up;
            }
            None => reads.push(TableReads { table: table.into(), pages, link_bytes_up }),
        }
    }

    /// Where the tables of the statement are, as far as it is known.
    pub(crate) fn shape(&self) -> Shape {
        self.shape.lock().clone()
    }

    /// Keeps where the tables of the statement are.
    pub(crate) fn keep_shape(&self, shape: Shape) {
        *self.shape.lock() = shape;
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

    /// What the statement has found of the different values of a table's column. The outer `None` is: it has not looked.
    pub(crate) fn distinct(&self, table: TableId, column: u16) -> Option<Option<f64>> {
        let known = self.distinct.lock();
        known.iter().find(|(of, c, _)| (*of, *c) == (table, column)).map(|(.., found)| *found)
    }

    /// Keeps that for the rest of the statement.
    pub(crate) fn keep_distinct(&self, table: TableId, column: u16, found: Option<f64>) {
        self.distinct.lock().push((table, column, found));
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
