//! A paper that was run again: its rows, and the formats in which they are written.
//!
//! ```text
//!   Paper ─ run ─► Report ─► text                 methods side by side, notes below
//!                        ├─► JSON lines, CSV      one object, or line, for each row and method
//!                        └─► SVG                  a plot for each figure and method
//! ```
//!
//! Invariants: no two rows of a figure have the same series, x and metric in JSON; each of our values is finite.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use lode_base::Profile;

use super::figure::{Figure, Paper};
use super::row::{Method, Row};
use super::run::{Run, Scale, Stop};
use super::table::Table;
use crate::BenchError;

/// A paper that was run again.
#[derive(Debug)]
pub struct Report {
    /// The paper.
    pub paper: &'static Paper,
    /// The size of the run.
    pub scale: Scale,
    /// The figures that were run.
    pub figures: Vec<FigureReport>,
}

/// A figure that was run again.
#[derive(Debug)]
pub struct FigureReport {
    /// The figure.
    pub figure: &'static Figure,
    /// The rows that the run found.
    pub rows: Vec<Row>,
}

/// A plot of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The method by which its rows were found.
    pub by: Method,
    /// The SVG document.
    pub svg: String,
}

impl Report {
    /// Runs a paper again, or one figure of it. It calls `done` after each figure.
    ///
    /// # Errors
    /// If there is no such profile or a run fails; [`BenchError::Interrupted`] if the user asked to stop.
    pub fn run(
        paper: &'static Paper,
        figure: Option<&Figure>,
        scale: &Scale,
        stop: &Stop,
        mut done: impl FnMut(&FigureReport),
    ) -> Result<Self, BenchError> {
        let profile = Profile::find(paper.profile)?;
        let mut run = Run::new(&profile, scale, stop);
        let mut figures = Vec::new();
        for chosen in paper.figures.iter().filter(|f| figure.is_none_or(|only| only.name == f.name)) {
            run.go_on()?;
            let found = FigureReport::new(chosen, (chosen.rows)(&mut run)?);
            done(&found);
            figures.push(found);
        }
        Ok(Self { paper, scale: scale.clone(), figures })
    }

    /// All rows as JSON, one object a line.
    pub fn json_lines(&self) -> String {
        let mut out = String::new();
        for (figure, row) in self.rows() {
            let written = row.written(self.paper.name, figure.name);
            out += &serde_json::to_string(&written).expect("a row is plain data");
            out.push('\n');
        }
        out
    }

    /// All rows as CSV, with a line of headings. A column has the ratio of our value to the published one.
    pub fn csv(&self) -> String {
        let mut out = String::from("paper,figure,series,x,metric,unit,published,ours,ratio,note\n");
        let optional = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
        for (figure, row) in self.rows() {
            let w = row.written(self.paper.name, figure.name);
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

    /// The files of the report: all rows as CSV and as JSON lines, and the plots.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn files(&self) -> Result<Vec<ReportFile>, BenchError> {
        let [csv, jsonl] = self.paper.row_files();
        let mut files = vec![
            ReportFile { name: csv, content: self.csv() },
            ReportFile { name: jsonl, content: self.json_lines() },
        ];
        for f in &self.figures {
            for drawn in f.plots()? {
                let name = self.paper.plot_name(f.figure, drawn.by);
                files.push(ReportFile { name, content: drawn.svg });
            }
        }
        Ok(files)
    }

    /// The command that runs one of its figures again.
    pub fn command(&self, figure: &Figure) -> String {
        let mut command = format!("lode paper {} --figure {}", self.paper.name, figure.name);
        if self.scale.quick {
            command += " --quick";
        }
        for (name, value) in &self.scale.sizes {
            command += &format!(" --{name} {value}");
        }
        command
    }

    fn rows(&self) -> impl Iterator<Item = (&'static Figure, &Row)> {
        self.figures.iter().flat_map(|f| f.rows.iter().map(|r| (f.figure, r)))
    }
}

/// Writes each figure: its heading, its table and its notes.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sections =
            self.figures.iter().map(|f| format!("{}\n\n{}", f.figure.about, Table::of(&f.rows).text()));
        f.write_str(sections.collect::<Vec<_>>().join("\n").trim_end())
    }
}

impl FigureReport {
    /// The report of a figure with these rows.
    ///
    /// # Panics
    /// If two rows have the same series, x and metric, or a value is not finite.
    fn new(figure: &'static Figure, rows: Vec<Row>) -> Self {
        let mut keys = BTreeSet::new();
        for row in &rows {
            assert!(row.ours.is_finite(), "{}: {row:?}", figure.name);
            let key = (&row.series, row.x.to_string(), &row.metric, row.by);
            assert!(keys.insert(key), "{}: there is another {row:?}", figure.name);
        }
        Self { figure, rows }
    }

    /// Its plots: one for each method of [`Plot::by`](super::Plot::by).
    ///
    /// # Errors
    /// When one cannot be drawn.
    pub fn plots(&self) -> Result<Vec<Drawn>, BenchError> {
        let Some(plot) = &self.figure.plot else { return Ok(Vec::new()) };
        let drawn = |&by: &Method| {
            let rows: Vec<Row> = self.rows.iter().filter(|r| r.by == by).cloned().collect();
            Ok(Drawn { by, svg: (plot.draw)(&rows)? })
        };
        plot.by.iter().map(drawn).collect()
    }
}

/// A field of CSV (RFC 4180).
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.into(),
    }
}

/// A file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name, within the directory.
    pub name: String,
    /// What it holds.
    pub content: String,
}

/// Writes files into a directory, which is created if it does not exist. Each file is written as a whole or not at
/// all, and replaces an older one.
///
/// # Errors
/// The error of the file system, with the path.
pub fn write(dir: &Path, files: &[ReportFile]) -> Result<(), BenchError> {
    let error = |path: PathBuf| move |source| BenchError::File { path, source };
    fs::create_dir_all(dir).map_err(error(dir.into()))?;
    for file in files {
        let path = dir.join(&file.name);
        let part = dir.join(format!("{}.part", file.name));
        let written = fs::write(&part, &file.content).and_then(|()| fs::rename(&part, &path));
        if let Err(e) = written {
            // The first error is reported. It does not matter if the partial file cannot be removed either.
            let _ = fs::remove_file(&part);
            return Err(error(path)(e));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::figure::Plot;
    use super::super::row::X;
    use super::*;

    static PAPER: Paper = Paper {
        name: "isp",
        about: "",
        citation: "",
        text: "",
        profile: "isp-adms11",
        quick: "",
        examples: &[],
        figures: &[Figure {
            name: "fig5",
            about: "Fig. 5",
            claim: "",
            setup: "",
            expected: "",
            differs: "",
            sizes: &[],
            rows: |run| {
                let row = Row::new(Method::Equations, "s", X::None, "m", "x", 1.0, "n");
                Ok(if run.quick() { vec![row.clone(), row] } else { vec![row] })
            },
            plot: Some(Plot { draw: |rows| Ok(rows.len().to_string()), by: &[Method::Equations] }),
        }],
    };

    fn report(rows: Vec<Row>) -> Report {
        let figure = &PAPER.figures[0];
        Report { paper: &PAPER, scale: Scale::default(), figures: vec![FigureReport { figure, rows }] }
    }

    fn row(by: Method, ours: f64, note: &str) -> Row {
        let row = Row::new(by, "hw, \"16\"", X::Number(100.0), "throughput", "MB/s", ours, note);
        Row { published: Some(200.0), ..row }
    }

    #[test]
    fn json_has_the_stable_keys_and_tells_methods_apart() {
        let json = report(vec![row(Method::Equations, 100.0, "n")]).json_lines();
        let expected = r#"{"paper":"isp","figure":"fig5","series":"hw, \"16\"","x":100.0,"metric":"throughput, by the equations","unit":"MB/s","published":200.0,"ours":100.0,"note":"by the equations: n"}"#;
        assert_eq!(json.trim_end(), expected);
        let plotted = Row { published: None, x: X::None, ..row(Method::Executed, 1.5, "n") };
        let json = report(vec![plotted.clone(), plotted]).json_lines();
        assert!(json.contains(r#""x":null,"metric":"throughput","unit":"MB/s","published":null,"ours":1.5"#));
        assert_eq!(json.lines().count(), 2);
    }

    #[test]
    fn csv_is_quoted_and_has_the_ratio() {
        let text = report(vec![row(Method::Executed, 100.0, "a")]).csv();
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.ends_with("isp,fig5,\"hw, \"\"16\"\"\",100,throughput,MB/s,200,100,0.5,executed: a\n"),
            "{text}"
        );
    }

    #[test]
    fn a_run_tells_of_each_figure_and_may_be_stopped() {
        let mut told = Vec::new();
        let done = |f: &FigureReport| told.push(f.figure.name);
        let report = Report::run(&PAPER, None, &Scale::default(), &Stop::never(), done).unwrap();
        assert_eq!((told, report.rows().count()), (vec!["fig5"], 1));
        assert_eq!(report.command(&PAPER.figures[0]), "lode paper isp --figure fig5");
        let files: Vec<String> = report.files().unwrap().into_iter().map(|f| f.name).collect();
        assert_eq!(files, PAPER.files());
        let stopped = Report::run(&PAPER, None, &Scale::default(), &Stop::when(|| true), |_| ());
        assert!(matches!(stopped, Err(BenchError::Interrupted)));
    }

    #[test]
    #[should_panic(expected = "there is another")]
    fn the_same_figure_twice_is_a_mistake() {
        let quick = Scale { quick: true, ..Scale::default() };
        let _ = Report::run(&PAPER, None, &quick, &Stop::never(), |_| ());
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
