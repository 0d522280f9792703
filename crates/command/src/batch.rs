//! Commands: batches of writes and trims, reads, views, extents, indexes and tasks.
//!
//! A batch is one system action: it takes effect as a whole or not at all. It is durable when it completes; an
//! unforced one is durable once a later flush completes.

use std::ops::Range;
use std::sync::Arc;

use lode_base::{ExtentId, Lpid, OwnerId, PageBuf, SessionId, ViewId};
use lode_program::{IndexRule, Program};

use crate::{IndexedRead, KeysRule, ScanTask};

/// All commands of a drive.
#[derive(Clone, Debug)]
pub enum Command {
    /// Write, trim and release, atomically and, unless the batch says otherwise, durably. Answers
    /// [`crate::Reply::Committed`].
    Write(Batch),
    /// Read pages or parts of them, at a view or at the newest commit. Answers [`crate::Reply::Pages`].
    Read {
        /// The view to read at; `None` reads the newest committed version.
        view: Option<ViewId>,
        /// What to read.
        pages: Vec<ReadRequest>,
    },
    /// Run a program over pages. Answers units, then [`crate::Reply::Scanned`].
    Scan(ScanTask),
    /// Pin the committed state. Answers [`crate::Reply::View`].
    OpenView,
    /// Close a view. Answers [`crate::Reply::Done`]; closing a view twice is an error.
    CloseView(ViewId),
    /// Hand out `count` extents to an owner. Answers [`crate::Reply::Extents`]. They are durable with the first batch
    /// that writes into them. After a crash, `ListExtents` finds extents that their owner does not know.
    AllocateExtents {
        /// The new owner.
        owner: OwnerId,
        /// How many, 1 or more.
        count: u32,
    },
    /// All extents with an owner. Answers [`crate::Reply::ExtentList`].
    ListExtents,
    /// Make missing index entries for pages of this owner, after a rule was registered for existing data. Answers
    /// [`crate::Reply::Indexed`].
    BuildIndex(OwnerId),
    /// The entries of the page index, at a view. Answers [`crate::Reply::IndexEntries`].
    ReadIndex {
        /// The view to read at.
        view: ViewId,
        /// The pages. Unmapped ones are left out of the answer.
        pages: Vec<crate::PageRange>,
    },
    /// Keep a program in memory, for reads by its number; `None` forgets it. Answers [`crate::Reply::Done`]. Source: FLIXR,
    /// SEND_IDX_ICR.
    RegisterProgram {
        /// The owner of the pages that it is for.
        owner: OwnerId,
        /// Its number among those of the owner. A program that has it already is replaced.
        number: u32,
        /// The program, without an aggregation.
        program: Option<Arc<Program>>,
    },
    /// Keep a rule in memory by which reads collect keys, and room for a set of them; `None` forgets both. Answers
    /// [`crate::Reply::Done`]. Source: FLIXR, SEND_TIDX_ENC.
    RegisterKeys {
        /// The owner of the pages.
        owner: OwnerId,
        /// Its number among those of the owner. A rule that has it already is replaced, and its set forgotten.
        number: u32,
        /// The rule.
        rule: Option<KeysRule>,
    },
    /// Read pages that the page index cannot exclude. Answers units, then [`crate::Reply::LastUnit`]. Source: FLIXR, READ_IDX.
    ReadIndexed(IndexedRead),
    /// Write a checkpoint, so that the next open reads less log. Answers [`crate::Reply::Done`].
    Checkpoint,
    /// Make all batches durable that were answered before this command. Answers [`crate::Reply::Done`]. Source: NVMe,
    /// Flush.
    Flush,
    /// Begin a session, durably. Answers [`crate::Reply::Session`] with a number that the drive chooses.
    OpenSession,
    /// Ask for the highest write sequence number that a session has applied, after a crash or a lost answer. Answers
    /// [`crate::Reply::Session`].
    ResumeSession(SessionId),
    /// End a session, durably. Answers [`crate::Reply::Done`].
    CloseSession(SessionId),
}

impl Command {
    /// Bytes that the command itself takes on the link, its payload included.
    pub fn link_bytes(&self) -> u64 {
        const HEADER_BYTES: usize = 64;
        let payload = match self {
            Self::Write(b) => b.payload_bytes(),
            Self::Read { pages, .. } => pages.len() * 16,
            Self::Scan(t) => {
                let hidden = t.hidden.as_ref().map_or(0, |h| h.link_bytes());
                let matcher = t.matcher.as_ref().map_or(0, |m| m.link_bytes());
                t.pages.len() * 16 + t.program.link_bytes() + hidden + matcher
            }
            Self::ReadIndex { pages, .. } => pages.len() * 16,
            Self::RegisterProgram { program, .. } => program.as_ref().map_or(0, |p| p.link_bytes()),
            Self::ReadIndexed(read) => read.pages.len() * 16,
            Self::OpenView
            | Self::CloseView(_)
            | Self::AllocateExtents { .. }
            | Self::ListExtents
            | Self::BuildIndex(_)
            | Self::RegisterKeys { .. }
            | Self::Checkpoint
            | Self::Flush
            | Self::OpenSession
            | Self::ResumeSession(_)
            | Self::CloseSession(_) => 0,
        };
        (HEADER_BYTES + payload) as u64
    }
}

/// An atomic batch. An LPID may appear once among writes and trims together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Pages to write; each LPID lies in an extent that has an owner.
    pub writes: Vec<PageWrite>,
    /// Pages to unmap; trimming an unmapped page does nothing.
    pub trims: Vec<Lpid>,
    /// Extents to give back: all their pages are trimmed too.
    pub releases: Vec<ExtentId>,
    /// Index rules to register (`Some`) or to drop (`None`), for pages written from this batch on.
    pub index_rules: Vec<(OwnerId, Option<IndexRule>)>,
    /// Whether to answer with a view pinned at exactly this commit.
    pub pin: bool,
    /// Whether to answer with the index entries of the pages that it writes. Source: FLIXR, UPDATE_HOST_INDEX.
    pub answer_entries: bool,
    /// The session of the batch and its position there; `None` for a batch without a session.
    pub session: Option<SessionWrite>,
    /// Whether the batch may be answered before it is durable. It is durable once a later forced batch, or a
    /// [`Command::Flush`], was answered. After a crash, a prefix of the batches is there.
    pub unforced: bool,
    /// The batch is refused as out of space unless about so many bytes can still be written after it. So work that can wait leaves the
    /// last room to work that cannot.
    pub leave_bytes: u64,
}

/// The position of a batch in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionWrite {
    /// The session.
    pub session: SessionId,
    /// Write sequence number: the first is 1, and each is one more than the one before. Source: ELEOS §III-A2.
    pub wsn: u64,
}

impl Batch {
    /// Bytes of the batch on the link, headers of its entries included.
    pub fn payload_bytes(&self) -> usize {
        let pages: usize = self.writes.iter().map(|w| w.data.len() + 16).sum();
        pages + self.trims.len() * 8 + self.releases.len() * 8 + self.index_rules.len() * 64
    }

    /// Whether the batch has nothing to do.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.trims.is_empty()
            && self.releases.is_empty()
            && self.index_rules.is_empty()
            && self.session.is_none()
    }
}

/// One page of a batch.
#[derive(Clone, Debug)]
pub struct PageWrite {
    /// Its identity.
    pub lpid: Lpid,
    /// Its bytes: [`lode_base::PAGE_BYTES_MIN`] or more, at most the drive's `page_bytes_max`.
    pub data: PageBuf,
    /// Its alignment on the medium.
    pub align: Align,
}

/// Alignment of a page on the medium; GC keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To 64 bytes: pages are packed.
    Cell,
    /// To a read unit, so that parts of the page can be read alone.
    ReadUnit,
}

/// A page, or a part of one, to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Which page.
    pub lpid: Lpid,
    /// Which bytes of it; `None` is all. A range beyond the page's end is an error.
    pub range: Option<Range<u32>>,
}
