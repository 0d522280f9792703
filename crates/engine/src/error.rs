//! What can go wrong in the engine, in terms that a caller can act on. Every message is one line and names the place.

use lode_base::Lpid;
use lode_command::{CommandError, DeviceError};
use lode_page::PageError;
use lode_program::ProgramError;

/// Why the engine could not do what was asked. Nothing of it took effect.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// No table of that name.
    #[error("table \"{0}\" does not exist")]
    NoSuchTable(String),
    /// A table of that name is there already.
    #[error("table \"{0}\" already exists")]
    TableExists(String),
    /// No index of that name.
    #[error("index \"{0}\" does not exist")]
    NoSuchIndex(String),
    /// An index of that name is there already.
    #[error("index \"{0}\" already exists")]
    IndexExists(String),
    /// A sequence that does not begin again has no further number.
    #[error(
        "nextval: reached {} value of sequence \"{name}\" ({limit})",
        if *is_max { "maximum" } else { "minimum" }
    )]
    SequenceEnd {
        /// The sequence.
        name: String,
        /// Whether it ascends, so that the limit is its greatest number.
        is_max: bool,
        /// The limit.
        limit: i64,
    },
    /// A column is named twice.
    #[error("table \"{table}\": column \"{column}\" is named twice")]
    DuplicateColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A definition or a change that contradicts itself or a limit.
    #[error("table \"{table}\": {what}")]
    Invalid {
        /// The table.
        table: String,
        /// What is wrong.
        what: String,
    },
    /// Two rows with one primary key.
    #[error("table \"{table}\": duplicate primary key {key}")]
    DuplicateKey {
        /// The table.
        table: String,
        /// The name of the key, if it has one of its own.
        constraint: Option<String>,
        /// The key's values, as SQL writes them.
        key: String,
    },
    /// Two rows with the same values in the columns of a UNIQUE constraint.
    #[error("table \"{table}\": duplicate {key} violates the unique constraint \"{constraint}\"")]
    Unique {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
        /// The values, as SQL writes them.
        key: String,
    },
    /// A row that references no row, or a row that is deleted and still referenced.
    #[error("table \"{table}\": {what} (foreign key \"{constraint}\" to \"{parent}\")")]
    ForeignKey {
        /// The table that references.
        table: String,
        /// The constraint.
        constraint: String,
        /// The table that is referenced.
        parent: String,
        /// What is wrong.
        what: String,
    },
    /// A table that cannot go, since another references it.
    #[error("table \"{table}\" cannot be dropped: a foreign key of \"{by}\" references it")]
    Referenced {
        /// The table.
        table: String,
        /// Who references it.
        by: String,
    },
    /// A key that cannot go, since a foreign key references it.
    #[error(
        "the key of table \"{table}\" cannot be dropped: the foreign key \"{constraint}\" of \"{by}\" references it"
    )]
    ReferencedKey {
        /// The table.
        table: String,
        /// The foreign key.
        constraint: String,
        /// Whose it is.
        by: String,
    },
    /// There is no such constraint of the table.
    #[error("table \"{table}\" has no constraint \"{constraint}\"")]
    NoSuchConstraint {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
    },
    /// Another transaction committed first to what this one changes. Run again, it may pass.
    #[error("could not serialize access due to concurrent update: {what}")]
    Conflict {
        /// What was changed.
        what: String,
    },
    /// A NULL where none may be.
    #[error("table \"{table}\": column \"{column}\" may not be NULL")]
    NotNull {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A column that should become NOT NULL, and has a NULL.
    #[error("table \"{table}\": column \"{column}\" contains null values")]
    ContainsNulls {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A string longer than its column.
    #[error(
        "table \"{table}\": a value of {chars} characters is too long for column \"{column}\" ({max_chars})"
    )]
    TooLong {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Characters of the value.
        chars: usize,
        /// Characters that fit.
        max_chars: u32,
    },
    /// A single row that no page can hold.
    #[error("table \"{table}\": a row of {row_bytes} bytes is too long, a page holds {limit_bytes}")]
    RowTooLong {
        /// The table.
        table: String,
        /// Bytes of the row as a page.
        row_bytes: usize,
        /// Bytes of the longest page.
        limit_bytes: usize,
    },
    /// A row address that names no row at the transaction's snapshot.
    #[error("table \"{table}\": row {address:#x} does not exist")]
    NoSuchRow {
        /// The table.
        table: String,
        /// The address.
        address: u64,
    },
    /// The drive has no room.
    #[error("the drive is full: {needed_bytes} bytes are needed, {free_bytes} are free")]
    OutOfSpace {
        /// Bytes that can still be written.
        free_bytes: u64,
        /// Bytes that are needed.
        needed_bytes: u64,
    },
    /// The drive closed the snapshot's view.
    #[error("snapshot too old: the drive closed its view")]
    SnapshotTooOld,
    /// A page of the catalog, or what it says, is damaged.
    #[error("catalog page {lpid}: {what}")]
    BadCatalog {
        /// The page.
        lpid: Lpid,
        /// What is wrong.
        what: String,
    },
    /// The catalog was written by a newer Lode.
    #[error("catalog page {lpid} has format version {version}; this Lode reads up to {known}")]
    NewerCatalog {
        /// The page.
        lpid: Lpid,
        /// Its version.
        version: u8,
        /// The newest version known here.
        known: u8,
    },
    /// The drive holds pages, but no catalog of Lode's.
    #[error("the drive holds {pages} pages but no catalog: it is not a Lode database")]
    NoCatalog {
        /// Mapped pages.
        pages: u64,
    },
    /// A page of a table is not what its table says.
    #[error("table \"{table}\", page {lpid}: {what}")]
    BadPage {
        /// The table.
        table: String,
        /// The page.
        lpid: Lpid,
        /// What is wrong.
        what: String,
    },
    /// No tree of that name.
    #[error("tree \"{0}\" does not exist")]
    NoSuchTree(String),
    /// A tree of that name is there already.
    #[error("tree \"{0}\" already exists")]
    TreeExists(String),
    /// A key or a value that is too long for a tree.
    #[error("tree \"{tree}\": a {what} of {bytes} bytes is too long, the limit is {limit_bytes}")]
    EntryTooLong {
        /// The tree.
        tree: String,
        /// Which part of the entry.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// Bytes that fit.
        limit_bytes: usize,
    },
    /// A key of a load that does not come after the one before.
    #[error("tree \"{tree}\": key {key} does not come after key {last}")]
    KeyOrder {
        /// The tree.
        tree: String,
        /// The key.
        key: String,
        /// The one before.
        last: String,
    },
    /// Changes that do not fit a batch of the drive.
    #[error(
        "the transaction is too large: {bytes} bytes in {writes} writes; the drive takes {limit_bytes} at once"
    )]
    TransactionTooLarge {
        /// Bytes of its keys and values, or of the pages that it would write at once.
        bytes: u64,
        /// Keys that it writes, or pages.
        writes: usize,
        /// Bytes of the largest batch.
        limit_bytes: u64,
    },
    /// A page of a tree is not what it should be.
    #[error("tree page {lpid}: {what}")]
    BadTreePage {
        /// The page.
        lpid: Lpid,
        /// What is wrong.
        what: String,
    },
    /// A redo page is damaged or missing.
    #[error("redo page {lpid}: {what}")]
    BadRedo {
        /// The page.
        lpid: Lpid,
        /// What is wrong.
        what: String,
    },
    /// It is not known whether a batch took effect. Nothing more can be written.
    #[error("the database takes no writes until it is opened again: {0}")]
    Halted(String),
    /// The bytes of a page are damaged, or rows cannot be made a page.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A program or an index rule was refused.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The drive failed a command.
    #[error("{0}")]
    Drive(CommandError),
    /// The drive cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The drive answered a command with an answer to another kind of command.
    #[error("the drive answered {command} with something else")]
    Protocol {
        /// The command.
        command: &'static str,
    },
}

impl From<CommandError> for EngineError {
    fn from(e: CommandError) -> Self {
        match e {
            CommandError::OutOfSpace { free_bytes, needed_bytes } => {
                Self::OutOfSpace { free_bytes, needed_bytes }
            }
            CommandError::ViewClosed(_) => Self::SnapshotTooOld,
            e => Self::Drive(e),
        }
    }
}

impl EngineError {
    /// Whether the drive does not answer any more, or has closed the snapshot's view. Any other error of a page is damage of that page.
    pub(crate) fn is_of_drive(&self) -> bool {
        matches!(self, Self::Device(_) | Self::SnapshotTooOld | Self::Drive(CommandError::Medium(_)))
    }

    /// Whether the drive takes no writes, because it is read-only or full. What an open would clean up can stay until the next one.
    pub(crate) fn is_of_writes(&self) -> bool {
        matches!(self, Self::OutOfSpace { .. } | Self::Drive(CommandError::ReadOnly(_)))
    }

    /// Whether rows break a PRIMARY KEY, a UNIQUE constraint or a FOREIGN KEY.
    pub(crate) fn is_of_constraint(&self) -> bool {
        matches!(self, Self::DuplicateKey { .. } | Self::Unique { .. } | Self::ForeignKey { .. })
    }

    pub(crate) fn invalid(table: &str, what: impl Into<String>) -> Self {
        Self::Invalid { table: table.into(), what: what.into() }
    }
}
