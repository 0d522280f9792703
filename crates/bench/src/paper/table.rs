//! A table of rows for people. Values of one line that were found by several methods stand side by side.
//!
//! ```text
//!   series  x  metric  unit │ published │ by the equations  ratio │ executed  ratio │ note 1,2
//! ```

use super::row::{Aim, Method, Row, X};
use crate::text_table::TextTable;

/// The width of the text below a table, in characters.
const NOTE_WIDTH: usize = 100;

/// A table of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The methods by which its values were found. Each has a column of values and one of ratios.
    pub methods: Vec<Method>,
    /// Its lines.
    pub lines: Vec<Line>,
    /// The notes. [`Line::notes`] numbers them from 1.
    pub notes: Vec<Note>,
}

/// A text that says what a value is, and why it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The method by which the value was found.
    pub by: Method,
    /// The text.
    pub text: String,
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The curve, or the line of the paper's table.
    pub series: String,
    /// The place along the series.
    pub x: X,
    /// What is measured.
    pub metric: String,
    /// The unit.
    pub unit: &'static str,
    /// The published value.
    pub published: Option<f64>,
    /// When ours meets the published value.
    pub aim: Aim,
    /// Our value, by each of the table's methods.
    pub ours: Vec<Option<f64>>,
    /// The numbers of its notes.
    pub notes: Vec<usize>,
}

impl Line {
    /// The ratio of our value to the published one, by each of the table's methods.
    pub fn ratios(&self) -> impl Iterator<Item = Option<f64>> {
        self.ours.iter().map(|ours| Some((*ours)? / self.published?))
    }
}

impl Table {
    /// A table of the rows of one figure, in their order.
    pub fn of(rows: &[Row]) -> Self {
        let mut methods: Vec<Method> = rows.iter().map(|r| r.by).collect();
        methods.sort_unstable();
        methods.dedup();
        let key = |r: &Row| (r.series.clone(), r.x.to_string(), r.metric.clone());
        let mut notes: Vec<Note> = Vec::new();
        let mut lines = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if rows[..at].iter().any(|r| key(r) == key(row)) {
                continue;
            }
            let same: Vec<&Row> = rows[at..].iter().filter(|r| key(r) == key(row)).collect();
            let mut numbers = Vec::new();
            for note in same.iter().map(|r| Note { by: r.by, text: r.note.clone() }) {
                let at = notes.iter().position(|n| *n == note).unwrap_or_else(|| {
                    notes.push(note);
                    notes.len() - 1
                });
                numbers.push(at + 1);
            }
            let published = same.iter().find(|r| r.published.is_some()).unwrap_or(&row);
            lines.push(Line {
                series: row.series.clone(),
                x: row.x.clone(),
                metric: row.metric.clone(),
                unit: row.unit,
                published: published.published,
                aim: published.aim,
                ours: methods.iter().map(|m| same.iter().find(|r| r.by == *m).map(|r| r.ours)).collect(),
                notes: numbers,
            });
        }
        Self { methods, lines, notes }
    }

    /// The method and the value of a line that are compared with the published value. Values of a run come before
    /// calculated ones.
    pub fn judged(&self, line: &Line) -> Option<(Method, f64)> {
        let found = || self.methods.iter().zip(&line.ours).filter_map(|(m, v)| Some((*m, (*v)?)));
        found().find(|(m, _)| !m.is_calculated()).or_else(|| found().next())
    }

    /// The table as text, with its notes below.
    pub fn text(&self) -> String {
        let mut headings: Vec<String> =
            ["series", ">x", "metric", "unit", ">published"].map(Into::into).into();
        for m in &self.methods {
            headings.extend([format!(">{}", m.heading()), ">ratio".into()]);
        }
        headings.push(">note".into());
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = TextTable::new(&headings);
        self.lines.iter().for_each(|line| table.row(line.cells()));
        let mut out = format!("{}\n", table.render());
        for (at, note) in self.notes.iter().enumerate() {
            let number = format!("{:>3}  ", at + 1);
            let note = format!("{}: {}", note.by.heading(), note.text);
            out += &format!("{number}{}\n", wrapped(&note, NOTE_WIDTH).replace('\n', "\n     "));
        }
        out
    }
}

impl Line {
    fn cells(&self) -> Vec<String> {
        let or_dash = |v: Option<String>| v.unwrap_or_else(|| "-".into());
        let mut cells = vec![self.series.clone(), self.x.to_string(), self.metric.clone(), self.unit.into()];
        cells.push(or_dash(self.published.map(number)));
        for (ours, ratio) in self.ours.iter().zip(self.ratios()) {
            cells.push(or_dash(ours.map(number)));
            cells.push(or_dash(ratio.map(|r| format!("{r:.3}"))));
        }
        cells.push(self.notes.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
        cells
    }
}

/// A number with four or more significant digits: `0.1420`, `13.21`, `2,776.4`, `3.831e7`.
pub fn number(v: f64) -> String {
    match v.abs() {
        a if a >= 99_999.95 => format!("{v:.3e}"),
        a if a >= 1000.0 => {
            let tenths = (v * 10.0).round();
            let whole = (tenths / 10.0).trunc() as i64;
            let tenth = (tenths.abs() % 10.0) as i64;
            format!("{},{:03}.{tenth}", whole / 1000, whole.abs() % 1000)
        }
        0.0 => "0".into(),
        a => {
            let digits = (3 - a.log10().floor() as i32).clamp(0, 9) as usize;
            format!("{v:.digits$}")
        }
    }
}

/// Text below a table, broken into lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let chars = word.chars().count();
        if length > 0 && length + 1 + chars > width {
            out.push('\n');
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += chars;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(by: Method, ours: f64, note: &str) -> Row {
        let row = Row::new(by, "hw, \"16\"", X::Number(100.0), "throughput", "MB/s", ours, note);
        Row { published: Some(200.0), ..row }
    }

    #[test]
    fn methods_stand_side_by_side_and_notes_once() {
        let rows = [
            row(Method::Equations, 100.0, "a"),
            Row { x: X::Number(200.0), published: None, ..row(Method::Equations, 7.0, "a") },
            row(Method::Executed, 150.0, "b"),
        ];
        let t = Table::of(&rows);
        assert_eq!(t.lines[0].cells()[4..], ["200.0", "100.0", "0.500", "150.0", "0.750", "1,2"]);
        assert_eq!(t.lines[1].cells()[4..], ["-", "7.000", "-", "-", "-", "1"]);
        let note = |by, text: &str| Note { by, text: text.into() };
        assert_eq!(t.notes, [note(Method::Equations, "a"), note(Method::Executed, "b")]);
        assert_eq!(t.judged(&t.lines[0]), Some((Method::Executed, 150.0)));
        assert_eq!(t.judged(&t.lines[1]), Some((Method::Equations, 7.0)));
        let headings = t.text().lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(headings, "series x metric unit published by the equations ratio executed ratio note");
        assert_eq!(Table::of(&rows[..1]).methods, [Method::Equations]);
    }

    #[test]
    fn numbers_show_what_counts() {
        for (v, expected) in [
            (0.0, "0"),
            (0.142, "0.1420"),
            (13.2145, "13.21"),
            (441.379, "441.4"),
            (2776.41, "2,776.4"),
            (99_999.96, "1.000e5"),
            (99_999.94, "99,999.9"),
            (234_192.0, "2.342e5"),
            (38.3e6, "3.830e7"),
            (-1234.56, "-1,234.6"),
        ] {
            assert_eq!(number(v), expected);
        }
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two  three", 7), "one two\nthree");
        assert_eq!(wrapped("unbreakable x", 3), "unbreakable\nx");
    }
}
