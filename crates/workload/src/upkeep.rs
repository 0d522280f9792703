//! Background work of stores without threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lode_command::Progress;

use crate::measure::Causes;
use crate::store::StoreResult;

/// The background work that a store leaves to its caller.
#[expect(clippy::missing_errors_doc, reason = "all fail when the store does")]
pub trait Upkeep: Send + Sync {
    /// Does background work on the caller's thread until `over` is set.
    fn background(&self, over: &AtomicBool) -> StoreResult;
    /// Does the remaining work.
    fn settle(&self) -> StoreResult;
    /// The bytes written by cause, if the store reports them.
    fn causes(&self) -> Option<Causes>;
}

/// The upkeep of a store that needs none.
impl Upkeep for () {
    fn background(&self, _: &AtomicBool) -> StoreResult {
        Ok(())
    }

    fn settle(&self) -> StoreResult {
        Ok(())
    }

    fn causes(&self) -> Option<Causes> {
        None
    }
}

impl<U: Upkeep + ?Sized> Upkeep for std::sync::Arc<U> {
    fn background(&self, over: &AtomicBool) -> StoreResult {
        (**self).background(over)
    }

    fn settle(&self) -> StoreResult {
        (**self).settle()
    }

    fn causes(&self) -> Option<Causes> {
        (**self).causes()
    }
}

/// How often an idle store is asked for work.
const INTERVAL: Duration = Duration::from_millis(20);
/// The most steps that a store may need to settle.
const STEPS_MAX: u32 = 1 << 20;

/// Background work in steps.
pub struct Steps<W, C> {
    step: W,
    causes: C,
}

impl<W: Fn() -> Progress + Send + Sync, C: Fn() -> Option<Causes> + Send + Sync> Steps<W, C> {
    /// Upkeep from a function that does a step and a function that reads the causes.
    pub fn new(step: W, causes: C) -> Self {
        Self { step, causes }
    }
}

impl<W: Fn() -> Progress + Send + Sync, C: Fn() -> Option<Causes> + Send + Sync> Upkeep for Steps<W, C> {
    fn background(&self, over: &AtomicBool) -> StoreResult {
        while !over.load(Ordering::Relaxed) {
            if (self.step)() != Progress::More {
                std::thread::sleep(INTERVAL);
            }
        }
        Ok(())
    }

    fn settle(&self) -> StoreResult {
        // A store has several kinds of work, and a step may report the end of only one kind. The store is at rest
        // when two steps in a row find nothing to do.
        let mut idle = 0;
        for _ in 0..STEPS_MAX {
            idle = if (self.step)() == Progress::Idle { idle + 1 } else { 0 };
            if idle == 2 {
                break;
            }
        }
        Ok(())
    }

    fn causes(&self) -> Option<Causes> {
        (self.causes)()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn it_settles_when_there_is_nothing_twice() {
        let calls = AtomicU32::new(0);
        let step = || match calls.fetch_add(1, Ordering::Relaxed) {
            0..5 => Progress::More,
            5 | 7 => Progress::Idle,
            6 => Progress::Done,
            _ => Progress::Idle,
        };
        Steps::new(step, || None).settle().unwrap();
        assert_eq!(calls.into_inner(), 9);
    }

    #[test]
    fn background_work_ends() {
        let over = AtomicBool::new(false);
        let calls = AtomicU32::new(0);
        let step = || {
            over.store(calls.fetch_add(1, Ordering::Relaxed) == 3, Ordering::Relaxed);
            Progress::More
        };
        Steps::new(step, || None).background(&over).unwrap();
        assert_eq!(calls.into_inner(), 4);
    }
}
