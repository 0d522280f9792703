//! The rows that a change finds, some at a time, so that a change of any size takes little memory.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;

use crate::SqlError;
use crate::session::start;

/// Rows of a part, about. A change of fewer rows is one part.
const PART_ROWS: usize = 1 << 16;
/// A part with this many bytes ends, however few rows it has.
const PART_BYTES: usize = 8 << 20;

/// The result of a change's query.
pub(super) struct Parts {
    schema: SchemaRef,
    rows: SendableRecordBatchStream,
}

impl Parts {
    pub(super) async fn start(state: &SessionState, plan: &LogicalPlan) -> Result<Self, SqlError> {
        let (schema, rows) = start(state, plan).await?;
        Ok(Self { schema, rows })
    }

    /// The result of a plan.
    pub(super) fn of(state: &SessionState, plan: Arc<dyn ExecutionPlan>) -> Result<Self, SqlError> {
        let rows = execute_stream(plan, state.task_ctx())?;
        Ok(Self { schema: rows.schema(), rows })
    }

    /// The next rows as one batch; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        let (mut batches, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < PART_ROWS && bytes < PART_BYTES {
            let Some(batch) = self.rows.next().await else { break };
            let batch = batch?;
            rows += batch.num_rows();
            bytes += bytes_of(&batch);
            batches.push(batch);
        }
        match rows {
            0 => Ok(None),
            _ => Ok(Some(concat_batches(&self.schema, &batches)?)),
        }
    }
}

/// Bytes of the rows of a batch, which may be a part of larger arrays.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of = |array: &ArrayRef| {
        array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
    };
    batch.columns().iter().map(of).sum()
}

/// The rows that a statement has changed so far: a bit for each, in words of 64 neighbours.
#[derive(Default)]
pub(super) struct ChangedRows(HashMap<u64, u64>);

impl ChangedRows {
    /// The rows of a batch that were not there before. The first column identifies them.
    pub(super) fn only_new(&mut self, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
        let new: BooleanArray =
            super::shared::row_identities(batch).values().iter().map(|&row| Some(self.insert(row))).collect();
        Ok(filter_record_batch(batch, &new)?)
    }

    /// Adds a row; answers whether it is new.
    pub(super) fn insert(&mut self, row: u64) -> bool {
        let (word, bit) = (self.0.entry(row / 64).or_default(), 1 << (row % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}
