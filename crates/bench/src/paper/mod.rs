//! Papers run again: each figure that they publish, beside ours.
//!
//! ```text
//!   a paper's figures ─► Row (published, ours) ─► report: table, CSV, JSON lines
//!                                             └─► plot: SVG
//! ```
//!
//! One file for each figure and table. What a paper gives only as a plot has no published value: nothing is read off a plot.

pub mod eleos;
pub mod isp;
pub mod plot;
pub mod report;
