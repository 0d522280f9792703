//! The columns of one table page, read when they are asked for.
//!
//! ```text
//!   page:   | header, directory | s0 | s1 |   s2   |  s3  |        a prefix opens it; each column is one segment
//!   pieces: [ 0 ............ 4 KB )       [ s2 .......... )        adjacent segments that are wanted together: one read
//! ```
//!
//! Columns that were added to the table after the page was written are in no segment: they are made of the schema's constants.
//!
//! Invariant: no byte is fetched twice, but where a fetch of several columns spans one that is there already.

use std::ops::Range;

use lode_base::{Lpid, PageBuf};
use lode_command::{CommandError, check_answer};
use lode_page::{Column, Constant, DataType, PageError, Schema, TablePage};
use lode_program::{ColumnSource, EvalError};

/// A page of at most this many bytes is read whole: one small read costs what its parts would.
pub(crate) const WHOLE_BYTES_MAX: u32 = 16 << 10;
/// The read unit that the page format assumes: less is not worth asking for.
const UNIT_BYTES: u32 = 4096;
/// Wanted segments with at most this much unwanted between them are read together.
const GAP_BYTES_MAX: u32 = 8 << 10;

/// Reads bytes of a page.
pub(crate) type Fetch<'a> = dyn FnMut(Range<u32>) -> Result<PageBuf, CommandError> + 'a;

/// An open table page and what was read of it.
pub(crate) struct PageColumns<F> {
    lpid: Lpid,
    page: TablePage,
    pieces: Vec<(u32, PageBuf)>,
    columns: Vec<Option<Column>>,
    /// The columns of the schema that the page lacks, behind its own.
    lacking: Vec<(DataType, Constant)>,
    /// Bytes that encoded columns unpacked to.
    unpacked_bytes: u64,
    fetch: F,
}

/// The error for a page that is not what it should be.
pub(crate) fn bad_page(lpid: Lpid, what: impl ToString) -> CommandError {
    CommandError::BadPage { lpid, what: what.to_string() }
}

impl<F: FnMut(Range<u32>) -> Result<PageBuf, CommandError>> PageColumns<F> {
    /// Opens the page `lpid` of `len_bytes` by fetching its start, and holds it against `schema`.
    ///
    /// # Errors
    /// [`CommandError::BadPage`] when it is no table page, or one of another schema; those of `fetch`.
    pub(crate) fn open(
        lpid: Lpid,
        len_bytes: u32,
        schema: &Schema,
        mut fetch: F,
    ) -> Result<Self, CommandError> {
        let wanted = TablePage::prefix_bytes(schema.columns.len()).next_multiple_of(UNIT_BYTES as usize);
        let prefix_bytes =
            if len_bytes <= WHOLE_BYTES_MAX { len_bytes } else { len_bytes.min(wanted as u32) };
        let prefix = fetch(0..prefix_bytes)?;
        let page = TablePage::open(lpid, len_bytes, &prefix).map_err(|e| page_error(lpid, &e))?;
        if page.columns() > schema.columns.len() {
            return Err(other_count(&page, schema));
        }
        Self::of_page(page, prefix, schema, fetch)
    }

    /// The columns of `schema` of an open page, which may have more. `prefix` is its start.
    ///
    /// # Errors
    /// [`CommandError::BadPage`] when it is of another schema.
    pub(crate) fn of_page(
        page: TablePage,
        prefix: PageBuf,
        schema: &Schema,
        fetch: F,
    ) -> Result<Self, CommandError> {
        check_schema(&page, schema)?;
        let columns = vec![None; page.columns()];
        let added = schema.columns.iter().skip(schema.base_columns()).zip(&schema.absent);
        let lacking = added.skip(page.columns() - schema.base_columns().min(page.columns()));
        let lacking = lacking.map(|(c, constant)| (c.data_type, constant.clone())).collect();
        let lpid = page.meta().lpid;
        Ok(Self { lpid, page, pieces: vec![(0, prefix)], columns, lacking, unpacked_bytes: 0, fetch })
    }

    /// Bytes that a decompressor puts out for the columns that were asked for.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes
    }

    /// Reads what is missing of `columns`, neighbours together.
    fn fetch_all(&mut self, columns: &[u16]) -> Result<(), CommandError> {
        let stored = columns.iter().map(|&c| usize::from(c)).filter(|&c| c < self.page.columns());
        let missing = stored.filter(|&c| self.columns[c].is_none());
        let mut segments: Vec<_> = missing.map(|c| self.page.segment(c)).collect();
        segments.retain(|s| self.piece(s).is_none());
        segments.sort_unstable_by_key(|s| (s.start, s.end));
        let mut runs: Vec<Range<u32>> = Vec::new();
        for s in segments {
            match runs.last_mut() {
                Some(run) if s.start <= run.end.saturating_add(GAP_BYTES_MAX) => run.end = run.end.max(s.end),
                _ => runs.push(s),
            }
        }
        for run in runs {
            self.fetch_piece(run)?;
        }
        Ok(())
    }

    /// The bytes of a segment, if they were read.
    fn piece(&self, segment: &Range<u32>) -> Option<PageBuf> {
        self.pieces.iter().find_map(|(start, bytes)| {
            let from = segment.start.checked_sub(*start)? as usize;
            let to = from + segment.len();
            (to <= bytes.len()).then(|| bytes.slice(from..to))
        })
    }

    fn fetch_piece(&mut self, range: Range<u32>) -> Result<PageBuf, CommandError> {
        let start = range.start;
        let bytes = (self.fetch)(range)?;
        self.pieces.push((start, bytes.clone()));
        Ok(bytes)
    }
}

impl<F: FnMut(Range<u32>) -> Result<PageBuf, CommandError>> ColumnSource for PageColumns<F> {
    type Error = CommandError;

    fn rows(&self) -> usize {
        self.page.rows()
    }

    fn column(&mut self, column: u16) -> Result<Column, CommandError> {
        let i = usize::from(column);
        if let Some((data_type, constant)) = i.checked_sub(self.page.columns()).map(|n| &self.lacking[n]) {
            return Ok(Column::constant(*data_type, constant.value(), self.page.rows()));
        }
        if let Some(c) = &self.columns[i] {
            return Ok(c.clone());
        }
        let segment = self.page.segment(i);
        let bytes = match self.piece(&segment) {
            Some(bytes) => bytes,
            None => self.fetch_piece(segment)?,
        };
        let c = self.page.decode(i, bytes).map_err(|e| page_error(self.lpid, &e))?;
        self.unpacked_bytes += self.page.unpacked_bytes(i, &c);
        self.columns[i] = Some(c.clone());
        Ok(c)
    }

    fn announce(&mut self, columns: &[u16]) -> Result<(), CommandError> {
        self.fetch_all(columns)
    }

    fn answered(&self, bytes: u64) -> Result<(), CommandError> {
        check_answer(bytes)
    }
}

fn other_count(page: &TablePage, schema: &Schema) -> CommandError {
    let (got, expected) = (page.columns(), schema.columns.len());
    bad_page(page.meta().lpid, format_args!("it has {got} columns, not {expected}"))
}

/// The error of evaluating a program or a rule over a page.
pub(crate) fn eval_error(lpid: Lpid, e: EvalError<CommandError>) -> CommandError {
    match e {
        EvalError::Source(e) => e,
        EvalError::Overflow => CommandError::Overflow(lpid),
        e => bad_page(lpid, e),
    }
}

/// The page error as what is wrong with the page that the command error names.
pub(crate) fn page_error(lpid: Lpid, e: &PageError) -> CommandError {
    match e {
        PageError::Corrupt { what, at, .. } => bad_page(lpid, format_args!("{what} at byte {at}")),
        e => bad_page(lpid, e),
    }
}

fn check_schema(page: &TablePage, schema: &Schema) -> Result<(), CommandError> {
    let meta = page.meta();
    if meta.schema_version != schema.version {
        let (got, expected) = (meta.schema_version, schema.version);
        return Err(bad_page(meta.lpid, format_args!("it has schema version {got}, not {expected}")));
    }
    if page.columns() < schema.base_columns() {
        return Err(other_count(page, schema));
    }
    for (i, c) in schema.columns.iter().enumerate().take(page.columns()) {
        let (got, expected) = (page.data_type(i), c.data_type);
        if got != expected {
            return Err(bad_page(meta.lpid, format_args!("column {i} is {got}, not {expected}")));
        }
    }
    Ok(())
}
