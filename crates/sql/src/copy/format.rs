//! How the rows of a COPY are written.

/// How the rows are written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Format {
    /// Text or CSV.
    Lines(LineFormat),
    Parquet,
}

/// How the values of a line are told apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LineFormat {
    pub(super) header: bool,
    pub(super) delimiter: u8,
    pub(super) null: String,
    /// `None` in PostgreSQL's text format, where a backslash escapes.
    pub(super) quotes: Option<Quotes>,
}

/// The quotes of CSV.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quotes {
    pub(super) quote: u8,
    /// What stands before a quote within a quoted value. Usually it is the quote.
    pub(super) escape: u8,
}

impl LineFormat {
    pub(super) fn csv() -> Self {
        let quotes = Some(Quotes { quote: b'"', escape: b'"' });
        Self { header: false, delimiter: b',', null: String::new(), quotes }
    }

    /// PostgreSQL's text format.
    pub(super) fn text() -> Self {
        Self { header: false, delimiter: b'\t', null: "\\N".into(), quotes: None }
    }
}
