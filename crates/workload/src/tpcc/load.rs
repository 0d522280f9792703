//! The initial population. Source: TPC-C 5.11, clause 4.3.3.
//!
//! ```text
//!   items ─► for each warehouse: itself, its stock ─► for each district: itself, customers, history, orders, lines
//! ```

use super::Sizes;
use super::names::{Constants, Dice, last_name};
use super::rows::{
    Address, C, Customer, D, District, History, Item, O, Order, OrderLine, Stock, W, Warehouse,
};
use super::store::{Intent, Terminal, TpccStore, TpccTxn};
use crate::random::Random;
use crate::store::StoreResult;

/// About how many rows a transaction of the load has.
const ROWS_A_COMMIT: u32 = 2000;
/// The number of the first customers. They get each last name once. Later names are drawn.
const NAMES: u32 = 1000;
/// The terminal of the first history.
const LOADER: u16 = u16::MAX;

/// Loads data of these sizes, generated from `seed`, with this date.
///
/// # Errors
/// When the store fails.
pub fn load(store: &impl TpccStore, sizes: &Sizes, seed: u64, date: i64) -> StoreResult {
    let mut terminal = store.terminal()?;
    let constants = Constants::new(seed);
    let mut dice = Dice(Random(seed ^ 0x10AD));
    let mut loader = Loader { sizes, constants, date, rows: 0 };
    let mut txn = terminal.begin(Intent::Write)?;
    for i in 1..=sizes.items {
        let (image, price) = (dice.range(1, 10_000) as u16, i64::from(dice.range(100, 10_000)));
        txn.add_item(&Item { i, image, name: dice.text(14, 24), price, data: dice.data() })?;
        if loader.is_due() {
            txn.commit()?;
            txn = terminal.begin(Intent::Write)?;
        }
    }
    txn.commit()?;
    (1..=sizes.warehouses).try_for_each(|w| loader.warehouse(&mut terminal, &mut dice, w))
}

struct Loader<'a> {
    sizes: &'a Sizes,
    constants: Constants,
    date: i64,
    rows: u32,
}

impl Loader<'_> {
    /// Whether there are enough rows for a commit.
    fn is_due(&mut self) -> bool {
        self.rows += 1;
        let due = self.rows >= ROWS_A_COMMIT;
        if due {
            self.rows = 0;
        }
        due
    }

    fn warehouse<T: Terminal>(&mut self, terminal: &mut T, dice: &mut Dice, w: W) -> StoreResult {
        let mut txn = terminal.begin(Intent::Write)?;
        for i in 1..=self.sizes.items {
            let quantity = dice.range(10, 100) as i16;
            let dist = std::array::from_fn(|_| dice.dist());
            let data = dice.data();
            txn.add_stock(&Stock { w, i, quantity, dist, ytd: 0, order_cnt: 0, remote_cnt: 0, data })?;
            if self.is_due() {
                txn.commit()?;
                txn = terminal.begin(Intent::Write)?;
            }
        }
        txn.commit()?;
        (1..=self.sizes.districts).try_for_each(|d| self.district(terminal, dice, w, d))?;
        // The row of the warehouse is added last. If it exists, all its data exists.
        let mut txn = terminal.begin(Intent::Write)?;
        let ytd = i64::from(self.sizes.districts) * self.district_ytd();
        let (name, address) = (dice.text(6, 10), address(dice));
        txn.add_warehouse(&Warehouse { w, name, address, tax: dice.range(0, 2000) as u16, ytd })?;
        txn.commit()
    }

    /// D_YTD: the sum of its customers' first payments, by the standard 30,000.00.
    fn district_ytd(&self) -> i64 {
        i64::from(self.sizes.customers) * FIRST_PAYMENT
    }

    fn district<T: Terminal>(&mut self, terminal: &mut T, dice: &mut Dice, w: W, d: D) -> StoreResult {
        let mut txn = terminal.begin(Intent::Write)?;
        let (name, address, ytd) = (dice.text(6, 10), address(dice), self.district_ytd());
        let tax = dice.range(0, 2000) as u16;
        let next_o = O::from(self.sizes.customers) + 1;
        txn.add_district(&District { w, d, name, address, tax, ytd, next_o })?;
        for c in 1..=self.sizes.customers {
            txn.add_customer(&self.customer(dice, w, d, c))?;
            // The rows of a district have different dates.
            let date = self.date + i64::from(c);
            let data = dice.text(12, 24);
            let amount = FIRST_PAYMENT;
            txn.add_history(&History { w, d, date, terminal: LOADER, c_w: w, c_d: d, c, amount, data })?;
            if self.is_due() {
                txn.commit()?;
                txn = terminal.begin(Intent::Write)?;
            }
        }
        for (o, c) in (1..).zip(dice.permutation(self.sizes.customers.into())) {
            self.order(&mut txn, dice, (w, d, o), c as C)?;
            if self.is_due() {
                txn.commit()?;
                txn = terminal.begin(Intent::Write)?;
            }
        }
        txn.commit()
    }

    fn customer(&self, dice: &mut Dice, w: W, d: D, c: C) -> Customer {
        let number = match u32::from(c) {
            c if c <= NAMES => c - 1,
            _ => dice.skewed(255, self.constants.load, 0, NAMES - 1),
        };
        Customer {
            w,
            d,
            c,
            first: dice.text(8, 16),
            middle: "OE".into(),
            last: last_name(number),
            address: address(dice),
            phone: dice.digits(16),
            since: self.date,
            bad_credit: dice.percent(10),
            credit_lim: 5_000_000,
            discount: dice.range(0, 5000) as u16,
            balance: -FIRST_PAYMENT,
            ytd_payment: FIRST_PAYMENT,
            payment_cnt: 1,
            delivery_cnt: 0,
            data: dice.text(300, 500),
        }
    }

    fn order<X: TpccTxn>(&mut self, txn: &mut X, dice: &mut Dice, (w, d, o): (W, D, O), c: C) -> StoreResult {
        let is_new = o > O::from(self.sizes.delivered());
        let lines = dice.range(5, 15) as u8;
        let carrier = (!is_new).then(|| dice.range(1, 10) as u8);
        txn.add_order(&Order { w, d, o, c, entry: self.date, carrier, lines, all_local: true })?;
        for number in 1..=lines {
            txn.add_line(&OrderLine {
                w,
                d,
                o,
                number,
                i: dice.range(1, self.sizes.items),
                supply_w: w,
                delivered: (!is_new).then_some(self.date),
                quantity: 5,
                amount: if is_new { i64::from(dice.range(1, 999_999)) } else { 0 },
                dist_info: dice.dist(),
            })?;
        }
        self.rows += u32::from(lines);
        if is_new { txn.add_new_order(w, d, o) } else { Ok(()) }
    }
}

/// The first payment of each customer: 10.00.
const FIRST_PAYMENT: i64 = 1000;

fn address(dice: &mut Dice) -> Address {
    Address {
        street_1: dice.text(10, 20),
        street_2: dice.text(10, 20),
        city: dice.text(10, 20),
        state: dice.text(2, 2),
        zip: format!("{}11111", dice.digits(4)),
    }
}
