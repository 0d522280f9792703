//! COPY: tables from and to files.
//!
//! ```text
//!   COPY t [(columns)] FROM 'file' [(FORMAT csv|parquet, HEADER, DELIMITER ';', NULL 'x', QUOTE '"')]
//!   COPY t [(columns)] | (query) TO 'file' [(...)]
//! ```
//!
//! Without FORMAT, the name's ending decides: `.parquet` is Parquet, anything else is CSV. CSV is as PostgreSQL's: an
//! unquoted empty field is NULL, a quoted one is the empty text.

mod csv_reader;
mod csv_rows;
mod csv_writer;
mod format;
mod from;
mod to;

use std::path::PathBuf;

use datafusion::sql::sqlparser::ast::{
    CopyLegacyOption, CopyOption, CopySource, CopyTarget, ObjectName, Query,
};

use self::format::{CsvFormat, Format};
use crate::error::state;
use crate::statement::{StatementResult, fold};
use crate::{Session, SqlError};

/// A COPY statement, parsed and checked.
#[derive(Debug)]
pub(crate) struct Copy {
    source: Source,
    path: PathBuf,
    format: Format,
    to: bool,
}

#[derive(Debug)]
enum Source {
    Table { name: ObjectName, columns: Vec<String> },
    Query(Box<Query>),
}

impl Copy {
    /// Reads the parts of a parsed COPY.
    pub(crate) fn parse(
        source: &CopySource,
        to: bool,
        target: &CopyTarget,
        options: &[CopyOption],
        legacy: &[CopyLegacyOption],
        values: &[Option<String>],
    ) -> Result<Self, SqlError> {
        let CopyTarget::File { filename } = target else {
            return Err(SqlError::Unsupported("COPY with anything but a file".into()));
        };
        if !legacy.is_empty() || !values.is_empty() {
            return Err(SqlError::Unsupported(
                "COPY with options outside (...): write COPY ... (FORMAT csv, HEADER)".into(),
            ));
        }
        let source = match source {
            CopySource::Table { table_name, columns } => {
                Source::Table { name: table_name.clone(), columns: columns.iter().map(fold).collect() }
            }
            CopySource::Query(query) => Source::Query(query.clone()),
        };
        let path = PathBuf::from(filename);
        let format = parse_format(&path, options)?;
        Ok(Self { source, path, format, to })
    }
}

fn parse_format(path: &std::path::Path, options: &[CopyOption]) -> Result<Format, SqlError> {
    let mut parquet = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"));
    let mut csv = CsvFormat::default();
    let mut csv_option = None;
    for option in options {
        match option {
            CopyOption::Format(name) => {
                parquet = match fold(name).as_str() {
                    "csv" => false,
                    "parquet" => true,
                    other => {
                        return Err(SqlError::Unsupported(format!(
                            "COPY of format {other}: expected csv or parquet"
                        )));
                    }
                };
                continue;
            }
            CopyOption::Header(header) => csv.header = *header,
            CopyOption::Delimiter(c) => csv.delimiter = one_byte("DELIMITER", *c)?,
            CopyOption::Quote(c) => csv.quote = one_byte("QUOTE", *c)?,
            CopyOption::Null(text) => csv.null.clone_from(text),
            CopyOption::Encoding(name) if name.to_ascii_lowercase().replace('-', "") == "utf8" => {}
            other => return Err(SqlError::Unsupported(format!("COPY with {other}"))),
        }
        csv_option = Some(option);
    }
    match (parquet, csv_option) {
        (true, Some(option)) => {
            Err(SqlError::Unsupported(format!("{option} with Parquet: it is an option of CSV")))
        }
        (true, None) => Ok(Format::Parquet),
        (false, _) if csv.delimiter == csv.quote => {
            Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, "DELIMITER and QUOTE cannot be the same"))
        }
        (false, _) => Ok(Format::Csv(csv)),
    }
}

fn one_byte(option: &str, c: char) -> Result<u8, SqlError> {
    match u8::try_from(c) {
        Ok(b) if b.is_ascii() && b != b'\n' && b != b'\r' => Ok(b),
        _ => Err(SqlError::Unsupported(format!(
            "{option} of {c:?}: expected an ASCII character that does not end a line"
        ))),
    }
}

/// Runs a COPY.
pub(crate) async fn run(session: &Session, copy: Copy) -> Result<StatementResult, SqlError> {
    let rows = match (copy.to, copy.source) {
        (false, Source::Table { name, columns }) => {
            from::copy_from(session, &name, &columns, copy.path, copy.format).await?
        }
        (true, source) => to::copy_to(session, source, copy.path, copy.format).await?,
        (false, Source::Query(_)) => {
            return Err(SqlError::failed(state::SYNTAX_ERROR, "COPY of a query goes TO a file"));
        }
    };
    Ok(StatementResult::Count { verb: "COPY", rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Statement;
    use datafusion::sql::parser::Statement as Parsed;
    use datafusion::sql::sqlparser::ast::Statement as Sql;

    fn parse(sql: &str) -> Result<Copy, SqlError> {
        let parsed = Statement::parse(sql).unwrap().remove(0).parsed;
        let Parsed::Statement(statement) = (*parsed).clone() else { panic!("{sql}") };
        let Sql::Copy { source, to, target, options, legacy_options, values } = *statement else {
            panic!("{sql}")
        };
        Copy::parse(&source, to, &target, &options, &legacy_options, &values)
    }

    #[test]
    fn formats_come_from_options_or_the_name() {
        let check = |sql, expected| assert_eq!(parse(sql).unwrap().format, expected, "{sql}");
        check("COPY t FROM 'a.parquet'", Format::Parquet);
        check("COPY t FROM 'a.dat' (FORMAT parquet)", Format::Parquet);
        check("COPY t FROM 'a.tbl'", Format::Csv(CsvFormat::default()));
        check(
            "COPY t FROM 'a.tbl' WITH (FORMAT csv, HEADER, DELIMITER '|', NULL 'NA')",
            Format::Csv(CsvFormat {
                header: true,
                delimiter: b'|',
                null: "NA".into(),
                ..CsvFormat::default()
            }),
        );
    }

    #[test]
    fn what_copy_lacks_is_refused() {
        let check = |sql, part| {
            let e = parse(sql).unwrap_err().to_string();
            assert!(e.contains(part), "{sql}: {e}");
        };
        check("COPY t TO STDOUT", "anything but a file");
        check("COPY t FROM 'a' (FORMAT json)", "expected csv or parquet");
        check("COPY t FROM 'a.parquet' (HEADER)", "option of CSV");
        check("COPY t FROM 'a' (DELIMITER '\"')", "cannot be the same");
        check("COPY t FROM 'a' CSV", "outside (...)");
    }
}
