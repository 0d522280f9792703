//! Papers run again: each figure that they publish, beside ours.
//!
//! ```text
//!   PAPERS ─► Paper ─► Figure ─ rows(run) ─► Row: published, ours ─► Report ─┬─► text, JSON lines, CSV, SVG
//!                                                                        └─► page: HTML
//! ```
//!
//! There is one folder for each paper, and one file for each figure and table. The command line, its help and its
//! JSON are made from [`PAPERS`]. A figure that a paper gives only as a plot has no published value, because values
//! are not read off plots.

pub mod eleos;
pub mod figure;
pub mod flixr;
pub mod isp;
pub mod page;
pub mod plot;
pub mod report;
pub mod row;
pub mod run;
mod scales;
pub mod table;
pub mod yoursql;

pub use figure::{Figure, Paper, Plot};
pub use report::{FigureReport, Report};
pub use row::{Aim, Method, Row, X};
pub use run::{Run, Scale, SizeOption, Stop};

/// All papers, in the order of the command line.
pub const PAPERS: &[&Paper] = &[&isp::PAPER, &yoursql::PAPER, &flixr::PAPER, &eleos::PAPER];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lode_base::Profile;

    use super::*;

    #[test]
    fn each_paper_and_figure_of_the_table_says_what_a_reader_needs() {
        let mut names = BTreeSet::new();
        for paper in PAPERS {
            assert!(names.insert(paper.name.to_string()), "{}", paper.name);
            Profile::find(paper.profile).unwrap();
            assert!(
                paper.citation.contains('"') && paper.citation.contains("20") && !paper.figures.is_empty()
            );
            assert!(paper.examples.iter().all(|e| e.split(' ').next() == Some(paper.name)), "{}", paper.name);
            let mut files = BTreeSet::new();
            assert!(paper.files().into_iter().all(|f| files.insert(f)), "{}", paper.name);
            for f in paper.figures {
                assert!(names.insert(format!("{} {}", paper.name, f.name)), "{}", f.name);
                for text in [f.about, f.claim, f.setup, f.expected] {
                    assert!(text.len() > 20, "{}: {text:?}", f.name);
                }
                for size in f.sizes {
                    assert!(size.allowed.contains(&size.default), "{}", size.name);
                    let same: Vec<_> = paper.sizes().into_iter().filter(|s| s.name == size.name).collect();
                    assert_eq!(same, [size], "two options have the same name");
                }
            }
        }
    }
}
