//! Values of the columns that a COPY FROM leaves out: their defaults, as in an INSERT.
//!
//! ```text
//!   rows of (a, b, NULL) ─► SELECT a, b, __lode_nextval(3) FROM rows ─► rows of (a, b, id)
//! ```

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{Expr, cast};
use lode_engine::{Fill, Snapshot, TableDef};

use crate::dml::filling;
use crate::one_stream::scan_once;
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
    let plan = scan_once(rows)?.project(values)?.build()?;
    Ok(start(&state, &plan).await?.1)
}

/// The same columns, each of which may be NULL: those that COPY leaves out are, until they are filled and checked.
pub(super) fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
