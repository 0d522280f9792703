//! Leaves of a delta as columns, kept until they change.
//!
//! ```text
//!   leaf | leaf | leaf | ...     as columns, each until a commit writes the leaf again
//!   └── group ──┘                about 2,000 rows: what the host evaluates at a time, until one of its leaves changes
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::Lpid;
use lode_page::{Column, DataType, ops};
use parking_lot::Mutex;

use super::chunk::{Chunk, RowsOf};
use crate::EngineError;
use crate::tables::planted::{self, Planted};

/// Bytes of leaves and of groups that a table keeps.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Rows of a group, about.
const GROUP_ROWS: usize = 2048;

/// A leaf, and the newest commit that wrote it or one of its values.
pub(in crate::tables) type LeafVersion = (Lpid, u64);

/// What is kept of a delta.
#[derive(Debug, Default)]
pub(in crate::tables) struct Leaves(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    leaves: BTreeMap<Lpid, (u64, Arc<Chunk>)>,
    /// By the first leaf.
    groups: BTreeMap<Lpid, (Vec<LeafVersion>, Arc<Chunk>)>,
    bytes: usize,
}

impl Leaves {
    /// The leaf as columns; `make` makes them if they are not kept.
    pub(in crate::tables) fn leaf(
        &self,
        (lpid, csn): LeafVersion,
        index_columns: &[u16],
        make: impl FnOnce() -> Result<Chunk, EngineError>,
    ) -> Result<Arc<Chunk>, EngineError> {
        let known = self.0.lock().leaves.get(&lpid).cloned();
        if let Some((_, chunk)) = known.filter(|(of, c)| {
            planted::instead(Planted::LeafColumnsKept, || *of == csn, || true) && c.is_of(index_columns)
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
            kept.limit();
        }
        Ok(chunk)
    }

    /// The leaves in groups. All rows of a group are of one page of the delta.
    pub(in crate::tables) fn grouped(
        &self,
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
            groups.push(self.group(t, *first, group)?);
        }
        Ok(groups)
    }

    fn group(
        &self,
        t: &RowsOf<'_>,
        first: Lpid,
        leaves: &[(LeafVersion, Arc<Chunk>)],
    ) -> Result<Arc<Chunk>, EngineError> {
        if let [(_, alone)] = leaves {
            return Ok(alone.clone());
        }
        let versions: Vec<LeafVersion> = leaves.iter().map(|(v, _)| *v).collect();
        let index_columns = t.rule.columns().to_vec();
        let known = self.0.lock().groups.get(&first).cloned();
        if let Some((_, chunk)) = known.filter(|(of, c)| *of == versions && c.is_of(&index_columns)) {
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
        kept.limit();
        Ok(chunk)
    }
}

impl Kept {
    fn limit(&mut self) {
        if self.bytes > KEPT_BYTES_MAX {
            *self = Self::default();
        }
    }
}
