//! Applies kernels over arrays to arguments that may be scalars.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

/// Applies a kernel to an argument of a function. A scalar stays a scalar, even if there are no rows.
pub(super) fn through_array(
    value: &ColumnarValue,
    rows: usize,
    kernel: impl FnOnce(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    match value {
        ColumnarValue::Array(_) => Ok(ColumnarValue::Array(kernel(&value.to_array(rows)?)?)),
        ColumnarValue::Scalar(scalar) => {
            let made = kernel(&scalar.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?))
        }
    }
}
