//! The kind "trigram": a Bloom filter of every three consecutive bytes of the texts of each column, for LIKE and equality.
//!
//! ```text
//!   'special requests' ─► spe pec eci cia ial al? l?r ?re req equ que ues est sts        (? is a blank)
//!   LIKE '%special%requests%' ─► every trigram of "special" and of "requests" must be in the filter
//! ```
//!
//! The form is that of the kind "bloom". Invariant: every trigram of every text of the page is in the filter.

use lode_page::{Column, DataType};

use super::bloom::{
    POINTS_MAX, check_filter, check_filters, denied_filter, filter_bytes, place, widen_filters,
};
use super::filter::{Filter, put_filter};
use super::index_kind::IndexKind;
use super::leaf::{Leaf, Outcomes};
use super::part::{EntryPart, PartColumn};
use super::values::{each_string, some_null};
use crate::plan::{Pred, Test, Val};
use crate::{CompareOp, bits};

/// The kind "trigram".
#[derive(Clone, Copy, Debug)]
pub struct Trigram;

/// How many trigrams there are.
const TRIGRAMS: usize = 1 << 24;
/// From so many on, a bit for each of all trigrams takes less time than sorting those that occur.
const SORTED_MAX: usize = 1 << 16;

impl IndexKind for Trigram {
    fn id(&self) -> u8 {
        6
    }

    fn name(&self) -> &'static str {
        "trigram"
    }

    fn keeps(&self, t: DataType) -> bool {
        t.is_variable()
    }

    fn check_form(&self, _: DataType, form: &[u8]) -> Result<(), &'static str> {
        check_filter(form)
    }

    fn column_bytes(&self, _: DataType, form: &[u8]) -> usize {
        filter_bytes(form)
    }

    fn build(&self, kept: &[PartColumn], columns: &[Column], out: &mut Vec<u8>) {
        for (k, c) in kept.iter().zip(columns) {
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
            put_filter(&hashes, some_null(c), filter_bytes(&k.form), out);
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
        let Pred::Test { value: Val::Column(c), test, .. } = &leaf.node.pred else { return Outcomes::ANY };
        let Some(filter) = place(part, leaf, *c) else { return Outcomes::ANY };
        let has_all = |text: &[u8]| text.windows(3).all(|t| filter.contains(hash(number(t))));
        let may_pass = match test {
            Test::Like(pattern) => pattern.literals().into_iter().all(has_all),
            Test::Bytes(CompareOp::Eq, b) => has_all(b),
            Test::Strings(set) if set.values().len() <= POINTS_MAX => set.values().iter().any(|b| has_all(b)),
            _ => true,
        };
        filter.outcomes(may_pass)
    }

    fn denies(&self, part: &EntryPart<'_>, own: &EntryPart<'_>) -> Option<usize> {
        denied_filter(part, own)
    }
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
