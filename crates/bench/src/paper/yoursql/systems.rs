//! The systems that run join queries: MySQL as the paper has it, YourSQL by stages, and hosts that the paper does not have.

use lode_sql::{EarlyScores, JoinBy, Offload, Planner};

use super::orders;
use super::rig::{Pages, Plan, Rig, Took};
use crate::BenchError;
use crate::tpch::QUERIES;
use crate::tpch::queries::Query;

/// A query that the paper filters early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enabled {
    pub(super) number: usize,
    /// The table that is filtered early.
    pub(super) target: &'static str,
    /// The published speed-up, where the paper gives a number.
    pub(super) published: Option<f64>,
}

/// The queries that the paper filters early, in the order of their gain.
pub(super) const ENABLED: [Enabled; 8] = [
    Enabled { number: 14, target: "lineitem", published: Some(167.0) },
    Enabled { number: 2, target: "part", published: Some(44.0) },
    Enabled { number: 10, target: "orders", published: None },
    Enabled { number: 8, target: "part", published: None },
    Enabled { number: 9, target: "part", published: None },
    Enabled { number: 17, target: "part", published: None },
    Enabled { number: 12, target: "lineitem", published: None },
    Enabled { number: 5, target: "orders", published: None },
];

/// One way to run a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// Row pages of 16 KB, MariaDB's order, a look-up at a time; scans are read ahead.
    MySql,
    /// The same with the filtered table first.
    NewOrder,
    /// The same with an index on the filter's columns, and MariaDB's order for it.
    Icp,
    /// The same with the pages in the pool that a first run left there.
    IcpWarm,
    /// Row pages of 4 KB; the filtered table is first, and the matcher flags its pages.
    OptP,
    /// The same, and the filter looks at flagged pages.
    OptPs,
    /// The same, and flagged pages are read ahead in bulk: YourSQL.
    YourSql,
    /// Column pages, hash joins, the order by cost, the full bandwidth; the drive only reads.
    Strong,
    /// The same, and the drive filters where that pays.
    Lode,
    /// The tables and indexes of YourSQL, planned by cost: hash joins whose keys go through indexes where that pays.
    LodeRows,
}

impl System {
    pub(super) const ALL: [Self; 10] = [
        Self::MySql,
        Self::NewOrder,
        Self::Icp,
        Self::IcpWarm,
        Self::OptP,
        Self::OptPs,
        Self::YourSql,
        Self::Strong,
        Self::Lode,
        Self::LodeRows,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MySql => "MySQL",
            Self::NewOrder => "MySQL, new order",
            Self::Icp => "MySQL with ICP",
            Self::IcpWarm => "MySQL with ICP, warm",
            Self::OptP => "Opt-P",
            Self::OptPs => "Opt-PS",
            Self::YourSql => "YourSQL",
            Self::Strong => "strong host",
            Self::Lode => "Lode",
            Self::LodeRows => "Lode, YourSQL's tables",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::MySql => {
                "row pages of 16 KB, indexes on keys and foreign keys, a real MariaDB's order, one read at a time for a look-up; scans \
                 read ahead"
            }
            Self::NewOrder => "the same with the filtered table first: what the order alone gains",
            Self::Icp => {
                "the same with an index on the filter's columns, which nobody pays for, and MariaDB's order with it"
            }
            Self::IcpWarm => "the same, a second time: its pages are in the pool as far as they find room",
            Self::OptP => {
                "row pages of 4 KB, the filtered table first, pages flagged by the matcher, read one by one"
            }
            Self::OptPs => "the same, and the device's cores filter the flagged pages",
            Self::YourSql => "the same, and flagged pages are read in bulk ahead of the host (Opt-PSH)",
            Self::Strong => {
                "column pages, hash joins in the order that costs least, the full bandwidth of the link"
            }
            Self::LodeRows => {
                "the tables and indexes of YourSQL, planned by cost: hash joins, keys sent through indexes where few rows have them"
            }
            Self::Lode => {
                "column pages and hash joins, with the drive's page index, filters and aggregates where they pay"
            }
        }
    }

    fn plan(self, query: &Enabled) -> Plan {
        let nested = Plan {
            pages: Pages::MYSQL,
            level: Offload::Off,
            prefetch: true,
            join: JoinBy::Nested,
            planner: Planner::Cost,
            order: orders::of_query(query.number),
            early: "none".into(),
        };
        let early = Plan {
            pages: Pages::YOURSQL,
            planner: Planner::Yoursql,
            order: String::new(),
            early: query.target.into(),
            ..nested.clone()
        };
        let strong =
            Plan { pages: Pages::Columns, join: JoinBy::Hash, order: String::new(), ..nested.clone() };
        match self {
            Self::MySql => nested,
            Self::NewOrder => Plan { order: query.target.into(), ..nested },
            Self::Icp | Self::IcpWarm => {
                Plan { level: Offload::Index, order: orders::with_index(query.number).1, ..nested }
            }
            Self::OptP => Plan { level: Offload::Matches, prefetch: false, ..early },
            Self::OptPs => Plan { level: Offload::Hints, prefetch: false, ..early },
            Self::YourSql => Plan { level: Offload::Hints, ..early },
            Self::Strong => strong,
            Self::Lode => Plan { pages: Pages::Indexed, level: Offload::Auto, ..strong },
            Self::LodeRows => Plan { pages: Pages::YOURSQL, level: Offload::Auto, ..strong },
        }
    }

    /// Runs a query from an empty buffer pool.
    pub(super) fn run(self, rig: &mut Rig, query: &Enabled) -> Result<Took, BenchError> {
        let sql = rig.text(QUERIES.iter().find(|q| q.number == query.number).expect("a query of TPC-H"));
        self.run_sql(rig, query, &sql)
    }

    /// Runs a part of a query.
    pub(super) fn run_sql(self, rig: &mut Rig, query: &Enabled, sql: &str) -> Result<Took, BenchError> {
        let plan = self.plan(query);
        if !matches!(self, Self::Icp | Self::IcpWarm) {
            return rig.run_plan(sql, &plan, true);
        }
        rig.tables(plan.pages)?;
        let (on, _) = orders::with_index(query.number);
        // MariaDB takes the index whatever part of the pages it leads to.
        rig.define("SET lode.index_percent = 100", plan.pages)?;
        rig.define(&format!("CREATE INDEX filter_columns ON {on}"), plan.pages)?;
        let mut took = rig.run_plan(sql, &plan, true);
        if self == Self::IcpWarm && took.is_ok() {
            took = rig.run_plan(sql, &plan, false);
        }
        rig.define("DROP INDEX filter_columns", plan.pages)?;
        rig.define("RESET lode.index_percent", plan.pages)?;
        took
    }
}

/// What YourSQL's planner says of each table that a query filters, from EXPLAIN, with these scores of predicates.
pub(super) fn decided(rig: &mut Rig, query: &Query, scores: EarlyScores) -> Result<Vec<String>, BenchError> {
    let plan = Plan {
        pages: Pages::YOURSQL,
        level: Offload::Off,
        prefetch: true,
        join: JoinBy::Nested,
        planner: Planner::Yoursql,
        order: String::new(),
        early: "auto".into(),
    };
    let sql = rig.text(query);
    rig.define(&format!("SET lode.early_scores = '{scores}'"), Pages::YOURSQL)?;
    let lines = rig.explain(&sql, &plan);
    rig.define("RESET lode.early_scores", Pages::YOURSQL)?;
    let lines = lines?;
    let decision = |line: &String| {
        let at = line.find("early filter: ")?;
        let table = line.split("table=").nth(1)?.split(['_', ',']).next()?;
        let text = line[at..].split(", by ").next()?.split(", condition=").next()?;
        let is_not = line[..at].ends_with("no ");
        Some(format!("{table}{} {text}", if is_not { ", no" } else { "," }))
    };
    Ok(lines.iter().filter_map(decision).collect())
}
