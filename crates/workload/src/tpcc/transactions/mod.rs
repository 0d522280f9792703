//! The five transactions, each in a file of its own. Source: TPC-C 5.11, clauses 2.4 to 2.8.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use super::Sizes;
use super::input::{Input, Who};
use super::rows::{C, Customer, D, O, W};
use super::store::{Intent, Terminal, TpccTxn};
use crate::store::{StoreError, StoreResult};

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

/// Carries out one transaction, once.
///
/// # Errors
/// [`StoreError::Conflict`] when it is to be tried again, any other when the store fails.
pub fn execute<T: Terminal>(terminal: &mut T, input: &Input, sizes: &Sizes) -> StoreResult<Outcome> {
    let mut txn = terminal.begin(match input {
        Input::OrderStatus { .. } | Input::StockLevel { .. } => Intent::Read,
        _ => Intent::Write,
    })?;
    let outcome = match input {
        Input::NewOrder { w, d, c, date, items } => new_order::run(&mut txn, (*w, *d, *c), *date, items)?,
        Input::Payment { w, d, c_w, c_d, who, amount, date, terminal } => {
            payment::run(&mut txn, (*w, *d), (*c_w, *c_d, who), *amount, (*date, *terminal))?
        }
        Input::OrderStatus { w, d, who } => order_status::run(&mut txn, *w, *d, who)?,
        Input::Delivery { w, carrier, date } => {
            delivery::run(&mut txn, *w, sizes.districts, *carrier, *date)?
        }
        Input::StockLevel { w, d, threshold } => stock_level::run(&mut txn, *w, *d, *threshold)?,
    };
    if outcome != Outcome::RolledBack {
        txn.commit()?;
    }
    Ok(outcome)
}

/// The customer; of several of one name the one in the middle, rounded up.
fn customer(txn: &mut impl TpccTxn, w: W, d: D, who: &Who) -> StoreResult<Customer> {
    let c: C = match who {
        Who::Number(c) => *c,
        Who::Name(last) => {
            let all = txn.customers_named(w, d, last)?;
            *all.get(all.len().div_ceil(2).wrapping_sub(1))
                .ok_or(StoreError::Missing("a customer of the name"))?
        }
    };
    txn.customer(w, d, c)
}
