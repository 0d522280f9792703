//! What the kinds "bloom" and "trigram" share: a Bloom filter of hashes for each column.
//!
//! ```text
//!   form of a column: bytes 2 (little-endian)      its part of an entry: a filter of so many bytes (filter.rs)
//! ```
//!
//! A kind says which hashes a column has, and which of them a predicate looks for.

use lode_page::{Column, DataType};

use super::filter::{Filter, put_filter, widen_filter};
use super::index_kind::IndexKind;
use super::leaf::{Leaf, Outcomes};
use super::part::{EntryPart, PartColumn};
use super::values::some_null;

/// Bytes of a filter in an entry of any length.
const FILTER_BYTES: std::ops::RangeInclusive<u16> = 2..=1900;
/// Bytes of a filter whose entry has more than 2,000 bytes. Those between would be in entries that older versions keep, and not know them.
const LONG_FILTER_BYTES: std::ops::RangeInclusive<u16> = 2001..=31_900;

/// A kind whose columns have a filter each.
#[derive(Debug)]
pub struct FilterKind {
    pub(super) id: u8,
    pub(super) name: &'static str,
    pub(super) keeps: fn(DataType) -> bool,
    /// The distinct hashes of a column. None only if it has no value but NULL.
    pub(super) hashes: fn(&Column) -> Vec<u64>,
    /// The outcomes of a predicate other than IS NULL; `None` if nothing is known.
    pub(super) outcomes: fn(&EntryPart<'_>, &Leaf<'_>) -> Option<Outcomes>,
}

impl IndexKind for FilterKind {
    fn id(&self) -> u8 {
        self.id
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn keeps(&self, t: DataType) -> bool {
        (self.keeps)(t)
    }

    fn check_form(&self, _: DataType, form: &[u8]) -> Result<(), &'static str> {
        let is_one = |bytes| FILTER_BYTES.contains(&bytes) || LONG_FILTER_BYTES.contains(&bytes);
        match form.len() == 2 && is_one(filter_bytes(form) as u16) {
            true => Ok(()),
            false => Err("a filter has 2 to 1900 or 2001 to 31900 bytes"),
        }
    }

    fn column_bytes(&self, _: DataType, form: &[u8]) -> usize {
        filter_bytes(form)
    }

    fn build(&self, kept: &[PartColumn], columns: &[Column], out: &mut Vec<u8>) {
        for (k, c) in kept.iter().zip(columns) {
            put_filter(&(self.hashes)(c), some_null(c), filter_bytes(&k.form), out);
        }
    }

    fn check(&self, part: &EntryPart<'_>) -> Result<(), usize> {
        match (0..part.columns.len()).find(|&i| !Filter(part.of(i)).is_sound()) {
            Some(i) => Err(part.columns[i].bytes.start),
            None => Ok(()),
        }
    }

    fn widen(&self, union: &mut [u8], part: &EntryPart<'_>) {
        for (i, c) in part.columns.iter().enumerate() {
            widen_filter(&mut union[c.bytes.clone()], Filter(part.of(i)));
        }
    }

    fn outcomes(&self, part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Outcomes {
        let known = match leaf.is_null_of() {
            Some(c) => filter_of(part, leaf, c).map(Filter::is_null),
            None => (self.outcomes)(part, leaf),
        };
        known.unwrap_or(Outcomes::ANY)
    }

    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize> {
        (0..part.columns.len()).find(|&i| Filter(part.of(i)).denies(Filter(own.of(i))))
    }
}

/// The filter of a column that a predicate reads.
pub(super) fn filter_of<'a>(part: &EntryPart<'a>, leaf: &Leaf<'_>, column: u16) -> Option<Filter<'a>> {
    Some(Filter(part.of(part.place(column, leaf.data_type(column))?)))
}

/// Bytes of the filter of a column of this form.
fn filter_bytes(form: &[u8]) -> usize {
    u16::from_le_bytes(*form.first_chunk().expect("a checked form")).into()
}

#[cfg(test)]
mod tests {
    use super::super::bloom::BLOOM;
    use super::*;

    /// Versions before long entries know filters of up to 1,900 bytes: no entry that they keep may have a longer one.
    #[test]
    fn a_longer_filter_makes_a_long_entry() {
        let is_one = |bytes: u16| BLOOM.check_form(DataType::BigInt, &bytes.to_le_bytes()).is_ok();
        assert!([2, 1900, 2001, 31_900].into_iter().all(is_one));
        assert!(![0, 1, 1901, 2000, 31_901, u16::MAX].into_iter().any(is_one));
    }
}
