//! The statements of TPC-C's transactions on a connection.

use super::rows::{self, Decode, dist, history_values, line_values, order_values};
use super::statements::{Name, STOCK, TEXTS};
use crate::sql::value::Columns;
use crate::sql::{Answer, Row, SqlConnection, Statement, Style, Value};
use crate::store::{Intent, StoreError, StoreResult};
use crate::tpcc::rows::{
    C, Customer, D, District, History, I, Item, O, Order, OrderLine, Stock, TableRow, W, Warehouse,
};
use crate::tpcc::store::{Each, Terminal, TpccTxn};

/// The number of recent orders in Stock-Level.
const RECENT_ORDERS: O = 20;

/// A terminal: a connection with its statements.
pub struct SqlTerminal<'a> {
    connection: Box<dyn SqlConnection + 'a>,
    /// In the order of [`TEXTS`].
    statements: Vec<Statement>,
}

impl<'a> SqlTerminal<'a> {
    /// A terminal on a connection.
    ///
    /// # Errors
    /// When a statement cannot be prepared.
    pub fn new(mut connection: Box<dyn SqlConnection + 'a>, style: Style) -> StoreResult<Self> {
        let statements = TEXTS
            .iter()
            .map(|text| Statement::new(&mut *connection, style, text))
            .collect::<StoreResult<_>>()?;
        Ok(Self { connection, statements })
    }
}

impl Terminal for SqlTerminal<'_> {
    type Txn<'t>
        = SqlTxn<'t>
    where
        Self: 't;

    fn begin(&mut self, intent: Intent) -> StoreResult<SqlTxn<'_>> {
        self.connection.begin(intent)?;
        Ok(SqlTxn { connection: &mut *self.connection, statements: &self.statements, open: true })
    }
}

/// A transaction of a terminal.
pub struct SqlTxn<'t> {
    connection: &'t mut (dyn SqlConnection + 't),
    statements: &'t [Statement],
    open: bool,
}

impl Drop for SqlTxn<'_> {
    fn drop(&mut self) {
        if self.open {
            // If the rollback fails, the next BEGIN returns the error.
            let _ = self.connection.rollback();
        }
    }
}

impl SqlTxn<'_> {
    fn execute(&mut self, name: Name, params: &[Value]) -> StoreResult<Answer> {
        self.statements[name as usize].execute(self.connection, params)
    }

    fn find<R: Decode>(&mut self, name: Name, params: &[Value]) -> StoreResult<Option<R>> {
        self.execute(name, params)?.row()?.map(|row| R::decode(&mut Columns::of(row))).transpose()
    }

    fn row<R: Decode>(&mut self, name: Name, params: &[Value], what: &'static str) -> StoreResult<R> {
        self.find(name, params)?.ok_or(StoreError::Missing(what))
    }

    /// The only number of a query's first row.
    fn number<N: TryFrom<i64>>(&mut self, name: Name, params: &[Value]) -> StoreResult<Option<N>> {
        self.execute(name, params)?.row()?.map(|row| Columns::of(row).number()).transpose()
    }

    /// Changes one row, which must exist.
    fn change(&mut self, name: Name, params: &[Value], what: &'static str) -> StoreResult {
        match self.execute(name, params)?.count()? {
            1 => Ok(()),
            0 => Err(StoreError::Missing(what)),
            _ => Err(StoreError::Damaged("a statement by key changed several rows")),
        }
    }

    fn insert(&mut self, row: &TableRow) -> StoreResult {
        let (table, values) = rows::encode(row);
        let params: Vec<String> = (1..=values.len()).map(|n| format!("${n}")).collect();
        let text = format!("INSERT INTO {table} VALUES ({})", params.join(", "));
        Statement::new(self.connection, Style::Text, &text)?.execute(self.connection, &values)?;
        Ok(())
    }

    fn each(&mut self, sql: &str, f: &mut dyn FnMut(Row) -> StoreResult) -> StoreResult {
        self.connection.execute_text(sql)?.rows()?.into_iter().try_for_each(f)
    }

    fn each_row<R: Decode>(&mut self, sql: &str, f: Each<'_, R>) -> StoreResult {
        self.each(sql, &mut |row| {
            f(R::decode(&mut Columns::of(row))?);
            Ok(())
        })
    }
}

fn wd(w: W, d: D) -> [Value; 2] {
    [w.into(), d.into()]
}

fn wdc(w: W, d: D, c: C) -> [Value; 3] {
    [w.into(), d.into(), c.into()]
}

fn wdo(w: W, d: D, o: O) -> [Value; 3] {
    [w.into(), d.into(), o.into()]
}

impl TpccTxn for SqlTxn<'_> {
    fn warehouse(&mut self, w: W) -> StoreResult<Warehouse> {
        self.row(Name::Warehouse, &[w.into()], "the warehouse")
    }

    fn pay_warehouse(&mut self, w: W, amount: i64) -> StoreResult<Warehouse> {
        self.change(Name::PayWarehouse, &[w.into(), amount.into()], "the warehouse")?;
        self.warehouse(w)
    }

    fn district(&mut self, w: W, d: D) -> StoreResult<District> {
        self.row(Name::District, &wd(w, d), "the district")
    }

    fn pay_district(&mut self, w: W, d: D, amount: i64) -> StoreResult<District> {
        self.change(Name::PayDistrict, &[w.into(), d.into(), amount.into()], "the district")?;
        self.district(w, d)
    }

    fn take_order_number(&mut self, w: W, d: D) -> StoreResult<District> {
        let row = self.district(w, d)?;
        self.change(Name::TakeOrderNumber, &wd(w, d), "the district")?;
        Ok(row)
    }

    fn customer(&mut self, w: W, d: D, c: C) -> StoreResult<Customer> {
        self.row(Name::Customer, &wdc(w, d, c), "the customer")
    }

    fn customers_named(&mut self, w: W, d: D, last: &str) -> StoreResult<Vec<C>> {
        let found = self.execute(Name::CustomersNamed, &[w.into(), d.into(), last.into()])?.rows()?;
        found.into_iter().map(|row| Columns::of(row).number()).collect()
    }

    fn store_payment(&mut self, c: &Customer) -> StoreResult {
        let mut params = wdc(c.w, c.d, c.c).to_vec();
        params.extend([c.balance.into(), c.ytd_payment.into(), c.payment_cnt.into()]);
        if !c.bad_credit {
            return self.change(Name::StorePayment, &params, "the customer");
        }
        params.push(c.data.as_str().into());
        self.change(Name::StorePaymentWithData, &params, "the customer")
    }

    fn deliver_to(&mut self, w: W, d: D, c: C, amount: i64) -> StoreResult {
        self.change(Name::DeliverTo, &[w.into(), d.into(), c.into(), amount.into()], "the customer")
    }

    fn item(&mut self, i: I) -> StoreResult<Option<Item>> {
        self.find(Name::Item, &[i.into()])
    }

    fn take_stock(&mut self, w: W, i: I, d: D, quantity: u8, remote: bool) -> StoreResult<[u8; 24]> {
        let name = STOCK[usize::from(d) - 1];
        let found = self.execute(name, &[w.into(), i.into()])?.row()?;
        let mut columns = Columns::of(found.ok_or(StoreError::Missing("the stock"))?);
        let mut stock = Stock {
            w,
            i,
            quantity: columns.number()?,
            dist: [[0; 24]; 10],
            ytd: columns.number()?,
            order_cnt: columns.number()?,
            remote_cnt: columns.number()?,
            data: String::new(),
        };
        stock.take(quantity, remote);
        let params = [
            w.into(),
            i.into(),
            stock.quantity.into(),
            stock.ytd.into(),
            stock.order_cnt.into(),
            stock.remote_cnt.into(),
        ];
        self.change(Name::StoreStock, &params, "the stock")?;
        dist(&columns.text()?)
    }

    fn last_order(&mut self, w: W, d: D, c: C) -> StoreResult<Option<Order>> {
        self.find(Name::LastOrder, &wdc(w, d, c))
    }

    fn order(&mut self, w: W, d: D, o: O) -> StoreResult<Option<Order>> {
        self.find(Name::Order, &wdo(w, d, o))
    }

    fn lines(&mut self, w: W, d: D, o: O) -> StoreResult<Vec<OrderLine>> {
        let found = self.execute(Name::Lines, &wdo(w, d, o))?.rows()?;
        found.into_iter().map(|row| OrderLine::decode(&mut Columns::of(row))).collect()
    }

    fn oldest_new_order(&mut self, w: W, d: D) -> StoreResult<Option<O>> {
        self.number(Name::OldestNewOrder, &wd(w, d))
    }

    fn remove_new_order(&mut self, w: W, d: D, o: O) -> StoreResult {
        self.change(Name::RemoveNewOrder, &wdo(w, d, o), "the new order")
    }

    fn carry(&mut self, w: W, d: D, o: O, carrier: u8) -> StoreResult<C> {
        self.change(Name::Carry, &[w.into(), d.into(), o.into(), carrier.into()], "the order")?;
        self.number(Name::CarriedFor, &wdo(w, d, o))?.ok_or(StoreError::Missing("the order"))
    }

    fn deliver_lines(&mut self, w: W, d: D, o: O, date: i64) -> StoreResult<i64> {
        let params = [w.into(), d.into(), o.into(), Value::Time(date)];
        if self.execute(Name::DeliverLines, &params)?.count()? == 0 {
            return Err(StoreError::Missing("the lines of the order"));
        }
        self.number(Name::Amount, &wdo(w, d, o))?.ok_or(StoreError::Missing("the lines of the order"))
    }

    fn low_stock(&mut self, w: W, d: D, next: O, threshold: i16) -> StoreResult<u32> {
        let from = next.saturating_sub(RECENT_ORDERS);
        let params = [w.into(), d.into(), from.into(), next.into(), threshold.into()];
        self.number(Name::LowStock, &params)?.ok_or(StoreError::Damaged("a count has no row"))
    }

    fn add_warehouse(&mut self, row: &Warehouse) -> StoreResult {
        self.insert(&TableRow::Warehouse(row.clone()))
    }

    fn add_district(&mut self, row: &District) -> StoreResult {
        self.insert(&TableRow::District(row.clone()))
    }

    fn add_customer(&mut self, row: &Customer) -> StoreResult {
        self.insert(&TableRow::Customer(row.clone()))
    }

    fn add_history(&mut self, row: &History) -> StoreResult {
        self.change(Name::AddHistory, &history_values(row), "an inserted row")
    }

    fn add_order(&mut self, row: &Order) -> StoreResult {
        self.change(Name::AddOrder, &order_values(row), "an inserted row")
    }

    fn add_new_order(&mut self, w: W, d: D, o: O) -> StoreResult {
        self.change(Name::AddNewOrder, &wdo(w, d, o), "an inserted row")
    }

    fn add_line(&mut self, row: &OrderLine) -> StoreResult {
        self.change(Name::AddLine, &line_values(row), "an inserted row")
    }

    fn add_item(&mut self, row: &Item) -> StoreResult {
        self.insert(&TableRow::Item(row.clone()))
    }

    fn add_stock(&mut self, row: &Stock) -> StoreResult {
        self.insert(&TableRow::Stock(row.clone()))
    }

    fn each_warehouse(&mut self, f: Each<'_, Warehouse>) -> StoreResult {
        self.each_row("SELECT * FROM warehouse", f)
    }

    fn each_district(&mut self, w: W, f: Each<'_, District>) -> StoreResult {
        self.each_row(&format!("SELECT * FROM district WHERE d_w_id = {w}"), f)
    }

    fn each_customer(&mut self, w: W, f: Each<'_, Customer>) -> StoreResult {
        self.each_row(&format!("SELECT * FROM customer WHERE c_w_id = {w}"), f)
    }

    fn each_history(&mut self, w: W, f: Each<'_, History>) -> StoreResult {
        self.each_row(&format!("SELECT * FROM history WHERE h_w_id = {w}"), f)
    }

    fn each_order(&mut self, w: W, f: Each<'_, Order>) -> StoreResult {
        self.each_row(&format!("SELECT * FROM orders WHERE o_w_id = {w}"), f)
    }

    fn each_new_order(&mut self, w: W, f: Each<'_, (D, O)>) -> StoreResult {
        self.each(&format!("SELECT no_d_id, no_o_id FROM new_order WHERE no_w_id = {w}"), &mut |row| {
            let mut columns = Columns::of(row);
            f((columns.number()?, columns.number()?));
            Ok(())
        })
    }

    fn each_line(&mut self, w: W, f: Each<'_, OrderLine>) -> StoreResult {
        let order = "ORDER BY ol_d_id, ol_o_id, ol_number";
        self.each_row(&format!("SELECT * FROM order_line WHERE ol_w_id = {w} {order}"), f)
    }

    /// The rows that are found by the indexes' columns. SQL shows no entries.
    fn index_entries(&mut self, w: W) -> StoreResult<(u64, u64)> {
        let mut count = |sql: String| {
            let row = self.connection.execute_text(&sql)?.row()?;
            Columns::of(row.ok_or(StoreError::Damaged("a count has no row"))?).number()
        };
        let names = count(format!("SELECT count(*) FROM customer WHERE c_w_id = {w} AND c_last >= ''"))?;
        let orders = count(format!("SELECT count(*) FROM orders WHERE o_w_id = {w} AND o_c_id >= 0"))?;
        Ok((names, orders))
    }

    fn commit(mut self) -> StoreResult {
        // The connection's transaction has ended when its commit returns.
        self.open = false;
        self.connection.commit()
    }
}
