//! Reads of single columns of pages, through the buffer pool.
//!
//! ```text
//!   LPID, columns ─► pool ─► missing: header and directory (one ranged read) ─► missing segments (one more) ─► pool
//! ```
//!
//! A page is checked against its owner when it enters the pool. What comes out of the pool needs no second check.
//!
//! A page may lack columns that were added to its table after it was written. They are made of the schema's constants, and are not
//! pooled: what a page lacks is another thing for each version of the table.

use std::sync::Arc;

use lode_base::{Lpid, PageBuf, TableId, ViewId};
use lode_command::ReadRequest;
use lode_page::{Column, Schema, TablePage};

use super::pool::{Part, Pooled};
use super::store::Store;
use super::view::View;
use crate::{EngineError, LinkStats};

/// What a page must agree with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageOwner<'a> {
    pub(crate) id: TableId,
    pub(crate) name: &'a str,
    pub(crate) schema: &'a Schema,
}

/// Knows which page is whose.
pub(crate) trait PageOwners {
    /// The owner of a page.
    ///
    /// # Errors
    /// When it has no owner.
    fn owner_of(&self, lpid: Lpid) -> Result<PageOwner<'_>, EngineError>;
}

/// All pages that are asked for are this owner's.
impl PageOwners for PageOwner<'_> {
    fn owner_of(&self, _: Lpid) -> Result<PageOwner<'_>, EngineError> {
        Ok(*self)
    }
}

/// Columns of one page.
#[derive(Clone, Debug)]
pub struct PageColumns {
    /// Rows of the page.
    pub rows: usize,
    /// The columns asked for, in that order.
    pub columns: Vec<Column>,
    /// The row of the page that each row is, where the reading transaction deleted some. `None` when they are 0 to
    /// `rows` - 1.
    pub slots: Option<Vec<u32>>,
    /// Bytes of the whole page; 0 for rows that are in no page yet.
    pub(crate) page_bytes: u64,
    /// Bytes that came up the link for them: 0 when the pool had all of them.
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

/// Columns of a page at a view, through the pool.
pub(crate) fn columns(
    view: &View,
    owners: &impl PageOwners,
    lpid: Lpid,
    wanted: &[u16],
) -> Result<PageColumns, EngineError> {
    let mut link = LinkStats::default();
    let page = page(view, owners, lpid, &mut link)?;
    let (pool, commit) = (view.storage().pool(), view.commit());
    let mut columns: Vec<Option<Column>> = Vec::with_capacity(wanted.len());
    let mut missing: Vec<u16> = Vec::new();
    for &c in wanted {
        if usize::from(c) >= page.columns() {
            columns.push(Some(lacking(owners.owner_of(lpid)?, &page, c)?));
            continue;
        }
        let pooled = match pool.get(lpid, Part::Column(c), commit) {
            Some(Pooled::Column(column)) => Some(column),
            _ => None,
        };
        if pooled.is_none() && !missing.contains(&c) {
            missing.push(c);
        }
        columns.push(pooled);
    }
    if !missing.is_empty() {
        let store = view.storage().store();
        let segments = view.noting_age(segments(store, Some(view.id()), &page, &missing, &mut link))?;
        for (&c, segment) in missing.iter().zip(segments) {
            let column = keep_column(view, &page, c, segment)?;
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
    view: &View,
    owners: &impl PageOwners,
    lpid: Lpid,
    link: &mut LinkStats,
) -> Result<Arc<TablePage>, EngineError> {
    if let Some(page) = pooled_page(view, lpid) {
        return Ok(page);
    }
    let owner = owners.owner_of(lpid)?;
    let (mut prefix, took) = view.read(vec![prefix_request(owner, lpid)])?;
    *link += took;
    if let Some(more) = rest_of_prefix(owner, lpid, &prefix[0]) {
        let (longer, took) = view.read(vec![more])?;
        *link += took;
        prefix = longer;
    }
    keep_header(view, owner, lpid, &prefix[0])
}

/// A column that was added to the table after the page was written.
fn lacking(owner: PageOwner<'_>, page: &TablePage, c: u16) -> Result<Column, EngineError> {
    let invalid = || {
        let what = format!("column {c} of {} was asked for", owner.schema.columns.len());
        EngineError::invalid(owner.name, what)
    };
    owner.schema.absent_column(c.into(), page.rows()).ok_or_else(invalid)
}

/// Header and directory of a page, if the pool has them.
pub(crate) fn pooled_page(view: &View, lpid: Lpid) -> Option<Arc<TablePage>> {
    match view.storage().pool().get(lpid, Part::Page, view.commit()) {
        Some(Pooled::Page(page)) => Some(page),
        _ => None,
    }
}

/// Checks a page's header and directory against its owner, and puts them into the pool.
pub(super) fn keep_header(
    view: &View,
    owner: PageOwner<'_>,
    lpid: Lpid,
    prefix: &PageBuf,
) -> Result<Arc<TablePage>, EngineError> {
    let page = Arc::new(opened(owner, lpid, prefix)?);
    let bytes = TablePage::prefix_bytes(page.columns()) + size_of::<TablePage>();
    view.storage().pool().insert(lpid, Part::Page, view.commit(), Pooled::Page(page.clone()), bytes);
    Ok(page)
}

/// Decodes a column of a page from its segment, and puts it into the pool.
pub(super) fn keep_column(
    view: &View,
    page: &TablePage,
    c: u16,
    segment: PageBuf,
) -> Result<Column, EngineError> {
    // A small part of a large buffer would keep all of the buffer in memory.
    let alone = segment.memory_bytes() <= 2 * segment.len();
    let segment = if alone { segment } else { PageBuf::copy_from(&segment) };
    let column = page.decode(usize::from(c), segment.clone())?;
    let bytes = column.memory_bytes(&segment);
    let pooled = Pooled::Column(column.clone());
    view.storage().pool().insert(page.meta().lpid, Part::Column(c), view.commit(), pooled, bytes);
    Ok(column)
}

/// Columns of a page as it is now, without the pool: for pages that no snapshot shows yet.
pub(crate) fn unpublished(
    store: &Store,
    owner: PageOwner<'_>,
    lpid: Lpid,
    wanted: &[u16],
) -> Result<Vec<Column>, EngineError> {
    Ok(without_pool(store, None, owner, lpid, wanted)?.columns)
}

/// Columns of a page at a view, or as it is now, without the pool.
pub(crate) fn without_pool(
    store: &Store,
    view: Option<ViewId>,
    owner: PageOwner<'_>,
    lpid: Lpid,
    wanted: &[u16],
) -> Result<PageColumns, EngineError> {
    let mut link = LinkStats::default();
    let (mut prefix, took) = store.read(view, vec![prefix_request(owner, lpid)])?;
    link += took;
    if let Some(more) = rest_of_prefix(owner, lpid, &prefix[0]) {
        let (longer, took) = store.read(view, vec![more])?;
        link += took;
        prefix = longer;
    }
    let page = opened(owner, lpid, &prefix[0])?;
    let stored: Vec<u16> = wanted.iter().copied().filter(|&c| usize::from(c) < page.columns()).collect();
    let mut segments = segments(store, view, &page, &stored, &mut link)?.into_iter();
    let column = |&c: &u16| match usize::from(c) < page.columns() {
        true => Ok(page.decode(c.into(), segments.next().expect("one segment a stored column"))?),
        false => lacking(owner, &page, c),
    };
    let columns = wanted.iter().map(column).collect::<Result<_, EngineError>>()?;
    let (link_bytes_up, link_bytes_down) = (link.bytes_up, link.bytes_down);
    let (rows, page_bytes) = (page.rows(), page.page_bytes().into());
    Ok(PageColumns { rows, columns, slots: None, page_bytes, link_bytes_up, link_bytes_down })
}

/// What to read of a page for its header and directory: as many columns as every page of its owner has.
pub(super) fn prefix_request(owner: PageOwner<'_>, lpid: Lpid) -> ReadRequest {
    let prefix_bytes = TablePage::prefix_bytes(owner.schema.base_columns()) as u32;
    ReadRequest { lpid, range: Some(0..prefix_bytes) }
}

/// What to read instead if the directory of a page is longer than what [`prefix_request`] read: the page was written after columns
/// were added.
pub(super) fn rest_of_prefix(owner: PageOwner<'_>, lpid: Lpid, prefix: &PageBuf) -> Option<ReadRequest> {
    let columns = TablePage::columns_of(prefix)?;
    let is_longer = (owner.schema.base_columns() + 1..=owner.schema.columns.len()).contains(&columns);
    let prefix_bytes = TablePage::prefix_bytes(columns) as u32;
    is_longer.then_some(ReadRequest { lpid, range: Some(0..prefix_bytes) })
}

fn opened(owner: PageOwner<'_>, lpid: Lpid, prefix: &PageBuf) -> Result<TablePage, EngineError> {
    let page = TablePage::open_prefix(lpid, prefix)?;
    check_page(owner, lpid, &page)?;
    Ok(page)
}

/// Checks that a page is of this owner and has its schema, perhaps without columns that were added later.
pub(crate) fn check_page(owner: PageOwner<'_>, lpid: Lpid, page: &TablePage) -> Result<(), EngineError> {
    let bad = |what: String| EngineError::BadPage { table: owner.name.into(), lpid, what };
    let schema = owner.schema;
    if page.meta().table != owner.id {
        return Err(bad(format!("it belongs to {:?}", page.meta().table)));
    }
    let may_have = schema.base_columns()..=schema.columns.len();
    if page.meta().schema_version != schema.version || !may_have.contains(&page.columns()) {
        return Err(bad("it is of another schema".into()));
    }
    let stored = schema.columns.iter().enumerate().take(page.columns());
    match stored.into_iter().find(|(i, c)| page.data_type(*i) != c.data_type) {
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
    Ok(segments_of(page, columns, pages))
}

/// What to read of a page for these columns. Empty segments are not read.
pub(super) fn segment_requests(page: &TablePage, columns: &[u16]) -> Vec<ReadRequest> {
    let ranges = columns.iter().map(|&c| page.segment(usize::from(c))).filter(|r| !r.is_empty());
    ranges.map(|r| ReadRequest { lpid: page.meta().lpid, range: Some(r) }).collect()
}

/// The segments of these columns. `pages` answers [`segment_requests`].
pub(super) fn segments_of(page: &TablePage, columns: &[u16], pages: Vec<PageBuf>) -> Vec<PageBuf> {
    let mut pages = pages.into_iter();
    let segment = |&c: &u16| match page.segment(usize::from(c)).is_empty() {
        true => PageBuf::empty(),
        false => pages.next().expect("one answer a request"),
    };
    columns.iter().map(segment).collect()
}
