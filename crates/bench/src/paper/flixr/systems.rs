//! The configurations that the figures compare.

use lode_sql::Offload;

use crate::paper::row::{Method, Row, X};

/// A configuration.
#[derive(Debug)]
pub(super) struct System {
    pub(super) name: &'static str,
    /// Its access path.
    pub(super) path: &'static str,
    pub(super) level: Offload,
    /// How many nodes of trees are in memory, in percent; `None`: as the run says.
    pub(super) nodes_percent: Option<u64>,
    /// Whether it is one of those beside which FLIXR stands: without a page index in the drive.
    pub(super) is_rival: bool,
    pub(super) note: &'static str,
}

const fn system(name: &'static str, path: &'static str, note: &'static str) -> System {
    System { name, path, level: Offload::Index, nodes_percent: None, is_rival: false, note }
}

impl System {
    pub(super) fn searches_trees(&self) -> bool {
        self.path.starts_with("tree_")
    }

    /// Whether a first statement is not measured: the host learns the minima then, or the drive makes the unions.
    pub(super) fn learns(&self) -> bool {
        [FLIXR_HS.path, CLUSTERED.path, LEVELS.path].contains(&self.path)
    }
}

/// The tree with which the paper compares all.
pub(super) const HOST_TREE: &str = "tree of rows";

pub(super) const NO_INDEX: System =
    System { level: Offload::Off, is_rival: true, ..system("no index", "none", "all pages to the host") };
pub(super) const TREE_OF_ROWS: System = System {
    is_rival: true,
    ..system(HOST_TREE, "tree_rows", "the paper's host-side index: a part of its nodes is in memory")
};
pub(super) const IDEAL_TREE: System = System {
    nodes_percent: Some(100),
    is_rival: true,
    ..system("ideal tree of rows", "tree_rows", "all its nodes are in memory")
};
pub(super) const TREE_IN_DRIVE: System = System {
    is_rival: true,
    ..system(
        "tree in the drive",
        "tree_in_drive",
        "the same tree, searched by the drive's cores; as many nodes are in the drive's memory",
    )
};
pub(super) const TREE_OF_PAGES: System = System {
    is_rival: true,
    ..system("tree by page", "tree_pages", "ours: an entry for each page and value")
};
pub(super) const CLUSTERED: System = System {
    is_rival: true,
    ..system(
        "clustered tree",
        "clustered",
        "rows in leaves: its inner nodes, in memory, are the minima of pages",
    )
};
pub(super) const FLIXR_S: System = system("FLIXR-S", "flixr_s", "one decision a page, in the drive");
pub(super) const FLIXR_HS: System =
    system("FLIXR-HS", "flixr_hs", "minima of pages in the host, entries in the drive");
pub(super) const LEVELS: System =
    system("levels", "page_index", "ours: unions of entries for 1,024 and for 32 pages come first");
pub(super) const LEVELS_ROWS: System = System {
    level: Offload::Rows,
    ..system(
        "levels, rows from the drive",
        "page_index",
        "ours: the drive filters, too, and sends the rows that pass",
    )
};

/// All, the paper's host-side index first.
pub(super) const SYSTEMS: [&System; 10] = [
    &TREE_OF_ROWS,
    &IDEAL_TREE,
    &NO_INDEX,
    &TREE_IN_DRIVE,
    &FLIXR_S,
    &FLIXR_HS,
    &TREE_OF_PAGES,
    &CLUSTERED,
    &LEVELS,
    &LEVELS_ROWS,
];

/// The fastest rival of a workload. An optimizer would choose it.
#[derive(Clone, Copy)]
pub(super) struct Strongest {
    name: &'static str,
    ms: f64,
}

impl Strongest {
    /// Among systems and their times in milliseconds.
    pub(super) fn of<'a>(times: impl Iterator<Item = (&'a System, f64)>) -> Self {
        let rivals = times.filter(|(system, _)| system.is_rival);
        let (system, ms) = rivals.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are rivals");
        Self { name: system.name, ms }
    }

    /// How a system that is no rival stands beside it.
    pub(super) fn beside(self, system: &System, x: &str, ms: f64) -> Option<Row> {
        let metric = "rate beside the strongest without FLIXR";
        let note = format!("which is: {}", self.name);
        let x = X::Name(x.into());
        let row = || Row::new(Method::Executed, system.name, x, metric, "x", self.ms / ms, &note);
        (!system.is_rival).then(row)
    }
}
