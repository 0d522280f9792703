//! `to_char(timestamp, pattern)` with PostgreSQL's patterns.
//!
//! ```text
//!   to_char(TIMESTAMP '2024-02-29 07:05:09', 'FMDay, DD Mon YYYY HH12:MI:SS AM')   ─►  Thursday, 29 Feb 2024 07:05:09 AM
//! ```
//!
//! DataFusion's `to_char` has the patterns of `strftime`, and returns PostgreSQL's patterns unchanged. Patterns for
//! numbers and intervals, and those that depend on a locale or an era, are refused. Source: PostgreSQL 15, table
//! 9.27, "Template Patterns for Date/Time Formatting".

use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::arrow::array::{Array, AsArray, StringBuilder};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::cast::sql_name;
use crate::SqlError;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToChar {
    signature: Signature,
}

impl Default for ToChar {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        "to_char"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match &args[0] {
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Null => {
                Ok(DataType::Utf8)
            }
            other => Err(SqlError::Unsupported(format!("to_char of {}", sql_name(other))).into()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let moments = args.args[0].to_array(args.number_rows)?;
        let moments = arrow_cast(&moments, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
        let moments = moments.as_primitive::<TimestampMicrosecondType>();
        let patterns = args.args[1].to_array(args.number_rows)?;
        let patterns = arrow_cast(&patterns, &DataType::Utf8)?;
        let patterns = patterns.as_string::<i32>();
        let mut out = StringBuilder::new();
        // Usually all rows have the same pattern.
        let mut known: Option<(String, Vec<Piece>)> = None;
        for row in 0..moments.len() {
            // An empty pattern makes NULL, as in PostgreSQL.
            if moments.is_null(row) || patterns.is_null(row) || patterns.value(row).is_empty() {
                out.append_null();
                continue;
            }
            let pattern = patterns.value(row);
            if known.as_ref().is_none_or(|(p, _)| p != pattern) {
                known = Some((pattern.to_owned(), pieces(pattern)?));
            }
            let micros = moments.value(row);
            let Some(moment) = DateTime::from_timestamp_micros(micros) else {
                return Err(SqlError::OutOfRange("timestamp").into());
            };
            let mut text = String::new();
            for piece in known.iter().flat_map(|(_, pieces)| pieces) {
                piece.write(moment.naive_utc(), &mut text);
            }
            out.append_value(text);
        }
        Ok(ColumnarValue::Array(Arc::new(out.finish())))
    }
}

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(String),
    Field {
        field: Field,
        /// Whether to fill up with blanks or zeroes; `FM` turns it off.
        fill: bool,
        /// An ordinal suffix: `th` or `TH`.
        ordinal: Option<Case>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Upper,
    Capitalized,
    Lower,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    /// The last digits of the year, or of the ISO year.
    Year {
        digits: u32,
        iso: bool,
    },
    YearWithComma,
    Month,
    MonthName(Case),
    MonthShort(Case),
    MonthRoman(Case),
    DayOfMonth,
    DayOfYear,
    IsoDayOfYear,
    /// 1 is Sunday.
    DayOfWeek,
    /// 1 is Monday.
    IsoDayOfWeek,
    DayName(Case),
    DayShort(Case),
    WeekOfMonth,
    WeekOfYear,
    IsoWeek,
    Century,
    Julian,
    Quarter,
    Hour24,
    Hour12,
    Minute,
    Second,
    /// The first digits of the fraction.
    Fraction(u32),
    SecondsOfDay,
    Meridiem {
        upper: bool,
        points: bool,
    },
}

/// Patterns. If one begins with another, the longer comes first. Patterns for numbers match in any case.
const FIELDS: [(&str, Field); 62] = [
    ("Y,YYY", Field::YearWithComma),
    ("YYYY", Field::Year { digits: 4, iso: false }),
    ("YYY", Field::Year { digits: 3, iso: false }),
    ("YY", Field::Year { digits: 2, iso: false }),
    ("Y", Field::Year { digits: 1, iso: false }),
    ("IYYY", Field::Year { digits: 4, iso: true }),
    ("IYY", Field::Year { digits: 3, iso: true }),
    ("IY", Field::Year { digits: 2, iso: true }),
    ("IDDD", Field::IsoDayOfYear),
    ("ID", Field::IsoDayOfWeek),
    ("IW", Field::IsoWeek),
    ("I", Field::Year { digits: 1, iso: true }),
    ("MONTH", Field::MonthName(Case::Upper)),
    ("Month", Field::MonthName(Case::Capitalized)),
    ("month", Field::MonthName(Case::Lower)),
    ("MON", Field::MonthShort(Case::Upper)),
    ("Mon", Field::MonthShort(Case::Capitalized)),
    ("mon", Field::MonthShort(Case::Lower)),
    ("MM", Field::Month),
    ("MI", Field::Minute),
    ("MS", Field::Fraction(3)),
    ("DAY", Field::DayName(Case::Upper)),
    ("Day", Field::DayName(Case::Capitalized)),
    ("day", Field::DayName(Case::Lower)),
    ("DDD", Field::DayOfYear),
    ("DD", Field::DayOfMonth),
    ("DY", Field::DayShort(Case::Upper)),
    ("Dy", Field::DayShort(Case::Capitalized)),
    ("dy", Field::DayShort(Case::Lower)),
    ("D", Field::DayOfWeek),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("SSSSS", Field::SecondsOfDay),
    ("SSSS", Field::SecondsOfDay),
    ("SS", Field::Second),
    ("US", Field::Fraction(6)),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("WW", Field::WeekOfYear),
    ("W", Field::WeekOfMonth),
    ("CC", Field::Century),
    ("J", Field::Julian),
    ("Q", Field::Quarter),
    ("RM", Field::MonthRoman(Case::Upper)),
    ("rm", Field::MonthRoman(Case::Lower)),
    ("A.M.", Field::Meridiem { upper: true, points: true }),
    ("P.M.", Field::Meridiem { upper: true, points: true }),
    ("a.m.", Field::Meridiem { upper: false, points: true }),
    ("p.m.", Field::Meridiem { upper: false, points: true }),
    ("AM", Field::Meridiem { upper: true, points: false }),
    ("PM", Field::Meridiem { upper: true, points: false }),
    ("am", Field::Meridiem { upper: false, points: false }),
    ("pm", Field::Meridiem { upper: false, points: false }),
    // Lower-case spellings.
    ("mi", Field::Minute),
    ("mm", Field::Month),
    ("dd", Field::DayOfMonth),
    ("yyyy", Field::Year { digits: 4, iso: false }),
];

/// Patterns that PostgreSQL has and Lode has not.
const REFUSED: [&str; 10] = ["TZH", "TZM", "TZ", "tz", "OF", "TM", "BC", "B.C.", "AD", "SP"];

fn is_number(field: Field) -> bool {
    use Field::{DayName, DayShort, Meridiem, MonthName, MonthRoman, MonthShort};
    !matches!(
        field,
        MonthName(_) | MonthShort(_) | MonthRoman(_) | DayName(_) | DayShort(_) | Meridiem { .. }
    )
}

/// Splits a pattern into pieces.
fn pieces(pattern: &str) -> Result<Vec<Piece>, SqlError> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            literal.push_str(text);
            rest = after;
            continue;
        }
        let (fill, at) = match starts_with(rest, "FM") {
            true => (false, &rest[2..]),
            false => (true, rest),
        };
        if let Some(refused) = REFUSED.iter().find(|p| at.starts_with(**p)) {
            return Err(SqlError::Unsupported(format!("the pattern {refused} of to_char")));
        }
        let found = FIELDS.iter().find(|(text, field)| match is_number(*field) {
            true => starts_with(at, text),
            false => at.starts_with(text),
        });
        let Some(&(text, field)) = found else {
            // FM before something that is no pattern has no effect.
            let mut chars = at.chars();
            literal.extend(chars.next());
            rest = chars.as_str();
            continue;
        };
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        rest = &at[text.len()..];
        let ordinal = match rest.get(..2) {
            Some("TH") if is_number(field) => Some(Case::Upper),
            Some("th") if is_number(field) => Some(Case::Lower),
            _ => None,
        };
        rest = &rest[ordinal.map_or(0, |_| 2)..];
        pieces.push(Piece::Field { field, fill, ordinal });
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
/// Days from the beginning of the Julian calendar to 0001-01-01.
const JULIAN_OF_YEAR_1: i64 = 1_721_425;

impl Piece {
    fn write(&self, t: NaiveDateTime, out: &mut String) {
        let (field, fill, ordinal) = match self {
            Self::Literal(text) => return out.push_str(text),
            Self::Field { field, fill, ordinal } => (*field, *fill, *ordinal),
        };
        let begin = out.len();
        let mut number = |n: i64, width: usize| {
            let width = if fill { width + usize::from(n < 0) } else { 0 };
            // Writing to a String cannot fail.
            let _ = write!(out, "{n:0width$}");
        };
        let hour12 = match t.hour() % 12 {
            0 => 12,
            h => h,
        };
        match field {
            Field::Year { digits, iso } => {
                let year = i64::from(if iso { t.iso_week().year() } else { t.year() });
                let year = if digits == 4 { year } else { year % 10i64.pow(digits) };
                number(year, digits as usize);
            }
            Field::YearWithComma => {
                let year = t.year();
                let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
            }
            Field::Month => number(t.month().into(), 2),
            Field::DayOfMonth => number(t.day().into(), 2),
            Field::DayOfYear => number(t.ordinal().into(), 3),
            Field::IsoDayOfYear => {
                let monday = i64::from(t.iso_week().week0()) * 7;
                number(monday + i64::from(t.weekday().number_from_monday()), 3);
            }
            Field::DayOfWeek => number(t.weekday().number_from_sunday().into(), 1),
            Field::IsoDayOfWeek => number(t.weekday().number_from_monday().into(), 1),
            Field::WeekOfMonth => number(i64::from(t.day0() / 7 + 1), 1),
            Field::WeekOfYear => number(i64::from(t.ordinal0() / 7 + 1), 2),
            Field::IsoWeek => number(t.iso_week().week().into(), 2),
            Field::Century => number(i64::from((t.year() - 1).div_euclid(100) + 1), 2),
            Field::Julian => {
                number(i64::from(t.date().num_days_from_ce()) + JULIAN_OF_YEAR_1, 1);
            }
            Field::Quarter => number(i64::from(t.month0() / 3 + 1), 1),
            Field::Hour24 => number(t.hour().into(), 2),
            Field::Hour12 => number(hour12.into(), 2),
            Field::Minute => number(t.minute().into(), 2),
            Field::Second => number(t.second().into(), 2),
            Field::Fraction(digits) => {
                let micros = i64::from(t.nanosecond() / 1000);
                let _ = write!(out, "{:0width$}", micros / 10i64.pow(6 - digits), width = digits as usize);
            }
            Field::SecondsOfDay => number(t.num_seconds_from_midnight().into(), 1),
            Field::Meridiem { upper, points } => out.push_str(match (t.hour() >= 12, upper, points) {
                (false, true, false) => "AM",
                (true, true, false) => "PM",
                (false, false, false) => "am",
                (true, false, false) => "pm",
                (false, true, true) => "A.M.",
                (true, true, true) => "P.M.",
                (false, false, true) => "a.m.",
                (true, false, true) => "p.m.",
            }),
            Field::MonthName(case) => name(MONTHS[t.month0() as usize], case, if fill { 9 } else { 0 }, out),
            Field::MonthShort(case) => name(&MONTHS[t.month0() as usize][..3], case, 0, out),
            Field::MonthRoman(case) => name(ROMAN[t.month0() as usize], case, if fill { 4 } else { 0 }, out),
            Field::DayName(case) => {
                let day = t.weekday().num_days_from_sunday() as usize;
                name(DAYS[day], case, if fill { 9 } else { 0 }, out);
            }
            Field::DayShort(case) => {
                let day = t.weekday().num_days_from_sunday() as usize;
                name(&DAYS[day][..3], case, 0, out);
            }
        }
        if let Some(case) = ordinal {
            let suffix = ordinal_suffix(&out[begin..]);
            match case {
                Case::Upper => out.push_str(&suffix.to_uppercase()),
                _ => out.push_str(suffix),
            }
        }
    }
}

fn name(text: &str, case: Case, width: usize, out: &mut String) {
    let text = match case {
        Case::Upper => text.to_uppercase(),
        Case::Capitalized => text.to_owned(),
        Case::Lower => text.to_lowercase(),
    };
    let _ = write!(out, "{text:<width$}");
}

fn ordinal_suffix(number: &str) -> &'static str {
    let teens = number.len() > 1 && number[..number.len() - 1].ends_with('1');
    match number.chars().last() {
        _ if teens => "th",
        Some('1') => "st",
        Some('2') => "nd",
        Some('3') => "rd",
        _ => "th",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_postgresql() {
        let check = |moment: &str, pattern: &str, expected: &str| {
            let t = NaiveDateTime::parse_from_str(moment, "%Y-%m-%d %H:%M:%S%.f").unwrap();
            let mut got = String::new();
            pieces(pattern).unwrap().iter().for_each(|p| p.write(t, &mut got));
            assert_eq!(got, expected, "{pattern}");
        };
        let t = "2024-02-29 19:05:09.012345";
        check(t, "YYYY-MM-DD HH24:MI:SS.US", "2024-02-29 19:05:09.012345");
        check(t, "yyyy/mm/dd hh12:mi:ss.ms am", "2024/02/29 07:05:09.012 pm");
        check(t, "FMDay, FMDDth Month", "Thursday, 29th February ");
        check(t, "DAY|Dy|D|ID|DDD|IDDD", "THURSDAY |Thu|5|4|060|060");
        check(t, "Q WW IW IYYY W CC J", "1 09 09 2024 5 21 2460370");
        check(t, "\"YYYY is\" YYYY", "YYYY is 2024");
        check(t, "RM|FMrm|SSSS|Y,YYY|YY", "II  |ii|68709|2,024|24");
    }
}
