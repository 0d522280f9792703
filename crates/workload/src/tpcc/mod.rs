//! TPC-C: five transactions of a wholesaler's order entry. Source: TPC Benchmark C, revision 5.11.
//!
//! ```text
//!   load ─► run: terminals, each a deck of inputs ─► transactions ─► TpccStore: over trees (Lode, memory), or SQL
//!                                                     check: consistency conditions 1 to 12 over all rows
//! ```
//!
//! As the standard says: the mix by a deck of cards, NURand, one of a hundred New-Orders rolled back, one of a hundred
//! items from another warehouse, 15 of a hundred payments for a customer of another one. Not as it says: there are no
//! think and keying times and no terminals that wait, a delivery is carried out at once, and figures are no tpmC that may
//! be published as such.

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
pub use load::load;
pub use run::{Acknowledged, Kind, Plan, Report, run};
pub use transactions::{Outcome, execute};

use rows::{C, D, I, W};

/// How much there is of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sizes {
    /// Warehouses.
    pub warehouses: W,
    /// Districts of a warehouse: 10, at least 1.
    pub districts: D,
    /// Customers of a district, and orders at the beginning: 3,000.
    pub customers: C,
    /// Items: 100,000.
    pub items: I,
}

impl Sizes {
    /// The standard's, with so many warehouses.
    pub const fn standard(warehouses: W) -> Self {
        Self { warehouses, districts: 10, customers: 3000, items: 100_000 }
    }

    /// Orders of a district that are delivered at the beginning: the first seven of ten.
    pub const fn delivered(&self) -> C {
        (self.customers as u32 * 7 / 10) as C
    }
}

#[cfg(test)]
mod tests;
