//! What statements note for the check of foreign keys at their end (`references.rs`), and which columns it needs.
//!
//! ```text
//!   new rows ────► columns of the table's foreign keys ─┐
//!   rows gone ───► columns that others reference ───────┴─► Touched, one for each changed table
//! ```

use lode_page::Column;

use crate::Map;
use crate::tables::definition::{Constraint, Deferral, Rule};
use crate::tables::key::{chosen, numbered};
use crate::tables::planted::{self, Planted};
use crate::tables::snapshot::Tables;
use crate::tables::table::Table;

/// Columns of more bytes than this are not noted. Their tables are checked as a whole.
const NOTED_BYTES_MAX: usize = 16 << 20;

/// What the statements since the last end did to a table that foreign keys ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    /// Columns of the table's foreign keys, of new and changed rows.
    pub(super) children: Noted,
    /// Columns that foreign keys reference, of rows that were deleted or changed, as they were before.
    pub(super) gone: Noted,
}

/// Columns of some rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    columns: Vec<u16>,
    parts: Vec<Vec<Column>>,
    bytes: usize,
    /// Whether there are more that are not noted.
    many: bool,
}

/// The columns of each table that foreign keys reference which are not deferred, by the table's name.
#[derive(Debug)]
pub(super) struct Referenced {
    pub(super) tables: Tables,
    pub(super) columns: Map<String, Vec<u16>>,
}

/// Whether a foreign key is checked at the end of a statement.
pub(super) fn is_immediate(c: &Constraint) -> bool {
    c.deferral != Deferral::Deferred
}

impl Touched {
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty() && self.gone.is_empty()
    }

    /// Notes new rows, given as all columns of the table.
    pub(super) fn note_new(&mut self, t: &Table, all: &[Column]) {
        let columns = foreign_columns(t);
        self.children.add(&columns, chosen(all, &columns));
    }

    /// Notes rows that are deleted or changed, given as these columns, as they were.
    pub(super) fn note_gone(&mut self, columns: &[u16], was: Vec<Column>) {
        planted::unless(Planted::GoneParentNotNoted, || self.gone.add(columns, was));
    }
}

impl Noted {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && !self.many
    }

    pub(super) fn add(&mut self, columns: &[u16], part: Vec<Column>) {
        if self.many || part.first().is_none_or(|c| c.rows() == 0) {
            return;
        }
        if self.parts.is_empty() {
            self.columns = columns.into();
        }
        self.bytes += part.iter().map(Column::unpacked_bytes).sum::<usize>();
        self.parts.push(part);
        if self.bytes > NOTED_BYTES_MAX || self.columns != columns {
            *self = Self { many: true, ..Self::default() };
        }
    }

    /// The noted rows in these columns; `None` if not all of them are noted.
    pub(super) fn of<'a>(&'a self, columns: &'a [u16]) -> Option<impl Iterator<Item = Vec<Column>> + 'a> {
        let is_whole = !self.many && columns.iter().all(|c| self.columns.contains(c));
        is_whole.then(|| self.parts.iter().map(|part| numbered(&self.columns, part, columns)))
    }
}

impl Referenced {
    pub(super) fn of(tables: &Tables) -> Self {
        let mut columns: Map<String, Vec<u16>> = Map::default();
        for c in tables.values().flat_map(|t| &t.def().constraints).filter(|c| is_immediate(c)) {
            if let Rule::ForeignKey { parent, parent_columns, .. } = &c.rule {
                columns.entry(parent.clone()).or_default().extend(parent_columns);
            }
        }
        for list in columns.values_mut() {
            list.sort_unstable();
            list.dedup();
        }
        Self { tables: tables.clone(), columns }
    }
}

/// The columns of a table's foreign keys that are not deferred.
pub(super) fn foreign_columns(t: &Table) -> Vec<u16> {
    let of = |c: &Constraint| match &c.rule {
        Rule::ForeignKey { columns, .. } if is_immediate(c) => columns.clone(),
        _ => Vec::new(),
    };
    let mut columns: Vec<u16> = t.def().constraints.iter().flat_map(of).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}
