//! "Fast, Energy Efficient Scan inside Flash Memory SSDs" (Kim et al., ADMS 2011).
//!
//! ```text
//!   profile isp-adms11 ─► experiment ─┬─► equations ─┐
//!                                     └─► (executed) ┴─► fig5, fig6, fig7, table3, table4, table5 ─► Row
//! ```
//!
//! The claim: comparators in the flash controllers scan as fast as the flash reads. The host's CPU would wait for the
//! link, and the embedded CPU is itself the bound. A figure takes a function that returns how long a scan takes, so
//! that the equations and an executed drive fill the same rows. Tables 1 and 2 are the input: the profile and
//! `experiment.rs` hold them.

pub mod equations;
pub mod executed;
pub mod experiment;
pub mod fig5;
pub mod fig6;
pub mod fig7;
pub mod predicate;
mod shared;
pub mod table3;
pub mod table4;
pub mod table5;

use super::figure::Paper;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "isp",
    about: "Scans inside flash SSDs (Kim et al., ADMS 2011)",
    citation: "\"Fast, Energy Efficient Scan inside Flash Memory SSDs\" (Kim et al., ADMS 2011)",
    text: "Figures 5 to 7 and tables 3 to 5, for the paper's platform (profile isp-adms11). Each of our figures is computed \
           twice. Calculated: by the paper's own equations (1) to (9), as written. Executed: a drive on the modelled device \
           stores a table of line items and scans it, and the device's clock gives the time. What the paper gives only as a \
           plot has no published figure.",
    profile: "isp-adms11",
    quick: "Execute on a table of 32,768 records instead of 262,144",
    examples: &["isp", "isp --figure fig7 --out report", "isp --json > isp.jsonl"],
    // Tables 1 and 2 are the input.
    figures: &[fig5::FIGURE, fig6::FIGURE, fig7::FIGURE, table3::FIGURE, table4::FIGURE, table5::FIGURE],
};

#[cfg(test)]
mod tests {
    use lode_base::Profile;

    use super::*;
    use crate::paper::row::{Method, Row};

    /// The calculated rows of each figure that has such rows.
    fn by_equations() -> [(&'static str, Vec<Row>); 4] {
        let profile = Profile::find(PAPER.profile).unwrap();
        [
            ("fig5", fig5::by_equations(&profile)),
            ("fig6", fig6::by_equations(&profile)),
            ("fig7", fig7::by_equations(&profile)),
            ("table4", table4::by_equations(&profile)),
        ]
    }

    #[test]
    fn each_row_says_what_it_is() {
        for (_, rows) in by_equations() {
            assert!(!rows.is_empty());
            for r in &rows {
                assert!(r.note.len() > 20 && r.by == Method::Equations, "{r:?}");
            }
        }
    }

    /// Checks every figure of sections 5.2 and 5.3 that the equations give, except the ratio of 13.9.
    #[test]
    fn what_is_published_is_met_to_its_digits() {
        let rows: Vec<Row> =
            by_equations().into_iter().flat_map(|f| f.1).filter(|r| r.published.is_some()).collect();
        assert_eq!(rows.len(), 12);
        for r in rows {
            let ratio = r.ratio().unwrap();
            let (least, most) = match (r.metric.as_str(), r.series.as_str()) {
                ("hw-ISP to the other, the best", "IHP") => (0.950, 0.952),
                ("hw-ISP to the other, the best", "cpu-ISP") => (0.812, 0.813),
                ("cycles a record", _) => (1.008, 1.009),
                _ => (0.997, 1.003),
            };
            assert!((least..most).contains(&ratio), "{ratio} of {r:?}");
        }
    }

    /// With labels as wide as in a common font, none leaves the page or covers another. Drawing a plot twice gives
    /// the same bytes.
    #[test]
    fn no_label_of_a_plot_covers_another() {
        for (name, rows) in by_equations() {
            let Some(plot) = &PAPER.figure(name).unwrap().plot else { continue };
            let svg = (plot.draw)(&rows).unwrap();
            crate::paper::plot::assert_legible(&svg);
            assert_eq!(svg, (plot.draw)(&rows).unwrap());
        }
    }
}
