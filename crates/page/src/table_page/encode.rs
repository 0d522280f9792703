//! Encodes columns into a table page.
//!
//! ```text
//!   column ─► values under NULLs zeroed ─► narrowest decimals ─► dictionary, if it saves a quarter, or an encoding
//!          ─► parts ─► place ─► page
//! ```
//!
//! Values under NULLs, unused bits and padding are written as zeroes, so that no hidden data reaches the drive.

use std::sync::Arc;

use bytemuck::Zeroable;
use lode_base::{CELL_BYTES, PAGE_BYTES_LIMIT, PageBuf, PageBufMut};

use super::dictionary::intern_values;
use super::header::{
    Encoding, Entry, FLAG_VALIDITY, FLAG_VALIDITY_RUNS, Header, Held, MAGIC, checksum, kind_tag,
};
use super::{
    LARGE_SEGMENT_ALIGN, LARGE_SEGMENT_BYTES, PageKind, PageMeta, STRING_BYTES_MAX, TablePage, string_bytes,
};
use crate::encoding::{self, EncodingChoice, Input, ROWS_MAX};
use crate::ops::{fill, narrowed, numbers, plain, take};
use crate::{Column, PageError, Values, bits};

/// Encodes these columns as a page. Its length is a multiple of 64, at most `limit_bytes`, and less than 2 MB.
///
/// # Errors
/// [`PageError::TooLarge`] when the columns do not fit, with the bytes that they need. If the strings of one column
/// exceed [`STRING_BYTES_MAX`], counted row by row, the error has the bytes of these strings instead.
///
/// # Panics
/// When the columns have different numbers of rows, or there are more than 65,535 columns.
pub fn encode(meta: &PageMeta, columns: &[Column], limit_bytes: usize) -> Result<PageBuf, PageError> {
    encode_as(meta, columns, &[], limit_bytes)
}

/// Encodes a page as [`encode`] does. `choices` gives the encoding of each column. Columns without a choice take whole
/// bytes, and so does each column of a row page whose choice does not.
///
/// # Errors
/// As [`encode`].
///
/// # Panics
/// As [`encode`].
pub fn encode_as(
    meta: &PageMeta,
    columns: &[Column],
    choices: &[EncodingChoice],
    limit_bytes: usize,
) -> Result<PageBuf, PageError> {
    let rows = columns.first().map_or(0, Column::rows);
    assert!(columns.iter().all(|c| c.rows() == rows), "columns of one page have as many rows");
    let column_count = u16::try_from(columns.len()).expect("at most 65,535 columns");
    let short_enough = |string_bytes: u64| match string_bytes <= STRING_BYTES_MAX as u64 {
        true => Ok(()),
        false => {
            let needed_bytes = usize::try_from(string_bytes).unwrap_or(usize::MAX);
            Err(PageError::TooLarge { rows, needed_bytes, limit_bytes: STRING_BYTES_MAX })
        }
    };
    columns.iter().try_for_each(|c| short_enough(string_bytes(c.values())))?;
    let choice = |i: usize| match meta.kind {
        _ if rows > ROWS_MAX => EncodingChoice::Plain,
        PageKind::Column => choices.get(i).copied().unwrap_or(EncodingChoice::Plain),
        PageKind::Row => {
            choices.get(i).copied().filter(|c| c.is_whole_bytes()).unwrap_or(EncodingChoice::Plain)
        }
    };
    let mut segments: Vec<Segment> =
        columns.iter().enumerate().map(|(i, c)| Segment::of(c, meta.kind, choice(i))).collect();

    segments.iter().try_for_each(|s| short_enough(s.string_bytes))?;
    let needed_bytes = place(&mut segments, meta.kind);
    let limit_bytes = limit_bytes.min(PAGE_BYTES_LIMIT - CELL_BYTES);
    if needed_bytes > limit_bytes {
        return Err(PageError::TooLarge { rows, needed_bytes, limit_bytes });
    }
    let mut page = PageBufMut::zeroed(needed_bytes);
    let bytes: &mut [u8] = &mut page;
    for (i, s) in segments.iter().enumerate() {
        let entry = Entry { offset: s.offset as u32, bytes: s.bytes as u32, ..s.entry };
        match &s.content {
            Content::Whole(encoding, parts) => {
                let places = entry.parts(*encoding, rows as u32);
                assert_eq!(places.bytes, s.bytes as u64, "a segment is as long as its parts");
                let ranges = [places.validity, places.codes, places.offsets, places.data];
                for (range, part) in ranges.into_iter().zip(parts) {
                    let at = s.offset + range.start as usize..s.offset + range.end as usize;
                    bytes[at].copy_from_slice(part);
                }
            }
            Content::Encoded { validity, body } => {
                bytes[s.offset..s.offset + validity.len()].copy_from_slice(validity);
                bytes[s.offset + s.bytes - body.len()..s.offset + s.bytes].copy_from_slice(body);
            }
        }
        let at = TablePage::prefix_bytes(i);
        bytes[at..TablePage::prefix_bytes(i + 1)].copy_from_slice(bytemuck::bytes_of(&entry));
    }
    let since = |s: &Segment| s.held().since(meta.kind).expect("such pages have its encoding");
    let version = segments.iter().map(since).max().unwrap_or(1);
    let (kind, _) = kind_tag(meta.kind);
    let mut header = Header {
        magic: MAGIC,
        kind,
        version,
        rows: rows as u32,
        page_bytes: needed_bytes as u32,
        lpid: meta.lpid.raw(),
        commit: meta.commit.raw(),
        table: meta.table.raw(),
        schema_version: meta.schema_version,
        columns: column_count,
        ..Header::zeroed()
    };
    let directory = TablePage::prefix_bytes(0)..TablePage::prefix_bytes(columns.len());
    header.checksum = checksum(meta.lpid, &header, &bytes[directory.clone()]);
    bytes[..directory.start].copy_from_slice(bytemuck::bytes_of(&header));
    Ok(page.freeze())
}

/// Places small segments after the directory, and then large segments on read units. Returns the page's bytes.
fn place(segments: &mut [Segment], kind: PageKind) -> usize {
    let mut end = TablePage::prefix_bytes(segments.len());
    for large in [false, true] {
        let align = if large { LARGE_SEGMENT_ALIGN } else { CELL_BYTES };
        let is_large = |s: &Segment| kind == PageKind::Column && s.bytes >= LARGE_SEGMENT_BYTES;
        for s in segments.iter_mut().filter(|s| is_large(s) == large) {
            s.offset = end.next_multiple_of(align);
            end = s.offset + s.bytes;
        }
    }
    end.next_multiple_of(CELL_BYTES)
}

/// A column in the form of its segment.
struct Segment {
    entry: Entry,
    content: Content,
    string_bytes: u64,
    offset: usize,
    bytes: usize,
}

/// The bytes of a segment.
enum Content {
    /// The four parts: validity, codes, offsets, data.
    Whole(Encoding, [PageBuf; 4]),
    Encoded {
        validity: PageBuf,
        body: Body,
    },
}

/// A newly encoded body, or the body of a column that was already encoded.
enum Body {
    Made(Vec<u8>),
    Kept(PageBuf),
}

impl std::ops::Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Made(b) => b,
            Self::Kept(b) => b,
        }
    }
}

impl Segment {
    fn held(&self) -> Held {
        match &self.content {
            Content::Whole(encoding, _) => Held::Whole(*encoding),
            Content::Encoded { .. } => {
                Held::Encoded(encoding::of_id(self.entry.encoding).expect("it encoded the segment"))
            }
        }
    }

    fn of(c: &Column, kind: PageKind, choice: EncodingChoice) -> Self {
        let rows = c.rows();
        let validity = c.validity().and_then(|v| bits::with_nulls(bits::trimmed(v, rows), rows));
        if choice == EncodingChoice::Plain {
            return Self::whole(c, kind, validity);
        }
        // A column that already has an allowed encoding keeps its body.
        let kept = match c.values() {
            Values::Packed(p) => Some((p.id(), p.width(), p.body())),
            Values::Symbols(s) => Some((s.id(), 0, s.body())),
            _ => None,
        };
        if let Some((id, width, body)) = kept
            && choice.allows(id)
        {
            return Self::encoded(c, validity, id, width, Body::Kept(body.clone()));
        }
        let plain = plain_values(c);
        let input = Input::new(c.data_type(), rows, &plain, validity.as_ref());
        match encoding::choose(&input, choice) {
            Some((id, encoded)) => Self::encoded(c, validity, id, encoded.width, Body::Made(encoded.body)),
            None => Self::of_values(c, validity, &plain),
        }
    }

    /// Makes a segment of an encoded body. Validity is stored as runs if they take fewer bytes than bits.
    fn encoded(c: &Column, validity: Option<PageBuf>, id: u8, width: u8, body: Body) -> Self {
        let rows = c.rows();
        let (mut entry, mut flags) = (Self::entry(c, validity.as_ref()), 0);
        let validity = validity.map_or(PageBuf::empty(), |bits| {
            let mut runs = Vec::new();
            encoding::put_bits(&bits, rows, &mut runs);
            flags = if runs.len() < bits.len() { FLAG_VALIDITY_RUNS } else { FLAG_VALIDITY };
            if flags == FLAG_VALIDITY_RUNS { PageBuf::copy_from(&runs) } else { bits }
        });
        (entry.encoding, entry.width, entry.flags) = (id, width, flags);
        let bytes = validity.len().next_multiple_of(CELL_BYTES) + body.len();
        let string_bytes = if let Values::Symbols(s) = c.values() { s.string_bytes() as u64 } else { 0 };
        Self { entry, content: Content::Encoded { validity, body }, string_bytes, offset: 0, bytes }
    }

    /// Returns the fields of a directory entry that every column has.
    fn entry(c: &Column, validity: Option<&PageBuf>) -> Entry {
        let (type_tag, precision, scale) = c.data_type().tag();
        let nulls = validity.map_or(0, |v| c.rows() - bits::count(v, c.rows())) as u32;
        let flags = if nulls > 0 { FLAG_VALIDITY } else { 0 };
        Entry { type_tag, precision, scale, flags, nulls, ..Entry::zeroed() }
    }

    /// Makes a segment of values in whole bytes, with a dictionary if that pays.
    fn whole(c: &Column, kind: PageKind, validity: Option<PageBuf>) -> Self {
        let rows = c.rows();
        let values = match (kind, c.values()) {
            (PageKind::Column, Values::Dict { code_width, codes, dictionary }) => {
                recoded(validity.as_ref(), rows, *code_width, codes, dictionary)
            }
            _ => None,
        };
        let values = values.unwrap_or_else(|| {
            let plain = plain_values(c);
            let coded = if kind == PageKind::Column { coded(c, rows, &plain) } else { None };
            coded.unwrap_or(plain)
        });
        Self::of_values(c, validity, &values)
    }

    /// Makes a segment of these values in whole bytes.
    fn of_values(c: &Column, validity: Option<PageBuf>, values: &Values) -> Self {
        let rows = c.rows();
        let mut entry = Self::entry(c, validity.as_ref());
        let none = PageBuf::empty;
        let (encoding, codes) = match values {
            Values::Bits(_) => (Encoding::Bits, none()),
            Values::Fixed { .. } => (Encoding::Fixed, none()),
            Values::Var { .. } => (Encoding::Var, none()),
            Values::Dict { code_width, codes, dictionary } => {
                entry.code_width = *code_width;
                entry.dictionary_rows = dictionary.rows() as u32;
                let fixed = matches!(dictionary.values(), Values::Fixed { .. });
                (if fixed { Encoding::FixedDictionary } else { Encoding::VarDictionary }, codes.clone())
            }
            Values::Packed(_) | Values::Symbols(_) => unreachable!("values were unpacked"),
        };
        let held = match values {
            Values::Dict { dictionary, .. } => dictionary.values(),
            values => values,
        };
        let (offsets, data) = match held {
            Values::Bits(data) => (none(), data.clone()),
            Values::Fixed { width, data } => {
                entry.width = *width;
                (none(), data.clone())
            }
            Values::Var { offsets, data } => {
                entry.data_bytes = data.len() as u32;
                (offsets.clone(), data.clone())
            }
            _ => unreachable!("a dictionary is fixed or variable"),
        };
        entry.encoding = encoding as u8;
        let bytes = entry.parts(encoding, rows as u32).bytes as usize;
        let parts = [validity.unwrap_or_default(), codes, offsets, data];
        let content = Content::Whole(encoding, parts);
        Self { entry, content, string_bytes: string_bytes(values), offset: 0, bytes }
    }
}

/// Returns the values without a dictionary and cut to the rows. Values under NULLs are zero or empty. Decimals have
/// their narrowest width.
fn plain_values(c: &Column) -> Values {
    let c = plain(c);
    let rows = c.rows();
    let validity = c.validity();
    match c.values() {
        Values::Bits(b) => match validity {
            None => Values::Bits(bits::trimmed(b, rows)),
            Some(v) => Values::Bits(bits::trimmed(
                &fill(rows.div_ceil(8), |out: &mut [u8]| {
                    out.iter_mut().zip(b.iter().zip(v.iter())).for_each(|(out, (b, v))| *out = b & v);
                }),
                rows,
            )),
        },
        Values::Fixed { width, data } => {
            let w = usize::from(*width);
            let data = match validity {
                None => data.clone(),
                Some(v) => fill(data.len(), |out: &mut [u8]| {
                    out.copy_from_slice(data);
                    bits::for_each_clear(v, rows, |row| out[row * w..(row + 1) * w].fill(0));
                }),
            };
            let decimal = matches!(c.data_type(), crate::DataType::Decimal { .. });
            let (width, data) = if decimal { narrowed(&data, *width) } else { (*width, data) };
            Values::Fixed { width, data }
        }
        Values::Var { offsets, data } => {
            let o: &[u32] = numbers(offsets);
            let mut hidden = false;
            if let Some(v) = validity {
                bits::for_each_clear(v, rows, |row| hidden |= o[row] != o[row + 1]);
            }
            if !hidden {
                return Values::Var { offsets: offsets.clone(), data: data.slice(..o[rows] as usize) };
            }
            // Drops the values under NULLs: a NULL becomes an empty string.
            let shown = |row: usize| validity.is_none_or(|v| bits::get(v, row));
            let mut kept = PageBufMut::with_capacity(data.len());
            let offsets = fill(rows + 1, |out: &mut [u32]| {
                for row in 0..rows {
                    if shown(row) {
                        kept.extend_from_slice(&data[o[row] as usize..o[row + 1] as usize]);
                    }
                    out[row + 1] = kept.len() as u32;
                }
            });
            Values::Var { offsets, data: kept.freeze() }
        }
        _ => unreachable!("plain columns have no dictionary, and are not packed"),
    }
}

/// Returns whether a dictionary pays. Decoding codes costs time, so a dictionary must save at least a quarter of the
/// bytes. The padding of the parts counts.
fn pays(rows: usize, dictionary: &Column, plain_parts: [usize; 2]) -> bool {
    let padded = |bytes: usize| bytes.next_multiple_of(CELL_BYTES);
    let held = match dictionary.values() {
        Values::Var { offsets, data } => padded(offsets.len()) + padded(data.len()),
        _ => padded(dictionary.link_bytes()),
    };
    let coded_bytes = padded(rows * code_bytes(dictionary.rows())) + held;
    coded_bytes <= plain_parts.map(padded).iter().sum::<usize>() / 4 * 3
}

fn code_bytes(distinct: usize) -> usize {
    if distinct <= 1 << 8 { 1 } else { 2 }
}

fn with_dictionary(rows: usize, codes: &[u16], dictionary: Column) -> Values {
    debug_assert_eq!(codes.len(), rows);
    let (code_width, codes) = match code_bytes(dictionary.rows()) {
        1 => (1, fill(rows, |out: &mut [u8]| out.iter_mut().zip(codes).for_each(|(out, &c)| *out = c as u8))),
        _ => (2, PageBuf::from_values(codes)),
    };
    Values::Dict { code_width, codes, dictionary: Arc::new(dictionary) }
}

/// Encodes the plain `values` of `c` as codes into a dictionary, if that pays.
fn coded(c: &Column, rows: usize, values: &Values) -> Option<Values> {
    let plain_parts = match values {
        Values::Var { offsets, data } => [offsets.len(), data.len()],
        Values::Fixed { data, .. } => [0, data.len()],
        _ => return None,
    };
    let plain_bytes: usize = plain_parts.iter().sum();
    // Returns the most distinct values of `value` bytes with which a dictionary can still save a quarter, with codes
    // of 2 bytes or of 1 byte.
    let distinct_max = |value: usize| {
        let with = |code: usize| (plain_bytes / 4 * 3).saturating_sub(rows * code) / value.max(1);
        with(2).min(1 << 16).max(with(1).min(1 << 8))
    };
    let found = intern_values(values, rows, distinct_max)?;
    let all = Column::trusted(c.data_type(), rows, None, values.clone());
    let dictionary = take(&all, &found.first_rows);
    pays(rows, &dictionary, plain_parts).then(|| with_dictionary(rows, &found.codes, dictionary))
}

/// Encodes a column that has a dictionary again, with only the values that its rows use, if that pays.
fn recoded(
    validity: Option<&PageBuf>,
    rows: usize,
    code_width: u8,
    codes: &PageBuf,
    dictionary: &Column,
) -> Option<Values> {
    let mut new_codes: Vec<Option<u16>> = vec![None; dictionary.rows()];
    let mut used: Vec<u32> = Vec::new();
    let mut out: Vec<u16> = Vec::with_capacity(rows);
    let mut each = |row: usize, old: usize| {
        let shown = validity.is_none_or(|v| bits::get(v, row));
        let new = if shown {
            *new_codes[old].get_or_insert_with(|| {
                used.push(old as u32);
                (used.len() - 1) as u16
            })
        } else {
            0
        };
        out.push(new);
    };
    match code_width {
        1 => codes.iter().enumerate().for_each(|(row, &code)| each(row, code.into())),
        _ => numbers::<u16>(codes).iter().enumerate().for_each(|(row, &code)| each(row, code.into())),
    }
    if used.is_empty() {
        return None; // all rows are NULL
    }
    let mut dictionary = take(dictionary, &used);
    let plain_parts = match dictionary.values() {
        Values::Fixed { width, data }
            if matches!(dictionary.data_type(), crate::DataType::Decimal { .. }) =>
        {
            let (width, data) = narrowed(data, *width);
            let values = Values::Fixed { width, data };
            dictionary = Column::trusted(dictionary.data_type(), used.len(), None, values);
            [0, rows * usize::from(width)]
        }
        Values::Fixed { width, .. } => [0, rows * usize::from(*width)],
        Values::Var { offsets, .. } => {
            let o: &[u32] = numbers(offsets);
            let strings: usize =
                out.iter().map(|&c| (o[usize::from(c) + 1] - o[usize::from(c)]) as usize).sum();
            [(rows + 1) * 4, strings]
        }
        _ => unreachable!("dictionaries were checked to be fixed or variable"),
    };
    pays(rows, &dictionary, plain_parts).then(|| with_dictionary(rows, &out, dictionary))
}
