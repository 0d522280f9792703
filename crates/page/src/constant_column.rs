//! Columns with the same value in every row, which readers make for rows that were written without the column.

use std::sync::Arc;

use lode_base::PageBuf;

use crate::{Column, ColumnBuilder, DataType, Value, Values};

impl Column {
    /// Makes a column of `rows` rows with one value: a dictionary of this value, or bits.
    ///
    /// # Panics
    /// When the value is not of the type.
    pub fn constant(data_type: DataType, value: &Value, rows: usize) -> Self {
        let ones = || PageBuf::copy_from(&vec![0xff; rows.div_ceil(8)]);
        let zeros = |bytes: usize| PageBuf::copy_from(&vec![0; bytes]);
        let validity = value.is_null().then(|| zeros(rows.div_ceil(8)));
        let values = match (data_type, value) {
            (DataType::Boolean, Value::Boolean(true)) => Values::Bits(ones()),
            (DataType::Boolean, _) => Values::Bits(zeros(rows.div_ceil(8))),
            (t, value) => {
                let under_null = match t {
                    DataType::Text | DataType::Bytea => Value::Bytes([].into()),
                    DataType::Real => Value::Real(0.0),
                    DataType::Double => Value::Double(0.0),
                    DataType::Decimal { .. } => Value::Decimal(0),
                    _ => Value::Int(0),
                };
                let mut one = ColumnBuilder::new(t);
                one.push(if value.is_null() { &under_null } else { value }).expect("a value of the type");
                Values::Dict { code_width: 1, codes: zeros(rows), dictionary: Arc::new(one.finish()) }
            }
        };
        Self::trusted(data_type, rows, validity, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_column_has_its_value_in_every_row() {
        let decimal = DataType::Decimal { precision: 38, scale: 2 };
        for (t, v) in [
            (DataType::Boolean, Value::Boolean(true)),
            (DataType::Boolean, Value::Boolean(false)),
            (DataType::SmallInt, Value::Int(-3)),
            (DataType::Real, Value::Real(1.5)),
            (DataType::Double, Value::Double(-0.5)),
            (decimal, Value::Decimal(-(1 << 99))),
            (DataType::Text, Value::text("größe")),
            (DataType::Bytea, Value::Bytes([0xff].into())),
            (DataType::Timestamp, Value::Int(i64::MAX)),
        ] {
            for (v, rows) in [(&v, 0), (&v, 1), (&v, 13), (&Value::Null, 13), (&Value::Null, 0)] {
                let c = Column::constant(t, v, rows);
                assert_eq!((c.rows(), c.data_type()), (rows, t));
                (0..rows).for_each(|row| assert_eq!(c.value(row), *v));
                Column::new(t, rows, c.validity().cloned(), c.values().clone()).unwrap();
            }
        }
    }
}
