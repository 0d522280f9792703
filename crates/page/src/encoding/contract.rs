//! The trait that every encoding implements, and the types that it takes and returns.

use std::ops::Range;

use lode_base::PageBuf;

use super::input::Input;
use crate::{Column, DataType, PageError, Value, Values};

/// An encoding: stores the values of a segment in fewer bytes.
pub(crate) trait Encoding: Sync {
    /// Returns the id of the encoding in directory entries.
    fn id(&self) -> u8;

    /// Returns the name of the encoding in table options.
    fn name(&self) -> &'static str;

    /// Returns whether columns of type `t` can have this encoding.
    fn takes(&self, t: DataType) -> bool;

    /// Returns whether values take whole bytes, row after row. Row pages may have such an encoding, and nothing is
    /// decompressed.
    fn is_whole_bytes(&self) -> bool {
        false
    }

    /// Estimates the cost of the encoded values. Returns `None` if the encoding cannot hold these values, or is
    /// unlikely to save bytes.
    fn estimate(&self, input: &Input<'_>) -> Option<Cost>;

    /// Returns whether [`Encoding::estimate`] is slow. A slow estimate is skipped if another encoding already costs
    /// less than a quarter of the plain values.
    fn is_slow_to_estimate(&self) -> bool {
        false
    }

    /// Encodes the values as the body of a segment. Returns `None` if the encoding cannot hold these values.
    fn encode(&self, input: &Input<'_>) -> Option<Encoded>;

    /// Decodes all values of a body. The values may stay encoded in memory.
    ///
    /// # Errors
    /// Returns what is wrong with the body.
    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str>;

    /// Decodes the values of `rows`, which must exist. The encoding may leave the bytes of other rows unchecked.
    ///
    /// # Errors
    /// Returns what is wrong with the body.
    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str>;

    /// Decodes the value of `row`, which must exist. Unpacks at most 1,024 values.
    ///
    /// # Errors
    /// Returns what is wrong with the body.
    fn row(&self, shape: &Shape, body: PageBuf, row: usize) -> Result<Value, &'static str> {
        let values = self.range(shape, body, row..row + 1)?;
        let one = Column::new(shape.data_type, 1, None, values).map_err(what)?;
        Ok(one.value(0))
    }
}

/// The cost of a column: its bytes, and the time to unpack all values, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) bytes: usize,
    pub(crate) unpack_ps: u64,
}

/// The cost of one byte, in picoseconds of a reader's time. A byte is stored, read, checksummed and sent.
pub(super) const BYTE_PS: u64 = 2000;

impl Cost {
    /// Returns the total cost in picoseconds.
    pub(super) fn total(self) -> u64 {
        self.bytes as u64 * BYTE_PS + self.unpack_ps
    }
}

/// The body of a segment, and the value width for its directory entry.
pub(crate) struct Encoded {
    pub(crate) body: Vec<u8>,
    /// Bytes of one number in memory; 0 for bits and strings.
    pub(crate) width: u8,
}

/// The facts about a segment that its body does not contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) data_type: DataType,
    pub(crate) rows: usize,
    /// Bytes of one number in memory; 0 for bits and strings.
    pub(crate) width: u8,
}

impl Shape {
    /// Returns whether the type allows numbers of this width.
    pub(crate) fn is_of_type(&self) -> bool {
        match self.data_type {
            DataType::Decimal { .. } => matches!(self.width, 4 | 8 | 16),
            t => t.fixed_bytes().unwrap_or(0) == usize::from(self.width),
        }
    }
}

/// Returns the description in a column's error.
pub(crate) fn what(e: PageError) -> &'static str {
    match e {
        PageError::BadColumn { what, .. } => what,
        _ => "a column that contradicts itself",
    }
}
