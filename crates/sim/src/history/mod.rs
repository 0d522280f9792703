//! Checks whether a history of transactions is possible under snapshot isolation, or in a serial order.
//!
//! ```text
//!   History ─► values ─► versions ─► dependencies ─► cycles ─► Report { forbidden, permitted }
//!              own writes,  lists,     ww wr rw,       Adya's
//!              final ones   registers  orders known    anomalies
//! ```
//!
//! A value is written to an object at most once, so the value of a read tells which transaction wrote the version that
//! it saw. Lists are appended to, so one read tells the order of all versions before it. Registers are overwritten. The
//! order of their versions is known from commit numbers, or partly from transactions that read before they wrote.
//!
//! Apart from the operations, the check uses only given facts: the order of each session, the real times at which
//! calls began and returned, and the commit numbers of snapshots and commits. A transaction with an unknown end, for
//! example because of a crash, counts as committed once another transaction has read its writes. The reads of aborted
//! transactions must follow the same rules, unless `aborted_reads` is off.
//!
//! This module uses no database, clock or thread. Source: Adya, "Weak Consistency" (1999), for the anomalies;
//! Kingsbury and Alvaro, "Elle" (VLDB 2020), for finding them; Cerone and Gotsman (JACM 2018): a history is one of
//! snapshot isolation if every cycle has two adjacent anti-dependencies.

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
    /// Finds the anomalies of this history. The report is clean if the history is possible at the chosen level.
    ///
    /// # Panics
    /// Panics if two operations write the same value to the same object, because then reads are ambiguous.
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
