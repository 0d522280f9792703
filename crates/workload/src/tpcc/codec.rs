//! Rows as values under keys that keep their order.
//!
//! ```text
//!   key:   numbers of a fixed width, the highest byte first; text filled up with 0 to its longest
//!   value: numbers of 7 bits a byte, the lowest first (signed ones zigzag), text and bytes behind their length
//! ```
//!
//! | tree | key | value |
//! |---|---|---|
//! | warehouse | w | all else |
//! | district | w d | |
//! | customer | w d c | |
//! | customer_name | w d last(16) first(16) c | nothing |
//! | history | w d date terminal | |
//! | new_order | w d o | nothing |
//! | orders | w d o | |
//! | orders_customer | w d c !o | nothing: the newest comes first |
//! | order_line | w d o number | |
//! | item | i | |
//! | stock | w i | |

use super::Sizes;
use super::rows::{
    Address, C, Customer, D, District, History, I, Item, O, Order, OrderLine, Stock, W, Warehouse,
};
use crate::store::{StoreError, StoreResult};

/// Longest C_LAST and C_FIRST.
const NAME_BYTES: usize = 16;

/// A key under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Key(Vec<u8>);

impl Key {
    pub(super) fn w(w: W) -> Self {
        let mut bytes = Vec::with_capacity(48);
        bytes.extend(w.to_be_bytes());
        Self(bytes)
    }

    pub(super) fn wd(w: W, d: D) -> Self {
        Self::w(w).with(&[d])
    }

    pub(super) fn wdc(w: W, d: D, c: C) -> Self {
        Self::wd(w, d).with(&c.to_be_bytes())
    }

    pub(super) fn wdo(w: W, d: D, o: O) -> Self {
        Self::wd(w, d).with(&o.to_be_bytes())
    }

    pub(super) fn line(w: W, d: D, o: O, number: u8) -> Self {
        Self::wdo(w, d, o).with(&[number])
    }

    pub(super) fn item(i: I) -> Self {
        Self(i.to_be_bytes().to_vec())
    }

    pub(super) fn stock(w: W, i: I) -> Self {
        Self::w(w).with(&i.to_be_bytes())
    }

    pub(super) fn name(w: W, d: D, last: &str) -> Self {
        Self::wd(w, d).text(last)
    }

    pub(super) fn customer_name(c: &Customer) -> Self {
        Self::name(c.w, c.d, &c.last).text(&c.first).with(&c.c.to_be_bytes())
    }

    pub(super) fn order_customer(w: W, d: D, c: C, o: O) -> Self {
        Self::wdc(w, d, c).with(&(!o).to_be_bytes())
    }

    pub(super) fn history(h: &History) -> Self {
        Self::wd(h.w, h.d).with(&h.date.cast_unsigned().to_be_bytes()).with(&h.terminal.to_be_bytes())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first key behind all that begin with this one.
    pub(super) fn past(mut self) -> Self {
        while self.0.pop_if(|b| *b == u8::MAX).is_some() {}
        match self.0.last_mut() {
            Some(last) => *last += 1,
            None => self.0.push(u8::MAX),
        }
        self
    }

    fn with(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, text: &str) -> Self {
        let mut field = [0; NAME_BYTES];
        let n = text.len().min(NAME_BYTES);
        field[..n].copy_from_slice(&text.as_bytes()[..n]);
        self.with(&field)
    }
}

/// Puts values together.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, n: impl Into<u64>) -> &mut Self {
        let mut n = n.into();
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
        self
    }

    fn signed(&mut self, n: i64) -> &mut Self {
        self.number(((n << 1) ^ (n >> 63)).cast_unsigned())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64).bytes(text.as_bytes())
    }

    fn address(&mut self, a: &Address) -> &mut Self {
        self.text(&a.street_1).text(&a.street_2).text(&a.city).text(&a.state).text(&a.zip)
    }

    fn done(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Takes keys and values apart.
struct Parser<'a>(&'a [u8]);

const ENDS: StoreError = StoreError::Damaged("it ends too early");

impl<'a> Parser<'a> {
    fn take(&mut self, n: usize) -> StoreResult<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(ENDS)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> StoreResult<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("so many bytes were taken"))
    }

    fn number(&mut self) -> StoreResult<u64> {
        let (mut n, mut shift) = (0u64, 0);
        loop {
            let [b] = self.array()?;
            n |= u64::from(b & 0x7F) << shift;
            if b < 0x80 {
                return Ok(n);
            }
            shift += 7;
            if shift > 63 {
                return Err(StoreError::Damaged("a number is too long"));
            }
        }
    }

    fn small<T: TryFrom<u64>>(&mut self) -> StoreResult<T> {
        T::try_from(self.number()?).map_err(|_| StoreError::Damaged("a number is too large"))
    }

    fn signed(&mut self) -> StoreResult<i64> {
        let n = self.number()?;
        Ok((n >> 1).cast_signed() ^ -(n & 1).cast_signed())
    }

    fn text(&mut self) -> StoreResult<String> {
        let len = self.small::<usize>()?;
        let bytes = self.take(len)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| StoreError::Damaged("a text is not UTF-8"))
    }

    fn address(&mut self) -> StoreResult<Address> {
        Ok(Address {
            street_1: self.text()?,
            street_2: self.text()?,
            city: self.text()?,
            state: self.text()?,
            zip: self.text()?,
        })
    }

    fn w(&mut self) -> StoreResult<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn o(&mut self) -> StoreResult<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn d(&mut self) -> StoreResult<u8> {
        Ok(self.array::<1>()?[0])
    }
}

/// A row as a key and a value.
pub(super) trait Row: Sized {
    fn key(&self) -> Key;
    fn value(&self) -> Vec<u8>;
    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self>;
}

impl Row for Warehouse {
    fn key(&self) -> Key {
        Key::w(self.w)
    }

    fn value(&self) -> Vec<u8> {
        Writer::default().signed(self.ytd).number(self.tax).text(&self.name).address(&self.address).done()
    }

    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
        let (mut k, mut v) = (Parser(key), Parser(value));
        Ok(Self { w: k.w()?, ytd: v.signed()?, tax: v.small()?, name: v.text()?, address: v.address()? })
    }
}

impl Row for District {
    fn key(&self) -> Key {
        Key::wd(self.w, self.d)
    }

    fn value(&self) -> Vec<u8> {
        let mut v = Writer::default();
        v.number(self.next_o).signed(self.ytd).number(self.tax).text(&self.name).address(&self.address).done()
    }

    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
        let (mut k, mut v) = (Parser(key), Parser(value));
        Ok(Self {
            w: k.w()?,
            d: k.d()?,
            next_o: v.small()?,
            ytd: v.signed()?,
            tax: v.small()?,
            name: v.text()?,
            address: v.address()?,
        })
    }
}

impl Row for Customer {
    fn key(&self) -> Key {
        Key::wdc(self.w, self.d, self.c)
    }

    fn value(&self) -> Vec<u8> {
        let mut v = Writer(Vec::with_capacity(700));
        v.signed(self.balance).signed(self.ytd_payment).number(self.payment_cnt).number(self.delivery_cnt);
        v.number(self.bad_credit).signed(self.credit_lim).number(self.discount).signed(self.since);
        v.text(&self.first).text(&self.middle).text(&self.last).address(&self.address).text(&self.phone);
        v.text(&self.data).done()
    }

    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
        let (mut k, mut v) = (Parser(key), Parser(value));
        Ok(Self {
            w: k.w()?,
            d: k.d()?,
            c: k.w()?,
            balance: v.signed()?,
            ytd_payment: v.signed()?,
            payment_cnt: v.small()?,
            delivery_cnt: v.small()?,
            bad_credit: v.number()? != 0,
            credit_lim: v.signed()?,
            discount: v.small()?,
            since: v.signed()?,
            first: v.text()?,
            middle: v.text()?,
            last: v.text()?,
            address: v.address()?,
            phone: v.text()?,
            data: v.text()?,
        })
    }
}

impl Row for History {
    fn key(&self) -> Key {
        Key::history(self)
    }

    fn value(&self) -> Vec<u8> {
        let mut v = Writer::default();
        v.number(self.c_w).number(self.c_d).number(self.c).signed(self.amount).text(&self.data).done()
    }

    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
        let (mut k, mut v) = (Parser(key), Parser(value));
        Ok(Self {
            w: k.w()?,
            d: k.d()?,
            date: i64::from_be_bytes(k.array()?),
            terminal: k.w()?,
            c_w: v.small()?,
            c_d: v.small()?,
            c: v.small()?,
            amount: v.signed()?,
            data: v.text()?,
        })
    }
}

impl Row for Order {
    fn key(&self) -> Key {
        Key::wdo(self.w, self.d, self.o)
    }

    fn value(&self) -> Vec<u8> {
        let mut v = Writer::default();
        v.number(self.c).number(self.carrier.unwrap_or(0)).number(self.lines).number(self.all_local);
        v.signed(self.entry).done()
    }

    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
        let (mut k, mut v) = (Parser(key), Parser(value));
        Ok(Self {
            w: k.w()?,
            d: k.d()?,
            o: k.o()?,
            c: v.small()?,
            // Carriers are from 1 to 10.
            carrier: Some(v.small()?).filter(|c| *c != 0),
            lines: v.small()?,
            all_local: v.number()? != 0,
            entry: v.signed()?,
        })
    }
}

impl Row for OrderLine {
    fn key(&self) -> Key {
        Key::line(self.w, self.d, self.o, self.number)
    }

    fn value(&self) -> Vec<u8> {
        let mut v = Writer::default();
        // Dates are after 1970: 0 is none.
        v.signed(self.delivered.unwrap_or(0)).number(self.i).number(self.supply_w).number(self.quantity);
        v.signed(self.amount).bytes(&self.dist_info).done()
    }

    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
        let (mut k, mut v) = (Parser(key), Parser(value));
        Ok(Self {
            w: k.w()?,
            d: k.d()?,
            o: k.o()?,
            number: k.d()?,
            delivered: Some(v.signed()?).filter(|d| *d != 0),
            i: v.small()?,
            supply_w: v.small()?,
            quantity: v.small()?,
            amount: v.signed()?,
            dist_info: v.array()?,
        })
    }
}

impl Row for Item {
    fn key(&self) -> Key {
        Key::item(self.i)
    }

    fn value(&self) -> Vec<u8> {
        let mut v = Writer::default();
        v.signed(self.price).number(self.image).text(&self.name).text(&self.data).done()
    }

    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
        let (mut k, mut v) = (Parser(key), Parser(value));
        Ok(Self { i: k.o()?, price: v.signed()?, image: v.small()?, name: v.text()?, data: v.text()? })
    }
}

impl Row for Stock {
    fn key(&self) -> Key {
        Key::stock(self.w, self.i)
    }

    fn value(&self) -> Vec<u8> {
        let mut v = Writer(Vec::with_capacity(320));
        v.signed(self.quantity.into()).number(self.ytd).number(self.order_cnt).number(self.remote_cnt);
        self.dist.iter().for_each(|d| _ = v.bytes(d));
        v.text(&self.data).done()
    }

    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
        let (mut k, mut v) = (Parser(key), Parser(value));
        let (w, i) = (k.w()?, k.o()?);
        let quantity = v.signed()?.try_into().map_err(|_| StoreError::Damaged("a number is too large"))?;
        let (ytd, order_cnt, remote_cnt) = (v.small()?, v.small()?, v.small()?);
        let mut dist = [[0; 24]; 10];
        for d in &mut dist {
            *d = v.array()?;
        }
        Ok(Self { w, i, quantity, dist, ytd, order_cnt, remote_cnt, data: v.text()? })
    }
}

/// Sizes and a seed as a value.
pub(super) fn about_value(s: &Sizes, seed: u64) -> Vec<u8> {
    let mut v = Writer::default();
    v.number(s.warehouses).number(s.districts).number(s.customers).number(s.items).number(seed).done()
}

/// Sizes and a seed from a value.
pub(super) fn about(value: &[u8]) -> StoreResult<(Sizes, u64)> {
    let mut v = Parser(value);
    let sizes =
        Sizes { warehouses: v.small()?, districts: v.small()?, customers: v.small()?, items: v.small()? };
    Ok((sizes, v.number()?))
}

/// The quantity in a value of STOCK alone.
pub(super) fn stock_quantity(value: &[u8]) -> StoreResult<i64> {
    Parser(value).signed()
}

/// The customer's number at the end of a key of `customer_name`.
pub(super) fn named_customer(key: &[u8]) -> StoreResult<C> {
    let c = key.last_chunk::<2>().ok_or(ENDS)?;
    Ok(C::from_be_bytes(*c))
}

/// The order's number in a key of `new_order`.
pub(super) fn new_order(key: &[u8]) -> StoreResult<(W, D, O)> {
    let mut k = Parser(key);
    Ok((k.w()?, k.d()?, k.o()?))
}

/// The order's number at the end of a key of `orders_customer`.
pub(super) fn customer_order(key: &[u8]) -> StoreResult<O> {
    let o = key.last_chunk::<4>().ok_or(ENDS)?;
    Ok(!O::from_be_bytes(*o))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<R: Row + PartialEq + std::fmt::Debug>(row: &R) {
        let (key, value) = (row.key(), row.value());
        assert_eq!(&R::parse(key.bytes(), &value).unwrap(), row);
        for cut in 0..value.len() {
            assert!(R::parse(key.bytes(), &value[..cut]).is_err(), "{row:?} cut to {cut} bytes");
        }
    }

    #[test]
    fn rows_come_back_as_they_went() {
        let address =
            Address { street_1: "Long Street 12".into(), zip: "123411111".into(), ..Address::default() };
        check(&Warehouse { w: 300, name: "w".into(), address: address.clone(), tax: 1999, ytd: -5 });
        check(&District {
            w: 1,
            d: 10,
            name: String::new(),
            address: address.clone(),
            tax: 0,
            ytd: i64::MAX,
            next_o: 3001,
        });
        check(&Customer {
            w: 2,
            d: 3,
            c: 3000,
            first: "Anna".into(),
            middle: "OE".into(),
            last: "BARBARBAR".into(),
            address,
            phone: "0123456789012345".into(),
            since: 1_700_000_000_000_000,
            bad_credit: true,
            credit_lim: 5_000_000,
            discount: 5000,
            balance: -1000,
            ytd_payment: 1000,
            payment_cnt: 1,
            delivery_cnt: 0,
            data: "x".repeat(500),
        });
        check(&History {
            w: 1,
            d: 2,
            date: 77,
            terminal: 3,
            c_w: 4,
            c_d: 5,
            c: 6,
            amount: 1000,
            data: "é".into(),
        });
        for (carrier, delivered) in [(None, None), (Some(10), Some(5))] {
            check(&Order { w: 1, d: 2, o: 3, c: 4, entry: 5, carrier, lines: 15, all_local: false });
            let dist_info = *b"abcdefghijklmnopqrstuvwx";
            check(&OrderLine {
                w: 1,
                d: 2,
                o: 3,
                number: 15,
                i: 99,
                supply_w: 2,
                delivered,
                quantity: 5,
                amount: 999,
                dist_info,
            });
        }
        check(&Item { i: 100_000, image: 1, name: "it".into(), price: 10_000, data: "d".into() });
        check(&Stock {
            w: 9,
            i: 8,
            quantity: -7,
            dist: [[b's'; 24]; 10],
            ytd: 1 << 30,
            order_cnt: 2,
            remote_cnt: 3,
            data: "ORIGINAL".into(),
        });
    }

    #[test]
    fn what_was_loaded_comes_back() {
        let sizes = Sizes { districts: 3, ..Sizes::standard(700) };
        assert_eq!(about(&about_value(&sizes, u64::MAX)).unwrap(), (sizes, u64::MAX));
    }

    #[test]
    fn keys_keep_the_order_and_end_where_they_should() {
        let a = Key::wdo(1, 2, 255);
        assert!(a.bytes() < Key::wdo(1, 2, 256).bytes() && a.bytes() >= Key::wd(1, 2).bytes());
        assert!(
            a.bytes() < Key::wd(1, 2).past().bytes()
                && Key::wdo(1, 3, 0).bytes() >= Key::wd(1, 2).past().bytes()
        );
        assert_eq!(Key::wd(1, 255).past().bytes(), [0, 2]);
        assert!(Key::name(1, 1, "BAR").bytes() < Key::name(1, 1, "BARBAR").bytes());
        assert!(Key::order_customer(1, 1, 1, 7).bytes() < Key::order_customer(1, 1, 1, 6).bytes());
        assert_eq!(customer_order(Key::order_customer(1, 1, 1, 7).bytes()).unwrap(), 7);
        assert_eq!(Key(vec![255, 255]).past().bytes(), [255]);
    }

    #[test]
    fn numbers_that_no_writer_makes_are_refused() {
        assert!(Parser(&[0xFF; 11]).number().is_err());
        assert!(Item::parse(&[0, 0, 0, 1], &[2, 0xFF, 0xFF, 0x7F]).is_err(), "an image above 65,535");
        let mut v = Writer::default();
        for n in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert_eq!(Parser(&v.signed(n).done()).signed().unwrap(), n);
        }
    }
}
