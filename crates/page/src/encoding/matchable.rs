//! The `matchable` encoding: each value is stored as its field, so that a pattern matcher can look for it.
//!
//! ```text
//!   body:  | field of row 0 | field of row 1 | ...       integers, TIMESTAMP: 2, 4 or 8 bytes a row
//!                                                        DATE: 3; in a segment with a day that has no field: 7
//!   7 bytes of a DATE: | field, or zeroes 3 | days since 1970-01-01, little-endian 4 |
//! ```
//!
//! [`crate::matchable`] has the fields. Types without fields take whole bytes, as strings do: these are fields as they are. No
//! dictionary is made.
//!
//! Invariant: the field of each value that has one is in the segment's bytes.

use std::ops::Range;

use bytemuck::Pod;
use lode_base::PageBuf;

use super::contract::{Cost, Encoded, Encoding, Shape};
use super::input::Input;
use crate::matchable::{Number, date_field, days_of_field};
use crate::ops::numbers;
use crate::{DataType, Values};

/// The entry in [`super::ENCODINGS`].
pub(super) struct Matchable;

/// Bytes of a day in a segment all of whose days have fields, and in any other.
const DAY_BYTES: usize = 3;
const LONG_DAY_BYTES: usize = 7;

impl Encoding for Matchable {
    fn id(&self) -> u8 {
        12
    }

    fn name(&self) -> &'static str {
        "matchable"
    }

    /// Takes columns of any type, so that it can be the encoding of a table.
    fn takes(&self, _: DataType) -> bool {
        true
    }

    fn is_whole_bytes(&self) -> bool {
        true
    }

    /// It saves no bytes.
    fn estimate(&self, _: &Input<'_>) -> Option<Cost> {
        None
    }

    fn encode(&self, input: &Input<'_>) -> Option<Encoded> {
        let Values::Fixed { width, data } = input.values else { return None };
        let body = match input.data_type {
            DataType::SmallInt => fields::<i16, 2>(data),
            DataType::Integer => fields::<i32, 4>(data),
            DataType::BigInt | DataType::Timestamp => fields::<i64, 8>(data),
            DataType::Date => {
                let days: &[i32] = numbers(data);
                let fields: Vec<_> = days.iter().map(|d| date_field((*d).into())).collect();
                match fields.iter().copied().collect::<Option<Vec<_>>>() {
                    Some(fields) => fields.concat(),
                    None => {
                        let long = fields.iter().zip(days).flat_map(|(field, day)| {
                            field.unwrap_or_default().into_iter().chain(day.to_le_bytes())
                        });
                        long.collect()
                    }
                }
            }
            _ => return None,
        };
        Some(Encoded { body, width: *width })
    }

    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str> {
        self.range(shape, body, 0..shape.rows)
    }

    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str> {
        if !shape.is_of_type() {
            return Err("an encoding or width that the type does not have");
        }
        let width = usize::from(shape.width);
        let value_bytes = match shape.data_type {
            DataType::Date if body.len() == shape.rows * LONG_DAY_BYTES => LONG_DAY_BYTES,
            DataType::Date => DAY_BYTES,
            _ => width,
        };
        if body.len() != shape.rows * value_bytes {
            return Err("fields of other rows");
        }
        let fields = &body[rows.start * value_bytes..rows.end * value_bytes];
        let data = match shape.data_type {
            DataType::SmallInt => values::<i16, 2>(fields),
            DataType::Integer => values::<i32, 4>(fields),
            DataType::BigInt | DataType::Timestamp => values::<i64, 8>(fields),
            DataType::Date => {
                let days: Option<Vec<i32>> = fields.chunks_exact(value_bytes).map(day).collect();
                PageBuf::from_values(&days.ok_or("a field of no day")?)
            }
            _ => return Err("an encoding or width that the type does not have"),
        };
        Ok(Values::Fixed { width: shape.width, data })
    }
}

fn fields<T: Pod + Number<N>, const N: usize>(data: &PageBuf) -> Vec<u8> {
    numbers::<T>(data).iter().flat_map(|v| v.field()).collect()
}

fn values<T: Pod + Number<N>, const N: usize>(fields: &[u8]) -> PageBuf {
    let (fields, _) = fields.as_chunks::<N>();
    PageBuf::from_values(&fields.iter().map(|f| T::of_field(*f)).collect::<Vec<T>>())
}

/// The day in 3 or 7 bytes; `None` if the field is not the day's.
fn day(bytes: &[u8]) -> Option<i32> {
    let field = bytes[..DAY_BYTES].try_into().expect("three bytes");
    if bytes.len() == DAY_BYTES {
        return i32::try_from(days_of_field(field)?).ok();
    }
    let day = i32::from_le_bytes(bytes[DAY_BYTES..].try_into().expect("four bytes"));
    (date_field(day.into()).unwrap_or_default() == field).then_some(day)
}
