//! Background work of stores that have no threads of their own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lode_command::Progress;

use crate::measure::Causes;
use crate::store::StoreResult;

/// What a store leaves to its user.
#[expect(clippy::missing_errors_doc, reason = "all fail when the store does")]
pub trait Upkeep: Send + Sync {
    /// Works on a thread of its user's, until it is over.
    fn background(&self, over: &AtomicBool) -> StoreResult;
    /// Does the work that is left.
    fn settle(&self) -> StoreResult;
    /// Bytes written by cause, where the store tells.
    fn causes(&self) -> Option<Causes>;
}

/// Nothing is left to the user.
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

/// How often a store is asked whether there is something to do, when there was nothing.
const INTERVAL: Duration = Duration::from_millis(20);
/// Steps in which a store must settle.
const STEPS_MAX: u32 = 1 << 20;

/// Work that is done step by step.
pub struct Steps<W, C> {
    step: W,
    causes: C,
}

impl<W: Fn() -> Progress + Send + Sync, C: Fn() -> Option<Causes> + Send + Sync> Steps<W, C> {
    /// Of a store that takes a step, and tells its causes where it can.
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
        // What a step says is the last may be the last of its kind: the store is at rest when there is nothing twice.
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
