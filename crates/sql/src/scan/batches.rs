//! Rows of pages, gathered or cut into batches of a good size for the operators above.
//!
//! ```text
//!   few rows   ─► gathered until a batch is full
//!   a batch    ─► passed through
//!   many rows  ─► slices that share their buffers
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use lode_command::PageRows;
use lode_engine::Table;

use crate::arrow_convert::to_arrow;

/// Batches under way from pages to the plan.
pub(super) struct Batches {
    schema: SchemaRef,
    /// The columns that come out; `None` is the row's address.
    output: Vec<Option<u16>>,
    coalescer: BatchCoalescer,
    ready: VecDeque<RecordBatch>,
    batch_rows: usize,
}

impl Batches {
    pub(super) fn new(schema: SchemaRef, output: Vec<Option<u16>>, batch_rows: usize) -> Self {
        let coalescer = BatchCoalescer::new(schema.clone(), batch_rows)
            .with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        Self { schema, output, coalescer, ready: VecDeque::new(), batch_rows }
    }

    /// Adds the rows of one page. `page.columns` are the table's columns among the output, in the output's order.
    pub(super) fn push(&mut self, table: &Table, page: &PageRows) -> Result<()> {
        let rows = page.rows as usize;
        if rows == 0 {
            return Ok(());
        }
        let mut columns = page.columns.iter();
        let arrays = self.output.iter().map(|c| match c {
            Some(_) => Ok(to_arrow(columns.next().expect("a page answers each column of the projection"))?),
            None => Ok(addresses(table, page)),
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        let batch = self.batch(arrays, rows)?;
        if batch.num_columns() == 0 {
            self.ready.push_back(batch);
        } else if rows >= 2 * self.batch_rows {
            self.push_large(&batch);
        } else {
            self.coalescer.push_batch(batch)?;
        }
        Ok(())
    }

    /// Adds rows that came together, such as groups. They are passed on at once, however few they are.
    pub(super) fn push_together(&mut self, arrays: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let batch = self.batch(arrays, rows)?;
        self.push_large(&batch);
        Ok(())
    }

    fn batch(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }

    /// Cuts a batch into slices of about the wanted size.
    fn push_large(&mut self, batch: &RecordBatch) {
        let rows = batch.num_rows();
        let pieces = (rows / self.batch_rows).max(1);
        let cut = |i| i * rows / pieces;
        self.ready.extend((0..pieces).map(|i| batch.slice(cut(i), cut(i + 1) - cut(i))));
    }

    /// The next batch that is full.
    pub(super) fn pop(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front().or_else(|| self.coalescer.next_completed_batch())
    }

    /// After the last page: the gathered rows become a batch, however few they are.
    pub(super) fn finish(&mut self) -> Result<()> {
        Ok(self.coalescer.finish_buffered_batch()?)
    }
}

/// The addresses of a page's rows.
fn addresses(table: &Table, page: &PageRows) -> ArrayRef {
    // Addresses of consecutive slots are consecutive.
    let first = table.row_address(page.lpid, 0).raw();
    let addresses: Vec<u64> = match &page.slots {
        Some(slots) => slots.iter().map(|&s| first + u64::from(s)).collect(),
        None => (first..first + u64::from(page.rows)).collect(),
    };
    Arc::new(UInt64Array::from(addresses))
}
