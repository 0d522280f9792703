//! Inlined pages: the pages of small batches. They travel whole in their commit record, and stay in memory until they are
//! moved to EBLOCKs of their own.
//!
//! ```text
//!   small batch ─► commit record: entries, bytes ─► log, one sync ─► install: entry "inlined, number n" ─► n: bytes
//!                                                                                    reads are answered from memory
//!   buffer half full, or a checkpoint truncates that part of the log ─► move them, as GC does ─► entries on the medium
//! ```
//!
//! Invariants: memory has the page that an entry names from before the entry is stored until no reader that met the entry
//! is left; a checkpoint becomes durable only once all that the log before it inlined was moved, so that whatever an entry
//! names after a crash is in the log that is replayed. What is in memory is bounded, and there is always space to move it.
//!
//! Source: the design, "Inlined pages". We differ: entries do not point into the log. A log page holds pieces of records,
//! has a copy, and goes when a checkpoint truncates the log; memory has the bytes for as long anyway.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use lode_base::epochs::Epochs;
use lode_base::fast::FastMap;
use lode_base::{CELL_BYTES, Geometry, Lpid, PageBuf};
use lode_command::{Align, Batch};
use parking_lot::{Mutex, RwLock};

use crate::DriveOptions;
use crate::entry::{Entry, INLINED_BYTES_LIMIT, INLINED_NUMBERS};

/// Fewest EBLOCKs of a drive that inlines: one per lane is reserved for moving the pages.
const EBLOCKS_MIN: u32 = 48;

/// An inlined page.
struct InlinedPage {
    lpid: Lpid,
    data: PageBuf,
}

/// Pages that only reads of `epoch` and before may still need.
struct Gone {
    epoch: u64,
    numbers: Vec<u32>,
}

/// The inlined pages of a drive.
pub(crate) struct InlinedPages {
    /// A longer batch is not inlined.
    batch_bytes_max: usize,
    budget_bytes: usize,
    /// Bytes of pages in memory, and of pages that will be once their batch is durable.
    bytes: AtomicUsize,
    next: AtomicU32,
    pages: RwLock<FastMap<u32, InlinedPage>>,
    gone: Mutex<VecDeque<Gone>>,
}

fn cells_bytes(data: &PageBuf) -> usize {
    data.len().next_multiple_of(CELL_BYTES)
}

/// Bytes of the pages of a batch.
pub(crate) fn pages_bytes(batch: &Batch) -> usize {
    batch.writes.iter().map(|p| p.data.len()).sum()
}

impl InlinedPages {
    pub(super) fn new(options: &DriveOptions, g: &Geometry) -> Self {
        // A drive of few EBLOCKs does not inline. What is in memory fits half an EBLOCK.
        let inlines = options.inline_bytes_max > 0 && g.eblock_count() >= EBLOCKS_MIN;
        let half = g.eblock_bytes() as usize / 2;
        Self {
            batch_bytes_max: (options.inline_bytes_max as usize).min(INLINED_BYTES_LIMIT - 1),
            budget_bytes: if inlines { options.inline_buffer_bytes.min(half) } else { 0 },
            bytes: AtomicUsize::new(0),
            next: AtomicU32::new(0),
            pages: RwLock::default(),
            gone: Mutex::default(),
        }
    }

    /// Bytes of pages that are in memory, or will be.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst) as u64
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.budget_bytes > 0
    }

    /// Whether a batch of this size and shape is inlined.
    pub(crate) fn takes(&self, batch: &Batch) -> bool {
        let small = pages_bytes(batch) <= self.batch_bytes_max;
        self.is_enabled() && small && batch.writes.iter().all(|p| p.align == Align::Cell)
    }

    /// Reserves memory for the pages of a batch, if there is some.
    pub(crate) fn reserve<'a>(&self, pages: impl Iterator<Item = &'a PageBuf>) -> bool {
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

    /// A page is durable; memory was reserved for it.
    pub(crate) fn insert(&self, number: u32, lpid: Lpid, data: PageBuf) {
        let before = self.pages.write().insert(number, InlinedPage { lpid, data });
        assert!(before.is_none(), "two inlined pages have number {number}");
    }

    /// As [`InlinedPages::insert`], in recovery, without a reservation.
    pub(crate) fn restore(&self, number: u32, lpid: Lpid, data: PageBuf) {
        let mut pages = self.pages.write();
        self.bytes.fetch_add(cells_bytes(&data), Ordering::SeqCst);
        if let Some(before) = pages.insert(number, InlinedPage { lpid, data }) {
            self.bytes.fetch_sub(cells_bytes(&before.data), Ordering::SeqCst);
        }
        self.next.store(number.wrapping_add(1), Ordering::SeqCst);
    }

    /// Recovery is over: pages that `is_mapped` does not know are dropped.
    pub(crate) fn restored(&self, mut is_mapped: impl FnMut(Lpid, Entry) -> bool) {
        let entry = |(&n, h): (&u32, &InlinedPage)| (h.lpid, n, Entry::inlined(n, h.data.len(), false));
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

    /// The bytes of a page. The caller found its number in the epoch that it is in.
    pub(crate) fn read(&self, number: u32) -> Option<PageBuf> {
        self.pages.read().get(&number).map(|h| h.data.clone())
    }

    /// These entries were replaced: the inlined pages among them are dropped once no read needs them.
    pub(crate) fn forget_entries(&self, epochs: &Epochs, old: impl Iterator<Item = Entry>) {
        self.forget(epochs, old.filter_map(Entry::inlined_number).collect());
    }

    /// No entry names these pages any more: they are dropped once no read needs them.
    pub(crate) fn forget(&self, epochs: &Epochs, numbers: Vec<u32>) {
        if !numbers.is_empty() {
            self.gone.lock().push_back(Gone { epoch: epochs.retire(), numbers });
        }
    }

    /// Drops pages that no read needs any more.
    pub(crate) fn purge(&self, epochs: &Epochs) {
        let mut gone = self.gone.lock();
        while let Some(first) = gone.pop_front_if(|g| epochs.passed(g.epoch)) {
            let mut pages = self.pages.write();
            let held = first.numbers.iter().map(|n| pages.remove(n).expect("a page is forgotten once").data);
            self.bytes.fetch_sub(held.map(|data| cells_bytes(&data)).sum(), Ordering::SeqCst);
        }
    }

    /// Whether the pages take so much memory that they are to be moved.
    pub(crate) fn wants_moving(&self) -> bool {
        self.is_enabled() && self.bytes() as usize > self.budget_bytes / 2
    }

    /// All pages that entries name.
    pub(crate) fn all(&self) -> Vec<(Lpid, Entry, PageBuf)> {
        let gone = self.gone.lock();
        let gone: Vec<u32> = gone.iter().flat_map(|g| g.numbers.iter().copied()).collect();
        let gone = lode_base::fast::FastSet::from_iter(gone);
        let pages = self.pages.read();
        let mut all: Vec<_> = pages.iter().filter(|(n, _)| !gone.contains(n)).collect();
        all.sort_unstable_by_key(|(n, _)| **n);
        let page = |n, h: &InlinedPage| (h.lpid, Entry::inlined(n, h.data.len(), false), h.data.clone());
        all.into_iter().map(|(&n, h)| page(n, h)).collect()
    }

    /// What must hold between two commands. Batches that are `under_way` have reserved memory that they do not use yet.
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
