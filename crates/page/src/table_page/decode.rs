//! Opens table pages and decodes their segments. All bytes are untrusted until this module has checked them.

use std::ops::Range;
use std::sync::Arc;

use lode_base::{CELL_BYTES, CommitNo, Lpid, PageBuf, TableId};

use super::header::{
    self, ENTRY_BYTES, Encoding, Entry, HEADER_BYTES, Header, Held, MAGIC, checksum, kind_tag,
};
use super::{PageKind, PageMeta, STRING_BYTES_MAX, string_bytes};
use crate::encoding::{self, Shape};
use crate::packed::Runs;
use crate::{Column, DataType, PageError, Value, Values, bits, ops};

/// The checked header and directory of a table page.
#[derive(Clone, Debug)]
pub struct TablePage {
    meta: PageMeta,
    rows: u32,
    page_bytes: u32,
    columns: Vec<Checked>,
}

#[derive(Clone, Debug)]
struct Checked {
    entry: Entry,
    data_type: DataType,
    held: Held,
}

/// The parts of a segment of an encoded column.
struct Cut {
    validity: Option<PageBuf>,
    body: PageBuf,
}

impl TablePage {
    /// Returns the bytes at the start of a page of `columns` columns that [`TablePage::open`] needs.
    pub const fn prefix_bytes(columns: usize) -> usize {
        HEADER_BYTES + columns * ENTRY_BYTES
    }

    /// Checks header and directory. `prefix` is the start of the page: at least [`TablePage::prefix_bytes`] bytes.
    /// `page_bytes` is the page's length in the mapping.
    ///
    /// # Errors
    /// [`PageError::Corrupt`] or [`PageError::NewerVersion`]. The function never panics. It allocates only in
    /// proportion to the directory.
    pub fn open(lpid: Lpid, page_bytes: u32, prefix: &[u8]) -> Result<Self, PageError> {
        let require =
            |ok: bool, what, at| if ok { Ok(()) } else { Err(PageError::Corrupt { lpid, what, at }) };
        require(prefix.len() >= HEADER_BYTES, "the bytes end within the header", prefix.len())?;
        let h: Header = bytemuck::pod_read_unaligned(&prefix[..HEADER_BYTES]);
        require(h.magic == MAGIC, "not a table page", 0)?;
        let kind = [PageKind::Row, PageKind::Column].into_iter().find(|&k| kind_tag(k).0 == h.kind);
        let kind = kind.ok_or(PageError::Corrupt { lpid, what: "an unknown kind of table page", at: 4 })?;
        let known = kind_tag(kind).1;
        if h.version > known {
            return Err(PageError::NewerVersion { lpid, version: h.version, known });
        }
        require(h.version > 0, "version 0", 5)?;
        let end = Self::prefix_bytes(h.columns.into());
        require(prefix.len() >= end, "the bytes end within the directory", prefix.len())?;
        let directory = &prefix[HEADER_BYTES..end];
        require(h.checksum == checksum(lpid, &h, directory), "wrong checksum of header and directory", 60)?;
        require(h.lpid == lpid.raw(), "the page of another LPID", 16)?;
        require(h.flags == 0 && h.reserved == [0; 18], "unknown flags", 6)?;
        require(h.page_bytes == page_bytes, "the page is not as long as it says", 12)?;
        require(h.columns > 0 || h.rows == 0, "rows without columns", 8)?;

        let mut columns = Vec::with_capacity(h.columns.into());
        let mut extents = Vec::with_capacity(h.columns.into());
        for (i, bytes) in directory.chunks_exact(ENTRY_BYTES).enumerate() {
            let at = Self::prefix_bytes(i);
            let entry: Entry = bytemuck::pod_read_unaligned(bytes);
            let (data_type, held) =
                entry.check(h.rows).map_err(|what| PageError::Corrupt { lpid, what, at })?;
            let is_of_version = held.since(kind).is_some_and(|since| since <= h.version);
            require(is_of_version, "an encoding that such pages do not have", at)?;
            require((entry.offset as usize).is_multiple_of(CELL_BYTES), "a segment off its alignment", at)?;
            let segment_end = u64::from(entry.offset) + u64::from(entry.bytes);
            require(entry.offset as usize >= end, "a segment within the directory", at)?;
            require(segment_end <= page_bytes.into(), "a segment beyond the page", at)?;
            columns.push(Checked { entry, data_type, held });
            extents.push((u64::from(entry.offset), segment_end));
        }
        extents.sort_unstable();
        require(extents.windows(2).all(|w| w[0].1 <= w[1].0), "segments overlap", HEADER_BYTES)?;
        require(end <= page_bytes as usize, "a directory beyond the page", HEADER_BYTES)?;
        let meta = PageMeta {
            lpid,
            table: TableId::new(h.table),
            schema_version: h.schema_version,
            kind,
            commit: CommitNo::new(h.commit),
        };
        Ok(Self { meta, rows: h.rows, page_bytes, columns })
    }

    /// Opens a page as [`TablePage::open`] does, for a reader without a mapping. The length of the page is taken from
    /// its header.
    ///
    /// # Errors
    /// The errors of [`TablePage::open`].
    pub fn open_prefix(lpid: Lpid, prefix: &[u8]) -> Result<Self, PageError> {
        let what = "the bytes end within the header";
        let header = prefix.get(..HEADER_BYTES).ok_or(PageError::Corrupt { lpid, what, at: prefix.len() })?;
        Self::open(lpid, bytemuck::pod_read_unaligned::<Header>(header).page_bytes, prefix)
    }

    /// Returns the number of columns that the header in `prefix` names, without any check; `None` if the bytes end within the header.
    pub fn columns_of(prefix: &[u8]) -> Option<usize> {
        let header = prefix.get(..HEADER_BYTES)?;
        Some(bytemuck::pod_read_unaligned::<Header>(header).columns.into())
    }

    /// Returns the page's metadata.
    pub fn meta(&self) -> &PageMeta {
        &self.meta
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Returns the bytes of the whole page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Returns the type of a column.
    ///
    /// # Panics
    /// When `column` is not below [`TablePage::columns`]. The methods below panic likewise.
    pub fn data_type(&self, column: usize) -> DataType {
        self.columns[column].data_type
    }

    /// Returns the number of NULLs in a column.
    pub fn nulls(&self, column: usize) -> usize {
        self.columns[column].entry.nulls as usize
    }

    /// Returns whether a column is stored as a dictionary and codes.
    pub fn is_dictionary(&self, column: usize) -> bool {
        match self.columns[column].held {
            Held::Whole(e) => matches!(e, Encoding::FixedDictionary | Encoding::VarDictionary),
            Held::Encoded(e) => e.name() == "dictionary",
        }
    }

    /// Returns the name of a column's encoding, as [`crate::EncodingChoice`] spells it: `plain` if the values take
    /// whole bytes.
    pub fn encoding(&self, column: usize) -> &'static str {
        match self.columns[column].held {
            Held::Whole(_) => "plain",
            Held::Encoded(e) => e.name(),
        }
    }

    /// Returns the bytes that decoding unpacks: the unpacked values of the decoded column `c`, or 0 if the page
    /// stores the values in whole bytes.
    pub fn unpacked_bytes(&self, column: usize, c: &Column) -> u64 {
        match self.columns[column].held {
            Held::Encoded(e) if !e.is_whole_bytes() => c.unpacked_bytes() as u64,
            Held::Whole(_) | Held::Encoded(_) => 0,
        }
    }

    /// Returns the bytes of the page that [`TablePage::decode`] needs for this column. They start at a multiple of
    /// 64.
    pub fn segment(&self, column: usize) -> Range<u32> {
        let e = &self.columns[column].entry;
        e.offset..e.offset + e.bytes
    }

    /// Decodes the column in `segment`, which must hold exactly the bytes [`TablePage::segment`] of the page. If the
    /// bytes are aligned in memory, the column shares them without a copy. A slice of a larger read, cut at the
    /// segment's offset, is aligned. Unaligned bytes are copied once.
    ///
    /// # Errors
    /// [`PageError::Corrupt`] when the bytes are not such a column. The function never panics.
    pub fn decode(&self, column: usize, segment: PageBuf) -> Result<Column, PageError> {
        let Checked { entry, data_type, held } = &self.columns[column];
        let (rows, t) = (self.rows(), *data_type);
        let (validity, values) = match held {
            Held::Whole(encoding) => self.whole(entry, t, *encoding, self.sized(entry, segment)?)?,
            Held::Encoded(encoding) => {
                let Cut { validity, body } = self.cut(entry, segment)?;
                let shape = self.shape(entry, t);
                (validity, encoding.open(&shape, body).map_err(|what| self.corrupt(entry, what))?)
            }
        };
        if let Some(v) = &validity
            && rows - bits::count(v, rows) != self.nulls(column)
        {
            return Err(self.corrupt(entry, "validity with another number of NULLs"));
        }
        let column = self.column(entry, t, rows, validity, values)?;
        if string_bytes(column.values()) > STRING_BYTES_MAX as u64 {
            return Err(self.corrupt(entry, "strings that are too long in all"));
        }
        Ok(column)
    }

    /// Decodes some rows of the column in `segment`, as [`TablePage::decode`] does. The bytes of other rows may stay
    /// unread and unchecked.
    ///
    /// # Errors
    /// The errors of [`TablePage::decode`].
    ///
    /// # Panics
    /// When the page has fewer rows.
    pub fn decode_rows(
        &self,
        column: usize,
        segment: PageBuf,
        rows: Range<usize>,
    ) -> Result<Column, PageError> {
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "rows {rows:?} of {}", self.rows());
        let Checked { entry, data_type, held } = &self.columns[column];
        let Held::Encoded(encoding) = held else {
            return Ok(ops::slice(&self.decode(column, segment)?, rows.start, rows.len()));
        };
        let Cut { validity, body } = self.cut(entry, segment)?;
        let shape = self.shape(entry, *data_type);
        let count = rows.len();
        let validity = validity.and_then(|v| bits::with_nulls(bits::slice(&v, rows.start, count), count));
        let values = encoding.range(&shape, body, rows).map_err(|what| self.corrupt(entry, what))?;
        self.column(entry, *data_type, count, validity, values)
    }

    /// Decodes the value of one row of the column in `segment`. For an encoded column, this unpacks at most 1,024
    /// values.
    ///
    /// # Errors
    /// The errors of [`TablePage::decode`].
    ///
    /// # Panics
    /// When the page has fewer rows.
    pub fn decode_value(&self, column: usize, segment: PageBuf, row: usize) -> Result<Value, PageError> {
        assert!(row < self.rows(), "row {row} of {}", self.rows());
        let Checked { entry, data_type, held } = &self.columns[column];
        let Held::Encoded(encoding) = held else { return Ok(self.decode(column, segment)?.value(row)) };
        let Cut { validity, body } = self.cut(entry, segment)?;
        if validity.is_some_and(|v| !bits::get(&v, row)) {
            return Ok(Value::Null);
        }
        let shape = self.shape(entry, *data_type);
        encoding.row(&shape, body, row).map_err(|what| self.corrupt(entry, what))
    }

    fn shape(&self, entry: &Entry, data_type: DataType) -> Shape {
        Shape { data_type, rows: self.rows(), width: entry.width }
    }

    fn corrupt(&self, entry: &Entry, what: &'static str) -> PageError {
        PageError::Corrupt { lpid: self.meta.lpid, what, at: entry.offset as usize }
    }

    /// Makes a checked column of these values.
    fn column(
        &self,
        entry: &Entry,
        data_type: DataType,
        rows: usize,
        validity: Option<PageBuf>,
        values: Values,
    ) -> Result<Column, PageError> {
        let column = Column::new(data_type, rows, validity, values);
        column.map_err(|e| self.corrupt(entry, encoding::what(e)))
    }

    /// Returns the segment, aligned in memory. Fails if its length differs from the entry's.
    fn sized(&self, entry: &Entry, segment: PageBuf) -> Result<PageBuf, PageError> {
        if segment.len() != entry.bytes as usize {
            return Err(self.corrupt(entry, "a segment of another length"));
        }
        let aligned = segment.as_ptr().addr().is_multiple_of(align_of::<u128>());
        Ok(if aligned { segment } else { PageBuf::copy_from(&segment) })
    }

    /// Splits a segment of an encoded column into validity and body.
    fn cut(&self, entry: &Entry, segment: PageBuf) -> Result<Cut, PageError> {
        let segment = self.sized(entry, segment)?;
        let (validity, used) = match entry.flags {
            header::FLAG_VALIDITY => {
                let bytes = self.rows().div_ceil(8);
                if segment.len() < bytes {
                    return Err(self.corrupt(entry, "a segment that ends within its validity"));
                }
                (Some(segment.slice(..bytes)), bytes)
            }
            header::FLAG_VALIDITY_RUNS => {
                let (runs, used) =
                    Runs::parse(&segment, self.rows()).map_err(|what| self.corrupt(entry, what))?;
                (Some(encoding::bits_of(&runs, 0..self.rows())), used)
            }
            _ => (None, 0),
        };
        let from = used.next_multiple_of(CELL_BYTES).min(segment.len());
        Ok(Cut { validity, body: segment.slice(from..) })
    }

    /// Splits a segment of whole bytes into validity and values.
    fn whole(
        &self,
        entry: &Entry,
        data_type: DataType,
        encoding: Encoding,
        segment: PageBuf,
    ) -> Result<(Option<PageBuf>, Values), PageError> {
        let parts = entry.parts(encoding, self.rows);
        let part = |r: &Range<u64>| segment.slice(r.start as usize..r.end as usize);
        let validity = (entry.flags & header::FLAG_VALIDITY != 0).then(|| part(&parts.validity));
        let fixed = || Values::Fixed { width: entry.width, data: part(&parts.data) };
        let var = || Values::Var { offsets: part(&parts.offsets), data: part(&parts.data) };
        let coded = |values| {
            let dictionary = self.column(entry, data_type, entry.dictionary_rows as usize, None, values)?;
            let dictionary = Arc::new(dictionary);
            Ok(Values::Dict { code_width: entry.code_width, codes: part(&parts.codes), dictionary })
        };
        let values = match encoding {
            Encoding::Bits => Values::Bits(part(&parts.data)),
            Encoding::Fixed => fixed(),
            Encoding::Var => var(),
            Encoding::FixedDictionary => coded(fixed())?,
            Encoding::VarDictionary => coded(var())?,
        };
        Ok((validity, values))
    }
}
