//! The kind "prefix": the least and the greatest beginning of the strings of each column, longer than the 8 bytes of a range.
//!
//! ```text
//!   form of a column: bytes n 1
//!   the part of an entry: | NULLs: a bit a column | a column: least n bytes, greatest n bytes | ...
//!   shorter strings are padded with zeroes; a column with only NULLs has least = ff ff ..., greatest = 00 00 ...
//! ```
//!
//! Invariant: the beginning of every value of the page lies from least to greatest.

use lode_page::{Column, DataType};

use super::index_kind::{Bounds, IndexKind};
use super::keys::{ends, has_no_ends, has_other_nulls, nulls, set_bits, widen_ends};
use super::leaf::{Leaf, Outcomes};
use super::part::{EntryPart, PartColumn};
use super::range::{last_key, strings};
use super::values::{each_string, some_null};
use crate::order_key::bytes_key;
use crate::plan::{Pred, Test, Val};

/// The kind "prefix".
#[derive(Clone, Copy, Debug)]
pub struct Prefix;

/// Bytes of a beginning.
pub const PREFIX_BYTES: std::ops::RangeInclusive<u8> = 1..=128;

impl IndexKind for Prefix {
    fn id(&self) -> u8 {
        3
    }

    fn name(&self) -> &'static str {
        "prefix"
    }

    fn keeps(&self, t: DataType) -> bool {
        t.is_variable()
    }

    fn check_form(&self, _: DataType, form: &[u8]) -> Result<(), &'static str> {
        match form {
            [n] if PREFIX_BYTES.contains(n) => Ok(()),
            _ => Err("a prefix has 1 to 128 bytes"),
        }
    }

    fn header_bytes(&self, columns: usize) -> usize {
        columns.div_ceil(8)
    }

    fn column_bytes(&self, _: DataType, form: &[u8]) -> usize {
        2 * usize::from(form[0])
    }

    fn build(&self, kept: &[PartColumn], columns: &[Column], out: &mut Vec<u8>) {
        let header = out.len();
        out.resize(header + self.header_bytes(kept.len()), 0);
        for (i, (k, c)) in kept.iter().zip(columns).enumerate() {
            let n = k.bytes.len() / 2;
            let mut ends: Option<(Vec<u8>, Vec<u8>)> = None;
            each_string(c, |text| {
                let text = &text[..text.len().min(n)];
                let (least, greatest) = ends.get_or_insert_with(|| (text.to_vec(), text.to_vec()));
                if text < &**least {
                    *least = text.to_vec();
                }
                if text > &**greatest {
                    *greatest = text.to_vec();
                }
            });
            let (mut least, mut greatest) = ends.unwrap_or_else(|| (vec![u8::MAX; n], Vec::new()));
            least.resize(n, 0);
            greatest.resize(n, 0);
            out.extend(least);
            out.extend(greatest);
            out[header + i / 8] |= u8::from(some_null(c)) << (i % 8);
        }
    }

    fn check(&self, part: &EntryPart<'_>) -> Result<(), usize> {
        let count = part.columns.len();
        if has_other_nulls(nulls(header(part)), count) {
            return Err(0);
        }
        let bad = |i: &usize| {
            let (least, greatest) = ends(part.of(*i));
            let all_null = part.rows == 0 || has_null(part, *i);
            least > greatest && !(is_empty(part, *i) && all_null)
        };
        match (0..count).find(bad) {
            Some(i) => Err(part.columns[i].bytes.start),
            None => Ok(()),
        }
    }

    fn widen(&self, union: &mut [u8], part: &EntryPart<'_>) {
        let nulls = header(part);
        set_bits(&mut union[..nulls.len()], nulls);
        for (i, c) in part.columns.iter().enumerate() {
            widen_ends(&mut union[c.bytes.clone()], part.of(i), Ord::cmp);
        }
    }

    fn outcomes(&self, part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Outcomes {
        let place = |column| part.place(column, leaf.data_type(column));
        if let Some(c) = leaf.is_null_of() {
            let Some(i) = place(c) else { return Outcomes::ANY };
            return Outcomes::of_is_null(has_null(part, i), !is_empty(part, i));
        }
        let Pred::Test { value: Val::Column(c), test, .. } = &leaf.node.pred else { return Outcomes::ANY };
        let Some(i) = place(*c) else { return Outcomes::ANY };
        let (least, greatest) = ends(part.of(i));
        let some = !is_empty(part, i);
        let (can_be_true, can_be_false) = match test {
            Test::Range { .. } | Test::Ints(_) => (true, true),
            _ => strings(test, least, greatest),
        };
        Outcomes {
            can_be_true: some && can_be_true,
            can_be_false: some && can_be_false,
            can_be_null: has_null(part, i),
        }
    }

    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize> {
        (0..part.columns.len()).find(|&i| {
            let ((least, greatest), (own_least, own_greatest)) = (ends(part.of(i)), ends(own.of(i)));
            let reaches =
                is_empty(own, i) || !is_empty(part, i) && least <= own_least && own_greatest <= greatest;
            !reaches || has_null(own, i) && !has_null(part, i)
        })
    }

    fn bounds(&self, part: &EntryPart<'_>, place: usize) -> Option<Bounds> {
        let (least, greatest) = ends(part.of(place));
        let keys = (!is_empty(part, place)).then(|| (bytes_key(least), last_key(greatest)));
        Some(Bounds { keys, has_nulls: has_null(part, place) })
    }

    fn has_bounds(&self) -> bool {
        true
    }
}

fn header<'a>(part: &EntryPart<'a>) -> &'a [u8] {
    &part.bytes[..part.columns.len().div_ceil(8)]
}

fn has_null(part: &EntryPart<'_>, place: usize) -> bool {
    nulls(header(part)) >> place & 1 == 1
}

/// Whether the column has only NULLs.
fn is_empty(part: &EntryPart<'_>, place: usize) -> bool {
    has_no_ends(part.of(place))
}
