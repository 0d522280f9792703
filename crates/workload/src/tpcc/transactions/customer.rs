//! The customer that a transaction names, by number or by last name.

use crate::store::{StoreError, StoreResult};
use crate::tpcc::input::Who;
use crate::tpcc::rows::{C, Customer, D, W};
use crate::tpcc::store::TpccTxn;

/// Finds the customer. Of several with the same name, it takes the middle one, rounded up.
pub(super) fn customer(txn: &mut impl TpccTxn, w: W, d: D, who: &Who) -> StoreResult<Customer> {
    let c: C = match who {
        Who::Number(c) => *c,
        Who::Name(last) => {
            let all = txn.customers_named(w, d, last)?;
            *all.get(all.len().div_ceil(2).wrapping_sub(1))
                .ok_or(StoreError::Missing("a customer with the last name"))?
        }
    };
    txn.customer(w, d, c)
}
