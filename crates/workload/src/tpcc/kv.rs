//! TPC-C over trees of bytes. [`super::codec`] encodes the rows; each secondary index is a separate tree.
//!
//! ```text
//!   statement ─► get row, change, put        customer by last name, order by customer ─► scan the index's tree
//! ```

use super::Sizes;
use super::codec::{self, Key, Row};
use super::rows::{C, Customer, D, District, History, I, Item, O, Order, OrderLine, Stock, W, Warehouse};
use super::store::{Each, Intent, Terminal, TpccStore, TpccTxn};
use crate::store::{StoreError, StoreResult, Transactional, Txn};

/// The number of recent orders in Stock-Level.
const RECENT_ORDERS: O = 20;

/// The tree, and its only key, that describes the loaded data.
const ABOUT: &str = "tpcc_about";

/// TPC-C on a store with transactions.
pub struct KvTpcc<S: Transactional> {
    store: S,
    trees: Trees<S::Tree>,
}

/// The trees: nine tables and two indexes.
struct Trees<T> {
    warehouse: T,
    district: T,
    customer: T,
    customer_name: T,
    history: T,
    new_order: T,
    orders: T,
    orders_customer: T,
    order_line: T,
    item: T,
    stock: T,
}

impl<S: Transactional> KvTpcc<S> {
    /// TPC-C on a store. The trees are made if they do not exist.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(store: S) -> StoreResult<Self> {
        let tree = |name: &str| store.tree(&format!("tpcc_{name}"));
        let trees = Trees {
            warehouse: tree("warehouse")?,
            district: tree("district")?,
            customer: tree("customer")?,
            customer_name: tree("customer_name")?,
            history: tree("history")?,
            new_order: tree("new_order")?,
            orders: tree("orders")?,
            orders_customer: tree("orders_customer")?,
            order_line: tree("order_line")?,
            item: tree("item")?,
            stock: tree("stock")?,
        };
        Ok(Self { store, trees })
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The sizes and the seed of the load, if it was completed.
    ///
    /// # Errors
    /// When the store fails.
    pub fn loaded(&self) -> StoreResult<Option<(Sizes, u64)>> {
        let about = self.store.tree(ABOUT)?;
        self.store.begin()?.get(&about, ABOUT.as_bytes(), codec::about)?.transpose()
    }

    /// Records that the load is complete.
    ///
    /// # Errors
    /// When the store fails.
    pub fn set_loaded(&self, sizes: &Sizes, seed: u64) -> StoreResult {
        let about = self.store.tree(ABOUT)?;
        let mut txn = self.store.begin()?;
        txn.put(&about, ABOUT.as_bytes(), &codec::about_value(sizes, seed))?;
        txn.commit()
    }
}

impl<S: Transactional> TpccStore for KvTpcc<S> {
    type Terminal<'a>
        = KvTerminal<'a, S>
    where
        Self: 'a;

    fn terminal(&self) -> StoreResult<Self::Terminal<'_>> {
        Ok(KvTerminal(self))
    }
}

/// A terminal.
pub struct KvTerminal<'a, S: Transactional>(&'a KvTpcc<S>);

impl<S: Transactional> Terminal for KvTerminal<'_, S> {
    type Txn<'t>
        = KvTxn<'t, S>
    where
        Self: 't;

    fn begin(&mut self, _: Intent) -> StoreResult<Self::Txn<'_>> {
        Ok(KvTxn { txn: self.0.store.begin()?, trees: &self.0.trees })
    }
}

/// A transaction.
pub struct KvTxn<'t, S: Transactional + 't> {
    txn: S::Txn<'t>,
    trees: &'t Trees<S::Tree>,
}

impl<'t, S: Transactional> KvTxn<'t, S> {
    fn find<R: Row>(&mut self, tree: &S::Tree, key: &Key) -> StoreResult<Option<R>> {
        self.txn.get(tree, key.bytes(), |value| R::parse(key.bytes(), value))?.transpose()
    }

    fn row<R: Row>(&mut self, tree: &S::Tree, key: &Key, what: &'static str) -> StoreResult<R> {
        self.find(tree, key)?.ok_or(StoreError::Missing(what))
    }

    fn store<R: Row>(&mut self, tree: &S::Tree, row: &R) -> StoreResult {
        self.txn.put(tree, row.key().bytes(), &row.value())
    }

    /// Passes all keys with this prefix and their values to `f`.
    fn each(
        &mut self,
        tree: &S::Tree,
        prefix: Key,
        mut f: impl FnMut(&[u8], &[u8]) -> StoreResult<bool>,
    ) -> StoreResult {
        let mut failed = None;
        let to = prefix.clone().past();
        self.txn.scan(tree, prefix.bytes(), to.bytes(), |k, v| match f(k, v) {
            Ok(more) => more,
            Err(e) => {
                failed = Some(e);
                false
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn each_row<R: Row>(&mut self, tree: &S::Tree, prefix: Key, f: Each<'_, R>) -> StoreResult {
        self.each(tree, prefix, |k, v| {
            f(R::parse(k, v)?);
            Ok(true)
        })
    }

    fn count(&mut self, tree: &S::Tree, prefix: Key) -> StoreResult<u64> {
        let mut n = 0;
        self.each(tree, prefix, |_, _| {
            n += 1;
            Ok(true)
        })?;
        Ok(n)
    }
}

impl<'t, S: Transactional> TpccTxn for KvTxn<'t, S> {
    fn warehouse(&mut self, w: W) -> StoreResult<Warehouse> {
        self.row(&self.trees.warehouse, &Key::w(w), "the warehouse")
    }

    fn pay_warehouse(&mut self, w: W, amount: i64) -> StoreResult<Warehouse> {
        let mut row = self.warehouse(w)?;
        row.ytd += amount;
        self.store(&self.trees.warehouse, &row)?;
        Ok(row)
    }

    fn district(&mut self, w: W, d: D) -> StoreResult<District> {
        self.row(&self.trees.district, &Key::wd(w, d), "the district")
    }

    fn pay_district(&mut self, w: W, d: D, amount: i64) -> StoreResult<District> {
        let mut row = self.district(w, d)?;
        row.ytd += amount;
        self.store(&self.trees.district, &row)?;
        Ok(row)
    }

    fn take_order_number(&mut self, w: W, d: D) -> StoreResult<District> {
        let mut row = self.district(w, d)?;
        row.next_o += 1;
        self.store(&self.trees.district, &row)?;
        row.next_o -= 1;
        Ok(row)
    }

    fn customer(&mut self, w: W, d: D, c: C) -> StoreResult<Customer> {
        self.row(&self.trees.customer, &Key::wdc(w, d, c), "the customer")
    }

    fn customers_named(&mut self, w: W, d: D, last: &str) -> StoreResult<Vec<C>> {
        let mut all = Vec::new();
        self.each(&self.trees.customer_name, Key::name(w, d, last), |key, _| {
            all.push(codec::named_customer(key)?);
            Ok(true)
        })?;
        Ok(all)
    }

    fn store_payment(&mut self, c: &Customer) -> StoreResult {
        self.store(&self.trees.customer, c)
    }

    fn deliver_to(&mut self, w: W, d: D, c: C, amount: i64) -> StoreResult {
        let mut row = self.customer(w, d, c)?;
        row.balance += amount;
        row.delivery_cnt += 1;
        self.store(&self.trees.customer, &row)
    }

    fn item(&mut self, i: I) -> StoreResult<Option<Item>> {
        self.find(&self.trees.item, &Key::item(i))
    }

    fn take_stock(&mut self, w: W, i: I, d: D, quantity: u8, remote: bool) -> StoreResult<[u8; 24]> {
        let mut row: Stock = self.row(&self.trees.stock, &Key::stock(w, i), "the stock")?;
        row.take(quantity, remote);
        self.store(&self.trees.stock, &row)?;
        Ok(row.dist[usize::from(d) - 1])
    }

    fn last_order(&mut self, w: W, d: D, c: C) -> StoreResult<Option<Order>> {
        let mut newest = None;
        self.each(&self.trees.orders_customer, Key::wdc(w, d, c), |key, _| {
            newest = Some(codec::customer_order(key)?);
            Ok(false)
        })?;
        newest.map(|o| self.row(&self.trees.orders, &Key::wdo(w, d, o), "an order of the index")).transpose()
    }

    fn order(&mut self, w: W, d: D, o: O) -> StoreResult<Option<Order>> {
        self.find(&self.trees.orders, &Key::wdo(w, d, o))
    }

    fn lines(&mut self, w: W, d: D, o: O) -> StoreResult<Vec<OrderLine>> {
        let mut all = Vec::new();
        self.each_row(&self.trees.order_line, Key::wdo(w, d, o), &mut |row| all.push(row))?;
        Ok(all)
    }

    fn oldest_new_order(&mut self, w: W, d: D) -> StoreResult<Option<O>> {
        let mut oldest = None;
        self.each(&self.trees.new_order, Key::wd(w, d), |key, _| {
            oldest = Some(codec::new_order(key)?.2);
            Ok(false)
        })?;
        Ok(oldest)
    }

    fn remove_new_order(&mut self, w: W, d: D, o: O) -> StoreResult {
        self.txn.delete(&self.trees.new_order, Key::wdo(w, d, o).bytes())
    }

    fn carry(&mut self, w: W, d: D, o: O, carrier: u8) -> StoreResult<C> {
        let mut row: Order = self.row(&self.trees.orders, &Key::wdo(w, d, o), "the order")?;
        row.carrier = Some(carrier);
        self.store(&self.trees.orders, &row)?;
        Ok(row.c)
    }

    fn deliver_lines(&mut self, w: W, d: D, o: O, date: i64) -> StoreResult<i64> {
        let mut sum = 0;
        for mut line in self.lines(w, d, o)? {
            line.delivered = Some(date);
            sum += line.amount;
            self.store(&self.trees.order_line, &line)?;
        }
        Ok(sum)
    }

    fn low_stock(&mut self, w: W, d: D, next: O, threshold: i16) -> StoreResult<u32> {
        let (from, to) = (Key::wdo(w, d, next.saturating_sub(RECENT_ORDERS)), Key::wdo(w, d, next));
        let (mut items, mut failed) = (Vec::new(), None);
        self.txn.scan(&self.trees.order_line, from.bytes(), to.bytes(), |k, v| {
            match OrderLine::parse(k, v) {
                Ok(line) => items.push(line.i),
                Err(e) => failed = Some(e),
            }
            failed.is_none()
        })?;
        failed.map_or(Ok(()), Err)?;
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for i in items {
            let key = Key::stock(w, i);
            let quantity = self.txn.get(&self.trees.stock, key.bytes(), codec::stock_quantity)?;
            let quantity = quantity.ok_or(StoreError::Missing("the stock"))??;
            low += u32::from(quantity < i64::from(threshold));
        }
        Ok(low)
    }

    fn add_warehouse(&mut self, row: &Warehouse) -> StoreResult {
        self.store(&self.trees.warehouse, row)
    }

    fn add_district(&mut self, row: &District) -> StoreResult {
        self.store(&self.trees.district, row)
    }

    fn add_customer(&mut self, row: &Customer) -> StoreResult {
        self.txn.put(&self.trees.customer_name, Key::customer_name(row).bytes(), &[])?;
        self.store(&self.trees.customer, row)
    }

    fn add_history(&mut self, row: &History) -> StoreResult {
        self.store(&self.trees.history, row)
    }

    fn add_order(&mut self, row: &Order) -> StoreResult {
        let key = Key::order_customer(row.w, row.d, row.c, row.o);
        self.txn.put(&self.trees.orders_customer, key.bytes(), &[])?;
        self.store(&self.trees.orders, row)
    }

    fn add_new_order(&mut self, w: W, d: D, o: O) -> StoreResult {
        self.txn.put(&self.trees.new_order, Key::wdo(w, d, o).bytes(), &[])
    }

    fn add_line(&mut self, row: &OrderLine) -> StoreResult {
        self.store(&self.trees.order_line, row)
    }

    fn add_item(&mut self, row: &Item) -> StoreResult {
        self.store(&self.trees.item, row)
    }

    fn add_stock(&mut self, row: &Stock) -> StoreResult {
        self.store(&self.trees.stock, row)
    }

    fn each_warehouse(&mut self, f: Each<'_, Warehouse>) -> StoreResult {
        self.each_row(&self.trees.warehouse, Key::default(), f)
    }

    fn each_district(&mut self, w: W, f: Each<'_, District>) -> StoreResult {
        self.each_row(&self.trees.district, Key::w(w), f)
    }

    fn each_customer(&mut self, w: W, f: Each<'_, Customer>) -> StoreResult {
        self.each_row(&self.trees.customer, Key::w(w), f)
    }

    fn each_history(&mut self, w: W, f: Each<'_, History>) -> StoreResult {
        self.each_row(&self.trees.history, Key::w(w), f)
    }

    fn each_order(&mut self, w: W, f: Each<'_, Order>) -> StoreResult {
        self.each_row(&self.trees.orders, Key::w(w), f)
    }

    fn each_new_order(&mut self, w: W, f: Each<'_, (D, O)>) -> StoreResult {
        self.each(&self.trees.new_order, Key::w(w), |key, _| {
            let (_, d, o) = codec::new_order(key)?;
            f((d, o));
            Ok(true)
        })
    }

    fn each_line(&mut self, w: W, f: Each<'_, OrderLine>) -> StoreResult {
        self.each_row(&self.trees.order_line, Key::w(w), f)
    }

    fn index_entries(&mut self, w: W) -> StoreResult<(u64, u64)> {
        let names = self.count(&self.trees.customer_name, Key::w(w))?;
        Ok((names, self.count(&self.trees.orders_customer, Key::w(w))?))
    }

    fn commit(self) -> StoreResult {
        self.txn.commit()
    }
}
