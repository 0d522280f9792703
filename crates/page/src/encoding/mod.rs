//! The encodings of segments. An encoding stores values in fewer bytes, or so that hardware can look for them.
//!
//! ```text
//!   column ─► Input ─► each encoding estimates its cost ─► the cheapest one encodes ─► body of a segment
//!   segment ─► body ─► the encoding of its id ─┬─ open  ─► Values of all rows
//!                                              ├─ range ─► Values of some rows
//!                                              └─ row   ─► one value; unpacks at most 1,024
//! ```
//!
//! | id | name | types | values in memory |
//! |---|---|---|---|
//! | 6 | `for` | integers, DATE, TIMESTAMP, DECIMAL | packed: frames of reference |
//! | 7 | `delta` | the same | packed: differences of numbers one line of words apart |
//! | 8 | `rle` | all but TEXT and BYTEA | packed: runs; BOOLEAN as bits |
//! | 9 | `dictionary` | all but BOOLEAN | distinct values; the codes are unpacked to 1 or 2 bytes |
//! | 10 | `lengths` | TEXT, BYTEA | strings with plain offsets |
//! | 11 | `fsst` | TEXT, BYTEA | codes of symbols |
//! | 12 | `matchable` | all | numbers, from fields for a pattern matcher; never chosen, also in row pages |
//!
//! Ids 1 to 5 belong to pages of version 1, whose values take whole bytes (`plain`; `table_page` draws them).
//!
//! Invariants: decoding returns each value that is not NULL as it was encoded. Decoding arbitrary bytes either fails
//! or yields values that are valid for the type. Decoding allocates at most 8 times the bytes of a segment, or 16
//! bytes a row. A page with these encodings has at most [`ROWS_MAX`] rows.
//!
//! An encoding is one file here and one line in `ENCODINGS`; `docs/extending.md` explains how to add one.

mod choose;
mod contract;
mod delta;
mod dictionary;
mod fsst;
mod input;
mod lengths;
mod matchable;
mod numbers;
mod rle;

use serde::{Deserialize, Serialize};

pub(crate) use choose::choose;
pub(crate) use contract::{Encoding, Shape, what};
pub(crate) use input::Input;
pub(crate) use rle::{bits_of, put_bits};

use crate::DataType;

/// The most rows of a page with encodings of this table. The limit bounds the memory that a small forged page can
/// make a reader allocate.
pub const ROWS_MAX: usize = 128 << 10;

/// All encodings.
pub(crate) static ENCODINGS: &[&dyn Encoding] = &[
    &numbers::Frames,
    &delta::Delta,
    &rle::Rle,
    &dictionary::Dictionary,
    &lengths::Lengths,
    &fsst::Fsst,
    &matchable::Matchable,
];

/// Returns the encoding with this id.
pub(crate) fn of_id(id: u8) -> Option<&'static dyn Encoding> {
    ENCODINGS.iter().copied().find(|e| e.id() == id)
}

/// How the segments of a column are to be encoded. It is serialized as its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum EncodingChoice {
    /// Each segment gets the encoding of the lowest estimated cost.
    #[default]
    Auto,
    /// Values take whole bytes, as in pages of version 1: fixed widths, offsets, and dictionaries that save at least
    /// a quarter.
    Plain,
    /// Each segment gets this encoding if the encoding can hold its values.
    Only(EncodingId),
}

/// An encoding that a table option can name.
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
    /// Returns the choice with this name.
    pub fn named(name: &str) -> Option<Self> {
        let only = || ENCODINGS.iter().find(|e| e.name() == name).map(|e| Self::Only(EncodingId(e.id())));
        match name {
            "auto" => Some(Self::Auto),
            "plain" => Some(Self::Plain),
            _ => only(),
        }
    }

    /// Returns the name of the choice.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Plain => "plain",
            Self::Only(EncodingId(id)) => of_id(id).expect("it was found by its name").name(),
        }
    }

    /// Returns the names of all choices.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ["auto", "plain"].into_iter().chain(ENCODINGS.iter().map(|e| e.name()))
    }

    /// Returns whether a segment that already has encoding `id` satisfies the choice.
    pub(crate) fn allows(self, id: u8) -> bool {
        match self {
            Self::Auto => true,
            Self::Plain => false,
            Self::Only(EncodingId(only)) => id == only,
        }
    }

    /// Returns whether values take whole bytes, row after row. Row pages take no other choice.
    pub fn is_whole_bytes(self) -> bool {
        match self {
            Self::Auto => false,
            Self::Plain => true,
            Self::Only(EncodingId(id)) => of_id(id).is_some_and(Encoding::is_whole_bytes),
        }
    }

    /// Returns whether segments hold the fields of their values ([`crate::matchable`]).
    pub fn is_matchable(self) -> bool {
        matches!(self, Self::Only(_)) && self.is_whole_bytes()
    }

    /// Returns whether columns of type `t` can have this choice.
    pub fn takes(self, t: DataType) -> bool {
        match self {
            Self::Auto | Self::Plain => true,
            Self::Only(EncodingId(id)) => of_id(id).is_some_and(|e| e.takes(t)),
        }
    }
}
