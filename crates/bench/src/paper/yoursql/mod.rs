//! "YourSQL: A High-Performance Database System Leveraging In-Storage Computing" (Jo et al., VLDB 2016).
//!
//! ```text
//!   profile yoursql-pm1725 ─► rig: a database on the modelled drive ─► SQL at some offload level ─► time, pages by stage
//!                                                                      └─► ratios, query1, table1, decisions, queries, memory, power, columns, sources ─► Row
//! ```
//!
//! The claim: pattern matchers in the drive exclude most pages of a table before any of it crosses the link. The tables of YourSQL
//! have row pages of 4 KB with fields for the matcher; those of the baseline have row pages of 16 KB. All statements run through
//! the same SQL, from an empty buffer pool.

pub mod columns;
pub mod decisions;
mod filters;
pub mod memory;
mod movers;
mod orders;
pub mod power;
pub mod queries;
pub mod query1;
pub mod ratios;
mod rig;
pub mod sources;
mod systems;
pub mod table1;

use super::figure::Paper;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "yoursql",
    about: "YourSQL: early filtering in the drive (Jo et al., VLDB 2016)",
    citation: "\"YourSQL: A High-Performance Database System Leveraging In-Storage Computing\" (Jo et al., VLDB 2016)",
    text: "The filtering ratios, Query 1 (Table 4) and join queries, for the paper's platform (profile yoursql-pm1725). A database on the \
           modelled drive stores tables of TPC-H, and runs SQL; the clocks of device and host give the time. Table 1, the \
           queries that the paper filters early (Table 5, Fig. 8 and 9, Table 7), Fig. 7 and Fig. 10 run beside a strong host. Table 8 and \
           Fig. 11 compare columns.",
    profile: "yoursql-pm1725",
    quick: "Tables of scale 0.01 instead of 0.25, and at no second scale",
    examples: &["yoursql", "yoursql --figure query1 --out report", "yoursql --json > yoursql.jsonl"],
    figures: &[
        ratios::FIGURE,
        query1::FIGURE,
        table1::FIGURE,
        decisions::FIGURE,
        queries::FIGURE,
        memory::FIGURE,
        power::FIGURE,
        columns::FIGURE,
        sources::FIGURE,
    ],
};
