//! The bytes of a table page's header and directory.
//!
//! ```text
//!   header, 64 bytes                            directory entry, 32 bytes
//!    0  magic "LTAB"                             0  segment's offset in the page   u32, a multiple of 64
//!    4  kind: 1 row, 2 column        u8          4  segment's bytes                u32
//!    5  version of that kind         u8          8  type                           u8, see `DataType::tag`
//!    6  flags, 0                     u16         9  precision of a decimal, or 0   u8
//!    8  rows                         u32        10  scale of a decimal, or 0       u8
//!   12  bytes of the page            u32        11  encoding                       u8, see `Held`
//!   16  LPID                         u64        12  bytes of a fixed value, or 0   u8
//!   24  commit                       u64        13  bytes of a code, or 0          u8
//!   32  table                        u32        14  flags: 1 has validity,         u8
//!                                                   2 has validity as runs
//!   36  schema version               u32        15  0
//!   40  columns                      u16        16  NULLs                          u32
//!   42  0 (18 bytes)                            20  rows of the dictionary, or 0   u32
//!   60  CRC-32C of bytes 0..60 and   u32        24  bytes of string data, or 0     u32
//!       the directory, seeded with              28  offset in the segment of the   u32, 0: none (all pages so far)
//!       the LPID                                    statistics of 2,048-row blocks
//! ```
//!
//! All numbers are little-endian. Fields drawn as 0 must be 0. A later version that gives such a field a meaning
//! raises the version byte.
//!
//! A page has version 1 if all its segments have encodings 1 to 5. A column page with an encoding from 6 to 11 has at least
//! version 2. With encoding 12 (`matchable`) a row page has version 2, and a column page version 3. A segment of encoding 6
//! or above is | validity | body |. Each of these parts starts at a multiple of 64 bytes. In its directory entry, byte 13 and
//! the bytes from 20 on are 0.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use lode_base::checksum::{crc32c_seeded, seed_of};
use lode_base::{CELL_BYTES, Lpid};

use super::PageKind;
use crate::{DataType, encoding};

pub(super) const MAGIC: [u8; 4] = *b"LTAB";
pub(super) const FLAG_VALIDITY: u8 = 1;
pub(super) const FLAG_VALIDITY_RUNS: u8 = 2;
pub(super) const HEADER_BYTES: usize = size_of::<Header>();
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();
const CHECKSUM_AT: usize = 60;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: [u8; 4],
    pub(super) kind: u8,
    pub(super) version: u8,
    pub(super) flags: u16,
    pub(super) rows: u32,
    pub(super) page_bytes: u32,
    pub(super) lpid: u64,
    pub(super) commit: u64,
    pub(super) table: u32,
    pub(super) schema_version: u32,
    pub(super) columns: u16,
    pub(super) reserved: [u8; 18],
    pub(super) checksum: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) offset: u32,
    pub(super) bytes: u32,
    pub(super) type_tag: u8,
    pub(super) precision: u8,
    pub(super) scale: u8,
    pub(super) encoding: u8,
    pub(super) width: u8,
    pub(super) code_width: u8,
    pub(super) flags: u8,
    pub(super) reserved: u8,
    pub(super) nulls: u32,
    pub(super) dictionary_rows: u32,
    pub(super) data_bytes: u32,
    pub(super) statistics: u32,
}

const _: () = assert!(size_of::<Header>() == 64 && std::mem::offset_of!(Header, checksum) == CHECKSUM_AT);
const _: () =
    assert!(std::mem::offset_of!(Header, lpid) == 16 && std::mem::offset_of!(Header, columns) == 40);
const _: () = assert!(size_of::<Entry>() == 32 && std::mem::offset_of!(Entry, nulls) == 16);
const _: () =
    assert!(std::mem::offset_of!(Entry, type_tag) == 8 && std::mem::offset_of!(Entry, statistics) == 28);

/// How a segment stores values in whole bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Bits = 1,
    Fixed = 2,
    Var = 3,
    FixedDictionary = 4,
    VarDictionary = 5,
}

impl Encoding {
    pub(super) fn from_tag(tag: u8) -> Option<Self> {
        [Self::Bits, Self::Fixed, Self::Var, Self::FixedDictionary, Self::VarDictionary]
            .into_iter()
            .find(|&e| e as u8 == tag)
    }
}

/// How a segment stores its values: in whole bytes, or with a member of [`encoding::ENCODINGS`].
#[derive(Clone, Copy)]
pub(super) enum Held {
    Whole(Encoding),
    Encoded(&'static dyn encoding::Encoding),
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(e) => e.fmt(f),
            Self::Encoded(e) => f.write_str(e.name()),
        }
    }
}

/// Returns the kind byte and the newest version of that kind.
pub(super) const fn kind_tag(kind: PageKind) -> (u8, u8) {
    match kind {
        PageKind::Row => (1, 2),
        PageKind::Column => (2, 3),
    }
}

impl Held {
    /// The first version of such pages that has it; `None` if they never do.
    pub(super) fn since(self, kind: PageKind) -> Option<u8> {
        match (self, kind) {
            (Self::Whole(Encoding::FixedDictionary | Encoding::VarDictionary), PageKind::Row) => None,
            (Self::Whole(_), _) => Some(1),
            (Self::Encoded(e), PageKind::Row) => e.is_whole_bytes().then_some(2),
            (Self::Encoded(e), PageKind::Column) => Some(if e.is_whole_bytes() { 3 } else { 2 }),
        }
    }
}

/// The byte ranges of the four parts within a segment. The range of an absent part is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) validity: Range<u64>,
    pub(super) codes: Range<u64>,
    pub(super) offsets: Range<u64>,
    pub(super) data: Range<u64>,
    pub(super) bytes: u64,
}

impl Entry {
    /// Returns the parts that follow from this entry and the page's rows. Sums and products of 32-bit fields cannot
    /// overflow here, since they are computed in 64 bits.
    pub(super) fn parts(&self, encoding: Encoding, rows: u32) -> Parts {
        let bitmap = u64::from(rows).div_ceil(8);
        let (rows, dictionary, width) =
            (u64::from(rows), u64::from(self.dictionary_rows), u64::from(self.width));
        let (codes, offsets, data) = match encoding {
            Encoding::Bits => (0, 0, bitmap),
            Encoding::Fixed => (0, 0, rows * width),
            Encoding::Var => (0, (rows + 1) * 4, self.data_bytes.into()),
            Encoding::FixedDictionary => (rows * u64::from(self.code_width), 0, dictionary * width),
            Encoding::VarDictionary => {
                (rows * u64::from(self.code_width), (dictionary + 1) * 4, self.data_bytes.into())
            }
        };
        let validity = if self.flags & FLAG_VALIDITY != 0 { bitmap } else { 0 };
        let mut end = 0;
        let mut place = |bytes: u64| {
            if bytes == 0 {
                return end..end;
            }
            let start = u64::next_multiple_of(end, CELL_BYTES as u64);
            end = start + bytes;
            start..end
        };
        let (validity, codes, offsets, data) = (place(validity), place(codes), place(offsets), place(data));
        Parts { validity, codes, offsets, data, bytes: end }
    }

    /// Checks the fields of an entry. The page checks the position of the segment, and whether its version has the encoding.
    pub(super) fn check(&self, rows: u32) -> Result<(DataType, Held), &'static str> {
        let require = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        let t = DataType::from_tag(self.type_tag, self.precision, self.scale).ok_or("an unknown type")?;
        require(self.reserved == 0 && self.statistics == 0, "statistics of a later version")?;
        require(self.nulls <= rows, "more NULLs than rows")?;
        if let Some(encoding) = encoding::of_id(self.encoding) {
            let flags_ok = match self.flags {
                0 => self.nulls == 0,
                FLAG_VALIDITY | FLAG_VALIDITY_RUNS => self.nulls > 0,
                _ => false,
            };
            require(flags_ok, "validity does not go with NULLs")?;
            require(encoding.takes(t), "an encoding or width that the type does not have")?;
            require(rows as usize <= encoding::ROWS_MAX, "more rows than an encoded column has")?;
            let zero = u32::from(self.code_width) | self.dictionary_rows | self.data_bytes;
            require(zero == 0, "unknown flags of a column")?;
            return Ok((t, Held::Encoded(encoding)));
        }
        let encoding = Encoding::from_tag(self.encoding).ok_or("an unknown encoding")?;
        require(self.flags & !FLAG_VALIDITY == 0, "unknown flags of a column")?;
        require((self.flags & FLAG_VALIDITY != 0) == (self.nulls > 0), "validity does not go with NULLs")?;
        let fixed = matches!(encoding, Encoding::Fixed | Encoding::FixedDictionary);
        let var = matches!(encoding, Encoding::Var | Encoding::VarDictionary);
        let dictionary = matches!(encoding, Encoding::FixedDictionary | Encoding::VarDictionary);
        let width_ok = match t {
            DataType::Decimal { .. } => fixed && matches!(self.width, 4 | 8 | 16),
            t => match t.fixed_bytes() {
                Some(bytes) => fixed && bytes == usize::from(self.width),
                None => self.width == 0 && var == t.is_variable() && !fixed,
            },
        };
        require(width_ok, "an encoding or width that the type does not have")?;
        let code_bound = match (dictionary, self.code_width) {
            (false, 0) => 0,
            (true, 1) => 1 << 8,
            (true, 2) => 1 << 16,
            _ => return Err("codes of no known width"),
        };
        require(self.dictionary_rows <= code_bound, "a dictionary that its codes cannot reach")?;
        require(var || self.data_bytes == 0, "string data in a column without strings")?;
        require(
            u64::from(self.bytes) == self.parts(encoding, rows).bytes,
            "a segment not as long as its parts",
        )?;
        Ok((t, Held::Whole(encoding)))
    }
}

/// Computes the checksum that the header of a page must carry.
pub(super) fn checksum(lpid: Lpid, header: &Header, directory: &[u8]) -> u32 {
    let header = bytemuck::bytes_of(header);
    crc32c_seeded(crc32c_seeded(seed_of(lpid.raw()), &header[..CHECKSUM_AT]), directory)
}
