//! Row images: all values of one row as bytes. A delta of a table keeps the rows that changed in this form.
//!
//! ```text
//!   | validity, 1 bit a column | values of a fixed width, in the order of the columns | strings: length 4, bytes | ...
//! ```
//!
//! A BOOLEAN takes one byte, a DECIMAL 16. A NULL takes no bytes beside its bit. An image has at least one byte.
//! Invariant: an image is read with the types that it was written with. A decoder refuses all other bytes.

use crate::{Column, ColumnBuilder, DataType, PageError, Value, bits};

/// Encodes the image of a row.
///
/// # Panics
/// When there is another number of values than types, or a value is not of its type.
pub fn encode(types: &[DataType], values: &[Value]) -> Vec<u8> {
    assert_eq!(types.len(), values.len(), "a row has a value in each column");
    let mut image = vec![0; types.len().div_ceil(8)];
    for (i, (&t, v)) in types.iter().zip(values).enumerate() {
        if v.is_null() {
            continue;
        }
        bits::set(&mut image, i);
        match (t, v) {
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
    image
}

/// Encodes the images of all rows of some columns.
///
/// # Panics
/// When the columns have different numbers of rows.
pub fn encode_all(columns: &[Column]) -> Vec<Vec<u8>> {
    let types: Vec<DataType> = columns.iter().map(Column::data_type).collect();
    let rows = columns.first().map_or(0, Column::rows);
    assert!(columns.iter().all(|c| c.rows() == rows), "columns of one length");
    let mut values = Vec::with_capacity(columns.len());
    let image = |row| {
        values.clear();
        values.extend(columns.iter().map(|c| c.value(row)));
        encode(&types, &values)
    };
    (0..rows).map(image).collect()
}

/// Decodes the values of a row.
///
/// # Errors
/// [`PageError::BadColumn`] when the bytes are no image of a row of these types.
pub fn decode(types: &[DataType], image: &[u8]) -> Result<Vec<Value>, PageError> {
    let mut values = vec![Value::Null; types.len()];
    let mut rest = Rest { image, at: types.len().div_ceil(8) };
    if image.len() < rest.at {
        return Err(bad(types.first().copied().unwrap_or(DataType::Boolean), "a row image that is cut"));
    }
    let validity = &image[..rest.at];
    let present = |i: usize| validity[i / 8] >> (i % 8) & 1 == 1;
    let columns = || types.iter().copied().enumerate().filter(|(i, _)| present(*i));
    for (i, t) in columns().filter(|(_, t)| !t.is_variable()) {
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
    for (i, t) in columns().filter(|(_, t)| t.is_variable()) {
        let bytes = u32::from_le_bytes(rest.take(t)?) as usize;
        values[i] = Value::Bytes(rest.bytes(t, bytes)?.into());
    }
    if rest.at != image.len() {
        return Err(bad(types.first().copied().unwrap_or(DataType::Boolean), "a row image that is too long"));
    }
    Ok(values)
}

/// Decodes rows to columns.
///
/// # Errors
/// [`PageError::BadColumn`] when some bytes are no image of a row of these types, or a value does not fit its type.
pub fn decode_all<'a>(
    types: &[DataType],
    images: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Column>, PageError> {
    let mut columns: Vec<ColumnBuilder> = types.iter().map(|&t| ColumnBuilder::new(t)).collect();
    for image in images {
        let values = decode(types, image)?;
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

    proptest! {
        #[test]
        fn rows_come_back_as_they_were(rows in prop::collection::vec(row(), 0..5)) {
            let images: Vec<Vec<u8>> = rows.iter().map(|r| encode(&TYPES, r)).collect();
            for (image, row) in images.iter().zip(&rows) {
                prop_assert_eq!(shown(&decode(&TYPES, image).unwrap()), shown(row));
            }
            let columns = decode_all(&TYPES, images.iter().map(|i| &i[..])).unwrap();
            prop_assert_eq!(encode_all(&columns), images);
        }

        #[test]
        fn other_bytes_are_refused_or_read_without_a_panic(row in row(), cut in any::<prop::sample::Index>(), flip in any::<(prop::sample::Index, u8)>()) {
            let mut image = encode(&TYPES, &row);
            let end = cut.index(image.len());
            prop_assert!(decode(&TYPES, &image[..end]).is_err());
            let at = flip.0.index(image.len());
            image[at] ^= flip.1;
            let _ = decode(&TYPES, &image);
            image.push(0);
            let _ = decode(&TYPES, &image);
        }
    }
}
