//! The interface between TPC-C and a store: the statements of its transactions.
//!
//! ```text
//!   TpccStore ── terminal ─► Terminal ── begin ─► TpccTxn: statements ─► commit | dropped: rolled back
//! ```
//!
//! Each statement corresponds to one SQL statement. A SQL database runs it as a prepared statement, a key-value store
//! as gets and puts.

use super::rows::{C, Customer, D, District, History, I, Item, O, Order, OrderLine, Stock, W, Warehouse};
pub use crate::store::Intent;
use crate::store::StoreResult;

/// A store that holds TPC-C.
pub trait TpccStore: Send + Sync {
    /// A terminal's connection to the store, for one thread.
    type Terminal<'a>: Terminal
    where
        Self: 'a;

    /// Opens a terminal.
    ///
    /// # Errors
    /// When the store fails.
    fn terminal(&self) -> StoreResult<Self::Terminal<'_>>;
}

/// A terminal's connection to a store.
pub trait Terminal {
    /// A transaction.
    type Txn<'t>: TpccTxn
    where
        Self: 't;

    /// Begins a transaction.
    ///
    /// # Errors
    /// When the store fails.
    fn begin(&mut self, intent: Intent) -> StoreResult<Self::Txn<'_>>;
}

/// A function that gets all rows of a table.
pub type Each<'f, R> = &'f mut dyn FnMut(R);

/// A transaction. Dropping it rolls it back. Every statement fails if the store fails. It fails with
/// [`StoreError::Missing`](crate::store::StoreError::Missing) if a required row is missing.
#[expect(clippy::missing_errors_doc, reason = "all fail as the trait says")]
pub trait TpccTxn {
    /// A warehouse.
    fn warehouse(&mut self, w: W) -> StoreResult<Warehouse>;
    /// Adds a payment to a warehouse.
    fn pay_warehouse(&mut self, w: W, amount: i64) -> StoreResult<Warehouse>;
    /// A district.
    fn district(&mut self, w: W, d: D) -> StoreResult<District>;
    /// Adds a payment to a district.
    fn pay_district(&mut self, w: W, d: D, amount: i64) -> StoreResult<District>;
    /// Increments the next order's number of a district. Returns the row as it was before.
    fn take_order_number(&mut self, w: W, d: D) -> StoreResult<District>;
    /// A customer.
    fn customer(&mut self, w: W, d: D, c: C) -> StoreResult<Customer>;
    /// The customers with a last name, ordered by first name.
    fn customers_named(&mut self, w: W, d: D, last: &str) -> StoreResult<Vec<C>>;
    /// Stores what [`Customer::pay`] changed.
    fn store_payment(&mut self, c: &Customer) -> StoreResult;
    /// Adds a delivered order to a customer.
    fn deliver_to(&mut self, w: W, d: D, c: C, amount: i64) -> StoreResult;
    /// An item, if there is one.
    fn item(&mut self, i: I) -> StoreResult<Option<Item>>;
    /// Takes from the stock for an order of a district, as [`Stock::take`] does. Returns the S_DIST of the district.
    fn take_stock(&mut self, w: W, i: I, d: D, quantity: u8, remote: bool) -> StoreResult<[u8; 24]>;
    /// The newest order of a customer.
    fn last_order(&mut self, w: W, d: D, c: C) -> StoreResult<Option<Order>>;
    /// An order, if there is one.
    fn order(&mut self, w: W, d: D, o: O) -> StoreResult<Option<Order>>;
    /// Lines of an order.
    fn lines(&mut self, w: W, d: D, o: O) -> StoreResult<Vec<OrderLine>>;
    /// The oldest undelivered order of a district.
    fn oldest_new_order(&mut self, w: W, d: D) -> StoreResult<Option<O>>;
    /// Removes an order from the undelivered orders.
    fn remove_new_order(&mut self, w: W, d: D, o: O) -> StoreResult;
    /// Records the carrier of an order. Returns its customer.
    fn carry(&mut self, w: W, d: D, o: O, carrier: u8) -> StoreResult<C>;
    /// Records the delivery date of an order's lines. Returns the sum of their amounts.
    fn deliver_lines(&mut self, w: W, d: D, o: O, date: i64) -> StoreResult<i64>;
    /// How many items of a district's 20 orders before `next` are low in stock.
    fn low_stock(&mut self, w: W, d: D, next: O, threshold: i16) -> StoreResult<u32>;

    /// Adds a warehouse.
    fn add_warehouse(&mut self, row: &Warehouse) -> StoreResult;
    /// Adds a district.
    fn add_district(&mut self, row: &District) -> StoreResult;
    /// Adds a customer.
    fn add_customer(&mut self, row: &Customer) -> StoreResult;
    /// Adds a payment to the history.
    fn add_history(&mut self, row: &History) -> StoreResult;
    /// Adds an order.
    fn add_order(&mut self, row: &Order) -> StoreResult;
    /// Adds an order to the undelivered orders.
    fn add_new_order(&mut self, w: W, d: D, o: O) -> StoreResult;
    /// Adds a line.
    fn add_line(&mut self, row: &OrderLine) -> StoreResult;
    /// Adds an item.
    fn add_item(&mut self, row: &Item) -> StoreResult;
    /// Adds to the stock.
    fn add_stock(&mut self, row: &Stock) -> StoreResult;

    /// All warehouses.
    fn each_warehouse(&mut self, f: Each<'_, Warehouse>) -> StoreResult;
    /// All districts of a warehouse.
    fn each_district(&mut self, w: W, f: Each<'_, District>) -> StoreResult;
    /// All customers of a warehouse.
    fn each_customer(&mut self, w: W, f: Each<'_, Customer>) -> StoreResult;
    /// The history of a warehouse.
    fn each_history(&mut self, w: W, f: Each<'_, History>) -> StoreResult;
    /// All orders of a warehouse.
    fn each_order(&mut self, w: W, f: Each<'_, Order>) -> StoreResult;
    /// All undelivered orders of a warehouse.
    fn each_new_order(&mut self, w: W, f: Each<'_, (D, O)>) -> StoreResult;
    /// All lines of a warehouse, by district, order and number.
    fn each_line(&mut self, w: W, f: Each<'_, OrderLine>) -> StoreResult;
    /// The numbers of entries in a warehouse's secondary indexes: customers by name, and orders by customer.
    fn index_entries(&mut self, w: W) -> StoreResult<(u64, u64)>;

    /// Makes the writes of the transaction durable, all or none.
    fn commit(self) -> StoreResult;
}
