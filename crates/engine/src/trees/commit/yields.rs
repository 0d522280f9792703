//! Yields: a thread that waits for a group yields the CPU a few times before it sleeps.
//!
//! Putting eight threads to sleep and waking them takes as long as the sync of a fast disk that they wait for. But if other processes
//! want the CPU, a thread that yields gets it back late. Then all threads sleep at once, for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Yields of a thread before it sleeps, at most.
const YIELDS_MAX: u32 = 32;
/// A yield that takes longer is a long one: another process had the CPU.
const LONG: Duration = Duration::from_micros(200);
/// A long yield adds so much to the count of long yields, and a short one takes 1 off: a long one now and then is no sign of other
/// processes.
const LONG_WEIGHT: u32 = 8;
/// When the count reaches this, all threads sleep at once, for so many groups.
const LONG_MAX: u32 = 64;
const GROUPS_ASLEEP: u32 = 4096;

/// Whether yielding is worth it. All threads share the counts. An update that another thread overwrites does no harm.
pub(crate) struct Yields {
    /// Without a clock long yields cannot be told, and all threads sleep at once.
    now: Option<fn() -> Instant>,
    /// All threads sleep at once for so many more groups.
    asleep: AtomicU32,
    /// The count of long yields.
    long: AtomicU32,
}

impl Yields {
    pub(crate) fn new(now: Option<fn() -> Instant>) -> Self {
        Self { now, asleep: AtomicU32::new(0), long: AtomicU32::new(0) }
    }

    /// Yields until `is_over`, a few times.
    pub(crate) fn until(&self, is_over: impl Fn() -> bool) {
        let Some(now) = self.now else { return };
        for _ in 0..YIELDS_MAX {
            if self.asleep.load(Ordering::Relaxed) > 0 || is_over() {
                return;
            }
            let from = now();
            std::thread::yield_now();
            self.came_back(now().saturating_duration_since(from));
        }
    }

    fn came_back(&self, away: Duration) {
        let long = self.long.load(Ordering::Relaxed);
        let long = if away > LONG { long + LONG_WEIGHT } else { long.saturating_sub(1) };
        if long >= LONG_MAX {
            self.asleep.store(GROUPS_ASLEEP, Ordering::Relaxed);
        }
        self.long.store(long % LONG_MAX, Ordering::Relaxed);
    }

    /// A group was taken.
    pub(crate) fn count_group(&self) {
        let asleep = self.asleep.load(Ordering::Relaxed);
        self.asleep.store(asleep.saturating_sub(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_others_keep_the_cpu_all_sleep_for_a_while() {
        let yields = Yields::new(Some(Instant::now));
        let is_asleep = || yields.asleep.load(Ordering::Relaxed) > 0;
        // Threads that wait for each other make about one long yield in nine.
        for i in 0..9000 {
            yields.came_back(if i % 9 == 0 { LONG * 10 } else { LONG });
            assert!(!is_asleep(), "after {i}");
        }
        (0..LONG_MAX / LONG_WEIGHT).for_each(|_| yields.came_back(LONG * 10));
        assert!(is_asleep());
        yields.until(|| panic!("who sleeps does not look"));
        (0..GROUPS_ASLEEP).for_each(|_| yields.count_group());
        assert!(!is_asleep(), "it is tried again");
    }
}
