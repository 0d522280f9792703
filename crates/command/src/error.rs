//! Why a command, or the device itself, failed.

use lode_base::{ExtentId, Lpid, OwnerId, Ppa, SessionId, ViewId, VirtualTime};

use crate::Registration;

/// Why one command failed. The device goes on, and the command had no effect, with one exception: a batch that failed
/// with [`Medium`](Self::Medium), [`MediumFull`](Self::MediumFull) or [`ReadOnly`](Self::ReadOnly) may be there as a
/// whole when the drive is opened again, since it is unknown how much of it reached the medium. It is not there if
/// another batch was acknowledged after it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// The medium has no room for the batch.
    #[error("the drive is full: {needed_bytes} bytes are needed, {free_bytes} are free")]
    OutOfSpace {
        /// Bytes that can still be written, in smaller batches.
        free_bytes: u64,
        /// Bytes that the batch needs.
        needed_bytes: u64,
    },
    /// A page to read is not mapped at that view.
    #[error("page {0} does not exist")]
    Unmapped(Lpid),
    /// A page cannot be read as it was written.
    #[error("page {lpid} cannot be read: {what} at {ppa}")]
    Uncorrectable {
        /// The page.
        lpid: Lpid,
        /// Where it lies.
        ppa: Ppa,
        /// What is wrong: a checksum, a generation, an identity.
        what: String,
    },
    /// A view that is not, or no longer, open.
    #[error("snapshot too old: view {0} is not open")]
    ViewClosed(ViewId),
    /// No further view can be opened.
    #[error("too many open views: the drive allows {0}")]
    TooManyViews(u32),
    /// An extent without an owner.
    #[error("extent {0} has no owner")]
    NoSuchExtent(ExtentId),
    /// An owner without an index rule.
    #[error("owner {0} has no index rule")]
    NoIndexRule(OwnerId),
    /// A program or keys that are not registered, or not any more.
    #[error("owner {owner} has no registered {what} {number}")]
    NotRegistered {
        /// The owner.
        owner: OwnerId,
        /// What is not.
        what: Registration,
        /// The number.
        number: u32,
    },
    /// Keys that were not collected, or not from what the view shows.
    #[error("keys {number} of owner {owner} were not collected at what view {view} shows")]
    NoKeys {
        /// The owner of the pages that have them.
        owner: OwnerId,
        /// The number of the registered keys.
        number: u32,
        /// The view.
        view: ViewId,
    },
    /// The drive has no memory for a rule or a program. Nothing of it was registered.
    #[error(
        "the drive's memory for rules and programs is full: {needed_bytes} bytes are needed, {free_bytes} are free"
    )]
    NoMemory {
        /// Bytes that it needs.
        needed_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// The command contradicts itself or a limit of the drive.
    #[error("bad command: {0}")]
    Invalid(String),
    /// A page that a program or an index rule reads is not a table page of the schema that it names.
    #[error("page {lpid} is not what the program expects: {what}")]
    BadPage {
        /// The page.
        lpid: Lpid,
        /// What is wrong.
        what: String,
    },
    /// An aggregate reaches a decimal that no answer can hold.
    #[error("a decimal in an aggregate has more digits than fit 128 bits, on page {0}")]
    Overflow(Lpid),
    /// A batch that is not the next of its session: nothing of it was applied.
    #[error("write {wsn} of {session} is not the next: the highest applied is {highest}")]
    WrongSequence {
        /// The session.
        session: SessionId,
        /// The batch's write sequence number.
        wsn: u64,
        /// The highest that was applied.
        highest: u64,
    },
    /// A session that is not open.
    #[error("{0} is not open")]
    NoSuchSession(SessionId),
    /// No further session can be opened.
    #[error("too many open sessions: the drive allows {0}")]
    TooManySessions(u32),
    /// The drive keeps only metadata: it has the locations of user pages, but not their bytes.
    #[error("this drive keeps only the metadata of user pages, so it cannot compute over them")]
    NoContent,
    /// The time is too late for a modelled device to begin a command: the end might overflow.
    #[error(
        "the modelled device cannot begin a command at {} ps: the latest time is {} ps",
        at.as_ps(), max.as_ps()
    )]
    TimeOutOfRange {
        /// When the command would have begun: at the time for which it was submitted, or at the latest end of
        /// anything on the device.
        at: VirtualTime,
        /// The last time at which the device begins a command.
        max: VirtualTime,
    },
    /// The command was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The file system below the medium is full. The drive goes on; trying again later can help.
    #[error("{0}")]
    MediumFull(String),
    /// The medium failed; the drive may now be read-only. A batch may take effect at the next open, whole.
    #[error("{0}")]
    Medium(String),
    /// The drive takes no more writes, since an earlier write failed and its durability is unknown. The batch during
    /// which this happened may take effect as a whole at the next open; later batches do not.
    #[error("the drive is read-only until it is opened again: {0}")]
    ReadOnly(String),
}

/// Why a device cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeviceError {
    /// A depth outside the drive's limits.
    #[error("queue depth {got} is outside 1 to {max}")]
    QueueDepth {
        /// Asked for.
        got: u32,
        /// At most.
        max: u32,
    },
    /// The device is gone.
    #[error("the device is gone: {0}")]
    Gone(String),
}
