//! The delta encoding, for numbers that ascend. `packed::vector` draws the bytes.

use std::ops::Range;

use lode_base::PageBuf;

use super::contract::{Cost, Encoded, Encoding, Shape};
use super::input::Input;
use super::numbers::{self, is_exact};
use crate::{DataType, Values};

/// The entry in [`super::ENCODINGS`].
pub(super) struct Delta;

/// The time to unpack one delta and add it, in picoseconds.
const UNPACK_PS: u64 = 250;

impl Encoding for Delta {
    fn id(&self) -> u8 {
        7
    }

    fn name(&self) -> &'static str {
        "delta"
    }

    fn takes(&self, t: DataType) -> bool {
        is_exact(t)
    }

    fn estimate(&self, input: &Input<'_>) -> Option<Cost> {
        Some(Cost { bytes: numbers::delta_bytes(input)?, unpack_ps: input.rows as u64 * UNPACK_PS })
    }

    fn encode(&self, input: &Input<'_>) -> Option<Encoded> {
        numbers::vector(input, true)
    }

    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str> {
        numbers::open(self.id(), shape, body, true)
    }

    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str> {
        numbers::range(self.open(shape, body)?, rows)
    }
}
