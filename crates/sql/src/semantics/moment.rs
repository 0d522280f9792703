//! The text of a DATE or a TIMESTAMP, as PostgreSQL reads it with DateStyle ISO, MDY.
//!
//! ```text
//!   2024-05-01 10:30      2024-05-01T10:30:15.5Z     20240501T103015     May 1, 2024 10:30 pm
//!   └ date    └ time      the zone has no effect: TIMESTAMP is without time zone
//! ```
//!
//! A DATE takes the same texts, and leaves the time of day out. `infinity`, `now` and the like are refused, and so are
//! time zones by name. Years reach from 1 to 262142, as far as they can be shown.

use std::iter::Peekable;
use std::str::Chars;

use datafusion::arrow::array::types::{ArrowPrimitiveType, Date32Type, TimestampMicrosecondType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use super::text::is_text;
use crate::SqlError;
use crate::error::state;

const MICROS_A_SECOND: i64 = 1_000_000;
const MICROS_A_DAY: i64 = 86_400 * MICROS_A_SECOND;
/// The last year that can be shown.
const YEAR_MAX: i64 = 262_142;

/// Most hours of a time zone's distance.
const ZONE_HOURS_MAX: u32 = 15;

/// A day, and microseconds of it. A day may have all 24 hours.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment {
    days: i32,
    micros: i64,
}

/// Why a text is no moment.
#[derive(Debug, PartialEq)]
enum Wrong {
    Format,
    Range,
    Zone,
    Refused(&'static str),
}

/// Texts as dates or timestamps, with NULL for those that are none; `None` if this is another cast.
pub(super) fn cast_texts(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    if !is_text(array.data_type()) {
        return None;
    }
    let date = |m: Moment| Some(m.days);
    let micros = |m: Moment| i64::from(m.days).checked_mul(MICROS_A_DAY)?.checked_add(m.micros);
    match to {
        DataType::Date32 => Some(std::sync::Arc::new(each::<Date32Type>(array, date))),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            Some(std::sync::Arc::new(each::<TimestampMicrosecondType>(array, micros)))
        }
        _ => None,
    }
}

fn each<T: ArrowPrimitiveType>(
    texts: &ArrayRef,
    value: impl Fn(Moment) -> Option<T::Native>,
) -> PrimitiveArray<T> {
    let read = |text: Option<&str>| text.and_then(|t| parse(t).ok()).and_then(&value);
    match texts.data_type() {
        DataType::Utf8View => texts.as_string_view().iter().map(read).collect(),
        DataType::LargeUtf8 => texts.as_string::<i64>().iter().map(read).collect(),
        _ => texts.as_string::<i32>().iter().map(read).collect(),
    }
}

/// What is wrong with a text that is no moment. `of` is the type's name.
pub(super) fn wrong(text: &str, of: &str) -> SqlError {
    match parse(text) {
        Err(Wrong::Format) => SqlError::BadInput {
            state: state::INVALID_DATETIME_FORMAT,
            of: of.to_owned(),
            value: text.to_owned(),
        },
        Err(Wrong::Zone) => {
            let message = format!("time zone displacement out of range: {text:?}");
            SqlError::failed(state::INVALID_TIME_ZONE_DISPLACEMENT, message)
        }
        Err(Wrong::Refused(what)) => SqlError::Unsupported(format!("{what} as a {of}: {text:?}")),
        Ok(_) | Err(Wrong::Range) => SqlError::failed(
            state::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: {text:?}"),
        ),
    }
}

/// A piece of the text.
#[derive(Debug, PartialEq)]
enum Field {
    /// Two or three parts with the same sign between them.
    Date(Vec<String>),
    /// Digits, colons, a fraction.
    Time(String),
    Number(String),
    Word(String),
    /// A sign and digits.
    Zone(String),
}

fn parse(text: &str) -> Result<Moment, Wrong> {
    match usual(text.as_bytes()) {
        Some(moment) => Ok(moment),
        None => decode(&fields(text)?),
    }
}

/// `2024-05-01` and `2024-05-01 10:30:15`, which most texts are.
fn usual(text: &[u8]) -> Option<Moment> {
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
    };
    if !matches!(text.len(), 10 | 19) || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let days = day(i64::from(number(0, 4)?), number(5, 7)?, number(8, 10)?).ok()?;
    if text.len() == 10 {
        return Some(Moment { days, micros: 0 });
    }
    if !matches!(text[10], b' ' | b'T') || text[13] != b':' || text[16] != b':' {
        return None;
    }
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    (hour < 24 && minute < 60 && second < 60).then(|| {
        let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Moment { days, micros: seconds * MICROS_A_SECOND }
    })
}

/// The pieces of a text. Blanks and other signs are between them.
fn fields(text: &str) -> Result<Vec<Field>, Wrong> {
    let mut rest = text.chars().peekable();
    let mut fields = Vec::new();
    while let Some(&c) = rest.peek() {
        match c {
            '0'..='9' => {
                let mut run = take(&mut rest, |c| c.is_ascii_digit());
                match rest.peek() {
                    Some(':') => {
                        run += &take(&mut rest, |c| c.is_ascii_digit() || c == ':' || c == '.');
                        fields.push(Field::Time(run));
                    }
                    Some(&sign @ ('-' | '/' | '.')) => {
                        run += &take(&mut rest, |c| c.is_ascii_alphanumeric() || c == sign);
                        // `2024-05-01T10:30`, `2024-05-01t10:30`: the T is not of the date.
                        let (date, t) = without_t(&run);
                        fields.push(Field::Date(date.split(sign).map(str::to_lowercase).collect()));
                        if let Some(digits) = t {
                            fields.push(Field::Word("t".into()));
                            let more = take(&mut rest, |c| c.is_ascii_digit() || c == ':' || c == '.');
                            match digits.to_owned() + &more {
                                empty if empty.is_empty() => {}
                                time if time.contains(':') => fields.push(Field::Time(time)),
                                number => fields.push(Field::Number(number)),
                            }
                        }
                    }
                    _ => fields.push(Field::Number(run)),
                }
            }
            'a'..='z' | 'A'..='Z' => {
                let word = take(&mut rest, |c| c.is_ascii_alphabetic());
                if rest.peek() == Some(&'/') {
                    return Err(Wrong::Refused("a time zone by name"));
                }
                fields.push(Field::Word(word.to_lowercase()));
            }
            '+' | '-' => {
                rest.next();
                if rest.peek().is_some_and(char::is_ascii_alphabetic) {
                    continue;
                }
                let zone = take(&mut rest, |c| c.is_ascii_digit() || c == ':');
                fields.push(Field::Zone(zone));
            }
            c if c.is_ascii_whitespace() || c.is_ascii_punctuation() => {
                rest.next();
            }
            _ => return Err(Wrong::Format),
        }
    }
    Ok(fields)
}

fn take(rest: &mut Peekable<Chars<'_>>, of: impl Fn(char) -> bool) -> String {
    let mut run = String::new();
    while let Some(c) = rest.next_if(|&c| of(c)) {
        run.push(c);
    }
    run
}

/// A date in digits, and what is behind its T.
fn without_t(run: &str) -> (&str, Option<&str>) {
    match run.find(['T', 't']) {
        Some(at) if run[..at].bytes().all(|b| !b.is_ascii_alphabetic()) => (&run[..at], Some(&run[at + 1..])),
        _ => (run, None),
    }
}

#[derive(Default)]
struct Parts {
    year: Option<i64>,
    month: Option<u32>,
    day: Option<u32>,
    time: Option<i64>,
    bc: bool,
    /// Whether T stands before what comes.
    after_t: bool,
}

impl Parts {
    fn has_date(&self) -> bool {
        self.year.is_some() && self.month.is_some() && self.day.is_some()
    }
}

fn decode(fields: &[Field]) -> Result<Moment, Wrong> {
    let mut parts = Parts::default();
    for field in fields {
        let after_t = std::mem::take(&mut parts.after_t);
        match field {
            Field::Date(of) if parts.time.is_none() && parts.year.is_none() => date(of, &mut parts)?,
            Field::Time(of) if parts.time.is_none() => parts.time = Some(time(of)?),
            Field::Number(n) => number(n, after_t, &mut parts)?,
            Field::Word(w) => word(w, &mut parts)?,
            Field::Zone(z) if parts.time.is_some() => zone(z)?,
            _ => return Err(Wrong::Format),
        }
    }
    let (Some(year), Some(month), Some(of_month), false) =
        (parts.year, parts.month, parts.day, parts.after_t)
    else {
        return Err(Wrong::Format);
    };
    let days = day(if parts.bc { 1 - year } else { year }, month, of_month)?;
    Ok(Moment { days, micros: parts.time.unwrap_or_default() })
}

fn digits<T: std::str::FromStr>(text: &str) -> Result<T, Wrong> {
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse().map_err(|_| Wrong::Range),
        false => Err(Wrong::Format),
    }
}

/// A year; one of two digits lies from 1970 to 2069.
fn year(text: &str) -> Result<i64, Wrong> {
    let year: i64 = digits(text)?;
    Ok(match year {
        0..70 if text.len() <= 2 => year + 2000,
        70..100 if text.len() <= 2 => year + 1900,
        year => year,
    })
}

fn date(of: &[String], parts: &mut Parts) -> Result<(), Wrong> {
    let [a, b, c] = of else { return Err(Wrong::Format) };
    let (y, m, d) = match (month(a), month(b)) {
        (_, Some(m)) if a.len() > 2 => (a, m, c),
        (_, Some(m)) => (c, m, a),
        (Some(m), None) => (c, m, b),
        (None, None) if a.len() > 2 => (a, digits(b)?, c),
        (None, None) => (c, digits(a)?, b),
    };
    (parts.year, parts.month, parts.day) = (Some(year(y)?), Some(m), Some(digits(d)?));
    Ok(())
}

/// A number that stands alone: a whole date or time, or the day or the year beside a month's name.
fn number(n: &str, after_t: bool, parts: &mut Parts) -> Result<(), Wrong> {
    let at = |from: usize, to: usize| n.get(from..to).unwrap_or_default();
    let whole = n.split('.').next().unwrap_or_default().len();
    match whole {
        6 if parts.has_date() && parts.time.is_none() => {
            let time_text = format!("{}:{}:{}", at(0, 2), at(2, 4), &n[4..]);
            parts.time = Some(time(&time_text)?);
        }
        4 if parts.has_date() && after_t && parts.time.is_none() => {
            parts.time = Some(time(&format!("{}:{}", at(0, 2), at(2, 4)))?);
        }
        8 | 6 if parts.year.is_none() && parts.month.is_none() && parts.day.is_none() => {
            let years = whole - 4;
            parts.year = Some(year(at(0, years))?);
            parts.month = Some(digits(at(years, years + 2))?);
            parts.day = Some(digits(at(years + 2, years + 4))?);
        }
        _ if parts.year.is_none() && whole > 2 => parts.year = Some(year(n)?),
        _ if parts.day.is_none() && whole <= 2 => parts.day = Some(digits(n)?),
        _ if parts.year.is_none() && parts.month.is_some() => parts.year = Some(year(n)?),
        _ => return Err(Wrong::Format),
    }
    Ok(())
}

fn word(w: &str, parts: &mut Parts) -> Result<(), Wrong> {
    const HALF_DAY: i64 = 12 * 3600 * MICROS_A_SECOND;
    let with_time = parts.time.is_some();
    match w {
        "t" if parts.has_date() && !with_time => parts.after_t = true,
        "am" | "pm" => {
            let time = parts.time.as_mut().ok_or(Wrong::Format)?;
            if *time >= HALF_DAY + 3600 * MICROS_A_SECOND {
                return Err(Wrong::Range);
            }
            let noon = *time >= HALF_DAY;
            *time += match (w, noon) {
                ("am", true) => -HALF_DAY,
                ("pm", false) => HALF_DAY,
                _ => 0,
            };
        }
        "bc" => parts.bc = true,
        "ad" => {}
        "epoch" if parts.year.is_none() => {
            (parts.year, parts.month, parts.day) = (Some(1970), Some(1), Some(1));
        }
        "infinity" | "now" | "today" | "tomorrow" | "yesterday" => {
            return Err(Wrong::Refused("a special value"));
        }
        w if is_zone(w) && with_time => {}
        w if month(w).is_some() && parts.month.is_none() => parts.month = month(w),
        w if is_weekday(w) => {}
        _ => return Err(Wrong::Format),
    }
    Ok(())
}

fn month(w: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let is_name = |name: &str| w == name || w == &name[..3] || w == "sept" && name == "september";
    MONTHS.iter().position(|name| is_name(name)).map(|i| i as u32 + 1)
}

fn is_weekday(w: &str) -> bool {
    const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    DAYS.iter().any(|name| w == *name || w == &name[..3])
        || matches!(w, "tues" | "wednes" | "weds" | "thur" | "thurs")
}

/// The usual abbreviations of zones.
fn is_zone(w: &str) -> bool {
    const ZONES: [&str; 22] = [
        "z", "zulu", "utc", "ut", "gmt", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "wet",
        "west", "cet", "cest", "met", "eet", "eest", "msk", "jst",
    ];
    ZONES.contains(&w)
}

fn zone(z: &str) -> Result<(), Wrong> {
    let (hours, minutes) = match z.split_once(':') {
        Some((hours, rest)) => (hours, rest.split(':').next().unwrap_or_default()),
        None if z.len() > 2 => z.split_at(z.len() - 2),
        None => (z, "0"),
    };
    match (digits::<u32>(hours)?, digits::<u32>(minutes)?) {
        (hours, minutes) if hours <= ZONE_HOURS_MAX && minutes < 60 => Ok(()),
        _ => Err(Wrong::Zone),
    }
}

/// Microseconds of a time of day. The sixth digit of a fraction is rounded.
fn time(text: &str) -> Result<i64, Wrong> {
    let mut of = text.split(':');
    let (hour, minute) = (of.next().unwrap_or_default(), of.next().unwrap_or_default());
    let (second, fraction) = match of.next().unwrap_or("0") {
        "" => ("0", ""),
        s => s.split_once('.').unwrap_or((s, "")),
    };
    if of.next().is_some() {
        return Err(Wrong::Format);
    }
    let (hour, minute, second): (i64, i64, i64) = (digits(hour)?, digits(minute)?, digits(second)?);
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Wrong::Format);
    }
    let micros = match format!("0.{fraction}0").parse::<f64>() {
        Ok(fraction) => (fraction * MICROS_A_SECOND as f64).round_ties_even() as i64,
        Err(_) => return Err(Wrong::Format),
    };
    let ends = hour == 24 && (minute > 0 || second > 0 || micros > 0);
    if hour > 24 || minute > 59 || second > 60 || ends {
        return Err(Wrong::Range);
    }
    Ok(((hour * 60 + minute) * 60 + second) * MICROS_A_SECOND + micros)
}

/// The days of a month.
fn month_days(year: i64, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01.
fn day(year: i64, month: u32, day: u32) -> Result<i32, Wrong> {
    if !(1..=12).contains(&month) {
        return Err(Wrong::Range);
    }
    let length = month_days(year, month);
    if !(1..=YEAR_MAX).contains(&year) || day == 0 || day > length {
        return Err(Wrong::Range);
    }
    // A year begins in March, so that the day of a leap year is its last.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let of_year = i64::from((153 * month + 2) / 5 + day - 1);
    let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year;
    // 719468 days lie between March 1 of year 0 and 1970-01-01.
    i32::try_from(days - 719_468).map_err(|_| Wrong::Range)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringArray;
    use datafusion::arrow::util::display::array_value_to_string;

    use super::*;
    use crate::semantics::{as_copied, cast_or_null, unfit};

    /// Each line: a text, PostgreSQL 15's TIMESTAMP or SQLSTATE, its DATE or SQLSTATE. `!` before a state where Lode has
    /// it in the place of PostgreSQL's answer.
    const RECORDED: &str = include_str!("moments.txt");

    fn answer(text: &str, to: &DataType) -> String {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![text]));
        match cast_or_null(&texts, to).unwrap() {
            (values, None) => array_value_to_string(&as_copied(&values).unwrap(), 0).unwrap(),
            (_, Some(row)) => unfit(&texts, row, to).sqlstate().to_owned(),
        }
    }

    #[test]
    fn texts_are_read_as_by_postgresql() {
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
        let mut wrong = Vec::new();
        for line in RECORDED.lines().filter(|l| !l.starts_with('#')) {
            let mut of = line.split('\t');
            let text = of.next().unwrap();
            for (to, expected) in [&timestamp, &DataType::Date32].into_iter().zip(of) {
                let got = answer(text, to);
                if got != expected.trim_start_matches('!') {
                    wrong.push(format!("{text:?} as {to}: {got}, expected {expected}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
