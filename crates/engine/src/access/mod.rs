//! Access paths: how a scan finds the pages that may have rows which pass.
//!
//! ```text
//!   path         B+-trees in the host       page index in the drive
//!   auto         if they name few pages     by levels: 1,024 pages, 32 pages, one page
//!   none         never                      never: each page is read
//!   btree        wherever one fits          never
//!   page_index   never                      by levels
//!   flixr_s      never                      one decision a page, as in the paper
//!   flixr_hs     minima of the page index   one decision on each of their pages
//! ```
//!
//! Rows are the same by each path: a path decides which pages are read, and the filter which rows come out.
//! A path is one line in [`PATHS`].
//! Source: FLIXR §4.1 and §5 (host-side index, FLIXR-S, FLIXR-HS).

use std::fmt;

use lode_command::Skip;

/// A way to find the pages of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPath {
    /// Its name, which `SET lode.index` takes.
    pub name: &'static str,
    /// When B+-tree indexes are asked.
    pub trees: TreeUse,
    /// How the drive asks its page index.
    pub skip: Skip,
}

/// When a scan asks B+-tree indexes for its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeUse {
    /// If one names few of the table's pages.
    IfFew,
    /// If the filter restricts one.
    Always,
    /// Never.
    Never,
    /// Never: minima of pages are, which the host has from the page index.
    Minima,
}

/// The paths.
pub static PATHS: [AccessPath; 6] = [
    AccessPath { name: "auto", trees: TreeUse::IfFew, skip: Skip::Levels },
    AccessPath { name: "none", trees: TreeUse::Never, skip: Skip::Never },
    AccessPath { name: "btree", trees: TreeUse::Always, skip: Skip::Never },
    AccessPath { name: "page_index", trees: TreeUse::Never, skip: Skip::Levels },
    AccessPath { name: "flixr_s", trees: TreeUse::Never, skip: Skip::Each },
    AccessPath { name: "flixr_hs", trees: TreeUse::Minima, skip: Skip::Each },
];

impl AccessPath {
    /// The path that is taken where none is asked for.
    pub const AUTO: &'static Self = &PATHS[0];

    /// The path of this name, in any case.
    pub fn named(name: &str) -> Option<&'static Self> {
        PATHS.iter().find(|p| p.name.eq_ignore_ascii_case(name.trim()))
    }

    /// Whether it is the usual one.
    pub fn is_auto(&self) -> bool {
        self == Self::AUTO
    }

    /// Whether B+-trees are asked at all.
    pub fn asks_trees(&self) -> bool {
        matches!(self.trees, TreeUse::IfFew | TreeUse::Always)
    }

    /// The most of a table's pages that a B+-tree may name to be asked, where `few` of them are few; `None`: it is not asked.
    pub fn tree_pages_max(&self, few: u64) -> Option<u64> {
        match self.trees {
            TreeUse::IfFew => Some(few),
            TreeUse::Always => Some(u64::MAX),
            TreeUse::Never | TreeUse::Minima => None,
        }
    }
}

impl fmt::Display for AccessPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_names_of_their_own() {
        for p in &PATHS {
            assert_eq!(AccessPath::named(&p.name.to_uppercase()), Some(p));
        }
        assert_eq!(AccessPath::named(" auto"), Some(AccessPath::AUTO));
        assert_eq!(AccessPath::named("tree"), None);
    }
}
