//! How segments of column pages hold their values in fewer bytes: encodings, as members of a table.
//!
//! ```text
//!   column ─► Input ─► each encoding: estimate from a sample ─► the cheapest: encode ─► body of a segment
//!   segment ─► body ─► the encoding of its id: open ─► Values      range: some rows      row: one value, of at most 1,024 unpacked
//! ```
//!
//! | id | name | types | values in memory |
//! |---|---|---|---|
//! | 6 | `for` | integers, DATE, TIMESTAMP, DECIMAL | packed: frames of reference |
//! | 7 | `delta` | the same | packed: differences of numbers that lie a line apart |
//! | 8 | `rle` | all but TEXT and BYTEA | packed: runs; BOOLEAN as bits |
//! | 9 | `dictionary` | all but BOOLEAN | a dictionary; its codes are packed, or runs |
//! | 10 | `lengths` | TEXT, BYTEA | strings; their lengths are packed |
//! | 11 | `fsst` | TEXT, BYTEA | codes of symbols |
//!
//! Ids 1 to 5 are those of pages of version 1, whose values take whole bytes (`plain`; `table_page` draws them).
//!
//! What must hold: an encoding gives back each value, NULLs apart; bytes from anywhere are refused, or make values that are of the
//! type; nothing is allocated beyond 8 times the bytes of a segment, or 16 bytes a row, and a page has at most [`ROWS_MAX`] rows.
//!
//! An encoding is one file here and one line in [`ENCODINGS`]; `docs/extending.md` tells how.

mod choose;
mod delta;
mod dictionary;
mod fsst;
mod input;
mod lengths;
mod numbers;
mod rle;

use std::ops::Range;

use lode_base::PageBuf;
use serde::{Deserialize, Serialize};

pub(crate) use choose::choose;
pub(crate) use input::Input;
pub(crate) use rle::{bits_of, put_bits};

use crate::{Column, DataType, PageError, Value, Values};

/// Most rows of a page with encodings of this table: a few bytes do not make a reader run out of memory.
pub const ROWS_MAX: usize = 128 << 10;

/// The encodings.
pub(crate) static ENCODINGS: &[&dyn Encoding] =
    &[&numbers::Frames, &delta::Delta, &rle::Rle, &dictionary::Dictionary, &lengths::Lengths, &fsst::Fsst];

/// A way to hold values in fewer bytes.
pub(crate) trait Encoding: Sync {
    /// What a directory entry calls it.
    fn id(&self) -> u8;

    /// What a table's option calls it.
    fn name(&self) -> &'static str;

    /// Whether columns of type `t` can have it.
    fn takes(&self, t: DataType) -> bool;

    /// What it would take, about; `None` where it cannot hold these values, or is not worth a try.
    fn estimate(&self, input: &Input<'_>) -> Option<Cost>;

    /// Whether an estimate takes so long that it is not made where another encoding already takes a quarter of the bytes.
    fn is_slow_to_estimate(&self) -> bool {
        false
    }

    /// The body of a segment; `None` where it cannot hold these values.
    fn encode(&self, input: &Input<'_>) -> Option<Encoded>;

    /// All values of a body. What is read often may stay encoded.
    ///
    /// # Errors
    /// What is wrong with the body.
    fn open(&self, shape: &Shape, body: PageBuf) -> Result<Values, &'static str>;

    /// The values of some rows, which there are. It need not look at the body of others.
    ///
    /// # Errors
    /// What is wrong with the body.
    fn range(&self, shape: &Shape, body: PageBuf, rows: Range<usize>) -> Result<Values, &'static str>;

    /// The value of one row, which there is, of at most 1,024 that are unpacked.
    ///
    /// # Errors
    /// What is wrong with the body.
    fn row(&self, shape: &Shape, body: PageBuf, row: usize) -> Result<Value, &'static str> {
        let values = self.range(shape, body, row..row + 1)?;
        let one = Column::new(shape.data_type, 1, None, values).map_err(what)?;
        Ok(one.value(0))
    }
}

/// What a column costs: its bytes, and the time to unpack all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) bytes: usize,
    pub(crate) unpack_ps: u64,
}

/// What a byte costs, in the time of a reader: it is kept, read, checked and sent.
const BYTE_PS: u64 = 2000;

impl Cost {
    /// All of it, in picoseconds.
    fn total(self) -> u64 {
        self.bytes as u64 * BYTE_PS + self.unpack_ps
    }
}

/// The body of a segment, and what its directory entry says of it.
pub(crate) struct Encoded {
    pub(crate) body: Vec<u8>,
    /// Bytes of a number in memory; 0 for bits and strings.
    pub(crate) width: u8,
}

/// What is known of a segment beside its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) data_type: DataType,
    pub(crate) rows: usize,
    /// Bytes of a number in memory; 0 for bits and strings.
    pub(crate) width: u8,
}

impl Shape {
    /// Whether numbers of the type may be so wide.
    pub(crate) fn is_of_type(&self) -> bool {
        match self.data_type {
            DataType::Decimal { .. } => matches!(self.width, 4 | 8 | 16),
            t => t.fixed_bytes().unwrap_or(0) == usize::from(self.width),
        }
    }
}

/// The encoding of this id.
pub(crate) fn of_id(id: u8) -> Option<&'static dyn Encoding> {
    ENCODINGS.iter().copied().find(|e| e.id() == id)
}

/// How the segments of a column are to be encoded. As text it is its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum EncodingChoice {
    /// By what takes least, segment by segment.
    #[default]
    Auto,
    /// In whole bytes, as pages of version 1 have them: fixed widths, offsets, and dictionaries where they save a quarter.
    Plain,
    /// By one encoding, wherever it can hold the values.
    Only(EncodingId),
}

/// An encoding that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingId(u8);

impl From<EncodingChoice> for String {
    fn from(choice: EncodingChoice) -> Self {
        choice.name().into()
    }
}

impl TryFrom<String> for EncodingChoice {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::named(&name).ok_or_else(|| format!("this Lode has no encoding {name:?}"))
    }
}

impl EncodingChoice {
    /// The choice of this name.
    pub fn named(name: &str) -> Option<Self> {
        let only = || ENCODINGS.iter().find(|e| e.name() == name).map(|e| Self::Only(EncodingId(e.id())));
        match name {
            "auto" => Some(Self::Auto),
            "plain" => Some(Self::Plain),
            _ => only(),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Plain => "plain",
            Self::Only(EncodingId(id)) => of_id(id).expect("it was found by its name").name(),
        }
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ["auto", "plain"].into_iter().chain(ENCODINGS.iter().map(|e| e.name()))
    }

    /// Whether a segment of encoding `id` is as is asked for.
    pub(crate) fn allows(self, id: u8) -> bool {
        match self {
            Self::Auto => true,
            Self::Plain => false,
            Self::Only(EncodingId(only)) => id == only,
        }
    }

    /// Whether columns of type `t` can have it.
    pub fn takes(self, t: DataType) -> bool {
        match self {
            Self::Auto | Self::Plain => true,
            Self::Only(EncodingId(id)) => of_id(id).is_some_and(|e| e.takes(t)),
        }
    }
}

/// What a column's error says is wrong.
pub(crate) fn what(e: PageError) -> &'static str {
    match e {
        PageError::BadColumn { what, .. } => what,
        _ => "a column that contradicts itself",
    }
}
