//! The rows of the nine tables. Source: TPC-C 5.11, clause 1.3.
//!
//! Money is in cents; taxes and discounts are in ten-thousandths; dates are microseconds since 1970.

/// A warehouse's number, from 1.
pub type W = u16;
/// A district's number in its warehouse, from 1 to 10.
pub type D = u8;
/// A customer's number in its district, from 1.
pub type C = u16;
/// An order's number in its district, from 1.
pub type O = u32;
/// An item's number, from 1.
pub type I = u32;

/// The address of a warehouse, a district or a customer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct Address {
    pub street_1: String,
    pub street_2: String,
    pub city: String,
    pub state: String,
    pub zip: String,
}

/// A row of WAREHOUSE.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct Warehouse {
    pub w: W,
    pub name: String,
    pub address: Address,
    pub tax: u16,
    pub ytd: i64,
}

/// A row of DISTRICT.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct District {
    pub w: W,
    pub d: D,
    pub name: String,
    pub address: Address,
    pub tax: u16,
    pub ytd: i64,
    pub next_o: O,
}

/// A row of CUSTOMER.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct Customer {
    pub w: W,
    pub d: D,
    pub c: C,
    pub first: String,
    pub middle: String,
    pub last: String,
    pub address: Address,
    pub phone: String,
    pub since: i64,
    /// Whether C_CREDIT is "BC". If not, it is "GC".
    pub bad_credit: bool,
    pub credit_lim: i64,
    pub discount: u16,
    pub balance: i64,
    pub ytd_payment: i64,
    pub payment_cnt: u32,
    pub delivery_cnt: u32,
    pub data: String,
}

/// A row of HISTORY. In the standard, the table has no key. Here the key has the district, the date and the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct History {
    pub w: W,
    pub d: D,
    pub date: i64,
    pub terminal: u16,
    pub c_w: W,
    pub c_d: D,
    pub c: C,
    pub amount: i64,
    pub data: String,
}

/// A row of ORDER.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct Order {
    pub w: W,
    pub d: D,
    pub o: O,
    pub c: C,
    pub entry: i64,
    pub carrier: Option<u8>,
    pub lines: u8,
    pub all_local: bool,
}

/// A row of ORDER-LINE.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct OrderLine {
    pub w: W,
    pub d: D,
    pub o: O,
    pub number: u8,
    pub i: I,
    pub supply_w: W,
    pub delivered: Option<i64>,
    pub quantity: u8,
    pub amount: i64,
    pub dist_info: [u8; 24],
}

/// A row of ITEM.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct Item {
    pub i: I,
    pub image: u16,
    pub name: String,
    pub price: i64,
    pub data: String,
}

/// A row of STOCK.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct Stock {
    pub w: W,
    pub i: I,
    pub quantity: i16,
    pub dist: [[u8; 24]; 10],
    pub ytd: u32,
    pub order_cnt: u32,
    pub remote_cnt: u32,
    pub data: String,
}

/// A row of any table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the type says it")]
pub enum TableRow {
    Warehouse(Warehouse),
    District(District),
    Customer(Customer),
    History(History),
    NewOrder(W, D, O),
    Order(Order),
    OrderLine(OrderLine),
    Item(Item),
    Stock(Stock),
}

impl Stock {
    /// Takes `quantity` for an order, as clause 2.4.2.2 says.
    pub fn take(&mut self, quantity: u8, remote: bool) {
        let q = i16::from(quantity);
        self.quantity += if self.quantity >= q + 10 { -q } else { 91 - q };
        self.ytd += u32::from(quantity);
        self.order_cnt += 1;
        self.remote_cnt += u32::from(remote);
    }
}

impl Customer {
    /// Takes a payment at a district, as clause 2.5.2.2 says. For a customer with bad credit, C_DATA records the
    /// payment.
    pub fn pay(&mut self, w: W, d: D, amount: i64) {
        const DATA_CHARS_MAX: usize = 500;
        self.balance -= amount;
        self.ytd_payment += amount;
        self.payment_cnt += 1;
        if self.bad_credit {
            let (dollars, cents) = (amount / 100, amount % 100);
            let note = format!("{} {} {} {d} {w} {dollars}.{cents:02}|", self.c, self.d, self.w);
            self.data.insert_str(0, &note);
            self.data.truncate(DATA_CHARS_MAX);
        }
    }
}
