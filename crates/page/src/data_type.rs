//! The types of columns, which drive and host share. A type determines how values are stored, compared and indexed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    /// True or false; one bit a row.
    Boolean,
    /// 16-bit signed integer.
    SmallInt,
    /// 32-bit signed integer.
    Integer,
    /// 64-bit signed integer.
    BigInt,
    /// IEEE 754 binary32, ordered by IEEE total order.
    Real,
    /// IEEE 754 binary64, ordered by IEEE total order.
    Double,
    /// An exact number: `unscaled / 10^scale`, stored at the narrowest of 4, 8 or 16 bytes.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits behind the point, 0 to `precision`.
        scale: u8,
    },
    /// UTF-8, ordered bytewise.
    Text,
    /// Bytes, ordered bytewise.
    Bytea,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01 00:00:00, without zone.
    Timestamp,
}

impl DataType {
    /// Whether it is REAL or DOUBLE, whose equal values may differ in their bits.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Real | Self::Double)
    }

    /// Bytes of one value in memory, decimals at their full 16; `None` for bits and for variable lengths.
    pub const fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::SmallInt => Some(2),
            Self::Integer | Self::Real | Self::Date => Some(4),
            Self::BigInt | Self::Double | Self::Timestamp => Some(8),
            Self::Decimal { .. } => Some(16),
            Self::Boolean | Self::Text | Self::Bytea => None,
        }
    }

    /// The type in three bytes, as page directories and index rules have it: tag, precision and scale.
    pub const fn tag(self) -> (u8, u8, u8) {
        match self {
            Self::Boolean => (1, 0, 0),
            Self::SmallInt => (2, 0, 0),
            Self::Integer => (3, 0, 0),
            Self::BigInt => (4, 0, 0),
            Self::Real => (5, 0, 0),
            Self::Double => (6, 0, 0),
            Self::Decimal { precision, scale } => (7, precision, scale),
            Self::Text => (8, 0, 0),
            Self::Bytea => (9, 0, 0),
            Self::Date => (10, 0, 0),
            Self::Timestamp => (11, 0, 0),
        }
    }

    /// The inverse of [`DataType::tag`]; `None` for bytes that name no type.
    pub fn from_tag(tag: u8, precision: u8, scale: u8) -> Option<Self> {
        let t = match tag {
            1 => Self::Boolean,
            2 => Self::SmallInt,
            3 => Self::Integer,
            4 => Self::BigInt,
            5 => Self::Real,
            6 => Self::Double,
            7 if (1..=38).contains(&precision) && scale <= precision => Self::Decimal { precision, scale },
            8 => Self::Text,
            9 => Self::Bytea,
            10 => Self::Date,
            11 => Self::Timestamp,
            _ => return None,
        };
        (t.tag() == (tag, precision, scale)).then_some(t)
    }

    /// Whether values have a variable length ([`DataType::Text`] and [`DataType::Bytea`]).
    pub const fn is_variable(self) -> bool {
        matches!(self, Self::Text | Self::Bytea)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::SmallInt => f.write_str("SMALLINT"),
            Self::Integer => f.write_str("INTEGER"),
            Self::BigInt => f.write_str("BIGINT"),
            Self::Real => f.write_str("REAL"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Decimal { precision, scale } => write!(f, "DECIMAL({precision},{scale})"),
            Self::Text => f.write_str("TEXT"),
            Self::Bytea => f.write_str("BYTEA"),
            Self::Date => f.write_str("DATE"),
            Self::Timestamp => f.write_str("TIMESTAMP"),
        }
    }
}
