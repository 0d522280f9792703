//! Sets of slots of a page: a sorted list while they are few, a bit for each slot once that is shorter.

/// Some slots of a page. A page of 100,000 rows takes at most 12 KB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotSet {
    /// Ascending.
    Few(Vec<u32>),
    Many {
        words: Vec<u64>,
        count: usize,
    },
}

impl Default for SlotSet {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl SlotSet {
    /// The first `count` slots.
    pub(crate) fn first(count: u32) -> Self {
        let mut words = vec![u64::MAX; count.div_ceil(64) as usize];
        if let (Some(last), 1..) = (words.last_mut(), count % 64) {
            *last = (1 << (count % 64)) - 1;
        }
        Self::Many { words, count: count as usize }
    }

    /// Adds a slot; answers whether it is new.
    pub(crate) fn insert(&mut self, slot: u32) -> bool {
        match self {
            Self::Few(slots) => {
                // Slots mostly ascend.
                let at = match slots.last() {
                    Some(last) if *last >= slot => match slots.binary_search(&slot) {
                        Ok(_) => return false,
                        Err(at) => at,
                    },
                    _ => slots.len(),
                };
                slots.insert(at, slot);
                self.pack();
                true
            }
            Self::Many { words, count } => {
                let (word, bit) = (slot as usize / 64, 1u64 << (slot % 64));
                if word >= words.len() {
                    words.resize(word + 1, 0);
                }
                let is_new = words[word] & bit == 0;
                words[word] |= bit;
                *count += usize::from(is_new);
                is_new
            }
        }
    }

    /// Makes a long list bits.
    fn pack(&mut self) {
        let Self::Few(slots) = self else { return };
        let Some(&last) = slots.last() else { return };
        let words = last as usize / 64 + 1;
        if slots.len() > 64 && slots.len() > 2 * words {
            let mut bits = vec![0u64; words];
            slots.iter().for_each(|s| bits[*s as usize / 64] |= 1 << (s % 64));
            *self = Self::Many { words: bits, count: slots.len() };
        }
    }

    pub(crate) fn contains(&self, slot: u32) -> bool {
        match self {
            Self::Few(slots) => slots.binary_search(&slot).is_ok(),
            Self::Many { words, .. } => {
                words.get(slot as usize / 64).is_some_and(|w| w & (1 << (slot % 64)) != 0)
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(slots) => slots.len(),
            Self::Many { count, .. } => *count,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slots, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (few, words): (&[u32], &[u64]) = match self {
            Self::Few(slots) => (slots, &[]),
            Self::Many { words, .. } => (&[], words),
        };
        let bits = |(i, &word): (usize, &u64)| Bits { rest: word, from: i as u32 * 64 };
        few.iter().copied().chain(words.iter().enumerate().flat_map(bits))
    }

    /// The slots, ascending.
    pub(crate) fn to_vec(&self) -> Vec<u32> {
        self.iter().collect()
    }
}

/// The slots of a word.
struct Bits {
    rest: u64,
    from: u32,
}

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = (self.rest != 0).then(|| self.rest.trailing_zeros())?;
        self.rest &= self.rest - 1;
        Some(self.from + bit)
    }
}

impl Extend<u32> for SlotSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, slots: I) {
        for slot in slots {
            self.insert(slot);
        }
    }
}

impl FromIterator<u32> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> Self {
        let mut set = Self::default();
        set.extend(slots);
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    proptest::proptest! {
        #[test]
        fn it_is_a_set(slots in proptest::collection::vec(0u32..700, 0..900)) {
            let (mut set, mut model) = (SlotSet::default(), BTreeSet::new());
            for s in slots {
                proptest::prop_assert_eq!(set.insert(s), model.insert(s));
            }
            proptest::prop_assert_eq!(set.to_vec(), model.iter().copied().collect::<Vec<_>>());
            proptest::prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            (0..800).try_for_each(|s| {
                proptest::prop_assert_eq!(set.contains(s), model.contains(&s));
                Ok(())
            })?;
        }
    }
}
