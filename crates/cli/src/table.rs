//! Plain text tables: aligned columns, with headings above a rule.

/// The longest rule under a heading, in characters.
const RULE_MAX: usize = 60;

/// A table under construction. Columns of numbers are aligned to the right, columns of text to the left.
pub(crate) struct TextTable {
    right: Vec<bool>,
    rows: Vec<Row>,
}

enum Row {
    Cells(Vec<String>),
    Rule,
}

impl TextTable {
    /// A table with these headings. A heading that starts with `>` aligns its column to the right.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|h| h.starts_with('>')).collect();
        let cells = headings.iter().map(|h| h.trim_start_matches('>').to_string()).collect();
        Self { right, rows: vec![Row::Cells(cells), Row::Rule] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(Row::Cells(cells.into_iter().collect()));
    }

    /// Adds a rule, for example before totals.
    pub(crate) fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    /// The text of the table. Each line ends with a line break. A cell of several lines makes its row as high.
    pub(crate) fn render(&self) -> String {
        let mut widths = vec![0; self.right.len()];
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (w, c) in widths.iter_mut().zip(cells) {
                    *w = c.lines().map(|l| l.chars().count()).max().unwrap_or(0).max(*w);
                }
            }
        }
        let mut out = String::new();
        for row in &self.rows {
            match row {
                Row::Rule => {
                    let rules: Vec<String> =
                        widths.iter().map(|w| "-".repeat((*w).clamp(1, RULE_MAX))).collect();
                    self.line(&mut out, &widths, rules.iter().map(String::as_str));
                }
                Row::Cells(cells) => {
                    let height = cells.iter().map(|c| c.lines().count()).max().unwrap_or(0).max(1);
                    for i in 0..height {
                        self.line(&mut out, &widths, cells.iter().map(|c| c.lines().nth(i).unwrap_or("")));
                    }
                }
            }
        }
        out
    }

    fn line<'a>(&self, out: &mut String, widths: &[usize], cells: impl Iterator<Item = &'a str>) {
        let mut line = String::new();
        for (i, (cell, &width)) in cells.zip(widths).enumerate() {
            if i > 0 {
                line.push_str("  ");
            }
            // A width of `format!` has 16 bits; a larger one panics.
            let fill = width.saturating_sub(cell.chars().count());
            if self.right[i] {
                line.extend(std::iter::repeat_n(' ', fill));
            }
            line.push_str(cell);
            if !self.right[i] {
                line.extend(std::iter::repeat_n(' ', fill));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

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
    fn columns_are_aligned() {
        let mut t = TextTable::new(&["name", ">rows"]);
        t.row(["a".into(), "1".into()]);
        t.row(["long".into(), "1,000".into()]);
        assert_eq!(t.render(), "name   rows\n----  -----\na         1\nlong  1,000\n");
        let mut t = TextTable::new(&["plan", ">n"]);
        t.row(["a\n  b".into(), "1".into()]);
        assert_eq!(t.render(), "plan  n\n----  -\na     1\n  b\n");
    }

    #[test]
    fn a_cell_of_more_than_65_535_characters_is_written() {
        let long = "x".repeat(70_000);
        let mut t = TextTable::new(&["plan", ">n"]);
        t.row([long.clone(), "1".into()]);
        assert!(t.render().contains(&format!("{long}  1\n")));
    }

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
