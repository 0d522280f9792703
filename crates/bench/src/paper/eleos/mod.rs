//! "Programming an SSD Controller to Support Batched Writes for Variable-Size Pages" (Do, Luo, Lomet, ICDE 2021): ELEOS.
//!
//! ```text
//!   profile eleos-cnex ─► rig: one drive, several ways to it ─┬─ pages of TPC-C ─► table2, fig9
//!                                                             ├─ btree, YCSB ────► fig10a, fig10b, fig10c
//!                                                             └─ power cuts ─────► recovery
//! ```
//!
//! The claim: with a drive that takes atomic batches of pages of any size, the host needs no log-structured store,
//! and neither side needs a context and a commit for each packet. The CPU bounds the paper's Table II, which ran on a
//! simulated device, so it is measured here in wall time. The device bounds the paper's figures, so they run here in
//! modelled time. No figure mixes the two.

pub mod btree;
pub mod fig10;
pub mod fig9;
pub mod pages;
pub mod recovery;
pub mod rig;
mod shared;
pub mod table2;
pub mod workload;

use super::figure::Paper;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "eleos",
    about: "Batched writes of variable-size pages (Do et al., ICDE 2021)",
    citation: "\"Programming an SSD Controller to Support Batched Writes for Variable-Size Pages\" (Do, Luo, Lomet, ICDE \
               2021): ELEOS",
    text: "Table II, figures 9 and 10a to c, and recovery, for the paper's platform (profile eleos-cnex): batches of \
           variable and of fixed pages, and blocks with a log-structured store in the host above them. Table II is bound by \
           the CPU and measured in wall time; everything else is modelled time. What the paper gives only as a plot has no \
           published figure.",
    profile: "eleos-cnex",
    quick: "Small data and few points: done in seconds, to see that it runs",
    examples: &["eleos --quick", "eleos --figure fig10a --out report", "eleos --json > eleos.jsonl"],
    // Table I is the input: the profile holds it.
    figures: &[
        table2::FIGURE,
        fig9::FIGURE,
        fig10::THROUGHPUT_FIGURE,
        fig10::BYTES_FIGURE,
        fig10::COLLECTION_FIGURE,
        recovery::FIGURE,
    ],
};
