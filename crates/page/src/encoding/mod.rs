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
mod contract;
mod delta;
mod dictionary;
mod fsst;
mod input;
mod lengths;
mod numbers;
mod rle;

use serde::{Deserialize, Serialize};

pub(crate) use choose::choose;
pub(crate) use contract::{Encoding, Shape, what};
pub(crate) use input::Input;
pub(crate) use rle::{bits_of, put_bits};

use crate::DataType;

/// Most rows of a page with encodings of this table: a few bytes do not make a reader run out of memory.
pub const ROWS_MAX: usize = 128 << 10;

/// The encodings.
pub(crate) static ENCODINGS: &[&dyn Encoding] =
    &[&numbers::Frames, &delta::Delta, &rle::Rle, &dictionary::Dictionary, &lengths::Lengths, &fsst::Fsst];

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
