//! What every encoding must do, and what it is given and returns.

use std::ops::Range;

use lode_base::PageBuf;

use super::input::Input;
use crate::{Column, DataType, PageError, Value, Values};

/// A way to hold values in fewer bytes.
pub(crate) trait Encoding: Sync {
    /// What a directory entry calls it.
    fn id(&self) -> u8;

    /// What a table's option calls it.
    fn name(&self) -> &'static str;

    /// Whether columns of type `t` can have it.
    fn takes(&self, t: DataType) -> bool;

    /// What it would take, about; `None` where it cannot hold these values, or is not worth a try.
    fn estimate(&self, input: &Input<'_>) -> Option<Cost>;

    /// Whether an estimate takes so long that it is not made where another encoding already takes a quarter of the bytes.
    fn is_slow_to_estimate(&self) -> bool {
        false
    }

    /// The body of a segment; `None` where it cannot hold these values.
    fn encode(&self, input: &Input<'_>) -> Option<Encoded>;

    /// All values of a body. What is read often may stay encoded.
    ///
    /// # Errors
    /// What is wrong with the body.
    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str>;

    /// The values of some rows, which there are. It need not look at the body of others.
    ///
    /// # Errors
    /// What is wrong with the body.
    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str>;

    /// The value of one row, which there is, of at most 1,024 that are unpacked.
    ///
    /// # Errors
    /// What is wrong with the body.
    fn row(&self, shape: &Shape, body: PageBuf, row: usize) -> Result<Value, &'static str> {
        let values = self.range(shape, body, row..row + 1)?;
        let one = Column::new(shape.data_type, 1, None, values).map_err(what)?;
        Ok(one.value(0))
    }
}

/// What a column costs: its bytes, and the time to unpack all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) bytes: usize,
    pub(crate) unpack_ps: u64,
}

/// What a byte costs, in the time of a reader: it is kept, read, checked and sent.
pub(super) const BYTE_PS: u64 = 2000;

impl Cost {
    /// All of it, in picoseconds.
    pub(super) fn total(self) -> u64 {
        self.bytes as u64 * BYTE_PS + self.unpack_ps
    }
}

/// The body of a segment, and what its directory entry says of it.
pub(crate) struct Encoded {
    pub(crate) body: Vec<u8>,
    /// Bytes of a number in memory; 0 for bits and strings.
    pub(crate) width: u8,
}

/// What is known of a segment beside its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) data_type: DataType,
    pub(crate) rows: usize,
    /// Bytes of a number in memory; 0 for bits and strings.
    pub(crate) width: u8,
}

impl Shape {
    /// Whether numbers of the type may be so wide.
    pub(crate) fn is_of_type(&self) -> bool {
        match self.data_type {
            DataType::Decimal { .. } => matches!(self.width, 4 | 8 | 16),
            t => t.fixed_bytes().unwrap_or(0) == usize::from(self.width),
        }
    }
}

/// What a column's error says is wrong.
pub(crate) fn what(e: PageError) -> &'static str {
    match e {
        PageError::BadColumn { what, .. } => what,
        _ => "a column that contradicts itself",
    }
}
