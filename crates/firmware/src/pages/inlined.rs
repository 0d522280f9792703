//! Inlined pages: those of small batches, which travel whole in their commit record and are kept in memory until they are
//! moved to EBLOCKs of their own.
//!
//! ```text
//!   small batch ─► commit record: entries, bytes ─► log, one sync ─► install: entry "inlined, number n" ─► n: bytes
//!                                                                                    reads are answered from memory
//!   buffer half full, or a checkpoint that lets that log go ─► move them, as GC does ─► entries on the medium
//! ```
//!
//! Invariants: what an entry names is held from before it is stored until no reader that met it is left; a checkpoint
//! becomes durable only once all that the log before it inlined was moved, so that whatever an entry names after a crash
//! is in the log that is replayed. What is held is bounded, and there is always room to move it to.
//!
//! Source: the design, "Inlined pages". We differ: entries do not point into the log. A log page holds pieces of records,
//! has a copy, and goes when a checkpoint says so; memory holds the bytes for as long anyway.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use lode_base::epochs::Epochs;
use lode_base::fast::FastMap;
use lode_base::{CELL_BYTES, Lpid, PageBuf};
use lode_command::{Align, Batch};
use parking_lot::{Mutex, RwLock};

use crate::FirmwareError;
use crate::cleaner::{MOVE_BYTES, Valid};
use crate::core::Core;
use crate::entry::{Entry, INLINED_BYTES_LIMIT, INLINED_NUMBERS};
use crate::space::Purpose;
use crate::stream::Stream;

/// Fewest EBLOCKs of a drive that inlines: one a lane is kept for what is moved.
const EBLOCKS_MIN: u32 = 48;

/// An inlined page.
struct Held {
    lpid: Lpid,
    data: PageBuf,
}

/// Pages that nobody needs any more, but readers of `epoch` and before.
struct Gone {
    epoch: u64,
    numbers: Vec<u32>,
}

/// The inlined pages of a drive.
pub(crate) struct Inlined {
    budget_bytes: usize,
    /// Bytes of pages that are held, or will be once their batch is durable.
    bytes: AtomicUsize,
    next: AtomicU32,
    pages: RwLock<FastMap<u32, Held>>,
    gone: Mutex<VecDeque<Gone>>,
}

fn cells_bytes(data: &PageBuf) -> usize {
    data.len().next_multiple_of(CELL_BYTES)
}

/// Bytes of the pages of a batch.
pub(crate) fn pages_bytes(batch: &Batch) -> usize {
    batch.writes.iter().map(|p| p.data.len()).sum()
}

impl Inlined {
    pub(crate) fn new(budget_bytes: usize) -> Self {
        Self {
            budget_bytes,
            bytes: AtomicUsize::new(0),
            next: AtomicU32::new(0),
            pages: RwLock::default(),
            gone: Mutex::default(),
        }
    }

    /// Bytes of pages that are held, or will be.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst) as u64
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.budget_bytes > 0
    }

    /// Reserves room for a batch, if there is any.
    fn reserve<'a>(&self, pages: impl Iterator<Item = &'a PageBuf>) -> bool {
        let bytes: usize = pages.map(cells_bytes).sum();
        let with = |held: usize| held.checked_add(bytes).filter(|&sum| sum <= self.budget_bytes);
        self.bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, with).is_ok()
    }

    /// The batch of these pages was given up.
    pub(crate) fn give_up<'a>(&self, pages: impl Iterator<Item = &'a PageBuf>) {
        self.bytes.fetch_sub(pages.map(cells_bytes).sum(), Ordering::SeqCst);
    }

    /// A number that no page has.
    pub(crate) fn number(&self) -> u32 {
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst) % INLINED_NUMBERS;
            if !self.pages.read().contains_key(&number) {
                return number;
            }
        }
    }

    /// A page, for which room was reserved, is durable.
    pub(crate) fn insert(&self, number: u32, lpid: Lpid, data: PageBuf) {
        let before = self.pages.write().insert(number, Held { lpid, data });
        assert!(before.is_none(), "two inlined pages have number {number}");
    }

    /// As [`Inlined::insert`], in recovery, which asks nobody for room.
    pub(crate) fn restore(&self, number: u32, lpid: Lpid, data: PageBuf) {
        let mut pages = self.pages.write();
        self.bytes.fetch_add(cells_bytes(&data), Ordering::SeqCst);
        if let Some(before) = pages.insert(number, Held { lpid, data }) {
            self.bytes.fetch_sub(cells_bytes(&before.data), Ordering::SeqCst);
        }
        self.next.store(number.wrapping_add(1), Ordering::SeqCst);
    }

    /// Recovery is over: pages that `is_mapped` does not know are dropped.
    pub(crate) fn restored(&self, mut is_mapped: impl FnMut(Lpid, Entry) -> bool) {
        let entry = |(&n, h): (&u32, &Held)| (h.lpid, n, Entry::inlined(n, h.data.len(), false));
        let mut all: Vec<_> = self.pages.read().iter().map(entry).collect();
        // One mapping page after the other.
        all.sort_unstable_by_key(|(lpid, ..)| *lpid);
        for (lpid, number, entry) in all {
            if !is_mapped(lpid, entry)
                && let Some(h) = self.pages.write().remove(&number)
            {
                self.bytes.fetch_sub(cells_bytes(&h.data), Ordering::SeqCst);
            }
        }
    }

    /// The bytes of a page, for whoever met its number in this epoch.
    pub(crate) fn read(&self, number: u32) -> Option<PageBuf> {
        self.pages.read().get(&number).map(|h| h.data.clone())
    }

    /// Entries name these no more.
    pub(crate) fn forget(&self, epochs: &Epochs, numbers: Vec<u32>) {
        if !numbers.is_empty() {
            self.gone.lock().push_back(Gone { epoch: epochs.retire(), numbers });
        }
    }

    /// Drops pages that no reader can have met.
    pub(crate) fn purge(&self, epochs: &Epochs) {
        let mut gone = self.gone.lock();
        while let Some(first) = gone.pop_front_if(|g| epochs.passed(g.epoch)) {
            let mut pages = self.pages.write();
            let held = first.numbers.iter().map(|n| pages.remove(n).expect("a page is forgotten once").data);
            self.bytes.fetch_sub(held.map(|data| cells_bytes(&data)).sum(), Ordering::SeqCst);
        }
    }

    /// Whether so many are held that some are to be moved.
    pub(crate) fn wants_moving(&self) -> bool {
        self.is_enabled() && self.bytes() as usize > self.budget_bytes / 2
    }

    /// All that entries name.
    fn all(&self) -> Vec<(Valid, PageBuf)> {
        let gone = self.gone.lock();
        let gone: Vec<u32> = gone.iter().flat_map(|g| g.numbers.iter().copied()).collect();
        let gone = lode_base::fast::FastSet::from_iter(gone);
        let pages = self.pages.read();
        let mut all: Vec<_> = pages.iter().filter(|(n, _)| !gone.contains(n)).collect();
        all.sort_unstable_by_key(|(n, _)| **n);
        let valid = |n, h: &Held| Valid {
            lpid: h.lpid,
            entry: Entry::inlined(n, h.data.len(), false),
            align: Align::Cell,
        };
        all.into_iter().map(|(&n, h)| (valid(n, h), h.data.clone())).collect()
    }

    /// What must hold between two commands; with `under_way`, batches have room that they do not fill yet.
    pub(crate) fn check_invariants(&self, under_way: bool) {
        let gone = self.gone.lock();
        let pages = self.pages.read();
        let held: usize = pages.values().map(|h| cells_bytes(&h.data)).sum();
        let bytes = self.bytes() as usize;
        assert!(held == bytes || under_way && held < bytes, "{held} bytes are inlined, and {bytes} counted");
        let all = gone.iter().flat_map(|g| &g.numbers).all(|n| pages.contains_key(n));
        assert!(all, "a page that readers may need is not held");
    }
}

impl Core {
    /// Memory for inlined pages, in bytes: none on drives that do not inline. What is held fits half an EBLOCK.
    pub(crate) fn inlined_budget(options: &crate::DriveOptions, g: &lode_base::Geometry) -> usize {
        if options.inline_bytes_max == 0 || g.eblock_count() < EBLOCKS_MIN {
            return 0;
        }
        options.inline_buffer_bytes.min(g.eblock_bytes() as usize / 2)
    }

    /// Whether a batch is inlined; then room is reserved for it.
    pub(crate) fn inlines(&self, batch: &Batch) -> bool {
        let bytes = pages_bytes(batch);
        let small = bytes <= (self.options.inline_bytes_max as usize).min(INLINED_BYTES_LIMIT - 1);
        if !self.inlined.is_enabled() || !small || batch.writes.iter().any(|p| p.align != Align::Cell) {
            return false;
        }
        let w = self.seq.lock();
        // There must be somewhere to move it to, whatever comes between.
        let budget = self.budget(&w);
        let free = w.space.free_eblocks() >= budget.reserve_eblocks();
        let fits = free && budget.held_bytes() + bytes as u64 <= budget.usable_bytes();
        // Without pages there is nothing to inline.
        fits && bytes > 0 && self.inlined.reserve(batch.writes.iter().map(|p| &p.data))
    }

    /// Moves all inlined pages that there are now to EBLOCKs. The caller has the background.
    pub(crate) fn move_inlined(&self) -> Result<(), FirmwareError> {
        self.reclaim()?;
        self.inlined.purge(&self.epochs);
        let all = self.inlined.all();
        let mut left = &all[..];
        while !left.is_empty() {
            let mut bytes = 0;
            let fits = |p: &&(Valid, PageBuf)| {
                bytes += p.1.len();
                bytes <= MOVE_BYTES
            };
            let (step, rest) = left.split_at(left.iter().take_while(fits).count().max(1));
            left = rest;
            match self.relocate(Stream::UserHot, Purpose::Inlined, step, |_| {}) {
                Err(e) if e.is_damage() => self.move_what_is_mapped(step)?,
                moved => moved?,
            }
        }
        self.inlined.purge(&self.epochs);
        Ok(())
    }

    /// Moves inlined pages, but for those whose mapping page is lost: nobody can name them any more.
    fn move_what_is_mapped(&self, pages: &[(Valid, PageBuf)]) -> Result<(), FirmwareError> {
        let mut lost = BTreeSet::new();
        for extent in pages.iter().map(|(v, _)| v.lpid.extent()).collect::<BTreeSet<_>>() {
            match self.pin_maps(std::iter::once(extent)) {
                Ok(pins) => self.unpin(&pins),
                Err(e) if e.is_damage() => drop(lost.insert(extent)),
                Err(e) => return Err(e),
            }
        }
        // Together: a group of the log each would be more of it than the checkpoint lets go.
        let mapped: Vec<_> =
            pages.iter().filter(|(v, _)| !lost.contains(&v.lpid.extent())).cloned().collect();
        if mapped.is_empty() {
            return Ok(());
        }
        self.relocate(Stream::UserHot, Purpose::Inlined, &mapped, |_| {})
    }

    /// Entries of inlined pages were replaced by others.
    pub(crate) fn forget_inlined(&self, old: impl Iterator<Item = Entry>) {
        self.inlined.forget(&self.epochs, old.filter_map(Entry::inlined_number).collect());
    }
}
