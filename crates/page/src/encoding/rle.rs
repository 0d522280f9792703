//! The `rle` encoding: runs of equal values. `packed::runs` draws the bytes. Floats are compared by their bits.
//! BOOLEAN values are the numbers 0 and 1.

use std::ops::Range;
use std::sync::Arc;

use lode_base::{PageBuf, PageBufMut};

use super::contract::{Cost, Encoded, Encoding, Shape};
use super::input::{Input, of_offsets};
use super::numbers::range;
use crate::column::number_value;
use crate::packed::runs::{self, Runs};
use crate::packed::{self, Form, Packed, Scratch};
use crate::{DataType, Value, Values};

/// The entry in [`super::ENCODINGS`].
pub(super) struct Rle;

/// The time to unpack one row, and the extra time for each run, in picoseconds.
const ROW_PS: u64 = 100;
const RUN_PS: u64 = 3000;

impl Encoding for Rle {
    fn id(&self) -> u8 {
        8
    }

    fn name(&self) -> &'static str {
        "rle"
    }

    fn takes(&self, t: DataType) -> bool {
        !t.is_variable()
    }

    fn estimate(&self, input: &Input<'_>) -> Option<Cost> {
        let numbers = input.numbers()?;
        let runs = numbers.sampled(|block| block.runs());
        if runs * 2 > input.rows {
            return None;
        }
        let bytes = numbers.sampled(|block| block.run_bytes());
        let unpack_ps = input.rows as u64 * ROW_PS + runs as u64 * RUN_PS;
        Some(Cost { bytes, unpack_ps })
    }

    fn encode(&self, input: &Input<'_>) -> Option<Encoded> {
        let numbers = input.numbers()?;
        let mut body = Vec::new();
        of_offsets!(&numbers.offsets, v => runs::encode(v, numbers.base, &mut body));
        Some(Encoded { body, width: input.width() })
    }

    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str> {
        let runs = whole(shape, &body)?;
        Ok(match shape.data_type {
            DataType::Boolean => Values::Bits(bits_of(&runs, 0..shape.rows)),
            _ => {
                let packed = Packed::new(self.id(), shape.width, shape.rows, Form::Runs(runs), body);
                Values::Packed(Arc::new(packed))
            }
        })
    }

    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str> {
        match shape.data_type {
            DataType::Boolean => Ok(Values::Bits(bits_of(&whole(shape, &body)?, rows))),
            _ => range(self.open(shape, body)?, rows),
        }
    }

    fn row(&self, shape: &Shape, body: PageBuf, row: usize) -> Result<Value, &'static str> {
        checked_shape(shape)?;
        let number = Runs::open(&body, shape.rows)?.0.find(row)?;
        Ok(match shape.data_type {
            DataType::Boolean => Value::Boolean(number & 1 == 1),
            t => number_value(t, packed::cut(number, shape.width)),
        })
    }
}

/// Returns an error unless the type and width can have this encoding.
fn checked_shape(shape: &Shape) -> Result<(), &'static str> {
    match !shape.data_type.is_variable() && shape.is_of_type() {
        true => Ok(()),
        false => Err("an encoding or width that the type does not have"),
    }
}

/// Parses a body that contains runs and nothing else.
fn whole(shape: &Shape, body: &PageBuf) -> Result<Runs, &'static str> {
    checked_shape(shape)?;
    let (runs, used) = Runs::parse(body, shape.rows)?;
    match used == body.len() {
        true => Ok(runs),
        false => Err("bytes behind runs"),
    }
}

/// Unpacks runs of 0 and 1 into bits, one a row.
pub(crate) fn bits_of(runs: &Runs, rows: Range<usize>) -> PageBuf {
    let mut out = PageBufMut::zeroed(rows.len().div_ceil(8));
    let mut at = 0;
    runs.each(&rows, &mut Scratch::default(), |length, bit: u8| {
        if bit & 1 == 1 {
            crate::bits::fill(&mut out, at, length);
        }
        at += length;
    });
    out.freeze()
}

/// Appends bits, one a row, as runs.
pub(crate) fn put_bits(bits: &[u8], rows: usize, out: &mut Vec<u8>) {
    let each: Vec<u32> = (0..rows).map(|row| crate::bits::get(bits, row).into()).collect();
    runs::encode(&each, 0, out);
}
