//! Proves from their order that the keys of a load are distinct, without keeping them.
//!
//! ```text
//!   leading column   1 1 1 | 2 2 | 5 ...     never falls: only keys of one group can be equal
//!   second column    3 1 2 | 9 9             a group that is not ascending is sorted when it ends ─► (2, 9) twice
//! ```
//!
//! If the leading column falls, or a group that does not ascend grows beyond its bound, the order proves nothing. Then the keys are
//! verified before the commit.

use lode_page::{Column, ops};

use crate::tables::delta::Sorted;
use crate::tables::key::KeyReader;

/// Most bytes of keys of one group.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// What the order of a load's keys has proved so far.
#[derive(Clone)]
pub(super) struct KeyOrder {
    proven: bool,
    /// Whether the keys of all groups that ended ascend.
    ascends: bool,
    /// Keys of the group that the last key belongs to: their bytes and their ends.
    group: Vec<u8>,
    ends: Vec<usize>,
    group_ascends: bool,
    /// The group was so long that its first keys were dropped. From then on it must ascend.
    group_is_cut: bool,
    leading_bytes: usize,
    key: Vec<u8>,
    /// The leading column's least value, as a column of one row.
    first: Option<Column>,
}

impl KeyOrder {
    pub(super) fn new() -> Self {
        Self {
            proven: true,
            ascends: true,
            group: Vec::new(),
            ends: Vec::new(),
            group_ascends: true,
            group_is_cut: false,
            leading_bytes: 0,
            key: Vec::new(),
            first: None,
        }
    }

    /// Takes the keys of further rows.
    pub(super) fn push(&mut self, columns: &[Column]) {
        let rows = columns[0].rows();
        if rows > 0 && self.first.is_none() {
            self.first = Some(ops::slice(&columns[0], 0, 1));
        }
        let reader = KeyReader::new(columns);
        let mut key = std::mem::take(&mut self.key);
        for row in 0..rows {
            if !self.proven {
                return;
            }
            let leading_bytes = reader.read(row, &mut key);
            self.take(&key, leading_bytes);
        }
        self.key = key;
    }

    fn take(&mut self, key: &[u8], leading_bytes: usize) {
        let last = &self.group[self.ends.iter().rev().nth(1).copied().unwrap_or(0)..];
        let (leading, leading_last) = (&key[..leading_bytes], &last[..self.leading_bytes]);
        if self.ends.is_empty() || leading > leading_last {
            self.end_group();
            self.leading_bytes = leading_bytes;
        } else if leading < leading_last || key == last {
            self.proven = false;
        } else if key < last {
            self.group_ascends = false;
        }
        if self.group.len() > GROUP_BYTES_MAX {
            self.group.clear();
            self.ends.clear();
            self.group_is_cut = true;
        }
        if self.group_is_cut && !self.group_ascends {
            self.proven = false;
        }
        self.group.extend_from_slice(key);
        self.ends.push(self.group.len());
    }

    fn end_group(&mut self) {
        if !self.group_ascends && self.proven {
            let starts = std::iter::once(0).chain(self.ends.iter().copied());
            let mut keys: Vec<&[u8]> = starts.zip(&self.ends).map(|(s, &e)| &self.group[s..e]).collect();
            keys.sort_unstable();
            self.proven = keys.windows(2).all(|w| w[0] != w[1]);
        }
        self.group.clear();
        self.ends.clear();
        self.ascends &= self.group_ascends;
        self.group_ascends = true;
        self.group_is_cut = false;
    }

    /// How the keys are sorted, if the order proved all of them distinct.
    pub(super) fn sorted(&self) -> Option<Sorted> {
        let mut end = self.clone();
        end.finish()?;
        Some(if end.ascends { Sorted::ByKey } else { Sorted::ByLeading })
    }

    /// The leading column's least value (a column of one row), if the order proved all keys distinct.
    pub(super) fn finish(&mut self) -> Option<&Column> {
        self.end_group();
        self.first.as_ref().filter(|_| self.proven)
    }
}

#[cfg(test)]
mod tests {
    use lode_page::{ColumnBuilder, DataType, Value};

    use super::*;

    fn order(keys: &[(i64, i64)]) -> KeyOrder {
        let mut order = KeyOrder::new();
        for part in keys.chunks(3) {
            let mut columns = [ColumnBuilder::new(DataType::Integer), ColumnBuilder::new(DataType::BigInt)];
            for (a, b) in part {
                columns[0].push(&Value::Int(*a)).unwrap();
                columns[1].push(&Value::Int(*b)).unwrap();
            }
            order.push(&columns.map(ColumnBuilder::finish));
        }
        order
    }

    fn proven(keys: &[(i64, i64)]) -> bool {
        order(keys).finish().is_some()
    }

    #[test]
    fn groups_in_order_are_distinct_whatever_lies_in_them() {
        assert!(proven(&[(1, 3), (1, 1), (1, 2), (2, 9), (5, 1), (5, 0)]));
        assert!(proven(&[(-1, 0), (0, 0), (1, 0)]));
        assert!(!proven(&[(1, 3), (1, 1), (1, 3), (2, 0)]), "a key twice in a group");
        assert!(!proven(&[(1, 3), (1, 1), (1, 3)]), "in the last group");
        assert!(!proven(&[(1, 3), (1, 3)]), "one after the other");
        assert!(!proven(&[(2, 1), (1, 1)]), "the leading column falls");
        assert!(!proven(&[]), "nothing is known of no keys");
    }

    #[test]
    fn keys_that_ascend_within_all_groups_are_sorted_by_the_whole_key() {
        let sorted = |keys: &[(i64, i64)]| order(keys).sorted();
        assert_eq!(sorted(&[(1, 1), (1, 2), (2, 0)]), Some(Sorted::ByKey));
        assert_eq!(sorted(&[(1, 2), (1, 1), (2, 0), (3, 0)]), Some(Sorted::ByLeading), "in the first group");
        assert_eq!(sorted(&[(1, 1), (2, 5), (2, 0)]), Some(Sorted::ByLeading), "in the last group");
        assert_eq!(sorted(&[(1, 1), (1, 1)]), None, "a key twice");
        assert_eq!(sorted(&[(2, 1), (1, 1)]), None, "the leading column falls");
    }

    #[test]
    fn a_long_group_must_ascend() {
        let long: Vec<(i64, i64)> = (0..600_000).map(|n| (1, n)).collect();
        assert!(proven(&long));
        let mut late = long.clone();
        late.push((1, 5));
        assert!(!proven(&late));
    }
}
