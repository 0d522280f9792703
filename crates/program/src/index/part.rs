//! Parts of index entries: what one kind has of its columns.

use std::ops::Range;

use lode_page::DataType;

/// A column that a kind keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptColumn {
    /// Its number.
    pub column: u16,
    /// How the kind keeps it: bytes that the kind defines, usually none.
    pub form: Box<[u8]>,
}

/// Columns of a kind that asks nothing about them.
pub fn kept(columns: &[u16]) -> Vec<KeptColumn> {
    columns.iter().map(|&column| KeptColumn { column, form: Box::default() }).collect()
}

/// A column of a part of the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartColumn {
    /// Its number.
    pub column: u16,
    /// Its type.
    pub data_type: DataType,
    /// How the kind keeps it.
    pub form: Box<[u8]>,
    /// Where its bytes lie in the part.
    pub bytes: Range<usize>,
}

/// The part of one kind in the entry of one page.
#[derive(Clone, Copy, Debug)]
pub struct EntryPart<'a> {
    /// Rows of the page.
    pub rows: u32,
    /// The summarized columns.
    pub columns: &'a [PartColumn],
    /// The part of the entry.
    pub bytes: &'a [u8],
}

impl<'a> EntryPart<'a> {
    /// The index of a column of type `t` in the part, if the part summarizes it.
    pub fn place(&self, column: u16, t: DataType) -> Option<usize> {
        let place = self.columns.iter().position(|c| c.column == column)?;
        (self.columns[place].data_type == t).then_some(place)
    }

    /// The bytes of the column at `place`.
    pub fn of(&self, place: usize) -> &'a [u8] {
        &self.bytes[self.columns[place].bytes.clone()]
    }
}
