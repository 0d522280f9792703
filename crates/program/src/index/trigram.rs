//! The kind "trigram": a Bloom filter of every three consecutive bytes of the texts of each column, for LIKE and equality.
//!
//! ```text
//!   'special requests' ─► spe pec eci cia ial al? l?r ?re req equ que ues est sts        (? is a blank)
//!   LIKE '%special%requests%' ─► every trigram of "special" and of "requests" must be in the filter
//! ```
//!
//! Invariant: every trigram of every text of the page is in the filter.

use lode_page::{Column, DataType};

use super::filter_kind::{FilterKind, filter_of};
use super::leaf::{Leaf, Outcomes, POINTS_MAX};
use super::part::EntryPart;
use super::values::each_string;
use crate::plan::{Pred, Test, Val};
use crate::{CompareOp, bits};

/// The kind "trigram".
pub static TRIGRAM: FilterKind =
    FilterKind { id: 6, name: "trigram", keeps: DataType::is_variable, hashes, outcomes };

/// How many trigrams there are.
const TRIGRAMS: usize = 1 << 24;
/// From so many on, a bit for each of all trigrams takes less time than sorting those that occur.
const SORTED_MAX: usize = 1 << 16;

/// The hashes of the trigrams of all texts of a column.
fn hashes(c: &Column) -> Vec<u64> {
    let mut all = Distinct::default();
    let mut values = false;
    each_string(c, |text| {
        values = true;
        text.windows(3).for_each(|t| all.insert(number(t)));
    });
    let mut hashes: Vec<u64> = all.finish().into_iter().map(hash).collect();
    // Texts too short for a trigram are values too, or the filter would say that there are none.
    if values && hashes.is_empty() {
        hashes.push(hash(0));
    }
    hashes
}

fn outcomes(part: &EntryPart<'_>, leaf: &Leaf<'_>) -> Option<Outcomes> {
    let Pred::Test { value: Val::Column(c), test, .. } = &leaf.node.pred else { return None };
    let filter = filter_of(part, leaf, *c)?;
    let has_all = |text: &[u8]| text.windows(3).all(|t| filter.contains(hash(number(t))));
    let may_pass = match test {
        Test::Like(pattern) => pattern.literals().into_iter().all(has_all),
        Test::Bytes(CompareOp::Eq, b) => has_all(b),
        Test::Strings(set) if set.values().len() <= POINTS_MAX => set.values().iter().any(|b| has_all(b)),
        _ => true,
    };
    Some(filter.outcomes(may_pass))
}

fn number(trigram: &[u8]) -> u32 {
    u32::from_be_bytes([0, trigram[0], trigram[1], trigram[2]])
}

fn hash(trigram: u32) -> u64 {
    lode_base::random::mix(trigram.into())
}

/// Distinct trigrams.
#[derive(Default)]
struct Distinct {
    some: Vec<u32>,
    /// A bit for each of all trigrams, once there were many.
    all: Vec<u64>,
}

impl Distinct {
    fn insert(&mut self, trigram: u32) {
        if !self.all.is_empty() {
            return bits::set(&mut self.all, trigram.into());
        }
        self.some.push(trigram);
        if self.some.len() == SORTED_MAX {
            self.all = vec![0; TRIGRAMS / 64];
            self.some.drain(..).for_each(|t| bits::set(&mut self.all, t.into()));
        }
    }

    fn finish(mut self) -> Vec<u32> {
        self.some.sort_unstable();
        self.some.dedup();
        for (i, &word) in self.all.iter().enumerate() {
            bits::each(word, |bit| self.some.push((i * 64 + bit) as u32));
        }
        self.some
    }
}
