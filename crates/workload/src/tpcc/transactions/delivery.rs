//! Delivery, of all districts of a warehouse in one transaction. Source: clause 2.7.4.

use super::outcome::Outcome;
use crate::store::StoreResult;
use crate::tpcc::rows::{D, W};
use crate::tpcc::store::TpccTxn;

pub(super) fn run(
    txn: &mut impl TpccTxn,
    w: W,
    districts: D,
    carrier: u8,
    date: i64,
) -> StoreResult<Outcome> {
    let mut delivered = 0;
    for d in 1..=districts {
        let Some(o) = txn.oldest_new_order(w, d)? else { continue };
        txn.remove_new_order(w, d, o)?;
        let c = txn.carry(w, d, o, carrier)?;
        let amount = txn.deliver_lines(w, d, o, date)?;
        txn.deliver_to(w, d, c, amount)?;
        delivered += 1;
    }
    Ok(Outcome::Delivered(delivered, districts - delivered))
}
