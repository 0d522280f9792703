//! Compares a value of Lode with PostgreSQL's.

use super::values::{Interval, Value};

/// The result of comparing two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// The same value and type.
    Same,
    /// The same value, but the types differ by more than their width: NUMERIC and DOUBLE PRECISION.
    OtherType,
    /// Only blanks at the end differ.
    Blanks,
    /// Lode's decimal is PostgreSQL's, rounded or truncated to fewer places.
    FewerDigits,
    /// Numbers that agree to about 15 digits.
    Inexact,
    /// Different values.
    Wrong,
}

/// Functions of doubles whose last digits depend on the machine's library.
const TRANSCENDENTAL: [&str; 22] = [
    "exp(",
    "ln(",
    "log(",
    "log10(",
    "power(",
    "pow(",
    "cbrt(",
    "sin(",
    "cos(",
    "tan(",
    "asin(",
    "acos(",
    "atan(",
    "atan2(",
    "sinh(",
    "cosh(",
    "tanh(",
    "degrees(",
    "radians(",
    " ^ ",
    "||/",
    "width_bucket(",
];
/// Aggregates of doubles, which depend on the order of their rows.
const AGGREGATES: [&str; 9] =
    ["sum(", "avg(", "stddev", "variance(", "var_", "corr(", "covar_", "regr_", "percentile_cont("];

/// Functions that may return either 0 or -0 if both occur.
const PICKS_ONE: [&str; 9] =
    ["min(", "max(", "greatest(", "least(", "group by", "distinct ", "union", "intersect", "except"];

/// The relative error of doubles that `sql` may have. If only the sign of 0 is free, it is the smallest positive
/// number.
pub(crate) fn tolerance(sql: &str) -> f64 {
    let sql = sql.to_ascii_lowercase();
    let any = |names: &[&str]| names.iter().any(|n| sql.contains(n));
    match () {
        () if any(&AGGREGATES) => 1e-12,
        () if any(&TRANSCENDENTAL) => 4.0 * f64::EPSILON,
        () if any(&PICKS_ONE) => f64::MIN_POSITIVE,
        () => 0.0,
    }
}

/// Compares PostgreSQL's text of a value of `pg_type` with Lode's.
pub(crate) fn compare(pg_type: &str, pg: Option<&str>, lode: &Value, tolerance: f64) -> Verdict {
    let (pg, lode) = match (pg, lode) {
        (None, Value::Null) => return Verdict::Same,
        (None, _) | (_, Value::Null) => return Verdict::Wrong,
        (Some(pg), lode) => (pg, lode),
    };
    let same = match (pg_type, lode) {
        ("boolean", Value::Boolean(v)) => pg == if *v { "t" } else { "f" },
        ("smallint" | "integer" | "bigint", Value::Integer(v)) => pg == v.to_string(),
        ("real", Value::Real(v)) => {
            let pg = pg.parse::<f32>().expect("a real");
            let tolerance = if tolerance >= f64::EPSILON {
                tolerance.max(4.0 * f64::from(f32::EPSILON))
            } else {
                tolerance
            };
            return exact(same_double(pg.into(), f64::from(*v), tolerance));
        }
        ("double precision", Value::Double(v)) => {
            return exact(same_double(pg.parse().expect("a double"), *v, tolerance));
        }
        ("numeric", Value::Decimal(v)) if digits(pg).is_some() => return numeric(pg, v),
        ("text" | "character varying" | "character" | "name" | "\"char\"" | "unknown", Value::Text(v)) => {
            return match () {
                () if pg == v => Verdict::Same,
                () if pg.trim_end_matches(' ') == v.trim_end_matches(' ') => Verdict::Blanks,
                () => Verdict::Wrong,
            };
        }
        ("bytea", Value::Bytes(_))
        | ("date", Value::Date(_))
        | ("timestamp without time zone", Value::Timestamp(_)) => pg == lode.to_string(),
        ("interval", Value::Interval(v)) => interval(pg) == Some(*v),
        _ => return across(pg_type, pg, lode, tolerance),
    };
    exact(same)
}

fn exact(same: bool) -> Verdict {
    if same { Verdict::Same } else { Verdict::Wrong }
}

/// Compares values whose types are of two classes.
fn across(pg_type: &str, pg: &str, lode: &Value, tolerance: f64) -> Verdict {
    let equal = match (pg_type, lode) {
        ("interval", Value::Duration(v)) => {
            interval(pg).is_some_and(|i| i.months == 0 && i.days * 86_400_000_000 + i.microseconds == *v)
        }
        ("date", Value::Timestamp(_)) => format!("{pg} 00:00:00") == lode.to_string(),
        ("timestamp without time zone", Value::Date(_)) => pg == format!("{lode} 00:00:00"),
        (
            "smallint" | "integer" | "bigint" | "numeric" | "real" | "double precision",
            Value::Integer(_) | Value::Decimal(_) | Value::Real(_) | Value::Double(_),
        ) => return across_numbers(pg_type, pg, lode, tolerance),
        _ => pg == lode.to_string(),
    };
    if equal { Verdict::OtherType } else { Verdict::Wrong }
}

fn across_numbers(pg_type: &str, pg: &str, lode: &Value, tolerance: f64) -> Verdict {
    if let (Some(pg), Value::Integer(_) | Value::Decimal(_)) = (digits(pg), lode) {
        let text = lode.to_string();
        let lode = digits(&text);
        if Some(pg) == lode {
            return Verdict::OtherType;
        }
    }
    let real = (pg_type == "real").then(|| pg.parse::<f32>().expect("a real"));
    let pg = real.map_or_else(|| pg.parse().expect("a number"), f64::from);
    let lode = match lode {
        Value::Real(v) => f64::from(*v),
        Value::Double(v) => *v,
        other => other.to_string().parse().expect("a number"),
    };
    match () {
        () if same_double(pg, lode, tolerance.max(f64::EPSILON)) => Verdict::OtherType,
        // Lode's value has more digits than a REAL.
        () if real.is_some_and(|pg| pg.to_bits() == (lode as f32).to_bits()) => Verdict::OtherType,
        () if same_double(pg, lode, 1e-14) => Verdict::Inexact,
        () => Verdict::Wrong,
    }
}

/// Whether two doubles are equal: by their bits, both NaN, or within the relative error.
fn same_double(a: f64, b: f64, tolerance: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    a.to_bits() == b.to_bits()
        || (a.is_finite() && b.is_finite() && tolerance > 0.0 && (a - b).abs() <= tolerance * a.abs())
}

/// The sign and the digits before and after the point, without leading and trailing zeros. `None` if the text is not
/// a decimal.
fn digits(text: &str) -> Option<(bool, String, String)> {
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_number = !unsigned.is_empty() && whole.chars().chain(fraction.chars()).all(|c| c.is_ascii_digit());
    let whole = whole.trim_start_matches('0').to_owned();
    let fraction = fraction.trim_end_matches('0').to_owned();
    let zero = whole.is_empty() && fraction.is_empty();
    is_number.then_some((negative && !zero, whole, fraction))
}

fn numeric(pg: &str, lode: &str) -> Verdict {
    let (pg_digits, lode_digits) = (digits(pg), digits(lode));
    if pg_digits == lode_digits {
        return Verdict::Same;
    }
    let scale = lode.split_once('.').map_or(0, |(_, f)| f.len());
    let Some((negative, whole, fraction)) = pg_digits else { return Verdict::Wrong };
    if fraction.len() <= scale {
        return Verdict::Wrong;
    }
    let kept: Vec<u8> = whole.bytes().chain(fraction.bytes().take(scale)).map(|b| b - b'0').collect();
    let mut up = kept.clone();
    up.insert(0, 0);
    for digit in up.iter_mut().rev() {
        *digit += 1;
        if *digit < 10 {
            break;
        }
        *digit = 0;
    }
    let text = |d: &[u8]| {
        let all: String = d.iter().map(|d| char::from(d + b'0')).collect();
        let (whole, fraction) = all.split_at(all.len() - scale);
        digits(&format!("{}0{whole}.{fraction}", if negative { "-" } else { "" }))
    };
    if lode_digits == text(&kept) || lode_digits == text(&up) { Verdict::FewerDigits } else { Verdict::Wrong }
}

/// Parses an interval in PostgreSQL's style: `1 year 2 mons -3 days 04:05:06.789`.
fn interval(text: &str) -> Option<Interval> {
    let mut i = Interval { months: 0, days: 0, microseconds: 0 };
    let mut words = text.split(' ');
    while let Some(word) = words.next() {
        if let Some((hours, rest)) = word.split_once(':') {
            let negative = hours.starts_with('-');
            let (minutes, seconds) = rest.split_once(':')?;
            let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let n = |t: &str| t.trim_start_matches(['-', '+']).parse::<i64>().ok();
            let total = (n(hours)? * 3600 + n(minutes)? * 60 + n(seconds)?) * 1_000_000
                + n(&format!("{fraction:0<6}"))?;
            i.microseconds += if negative { -total } else { total };
            continue;
        }
        let count: i64 = word.parse().ok()?;
        match words.next()?.trim_end_matches('s') {
            "year" => i.months += 12 * count,
            "mon" => i.months += count,
            "day" => i.days += count,
            _ => return None,
        }
    }
    Some(i)
}

#[test]
fn values_are_compared_by_their_types() {
    use Verdict::{FewerDigits, OtherType, Same, Wrong};
    let decimal = |t: &str| Value::Decimal(t.into());
    let interval = |months, days, microseconds| Value::Interval(Interval { months, days, microseconds });
    for (pg_type, pg, lode, expected) in [
        ("boolean", Some("t"), Value::Boolean(true), Same),
        ("boolean", None, Value::Boolean(false), Wrong),
        ("boolean", None, Value::Null, Same),
        ("integer", Some("-7"), Value::Integer(-7), Same),
        ("integer", Some("7"), decimal("7.00"), OtherType),
        ("integer", Some("7"), Value::Double(7.5), Wrong),
        ("numeric", Some("1.50"), decimal("1.5"), Same),
        ("numeric", Some("0.00"), decimal("-0"), Same),
        ("numeric", Some("0.6666666666666667"), decimal("0.667"), FewerDigits),
        ("numeric", Some("-0.6666666666666667"), decimal("-0.666"), FewerDigits),
        ("numeric", Some("9.996"), decimal("10.00"), FewerDigits),
        ("numeric", Some("0.6666666666666667"), decimal("0.668"), Wrong),
        ("numeric", Some("12.5"), decimal("1.25"), Wrong),
        ("numeric", Some("0.3333333333333333"), Value::Double(1.0 / 3.0), OtherType),
        ("numeric", Some("NaN"), Value::Double(f64::NAN), OtherType),
        ("double precision", Some("NaN"), Value::Double(-f64::NAN), Same),
        ("double precision", Some("-0"), Value::Double(0.0), Wrong),
        ("double precision", Some("Infinity"), Value::Double(f64::INFINITY), Same),
        ("double precision", Some("0.1"), Value::Double(0.1 + f64::EPSILON), Wrong),
        ("real", Some("0.1"), Value::Real(0.1), Same),
        ("real", Some("0.1"), Value::Double(0.1), OtherType),
        ("text", Some("1"), Value::Text("1".into()), Same),
        ("text", Some("a"), Value::Text("a ".into()), Verdict::Blanks),
        ("bytea", Some("\\x00ff"), Value::Bytes(vec![0, 255]), Same),
        ("date", Some("0001-12-31 BC"), Value::Date(-719_163), Same),
        ("date", Some("2020-02-29"), Value::Date(18_321), Same),
        ("timestamp without time zone", Some("1969-12-31 23:59:59.9"), Value::Timestamp(-100_000), Same),
        ("timestamp without time zone", Some("1970-01-01 00:00:00"), Value::Date(0), OtherType),
        ("interval", Some("1 year 2 mons -3 days -04:05:06.5"), interval(14, -3, -14_706_500_000), Same),
        ("interval", Some("1 mon"), interval(0, 30, 0), Wrong),
        ("interval", Some("1 day"), Value::Duration(86_400_000_000), OtherType),
    ] {
        assert_eq!(compare(pg_type, pg, &lode, 0.0), expected, "{pg_type} {pg:?} {lode:?}");
    }
}
