//! Values, rows and answers of statements.

use crate::store::{StoreError, StoreResult};

/// A value of a parameter or of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// An integer, or a decimal without places.
    Int(i64),
    /// A float, or a decimal with places.
    Real(f64),
    /// A text.
    Text(String),
    /// A point in time, in microseconds since 1970.
    Time(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(n: $integer) -> Self {
                Self::Int(i64::from(n))
            }
        }
    )*};
}
from_integers!(u8, u16, u32, i16, i32, i64);

/// The values of a row.
pub type Row = Vec<Value>;

/// What a statement answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The rows of a query.
    Rows(Vec<Row>),
    /// The number of changed rows; 0 if the statement changes none.
    Count(u64),
}

impl Answer {
    /// The rows of a query.
    ///
    /// # Errors
    /// If the statement was no query.
    pub fn rows(self) -> StoreResult<Vec<Row>> {
        match self {
            Self::Rows(rows) => Ok(rows),
            Self::Count(_) => Err(StoreError::Damaged("a query answered a count")),
        }
    }

    /// The first row of a query, if there is one.
    ///
    /// # Errors
    /// If the statement was no query.
    pub fn row(self) -> StoreResult<Option<Row>> {
        Ok(self.rows()?.into_iter().next())
    }

    /// The number of changed rows.
    ///
    /// # Errors
    /// If the statement was a query.
    pub fn count(self) -> StoreResult<u64> {
        match self {
            Self::Count(n) => Ok(n),
            Self::Rows(_) => Err(StoreError::Damaged("a change answered rows")),
        }
    }
}

/// Reads the values of a row in order.
pub(crate) struct Columns(std::vec::IntoIter<Value>);

impl Columns {
    pub(crate) fn of(row: Row) -> Self {
        Self(row.into_iter())
    }

    fn value(&mut self) -> StoreResult<Value> {
        self.0.next().ok_or(StoreError::Damaged("a row has too few columns"))
    }

    /// The next value as a number, or `None` if it is NULL.
    pub(crate) fn optional<N: TryFrom<i64>>(&mut self) -> StoreResult<Option<N>> {
        match self.value()? {
            Value::Null => Ok(None),
            Value::Int(n) | Value::Time(n) => {
                N::try_from(n).map(Some).map_err(|_| StoreError::Damaged("a number is out of range"))
            }
            Value::Real(_) | Value::Text(_) => Err(StoreError::Damaged("a number is of another type")),
        }
    }

    /// The next value as a number.
    pub(crate) fn number<N: TryFrom<i64>>(&mut self) -> StoreResult<N> {
        self.optional()?.ok_or(StoreError::Damaged("a number is NULL"))
    }

    /// The next value as a text.
    pub(crate) fn text(&mut self) -> StoreResult<String> {
        match self.value()? {
            Value::Text(text) => Ok(text),
            _ => Err(StoreError::Damaged("a text is of another type")),
        }
    }
}
