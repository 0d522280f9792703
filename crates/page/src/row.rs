//! Row images: all values of one row as bytes. A delta of a table keeps the rows that changed in this form.
//!
//! ```text
//!   | part of the columns that every row has | columns of the second part: 2 | part of the first columns that were added |
//!
//!   part: | validity, 1 bit a column | values of a fixed width, in the order of the columns | strings: length 4, bytes | ...
//! ```
//!
//! A BOOLEAN takes one byte, a DECIMAL 16. A NULL takes no bytes beside its bit. An image has at least one byte.
//!
//! The second part is there only if one of the added columns has another value than the rows without it read. It ends with the last such
//! column. So a row that was written before a column was added has the bytes that it would have now.
//! Invariant: an image is read with the schema that it was written with, or with one that has more added columns. A row has one image. A
//! decoder refuses all other bytes.

use crate::{Column, ColumnBuilder, DataType, PageError, Schema, Value, bits};

/// Encodes the image of a row.
///
/// # Panics
/// When there is another number of values than columns, or a value is not of its type.
pub fn encode(schema: &Schema, values: &[Value]) -> Vec<u8> {
    assert_eq!(schema.columns.len(), values.len(), "a row has a value in each column");
    let base = schema.base_columns();
    let mut image = Vec::new();
    put_part(&mut image, schema, 0, &values[..base]);
    let differs = |(constant, value): (&crate::Constant, &Value)| !constant.is(value);
    let added = &values[base..];
    if let Some(last) = schema.absent.iter().zip(added).rposition(differs) {
        let count = last + 1;
        image.extend_from_slice(&u16::try_from(count).expect("a table has fewer columns").to_le_bytes());
        put_part(&mut image, schema, base, &added[..count]);
    }
    image
}

/// Appends the values of the columns from `first` on.
fn put_part(image: &mut Vec<u8>, schema: &Schema, first: usize, values: &[Value]) {
    let start = image.len();
    image.resize(start + values.len().div_ceil(8), 0);
    for (i, (c, v)) in schema.columns[first..].iter().zip(values).enumerate() {
        if v.is_null() {
            continue;
        }
        bits::set(&mut image[start..], i);
        match (c.data_type, v) {
            (DataType::Boolean, Value::Boolean(b)) => image.push(u8::from(*b)),
            (DataType::SmallInt, Value::Int(v)) => image.extend_from_slice(&(*v as i16).to_le_bytes()),
            (DataType::Integer | DataType::Date, Value::Int(v)) => {
                image.extend_from_slice(&(*v as i32).to_le_bytes());
            }
            (DataType::BigInt | DataType::Timestamp, Value::Int(v)) => {
                image.extend_from_slice(&v.to_le_bytes());
            }
            (DataType::Real, Value::Real(v)) => image.extend_from_slice(&v.to_bits().to_le_bytes()),
            (DataType::Double, Value::Double(v)) => image.extend_from_slice(&v.to_bits().to_le_bytes()),
            (DataType::Decimal { .. }, Value::Decimal(v)) => image.extend_from_slice(&v.to_le_bytes()),
            (DataType::Text | DataType::Bytea, Value::Bytes(_)) => {}
            (t, v) => panic!("{v:?} is no {t}"),
        }
    }
    for v in values {
        if let Value::Bytes(b) = v {
            let bytes = u32::try_from(b.len()).expect("a value is shorter than 4 GiB");
            image.extend_from_slice(&bytes.to_le_bytes());
            image.extend_from_slice(b);
        }
    }
}

/// Encodes the images of all rows of some columns, which are those of the schema.
///
/// # Panics
/// When the columns have different numbers of rows.
pub fn encode_all(schema: &Schema, columns: &[Column]) -> Vec<Vec<u8>> {
    let rows = columns.first().map_or(0, Column::rows);
    assert!(columns.iter().all(|c| c.rows() == rows), "columns of one length");
    let mut values = Vec::with_capacity(columns.len());
    let image = |row| {
        values.clear();
        values.extend(columns.iter().map(|c| c.value(row)));
        encode(schema, &values)
    };
    (0..rows).map(image).collect()
}

/// Decodes the values of a row.
///
/// # Errors
/// [`PageError::BadColumn`] when the bytes are no image of a row of this schema.
pub fn decode(schema: &Schema, image: &[u8]) -> Result<Vec<Value>, PageError> {
    let base = schema.base_columns();
    let bad = |what| bad(schema.columns.first().map_or(DataType::Boolean, |c| c.data_type), what);
    let mut values = vec![Value::Null; base];
    let mut rest = Rest { image, at: 0 };
    take_part(&mut rest, schema, 0, &mut values)?;
    values.reserve(schema.absent.len());
    if rest.at < image.len() {
        if schema.absent.is_empty() {
            return Err(bad("a row image that is too long"));
        }
        let count = usize::from(u16::from_le_bytes(rest.take(DataType::Boolean)?));
        if !(1..=schema.absent.len()).contains(&count) {
            return Err(bad("a row image with more columns than the table"));
        }
        values.resize(base + count, Value::Null);
        take_part(&mut rest, schema, base, &mut values[base..])?;
        if rest.at != image.len() {
            return Err(bad("a row image that is too long"));
        }
    }
    let absent = &schema.absent[values.len() - base..];
    values.extend(absent.iter().map(|c| c.value().clone()));
    Ok(values)
}

/// Reads the values of the columns from `first` on.
fn take_part(
    rest: &mut Rest<'_>,
    schema: &Schema,
    first: usize,
    values: &mut [Value],
) -> Result<(), PageError> {
    let types = || schema.columns[first..].iter().map(|c| c.data_type).take(values.len());
    let of_error = types().next().unwrap_or(DataType::Boolean);
    let validity = rest.bytes(of_error, values.len().div_ceil(8))?;
    let present = |i: usize| validity[i / 8] >> (i % 8) & 1 == 1;
    let columns: Vec<(usize, DataType)> = types().enumerate().filter(|(i, _)| present(*i)).collect();
    for &(i, t) in columns.iter().filter(|(_, t)| !t.is_variable()) {
        values[i] = match t {
            DataType::Boolean => match rest.take::<1>(t)? {
                [b @ (0 | 1)] => Value::Boolean(b == 1),
                _ => return Err(bad(t, "a row image with a BOOLEAN that is neither 0 nor 1")),
            },
            DataType::SmallInt => Value::Int(i16::from_le_bytes(rest.take(t)?).into()),
            DataType::Integer | DataType::Date => Value::Int(i32::from_le_bytes(rest.take(t)?).into()),
            DataType::BigInt | DataType::Timestamp => Value::Int(i64::from_le_bytes(rest.take(t)?)),
            DataType::Real => Value::Real(f32::from_bits(u32::from_le_bytes(rest.take(t)?))),
            DataType::Double => Value::Double(f64::from_bits(u64::from_le_bytes(rest.take(t)?))),
            DataType::Decimal { .. } => Value::Decimal(i128::from_le_bytes(rest.take(t)?)),
            DataType::Text | DataType::Bytea => unreachable!("strings follow"),
        };
    }
    for &(i, t) in columns.iter().filter(|(_, t)| t.is_variable()) {
        let bytes = u32::from_le_bytes(rest.take(t)?) as usize;
        values[i] = Value::Bytes(rest.bytes(t, bytes)?.into());
    }
    Ok(())
}

/// Decodes rows to columns.
///
/// # Errors
/// [`PageError::BadColumn`] when some bytes are no image of a row of this schema, or a value does not fit its type.
pub fn decode_all<'a>(
    schema: &Schema,
    images: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Column>, PageError> {
    let mut columns: Vec<ColumnBuilder> =
        schema.columns.iter().map(|c| ColumnBuilder::new(c.data_type)).collect();
    for image in images {
        let values = decode(schema, image)?;
        columns.iter_mut().zip(&values).try_for_each(|(c, v)| c.push(v))?;
    }
    Ok(columns.into_iter().map(ColumnBuilder::finish).collect())
}

fn bad(data_type: DataType, what: &'static str) -> PageError {
    PageError::BadColumn { data_type, what }
}

/// What is left of an image.
struct Rest<'a> {
    image: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn bytes(&mut self, t: DataType, bytes: usize) -> Result<&'a [u8], PageError> {
        let end = self.at.checked_add(bytes).filter(|end| *end <= self.image.len());
        let end = end.ok_or_else(|| bad(t, "a row image that is cut"))?;
        let taken = &self.image[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self, t: DataType) -> Result<[u8; N], PageError> {
        Ok(self.bytes(t, N)?.try_into().expect("as many bytes as were asked for"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ColumnType, Constant};

    const TYPES: [DataType; 11] = [
        DataType::Boolean,
        DataType::Text,
        DataType::SmallInt,
        DataType::Integer,
        DataType::BigInt,
        DataType::Real,
        DataType::Double,
        DataType::Decimal { precision: 38, scale: 2 },
        DataType::Bytea,
        DataType::Date,
        DataType::Timestamp,
    ];

    /// The schema of rows whose last columns were added: as many as there are values.
    fn schema(absent: &[Value]) -> Schema {
        let columns = TYPES.map(|data_type| ColumnType { data_type, nullable: true });
        let absent = absent.iter().cloned().map(Constant::from).collect();
        Schema { version: 1, columns: columns.into(), absent }
    }

    /// The schema before its last columns were added.
    fn before(s: &Schema, added: usize) -> Schema {
        let mut s = s.clone();
        s.columns.truncate(s.columns.len() - added);
        s.absent.truncate(s.absent.len() - added);
        s
    }

    fn row() -> impl Strategy<Value = Vec<Value>> {
        let some = (
            any::<(bool, i16, i32, i64, i32, i64)>(),
            any::<(u32, u64)>(),
            -10i128.pow(37)..10i128.pow(37),
            ".{0,12}",
            any::<Vec<u8>>(),
            any::<u16>(),
        );
        some.prop_map(|((b, small, int, big, date, ts), (real, double), decimal, text, bytes, nulls)| {
            let values = [
                Value::Boolean(b),
                Value::text(&text),
                Value::Int(small.into()),
                Value::Int(int.into()),
                Value::Int(big),
                Value::Real(f32::from_bits(real)),
                Value::Double(f64::from_bits(double)),
                Value::Decimal(decimal),
                Value::Bytes(bytes.into()),
                Value::Int(date.into()),
                Value::Int(ts),
            ];
            let null = |(i, v)| if nulls >> i & 1 == 1 { Value::Null } else { v };
            values.into_iter().enumerate().map(null).collect()
        })
    }

    /// Values as bytes, so that a NaN is equal to itself.
    fn shown(values: &[Value]) -> String {
        let exact = |v: &Value| match v {
            Value::Real(f) => format!("real {:x}", f.to_bits()),
            Value::Double(f) => format!("double {:x}", f.to_bits()),
            v => format!("{v:?}"),
        };
        values.iter().map(exact).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rows_of_a_table_without_added_columns_have_the_bytes_that_they_always_had() {
        let columns = [DataType::Text, DataType::SmallInt, DataType::Boolean];
        let columns = columns.map(|data_type| ColumnType { data_type, nullable: true }).into();
        let s = Schema { version: 1, columns, absent: Vec::new() };
        let image = encode(&s, &[Value::text("ab"), Value::Int(258), Value::Null]);
        assert_eq!(image, [0b011, 2, 1, 2, 0, 0, 0, b'a', b'b']);
    }

    proptest! {
        #[test]
        fn rows_come_back_as_they_were(rows in prop::collection::vec(row(), 0..5), constants in row(), added in 0usize..=10) {
            let s = schema(&constants[11 - added..]);
            let images: Vec<Vec<u8>> = rows.iter().map(|r| encode(&s, r)).collect();
            for (image, row) in images.iter().zip(&rows) {
                prop_assert_eq!(shown(&decode(&s, image).unwrap()), shown(row));
            }
            let columns = decode_all(&s, images.iter().map(|i| &i[..])).unwrap();
            prop_assert_eq!(encode_all(&s, &columns), images);
        }

        #[test]
        fn a_row_has_one_image_before_and_after_columns_are_added(row in row(), constants in row(), added in 1usize..=10, later in 0usize..=10) {
            let s = schema(&constants[11 - added..]);
            let later = later.min(added);
            let old = before(&s, later);
            let cut = &row[..11 - later];
            let image = encode(&old, cut);
            let mut now = cut.to_vec();
            now.extend_from_slice(&constants[11 - later..]);
            prop_assert_eq!(shown(&decode(&s, &image).unwrap()), shown(&now));
            prop_assert_eq!(encode(&s, &now), image);
        }

        #[test]
        fn other_bytes_are_refused_or_read_without_a_panic(row in row(), added in 0usize..=10, cut in any::<prop::sample::Index>(), flip in any::<(prop::sample::Index, u8)>()) {
            let s = schema(&vec![Value::Null; added]);
            let mut image = encode(&s, &row);
            let end = cut.index(image.len());
            // Without its second part, an image is one of a row before the columns were added.
            let base = encode(&before(&s, added), &row[..11 - added]).len();
            prop_assert!(end == base && added > 0 || decode(&s, &image[..end]).is_err());
            let at = flip.0.index(image.len());
            image[at] ^= flip.1;
            let _ = decode(&s, &image);
            image.push(0);
            let _ = decode(&s, &image);
        }
    }
}
