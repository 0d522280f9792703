//! Plans over rows that come once.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::streaming::PartitionStream;
use parking_lot::Mutex;

use crate::SqlError;

/// A plan that reads `rows`. It runs once.
pub(crate) fn scan_once(rows: SendableRecordBatchStream) -> Result<LogicalPlanBuilder, SqlError> {
    let schema = rows.schema();
    let source = OneStream { schema: schema.clone(), rows: Mutex::new(Some(rows)) };
    let table = StreamingTable::try_new(schema, vec![Arc::new(source)])?;
    Ok(LogicalPlanBuilder::scan("__lode_rows", provider_as_source(Arc::new(table)), None)?)
}

/// Rows that are read once.
struct OneStream {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for OneStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneStream")
    }
}

impl PartitionStream for OneStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        match self.rows.lock().take() {
            Some(rows) => rows,
            None => Box::pin(EmptyRecordBatchStream::new(self.schema.clone())),
        }
    }
}
