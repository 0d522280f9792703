//! A page is replaced: what its readers see, step by step.
//!
//! ```text
//!   save the old version ─► take its index entry away ─► store the mapping entry ─► set the new index entry
//! ```
//!
//! Invariant: a reader that finds the same mapping entry before and after it took the index entry has the entry of that
//! version, or none.

use lode_base::Lpid;

use super::pins::Pinned;
use super::rules::Rule;
use super::versions::Install;
use crate::entry::Entry;
use crate::planted::{self, Planted, at};
use crate::record::LoggedIndex;

/// What a page becomes.
pub(crate) struct Change<'a> {
    pub(crate) lpid: Lpid,
    /// Where it lies; `None` when it is trimmed.
    pub(crate) entry: Option<Entry>,
    pub(crate) index: Option<&'a LoggedIndex>,
}

/// What a page was.
pub(crate) struct Replaced {
    pub(crate) entry: Entry,
    /// Whether a view shows it.
    pub(crate) pinned: bool,
}

/// Makes a page what it becomes; `old_rule` is the rule that its index entry was made by. Answers what the page was, if it
/// was mapped.
#[inline]
pub(crate) fn replace(
    install: &mut Install<'_>,
    p: &Pinned,
    old_rule: Option<&Rule>,
    change: &Change<'_>,
) -> Option<Replaced> {
    let page = change.lpid.page();
    let old = p.map().load(page);
    if old.is_none() && change.entry.is_none() {
        return None;
    }
    let old_index = || {
        let indexed = old.is_some_and(|e| !e.redo());
        let r = old_rule.filter(|_| indexed)?;
        let index = p.index(change.lpid, r.rule.entry_bytes())?;
        Some((r.rule.clone(), index.get(r.number, page)?))
    };
    let trimmed = change.entry.is_none();
    let shown = at!(TrimmedNotKept => !trimmed, true);
    let pinned = shown && install.save(change.lpid, old, trimmed, old_index);
    planted::unless(Planted::IndexKept, || p.clear_index(change.lpid));
    p.map().store(page, change.entry);
    if let Some(index) = change.index {
        p.set_index(change.lpid, index);
    }
    old.map(|entry| Replaced { entry, pinned })
}
