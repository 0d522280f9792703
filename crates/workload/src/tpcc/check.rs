//! The twelve consistency conditions, over all rows. Source: TPC-C 5.11, clause 3.3.2.
//!
//! | | must hold |
//! |---|---|
//! | 1 | W_YTD is the sum of its districts' D_YTD |
//! | 2 | D_NEXT_O_ID - 1 is the largest order and the largest new order of the district |
//! | 3 | new orders of a district are numbered without a gap |
//! | 4 | O_OL_CNT of a district's orders add up to its lines |
//! | 5 | an order has no carrier if, and only if, it is a new order |
//! | 6 | O_OL_CNT is the number of the order's lines |
//! | 7 | a line has no delivery date if, and only if, its order has no carrier |
//! | 8, 9 | W_YTD, and D_YTD, are the sums of H_AMOUNT |
//! | 10 | C_BALANCE is the sum of the customer's delivered lines less that of its payments |
//! | 11 | orders less new orders of a district are 2,100 plus the orders delivered since (by C_DELIVERY_CNT) |
//! | 12 | C_BALANCE + C_YTD_PAYMENT is the sum of the customer's delivered lines |
//!
//! The standard requires condition 11 only of the first population. Here the condition counts later deliveries, so it
//! holds at any time. In addition, the secondary indexes must have as many entries as there are customers and orders.

use std::collections::{BTreeMap, HashMap};

use super::Sizes;
use super::rows::{C, D, O, W};
use super::store::{Intent, Terminal, TpccStore, TpccTxn};
use crate::store::StoreResult;

/// The most violations that are described. All violations are counted.
const TOLD_MAX: usize = 20;

/// The violated conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// The first violations, a line each, with the number of the condition.
    pub told: Vec<String>,
    /// The number of violations.
    pub count: u64,
}

impl Violations {
    fn unless(&mut self, holds: bool, tell: impl FnOnce() -> String) {
        if !holds {
            self.count += 1;
            if self.told.len() < TOLD_MAX {
                self.told.push(tell());
            }
        }
    }
}

/// The sums of a district.
#[derive(Default)]
struct District {
    ytd: i64,
    next: O,
    history: i64,
    orders: BTreeMap<O, Order>,
    new_orders: Vec<O>,
    deliveries: u64,
    customers: u64,
}

/// The facts about an order that conditions need.
struct Order {
    c: C,
    says: u8,
    carried: bool,
    lines: u8,
    delivered_lines: u8,
    delivered_amount: i64,
}

/// Checks one state of a store.
///
/// # Errors
/// When the store fails.
pub fn check(store: &impl TpccStore, sizes: &Sizes) -> StoreResult<Violations> {
    let mut terminal = store.terminal()?;
    let mut txn = terminal.begin(Intent::Read)?;
    let mut found = Violations::default();
    let mut warehouses = BTreeMap::new();
    txn.each_warehouse(&mut |w| _ = warehouses.insert(w.w, w.ytd))?;
    found.unless(warehouses.len() == usize::from(sizes.warehouses), || {
        format!("there are {} warehouses, not {}", warehouses.len(), sizes.warehouses)
    });
    // The payments by the district that took them and by the customer who made them. The customer may belong to
    // another warehouse.
    let (mut paid_at, mut paid_by) = (HashMap::<(W, D), i64>::new(), HashMap::<(W, D, C), i64>::new());
    for w in warehouses.keys() {
        txn.each_history(*w, &mut |h| {
            *paid_at.entry((h.w, h.d)).or_default() += h.amount;
            *paid_by.entry((h.c_w, h.c_d, h.c)).or_default() += h.amount;
        })?;
    }
    for (w, ytd) in &warehouses {
        let mut districts = collect(&mut txn, *w, &mut found)?;
        for (d, district) in &mut districts {
            district.history = paid_at.get(&(*w, *d)).copied().unwrap_or_default();
        }
        found.unless(districts.len() == usize::from(sizes.districts), || {
            format!("warehouse {w} has {} districts, not {}", districts.len(), sizes.districts)
        });
        let sum: i64 = districts.values().map(|d| d.ytd).sum();
        found.unless(*ytd == sum, || {
            format!("condition 1: warehouse {w} has W_YTD {ytd}, its districts {sum}")
        });
        let sum: i64 = districts.values().map(|d| d.history).sum();
        found
            .unless(*ytd == sum, || format!("condition 8: warehouse {w} has W_YTD {ytd}, its history {sum}"));
        customers(&mut txn, *w, &mut districts, &paid_by, &mut found)?;
        districts.iter().for_each(|(d, district)| check_district(*w, *d, district, sizes, &mut found));
        let (customers, orders) =
            districts.values().fold((0, 0), |(c, o), d| (c + d.customers, o + d.orders.len() as u64));
        let (names, by_customer) = txn.index_entries(*w)?;
        found.unless((names, by_customer) == (customers, orders), || {
            format!("indexes of warehouse {w} hold {names} names and {by_customer} orders; there are {customers} and {orders}")
        });
    }
    Ok(found)
}

/// Districts, orders, new orders and lines of a warehouse.
fn collect(txn: &mut impl TpccTxn, w: W, found: &mut Violations) -> StoreResult<BTreeMap<D, District>> {
    let mut all: BTreeMap<D, District> = BTreeMap::new();
    txn.each_district(w, &mut |d| {
        let of = District { ytd: d.ytd, next: d.next_o, ..District::default() };
        all.insert(d.d, of);
    })?;
    txn.each_order(w, &mut |o| {
        let order = Order {
            c: o.c,
            says: o.lines,
            carried: o.carrier.is_some(),
            lines: 0,
            delivered_lines: 0,
            delivered_amount: 0,
        };
        all.entry(o.d).or_default().orders.insert(o.o, order);
    })?;
    txn.each_new_order(w, &mut |(d, o)| all.entry(d).or_default().new_orders.push(o))?;
    txn.each_line(w, &mut |l| match all.entry(l.d).or_default().orders.get_mut(&l.o) {
        Some(order) => {
            order.lines += 1;
            if l.delivered.is_some() {
                order.delivered_lines += 1;
                order.delivered_amount += l.amount;
            }
        }
        None => found.unless(false, || {
            format!("condition 4: a line of order {w} {} {}, which does not exist", l.d, l.o)
        }),
    })?;
    Ok(all)
}

/// Checks conditions 10 and 12, and collects the data for 11.
fn customers(
    txn: &mut impl TpccTxn,
    w: W,
    districts: &mut BTreeMap<D, District>,
    paid_by: &HashMap<(W, D, C), i64>,
    found: &mut Violations,
) -> StoreResult {
    let mut delivered = HashMap::<(D, C), i64>::new();
    for (d, district) in districts.iter() {
        for o in district.orders.values() {
            *delivered.entry((*d, o.c)).or_default() += o.delivered_amount;
        }
    }
    txn.each_customer(w, &mut |c| {
        let delivered = delivered.get(&(c.d, c.c)).copied().unwrap_or_default();
        let paid = paid_by.get(&(c.w, c.d, c.c)).copied().unwrap_or_default();
        let name = || format!("customer {w} {} {}", c.d, c.c);
        found.unless(c.balance == delivered - paid, || {
            format!("condition 10: {} has C_BALANCE {}, not {delivered} - {paid}", name(), c.balance)
        });
        found.unless(c.balance + c.ytd_payment == delivered, || {
            let sum = c.balance + c.ytd_payment;
            format!("condition 12: {} has C_BALANCE + C_YTD_PAYMENT {sum}, not {delivered}", name())
        });
        let district = districts.entry(c.d).or_default();
        district.deliveries += u64::from(c.delivery_cnt);
        district.customers += 1;
    })
}

fn check_district(w: W, d: D, it: &District, sizes: &Sizes, found: &mut Violations) {
    let newest = it.orders.keys().next_back().copied().unwrap_or(0);
    found.unless(it.next == newest + 1, || {
        format!("condition 2: district {w} {d} has D_NEXT_O_ID {}, its newest order {newest}", it.next)
    });
    if let (Some(first), Some(last)) = (it.new_orders.iter().min(), it.new_orders.iter().max()) {
        found.unless(*last == newest, || {
            format!("condition 2: district {w} {d} has the new order {last}, its newest order {newest}")
        });
        let count = it.new_orders.len();
        found.unless((last - first + 1) as usize == count, || {
            format!("condition 3: district {w} {d} has {count} new orders from {first} to {last}")
        });
    }
    let (says, lines) =
        it.orders.values().fold((0u64, 0u64), |(s, l), o| (s + u64::from(o.says), l + u64::from(o.lines)));
    found.unless(says == lines, || {
        format!("condition 4: orders of district {w} {d} say {says} lines, there are {lines}")
    });
    let mut new: Vec<O> = it.new_orders.clone();
    new.sort_unstable();
    for (o, order) in &it.orders {
        let is_new = new.binary_search(o).is_ok();
        found.unless(order.carried != is_new, || {
            format!("condition 5: order {w} {d} {o} carried: {}, new: {is_new}", order.carried)
        });
        found.unless(order.says == order.lines, || {
            format!("condition 6: order {w} {d} {o} says {} lines, there are {}", order.says, order.lines)
        });
        let expected = if order.carried { order.lines } else { 0 };
        found.unless(order.delivered_lines == expected, || {
            let n = order.delivered_lines;
            format!("condition 7: order {w} {d} {o} has {n} delivered lines, carried: {}", order.carried)
        });
    }
    for o in new.iter().filter(|o| !it.orders.contains_key(o)) {
        found.unless(false, || format!("condition 5: the new order {w} {d} {o} has no order"));
    }
    found.unless(it.ytd == it.history, || {
        format!("condition 9: district {w} {d} has D_YTD {}, its history {}", it.ytd, it.history)
    });
    let expected = u64::from(sizes.delivered()) + it.deliveries;
    let less = (it.orders.len() as u64).saturating_sub(it.new_orders.len() as u64);
    found.unless(less == expected, || {
        format!("condition 11: district {w} {d} has {less} orders that are not new, not {expected}")
    });
}
