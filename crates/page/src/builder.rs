//! Builds a column value by value: for inserts, defaults and tests. Bulk paths build buffers directly.

use lode_base::PageBuf;

use crate::{Column, DataType, PageError, Value, Values, bits, ops};

/// A column being filled.
#[derive(Clone, Debug)]
pub struct ColumnBuilder {
    data_type: DataType,
    rows: usize,
    nulls: usize,
    validity: Vec<u8>,
    values: Filling,
}

#[derive(Clone, Debug)]
enum Filling {
    Bits(Vec<u8>),
    Two(Vec<i16>),
    Four(Vec<i32>),
    Eight(Vec<i64>),
    Sixteen(Vec<i128>),
    Var { offsets: Vec<u32>, data: Vec<u8> },
}

impl ColumnBuilder {
    /// A builder of a column of this type.
    pub fn new(data_type: DataType) -> Self {
        let values = match data_type.fixed_bytes() {
            Some(2) => Filling::Two(Vec::new()),
            Some(4) => Filling::Four(Vec::new()),
            Some(8) => Filling::Eight(Vec::new()),
            Some(_) => Filling::Sixteen(Vec::new()),
            None if data_type.is_variable() => Filling::Var { offsets: vec![0], data: Vec::new() },
            None => Filling::Bits(Vec::new()),
        };
        Self { data_type, rows: 0, nulls: 0, validity: Vec::new(), values }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a value.
    ///
    /// # Errors
    /// [`PageError::BadColumn`] when the value does not fit the type, or the column is full. Nothing is appended
    /// then.
    pub fn push(&mut self, value: &Value) -> Result<(), PageError> {
        let bad = |what| PageError::BadColumn { data_type: self.data_type, what };
        if !value.fits(self.data_type) {
            return Err(bad("a value does not fit the type"));
        }
        let row = self.rows;
        if row == u32::MAX as usize {
            return Err(bad("too many rows"));
        }
        if let (Filling::Var { data, .. }, Value::Bytes(b)) = (&self.values, value)
            && u32::try_from(data.len() + b.len()).is_err()
        {
            return Err(bad("too many bytes of strings"));
        }
        self.validity.resize(row / 8 + 1, 0);
        match value {
            Value::Null => self.nulls += 1,
            _ => bits::set(&mut self.validity, row),
        }
        let int = match value {
            Value::Boolean(b) => i128::from(*b),
            Value::Int(v) => i128::from(*v),
            Value::Real(v) => i128::from(v.to_bits()),
            Value::Double(v) => i128::from(v.to_bits()),
            Value::Decimal(v) => *v,
            Value::Null | Value::Bytes(_) => 0,
        };
        match &mut self.values {
            Filling::Bits(b) => {
                b.resize(row / 8 + 1, 0);
                b[row / 8] |= (int as u8) << (row % 8);
            }
            Filling::Two(v) => v.push(int as i16),
            Filling::Four(v) => v.push(int as i32),
            Filling::Eight(v) => v.push(int as i64),
            Filling::Sixteen(v) => v.push(int),
            Filling::Var { offsets, data } => {
                if let Value::Bytes(b) = value {
                    data.extend_from_slice(b);
                }
                offsets.push(data.len() as u32);
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// The column; decimals at their narrowest width.
    pub fn finish(self) -> Column {
        let validity = (self.nulls > 0).then(|| PageBuf::copy_from(&self.validity));
        let fixed = |width, data| Values::Fixed { width, data };
        let values = match self.values {
            Filling::Bits(b) => Values::Bits(PageBuf::copy_from(&b)),
            Filling::Two(v) => fixed(2, PageBuf::from_values(&v)),
            Filling::Four(v) => fixed(4, PageBuf::from_values(&v)),
            Filling::Eight(v) => fixed(8, PageBuf::from_values(&v)),
            Filling::Sixteen(v) => {
                let (width, data) = ops::narrowed(&PageBuf::from_values(&v), 16);
                fixed(width, data)
            }
            Filling::Var { offsets, data } => {
                Values::Var { offsets: PageBuf::from_values(&offsets), data: PageBuf::copy_from(&data) }
            }
        };
        Column::trusted(self.data_type, self.rows, validity, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let mut b = ColumnBuilder::new(DataType::Text);
        for v in [Value::text("a"), Value::Null, Value::text(""), Value::text("größer")] {
            b.push(&v).unwrap();
        }
        let c = b.finish();
        let values: Vec<Value> = (0..c.rows()).map(|row| c.value(row)).collect();
        assert_eq!(values, [Value::text("a"), Value::Null, Value::text(""), Value::text("größer")]);
    }

    #[test]
    fn a_value_of_another_type_changes_nothing() {
        let mut b = ColumnBuilder::new(DataType::SmallInt);
        b.push(&Value::Int(-5)).unwrap();
        assert!(b.push(&Value::Int(40_000)).is_err());
        assert!(b.push(&Value::text("x")).is_err());
        assert_eq!((b.rows(), b.finish().value(0)), (1, Value::Int(-5)));
    }

    #[test]
    fn decimals_are_as_narrow_as_their_values() {
        let width = |v: &[i128]| {
            let mut b = ColumnBuilder::new(DataType::Decimal { precision: 38, scale: 2 });
            v.iter().for_each(|&v| b.push(&Value::Decimal(v)).unwrap());
            let c = b.finish();
            v.iter().enumerate().for_each(|(row, &v)| assert_eq!(c.value(row), Value::Decimal(v)));
            match c.values() {
                Values::Fixed { width, .. } => *width,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(width(&[i32::MIN.into(), i32::MAX.into()]), 4);
        assert_eq!(width(&[0, i128::from(i32::MAX) + 1]), 8);
        assert_eq!(width(&[i64::MIN.into(), i64::MAX.into()]), 8);
        assert_eq!(width(&[i128::from(i64::MIN) - 1]), 16);
    }
}
