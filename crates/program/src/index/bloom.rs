//! The kind "bloom": a Bloom filter of the values of each column, for equality and IN.
//!
//! ```text
//!   form of a column: bytes 2 (little-endian)      its part of an entry: a filter of so many bytes (filter.rs)
//! ```
//!
//! Invariant: every value of the page that is not NULL is in the filter. Equal floats can have different bits: the kind keeps none.

use lode_page::{Column, DataType};

use super::filter::{Filter, put_filter, widen_filter};
use super::index_kind::IndexKind;
use super::leaf::{Leaf, Outcomes};
use super::part::{EntryPart, PartColumn};
use super::values::{hash, hashes, some_null};

/// The kind "bloom".
#[derive(Clone, Copy, Debug)]
pub struct Bloom;

/// Bytes of a filter.
pub const FILTER_BYTES: std::ops::RangeInclusive<u16> = 2..=1900;

/// Longer lists are not looked up in each page's filter.
pub(super) const POINTS_MAX: usize = 64;

impl IndexKind for Bloom {
    fn id(&self) -> u8 {
        5
    }

    fn name(&self) -> &'static str {
        "bloom"
    }

    fn keeps(&self, t: DataType) -> bool {
        !t.is_float()
    }

    fn check_form(&self, _: DataType, form: &[u8]) -> Result<(), &'static str> {
        check_filter(form)
    }

    fn column_bytes(&self, _: DataType, form: &[u8]) -> usize {
        filter_bytes(form)
    }

    fn build(&self, kept: &[PartColumn], columns: &[Column], out: &mut Vec<u8>) {
        for (k, c) in kept.iter().zip(columns) {
            put_filter(&hashes(c), some_null(c), filter_bytes(&k.form), out);
        }
    }

    fn check(&self, part: &EntryPart<'_>) -> Result<(), usize> {
        check_filters(part)
    }

    fn widen(&self, union: &mut [u8], part: &EntryPart<'_>) {
        widen_filters(union, part);
    }

    fn outcomes(&self, part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Outcomes {
        if let Some(c) = leaf.is_null_of() {
            return place(part, leaf, c).map_or(Outcomes::ANY, Filter::is_null);
        }
        let Some((column, points)) = leaf.points(POINTS_MAX) else { return Outcomes::ANY };
        let Some(filter) = place(part, leaf, column) else { return Outcomes::ANY };
        filter.outcomes(points.iter().any(|v| filter.contains(hash(v))))
    }

    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize> {
        denied_filter(part, own)
    }
}

/// The filter of a column that a predicate reads.
pub(super) fn place<'a>(part: &EntryPart<'a>, leaf: &Leaf<'_>, column: u16) -> Option<Filter<'a>> {
    Some(Filter(part.of(part.place(column, leaf.data_type(column))?)))
}

/// Checks the form of a column with a filter.
pub(super) fn check_filter(form: &[u8]) -> Result<(), &'static str> {
    match form.len() == 2 && FILTER_BYTES.contains(&(filter_bytes(form) as u16)) {
        true => Ok(()),
        false => Err("a filter has 2 to 1900 bytes"),
    }
}

/// Bytes of the filter of a column of this form.
pub(super) fn filter_bytes(form: &[u8]) -> usize {
    u16::from_le_bytes(*form.first_chunk().expect("a checked form")).into()
}

pub(super) fn check_filters(part: &EntryPart<'_>) -> Result<(), usize> {
    match (0..part.columns.len()).find(|&i| !Filter(part.of(i)).is_sound()) {
        Some(i) => Err(part.columns[i].bytes.start),
        None => Ok(()),
    }
}

pub(super) fn widen_filters(union: &mut [u8], part: &EntryPart<'_>) {
    for (i, c) in part.columns.iter().enumerate() {
        widen_filter(&mut union[c.bytes.clone()], Filter(part.of(i)));
    }
}

pub(super) fn denied_filter(part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize> {
    (0..part.columns.len()).find(|&i| Filter(part.of(i)).denies(Filter(own.of(i))))
}
