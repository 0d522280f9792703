//! What a statement answers.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::OutputNames;

use crate::{CopyIn, CopyOut};

/// What a statement answers.
pub enum StatementResult {
    /// Rows, which are computed as the stream is read.
    Rows {
        /// Names and types of the columns.
        schema: SchemaRef,
        /// The rows. Its errors convert to [`crate::SqlError`] by `From`.
        stream: SendableRecordBatchStream,
    },
    /// Rows were changed or copied.
    Count {
        /// The statement's verb, such as `INSERT`.
        verb: &'static str,
        /// How many rows.
        rows: u64,
    },
    /// COPY FROM STDIN waits for its rows.
    CopyIn(CopyIn),
    /// The rows of COPY TO STDOUT, which are computed as they are taken.
    CopyOut(CopyOut),
    /// The statement is done, and has no rows.
    Done {
        /// The statement's verb, such as `CREATE TABLE`.
        verb: String,
    },
}

impl StatementResult {
    /// The same rows, with columns of these names.
    pub(crate) fn named(self, names: Option<&OutputNames>) -> Self {
        let Some(names) = names else { return self };
        let (schema, stream) = match self {
            Self::Rows { schema, stream } => (schema, stream),
            other => return other,
        };
        let named = names.name(&schema);
        if Arc::ptr_eq(&named, &schema) {
            return Self::Rows { schema, stream };
        }
        let of = named.clone();
        let rename = move |batch: RecordBatch| {
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns().to_vec();
            Ok(RecordBatch::try_new_with_options(of.clone(), columns, &options)?)
        };
        let stream = stream.map(move |batch| batch.and_then(&rename));
        let stream = Box::pin(RecordBatchStreamAdapter::new(named.clone(), stream));
        Self::Rows { schema: named, stream }
    }

    pub(crate) fn done(verb: &str) -> Self {
        Self::Done { verb: verb.to_owned() }
    }
}

impl fmt::Debug for StatementResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { schema, .. } => write!(f, "Rows({schema:?})"),
            Self::Count { verb, rows } => write!(f, "{verb} {rows}"),
            Self::CopyIn(copy) => copy.fmt(f),
            Self::CopyOut(copy) => copy.fmt(f),
            Self::Done { verb } => f.write_str(verb),
        }
    }
}
