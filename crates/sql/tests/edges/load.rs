//! Makes the tables and fills them with the rows recorded from PostgreSQL, without evaluating any expression in Lode.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use lode_sql::{Session, StatementResult};

use super::cases::{Answer, Case};

/// The kinds of tables: `e_int` and its twin `x_int`, and so on.
pub(crate) const NAMES: [&str; 6] = ["int", "flt", "num", "text", "time", "bool"];

/// Fills `x_` tables by a load, in column pages, and `e_` tables by INSERT, in row pages.
pub(crate) async fn load(session: &Session, cases: &[Case]) {
    for statement in include_str!("tables.sql").split(";\n").filter(|s| s.contains("CREATE ")) {
        session.execute(statement).await.unwrap_or_else(|e| panic!("{statement}\nfails: {e}"));
    }
    for name in NAMES {
        let batch = batch(schema(session, name).await, rows(cases, name));
        let loaded = session.load_batches(&format!("x_{name}"), futures::stream::iter([Ok(batch)])).await;
        assert!(loaded.expect("the rows load") > 0);
        let insert = format!("INSERT INTO e_{name} SELECT * FROM x_{name}");
        session.execute(&insert).await.unwrap_or_else(|e| panic!("{insert}\nfails: {e}"));
    }
}

async fn schema(session: &Session, name: &str) -> SchemaRef {
    match session.execute(&format!("SELECT * FROM x_{name}")).await.expect("the table is there").pop() {
        Some(StatementResult::Rows { schema, .. }) => schema,
        other => panic!("x_{name}: {other:?}"),
    }
}

fn rows<'a>(cases: &'a [Case], name: &str) -> &'a [Vec<Option<String>>] {
    let sql = format!("SELECT * FROM e_{name} ORDER BY id");
    match cases.iter().find(|c| c.sql == sql).map(|c| &c.answer) {
        Some(Answer::Rows { rows, .. }) => rows,
        _ => panic!("no recorded rows of e_{name}"),
    }
}

fn batch(schema: SchemaRef, rows: &[Vec<Option<String>>]) -> RecordBatch {
    let columns = schema.fields().iter().enumerate().map(|(n, field)| {
        let texts: Vec<Option<&str>> = rows.iter().map(|r| r[n].as_deref()).collect();
        array(field.data_type(), &texts)
    });
    RecordBatch::try_new(schema.clone(), columns.collect()).expect("columns of the table's types")
}

fn array(data_type: &DataType, texts: &[Option<&str>]) -> ArrayRef {
    fn each<T>(texts: &[Option<&str>], of: impl Fn(&str) -> T) -> Vec<Option<T>> {
        texts.iter().map(|t| t.map(&of)).collect()
    }
    fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(texts: &[Option<&str>]) -> Vec<Option<T>> {
        each(texts, |t| t.parse().expect("a number"))
    }
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from(each(texts, |t| t == "t"))),
        DataType::Int16 => Arc::new(Int16Array::from(parsed(texts))),
        DataType::Int32 => Arc::new(Int32Array::from(parsed(texts))),
        DataType::Int64 => Arc::new(Int64Array::from(parsed(texts))),
        DataType::Float32 => Arc::new(Float32Array::from(parsed(texts))),
        DataType::Float64 => Arc::new(Float64Array::from(parsed(texts))),
        // PostgreSQL writes all digits of the column's scale.
        DataType::Decimal128(precision, scale) => {
            let digits = each(texts, |t| t.replace('.', "").parse().expect("digits"));
            let array = Decimal128Array::from(digits).with_precision_and_scale(*precision, *scale);
            Arc::new(array.expect("digits fit"))
        }
        DataType::Utf8View => Arc::new(StringViewArray::from(texts.to_vec())),
        DataType::BinaryView => {
            let bytes = each(texts, hex);
            Arc::new(BinaryViewArray::from(bytes.iter().map(Option::as_deref).collect::<Vec<_>>()))
        }
        DataType::Date32 => Arc::new(Date32Array::from(each(texts, |t| days(t) as i32))),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            Arc::new(TimestampMicrosecondArray::from(each(texts, microseconds)))
        }
        other => panic!("no table has a column of {other}"),
    }
}

/// `\x616263`.
fn hex(text: &str) -> Vec<u8> {
    let digits = text.strip_prefix("\\x").expect("bytes in hex");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex")).collect()
}

/// `YYYY-MM-DD` in days from 1970-01-01.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
fn days(text: &str) -> i64 {
    let parts: Vec<i64> = text.split('-').map(|p| p.parse().expect("a part of a date")).collect();
    let [year, month, day] = parts[..] else { panic!("not a date: {text}") };
    let year = year - i64::from(month <= 2);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `YYYY-MM-DD HH:MM:SS[.ffffff]` in microseconds from 1970-01-01 00:00:00.
fn microseconds(text: &str) -> i64 {
    let (date, time) = text.split_once(' ').expect("a date and a time");
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let seconds =
        time.split(':').fold(0, |sum, part| sum * 60 + part.parse::<i64>().expect("a part of a time"));
    let fraction: i64 = format!("{fraction:0<6}").parse().expect("a fraction");
    (days(date) * 86_400 + seconds) * 1_000_000 + fraction
}
