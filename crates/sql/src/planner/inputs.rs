//! Sets of inputs of a region.

use std::fmt;

/// A set of up to 64 inputs, by number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Inputs(u64);

impl Inputs {
    /// The most inputs of a region that is ordered.
    pub(super) const MAX: usize = 64;

    pub(super) fn one(input: usize) -> Self {
        Self(1 << input)
    }

    /// The first `n`.
    pub(super) fn first(n: usize) -> Self {
        Self(if n == Self::MAX { u64::MAX } else { (1 << n) - 1 })
    }

    pub(super) fn has(self, input: usize) -> bool {
        self.0 >> input & 1 == 1
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` is in it.
    pub(super) fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(next)
        })
    }

    /// Its subsets but itself and the empty one, each once.
    pub(super) fn parts(self) -> impl Iterator<Item = Self> {
        let all = self.0;
        let mut part = all;
        std::iter::from_fn(move || {
            part = part.wrapping_sub(1) & all;
            (part != 0 && part != all).then_some(Self(part))
        })
    }
}

impl FromIterator<usize> for Inputs {
    fn from_iter<I: IntoIterator<Item = usize>>(inputs: I) -> Self {
        Self(inputs.into_iter().fold(0, |all, i| all | 1 << i))
    }
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_proper_subsets() {
        let set: Inputs = [1, 4, 5].into_iter().collect();
        let mut parts: Vec<Vec<usize>> = set.parts().map(|p| p.iter().collect()).collect();
        parts.sort();
        assert_eq!(parts, [vec![1], vec![1, 4], vec![1, 5], vec![4], vec![4, 5], vec![5]]);
        assert_eq!(Inputs::one(3).parts().count(), 0);
        assert_eq!(Inputs::first(Inputs::MAX).len(), 64);
    }
}
