//! System actions: what takes effect whole or not at all.
//!
//! ```text
//!   provisioned, programmed ─► staged ─► log group, one sync ─► installed, in order ─► its slot says what it came to
//! ```
//!
//! Invariant: what an action frees is resolved when it is staged. So its record says it exactly, and replay asks nothing of
//! what was there before.
//!
//! Source: ELEOS §IV (system actions), §VIII-C2 (AVAIL). We differ: old addresses are in the record itself, summed by
//! EBLOCK, instead of in lazily written records and a DONE record; so counts are exact after every crash.

use std::sync::Arc;

use lode_base::fast::FastMap;
use lode_base::{EblockId, Geometry, Lpid, ViewId};
use lode_command::CommandError;
use parking_lot::Mutex;

use crate::entry::Entry;
use crate::pages::Pins;
use crate::record::Record;

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

/// A system action. By default nobody waits for it, it names nothing but its record, and it is forced.
pub(crate) struct Action {
    pub(super) record: Record,
    pub(super) pins: Pins,
    pub(super) eblocks: Vec<EblockId>,
    pub(super) opens_view: bool,
    pub(super) copies: Vec<Copied>,
    pub(super) unforced: bool,
    pub(super) slot: Arc<Slot>,
}

/// A copy of a page. It may be of an old version by the time that it is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    pub(crate) lpid: Lpid,
    pub(crate) from: Entry,
    pub(crate) to: Entry,
}

impl Action {
    /// The action that this record describes.
    #[inline]
    pub(crate) fn new(record: Record) -> Self {
        Self {
            record,
            pins: Pins::default(),
            eblocks: Vec::new(),
            opens_view: false,
            copies: Vec::new(),
            unforced: false,
            slot: Arc::default(),
        }
    }

    /// The pages that it touches are pinned until it is over.
    #[inline]
    pub(crate) fn pinned(self, pins: Pins) -> Self {
        Self { pins, ..self }
    }

    /// These EBLOCKs count it as under way until it is over.
    #[inline]
    pub(crate) fn entered(self, eblocks: Vec<EblockId>) -> Self {
        Self { eblocks, ..self }
    }

    /// With `opens`, a view is opened at it.
    #[inline]
    pub(crate) fn with_view(self, opens: bool) -> Self {
        Self { opens_view: opens, ..self }
    }

    /// It made these copies.
    pub(crate) fn with_copies(self, copies: Vec<Copied>) -> Self {
        Self { copies, ..self }
    }

    /// With `unforced`, it is over before it is durable.
    #[inline]
    pub(crate) fn unforced(self, unforced: bool) -> Self {
        Self { unforced, ..self }
    }
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
