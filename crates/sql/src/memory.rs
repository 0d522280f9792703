//! Memory of queries: a share of their own, and beyond it what they borrow from the buffer pool.
//!
//! ```text
//!   operators of queries: | own | borrowed ─► |◄─ buffer pool |        one limit for all
//! ```
//!
//! Operators that can spill divide the memory, so that none of them starves the others, and none takes what a merge of spilled data
//! needs:
//!
//! | all operators hold, of the limit | an operator that can spill gets more |
//! |---|---|
//! | up to 1/2 | always |
//! | up to 7/8 | if it holds less than its part: 7/8, less what operators hold that cannot spill, divided by those that can |
//! | more | never: it spills |
//!
//! Example: of 172 MB, two sorts hold 60 and 25 MB. Each has reserved 10 MB for merges, which cannot spill. The part of a sort is (150 -
//! 20) / 2 = 65 MB. Both may grow to it. The last 22 MB are for merges, which need more than they reserved.
//!
//! Invariant: operators hold at most their own share and what was borrowed, except for memory that they take without
//! asking.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool, human_readable_size,
};
use lode_engine::Database;
use parking_lot::Mutex;

/// The least that is borrowed at a time. As much is kept when memory is returned, so that the pool does not evict for
/// each batch of rows.
const STEP_BYTES: usize = 4 << 20;
/// The part of the limit that operators that can spill leave to those that cannot, such as merges of spilled data.
const KEPT_FOR_MERGES: usize = 8;
/// The largest consumers that an out-of-memory error names.
const NAMED: NonZeroUsize = NonZeroUsize::new(5).expect("more than 0");

/// Memory for the queries of all sessions on a database: `own_bytes`, and what its buffer pool lends.
pub(crate) fn query_memory(db: Database, own_bytes: usize) -> Arc<dyn MemoryPool> {
    Arc::new(TrackConsumersPool::new(QueryMemory::new(db, own_bytes), NAMED))
}

struct QueryMemory {
    db: Database,
    own_bytes: usize,
    taken: Mutex<MemoryUsage>,
}

#[derive(Default)]
struct MemoryUsage {
    used: usize,
    /// The part of `used` of operators that cannot spill.
    unspillable: usize,
    borrowed: usize,
    /// Operators that can spill.
    spilling: usize,
}

impl MemoryUsage {
    fn take(&mut self, reservation: &MemoryReservation, bytes: usize) {
        self.used += bytes;
        if !reservation.consumer().can_spill() {
            self.unspillable += bytes;
        }
    }

    /// Whether an operator that can spill, and holds `has`, may have more of a limit.
    fn may_grow(&self, has: usize, additional: usize, limit: usize) -> bool {
        let shared = limit - limit / KEPT_FOR_MERGES;
        let part = shared.saturating_sub(self.unspillable) / self.spilling.max(1);
        let all = self.used.saturating_add(additional);
        all <= limit / 2 || all <= shared && has.saturating_add(additional) <= part
    }
}

impl QueryMemory {
    fn new(db: Database, own_bytes: usize) -> Self {
        Self { db, own_bytes, taken: Mutex::default() }
    }

    /// Makes room for `additional` more bytes, by borrowing if needed. False if there is not enough.
    fn provide(&self, taken: &mut MemoryUsage, additional: usize) -> bool {
        let has = self.own_bytes.saturating_add(taken.borrowed);
        let short = taken.used.saturating_add(additional).saturating_sub(has);
        if short == 0 {
            return true;
        }
        let lent = [short.max(STEP_BYTES), short].into_iter().find(|&bytes| self.db.lend_memory(bytes));
        taken.borrowed += lent.unwrap_or(0);
        lent.is_some()
    }

    /// The most bytes of all operators.
    fn limit_bytes(&self) -> usize {
        self.own_bytes.saturating_add(self.db.lent_memory_max())
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "lode"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.taken.lock().spilling += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.taken.lock().spilling -= usize::from(consumer.can_spill());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut taken = self.taken.lock();
        // The caller takes the memory whether there is room or not.
        self.provide(&mut taken, additional);
        taken.take(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut taken = self.taken.lock();
        taken.used -= shrink;
        if !reservation.consumer().can_spill() {
            taken.unspillable -= shrink;
        }
        let spare = self.own_bytes.saturating_add(taken.borrowed).saturating_sub(taken.used);
        let kept = if taken.used > self.own_bytes { STEP_BYTES } else { 0 };
        let returned = taken.borrowed.min(spare.saturating_sub(kept));
        if returned > 0 && (returned >= STEP_BYTES || returned == taken.borrowed) {
            taken.borrowed -= returned;
            self.db.return_memory(returned);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut taken = self.taken.lock();
        let is_fair = !reservation.consumer().can_spill()
            || taken.may_grow(reservation.size(), additional, self.limit_bytes());
        if !is_fair || !self.provide(&mut taken, additional) {
            let has = if is_fair { self.own_bytes + taken.borrowed } else { self.limit_bytes() };
            let (more, free) =
                (human_readable_size(additional), human_readable_size(has.saturating_sub(taken.used)));
            let (who, whole) = (reservation.consumer().name(), human_readable_size(has));
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{who} needs {more} more, and {free} of {whole} are free"
            )));
        }
        taken.take(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.taken.lock().used
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.own_bytes)
    }
}

impl Drop for QueryMemory {
    fn drop(&mut self) {
        self.db.return_memory(self.taken.get_mut().borrowed);
    }
}

impl fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = self.taken.lock();
        write!(f, "QueryMemory({} own, {} borrowed, {} used)", self.own_bytes, taken.borrowed, taken.used)
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use lode_engine::DatabaseOptions;
    use lode_firmware::Drive;

    use super::*;

    #[test]
    fn operators_borrow_from_the_buffer_pool_and_give_back() {
        const MB: usize = 1 << 20;
        let options = DatabaseOptions { pool_bytes: 64 * MB, ..DatabaseOptions::default() };
        let db = Database::open(Arc::new(Drive::in_memory(256 << 20)), options).unwrap();
        let limit = || db.pool().limit_bytes as usize;
        let memory: Arc<dyn MemoryPool> = query_memory(db.clone(), 8 * MB);
        let r = MemoryConsumer::new("sort").register(&memory);
        r.try_grow(8 * MB).unwrap();
        assert_eq!(limit(), 64 * MB, "what is its own comes first");
        r.try_grow(1).unwrap();
        assert_eq!(limit(), 60 * MB);
        r.try_grow(30 * MB).unwrap();
        assert!((26 * MB..=34 * MB).contains(&limit()), "{}", limit());
        let e = r.try_grow(40 * MB).unwrap_err().to_string();
        assert!(e.contains("sort needs 40.0 MB more"), "{e}");
        let before = (r.size(), limit());
        r.try_grow(16 * MB).unwrap();
        // Each shard of the pool gives whole bytes.
        assert!(limit().abs_diff(64 * MB - (before.0 + 8 * MB)) < 16, "{}", limit());
        r.shrink(30 * MB);
        assert!(limit() >= 35 * MB, "{}", limit());
        drop(r);
        assert_eq!(limit(), 64 * MB);
        drop(memory);
        assert_eq!(limit(), 64 * MB);
    }

    #[test]
    fn operators_that_can_spill_leave_room_for_each_other_and_for_merges() {
        let usage = |used, unspillable| MemoryUsage { used, unspillable, borrowed: 0, spilling: 2 };
        // The example above.
        assert!(usage(105, 20).may_grow(60, 5, 172) && usage(105, 20).may_grow(25, 40, 172));
        assert!(!usage(105, 20).may_grow(60, 6, 172), "more than its part");
        assert!(!usage(150, 20).may_grow(20, 2, 172), "the rest is for merges");
        assert!(usage(60, 0).may_grow(60, 26, 172), "half of it is for whoever comes first");
        assert!(!usage(60, 0).may_grow(60, 27, 172));
    }
}
