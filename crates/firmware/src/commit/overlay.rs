//! The overlay: what is staged and not installed, as the actions that are staged next must see it.

use std::collections::HashSet;

use lode_base::fast::{FastMap, FastSet};
use lode_base::{ExtentId, Lpid, SessionId};

use crate::entry::Entry;
use crate::pages::MapPage;
use crate::planted::at;
use crate::record::Record;

/// Entries of the overlay that there is memory for while it is empty, at most.
const ENTRIES_KEPT: usize = 4096;

/// What is staged and not installed, as those that are staged next must see it.
#[derive(Default)]
pub(super) struct Overlay {
    entries: FastMap<Lpid, (u64, Option<Entry>)>,
    released: FastSet<ExtentId>,
    closing: HashSet<SessionId>,
    /// Actions staged so far.
    staged: u64,
    /// The first of those that are not installed.
    first: u64,
}

impl Overlay {
    /// The entry of a page once all that is staged is installed.
    pub(super) fn entry(&self, lpid: Lpid, map: &MapPage) -> Option<Entry> {
        if self.entries.is_empty() {
            return map.load(lpid.page());
        }
        match at!(OverlayNotAsked => None, self.entries.get(&lpid)) {
            Some((_, entry)) => *entry,
            None => map.load(lpid.page()),
        }
    }

    pub(super) fn set(&mut self, lpid: Lpid, entry: Option<Entry>) {
        self.entries.insert(lpid, (self.staged, entry));
    }

    pub(super) fn release(&mut self, extent: ExtentId) {
        self.released.insert(extent);
    }

    pub(super) fn is_released(&self, extent: ExtentId) -> bool {
        self.released.contains(&extent)
    }

    pub(super) fn close(&mut self, session: SessionId) {
        self.closing.insert(session);
    }

    pub(super) fn is_closing(&self, session: SessionId) -> bool {
        self.closing.contains(&session)
    }

    /// The action is staged.
    pub(super) fn advance(&mut self) {
        self.staged += 1;
    }

    /// The first staged action is installed.
    pub(super) fn installed(&mut self, record: &Record) {
        let number = self.first;
        self.first += 1;
        if self.first == self.staged {
            return self.clear();
        }
        let mut forget = |lpid: &Lpid| {
            if self.entries.get(lpid).is_some_and(|(n, _)| *n == number) {
                self.entries.remove(lpid);
            }
        };
        match record {
            Record::Commit(c) => {
                c.writes.iter().for_each(|w| forget(&w.lpid));
                c.trims.iter().for_each(&mut forget);
                if !c.releases.is_empty() {
                    self.entries.retain(|_, (n, _)| *n != number);
                    self.released.retain(|e| !c.releases.contains(e));
                }
            }
            Record::Moved { pages, .. } => pages.iter().for_each(|(lpid, _)| forget(lpid)),
            Record::Indexed { pages } => pages.iter().for_each(|w| forget(&w.lpid)),
            Record::SessionClosed { session } => {
                self.closing.remove(session);
            }
            _ => {}
        }
    }

    /// Nothing is staged any more.
    pub(super) fn clear(&mut self) {
        // What a large batch took is not swept anew for each small one.
        match self.entries.capacity() > ENTRIES_KEPT {
            true => self.entries = FastMap::default(),
            false => self.entries.clear(),
        }
        self.released.clear();
        self.closing.clear();
        self.first = self.staged;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.released.is_empty() && self.closing.is_empty()
    }
}
