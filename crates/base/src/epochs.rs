//! Epochs: a writer learns from them when all reads have ended that may still use what it removed.
//!
//! ```text
//!   reader:  enter (publish the epoch) ─► look up ─► read ─► leave
//!   writer:  take away ─► retire (begin a new epoch) ─► ... ─► passed? ─► nobody has it: an EBLOCK may be erased, memory freed
//! ```
//!
//! Invariant: if the writer finds a reader in no slot, that reader looks up after the removal. Both publish and look in one total
//! order (SeqCst), and the removal and the look-up must be SeqCst too.
//! Source: epoch-based reclamation (Fraser 2004), with a slot per reader instead of one per thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Distance between the slots that two threads try first.
const APART: usize = 16;

#[repr(align(64))]
struct Slot(AtomicU64);

thread_local! {
    /// The slot that a thread tries first: always the same, so that it stays in the cache of its CPU.
    static FIRST: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(APART, Ordering::Relaxed)
    };
}

/// The epochs of readers.
pub struct Epochs {
    current: AtomicU64,
    slots: Box<[Slot]>,
}

/// A reader that is under way.
pub struct Epoch<'a>(&'a AtomicU64);

impl Epochs {
    /// No reader yet. At most `readers` are under way at a time; further ones wait.
    ///
    /// # Panics
    /// When `readers` is 0.
    pub fn new(readers: usize) -> Self {
        assert!(readers > 0, "nobody could read");
        let slots = (0..readers).map(|_| Slot(AtomicU64::new(0))).collect();
        Self { current: AtomicU64::new(1), slots }
    }

    /// Begins a read, which ends when the returned guard is dropped.
    pub fn enter(&self) -> Epoch<'_> {
        let first = FIRST.with(|&f| f) % self.slots.len();
        loop {
            let (before, from) = self.slots.split_at(first);
            for Slot(slot) in from.iter().chain(before) {
                let now = self.current.load(Ordering::SeqCst);
                if slot.load(Ordering::Relaxed) == 0
                    && slot.compare_exchange(0, now, Ordering::SeqCst, Ordering::Relaxed).is_ok()
                {
                    return Epoch(slot);
                }
            }
            std::thread::yield_now();
        }
    }

    /// Ends the current epoch, and returns its number for [`Epochs::passed`].
    pub fn retire(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether every read that began in `epoch` or before has ended.
    pub fn passed(&self, epoch: u64) -> bool {
        epoch < self.oldest()
    }

    /// The epoch of the oldest read under way; `u64::MAX` when there is none. Earlier epochs have passed.
    pub fn oldest(&self) -> u64 {
        let began = self.slots.iter().map(|s| s.0.load(Ordering::SeqCst)).filter(|&began| began != 0);
        began.min().unwrap_or(u64::MAX)
    }
}

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        // Release: a writer that sees this store comes after all loads of the read.
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_passes_when_its_readers_left() {
        let e = Epochs::new(4);
        let old = e.enter();
        let retired = e.retire();
        let new = e.enter();
        assert!(!e.passed(retired));
        drop(old);
        assert!(e.passed(retired), "later readers do not matter");
        drop(new);
        assert!(e.passed(e.retire()));
        let all = [(); 4].map(|()| e.enter());
        assert!(!e.passed(e.retire()));
        drop(all);
        assert!(e.passed(e.retire()));
    }
}
