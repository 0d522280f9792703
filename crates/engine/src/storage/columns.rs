//! Reads of single columns of pages, through the pool.
//!
//! ```text
//!   LPID, columns ─► pool ─► missing: header and directory (one ranged read) ─► missing segments (one more) ─► pool
//! ```
//!
//! Pages are checked against their table when they enter the pool; what comes out of it needs no second check.

use std::convert::Infallible;
use std::sync::Arc;

use lode_base::{Lpid, PageBuf, ViewId};
use lode_command::ReadRequest;
use lode_page::{Column, TablePage};
use lode_program::ColumnSource;

use crate::storage::pool::{Frame, Part};
use crate::storage::store::Store;
use crate::trees::snapshot::Snapshot;
use crate::{EngineError, LinkStats, Table};

/// Columns of one page.
#[derive(Clone, Debug)]
pub struct PageColumns {
    /// Rows of the page.
    pub rows: usize,
    /// The columns asked for, in that order.
    pub columns: Vec<Column>,
    /// The row of the page that each row is, where the reading transaction deleted some; `None` when they are 0 to
    /// `rows` - 1.
    pub slots: Option<Vec<u32>>,
    /// Bytes of the whole page; 0 where it has none of its own yet.
    pub(crate) page_bytes: u64,
    /// Bytes that came up the link for them: 0 when the pool held all.
    pub link_bytes_up: u64,
    /// Bytes that went down the link for them.
    pub link_bytes_down: u64,
}

impl PageColumns {
    /// Rows that are in no page yet.
    pub(crate) fn in_memory(rows: usize, columns: Vec<Column>) -> Self {
        Self { rows, columns, slots: None, page_bytes: 0, link_bytes_up: 0, link_bytes_down: 0 }
    }
}

pub(crate) fn columns(snapshot: &Snapshot, lpid: Lpid, wanted: &[u16]) -> Result<PageColumns, EngineError> {
    let mut link = LinkStats::default();
    let page = page(snapshot, lpid, &mut link)?;
    let (pool, commit) = (&snapshot.shared().pool, snapshot.commit());
    if let Some(c) = wanted.iter().find(|&&c| usize::from(c) >= page.columns()) {
        let table = snapshot.catalog().owner_of(lpid).map_or("", |t| t.name());
        return Err(EngineError::invalid(table, format!("column {c} of {} was asked for", page.columns())));
    }
    let mut columns: Vec<Option<Column>> = Vec::with_capacity(wanted.len());
    let mut missing: Vec<u16> = Vec::new();
    for &c in wanted {
        let held = match pool.get(lpid, Part::Column(c), commit) {
            Some(Frame::Column(column)) => Some(column),
            _ => None,
        };
        if held.is_none() && !missing.contains(&c) {
            missing.push(c);
        }
        columns.push(held);
    }
    if !missing.is_empty() {
        let store = snapshot.store();
        let segments =
            snapshot.noting_age(segments(store, Some(snapshot.view_id()), &page, &missing, &mut link))?;
        for (&c, segment) in missing.iter().zip(segments) {
            let column = keep_column(snapshot, &page, c, segment)?;
            for (slot, _) in columns.iter_mut().zip(wanted).filter(|(_, w)| **w == c) {
                *slot = Some(column.clone());
            }
        }
    }
    let columns = columns.into_iter().map(|c| c.expect("every missing column was read")).collect();
    Ok(PageColumns {
        rows: page.rows(),
        columns,
        slots: None,
        page_bytes: page.page_bytes().into(),
        link_bytes_up: link.bytes_up,
        link_bytes_down: link.bytes_down,
    })
}

/// Header and directory of a page, through the pool.
pub(crate) fn page(
    snapshot: &Snapshot,
    lpid: Lpid,
    link: &mut LinkStats,
) -> Result<Arc<TablePage>, EngineError> {
    if let Some(page) = held(snapshot, lpid) {
        return Ok(page);
    }
    let request = prefix_request(table_of(snapshot, lpid)?, lpid);
    let (prefix, took) =
        snapshot.noting_age(snapshot.store().read(Some(snapshot.view_id()), vec![request]))?;
    *link += took;
    keep_header(snapshot, lpid, &prefix[0])
}

/// Header and directory of a page, if the pool holds them.
pub(crate) fn held(snapshot: &Snapshot, lpid: Lpid) -> Option<Arc<TablePage>> {
    match snapshot.shared().pool.get(lpid, Part::Page, snapshot.commit()) {
        Some(Frame::Page(page)) => Some(page),
        _ => None,
    }
}

/// The table that a page belongs to.
pub(crate) fn table_of(snapshot: &Snapshot, lpid: Lpid) -> Result<&Table, EngineError> {
    let no_table = || EngineError::invalid("", format!("page {lpid} belongs to no table"));
    snapshot.catalog().owner_of(lpid).map(|t| &**t).ok_or_else(no_table)
}

/// Checks a page's header and directory against its table, and puts them into the pool.
pub(crate) fn keep_header(
    snapshot: &Snapshot,
    lpid: Lpid,
    prefix: &PageBuf,
) -> Result<Arc<TablePage>, EngineError> {
    let page = Arc::new(checked(table_of(snapshot, lpid)?, lpid, prefix)?);
    let held_bytes = TablePage::prefix_bytes(page.columns()) + size_of::<TablePage>();
    let (pool, commit) = (&snapshot.shared().pool, snapshot.commit());
    pool.insert(lpid, Part::Page, commit, Frame::Page(page.clone()), held_bytes);
    Ok(page)
}

/// Decodes a column of a page from its segment, and puts it into the pool.
pub(crate) fn keep_column(
    snapshot: &Snapshot,
    page: &TablePage,
    c: u16,
    segment: PageBuf,
) -> Result<Column, EngineError> {
    // A small part of a large buffer would keep all of it alive.
    let alone = segment.memory_bytes() <= 2 * segment.len();
    let segment = if alone { segment } else { PageBuf::copy_from(&segment) };
    let held_bytes = segment.memory_bytes();
    let column = page.decode(usize::from(c), segment)?;
    let held_bytes = held_bytes.max(column.link_bytes());
    let (pool, commit) = (&snapshot.shared().pool, snapshot.commit());
    pool.insert(page.meta().lpid, Part::Column(c), commit, Frame::Column(column.clone()), held_bytes);
    Ok(column)
}

/// Columns of a page as it is now, past the pool: for pages that no snapshot shows yet.
pub(crate) fn unpublished(
    store: &Store,
    table: &Table,
    lpid: Lpid,
    wanted: &[u16],
) -> Result<Vec<Column>, EngineError> {
    Ok(past_pool(store, None, table, lpid, wanted)?.columns)
}

/// Columns of a page at a view, or as it is now, past the pool.
pub(crate) fn past_pool(
    store: &Store,
    view: Option<ViewId>,
    table: &Table,
    lpid: Lpid,
    wanted: &[u16],
) -> Result<PageColumns, EngineError> {
    let mut link = LinkStats::default();
    let page = open(store, view, table, lpid, &mut link)?;
    let segments = segments(store, view, &page, wanted, &mut link)?;
    let columns = wanted.iter().zip(segments).map(|(&c, segment)| page.decode(usize::from(c), segment));
    let columns = columns.collect::<Result<_, _>>()?;
    let (link_bytes_up, link_bytes_down) = (link.bytes_up, link.bytes_down);
    let (rows, page_bytes) = (page.rows(), page.page_bytes().into());
    Ok(PageColumns { rows, columns, slots: None, page_bytes, link_bytes_up, link_bytes_down })
}

fn open(
    store: &Store,
    view: Option<ViewId>,
    table: &Table,
    lpid: Lpid,
    link: &mut LinkStats,
) -> Result<TablePage, EngineError> {
    let (prefix, took) = store.read(view, vec![prefix_request(table, lpid)])?;
    *link += took;
    checked(table, lpid, &prefix[0])
}

/// What to read of a page for its header and directory.
pub(crate) fn prefix_request(table: &Table, lpid: Lpid) -> ReadRequest {
    let prefix_bytes = TablePage::prefix_bytes(table.schema().columns.len()) as u32;
    ReadRequest { lpid, range: Some(0..prefix_bytes) }
}

fn checked(table: &Table, lpid: Lpid, prefix: &PageBuf) -> Result<TablePage, EngineError> {
    let page = TablePage::open_prefix(lpid, prefix)?;
    check_page(table, lpid, &page)?;
    Ok(page)
}

/// Whether a page is of this table and its schema.
pub(crate) fn check_page(table: &Table, lpid: Lpid, page: &TablePage) -> Result<(), EngineError> {
    let bad = |what: String| EngineError::BadPage { table: table.name().into(), lpid, what };
    let schema = table.schema();
    if page.meta().table != table.id() {
        return Err(bad(format!("it belongs to {:?}", page.meta().table)));
    }
    if page.meta().schema_version != schema.version || page.columns() != schema.columns.len() {
        return Err(bad("it is of another schema".into()));
    }
    match schema.columns.iter().enumerate().find(|(i, c)| page.data_type(*i) != c.data_type) {
        Some((i, c)) => {
            Err(bad(format!("column {i} is {} in it and {} in the table", page.data_type(i), c.data_type)))
        }
        None => Ok(()),
    }
}

fn segments(
    store: &Store,
    view: Option<ViewId>,
    page: &TablePage,
    columns: &[u16],
    link: &mut LinkStats,
) -> Result<Vec<PageBuf>, EngineError> {
    let requests = segment_requests(page, columns);
    let pages = match requests.is_empty() {
        true => Vec::new(),
        false => {
            let (pages, took) = store.read(view, requests)?;
            *link += took;
            pages
        }
    };
    Ok(dealt(page, columns, pages))
}

/// What to read of a page for these columns; nothing for those whose segments are empty.
pub(crate) fn segment_requests(page: &TablePage, columns: &[u16]) -> Vec<ReadRequest> {
    let ranges = columns.iter().map(|&c| page.segment(usize::from(c))).filter(|r| !r.is_empty());
    ranges.map(|r| ReadRequest { lpid: page.meta().lpid, range: Some(r) }).collect()
}

/// The segments of these columns, of which `pages` has those that are not empty.
pub(crate) fn dealt(page: &TablePage, columns: &[u16], pages: Vec<PageBuf>) -> Vec<PageBuf> {
    let mut pages = pages.into_iter();
    let segment = |&c: &u16| match page.segment(usize::from(c)).is_empty() {
        true => PageBuf::empty(),
        false => pages.next().expect("one answer a request"),
    };
    columns.iter().map(segment).collect()
}

/// All columns of a page, as index rules read them.
pub(crate) struct Whole<'a>(pub(crate) &'a [Column]);

impl ColumnSource for Whole<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.0[0].rows()
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        Ok(self.0[usize::from(column)].clone())
    }
}
