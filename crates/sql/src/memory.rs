//! Memory of queries: a share of their own, and beyond it what they borrow from the buffer pool.
//!
//! ```text
//!   operators of queries: | own | borrowed ─► |◄─ buffer pool |        one limit for all
//! ```
//!
//! Invariant: operators hold at most their own share and what was borrowed, except for memory that they take without
//! asking.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{
    MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool, human_readable_size,
};
use lode_engine::Database;
use parking_lot::Mutex;

/// The least that is borrowed at a time. As much is kept when memory is returned, so that the pool does not evict for
/// each batch of rows.
const STEP_BYTES: usize = 4 << 20;
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
    borrowed: usize,
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
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "lode"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        let mut taken = self.taken.lock();
        // The caller takes the memory whether there is room or not.
        self.provide(&mut taken, additional);
        taken.used += additional;
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        let mut taken = self.taken.lock();
        taken.used -= shrink;
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
        if !self.provide(&mut taken, additional) {
            let has = self.own_bytes + taken.borrowed;
            let (more, free) =
                (human_readable_size(additional), human_readable_size(has.saturating_sub(taken.used)));
            let (who, whole) = (reservation.consumer().name(), human_readable_size(has));
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{who} needs {more} more, and {free} of {whole} are free"
            )));
        }
        taken.used += additional;
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
    use datafusion::execution::memory_pool::MemoryConsumer;
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
}
