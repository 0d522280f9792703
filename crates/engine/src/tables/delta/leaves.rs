//! Leaves of a delta as columns, kept until they change.
//!
//! ```text
//!   leaf | leaf | leaf | ...     as columns, each until a commit writes the leaf again
//!   └── group ──┘                about 2,000 rows: what the host evaluates at a time, until one of its leaves changes
//! ```
//!
//! The buffer pool lends the memory. What it cannot spare is not kept.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use lode_base::Lpid;
use lode_page::{Column, DataType, ops};
use parking_lot::Mutex;

use super::chunk::{Chunk, RowsOf};
use crate::EngineError;
use crate::storage::Storage;
use crate::tables::planted::{self, Planted};

/// Bytes of leaves and of groups that a table keeps.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// The least that is borrowed at a time.
const BORROWED_BYTES_MIN: usize = 1 << 20;
/// Rows of a group, about.
const GROUP_ROWS: usize = 2048;

/// A leaf, and the newest commit that wrote it or one of its values.
pub(in crate::tables) type LeafVersion = (Lpid, u64);

/// What is kept of a delta.
#[derive(Default)]
pub(in crate::tables) struct Leaves(Mutex<Kept>);

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leaves({} bytes)", self.0.lock().bytes)
    }
}

#[derive(Default)]
struct Kept {
    leaves: BTreeMap<Lpid, (u64, Arc<Chunk>)>,
    /// By the first leaf.
    groups: BTreeMap<Lpid, (Vec<LeafVersion>, Arc<Chunk>)>,
    bytes: usize,
    borrowed: Borrowed,
}

/// Bytes of the buffer pool's limit.
#[derive(Default)]
struct Borrowed {
    /// A table that somebody still has does not keep a drive open.
    of: Weak<Storage>,
    bytes: usize,
}

impl Borrowed {
    /// Sees to it that at least so many bytes are borrowed; false if the pool cannot spare them.
    fn reach(&mut self, bytes: usize, storage: &Arc<Storage>) -> bool {
        let Some(short) = bytes.checked_sub(self.bytes).filter(|&short| short > 0) else { return true };
        let lent =
            [short.max(BORROWED_BYTES_MIN), short].into_iter().find(|&bytes| storage.pool().lend(bytes));
        self.bytes += lent.unwrap_or(0);
        self.of = Arc::downgrade(storage);
        lent.is_some()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(storage) = self.of.upgrade().filter(|_| self.bytes > 0) {
            storage.pool().take_back(self.bytes);
        }
    }
}

impl Leaves {
    /// The leaf as columns; `make` makes them if they are not kept.
    pub(in crate::tables) fn leaf(
        &self,
        storage: &Arc<Storage>,
        (lpid, csn): LeafVersion,
        t: &RowsOf<'_>,
        make: impl FnOnce() -> Result<Chunk, EngineError>,
    ) -> Result<Arc<Chunk>, EngineError> {
        let known = self.0.lock().leaves.get(&lpid).cloned();
        if let Some((_, chunk)) = known.filter(|(of, c)| {
            planted::instead(Planted::LeafColumnsKept, || *of == csn, || true) && c.is_of(t)
        }) {
            return Ok(chunk);
        }
        let chunk = Arc::new(make()?);
        let mut kept = self.0.lock();
        // An old snapshot must not push out what newer ones need.
        if kept.leaves.get(&lpid).is_none_or(|(of, _)| *of <= csn) {
            kept.bytes += chunk.bytes;
            if let Some((_, old)) = kept.leaves.insert(lpid, (csn, chunk.clone())) {
                kept.bytes -= old.bytes;
            }
            kept.limit(storage);
        }
        Ok(chunk)
    }

    /// The leaves in groups. All rows of a group are of one page of the delta.
    pub(in crate::tables) fn grouped(
        &self,
        storage: &Arc<Storage>,
        t: &RowsOf<'_>,
        leaves: Vec<(LeafVersion, Arc<Chunk>)>,
    ) -> Result<Vec<Arc<Chunk>>, EngineError> {
        let mut groups = Vec::new();
        let mut rest = &leaves[..];
        while let Some(((first, _), chunk)) = rest.first() {
            let page = chunk.page(t.table);
            let (mut count, mut rows) = (0, 0);
            while let Some((_, next)) = rest.get(count)
                && (count == 0 || rows + next.ids.len() <= GROUP_ROWS && next.page(t.table) == page)
            {
                rows += next.ids.len();
                count += 1;
            }
            let (group, others) = rest.split_at(count);
            rest = others;
            groups.push(self.group(storage, t, *first, group)?);
        }
        Ok(groups)
    }

    fn group(
        &self,
        storage: &Arc<Storage>,
        t: &RowsOf<'_>,
        first: Lpid,
        leaves: &[(LeafVersion, Arc<Chunk>)],
    ) -> Result<Arc<Chunk>, EngineError> {
        if let [(_, alone)] = leaves {
            return Ok(alone.clone());
        }
        let versions: Vec<LeafVersion> = leaves.iter().map(|(v, _)| *v).collect();
        let known = self.0.lock().groups.get(&first).cloned();
        if let Some((_, chunk)) = known.filter(|(of, c)| *of == versions && c.is_of(t)) {
            return Ok(chunk);
        }
        let with_rows: Vec<&Arc<Chunk>> =
            leaves.iter().map(|(_, c)| c).filter(|c| !c.ids.is_empty()).collect();
        let column = |(c, data_type): (usize, DataType)| -> Column {
            let parts: Vec<Column> = with_rows.iter().map(|chunk| chunk.columns[c].clone()).collect();
            ops::concat(data_type, &parts)
        };
        let types = t.schema.columns.iter().map(|c| c.data_type);
        let columns = if with_rows.is_empty() { Vec::new() } else { types.enumerate().map(column).collect() };
        let ids = leaves.iter().flat_map(|(_, c)| c.ids.iter().copied()).collect();
        let gone = leaves.iter().flat_map(|(_, c)| c.gone.iter().copied()).collect();
        let bytes = leaves.iter().map(|(_, c)| c.bytes).sum();
        let chunk = Arc::new(Chunk::new(t, ids, columns, gone, bytes)?);
        let mut kept = self.0.lock();
        kept.bytes += chunk.bytes;
        if let Some((_, old)) = kept.groups.insert(first, (versions, chunk.clone())) {
            kept.bytes -= old.bytes;
        }
        kept.limit(storage);
        Ok(chunk)
    }
}

impl Kept {
    fn limit(&mut self, storage: &Arc<Storage>) {
        if self.bytes > KEPT_BYTES_MAX || !self.borrowed.reach(self.bytes, storage) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use lode_firmware::Drive;

    #[test]
    fn what_is_kept_counts_in_the_limit_of_the_pool_until_it_is_dropped() {
        let storage = Arc::new(Storage::new(Arc::new(Drive::in_memory(256 << 20)), None, 16 << 20));
        let limit = || storage.pool().stats().limit_bytes;
        let mut kept = Kept { bytes: 3 << 20, ..Kept::default() };
        kept.limit(&storage);
        assert_eq!((kept.bytes, limit()), (3 << 20, 13 << 20));
        kept.bytes += 100;
        kept.limit(&storage);
        assert_eq!(limit(), 12 << 20, "some at a time");
        kept.bytes = 15 << 20;
        kept.limit(&storage);
        assert_eq!((kept.bytes, limit()), (0, 16 << 20), "more than the pool can spare is not kept");
        kept.bytes = 1 << 20;
        kept.limit(&storage);
        drop(kept);
        assert_eq!(limit(), 16 << 20);
    }
}
