//! Cuts rows into pages of approximately the wanted size.
//!
//! ```text
//!   parts ─► as many rows as should fit (by the bytes a row of the page before) ─► encode ─► too large? encode fewer
//! ```
//!
//! Row pages are filled to approximately 8 KB, or more for tables with very many columns, or to the size that their table has. Column pages are filled to
//! approximately 1 MB. A single row that is longer gets a page of its own, up to the largest page of the drive.

use std::collections::VecDeque;

use lode_base::{CommitNo, Lpid, PageBuf, TableId};
use lode_command::Align;
use lode_page::encoding::ROWS_MAX;
use lode_page::packed::BLOCK_ROWS;
use lode_page::{Column, EncodingChoice, PageError, PageKind, PageMeta, TablePage, Values, encode_as, ops};

use crate::EngineError;
use crate::tables::definition::Layout;
use crate::tables::table::Table;

/// Bytes that a column page is filled to.
const COLUMN_PAGE_BYTES: usize = 1 << 20;

/// The most memory for the rows of one encoded page. A loader holds these rows in memory, however small the page
/// becomes.
const ENCODED_MEMORY_BYTES: usize = 16 << 20;

/// The kind, size and encodings of the pages to cut.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    table: TableId,
    name: String,
    schema_version: u32,
    types: Vec<lode_page::DataType>,
    /// The encoding of each column, in column order; empty if all columns take whole bytes.
    encodings: Vec<EncodingChoice>,
    pub(super) kind: PageKind,
    pub(super) limit_bytes: usize,
    page_bytes_max: usize,
    align: Align,
}

impl Shape {
    pub(super) fn new(t: &Table, kind: PageKind, page_bytes_max: usize) -> Self {
        let types: Vec<_> = t.schema().columns.iter().map(|c| c.data_type).collect();
        let options = &t.def().options;
        let wanted = match kind {
            PageKind::Row => t.def().row_page_bytes(),
            PageKind::Column => COLUMN_PAGE_BYTES,
        };
        let align = match kind {
            PageKind::Row if options.page_bytes.is_none() => Align::Cell,
            PageKind::Row | PageKind::Column => Align::ReadUnit,
        };
        let has_it = |e: &EncodingChoice| kind == PageKind::Column || e.is_whole_bytes();
        let mut encodings: Vec<_> = (0..types.len() as u16)
            .map(|c| Some(options.encoding.of(c)).filter(has_it).unwrap_or(EncodingChoice::Plain))
            .collect();
        if encodings.iter().all(|&e| e == EncodingChoice::Plain) {
            encodings.clear();
        }
        Self {
            table: t.id(),
            name: t.name().into(),
            schema_version: t.schema().version,
            types,
            encodings,
            kind,
            limit_bytes: wanted.min(page_bytes_max),
            page_bytes_max,
            align,
        }
    }

    /// Returns the shape of the pages that loads into this table make.
    pub(super) fn of_loads(t: &Table, page_bytes_max: usize) -> Self {
        let kind = if t.def().options.layout == Layout::Row { PageKind::Row } else { PageKind::Column };
        Self::new(t, kind, page_bytes_max)
    }

    /// Returns the shape of pages of values that only their transaction reads.
    pub(super) fn of_values(types: Vec<lode_page::DataType>, page_bytes_max: usize) -> Self {
        Self {
            table: TableId::new(0),
            name: String::new(),
            schema_version: 0,
            types,
            encodings: Vec::new(),
            kind: PageKind::Column,
            limit_bytes: COLUMN_PAGE_BYTES.min(page_bytes_max),
            page_bytes_max,
            align: Align::ReadUnit,
        }
    }

    pub(super) fn align(&self) -> Align {
        self.align
    }

    pub(super) fn encode(
        &self,
        lpid: Lpid,
        columns: &[Column],
        limit_bytes: usize,
    ) -> Result<PageBuf, PageError> {
        let (table, schema_version) = (self.table, self.schema_version);
        let meta = PageMeta { lpid, table, schema_version, kind: self.kind, commit: CommitNo::new(0) };
        encode_as(&meta, columns, &self.encodings, limit_bytes)
    }
}

impl Shape {
    /// Encodes the rows of a page again, some of whose columns stay as they are; `None` if they do not fit. A column that stays has the
    /// encoding that it had: nothing else is tried.
    pub(super) fn page_again(
        &self,
        lpid: Lpid,
        columns: &[Column],
        stays: &[bool],
    ) -> Result<Option<PageBuf>, EngineError> {
        let mut shape = self.clone();
        for (choice, (column, stays)) in shape.encodings.iter_mut().zip(columns.iter().zip(stays)) {
            let is_encoded = matches!(column.values(), Values::Packed(_) | Values::Symbols(_));
            if *stays && !is_encoded && !choice.is_matchable() {
                *choice = EncodingChoice::Plain;
            }
        }
        match shape.encode(lpid, columns, self.limit_bytes) {
            Ok(data) => Ok(Some(data)),
            Err(PageError::TooLarge { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

/// Rows that are to be cut into pages.
#[derive(Clone, Debug)]
pub(super) struct Cutter {
    pub(super) shape: Shape,
    /// Each part has all columns of some of the rows.
    parts: VecDeque<Vec<Column>>,
    /// Rows of the first part that were already cut.
    front_rows: usize,
    rows: usize,
    /// Bytes per row of the last page; 0 before the first page.
    row_bytes: f64,
    /// If present, pages are cut to this many rows, whatever their bytes; a page may still get fewer.
    page_rows: Option<usize>,
}

/// A cut page.
pub(super) struct Cut {
    pub(super) data: PageBuf,
    pub(super) rows: usize,
}

impl Cutter {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, parts: VecDeque::new(), front_rows: 0, rows: 0, row_bytes: 0.0, page_rows: None }
    }

    /// Makes a cutter for the rows of a page that grew to `needed_bytes`. It cuts pages of approximately equal size.
    pub(super) fn evenly(shape: Shape, columns: Vec<Column>, needed_bytes: usize) -> Self {
        let pages = needed_bytes / (shape.limit_bytes * 7 / 8) + 1;
        let mut cutter = Self::new(shape);
        cutter.page_rows = Some(columns[0].rows().div_ceil(pages));
        cutter.push(columns);
        cutter
    }

    /// From now on pages get equal numbers of the rows that are there.
    pub(super) fn even_out(&mut self) {
        if self.rows > 0 {
            let pages = self.rows.div_ceil(self.target_rows());
            self.page_rows = Some(self.rows.div_ceil(pages));
        }
    }

    /// From now on pages get as many rows as they hold.
    pub(super) fn fill_pages(&mut self) {
        self.page_rows = None;
    }

    pub(super) fn push(&mut self, columns: Vec<Column>) {
        let rows = columns[0].rows();
        if rows > 0 {
            self.rows += rows;
            self.parts.push_back(columns);
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The table has more columns from now on, and pages have this shape.
    pub(super) fn add_columns(&mut self, t: &Table, shape: Shape) {
        for part in &mut self.parts {
            let rows = part[0].rows();
            t.schema().complete(part, rows);
        }
        self.shape = shape;
    }

    /// Returns the rows that are left, in parts.
    pub(super) fn parts(&self) -> impl Iterator<Item = Vec<Column>> + '_ {
        self.parts.iter().enumerate().map(|(i, part)| match i {
            0 if self.front_rows > 0 => without(part, self.front_rows),
            _ => part.clone(),
        })
    }

    /// Returns whether the rows that are left are enough for a full page.
    pub(super) fn has_full(&self) -> bool {
        self.rows > 0 && self.rows >= self.target_rows()
    }

    /// Returns whether the rows that are left are enough for half a page.
    pub(super) fn is_half_full(&self) -> bool {
        self.rows > 0 && self.rows * 2 >= self.target_rows()
    }

    /// Returns whether rows that take so many bytes of a page fill less than a third of one.
    pub(super) fn is_small(&self, columns: &[Column], page_bytes: u64) -> bool {
        let rows = columns[0].rows();
        page_bytes * 3 < self.shape.limit_bytes as u64
            && (self.shape.encodings.is_empty() || rows * 3 < self.encoded_rows(ROWS_MAX, Some(columns)))
    }

    fn target_rows(&self) -> usize {
        if let Some(rows) = self.page_rows {
            return rows;
        }
        let row_bytes = match self.parts.front() {
            Some(_) if self.row_bytes > 0.0 => self.row_bytes,
            Some(part) => bytes_of(part) as f64 / part[0].rows() as f64,
            None => 1.0,
        };
        let room = self.shape.limit_bytes
            - TablePage::prefix_bytes(self.shape.types.len()).min(self.shape.limit_bytes / 2);
        // A low estimate costs less than a page that must be encoded again.
        let rows = ((room as f64 * 0.92 / row_bytes.max(0.01)) as usize).max(1);
        match self.shape.encodings.is_empty() {
            true => rows,
            false => self.encoded_rows(rows, self.parts.front().map(|part| &part[..])),
        }
    }

    /// Limits `rows` to what an encoded page of rows as these may have. Large pages get whole blocks of rows, which fill their lines.
    fn encoded_rows(&self, rows: usize, like: Option<&[Column]>) -> usize {
        let memory = like.map_or(1, |part| bytes_of(part) / part[0].rows());
        let rows = rows.min(ROWS_MAX).min(ENCODED_MEMORY_BYTES / memory.max(1)).max(1);
        if rows < 4 * BLOCK_ROWS { rows } else { rows / BLOCK_ROWS * BLOCK_ROWS }
    }

    /// Cuts the next page.
    ///
    /// # Panics
    /// When no rows are left.
    pub(super) fn cut(&mut self, lpid: Lpid) -> Result<Cut, EngineError> {
        let target = self.target_rows();
        let mut columns = self.take(target.min(self.rows));
        loop {
            let rows = columns[0].rows();
            let limit_bytes = if rows == 1 { self.shape.page_bytes_max } else { self.shape.limit_bytes };
            match self.shape.encode(lpid, &columns, limit_bytes) {
                Ok(data) => {
                    if rows * 2 > target {
                        self.row_bytes = data.len() as f64 / rows as f64;
                    }
                    return Ok(Cut { data, rows });
                }
                Err(PageError::TooLarge { needed_bytes, limit_bytes, .. }) if rows == 1 => {
                    let table = self.shape.name.clone();
                    return Err(EngineError::RowTooLong { table, row_bytes: needed_bytes, limit_bytes });
                }
                Err(PageError::TooLarge { needed_bytes, limit_bytes, .. }) => {
                    let fitting = rows as f64 * limit_bytes as f64 / needed_bytes as f64 * 0.95;
                    let keep = (fitting as usize).clamp(1, rows - 1);
                    self.put_back(columns.iter().map(|c| ops::slice(c, keep, rows - keep)).collect());
                    columns = columns.iter().map(|c| ops::slice(c, 0, keep)).collect();
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Removes and returns the first `rows` rows, as one part.
    fn take(&mut self, rows: usize) -> Vec<Column> {
        assert!(rows > 0, "a page has rows");
        let mut taken: Vec<Vec<Column>> = Vec::new();
        let mut missing = rows;
        while missing > 0 {
            let part = self.parts.front().expect("the rows are there");
            let (from, left) = (self.front_rows, part[0].rows() - self.front_rows);
            let rows = left.min(missing);
            missing -= rows;
            if rows < left {
                taken.push(part.iter().map(|c| ops::slice(c, from, rows)).collect());
                self.front_rows += rows;
                continue;
            }
            let part = self.parts.pop_front().expect("it was just looked at");
            self.front_rows = 0;
            taken.push(if from > 0 { without(&part, from) } else { part });
        }
        self.rows -= rows;
        concat(&self.shape.types, taken)
    }

    fn put_back(&mut self, part: Vec<Column>) {
        if self.front_rows > 0 {
            let front = self.parts.pop_front().expect("rows of it were cut");
            let rest = without(&front, std::mem::take(&mut self.front_rows));
            self.parts.push_front(rest);
        }
        self.rows += part[0].rows();
        self.parts.push_front(part);
    }
}

/// Returns a part without its first `rows` rows.
fn without(part: &[Column], rows: usize) -> Vec<Column> {
    part.iter().map(|c| ops::slice(c, rows, c.rows() - rows)).collect()
}

/// Returns the approximate bytes of rows in memory.
pub(super) fn bytes_of(columns: &[Column]) -> usize {
    columns.iter().map(Column::link_bytes).sum()
}

/// Concatenates the rows of several parts.
pub(super) fn concat(types: &[lode_page::DataType], mut parts: Vec<Vec<Column>>) -> Vec<Column> {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let column = |(c, &t): (usize, &lode_page::DataType)| {
        let parts: Vec<Column> = parts.iter().map(|p| p[c].clone()).collect();
        ops::concat(t, &parts)
    };
    types.iter().enumerate().map(column).collect()
}

#[cfg(test)]
mod tests {
    use lode_page::{ColumnBuilder, DataType, Value, decode_page};

    use super::*;

    fn plain() -> Encodings {
        Encodings { all: EncodingChoice::Plain, ..Encodings::default() }
    }
    use crate::storage::catalog::root_lpid;
    use crate::tables::definition::{ColumnDef, Deferral, Encodings, ROW_PAGE_BYTES, TableDef, TableOptions};

    fn table(layout: Layout) -> Table {
        let column = ColumnDef::new;
        let def = TableDef {
            name: "t".into(),
            columns: vec![column("k", DataType::BigInt), column("s", DataType::Text)],
            primary_key: Vec::new(),
            primary_key_deferral: Deferral::None,
            primary_key_name: None,
            options: TableOptions { layout, encoding: plain(), ..TableOptions::default() },
            constraints: Vec::new(),
        };
        Table::new(TableId::new(1), def, Vec::new(), Vec::new(), root_lpid())
    }

    fn rows(keys: std::ops::Range<i64>, width: usize) -> Vec<Column> {
        let (mut k, mut s) = (ColumnBuilder::new(DataType::BigInt), ColumnBuilder::new(DataType::Text));
        for key in keys {
            k.push(&Value::Int(key)).unwrap();
            s.push(&Value::text(&format!("{key}{}", "x".repeat(width)))).unwrap();
        }
        vec![k.finish(), s.finish()]
    }

    /// Cuts all rows, and checks that the pages hold them in order. Returns the bytes of the pages.
    fn cut_all(mut cutter: Cutter, total: i64) -> Vec<usize> {
        let (mut sizes, mut next) = (Vec::new(), 0);
        let lpid = Lpid::from_raw(5000).unwrap();
        while cutter.rows() > 0 {
            let held: usize = cutter.parts().map(|p| p[0].rows()).sum();
            assert_eq!(held, cutter.rows());
            let cut = cutter.cut(lpid).unwrap();
            let (page, columns) = decode_page(lpid, &cut.data).unwrap();
            assert_eq!(page.rows(), cut.rows);
            for row in 0..cut.rows {
                assert_eq!(columns[0].value(row), Value::Int(next));
                next += 1;
            }
            sizes.push(cut.data.len());
        }
        assert_eq!(next, total);
        sizes
    }

    #[test]
    fn pages_are_nearly_full_and_never_too_full() {
        for (kind, limit) in [(PageKind::Row, ROW_PAGE_BYTES), (PageKind::Column, COLUMN_PAGE_BYTES)] {
            let mut cutter = Cutter::new(Shape::new(&table(Layout::Auto), kind, 1 << 20));
            for part in 0..30 {
                // The rows grow, so the estimate is too low repeatedly.
                cutter.push(rows(part * 1000..(part + 1) * 1000, 20 + 10 * part as usize));
            }
            let sizes = cut_all(cutter, 30_000);
            assert!(sizes.iter().all(|&s| s <= limit), "{sizes:?}");
            let full: usize = sizes.iter().sum();
            assert!(full >= limit * sizes.len() * 3 / 5, "{full} bytes in {} pages", sizes.len());
        }
    }

    #[test]
    fn a_long_row_has_a_page_of_its_own() {
        let shape = || Shape::new(&table(Layout::Row), PageKind::Row, 100_000);
        let mut cutter = Cutter::new(shape());
        cutter.push(rows(0..3, 10));
        cutter.push(rows(3..5, 50_000));
        cutter.push(rows(5..8, 10));
        let sizes = cut_all(cutter, 8);
        assert_eq!(sizes.iter().filter(|&&s| s > 50_000).count(), 2, "{sizes:?}");
        let mut cutter = Cutter::new(shape());
        cutter.push(rows(0..2, 100_001));
        let e = cutter.cut(Lpid::from_raw(1).unwrap()).err().unwrap();
        assert!(matches!(e, EngineError::RowTooLong { limit_bytes: 100_000, .. }), "{e}");
    }

    #[test]
    fn an_even_cut_leaves_no_crumb() {
        let columns = rows(0..1000, 40);
        let shape = Shape::new(&table(Layout::Row), PageKind::Row, 1 << 20);
        let needed = match shape.encode(Lpid::from_raw(1).unwrap(), &columns, shape.limit_bytes) {
            Err(PageError::TooLarge { needed_bytes, .. }) => needed_bytes,
            r => panic!("{r:?}"),
        };
        let sizes = cut_all(Cutter::evenly(shape, columns, needed), 1000);
        assert!(sizes.iter().min().unwrap() * 5 > sizes.iter().max().unwrap() * 4, "{sizes:?}");
    }
}
