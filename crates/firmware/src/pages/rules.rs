//! The registered index rules, by owner. A set of rules is immutable: a batch that changes rules publishes another set.
//!
//! ```text
//!   on the medium: | count 4 | owner 4, number 8, length 4, bytes | ...      cut in pieces of 1 MB
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lode_base::OwnerId;
use lode_program::IndexRule;
use parking_lot::RwLock;

use super::index::is_long;
use crate::codec::{Malformed, Put, Take};
use crate::planted::{self, Planted, at};

/// The rules that readers use.
#[derive(Default)]
pub(crate) struct CurrentRules {
    rules: RwLock<Arc<Rules>>,
    /// Whether they changed since they were written.
    changed: AtomicBool,
    /// Whether a rule has, or had, long entries.
    had_long: AtomicBool,
}

impl CurrentRules {
    #[inline]
    pub(crate) fn get(&self) -> Arc<Rules> {
        self.rules.read().clone()
    }

    /// A batch changed the rules.
    pub(crate) fn publish(&self, rules: Arc<Rules>) {
        self.restore(rules);
        planted::unless(Planted::RulesForgotten, || self.mark_changed());
    }

    /// Sets the rules as recovery found them.
    pub(crate) fn restore(&self, rules: Arc<Rules>) {
        if rules.0.values().any(|r| is_long(r.rule.entry_bytes())) {
            self.note_long();
        }
        *self.rules.write() = rules;
    }

    /// A rule with long entries is about to be logged.
    pub(crate) fn note_long(&self) {
        self.had_long.store(true, Ordering::Relaxed);
    }

    /// Whether there are rules with long entries, or were since the drive was opened.
    pub(crate) fn had_long(&self) -> bool {
        self.had_long.load(Ordering::Relaxed)
    }

    /// The rules are to be written again.
    pub(crate) fn mark_changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn have_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    /// Their bytes, if they changed; they count as written from now on.
    pub(crate) fn take_changed(&self) -> Option<Vec<u8>> {
        self.changed.swap(false, Ordering::Relaxed).then(|| self.get().encode())
    }
}

/// A registered rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The commit that registered it. Index entries with another number were made by another rule.
    pub(crate) number: u64,
    pub(crate) rule: Arc<IndexRule>,
    /// Bytes that it takes in memory, about.
    len_bytes: u64,
}

/// About the bytes in memory of a rule whose encoding has so many: schema and parts have a word for a byte or two.
fn in_memory(encoded_bytes: usize) -> u64 {
    256 + 4 * encoded_bytes as u64
}

/// The rules of all owners.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(BTreeMap<u32, Rule>);

impl Rules {
    pub(crate) fn get(&self, owner: OwnerId) -> Option<&Rule> {
        self.0.get(&owner.raw())
    }

    /// Whether exactly this rule is in force, and was at `commit`.
    pub(crate) fn stands_since(&self, rule: &Arc<IndexRule>, commit: u64) -> bool {
        let is_it = |r: &Rule| Arc::ptr_eq(&r.rule, rule);
        self.0.values().any(|r| is_it(r) && (r.number <= commit || planted::is(Planted::RuleOfLater)))
    }

    /// These rules with the changes of commit `number`.
    pub(crate) fn with(&self, changes: &[(OwnerId, Option<IndexRule>)], number: u64) -> Self {
        let mut rules = self.0.clone();
        for (owner, rule) in changes {
            match rule {
                Some(r) => {
                    let len_bytes = in_memory(r.to_bytes().len());
                    rules.insert(owner.raw(), Rule { number, rule: Arc::new(r.clone()), len_bytes })
                }
                None => at!(RuleStays => None, rules.remove(&owner.raw())),
            };
        }
        Self(rules)
    }

    /// Bytes that all rules take in memory, about.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.0.values().map(|r| r.len_bytes).sum()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut b = Vec::new();
        b.put_u32(self.0.len() as u32);
        for (owner, r) in &self.0 {
            b.put_u32(*owner);
            b.put_u64(r.number);
            b.put_bytes(&r.rule.to_bytes());
        }
        b
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let t = &mut Take::new(bytes);
        let n = t.count(16)?;
        let mut rules = BTreeMap::new();
        for _ in 0..n {
            let (owner, number) = (t.u32()?, t.u64()?);
            let bytes = t.bytes()?;
            let rule = IndexRule::from_bytes(bytes).map_err(|_| t.bad("a malformed index rule"))?;
            rules.insert(owner, Rule { number, rule: Arc::new(rule), len_bytes: in_memory(bytes.len()) });
        }
        t.end()?;
        Ok(Self(rules))
    }
}
