//! The cache of mapping and index pages, within a budget of memory, with the small table of their homes (`homes.rs`).
//!
//! The *home* of an own page is where it lies on the medium.
//!
//! ```text
//!   get ─► shard ─┬─ there
//!                 └─ home ─► medium (no lock) ─► shard, if the home is still the same
//!   pin ─► change, dirty ─► unpin            dirty ─ take for writing ─► flushing ─ its record is durable ─► clean
//! ```
//!
//! Invariants:
//!
//! - A page is changed only under the commit lock, and only while it is pinned; or it becomes vacant, which needs nothing of what it holds.
//! - Only a page that is neither dirty, pinned nor being flushed is evicted.
//! - A loaded page enters the cache only if its home did not change while it was read. The reader's epoch keeps that home
//!   from being programmed again meanwhile.
//! - A page whose flush failed is dirty again.
//! - A page that became vacant stays in the cache until it is flushed, which takes its home away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lode_base::Geometry;
use lode_flash::Medium;
use parking_lot::RwLock;

use super::homes::Homes;
use super::kind::{EXTENT_PARTS, OwnKind, PARTS_FROM};
use super::page;
use crate::FirmwareError;
use crate::entry::Entry;
use crate::planted::at;
use lode_base::epochs::Epochs;
use lode_base::fast::{FastMap, FastSet};

const SHARDS: usize = 64;

/// An own page that is kept in memory within a budget.
pub(crate) trait Resident: Send + Sync + Sized {
    /// What it is on the medium.
    const KIND: OwnKind;

    /// The page in these bytes, which has this number.
    fn decode(number: u64, bytes: &[u8], g: &Geometry) -> Result<Self, &'static str>;

    /// Its bytes.
    fn encode(&self) -> Vec<u8>;

    /// Whether it has no entry: then it needs no home.
    fn is_vacant(&self) -> bool;

    /// What it takes in memory.
    fn memory_bytes(&self) -> usize;
}

struct CachedPage<T> {
    page: Arc<T>,
    bytes: usize,
    dirty: bool,
    flushing: bool,
    pins: u32,
    recent: AtomicBool,
}

/// The number of a page, and its bytes as they are to be flushed: none of a vacant page.
pub(crate) type PageImage = (u64, Option<Vec<u8>>);

pub(crate) struct PageCache<T> {
    shards: Vec<RwLock<FastMap<u64, CachedPage<T>>>>,
    homes: RwLock<Homes>,
    budget_bytes: usize,
    bytes: AtomicUsize,
    dirty_bytes: AtomicUsize,
    hand: AtomicUsize,
    /// Whether there may be pages of parts of extents. It stays once there was one.
    has_parts: AtomicBool,
    /// The extents that there may be pages of parts of, each as a number of one of its parts by [`EXTENT_PARTS`]. They stay, too.
    with_parts: RwLock<FastSet<u64>>,
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
            has_parts: AtomicBool::new(false),
            with_parts: RwLock::default(),
        }
    }

    fn shard(&self, number: u64) -> &RwLock<FastMap<u64, CachedPage<T>>> {
        &self.shards[(number % SHARDS as u64) as usize]
    }

    /// Where page `number` lies, if it was ever written.
    pub(crate) fn home(&self, number: u64) -> Option<Entry> {
        self.homes.read().get(number)
    }

    /// The page, loaded if need be; `None` when there is none.
    pub(crate) fn get(
        &self,
        medium: &Medium,
        epochs: &Epochs,
        number: u64,
    ) -> Result<Option<Arc<T>>, FirmwareError> {
        self.fetch(medium, epochs, number, false)
    }

    /// What `look` finds in the page, if it is in memory.
    pub(crate) fn look<R>(&self, number: u64, look: impl FnOnce(&T) -> R) -> Option<R> {
        let shard = self.shard(number).read();
        let h = shard.get(&number)?;
        if !h.recent.load(Ordering::Relaxed) {
            h.recent.store(true, Ordering::Relaxed);
        }
        Some(look(&h.page))
    }

    /// As [`PageCache::get`]; with `pin`, the page that is there is pinned.
    fn fetch(
        &self,
        medium: &Medium,
        epochs: &Epochs,
        number: u64,
        pin: bool,
    ) -> Result<Option<Arc<T>>, FirmwareError> {
        loop {
            if pin {
                if let Some(h) = self.shard(number).write().get_mut(&number) {
                    h.pins += 1;
                    return Ok(Some(h.page.clone()));
                }
            } else if let Some(h) = self.shard(number).read().get(&number) {
                if !h.recent.load(Ordering::Relaxed) {
                    h.recent.store(true, Ordering::Relaxed);
                }
                return Ok(Some(h.page.clone()));
            }
            let _epoch = epochs.enter();
            let Some(home) = self.home(number) else {
                // Another thread may have created or flushed it since the look above.
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
            self.insert(&mut shard, number, page.clone(), u32::from(pin));
            drop(shard);
            self.make_room();
            return Ok(Some(page));
        }
    }

    fn note_parts(&self, number: u64) {
        let extent = number / EXTENT_PARTS;
        if number >= PARTS_FROM && !self.with_parts.read().contains(&extent) {
            self.has_parts.store(true, Ordering::Relaxed);
            self.with_parts.write().insert(extent);
        }
    }

    /// Whether there may be pages of parts of the extent that this part is of.
    #[inline]
    pub(crate) fn has_parts_beside(&self, part: u64) -> bool {
        self.has_parts() && self.with_parts.read().contains(&(part / EXTENT_PARTS))
    }

    /// Whether there may be pages of parts of extents.
    #[inline]
    pub(crate) fn has_parts(&self) -> bool {
        self.has_parts.load(Ordering::Relaxed)
    }

    fn load(&self, medium: &Medium, number: u64, home: Entry) -> Result<T, FirmwareError> {
        let bytes = page::read(medium, T::KIND, number, home)?;
        T::decode(number, &bytes, medium.geometry()).map_err(|what| {
            let at = home.ppa(medium.geometry());
            FirmwareError::damaged(medium.path(), format!("{} {number} at {at}: {what}", T::KIND))
        })
    }

    fn insert(&self, shard: &mut FastMap<u64, CachedPage<T>>, number: u64, page: Arc<T>, pins: u32) {
        self.note_parts(number);
        let bytes = page.memory_bytes();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let held =
            CachedPage { page, bytes, dirty: false, flushing: false, pins, recent: AtomicBool::new(true) };
        shard.insert(number, held);
    }

    /// The page, kept in memory until [`PageCache::unpin`]; made by `vacant` where there is none.
    pub(crate) fn pin(
        &self,
        medium: &Medium,
        epochs: &Epochs,
        number: u64,
        vacant: impl Fn() -> T,
    ) -> Result<Arc<T>, FirmwareError> {
        loop {
            if let Some(page) = self.fetch(medium, epochs, number, true)? {
                return Ok(page);
            }
            let mut shard = self.shard(number).write();
            if shard.contains_key(&number) || self.home(number).is_some() {
                continue;
            }
            let page = Arc::new(vacant());
            self.insert(&mut shard, number, page.clone(), 1);
            return Ok(page);
        }
    }

    /// As [`PageCache::pin`], but only a page that there is.
    pub(crate) fn pin_existing(
        &self,
        medium: &Medium,
        epochs: &Epochs,
        number: u64,
    ) -> Result<Option<Arc<T>>, FirmwareError> {
        self.fetch(medium, epochs, number, true)
    }

    /// A pinned page may be evicted again.
    pub(crate) fn unpin(&self, number: u64) {
        let mut shard = self.shard(number).write();
        let h = shard.get_mut(&number).expect("a pinned page is in memory");
        h.pins = h.pins.checked_sub(1).expect("a page is unpinned as often as it was pinned");
        // A page that never got an entry leaves no trace.
        if h.pins == 0 && !h.dirty && !h.flushing && h.page.is_vacant() && self.home(number).is_none() {
            let h = shard.remove(&number).expect("it was just there");
            self.bytes.fetch_sub(h.bytes, Ordering::Relaxed);
        }
    }

    /// A pinned page was changed: it is dirty, and may take more or less memory.
    pub(crate) fn changed(&self, number: u64) {
        let mut shard = self.shard(number).write();
        self.mark_changed(shard.get_mut(&number).expect("a page that is changed is in memory"));
    }

    fn mark_changed(&self, h: &mut CachedPage<T>) {
        let bytes = h.page.memory_bytes();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(h.bytes, Ordering::Relaxed);
        self.dirty_bytes.fetch_add(bytes, Ordering::Relaxed);
        if h.dirty {
            self.dirty_bytes.fetch_sub(h.bytes, Ordering::Relaxed);
        }
        h.bytes = bytes;
        h.dirty = true;
    }

    /// Page `number`, if there is one, becomes vacant without being read: `empty` empties the page in memory. To be called under the
    /// commit lock.
    pub(crate) fn vacate(&self, number: u64, vacant: impl Fn() -> T, empty: impl Fn(&T)) {
        let mut shard = self.shard(number).write();
        match shard.get(&number) {
            // Its home is taken away already, or never was.
            Some(h) if h.page.is_vacant() => return,
            Some(h) => empty(&h.page),
            None if self.home(number).is_some() => self.insert(&mut shard, number, Arc::new(vacant()), 0),
            None => return,
        }
        self.mark_changed(shard.get_mut(&number).expect("it was just there"));
    }

    /// Marks a page dirty, if there is one, so that it is written elsewhere.
    pub(crate) fn rewrite(&self, medium: &Medium, epochs: &Epochs, number: u64) -> Result<(), FirmwareError> {
        if self.pin_existing(medium, epochs, number)?.is_some() {
            self.changed(number);
            self.unpin(number);
        }
        Ok(())
    }

    /// Whether the page is in memory.
    pub(crate) fn is_resident(&self, number: u64) -> bool {
        self.shard(number).read().contains_key(&number)
    }

    /// The page, if it is in memory and clean.
    pub(crate) fn clean(&self, number: u64) -> Option<Arc<T>> {
        self.shard(number).read().get(&number).filter(|h| !h.dirty && !h.flushing).map(|h| h.page.clone())
    }

    /// Whether dirty pages take more than half of the budget.
    pub(crate) fn wants_writing(&self) -> bool {
        self.dirty_bytes.load(Ordering::Relaxed) > self.budget_bytes / 2
    }

    /// Memory that all pages take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// The numbers of the dirty pages, ascending.
    pub(crate) fn dirty(&self) -> Vec<u64> {
        let mut all: Vec<u64> = Vec::new();
        for s in &self.shards {
            all.extend(s.read().iter().filter(|(_, h)| h.dirty).map(|(&n, _)| n));
        }
        all.sort_unstable();
        all
    }

    /// Begins the flush of a dirty page: its image as of now. A change from now on makes it dirty again. `None` when it is
    /// not dirty. To be called under the commit lock, and followed by [`PageCache::flushed`] or [`PageCache::flush_failed`].
    pub(crate) fn take_dirty(&self, number: u64) -> Option<PageImage> {
        let mut shard = self.shard(number).write();
        let h = shard.get_mut(&number).filter(|h| h.dirty && !h.flushing)?;
        h.dirty = false;
        h.flushing = true;
        self.dirty_bytes.fetch_sub(h.bytes, Ordering::Relaxed);
        let bytes = (!h.page.is_vacant()).then(|| page::encode(T::KIND, number, &h.page.encode()));
        Some((number, bytes))
    }

    /// The flush of page `number` is over: its image lies at `home` now, or nowhere.
    pub(crate) fn flushed(&self, number: u64, home: Option<Entry>) {
        let mut shard = self.shard(number).write();
        self.set_home(number, home);
        if let Some(h) = shard.get_mut(&number) {
            h.flushing = false;
            at!(ChangedWhileWritten => self.forget_change(h), ());
            if home.is_none() && !h.dirty && h.pins == 0 {
                let h = shard.remove(&number).expect("it was just there");
                self.bytes.fetch_sub(h.bytes, Ordering::Relaxed);
            }
        }
    }

    /// Forgets that a page changed while it was flushed: the fault `ChangedWhileWritten`.
    fn forget_change(&self, h: &mut CachedPage<T>) {
        if std::mem::take(&mut h.dirty) {
            self.dirty_bytes.fetch_sub(h.bytes, Ordering::Relaxed);
        }
    }

    /// The flush of a page failed.
    pub(crate) fn flush_failed(&self, number: u64) {
        let mut shard = self.shard(number).write();
        let h = shard.get_mut(&number).expect("a page that is being written is in memory");
        h.flushing = false;
        if !h.dirty {
            h.dirty = true;
            self.dirty_bytes.fetch_add(h.bytes, Ordering::Relaxed);
        }
    }

    /// Sets where a page lies.
    pub(crate) fn set_home(&self, number: u64, home: Option<Entry>) {
        if home.is_some() {
            self.note_parts(number);
        }
        self.homes.write().set(number, home);
    }

    /// Evicts clean pages that were not used lately, until the rest fits the budget, or after one round over all pages.
    pub(crate) fn make_room(&self) {
        for _ in 0..2 * SHARDS {
            if self.bytes.load(Ordering::Relaxed) <= self.budget_bytes {
                return;
            }
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS;
            self.shards[hand].write().retain(|_, h| {
                let keep = h.dirty || h.flushing || h.pins > 0 || h.recent.swap(false, Ordering::Relaxed);
                if !keep {
                    self.bytes.fetch_sub(h.bytes, Ordering::Relaxed);
                }
                keep
            });
        }
    }

    /// Numbers of the pages whose homes `which` picks.
    pub(crate) fn at_home_in(&self, which: impl Fn(Entry) -> bool) -> Vec<u64> {
        self.homes.read().iter().filter(|&(_, home)| which(home)).map(|(n, _)| n).collect()
    }

    /// The changed pieces of the small table: their numbers and words, none of a piece of parts without homes. They count as written from
    /// now on.
    pub(crate) fn take_dirty_pieces(&self) -> Vec<(usize, Option<Vec<u64>>)> {
        self.homes.write().take_dirty_pieces()
    }

    /// A piece is to be written again.
    pub(crate) fn mark_piece_dirty(&self, piece: usize) {
        self.homes.write().mark_piece_dirty(piece);
    }

    pub(crate) fn has_dirty(&self) -> bool {
        self.dirty_bytes.load(Ordering::Relaxed) > 0 || self.homes.read().is_dirty()
    }

    /// Sets a piece of the small table as recovery found it.
    pub(crate) fn restore_piece(&self, piece: usize, words: &[u64]) {
        let homes = (Homes::first_of(piece)..).zip(words).filter(|(_, word)| **word != 0);
        homes.for_each(|(number, _)| self.note_parts(number));
        self.homes.write().restore_piece(piece, words);
    }

    /// Numbers that a page of an extent may have: all below this.
    pub(crate) fn numbers(&self) -> u64 {
        let last = |s: &RwLock<FastMap<u64, _>>| s.read().keys().copied().filter(|n| *n < PARTS_FROM).max();
        let held = self.shards.iter().filter_map(last).max();
        self.homes.read().extent_entries().max(held.map_or(0, |n| n + 1))
    }

    /// Entries of the small table, up to the last extent that has a home.
    pub(crate) fn table_entries(&self) -> u64 {
        self.homes.read().extent_entries()
    }

    /// Bytes that all pages would take on the medium, about.
    pub(crate) fn media_bytes(&self) -> u64 {
        self.homes.read().media_bytes() + self.dirty_bytes.load(Ordering::Relaxed) as u64
    }

    /// Totals match the pages. Without an action `under_way`, nothing is pinned or being flushed.
    pub(crate) fn check_invariants(&self, under_way: bool) {
        let (mut bytes, mut dirty) = (0, 0);
        for shard in &self.shards {
            for (n, h) in shard.read().iter() {
                assert_eq!(h.bytes, h.page.memory_bytes(), "memory of {} {n}", T::KIND);
                assert!(under_way || h.pins == 0, "{} {n} is pinned by nobody", T::KIND);
                assert!(under_way || !h.flushing, "{} {n} is written by nobody", T::KIND);
                bytes += h.bytes;
                dirty += if h.dirty { h.bytes } else { 0 };
            }
        }
        assert_eq!(bytes, self.bytes.load(Ordering::Relaxed), "memory of {}s", T::KIND);
        assert_eq!(dirty, self.dirty_bytes.load(Ordering::Relaxed), "memory of dirty {}s", T::KIND);
        self.homes.read().check_invariants(T::KIND);
    }
}

#[cfg(test)]
mod tests {
    use lode_base::{EblockId, PageBufMut};

    use super::*;
    use crate::pages::MapPage;

    /// A cache, and a medium whose WBLOCKs take the pages one behind the other.
    struct Rig {
        medium: Medium,
        epochs: Epochs,
        cache: PageCache<MapPage>,
        wblock: u32,
    }

    fn page_bytes() -> usize {
        MapPage::vacant().memory_bytes()
    }

    impl Rig {
        fn new(budget_pages: usize) -> Self {
            let medium = Medium::memory(Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 16).unwrap());
            medium.erase(EblockId::new(0)).unwrap();
            let cache = PageCache::new(budget_pages * page_bytes());
            Self { medium, epochs: Epochs::new(4), cache, wblock: 0 }
        }

        fn entry(&self, len: usize) -> Option<Entry> {
            let ppa = self.medium.geometry().ppa(EblockId::new(3), 0).unwrap();
            Some(Entry::new(ppa, len, false))
        }

        fn pin(&self, n: u64) -> Arc<MapPage> {
            self.cache.pin(&self.medium, &self.epochs, n, MapPage::vacant).unwrap()
        }

        /// Page 7 of extent `n` is so long from now on; 0: not mapped.
        fn change(&self, n: u64, len: usize) {
            self.pin(n).store(7, if len == 0 { None } else { self.entry(len) });
            self.cache.changed(n);
            self.cache.unpin(n);
        }

        fn get(&self, n: u64) -> Option<Entry> {
            self.cache.get(&self.medium, &self.epochs, n).unwrap().and_then(|p| p.load(7))
        }

        /// Where the bytes lie now.
        fn program(&mut self, bytes: &[u8]) -> Entry {
            let g = *self.medium.geometry();
            let mut b = PageBufMut::zeroed(bytes.len().next_multiple_of(4096));
            b[..bytes.len()].copy_from_slice(bytes);
            let at = g.ppa(EblockId::new(0), self.wblock * 4096).unwrap();
            self.medium.program(EblockId::new(0), self.wblock, &b.freeze()).unwrap();
            self.wblock = self.medium.next_wblock(EblockId::new(0));
            Entry::new(at, bytes.len(), false)
        }

        /// Writes a page.
        fn write(&mut self, n: u64) {
            let (number, bytes) = self.cache.take_dirty(n).unwrap();
            assert_eq!(number, n);
            let home = bytes.map(|b| self.program(&b));
            self.cache.flushed(n, home);
            self.cache.check_invariants(false);
        }
    }

    #[test]
    fn pages_go_when_they_are_clean_and_come_back_from_their_homes() {
        let mut r = Rig::new(0);
        let numbers = [0, 5, 64, 5000];
        assert_eq!((r.cache.numbers(), r.cache.bytes()), (0, 0));
        for (i, n) in numbers.into_iter().enumerate() {
            r.change(n, 100 + i);
        }
        assert_eq!(r.cache.dirty(), numbers);
        r.cache.make_room();
        assert_eq!(r.cache.bytes(), 4 * page_bytes() as u64, "what is dirty stays");
        assert!(numbers.iter().all(|&n| r.cache.is_resident(n) && r.cache.home(n).is_none()));
        numbers.into_iter().for_each(|n| r.write(n));
        assert_eq!(r.cache.look(64, |p| p.load(7)), Some(r.entry(102)));
        let pinned = r.pin(5);
        r.cache.make_room();
        assert_eq!(numbers.map(|n| r.cache.is_resident(n)), [false, true, false, false]);
        assert_eq!((r.cache.bytes(), r.cache.numbers()), (page_bytes() as u64, 5001));
        drop(pinned);
        r.cache.unpin(5);
        r.cache.make_room();
        assert_eq!((r.cache.bytes(), r.cache.look(64, |_| ())), (0, None));
        for (i, n) in numbers.into_iter().enumerate() {
            assert_eq!(r.get(n), r.entry(100 + i), "page {n}");
        }
        assert_eq!(r.get(6), None);
        r.cache.check_invariants(false);
    }

    #[test]
    fn what_was_used_lately_stays_longest() {
        for look in [false, true] {
            let mut r = Rig::new(2);
            (1..4).for_each(|n| r.change(n, 100));
            (1..4).for_each(|n| r.write(n));
            r.cache.make_room();
            assert_eq!(
                [1, 2, 3].map(|n| r.cache.is_resident(n)),
                [false, true, true],
                "as many as there is room for"
            );
            if look {
                r.cache.look(2, |_| ()).unwrap();
            } else {
                r.get(2).unwrap();
            }
            r.change(10, 100);
            r.write(10);
            r.cache.make_room();
            assert_eq!([2, 3, 10].map(|n| r.cache.is_resident(n)), [true, false, true]);
        }
    }

    #[test]
    fn a_change_while_a_page_is_written_makes_it_dirty_anew() {
        let mut r = Rig::new(9);
        assert!(r.cache.take_dirty(1).is_none(), "there is no such page");
        r.change(1, 100);
        let (_, bytes) = r.cache.take_dirty(1).unwrap();
        assert!(r.cache.take_dirty(1).is_none() && r.cache.clean(1).is_none() && r.cache.dirty().is_empty());
        r.change(1, 200);
        assert!(r.cache.take_dirty(1).is_none(), "it is being written");
        let home = r.program(&bytes.unwrap());
        r.cache.flushed(1, Some(home));
        assert_eq!((r.cache.dirty(), r.cache.clean(1).is_none()), (vec![1], true));
        r.write(1);
        assert!(r.cache.take_dirty(1).is_none() && r.cache.clean(1).is_some());
        assert_ne!(r.cache.home(1), Some(home));
        // And one whose writing fails is as before.
        r.change(1, 300);
        r.cache.take_dirty(1).unwrap();
        r.cache.flush_failed(1);
        assert_eq!(r.cache.dirty(), [1]);
        r.write(1);
        // One that is to lie elsewhere is dirty without a change, in memory or not.
        for in_memory in [true, false] {
            assert_eq!(r.cache.is_resident(1), in_memory);
            r.cache.rewrite(&r.medium, &r.epochs, 1).unwrap();
            assert_eq!(r.cache.dirty(), [1]);
            r.write(1);
            let c = PageCache::new(0);
            c.restore_piece(0, r.cache.take_dirty_pieces()[0].1.as_ref().unwrap());
            r.cache = c;
        }
        assert_eq!(r.get(1), r.entry(300));
    }

    #[test]
    fn a_page_that_says_nothing_leaves_no_trace() {
        let mut r = Rig::new(9);
        r.pin(1);
        r.pin(1);
        r.cache.unpin(1);
        assert!(r.cache.is_resident(1), "it is pinned once more");
        r.cache.unpin(1);
        assert!(!r.cache.is_resident(1));
        r.change(1, 100);
        r.write(1);
        // It is emptied, and while it is written without a home, it comes to say something, or is pinned, or neither.
        for (changed, pinned) in [(true, false), (false, true), (false, false)] {
            r.change(1, 0);
            assert!(r.cache.is_resident(1), "its home is to be taken away");
            assert!(r.cache.take_dirty(1).unwrap().1.is_none());
            if changed {
                r.change(1, 100);
            }
            if pinned {
                r.pin(1);
            }
            r.cache.flushed(1, None);
            assert_eq!((r.cache.home(1), r.cache.is_resident(1)), (None, changed || pinned));
            assert_eq!(r.get(1).is_some(), changed);
            if pinned {
                r.cache.unpin(1);
                assert!(!r.cache.is_resident(1));
            }
            r.cache.check_invariants(false);
            r.change(1, 100);
            r.write(1);
        }
    }

    #[test]
    fn pages_are_to_be_written_when_half_of_the_budget_is_dirty() {
        let mut r = Rig::new(4);
        for n in 0..3 {
            assert!(!r.cache.wants_writing(), "{n} pages are half of the budget at most");
            r.change(n, 100);
        }
        assert!(r.cache.wants_writing());
        r.write(0);
        assert!(!r.cache.wants_writing());
    }

    #[test]
    fn extents_without_parts_are_known() {
        let mut r = Rig::new(9);
        r.change(7, 100);
        assert!(!r.cache.has_parts() && !r.cache.has_parts_beside(PARTS_FROM));
        let n = PARTS_FROM + 40;
        let beside = |c: &PageCache<MapPage>| [0, 31, 32, 63, 64].map(|i| c.has_parts_beside(PARTS_FROM + i));
        r.change(n, 100);
        assert_eq!(beside(&r.cache), [false, false, true, true, false]);
        r.write(n);
        let pieces = r.cache.take_dirty_pieces();
        let found = PageCache::new(0);
        found.restore_piece(pieces[0].0, pieces[0].1.as_ref().unwrap());
        assert_eq!((found.has_parts(), beside(&found)), (true, beside(&r.cache)));
        let found = PageCache::new(0);
        found.set_home(n, None);
        assert!(!found.has_parts());
        found.set_home(n, r.cache.home(n));
        assert_eq!(beside(&found), beside(&r.cache));
    }

    #[test]
    fn the_small_table_is_written_in_pieces() {
        let mut r = Rig::new(9);
        assert!(!r.cache.has_dirty());
        r.change(2000, 100);
        assert!(r.cache.has_dirty());
        r.write(2000);
        assert!(r.cache.has_dirty(), "its home changed");
        let home = r.cache.home(2000).unwrap();
        let written = u64::from(home.cells_bytes()) + 2001 * 8;
        assert_eq!(r.cache.media_bytes(), written);
        r.change(1500, 100);
        let dirty = page_bytes() as u64;
        assert_eq!(r.cache.media_bytes(), written + dirty, "as much as it takes in memory, about");
        r.change(1500, 0);
        r.write(1500);
        assert_eq!(r.cache.media_bytes(), written);
        for _ in 0..2 {
            let pieces = r.cache.take_dirty_pieces();
            let mut words = vec![0; 2000 - 1024];
            words.push(home.word());
            assert!(pieces == [(1, Some(words.clone()))]);
            assert!(!r.cache.has_dirty() && r.cache.take_dirty_pieces().is_empty());
            let found = PageCache::<MapPage>::new(0);
            found.restore_piece(1, &words);
            assert_eq!((found.home(2000), found.numbers()), (Some(home), 2001));
            assert_eq!(found.at_home_in(|e| e == home), [2000]);
            assert!(!found.has_dirty());
            found.check_invariants(false);
            r.cache.mark_piece_dirty(1);
        }
        r.change(3, 100);
        r.write(3);
        let pieces = r.cache.take_dirty_pieces();
        assert_eq!(
            pieces.iter().map(|(p, words)| (*p, words.as_ref().unwrap().len())).collect::<Vec<_>>(),
            [(0, 1024), (1, 977)]
        );
    }
}
