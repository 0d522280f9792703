//! Values of the columns that a COPY FROM leaves out: their defaults, as in an INSERT.
//!
//! ```text
//!   rows of (a, b, NULL) ─► SELECT a, b, __lode_nextval(3) FROM rows ─► rows of (a, b, id)
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::provider_as_source;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast};
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::streaming::PartitionStream;
use lode_engine::{Fill, Snapshot, TableDef};
use parking_lot::Mutex;

use crate::dml::filling;
use crate::session::start;
use crate::{Session, SqlError};

/// `rows` with the defaults of the columns that are not among `given`.
pub(super) async fn with_defaults(
    session: &Session,
    snapshot: Snapshot,
    def: &TableDef,
    given: &[u16],
    rows: SendableRecordBatchStream,
) -> Result<SendableRecordBatchStream, SqlError> {
    let is_filled = |c: usize| {
        !given.contains(&(c as u16)) && !matches!(def.columns[c].fill, Fill::Null | Fill::Generated(_))
    };
    if !(0..def.columns.len()).any(is_filled) {
        return Ok(rows);
    }
    let schema = rows.schema();
    let columns = DFSchema::try_from(schema.clone())?;
    let state = session.state_at(snapshot, None);
    let mut values = Vec::with_capacity(def.columns.len());
    for (c, column) in def.columns.iter().enumerate() {
        values.push(match is_filled(c) {
            true => {
                let value = state.create_logical_expr(&filling(column)?.to_string(), &columns)?;
                cast(value, schema.field(c).data_type().clone()).alias(&column.name)
            }
            false => Expr::Column(Column::from_name(&column.name)),
        });
    }
    let source = OneStream { schema: schema.clone(), rows: Mutex::new(Some(rows)) };
    let table = StreamingTable::try_new(schema, vec![Arc::new(source)])?;
    let source = provider_as_source(Arc::new(table));
    let plan = LogicalPlanBuilder::scan("__lode_rows", source, None)?.project(values)?.build()?;
    Ok(start(&state, &plan).await?.1)
}

/// The same columns, each of which may be NULL: those that COPY leaves out are, until they are filled and checked.
pub(super) fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
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
