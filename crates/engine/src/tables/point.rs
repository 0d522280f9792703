//! Point lookups: the row that has a key, and its columns, without a scan task as a rule.
//!
//! ```text
//!   key ─► B+-tree index on it? ─► pages that it names ─┐
//!      └─► page index: bounds of each page, kept ───────┴─► few pages ─► key columns, packed ─► row
//!                                                       └─► many pages, or a new table version ─► one scan task
//! ```
//!
//! The bounds of all pages are read by the second lookup, and kept from commit to commit. The first lookup is a scan task, which takes less than
//! reading all bounds. So a table that is loaded between any two lookups costs no more than scans do.
//!
//! Invariant: a page that may hold the key is looked at. The order of rows within a page is only a hint: a row is answered only after
//! its key was compared, and a key is missing only after all rows of a page were filtered.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::sync::Arc;

use lode_base::Lpid;
use lode_command::{Answer, CommandError, PageRange};
use lode_page::{Column, DataType, Value};
use lode_program::{ColumnSource, CompareOp, Expr, Meter, Passed, Program};

use super::bounds::PageBounds;
use super::collect::index_entries;
use super::delta::{RowId, is_delta};
use super::overlay::values_of_image;
use super::table::{RowAddress, Table};
use crate::storage::columns::PageColumns;
use crate::trees::Snapshot;
use crate::{EngineError, HostWork};

/// More pages than this are searched by the drive.
const PAGES_MAX: u64 = 4;
impl Snapshot {
    /// The row of a table with these values in the columns of a PRIMARY KEY or UNIQUE key, as the reading transaction sees it. There is
    /// one value for each column of `key`, not NULL, which fits the column.
    ///
    /// # Errors
    /// As [`Snapshot::rows_by_key`].
    pub fn row_by_key(
        &self,
        t: &Table,
        key: &[u16],
        values: &[Value],
    ) -> Result<Option<RowAddress>, EngineError> {
        Ok(self.rows_by_key(t, key, values, 1)?.pop())
    }

    /// The same, up to `most` rows: a transaction may have put in a key twice, which its commit will refuse.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] for values that do not fit, and for REAL and DOUBLE, whose equal values differ in their bits; or when
    /// the drive fails.
    pub fn rows_by_key(
        &self,
        t: &Table,
        key: &[u16],
        values: &[Value],
        most: usize,
    ) -> Result<Vec<RowAddress>, EngineError> {
        let types = check_key(t, key, values)?;
        let terms = key.iter().zip(values).zip(&types).map(|((&c, v), &data_type)| {
            Expr::compare(CompareOp::Eq, Expr::Column(c), Expr::Const(v.clone(), data_type))
        });
        let filter = Expr::And(terms.collect());
        let is_key = |(_, (_, columns)): &(usize, (Option<&str>, &[u16]))| {
            columns.len() == key.len() && columns.iter().all(|c| key.contains(c))
        };
        if t.has_delta()
            && let Some((n, (_, columns))) = t.keys().enumerate().find(is_key)
        {
            // The columns may be given in another order than the key's.
            let value = |c: &u16| values[key.iter().position(|k| k == c).expect("it is one of them")].clone();
            let ordered: Vec<Value> = columns.iter().map(value).collect();
            return self.rows_by_id(t, n, columns, &ordered, filter, most);
        }
        let pages = match self.index_pages(t, &filter, PAGES_MAX)? {
            Some(found) => found.pages,
            None => match self.bounded_pages(t, key, values, &types)? {
                Some(pages) => pages,
                None => return self.rows_by_scan(t, t.all_ranges(), filter, most),
            },
        };
        if pages.iter().map(|r| u64::from(r.count)).sum::<u64>() > PAGES_MAX {
            return self.rows_by_scan(t, pages, filter, most);
        }
        let lpids = pages.iter().flat_map(|r| (r.first..r.first + r.count).map(|p| r.extent.page(p)));
        let mut rows = Vec::new();
        for lpid in lpids {
            let slots = self.slots_by_key(t, lpid, key, values, &filter, most - rows.len())?;
            rows.extend(slots.into_iter().map(|slot| t.row_address(lpid, slot)));
            if rows.len() >= most {
                break;
            }
        }
        rows.truncate(most);
        Ok(rows)
    }

    /// Rows of a table with a delta, by its `n`-th key.
    fn rows_by_id(
        &self,
        t: &Table,
        n: usize,
        key: &[u16],
        values: &[Value],
        filter: Expr,
        most: usize,
    ) -> Result<Vec<RowAddress>, EngineError> {
        if self.own().is_some_and(|own| own.changes_pages(t)) {
            return self.rows_by_scan(t, t.all_ranges(), filter, most);
        }
        let own = self.own_rows(t).map(|own| &own.rows);
        let mut ids = self.rows_of_key(t, n, key, values)?;
        if let Some(own) = own {
            ids.retain(|id| own.get(*id).is_none());
            ids.extend(own.with_key(t.schema(), key, values)?);
        }
        ids.truncate(most);
        let address = |id: RowId| {
            let (lpid, slot) = id.place(t.id());
            t.row_address(lpid, slot)
        };
        Ok(ids.into_iter().map(address).collect())
    }

    /// The values of one row in these columns, as the reading transaction sees it.
    ///
    /// # Errors
    /// [`EngineError::NoSuchRow`], or when the drive fails.
    pub fn row_values(&self, t: &Table, row: RowAddress, columns: &[u16]) -> Result<Vec<Value>, EngineError> {
        let missing = || EngineError::NoSuchRow { table: t.name().into(), address: row.raw() };
        let lpid = t.page_of(row).ok_or_else(missing)?;
        if is_delta(lpid.extent()) {
            let id = RowId::of_place(lpid, row.slot());
            let values = match self.own_rows(t).and_then(|own| own.rows.get(id)) {
                Some(change) => match &change.after {
                    Some(image) => values_of_image(t, image, columns)?,
                    None => None,
                },
                None => self.values_of_row(t, id, columns)?,
            };
            return values.ok_or_else(missing);
        }
        let page = self.read_columns(lpid, columns)?;
        let at = match &page.slots {
            Some(slots) => slots.binary_search(&row.slot()).map_err(|_| missing())?,
            None => row.slot() as usize,
        };
        if at >= page.rows {
            return Err(missing());
        }
        Ok(page.columns.iter().map(|c| c.value(at)).collect())
    }

    /// The pages that may hold a key by the page index, and those that the reading transaction changed. `None` if the bounds of the
    /// pages are not known, or not worth reading yet.
    fn bounded_pages(
        &self,
        t: &Table,
        key: &[u16],
        values: &[Value],
        types: &[DataType],
    ) -> Result<Option<Vec<PageRange>>, EngineError> {
        // The drive's entries are those of the pages as they were when the transaction began.
        let base = match self.own() {
            Some(own) => own.base().tables().find(|b| b.id() == t.id()),
            None => self.tables().find(|b| std::ptr::eq(b.as_ref(), t)),
        };
        let Some(base) = base else { return Ok(None) };
        let Some(bounds) = self.bounds(base, key)? else { return Ok(None) };
        self.computes(HostWork::Node, bounds.levels());
        let found = bounds.candidates(values, types).into_iter().collect();
        Ok(Some(self.with_own_pages(t, found)))
    }

    /// The pages of the main that may hold a key by the page index; `None` if it says nothing of the key's columns. The bounds of all
    /// pages are read by the first lookup in a version of a table.
    pub(in crate::tables) fn main_pages_of_key(
        &self,
        t: &Table,
        key: &[u16],
        values: &[Value],
    ) -> Result<Option<Vec<Lpid>>, EngineError> {
        let Some(base) = self.as_begun(t) else { return Ok(Some(Vec::new())) };
        let Some(bounds) = self.bounds_now(base, key)? else { return Ok(None) };
        let types: Vec<DataType> =
            key.iter().map(|&c| t.schema().columns[usize::from(c)].data_type).collect();
        Ok(Some(bounds.candidates(values, &types)))
    }

    /// The bounds of all pages of this version of a table, which are read if they are not known; `None` if the page index says nothing
    /// of the key's columns.
    pub(super) fn bounds_now(&self, t: &Table, key: &[u16]) -> Result<Option<Arc<PageBounds>>, EngineError> {
        // Entries may be those of another rule.
        if t.lacks_index_entries() {
            return Ok(None);
        }
        if let Some(known) = t.bounds.0.lock().get(key).cloned().flatten() {
            return Ok(Some(known));
        }
        let Some(read) = self.read_bounds(t, key)?.map(Arc::new) else { return Ok(None) };
        t.bounds.0.lock().insert(key.into(), Some(read.clone()));
        Ok(Some(read))
    }

    /// The bounds of all pages of this version of a table, from the second lookup on.
    pub(super) fn bounds(&self, t: &Table, key: &[u16]) -> Result<Option<Arc<PageBounds>>, EngineError> {
        {
            let mut known = t.bounds.0.lock();
            match known.get(key) {
                Some(Some(bounds)) => return Ok(Some(bounds.clone())),
                Some(None) => {}
                None => {
                    known.insert(key.into(), None);
                    return Ok(None);
                }
            }
        }
        self.bounds_now(t, key)
    }

    /// Reads the bounds of all pages of a table; `None` if no key column is in the page index.
    fn read_bounds(&self, t: &Table, key: &[u16]) -> Result<Option<PageBounds>, EngineError> {
        let rule = t.index_rule()?;
        PageBounds::of(&rule, key, index_entries(self, t, &rule))
    }

    /// The drive looks for the rows.
    fn rows_by_scan(
        &self,
        t: &Table,
        pages: Vec<PageRange>,
        filter: Expr,
        most: usize,
    ) -> Result<Vec<RowAddress>, EngineError> {
        let program = Program::check(t.schema().clone(), Some(filter), Vec::new(), true)?;
        let mut scan = self.scan(t, pages, Arc::new(program), Answer::Rows, Some(most as u64))?;
        let mut rows = Vec::new();
        while rows.len() < most
            && let Some(unit) = scan.next()?
        {
            for page in &unit.pages {
                let slot = |row: u32| page.slots.as_ref().map_or(row, |slots| slots[row as usize]);
                rows.extend((0..page.rows).map(|row| t.row_address(page.lpid, slot(row))));
            }
        }
        rows.truncate(most);
        Ok(rows)
    }

    /// The slots of the rows of a page that have this key: all, or with `most` 1 any of them.
    fn slots_by_key(
        &self,
        t: &Table,
        lpid: Lpid,
        key: &[u16],
        values: &[Value],
        filter: &Expr,
        most: usize,
    ) -> Result<Vec<u32>, EngineError> {
        let page = match self.read_columns(lpid, key) {
            // An entry of an index may be removed after its page.
            Err(EngineError::Drive(CommandError::Unmapped(_))) => return Ok(Vec::new()),
            page => page?,
        };
        let slot = |row: u32| page.slots.as_ref().map_or(row, |slots| slots[row as usize]);
        if most == 1
            && let Some(row) = ascending_search(&page, values)
        {
            return Ok(vec![slot(row)]);
        }
        let program = Program::check(t.schema().clone(), Some(filter.clone()), Vec::new(), true)?;
        let rows = page.rows;
        let mut source = KeyColumns { key, page: &page };
        let passed = Passed::of(&program, &mut source, &mut Meter::default())
            .map_err(|e| EngineError::invalid(t.name(), e.to_string()))?;
        Ok(passed.selection().slots(rows).into_iter().map(slot).collect())
    }
}

/// The types of the key's columns, if the values fit them.
fn check_key(t: &Table, key: &[u16], values: &[Value]) -> Result<Vec<DataType>, EngineError> {
    let invalid = |what: &str| EngineError::invalid(t.name(), format!("a lookup {what}"));
    if key.is_empty() || key.len() != values.len() {
        return Err(invalid("needs one value for each column of the key"));
    }
    let of = |(&c, v): (&u16, &Value)| {
        let column = t.schema().columns.get(usize::from(c)).ok_or_else(|| invalid("names no column"))?;
        match column.data_type {
            DataType::Real | DataType::Double => Err(invalid("by REAL or DOUBLE is not exact")),
            data_type if v.is_null() || !v.fits(data_type) => Err(invalid("needs values of the key's types")),
            data_type => Ok(data_type),
        }
    };
    key.iter().zip(values).map(of).collect()
}

/// The row with this key, if the keys of the page ascend as far as this meets them.
fn ascending_search(page: &PageColumns, values: &[Value]) -> Option<u32> {
    let compare = |row: usize| {
        let each = page.columns.iter().zip(values);
        let mut parts = each.map(|(c, v)| c.value(row).compare(v));
        parts.find(|o| *o != Some(Ordering::Equal)).unwrap_or(Some(Ordering::Equal))
    };
    let (mut low, mut high) = (0, page.rows);
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(middle)? {
            Ordering::Equal => return Some(middle as u32),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    None
}

/// The key columns of a page, by their numbers in the table.
struct KeyColumns<'a> {
    key: &'a [u16],
    page: &'a PageColumns,
}

impl ColumnSource for KeyColumns<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.page.rows
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        let at = self.key.iter().position(|&c| c == column).expect("the filter is on the key");
        Ok(self.page.columns[at].clone())
    }
}
