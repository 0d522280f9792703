//! Types, values and columns on the wire.
//!
//! ```text
//!   type:   tag 1, precision 1, scale 1
//!   schema: version 4, columns 4, each: type 3, nullable 1; absent 4, each: value
//!   value:  kind 1 (0 NULL, 1 BOOLEAN, 2 integer, 3 REAL, 4 DOUBLE, 5 DECIMAL, 6 bytes), then 1, 8, 4, 8, 16 or 4 + n bytes
//!   column: type 3, rows 4, has validity 1 [validity], layout 1 (0 bits, 1 fixed, 2 variable, 3 dictionary, 4 encoded), then
//!           bits: long   fixed: width 1, long   variable: offsets long, data long
//!           dictionary: code width 1, codes long, and a column that is no dictionary
//!           encoded: id of the encoding 1, width of a number 1 (0 of strings), body long, as in a page
//! ```
//!
//! A column that was read passed the border check of [`Column::new`].

use std::sync::Arc;

use lode_base::wire::{Malformed, Reader, Writer};

use crate::encoding::{self, Shape};
use crate::{Column, ColumnType, Constant, DataType, Schema, Value, Values};

/// Writes a type.
pub fn put_type(w: &mut Writer<'_>, t: DataType) {
    let (tag, precision, scale) = t.tag();
    [tag, precision, scale].into_iter().for_each(|b| w.u8(b));
}

/// Reads a type.
///
/// # Errors
/// When the bytes name none.
pub fn take_type(r: &mut Reader<'_>) -> Result<DataType, Malformed> {
    let (tag, precision, scale) = (r.u8()?, r.u8()?, r.u8()?);
    DataType::from_tag(tag, precision, scale).ok_or(r.bad("no type of values"))
}

/// Writes a schema.
pub fn put_schema(w: &mut Writer<'_>, s: &Schema) {
    w.u32(s.version);
    w.count(s.columns.len());
    for c in &s.columns {
        put_type(w, c.data_type);
        w.flag(c.nullable);
    }
    w.count(s.absent.len());
    s.absent.iter().for_each(|c| put_value(w, c.value()));
}

/// Reads a schema.
///
/// # Errors
/// When the bytes are not those of one.
pub fn take_schema(r: &mut Reader<'_>) -> Result<Schema, Malformed> {
    let version = r.u32()?;
    let column = |r: &mut Reader<'_>| Ok(ColumnType { data_type: take_type(r)?, nullable: r.flag()? });
    let columns = (0..r.count(4)?).map(|_| column(r)).collect::<Result<_, Malformed>>()?;
    let absent = (0..r.count(1)?).map(|_| take_value(r).map(Constant::from)).collect::<Result<_, _>>()?;
    Ok(Schema { version, columns, absent })
}

/// Writes a value.
pub fn put_value(w: &mut Writer<'_>, v: &Value) {
    match v {
        Value::Null => w.u8(0),
        Value::Boolean(b) => {
            w.u8(1);
            w.flag(*b);
        }
        Value::Int(i) => {
            w.u8(2);
            w.u64(*i as u64);
        }
        Value::Real(f) => {
            w.u8(3);
            w.u32(f.to_bits());
        }
        Value::Double(f) => {
            w.u8(4);
            w.u64(f.to_bits());
        }
        Value::Decimal(d) => {
            w.u8(5);
            w.i128(*d);
        }
        Value::Bytes(b) => {
            w.u8(6);
            w.bytes(b);
        }
    }
}

/// Reads a value.
///
/// # Errors
/// When the bytes are not those of one.
pub fn take_value(r: &mut Reader<'_>) -> Result<Value, Malformed> {
    Ok(match r.u8()? {
        0 => Value::Null,
        1 => Value::Boolean(r.flag()?),
        2 => Value::Int(r.u64()? as i64),
        3 => Value::Real(f32::from_bits(r.u32()?)),
        4 => Value::Double(f64::from_bits(r.u64()?)),
        5 => Value::Decimal(r.i128()?),
        6 => Value::Bytes(r.bytes()?.into()),
        _ => return Err(r.bad("no kind of value")),
    })
}

/// Writes a column.
pub fn put_column(w: &mut Writer<'_>, c: &Column) {
    put_type(w, c.data_type());
    w.count(c.rows());
    w.flag(c.validity().is_some());
    if let Some(v) = c.validity() {
        w.long(v);
    }
    match c.values() {
        Values::Bits(b) => {
            w.u8(0);
            w.long(b);
        }
        Values::Fixed { width, data } => {
            w.u8(1);
            w.u8(*width);
            w.long(data);
        }
        Values::Var { offsets, data } => {
            w.u8(2);
            w.long(offsets);
            w.long(data);
        }
        Values::Dict { code_width, codes, dictionary } => {
            w.u8(3);
            w.u8(*code_width);
            w.long(codes);
            put_column(w, dictionary);
        }
        Values::Packed(p) => {
            w.u8(4);
            w.u8(p.id());
            w.u8(p.width());
            w.long(p.body());
        }
        Values::Symbols(s) => {
            w.u8(4);
            w.u8(s.id());
            w.u8(0);
            w.long(s.body());
        }
    }
}

/// Reads a column, whose buffers share the memory of the message.
///
/// # Errors
/// When the bytes are not those of one, or the column contradicts itself.
pub fn take_column(r: &mut Reader<'_>) -> Result<Column, Malformed> {
    column(r, true)
}

fn column(r: &mut Reader<'_>, may_be_dictionary: bool) -> Result<Column, Malformed> {
    let (data_type, rows) = (take_type(r)?, r.u32()? as usize);
    let validity = if r.flag()? { Some(r.long()?) } else { None };
    let values = match r.u8()? {
        0 => Values::Bits(r.long()?),
        1 => Values::Fixed { width: r.u8()?, data: r.long()? },
        2 => Values::Var { offsets: r.long()?, data: r.long()? },
        3 if may_be_dictionary => {
            let (code_width, codes) = (r.u8()?, r.long()?);
            Values::Dict { code_width, codes, dictionary: Arc::new(column(r, false)?) }
        }
        4 if may_be_dictionary => {
            let (id, width, body) = (r.u8()?, r.u8()?, r.long()?);
            let encoding = encoding::of_id(id).ok_or(r.bad("no encoding of values"))?;
            if rows > encoding::ROWS_MAX {
                return Err(r.bad("more rows than an encoded column has"));
            }
            let shape = Shape { data_type, rows, width };
            encoding.open(&shape, body).map_err(|what| r.bad(what))?
        }
        _ => return Err(r.bad("no layout of values")),
    };
    Column::new(data_type, rows, validity, values).map_err(|_| r.bad("a column that contradicts itself"))
}

#[cfg(test)]
mod tests {
    use lode_base::PageBuf;
    use lode_base::wire::read_whole;
    use proptest::prelude::*;

    use super::*;
    use crate::ColumnBuilder;

    fn columns() -> Vec<Column> {
        let built = |t, values: &[Value]| {
            let mut b = ColumnBuilder::new(t);
            values.iter().for_each(|v| b.push(v).unwrap());
            b.finish()
        };
        let text = built(DataType::Text, &["a", "bc", ""].map(Value::text));
        let codes = PageBuf::copy_from(&[0, 2, 1, 1, 0]);
        let coded = Values::Dict { code_width: 1, codes, dictionary: Arc::new(text.clone()) };
        vec![
            built(DataType::Boolean, &[Value::Boolean(true), Value::Null, Value::Boolean(false)]),
            built(DataType::Integer, &[Value::Int(-1), Value::Null]),
            built(DataType::Decimal { precision: 38, scale: 2 }, &[Value::Decimal(-(1 << 90))]),
            built(DataType::Double, &[]),
            text,
            Column::new(DataType::Text, 5, None, coded).unwrap(),
        ]
    }

    fn bytes(c: &Column) -> Vec<u8> {
        let mut b = Vec::new();
        put_column(&mut Writer::new(&mut b), c);
        b
    }

    fn read(b: &[u8]) -> Result<Column, Malformed> {
        read_whole(&PageBuf::copy_from(b), take_column)
    }

    #[test]
    fn columns_come_back_whatever_their_layout() {
        for c in columns() {
            let b = bytes(&c);
            let back = read(&b).unwrap();
            assert_eq!((back.data_type(), back.rows()), (c.data_type(), c.rows()));
            (0..c.rows()).for_each(|r| assert_eq!(back.value(r), c.value(r)));
            assert_eq!(bytes(&back), b);
            (0..b.len()).for_each(|n| assert!(read(&b[..n]).is_err(), "{} cut to {n}", c.data_type()));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_column_that_panics(which in 0usize..6, at: u16, to: u8, cut: u16) {
            let mut b = bytes(&columns()[which]);
            let at = usize::from(at) % b.len();
            b[at] = to;
            b.truncate(b.len() - usize::from(cut) % b.len().min(3));
            if let Ok(c) = read(&b) {
                (0..c.rows()).for_each(|r| drop(c.value(r)));
            }
        }

        #[test]
        fn values_come_back(i: i64, f: f64, d: i128, t: String) {
            for v in [Value::Null, Value::Boolean(i > 0), Value::Int(i), Value::Real(f as f32), Value::Double(f),
                Value::Decimal(d), Value::text(&t)] {
                let mut b = Vec::new();
                put_value(&mut Writer::new(&mut b), &v);
                let b = PageBuf::copy_from(&b);
                let back = take_value(&mut Reader::new(&b)).unwrap();
                prop_assert_eq!(format!("{v:?}"), format!("{back:?}"));
            }
        }
    }
}
