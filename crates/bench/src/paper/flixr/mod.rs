//! "FLIXR: Embedding Index Into Flash Translation Layer in SSDs" (Koo et al., IEEE TC 2022).
//!
//! ```text
//!   profile flixr-cosmos ─► rig: lineitem in order of l_shipdate, row pages of 16 KB ─► SQL by some access path ─► time, pages
//!                           expected: pages that each path must read, from the dates alone                       └─► scan, sizes ─► Row
//! ```
//!
//! The claim: a range of each page's keys, kept beside its mapping, does the work of an index that the host would have to read.

pub mod expected;
mod rig;
pub mod scan;
pub mod sizes;

use super::figure::Paper;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "flixr",
    about: "FLIXR: an index in the mapping of the drive (Koo et al., IEEE TC 2022)",
    citation: "\"FLIXR: Embedding Index Into Flash Translation Layer in SSDs\" (Koo et al., IEEE Transactions on Computers, 2022)",
    text: "Scans of Fig. 9 and the sizes of section 4.8, for the paper's platform (profile flixr-cosmos). A database on the modelled drive \
           stores lineitem in order of l_shipdate, and runs SQL by each access path. Its other figures need a tree of rows in the host, a \
           tree in the drive, and FLIXR-HS; they are not run.",
    profile: "flixr-cosmos",
    quick: "Tables of scale 0.02 instead of 0.25, and at no second scale",
    examples: &["flixr", "flixr --figure scan --out report", "flixr --json > flixr.jsonl"],
    figures: &[scan::FIGURE, sizes::FIGURE],
};
