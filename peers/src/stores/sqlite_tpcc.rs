//! TPC-C in SQLite, tuned for speed: keys of several numbers are packed into rowids, statements are prepared once per
//! connection, updates return the changed rows, writers wait for a lock and use BEGIN IMMEDIATE, and readers run at
//! the same time.
//!
//! ```text
//!   rowid:  warehouse w | district w d | customer w d c | order w d o | order line w d o number | stock w i
//!   index:  customer (w d, last, first) | order (w d c, o)
//! ```

use std::path::Path;

use lode_workload::store::{StoreError, StoreResult};
use lode_workload::tpcc::rows::{
    Address, C, Customer, D, District, History, I, Item, O, Order, OrderLine, Stock, W, Warehouse,
};
use lode_workload::tpcc::store::{Each, Intent, Terminal, TpccStore, TpccTxn};
use parking_lot::MutexGuard;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::sqlite::{Connections, PooledConnection, failed};

const SCHEMA: &str = "
CREATE TABLE warehouse (id INTEGER PRIMARY KEY, ytd INTEGER, tax INTEGER, name TEXT,
    street_1 TEXT, street_2 TEXT, city TEXT, state TEXT, zip TEXT);
CREATE TABLE district (id INTEGER PRIMARY KEY, next_o INTEGER, ytd INTEGER, tax INTEGER, name TEXT,
    street_1 TEXT, street_2 TEXT, city TEXT, state TEXT, zip TEXT);
CREATE TABLE customer (id INTEGER PRIMARY KEY, balance INTEGER, ytd_payment INTEGER, payment_cnt INTEGER,
    delivery_cnt INTEGER, bad_credit INTEGER, credit_lim INTEGER, discount INTEGER, since INTEGER,
    first TEXT, middle TEXT, last TEXT,
    street_1 TEXT, street_2 TEXT, city TEXT, state TEXT, zip TEXT, phone TEXT, data TEXT, district INTEGER);
CREATE INDEX customer_name ON customer (district, last, first);
CREATE TABLE history (w INTEGER, d INTEGER, date INTEGER, terminal INTEGER, c_w INTEGER, c_d INTEGER, c INTEGER,
    amount INTEGER, data TEXT);
CREATE TABLE new_order (id INTEGER PRIMARY KEY);
CREATE TABLE orders (id INTEGER PRIMARY KEY, c INTEGER, carrier INTEGER, lines INTEGER, all_local INTEGER,
    entry INTEGER, customer INTEGER);
CREATE INDEX orders_customer ON orders (customer, id);
CREATE TABLE order_line (id INTEGER PRIMARY KEY, delivered INTEGER, i INTEGER, supply_w INTEGER, quantity INTEGER,
    amount INTEGER, dist_info BLOB);
CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER, image INTEGER, name TEXT, data TEXT);
CREATE TABLE stock (id INTEGER PRIMARY KEY, quantity INTEGER, ytd INTEGER, order_cnt INTEGER, remote_cnt INTEGER,
    d1 BLOB, d2 BLOB, d3 BLOB, d4 BLOB, d5 BLOB, d6 BLOB, d7 BLOB, d8 BLOB, d9 BLOB, d10 BLOB, data TEXT);
";

/// The number of recent orders in Stock-Level.
const RECENT_ORDERS: O = 20;

fn wd(w: W, d: D) -> i64 {
    i64::from(w) << 8 | i64::from(d)
}

fn wdc(w: W, d: D, c: C) -> i64 {
    wd(w, d) << 16 | i64::from(c)
}

fn wdo(w: W, d: D, o: O) -> i64 {
    wd(w, d) << 32 | i64::from(o)
}

fn line_id(w: W, d: D, o: O, number: u8) -> i64 {
    // The key has 64 bits. With fewer than 32,768 warehouses it is not negative, so the order is kept.
    wdo(w, d, o) << 8 | i64::from(number)
}

fn stock_id(w: W, i: I) -> i64 {
    i64::from(w) << 32 | i64::from(i)
}

/// TPC-C in one SQLite database.
pub(crate) struct SqliteTpcc(Connections);

impl SqliteTpcc {
    pub(crate) fn new(dir: &Path, cache_bytes: usize) -> StoreResult<Self> {
        Ok(Self(Connections::new(dir, cache_bytes, SCHEMA)?))
    }
}

impl TpccStore for SqliteTpcc {
    type Terminal<'a> = SqliteTerminal<'a>;

    fn terminal(&self) -> StoreResult<SqliteTerminal<'_>> {
        Ok(SqliteTerminal { all: &self.0, held: PooledConnection::new(&self.0)? })
    }
}

pub(crate) struct SqliteTerminal<'a> {
    all: &'a Connections,
    held: PooledConnection<'a>,
}

impl Terminal for SqliteTerminal<'_> {
    type Txn<'t>
        = SqliteTxn<'t>
    where
        Self: 't;

    fn begin(&mut self, intent: Intent) -> StoreResult<SqliteTxn<'_>> {
        let writer = (intent == Intent::Write).then(|| self.all.writer());
        let sql = if writer.is_some() { "BEGIN IMMEDIATE" } else { "BEGIN" };
        let c = self.held.get();
        c.prepare_cached(sql).and_then(|mut s| s.execute([])).map_err(failed)?;
        Ok(SqliteTxn { c, open: true, _writer: writer })
    }
}

pub(crate) struct SqliteTxn<'t> {
    c: &'t Connection,
    open: bool,
    _writer: Option<MutexGuard<'t, ()>>,
}

impl Drop for SqliteTxn<'_> {
    fn drop(&mut self) {
        if self.open {
            // If the rollback fails, the next BEGIN returns the error.
            let _ = self.c.prepare_cached("ROLLBACK").and_then(|mut s| s.execute([]));
        }
    }
}

impl SqliteTxn<'_> {
    fn find<R>(
        &self,
        sql: &str,
        params: impl Params,
        f: impl FnOnce(&Row<'_>) -> rusqlite::Result<R>,
    ) -> StoreResult<Option<R>> {
        self.c.prepare_cached(sql).and_then(|mut s| s.query_row(params, f).optional()).map_err(failed)
    }

    fn one<R>(
        &self,
        sql: &str,
        params: impl Params,
        f: impl FnOnce(&Row<'_>) -> rusqlite::Result<R>,
        what: &'static str,
    ) -> StoreResult<R> {
        self.find(sql, params, f)?.ok_or(StoreError::Missing(what))
    }

    fn run(&self, sql: &str, params: impl Params) -> StoreResult<usize> {
        self.c.prepare_cached(sql).and_then(|mut s| s.execute(params)).map_err(failed)
    }

    /// Passes all rows of a query to `f`.
    fn rows<R>(
        &self,
        sql: &str,
        params: impl Params,
        row: impl Fn(&Row<'_>) -> rusqlite::Result<R>,
        f: Each<'_, R>,
    ) -> StoreResult {
        let all = || {
            let mut statement = self.c.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(r) = rows.next()? {
                f(row(r)?);
            }
            Ok(())
        };
        all().map_err(failed)
    }
}

/// Implements a row from the columns of a table. The first column is a number.
macro_rules! table {
    ($make:ident, $columns:ident: $first:ident $($column:ident)* => $row:ident { $($fields:tt)* }) => {
        macro_rules! $columns {
            () => {
                concat!(stringify!($first) $(, ", ", stringify!($column))*)
            };
        }

        fn $make(r: &Row<'_>) -> rusqlite::Result<$row> {
            let mut at = 0;
            let $first: i64 = r.get(at)?;
            $(
                at += 1;
                let $column = r.get(at)?;
            )*
            Ok($row { $($fields)* })
        }
    };
}

table!(warehouse, warehouse_columns: id ytd tax name street_1 street_2 city state zip => Warehouse {
    w: id as W, ytd, tax, name, address: Address { street_1, street_2, city, state, zip }
});
table!(district, district_columns: id next_o ytd tax name street_1 street_2 city state zip => District {
    w: (id >> 8) as W, d: id as D, next_o, ytd, tax, name, address: Address { street_1, street_2, city, state, zip }
});
table!(customer, customer_columns: id balance ytd_payment payment_cnt delivery_cnt bad_credit credit_lim discount since
    first middle last street_1 street_2 city state zip phone data => Customer {
    w: (id >> 24) as W, d: (id >> 16) as D, c: id as C,
    balance, ytd_payment, payment_cnt, delivery_cnt, bad_credit, credit_lim, discount, since, first, middle, last,
    address: Address { street_1, street_2, city, state, zip }, phone, data
});
table!(history, history_columns: w d date terminal c_w c_d c amount data => History {
    w: w as W, d, date, terminal, c_w, c_d, c, amount, data
});
table!(order, order_columns: id c carrier lines all_local entry => Order {
    w: (id >> 40) as W, d: (id >> 32) as D, o: id as O, c, carrier, lines, all_local, entry
});
table!(line, line_columns: id delivered i supply_w quantity amount dist_info => OrderLine {
    w: (id >> 48) as W, d: (id >> 40) as D, o: (id >> 8) as O, number: id as u8,
    delivered, i, supply_w, quantity, amount, dist_info
});

impl TpccTxn for SqliteTxn<'_> {
    fn warehouse(&mut self, w: W) -> StoreResult<Warehouse> {
        self.one(
            concat!("SELECT ", warehouse_columns!(), " FROM warehouse WHERE id = ?"),
            [w],
            warehouse,
            "the warehouse",
        )
    }

    fn pay_warehouse(&mut self, w: W, amount: i64) -> StoreResult<Warehouse> {
        let sql = concat!("UPDATE warehouse SET ytd = ytd + ? WHERE id = ? RETURNING ", warehouse_columns!());
        self.one(sql, (amount, w), warehouse, "the warehouse")
    }

    fn district(&mut self, w: W, d: D) -> StoreResult<District> {
        let sql = concat!("SELECT ", district_columns!(), " FROM district WHERE id = ?");
        self.one(sql, [wd(w, d)], district, "the district")
    }

    fn pay_district(&mut self, w: W, d: D, amount: i64) -> StoreResult<District> {
        let sql = concat!("UPDATE district SET ytd = ytd + ? WHERE id = ? RETURNING ", district_columns!());
        self.one(sql, (amount, wd(w, d)), district, "the district")
    }

    fn take_order_number(&mut self, w: W, d: D) -> StoreResult<District> {
        let sql = "UPDATE district SET next_o = next_o + 1 WHERE id = ? \
            RETURNING id, next_o - 1, ytd, tax, name, street_1, street_2, city, state, zip";
        self.one(sql, [wd(w, d)], district, "the district")
    }

    fn customer(&mut self, w: W, d: D, c: C) -> StoreResult<Customer> {
        self.one(
            concat!("SELECT ", customer_columns!(), " FROM customer WHERE id = ?"),
            [wdc(w, d, c)],
            customer,
            "the customer",
        )
    }

    fn customers_named(&mut self, w: W, d: D, last: &str) -> StoreResult<Vec<C>> {
        let mut all = Vec::new();
        let sql = "SELECT id FROM customer WHERE district = ? AND last = ? ORDER BY first, id";
        self.rows(sql, (wd(w, d), last), |r| r.get::<_, i64>(0), &mut |id| all.push(id as C))?;
        Ok(all)
    }

    fn store_payment(&mut self, c: &Customer) -> StoreResult {
        let id = wdc(c.w, c.d, c.c);
        let changed = match c.bad_credit {
            true => self.run(
                "UPDATE customer SET balance = ?, ytd_payment = ?, payment_cnt = ?, data = ? WHERE id = ?",
                (c.balance, c.ytd_payment, c.payment_cnt, &c.data, id),
            ),
            false => self.run(
                "UPDATE customer SET balance = ?, ytd_payment = ?, payment_cnt = ? WHERE id = ?",
                (c.balance, c.ytd_payment, c.payment_cnt, id),
            ),
        };
        if changed? == 1 { Ok(()) } else { Err(StoreError::Missing("the customer")) }
    }

    fn deliver_to(&mut self, w: W, d: D, c: C, amount: i64) -> StoreResult {
        let sql = "UPDATE customer SET balance = balance + ?, delivery_cnt = delivery_cnt + 1 WHERE id = ?";
        self.run(sql, (amount, wdc(w, d, c))).map(drop)
    }

    fn item(&mut self, i: I) -> StoreResult<Option<Item>> {
        self.find("SELECT price, image, name, data FROM item WHERE id = ?", [i], |r| {
            Ok(Item { i, price: r.get(0)?, image: r.get(1)?, name: r.get(2)?, data: r.get(3)? })
        })
    }

    fn take_stock(&mut self, w: W, i: I, d: D, quantity: u8, remote: bool) -> StoreResult<[u8; 24]> {
        const TAKE: [&str; 10] = {
            macro_rules! take {
                ($($column:literal)*) => {
                    [$(concat!(
                        "UPDATE stock SET quantity = CASE WHEN quantity >= ?1 + 10 THEN quantity - ?1 \
                         ELSE quantity + 91 - ?1 END, ytd = ytd + ?1, order_cnt = order_cnt + 1, \
                         remote_cnt = remote_cnt + ?2 WHERE id = ?3 RETURNING ", $column
                    )),*]
                };
            }
            take!("d1" "d2" "d3" "d4" "d5" "d6" "d7" "d8" "d9" "d10")
        };
        let sql = TAKE[usize::from(d) - 1];
        self.one(sql, (quantity, remote, stock_id(w, i)), |r| r.get(0), "the stock")
    }

    fn last_order(&mut self, w: W, d: D, c: C) -> StoreResult<Option<Order>> {
        let sql =
            concat!("SELECT ", order_columns!(), " FROM orders WHERE customer = ? ORDER BY id DESC LIMIT 1");
        self.find(sql, [wdc(w, d, c)], order)
    }

    fn order(&mut self, w: W, d: D, o: O) -> StoreResult<Option<Order>> {
        self.find(concat!("SELECT ", order_columns!(), " FROM orders WHERE id = ?"), [wdo(w, d, o)], order)
    }

    fn lines(&mut self, w: W, d: D, o: O) -> StoreResult<Vec<OrderLine>> {
        let mut all = Vec::new();
        let sql =
            concat!("SELECT ", line_columns!(), " FROM order_line WHERE id >= ? AND id < ? ORDER BY id");
        self.rows(sql, (line_id(w, d, o, 0), line_id(w, d, o + 1, 0)), line, &mut |l| all.push(l))?;
        Ok(all)
    }

    fn oldest_new_order(&mut self, w: W, d: D) -> StoreResult<Option<O>> {
        let sql = "SELECT id FROM new_order WHERE id >= ? AND id < ? ORDER BY id LIMIT 1";
        let range = (wdo(w, d, 0), wdo(w, d, O::MAX));
        self.find(sql, range, |r| Ok(r.get::<_, i64>(0)? as O))
    }

    fn remove_new_order(&mut self, w: W, d: D, o: O) -> StoreResult {
        self.run("DELETE FROM new_order WHERE id = ?", [wdo(w, d, o)]).map(drop)
    }

    fn carry(&mut self, w: W, d: D, o: O, carrier: u8) -> StoreResult<C> {
        let sql = "UPDATE orders SET carrier = ? WHERE id = ? RETURNING c";
        self.one(sql, (carrier, wdo(w, d, o)), |r| r.get(0), "the order")
    }

    fn deliver_lines(&mut self, w: W, d: D, o: O, date: i64) -> StoreResult<i64> {
        let (from, to) = (line_id(w, d, o, 0), line_id(w, d, o + 1, 0));
        let mut sum = 0;
        let sql = "UPDATE order_line SET delivered = ? WHERE id >= ? AND id < ? RETURNING amount";
        self.rows(sql, (date, from, to), |r| r.get(0), &mut |amount: i64| sum += amount)?;
        Ok(sum)
    }

    fn low_stock(&mut self, w: W, d: D, next: O, threshold: i16) -> StoreResult<u32> {
        let sql = "SELECT count(DISTINCT l.i) FROM order_line l CROSS JOIN stock s ON s.id = ?1 + l.i \
            WHERE l.id >= ?2 AND l.id < ?3 AND s.quantity < ?4";
        let from = line_id(w, d, next.saturating_sub(RECENT_ORDERS), 0);
        let params = (stock_id(w, 0), from, line_id(w, d, next, 0), threshold);
        self.one(sql, params, |r| r.get(0), "a count")
    }

    fn add_warehouse(&mut self, r: &Warehouse) -> StoreResult {
        let a = &r.address;
        let sql = "INSERT INTO warehouse VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let params = (r.w, r.ytd, r.tax, &r.name, &a.street_1, &a.street_2, &a.city, &a.state, &a.zip);
        self.run(sql, params).map(drop)
    }

    fn add_district(&mut self, r: &District) -> StoreResult {
        let a = &r.address;
        let sql = "INSERT INTO district VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let id = wd(r.w, r.d);
        let params =
            (id, r.next_o, r.ytd, r.tax, &r.name, &a.street_1, &a.street_2, &a.city, &a.state, &a.zip);
        self.run(sql, params).map(drop)
    }

    fn add_customer(&mut self, r: &Customer) -> StoreResult {
        let a = &r.address;
        let sql = "INSERT INTO customer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let params = rusqlite::params![
            wdc(r.w, r.d, r.c),
            r.balance,
            r.ytd_payment,
            r.payment_cnt,
            r.delivery_cnt,
            r.bad_credit,
            r.credit_lim,
            r.discount,
            r.since,
            r.first,
            r.middle,
            r.last,
            a.street_1,
            a.street_2,
            a.city,
            a.state,
            a.zip,
            r.phone,
            r.data,
            wd(r.w, r.d),
        ];
        self.run(sql, params).map(drop)
    }

    fn add_history(&mut self, r: &History) -> StoreResult {
        let sql = "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let params = (r.w, r.d, r.date, r.terminal, r.c_w, r.c_d, r.c, r.amount, &r.data);
        self.run(sql, params).map(drop)
    }

    fn add_order(&mut self, r: &Order) -> StoreResult {
        let sql = "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)";
        let (id, customer) = (wdo(r.w, r.d, r.o), wdc(r.w, r.d, r.c));
        self.run(sql, (id, r.c, r.carrier, r.lines, r.all_local, r.entry, customer)).map(drop)
    }

    fn add_new_order(&mut self, w: W, d: D, o: O) -> StoreResult {
        self.run("INSERT INTO new_order VALUES (?)", [wdo(w, d, o)]).map(drop)
    }

    fn add_line(&mut self, r: &OrderLine) -> StoreResult {
        let sql = "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, ?)";
        let id = line_id(r.w, r.d, r.o, r.number);
        self.run(sql, (id, r.delivered, r.i, r.supply_w, r.quantity, r.amount, r.dist_info)).map(drop)
    }

    fn add_item(&mut self, r: &Item) -> StoreResult {
        self.run("INSERT INTO item VALUES (?, ?, ?, ?, ?)", (r.i, r.price, r.image, &r.name, &r.data))
            .map(drop)
    }

    fn add_stock(&mut self, r: &Stock) -> StoreResult {
        let sql = "INSERT INTO stock VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let d = &r.dist;
        let params = (
            stock_id(r.w, r.i),
            r.quantity,
            r.ytd,
            r.order_cnt,
            r.remote_cnt,
            d[0],
            d[1],
            d[2],
            d[3],
            d[4],
            d[5],
            d[6],
            d[7],
            d[8],
            d[9],
            &r.data,
        );
        self.run(sql, params).map(drop)
    }

    fn each_warehouse(&mut self, f: Each<'_, Warehouse>) -> StoreResult {
        self.rows(concat!("SELECT ", warehouse_columns!(), " FROM warehouse ORDER BY id"), [], warehouse, f)
    }

    fn each_district(&mut self, w: W, f: Each<'_, District>) -> StoreResult {
        let sql =
            concat!("SELECT ", district_columns!(), " FROM district WHERE id >= ? AND id < ? ORDER BY id");
        self.rows(sql, (wd(w, 0), wd(w + 1, 0)), district, f)
    }

    fn each_customer(&mut self, w: W, f: Each<'_, Customer>) -> StoreResult {
        let sql =
            concat!("SELECT ", customer_columns!(), " FROM customer WHERE id >= ? AND id < ? ORDER BY id");
        self.rows(sql, (wdc(w, 0, 0), wdc(w + 1, 0, 0)), customer, f)
    }

    fn each_history(&mut self, w: W, f: Each<'_, History>) -> StoreResult {
        let sql = concat!("SELECT ", history_columns!(), " FROM history WHERE w = ?");
        self.rows(sql, [w], history, f)
    }

    fn each_order(&mut self, w: W, f: Each<'_, Order>) -> StoreResult {
        let sql = concat!("SELECT ", order_columns!(), " FROM orders WHERE id >= ? AND id < ? ORDER BY id");
        self.rows(sql, (wdo(w, 0, 0), wdo(w + 1, 0, 0)), order, f)
    }

    fn each_new_order(&mut self, w: W, f: Each<'_, (D, O)>) -> StoreResult {
        let sql = "SELECT id FROM new_order WHERE id >= ? AND id < ? ORDER BY id";
        let row = |r: &Row<'_>| r.get(0).map(|id: i64| ((id >> 32) as D, id as O));
        self.rows(sql, (wdo(w, 0, 0), wdo(w + 1, 0, 0)), row, f)
    }

    fn each_line(&mut self, w: W, f: Each<'_, OrderLine>) -> StoreResult {
        let sql =
            concat!("SELECT ", line_columns!(), " FROM order_line WHERE id >= ? AND id < ? ORDER BY id");
        self.rows(sql, (line_id(w, 0, 0, 0), line_id(w + 1, 0, 0, 0)), line, f)
    }

    fn index_entries(&mut self, w: W) -> StoreResult<(u64, u64)> {
        let names =
            "SELECT count(*) FROM customer INDEXED BY customer_name WHERE district >= ? AND district < ?";
        let orders =
            "SELECT count(*) FROM orders INDEXED BY orders_customer WHERE customer >= ? AND customer < ?";
        let count = |r: &Row<'_>| Ok(r.get::<_, i64>(0)? as u64);
        let names = self.one(names, (wd(w, 0), wd(w + 1, 0)), count, "a count")?;
        Ok((names, self.one(orders, (wdc(w, 0, 0), wdc(w + 1, 0, 0)), count, "a count")?))
    }

    fn commit(mut self) -> StoreResult {
        self.run("COMMIT", [])?;
        self.open = false;
        Ok(())
    }
}
