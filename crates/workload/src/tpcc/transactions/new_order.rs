//! New-Order. Source: clause 2.4.2.

use super::outcome::Outcome;
use crate::store::StoreResult;
use crate::tpcc::input::Ordered;
use crate::tpcc::rows::{C, D, Order, OrderLine, W};
use crate::tpcc::store::TpccTxn;

/// Taxes and discounts are in parts of this.
const WHOLE: i64 = 10_000;

pub(super) fn run(
    txn: &mut impl TpccTxn,
    (w, d, c): (W, D, C),
    date: i64,
    items: &[Ordered],
) -> StoreResult<Outcome> {
    let w_tax = txn.warehouse(w)?.tax;
    let district = txn.take_order_number(w, d)?;
    let discount = txn.customer(w, d, c)?.discount;
    let o = district.next_o;
    let all_local = items.iter().all(|i| i.supply_w == w);
    txn.add_order(&Order { w, d, o, c, entry: date, carrier: None, lines: items.len() as u8, all_local })?;
    txn.add_new_order(w, d, o)?;
    let mut sum = 0;
    for (number, ordered) in (1..).zip(items) {
        let Some(item) = txn.item(ordered.i)? else { return Ok(Outcome::RolledBack) };
        let Ordered { i, supply_w, quantity } = *ordered;
        let dist_info = txn.take_stock(supply_w, i, d, quantity, supply_w != w)?;
        let amount = i64::from(quantity) * item.price;
        sum += amount;
        txn.add_line(&OrderLine {
            w,
            d,
            o,
            number,
            i,
            supply_w,
            delivered: None,
            quantity,
            amount,
            dist_info,
        })?;
    }
    let taxed = WHOLE + i64::from(w_tax) + i64::from(district.tax);
    let total = sum * (WHOLE - i64::from(discount)) / WHOLE * taxed / WHOLE;
    Ok(Outcome::Ordered { order: (w, d, o), total })
}
