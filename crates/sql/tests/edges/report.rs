//! The report of all cases.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::cases::{Answer, Case};
use super::differs::Differs;
use super::run::{Outcome, show};

/// The counts of a theme.
#[derive(Clone, Copy, Default)]
struct Counts {
    cases: usize,
    same: usize,
    other_type: usize,
    other_state: usize,
    refused: usize,
    on_purpose: usize,
    wrong: usize,
}

/// All cases and their outcomes, theme by theme.
pub(crate) struct Report<'a> {
    themes: BTreeMap<&'a str, Counts>,
    total: Counts,
    wrong: Vec<(&'a Case, &'a Outcome)>,
    listed: BTreeMap<&'a str, Vec<(&'static str, &'a Case, &'a Outcome)>>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(cases: &'a [Case], outcomes: &'a [Outcome], differs: &Differs) -> Self {
        let mut report = Self {
            themes: BTreeMap::new(),
            total: Counts::default(),
            wrong: Vec::new(),
            listed: BTreeMap::new(),
        };
        for (case, outcome) in cases.iter().zip(outcomes) {
            let word = report.count(case, outcome, differs);
            if let Some(word) = word {
                report.listed.entry(&case.theme).or_default().push((word, case, outcome));
            }
        }
        report
    }

    /// Counts a case and returns how it is listed.
    fn count(&mut self, case: &'a Case, outcome: &'a Outcome, differs: &Differs) -> Option<&'static str> {
        let mut counts = Counts { cases: 1, ..Counts::default() };
        let word = match outcome {
            Outcome::Same => {
                counts.same = 1;
                None
            }
            Outcome::OtherType { .. } => {
                counts.other_type = 1;
                Some("4 OTHER TYPE")
            }
            Outcome::OtherState { .. } => {
                counts.other_state = 1;
                Some("3 OTHER SQLSTATE")
            }
            Outcome::Refused { .. } => {
                counts.refused = 1;
                Some("2 REFUSED")
            }
            Outcome::Wrong { kind, .. } if differs.has(&case.theme, kind, &case.sql) => {
                counts.on_purpose = 1;
                Some("5 ON PURPOSE")
            }
            Outcome::Wrong { .. } => {
                counts.wrong = 1;
                self.wrong.push((case, outcome));
                Some("1 WRONG")
            }
        };
        self.total.add(counts);
        self.themes.entry(&case.theme).or_default().add(counts);
        word
    }

    pub(crate) fn wrong(&self) -> usize {
        self.wrong.len()
    }

    /// The number of errors whose SQLSTATE differs from PostgreSQL's.
    pub(crate) fn other_state(&self) -> usize {
        self.total.other_state
    }

    /// The first wrong answers.
    pub(crate) fn wrong_head(&self, count: usize) -> String {
        self.wrong.iter().take(count).map(|(case, outcome)| entry("WRONG", case, outcome)).collect()
    }

    /// A line of counts for each theme.
    pub(crate) fn summary(&self) -> String {
        let mut out = String::new();
        let head =
            ["theme", "cases", "same", "other type", "other SQLSTATE", "refused", "on purpose", "WRONG"];
        let _ = writeln!(
            out,
            "{:26}{}",
            head[0],
            head[1..].iter().map(|h| format!("{h:>16}")).collect::<String>()
        );
        let lines = self.themes.iter().map(|(t, c)| (*t, c)).chain([("all", &self.total)]);
        for (theme, c) in lines {
            let n = [c.cases, c.same, c.other_type, c.other_state, c.refused, c.on_purpose, c.wrong];
            let _ = writeln!(out, "{theme:26}{}", n.iter().map(|n| format!("{n:>16}")).collect::<String>());
        }
        out
    }

    /// The summary, then each case that is not the same.
    pub(crate) fn full(&self) -> String {
        let mut out = self.summary();
        for (theme, cases) in &self.listed {
            let mut cases = cases.clone();
            cases.sort_by_key(|(word, _, outcome)| (*word, kind(outcome)));
            let _ = writeln!(out, "\n================ {theme}");
            for (word, case, outcome) in cases {
                out.push_str(&entry(&word[2..], case, outcome));
            }
        }
        out
    }
}

fn kind(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Wrong { kind, .. } => (*kind).to_owned(),
        Outcome::Refused { state, message } => format!("{state} {message}"),
        Outcome::OtherType { types } => types.clone(),
        _ => String::new(),
    }
}

fn entry(word: &str, case: &Case, outcome: &Outcome) -> String {
    let postgres = match &case.answer {
        Answer::Error(state) => format!("error {state}"),
        Answer::Rows { types, rows } => {
            let rows = rows.iter().map(|r| show(r.iter().map(|v| v.clone().unwrap_or("NULL".into()))));
            format!("{} [{}]", cut(&rows.collect::<Vec<_>>().join("; ")), types.join(", "))
        }
    };
    match outcome {
        Outcome::Same => String::new(),
        Outcome::OtherType { types } => format!("{word} {types}: {}\n", case.sql),
        Outcome::OtherState { state, message } => {
            format!(
                "{word} {}\n    PostgreSQL: {postgres}\n    Lode:       error {state} {message}\n",
                case.sql
            )
        }
        Outcome::Refused { state, message } => {
            format!(
                "{word} {}\n    PostgreSQL: {postgres}\n    Lode:       error {state} {message}\n",
                case.sql
            )
        }
        Outcome::Wrong { kind, lode } => {
            format!(
                "{word} ({kind}) {}\n    PostgreSQL: {postgres}\n    Lode:       {}\n",
                case.sql,
                cut(lode)
            )
        }
    }
}

/// On one line of bounded length, without control characters.
fn cut(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let line: String = text.chars().take(500).map(shown).collect();
    if text.chars().nth(500).is_some() { line + "..." } else { line }
}

impl Counts {
    fn add(&mut self, o: Counts) {
        self.cases += o.cases;
        self.same += o.same;
        self.other_type += o.other_type;
        self.other_state += o.other_state;
        self.refused += o.refused;
        self.on_purpose += o.on_purpose;
        self.wrong += o.wrong;
    }
}
