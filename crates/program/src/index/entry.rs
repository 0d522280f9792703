//! Index entries: the bytes that the index keeps for one page.
//!
//! ```text
//!   | rows 4 | part of the rule's first kind | part of its second kind | ...      (little-endian)
//! ```
//!
//! Each kind defines the bytes of its part. A rule with only the kind "wide range" has the same entries as before kinds
//! were introduced.

use lode_page::Column;

use super::{IndexRule, rule::corrupt};
use crate::eval::fetch;
use crate::{ColumnSource, EvalError, ProgramError};

/// Longest entry, in bytes: an index page has at least 32 of them and is shorter than 2 MB.
pub const ENTRY_BYTES_MAX: usize = 32_000;
/// The longest entries that go with pages of any size: an index page has those of a whole extent. Longer ones are *long*.
pub const SHORT_ENTRY_BYTES_MAX: usize = 2000;
/// Bytes of the rows, before the parts of the kinds.
pub const HEADER_BYTES: usize = 4;

/// The entry of one page. Its rule determines its length ([`IndexRule::entry_bytes`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    bytes: Box<[u8]>,
}

impl IndexEntry {
    /// The entry of the page whose columns `source` gives.
    pub(super) fn of<S: ColumnSource>(rule: &IndexRule, source: &mut S) -> Result<Self, EvalError<S::Error>> {
        let rows = u32::try_from(source.rows()).expect("a page has at most 2^32 - 1 rows");
        let mut bytes = Vec::with_capacity(rule.entry_bytes());
        bytes.extend(rows.to_le_bytes());
        for part in rule.parts() {
            let columns: Vec<Column> = part
                .columns()
                .iter()
                .map(|c| fetch(rule.schema(), source, c.column))
                .collect::<Result<_, _>>()?;
            part.kind().build(part.columns(), &columns, &mut bytes);
            assert_eq!(bytes.len(), part.bytes().end, "the entry of kind {}", part.kind().name());
        }
        Ok(Self { bytes: bytes.into() })
    }

    /// Rows of the page.
    pub fn rows(&self) -> u32 {
        u32::from_le_bytes(*self.bytes.first_chunk().expect("an entry has a header"))
    }

    pub(super) fn set_rows(&mut self, rows: u32) {
        self.bytes[..HEADER_BYTES].copy_from_slice(&rows.to_le_bytes());
    }

    pub(super) fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The entry as bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.bytes.to_vec()
    }

    /// The entry as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The entry as bytes, without a copy.
    pub fn into_bytes(self) -> Box<[u8]> {
        self.bytes
    }

    /// The entry in these bytes, of a page that `rule` indexes.
    ///
    /// # Errors
    /// When they are not those of such an entry.
    pub fn decode(rule: &IndexRule, bytes: &[u8]) -> Result<Self, ProgramError> {
        let entry = Self::from_bytes(bytes)?;
        rule.check(&entry)?;
        Ok(entry)
    }

    /// The entry in these bytes, of an unknown rule. [`IndexRule::check`] compares it with a rule.
    ///
    /// # Errors
    /// When no entry has so many bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProgramError> {
        match bytes.len() {
            HEADER_BYTES..=ENTRY_BYTES_MAX => Ok(Self { bytes: bytes.into() }),
            n => Err(corrupt("index entry", n)),
        }
    }

    /// Bytes of the entry.
    pub fn encoded_bytes(&self) -> usize {
        self.bytes.len()
    }
}
