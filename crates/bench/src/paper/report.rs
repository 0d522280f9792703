//! What all papers share: rows of published and own figures, and the forms that they leave in.
//!
//! ```text
//!   Row ─► JSON lines, CSV         one object, or line, for each row and method
//!      └─► Table                   methods side by side, notes below
//! ```
//!
//! Invariants: no two rows of a paper agree in figure, series, x and metric as JSON has them; every own figure is finite.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::BenchError;

/// How a figure of ours was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Calculated, by the paper's own equations.
    Equations,
    /// Executed, in modelled time.
    Executed,
    /// Measured, in wall time, on this machine.
    Measured,
}

impl Method {
    fn heading(self) -> &'static str {
        match self {
            Self::Equations => "by the equations",
            Self::Executed => "executed",
            Self::Measured => "in wall time",
        }
    }
}

/// Where along its series a figure lies.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum X {
    /// A quantity.
    Number(f64),
    /// One of several kinds.
    Name(String),
    /// The series has one figure only.
    None,
}

impl fmt::Display for X {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Name(name) => f.write_str(name),
            Self::None => Ok(()),
        }
    }
}

/// One figure: published, and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The paper, as the command line names it.
    pub paper: &'static str,
    /// The figure or table, as the command line names it.
    pub figure: &'static str,
    /// The curve, or the line of a table.
    pub series: String,
    /// Where along it.
    pub x: X,
    /// What is measured, such as `throughput`.
    pub metric: String,
    /// In what.
    pub unit: &'static str,
    /// What the paper says; nothing where it gives only a plot, or nothing.
    pub published: Option<f64>,
    /// What we find.
    pub ours: f64,
    /// How we found it.
    pub by: Method,
    /// What the figure is, and why it differs.
    pub note: String,
}

/// A row as JSON and CSV have it.
#[derive(Serialize)]
struct Written<'a> {
    paper: &'a str,
    figure: &'a str,
    series: &'a str,
    x: &'a X,
    metric: String,
    unit: &'a str,
    published: Option<f64>,
    ours: f64,
    note: String,
}

impl Row {
    /// Ours to the published figure.
    pub fn ratio(&self) -> Option<f64> {
        self.published.map(|p| self.ours / p)
    }

    fn written(&self) -> Written<'_> {
        assert!(self.ours.is_finite(), "{self:?}");
        // What was executed is the figure itself; what was calculated is told apart from it.
        let metric = match self.by {
            Method::Equations | Method::Measured => format!("{}, {}", self.metric, self.by.heading()),
            Method::Executed => self.metric.clone(),
        };
        Written {
            paper: self.paper,
            figure: self.figure,
            series: &self.series,
            x: &self.x,
            metric,
            unit: self.unit,
            published: self.published,
            ours: self.ours,
            note: format!("{}: {}", self.by.heading(), self.note),
        }
    }

    /// One line of JSON, without its end.
    pub fn json(&self) -> String {
        serde_json::to_string(&self.written()).expect("a row is plain data")
    }
}

/// Rows as JSON, one object a line.
pub fn json_lines(rows: &[Row]) -> String {
    rows.iter().map(|r| r.json() + "\n").collect()
}

/// Rows as CSV, with a line of headings, and the ratio of ours to the published figure.
pub fn csv(rows: &[Row]) -> String {
    let mut out = String::from("paper,figure,series,x,metric,unit,published,ours,ratio,note\n");
    let optional = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    for row in rows {
        let w = row.written();
        let fields = [
            w.paper.into(),
            w.figure.into(),
            w.series.into(),
            w.x.to_string(),
            w.metric,
            w.unit.into(),
            optional(w.published),
            w.ours.to_string(),
            optional(row.ratio()),
            w.note,
        ];
        out += &fields.map(|f: String| quoted(&f)).join(",");
        out.push('\n');
    }
    out
}

/// A field of CSV (RFC 4180).
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.into(),
    }
}

/// Rows for people: the figures of one line found by several methods stand side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// One heading a column; `>` before it puts the column to the right.
    pub headings: Vec<String>,
    /// As many cells a line.
    pub lines: Vec<Vec<String>>,
    /// What the numbers in the last column stand for, from 1.
    pub notes: Vec<String>,
}

impl Table {
    /// A table of rows, in their order.
    pub fn of(rows: &[Row]) -> Self {
        let mut methods: Vec<Method> = rows.iter().map(|r| r.by).collect();
        methods.sort_unstable();
        methods.dedup();
        let mut headings: Vec<String> =
            ["series", ">x", "metric", "unit", ">published"].map(Into::into).into();
        for m in &methods {
            headings.extend([format!(">{}", m.heading()), ">ratio".into()]);
        }
        headings.push(">note".into());
        let key = |r: &Row| (r.figure, r.series.clone(), r.x.to_string(), r.metric.clone());
        let mut notes: Vec<String> = Vec::new();
        let mut lines = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if rows[..at].iter().any(|r| key(r) == key(row)) {
                continue;
            }
            let same: Vec<&Row> = rows[at..].iter().filter(|r| key(r) == key(row)).collect();
            let published = row.published.map_or_else(|| "-".into(), number);
            let mut line =
                vec![row.series.clone(), row.x.to_string(), row.metric.clone(), row.unit.into(), published];
            for m in &methods {
                let found = same.iter().find(|r| r.by == *m);
                let ratio = found.and_then(|r| r.ratio());
                line.push(found.map_or_else(|| "-".into(), |r| number(r.ours)));
                line.push(ratio.map_or_else(|| "-".into(), |r| format!("{r:.3}")));
            }
            let mut numbers: Vec<String> = Vec::new();
            for note in same.iter().map(|r| r.written().note) {
                let at = notes.iter().position(|n| *n == note).unwrap_or_else(|| {
                    notes.push(note);
                    notes.len() - 1
                });
                numbers.push((at + 1).to_string());
            }
            line.push(numbers.join(","));
            lines.push(line);
        }
        Self { headings, lines, notes }
    }
}

/// A number with four or more digits that count: `0.1420`, `13.21`, `2,776.4`, `3.831e7`.
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
pub fn wrapped(text: &str, width: usize) -> String {
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

/// A file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name, within the directory.
    pub name: String,
    /// What it holds.
    pub content: String,
}

/// Writes files into a directory, which is made if there is none. Each is whole or not there, and replaces an older one.
///
/// # Errors
/// What the file system says, with the path.
pub fn write(dir: &Path, files: &[ReportFile]) -> Result<(), BenchError> {
    let error = |path: PathBuf| move |source| BenchError::File { path, source };
    fs::create_dir_all(dir).map_err(error(dir.into()))?;
    for file in files {
        let path = dir.join(&file.name);
        let part = dir.join(format!("{}.part", file.name));
        let written = fs::write(&part, &file.content).and_then(|()| fs::rename(&part, &path));
        if let Err(e) = written {
            // The first error counts; a part that cannot be removed either changes nothing.
            let _ = fs::remove_file(&part);
            return Err(error(path)(e));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(by: Method, ours: f64, note: &str) -> Row {
        Row {
            paper: "isp",
            figure: "fig5",
            series: "hw, \"16\"".into(),
            x: X::Number(100.0),
            metric: "throughput".into(),
            unit: "MB/s",
            published: Some(200.0),
            ours,
            by,
            note: note.into(),
        }
    }

    #[test]
    fn json_has_the_stable_keys_and_tells_methods_apart() {
        let json = row(Method::Equations, 100.0, "n").json();
        let expected = r#"{"paper":"isp","figure":"fig5","series":"hw, \"16\"","x":100.0,"metric":"throughput, by the equations","unit":"MB/s","published":200.0,"ours":100.0,"note":"by the equations: n"}"#;
        assert_eq!(json, expected);
        let plotted = Row { published: None, x: X::None, ..row(Method::Executed, 1.5, "n") };
        assert!(
            plotted
                .json()
                .contains(r#""x":null,"metric":"throughput","unit":"MB/s","published":null,"ours":1.5"#)
        );
        assert_eq!(json_lines(&[plotted.clone(), plotted]).lines().count(), 2);
    }

    #[test]
    fn csv_is_quoted_and_has_the_ratio() {
        let text = csv(&[row(Method::Executed, 100.0, "a")]);
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.ends_with("isp,fig5,\"hw, \"\"16\"\"\",100,throughput,MB/s,200,100,0.5,executed: a\n"),
            "{text}"
        );
    }

    #[test]
    fn methods_stand_side_by_side_and_notes_once() {
        let rows = [
            row(Method::Equations, 100.0, "a"),
            Row { x: X::Number(200.0), published: None, ..row(Method::Equations, 7.0, "a") },
            row(Method::Executed, 150.0, "b"),
        ];
        let t = Table::of(&rows);
        assert_eq!(t.headings[5..], [">by the equations", ">ratio", ">executed", ">ratio", ">note"]);
        assert_eq!(t.lines[0][4..], ["200.0", "100.0", "0.500", "150.0", "0.750", "1,2"]);
        assert_eq!(t.lines[1][4..], ["-", "7.000", "-", "-", "-", "1"]);
        assert_eq!(t.notes, ["by the equations: a", "executed: b"]);
        assert_eq!(Table::of(&rows[..1]).headings.len(), 8);
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

    #[test]
    fn files_are_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| ReportFile { name: name.into(), content: "x".into() };
        let at = dir.path().join("a/b");
        write(&at, &[file("one"), file("two")]).unwrap();
        write(&at, &[file("one")]).unwrap();
        assert_eq!(fs::read_dir(&at).unwrap().count(), 2);
        fs::create_dir(at.join("full")).unwrap();
        fs::write(at.join("full/it"), "").unwrap();
        let e = write(&at, &[file("full")]).unwrap_err().to_string();
        assert!(e.contains("full"), "{e}");
        assert!(!at.join("full.part").exists());
        assert!(write(&at.join("one"), &[file("x")]).unwrap_err().to_string().contains("one"));
    }
}
