//! Access paths: how a scan finds the pages that may have rows which pass.
//!
//! ```text
//!   path           B+-trees                             page index in the drive
//!   auto           if they name few pages               by levels: 1,024 pages, 32 pages, one page
//!   none           never                                never: each page is read
//!   btree          wherever one fits                    never
//!   tree_rows      likewise, with an entry a row        never
//!   tree_pages     likewise, with an entry a page       never
//!   tree_in_drive  as tree_rows, by the drive's cores   never
//!   clustered      inner nodes: minima of pages         never
//!   page_index     never                                by levels
//!   flixr_s        never                                one decision a page, as in the paper
//!   flixr_hs       minima of pages, in the host         one decision on each of their pages
//! ```
//!
//! Rows are the same by each path: a path decides which pages are read, and the filter which rows come out.
//! A path is one entry of [`PATHS`].
//! Source: FLIXR §4.1 and §5 (host-side index, in-SSD B+-tree, FLIXR-S, FLIXR-HS). In a table in order of a column, the pages that a clustered tree
//! of it reads are those that minima name.

use std::fmt;

use lode_command::Skip;

use crate::TreePlace;
use crate::tables::EntryOf;

/// A way to find the pages of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPath {
    /// Its name, which `SET lode.index` takes.
    pub name: &'static str,
    /// When B+-tree indexes are asked.
    pub trees: TreeUse,
    /// What the entries of those name that are asked; `None`: either.
    pub entries: Option<EntryOf>,
    /// Where they are searched, on a modelled device.
    pub place: TreePlace,
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
pub static PATHS: [AccessPath; 10] = [
    path("auto", TreeUse::IfFew, Skip::Levels),
    path("none", TreeUse::Never, Skip::Never),
    path("btree", TreeUse::Always, Skip::Never),
    AccessPath { entries: Some(EntryOf::Rows), ..path("tree_rows", TreeUse::Always, Skip::Never) },
    AccessPath { entries: Some(EntryOf::Pages), ..path("tree_pages", TreeUse::Always, Skip::Never) },
    AccessPath {
        entries: Some(EntryOf::Rows),
        place: TreePlace::Device,
        ..path("tree_in_drive", TreeUse::Always, Skip::Never)
    },
    path("clustered", TreeUse::Minima, Skip::Never),
    path("page_index", TreeUse::Never, Skip::Levels),
    path("flixr_s", TreeUse::Never, Skip::Each),
    path("flixr_hs", TreeUse::Minima, Skip::Each),
];

const fn path(name: &'static str, trees: TreeUse, skip: Skip) -> AccessPath {
    AccessPath { name, trees, entries: None, place: TreePlace::Host, skip }
}

impl AccessPath {
    /// The path that is taken where none is asked for.
    pub const AUTO: &'static Self = &PATHS[0];

    /// The path of this name, in any case.
    pub fn named(name: &str) -> Option<&'static Self> {
        PATHS.iter().find(|p| p.name.eq_ignore_ascii_case(name.trim()))
    }

    /// The names of all, for a message.
    pub fn names() -> String {
        let (last, others) = PATHS.split_last().expect("there are paths");
        let others: Vec<&str> = others.iter().map(|p| p.name).collect();
        format!("{} or {last}", others.join(", "))
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
