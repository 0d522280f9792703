//! From SQL's types, as declared in CREATE TABLE or produced by a query, to the types of columns.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as Arrow, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{CharacterLength, DataType as Sql, ExactNumberInfo, TimezoneInfo};
use lode_engine::{ColumnDef, TableDef};
use lode_page::DataType;

use crate::SqlError;
use crate::arrow_convert::arrow_type;
use crate::error::state;
use crate::semantics::timestamp_digits::DIGITS_MAX;

/// The type of a column declared as `declared`, and the longest text it may hold, in characters.
///
/// # Errors
/// [`SqlError::Unsupported`] for types that Lode lacks, SQLSTATE 22023 for digits or lengths out of range.
pub(crate) fn declared_type(declared: &Sql) -> Result<(DataType, Option<u32>), SqlError> {
    let plain = |t| Ok((t, None));
    match declared {
        Sql::Boolean | Sql::Bool => plain(DataType::Boolean),
        Sql::SmallInt(None) | Sql::Int2(None) => plain(DataType::SmallInt),
        Sql::Int(None) | Sql::Integer(None) | Sql::Int4(None) => plain(DataType::Integer),
        Sql::BigInt(None) | Sql::Int8(None) => plain(DataType::BigInt),
        Sql::SmallInt(Some(_))
        | Sql::Int2(Some(_))
        | Sql::Int(Some(_))
        | Sql::Integer(Some(_))
        | Sql::Int4(Some(_))
        | Sql::BigInt(Some(_))
        | Sql::Int8(Some(_)) => {
            let message = format!("type modifier is not allowed for type \"{declared}\"");
            Err(SqlError::failed(state::SYNTAX_ERROR, message))
        }
        Sql::Real | Sql::Float4 => plain(DataType::Real),
        Sql::Double(ExactNumberInfo::None) | Sql::DoublePrecision | Sql::Float8 => plain(DataType::Double),
        Sql::Float(ExactNumberInfo::None) => plain(DataType::Double),
        Sql::Float(ExactNumberInfo::Precision(1..=24)) => plain(DataType::Real),
        Sql::Float(ExactNumberInfo::Precision(25..=53)) => plain(DataType::Double),
        Sql::Decimal(digits) | Sql::Numeric(digits) | Sql::Dec(digits) => plain(decimal(declared, digits)?),
        Sql::Text | Sql::String(None) => plain(DataType::Text),
        Sql::Char(None) | Sql::Character(None) => Ok((DataType::Text, Some(1))),
        Sql::Varchar(None) | Sql::CharacterVarying(None) | Sql::CharVarying(None) => plain(DataType::Text),
        Sql::Char(Some(n))
        | Sql::Character(Some(n))
        | Sql::Varchar(Some(n))
        | Sql::CharacterVarying(Some(n))
        | Sql::CharVarying(Some(n)) => Ok((DataType::Text, max_chars(declared, n)?)),
        Sql::Bytea | Sql::Blob(None) => plain(DataType::Bytea),
        Sql::Date => plain(DataType::Date),
        Sql::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => plain(DataType::Timestamp),
        Sql::Custom(name, modifiers)
            if name.to_string().eq_ignore_ascii_case("bpchar") && modifiers.is_empty() =>
        {
            plain(DataType::Text)
        }
        _ => Err(unknown_type(declared)
            .unwrap_or_else(|| SqlError::Unsupported(format!("columns of type {declared}")))),
    }
}

/// The digits of seconds behind the point that a column declared as TIMESTAMP(n) has, if these are not all.
pub(crate) fn timestamp_digits(column: &ColumnDef) -> Option<u32> {
    if column.ty.data_type != DataType::Timestamp {
        return None;
    }
    let (_, rest) = column.declared.split_once('(')?;
    let digits = rest.split_once(')')?.0.trim().parse().ok()?;
    (digits < DIGITS_MAX).then_some(digits)
}

/// The error of a type that PostgreSQL does not have either; `None` if it is one that only Lode lacks.
pub(crate) fn unknown_type(declared: &Sql) -> Option<SqlError> {
    const KNOWN: [&str; 46] = [
        "uuid",
        "json",
        "jsonb",
        "xml",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "money",
        "point",
        "line",
        "lseg",
        "box",
        "path",
        "polygon",
        "circle",
        "tsvector",
        "tsquery",
        "oid",
        "regclass",
        "regtype",
        "regproc",
        "name",
        "bit",
        "varbit",
        "interval",
        "timestamptz",
        "timetz",
        "time",
        "void",
        "record",
        "bpchar",
        "serial",
        "bigserial",
        "smallserial",
        "serial4",
        "serial8",
        "serial2",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
        "pg_lsn",
        "xid",
    ];
    let Sql::Custom(name, _) = declared else { return None };
    let [part] = name.0.as_slice() else { return None };
    let known = crate::names::fold(part.as_ident()?);
    if KNOWN.contains(&known.as_str()) {
        return None;
    }
    Some(SqlError::failed(state::UNDEFINED_OBJECT, format!("type \"{known}\" does not exist")))
}

fn decimal(declared: &Sql, digits: &ExactNumberInfo) -> Result<DataType, SqlError> {
    let (precision, scale) = match *digits {
        // DataFusion's meaning of a bare DECIMAL.
        ExactNumberInfo::None => (38, 10),
        ExactNumberInfo::Precision(p) => (p, 0),
        ExactNumberInfo::PrecisionAndScale(p, s) => (p, s),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => {
            Ok(DataType::Decimal { precision, scale })
        }
        _ => {
            let message =
                format!("{declared}: a decimal has 1 to 38 digits, of which 0 to all stand behind the point");
            Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn max_chars(declared: &Sql, n: &CharacterLength) -> Result<Option<u32>, SqlError> {
    match n {
        CharacterLength::Max => Ok(None),
        CharacterLength::IntegerLength { length, .. } => match u32::try_from(*length) {
            Ok(n) if n > 0 => Ok(Some(n)),
            _ => {
                let message = format!("{declared}: a length is 1 to {}", u32::MAX);
                Err(SqlError::failed(state::INVALID_PARAMETER_VALUE, message))
            }
        },
    }
}

/// The type of a column for values that a query produces as `t`; `None` if Lode has none.
pub(crate) fn column_type(t: &Arrow) -> Option<DataType> {
    Some(match t {
        Arrow::Boolean => DataType::Boolean,
        Arrow::Int8 | Arrow::UInt8 | Arrow::Int16 => DataType::SmallInt,
        Arrow::UInt16 | Arrow::Int32 => DataType::Integer,
        Arrow::UInt32 | Arrow::Int64 => DataType::BigInt,
        Arrow::UInt64 => DataType::Decimal { precision: 20, scale: 0 },
        Arrow::Float16 | Arrow::Float32 => DataType::Real,
        Arrow::Float64 => DataType::Double,
        Arrow::Decimal128(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View => DataType::Text,
        Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_) => DataType::Bytea,
        Arrow::Date32 => DataType::Date,
        Arrow::Timestamp(_, None) => DataType::Timestamp,
        Arrow::Dictionary(_, values) => column_type(values)?,
        _ => return None,
    })
}

/// How SQL writes a column type.
pub(crate) fn sql_type(t: DataType) -> Sql {
    match t {
        DataType::Boolean => Sql::Boolean,
        DataType::SmallInt => Sql::SmallInt(None),
        DataType::Integer => Sql::Int(None),
        DataType::BigInt => Sql::BigInt(None),
        DataType::Real => Sql::Real,
        DataType::Double => Sql::DoublePrecision,
        DataType::Decimal { precision, scale } => {
            Sql::Numeric(ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into()))
        }
        DataType::Text => Sql::Text,
        DataType::Bytea => Sql::Bytea,
        DataType::Date => Sql::Date,
        // Without digits, DataFusion's has nanoseconds.
        DataType::Timestamp => Sql::Timestamp(Some(6), TimezoneInfo::None),
    }
}

/// The schema of a table's rows in queries.
pub(crate) fn arrow_schema(def: &TableDef) -> SchemaRef {
    let field = |c: &ColumnDef| Field::new(&c.name, arrow_type(c.ty.data_type), c.ty.nullable);
    let live = def.live_columns().map(|c| field(&def.columns[usize::from(c)]));
    Arc::new(Schema::new(live.collect::<Vec<_>>()))
}

/// Whether a value of type `from` may be assigned to a column of type `to` without an explicit CAST. Assigning
/// numbers to dates, dates to numbers, or truth values to either is always a mistake.
pub(crate) fn assignable(from: &Arrow, to: &Arrow) -> bool {
    let timely = |t: &Arrow| matches!(t, Arrow::Date32 | Arrow::Date64 | Arrow::Timestamp(..));
    let truth = |t: &Arrow| *t == Arrow::Boolean;
    let kinds = |t: &Arrow| [timely(t), t.is_numeric(), truth(t)];
    let (from, to) = (kinds(from), kinds(to));
    // Everything else is text, bytes or NULL.
    !from.contains(&true) || !to.contains(&true) || from == to
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn parse(text: &str) -> Result<(DataType, Option<u32>), SqlError> {
        let dialect = PostgreSqlDialect {};
        declared_type(&Parser::new(&dialect).try_with_sql(text).unwrap().parse_data_type().unwrap())
    }

    #[test]
    fn declared_types_become_column_types() {
        let check = |text, expected, chars| assert_eq!(parse(text).unwrap(), (expected, chars), "{text}");
        check("INT", DataType::Integer, None);
        check("DOUBLE PRECISION", DataType::Double, None);
        check("DOUBLE", DataType::Double, None);
        check("FLOAT", DataType::Double, None);
        check("REAL", DataType::Real, None);
        check("NUMERIC(15, 2)", DataType::Decimal { precision: 15, scale: 2 }, None);
        check("DECIMAL(5)", DataType::Decimal { precision: 5, scale: 0 }, None);
        check("VARCHAR(44)", DataType::Text, Some(44));
        check("CHAR", DataType::Text, Some(1));
        check("TEXT", DataType::Text, None);
        check("BYTEA", DataType::Bytea, None);
        check("TIMESTAMP", DataType::Timestamp, None);
    }

    #[test]
    fn what_lode_lacks_is_refused() {
        let check = |text, part| {
            let e = parse(text).unwrap_err().to_string();
            assert!(e.contains(part), "{text}: {e}");
        };
        check("DECIMAL(39, 2)", "1 to 38 digits");
        check("DECIMAL(3, 4)", "1 to 38 digits");
        check("VARCHAR(0)", "a length is 1 to");
        check("UUID", "not supported: columns of type UUID");
        check("TIMESTAMP WITH TIME ZONE", "not supported: columns of type TIMESTAMP");
    }
}
