//! A table of shared values by number. Readers take no lock and change no reference count.
//!
//! ```text
//!   reader:  enter ─► slots of the shard ─► number? ─► value, for as long as the reader stays
//!   writer:  lock of the shard ─► slot: another value, or none ─► the old value waits ─► no reader left that may have it ─► dropped
//!
//!   slot: | number + 1; 0: none yet | value; null: none any more | bytes of the value | used |        32 bytes, linear probing
//! ```
//!
//! A reader touches two cache lines, of the slot and of the value. Most readers want only the bytes that a value
//! points to. The slot also has the address of these bytes, so such readers do not touch the value at all.
//!
//! Invariants: a slot that has a number always keeps one, so that a probe under way never ends too early. A number is in at most one
//! slot. A slot whose value was removed may get another number, so readers check that what they found is what they want. A removed
//! value is dropped only when no reader is left that entered before the removal ([`Epochs`]).

#![allow(
    unsafe_code,
    reason = "a cached read of two pages took two locks and two counts: a third of its time, and lines that all threads write"
)]

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::CELL_BYTES;
use crate::epochs::{Epoch, Epochs};
use crate::prefetch::prefetch_at;

/// Fewest slots of a shard.
const SLOTS_MIN: usize = 16;
/// Most readers at a time.
const READERS_MAX: usize = 256;

/// A value that knows its number.
pub trait Keyed: Send + Sync {
    /// Its number, less than `u64::MAX`. It never changes.
    fn key(&self) -> u64;

    /// The bytes that most readers want, if they are long and aligned; otherwise an empty slice.
    fn bytes(&self) -> &[u8];

    /// The bytes of memory that it takes. They never change.
    fn weight(&self) -> usize;
}

/// The address and length of bytes, in one word: | address / 64: 42 bits | length: 22 bits |. 0: none.
#[derive(Clone, Copy)]
struct PackedBytes(u64);

impl PackedBytes {
    const LEN_BITS: u32 = 22;

    fn of(bytes: &[u8]) -> Self {
        let at = bytes.as_ptr().expose_provenance() as u64;
        let fits = at >> 48 == 0 && bytes.len() >> Self::LEN_BITS == 0;
        match !bytes.is_empty() && at.is_multiple_of(CELL_BYTES as u64) && fits {
            true => Self(((at / CELL_BYTES as u64) << Self::LEN_BITS) | bytes.len() as u64),
            false => Self(0),
        }
    }

    #[inline]
    fn at(self) -> *const u8 {
        std::ptr::with_exposed_provenance((self.0 >> Self::LEN_BITS) as usize * CELL_BYTES)
    }

    #[inline]
    fn len(self) -> usize {
        (self.0 & ((1 << Self::LEN_BITS) - 1)) as usize
    }
}

struct Slot<T> {
    /// The number plus one; 0 if the slot never had a number.
    key: AtomicU64,
    /// From [`Arc::into_raw`], or null.
    value: AtomicPtr<T>,
    /// The [`PackedBytes`] of the value's bytes.
    place: AtomicU64,
    /// Whether a reader used the value since the clock hand last passed.
    used: AtomicBool,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        let (key, value) = (AtomicU64::new(0), AtomicPtr::default());
        Self { key, value, place: AtomicU64::new(0), used: AtomicBool::new(false) }
    }
}

impl<T> Slot<T> {
    #[inline]
    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Removes the value.
    fn take(&self) -> *mut T {
        self.place.store(0, Ordering::SeqCst);
        self.value.swap(std::ptr::null_mut(), Ordering::SeqCst)
    }
}

struct Slots<T> {
    all: Box<[Slot<T>]>,
    shift: u32,
}

impl<T> Slots<T> {
    /// Makes `count` slots, a power of two.
    fn new(count: usize) -> Self {
        let all = std::iter::repeat_with(Slot::default).take(count).collect();
        Self { all, shift: u64::BITS - count.ilog2() }
    }

    #[inline]
    fn first(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.all.len() - 1)
    }

    fn bytes(&self) -> usize {
        self.all.len() * size_of::<Slot<T>>()
    }

    /// The slot of a number, or a slot that it may take.
    fn find(&self, key: u64) -> Probe<'_, T> {
        let (mut at, mut dead) = (self.first(key), None);
        loop {
            let slot = &self.all[at];
            match slot.key.load(Ordering::Acquire) {
                0 => return dead.map_or(Probe::Empty(slot), Probe::Dead),
                k if k == key + 1 => return Probe::There(slot),
                _ if slot.value.load(Ordering::Relaxed).is_null() => dead = dead.or(Some(slot)),
                _ => {}
            }
            at = self.after(at);
        }
    }
}

/// The result of a search for a number.
enum Probe<'a, T> {
    There(&'a Slot<T>),
    /// A slot that has another number, whose value was removed. The number may take it.
    Dead(&'a Slot<T>),
    Empty(&'a Slot<T>),
}

impl<T> Probe<'_, T> {
    /// The value of the number, or null.
    fn value(&self) -> *const T {
        match self {
            Self::There(slot) => slot.value.load(Ordering::Relaxed),
            Self::Dead(_) | Self::Empty(_) => std::ptr::null(),
        }
    }
}

/// The state of a shard's writer.
#[derive(Default)]
struct Writer {
    /// Slots that have a value.
    live: usize,
    /// Slots that have a number.
    used: usize,
    /// The position of the clock hand.
    hand: usize,
}

struct Shard<T> {
    /// From [`Arc::into_raw`]. Only the holder of `writer` replaces it.
    slots: AtomicPtr<Slots<T>>,
    writer: Mutex<Writer>,
}

/// Removed memory that a reader may still use.
enum Removed<T> {
    Value(#[allow(dead_code, reason = "it is kept, and dropped in time")] Arc<T>),
    Slots(#[allow(dead_code, reason = "it is kept, and dropped in time")] Arc<Slots<T>>),
}

impl<T: Keyed> Removed<T> {
    fn weight(&self) -> usize {
        match self {
            Self::Value(value) => value.weight(),
            Self::Slots(_) => 0,
        }
    }
}

/// Values by number, in shards.
pub struct Lookup<T: Keyed> {
    shards: Box<[Shard<T>]>,
    shard_of: fn(u64) -> usize,
    epochs: Epochs,
    /// Removed values, by the epoch of their removal.
    limbo: Mutex<VecDeque<(u64, Vec<Removed<T>>)>>,
    /// The bytes of memory of removed values.
    gone_weight: AtomicUsize,
    /// Bytes of all slots.
    bytes: AtomicUsize,
}

impl<T: Keyed> Lookup<T> {
    /// An empty table of `shards` shards. `shard_of` maps a number to its shard.
    pub fn new(shards: usize, shard_of: fn(u64) -> usize) -> Self {
        let bytes = AtomicUsize::new(0);
        let shard = || {
            let slots = Slots::new(SLOTS_MIN);
            bytes.fetch_add(slots.bytes(), Ordering::Relaxed);
            Shard {
                slots: AtomicPtr::new(Arc::into_raw(Arc::new(slots)).cast_mut()),
                writer: Mutex::default(),
            }
        };
        let shards = std::iter::repeat_with(shard).take(shards).collect();
        let (limbo, gone_weight) = (Mutex::default(), AtomicUsize::new(0));
        Self { shards, shard_of, epochs: Epochs::new(READERS_MAX), limbo, gone_weight, bytes }
    }

    /// Bytes that the table takes beside the values.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Begins a read. Everything in the table stays alive until the guard is dropped, so drop it soon.
    #[inline]
    pub fn enter(&self) -> Reading<'_, T> {
        Reading { lookup: self, _epoch: self.epochs.enter() }
    }

    /// Locks the shard of a number, to change it.
    pub fn lock(&self, key: u64) -> Locked<'_, T> {
        let shard = &self.shards[(self.shard_of)(key)];
        Locked { lookup: self, shard, writer: shard.writer.lock() }
    }

    /// Locks shard `i`, to change it.
    pub fn lock_shard(&self, i: usize) -> Locked<'_, T> {
        let shard = &self.shards[i];
        Locked { lookup: self, shard, writer: shard.writer.lock() }
    }

    /// Locks shard `i`, unless another thread holds it.
    pub fn try_lock_shard(&self, i: usize) -> Option<Locked<'_, T>> {
        let shard = &self.shards[i];
        Some(Locked { lookup: self, shard, writer: shard.writer.try_lock()? })
    }

    /// Collects values that are removed from here on.
    pub fn departures(&self) -> Departures<'_, T> {
        Departures { lookup: self, gone: Vec::new() }
    }

    /// Memory of removed values that wait for readers to end, in bytes.
    pub fn gone_weight(&self) -> usize {
        self.gone_weight.load(Ordering::Relaxed)
    }

    /// Drops removed values that no reader can still use.
    pub fn reclaim(&self) {
        let mut over = Vec::new();
        {
            let mut limbo = self.limbo.lock();
            let oldest = if limbo.is_empty() { 0 } else { self.epochs.oldest() };
            while let Some((_, gone)) = limbo.pop_front_if(|(epoch, _)| *epoch < oldest) {
                over.push(gone);
            }
        }
        let weight: usize = over.iter().flatten().map(Removed::weight).sum();
        self.gone_weight.fetch_sub(weight, Ordering::Relaxed);
        // Other threads need not wait while values are dropped.
        drop(over);
    }
}

impl<T: Keyed> Drop for Lookup<T> {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            // SAFETY: the pointer is from `Arc::into_raw`, like every pointer stored there, and the field owns that
            // count. No reader is left, since readers borrow the table.
            let slots = unsafe { Arc::from_raw(*shard.slots.get_mut()) };
            for slot in &slots.all {
                let value = slot.value.load(Ordering::Relaxed);
                if !value.is_null() {
                    // SAFETY: the pointer is from `Arc::into_raw`, and the slot owned that count. No reader is left.
                    drop(unsafe { Arc::from_raw(value) });
                }
            }
        }
    }
}

/// A read under way. Values that it finds stay alive until it is dropped.
pub struct Reading<'a, T: Keyed> {
    lookup: &'a Lookup<T>,
    _epoch: Epoch<'a>,
}

impl<T: Keyed> Reading<'_, T> {
    #[inline]
    fn slots(&self, key: u64) -> &Slots<T> {
        let shard = &self.lookup.shards[(self.lookup.shard_of)(key)];
        // SAFETY: the pointer is from `Arc::into_raw`. A writer that replaces the slots keeps the old ones alive for
        // readers that entered before (`Departures`). A reader that loads the old slots has entered before, since
        // both the entry and the load are SeqCst.
        unsafe { &*shard.slots.load(Ordering::SeqCst) }
    }

    /// Prefetches the slot of a number. Call it for several numbers before looking up the first.
    #[inline]
    pub fn prefetch(&self, key: u64) {
        let slots = self.slots(key);
        prefetch_at(std::ptr::from_ref(&slots.all[slots.first(key)]).cast());
    }

    /// Prefetches the value of a number and its bytes. Call it for several numbers before looking up the first.
    #[inline]
    pub fn prefetch_value(&self, key: u64) {
        if let Some(slot) = self.find(key) {
            prefetch_at(slot.value.load(Ordering::Relaxed).cast());
            prefetch_at(PackedBytes(slot.place.load(Ordering::Relaxed)).at());
        }
    }

    /// Prefetches the whole value of a number, but not its bytes.
    pub fn prefetch_whole(&self, key: u64) {
        if let Some(slot) = self.find(key) {
            // The reference count of an `Arc` lies before its value.
            let at = slot.value.load(Ordering::Relaxed).cast::<u8>().cast_const();
            let counts = 2 * size_of::<usize>();
            for offset in (0..counts + size_of::<T>()).step_by(CELL_BYTES) {
                prefetch_at(at.wrapping_sub(counts).wrapping_add(offset));
            }
        }
    }

    #[inline]
    fn find(&self, key: u64) -> Option<&Slot<T>> {
        let slots = self.slots(key);
        let mut at = slots.first(key);
        loop {
            let slot = &slots.all[at];
            match slot.key.load(Ordering::Acquire) {
                k if k == key + 1 => {
                    slot.touch();
                    return Some(slot);
                }
                0 => return None,
                _ => at = slots.after(at),
            }
        }
    }

    /// The pointer to the value of a number; null if it has none.
    #[inline]
    fn value(&self, key: u64) -> *const T {
        let Some(slot) = self.find(key) else { return std::ptr::null() };
        prefetch_at(PackedBytes(slot.place.load(Ordering::Relaxed)).at());
        let value = slot.value.load(Ordering::SeqCst).cast_const();
        // SAFETY: the pointer is null, or from `Arc::into_raw` with a count that the slot owned when it was loaded. A
        // writer that removes it from the slot moves the count to `Departures`, which keeps it for readers that
        // entered before. This reader has, since both its entry and its load are SeqCst.
        match unsafe { value.as_ref() } {
            // The slot may have been given to another number between the load of its number and the load of its
            // value.
            Some(v) if v.key() == key => value,
            _ => std::ptr::null(),
        }
    }

    /// The value of a number.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&T> {
        // SAFETY: as in `value`. The reference lives no longer than this reader.
        unsafe { self.value(key).as_ref() }
    }

    /// The bytes of the value of a number, if the value has any. If the slot is given to another number meanwhile,
    /// they may be the bytes of that number, so the caller must check that the bytes are the right ones.
    #[inline]
    pub fn bytes(&self, key: u64) -> Option<&[u8]> {
        let place = PackedBytes(self.find(key)?.place.load(Ordering::SeqCst));
        // SAFETY: address and length are in one word, so they belong together. They are those of `Keyed::bytes` of a
        // value in the table, which stays as it is while the table has a count of it. As in `get`, that count lives
        // as long as this reader: a writer clears the word before it removes the value.
        (place.0 != 0).then(|| unsafe { std::slice::from_raw_parts(place.at(), place.len()) })
    }

    /// The value of a number, shared beyond this read.
    pub fn get_shared(&self, key: u64) -> Option<Arc<T>> {
        let value = self.value(key);
        // SAFETY: as in `value`, the pointer is null, or from `Arc::into_raw` with a count that lives as long as this
        // reader. So the count may be incremented.
        (!value.is_null()).then(|| unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        })
    }
}

/// A shard that is locked for changes.
pub struct Locked<'a, T: Keyed> {
    lookup: &'a Lookup<T>,
    shard: &'a Shard<T>,
    writer: MutexGuard<'a, Writer>,
}

impl<T: Keyed> Locked<'_, T> {
    fn slots(&self) -> &Slots<T> {
        // SAFETY: the pointer is from `Arc::into_raw`. Only the holder of the lock replaces it, in `rebuild`, which
        // borrows `self` exclusively: no borrow of the old slots is left then.
        unsafe { &*self.shard.slots.load(Ordering::Relaxed) }
    }

    /// The value of a number.
    #[cfg(test)]
    fn get_shared(&self, key: u64) -> Option<Arc<T>> {
        let value = self.slots().find(key).value();
        // SAFETY: if the pointer is not null, it is from `Arc::into_raw` with a count that the slot owns. Only the
        // holder of the lock removes it.
        (!value.is_null()).then(|| unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        })
    }

    /// Whether the number has a value.
    pub fn contains(&self, key: u64) -> bool {
        !self.slots().find(key).value().is_null()
    }

    /// Inserts a value, and removes the one that its number had, if any.
    pub fn insert(&mut self, value: Arc<T>, gone: &mut Departures<'_, T>) {
        self.replace(value, gone, |_| ());
    }

    /// As [`Locked::insert`]. `before` is called with the old value before readers can find the new one.
    pub fn replace(&mut self, value: Arc<T>, gone: &mut Departures<'_, T>, before: impl FnOnce(&Arc<T>)) {
        self.check(gone);
        // The value's methods may panic, so they are called before anything changes.
        let (key, place) = (value.key(), PackedBytes::of(value.bytes()));
        if (self.writer.used + 1) * 8 > self.slots().all.len() * 5 {
            self.rebuild(gone);
        }
        let (slot, used) = match self.slots().find(key) {
            Probe::There(slot) | Probe::Dead(slot) => (slot, 0),
            Probe::Empty(slot) => (slot, 1),
        };
        let old = slot.value.load(Ordering::Relaxed);
        if !old.is_null() {
            // SAFETY: the pointer is from `Arc::into_raw` with a count that the slot owns, and only the holder of the
            // lock removes it. The count stays with the slot, since `ManuallyDrop` does not drop it.
            before(&std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(old) }));
        }
        // The number is stored first. A reader that finds the new number finds no value yet. A reader that came by
        // the old number and finds the new value sees that its key differs.
        slot.key.store(key + 1, Ordering::Release);
        slot.place.store(place.0, Ordering::SeqCst);
        slot.used.store(false, Ordering::Relaxed);
        let old = slot.value.swap(Arc::into_raw(value).cast_mut(), Ordering::SeqCst);
        self.writer.used += used;
        self.went(old, 1, gone);
    }

    /// Removes the value of a number.
    pub fn remove(&mut self, key: u64, gone: &mut Departures<'_, T>) {
        self.check(gone);
        if let Probe::There(slot) = self.slots().find(key) {
            let old = slot.take();
            self.went(old, 0, gone);
        }
    }

    /// Asserts that removed values wait for readers of this table, not of another.
    fn check(&self, gone: &Departures<'_, T>) {
        assert!(std::ptr::eq(self.lookup, gone.lookup), "its readers are others");
    }

    /// Collects the old value of a slot, which got `came` values instead.
    fn went(&mut self, old: *mut T, came: usize, gone: &mut Departures<'_, T>) {
        self.writer.live += came;
        if !old.is_null() {
            self.writer.live -= 1;
            // SAFETY: the pointer is from `Arc::into_raw`, and was just taken from the slot that owned the count.
            let value = unsafe { Arc::from_raw(old) };
            gone.gone.push(Removed::Value(value));
        }
    }

    /// Moves the clock hand over each slot once, or until `look` breaks. `look` gets the value and its mark "used",
    /// which it may clear. It returns whether to remove the value.
    pub fn sweep(
        &mut self,
        gone: &mut Departures<'_, T>,
        mut look: impl FnMut(&Arc<T>, &AtomicBool) -> ControlFlow<(), bool>,
    ) {
        self.check(gone);
        let count = self.slots().all.len();
        for _ in 0..count {
            let at = (self.writer.hand + 1) % count;
            let slot = &self.slots().all[at];
            let value = slot.value.load(Ordering::Relaxed);
            if !value.is_null() {
                // SAFETY: as in `replace`.
                let value = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(value) });
                match look(&value, &slot.used) {
                    ControlFlow::Break(()) => return,
                    ControlFlow::Continue(false) => {}
                    ControlFlow::Continue(true) => {
                        let old = slot.take();
                        self.went(old, 0, gone);
                    }
                }
            }
            self.writer.hand = at;
        }
    }

    /// Releases memory if the table has far more slots than it needs.
    pub fn shrink(&mut self, gone: &mut Departures<'_, T>) {
        let count = self.slots().all.len();
        if count > SLOTS_MIN && self.writer.live < count / 16 {
            self.rebuild(gone);
        }
    }

    /// Moves the values to new slots. At most one slot in three is full then, and no slot has a number without a value.
    fn rebuild(&mut self, gone: &mut Departures<'_, T>) {
        self.check(gone);
        let new = Slots::new((self.writer.live * 3).next_power_of_two().max(SLOTS_MIN));
        for slot in &self.slots().all {
            let value = slot.value.load(Ordering::Relaxed);
            if !value.is_null() {
                let key = slot.key.load(Ordering::Relaxed);
                let Probe::Empty(to) = new.find(key - 1) else {
                    unreachable!("a number is in one slot, and none is dead")
                };
                to.key.store(key, Ordering::Relaxed);
                to.place.store(slot.place.load(Ordering::Relaxed), Ordering::Relaxed);
                to.used.store(slot.used.load(Ordering::Relaxed), Ordering::Relaxed);
                to.value.store(value, Ordering::Relaxed);
            }
        }
        (self.writer.used, self.writer.hand) = (self.writer.live, 0);
        let bytes = new.bytes();
        let old = self.shard.slots.swap(Arc::into_raw(Arc::new(new)).cast_mut(), Ordering::SeqCst);
        // SAFETY: the pointer is from `Arc::into_raw`, and was just taken from the field that owned the count.
        // Dropping it drops the slots alone: the counts of their values moved to the new slots.
        let old = unsafe { Arc::from_raw(old) };
        self.lookup.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.lookup.bytes.fetch_sub(old.bytes(), Ordering::Relaxed);
        gone.gone.push(Removed::Slots(old));
    }
}

/// Values removed from a table. When this is dropped, they are queued until no reader is left that may use them.
pub struct Departures<'a, T: Keyed> {
    lookup: &'a Lookup<T>,
    gone: Vec<Removed<T>>,
}

impl<T: Keyed> Drop for Departures<'_, T> {
    fn drop(&mut self) {
        if self.gone.is_empty() {
            return;
        }
        let weight: usize = self.gone.iter().map(Removed::weight).sum();
        self.lookup.gone_weight.fetch_add(weight, Ordering::Relaxed);
        let epoch = self.lookup.epochs.retire();
        self.lookup.limbo.lock().push_back((epoch, std::mem::take(&mut self.gone)));
        self.lookup.reclaim();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::PageBuf;
    use crate::random::Random;

    const ALIVE: u64 = 0x0011_7e0f_ac7a_11fe;

    /// A value that detects reads after its drop.
    struct Canary {
        key: u64,
        version: u64,
        alive: AtomicU64,
        living: Arc<AtomicUsize>,
        /// The number, the version, and a mark that the value is alive.
        page: PageBuf,
    }

    impl Keyed for Canary {
        fn key(&self) -> u64 {
            assert_eq!(self.alive.load(Ordering::Relaxed), ALIVE, "it was dropped");
            self.key
        }

        fn bytes(&self) -> &[u8] {
            // Some values have no bytes.
            if self.key % 16 == 9 { &[] } else { &self.page }
        }

        fn weight(&self) -> usize {
            1
        }
    }

    impl Drop for Canary {
        fn drop(&mut self) {
            self.alive.store(0, Ordering::Relaxed);
            self.living.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn numbers(bytes: &[u8]) -> [u64; 3] {
        let (numbers, _) = bytes.as_chunks::<8>();
        [0, 1, 2].map(|i| u64::from_le_bytes(numbers[i]))
    }

    struct Rig {
        table: Lookup<Canary>,
        living: Arc<AtomicUsize>,
    }

    impl Rig {
        fn new() -> Self {
            Self { table: Lookup::new(4, |key| (key / 8 % 4) as usize), living: Arc::default() }
        }

        /// Returns the old version.
        fn put(&self, key: u64, version: u64) -> Option<u64> {
            self.living.fetch_add(1, Ordering::Relaxed);
            let (alive, living) = (AtomicU64::new(ALIVE), self.living.clone());
            let mut gone = self.table.departures();
            let page = PageBuf::from_values(&[key, version, ALIVE]);
            let canary = Arc::new(Canary { key, version, alive, living, page });
            let mut before = None;
            self.table.lock(key).replace(canary, &mut gone, |old| {
                assert_eq!(self.get(key), Some(old.version), "readers meet it still");
                before = Some(old.version);
            });
            before
        }

        fn put_all(&self, mut keys: std::ops::Range<u64>, version: u64) {
            assert!(keys.all(|key| self.put(key, version).is_none_or(|before| before < version)));
        }

        fn sweep(&self, i: usize, mut goes: impl FnMut(&Canary) -> bool) {
            let mut gone = self.table.departures();
            let mut shard = self.table.lock_shard(i);
            shard.sweep(&mut gone, |c, _| ControlFlow::Continue(goes(c)));
            shard.shrink(&mut gone);
        }

        fn get(&self, key: u64) -> Option<u64> {
            let reader = self.table.enter();
            let version = reader.get(key).map(|c| c.version);
            let bytes = version.filter(|_| key % 16 != 9).map(|v| [key, v, ALIVE]);
            assert_eq!(reader.bytes(key).map(numbers), bytes);
            version
        }
    }

    #[test]
    fn it_has_what_a_map_has_and_keeps_nothing_else() {
        let (rig, mut map, mut random) = (Rig::new(), BTreeMap::new(), Random(7));
        let mut bytes_of_many = 0;
        for n in 0..30_000 {
            if n == 20_000 {
                bytes_of_many = rig.table.bytes();
            }
            // Many different numbers at first, few at the end.
            let key = random.below(if n < 20_000 { 3000 } else { 30 });
            match random.below(10) {
                0 if n % 7 == 0 => {
                    let (i, part) = (random.below(4), random.below(5));
                    let goes = |key: u64| key / 8 % 4 == i && key % 5 != part;
                    rig.sweep(i as usize, |c| goes(c.key));
                    map.retain(|&key, _| !goes(key));
                }
                1 => {
                    let mut gone = rig.table.departures();
                    rig.table.lock(key).remove(key, &mut gone);
                    map.remove(&key);
                }
                2..6 => {
                    let before = rig.put(key, n);
                    assert_eq!(before, map.insert(key, n));
                }
                _ => {
                    assert_eq!(rig.get(key), map.get(&key).copied());
                    let locked = rig.table.lock(key);
                    assert_eq!(locked.contains(key), map.contains_key(&key));
                    assert_eq!(locked.get_shared(key).map(|c| c.version), map.get(&key).copied());
                }
            }
        }
        assert!((0..3000).all(|key| rig.get(key) == map.get(&key).copied()));
        assert_eq!(rig.living.load(Ordering::Relaxed), map.len(), "what went is dropped where nobody reads");
        (0..4).for_each(|i| rig.sweep(i, |_| true));
        assert_eq!(rig.living.load(Ordering::Relaxed), 0);
        assert!(rig.table.bytes() < bytes_of_many / 4, "{} of {bytes_of_many}", rig.table.bytes());
        rig.put(1, 1);
        let living = rig.living.clone();
        drop(rig);
        assert_eq!(living.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_a_reader_met_stays_until_it_leaves() {
        let rig = Rig::new();
        rig.put_all(0..1000, 1);
        let reader = rig.table.enter();
        let met = reader.get(5).unwrap();
        let shared = reader.get_shared(6).unwrap();
        rig.put_all(0..1000, 2);
        (0..4).for_each(|i| rig.sweep(i, |c| c.key > 500));
        assert_eq!((met.key(), met.version), (5, 1));
        assert_eq!(reader.get(5).map(|c| c.version), Some(2), "it meets what is there");
        assert_eq!(rig.table.gone_weight(), 1499);
        rig.put_all(1000..2000, 2);
        let slots = || {
            let limbo = rig.table.limbo.lock();
            limbo.iter().flat_map(|(_, gone)| gone).filter(|g| matches!(g, Removed::Slots(_))).count()
        };
        assert!(slots() >= 4, "those of each shard, which the reader may look through");
        drop(reader);
        rig.table.reclaim();
        assert_eq!(slots(), 0);
        (0..4).for_each(|i| rig.sweep(i, |c| c.key >= 1000));
        rig.table.reclaim();
        assert_eq!(rig.table.gone_weight(), 0);
        assert_eq!((rig.living.load(Ordering::Relaxed), shared.version), (502, 1));
    }

    #[test]
    fn a_value_that_came_to_a_slot_under_another_number_is_not_taken_for_the_one_before() {
        let rig = Rig::new();
        rig.put(5, 1);
        let locked = rig.table.lock(5);
        let Probe::There(slot) = locked.slots().find(5) else { panic!("it was put there") };
        let first = |key| locked.slots().first(key);
        let other = (6..).find(|key| (rig.table.shard_of)(*key) == 0 && first(*key) == first(5)).unwrap();
        // Simulates a reader that loads the number before a change, and the value after it.
        slot.key.store(other + 1, Ordering::SeqCst);
        assert!(rig.table.enter().get(other).is_none() && rig.table.enter().get_shared(other).is_none());
    }

    #[test]
    fn the_hand_goes_round_and_stops_where_it_is_told_to() {
        let rig = Rig::new();
        rig.put_all(0..8, 1);
        let mut met = Vec::new();
        for _ in 0..2 {
            let (mut gone, mut left) = (rig.table.departures(), 4);
            rig.table.lock_shard(0).sweep(&mut gone, |c, _| {
                if left == 0 {
                    return ControlFlow::Break(());
                }
                left -= 1;
                met.push(c.key);
                ControlFlow::Continue(c.key == 3)
            });
        }
        met.sort_unstable();
        assert_eq!(met, [0, 1, 2, 3, 4, 5, 6, 7], "each once");
        assert_eq!((rig.get(3), rig.get(4)), (None, Some(1)));
    }

    #[test]
    fn readers_meet_what_was_put_before_they_came_and_nothing_that_was_dropped() {
        const STAY: u64 = 40;
        let rig = Rig::new();
        let put: Vec<AtomicU64> = (0..STAY).map(|_| AtomicU64::new(0)).collect();
        rig.put_all(0..STAY, 0);
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            for t in 0..2 {
                let (rig, put, over) = (&rig, &put, &over);
                s.spawn(move || {
                    let mut random = Random(t);
                    for version in 1..60_000 {
                        // Each writer has its own permanent numbers. All share the numbers that come and go.
                        let key = random.below(STAY / 2) * 2 + t;
                        rig.put(key, version);
                        put[key as usize].store(version, Ordering::SeqCst);
                        rig.put(STAY + random.below(200), version);
                        if version % 64 == 0 {
                            rig.sweep(random.below(4) as usize, |c| {
                                c.key >= STAY && c.key % 3 != version % 3
                            });
                        }
                    }
                    over.store(true, Ordering::SeqCst);
                });
            }
            for t in 0..2 {
                let (rig, put, over) = (&rig, &put, &over);
                s.spawn(move || {
                    let mut random = Random(100 + t);
                    let (mut found, mut shared) = (0, None);
                    while !over.load(Ordering::SeqCst) {
                        let key = random.below(STAY);
                        let before = put[key as usize].load(Ordering::SeqCst);
                        let reader = rig.table.enter();
                        let c = reader.get(key).expect("it stays");
                        assert!(c.version >= before, "{key}: {} after {before}", c.version);
                        let other = STAY + random.below(200);
                        if let Some(bytes) = reader.bytes(other) {
                            let [of, _, alive] = numbers(bytes);
                            assert!(alive == ALIVE && (of == other || of >= STAY), "{of} {alive:x}");
                        }
                        if let Some(c) = reader.get(other) {
                            found += 1;
                            assert_eq!(c.key(), other);
                            shared = reader.get_shared(other).or(shared);
                        }
                        assert_eq!((c.key(), shared.as_ref().map_or(0, |s| s.key() / 1000)), (key, 0));
                    }
                    assert!(found > 0);
                });
            }
        });
        rig.table.reclaim();
        let left = (0..STAY + 200).filter(|&key| rig.get(key).is_some()).count();
        assert_eq!(rig.living.load(Ordering::Relaxed), left);
    }
}
