//! The outcomes of transactions.

use crate::tpcc::rows::{D, O, W};

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An order was entered.
    Ordered {
        /// Its number.
        order: (W, D, O),
        /// Its total price, with taxes and discount.
        total: i64,
    },
    /// An order was rolled back because it names an item that does not exist.
    RolledBack,
    /// A payment was made. This is the customer's balance after it.
    Paid(i64),
    /// The number of lines of the customer's last order.
    Status(u8),
    /// The number of delivered orders, and of districts without an order to deliver.
    Delivered(u8, u8),
    /// The number of items that are low in stock.
    Low(u32),
}
