//! Rows of one leaf of a delta, as columns. The host evaluates programs over them.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, Weak};

use lode_base::{Lpid, TableId};
use lode_page::{Column, ColumnType, Node, Schema, row};
use lode_program::index::EntryForm;
use lode_program::{ColumnSource, IndexEntry, IndexRule};
use parking_lot::Mutex;

use super::directory::Directory;
use super::ids::{RowId, id_of_key};
use crate::EngineError;
use crate::tables::planted_cuts::{self, Planted as ForCuts};
use crate::trees::Snapshot;

/// Bytes of a row in a chunk beside its values.
const ROW_BYTES: usize = size_of::<RowId>();

type Places = (Weak<Directory>, Arc<Vec<(Lpid, u32)>>);

/// What the rows of a delta must agree with, and the rule of their entries.
#[derive(Clone, Copy)]
pub(in crate::tables) struct RowsOf<'a> {
    pub(in crate::tables) table: TableId,
    pub(in crate::tables) name: &'a str,
    pub(in crate::tables) schema: &'a Schema,
    pub(in crate::tables) rule: &'a IndexRule,
}

/// Some rows of a delta.
#[derive(Debug)]
pub(in crate::tables) struct Chunk {
    /// The ids of the rows, ascending.
    pub(in crate::tables) ids: Vec<RowId>,
    /// Their values. Empty if there are no rows.
    pub(in crate::tables) columns: Vec<Column>,
    /// The ids of rows that are gone, ascending.
    pub(in crate::tables) gone: Vec<RowId>,
    /// What the page index would have of a page of the rows, and the form in which its rule makes entries.
    entry: Option<IndexEntry>,
    rule: EntryForm,
    /// The schema by which images were read: it says what rows have that lack a column.
    schema: Schema,
    /// Places of the rows in the main, by the last directory that was asked for.
    places: Mutex<Option<Places>>,
    pub(in crate::tables) bytes: usize,
}

impl Chunk {
    /// The rows of some entries of a leaf.
    pub(in crate::tables) fn of_leaf(
        snapshot: &Snapshot,
        t: &RowsOf<'_>,
        leaf: &Node,
        entries: Range<usize>,
    ) -> Result<Self, EngineError> {
        let values = snapshot.values_at(leaf, entries.clone())?;
        let mut key = Vec::new();
        let mut rows = Vec::with_capacity(values.len());
        for (i, image) in entries.zip(&values) {
            leaf.read_key(i, &mut key);
            let id = id_of_key(&key).ok_or_else(|| damaged(t, "an entry without a row id"))?;
            rows.push((id, (!image.is_empty()).then_some(&image[..])));
        }
        Self::of_rows(t, rows)
    }

    /// A chunk of these rows, which ascend by id; each has an image, or is gone.
    pub(in crate::tables) fn of_rows<'a>(
        t: &RowsOf<'_>,
        rows: impl IntoIterator<Item = (RowId, Option<&'a [u8]>)>,
    ) -> Result<Self, EngineError> {
        let (mut ids, mut gone, mut images) = (Vec::new(), Vec::new(), Vec::new());
        for (id, image) in rows {
            match image {
                Some(image) => {
                    ids.push(id);
                    images.push(image);
                }
                None => gone.push(id),
            }
        }
        let image_bytes: usize = images.iter().map(|i| i.len()).sum();
        let columns = match images.is_empty() {
            true => Vec::new(),
            false => row::decode_all(t.schema, images).map_err(|e| damaged(t, &e.to_string()))?,
        };
        let columns_bytes = t.schema.columns.len() * size_of::<ColumnType>();
        let bytes =
            2 * image_bytes + (ids.len() + gone.len()) * ROW_BYTES + columns_bytes + size_of::<Self>();
        Self::new(t, ids, columns, gone, bytes)
    }

    pub(super) fn new(
        t: &RowsOf<'_>,
        ids: Vec<RowId>,
        columns: Vec<Column>,
        gone: Vec<RowId>,
        bytes: usize,
    ) -> Result<Self, EngineError> {
        let entry = match columns.is_empty() {
            true => None,
            false => t.rule.entry(&mut Whole(&columns)).ok(),
        };
        let (rule, schema) = (t.rule.entry_form(), t.schema.clone());
        Ok(Self { ids, columns, gone, entry, rule, schema, places: Mutex::default(), bytes })
    }

    /// The page that stands for its rows.
    ///
    /// # Panics
    /// When it has neither a row nor one that is gone.
    pub(in crate::tables) fn page(&self, t: TableId) -> Lpid {
        let first = self.ids.first().or(self.gone.first());
        first.expect("a chunk has a row, or one that is gone").place(t).0
    }

    /// The places in the main of its rows and of those that are gone.
    pub(in crate::tables) fn places(&self, directory: &Arc<Directory>) -> Arc<Vec<(Lpid, u32)>> {
        let mut known = self.places.lock();
        if let Some((of, places)) = &*known
            && of.upgrade().is_some_and(|of| Arc::ptr_eq(&of, directory))
        {
            return places.clone();
        }
        let ids = self.ids.iter().chain(&self.gone);
        let places: Arc<Vec<(Lpid, u32)>> = Arc::new(ids.filter_map(|id| directory.place(*id)).collect());
        *known = Some((Arc::downgrade(directory), places.clone()));
        places
    }

    /// What the page index would say of the rows, if it was made by this rule.
    pub(in crate::tables) fn entry(&self, rule: &IndexRule) -> Option<&IndexEntry> {
        self.entry.as_ref().filter(|_| self.rule == rule.entry_form())
    }

    /// Whether its columns and its entry are those of a table with this schema and page index.
    pub(super) fn is_of(&self, t: &RowsOf<'_>) -> bool {
        let is_same = || self.schema == *t.schema;
        self.rule == t.rule.entry_form()
            && planted_cuts::instead(ForCuts::ColumnsOfOtherSchema, is_same, || true)
    }
}

/// All columns of some rows.
struct Whole<'a>(&'a [Column]);

impl ColumnSource for Whole<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.0[0].rows()
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        Ok(self.0[usize::from(column)].clone())
    }
}

/// The rows of a chunk as a page. Slots are the lower half of their ids.
pub(in crate::tables) struct ChunkPage<'a> {
    chunk: &'a Chunk,
    slots: Vec<u32>,
}

impl<'a> ChunkPage<'a> {
    pub(in crate::tables) fn new(chunk: &'a Arc<Chunk>) -> Self {
        Self { chunk, slots: chunk.ids.iter().map(|id| id.raw() as u32).collect() }
    }
}

impl ColumnSource for ChunkPage<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.chunk.ids.len()
    }

    fn column(&mut self, column: u16) -> Result<Column, Infallible> {
        Ok(self.chunk.columns[usize::from(column)].clone())
    }

    fn slots(&self) -> Option<&[u32]> {
        Some(&self.slots)
    }
}

fn damaged(t: &RowsOf<'_>, what: &str) -> EngineError {
    EngineError::invalid(t.name, format!("its delta is damaged: {what}"))
}
