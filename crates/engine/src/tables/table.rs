//! Tables: their definitions, and which pages they have at one commit.
//!
//! ```text
//!   RowAddress (64 bits)   | extent's index in the table: 22 | page: 10 | slot: 32 |
//! ```
//!
//! A `Table` is immutable: a commit that changes one makes a new one.
//! Invariants: an extent belongs to one table and appears in it once; its live pages are at most its used ones; every
//! mapped page of an extent lies below its used count.

use std::sync::OnceLock;

use lode_base::{EXTENT_PAGES, ExtentId, Lpid, TableId};
use lode_command::PageRange;
use lode_page::{ColumnType, DataType, Schema};
use lode_program::IndexRule;
use serde::{Deserialize, Serialize};

use crate::tables::statistics::TableStatistics;
use crate::{EngineError, Map};

/// Most columns of a table.
pub const COLUMNS_MAX: usize = 1000;
/// Most columns that a page index has by default.
pub const INDEX_COLUMNS_DEFAULT: usize = 8;
/// Most extents of a table: what a row address can count.
pub(crate) const EXTENTS_MAX: usize = 1 << 22;
/// The only version of a table's schema so far.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// A column as it was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDef {
    /// Its name, in the case that SQL gave it.
    pub name: String,
    /// Type and nullability of its values.
    pub ty: ColumnType,
    /// Longest string, in characters.
    pub max_chars: Option<u32>,
    /// The type in SQL, as `VARCHAR(44)`.
    pub declared: String,
}

/// A table as it was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDef {
    /// Its name, in the case that SQL gave it.
    pub name: String,
    /// Its columns, 1 to [`COLUMNS_MAX`].
    pub columns: Vec<ColumnDef>,
    /// The columns of its primary key, in the key's order; empty without one.
    pub primary_key: Vec<u16>,
    /// What `WITH (...)` said.
    pub options: TableOptions,
    /// What its rows must satisfy beside NOT NULL and the primary key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
}

/// A constraint of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// Its name, unique in the table.
    pub name: String,
    /// What it says.
    pub rule: Rule,
}

/// What a constraint says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// No two rows have these values; rows with a NULL among them do not count.
    Unique {
        /// The columns, in the constraint's order.
        columns: Vec<u16>,
    },
    /// An expression that is false for no row, as SQL writes it. Whoever makes rows evaluates it.
    Check {
        /// The expression.
        expression: String,
    },
    /// These values, unless one is NULL, are those of a row of another table, or of this one.
    ForeignKey {
        /// The columns, in the constraint's order.
        columns: Vec<u16>,
        /// The other table's name.
        parent: String,
        /// Its columns: its primary key, or those of a UNIQUE of it.
        parent_columns: Vec<u16>,
        /// What whoever deletes rows of the other table does with those that reference them.
        #[serde(default, skip_serializing_if = "OnDelete::is_no_action")]
        on_delete: OnDelete,
    },
}

/// What becomes of rows that reference a row which is deleted. Whoever deletes rows sees to it; the commit checks that nothing is
/// left that references them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDelete {
    /// They must be gone by the commit.
    #[default]
    NoAction,
    /// They are deleted, too.
    Cascade,
    /// They reference nothing any more.
    SetNull,
}

impl OnDelete {
    fn is_no_action(&self) -> bool {
        *self == Self::NoAction
    }
}

/// The options of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableOptions {
    /// The kind of its pages.
    pub layout: Layout,
    /// The columns of its page index. When a table is created without any, it gets the default ones.
    pub page_index: Vec<u16>,
}

/// Which kind of pages a table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Row pages only.
    Row,
    /// Column pages for loads, row pages for inserts.
    Column,
    /// As `Column`; later also converted in the background.
    #[default]
    Auto,
}

/// What an index made by CREATE INDEX is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    /// Columns of the drive's page index.
    #[default]
    Page,
    /// A B+-tree from values to the pages that have them.
    Btree {
        /// Whether no two rows may have the same values, unless one is NULL.
        unique: bool,
    },
}

impl IndexKind {
    fn is_page(&self) -> bool {
        *self == Self::Page
    }
}

/// An index made by CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDef {
    /// Its name, unique in the database.
    pub name: String,
    /// The table's name.
    pub table: String,
    /// Its columns.
    pub columns: Vec<u16>,
    /// What it is.
    #[serde(default, skip_serializing_if = "IndexKind::is_page")]
    pub kind: IndexKind,
}

/// The address of a row at one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowAddress(u64);

impl RowAddress {
    /// The address of slot `slot` of page `page` of the table's `extent_index`-th extent.
    ///
    /// # Panics
    /// When `extent_index` or `page` does not fit its bits.
    pub const fn from_parts(extent_index: u32, page: u16, slot: u32) -> Self {
        assert!((extent_index as usize) < EXTENTS_MAX && (page as usize) < EXTENT_PAGES);
        Self((extent_index as u64) << 42 | (page as u64) << 32 | slot as u64)
    }

    /// The address with this number; any number is one, though perhaps of no row.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its number: the addresses of a page's rows are consecutive.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Which extent of the table, counted from 0.
    pub const fn extent_index(self) -> usize {
        (self.0 >> 42) as usize
    }

    /// The page within the extent.
    pub const fn page(self) -> u16 {
        (self.0 >> 32) as u16 & (EXTENT_PAGES as u16 - 1)
    }

    /// The row within the page.
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// An extent of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableExtent {
    pub(crate) id: ExtentId,
    /// Pages from the first on that were ever written.
    pub(crate) used: u16,
    /// Of those, pages that are mapped.
    pub(crate) live: u16,
}

/// A table at one commit.
#[derive(Debug)]
pub struct Table {
    id: TableId,
    def: TableDef,
    indexes: Vec<IndexDef>,
    schema: Schema,
    pub(crate) extents: Vec<TableExtent>,
    by_extent: Map<ExtentId, u32>,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// The row page that inserts fill first.
    pub(crate) tail: Option<Lpid>,
    /// Whether index entries may be missing, since a rule was registered after the data.
    pub(crate) index_pending: bool,
    /// Where the catalog keeps it.
    pub(crate) descriptor: Lpid,
    pub(crate) statistics: OnceLock<TableStatistics>,
}

/// What the catalog keeps of a table; extents as (number, used, live).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableDescriptor {
    pub(crate) id: u32,
    pub(crate) def: TableDef,
    pub(crate) indexes: Vec<IndexDef>,
    pub(crate) extents: Vec<(u64, u16, u16)>,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) tail: Option<u64>,
    pub(crate) index_pending: bool,
}

impl Table {
    /// The table that a descriptor describes; `what` is wrong with it otherwise.
    pub(crate) fn from_descriptor(d: TableDescriptor, descriptor: Lpid) -> Result<Self, String> {
        d.def.check().map_err(|e| e.to_string())?;
        let columns = d.def.columns.len();
        let in_range = |list: &[u16]| list.iter().all(|&c| usize::from(c) < columns);
        if !d.indexes.iter().all(|i| in_range(&i.columns)) {
            return Err("an index names a column that does not exist".into());
        }
        if d.id == 0 {
            return Err("table 0 is the catalog itself".into());
        }
        let mut extents = Vec::with_capacity(d.extents.len());
        for (raw, used, live) in d.extents {
            let id = ExtentId::new(raw).ok_or_else(|| format!("extent {raw} is out of range"))?;
            if usize::from(used) > EXTENT_PAGES || live > used {
                return Err(format!("extent {raw} has {live} of {used} pages"));
            }
            extents.push(TableExtent { id, used, live });
        }
        let tail = match d.tail {
            None => None,
            Some(raw) => Some(Lpid::from_raw(raw).ok_or_else(|| format!("page {raw} is out of range"))?),
        };
        let table = Self::new(TableId::new(d.id), d.def, d.indexes, extents, descriptor).with_contents(
            d.rows,
            d.bytes,
            tail,
            d.index_pending,
        );
        if table.by_extent.len() != table.extents.len() {
            return Err("an extent is listed twice".into());
        }
        if tail.is_some_and(|t| table.extent_index(t.extent()).is_none()) {
            return Err("the last row page is in no extent of the table".into());
        }
        Ok(table)
    }

    pub(crate) fn new(
        id: TableId,
        def: TableDef,
        indexes: Vec<IndexDef>,
        extents: Vec<TableExtent>,
        descriptor: Lpid,
    ) -> Self {
        let schema = Schema { version: SCHEMA_VERSION, columns: def.columns.iter().map(|c| c.ty).collect() };
        let by_extent = extents.iter().enumerate().map(|(i, e)| (e.id, i as u32)).collect();
        Self {
            id,
            def,
            indexes,
            schema,
            extents,
            by_extent,
            rows: 0,
            bytes: 0,
            tail: None,
            index_pending: false,
            descriptor,
            statistics: OnceLock::new(),
        }
    }

    pub(crate) fn with_contents(
        mut self,
        rows: u64,
        bytes: u64,
        tail: Option<Lpid>,
        index_pending: bool,
    ) -> Self {
        self.rows = rows;
        self.bytes = bytes;
        self.tail = tail;
        self.index_pending = index_pending;
        self
    }

    /// The same table, to be changed.
    pub(crate) fn same(&self) -> Self {
        Self::new(self.id, self.def.clone(), self.indexes.clone(), self.extents.clone(), self.descriptor)
            .with_contents(self.rows, self.bytes, self.tail, self.index_pending)
    }

    pub(crate) fn to_descriptor(&self) -> TableDescriptor {
        TableDescriptor {
            id: self.id.raw(),
            def: self.def.clone(),
            indexes: self.indexes.clone(),
            extents: self.extents.iter().map(|e| (e.id.raw(), e.used, e.live)).collect(),
            rows: self.rows,
            bytes: self.bytes,
            tail: self.tail.map(Lpid::raw),
            index_pending: self.index_pending,
        }
    }

    /// Its number, which is never used again.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// How it was declared, the default page index filled in.
    pub fn def(&self) -> &TableDef {
        &self.def
    }

    /// The indexes made by CREATE INDEX.
    pub fn indexes(&self) -> &[IndexDef] {
        &self.indexes
    }

    /// Types of its columns, as pages and programs have them.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Rows, exactly.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Mapped pages.
    pub fn pages(&self) -> u64 {
        self.extents.iter().map(|e| u64::from(e.live)).sum()
    }

    /// Columns of the page index: those of the table's options, then those of its indexes.
    pub fn index_columns(&self) -> Vec<u16> {
        let mut columns = self.def.options.page_index.clone();
        for &c in self.indexes.iter().filter(|i| i.kind.is_page()).flat_map(|i| &i.columns) {
            if !columns.contains(&c) {
                columns.push(c);
            }
        }
        columns
    }

    /// What no two rows have alike: the primary key (without a name), what is UNIQUE, and unique indexes.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (Option<&str>, &[u16])> {
        let unique = self.indexes.iter().filter(|i| i.kind == IndexKind::Btree { unique: true });
        self.def.keys().chain(unique.map(|i| (Some(i.name.as_str()), &i.columns[..])))
    }

    /// What the drive keeps of each page.
    pub fn index_rule(&self) -> Result<IndexRule, EngineError> {
        Ok(IndexRule::new(self.schema.clone(), self.index_columns())?)
    }

    /// The number of the column with this name.
    pub fn column(&self, name: &str) -> Option<u16> {
        self.def.columns.iter().position(|c| c.name == name).map(|c| c as u16)
    }

    /// The address of a row of one of the table's pages. Addresses of consecutive slots are consecutive.
    ///
    /// # Panics
    /// When the page is not one of the table's.
    pub fn row_address(&self, lpid: Lpid, slot: u32) -> RowAddress {
        let index = self.extent_index(lpid.extent()).expect("the page lies in an extent of the table");
        RowAddress::from_parts(index, lpid.page(), slot)
    }

    /// The page of a row address; `None` when it lies outside the table.
    pub fn page_of(&self, address: RowAddress) -> Option<Lpid> {
        let e = self.extents.get(address.extent_index())?;
        (address.page() < e.used).then(|| e.id.page(address.page()))
    }

    pub(crate) fn extent_index(&self, e: ExtentId) -> Option<u32> {
        self.by_extent.get(&e).copied()
    }

    pub(crate) fn page_ranges(&self) -> Vec<PageRange> {
        let ranges = self.extents.iter().filter(|e| e.live > 0);
        ranges.map(|e| PageRange { extent: e.id, first: 0, count: e.used }).collect()
    }
}

impl TableDef {
    /// Checks names, counts and column numbers.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let columns = self.columns.len();
        if !(1..=COLUMNS_MAX).contains(&columns) {
            let what = format!("{columns} columns; a table has 1 to {COLUMNS_MAX}");
            return Err(EngineError::invalid(&self.name, what));
        }
        let mut names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|p| p[0] == p[1]) {
            return Err(EngineError::DuplicateColumn { table: self.name.clone(), column: pair[0].into() });
        }
        for (what, list) in
            [("the primary key", &self.primary_key), ("the page index", &self.options.page_index)]
        {
            check_columns(&self.name, what, list, columns)?;
        }
        for (i, c) in self.constraints.iter().enumerate() {
            let what = format!("the constraint \"{}\"", c.name);
            if self.constraints[..i].iter().any(|other| other.name == c.name) {
                return Err(EngineError::invalid(&self.name, format!("{what} is there twice")));
            }
            match &c.rule {
                Rule::Check { .. } => {}
                Rule::Unique { columns: list } | Rule::ForeignKey { columns: list, .. }
                    if list.is_empty() =>
                {
                    return Err(EngineError::invalid(&self.name, format!("{what} has no columns")));
                }
                Rule::Unique { columns: list } | Rule::ForeignKey { columns: list, .. } => {
                    check_columns(&self.name, &what, list, columns)?;
                }
            }
        }
        Ok(())
    }

    /// What no two rows have alike: the primary key (without a name), then what is UNIQUE.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (Option<&str>, &[u16])> {
        let primary = (!self.primary_key.is_empty()).then_some((None, &self.primary_key[..]));
        let unique = self.constraints.iter().filter_map(|c| match &c.rule {
            Rule::Unique { columns } => Some((Some(c.name.as_str()), &columns[..])),
            _ => None,
        });
        primary.into_iter().chain(unique)
    }

    /// Checks a foreign key against the table that it references.
    pub(crate) fn check_parent(
        &self,
        c: &Constraint,
        columns: &[u16],
        parent: &TableDef,
        parent_columns: &[u16],
    ) -> Result<(), EngineError> {
        let what = |s: &str| EngineError::invalid(&self.name, format!("the constraint \"{}\" {s}", c.name));
        if !parent.keys().any(|(_, key)| key == parent_columns) {
            let s = format!(
                "references columns of \"{}\" that are neither its PRIMARY KEY nor UNIQUE",
                parent.name
            );
            return Err(what(&s));
        }
        let types = |def: &TableDef, list: &[u16]| -> Vec<DataType> {
            list.iter().map(|&c| def.columns[usize::from(c)].ty.data_type).collect()
        };
        match types(self, columns) == types(parent, parent_columns) {
            true => Ok(()),
            false => Err(what(&format!("references columns of \"{}\" of other types", parent.name))),
        }
    }

    /// Primary key columns are never NULL; an empty page index gets the default columns.
    pub(crate) fn completed(mut self) -> Self {
        for &c in &self.primary_key {
            self.columns[usize::from(c)].ty.nullable = false;
        }
        if self.options.page_index.is_empty() {
            self.options.page_index = self.index_columns_default();
        }
        self
    }

    /// The primary key first, then columns of constraints, then dates and timestamps, then what else has a fixed width.
    fn index_columns_default(&self) -> Vec<u16> {
        let all = || (0u16..).zip(&self.columns).map(|(i, c)| (i, c.ty.data_type));
        let dates = all().filter(|(_, t)| matches!(t, DataType::Date | DataType::Timestamp));
        let fixed = all().filter(|(_, t)| !t.is_variable());
        let mut columns = Vec::new();
        let constrained = self.constraints.iter().flat_map(|c| match &c.rule {
            Rule::Unique { columns } | Rule::ForeignKey { columns, .. } => &columns[..],
            Rule::Check { .. } => &[],
        });
        for c in self.primary_key.iter().chain(constrained).copied().chain(dates.chain(fixed).map(|(i, _)| i))
        {
            if columns.len() < INDEX_COLUMNS_DEFAULT && !columns.contains(&c) {
                columns.push(c);
            }
        }
        columns
    }
}

pub(crate) fn check_columns(
    table: &str,
    what: &str,
    list: &[u16],
    columns: usize,
) -> Result<(), EngineError> {
    for (i, &c) in list.iter().enumerate() {
        if usize::from(c) >= columns {
            return Err(EngineError::invalid(table, format!("{what} names column {c} of {columns}")));
        }
        if list[..i].contains(&c) {
            return Err(EngineError::invalid(table, format!("{what} names a column twice")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn def(types: &[DataType], primary_key: &[u16]) -> TableDef {
        let column = |(i, &data_type): (usize, &DataType)| ColumnDef {
            name: format!("c{i}"),
            ty: ColumnType { data_type, nullable: true },
            max_chars: None,
            declared: data_type.to_string(),
        };
        TableDef {
            name: "t".into(),
            columns: types.iter().enumerate().map(column).collect(),
            primary_key: primary_key.into(),
            options: TableOptions::default(),
            constraints: Vec::new(),
        }
    }

    #[test]
    fn addresses_come_apart_again() {
        let a = RowAddress::from_parts((1 << 22) - 1, 1023, u32::MAX);
        assert_eq!((a.extent_index(), a.page(), a.slot()), ((1 << 22) - 1, 1023, u32::MAX));
        assert_eq!(a.raw(), u64::MAX);
        let a = RowAddress::from_parts(3, 5, 7);
        assert_eq!((a.extent_index(), a.page(), a.slot()), (3, 5, 7));
        assert_eq!(RowAddress::from_raw(a.raw() + 1), RowAddress::from_parts(3, 5, 8));
    }

    #[test]
    fn the_default_index_has_keys_then_dates_then_fixed_widths() {
        use DataType::*;
        let d = def(&[Text, BigInt, Double, Date, Text, Timestamp, Boolean], &[4, 1]).completed();
        assert_eq!(d.options.page_index, [4, 1, 3, 5, 2, 6]);
        assert!(!d.columns[4].ty.nullable && d.columns[0].ty.nullable);
        assert_eq!(def(&[Integer; 20], &[]).completed().options.page_index.len(), INDEX_COLUMNS_DEFAULT);
    }

    #[test]
    fn definitions_that_contradict_themselves_are_refused() {
        let mut twice = def(&[DataType::Text; 2], &[]);
        twice.columns[1].name = "c0".into();
        assert_eq!(twice.check().unwrap_err().to_string(), "table \"t\": column \"c0\" is named twice");
        assert!(def(&[], &[]).check().is_err());
        assert!(def(&[DataType::Text; 1001], &[]).check().is_err());
        assert!(def(&[DataType::Text], &[1]).check().is_err());
        assert!(def(&[DataType::Text; 2], &[1, 1]).check().is_err());
    }
}
