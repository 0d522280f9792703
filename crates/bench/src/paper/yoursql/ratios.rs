//! Filtering ratios: the share of a table's pages that must be read, by page size and by stage.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_sql::Offload;

use super::filters::{FILTERS, Filter, QUERY_1};
use super::rig::{Pages, Rig};
use crate::BenchError;
use crate::paper::figure::Figure;
use crate::paper::row::{Aim, Method, Row, X};
use crate::paper::run::Run;
use crate::paper::scales;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "ratios",
    about: "Sections 2.1 and 3.1: filtering ratios of the queries that are filtered early",
    claim: "6.7 % of the pages of part are needed for Query 1. Of the 22 queries of TPC-H, eight have a table with a ratio below the threshold.",
    setup: "Row pages of 4, 8 and 16 KB with fields for the matcher. The page index has the key alone. The matcher flags pages; the filter \
            on the device's cores looks at those.",
    expected: "Both conditions of Query 1 in one row give a few percent at 4 KB. Its two keys in one page give several times as many: the matcher \
               knows no rows. A month of l_shipdate has a key that takes five months.",
    differs: "Pages are Lode's (PAX, with a directory of 32 bytes a column), so that rows a page are not InnoDB's.",
    sizes: &[scales::PERCENT],
    rows: |run| scales::beside_a_quarter::<Rig>(run, rows),
    plot: None,
};

/// Page sizes, in bytes.
const SIZES: [u32; 3] = [4096, 8192, 16_384];

fn rows(run: &mut Run<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for filter in FILTERS {
        // All sizes for Query 1, and the paper's for the others.
        let sizes = if filter.query == QUERY_1.query { &SIZES[..] } else { &SIZES[..1] };
        for &page_bytes in sizes {
            run.go_on()?;
            rows.extend(of_filter(Rig::of(run)?, &filter, page_bytes)?);
        }
    }
    Ok(rows)
}

fn of_filter(rig: &mut Rig, filter: &Filter, page_bytes: u32) -> Result<Vec<Row>, BenchError> {
    let (name, table_rows) = rig.table(filter.table, Pages::Rows { page_bytes, matchable: true })?;
    let sql = format!("SELECT 1 FROM {name} WHERE {}", filter.condition);
    let matches = rig.run(&sql, Offload::Matches, true)?;
    let hints = rig.run(&sql, Offload::Hints, true)?;
    let pages = matches.counts.pages;
    let share = |n: u64| n as f64 / pages as f64;
    let x = || X::Number(f64::from(page_bytes));
    let at = format!("{} at scale {}, {pages} pages", filter.table, rig.scale());
    let row = |metric: &str, unit, ours, note: String| {
        Row::new(Method::Executed, filter.query, x(), metric, unit, ours, &note)
    };
    let rows_a_page = table_rows as f64 / pages as f64;
    let selectivity = hints.rows as f64 / table_rows as f64;
    let by_chance = 1.0 - (1.0 - selectivity).powf(rows_a_page);
    let is_query_1 = filter.query == QUERY_1.query && page_bytes == SIZES[0];
    let flagged = row(
        "pages with a row that passes",
        "",
        share(hints.flagged()),
        format!(
            "{at}; after the filter on the device's cores. If the rows that pass, {selectivity:.5} of all, were spread evenly, it would be \
             {by_chance:.3}"
        ),
    );
    Ok(vec![
        row("rows a page", "", rows_a_page, format!("{at}; the paper does not say how many")),
        row(
            "pages with the keys",
            "",
            share(matches.flagged()),
            format!("{at}; what the matcher alone lets through: its keys may be in different rows of a page"),
        ),
        Row {
            published: is_query_1.then_some(0.067),
            aim: Aim::Equal,
            note: match is_query_1 {
                true => format!(
                    "{}. The paper's 0.067 is the share of page reads with an index on both columns: at a selectivity of 1 in 250 it means 17 \
                     rows a page, and both conditions in one row",
                    flagged.note
                ),
                false => flagged.note.clone(),
            },
            ..flagged
        },
    ])
}
