//! The five transactions, each in its own file. Source: TPC-C 5.11, clauses 2.4 to 2.8.

mod customer;
mod delivery;
mod new_order;
mod order_status;
mod outcome;
mod payment;
mod stock_level;

use super::Sizes;
use super::input::Input;
use super::store::{Intent, Terminal, TpccTxn};
use crate::store::StoreResult;
pub use outcome::Outcome;

/// Executes a transaction once.
///
/// # Errors
/// [`StoreError::Conflict`] if it must be tried again, another error if the store fails.
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
