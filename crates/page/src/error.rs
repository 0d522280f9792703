//! Errors of bytes that are no valid page or column.

/// Why bytes are not a page, or a column is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The page's bytes contradict themselves.
    #[error("page {lpid}: {what} at byte {at}")]
    Corrupt {
        /// The page, as its reader named it.
        lpid: lode_base::Lpid,
        /// What is wrong.
        what: &'static str,
        /// Where in the page, in bytes.
        at: usize,
    },
    /// The page was written by a newer Lode.
    #[error("page {lpid} has format version {version}; this Lode reads up to {known}")]
    NewerVersion {
        /// The page.
        lpid: lode_base::Lpid,
        /// Its version.
        version: u8,
        /// The newest version known here.
        known: u8,
    },
    /// A column's buffers do not agree with its type or its rows.
    #[error("bad {data_type} column: {what}")]
    BadColumn {
        /// The column's type.
        data_type: crate::DataType,
        /// What is wrong.
        what: &'static str,
    },
    /// The rows do not fit a page of the size asked for.
    #[error("{rows} rows need {needed_bytes} bytes; a page holds at most {limit_bytes}")]
    TooLarge {
        /// Rows given.
        rows: usize,
        /// Bytes that they need.
        needed_bytes: usize,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
}
