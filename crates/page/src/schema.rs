//! Schemas, which drive and host share, and what rows read in columns that they were written without.
//!
//! Properties that only SQL needs (declared lengths, names of keys) stay in the engine's catalog.

use lode_base::PageBuf;
use lode_base::wire::{Reader, Writer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Column, DataType, Value, wire};

/// Most bytes of a string that rows without a column read as its value. A page has up to 131,072 rows, so a reader that expands
/// the string for each of them stays below the most string bytes of a page.
pub const ABSENT_BYTES_MAX: usize = 512;

/// The columns of a table page, in order. Programs and index rules are checked against a schema.
///
/// ```text
///   columns   0 .. base                  every page has them
///             base .. base + absent      were added later: a page has the first few of them, and reads the others as constants
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Number of this version of the table's schema; page headers carry it.
    pub version: u32,
    /// Type and nullability of each column.
    pub columns: Vec<ColumnType>,
    /// What pages without the last columns read in them: a value for each column that was added to the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Constant>,
}

impl Schema {
    /// How many columns every page has.
    pub fn base_columns(&self) -> usize {
        self.columns.len().saturating_sub(self.absent.len())
    }

    /// The value of a column in rows that were written without it; `None` if every page has the column.
    pub fn absent_value(&self, column: usize) -> Option<&Value> {
        self.absent.get(column.checked_sub(self.base_columns())?).map(Constant::value)
    }

    /// A column of `rows` rows that were written without it; `None` if every page has the column.
    pub fn absent_column(&self, column: usize, rows: usize) -> Option<Column> {
        let value = self.absent_value(column)?;
        Some(Column::constant(self.columns[column].data_type, value, rows))
    }

    /// Adds the columns that rows lack to the columns that they have.
    ///
    /// # Panics
    /// When a column is missing that every page has.
    pub fn complete(&self, columns: &mut Vec<Column>, rows: usize) {
        for c in columns.len()..self.columns.len() {
            columns.push(self.absent_column(c, rows).expect("only columns that were added are missing"));
        }
    }

    /// Whether pages of this schema and of another one are of one table, one of which may have more columns: every value that both
    /// schemas have of a page is the same. Nullability does not matter.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.version == other.version
            && self.base_columns() == other.base_columns()
            && self.columns.iter().zip(&other.columns).all(|(a, b)| a.data_type == b.data_type)
            && self.absent.iter().zip(&other.absent).all(|(a, b)| a == b)
    }

    /// What is wrong with the values of absent columns, if something is.
    pub fn absent_problem(&self) -> Option<&'static str> {
        if self.absent.len() > self.columns.len() {
            return Some("more absent columns than columns");
        }
        let added = &self.columns[self.base_columns()..];
        for (c, constant) in added.iter().zip(&self.absent) {
            let value = constant.value();
            if !value.fits(c.data_type) {
                return Some("the value of an absent column does not fit its type");
            }
            if matches!(value, Value::Bytes(b) if b.len() > ABSENT_BYTES_MAX) {
                return Some("the value of an absent column is too long");
            }
        }
        None
    }
}

/// The value of a column in all rows that were written before the column was there. Two are equal if their bits are.
#[derive(Clone, Debug)]
pub struct Constant(Value);

impl Constant {
    /// The value.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Whether a value has the same bits.
    pub fn is(&self, other: &Value) -> bool {
        match (&self.0, other) {
            (Value::Real(a), Value::Real(b)) => a.to_bits() == b.to_bits(),
            (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        }
    }
}

impl From<Value> for Constant {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Constant {}

/// The bytes that the value has on the wire, in hexadecimal: JSON has neither all floats nor all decimals.
impl Serialize for Constant {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        wire::put_value(&mut Writer::new(&mut bytes), &self.0);
        s.serialize_str(&bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Constant {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let bad = || serde::de::Error::custom("no value in hexadecimal");
        let text = String::deserialize(d)?;
        let digits = text.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> =
            digits.chunks(2).map(|pair| byte(pair).filter(|_| pair.len() == 2)).collect();
        let bytes = PageBuf::copy_from(&bytes.ok_or_else(bad)?);
        let mut r = Reader::new(&bytes);
        let value = wire::take_value(&mut r).map_err(|_| bad())?;
        r.end().map_err(|_| bad())?;
        Ok(Self(value))
    }
}

/// Type and nullability of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ColumnType {
    /// The type of its values.
    pub data_type: DataType,
    /// Whether a value may be NULL.
    pub nullable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(types: &[DataType], absent: &[Value]) -> Schema {
        let columns = types.iter().map(|&data_type| ColumnType { data_type, nullable: true }).collect();
        Schema { version: 1, columns, absent: absent.iter().cloned().map(Constant::from).collect() }
    }

    #[test]
    fn constants_survive_as_json_bit_by_bit() {
        let nan = f64::from_bits(0x7ff8_0000_0000_1234);
        for v in [
            Value::Null,
            Value::Boolean(true),
            Value::Int(i64::MIN),
            Value::Real(-0.0),
            Value::Double(nan),
            Value::Decimal(-(1 << 100)),
            Value::text("größe\""),
        ] {
            let constant = Constant::from(v);
            let json = serde_json::to_string(&constant).unwrap();
            assert_eq!(serde_json::from_str::<Constant>(&json).unwrap(), constant, "{json}");
        }
        for bad in ["\"\"", "\"0\"", "\"zz\"", "\"0000\"", "\"06ff\"", "1"] {
            assert!(serde_json::from_str::<Constant>(bad).is_err(), "{bad}");
        }
        assert_ne!(Constant::from(Value::Double(0.0)), Constant::from(Value::Double(-0.0)));
    }

    #[test]
    fn schemas_agree_if_one_has_more_columns_than_the_other() {
        use DataType::{BigInt, Integer, Text};
        let (old, one) = (schema(&[Integer, Text], &[]), schema(&[Integer, Text, BigInt], &[Value::Int(7)]));
        let two = schema(&[Integer, Text, BigInt, Text], &[Value::Int(7), Value::Null]);
        assert!(old.agrees_with(&two) && two.agrees_with(&old) && one.agrees_with(&two));
        assert!(!one.agrees_with(&schema(&[Integer, Text, BigInt], &[Value::Int(8)])));
        assert!(!old.agrees_with(&schema(&[Integer, Text, BigInt], &[])));
        assert!(!old.agrees_with(&schema(&[Integer, BigInt], &[])));
        assert_eq!(
            (two.base_columns(), two.absent_value(1), two.absent_value(2)),
            (2, None, Some(&Value::Int(7)))
        );
    }

    #[test]
    fn absent_values_fit_their_columns() {
        use DataType::{SmallInt, Text};
        assert_eq!(schema(&[SmallInt, Text], &[Value::Int(1), Value::text("x")]).absent_problem(), None);
        assert!(schema(&[SmallInt], &[Value::Int(40_000)]).absent_problem().is_some());
        assert!(schema(&[SmallInt], &[Value::Int(4), Value::Int(4)]).absent_problem().is_some());
        let long = Value::text(&"x".repeat(ABSENT_BYTES_MAX + 1));
        assert!(schema(&[SmallInt, Text], &[long]).absent_problem().is_some());
    }
}
