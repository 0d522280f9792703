//! Claims: what a commit needs that others leave alone. They are how commits of tables conflict.
//!
//! ```text
//!   claim of this commit    conflicts with a later claim than its snapshot that is
//!   exclusive               exclusive or shared
//!   shared                  exclusive
//! ```
//!
//! Example: a row of a child shares the key of its parent, and a deletion of the parent takes the key for itself. So of the two,
//! the later commit conflicts, but two children of one parent do not. Claims are compared by hash: a collision costs a needless
//! retry, never a wrong answer.

use std::hash::{Hash, Hasher};

use lode_base::TableId;

/// Makes the hash of a shared claim another one than that of an exclusive claim of the same thing.
const SHARED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The claims of a commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    claims: Vec<(u64, bool)>,
}

impl Claims {
    /// Claims something of a table for this commit alone. `what` names it; `kind` tells names of different things apart.
    pub(crate) fn exclusive(&mut self, t: TableId, kind: u8, what: &[u8]) {
        self.claims.push((hash(t, kind, what), true));
    }

    /// Claims something of a table, which others may share.
    pub(crate) fn shared(&mut self, t: TableId, kind: u8, what: &[u8]) {
        self.claims.push((hash(t, kind, what), false));
    }

    /// How many claims there are.
    pub(crate) fn len(&self) -> usize {
        self.claims.len()
    }

    /// The hashes to remember of a commit with these claims.
    pub(super) fn remembered(&self) -> Vec<u64> {
        self.claims.iter().map(|&(hash, exclusive)| if exclusive { hash } else { hash ^ SHARED }).collect()
    }

    /// The hashes of claims that conflict with these, each with the number of the claim.
    pub(super) fn conflicting(&self) -> impl Iterator<Item = (usize, u64)> {
        let numbered = self.claims.iter().enumerate();
        numbered.flat_map(|(i, &(hash, exclusive))| {
            [Some((i, hash)), exclusive.then_some((i, hash ^ SHARED))].into_iter().flatten()
        })
    }
}

fn hash(t: TableId, kind: u8, what: &[u8]) -> u64 {
    let mut h = std::hash::DefaultHasher::new();
    (t.raw(), kind, what).hash(&mut h);
    h.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_claims_conflict_with_exclusive_ones_alone() {
        let t = TableId::new(7);
        let claims = |exclusive| {
            let mut c = Claims::default();
            match exclusive {
                true => c.exclusive(t, 1, b"x"),
                false => c.shared(t, 1, b"x"),
            }
            c
        };
        let conflicts = |mine: bool, theirs: bool| {
            let theirs = claims(theirs).remembered();
            claims(mine).conflicting().any(|(_, hash)| theirs.contains(&hash))
        };
        assert!(conflicts(true, true) && conflicts(true, false) && conflicts(false, true));
        assert!(!conflicts(false, false));
    }
}
