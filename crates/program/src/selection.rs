//! Sets of rows of a page.

/// A bit for each row. Bits at and beyond [`RowMask::rows`] are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMask {
    words: Vec<u64>,
    rows: usize,
    count: usize,
}

impl RowMask {
    /// A mask of `rows` rows from words of 64 rows, least significant bit first. Bits beyond `rows` are ignored.
    ///
    /// # Panics
    /// When there are not as many words as `rows` needs.
    pub fn new(mut words: Vec<u64>, rows: usize) -> Self {
        assert_eq!(words.len(), rows.div_ceil(64), "words of a mask of {rows} rows");
        if let (Some(last), tail @ 1..) = (words.last_mut(), rows % 64) {
            *last &= (1 << tail) - 1;
        }
        let count = words.iter().map(|w| w.count_ones() as usize).sum();
        Self { words, rows, count }
    }

    /// A mask of `rows` rows, of which these are selected.
    ///
    /// # Panics
    /// When the mask has no such row.
    pub fn of_rows(selected: impl Iterator<Item = usize>, rows: usize) -> Self {
        let mut words = vec![0u64; rows.div_ceil(64)];
        selected.for_each(|row| words[row / 64] |= 1 << (row % 64));
        Self::new(words, rows)
    }

    /// Rows, selected or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows selected.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether row `row` is selected; rows beyond the end are not.
    pub fn contains(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|w| w >> (row % 64) & 1 == 1)
    }

    /// The bits, 64 rows a word.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Runs of neighbouring selected rows, ascending and as long as can be.
    pub(crate) fn runs(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let mut word = *self.words.get(at / 64)? >> (at % 64);
            while word == 0 {
                at = (at / 64 + 1) * 64;
                word = *self.words.get(at / 64)?;
            }
            let start = at + word.trailing_zeros() as usize;
            at = start;
            loop {
                let ones = (self.words[at / 64] >> (at % 64)).trailing_ones() as usize;
                at += ones;
                let on = ones > 0 && at % 64 == 0 && self.words.get(at / 64).is_some_and(|w| w & 1 == 1);
                if !on {
                    return Some(start..at);
                }
            }
        })
    }

    /// The selected rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    i * 64 + bit
                })
            })
        })
    }
}

/// The rows of a page that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every row.
    All,
    /// No row.
    None,
    /// At least one row and not every one.
    Some(RowMask),
}

impl Selection {
    /// The selection of the rows in `mask`.
    pub fn from_mask(mask: RowMask) -> Self {
        match mask.count() {
            0 => Self::None,
            n if n == mask.rows() => Self::All,
            _ => Self::Some(mask),
        }
    }

    /// Rows that passed, of a page of `rows`.
    pub fn count(&self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::None => 0,
            Self::Some(mask) => mask.count(),
        }
    }

    /// The rows that passed, of a page of `rows`, ascending.
    pub fn slots(&self, rows: usize) -> Vec<u32> {
        match self {
            Self::All => (0..rows as u32).collect(),
            Self::None => Vec::new(),
            Self::Some(mask) => mask.iter().map(|r| r as u32).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_maximal() {
        let check = |words: &[u64], rows, expected: &[(usize, usize)]| {
            let runs = RowMask::new(words.to_vec(), rows);
            assert_eq!(runs.runs().map(|r| (r.start, r.end)).collect::<Vec<_>>(), expected);
        };
        check(&[0b1011_0110], 64, &[(1, 3), (4, 6), (7, 8)]);
        check(&[!0, !0, 1, 0, 2], 320, &[(0, 129), (257, 258)]);
        check(&[!0, 0], 128, &[(0, 64)]);
        check(&[0, 1 << 63, !0], 192, &[(127, 192)]);
        check(&[], 0, &[]);
    }

    #[test]
    fn bits_beyond_the_end_do_not_count() {
        let mask = RowMask::new(vec![1 << 63, !0], 66);
        assert_eq!(mask.count(), 3);
        assert_eq!(mask.iter().collect::<Vec<_>>(), [63, 64, 65]);
        assert!(!mask.contains(66) && !mask.contains(1000));
        assert!(mask.runs().eq(std::iter::once(63..66)));
        assert_eq!(Selection::from_mask(mask).slots(66), [63, 64, 65]);
        assert_eq!(Selection::from_mask(RowMask::new(vec![!0, !0], 66)), Selection::All);
        assert_eq!(Selection::from_mask(RowMask::new(vec![0, !0 << 2], 66)), Selection::None);
    }
}
