//! Completions: the answers of a drive.

use lode_base::{CommitNo, ExtentId, Lpid, OwnerId, PageBuf, SessionId, Split, ViewId, VirtualTime};
use lode_program::IndexEntry;

use crate::{CommandError, PageWrite, ScanCounts, ScanUnit, Tag};

/// The most bytes of an answer. A longer one is refused before its pages are read, so that a short command cannot
/// take unlimited memory. With its frame, an answer fits the 1 GB limit of a connection.
pub const ANSWER_BYTES_MAX: u64 = (1 << 30) - (64 << 20) - 32;

/// Checks that an answer of this many bytes is allowed.
///
/// # Errors
/// [`CommandError::Invalid`] when it is longer than [`ANSWER_BYTES_MAX`].
pub fn check_answer(bytes: u64) -> Result<(), CommandError> {
    match bytes > ANSWER_BYTES_MAX {
        true => Err(CommandError::Invalid(format!(
            "an answer of {bytes} bytes is too long: at most {ANSWER_BYTES_MAX} are taken"
        ))),
        false => Ok(()),
    }
}

/// One answer to one command.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The command.
    pub tag: Tag,
    /// The virtual time at which this answer was ready.
    pub at: VirtualTime,
    /// The parts of the time since the command was submitted, or since its previous answer was taken.
    pub split: Split,
    /// The answer.
    pub outcome: Outcome,
}

/// Part of an answer, or its end.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A task's unit; more follows.
    Unit(ScanUnit),
    /// The one final completion of a command.
    Done(Result<Reply, CommandError>),
}

/// The answer of a command that succeeded.
#[derive(Clone, Debug)]
pub enum Reply {
    /// An answer without data.
    Done,
    /// The batch is durable.
    Committed {
        /// Its number.
        commit: CommitNo,
        /// The view pinned at it, if the batch asked for one.
        view: Option<ViewId>,
        /// The pages written, in the order of the batch, if it asked for their entries. An entry that is not there is not known.
        entries: Vec<IndexedPage>,
    },
    /// The bytes asked for, in the order of the requests.
    Pages(Vec<PageBuf>),
    /// A view and the commit that it shows.
    View {
        /// The view.
        view: ViewId,
        /// The newest commit that it shows.
        commit: CommitNo,
    },
    /// Extents handed out.
    Extents(Vec<ExtentId>),
    /// All extents with an owner, by number.
    ExtentList(Vec<ExtentInfo>),
    /// Pages that were given an index entry.
    Indexed {
        /// How many.
        pages: u64,
    },
    /// The mapped pages, with what the page index has of them.
    IndexEntries(Vec<IndexedPage>),
    /// The task is over; the sum over its units.
    Scanned(ScanCounts),
    /// The last unit of a read by the page index, which may answer nothing, and the sum over all its units.
    LastUnit {
        /// The unit.
        unit: Box<ScanUnit>,
        /// The sum.
        counts: ScanCounts,
    },
    /// A session, and the highest write sequence number that it has applied (0: none).
    Session {
        /// The session.
        session: SessionId,
        /// The highest write sequence number applied and durable.
        highest: u64,
    },
}

/// A mapped page, and what the page index has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedPage {
    /// The page.
    pub lpid: Lpid,
    /// Bytes of the page.
    pub len_bytes: u32,
    /// Its entry, if it has one.
    pub entry: Option<IndexEntry>,
}

impl IndexedPage {
    /// A page of a batch, of whose entry nothing is known.
    pub fn unknown(p: &PageWrite) -> Self {
        Self { lpid: p.lpid, len_bytes: p.data.len() as u32, entry: None }
    }
}

/// An extent and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentInfo {
    /// The extent.
    pub extent: ExtentId,
    /// Its owner.
    pub owner: OwnerId,
    /// Mapped pages in it at the newest commit; `None` when that is unknown, since its mapping page is damaged.
    pub pages_mapped: Option<u32>,
}

impl Completion {
    /// Bytes that the completion takes on the link, its payload included.
    pub fn link_bytes(&self) -> u64 {
        const HEADER_BYTES: u64 = 16;
        let payload = match &self.outcome {
            Outcome::Unit(u) => u.link_bytes(),
            Outcome::Done(Ok(Reply::Pages(pages))) => pages.iter().map(|p| p.len() as u64).sum(),
            Outcome::Done(Ok(Reply::Extents(e))) => e.len() as u64 * 8,
            Outcome::Done(Ok(Reply::ExtentList(e))) => e.len() as u64 * 16,
            Outcome::Done(Ok(Reply::LastUnit { unit, .. })) => unit.link_bytes(),
            Outcome::Done(Ok(Reply::IndexEntries(e) | Reply::Committed { entries: e, .. })) => {
                let entry_bytes = |e: &IndexedPage| e.entry.as_ref().map_or(0, IndexEntry::encoded_bytes);
                e.iter().map(|e| 12 + entry_bytes(e) as u64).sum()
            }
            Outcome::Done(_) => 0,
        };
        HEADER_BYTES + payload
    }
}
