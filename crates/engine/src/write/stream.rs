//! Pages on their way to fresh extents, which nothing names until the commit.
//!
//! ```text
//!   page ─► staged ─► (a few MB) ─► batch ─► drive          the last ones may travel with the commit
//! ```

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, PageBuf, TableId};
use lode_command::{Align, Batch, PageWrite};

use crate::EngineError;
use crate::store::Store;
use crate::table::TableExtent;

/// Bytes of a batch of staged pages.
const FLUSH_BYTES: usize = 4 << 20;

/// What pages are written through, and the extents that a transaction was handed.
pub(super) struct Io<'a> {
    pub(super) store: &'a Store,
    pub(super) fresh: &'a mut Vec<ExtentId>,
}

impl Io<'_> {
    pub(super) fn allocate(&mut self, table: TableId) -> Result<ExtentId, EngineError> {
        let extent = self.store.allocate(table.into())?;
        self.fresh.push(extent);
        Ok(extent)
    }
}

/// The fresh pages of one table.
#[derive(Clone, Default)]
pub(super) struct Stream {
    pub(super) extents: Vec<TableExtent>,
    pub(super) staged: Vec<PageWrite>,
    staged_bytes: usize,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Stream {
    /// The next page.
    pub(super) fn next_lpid(&mut self, io: &mut Io<'_>, table: TableId) -> Result<Lpid, EngineError> {
        take_page(&mut self.extents, io, table)
    }

    /// Stages a page of [`Stream::next_lpid`], and writes what is staged when it is much.
    pub(super) fn put(
        &mut self,
        io: &mut Io<'_>,
        lpid: Lpid,
        data: PageBuf,
        rows: usize,
        align: Align,
    ) -> Result<(), EngineError> {
        self.rows += rows as u64;
        self.bytes += data.len() as u64;
        self.staged_bytes += data.len() + 16;
        self.staged.push(PageWrite { lpid, data, align });
        let identity = io.store.identity();
        let limit = (FLUSH_BYTES as u64).min(identity.batch_bytes_max / 2) as usize;
        if self.staged_bytes >= limit || self.staged.len() >= (identity.batch_pages_max / 2) as usize {
            self.flush(io.store)?;
        }
        Ok(())
    }

    /// Writes what is staged.
    pub(super) fn flush(&mut self, store: &Store) -> Result<(), EngineError> {
        if !self.staged.is_empty() {
            self.staged_bytes = 0;
            store.write(Batch { writes: std::mem::take(&mut self.staged), ..Batch::default() })?;
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Every page of the stream.
    pub(super) fn lpids(&self) -> impl Iterator<Item = Lpid> + '_ {
        self.extents.iter().flat_map(|e| (0..e.used).map(|p| e.id.page(p)))
    }
}

/// The next unused page of the last extent, or of a fresh one.
pub(super) fn take_page(
    extents: &mut Vec<TableExtent>,
    io: &mut Io<'_>,
    table: TableId,
) -> Result<Lpid, EngineError> {
    if extents.last().is_none_or(|e| usize::from(e.used) == EXTENT_PAGES) {
        extents.push(TableExtent { id: io.allocate(table)?, used: 0, live: 0 });
    }
    let last = extents.last_mut().expect("one was just added");
    let page = last.used;
    last.used += 1;
    last.live += 1;
    Ok(last.id.page(page))
}
