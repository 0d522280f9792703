//! Columns in memory: decoded from a page's segment, encoded into a page, and sent over the link.
//!
//! ```text
//!   Column { data_type, rows, validity?, values }
//!     values = Bits  : one bit a row, least significant bit first
//!              Fixed : `width` bytes a row, little-endian (decimals: 4, 8 or 16, sign-extended on reading)
//!              Var   : rows + 1 offsets (u32) into data
//!              Dict  : one code (1 or 2 bytes) a row into a small column of distinct values without NULLs
//!              Packed, Symbols : numbers and strings as on the medium; a reader unpacks the rows that it needs
//! ```
//!
//! [`Column::new`] checks a column. So the accessors of a column cannot go out of bounds.
//!
//! Invariants: each buffer is as long as `rows` needs. Offsets start at 0, never fall, and end within the data. Codes
//! are below the dictionary's length. TEXT data is UTF-8, and its offsets are on character boundaries. The value
//! under a NULL is unspecified, but within bounds. A dictionary is itself Fixed or Var.

use std::sync::Arc;

use lode_base::PageBuf;

use crate::packed::Packed;
use crate::symbols::Symbols;
use crate::{DataType, PageError, Value};

/// A column of values of one type. Cloning shares the buffers.
#[derive(Clone, Debug)]
pub struct Column {
    data_type: DataType,
    rows: usize,
    validity: Option<PageBuf>,
    values: Values,
}

/// The layout of a column's values.
#[derive(Clone, Debug)]
pub enum Values {
    /// One bit a row (BOOLEAN).
    Bits(PageBuf),
    /// `width` bytes a row.
    Fixed {
        /// Bytes of each value: the type's own, or for decimals 4, 8 or 16.
        width: u8,
        /// `rows * width` bytes.
        data: PageBuf,
    },
    /// Strings of variable length.
    Var {
        /// `rows + 1` little-endian u32 offsets into `data`.
        offsets: PageBuf,
        /// The strings' bytes, end to end.
        data: PageBuf,
    },
    /// Codes into a column of distinct values.
    Dict {
        /// Bytes of each code, 1 or 2.
        code_width: u8,
        /// `rows * code_width` bytes.
        codes: PageBuf,
        /// The distinct values, none of them NULL, itself Fixed or Var.
        dictionary: Arc<Column>,
    },
    /// Numbers of fixed width, packed.
    Packed(Arc<Packed>),
    /// Strings as codes of symbols.
    Symbols(Arc<Symbols>),
}

impl Column {
    /// Makes a checked column of `rows` rows. `validity` has one bit a row, 1 where the value is not NULL.
    ///
    /// # Errors
    /// [`PageError::BadColumn`] when a buffer is too short or misaligned, or when an offset, a code or the text is
    /// wrong.
    pub fn new(
        data_type: DataType,
        rows: usize,
        validity: Option<PageBuf>,
        values: Values,
    ) -> Result<Self, PageError> {
        crate::column_check::check(data_type, rows, validity.as_ref(), &values)?;
        Ok(Self { data_type, rows, validity, values })
    }

    /// Makes a column out of parts of checked columns. Only debug builds check it again.
    pub(crate) fn trusted(
        data_type: DataType,
        rows: usize,
        validity: Option<PageBuf>,
        values: Values,
    ) -> Self {
        debug_assert_eq!(crate::column_check::check(data_type, rows, validity.as_ref(), &values), Ok(()));
        Self { data_type, rows, validity, values }
    }

    /// Returns the type of the values.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns one bit a row, 1 where the value is not NULL; `None` if no value is NULL.
    pub fn validity(&self) -> Option<&PageBuf> {
        self.validity.as_ref()
    }

    /// Returns the values in their layout.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Returns the bytes that the column takes on the link: all its buffers, including those of a dictionary.
    pub fn link_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Bits(b) => b.len(),
            Values::Fixed { data, .. } => data.len(),
            Values::Var { offsets, data } => offsets.len() + data.len(),
            Values::Dict { codes, dictionary, .. } => codes.len() + dictionary.link_bytes(),
            Values::Packed(p) => p.bytes(),
            Values::Symbols(s) => s.bytes(),
        };
        values + self.validity.as_ref().map_or(0, |v| v.len())
    }

    /// Returns the bytes of memory that the column keeps in use, if it was decoded from `segment`: the whole segment
    /// if the column shares any part of it, plus all buffers outside it.
    pub fn memory_bytes(&self, segment: &PageBuf) -> usize {
        let (mut shared, mut own) = (false, 0);
        self.each_buffer(&mut |b| match segment.as_ptr_range().contains(&b.as_ptr()) {
            true => shared = true,
            false => own += b.memory_bytes(),
        });
        own + if shared { segment.memory_bytes() } else { 0 }
    }

    fn each_buffer(&self, f: &mut impl FnMut(&PageBuf)) {
        if let Some(v) = &self.validity {
            f(v);
        }
        match &self.values {
            Values::Bits(b) | Values::Fixed { data: b, .. } => f(b),
            Values::Var { offsets, data } => {
                f(offsets);
                f(data);
            }
            Values::Dict { codes, dictionary, .. } => {
                f(codes);
                dictionary.each_buffer(f);
            }
            Values::Packed(p) => f(p.body()),
            Values::Symbols(s) => f(s.body()),
        }
    }

    /// Returns the bytes of the values after unpacking. For layouts that need no unpacking, these are the link bytes.
    pub fn unpacked_bytes(&self) -> usize {
        match &self.values {
            Values::Packed(p) => self.rows * usize::from(p.width()),
            Values::Symbols(s) => (self.rows + 1) * 4 + s.string_bytes(),
            _ => self.link_bytes(),
        }
    }

    /// Returns whether row `row` is NULL.
    ///
    /// # Panics
    /// When `row` is not below [`Column::rows`].
    pub fn is_null(&self, row: usize) -> bool {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        self.validity.as_ref().is_some_and(|v| v[row / 8] >> (row % 8) & 1 == 0)
    }

    /// Returns the value of row `row`. It serves messages, keys and tests; loops read the buffers instead.
    ///
    /// # Panics
    /// When `row` is not below [`Column::rows`].
    pub fn value(&self, row: usize) -> Value {
        if self.is_null(row) {
            return Value::Null;
        }
        match &self.values {
            Values::Bits(b) => Value::Boolean(b[row / 8] >> (row % 8) & 1 == 1),
            Values::Fixed { width, data } => {
                let w = usize::from(*width);
                fixed_value(self.data_type, &data[row * w..(row + 1) * w])
            }
            Values::Var { offsets, data } => {
                let o: &[u32] = offsets.try_values().expect("offsets were checked to be aligned");
                Value::Bytes(data[o[row] as usize..o[row + 1] as usize].into())
            }
            Values::Dict { code_width, codes, dictionary } => {
                let code = match code_width {
                    1 => usize::from(codes[row]),
                    _ => usize::from(u16::from_le_bytes([codes[2 * row], codes[2 * row + 1]])),
                };
                dictionary.value(code)
            }
            Values::Packed(p) => number_value(self.data_type, p.get(row)),
            Values::Symbols(s) => Value::Bytes(s.get(row)),
        }
    }
}

/// Returns the value of type `t` whose bits are `number`.
pub(crate) fn number_value(t: DataType, number: i128) -> Value {
    match t {
        DataType::Real => Value::Real(f32::from_bits(number as u32)),
        DataType::Double => Value::Double(f64::from_bits(number as u64)),
        DataType::Decimal { .. } => Value::Decimal(number),
        _ => Value::Int(number as i64),
    }
}

/// Returns the value in these little-endian bytes (2, 4, 8 or 16; decimals are sign-extended).
fn fixed_value(t: DataType, b: &[u8]) -> Value {
    let int = match *b {
        [a, b] => i128::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i128::from(i32::from_le_bytes([a, b, c, d])),
        _ if b.len() == 8 => i128::from(i64::from_le_bytes(b.try_into().expect("8 bytes"))),
        _ => i128::from_le_bytes(b.try_into().expect("widths were checked to be 2, 4, 8 or 16")),
    };
    number_value(t, int)
}
