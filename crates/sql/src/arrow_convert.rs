//! Converts columns of pages to Arrow arrays, and back.
//!
//! ```text
//!   Bits            ─► Boolean                the page's bits
//!   Fixed           ─► Int16 ... Timestamp    the page's bytes
//!   Fixed decimal   ─► Decimal128             the page's bytes at width 16; narrower ones are widened
//!   Var             ─► Utf8View, BinaryView   one view a row into the page's data
//!   Dict            ─► the dictionary's array once, then gathered by code
//!   Packed          ─► unpacked into the array, decimals directly to 16 bytes
//!   Symbols         ─► expanded once, then one view a row
//! ```
//!
//! If the width of the values is the same on both sides, the array shares the page's buffer, which then lives as long
//! as the array.
//!
//! Invariants: NULLs are the same on both sides. Decimals keep their scale. Text keeps its bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, PrimitiveArray,
    StringArray, StringViewArray, UInt8Array, UInt16Array, new_null_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{CastOptions, cast_with_options, take};
use datafusion::arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::arrow::error::ArrowError;
use lode_base::{PageBuf, PageBufMut};
use lode_page::packed::{Number, Packed, Scratch};
use lode_page::{Column, DataType, PageError, Value, Values, ops};

use crate::error::{arrow_sqlstate, state};

/// Why an array cannot become a column.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// Arrow cannot convert the values.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The buffers do not make a column.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The strings have more bytes than one column can hold.
    #[error("{bytes} bytes of {data_type} are too many for one column; insert fewer rows at a time")]
    TooLong {
        /// The column's type.
        data_type: DataType,
        /// Bytes of its strings.
        bytes: usize,
    },
}

impl ConvertError {
    pub(crate) fn sqlstate(&self) -> &'static str {
        match self {
            Self::Arrow(e) => arrow_sqlstate(e),
            Self::Page(_) => state::INTERNAL_ERROR,
            Self::TooLong { .. } => state::PROGRAM_LIMIT_EXCEEDED,
        }
    }
}

/// Returns the Arrow type that columns of type `t` have in queries.
pub fn arrow_type(t: DataType) -> ArrowType {
    match t {
        DataType::Boolean => ArrowType::Boolean,
        DataType::SmallInt => ArrowType::Int16,
        DataType::Integer => ArrowType::Int32,
        DataType::BigInt => ArrowType::Int64,
        DataType::Real => ArrowType::Float32,
        DataType::Double => ArrowType::Float64,
        DataType::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale as i8),
        DataType::Text => ArrowType::Utf8View,
        DataType::Bytea => ArrowType::BinaryView,
        DataType::Date => ArrowType::Date32,
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
    }
}

/// Converts the column to an Arrow array of [`arrow_type`]. The array shares the column's buffers if the layouts
/// agree.
///
/// # Errors
/// When Arrow refuses the buffers. A checked column never causes this.
pub fn to_arrow(column: &Column) -> Result<ArrayRef, ArrowError> {
    Pieces::new(column.clone())?.piece(0..column.rows())
}

/// Converts one value of a column of type `t` to an Arrow array of one row, of [`arrow_type`].
///
/// # Errors
/// When Arrow refuses the value. A value that fits its type never causes this.
pub(crate) fn one_to_arrow(t: DataType, value: &Value) -> Result<ArrayRef, ArrowError> {
    Ok(match (t, value) {
        (DataType::SmallInt, Value::Int(n)) => one::<Int16Type>(*n as i16),
        (DataType::Integer, Value::Int(n)) => one::<Int32Type>(*n as i32),
        (DataType::BigInt, Value::Int(n)) => one::<Int64Type>(*n),
        (DataType::Date, Value::Int(n)) => one::<Date32Type>(*n as i32),
        (DataType::Timestamp, Value::Int(n)) => one::<TimestampMicrosecondType>(*n),
        (DataType::Real, Value::Real(n)) => one::<Float32Type>(*n),
        (DataType::Double, Value::Double(n)) => one::<Float64Type>(*n),
        (DataType::Decimal { precision, scale }, Value::Decimal(n)) => {
            let array = Decimal128Array::from(vec![*n]);
            Arc::new(array.with_precision_and_scale(precision, scale as i8)?)
        }
        (DataType::Boolean, Value::Boolean(b)) => Arc::new(BooleanArray::from(vec![*b])),
        // The column of the page was checked to be UTF-8.
        (DataType::Text, Value::Bytes(b)) => match std::str::from_utf8(b) {
            Ok(text) => Arc::new(StringViewArray::from_iter_values([text])),
            Err(e) => return Err(ArrowError::CastError(e.to_string())),
        },
        (DataType::Bytea, Value::Bytes(b)) => Arc::new(BinaryViewArray::from_iter_values([b])),
        (t, Value::Null) => new_null_array(&arrow_type(t), 1),
        (t, other) => return Err(ArrowError::CastError(format!("{other:?} in a column of {t}"))),
    })
}

fn one<T: ArrowPrimitiveType>(value: T::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(vec![value].into(), None))
}

/// A column that is converted to Arrow arrays some rows at a time. So the unpacked values are still in the CPU's
/// cache when they are used.
pub(crate) struct Pieces {
    column: Column,
    /// The array of the dictionary's values, if the column has a dictionary.
    values: Option<ArrayRef>,
}

impl Pieces {
    /// Prepares a column to be converted in pieces.
    ///
    /// # Errors
    /// The errors of [`to_arrow`].
    pub(crate) fn new(column: Column) -> Result<Self, ArrowError> {
        let values = match column.values() {
            Values::Dict { dictionary, .. } => Some(to_arrow(dictionary)?),
            _ => None,
        };
        Ok(Self { column, values })
    }

    /// Converts these rows, which must exist.
    ///
    /// # Errors
    /// The errors of [`to_arrow`].
    pub(crate) fn piece(&self, rows: Range<usize>) -> Result<ArrayRef, ArrowError> {
        let (c, t) = (&self.column, self.column.data_type());
        let nulls = || c.validity().map(|v| NullBuffer::new(bits(v, &rows)));
        match (c.values(), &self.values) {
            (Values::Dict { code_width, codes, .. }, Some(values)) => match code_width {
                1 => {
                    let codes = shared(&codes.slice(rows.clone())).into();
                    take(values, &UInt8Array::try_new(codes, nulls())?, None)
                }
                _ => {
                    let codes = shared(&codes.slice(2 * rows.start..2 * rows.end)).into();
                    take(values, &UInt16Array::try_new(codes, nulls())?, None)
                }
            },
            (Values::Symbols(s), _) => {
                let (offsets, data) = s.strings(rows.clone());
                views(t, Buffer::from_vec(offsets), Buffer::from_vec(data), nulls())
            }
            (Values::Packed(p), _) => packed_to_arrow(t, p, &rows, nulls()),
            _ if rows.len() == c.rows() => plain_to_arrow(t, c.rows(), c.values(), nulls()),
            _ => {
                let c = ops::slice(c, rows.start, rows.len());
                let nulls = c.validity().map(|v| NullBuffer::new(bits(v, &(0..c.rows()))));
                plain_to_arrow(t, c.rows(), c.values(), nulls)
            }
        }
    }
}

/// Converts values that are neither packed, nor symbols, nor a dictionary.
fn plain_to_arrow(
    t: DataType,
    rows: usize,
    values: &Values,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    match values {
        Values::Bits(b) => Ok(Arc::new(BooleanArray::new(bits(b, &(0..rows)), nulls))),
        Values::Fixed { width, data } => match t {
            DataType::SmallInt => fixed::<Int16Type>(data, nulls),
            DataType::Integer => fixed::<Int32Type>(data, nulls),
            DataType::Date => fixed::<Date32Type>(data, nulls),
            DataType::BigInt => fixed::<Int64Type>(data, nulls),
            DataType::Timestamp => fixed::<TimestampMicrosecondType>(data, nulls),
            DataType::Real => fixed::<Float32Type>(data, nulls),
            DataType::Double => fixed::<Float64Type>(data, nulls),
            DataType::Decimal { .. } => decimals(
                t,
                match width {
                    4 => widen::<i32>(data.try_values()),
                    8 => widen::<i64>(data.try_values()),
                    _ => ScalarBuffer::from(shared(data)),
                },
                nulls,
            ),
            DataType::Boolean | DataType::Text | DataType::Bytea => {
                unreachable!("a checked {t} column is not of fixed width")
            }
        },
        Values::Var { offsets, data } => views(t, shared(offsets), shared(data), nulls),
        Values::Dict { .. } | Values::Packed(_) | Values::Symbols(_) => unreachable!("the caller looked"),
    }
}

/// Unpacks rows of packed numbers into an array.
fn packed_to_arrow(
    t: DataType,
    p: &Packed,
    rows: &Range<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    match t {
        DataType::SmallInt => numbers::<Int16Type>(p, rows, nulls),
        DataType::Integer => numbers::<Int32Type>(p, rows, nulls),
        DataType::Date => numbers::<Date32Type>(p, rows, nulls),
        DataType::BigInt => numbers::<Int64Type>(p, rows, nulls),
        DataType::Timestamp => numbers::<TimestampMicrosecondType>(p, rows, nulls),
        DataType::Decimal { .. } => decimals(t, unpacked(p, rows), nulls),
        // The packed numbers are the bits of the floats.
        DataType::Real | DataType::Double => {
            let plain = Values::Fixed { width: p.width(), data: p.unpack(rows.clone()) };
            plain_to_arrow(t, rows.len(), &plain, nulls)
        }
        DataType::Boolean | DataType::Text | DataType::Bytea => {
            unreachable!("a checked {t} column is not of packed numbers")
        }
    }
}

fn decimals(
    t: DataType,
    values: ScalarBuffer<i128>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let DataType::Decimal { precision, scale } = t else { unreachable!("the caller looked") };
    let array = Decimal128Array::try_new(values, nulls)?;
    Ok(Arc::new(array.with_precision_and_scale(precision, scale as i8)?))
}

/// Returns the bytes as an Arrow buffer, without a copy.
fn shared(b: &PageBuf) -> Buffer {
    Buffer::from(Bytes::from_owner(b.clone()))
}

fn bits(b: &PageBuf, rows: &Range<usize>) -> BooleanBuffer {
    BooleanBuffer::new(shared(b), rows.start, rows.len())
}

fn widen<T: Copy + Into<i128>>(narrow: Option<&[T]>) -> ScalarBuffer<i128> {
    let narrow = narrow.expect("a checked column's data is aligned");
    narrow.iter().map(|&v| v.into()).collect::<Vec<i128>>().into()
}

/// Makes an array of views from offsets and bytes of strings.
fn views(
    t: DataType,
    offsets: Buffer,
    data: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let offsets = OffsetBuffer::new(ScalarBuffer::<i32>::from(offsets));
    if t == DataType::Text {
        let strings = StringArray::try_new(offsets, data, nulls)?;
        Ok(Arc::new(StringViewArray::from(&strings)))
    } else {
        let strings = BinaryArray::try_new(offsets, data, nulls)?;
        Ok(Arc::new(BinaryViewArray::from(&strings)))
    }
}

/// Unpacks numbers at the width of the Arrow type.
fn unpacked<N: Number + ArrowNativeType>(p: &Packed, rows: &Range<usize>) -> ScalarBuffer<N> {
    let mut out = vec![N::zeroed(); rows.len()];
    p.read(rows.start, &mut out, &mut Scratch::default());
    out.into()
}

fn numbers<T: ArrowPrimitiveType<Native: Number>>(
    p: &Packed,
    rows: &Range<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(unpacked(p, rows), nulls)?))
}

fn fixed<T: ArrowPrimitiveType>(data: &PageBuf, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(shared(data).into(), nulls)?))
}

/// Converts the array to a column of type `t`. An array of another type is cast first. A value that does not fit is
/// an error.
///
/// # Errors
/// [`ConvertError::Arrow`] when a value cannot be cast. [`ConvertError::TooLong`] when the text has 2 GB or more.
pub fn from_arrow(array: &ArrayRef, t: DataType) -> Result<Column, ConvertError> {
    let wanted = arrow_type(t);
    let same_kind = match t {
        DataType::Text => {
            matches!(array.data_type(), ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
        }
        DataType::Bytea => {
            matches!(array.data_type(), ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView)
        }
        _ => *array.data_type() == wanted,
    };
    if !same_kind {
        let options = CastOptions { safe: false, ..Default::default() };
        return from_same(&cast_with_options(array, &wanted, &options)?, t);
    }
    from_same(array, t)
}

fn from_same(array: &ArrayRef, t: DataType) -> Result<Column, ConvertError> {
    let rows = array.len();
    let values = match t {
        DataType::Boolean => Values::Bits(packed(array.as_boolean().values())),
        DataType::SmallInt => of_fixed::<Int16Type>(array),
        DataType::Integer => of_fixed::<Int32Type>(array),
        DataType::Date => of_fixed::<Date32Type>(array),
        DataType::BigInt => of_fixed::<Int64Type>(array),
        DataType::Timestamp => of_fixed::<TimestampMicrosecondType>(array),
        DataType::Real => of_fixed::<Float32Type>(array),
        DataType::Double => of_fixed::<Float64Type>(array),
        DataType::Decimal { .. } => {
            let decimals = array.as_primitive::<Decimal128Type>();
            if array.null_count() > 0 {
                // The value under a NULL may have more digits than the type allows, so it must not reach a page.
                let clean: Vec<i128> = decimals.iter().map(Option::unwrap_or_default).collect();
                Values::Fixed { width: 16, data: PageBuf::from_values(&clean) }
            } else {
                of_fixed::<Decimal128Type>(array)
            }
        }
        DataType::Text => match array.data_type() {
            ArrowType::Utf8 => of_strings(t, array.as_string::<i32>().iter().map(|s| s.map(str::as_bytes)))?,
            ArrowType::LargeUtf8 => {
                of_strings(t, array.as_string::<i64>().iter().map(|s| s.map(str::as_bytes)))?
            }
            _ => of_strings(t, array.as_string_view().iter().map(|s| s.map(str::as_bytes)))?,
        },
        DataType::Bytea => match array.data_type() {
            ArrowType::Binary => of_strings(t, array.as_binary::<i32>().iter())?,
            ArrowType::LargeBinary => of_strings(t, array.as_binary::<i64>().iter())?,
            _ => of_strings(t, array.as_binary_view().iter())?,
        },
    };
    let validity = array.nulls().filter(|n| n.null_count() > 0).map(|n| packed(n.inner()));
    Ok(Column::new(t, rows, validity, values)?)
}

/// Copies the bits, so that the first bit is bit 0 of the first byte.
fn packed(bits: &BooleanBuffer) -> PageBuf {
    PageBuf::copy_from(bits.sliced().as_slice())
}

fn of_fixed<T: ArrowPrimitiveType>(array: &ArrayRef) -> Values {
    let values = array.as_primitive::<T>().values();
    Values::Fixed {
        width: T::Native::get_byte_width() as u8,
        data: PageBuf::copy_from(values.inner().as_slice()),
    }
}

/// Copies the strings end to end. A NULL becomes an empty string.
fn of_strings<'a>(
    t: DataType,
    strings: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
) -> Result<Values, ConvertError> {
    let bytes: usize = strings.clone().flatten().map(<[u8]>::len).sum();
    if i32::try_from(bytes).is_err() {
        return Err(ConvertError::TooLong { data_type: t, bytes });
    }
    let mut offsets: Vec<u32> = Vec::with_capacity(strings.len() + 1);
    let mut data = PageBufMut::zeroed(bytes);
    let mut at = 0;
    offsets.push(0);
    for s in strings {
        if let Some(s) = s {
            data[at..at + s.len()].copy_from_slice(s);
            at += s.len();
        }
        offsets.push(at as u32);
    }
    Ok(Values::Var { offsets: PageBuf::from_values(&offsets), data: data.freeze() })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        DictionaryArray, Int32Array, Int64Array, LargeStringArray, StringDictionaryBuilder,
    };
    use datafusion::arrow::datatypes::Int8Type;
    use lode_page::Value;

    use super::*;

    fn round_trip(array: ArrayRef, t: DataType) {
        let column = from_arrow(&array, t).unwrap();
        assert_eq!(column.rows(), array.len());
        let back = to_arrow(&column).unwrap();
        assert_eq!(*back.data_type(), arrow_type(t));
        assert_eq!(&back, &array, "{t}");
    }

    #[test]
    fn arrays_come_back_as_they_were() {
        let long = "a text of more than twelve bytes";
        round_trip(Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])), DataType::Boolean);
        round_trip(Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(7)])), DataType::Integer);
        round_trip(Arc::new(Int64Array::from(vec![1, 2, 3]).slice(1, 2)), DataType::BigInt);
        round_trip(Arc::new(StringViewArray::from(vec![Some(long), None, Some("")])), DataType::Text);
        let bytes: Vec<Option<&[u8]>> = vec![Some(&[0xff, 0]), None];
        round_trip(Arc::new(BinaryViewArray::from(bytes)), DataType::Bytea);
        let decimals =
            Decimal128Array::from(vec![Some(-12_345), None]).with_precision_and_scale(9, 2).unwrap();
        round_trip(Arc::new(decimals), DataType::Decimal { precision: 9, scale: 2 });
        round_trip(Arc::new(StringViewArray::from(Vec::<&str>::new())), DataType::Text);
        let sliced = BooleanArray::from(vec![Some(true), None, Some(false), Some(true), None]).slice(1, 4);
        round_trip(Arc::new(sliced), DataType::Boolean);
    }

    #[test]
    fn other_flavours_are_taken_too() {
        let check = |array: ArrayRef, t, expected: &[Value]| {
            let column = from_arrow(&array, t).unwrap();
            let got: Vec<Value> = (0..column.rows()).map(|r| column.value(r)).collect();
            assert_eq!(got, expected);
        };
        let words = [Value::text("a"), Value::Null, Value::text("b")];
        check(Arc::new(StringArray::from(vec![Some("a"), None, Some("b")])), DataType::Text, &words);
        check(Arc::new(LargeStringArray::from(vec![Some("a"), None, Some("b")])), DataType::Text, &words);
        let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
        dictionary.append_option(Some("a"));
        dictionary.append_null();
        dictionary.append_value("b");
        let dictionary: DictionaryArray<Int8Type> = dictionary.finish();
        check(Arc::new(dictionary), DataType::Text, &words);
        let d = DataType::Decimal { precision: 9, scale: 2 };
        check(Arc::new(Int64Array::from(vec![3])), d, &[Value::Decimal(300)]);
    }

    #[test]
    fn a_value_that_does_not_fit_is_an_error() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1, 70_000]));
        let e = from_arrow(&array, DataType::SmallInt).unwrap_err().to_string();
        assert!(e.contains("70000"), "{e}");
    }

    #[test]
    fn narrow_decimals_and_dictionaries_are_widened() {
        let d = DataType::Decimal { precision: 15, scale: 2 };
        let narrow = Values::Fixed { width: 4, data: PageBuf::from_values(&[-5i32, 7]) };
        let narrow = Column::new(d, 2, None, narrow).unwrap();
        let expected = Decimal128Array::from(vec![-5, 7]).with_precision_and_scale(15, 2).unwrap();
        assert_eq!(to_arrow(&narrow).unwrap().as_primitive::<Decimal128Type>(), &expected);
        let dictionary = Arc::new(narrow);
        let codes = Values::Dict { code_width: 1, codes: PageBuf::copy_from(&[1, 0, 1]), dictionary };
        let validity = Some(PageBuf::copy_from(&[0b101]));
        let column = Column::new(d, 3, validity, codes).unwrap();
        let expected =
            Decimal128Array::from(vec![Some(7), None, Some(7)]).with_precision_and_scale(15, 2).unwrap();
        assert_eq!(to_arrow(&column).unwrap().as_primitive::<Decimal128Type>(), &expected);
    }
}
