//! The kind "bitmap": a bit for each value of a registered domain, and one for all other values.
//!
//! ```text
//!   form of a column: the hashes of the domain's values, 8 bytes each, ascending
//!   its part of an entry: | NULL: bit 0, other values: bit 1, the first value: bit 2, ... |
//! ```
//!
//! Invariant: the bit of every value of the page is set. A value beyond the domain may share the hash of one in it, and then has its bit:
//! so a bit never proves that a value is there.
//! Source: FLIXR's bitmap of an unordered set.

use lode_page::{Column, DataType, Value};

use super::index_kind::IndexKind;
use super::keys::set_bits;
use super::leaf::{Leaf, Outcomes, POINTS_MAX};
use super::part::{EntryPart, PartColumn};
use super::values::{hash, hashes, some_null};

/// The kind "bitmap".
#[derive(Clone, Copy, Debug)]
pub struct Bitmap;

/// Most values of a domain.
pub const DOMAIN_MAX: usize = 500;
const HASH_BYTES: usize = 8;
const NULL: usize = 0;
const OTHER: usize = 1;
const FIRST: usize = 2;

/// The form of a column whose values are mostly these. NULL is left out: it has a bit anyway.
///
/// # Panics
/// For floats, which the kind does not keep.
pub fn domain<'a>(of: impl IntoIterator<Item = &'a Value>) -> Box<[u8]> {
    let mut hashes: Vec<u64> = of.into_iter().filter(|v| **v != Value::Null).map(hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.into_iter().flat_map(u64::to_le_bytes).collect()
}

impl IndexKind for Bitmap {
    fn id(&self) -> u8 {
        4
    }

    fn name(&self) -> &'static str {
        "bitmap"
    }

    fn keeps(&self, t: DataType) -> bool {
        !t.is_float()
    }

    fn check_form(&self, _: DataType, form: &[u8]) -> Result<(), &'static str> {
        let (hashes, rest) = form.as_chunks::<HASH_BYTES>();
        let ascend = hashes.windows(2).all(|h| u64::from_le_bytes(h[0]) < u64::from_le_bytes(h[1]));
        match (1..=DOMAIN_MAX).contains(&hashes.len()) && rest.is_empty() && ascend {
            true => Ok(()),
            false => Err("a domain has 1 to 500 values"),
        }
    }

    fn column_bytes(&self, _: DataType, form: &[u8]) -> usize {
        (FIRST + form.len() / HASH_BYTES).div_ceil(8)
    }

    fn build(&self, kept: &[PartColumn], columns: &[Column], out: &mut Vec<u8>) {
        for (k, c) in kept.iter().zip(columns) {
            let at = out.len();
            out.resize(at + k.bytes.len(), 0);
            let mut set = |bit: usize| out[at + bit / 8] |= 1 << (bit % 8);
            if some_null(c) {
                set(NULL);
            }
            hashes(c).into_iter().for_each(|h| set(bit_of(&k.form, h)));
        }
    }

    fn check(&self, part: &EntryPart<'_>) -> Result<(), usize> {
        let unused = |i: &usize| {
            let (bytes, form) = (part.of(*i), &part.columns[*i].form);
            (FIRST + form.len() / HASH_BYTES..8 * bytes.len()).any(|bit| is_set(bytes, bit))
        };
        match (0..part.columns.len()).find(unused) {
            Some(i) => Err(part.columns[i].bytes.end - 1),
            None => Ok(()),
        }
    }

    fn widen(&self, union: &mut [u8], part: &EntryPart<'_>) {
        set_bits(union, part.bytes);
    }

    fn outcomes(&self, part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Outcomes {
        let place = |column| part.place(column, leaf.data_type(column));
        if let Some(c) = leaf.is_null_of() {
            let Some(i) = place(c) else { return Outcomes::ANY };
            return Outcomes::of_is_null(is_set(part.of(i), NULL), has_values(part.of(i)));
        }
        let Some((column, points)) = leaf.points(POINTS_MAX) else { return Outcomes::ANY };
        let Some(i) = place(column) else { return Outcomes::ANY };
        let (bytes, form) = (part.of(i), &part.columns[i].form);
        Outcomes {
            can_be_true: points.iter().any(|v| is_set(bytes, bit_of(form, hash(v)))),
            can_be_false: has_values(bytes),
            can_be_null: is_set(bytes, NULL),
        }
    }

    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize> {
        let lacks = |i: &usize| part.of(*i).iter().zip(own.of(*i)).any(|(a, b)| b & !a != 0);
        (0..part.columns.len()).find(lacks)
    }
}

fn is_set(bytes: &[u8], bit: usize) -> bool {
    bytes[bit / 8] >> (bit % 8) & 1 == 1
}

/// Whether there is a value that is not NULL.
fn has_values(bytes: &[u8]) -> bool {
    bytes[0] & !1 != 0 || bytes[1..].iter().any(|&b| b != 0)
}

/// The bit of a value with this hash.
fn bit_of(form: &[u8], hash: u64) -> usize {
    let (domain, _) = form.as_chunks::<HASH_BYTES>();
    domain.binary_search_by_key(&hash, |h| u64::from_le_bytes(*h)).map_or(OTHER, |i| FIRST + i)
}
