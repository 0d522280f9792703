//! The FSST encoding: strings as codes of symbols. `symbols` draws the bytes.

use std::ops::Range;
use std::sync::Arc;

use lode_base::PageBuf;

use super::contract::{Cost, Encoded, Encoding, Shape};
use super::input::Input;
use crate::symbols::{self, Symbols};
use crate::{DataType, Value, Values};

/// The entry in [`super::ENCODINGS`].
pub(super) struct Fsst;

/// The time to expand one byte of a string, and the extra time for each row, in picoseconds.
const BYTE_PS: u64 = 450;
const ROW_PS: u64 = 1000;
/// The approximate bytes of the symbol table and the index.
const TABLE_BYTES: usize = 1500;

impl Encoding for Fsst {
    fn id(&self) -> u8 {
        11
    }

    fn name(&self) -> &'static str {
        "fsst"
    }

    fn takes(&self, t: DataType) -> bool {
        t.is_variable()
    }

    fn estimate(&self, input: &Input<'_>) -> Option<Cost> {
        let (_, data) = input.strings()?;
        let trained = input.trained()?;
        let codes = (data.len() as u64 * trained.codes as u64 / trained.strings as u64) as usize;
        // The number of codes of each row takes approximately one byte.
        let bytes = codes + input.rows + TABLE_BYTES;
        Some(Cost { bytes, unpack_ps: data.len() as u64 * BYTE_PS + input.rows as u64 * ROW_PS })
    }

    fn is_slow_to_estimate(&self) -> bool {
        true
    }

    fn encode(&self, input: &Input<'_>) -> Option<Encoded> {
        let (offsets, data) = input.strings()?;
        let mut body = Vec::with_capacity(data.len() / 2 + input.rows);
        symbols::encode(input.trained()?, offsets, data, &mut body);
        Some(Encoded { body, width: 0 })
    }

    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str> {
        let symbols = opened(self.id(), shape, body)?;
        match shape.data_type != DataType::Text || symbols.are_text() {
            true => Ok(Values::Symbols(Arc::new(symbols))),
            // The codes alone do not show that the strings are UTF-8. `Column::new` checks the expanded strings.
            false => Ok(symbols.expand(0..shape.rows)),
        }
    }

    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str> {
        Ok(opened(self.id(), shape, body)?.expand(rows))
    }

    fn row(&self, shape: &Shape, body: PageBuf, row: usize) -> Result<Value, &'static str> {
        checked(shape)?;
        let bytes = Symbols::open(self.id(), body, shape.rows)?.find(row)?;
        match shape.data_type != DataType::Text || std::str::from_utf8(&bytes).is_ok() {
            true => Ok(Value::Bytes(bytes)),
            false => Err("text is not UTF-8"),
        }
    }
}

/// Returns an error unless the type and width can have this encoding.
fn checked(shape: &Shape) -> Result<(), &'static str> {
    match shape.data_type.is_variable() && shape.width == 0 {
        true => Ok(()),
        false => Err("an encoding or width that the type does not have"),
    }
}

fn opened(id: u8, shape: &Shape, body: PageBuf) -> Result<Symbols, &'static str> {
    checked(shape)?;
    Symbols::parse(id, body, shape.rows)
}
