//! Whether a history of transactions could have come from snapshot isolation, or from a serial order.
//!
//! ```text
//!   History ─► values ─► versions ─► dependencies ─► cycles ─► Report { forbidden, permitted }
//!              own writes,  lists,     ww wr rw,       Adya's
//!              final ones   registers  orders known    anomalies
//! ```
//!
//! A value is written to an object at most once, so that a reader tells whose version it saw. Lists are appended to, so
//! that one read tells the order of all versions before it. Registers are overwritten: the order of their versions is
//! known from commit numbers, or in part from who read before writing.
//!
//! What is known beside the operations is used, and nothing is supposed that is not said: the order of each session, when
//! calls began and returned (real time), the commit number of a snapshot and of a commit. A transaction whose end is
//! unknown, as after a crash, counts as committed once another one read what it wrote. What a transaction read that
//! aborted is held to the same rules, unless `aborted_reads` is off.
//!
//! Nothing here knows a database, a clock or a thread.
//! Source: Adya, "Weak Consistency" (1999), for the anomalies; Kingsbury and Alvaro, "Elle" (VLDB 2020), for finding
//! them; Cerone and Gotsman (JACM 2018): snapshot isolation is that every cycle has two anti-dependencies in a row.

mod anomaly;
mod cycles;
mod graph;
mod lists;
mod model;
mod registers;
mod values;
mod versions;

pub use anomaly::{Anomaly, AnomalyKind, Report};
pub use model::{History, Level, Object, Op, Options, Outcome, Transaction, TxnIndex};

use graph::Graph;
use values::Values;
use versions::Inferred;

impl History {
    /// What is wrong with this history; nothing if it could be one of the level asked for.
    ///
    /// # Panics
    /// Panics if two operations write the same value to the same object: then nothing can be told.
    pub fn check(&self, options: &Options) -> Report {
        let mut report = Report::default();
        let values = Values::of(self, &mut report);
        let mut inferred = Inferred::new(self, options, &values);
        lists::infer(&mut inferred, &mut report);
        registers::infer(&mut inferred, &mut report);
        let Inferred { edges, .. } = inferred;
        let graph = Graph::new(self, options, &values, edges);
        cycles::find(self, options, &graph, &mut report);
        report.sort();
        report
    }
}
