//! Offload levels: how deep into the drive a scan reaches.
//!
//! ```text
//!   off    the host reads pages through its buffer pool and filters
//!   index  the drive names the pages that can match; the host reads those and filters
//!   matches  likewise, and the drive looks for keys of the filter in the pages; it answers a byte a page
//!   hints  likewise, and the drive filters up to the first row that passes
//!   pages  the drive sends the needed columns of pages with a match; the host filters
//!   rows   the drive sends the rows that pass
//!   aggregate  the drive sends groups of the rows that pass, where a query asks for no more; else rows
//!   auto   chosen for each scan, when it starts
//! ```
//!
//! A level names the mechanisms of the drive that its scans may use ([`Offload::members`]):
//!
//! ```text
//!             page index   matcher   filter                        aggregate
//!   off
//!   index         x
//!   matches       x           x
//!   hints         x           x      x, up to the first row
//!   pages         x           x      x, answers whole pages
//!   rows          x           x      x
//!   aggregate     x           x      x                                 x
//!   auto          x           x      x                                 x        as few as a scan gains by
//! ```
//!
//! Invariant: the level never changes an answer, only where the work is done.

use std::fmt;
use std::str::FromStr;

use lode_command::Answer;
use lode_program::answer::Member;

/// The deepest level that scans of a session may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Offload {
    /// The host reads through its buffer pool and filters.
    Off,
    /// The drive's page index names the pages worth reading.
    Index,
    /// The drive flags pages in which the keys of the filter are found.
    Matches,
    /// The drive flags pages with at least one match.
    Hints,
    /// The drive sends the columns of pages with at least one match.
    Pages,
    /// The drive filters and projects.
    Rows,
    /// The drive filters and aggregates if the query does; else it filters and projects.
    Aggregate,
    /// Chosen for each scan by [`Offload::choose`].
    #[default]
    Auto,
}

/// What is known when a scan starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanView {
    /// Whether the drive has a filter to evaluate.
    pub filtered: bool,
    /// Whether a run-time filter has arrived.
    pub narrowed: bool,
    /// The part of the rows that is expected to pass the filter, 0 to 1.
    pub selectivity: f64,
    /// Whether the plan takes groups instead of rows.
    pub grouped: bool,
    /// On a modelled device: whether the drive filters in less time than the host.
    pub rows_pay: Option<bool>,
}

/// How one scan is done. Whatever the choice, only rows that pass the exact filter come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Read through the pool, all pages.
    Pool,
    /// Read through the pool, only the pages that the index does not exclude.
    PoolIndexed,
    /// Read through the pool, only the pages that the drive flags.
    PoolHinted {
        /// Whether the drive's filter looks at pages, too.
        filter: bool,
    },
    /// The drive answers pages.
    Pages,
    /// The drive answers rows.
    Rows,
    /// The drive answers groups.
    Groups,
}

impl Offload {
    /// All levels, shallowest first.
    pub const ALL: [Offload; 8] = [
        Self::Off,
        Self::Index,
        Self::Matches,
        Self::Hints,
        Self::Pages,
        Self::Rows,
        Self::Aggregate,
        Self::Auto,
    ];

    /// Without a modelled device: if a larger share of the rows passes, the drive saves too little, and `auto` uses the pool, which
    /// keeps what it has read.
    const SELECTIVITY_MAX: f64 = 0.8;

    /// How to do one scan. `auto` uses the drive if there is a filter that excludes enough rows; on a modelled device if that takes less
    /// time. Otherwise it reads through the pool, where a page that is read again costs no transfer.
    pub fn choose(self, scan: ScanView) -> Choice {
        match self {
            _ if scan.grouped => Choice::Groups,
            Self::Off => Choice::Pool,
            Self::Index => Choice::PoolIndexed,
            Self::Matches => Choice::PoolHinted { filter: false },
            Self::Hints => Choice::PoolHinted { filter: true },
            Self::Pages => Choice::Pages,
            Self::Rows | Self::Aggregate => Choice::Rows,
            Self::Auto if !scan.filtered && !scan.narrowed => Choice::Pool,
            Self::Auto => {
                let keeps_back = scan.narrowed || scan.selectivity <= Self::SELECTIVITY_MAX;
                if scan.rows_pay.unwrap_or(keeps_back) { Choice::Rows } else { Choice::PoolIndexed }
            }
        }
    }

    /// The mechanisms of the drive that scans may use, in the order in which a page meets them.
    pub const fn members(self) -> &'static [Member] {
        match self {
            Self::Off => Answer::Mapped.members(),
            Self::Index => Answer::Index.members(),
            Self::Matches => Answer::Hints { filter: false }.members(),
            Self::Hints => Answer::Hints { filter: true }.members(),
            Self::Pages => Answer::Pages.members(),
            Self::Rows => Answer::Rows.members(),
            Self::Aggregate | Self::Auto => Answer::Aggregate.members(),
        }
    }

    /// Whether filters that the drive can evaluate leave the plan: the scan then answers exactly the rows that pass.
    pub fn filters_exactly(self) -> bool {
        matches!(self, Self::Rows | Self::Aggregate | Self::Auto)
    }

    /// Whether a plan may take groups from a scan in the place of rows.
    pub fn aggregates(self) -> bool {
        self.members().contains(&Member::Aggregate)
    }
}

impl Choice {
    /// What a task asks the drive for.
    pub const fn answer(self) -> Answer {
        match self {
            Self::Pool => Answer::Mapped,
            Self::PoolIndexed => Answer::Index,
            Self::PoolHinted { filter } => Answer::Hints { filter },
            Self::Pages => Answer::Pages,
            Self::Rows => Answer::Rows,
            Self::Groups => Answer::Aggregate,
        }
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Index => "index",
            Self::Matches => "matches",
            Self::Hints => "hints",
            Self::Pages => "pages",
            Self::Rows => "rows",
            Self::Aggregate => "aggregate",
            Self::Auto => "auto",
        })
    }
}

/// A word that is no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offload level '{0}' is not one of off, index, matches, hints, pages, rows, aggregate, auto")]
pub struct UnknownOffload(pub String);

impl FromStr for Offload {
    type Err = UnknownOffload;
    fn from_str(s: &str) -> Result<Self, UnknownOffload> {
        let known = Self::ALL.into_iter().find(|o| o.to_string().eq_ignore_ascii_case(s.trim()));
        known.ok_or_else(|| UnknownOffload(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for o in Offload::ALL {
            assert_eq!(o.to_string().to_uppercase().parse(), Ok(o));
        }
        let e = "deep".parse::<Offload>().unwrap_err();
        assert_eq!(
            e.to_string(),
            "offload level 'deep' is not one of off, index, matches, hints, pages, rows, aggregate, auto"
        );
    }

    #[test]
    fn no_scan_uses_a_mechanism_that_its_level_does_not_name() {
        for o in Offload::ALL {
            for (filtered, narrowed) in [(false, false), (true, false), (false, true), (true, true)] {
                for (selectivity, rows_pay) in
                    [(0.01, None), (1.0, None), (0.01, Some(false)), (1.0, Some(true))]
                {
                    for grouped in [false, o.aggregates()] {
                        let scan = ScanView { filtered, narrowed, selectivity, grouped, rows_pay };
                        let asked = o.choose(scan).answer();
                        assert!(asked.members().iter().all(|m| o.members().contains(m)), "{o}: {asked:?}");
                    }
                }
            }
        }
        assert_eq!(Offload::Off.members(), []);
        assert_eq!(Offload::Matches.members(), [Member::PageIndex, Member::Matcher]);
        assert_eq!(Offload::Rows.members(), [Member::PageIndex, Member::Matcher, Member::Filter]);
    }

    #[test]
    fn auto_lets_the_drive_work_where_it_keeps_rows_back() {
        let check = |filtered, narrowed, selectivity, rows_pay, expected| {
            let scan = ScanView { filtered, narrowed, selectivity, grouped: false, rows_pay };
            assert_eq!(Offload::Auto.choose(scan), expected, "{scan:?}");
        };
        check(true, false, 0.02, None, Choice::Rows);
        check(true, false, 0.98, None, Choice::PoolIndexed);
        check(false, false, 1.0, None, Choice::Pool);
        check(false, true, 1.0, None, Choice::Rows);
        check(true, false, 0.02, Some(false), Choice::PoolIndexed);
        check(true, true, 0.98, Some(true), Choice::Rows);
        check(false, false, 1.0, Some(true), Choice::Pool);
    }
}
