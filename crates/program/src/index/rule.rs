//! Index rules: what the drive keeps of each page of a table.
//!
//! ```text
//!   bytes of a rule (little-endian):
//!   | format 1 = 1 | schema version 4 | columns 2 | a column: tag 1, precision 1, scale 1, nullable 1 | ...
//!   | indexed 2 | an indexed column: number 2 | ...
//! ```

use lode_page::{ColumnType, DataType, Schema};

use super::IndexEntry;
use crate::{ColumnSource, EvalError, ProgramError, check};

/// Most columns of one rule.
pub const INDEX_COLUMNS_MAX: usize = 32;
const FORMAT: u8 = 1;

/// Which columns of a table's pages are indexed, and their schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRule {
    schema: Schema,
    columns: Vec<u16>,
}

impl IndexRule {
    /// A rule over distinct columns, at most [`INDEX_COLUMNS_MAX`] of them.
    ///
    /// # Errors
    /// When a column does not exist or is named twice, or there are too many.
    pub fn new(schema: Schema, columns: Vec<u16>) -> Result<Self, ProgramError> {
        check::check_schema(&schema)?;
        let (got, max) = (columns.len(), INDEX_COLUMNS_MAX);
        if got > max {
            return Err(ProgramError::TooLarge { what: "indexed columns", got, max });
        }
        for (i, &column) in columns.iter().enumerate() {
            if usize::from(column) >= schema.columns.len() {
                return Err(ProgramError::NoSuchColumn { column, columns: schema.columns.len() });
            }
            if columns[..i].contains(&column) {
                return Err(ProgramError::BadRule("a column is indexed twice"));
            }
        }
        Ok(Self { schema, columns })
    }

    /// The schema of the pages.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The indexed columns, in the order of the entries.
    pub fn columns(&self) -> &[u16] {
        &self.columns
    }

    /// Bytes of each encoded entry.
    pub fn entry_bytes(&self) -> usize {
        8 + 16 * self.columns.len()
    }

    /// The type of the `i`-th indexed column.
    pub(crate) fn data_type(&self, i: usize) -> DataType {
        self.schema.columns[usize::from(self.columns[i])].data_type
    }

    /// The entry of a page.
    ///
    /// # Errors
    /// When the source fails, or gives a column of another type or length than it should.
    pub fn entry<S: ColumnSource>(&self, source: &mut S) -> Result<IndexEntry, EvalError<S::Error>> {
        IndexEntry::of(self, source)
    }

    /// The rule as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut b = vec![FORMAT];
        b.extend(self.schema.version.to_le_bytes());
        b.extend((self.schema.columns.len() as u16).to_le_bytes());
        for c in &self.schema.columns {
            let (tag, precision, scale) = c.data_type.tag();
            b.extend([tag, precision, scale, u8::from(c.nullable)]);
        }
        b.extend((self.columns.len() as u16).to_le_bytes());
        self.columns.iter().for_each(|c| b.extend(c.to_le_bytes()));
        b
    }

    /// The rule in these bytes.
    ///
    /// # Errors
    /// When they are not those of a rule.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProgramError> {
        let mut at = 0;
        let format: [u8; 1] = take(bytes, &mut at)?;
        if format[0] != FORMAT {
            return Err(corrupt(0));
        }
        let version = u32::from_le_bytes(take(bytes, &mut at)?);
        let count = u16::from_le_bytes(take(bytes, &mut at)?);
        let mut columns = Vec::new();
        for _ in 0..count {
            let [tag, precision, scale, nullable] = take(bytes, &mut at)?;
            let data_type = DataType::from_tag(tag, precision, scale).ok_or(corrupt(at - 4))?;
            if nullable > 1 {
                return Err(corrupt(at - 1));
            }
            columns.push(ColumnType { data_type, nullable: nullable == 1 });
        }
        let count = u16::from_le_bytes(take(bytes, &mut at)?);
        let indexed =
            (0..count).map(|_| take(bytes, &mut at).map(u16::from_le_bytes)).collect::<Result<_, _>>()?;
        if at != bytes.len() {
            return Err(corrupt(at));
        }
        Self::new(Schema { version, columns }, indexed)
    }
}

fn corrupt(at: usize) -> ProgramError {
    ProgramError::Corrupt { what: "index rule", at }
}

fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], ProgramError> {
    let field = bytes.get(*at..).and_then(|b| b.first_chunk::<N>()).ok_or(corrupt(*at))?;
    *at += N;
    Ok(*field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> IndexRule {
        let types = [
            DataType::Boolean,
            DataType::SmallInt,
            DataType::Integer,
            DataType::BigInt,
            DataType::Real,
            DataType::Double,
            DataType::Decimal { precision: 15, scale: 2 },
            DataType::Text,
            DataType::Bytea,
            DataType::Date,
            DataType::Timestamp,
        ];
        let columns = types.map(|data_type| ColumnType { data_type, nullable: data_type.is_variable() });
        IndexRule::new(Schema { version: 3, columns: columns.into() }, vec![6, 0, 10]).unwrap()
    }

    #[test]
    fn rules_survive_as_bytes_and_no_lie_does() {
        let bytes = rule().to_bytes();
        assert_eq!(IndexRule::from_bytes(&bytes), Ok(rule()));
        for n in 0..bytes.len() {
            assert!(IndexRule::from_bytes(&bytes[..n]).is_err(), "cut to {n} bytes");
            let mut flipped = bytes.clone();
            flipped[n] ^= 0x80;
            assert_ne!(IndexRule::from_bytes(&flipped), Ok(rule()), "byte {n} flipped");
        }
        assert_eq!(IndexRule::from_bytes(&[bytes, vec![0]].concat()), Err(corrupt(59)));
    }

    #[test]
    fn rules_name_real_columns_once() {
        let s = rule().schema().clone();
        assert!(matches!(IndexRule::new(s.clone(), vec![11]), Err(ProgramError::NoSuchColumn { .. })));
        assert!(matches!(IndexRule::new(s.clone(), vec![1, 1]), Err(ProgramError::BadRule(_))));
        assert!(matches!(IndexRule::new(s, (0..33).collect()), Err(ProgramError::TooLarge { .. })));
    }
}
