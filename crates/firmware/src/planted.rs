//! Planted faults: bugs that the simulation must find, one at a time. They are compiled in with the feature `planted`
//! alone, for the test `planted` of `lode-sim`; without it every hook is `if false`.
//!
//! ```text
//!   test: plant(fault) ─► simulate seeds until one fails        firmware: if planted::is(Planted::X) { the bug }
//! ```
//!
//! A hook is where the bug would be, and as small. The fault that is planted is that of the thread, so that tests on
//! other threads meet none. Source: mutation testing (DeMillo, Lipton, Sayward, 1978), with mutants chosen by hand: the
//! mistakes that ELEOS's rules are there to prevent.

#[cfg(feature = "planted")]
use std::cell::Cell;

macro_rules! faults {
    ($($name:ident: $about:literal,)*) => {
        /// A fault that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(feature = "planted"), allow(unreachable_pub))]
        pub enum Planted {
            $(#[doc = $about] $name,)*
        }

        #[cfg(feature = "planted")]
        impl Planted {
            /// All of them, and what each breaks.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $about)),*];
        }
    };
}

faults! {
    // Commits and the log.
    LateForce: "a group is forced only before the next one is written",
    SmallGroupNotForced: "a group without pages is not forced",
    MoveNotForced: "the victim is freed before its move is durable: a group of moves is not forced",
    OpenedAfterPages: "the record that opens an EBLOCK comes behind the pages in it",
    PointerSkipped: "a log page names the third place for the next page as the second, too",
    CandidateReused: "truncation lets an EBLOCK go that the log may go on in",
    LogTruncatedTooFar: "truncation goes up to the end of the checkpoint instead of its beginning",
    FailedLogPageCounts: "after a failed program the log goes on as if all of it were there",
    HoleTakenForEnd: "a log page that is missing ends the log, whatever later pages say",
    OverlayNotAsked: "an action does not see what was staged before it",
    AbortKeepsOverlay: "what a failed group had staged is still seen by those that come after it",
    TrimNotLogged: "the record of a batch leaves its trims out",
    SessionNotLogged: "the record of a batch leaves its session out",
    PendingNotSynced: "records are put into the power-protected buffer before the pages that they name are durable",
    NotSealed: "what is pending in the power-protected buffer when a page of the drive's own is taken goes on",
    PendingNotReplayed: "a recovery does not look into the power-protected buffer",
    // Recovery.
    GroupNotVerified: "the data of the last group is not verified",
    HalfGroupReplayed: "of the last group only the first half is replayed",
    EndNotProbed: "an open EBLOCK is written on from where the log says, whatever lies there",
    NameNotReplayed: "the metadata of open EBLOCKs does not get back the pages that the log names",
    ReplayedOnceMore: "a record is replayed that the page on the medium has",
    ReleaseNotReplayed: "the pages of a released extent stay mapped after a recovery",
    CloseNotReplayed: "a session that was closed is open after a recovery",
    EraseCountLost: "a recovery forgets how often EBLOCKs were erased",
    InlinedNotRestored: "a recovery takes up inlined pages only where the mapping page on the medium lacks them",
    LiveFreedTwice: "a recovery subtracts what an action freed twice",
    // Checkpoints.
    OpenForgotten: "a checkpoint leaves out the metadata of an open EBLOCK",
    DirtyForgotten: "a checkpoint leaves out a dirty mapping page",
    InlinedStays: "a checkpoint lets the log go that has inlined pages which were not moved",
    SessionsForgotten: "a checkpoint does not write the session table after a batch",
    AsOfHigh: "own pages are said to be as of one LSN more",
    AsOfLow: "own pages are said to be as of one LSN less",
    SlotsNotOrdered: "the second slot is written before the first is durable",
    ChangedWhileWritten: "a page that changed while it was written counts as clean",
    FailedPieceForgotten: "a table piece that could not be written counts as written",
    FailedFlushForgotten: "a mapping or index page that could not be written counts as written",
    // Garbage collection.
    MoveOverNewer: "a move takes the place of a newer write",
    MoveForgets: "a move frees a page without moving it",
    MoveMarksRedo: "a moved page loses its index entry",
    MoveUnaligned: "a moved page loses its alignment",
    MoveKeepsVersion: "an old version that was moved is looked for where it was",
    PinnedReleased: "an EBLOCK is released that a view still needs",
    MovedNotFreed: "what was moved still counts where it was",
    ReserveEaten: "batches may take the EBLOCKs that are kept for the log, checkpoints and GC",
    // EBLOCKs.
    FailureIgnored: "a failed program counts as done",
    FailedReused: "an EBLOCK in which a program failed is used again",
    MetadataShort: "the metadata of a closed EBLOCK leaves out its last page",
    // Pages, views, index, sessions.
    ReplyUnverified: "a page that does not verify is answered all the same",
    ViewTooEarly: "a view of a batch is opened before the batch shows",
    VersionNotSaved: "the version that the newest view shows is not kept when it was written by the view's own commit",
    VersionPurged: "a version goes with one of two views that show it",
    InlinedVersionGone: "an inlined page that was replaced goes from memory while a view shows it",
    ExtentTooEarly: "a released extent is handed out while a view shows it",
    IndexKept: "a write without an index entry leaves the old one",
    IndexWrongRule: "an index entry is kept under the number of its batch, not of its rule",
    SessionNotChecked: "the number of a batch in its session is not checked",
    SessionNotStaged: "a batch in flight does not count in its session",
    SessionNotUnstaged: "the number of a batch that failed stays taken",
}

#[cfg(feature = "planted")]
thread_local! {
    static CURRENT: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// Plants a fault in the drives of this thread, in place of the one before.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Planted>) {
    CURRENT.set(fault);
}

/// Whether this fault is planted.
#[cfg(feature = "planted")]
pub(crate) fn is(fault: Planted) -> bool {
    CURRENT.get() == Some(fault)
}

/// Nothing is planted.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is(_: Planted) -> bool {
    false
}
