//! How a file of COPY is written.

/// How a file is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Format {
    Csv(CsvFormat),
    Parquet,
}

/// How the values of a CSV file are told apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CsvFormat {
    pub(super) header: bool,
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) null: String,
}

impl Default for CsvFormat {
    fn default() -> Self {
        Self { header: false, delimiter: b',', quote: b'"', null: String::new() }
    }
}
