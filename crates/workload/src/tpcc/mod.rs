//! TPC-C: five transactions of a wholesaler's order entry. Source: TPC Benchmark C, revision 5.11.
//!
//! ```text
//!   load ─► run: terminals, each a deck of inputs ─► transactions ─► TpccStore: over trees (Lode, memory), or SQL
//!                                                     check: consistency conditions 1 to 12 over all rows
//! ```
//!
//! As in the standard: the mix by a deck of cards, NURand, 1 % of New-Orders rolled back, 1 % of items from another
//! warehouse, 15 % of payments for a customer of another warehouse. Different from the standard: there are no think
//! and keying times, terminals do not wait, and a delivery runs at once. So the figures must not be published as
//! tpmC.

mod check;
mod codec;
pub mod input;
mod kv;
mod load;
pub mod names;
pub mod rows;
mod run;
pub mod store;
mod transactions;

pub use check::{Violations, check};
pub use kv::{KvTerminal, KvTpcc, KvTxn};
pub use load::{Take, load, population};
pub use run::{Acknowledged, Plan, Report, TransactionKind, run};
pub use transactions::{Outcome, execute};

use rows::{C, D, I, W};

/// The sizes of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sizes {
    /// Warehouses.
    pub warehouses: W,
    /// Districts of a warehouse: by the standard 10, at least 1.
    pub districts: D,
    /// Customers of a district, and orders at the beginning: by the standard 3,000.
    pub customers: C,
    /// Items: by the standard 100,000.
    pub items: I,
}

impl Sizes {
    /// The standard's sizes with this many warehouses.
    pub const fn standard(warehouses: W) -> Self {
        Self { warehouses, districts: 10, customers: 3000, items: 100_000 }
    }

    /// The number of a district's orders that are delivered at the beginning: the first 70 %.
    pub const fn delivered(&self) -> C {
        (self.customers as u32 * 7 / 10) as C
    }
}

#[cfg(test)]
mod tests;
