//! "FLIXR: Embedding Index Into Flash Translation Layer in SSDs" (Koo et al., IEEE TC 2022).
//!
//! ```text
//!   profile flixr-cosmos ─► rig: tables of TPC-H in order of keys, row pages of 16 KB, trees ─► SQL by systems ─► time, pages, bytes
//!                           expected: pages that each must read, from the data alone                              └─► a file a figure ─► Row
//! ```
//!
//! The claim: a range of each page's keys, kept beside its mapping, does the work of an index that the host would have to read.

pub mod changes;
pub mod expected;
pub mod fig12;
pub mod fig13;
pub mod fig4;
pub mod fig9;
pub mod kinds;
pub mod orders;
pub mod queries;
mod rig;
pub mod sensitivity;
pub mod sizes;
mod systems;
pub mod tpcc;

use super::figure::Paper;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "flixr",
    about: "FLIXR: an index in the mapping of the drive (Koo et al., IEEE TC 2022)",
    citation: "\"FLIXR: Embedding Index Into Flash Translation Layer in SSDs\" (Koo et al., IEEE Transactions on Computers, 2022)",
    text: "Figs. 4 and 9 to 13 and the sizes of section 4.8, for the paper's platform (profile flixr-cosmos). A database on the modelled drive \
           stores tables of TPC-H and of TPC-C in order of the keys that statements restrict, and runs SQL by each access path.",
    profile: "flixr-cosmos",
    quick: "Tables of scale 0.01 instead of 0.25, and at no second scale; fewer transactions and assumed values",
    examples: &["flixr", "flixr --figure fig9 --nodes-percent 50", "flixr --json > flixr.jsonl"],
    figures: &[
        fig4::FIGURE,
        fig9::FIGURE,
        changes::FIGURE,
        queries::FIG10,
        queries::FIG11,
        fig12::FIGURE,
        fig13::FIGURE,
        sizes::FIGURE,
        orders::FIGURE,
        kinds::FIGURE,
        sensitivity::FIGURE,
        tpcc::FIGURE,
    ],
};
