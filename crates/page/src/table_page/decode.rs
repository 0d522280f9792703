//! Opens table pages and decodes their segments. All bytes are untrusted until they are checked here.

use std::ops::Range;
use std::sync::Arc;

use lode_base::{CELL_BYTES, CommitNo, Lpid, PageBuf, TableId};

use super::header::{self, ENTRY_BYTES, Encoding, Entry, HEADER_BYTES, Header, MAGIC, checksum, kind_tag};
use super::{PageKind, PageMeta, STRING_BYTES_MAX, string_bytes};
use crate::{Column, DataType, PageError, Values, bits};

/// The header and directory of a table page, checked.
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
    encoding: Encoding,
}

impl TablePage {
    /// Bytes at the start of a page of `columns` columns that [`TablePage::open`] needs.
    pub const fn prefix_bytes(columns: usize) -> usize {
        HEADER_BYTES + columns * ENTRY_BYTES
    }

    /// Checks header and directory. `prefix` is the start of the page, at least [`TablePage::prefix_bytes`] of it;
    /// `page_bytes` is the page's length as the mapping has it.
    ///
    /// # Errors
    /// [`PageError::Corrupt`] or [`PageError::NewerVersion`]; it never panics, and allocates no more than `prefix`.
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
            let (data_type, encoding) =
                entry.check(h.rows).map_err(|what| PageError::Corrupt { lpid, what, at })?;
            let dictionary = matches!(encoding, Encoding::FixedDictionary | Encoding::VarDictionary);
            require(kind == PageKind::Column || !dictionary, "a dictionary in a row page", at)?;
            require((entry.offset as usize).is_multiple_of(CELL_BYTES), "a segment off its alignment", at)?;
            let segment_end = u64::from(entry.offset) + u64::from(entry.bytes);
            require(entry.offset as usize >= end, "a segment within the directory", at)?;
            require(segment_end <= page_bytes.into(), "a segment beyond the page", at)?;
            columns.push(Checked { entry, data_type, encoding });
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

    /// As [`TablePage::open`], for a reader that has no mapping: the page is as long as its header says.
    ///
    /// # Errors
    /// As [`TablePage::open`].
    pub fn open_prefix(lpid: Lpid, prefix: &[u8]) -> Result<Self, PageError> {
        let what = "the bytes end within the header";
        let header = prefix.get(..HEADER_BYTES).ok_or(PageError::Corrupt { lpid, what, at: prefix.len() })?;
        Self::open(lpid, bytemuck::pod_read_unaligned::<Header>(header).page_bytes, prefix)
    }

    /// The page's metadata.
    pub fn meta(&self) -> &PageMeta {
        &self.meta
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Bytes of the whole page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// The type of a column.
    ///
    /// # Panics
    /// When `column` is not below [`TablePage::columns`]. The same holds for the methods below.
    pub fn data_type(&self, column: usize) -> DataType {
        self.columns[column].data_type
    }

    /// NULLs in a column.
    pub fn nulls(&self, column: usize) -> usize {
        self.columns[column].entry.nulls as usize
    }

    /// Whether a column is a dictionary and codes.
    pub fn is_dictionary(&self, column: usize) -> bool {
        matches!(self.columns[column].encoding, Encoding::FixedDictionary | Encoding::VarDictionary)
    }

    /// The bytes of the page that [`TablePage::decode`] needs for this column; they start on 64.
    pub fn segment(&self, column: usize) -> Range<u32> {
        let e = &self.columns[column].entry;
        e.offset..e.offset + e.bytes
    }

    /// The column in `segment`, which holds exactly the bytes [`TablePage::segment`] of the page. If the bytes are
    /// 64-byte aligned in memory, the column shares them without a copy. A slice of a larger read at the segment's
    /// offset is aligned. Other bytes are copied once.
    ///
    /// # Errors
    /// [`PageError::Corrupt`] when the bytes are no such column; it never panics.
    pub fn decode(&self, column: usize, segment: PageBuf) -> Result<Column, PageError> {
        let Checked { entry, data_type, encoding } = &self.columns[column];
        let (entry, data_type, encoding, lpid) = (*entry, *data_type, *encoding, self.meta.lpid);
        let corrupt = |what| PageError::Corrupt { lpid, what, at: entry.offset as usize };
        if segment.len() != entry.bytes as usize {
            return Err(corrupt("a segment of another length"));
        }
        let aligned = segment.as_ptr().addr().is_multiple_of(align_of::<u128>());
        let segment = if aligned { segment } else { PageBuf::copy_from(&segment) };
        let parts = entry.parts(encoding, self.rows);
        let part = |r: &Range<u64>| segment.slice(r.start as usize..r.end as usize);
        let (rows, dictionary_rows) = (self.rows(), entry.dictionary_rows as usize);

        let validity = (entry.flags & header::FLAG_VALIDITY != 0).then(|| part(&parts.validity));
        if let Some(v) = &validity
            && rows - bits::count(v, rows) != self.nulls(column)
        {
            return Err(corrupt("validity with another number of NULLs"));
        }
        let fixed = || Values::Fixed { width: entry.width, data: part(&parts.data) };
        let var = || Values::Var { offsets: part(&parts.offsets), data: part(&parts.data) };
        let coded = |values| {
            let dictionary = Arc::new(Column::new(data_type, dictionary_rows, None, values)?);
            Ok(Values::Dict { code_width: entry.code_width, codes: part(&parts.codes), dictionary })
        };
        let values = match encoding {
            Encoding::Bits => Ok(Values::Bits(part(&parts.data))),
            Encoding::Fixed => Ok(fixed()),
            Encoding::Var => Ok(var()),
            Encoding::FixedDictionary => coded(fixed()),
            Encoding::VarDictionary => coded(var()),
        };
        let column = values.and_then(|values| Column::new(data_type, rows, validity, values)).map_err(
            |e| match e {
                PageError::BadColumn { what, .. } => corrupt(what),
                other => other,
            },
        )?;
        if string_bytes(column.values()) > STRING_BYTES_MAX as u64 {
            return Err(corrupt("strings that are too long in all"));
        }
        Ok(column)
    }
}
