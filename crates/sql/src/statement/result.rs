//! What a statement answers.

use std::fmt;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;

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
    /// The statement is done, and has no rows.
    Done {
        /// The statement's verb, such as `CREATE TABLE`.
        verb: String,
    },
}

impl StatementResult {
    pub(crate) fn done(verb: &str) -> Self {
        Self::Done { verb: verb.to_owned() }
    }
}

impl fmt::Debug for StatementResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { schema, .. } => write!(f, "Rows({schema:?})"),
            Self::Count { verb, rows } => write!(f, "{verb} {rows}"),
            Self::Done { verb } => f.write_str(verb),
        }
    }
}
