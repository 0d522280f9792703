//! System actions: what takes effect whole or not at all. From its staging on an action has its place in the order of all.
//!
//! ```text
//!   provisioned, programmed ─► stage (sequencer): old addresses, number ─► log group, one sync ─► install, in order
//!                                └─ what is staged and not installed: the overlay, which the next to be staged sees
//! ```
//!
//! Invariants: actions are installed in the order in which they were staged; what an action frees is resolved when it
//! is staged, so that its record says it exactly and replay asks nothing of what was there before; an action that
//! fails after it was staged takes all that were staged after it along.
//!
//! Source: ELEOS §IV (system actions), §VIII-C2 (AVAIL). We differ: old addresses are in the record itself, summed by
//! EBLOCK, instead of in lazily written records and a DONE record; so counts are exact after every crash.

use std::collections::HashSet;
use std::sync::Arc;

use lode_base::{EblockId, ExtentId, Geometry, Lpid, SessionId, ViewId};
use lode_command::CommandError;
use parking_lot::Mutex;

use crate::core::Sequencer;
use crate::entry::Entry;
use crate::pages::{IndexPage, MapPage};
use crate::planted::{self, Planted};
use crate::record::Record;
use lode_base::fast::{FastMap, FastSet};

/// Entries of the overlay that there is memory for while it is empty, at most.
const ENTRIES_KEPT: usize = 4096;

/// The pages of an extent that an action changes, kept in memory while it is under way.
pub(crate) struct Pinned {
    pub(crate) map: Arc<MapPage>,
    pub(crate) index: Option<Arc<IndexPage>>,
}

/// All of them, by extent.
pub(crate) type Pins = FastMap<ExtentId, Pinned>;

/// What an action came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Installed {
    /// The newest commit, its own if it was a batch.
    pub(crate) commit: u64,
    pub(crate) view: Option<ViewId>,
    /// Pages that were installed, and their bytes.
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
}

/// Where whoever waits for an action finds what it came to.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<Result<Installed, CommandError>>>);

impl Slot {
    pub(crate) fn set(&self, r: Result<Installed, CommandError>) {
        let before = self.0.lock().replace(r);
        assert!(before.is_none(), "an action ends once");
    }

    pub(crate) fn take(&self) -> Option<Result<Installed, CommandError>> {
        self.0.lock().take()
    }
}

/// A staged action. By default nobody waits for it, and it does nothing.
pub(crate) struct Action {
    pub(crate) record: Record,
    pub(crate) pins: Pins,
    /// EBLOCKs that count it as under way.
    pub(crate) eblocks: Vec<EblockId>,
    /// Whether a view is opened at it.
    pub(crate) pin_view: bool,
    /// Copies of pages that may be old versions by now: (page, old place, new place).
    pub(crate) copies: Vec<(Lpid, Entry, Entry)>,
    /// Whether it is over before it is durable.
    pub(crate) unforced: bool,
    pub(crate) slot: Arc<Slot>,
}

/// Bytes that are not needed any more, by EBLOCK.
#[derive(Default)]
pub(crate) struct Freed {
    all: FastMap<EblockId, u32>,
    /// Pages that were written together lie together: the EBLOCK that came last is not looked up.
    last: Option<(EblockId, u32)>,
}

impl Freed {
    pub(crate) fn add(&mut self, g: &Geometry, e: Entry) {
        // An inlined page takes nothing from an EBLOCK.
        let Some(eblock) = e.eblock(g) else { return };
        let bytes = e.cells_bytes();
        match &mut self.last {
            Some((last, sum)) if *last == eblock => *sum += bytes,
            _ => {
                self.end_run();
                self.last = Some((eblock, bytes));
            }
        }
    }

    fn end_run(&mut self) {
        if let Some((e, bytes)) = self.last.take() {
            *self.all.entry(e).or_default() += bytes;
        }
    }

    /// Each EBLOCK once, in order.
    pub(crate) fn into_vec(mut self) -> Vec<(EblockId, u32)> {
        self.end_run();
        let mut all: Vec<_> = self.all.into_iter().collect();
        all.sort_unstable();
        all
    }
}

/// What is staged and not installed, as those that are staged next must see it.
#[derive(Default)]
pub(crate) struct Overlay {
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
    pub(crate) fn entry(&self, lpid: Lpid, map: &MapPage) -> Option<Entry> {
        if self.entries.is_empty() {
            return map.load(lpid.page());
        }
        match self.entries.get(&lpid) {
            Some((_, entry)) if !planted::is(Planted::OverlayNotAsked) => *entry,
            _ => map.load(lpid.page()),
        }
    }

    pub(crate) fn set(&mut self, lpid: Lpid, entry: Option<Entry>) {
        self.entries.insert(lpid, (self.staged, entry));
    }

    pub(crate) fn release(&mut self, extent: ExtentId) {
        self.released.insert(extent);
    }

    pub(crate) fn is_released(&self, extent: ExtentId) -> bool {
        self.released.contains(&extent)
    }

    pub(crate) fn close(&mut self, session: SessionId) {
        self.closing.insert(session);
    }

    pub(crate) fn is_closing(&self, session: SessionId) -> bool {
        self.closing.contains(&session)
    }

    /// The action is staged.
    fn advance(&mut self) {
        self.staged += 1;
    }

    /// The first staged action is installed.
    pub(crate) fn installed(&mut self, record: &Record) {
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
    pub(crate) fn clear(&mut self) {
        // What a large batch took is not swept anew for each small one.
        match self.entries.capacity() > ENTRIES_KEPT {
            true => self.entries = FastMap::default(),
            false => self.entries.clear(),
        }
        self.released.clear();
        self.closing.clear();
        self.first = self.staged;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.released.is_empty() && self.closing.is_empty()
    }
}

impl Default for Action {
    fn default() -> Self {
        Self {
            record: Record::Checkpointed { lsn: 0 },
            pins: Pins::default(),
            eblocks: Vec::new(),
            pin_view: false,
            copies: Vec::new(),
            unforced: false,
            slot: Arc::default(),
        }
    }
}

impl Sequencer {
    /// Puts an action behind all others. Whoever staged it asks its slot what it came to.
    pub(crate) fn stage(&mut self, action: Action) -> Arc<Slot> {
        self.overlay.advance();
        let slot = action.slot.clone();
        self.staged_bytes += action.record.bytes_about();
        self.staged.push(action);
        slot
    }
}
