//! Numbers and sizes for people, and the tables that they stand in.

pub(crate) use lode_bench::text_table::TextTable;

/// Formats a count with separated thousands: `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Formats bytes with a decimal unit: `1.5 MB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} B"),
        _ if value < 9.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// The percentage that `now` saves of `before`, with `+` if it is more.
pub(crate) fn saving(before: u64, now: u64) -> String {
    if before == 0 {
        return "-".into();
    }
    let percent = 100.0 - 100.0 * now as f64 / before as f64;
    if percent < -0.5 { format!("+{:.0} %", -percent) } else { format!("{:.0} %", percent.max(0.0)) }
}

/// Parses a size with an optional unit: `512MB`, `2GB`, `1.5 GB`, `1000000`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let bad = || "a size is a number with a unit, such as 512MB or 2GB".to_string();
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| bad())?;
    let factor: f64 = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "T" | "TB" => 1e12,
        "KIB" => 1024.0,
        "MIB" => 1024f64.powi(2),
        "GIB" => 1024f64.powi(3),
        "TIB" => 1024f64.powi(4),
        _ => return Err(bad()),
    };
    let bytes = number * factor;
    if (1.0..1e15).contains(&bytes) { Ok(bytes as u64) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 999, 1000, 15_000_000, 999_600].map(bytes),
            ["0 B", "999 B", "1.0 KB", "15 MB", "1.0 MB"]
        );
        assert_eq!(
            [(100, 10), (100, 120), (0, 5), (100, 100)].map(|(b, n)| saving(b, n)),
            ["90 %", "+20 %", "-", "0 %"]
        );
    }

    #[test]
    fn sizes_are_read() {
        let check =
            |text: &str, expected: Option<u64>| assert_eq!(parse_bytes(text).ok(), expected, "{text}");
        check("512MB", Some(512_000_000));
        check("1.5 gib", Some(1_610_612_736));
        check("4096", Some(4096));
        for bad in ["", "0", "-1", "nan", "2 parsecs", "1e30", "MB"] {
            check(bad, None);
        }
    }
}
