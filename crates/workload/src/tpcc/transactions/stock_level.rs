//! Stock-Level. Source: clause 2.8.2.

use super::outcome::Outcome;
use crate::store::StoreResult;
use crate::tpcc::rows::{D, W};
use crate::tpcc::store::TpccTxn;

pub(super) fn run(txn: &mut impl TpccTxn, w: W, d: D, threshold: i16) -> StoreResult<Outcome> {
    let next = txn.district(w, d)?.next_o;
    Ok(Outcome::Low(txn.low_stock(w, d, next, threshold)?))
}
