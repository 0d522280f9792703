//! Bits: words of 64 rows, outcomes of three-valued logic, and sets of numbers.

use lode_page::Column;

/// Outcomes of a predicate. A row is TRUE if its bit in `truth` is set, and NULL if its bit in `known` is not set.
///
/// The bits of rows that were not evaluated are arbitrary. For all others `truth` is a subset of `known`.
#[derive(Clone, Debug)]
pub(crate) struct Tri {
    pub(crate) truth: Vec<u64>,
    /// `None`: all are known.
    pub(crate) known: Option<Vec<u64>>,
}

impl Tri {
    /// The same outcome for all rows.
    pub(crate) fn constant(b: Option<bool>, words: usize) -> Self {
        let truth = vec![if b == Some(true) { !0 } else { 0 }; words];
        Self { truth, known: b.is_none().then(|| vec![0; words]) }
    }

    /// Word `i` of `known`.
    pub(crate) fn known_word(&self, i: usize) -> u64 {
        self.known.as_ref().map_or(!0, |k| k[i])
    }

    pub(crate) fn not(mut self) -> Self {
        for i in 0..self.truth.len() {
            self.truth[i] = !self.truth[i] & self.known_word(i);
        }
        self
    }

    /// Makes the outcome NULL where a value is NULL.
    pub(crate) fn where_valid(mut self, valid: Option<Vec<u64>>) -> Self {
        let Some(valid) = valid else { return self };
        and_into(&mut self.truth, &valid);
        match &mut self.known {
            Some(k) => and_into(k, &valid),
            None => self.known = Some(valid),
        }
        self
    }

    /// Kleene's AND: false when one is false, else NULL when one is.
    pub(crate) fn and(&mut self, other: &Self) {
        if self.known.is_some() || other.known.is_some() {
            let known = |i: usize| {
                let (k, o) = (self.known_word(i), other.known_word(i));
                k & o | k & !self.truth[i] | o & !other.truth[i]
            };
            self.known = Some((0..self.truth.len()).map(known).collect());
        }
        and_into(&mut self.truth, &other.truth);
    }

    /// Kleene's OR: true when one is true, else NULL when one is.
    pub(crate) fn or(&mut self, other: &Self) {
        if self.known.is_some() || other.known.is_some() {
            let known = |i: usize| self.known_word(i) & other.known_word(i) | self.truth[i] | other.truth[i];
            self.known = Some((0..self.truth.len()).map(known).collect());
        }
        self.truth.iter_mut().zip(&other.truth).for_each(|(a, b)| *a |= b);
    }
}

pub(crate) fn and_into(a: &mut [u64], b: &[u64]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a &= b);
}

/// A bit for each of `rows` rows, and none beyond.
pub(crate) fn all(rows: usize) -> Vec<u64> {
    let mut words = vec![!0; rows.div_ceil(64)];
    if let (Some(last), tail @ 1..) = (words.last_mut(), rows % 64) {
        *last = (1 << tail) - 1;
    }
    words
}

/// The 64 rows from row `64 * i` on of a column's bits; rows beyond the bytes are 0.
pub(crate) fn word(bytes: &[u8], i: usize) -> u64 {
    let rest = bytes.get(i * 8..).unwrap_or_default();
    match rest.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => rest.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b)),
    }
}

/// The first words of a column's bits.
pub(crate) fn words(bytes: &[u8], count: usize) -> Vec<u64> {
    (0..count).map(|i| word(bytes, i)).collect()
}

/// A bit for each row in which none of these columns is NULL; `None` if that is every row.
pub(crate) fn valid<'a>(columns: impl Iterator<Item = &'a Column>, count: usize) -> Option<Vec<u64>> {
    let mut all: Option<Vec<u64>> = None;
    for v in columns.filter_map(Column::validity) {
        let v = words(v, count);
        match &mut all {
            Some(all) => and_into(all, &v),
            None => all = Some(v),
        }
    }
    all
}

/// Calls `f` with the number of each bit that is set.
pub(crate) fn each(mut word: u64, mut f: impl FnMut(usize)) {
    while word != 0 {
        f(word.trailing_zeros() as usize);
        word &= word - 1;
    }
}

/// One bit from each of 64 bytes that are 0 or 1.
///
/// Eight at a time: with byte i of x being b_i, x * 0x0102_0408_1020_4080 has b_0 to b_7 in its top byte, since
/// byte i times the bit 7 * (8 - i) lands on bit 56 + i, and no two others meet there.
pub(crate) fn pack(bytes: &[u8; 64]) -> u64 {
    let mut word = 0;
    for (i, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= bits << (8 * i);
    }
    word
}

/// Sets bit `at`.
pub(crate) fn set(words: &mut [u64], at: u64) {
    words[(at / 64) as usize] |= 1 << (at % 64);
}

/// A bit for each number from `sorted[0]` to the last: whether it is among these.
pub(crate) fn of_numbers(sorted: &[i64]) -> Vec<u64> {
    let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let mut words = vec![0; (high.abs_diff(low) / 64) as usize + 1];
    sorted.iter().for_each(|v| set(&mut words, v.abs_diff(low)));
    words
}

/// Whether `v` has its bit, where the first bit is that of `low`.
pub(crate) fn has_number(words: &[u64], low: i64, v: i64) -> bool {
    let at = v.abs_diff(low);
    v >= low && words.get((at / 64) as usize).is_some_and(|w| w >> (at % 64) & 1 == 1)
}

/// Whether one of the bits `from..=to` is set; `to` is within the words.
pub(crate) fn any(words: &[u64], from: u64, to: u64) -> bool {
    let (first, last) = ((from / 64) as usize, (to / 64) as usize);
    let (head, tail) = (!0u64 << (from % 64), !0u64 >> (63 - to % 64));
    if first == last {
        return words[first] & head & tail != 0;
    }
    words[first] & head != 0 || words[first + 1..last].iter().any(|w| *w != 0) || words[last] & tail != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pack_into_bits() {
        for seed in [0u64, !0, 1, 1 << 63, 0xdead_beef_0123_4567] {
            let bytes = std::array::from_fn(|i| (seed >> i & 1) as u8);
            assert_eq!(pack(&bytes), seed);
            assert_eq!(word(&seed.to_le_bytes(), 0), seed);
            assert_eq!(word(&seed.to_le_bytes()[..3], 0), seed & 0xff_ffff);
        }
        assert_eq!(word(&[1], 1), 0);
        assert_eq!(all(66), [!0, 3]);
        assert_eq!(all(64), [!0]);
    }

    #[test]
    fn three_valued_logic_is_kleene() {
        let outcomes = [Some(true), Some(false), None];
        let of = |t: &Tri| if t.known_word(0) & 1 == 0 { None } else { Some(t.truth[0] & 1 == 1) };
        for a in outcomes {
            for b in outcomes {
                let (ta, tb) = (Tri::constant(a, 1), Tri::constant(b, 1));
                let (mut and, mut or) = (ta.clone(), ta.clone());
                and.and(&tb);
                or.or(&tb);
                let expected =
                    |short| if a == Some(short) || b == Some(short) { Some(short) } else { a.and(b) };
                assert_eq!(of(&and), expected(false), "{a:?} AND {b:?}");
                assert_eq!(of(&or), expected(true), "{a:?} OR {b:?}");
            }
            assert_eq!(of(&Tri::constant(a, 1).not()), a.map(|a| !a));
        }
    }
}
