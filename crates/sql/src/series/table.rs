//! A generate_series of constants as a table whose rows are made as they are read.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;

use super::values::{Series, batch};

/// The table of a series: a column `value`, and `ordinality` where it is asked for.
pub(super) fn table(series: Series, ty: &DataType, with_ordinality: bool) -> Result<StreamingTable> {
    let mut fields = vec![Field::new("value", ty.clone(), true)];
    if with_ordinality {
        fields.push(Field::new("ordinality", DataType::Int64, false));
    }
    let schema = Arc::new(Schema::new(fields));
    let rows = SeriesRows { series, schema: schema.clone() };
    StreamingTable::try_new(schema, vec![Arc::new(rows)])
}

#[derive(Debug)]
struct SeriesRows {
    series: Series,
    schema: SchemaRef,
}

impl PartitionStream for SeriesRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (mut series, schema) = (self.series.clone(), self.schema.clone());
        let (rows_max, mut first) = (context.session_config().batch_size(), 1);
        let batches = std::iter::from_fn(move || {
            let made = series.next_array(rows_max).and_then(|values| {
                let rows = values.len();
                Ok((batch(&schema, values, first)?, rows))
            });
            match made {
                Ok((_, 0)) => None,
                Ok((batch, rows)) => {
                    first += rows as i64;
                    Some(Ok(batch))
                }
                Err(e) => Some(Err(e.into())),
            }
        });
        // An error ends the series: what follows it would fail in the same way.
        let mut failed = false;
        let batches = batches.take_while(move |b| !std::mem::replace(&mut failed, b.is_err()));
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::iter(batches)))
    }
}
