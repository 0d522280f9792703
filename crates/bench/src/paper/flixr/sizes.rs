//! Section 4.8: bytes of the page index, beside the data and beside a tree of rows.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_page::{ColumnType, DataType, Schema};
use lode_program::IndexRule;

use super::expected::tree_of_rows_bytes;
use super::rig::{PAGE_BYTES, Rig, TABLE};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The table.
pub const FIGURE: Figure = Figure {
    name: "sizes",
    about: "Section 4.8: bytes of the page index",
    claim: "The page index takes 8 to 24 bytes a page, 0.05 to 0.15 % of the storage, and at most 10 % of a tree.",
    setup: "lineitem in row pages of 16 KB, with a range of l_shipdate for each page.",
    expected: "Two dates of four bytes, the number of rows and a byte of NULL bits: 13 bytes for each page of 16,384.",
    differs: "The tree of rows was loaded, so its nodes are full. Its entries have a key of 5 bytes, and 12 of page and slot.",
    sizes: &[scales::PERCENT],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    run.go_on()?;
    let column = ColumnType { data_type: DataType::Date, nullable: false };
    let schema = Schema { version: 1, columns: vec![column], absent: Vec::new() };
    let entry_bytes = IndexRule::new(schema, vec![0]).expect("a rule of one date").entry_bytes() as f64;
    let rig = Rig::of(run)?;
    rig.table(TABLE)?;
    let pages = rig.pages() as f64;
    let (_, _, all) = rig.rows(0, 0);
    let (tree, by_arithmetic) = (rig.tree_bytes() as f64, tree_of_rows_bytes(all, 4, 8));
    let row = |metric: &str, unit, ours, note: &str| {
        Row::new(Method::Executed, "page index", X::None, metric, unit, ours, note)
    };
    Ok(vec![
        Row {
            published: Some(24.0),
            aim: Aim::AtMost,
            ..row("entry", "bytes", entry_bytes, "a range of one date; the paper has 8 to 24 bytes")
        },
        Row {
            published: Some(0.15),
            aim: Aim::AtMost,
            ..row(
                "part of the data",
                "%",
                entry_bytes / PAGE_BYTES as f64 * 100.0,
                &format!("{pages} pages of {PAGE_BYTES} bytes"),
            )
        },
        Row {
            published: Some(10.0),
            aim: Aim::AtMost,
            ..row(
                "part of a tree of rows",
                "%",
                entry_bytes * pages / tree * 100.0,
                &format!(
                    "{all} rows, in a tree of {:.1} MB; full as one that grew, {:.1}",
                    tree / 1e6,
                    by_arithmetic / 1e6
                ),
            )
        },
    ])
}
