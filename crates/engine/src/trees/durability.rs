//! When commits become durable: what is asked for, and how often a sync is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

/// See [`crate::Database::set_group_ms`].
const GROUP_MS_DEFAULT: u32 = 10;

/// When a commit is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it returns.
    #[default]
    Commit,
    /// Once [`crate::Database::sync`] returned, which the holder of the database calls every so often, or with the next commit
    /// that asks for more. After a crash the commits up to some moment are there.
    Group,
    /// When changed pages are written back, or [`crate::Database::sync`] is called. After a crash the commits up to some moment
    /// are there.
    None,
}

/// What was asked for.
pub(crate) struct DurabilitySettings {
    /// Of commits to trees that say nothing else.
    default: RwLock<Durability>,
    group_ms: AtomicU32,
    /// How often a sync is wanted, in milliseconds, and by how many.
    intervals: Mutex<BTreeMap<u32, u32>>,
}

impl Default for DurabilitySettings {
    fn default() -> Self {
        let (default, intervals) = (RwLock::default(), Mutex::default());
        Self { default, group_ms: AtomicU32::new(GROUP_MS_DEFAULT), intervals }
    }
}

impl DurabilitySettings {
    /// The durability of commits to trees that say nothing else.
    #[inline]
    pub(crate) fn default_durability(&self) -> Durability {
        *self.default.read()
    }

    pub(crate) fn set_default(&self, d: Durability) {
        *self.default.write() = d;
    }

    pub(crate) fn set_group_ms(&self, ms: u32) {
        self.group_ms.store(ms, Ordering::Relaxed);
    }

    /// How often a sync is wanted. `None` when no commit waits for one.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let ms = self.group_ms.load(Ordering::Relaxed);
        let of_trees = (self.default_durability() == Durability::Group).then_some(ms);
        let shortest = self.intervals.lock().keys().next().copied();
        let ms = of_trees.into_iter().chain(shortest).min()?;
        Some(Duration::from_millis(ms.max(1).into()))
    }

    /// Asks for a sync every so many milliseconds, for as long as the answer lives.
    pub(crate) fn sync_every(self: &Arc<Self>, ms: u32) -> SyncEvery {
        *self.intervals.lock().entry(ms).or_default() += 1;
        SyncEvery { settings: self.clone(), ms }
    }
}

/// See [`crate::Database::sync_every`].
pub struct SyncEvery {
    settings: Arc<DurabilitySettings>,
    ms: u32,
}

impl Drop for SyncEvery {
    fn drop(&mut self) {
        let mut intervals = self.settings.intervals.lock();
        let count = intervals.get_mut(&self.ms).expect("it was counted");
        *count -= 1;
        if *count == 0 {
            intervals.remove(&self.ms);
        }
    }
}
