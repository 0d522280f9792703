//! Encodes rows as values under keys that keep their order.
//!
//! ```text
//!   key:   numbers of a fixed width, the highest byte first; text padded with 0 to its longest
//!   value: numbers with 7 bits per byte, the lowest first (signed ones in zigzag); text and bytes after their length
//! ```
//!
//! | tree | key | value |
//! |---|---|---|
//! | warehouse | w | all other columns |
//! | district | w d | |
//! | customer | w d c | |
//! | customer_name | w d last(16) first(16) c | nothing |
//! | history | w d date terminal | |
//! | new_order | w d o | nothing |
//! | orders | w d o | |
//! | orders_customer | w d c !o | nothing; the complement sorts the newest order first |
//! | order_line | w d o number | |
//! | item | i | |
//! | stock | w i | |

use super::Sizes;
use super::rows::{
    Address, C, Customer, D, District, History, I, Item, O, Order, OrderLine, Stock, W, Warehouse,
};
use crate::store::{StoreError, StoreResult};

/// The greatest length of C_LAST and C_FIRST.
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

    pub(super) fn history(w: W, d: D, date: i64, terminal: u16) -> Self {
        Self::wd(w, d).with(&date.cast_unsigned().to_be_bytes()).with(&terminal.to_be_bytes())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first key after all keys that begin with this one.
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

/// Parses keys and values.
struct Parser<'a>(&'a [u8]);

const ENDS: StoreError = StoreError::Damaged("the row ends too early");

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

    /// The next number of a fixed width in a key.
    fn key<T: KeyField>(&mut self) -> StoreResult<T> {
        T::parse(self)
    }

    /// The next field of a value.
    fn field<T: Field>(&mut self) -> StoreResult<T> {
        T::parse(self)
    }
}

/// A part of a key.
trait KeyField: Sized {
    fn parse(from: &mut Parser<'_>) -> StoreResult<Self>;
}

/// A part of a value.
trait Field: Sized {
    fn write(&self, to: &mut Vec<u8>);
    fn parse(from: &mut Parser<'_>) -> StoreResult<Self>;
}

macro_rules! key_fields {
    ($($number:ty),*) => {$(
        impl KeyField for $number {
            fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
                Ok(Self::from_be_bytes(from.array()?))
            }
        }
    )*};
}
key_fields!(u8, u16, u32, i64);

/// Fields whose numbers are written as another type that holds their values.
macro_rules! number_fields {
    ($($number:ty as $wide:ty),*) => {$(
        impl Field for $number {
            fn write(&self, to: &mut Vec<u8>) {
                <$wide>::from(*self).write(to);
            }

            fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
                from.field::<$wide>()?.try_into().map_err(|_| StoreError::Damaged("a number is too large"))
            }
        }
    )*};
}
number_fields!(u8 as u64, u16 as u64, u32 as u64, i16 as i64);

impl Field for u64 {
    fn write(&self, to: &mut Vec<u8>) {
        let mut n = *self;
        while n >= 0x80 {
            to.push(n as u8 | 0x80);
            n >>= 7;
        }
        to.push(n as u8);
    }

    fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
        from.number()
    }
}

impl Field for i64 {
    fn write(&self, to: &mut Vec<u8>) {
        ((self << 1) ^ (self >> 63)).cast_unsigned().write(to);
    }

    fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
        let n = from.number()?;
        Ok((n >> 1).cast_signed() ^ -(n & 1).cast_signed())
    }
}

impl Field for bool {
    fn write(&self, to: &mut Vec<u8>) {
        u64::from(*self).write(to);
    }

    fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
        Ok(from.number()? != 0)
    }
}

/// `None` is written as 0. Carriers are from 1 to 10, and dates are after 1970.
impl<T: Field + Copy + Default + PartialEq> Field for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        self.unwrap_or_default().write(to);
    }

    fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
        Ok(Some(from.field()?).filter(|n| *n != T::default()))
    }
}

impl Field for String {
    fn write(&self, to: &mut Vec<u8>) {
        (self.len() as u64).write(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
        let len = usize::try_from(from.number()?).map_err(|_| ENDS)?;
        let bytes = from.take(len)?;
        Self::from_utf8(bytes.to_vec()).map_err(|_| StoreError::Damaged("a text is not UTF-8"))
    }
}

impl Field for Address {
    fn write(&self, to: &mut Vec<u8>) {
        [&self.street_1, &self.street_2, &self.city, &self.state, &self.zip].iter().for_each(|s| s.write(to));
    }

    fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
        Ok(Self {
            street_1: from.field()?,
            street_2: from.field()?,
            city: from.field()?,
            state: from.field()?,
            zip: from.field()?,
        })
    }
}

impl Field for [u8; 24] {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
        from.array()
    }
}

impl Field for [[u8; 24]; 10] {
    fn write(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|d| d.write(to));
    }

    fn parse(from: &mut Parser<'_>) -> StoreResult<Self> {
        let mut all = [[0; 24]; 10];
        for one in &mut all {
            *one = from.field()?;
        }
        Ok(all)
    }
}

/// A row as a key and a value.
pub(super) trait Row: Sized {
    fn key(&self) -> Key;
    fn value(&self) -> Vec<u8>;
    fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self>;
}

/// Implements `Row` from the fields of the key, the fields of the value and the value's approximate length. The
/// fields are written in this order.
macro_rules! row {
    ($row:ident: Key::$make:ident($($k:ident),*) => $bytes:literal: $($v:ident)*) => {
        impl Row for $row {
            fn key(&self) -> Key {
                Key::$make($(self.$k),*)
            }

            fn value(&self) -> Vec<u8> {
                let mut value = Vec::with_capacity($bytes);
                $(self.$v.write(&mut value);)*
                value
            }

            fn parse(key: &[u8], value: &[u8]) -> StoreResult<Self> {
                let (mut k, mut v) = (Parser(key), Parser(value));
                Ok(Self { $($k: k.key()?,)* $($v: v.field()?),* })
            }
        }
    };
}

row!(Warehouse: Key::w(w) => 110: ytd tax name address);
row!(District: Key::wd(w, d) => 110: next_o ytd tax name address);
row!(Customer: Key::wdc(w, d, c) => 700:
    balance ytd_payment payment_cnt delivery_cnt bad_credit credit_lim discount since first middle last address phone data);
row!(History: Key::history(w, d, date, terminal) => 40: c_w c_d c amount data);
row!(Order: Key::wdo(w, d, o) => 16: c carrier lines all_local entry);
row!(OrderLine: Key::line(w, d, o, number) => 48: delivered i supply_w quantity amount dist_info);
row!(Item: Key::item(i) => 96: price image name data);
row!(Stock: Key::stock(w, i) => 320: quantity ytd order_cnt remote_cnt dist data);

/// Encodes sizes and a seed as a value.
pub(super) fn about_value(s: &Sizes, seed: u64) -> Vec<u8> {
    let mut value = Vec::new();
    s.warehouses.write(&mut value);
    s.districts.write(&mut value);
    s.customers.write(&mut value);
    s.items.write(&mut value);
    seed.write(&mut value);
    value
}

/// Decodes sizes and a seed from a value.
pub(super) fn about(value: &[u8]) -> StoreResult<(Sizes, u64)> {
    let mut v = Parser(value);
    let sizes =
        Sizes { warehouses: v.field()?, districts: v.field()?, customers: v.field()?, items: v.field()? };
    Ok((sizes, v.field()?))
}

/// Decodes only the quantity from a value of STOCK.
pub(super) fn stock_quantity(value: &[u8]) -> StoreResult<i64> {
    Parser(value).field()
}

/// The customer's number at the end of a key of `customer_name`.
pub(super) fn named_customer(key: &[u8]) -> StoreResult<C> {
    let c = key.last_chunk::<2>().ok_or(ENDS)?;
    Ok(C::from_be_bytes(*c))
}

/// The order's number in a key of `new_order`.
pub(super) fn new_order(key: &[u8]) -> StoreResult<(W, D, O)> {
    let mut k = Parser(key);
    Ok((k.key()?, k.key()?, k.key()?))
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
    fn values_lie_as_drawn() {
        let h = History {
            w: 1,
            d: 2,
            date: 77,
            terminal: 3,
            c_w: 4,
            c_d: 5,
            c: 300,
            amount: -2,
            data: "é".into(),
        };
        assert_eq!(h.key().bytes(), [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 77, 0, 3]);
        assert_eq!(h.value(), [4, 5, 0xAC, 2, 3, 2, 0xC3, 0xA9]);
        let o = Order { w: 1, d: 2, o: 3, c: 4, entry: 64, carrier: None, lines: 15, all_local: true };
        assert_eq!(o.value(), [4, 0, 15, 1, 0x80, 1]);
        assert_eq!(Order { carrier: Some(9), ..o }.value()[1], 9);
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
        for n in [i64::MIN, -1, 0, 1, i64::MAX] {
            let mut value = Vec::new();
            n.write(&mut value);
            assert_eq!(Parser(&value).field::<i64>().unwrap(), n);
        }
    }
}
