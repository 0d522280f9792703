//! Epochs: how the drive knows that no read is under way in an EBLOCK any more.
//!
//! ```text
//!   reader:  enter (publish the epoch) ─► look up ─► read ─► leave
//!   writer:  unmap ─► retire (begin a new epoch) ─► ... ─► passed? ─► the EBLOCK may be erased
//! ```
//!
//! Invariant: a reader that does not show in any slot when the writer looks will look up after the unmapping,
//! since both publish and look in one total order (SeqCst). Source: epoch-based reclamation (Fraser 2004),
//! with a slot a reader instead of one a thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Readers at a time; further ones wait for a slot. A read may take two (one while it loads a mapping page).
const SLOTS: usize = 1024;

#[repr(align(64))]
struct Slot(AtomicU64);

thread_local! {
    /// The slot that a thread tries first: always the same, so that it stays in the cache of its CPU.
    static FIRST: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(SLOTS / 64, Ordering::Relaxed) % SLOTS
    };
}

pub(crate) struct Epochs {
    current: AtomicU64,
    slots: Box<[Slot]>,
}

/// A reader that is under way.
pub(crate) struct Epoch<'a>(&'a AtomicU64);

impl Epochs {
    pub(crate) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| Slot(AtomicU64::new(0))).collect();
        Self { current: AtomicU64::new(1), slots }
    }

    /// Begins a read; it ends when the answer is dropped.
    pub(crate) fn enter(&self) -> Epoch<'_> {
        let first = FIRST.with(|&f| f);
        loop {
            for at in first..first + SLOTS {
                let slot = &self.slots[at % SLOTS].0;
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

    /// Ends the current epoch; answers its number, to ask [`Epochs::passed`] about.
    pub(crate) fn retire(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether every read that began in `epoch` or before has ended.
    pub(crate) fn passed(&self, epoch: u64) -> bool {
        self.slots.iter().all(|s| {
            let began = s.0.load(Ordering::SeqCst);
            began == 0 || began > epoch
        })
    }
}

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_passes_when_its_readers_left() {
        let e = Epochs::new();
        let old = e.enter();
        let retired = e.retire();
        let new = e.enter();
        assert!(!e.passed(retired));
        drop(old);
        assert!(e.passed(retired), "later readers do not matter");
        drop(new);
        assert!(e.passed(e.retire()));
    }
}
