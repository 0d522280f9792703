//! The kind "bloom": a Bloom filter of the values of each column, for equality and IN.
//!
//! Invariant: every value of the page that is not NULL is in the filter. Equal floats can have different bits: the kind keeps none.

use super::filter_kind::{FilterKind, filter_of};
use super::leaf::{Leaf, Outcomes, POINTS_MAX};
use super::part::EntryPart;
use super::values::{hash, hashes};

/// The kind "bloom".
pub static BLOOM: FilterKind =
    FilterKind { id: 5, name: "bloom", keeps: |t| !t.is_float(), hashes, outcomes };

fn outcomes(part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Option<Outcomes> {
    let (column, points) = leaf.points(POINTS_MAX)?;
    let filter = filter_of(part, leaf, column)?;
    Some(filter.outcomes(points.iter().any(|v| filter.contains(hash(v)))))
}
