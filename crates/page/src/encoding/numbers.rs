//! The `for` encoding, frames of reference. Each block of 1,024 numbers is packed with the bits that its span needs.
//! `packed::vector` draws the bytes.

use std::ops::Range;
use std::sync::Arc;

use lode_base::PageBuf;

use super::contract::{Cost, Encoded, Encoding, Shape};
use super::input::{Input, block_bytes, of_offsets};
use crate::packed::vector::{self, Vector};
use crate::packed::{Form, Packed};
use crate::{DataType, Values};

/// The entry in [`super::ENCODINGS`].
pub(super) struct Frames;

/// The time to unpack one number, in picoseconds.
const UNPACK_PS: u64 = 150;

impl Encoding for Frames {
    fn id(&self) -> u8 {
        6
    }

    fn name(&self) -> &'static str {
        "for"
    }

    fn takes(&self, t: DataType) -> bool {
        is_exact(t)
    }

    fn estimate(&self, input: &Input<'_>) -> Option<Cost> {
        Some(Cost { bytes: input.frame_bytes()?, unpack_ps: input.rows as u64 * UNPACK_PS })
    }

    fn encode(&self, input: &Input<'_>) -> Option<Encoded> {
        vector(input, false)
    }

    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str> {
        open(self.id(), shape, body, false)
    }

    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str> {
        range(self.open(shape, body)?, rows)
    }
}

/// Returns whether values of the type are integers in memory, as opposed to bits, floats and strings.
pub(super) fn is_exact(t: DataType) -> bool {
    use DataType::{BigInt, Date, Decimal, Integer, SmallInt, Timestamp};
    matches!(t, SmallInt | Integer | BigInt | Date | Timestamp | Decimal { .. })
}

/// Encodes the numbers as a vector.
pub(super) fn vector(input: &Input<'_>, delta: bool) -> Option<Encoded> {
    let numbers = input.numbers()?;
    let mut body = Vec::new();
    of_offsets!(&numbers.offsets, v => vector::encode(v, numbers.base, delta, &mut body));
    Some(Encoded { body, width: input.width() })
}

/// Returns the approximate bytes of the numbers as a vector with deltas.
pub(super) fn delta_bytes(input: &Input<'_>) -> Option<usize> {
    Some(input.numbers()?.sampled(|block| block_bytes(block, true)))
}

/// Opens a body that is a vector, with deltas or without, as packed numbers.
pub(super) fn open(id: u8, shape: &Shape, body: PageBuf, delta: bool) -> Result<Values, &'static str> {
    if !is_exact(shape.data_type) || !shape.is_of_type() {
        return Err("an encoding or width that the type does not have");
    }
    let (vector, used) = Vector::parse(&body, shape.rows)?;
    if vector.has_deltas() != delta {
        return Err("a vector of another kind");
    }
    if used != body.len() {
        return Err("bytes behind a vector");
    }
    let packed = Packed::new(id, shape.width, shape.rows, Form::Vector(vector), body);
    Ok(Values::Packed(Arc::new(packed)))
}

/// Unpacks some rows of packed numbers.
pub(super) fn range(values: Values, rows: Range<usize>) -> Result<Values, &'static str> {
    match values {
        Values::Packed(p) => Ok(Values::Fixed { width: p.width(), data: p.unpack(rows) }),
        _ => unreachable!("the caller made packed numbers"),
    }
}
