//! The values of a generate_series as a list, for arguments that are known only as the query runs; and the numbers of a
//! list's elements, for WITH ORDINALITY.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::values::{Series, SeriesType, array};
use crate::SqlError;
use crate::error::state;

/// The name under which a SELECT list calls it.
pub(super) const SERIES_LIST: &str = "__lode_series";
/// Most values of the lists of a batch.
const VALUES_MAX: usize = 50_000_000;

/// The list of a series' values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SeriesList {
    signature: Signature,
}

impl Default for SeriesList {
    fn default() -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

fn list_of(ty: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(ty, true)))
}

impl ScalarUDFImpl for SeriesList {
    fn name(&self) -> &str {
        SERIES_LIST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(list_of(SeriesType::of(types)?.value))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        let ty = SeriesType::of(&types)?;
        let rows = args.number_rows;
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let arrays = arrays.iter().enumerate().map(|(i, a)| ty.argument(i, a));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>, SqlError>>()?;
        let (mut values, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
        // Constants are one row, whatever the number of rows.
        for row in 0..arrays.first().map_or(0, |a| a.len()) {
            let arguments = arrays.iter().map(|a| ScalarValue::try_from_array(a, row));
            let before = values.len();
            let room = VALUES_MAX - before;
            Series::new(&ty, &arguments.collect::<Result<Vec<_>>>()?)?.fill(room + 1, &mut values)?;
            if values.len() > VALUES_MAX {
                let message =
                    format!("generate_series with more than {VALUES_MAX} values for a batch of rows");
                return Err(SqlError::failed(state::PROGRAM_LIMIT_EXCEEDED, message).into());
            }
            lengths.push(values.len() - before);
        }
        let field = Arc::new(Field::new_list_field(ty.value.clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let lists = ListArray::try_new(field, offsets, array(&ty.value, values)?, None)?;
        Ok(ColumnarValue::Array(Arc::new(lists)))
    }
}

/// The numbers 1, 2 and so on, as many as the longest of its arguments has elements.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Ordinals {
    signature: Signature,
}

impl Default for Ordinals {
    fn default() -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Ordinals {
    fn name(&self) -> &str {
        "__lode_ordinals"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(list_of(DataType::Int64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays.first().map_or(0, |a| a.len());
        let length = |a: &ArrayRef, row: usize| match a.data_type() {
            _ if a.is_null(row) => 0,
            DataType::LargeList(_) => a.as_list::<i64>().value_length(row) as usize,
            DataType::FixedSizeList(_, n) => usize::try_from(*n).unwrap_or_default(),
            DataType::List(_) => a.as_list::<i32>().value_length(row) as usize,
            _ => 0,
        };
        let lengths: Vec<usize> =
            (0..rows).map(|row| arrays.iter().map(|a| length(a, row)).max().unwrap_or_default()).collect();
        let numbers = lengths.iter().flat_map(|&n| 1..=n as i64);
        let numbers: ArrayRef = match rows {
            0 => new_empty_array(&DataType::Int64),
            _ => Arc::new(Int64Array::from_iter_values(numbers)),
        };
        let field = Arc::new(Field::new_list_field(DataType::Int64, true));
        let lists = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), numbers, None)?;
        Ok(ColumnarValue::Array(Arc::new(lists)))
    }
}
