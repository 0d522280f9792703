//! The options of a COPY: what they ask for, and what contradicts itself.

use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};

use super::format::{Format, LineFormat};
use crate::SqlError;
use crate::error::state;
use crate::statement::fold;

/// The kind of a format.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Text,
    Csv,
    Parquet,
}

/// Options as they were written before PostgreSQL 9.0: `COPY t FROM STDIN CSV HEADER`.
pub(super) fn current(option: &CopyLegacyOption) -> Result<Vec<CopyOption>, SqlError> {
    Ok(match option {
        CopyLegacyOption::Delimiter(c) => vec![CopyOption::Delimiter(*c)],
        CopyLegacyOption::Null(text) => vec![CopyOption::Null(text.clone())],
        CopyLegacyOption::Header => vec![CopyOption::Header(true)],
        CopyLegacyOption::Csv(of_csv) => {
            let each = of_csv.iter().map(|option| match option {
                CopyLegacyCsvOption::Header => CopyOption::Header(true),
                CopyLegacyCsvOption::Quote(c) => CopyOption::Quote(*c),
                CopyLegacyCsvOption::Escape(c) => CopyOption::Escape(*c),
                CopyLegacyCsvOption::ForceQuote(columns) => CopyOption::ForceQuote(columns.clone()),
                CopyLegacyCsvOption::ForceNotNull(columns) => CopyOption::ForceNotNull(columns.clone()),
            });
            std::iter::once(CopyOption::Format(Ident::new("csv"))).chain(each).collect()
        }
        other => return Err(SqlError::Unsupported(format!("COPY with {other}"))),
    })
}

/// The format that options ask for; `otherwise`, if they do not.
///
/// # Errors
/// Options that contradict each other, and those that are not carried out.
pub(super) fn parse_format(otherwise: Kind, options: &[CopyOption]) -> Result<Format, SqlError> {
    for (i, option) in options.iter().enumerate() {
        let is_same = |o: &CopyOption| std::mem::discriminant(o) == std::mem::discriminant(option);
        if options[..i].iter().any(is_same) {
            return Err(SqlError::failed(state::SYNTAX_ERROR, "conflicting or redundant options"));
        }
    }
    let kind = kind(otherwise, options)?;
    let mut lines = if kind == Kind::Text { LineFormat::text() } else { LineFormat::csv() };
    let (mut of_lines, mut escape) = (None, None);
    for option in options {
        match (option, &mut lines.quotes) {
            (CopyOption::Format(_), _) => continue,
            (CopyOption::Header(header), _) => lines.header = *header,
            (CopyOption::Delimiter(c), _) => lines.delimiter = one_byte("DELIMITER", *c)?,
            (CopyOption::Quote(c), Some(quotes)) => quotes.quote = one_byte("QUOTE", *c)?,
            (CopyOption::Escape(c), Some(_)) => escape = Some(one_byte("ESCAPE", *c)?),
            (CopyOption::Quote(_) | CopyOption::Escape(_), None) => {
                let message = format!("COPY {option} available only in CSV mode");
                return Err(SqlError::failed(state::FEATURE_NOT_SUPPORTED, message));
            }
            (CopyOption::Null(text), _) if text.contains(['\n', '\r']) => {
                return wrong("COPY null representation cannot use newline or carriage return");
            }
            (CopyOption::Null(text), _) => lines.null.clone_from(text),
            (CopyOption::Encoding(name), _) if name.to_ascii_lowercase().replace('-', "") == "utf8" => {}
            (CopyOption::Freeze(false), _) => {}
            (other, _) => return Err(SqlError::Unsupported(format!("COPY with {other}"))),
        }
        of_lines = Some(option);
    }
    match (kind, of_lines, &mut lines.quotes) {
        (Kind::Parquet, Some(option), _) => {
            return Err(SqlError::Unsupported(format!("{option} with Parquet: it is an option of CSV")));
        }
        (Kind::Parquet, None, _) => return Ok(Format::Parquet),
        (_, _, Some(quotes)) => {
            quotes.escape = escape.unwrap_or(quotes.quote);
            if lines.delimiter == quotes.quote {
                return wrong("COPY delimiter and quote must be different");
            }
        }
        // These would be read as an escape.
        (_, _, None) if matches!(lines.delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9') => {
            return wrong("COPY delimiter cannot be a letter, a digit, a point or a backslash");
        }
        (_, _, None) => {}
    }
    match lines.null.as_bytes().contains(&lines.delimiter) {
        true => Err(SqlError::failed(
            state::FEATURE_NOT_SUPPORTED,
            "COPY delimiter must not appear in the NULL specification",
        )),
        false => Ok(Format::Lines(lines)),
    }
}

fn wrong<T>(message: &str) -> Result<T, SqlError> {
    Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, message))
}

fn kind(otherwise: Kind, options: &[CopyOption]) -> Result<Kind, SqlError> {
    let mut kind = otherwise;
    for option in options {
        let CopyOption::Format(name) = option else { continue };
        kind = match fold(name).as_str() {
            "text" => Kind::Text,
            "csv" => Kind::Csv,
            "parquet" => Kind::Parquet,
            "binary" => return Err(SqlError::Unsupported("COPY of format binary".into())),
            other => {
                return wrong(&format!(
                    "COPY format \"{other}\" not recognized: expected text, csv or parquet"
                ));
            }
        };
    }
    Ok(kind)
}

fn one_byte(option: &str, c: char) -> Result<u8, SqlError> {
    match u8::try_from(c) {
        Ok(b) if b.is_ascii() && b != b'\n' && b != b'\r' => Ok(b),
        _ => Err(SqlError::Unsupported(format!(
            "{option} of {c:?}: expected an ASCII character that does not end a line"
        ))),
    }
}
