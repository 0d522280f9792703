//! The page of a table (PAX): a header, a directory with one entry a column, then one segment a column.
//!
//! ```text
//!   0        64          64 + 32 n                        on 4,096 (column pages, segments of 16 KB and more)
//!   | header | directory | small segment | small segment | ... | large segment | ... |
//!
//!   segment: | validity | codes | offsets | data |          each part starts on 64, absent ones take no room
//!     bits   |    x     |       |         |  x   |          one bit a row
//!     fixed  |    x     |       |         |  x   |          `width` bytes a row
//!     var    |    x     |       |    x    |  x   |          rows + 1 offsets into data
//!     fixed, dictionary  x |  x |         |  x   |          codes of rows, values of the dictionary
//!     var, dictionary    x |  x |    x    |  x   |          codes of rows, offsets and data of the dictionary
//!
//!   segment of a later encoding: | validity | body |         each part starts on 64; `crate::encoding` has the bodies
//! ```
//!
//! A *row page* is small (about 8 KB) and plain; a *column page* holds a row group, whose segments are encoded where that
//! is smaller. Both have this one format. Bytes of the header and of a directory entry are drawn in `header`.
//!
//! Invariants: every segment starts on 64 bytes, so that its parts are read in place; to read some columns, the
//! first [`TablePage::prefix_bytes`] bytes and those columns' segments are enough; sizes of parts follow from the
//! directory entry, and must add up to the segment. Header and directory carry a checksum seeded with the LPID;
//! segments are covered by the medium's tags and checked for shape when they are decoded.
//!
//! Source: PAX (Ailamaki et al., VLDB 2001); we differ: one page may be a whole row group.

mod decode;
pub(crate) mod dictionary;
mod encode;
mod header;

use lode_base::{CommitNo, Lpid, PageBuf, TableId};

pub use decode::TablePage;
pub use encode::{encode, encode_as};

use crate::ops::numbers;
use crate::{Column, PageError, Values};

/// Alignment of large segments within a page, in bytes: the read unit that the format assumes.
pub const LARGE_SEGMENT_ALIGN: usize = 4096;

/// Segments of at least this many bytes start on [`LARGE_SEGMENT_ALIGN`] in column pages.
pub const LARGE_SEGMENT_BYTES: usize = 4 * LARGE_SEGMENT_ALIGN;

/// The most bytes of a page's string column without its dictionary. So a few codes for a long string cannot make a
/// reader run out of memory.
pub const STRING_BYTES_MAX: usize = 64 << 20;

/// Which of the two shapes a table page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Small, plain, rewritten as a whole: for transactions.
    Row,
    /// A row group with dictionaries, its large segments on read units: for analytics.
    Column,
}

/// The metadata of a table page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMeta {
    /// The page's identity; its checksum is seeded with it.
    pub lpid: Lpid,
    /// The table that it belongs to.
    pub table: TableId,
    /// The version of the table's schema that its columns follow.
    pub schema_version: u32,
    /// Its shape.
    pub kind: PageKind,
    /// The last commit that changed it; 0 if pages carry no commit numbers.
    pub commit: CommitNo,
}

/// Opens a whole page and decodes every column.
///
/// # Errors
/// [`PageError`] when any byte of it that is checked is wrong.
pub fn decode_page(lpid: Lpid, page: &PageBuf) -> Result<(TablePage, Vec<Column>), PageError> {
    let page_bytes = u32::try_from(page.len()).map_err(|_| PageError::Corrupt {
        lpid,
        what: "the page is too long",
        at: 0,
    })?;
    let table_page = TablePage::open(lpid, page_bytes, page)?;
    let columns = (0..table_page.columns())
        .map(|column| {
            let segment = table_page.segment(column);
            table_page.decode(column, page.slice(segment.start as usize..segment.end as usize))
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok((table_page, columns))
}

/// Bytes of strings that these values have row by row.
fn string_bytes(values: &Values) -> u64 {
    match values {
        Values::Bits(_) | Values::Fixed { .. } | Values::Packed(_) => 0,
        Values::Symbols(s) => s.string_bytes() as u64,
        Values::Var { data, .. } => data.len() as u64,
        Values::Dict { code_width, codes, dictionary } => {
            let Values::Var { offsets, .. } = dictionary.values() else { return 0 };
            let o: &[u32] = numbers(offsets);
            let rows = codes.len() as u64 / u64::from(*code_width);
            let longest = u64::from(o.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0));
            if longest * rows <= STRING_BYTES_MAX as u64 {
                return longest * rows; // a bound is enough below the limit
            }
            let bytes = |code: usize| u64::from(o[code + 1] - o[code]);
            match code_width {
                1 => codes.iter().map(|&code| bytes(code.into())).sum(),
                _ => numbers::<u16>(codes).iter().map(|&code| bytes(code.into())).sum(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
