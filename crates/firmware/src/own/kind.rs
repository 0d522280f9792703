//! The kinds of own pages: pages of the drive's own metadata.
//!
//! ```text
//!   checkpoint record ─► root ─► pieces of seven tables ─┬─► homes of mapping pages ─► mapping pages
//!                                                        └─► homes of index pages ─► index pages
//! ```

use std::fmt;

/// Entries in one piece of a table of homes, or of the table of owners.
pub(crate) const TABLE_PIECE_ENTRIES: usize = 1024;

/// Own pages of extents are numbered by extent. Those of parts of extents, which only index pages have, are numbered from here on: 32
/// to an extent.
pub(crate) const PARTS_FROM: u64 = 1 << 47;
/// Parts of an extent.
pub(crate) const EXTENT_PARTS: u64 = 32;
/// The first piece of a table of homes that is of parts.
pub(crate) const PART_PIECES_FROM: usize = PARTS_FROM as usize / TABLE_PIECE_ENTRIES;

/// What an own page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OwnKind {
    Map,
    Index,
    MapHomes,
    IndexHomes,
    Owners,
    Rules,
    Summary,
    /// EBLOCK metadata that is not programmed yet.
    Open,
    Sessions,
    Root,
}

impl OwnKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 10] = [
        Self::Map,
        Self::Index,
        Self::MapHomes,
        Self::IndexHomes,
        Self::Owners,
        Self::Rules,
        Self::Summary,
        Self::Open,
        Self::Sessions,
        Self::Root,
    ];

    pub(crate) fn tag(self) -> u8 {
        self as u8 + 1
    }

    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.tag() == tag)
    }
}

impl fmt::Display for OwnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Map => "mapping page",
            Self::Index => "index page",
            Self::MapHomes => "piece of the table of mapping pages",
            Self::IndexHomes => "piece of the table of index pages",
            Self::Owners => "piece of the table of extent owners",
            Self::Rules => "piece of the index rules",
            Self::Summary => "piece of the EBLOCK summary",
            Self::Open => "piece of the metadata of open EBLOCKs",
            Self::Sessions => "piece of the session table",
            Self::Root => "checkpoint root",
        })
    }
}

/// The tables, in the order in which the root names them. The summary is written last.
pub(crate) const TABLES: [OwnKind; 7] = [
    OwnKind::MapHomes,
    OwnKind::IndexHomes,
    OwnKind::Owners,
    OwnKind::Rules,
    OwnKind::Open,
    OwnKind::Sessions,
    OwnKind::Summary,
];
