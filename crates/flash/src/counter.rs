//! A counter to which each thread adds in its own cache line. A shared cache line would move from CPU to CPU with
//! each addition.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Parts of the sum. More threads than this share them.
const PARTS: usize = 16;

thread_local! {
    /// The part that a thread adds to.
    static PART: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % PARTS
    };
}

#[derive(Default)]
#[repr(align(64))]
struct Part(AtomicU64);

#[derive(Default)]
pub(crate) struct Counter([Part; PARTS]);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        PART.with(|&part| self.0[part].0.fetch_add(n, Ordering::Relaxed));
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().map(|p| p.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_add_is_summed() {
        let counter = Counter::default();
        std::thread::scope(|s| {
            for _ in 0..PARTS + 3 {
                s.spawn(|| (0..100).for_each(|n| counter.add(n)));
            }
        });
        assert_eq!(counter.sum(), (PARTS as u64 + 3) * 4950);
    }
}
