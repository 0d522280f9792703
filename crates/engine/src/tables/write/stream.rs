//! A stream of pages on their way to fresh extents, which nothing names until the commit.
//!
//! ```text
//!   page ─► staged ─► (a few MB) ─► batch ─► drive          the last ones may travel with the commit
//! ```

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, OwnerId, PageBuf, TableId};
use lode_command::{Align, Batch, PageWrite};
use lode_page::PageError;

use super::cutter::{Cutter, Shape};
use crate::storage::Storage;
use crate::storage::columns::without_pool;
use crate::storage::extents::Extents;
use crate::storage::store::Store;
use crate::tables::own::PageEdit;
use crate::tables::table::{Table, TableExtent};
use crate::{EngineError, HostWork, Set};

/// Bytes of a batch of staged pages.
const FLUSH_BYTES: usize = 4 << 20;

/// Where pages are written to, and the extents that the transaction got.
pub(super) struct Io<'a> {
    pub(super) store: &'a Store,
    extents: &'a Extents,
    fresh: &'a mut Vec<ExtentId>,
}

impl<'a> Io<'a> {
    pub(super) fn new(storage: &'a Storage, fresh: &'a mut Vec<ExtentId>) -> Self {
        Self { store: storage.store(), extents: storage.extents(), fresh }
    }

    pub(super) fn allocate(&mut self, owner: OwnerId) -> Result<ExtentId, EngineError> {
        let extent = self.extents.allocate_unpublished(owner)?;
        self.fresh.push(extent);
        Ok(extent)
    }

    /// The host put so many rows into pages.
    pub(super) fn places(&self, rows: usize) {
        if let Some(host) = self.store.host() {
            host.computes(HostWork::Place, rows as u64);
        }
    }

    /// Writes a page that nobody reads after a crash.
    pub(super) fn write_aside(&self, page: PageWrite) -> Result<(), EngineError> {
        self.store.write(Batch { writes: vec![page], unforced: true, ..Batch::default() }).map(drop)
    }
}

/// Hands out the pages of fresh extents that are no table's.
#[derive(Default)]
pub(super) struct FreshPages {
    /// The last extent, and how many of its pages were handed out.
    last: Option<(ExtentId, u16)>,
}

impl FreshPages {
    /// The next page. If it is in another extent, `owner` tells whose that is.
    pub(super) fn next(
        &mut self,
        io: &mut Io<'_>,
        owner: impl FnOnce() -> OwnerId,
    ) -> Result<Lpid, EngineError> {
        let (extent, used) = match self.last {
            Some((extent, used)) if usize::from(used) < EXTENT_PAGES => (extent, used),
            _ => (io.allocate(owner())?, 0),
        };
        self.last = Some((extent, used + 1));
        Ok(extent.page(used))
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
    /// Pages that lost all their rows.
    gone: Set<Lpid>,
    /// Whether an edit changed a page.
    is_edited: bool,
    /// A savepoint was made. Later pages go to another extent, so that a rollback forgets whole extents.
    pub(super) sealed: bool,
}

impl Stream {
    /// The next page.
    pub(super) fn next_lpid(&mut self, io: &mut Io<'_>, table: TableId) -> Result<Lpid, EngineError> {
        if std::mem::take(&mut self.sealed) && !self.extents.is_empty() {
            self.extents.push(TableExtent { id: io.allocate(table.into())?, used: 0, live: 0 });
        }
        take_page(&mut self.extents, io, table)
    }

    /// Stages a page of [`Stream::next_lpid`]. If much is staged, writes it.
    pub(super) fn put(
        &mut self,
        io: &mut Io<'_>,
        lpid: Lpid,
        data: PageBuf,
        rows: usize,
        align: Align,
    ) -> Result<(), EngineError> {
        io.places(rows);
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

    /// Writes the staged pages.
    pub(super) fn flush(&mut self, store: &Store) -> Result<(), EngineError> {
        if !self.staged.is_empty() {
            self.staged_bytes = 0;
            store.write(Batch { writes: std::mem::take(&mut self.staged), ..Batch::default() })?;
        }
        Ok(())
    }

    /// Whether a page is in the stream.
    pub(super) fn holds(&self, lpid: Lpid) -> bool {
        self.extents.iter().any(|e| e.id == lpid.extent())
    }

    /// Applies an edit to a page that was written: afterwards there is no page, the page, or several pages.
    pub(super) fn edit(
        &mut self,
        io: &mut Io<'_>,
        t: &Table,
        lpid: Lpid,
        edit: &PageEdit,
        shape: &Shape,
    ) -> Result<(), EngineError> {
        self.is_edited = true;
        let all: Vec<u16> = (0..t.schema().columns.len() as u16).collect();
        let page = without_pool(io.store, None, t.page_owner(), lpid, &all)?;
        let columns = edit.apply(&all, page.columns)?;
        self.rows -= page.rows as u64;
        self.bytes -= page.page_bytes;
        let mut cutter = Cutter::new(shape.clone());
        if columns[0].rows() == 0 {
            let extent = self.extents.iter_mut().find(|e| e.id == lpid.extent());
            extent.expect("the page is one of the stream").live -= 1;
            self.gone.insert(lpid);
            io.store.write(Batch { trims: vec![lpid], ..Batch::default() })?;
            return Ok(());
        }
        match shape.encode(lpid, &columns, shape.limit_bytes) {
            Ok(data) => return self.put(io, lpid, data, columns[0].rows(), shape.align()),
            Err(PageError::TooLarge { .. }) => cutter.push(columns),
            Err(e) => return Err(e.into()),
        }
        let mut place = Some(lpid);
        while cutter.rows() > 0 {
            let lpid = match place.take() {
                Some(lpid) => lpid,
                None => self.next_lpid(io, t.id())?,
            };
            let cut = cutter.cut(lpid)?;
            self.put(io, lpid, cut.data, cut.rows, shape.align())?;
        }
        Ok(())
    }

    /// Whether all pages are as they were loaded.
    pub(super) fn is_untouched(&self) -> bool {
        !self.is_edited
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Every page of the stream.
    pub(super) fn lpids(&self) -> impl Iterator<Item = Lpid> + '_ {
        let used = self.extents.iter().flat_map(|e| (0..e.used).map(|p| e.id.page(p)));
        used.filter(|l| !self.gone.contains(l))
    }
}

/// The next unused page of the last extent, or of a fresh one.
pub(super) fn take_page(
    extents: &mut Vec<TableExtent>,
    io: &mut Io<'_>,
    table: TableId,
) -> Result<Lpid, EngineError> {
    if extents.last().is_none_or(|e| usize::from(e.used) == EXTENT_PAGES) {
        extents.push(TableExtent { id: io.allocate(table.into())?, used: 0, live: 0 });
    }
    let last = extents.last_mut().expect("one was just added");
    let page = last.used;
    last.used += 1;
    last.live += 1;
    Ok(last.id.page(page))
}
