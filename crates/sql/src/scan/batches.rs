//! Gathers or cuts the rows of pages into batches of a good size for the operators above.
//!
//! ```text
//!   few rows   ─► gathered until a batch is full
//!   a batch    ─► passed through
//!   many rows  ─► kept as columns; each batch is made on demand, so that it is still in the CPU's cache
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use lode_command::PageRows;
use lode_engine::Table;

use crate::arrow_convert::Pieces;

/// Turns the rows of pages into batches for the plan.
pub(super) struct Batches {
    schema: SchemaRef,
    /// The output columns; `None` is the row's address.
    output: Vec<Option<u16>>,
    coalescer: BatchCoalescer,
    ready: VecDeque<RecordBatch>,
    pages: VecDeque<Page>,
    batch_rows: usize,
}

/// A page that returned many rows. Some of them may already be batches.
struct Page {
    /// One entry for each output column; `None` is the row's address.
    columns: Vec<Option<Pieces>>,
    addresses: Option<ArrayRef>,
    rows: usize,
    /// The number of batches that the page makes.
    pieces: usize,
    made: usize,
}

impl Batches {
    pub(super) fn new(schema: SchemaRef, output: Vec<Option<u16>>, batch_rows: usize) -> Self {
        let coalescer = BatchCoalescer::new(schema.clone(), batch_rows)
            .with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        Self { schema, output, coalescer, ready: VecDeque::new(), pages: VecDeque::new(), batch_rows }
    }

    /// Adds the rows of one page. `page.columns` must be the table's columns of the output, in the output's order.
    pub(super) fn push(&mut self, table: &Table, page: &PageRows) -> Result<()> {
        let rows = page.rows as usize;
        if rows == 0 {
            return Ok(());
        }
        let mut columns = page.columns.iter();
        let column = |c: &Option<u16>| match c {
            Some(_) => {
                let column = columns.next().expect("a page answers each column of the projection");
                Pieces::new(column.clone()).map(Some)
            }
            None => Ok(None),
        };
        let columns = self.output.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let addresses = self.output.contains(&None).then(|| addresses(table, page));
        let many = rows >= 2 * self.batch_rows && !columns.is_empty();
        let pieces = if many { rows.div_ceil(self.batch_rows) } else { 1 };
        let mut page = Page { columns, addresses, rows, pieces, made: 0 };
        if many {
            self.pages.push_back(page);
            return Ok(());
        }
        let batch = self.batch(page.next()?, rows)?;
        if batch.num_columns() == 0 {
            self.ready.push_back(batch);
        } else {
            self.coalescer.push_batch(batch)?;
        }
        Ok(())
    }

    /// Adds rows that arrived together, such as groups. They are passed on at once, even if they are few.
    pub(super) fn push_together(&mut self, arrays: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let batch = self.batch(arrays, rows)?;
        let pieces = (rows / self.batch_rows).max(1);
        let cut = |i| i * rows / pieces;
        self.ready.extend((0..pieces).map(|i| batch.slice(cut(i), cut(i + 1) - cut(i))));
        Ok(())
    }

    fn batch(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }

    /// Returns the next batch that is ready.
    pub(super) fn pop(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.ready.pop_front() {
            return Ok(Some(batch));
        }
        let Some(page) = self.pages.front_mut() else { return Ok(self.coalescer.next_completed_batch()) };
        let rows = page.next_rows().len();
        let arrays = page.next()?;
        if page.made == page.pieces {
            self.pages.pop_front();
        }
        self.batch(arrays, rows).map(Some)
    }

    /// Makes a batch of the gathered rows, even if they are few. The caller calls it after the last page.
    pub(super) fn finish(&mut self) -> Result<()> {
        Ok(self.coalescer.finish_buffered_batch()?)
    }
}

impl Page {
    /// Returns the rows of the next batch.
    fn next_rows(&self) -> Range<usize> {
        let cut = |i| i * self.rows / self.pieces;
        cut(self.made)..cut(self.made + 1)
    }

    /// Makes the arrays of the next batch.
    fn next(&mut self) -> Result<Vec<ArrayRef>> {
        let rows = self.next_rows();
        self.made += 1;
        let array = |column: &Option<Pieces>| match (column, &self.addresses) {
            (Some(pieces), _) => Ok(pieces.piece(rows.clone())?),
            (None, addresses) => {
                let addresses = addresses.as_ref().expect("addresses were made where they come out");
                Ok(addresses.slice(rows.start, rows.len()))
            }
        };
        self.columns.iter().map(array).collect()
    }
}

/// Returns the addresses of a page's rows.
fn addresses(table: &Table, page: &PageRows) -> ArrayRef {
    // Consecutive slots have consecutive addresses.
    let first = table.row_address(page.lpid, 0).raw();
    let addresses: Vec<u64> = match &page.slots {
        Some(slots) => slots.iter().map(|&s| first + u64::from(s)).collect(),
        None => (first..first + u64::from(page.rows)).collect(),
    };
    Arc::new(UInt64Array::from(addresses))
}
