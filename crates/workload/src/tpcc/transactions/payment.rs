//! Payment. Source: clause 2.5.2.

use super::customer::customer;
use super::outcome::Outcome;
use crate::store::StoreResult;
use crate::tpcc::input::Who;
use crate::tpcc::rows::{D, History, W};
use crate::tpcc::store::TpccTxn;

pub(super) fn run(
    txn: &mut impl TpccTxn,
    (w, d): (W, D),
    (c_w, c_d, who): (W, D, &Who),
    amount: i64,
    (date, terminal): (i64, u16),
) -> StoreResult<Outcome> {
    let warehouse = txn.pay_warehouse(w, amount)?;
    let district = txn.pay_district(w, d, amount)?;
    let mut payer = customer(txn, c_w, c_d, who)?;
    payer.pay(w, d, amount);
    txn.store_payment(&payer)?;
    let data = format!("{}    {}", warehouse.name, district.name);
    txn.add_history(&History { w, d, date, terminal, c_w, c_d, c: payer.c, amount, data })?;
    Ok(Outcome::Paid(payer.balance))
}
