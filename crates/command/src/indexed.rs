//! Reads of pages by the page index: what FLIXR's commands are here.
//!
//! ```text
//!   FLIXR (table 1)                    here
//!   SEND_TBL_COL, SEND_IDX_ENC         an index rule of a batch: schema, kinds, columns
//!   SEND_IDX_ICR                       Command::RegisterProgram
//!   SEND_TIDX_ENC                      Command::RegisterKeys
//!   WRITE_IDX                          Command::Write
//!   READ_IDX                           Command::ReadIndexed
//!   READ_IDX_JOIN1, READ_IDX_JOIN2     ... with `collect`, ... with `among`
//!   UPDATE_HOST_INDEX                  Batch::answer_entries ─► Reply::Committed { entries }
//! ```
//!
//! What is registered lies in the drive's memory, under the owner of the pages and a number of the host's choice. It goes with a crash.
//!
//! ```text
//!   read lineitem, collect ─► pages that the index does not exclude ─► host
//!                          └► keys in them ─► set (saved until lineitem changes)
//!   read part, among       ─► pages whose entries may have a key of the set ─► host
//! ```

use std::fmt;

use lode_base::{OwnerId, ViewId};
use lode_program::KeysForm;

use crate::PageRange;
use crate::scan::Skip;

/// A read of whole pages that a registered program and the page index cannot exclude.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedRead {
    /// The view that the pages are read at.
    pub view: ViewId,
    /// The owner of the pages.
    pub owner: OwnerId,
    /// The number of its registered program.
    pub program: u32,
    /// The pages. Unmapped ones are skipped.
    pub pages: Vec<PageRange>,
    /// A unit ends after this many pages (at least 1) were considered one by one, or earlier if it is large.
    pub unit_pages: u32,
    /// How the page index is asked.
    pub skip: Skip,
    /// Registered keys of the owner that are collected from the pages. The set is saved once the last page was answered. It has
    /// keys of these pages and of no others, which the host minds when it uses the set again.
    pub collect: Option<u32>,
    /// Only pages that may have a row with a key of a saved set.
    pub among: Option<Among>,
}

/// A saved set of keys, and the column that has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Among {
    /// The owner of the pages that the keys were collected from.
    pub owner: OwnerId,
    /// The number of its registered keys.
    pub keys: u32,
    /// The number of the program with which they were collected.
    pub program: u32,
    /// The column of the pages that are read.
    pub column: u16,
}

/// Which keys are collected from the pages of an owner, and what set they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysRule {
    /// The column, of integers, dates or decimals.
    pub column: u16,
    /// Whether rows that do not pass the program's filter count too, as in the paper.
    pub all_rows: bool,
    /// The set.
    pub form: KeysForm,
}

/// What a host registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registration {
    /// A program.
    Program,
    /// Keys.
    Keys,
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "program",
            Self::Keys => "keys",
        })
    }
}

impl crate::CommandError {
    /// A program that is not registered.
    pub fn no_program(owner: OwnerId, number: u32) -> Self {
        Self::NotRegistered { owner, what: Registration::Program, number }
    }

    /// Keys that are not registered.
    pub fn no_keys_rule(owner: OwnerId, number: u32) -> Self {
        Self::NotRegistered { owner, what: Registration::Keys, number }
    }
}
