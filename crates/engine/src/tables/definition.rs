//! Definitions of tables, constraints and indexes, as they were declared.

use std::collections::BTreeMap;

use lode_page::{ColumnType, Constant, DataType, EncodingChoice, Schema, TablePage};
use lode_program::index::{bitmap, bloom, prefix, range, trigram};
use serde::{Deserialize, Serialize};

use super::entries::EntryOf;
use crate::EngineError;

/// The maximum number of columns of a table.
pub const COLUMNS_MAX: usize = 1000;
/// The maximum number of columns that a page index has by default.
pub const INDEX_COLUMNS_DEFAULT: usize = 8;

/// A column as it was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDef {
    /// Its name, in the case that SQL gave it.
    pub name: String,
    /// Type and nullability of its values.
    pub ty: ColumnType,
    /// Maximum length of its strings, in characters. `None`: no limit.
    pub max_chars: Option<u32>,
    /// The type in SQL, for example `VARCHAR(44)`.
    pub declared: String,
    /// Where its values come from if a statement gives none. The caller that makes rows does this.
    #[serde(default, skip_serializing_if = "Fill::is_null")]
    pub fill: Fill,
    /// What rows that were written before ALTER TABLE added the column have in it. `None`: the column was created with its table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<Constant>,
    /// Whether ALTER TABLE dropped it. Pages and rows still have the column, and new rows have NULL in it. Its name is free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_dropped: bool,
    /// Its place among the columns, if that is not its number: a column whose type was altered is in the place of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u16>,
    /// What an index has it for, if SQL does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Hidden>,
}

/// What an index has a hidden column for. The column is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hidden {
    /// The values of an expression in the index.
    Expression,
    /// The condition of a partial index: true for its rows, and NULL for all others. The column is the first one of the index.
    Condition,
}

impl ColumnDef {
    /// A column of a type that may be NULL.
    pub fn new(name: &str, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            ty: ColumnType { data_type, nullable: true },
            max_chars: None,
            declared: data_type.to_string(),
            absent: None,
            is_dropped: false,
            place: None,
            hidden: None,
            fill: Fill::Null,
        }
    }
}

/// Where the values of a column come from if a statement gives none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// They are NULL.
    #[default]
    Null,
    /// DEFAULT: an SQL expression.
    Default(String),
    /// The next number of the sequence of this number: SERIAL, or DEFAULT nextval(...).
    Sequence(u32),
    /// GENERATED ... AS IDENTITY: the next number of a sequence that belongs to the column.
    Identity {
        /// The number of the sequence.
        sequence: u32,
        /// GENERATED ALWAYS: a statement may give values only if it says OVERRIDING SYSTEM VALUE.
        always: bool,
    },
    /// GENERATED ALWAYS AS (...) STORED: an SQL expression over the other columns of the row.
    Generated(String),
}

impl Fill {
    /// Whether there is none.
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// The number of the sequence that it takes values from.
    pub fn sequence(&self) -> Option<u32> {
        match self {
            Self::Sequence(id) | Self::Identity { sequence: id, .. } => Some(*id),
            Self::Null | Self::Default(_) | Self::Generated(_) => None,
        }
    }
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
    /// Whether the check of the primary key may wait for the commit.
    #[serde(default, skip_serializing_if = "Deferral::is_none")]
    pub primary_key_deferral: Deferral,
    /// The name of the primary key, if it is another than its table gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_key_name: Option<String>,
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
    /// Whether its check may wait for the commit. That of a CHECK does not.
    #[serde(default, skip_serializing_if = "Deferral::is_none")]
    pub deferral: Deferral,
}

/// Whether the check of a constraint may wait for the commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    /// NOT DEFERRABLE.
    #[default]
    None,
    /// DEFERRABLE INITIALLY IMMEDIATE.
    Immediate,
    /// DEFERRABLE INITIALLY DEFERRED.
    Deferred,
}

impl Deferral {
    /// How SQL declares it, behind a constraint and a blank; empty for the default.
    pub const fn declared(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Immediate => " DEFERRABLE",
            Self::Deferred => " DEFERRABLE INITIALLY DEFERRED",
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// What a constraint says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// No two rows have equal values in these columns. Rows with a NULL in one of them are exempt.
    Unique {
        /// The columns, in the constraint's order.
        columns: Vec<u16>,
    },
    /// An SQL expression that is false for no row; NULL passes. The caller that makes rows evaluates it.
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
        /// Its columns: its primary key, or those of one of its UNIQUE constraints.
        parent_columns: Vec<u16>,
        /// What happens to rows that reference a row of the other table which is deleted.
        #[serde(default, skip_serializing_if = "ReferenceAction::is_no_action")]
        on_delete: ReferenceAction,
        /// What happens to them when these columns of the row change.
        #[serde(default, skip_serializing_if = "ReferenceAction::is_no_action")]
        on_update: ReferenceAction,
    },
}

/// What becomes of rows that reference a row which is deleted, or whose referenced columns change. The caller that deletes or changes
/// rows must do this. The commit checks that no remaining row references what is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceAction {
    /// At the end of the statement, none may still reference what is gone; at the commit, if the foreign key is deferred.
    #[default]
    NoAction,
    /// The same. The word is kept, and shown.
    Restrict,
    /// They are deleted too, or their columns that reference it get the new values.
    Cascade,
    /// Their columns that reference it become NULL.
    SetNull,
    /// Their columns that reference it get their defaults.
    SetDefault,
}

impl ReferenceAction {
    /// Whether the rows are deleted or changed.
    pub fn acts(self) -> bool {
        !matches!(self, Self::NoAction | Self::Restrict)
    }

    /// How SQL declares it for an event, `ON DELETE` or `ON UPDATE`, behind a foreign key and a blank; empty for the default.
    pub fn declared(self, event: &str) -> String {
        let action = match self {
            Self::NoAction => return String::new(),
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
            Self::SetDefault => "SET DEFAULT",
        };
        format!(" {event} {action}")
    }

    fn is_no_action(&self) -> bool {
        *self == Self::NoAction
    }
}

/// Bytes that a row page is filled to, unless its table has a size of its own, or its directory needs more.
pub(super) const ROW_PAGE_BYTES: usize = 8 << 10;

/// The options of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableOptions {
    /// The kind of its pages.
    pub layout: Layout,
    /// The bytes of its row pages. Only a table of row pages has a size of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<PageBytes>,
    /// The columns of its page index. A table that is created without any gets the default columns.
    pub page_index: Vec<u16>,
    /// How its columns are encoded: those of row pages only so that values take whole bytes.
    #[serde(default, skip_serializing_if = "Encodings::is_auto")]
    pub encoding: Encodings,
    /// Where changes of few rows go.
    #[serde(default, skip_serializing_if = "Changes::is_pages")]
    pub changes: Changes,
    /// The columns in whose order VACUUM FULL puts the rows. Empty: the primary key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_by: Vec<u16>,
    /// What finds rows of pages by their keys, if the table has a delta.
    #[serde(default, skip_serializing_if = "KeyIndex::is_tree")]
    pub key_index: KeyIndex,
    /// Whether ranges of the page index have keys as wide as their types need, not of 8 bytes as in tables of older images.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub narrow_keys: bool,
}

/// A size of row pages. Such pages start on read units of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u32", try_from = "u32")]
pub struct PageBytes(u32);

impl PageBytes {
    /// The sizes that there are.
    pub const SIZES: [u32; 3] = [4096, 8192, 16_384];

    /// The size of so many bytes.
    pub fn new(bytes: u32) -> Option<Self> {
        Self::SIZES.contains(&bytes).then_some(Self(bytes))
    }

    /// The bytes.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl From<PageBytes> for u32 {
    fn from(size: PageBytes) -> Self {
        size.0
    }
}

impl TryFrom<u32> for PageBytes {
    type Error = String;

    fn try_from(bytes: u32) -> Result<Self, String> {
        Self::new(bytes).ok_or_else(|| format!("this Lode has no row pages of {bytes} bytes"))
    }
}

/// What finds rows of pages by their PRIMARY KEY and UNIQUE keys, if changes go to a delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyIndex {
    /// Entries of a tree, except those of loads in the order of the primary key.
    #[default]
    Tree,
    /// The page index: bounds of the values of each page. The tree has entries only of rows that are in the delta.
    PageIndex,
}

impl KeyIndex {
    /// The choice of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tree, Self::PageIndex].into_iter().find(|k| k.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::PageIndex => "page_index",
        }
    }

    fn is_tree(&self) -> bool {
        *self == Self::Tree
    }
}

/// Where changes of few rows go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changes {
    /// To the pages that have the rows. A commit writes each of these pages anew. Tables of older images are so.
    #[default]
    Pages,
    /// To a delta: a tree of the rows that changed.
    Delta,
}

impl Changes {
    /// The choice of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Pages, Self::Delta].into_iter().find(|c| c.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Delta => "delta",
        }
    }

    fn is_pages(&self) -> bool {
        *self == Self::Pages
    }
}

/// How the columns of a table are encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encodings {
    /// The encoding of all columns that [`columns`](Self::columns) does not name.
    pub all: EncodingChoice,
    /// Encodings of single columns, by column number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<u16, EncodingChoice>,
}

impl Encodings {
    /// The encoding of one column.
    pub fn of(&self, column: u16) -> EncodingChoice {
        self.columns.get(&column).copied().unwrap_or(self.all)
    }

    fn is_auto(&self) -> bool {
        *self == Self::default()
    }

    /// Whether any column has fields for a pattern matcher.
    pub(super) fn has_matchable(&self) -> bool {
        [&self.all].into_iter().chain(self.columns.values()).any(|e| e.is_matchable())
    }
}

/// Which kind of pages a table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Row pages only.
    Row,
    /// Column pages for loads, row pages for inserts.
    Column,
    /// Currently the same as `Column`.
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
    pub(super) fn is_page(&self) -> bool {
        *self == Self::Page
    }

    pub(super) fn is_unique(&self) -> bool {
        *self == Self::Btree { unique: true }
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
    /// Its kind.
    #[serde(default, skip_serializing_if = "IndexKind::is_page")]
    pub kind: IndexKind,
    /// How it orders the values of each column. Empty: as usual.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<KeyOrder>,
    /// What the page index keeps of each column. Empty: a range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<Summary>,
    /// What its entries name, if changes of its table go to pages. In a table with a delta they name rows, by their ids.
    #[serde(default, skip_serializing_if = "EntryOf::are_usual")]
    pub entries: EntryOf,
}

impl IndexDef {
    /// An index of these columns of a table, in their usual order; of a page index, with a range of each.
    pub fn new(
        name: impl Into<String>,
        table: impl Into<String>,
        columns: impl Into<Vec<u16>>,
        kind: IndexKind,
    ) -> Self {
        let (name, table, columns) = (name.into(), table.into(), columns.into());
        let (orders, summaries, entries) = Default::default();
        Self { name, table, columns, kind, orders, summaries, entries }
    }
}

/// What the page index keeps of a column, of each page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Summary {
    /// The least and the greatest value; of strings, of their first 8 bytes.
    #[default]
    Range,
    /// The least and the greatest beginning of strings.
    Prefix {
        /// Bytes of a beginning.
        bytes: u8,
    },
    /// Which values of a domain occur, and whether any other does.
    Bitmap {
        /// The domain.
        values: Vec<Constant>,
    },
    /// A Bloom filter of the values.
    Bloom {
        /// Bytes of the filter.
        bytes: u16,
    },
    /// A Bloom filter of every three consecutive bytes of strings.
    Trigram {
        /// Bytes of the filter.
        bytes: u16,
    },
}

impl Summary {
    /// The drive's kind of index that keeps it.
    pub fn kind(&self) -> &'static dyn lode_program::index::IndexKind {
        match self {
            Self::Range => &range::RANGE,
            Self::Prefix { .. } => &prefix::Prefix,
            Self::Bitmap { .. } => &bitmap::Bitmap,
            Self::Bloom { .. } => &bloom::BLOOM,
            Self::Trigram { .. } => &trigram::TRIGRAM,
        }
    }

    /// What a rule of the page index says of a column that is kept so.
    pub(super) fn form(&self) -> Box<[u8]> {
        match self {
            Self::Range => Box::default(),
            Self::Prefix { bytes } => Box::new([*bytes]),
            Self::Bitmap { values } => bitmap::domain(values.iter().map(Constant::value)),
            Self::Bloom { bytes } | Self::Trigram { bytes } => bytes.to_le_bytes().into(),
        }
    }
}

/// How a B+-tree index orders the values of a column. Usually they ascend, and NULL is last. Read from its end, the index has the
/// opposite order in all columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyOrder {
    /// From the greatest value to the least.
    pub descending: bool,
    /// Whether NULL comes before all values.
    pub nulls_first: bool,
}

impl IndexDef {
    /// What the page index keeps of its `n`-th column.
    pub fn summary(&self, n: usize) -> &Summary {
        self.summaries.get(n).unwrap_or(&Summary::Range)
    }

    /// How it orders the values of its `n`-th column.
    pub fn order(&self, n: usize) -> KeyOrder {
        self.orders.get(n).copied().unwrap_or_default()
    }
}

impl TableDef {
    /// Bytes that its row pages are filled to.
    pub(super) fn row_page_bytes(&self) -> usize {
        match self.options.page_bytes {
            Some(size) => size.get() as usize,
            None => ROW_PAGE_BYTES.max(4 * TablePage::prefix_bytes(self.columns.len())),
        }
    }

    /// Checks names, counts and column numbers.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let columns = self.columns.len();
        if !(1..=COLUMNS_MAX).contains(&columns) {
            let what = format!("{columns} columns; a table has 1 to {COLUMNS_MAX}");
            return Err(EngineError::invalid(&self.name, what));
        }
        let shown = self.columns.iter().filter(|c| !c.is_dropped);
        let mut names: Vec<&str> = shown.map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|p| p[0] == p[1]) {
            return Err(EngineError::DuplicateColumn { table: self.name.clone(), column: pair[0].into() });
        }
        for (what, list) in [
            ("the primary key", &self.primary_key),
            ("the page index", &self.options.page_index),
            ("cluster_by", &self.options.cluster_by),
        ] {
            check_columns(&self.name, what, list, columns)?;
        }
        self.check_added_and_dropped()?;
        if self.options.layout == Layout::Row && self.options.changes == Changes::Delta {
            let what = "a table of row pages has no delta: its changes go to pages";
            return Err(EngineError::invalid(&self.name, what));
        }
        if let Some(size) = self.options.page_bytes {
            if self.options.layout != Layout::Row {
                let what = "page_bytes is the size of row pages: the table needs layout = 'row'";
                return Err(EngineError::invalid(&self.name, what));
            }
            // Columns that nobody sees come and go with ALTER TABLE and indexes, which must not fail for that.
            let columns = self.columns.iter().filter(|c| !c.is_dropped && c.hidden.is_none()).count();
            let directory_bytes = TablePage::prefix_bytes(columns);
            if directory_bytes * 4 > size.get() as usize {
                let what = format!(
                    "page_bytes = {} is too small for {columns} columns: their directory takes {directory_bytes} bytes, more than a \
                     quarter",
                    size.get()
                );
                return Err(EngineError::invalid(&self.name, what));
            }
        }
        if let Some(key) = self.key_outside_page_index() {
            let names: Vec<&str> = key.iter().map(|&c| self.columns[usize::from(c)].name.as_str()).collect();
            let what = format!("the page index has no column of the key ({})", names.join(", "));
            return Err(EngineError::invalid(&self.name, what));
        }
        let encodings = &self.options.encoding;
        let listed: Vec<u16> = encodings.columns.keys().copied().collect();
        check_columns(&self.name, "the encoding", &listed, columns)?;
        for (i, c) in (0u16..).zip(&self.columns) {
            if !encodings.of(i).takes(c.ty.data_type) {
                let (name, t) = (encodings.of(i).name(), c.ty.data_type);
                let what = format!("column \"{}\" is {t}, which cannot have the encoding {name}", c.name);
                return Err(EngineError::invalid(&self.name, what));
            }
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

    /// The columns of its pages, which say what pages lack that were written before columns were added.
    pub(super) fn schema(&self, version: u32) -> Schema {
        let columns = self.columns.iter().map(|c| c.ty).collect();
        let absent = self.columns.iter().filter_map(|c| c.absent.clone()).collect();
        Schema { version, columns, absent }
    }

    /// Whether ALTER TABLE added or dropped columns: pages and images of rows are not understood without that.
    pub(super) fn has_added_or_dropped(&self) -> bool {
        self.columns.iter().any(|c| c.absent.is_some() || c.is_dropped)
    }

    /// Checks what ALTER TABLE made of the columns.
    fn check_added_and_dropped(&self) -> Result<(), EngineError> {
        let invalid = |what: String| EngineError::invalid(&self.name, what);
        if self.columns[0].absent.is_some() || !self.columns.is_sorted_by_key(|c| c.absent.is_some()) {
            return Err(invalid("columns that were added come behind the others".into()));
        }
        if let Some(what) = self.schema(0).absent_problem() {
            return Err(invalid(what.into()));
        }
        for (i, c) in (0u16..).zip(&self.columns).filter(|(_, c)| c.is_dropped) {
            let in_foreign_key =
                |c: &Constraint| matches!(&c.rule, Rule::ForeignKey { columns, .. } if columns.contains(&i));
            let uses = [
                ("a key", self.keys().any(|(_, key)| key.contains(&i))),
                ("a foreign key", self.constraints.iter().any(in_foreign_key)),
                ("cluster_by", self.options.cluster_by.contains(&i)),
                ("the encoding", self.options.encoding.columns.contains_key(&i)),
            ];
            if let Some((what, _)) = uses.into_iter().find(|(_, uses)| *uses) {
                return Err(invalid(format!("column \"{}\" cannot be dropped: {what} has it", c.name)));
            }
            if !c.ty.nullable {
                return Err(invalid(format!("column \"{}\" was dropped, and is NOT NULL", c.name)));
            }
        }
        Ok(())
    }

    /// The keys: columns in which no two rows have the same values. The primary key, which has no name, comes first, then the UNIQUE
    /// constraints.
    pub(super) fn keys(&self) -> impl Iterator<Item = (Option<&str>, &[u16])> {
        let primary = (!self.primary_key.is_empty()).then_some((None, &self.primary_key[..]));
        let unique = self.constraints.iter().filter_map(|c| match &c.rule {
            Rule::Unique { columns } => Some((Some(c.name.as_str()), &columns[..])),
            _ => None,
        });
        primary.into_iter().chain(unique)
    }

    /// Whether the check of the `n`-th key waits for the commit.
    pub(super) fn is_key_deferred(&self, n: usize) -> bool {
        let primary = (!self.primary_key.is_empty()).then_some(self.primary_key_deferral);
        let unique = self.constraints.iter().filter(|c| matches!(c.rule, Rule::Unique { .. }));
        primary.into_iter().chain(unique.map(|c| c.deferral)).nth(n) == Some(Deferral::Deferred)
    }

    /// A key that the page index should find, but of which it has no column.
    pub fn key_outside_page_index(&self) -> Option<&[u16]> {
        if self.options.key_index != KeyIndex::PageIndex {
            return None;
        }
        let indexed = match &self.options.page_index[..] {
            [] => self.index_columns_default(),
            columns => columns.to_vec(),
        };
        self.keys().map(|(_, key)| key).find(|key| key.iter().all(|c| !indexed.contains(c)))
    }

    /// The numbers of the columns that SQL shows: those that ALTER TABLE has not dropped, and that no index has for itself.
    pub fn live_columns(&self) -> impl Iterator<Item = u16> + use<> {
        let live = (0u16..).zip(&self.columns).filter(|(_, c)| !c.is_dropped && c.hidden.is_none());
        let mut live: Vec<(u16, u16)> = live.map(|(i, c)| (c.place.unwrap_or(i), i)).collect();
        live.sort_unstable();
        live.into_iter().map(|(_, i)| i)
    }

    /// Whether a constraint is DEFERRABLE.
    pub(super) fn has_deferrable(&self) -> bool {
        let all = self.constraints.iter().map(|c| c.deferral);
        std::iter::once(self.primary_key_deferral).chain(all).any(|d| d != Deferral::None)
    }

    /// The columns in whose order VACUUM FULL puts the rows: `cluster_by`, else the primary key. Empty: the order stays.
    pub fn cluster_columns(&self) -> &[u16] {
        match &self.options.cluster_by[..] {
            [] => &self.primary_key,
            columns => columns,
        }
    }

    /// Checks a foreign key against the table that it references.
    pub(super) fn check_parent(
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

    /// The definition with its defaults: primary key columns are NOT NULL, an empty page index gets the default columns.
    pub(super) fn completed(mut self) -> Self {
        for &c in &self.primary_key {
            self.columns[usize::from(c)].ty.nullable = false;
        }
        if self.options.page_index.is_empty() {
            self.options.page_index = self.index_columns_default();
        }
        self
    }

    /// The primary key first, then columns of constraints, dates and timestamps, and all other columns of a fixed width.
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

/// Checks a list of column numbers of a table with so many columns. `what`: which list it is.
pub(super) fn check_columns(
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
        let column = |(i, &data_type): (usize, &DataType)| ColumnDef::new(&format!("c{i}"), data_type);
        TableDef {
            name: "t".into(),
            columns: types.iter().enumerate().map(column).collect(),
            primary_key: primary_key.into(),
            primary_key_deferral: Deferral::None,
            primary_key_name: None,
            options: TableOptions::default(),
            constraints: Vec::new(),
        }
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
