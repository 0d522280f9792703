//! The initial population. Source: TPC-C 5.11, clause 4.3.3.
//!
//! ```text
//!   items ─► for each warehouse: its stock ─► for each district: itself, customers, history, orders, lines ─► itself
//!     └─► population: some 2,000 rows at a time ─► load: a transaction each | a bulk load
//! ```

use super::Sizes;
use super::names::{Constants, Dice, last_name};
use super::rows::{
    Address, C, Customer, D, District, History, Item, O, Order, OrderLine, Stock, TableRow, W, Warehouse,
};
use super::store::{Intent, Terminal, TpccStore, TpccTxn};
use crate::random::Random;
use crate::store::StoreResult;

/// About how many rows a transaction of the load has.
const ROWS_A_COMMIT: usize = 2000;
/// The number of the first customers. They get each last name once. Later names are drawn.
const NAMES: u32 = 1000;
/// The terminal of the first history.
const LOADER: u16 = u16::MAX;
/// The first payment of each customer: 10.00.
const FIRST_PAYMENT: i64 = 1000;

/// Loads data of these sizes, generated from `seed`, with this date.
///
/// # Errors
/// When the store fails.
pub fn load(store: &impl TpccStore, sizes: &Sizes, seed: u64, date: i64) -> StoreResult {
    let mut terminal = store.terminal()?;
    population(sizes, seed, date, &mut |rows| {
        let mut txn = terminal.begin(Intent::Write)?;
        rows.iter().try_for_each(|row| add(&mut txn, row))?;
        txn.commit()
    })
}

fn add(txn: &mut impl TpccTxn, row: &TableRow) -> StoreResult {
    match row {
        TableRow::Warehouse(row) => txn.add_warehouse(row),
        TableRow::District(row) => txn.add_district(row),
        TableRow::Customer(row) => txn.add_customer(row),
        TableRow::History(row) => txn.add_history(row),
        TableRow::NewOrder(w, d, o) => txn.add_new_order(*w, *d, *o),
        TableRow::Order(row) => txn.add_order(row),
        TableRow::OrderLine(row) => txn.add_line(row),
        TableRow::Item(row) => txn.add_item(row),
        TableRow::Stock(row) => txn.add_stock(row),
    }
}

/// Generates the rows of these sizes from `seed`, with this date, and passes them to `take` some 2,000 at a time. The row
/// of a warehouse comes after all of its other rows.
///
/// # Errors
/// The first error of `take`.
pub fn population(sizes: &Sizes, seed: u64, date: i64, take: Take<'_>) -> StoreResult {
    let constants = Constants::new(seed);
    let dice = Dice(Random(seed ^ 0x10AD));
    let mut all = Population { sizes, constants, date, dice, rows: Vec::new(), take };
    for i in 1..=sizes.items {
        let dice = &mut all.dice;
        let (image, price) = (dice.range(1, 10_000) as u16, i64::from(dice.range(100, 10_000)));
        let (name, data) = (dice.text(14, 24), dice.data());
        all.push(TableRow::Item(Item { i, image, name, price, data }));
        all.give_if_full()?;
    }
    all.give()?;
    (1..=sizes.warehouses).try_for_each(|w| all.warehouse(w))
}

/// A function that takes rows of the population.
pub type Take<'f> = &'f mut dyn FnMut(&[TableRow]) -> StoreResult;

struct Population<'a> {
    sizes: &'a Sizes,
    constants: Constants,
    date: i64,
    dice: Dice,
    rows: Vec<TableRow>,
    take: Take<'a>,
}

impl Population<'_> {
    fn push(&mut self, row: TableRow) {
        self.rows.push(row);
    }

    /// Gives the rows so far to the caller.
    fn give(&mut self) -> StoreResult {
        (self.take)(&self.rows)?;
        self.rows.clear();
        Ok(())
    }

    fn give_if_full(&mut self) -> StoreResult {
        if self.rows.len() >= ROWS_A_COMMIT { self.give() } else { Ok(()) }
    }

    fn warehouse(&mut self, w: W) -> StoreResult {
        for i in 1..=self.sizes.items {
            let dice = &mut self.dice;
            let quantity = dice.range(10, 100) as i16;
            let dist = std::array::from_fn(|_| dice.dist());
            let data = dice.data();
            let stock = Stock { w, i, quantity, dist, ytd: 0, order_cnt: 0, remote_cnt: 0, data };
            self.push(TableRow::Stock(stock));
            self.give_if_full()?;
        }
        self.give()?;
        (1..=self.sizes.districts).try_for_each(|d| self.district(w, d))?;
        // The row of the warehouse is added last. If it exists, all its data exists.
        let ytd = i64::from(self.sizes.districts) * self.district_ytd();
        let (name, address) = (self.dice.text(6, 10), address(&mut self.dice));
        let tax = self.dice.range(0, 2000) as u16;
        self.push(TableRow::Warehouse(Warehouse { w, name, address, tax, ytd }));
        self.give()
    }

    /// D_YTD: the sum of its customers' first payments, by the standard 30,000.00.
    fn district_ytd(&self) -> i64 {
        i64::from(self.sizes.customers) * FIRST_PAYMENT
    }

    fn district(&mut self, w: W, d: D) -> StoreResult {
        let (name, address, ytd) = (self.dice.text(6, 10), address(&mut self.dice), self.district_ytd());
        let tax = self.dice.range(0, 2000) as u16;
        let next_o = O::from(self.sizes.customers) + 1;
        self.push(TableRow::District(District { w, d, name, address, tax, ytd, next_o }));
        for c in 1..=self.sizes.customers {
            let customer = self.customer(w, d, c);
            self.push(TableRow::Customer(customer));
            // The rows of a district have different dates.
            let date = self.date + i64::from(c);
            let data = self.dice.text(12, 24);
            let amount = FIRST_PAYMENT;
            let payment = History { w, d, date, terminal: LOADER, c_w: w, c_d: d, c, amount, data };
            self.push(TableRow::History(payment));
            self.give_if_full()?;
        }
        for (o, c) in (1..).zip(self.dice.permutation(self.sizes.customers.into())) {
            self.order((w, d, o), c as C);
            self.give_if_full()?;
        }
        self.give()
    }

    fn customer(&mut self, w: W, d: D, c: C) -> Customer {
        let dice = &mut self.dice;
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

    fn order(&mut self, (w, d, o): (W, D, O), c: C) {
        let is_new = o > O::from(self.sizes.delivered());
        let lines = self.dice.range(5, 15) as u8;
        let carrier = (!is_new).then(|| self.dice.range(1, 10) as u8);
        let entry = self.date;
        self.push(TableRow::Order(Order { w, d, o, c, entry, carrier, lines, all_local: true }));
        for number in 1..=lines {
            let dice = &mut self.dice;
            let line = OrderLine {
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
            };
            self.push(TableRow::OrderLine(line));
        }
        if is_new {
            self.push(TableRow::NewOrder(w, d, o));
        }
    }
}

fn address(dice: &mut Dice) -> Address {
    Address {
        street_1: dice.text(10, 20),
        street_2: dice.text(10, 20),
        city: dice.text(10, 20),
        state: dice.text(2, 2),
        zip: format!("{}11111", dice.digits(4)),
    }
}
