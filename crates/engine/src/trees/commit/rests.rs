//! What a thread does before it sleeps: it lets others run a few times.
//!
//! To put eight threads to sleep and to wake them takes as long as a sync of a fast disk does, for which they wait. Where others
//! need the CPU, a thread that gave it away would get it back late: then all sleep at once, for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How often a thread lets others run, at most.
const YIELDS_MAX: u32 = 32;
/// One that gets the CPU back later than this gave it to others who want it for themselves.
const LONG: Duration = Duration::from_micros(200);
/// What a long yield counts, where another one takes back 1: threads that wait for each other are long away now and then.
const LONG_WEIGHT: u32 = 8;
/// As much as this, and all sleep for so many groups.
const LONG_MAX: u32 = 64;
const GROUPS_ASLEEP: u32 = 4096;

/// Whether it is worth it, for all who wait; numbers that get lost between threads do no harm.
pub(crate) struct Rests {
    /// Without a clock nobody could tell what it takes from others, and all sleep.
    now: Option<fn() -> Instant>,
    /// Groups from now on that all sleep for.
    asleep: AtomicU32,
    /// Long yields, weighed against others.
    long: AtomicU32,
}

impl Rests {
    pub(crate) fn new(now: Option<fn() -> Instant>) -> Self {
        Self { now, asleep: AtomicU32::new(0), long: AtomicU32::new(0) }
    }

    /// Lets others run until `is_over`, a few times.
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

    /// One group more.
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
        let rests = Rests::new(Some(Instant::now));
        let is_asleep = || rests.asleep.load(Ordering::Relaxed) > 0;
        // One of nine is no more than threads do to each other.
        for i in 0..9000 {
            rests.came_back(if i % 9 == 0 { LONG * 10 } else { LONG });
            assert!(!is_asleep(), "after {i}");
        }
        (0..LONG_MAX / LONG_WEIGHT).for_each(|_| rests.came_back(LONG * 10));
        assert!(is_asleep());
        rests.until(|| panic!("who sleeps does not look"));
        (0..GROUPS_ASLEEP).for_each(|_| rests.count_group());
        assert!(!is_asleep(), "it is tried again");
    }
}
