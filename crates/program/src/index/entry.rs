//! Index entries: what is kept of one page.
//!
//! ```text
//!   bytes of an entry (little-endian), 8 + 16 a column:
//!   | rows 4 | NULLs 4: bit i set when the i-th column has one | a column: min key 8, max key 8 | ...
//!   a column without any value that is not NULL has min = 2^64 - 1, max = 0
//! ```
//!
//! Invariant: every value of the page that is not NULL has a key from min to max; keys may reach further than
//! the values do (a shared dictionary has values that no row of the page has).

use lode_page::Column;

use super::range::bounds::bounds;
use super::{INDEX_COLUMNS_MAX, IndexRule};
use crate::eval::fetch;
use crate::{ColumnSource, EvalError, ProgramError};

/// The least and greatest keys of the indexed columns of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    rows: u32,
    nulls: u32,
    ranges: Box<[(u64, u64)]>,
}

const EMPTY: (u64, u64) = (u64::MAX, 0);

impl IndexEntry {
    /// The entry of the page whose columns `source` gives.
    pub(super) fn of<S: ColumnSource>(rule: &IndexRule, source: &mut S) -> Result<Self, EvalError<S::Error>> {
        let (mut nulls, mut ranges) = (0, Vec::with_capacity(rule.columns().len()));
        for (i, &c) in rule.columns().iter().enumerate() {
            let column: Column = fetch(rule.schema(), source, c)?;
            let (range, has_nulls) = bounds(&column);
            nulls |= u32::from(has_nulls) << i;
            ranges.push(range.unwrap_or(EMPTY));
        }
        let rows = u32::try_from(source.rows()).expect("a page has at most 2^32 - 1 rows");
        Ok(Self { rows, nulls, ranges: ranges.into() })
    }

    /// Rows of the page.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The least and the greatest key of the `i`-th indexed column; `None` when all its values are NULL.
    ///
    /// # Panics
    /// When the rule has no `i`-th column.
    pub fn range(&self, i: usize) -> Option<(u64, u64)> {
        Some(self.ranges[i]).filter(|&r| r != EMPTY)
    }

    /// Whether the `i`-th indexed column has a NULL.
    ///
    /// # Panics
    /// When the rule has no `i`-th column.
    pub fn has_nulls(&self, i: usize) -> bool {
        assert!(i < self.ranges.len(), "column {i} of {}", self.ranges.len());
        self.nulls >> i & 1 == 1
    }

    /// Columns of the entry.
    pub(super) fn columns(&self) -> usize {
        self.ranges.len()
    }

    /// The entry as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut b = Vec::with_capacity(self.encoded_bytes());
        b.extend(self.rows.to_le_bytes());
        b.extend(self.nulls.to_le_bytes());
        for (min, max) in &self.ranges {
            b.extend(min.to_le_bytes());
            b.extend(max.to_le_bytes());
        }
        b
    }

    /// The entry in these bytes, of a page that `rule` indexes.
    ///
    /// # Errors
    /// When they are not those of such an entry.
    pub fn decode(rule: &IndexRule, bytes: &[u8]) -> Result<Self, ProgramError> {
        if bytes.len() != rule.entry_bytes() {
            return Err(corrupt(bytes.len()));
        }
        Self::from_bytes(bytes)
    }

    /// The entry in these bytes, of whatever rule.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, ProgramError> {
        let count = bytes.len().saturating_sub(8) / 16;
        if bytes.len() != 8 + 16 * count || count > INDEX_COLUMNS_MAX {
            return Err(corrupt(bytes.len()));
        }
        let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let key = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("8 bytes"));
        let (rows, nulls) = (field(0), field(4));
        if count < 32 && nulls >> count != 0 {
            return Err(corrupt(4));
        }
        let ranges: Box<[_]> = bytes[8..].chunks_exact(16).map(|b| (key(&b[..8]), key(&b[8..]))).collect();
        for (i, &(min, max)) in ranges.iter().enumerate() {
            let all_null = rows == 0 || nulls >> i & 1 == 1;
            if min > max && !((min, max) == EMPTY && all_null) {
                return Err(corrupt(8 + 16 * i));
            }
        }
        Ok(Self { rows, nulls, ranges })
    }

    /// Bytes that [`IndexEntry::encode`] gives.
    pub fn encoded_bytes(&self) -> usize {
        8 + 16 * self.ranges.len()
    }
}

const fn corrupt(at: usize) -> ProgramError {
    ProgramError::Corrupt { what: "index entry", at }
}
