//! COPY: tables from and to files, or from and to who runs the statement.
//!
//! ```text
//!   COPY t [(columns)] FROM 'file' | STDIN  [(FORMAT text|csv|parquet, HEADER, DELIMITER ';', NULL 'x', QUOTE '"')]
//!   COPY t [(columns)] | (query) TO 'file' | STDOUT  [(...)]
//! ```
//!
//! Without FORMAT, the name's ending decides: `.parquet` is Parquet, anything else is CSV. STDIN and STDOUT have
//! PostgreSQL's text format. CSV is as PostgreSQL's: an unquoted empty field is NULL, a quoted one is the empty text.

mod csv_reader;
mod defaults;
mod format;
mod from;
mod line_rows;
mod line_writer;
mod options;
mod text_reader;
mod to;

use std::path::PathBuf;

use datafusion::sql::sqlparser::ast::{
    CopyLegacyOption, CopyOption, CopySource, CopyTarget, ObjectName, Query,
};

use self::format::{Format, LineFormat};
use self::options::{Kind, current, parse_format};
use crate::error::state;
use crate::statement::{StatementResult, fold};
use crate::{Session, SqlError};

/// A COPY statement, parsed and checked.
#[derive(Debug)]
pub(crate) struct Copy {
    source: Source,
    target: Target,
    to: bool,
}

#[derive(Debug)]
enum Target {
    File(PathBuf, Format),
    /// STDIN or STDOUT.
    Stream(LineFormat),
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
        // The parser reads what is behind the statement as its rows.
        if values.iter().any(|v| v.as_deref() != Some("")) {
            return Err(SqlError::Unsupported("COPY FROM STDIN with a statement behind it".into()));
        }
        let legacy = legacy.iter().map(current).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<CopyOption> = options.iter().cloned().chain(legacy.into_iter().flatten()).collect();
        let source = match source {
            CopySource::Table { table_name, columns } => {
                Source::Table { name: table_name.clone(), columns: columns.iter().map(fold).collect() }
            }
            CopySource::Query(query) => Source::Query(query.clone()),
        };
        let target = match (target, to) {
            (CopyTarget::File { filename }, _) => {
                let path = PathBuf::from(filename);
                let parquet = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"));
                let format = parse_format(if parquet { Kind::Parquet } else { Kind::Csv }, &options)?;
                Target::File(path, format)
            }
            // As in PostgreSQL, either word stands for both.
            (CopyTarget::Stdin | CopyTarget::Stdout, _) => match parse_format(Kind::Text, &options)? {
                Format::Lines(format) => Target::Stream(format),
                Format::Parquet => {
                    return Err(SqlError::Unsupported("COPY of Parquet FROM STDIN or TO STDOUT".into()));
                }
            },
            (CopyTarget::Program { .. }, _) => {
                return Err(SqlError::Unsupported("COPY with a program".into()));
            }
        };
        Ok(Self { source, target, to })
    }
}

/// Runs a COPY.
pub(crate) async fn run(session: &Session, copy: Copy) -> Result<StatementResult, SqlError> {
    let rows = match (copy.to, copy.source, copy.target) {
        (false, Source::Table { name, columns }, Target::File(path, format)) => {
            from::copy_from(session, &name, &columns, path, format).await?
        }
        (false, Source::Table { name, columns }, Target::Stream(format)) => {
            return Ok(StatementResult::CopyIn(from::copy_in(session, &name, &columns, format).await?));
        }
        (true, source, Target::File(path, format)) => to::copy_to(session, source, path, format).await?,
        (true, source, Target::Stream(format)) => {
            return Ok(StatementResult::CopyOut(to::copy_out(session, source, format).await?));
        }
        (false, Source::Query(_), _) => {
            return Err(SqlError::failed(state::SYNTAX_ERROR, "COPY of a query goes TO a file"));
        }
    };
    Ok(StatementResult::Count { verb: "COPY", rows })
}

#[cfg(test)]
mod tests {
    use super::format::Quotes;
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
        let check = |sql, expected| match parse(sql).unwrap().target {
            Target::File(_, format) => assert_eq!(format, expected, "{sql}"),
            Target::Stream(format) => assert_eq!(Format::Lines(format), expected, "{sql}"),
        };
        check("COPY t FROM 'a.parquet'", Format::Parquet);
        check("COPY t FROM 'a.dat' (FORMAT parquet)", Format::Parquet);
        check("COPY t FROM 'a.tbl'", Format::Lines(LineFormat::csv()));
        check("COPY t FROM 'a.tbl' (FORMAT text)", Format::Lines(LineFormat::text()));
        check("COPY t FROM STDIN", Format::Lines(LineFormat::text()));
        check("COPY (SELECT 1) TO STDOUT CSV", Format::Lines(LineFormat::csv()));
        check(
            "COPY t FROM STDIN WITH CSV HEADER QUOTE '!' ESCAPE '?'",
            Format::Lines(LineFormat {
                header: true,
                quotes: Some(Quotes { quote: b'!', escape: b'?' }),
                ..LineFormat::csv()
            }),
        );
        check(
            "COPY t FROM 'a.tbl' WITH (FORMAT csv, HEADER, DELIMITER '|', NULL 'NA')",
            Format::Lines(LineFormat {
                header: true,
                delimiter: b'|',
                null: "NA".into(),
                ..LineFormat::csv()
            }),
        );
    }

    #[test]
    fn what_copy_lacks_is_refused() {
        let check = |sql, part| {
            let e = parse(sql).unwrap_err().to_string();
            assert!(e.contains(part), "{sql}: {e}");
        };
        check("COPY t FROM PROGRAM 'ls'", "with a program");
        check("COPY t FROM 'a' (FORMAT json)", "not recognized");
        check("COPY t FROM STDIN (FORMAT parquet)", "Parquet FROM STDIN");
        check("COPY t FROM STDIN (FORMAT csv, FORCE_NULL (a))", "FORCE_NULL");
        check("COPY t FROM STDIN (QUOTE '!')", "only in CSV");
        check("COPY t FROM STDIN (DELIMITER 'a')", "cannot be a letter");
        check("COPY t FROM STDIN (NULL '|', DELIMITER '|')", "must not appear");
        check("COPY t FROM 'a.parquet' (HEADER)", "option of CSV");
        check("COPY t FROM 'a' (DELIMITER '\"')", "must be different");
    }
}
