//! Planted faults: bugs that the simulation must find, one at a time. How: [`lode_base::planted`].
//!
//! They are the mistakes that ELEOS's rules are there to prevent. A hook stands around one call, never between the lines of
//! an algorithm: [`unless`] leaves the call out, [`instead`] and `at!` put another one in its place.

lode_base::planted_faults! {
    // Commits and the log.
    LateForce: "a group is forced only before the next one is written",
    SmallGroupNotForced: "a group without pages is not forced",
    MoveNotForced: "the victim is freed before its move is durable: a group of moves is not forced",
    UnforcedProves: "what an unforced group frees is used again before it is durable",
    FlushLies: "a flush does not sync",
    CheckpointBeforeForce: "a checkpoint forces none of its groups, and its record says that the log is durable up to them",
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
    // Scans.
    ProofOverHidden: "the rows of a page that a scan hides come out where the page's index entry proves that all pass",
    RuleOfLater: "entries of a rule that was registered after a view are read at the view",
    UnionKept: "the union of the index entries of several pages stays as it was when one of the pages changes",
    UnionOfNewest: "pages are excluded by the union of their index entries, whatever versions the view shows",
    KeysStale: "a set of collected keys is used although the pages that it was collected from have changed",
    KeysOfProgram: "a set of collected keys is used for another program than the one it was collected by",
    KeysCollectedLate: "a set of keys that was collected at an old view counts as one of the newest pages",
    EntriesRotated: "a batch is answered with the index entry of another of its pages for each",
    SortedEndsEarly: "a scan of ascending pages ends at the first page that the page index excludes",
    MatcherKeyBit: "a matcher looks for its first key with a bit of it changed",
    MatcherAllForAny: "a matcher lets only pages through that have all of its keys, where any is enough",
    KeySetHalved: "of a set of keys only the lower half is looked for",
    HintCleared: "the hints of the last pages of a task are 0",
    ScanOfAnotherView: "a scan reads pages as they are now, and not as its view shows them",
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
    // Failures between stages, and what ends a drive.
    AbortKeepsRules: "the index rules of a failed group are still those that the next batches are indexed by",
    GivenUpNotLeft: "a batch that gives up after its pages were placed stays under way in their EBLOCKs",
    StagedBehindAcknowledged: "what was staged behind a group that failed is acknowledged",
    LastSyncLeftOut: "a clean close does not sync its second checkpoint record",
    PendingForgotten: "what was pending in the power-protected buffer goes from memory when its log page fails",
    SparesIgnored: "a drive that used up its spares goes on",
    // Trims, views, rules, extents, sessions.
    TrimmedNotKept: "a page that is trimmed is gone for open views, too",
    WrongViewClosed: "beyond the limit of views the newest is closed, not the oldest",
    RuleStays: "an index rule that is dropped stands on",
    RulesForgotten: "a checkpoint does not write the index rules after a batch that changed them",
    AllocationNotLogged: "a group leaves out the extents that were handed out before it",
    SessionUnforced: "a session is opened, or closed, without force",
    // Scrub.
    ScrubSilent: "a scrub does not tell of a page that it cannot read",
    WeakForgotten: "EBLOCKs that were hard to read are not emptied",
}

/// A call, or where this fault is planted what stands in its place. Only one of the two is evaluated.
macro_rules! at {
    ($fault:ident => $wrong:expr, $right:expr) => {
        if $crate::planted::is($crate::planted::Planted::$fault) { $wrong } else { $right }
    };
}
pub(crate) use at;
