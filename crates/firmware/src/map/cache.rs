//! Mapping and index pages in memory, within a budget, and the small table of their homes.
//!
//! ```text
//!   get ─► shard ─┬─ there
//!                 └─ home ─► medium (no lock) ─► shard, if the home is still the same
//!   dirty pages stay until the writer wrote them to a new home; clean ones go when room is needed
//! ```
//!
//! Invariants: a page is made dirty under its shard's lock, before it is changed, and only dirty pages are
//! changed; only clean pages are dropped; a loaded page enters only if its home did not change while it was
//! read, and the reader's epoch keeps the home from being written over meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::{Entry, Resident};
use crate::FirmwareError;
use crate::drive_page::{self, TABLE_PIECE_ENTRIES};
use crate::epochs::Epochs;

use lode_flash::Medium;

const SHARDS: usize = 64;

struct Held<T> {
    page: Arc<T>,
    bytes: usize,
    dirty: bool,
    recent: AtomicBool,
}

#[derive(Default)]
struct Homes {
    entries: Vec<u64>,
    /// Pieces of the small table that changed since they were written.
    dirty: BTreeSet<usize>,
    /// Bytes of all pages that have a home.
    bytes: u64,
}

fn word_bytes(word: u64) -> u64 {
    Entry::from_word(word).map_or(0, |e| e.cells_bytes().into())
}

/// A page that has no home any more; where that was.
type Removed = Option<Entry>;

pub(crate) struct PageCache<T> {
    shards: Vec<RwLock<HashMap<u64, Held<T>>>>,
    homes: RwLock<Homes>,
    budget_bytes: usize,
    bytes: AtomicUsize,
    dirty_bytes: AtomicUsize,
    hand: AtomicUsize,
}

impl<T: Resident> PageCache<T> {
    pub(crate) fn new(budget_bytes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            homes: RwLock::default(),
            budget_bytes,
            bytes: AtomicUsize::new(0),
            dirty_bytes: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
        }
    }

    fn shard(&self, number: u64) -> &RwLock<HashMap<u64, Held<T>>> {
        &self.shards[(number % SHARDS as u64) as usize]
    }

    /// Where page `number` lies, if it was ever written.
    pub(crate) fn home(&self, number: u64) -> Option<Entry> {
        self.homes.read().entries.get(number as usize).copied().and_then(Entry::from_word)
    }

    /// The page, loaded if need be; `None` when there is none.
    pub(crate) fn get(
        &self,
        medium: &Medium,
        epochs: &Epochs,
        number: u64,
    ) -> Result<Option<Arc<T>>, FirmwareError> {
        loop {
            if let Some(h) = self.shard(number).read().get(&number) {
                if !h.recent.load(Ordering::Relaxed) {
                    h.recent.store(true, Ordering::Relaxed);
                }
                return Ok(Some(h.page.clone()));
            }
            let _epoch = epochs.enter();
            let Some(home) = self.home(number) else {
                // It may have come into being, or found a home, since the look above.
                if self.shard(number).read().contains_key(&number) || self.home(number).is_some() {
                    continue;
                }
                return Ok(None);
            };
            let loaded = self.load(medium, number, home);
            let mut shard = self.shard(number).write();
            if shard.contains_key(&number) || self.home(number) != Some(home) {
                continue;
            }
            let page = Arc::new(loaded?);
            self.insert(&mut shard, number, page.clone(), false);
            drop(shard);
            self.make_room();
            return Ok(Some(page));
        }
    }

    fn load(&self, medium: &Medium, number: u64, home: Entry) -> Result<T, FirmwareError> {
        let bytes = drive_page::read(medium, T::KIND, number, home)?;
        T::decode(&bytes, medium.geometry()).map_err(|what| {
            let at = home.ppa(medium.geometry());
            FirmwareError::damaged(medium.path(), format!("{} {number} at {at}: {what}", T::KIND))
        })
    }

    fn insert(&self, shard: &mut HashMap<u64, Held<T>>, number: u64, page: Arc<T>, dirty: bool) {
        let bytes = page.memory_bytes();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if dirty {
            self.dirty_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        shard.insert(number, Held { page, bytes, dirty, recent: AtomicBool::new(true) });
    }

    /// The page, made dirty, so that the writer may change it; made by `vacant` where there is none.
    pub(crate) fn get_for_write(
        &self,
        medium: &Medium,
        epochs: &Epochs,
        number: u64,
        vacant: impl Fn() -> T,
    ) -> Result<Arc<T>, FirmwareError> {
        let found = self.get(medium, epochs, number)?;
        let mut shard = self.shard(number).write();
        if let Some(h) = shard.get_mut(&number) {
            if !h.dirty {
                h.dirty = true;
                self.dirty_bytes.fetch_add(h.bytes, Ordering::Relaxed);
            }
            return Ok(h.page.clone());
        }
        // A page that was found may be gone again, being clean; nobody but the writer could have changed it.
        let page = found.unwrap_or_else(|| Arc::new(vacant()));
        self.insert(&mut shard, number, page.clone(), true);
        Ok(page)
    }

    /// A dirty page takes another amount of memory now.
    pub(crate) fn resized(&self, number: u64) {
        if let Some(h) = self.shard(number).write().get_mut(&number) {
            let bytes = h.page.memory_bytes();
            for total in [&self.bytes, &self.dirty_bytes] {
                total.fetch_add(bytes, Ordering::Relaxed);
                total.fetch_sub(h.bytes, Ordering::Relaxed);
            }
            h.bytes = bytes;
        }
    }

    /// The page, if it is in memory and as it was written.
    pub(crate) fn clean(&self, number: u64) -> Option<Arc<T>> {
        self.shard(number).read().get(&number).filter(|h| !h.dirty).map(|h| h.page.clone())
    }

    /// Whether dirty pages take more than half of the budget.
    pub(crate) fn wants_writing(&self) -> bool {
        self.dirty_bytes.load(Ordering::Relaxed) > self.budget_bytes / 2
    }

    /// Memory that dirty pages take, in bytes.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes.load(Ordering::Relaxed) as u64
    }

    /// The dirty pages, by number.
    pub(crate) fn dirty(&self) -> Vec<(u64, Arc<T>)> {
        let mut all: Vec<_> = self
            .shards
            .iter()
            .flat_map(|s| {
                let s = s.read();
                let dirty = s.iter().filter(|(_, h)| h.dirty);
                dirty.map(|(&n, h)| (n, h.page.clone())).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable_by_key(|(n, _)| *n);
        all
    }

    /// Page `number` was written to `home` (`None`: it is vacant and needs none). Answers where it lay
    /// before.
    pub(crate) fn written(&self, number: u64, home: Option<Entry>) -> Removed {
        let mut shard = self.shard(number).write();
        let old = self.set_home(number, home);
        if let Some(h) = shard.get_mut(&number)
            && h.dirty
        {
            h.dirty = false;
            self.dirty_bytes.fetch_sub(h.bytes, Ordering::Relaxed);
        }
        old
    }

    fn set_home(&self, number: u64, home: Option<Entry>) -> Removed {
        let mut homes = self.homes.write();
        let at = number as usize;
        if homes.entries.len() <= at {
            home?;
            homes.entries.resize(at + 1, 0);
        }
        let old = std::mem::replace(&mut homes.entries[at], home.map_or(0, Entry::word));
        homes.bytes = homes.bytes + home.map_or(0, |e| u64::from(e.cells_bytes())) - word_bytes(old);
        homes.dirty.insert(at / TABLE_PIECE_ENTRIES);
        Entry::from_word(old)
    }

    /// Forgets page `number`, which says nothing any more. Answers where it lay.
    pub(crate) fn remove(&self, number: u64) -> Removed {
        let mut shard = self.shard(number).write();
        if let Some(h) = shard.remove(&number) {
            self.forget(&h);
        }
        self.set_home(number, None)
    }

    fn forget(&self, h: &Held<T>) {
        self.bytes.fetch_sub(h.bytes, Ordering::Relaxed);
        if h.dirty {
            self.dirty_bytes.fetch_sub(h.bytes, Ordering::Relaxed);
        }
    }

    /// Drops clean pages that were not used lately, until the budget holds or one round over all pages is
    /// done.
    pub(crate) fn make_room(&self) {
        for _ in 0..2 * SHARDS {
            if self.bytes.load(Ordering::Relaxed) <= self.budget_bytes {
                return;
            }
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS;
            self.shards[hand].write().retain(|_, h| {
                let keep = h.dirty || h.recent.swap(false, Ordering::Relaxed);
                if !keep {
                    self.forget(h);
                }
                keep
            });
        }
    }

    /// Numbers of the pages whose homes `which` picks.
    pub(crate) fn at_home_in(&self, which: impl Fn(Entry) -> bool) -> Vec<u64> {
        let homes = self.homes.read();
        let lies = |&(_, &w): &(usize, &u64)| Entry::from_word(w).is_some_and(&which);
        homes.entries.iter().enumerate().filter(lies).map(|(n, _)| n as u64).collect()
    }

    /// The changed pieces of the small table: their numbers and words. They count as written from now on.
    pub(crate) fn take_dirty_pieces(&self) -> Vec<(usize, Vec<u64>)> {
        let mut homes = self.homes.write();
        let dirty = std::mem::take(&mut homes.dirty);
        let piece = |p: usize| {
            let from = (p * TABLE_PIECE_ENTRIES).min(homes.entries.len());
            homes.entries[from..(from + TABLE_PIECE_ENTRIES).min(homes.entries.len())].to_vec()
        };
        dirty.into_iter().map(|p| (p, piece(p))).collect()
    }

    /// Pieces whose writing failed, or which are to be written anew.
    pub(crate) fn mark_pieces_dirty(&self, pieces: impl IntoIterator<Item = usize>) {
        self.homes.write().dirty.extend(pieces);
    }

    pub(crate) fn has_dirty(&self) -> bool {
        self.dirty_bytes.load(Ordering::Relaxed) > 0 || !self.homes.read().dirty.is_empty()
    }

    /// Sets a piece of the small table as recovery found it.
    pub(crate) fn restore_piece(&self, piece: usize, words: &[u64]) {
        let mut homes = self.homes.write();
        let from = piece * TABLE_PIECE_ENTRIES;
        if homes.entries.len() < from + words.len() {
            homes.entries.resize(from + words.len(), 0);
        }
        homes.entries[from..from + words.len()].copy_from_slice(words);
        homes.bytes += words.iter().map(|&w| word_bytes(w)).sum::<u64>();
    }

    /// Numbers that a page may have: all below this.
    pub(crate) fn numbers(&self) -> u64 {
        let held = self.shards.iter().filter_map(|s| s.read().keys().max().copied()).max();
        (self.homes.read().entries.len() as u64).max(held.map_or(0, |n| n + 1))
    }

    /// Bytes that all pages would take on the medium, about.
    pub(crate) fn media_bytes(&self) -> u64 {
        let homes = self.homes.read();
        homes.bytes + homes.entries.len() as u64 * 8 + self.dirty_bytes.load(Ordering::Relaxed) as u64
    }
}
