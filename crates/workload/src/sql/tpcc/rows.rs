//! Rows of the nine tables as values of SQL, in the order of the tables' columns.

use crate::sql::value::Columns;
use crate::sql::{Row, Value};
use crate::store::{StoreError, StoreResult};
use crate::tpcc::rows::{
    Address, Customer, District, History, Item, Order, OrderLine, Stock, TableRow, Warehouse,
};

/// The table of a row, and its values.
pub(super) fn encode(row: &TableRow) -> (&'static str, Row) {
    match row {
        TableRow::Warehouse(w) => ("warehouse", warehouse_values(w)),
        TableRow::District(d) => ("district", district_values(d)),
        TableRow::Customer(c) => ("customer", customer_values(c)),
        TableRow::History(h) => ("history", history_values(h)),
        TableRow::NewOrder(w, d, o) => ("new_order", vec![(*w).into(), (*d).into(), (*o).into()]),
        TableRow::Order(o) => ("orders", order_values(o)),
        TableRow::OrderLine(l) => ("order_line", line_values(l)),
        TableRow::Item(i) => ("item", item_values(i)),
        TableRow::Stock(s) => ("stock", stock_values(s)),
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}

fn address(a: &Address) -> [Value; 5] {
    [&a.street_1, &a.street_2, &a.city, &a.state, &a.zip].map(|text| text.as_str().into())
}

fn optional<T: Copy + Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Null, Into::into)
}

fn warehouse_values(w: &Warehouse) -> Row {
    let head = [w.w.into(), w.name.as_str().into()];
    head.into_iter().chain(address(&w.address)).chain([w.tax.into(), w.ytd.into()]).collect()
}

fn district_values(d: &District) -> Row {
    let head = [d.w.into(), d.d.into(), d.name.as_str().into()];
    let tail = [d.tax.into(), d.ytd.into(), d.next_o.into()];
    head.into_iter().chain(address(&d.address)).chain(tail).collect()
}

fn customer_values(c: &Customer) -> Row {
    let names = [&c.first, &c.middle, &c.last].map(|name| name.as_str().into());
    let tail = [
        c.phone.as_str().into(),
        Value::Time(c.since),
        if c.bad_credit { BAD } else { GOOD }.into(),
        c.credit_lim.into(),
        c.discount.into(),
        c.balance.into(),
        c.ytd_payment.into(),
        c.payment_cnt.into(),
        c.delivery_cnt.into(),
        c.data.as_str().into(),
    ];
    let head = [c.w.into(), c.d.into(), c.c.into()];
    head.into_iter().chain(names).chain(address(&c.address)).chain(tail).collect()
}

/// C_CREDIT of a customer who pays, and of one who does not.
const GOOD: &str = "GC";
const BAD: &str = "BC";

pub(super) fn history_values(h: &History) -> Row {
    let numbers = [h.c.into(), h.c_d.into(), h.c_w.into(), h.d.into(), h.w.into()];
    numbers.into_iter().chain([Value::Time(h.date), h.amount.into(), h.data.as_str().into()]).collect()
}

pub(super) fn order_values(o: &Order) -> Row {
    vec![
        o.w.into(),
        o.d.into(),
        o.o.into(),
        o.c.into(),
        Value::Time(o.entry),
        optional(o.carrier),
        o.lines.into(),
        u8::from(o.all_local).into(),
    ]
}

pub(super) fn line_values(l: &OrderLine) -> Row {
    vec![
        l.w.into(),
        l.d.into(),
        l.o.into(),
        l.number.into(),
        l.i.into(),
        l.supply_w.into(),
        l.delivered.map_or(Value::Null, Value::Time),
        l.quantity.into(),
        l.amount.into(),
        text(&l.dist_info),
    ]
}

fn item_values(i: &Item) -> Row {
    vec![i.i.into(), i.image.into(), i.name.as_str().into(), i.price.into(), i.data.as_str().into()]
}

fn stock_values(s: &Stock) -> Row {
    let head = [s.w.into(), s.i.into(), s.quantity.into()];
    let tail = [s.ytd.into(), s.order_cnt.into(), s.remote_cnt.into(), s.data.as_str().into()];
    head.into_iter().chain(s.dist.iter().map(|d| text(d))).chain(tail).collect()
}

/// A row that is read from the values of all columns of its table.
pub(super) trait Decode: Sized {
    fn decode(from: &mut Columns) -> StoreResult<Self>;
}

impl Decode for Address {
    fn decode(from: &mut Columns) -> StoreResult<Self> {
        Ok(Self {
            street_1: from.text()?,
            street_2: from.text()?,
            city: from.text()?,
            state: from.text()?,
            zip: from.text()?,
        })
    }
}

impl Decode for Warehouse {
    fn decode(from: &mut Columns) -> StoreResult<Self> {
        Ok(Self {
            w: from.number()?,
            name: from.text()?,
            address: Address::decode(from)?,
            tax: from.number()?,
            ytd: from.number()?,
        })
    }
}

impl Decode for District {
    fn decode(from: &mut Columns) -> StoreResult<Self> {
        Ok(Self {
            w: from.number()?,
            d: from.number()?,
            name: from.text()?,
            address: Address::decode(from)?,
            tax: from.number()?,
            ytd: from.number()?,
            next_o: from.number()?,
        })
    }
}

impl Decode for Customer {
    fn decode(from: &mut Columns) -> StoreResult<Self> {
        Ok(Self {
            w: from.number()?,
            d: from.number()?,
            c: from.number()?,
            first: from.text()?,
            middle: from.text()?,
            last: from.text()?,
            address: Address::decode(from)?,
            phone: from.text()?,
            since: from.number()?,
            bad_credit: from.text()? == BAD,
            credit_lim: from.number()?,
            discount: from.number()?,
            balance: from.number()?,
            ytd_payment: from.number()?,
            payment_cnt: from.number()?,
            delivery_cnt: from.number()?,
            data: from.text()?,
        })
    }
}

impl Decode for History {
    fn decode(from: &mut Columns) -> StoreResult<Self> {
        let (c, c_d, c_w) = (from.number()?, from.number()?, from.number()?);
        let (d, w, date) = (from.number()?, from.number()?, from.number()?);
        // The table has no column of terminals, as in the standard.
        Ok(Self { w, d, date, terminal: 0, c_w, c_d, c, amount: from.number()?, data: from.text()? })
    }
}

impl Decode for Order {
    fn decode(from: &mut Columns) -> StoreResult<Self> {
        Ok(Self {
            w: from.number()?,
            d: from.number()?,
            o: from.number()?,
            c: from.number()?,
            entry: from.number()?,
            carrier: from.optional()?,
            lines: from.number()?,
            all_local: from.number::<u8>()? == 1,
        })
    }
}

impl Decode for OrderLine {
    fn decode(from: &mut Columns) -> StoreResult<Self> {
        Ok(Self {
            w: from.number()?,
            d: from.number()?,
            o: from.number()?,
            number: from.number()?,
            i: from.number()?,
            supply_w: from.number()?,
            delivered: from.optional()?,
            quantity: from.number()?,
            amount: from.number()?,
            dist_info: dist(&from.text()?)?,
        })
    }
}

impl Decode for Item {
    fn decode(from: &mut Columns) -> StoreResult<Self> {
        Ok(Self {
            i: from.number()?,
            image: from.number()?,
            name: from.text()?,
            price: from.number()?,
            data: from.text()?,
        })
    }
}

/// S_DIST or OL_DIST_INFO.
pub(super) fn dist(text: &str) -> StoreResult<[u8; 24]> {
    text.as_bytes().try_into().map_err(|_| StoreError::Damaged("a text does not have 24 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back<R: Decode + PartialEq + std::fmt::Debug>(row: TableRow, expected: &R) {
        let (_, values) = encode(&row);
        assert_eq!(R::decode(&mut Columns::of(values)).unwrap(), *expected);
    }

    #[test]
    fn rows_are_what_their_values_say() {
        let address = Address { street_1: "a".into(), zip: "123411111".into(), ..Address::default() };
        let warehouse = Warehouse { w: 3, name: "n".into(), address: address.clone(), tax: 2000, ytd: -5 };
        back(TableRow::Warehouse(warehouse.clone()), &warehouse);
        let district = District {
            w: 3,
            d: 10,
            name: "n".into(),
            address: address.clone(),
            tax: 1,
            ytd: 2,
            next_o: 3001,
        };
        back(TableRow::District(district.clone()), &district);
        let customer = Customer {
            w: 1,
            d: 2,
            c: 3000,
            first: "f".into(),
            middle: "OE".into(),
            last: "BARBARBAR".into(),
            address,
            phone: "0".repeat(16),
            since: 1_700_000_000_000_000,
            bad_credit: true,
            credit_lim: 5_000_000,
            discount: 5000,
            balance: -1000,
            ytd_payment: 1000,
            payment_cnt: 1,
            delivery_cnt: 0,
            data: "d".into(),
        };
        back(TableRow::Customer(customer.clone()), &customer);
        let order = Order { w: 1, d: 2, o: 3, c: 4, entry: 5, carrier: None, lines: 6, all_local: true };
        back(TableRow::Order(order.clone()), &order);
        let line = OrderLine {
            w: 1,
            d: 2,
            o: 3,
            number: 15,
            i: 100_000,
            supply_w: 4,
            delivered: Some(7),
            quantity: 10,
            amount: 999_999,
            dist_info: [b'x'; 24],
        };
        back(TableRow::OrderLine(line.clone()), &line);
        let item = Item { i: 1, image: 2, name: "n".into(), price: 3, data: "d".into() };
        back(TableRow::Item(item.clone()), &item);
    }

    #[test]
    fn rows_of_other_types_are_told() {
        let decode = |row: Row| District::decode(&mut Columns::of(row));
        assert!(matches!(decode(vec![Value::Int(1)]), Err(StoreError::Damaged(_))));
        assert!(matches!(decode(vec![Value::Int(1), Value::Int(300)]), Err(StoreError::Damaged(_))));
        assert!(matches!(decode(vec![Value::from("1")]), Err(StoreError::Damaged(_))));
    }
}
