//! One page of all papers: every figure and table that was run again, published beside ours.
//!
//! ```text
//!   Report, Report, ... ─► contents, summary of each paper, its figures: claim, setup, plot, rows, notes, how to run it again
//! ```
//!
//! The page is one file of HTML. It contains the style and the plots, has no script and loads nothing. The same
//! reports make the same bytes. A plot takes its colours from the page, so that it is legible on a light and on a
//! dark background.

mod html;

use lode_base::checksum::crc32c;
use lode_base::profile::SHIPPED;

use self::html::{Html, escaped};
use super::report::{FigureReport, Report};
use super::row::{Aim, Method};
use super::table::{Line, Table, number};
use crate::BenchError;

const STYLE: &str = include_str!("style.css");

/// A table of all rows with more lines than this is folded.
const LINES_SHOWN: usize = 24;

/// The program that made the reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: String,
    /// The commit from which the program was built, if it is known.
    pub commit: Commit,
    /// The command line that made the page.
    pub command: String,
}

/// The commit from which a program was built, and who named it. The program itself does not know the commit, because
/// it may be built without Git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The build named it.
    OfBuild(String),
    /// The user who ran the program named it.
    OfUser(String),
    /// It is not known.
    Unknown,
}

impl Build {
    fn text(&self) -> String {
        let commit = match &self.commit {
            Commit::OfBuild(commit) => format!("commit {commit} (as given to the build)"),
            Commit::OfUser(commit) => format!("commit {commit} (as given by --commit)"),
            Commit::Unknown => "commit not given".into(),
        };
        format!("Lode {}, {commit}", self.version)
    }
}

/// The number of published values that are met, and the number of those that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Met {
    met: usize,
    compared: usize,
}

impl Met {
    /// The counts over figures. Only values are counted for whose method `counted` returns true.
    fn of<'a>(figures: impl IntoIterator<Item = &'a FigureReport>, counted: fn(Method) -> bool) -> Self {
        let mut all = Self::default();
        for f in figures {
            let table = Table::of(&f.rows);
            let verdicts = table.lines.iter().filter_map(|line| verdict(&table, line));
            for met in verdicts.filter(|v| counted(v.by)).filter_map(|v| v.met) {
                all.met += usize::from(met);
                all.compared += 1;
            }
        }
        all
    }
}

/// The result of comparing our value of a line with the published one.
struct Verdict {
    by: Method,
    ratio: f64,
    /// Whether the published value is met, or `None` if the two are not compared.
    met: Option<bool>,
}

fn verdict(table: &Table, line: &Line) -> Option<Verdict> {
    let (published, (by, ours)) = (line.published?, table.judged(line)?);
    Some(Verdict { by, ratio: ours / published, met: line.aim.is_met(published, ours) })
}

/// The page, as HTML.
///
/// # Errors
/// If a plot cannot be drawn, or a profile that is not shipped cannot be read.
pub fn page(reports: &[Report], build: &Build) -> Result<String, BenchError> {
    let mut h = Html::new("Lode: papers run again", STYLE);
    h.open("div", "class=\"layout\"");
    introduction(&mut h, reports);
    contents(&mut h, reports);
    h.open("main", "");
    words(&mut h, build);
    for report in reports {
        paper(&mut h, report, build)?;
    }
    h.close("main");
    h.close("div");
    Ok(h.finish())
}

/// The table of contents.
fn contents(h: &mut Html, reports: &[Report]) {
    h.open("nav", "aria-label=\"Contents\"");
    for report in reports {
        let name = report.paper.name;
        h.raw(&format!("<strong><a href=\"#{name}\">{}</a></strong>", escaped(report.paper.about)));
        h.open("ul", "");
        for f in &report.figures {
            let (label, what) = heading(f.figure.about);
            let count = match Met::of([f], |_| true) {
                Met { compared: 0, .. } => "–".to_string(),
                Met { met, compared } => format!("{met} of {compared}"),
            };
            h.raw(&format!(
                "<li><a href=\"#{name}-{}\" title=\"{}\">{}</a> \
                 <span class=\"count\" title=\"published figures that are met\">{}</span></li>",
                f.figure.name,
                escaped(what),
                escaped(label),
                count
            ));
        }
        h.close("ul");
    }
    h.close("nav");
}

fn introduction(h: &mut Html, reports: &[Report]) {
    h.open("header", "");
    h.element("h1", "", "Papers, run again");
    h.element(
        "p",
        "",
        "Every figure and table of these papers that Lode runs again: what the paper published, what follows from its own \
         equations or parameters, what we find, and why the two differ.",
    );
    if reports.iter().any(|r| r.scale.quick) {
        h.raw(
            "<p class=\"warning\">This was a quick run: small data and few points, to see that everything runs. Its figures say \
             little about the papers' claims. Run it again without <code>--quick</code>.</p>",
        );
    }
    h.close("header");
}

/// The program that ran, and the meaning of the words on the page.
fn words(h: &mut Html, build: &Build) {
    h.open("div", "class=\"card\"");
    h.open("dl", "");
    h.term("Build", &escaped(&build.text()));
    h.term("Run again", &format!("<code>{}</code>", escaped(&build.command)));
    h.term(
        "Published",
        "What the paper says in words or in a table. No value is read off a plot, so a plot alone has no published figure.",
    );
    h.term(
        "Calculated",
        "By the paper's own equations, or by arithmetic from its parameters where it gives none. No drive runs.",
    );
    h.term(
        "Executed",
        "A drive runs on a modelled device. Time is that of the model, not of the machine that ran it.",
    );
    h.term("In wall time", "Measured on the machine that made this page. Another run differs.");
    h.term(
        "Ratio",
        "Ours, relative to the published figure. If both a run and a calculation give ours, the run counts.",
    );
    h.term(
        "Met",
        &format!(
            "Ours is within {:.0} % of the published figure; where the paper claims a gain (≥) or a bound (≤), ours is on its \
             side. <em>Not compared</em>: the paper's figure is of another machine or another query.",
            Aim::TOLERANCE * 100.0
        ),
    );
    h.close("dl");
    h.close("div");
}

fn paper(h: &mut Html, report: &Report, build: &Build) -> Result<(), BenchError> {
    let p = report.paper;
    let profile = ProfileText::of(p.profile)?;
    h.open("section", &format!("class=\"paper\" id=\"{}\"", p.name));
    h.element("h2", "", p.about);
    h.element("p", "class=\"soft\"", &format!("{}.", p.citation));
    h.element("p", "", p.text);
    summary(h, report);
    for f in &report.figures {
        figure(h, report, f, build, &profile)?;
    }
    h.open("details", &format!("id=\"{}-profile\"", p.name));
    h.element(
        "summary",
        "",
        &format!("The platform: profile {}, CRC-32C {}", profile.name, profile.checksum),
    );
    h.element("pre", "", &profile.text);
    h.close("details");
    h.close("section");
    Ok(())
}

/// The file of a profile.
struct ProfileText {
    name: &'static str,
    text: String,
    checksum: String,
}

impl ProfileText {
    fn of(name: &'static str) -> Result<Self, BenchError> {
        let text = match SHIPPED.iter().find(|p| p.0 == name) {
            Some((_, text)) => (*text).to_string(),
            None => std::fs::read_to_string(name)
                .map_err(|source| BenchError::File { path: name.into(), source })?,
        };
        let checksum = format!("{:08x}", crc32c(text.as_bytes()));
        Ok(Self { name, text, checksum })
    }
}

/// Splits `Fig. 5: throughput` into `Fig. 5` and `throughput`.
fn heading(about: &str) -> (&str, &str) {
    about.split_once(": ").unwrap_or((about, about))
}

/// The table of all published values of a paper, with whether each is met.
fn summary(h: &mut Html, report: &Report) {
    h.open("div", "class=\"card\"");
    let ran = Met::of(&report.figures, |by| !by.is_calculated());
    h.element(
        "h3",
        "",
        &format!("Summary: {} of {} published figures are met by what ran", ran.met, ran.compared),
    );
    let calculated = Met::of(&report.figures, Method::is_calculated);
    if calculated.compared > 0 {
        let text = format!(
            "{} of {} more are met by what is calculated; nothing ran for them.",
            calculated.met, calculated.compared
        );
        h.element("p", "class=\"soft\"", &text);
    }
    h.open("div", "class=\"scroll\"");
    h.open("table", "");
    h.raw(
        "<thead><tr><th>Figure</th><th>What</th><th class=\"n\">Published</th><th class=\"n\">Calculated</th>\
         <th class=\"n\">Ran</th><th class=\"n\">Ratio</th><th>Met</th></tr></thead>",
    );
    h.open("tbody", "");
    for f in &report.figures {
        let table = Table::of(&f.rows);
        for line in table.lines.iter().filter(|l| l.published.is_some()) {
            let Some(v) = verdict(&table, line) else { continue };
            let of = |calculated: bool| {
                let mut found = table.methods.iter().zip(&line.ours);
                found.find_map(|(m, ours)| (*ours).filter(|_| m.is_calculated() == calculated))
            };
            h.open("tr", "");
            let link = format!(
                "<a href=\"#{}-{}\">{}</a>",
                report.paper.name,
                f.figure.name,
                escaped(heading(f.figure.about).0)
            );
            h.raw(&format!("<td>{link}</td><td class=\"what\">{}</td>", what(line)));
            h.raw(&format!("<td class=\"n\">{}</td>", published(line)));
            h.raw(&format!("<td class=\"n\">{}</td>", or_dash(of(true))));
            let wall = if v.by == Method::Measured { "<span class=\"by\">wall time</span>" } else { "" };
            h.raw(&format!("<td class=\"n\">{}{wall}</td>", or_dash(of(false))));
            h.raw(&format!("<td class=\"n\">{:.3}</td><td>{}</td>", v.ratio, mark(v.met)));
            h.close("tr");
        }
    }
    h.close("tbody");
    h.close("table");
    h.close("div");
    h.close("div");
}

/// The series, x and metric of a line, with the unit.
fn what(line: &Line) -> String {
    let x = match line.x.to_string() {
        x if x.is_empty() => String::new(),
        x => format!(", {}", escaped(&x)),
    };
    let unit = if line.unit.is_empty() { String::new() } else { format!(" ({})", escaped(line.unit)) };
    format!("{}{x}<span class=\"by\">{}{unit}</span>", escaped(&line.series), escaped(&line.metric))
}

fn published(line: &Line) -> String {
    let sign = match line.aim {
        Aim::AtLeast => "≥ ",
        Aim::AtMost => "≤ ",
        Aim::Equal | Aim::NotCompared => "",
    };
    line.published.map_or_else(|| "–".into(), |v| format!("{sign}{}", number(v)))
}

fn or_dash(v: Option<f64>) -> String {
    v.map_or_else(|| "–".into(), number)
}

fn mark(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "<span class=\"mark met\">met</span>",
        Some(false) => "<span class=\"mark not\">not met</span>",
        None => "<span class=\"mark none\">not compared</span>",
    }
}

fn figure(
    h: &mut Html,
    report: &Report,
    f: &FigureReport,
    build: &Build,
    profile: &ProfileText,
) -> Result<(), BenchError> {
    let id = format!("{}-{}", report.paper.name, f.figure.name);
    h.open("article", &format!("id=\"{id}\""));
    h.element("h3", "", f.figure.about);
    h.open("dl", "");
    h.term("Claim", &escaped(f.figure.claim));
    h.term("Setup", &escaped(f.figure.setup));
    h.term("Expected", &escaped(f.figure.expected));
    if !f.figure.differs.is_empty() {
        h.term("What differs, and why", &escaped(f.figure.differs));
    }
    h.close("dl");
    for (at, drawn) in f.plots()?.into_iter().enumerate() {
        let by = drawn.by.heading();
        let plot = format!(
            "<figure role=\"img\" aria-label=\"{}, {by}\">{}</figure>",
            escaped(f.figure.about),
            drawn.svg
        );
        // The plot of a run is shown. The plot of calculated values unfolds.
        match at {
            0 => h.raw(&plot),
            _ => h.raw(&format!("<details><summary>The same plot, {by}</summary>{plot}</details>")),
        }
    }
    let table = Table::of(&f.rows);
    let notes = Notes::of(&table);
    let with_published = Table {
        lines: table.lines.iter().filter(|l| l.published.is_some()).cloned().collect(),
        ..table.clone()
    };
    if table.lines.len() <= LINES_SHOWN {
        rows(h, &table, &notes, &id);
    } else {
        if !with_published.lines.is_empty() {
            rows(h, &with_published, &notes, &id);
        }
        h.open("details", "");
        h.element("summary", "", &format!("All {} rows", table.lines.len()));
        rows(h, &table, &notes, &id);
        h.close("details");
    }
    h.element("p", "class=\"soft\"", "Notes: what each figure is, and why it differs.");
    h.open("ol", "class=\"notes\"");
    for (at, note) in notes.texts.iter().enumerate() {
        h.element("li", &format!("id=\"{id}-note-{}\"", at + 1), note);
    }
    h.close("ol");
    h.open("footer", "");
    h.raw(&format!("<p>Run again: <code>{}</code></p>", escaped(&report.command(f.figure))));
    h.raw(&format!(
        "<p>{} · profile <a href=\"#{}-profile\">{}</a>, CRC-32C {}</p>",
        escaped(&build.text()),
        report.paper.name,
        profile.name,
        profile.checksum
    ));
    h.close("footer");
    h.close("article");
    Ok(())
}

/// The notes of a figure. A note that several methods share occurs once.
struct Notes {
    texts: Vec<String>,
    /// The place of each note of the table in `texts`, from 1.
    places: Vec<usize>,
}

impl Notes {
    fn of(table: &Table) -> Self {
        let mut shared: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut places = Vec::new();
        for note in &table.notes {
            let at = shared.iter().position(|s| s.0 == note.text).unwrap_or_else(|| {
                shared.push((&note.text, Vec::new()));
                shared.len() - 1
            });
            shared[at].1.push(note.by.heading());
            places.push(at + 1);
        }
        let text = |(text, by): (&str, Vec<&str>)| sentence(&format!("{}: {text}", by.join(", ")));
        Self { texts: shared.into_iter().map(text).collect(), places }
    }

    /// The numbers of a line's notes.
    fn of_line(&self, line: &Line) -> Vec<usize> {
        let mut numbers: Vec<usize> = line.notes.iter().map(|n| self.places[n - 1]).collect();
        numbers.dedup();
        numbers
    }
}

/// The rows of a figure, with the methods side by side.
fn rows(h: &mut Html, table: &Table, notes: &Notes, id: &str) {
    let compared = table.lines.iter().any(|l| l.published.is_some());
    h.open("div", "class=\"scroll\"");
    h.open("table", "");
    let mut head =
        String::from("<thead><tr><th>Series</th><th class=\"n\">x</th><th>Metric</th><th>Unit</th>");
    if compared {
        head += "<th class=\"n\">Published</th>";
    }
    for m in &table.methods {
        head += &format!("<th class=\"n\">{}</th>", sentence(m.heading()));
        if compared {
            head += "<th class=\"n\">Ratio</th>";
        }
    }
    if compared {
        head += "<th>Met</th>";
    }
    h.raw(&format!("{head}<th class=\"n\">Note</th></tr></thead>"));
    h.open("tbody", "");
    for line in &table.lines {
        let cell = |text: &str| format!("<td>{}</td>", escaped(text));
        let words = |text: &str| format!("<td class=\"words\">{}</td>", escaped(text));
        let right = |text: &str| format!("<td class=\"n\">{text}</td>");
        let mut cells = words(&line.series)
            + &right(&escaped(&line.x.to_string()))
            + &words(&line.metric)
            + &cell(line.unit);
        if compared {
            cells += &right(&published(line));
        }
        for (ours, ratio) in line.ours.iter().zip(line.ratios()) {
            cells += &right(&or_dash(*ours));
            if compared {
                cells += &right(&ratio.map_or_else(String::new, |r| format!("{r:.3}")));
            }
        }
        if compared {
            let met = verdict(table, line).map_or("", |v| mark(v.met));
            cells += &format!("<td>{met}</td>");
        }
        let links = notes.of_line(line).into_iter().map(|n| format!("<a href=\"#{id}-note-{n}\">{n}</a>"));
        cells += &right(&links.collect::<Vec<_>>().join(", "));
        h.raw(&format!("<tr>{cells}</tr>"));
    }
    h.close("tbody");
    h.close("table");
    h.close("div");
}

/// The words with a capital letter at the beginning.
fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::super::figure::{Figure, Paper, Plot};
    use super::super::row::{Row, X};
    use super::super::run::{Scale, Stop};
    use super::*;

    static PAPER: Paper = Paper {
        name: "sample",
        about: "Samples (Nobody, 2020)",
        citation: "\"On <samples>\" (Nobody, 2020)",
        text: "One figure & no more.",
        profile: "mlc",
        quick: "",
        examples: &[],
        figures: &[Figure {
            name: "fig1",
            about: "Fig. 1: samples over time",
            claim: "More than 5.",
            setup: "None.",
            expected: "A line.",
            differs: "Ours is <less>.",
            sizes: &[],
            rows: |_| {
                let row = |by, x, ours| Row::new(by, "it", X::Number(x), "rate", "1/s", ours, "a note");
                let published = |row, v, aim| Row { published: Some(v), aim, ..row };
                let many = (10..40).map(|n| row(Method::Executed, f64::from(n), 1.0));
                Ok([
                    published(row(Method::Arithmetic, 1.0, 5.0), 5.0, Aim::AtLeast),
                    published(row(Method::Executed, 1.0, 4.0), 5.0, Aim::AtLeast),
                    published(row(Method::Executed, 2.0, 5.4), 5.0, Aim::Equal),
                    published(row(Method::Measured, 3.0, 5.4), 5.0, Aim::NotCompared),
                ]
                .into_iter()
                .chain(many)
                .collect())
            },
            plot: Some(Plot {
                draw: |rows| Ok(format!("<svg><text>{} rows</text></svg>", rows.len())),
                by: &[Method::Executed, Method::Arithmetic],
            }),
        }],
    };

    fn made(quick: bool) -> String {
        let scale = Scale { quick, ..Scale::default() };
        let report = Report::run(&PAPER, None, &scale, &Stop::never(), |_| ()).unwrap();
        let build = Build {
            version: "1.2.3".into(),
            commit: Commit::OfUser("abc".into()),
            command: "lode paper all --out DIR".into(),
        };
        page(&[report], &build).unwrap()
    }

    #[test]
    fn a_page_has_what_a_reader_needs() {
        let page = made(false);
        for words in [
            "Summary: 1 of 2 published figures are met by what ran",
            "&quot;On &lt;samples&gt;&quot; (Nobody, 2020).",
            "One figure &amp; no more.",
            "<dt>Claim</dt><dd>More than 5.</dd>",
            "<dt>What differs, and why</dt><dd>Ours is &lt;less&gt;.</dd>",
            "<svg><text>32 rows</text></svg>",
            "The same plot, by arithmetic",
            "≥ 5.000",
            "<td class=\"n\">0.800</td><td><span class=\"mark not\">not met</span>",
            "not compared",
            "All 33 rows",
            "By arithmetic, executed, in wall time: a note",
            "lode paper sample --figure fig1",
            "Lode 1.2.3, commit abc (as given by --commit)",
            "profile mlc, CRC-32C ",
            "name = &quot;mlc&quot;",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(!page.contains("quick run"), "{page}");
        assert!(made(true).contains("quick run") && made(true).contains("--figure fig1 --quick"));
        assert_eq!(page, made(false));
    }

    #[test]
    fn a_page_needs_nothing_else_and_its_links_lead_somewhere() {
        let page = made(false);
        for loaded in ["<script", "src=", "url(", "@import", "<link"] {
            assert!(!page.contains(loaded), "{loaded}");
        }
        let links: Vec<&str> = page.split("href=\"").skip(1).map(|l| l.split('"').next().unwrap()).collect();
        assert!(links.len() > 40);
        for link in links {
            let id = link.strip_prefix('#').expect("a link within the page");
            assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{link}");
        }
    }
}
