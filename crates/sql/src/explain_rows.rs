//! The rows of EXPLAIN: what each is, and its text.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;

/// Rows of EXPLAIN, of two text columns.
///
/// # Errors
/// When the schema has other columns.
pub(crate) fn explain_rows(schema: &SchemaRef, rows: &[(&str, String)]) -> Result<RecordBatch> {
    let kinds = StringArray::from_iter_values(rows.iter().map(|(kind, _)| kind));
    let texts = StringArray::from_iter_values(rows.iter().map(|(_, text)| text));
    Ok(RecordBatch::try_new(schema.clone(), vec![Arc::new(kinds), Arc::new(texts)])?)
}
