//! Order-Status. Source: clause 2.6.2.

use super::customer::customer;
use super::outcome::Outcome;
use crate::store::{StoreError, StoreResult};
use crate::tpcc::input::Who;
use crate::tpcc::rows::{D, W};
use crate::tpcc::store::TpccTxn;

pub(super) fn run(txn: &mut impl TpccTxn, w: W, d: D, who: &Who) -> StoreResult<Outcome> {
    let customer = customer(txn, w, d, who)?;
    let order = txn.last_order(w, d, customer.c)?.ok_or(StoreError::Missing("an order of the customer"))?;
    let lines = txn.lines(w, d, order.o)?;
    if lines.len() != usize::from(order.lines) {
        return Err(StoreError::Damaged("the number of an order's lines is not its O_OL_CNT"));
    }
    Ok(Outcome::Status(order.lines))
}
