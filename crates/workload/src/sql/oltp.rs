//! Which workloads of short transactions run, in which order, so that several databases can take turns.
//!
//! ```text
//!   Options ─► groups: tables that are loaded once ─► steps on them ─► a row of measurements each ─► checks, drop
//!              statements: (indexes, connections, style)    a kind
//!              TPC-B, TPC-C: (scale)                        (connections, style)
//! ```

use serde::Serialize;

use super::statements::{self, Bench, Kind};
use super::tpcc::{Schema, SqlTpcc, check};
use super::{SqlDatabase, Style, tpcb, tpcc};
use crate::harness::{Measured, Probes, RunError, Schedule};
use crate::store::{StoreError, StoreResult};
use crate::tpcc::rows::W;
use crate::tpcc::{self as order_entry, TransactionKind};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Single statements by key.
    Statements,
    /// TPC-B.
    Tpcb,
    /// TPC-C.
    Tpcc,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Statements, Self::Tpcb, Self::Tpcc];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Statements => "statements",
            Self::Tpcb => "tpcb",
            Self::Tpcc => "tpcc",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Numbers of connections.
    pub connections: Vec<u16>,
    /// Scales: branches of TPC-B, warehouses of TPC-C.
    pub scales: Vec<W>,
    /// Numbers of secondary indexes of the statements' table.
    pub indexes: Vec<u8>,
    /// Rows of the statements' table.
    pub rows: u32,
    /// Accounts of a branch.
    pub accounts: u32,
    /// The sizes of TPC-C, but for its warehouses.
    pub sizes: order_entry::Sizes,
    /// What TPC-C's tables are.
    pub schema: Schema,
    /// The times of each step.
    pub schedule: Schedule,
    /// The seed of data and requests.
    pub seed: u64,
    /// The date of loaded rows, in microseconds since 1970.
    pub date: i64,
}

/// Tables that are loaded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Statements { indexes: u8, connections: u16, style: Style },
    Tpcb { branches: u32 },
    Tpcc { warehouses: W },
}

/// The groups of some options, in order.
pub struct Groups<'a> {
    options: &'a Options,
    groups: Vec<Group>,
}

/// A part of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Statements of a kind.
    Kind(Kind),
    /// A run with this many connections.
    Run {
        /// The connections.
        connections: u16,
        /// How statements are executed.
        style: Style,
        /// The number of the run on the same rows.
        run: u64,
    },
}

/// The measurements of a step.
#[derive(Clone, Debug, Serialize)]
pub struct OltpRow {
    /// The workload.
    pub workload: Workload,
    /// The kind of statements, or the kind of transaction.
    pub what: &'static str,
    /// Branches, or warehouses.
    pub scale: Option<u32>,
    /// Secondary indexes of the statements' table.
    pub indexes: Option<u8>,
    /// Connections.
    pub connections: u16,
    /// How statements were executed.
    pub style: Style,
    /// The names of the kinds whose latencies are told, in their order.
    pub kinds: Vec<&'static str>,
    /// New-Orders per minute.
    pub new_orders_a_minute: Option<f64>,
    /// New-Orders that were rolled back because their input requires it.
    pub rolled_back: Option<u64>,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
}

impl<'a> Groups<'a> {
    /// The groups of these options. Statements are executed as text only without secondary indexes, and TPC-C's only as
    /// prepared ones.
    pub fn new(options: &'a Options) -> Self {
        let mut groups = Vec::new();
        for workload in &options.workloads {
            match workload {
                Workload::Statements => {
                    for indexes in options.indexes.iter().copied() {
                        for connections in options.connections.iter().copied() {
                            for style in [Style::Prepared, Style::Text] {
                                if style == Style::Prepared || indexes == 0 {
                                    groups.push(Group::Statements { indexes, connections, style });
                                }
                            }
                        }
                    }
                }
                Workload::Tpcb => {
                    groups.extend(options.scales.iter().map(|s| Group::Tpcb { branches: (*s).into() }));
                }
                Workload::Tpcc => {
                    groups.extend(options.scales.iter().map(|s| Group::Tpcc { warehouses: *s }));
                }
            }
        }
        Self { options, groups }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// What the group with this number is, for people.
    pub fn name(&self, group: usize) -> String {
        match self.groups[group] {
            Group::Statements { indexes, connections, style } => {
                format!("statements, {indexes} indexes, {connections} connections, {}", style.name())
            }
            Group::Tpcb { branches } => format!("TPC-B, {branches} branches"),
            Group::Tpcc { warehouses } => format!("TPC-C, {warehouses} warehouses"),
        }
    }

    /// The steps of the group with this number.
    pub fn steps(&self, group: usize) -> Vec<Step> {
        let all = self.options.connections.iter().copied();
        let run = |style| {
            move |(run, connections): (u64, u16)| Step::Run {
                connections,
                style,
                run: run << 1 | style as u64,
            }
        };
        match self.groups[group] {
            Group::Statements { .. } => Kind::ALL.map(Step::Kind).to_vec(),
            Group::Tpcb { .. } => {
                let prepared = (0..).zip(all.clone()).map(run(Style::Prepared));
                prepared.chain((0..).zip(all).map(run(Style::Text))).collect()
            }
            Group::Tpcc { .. } => (0..).zip(all).map(run(Style::Prepared)).collect(),
        }
    }

    /// Loads the tables of the group with this number.
    ///
    /// # Errors
    /// When the database fails, or if there are such tables.
    pub fn load(&self, group: usize, database: &impl SqlDatabase) -> StoreResult<Loaded<'a>> {
        let options = self.options;
        let group = self.groups[group];
        let bench = match group {
            Group::Statements { indexes, connections, style } => {
                let plan = statements::Plan {
                    rows: options.rows,
                    indexes,
                    connections,
                    style,
                    schedule: options.schedule,
                    seed: options.seed,
                };
                Some(Bench::load(database, plan)?)
            }
            Group::Tpcb { branches } => {
                tpcb::load(database, &options.branches(branches))?;
                None
            }
            Group::Tpcc { warehouses } => {
                let sizes = options.warehouses(warehouses);
                tpcc::load(database, options.schema, &sizes, options.seed, options.date)?;
                None
            }
        };
        Ok(Loaded { options, group, bench })
    }
}

impl Options {
    fn branches(&self, branches: u32) -> tpcb::Sizes {
        tpcb::Sizes { branches, accounts: self.accounts }
    }

    fn warehouses(&self, warehouses: W) -> order_entry::Sizes {
        order_entry::Sizes { warehouses, ..self.sizes }
    }
}

/// The loaded tables of a group in a database.
pub struct Loaded<'a> {
    options: &'a Options,
    group: Group,
    bench: Option<Bench>,
}

impl Loaded<'_> {
    /// Runs a step, and checks the sums or conditions that must hold after it.
    ///
    /// # Errors
    /// When the database fails or its rows are not what they must be, or [`RunError::Stopped`].
    pub fn run(
        &self,
        database: &impl SqlDatabase,
        step: Step,
        probes: &Probes<'_>,
    ) -> Result<OltpRow, RunError> {
        match (self.group, step) {
            (Group::Statements { indexes, connections, style }, Step::Kind(kind)) => {
                let bench = self.bench.as_ref().expect("a group of statements has their table");
                let measured = bench.run(database, kind, probes)?;
                let row = OltpRow {
                    indexes: Some(indexes),
                    ..OltpRow::new(Workload::Statements, kind.name(), measured)
                };
                Ok(OltpRow { connections, style, ..row })
            }
            (Group::Tpcb { branches }, Step::Run { connections, style, run }) => {
                let plan = tpcb::Plan {
                    sizes: self.options.branches(branches),
                    connections,
                    style,
                    schedule: self.options.schedule,
                    seed: self.options.seed ^ run << 8,
                };
                let measured = tpcb::run(database, &plan, probes)?;
                if !tpcb::sums(database)?.agree() {
                    return Err(StoreError::Damaged("the sums of TPC-B differ").into());
                }
                let row = OltpRow {
                    scale: Some(branches),
                    ..OltpRow::new(Workload::Tpcb, "transaction", measured)
                };
                Ok(OltpRow { connections, style, ..row })
            }
            (Group::Tpcc { warehouses }, Step::Run { connections, style, run }) => {
                let plan = order_entry::Plan {
                    sizes: self.options.warehouses(warehouses),
                    terminals: connections,
                    schedule: self.options.schedule,
                    seed: self.options.seed,
                    run,
                    queue_at_hot_rows: false,
                    arrivals_a_second: None,
                };
                let store = SqlTpcc::new(database, style);
                let report = order_entry::run(&store, &plan, probes, &|_| {})?;
                let found = check(&mut *database.connect()?, &plan.sizes)?;
                if let Some(first) = found.told.first() {
                    let text = format!("TPC-C is not consistent: {first}, and {} more", found.count - 1);
                    return Err(StoreError::failed(std::io::Error::other(text)).into());
                }
                let row = OltpRow::new(Workload::Tpcc, "transaction", report.measured);
                Ok(OltpRow {
                    scale: Some(warehouses.into()),
                    connections,
                    style,
                    kinds: TransactionKind::ALL.map(TransactionKind::name).to_vec(),
                    new_orders_a_minute: Some(report.new_orders_a_minute),
                    rolled_back: Some(report.rolled_back),
                    ..row
                })
            }
            (group, step) => unreachable!("{step:?} is no step of {group:?}"),
        }
    }

    /// Drops the tables.
    ///
    /// # Errors
    /// When the database fails.
    pub fn end(self, database: &impl SqlDatabase) -> StoreResult {
        match (self.group, self.bench) {
            (_, Some(bench)) => bench.end(database),
            (Group::Tpcb { .. }, _) => tpcb::drop_all(database),
            (_, None) => tpcc::drop_all(&mut *database.connect()?),
        }
    }
}

impl OltpRow {
    fn new(workload: Workload, what: &'static str, measured: Measured) -> Self {
        Self {
            workload,
            what,
            scale: None,
            indexes: None,
            connections: 1,
            style: Style::Prepared,
            kinds: vec![what],
            new_orders_a_minute: None,
            rolled_back: None,
            measured,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn groups_and_steps_are_those_of_the_options() {
        let schedule = Schedule {
            warm_up: Duration::ZERO,
            length: Duration::from_secs(1),
            interval: Duration::from_secs(1),
        };
        let options = Options {
            workloads: Workload::ALL.to_vec(),
            connections: vec![1, 8],
            scales: vec![1, 8],
            indexes: vec![0, 4],
            rows: 100,
            accounts: 100,
            sizes: order_entry::Sizes::standard(1),
            schema: Schema::default(),
            schedule,
            seed: 1,
            date: 0,
        };
        let groups = Groups::new(&options);
        let names: Vec<String> = (0..groups.count()).map(|g| groups.name(g)).collect();
        let expected = [
            "statements, 0 indexes, 1 connections, prepared",
            "statements, 0 indexes, 1 connections, text",
            "statements, 0 indexes, 8 connections, prepared",
            "statements, 0 indexes, 8 connections, text",
            "statements, 4 indexes, 1 connections, prepared",
            "statements, 4 indexes, 8 connections, prepared",
            "TPC-B, 1 branches",
            "TPC-B, 8 branches",
            "TPC-C, 1 warehouses",
            "TPC-C, 8 warehouses",
        ];
        assert_eq!(names, expected);
        assert_eq!([0, 6, 8].map(|g| groups.steps(g).len()), [6, 4, 2]);
    }
}
