//! Deltas: for numbers that ascend. `packed::vector` draws the bytes.

use std::ops::Range;

use lode_base::PageBuf;

use super::contract::{Cost, Encoded, Encoding, Shape};
use super::input::Input;
use super::numbers::{self, is_exact};
use crate::{DataType, Values};

/// The member of the table.
pub(super) struct Delta;

/// What unpacking a number takes, and adding it up.
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
