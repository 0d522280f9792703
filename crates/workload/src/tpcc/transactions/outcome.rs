//! What a transaction came to.

use crate::tpcc::rows::{D, O, W};

/// What a transaction came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An order was entered.
    Ordered {
        /// Its number.
        order: (W, D, O),
        /// What it costs, taxes and discount included.
        total: i64,
    },
    /// An order named an item that does not exist: nothing was entered.
    RolledBack,
    /// A payment was made; the customer's balance after it.
    Paid(i64),
    /// The lines of the customer's last order.
    Status(u8),
    /// Orders delivered, and districts that had none to deliver.
    Delivered(u8, u8),
    /// Items that are low in stock.
    Low(u32),
}
