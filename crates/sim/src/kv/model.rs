//! The model: the value of every key at every commit, and the commits that a crash may lose.
//!
//! ```text
//!   commits   1 2 3 4 5 | 6?        durable up to 3: a crash leaves 1-3, 1-4, 1-5, or all with the commit under way
//! ```

use std::collections::BTreeMap;

/// The number of a tree in the model. Successive trees with the same name have different numbers.
pub(super) type Serial = u32;
/// A key of a tree.
pub(super) type Key = (Serial, Vec<u8>);
/// The writes of a transaction. `None` deletes a key.
pub(super) type Writes = BTreeMap<Key, Option<Vec<u8>>>;
/// A position in the order of commits: the number of commits so far.
pub(super) type Position = usize;
/// The value that a commit wrote to a key.
type Version = (Position, Option<Vec<u8>>);

#[derive(Default)]
pub(super) struct Model {
    /// The versions of each key, in the order of their commits.
    versions: BTreeMap<Key, Vec<Version>>,
    /// The number that the database gave each commit.
    csns: Vec<u64>,
    /// The number of commits that no crash may lose.
    durable: Position,
    /// The writes of commits whose outcome is unknown.
    unknown: Vec<Writes>,
}

/// The last commit that survived a crash.
pub(super) enum Settled {
    /// The commit at this position.
    At(Position),
    /// The commit under way with this index in [`Model::unknown`].
    Unknown(usize),
}

impl Model {
    /// The number of commits so far.
    pub(super) fn place(&self) -> Position {
        self.csns.len()
    }

    /// The number of the newest commit, or 0.
    pub(super) fn newest_csn(&self) -> u64 {
        self.csns.last().copied().unwrap_or(0)
    }

    pub(super) fn csn(&self, place: Position) -> u64 {
        place.checked_sub(1).map_or(0, |i| self.csns[i])
    }

    pub(super) fn durable(&self) -> Position {
        self.durable
    }

    /// Marks all commits so far as durable. Commits with an unknown outcome are dropped: a later commit took effect, so
    /// they did not.
    pub(super) fn is_durable(&mut self) {
        self.durable = self.place();
        self.unknown.clear();
    }

    pub(super) fn commit(&mut self, csn: u64, writes: &Writes) {
        self.csns.push(csn);
        let place = self.place();
        for (key, value) in writes {
            self.versions.entry(key.clone()).or_default().push((place, value.clone()));
        }
    }

    /// Sets the initial content of a new tree. Transactions that began before do not see the tree.
    pub(super) fn load(&mut self, tree: Serial, entries: Vec<(Vec<u8>, Vec<u8>)>) {
        for (key, value) in entries {
            self.versions.entry((tree, key)).or_default().push((0, Some(value)));
        }
    }

    /// Whether there is a commit with an unknown outcome.
    pub(super) fn has_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Records a failed commit that may have taken effect after the next opening.
    pub(super) fn may_commit(&mut self, writes: Writes) {
        self.unknown.push(writes);
    }

    pub(super) fn at(&self, place: Position, key: &Key) -> Option<&Vec<u8>> {
        let versions = self.versions.get(key)?;
        let newest = versions.iter().rev().find(|v| v.0 <= place)?;
        newest.1.as_ref()
    }

    /// All keys of a tree with their values.
    pub(super) fn all(&self, place: Position, tree: Serial) -> BTreeMap<&[u8], &[u8]> {
        let keys = self.versions.range((tree, Vec::new())..(tree + 1, Vec::new()));
        keys.filter_map(|(k, _)| self.at(place, k).map(|v| (&k.1[..], &v[..]))).collect()
    }

    /// Whether another transaction wrote one of these keys after this position.
    pub(super) fn conflicts(&self, place: Position, writes: &Writes) -> bool {
        let newer = |k: &Key| self.versions.get(k).and_then(|v| v.last()).is_some_and(|v| v.0 > place);
        writes.keys().any(newer)
    }

    /// Finds the last commit that survived a crash by its number.
    pub(super) fn settle(&self, csn: u64) -> Result<Settled, String> {
        if let Some(place) = (0..=self.place()).rev().find(|&p| self.csn(p) == csn) {
            return match place >= self.durable {
                true => Ok(Settled::At(place)),
                false => Err(format!("commit {csn} is the newest; {} was durable", self.csn(self.durable))),
            };
        }
        match self.unknown.len().checked_sub(1) {
            Some(last) if csn > self.newest_csn() => Ok(Settled::Unknown(last)),
            _ => Err(format!(
                "commit {csn} is the newest, but no such commit was made; {} of {} commits were durable, the last was {}",
                self.durable,
                self.place(),
                self.newest_csn()
            )),
        }
    }

    /// Removes all commits after a position.
    pub(super) fn cut(&mut self, place: Position) {
        self.csns.truncate(place);
        for versions in self.versions.values_mut() {
            versions.retain(|v| v.0 <= place);
        }
        self.durable = place;
        self.unknown.clear();
    }

    /// Records that a commit with an unknown outcome took effect.
    pub(super) fn turned_out(&mut self, which: usize, csn: u64) {
        let writes = self.unknown[which].clone();
        self.commit(csn, &writes);
        self.is_durable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(key: u8, value: Option<u8>) -> Writes {
        [((0, vec![key]), value.map(|v| vec![v]))].into()
    }

    #[test]
    fn versions_conflicts_and_crashes() {
        let mut m = Model::default();
        m.commit(5, &writes(1, Some(1)));
        m.is_durable();
        m.commit(6, &writes(1, Some(2)));
        m.commit(9, &writes(1, None));
        let key = (0, vec![1]);
        let seen: Vec<_> = (0..4).map(|p| m.at(p, &key).cloned()).collect();
        assert_eq!(seen, [None, Some(vec![1]), Some(vec![2]), None]);
        assert!(m.conflicts(1, &writes(1, None)) && !m.conflicts(3, &writes(1, None)));
        assert!(!m.conflicts(0, &writes(2, None)));
        assert_eq!((m.all(2, 0).len(), m.all(3, 0).len(), m.all(2, 1).len()), (1, 0, 0));
        assert!(m.settle(0).is_err() && m.settle(7).is_err() && m.settle(10).is_err());
        assert!(matches!(m.settle(6), Ok(Settled::At(2))));
        m.may_commit(writes(3, Some(3)));
        assert!(matches!(m.settle(10), Ok(Settled::Unknown(0))));
        m.turned_out(0, 10);
        assert_eq!((m.place(), m.durable(), m.at(4, &(0, vec![3]))), (4, 4, Some(&vec![3])));
        m.cut(2);
        assert_eq!((m.newest_csn(), m.at(9, &key)), (6, Some(&vec![2])));
    }
}
