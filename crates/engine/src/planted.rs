//! Planted faults: bugs in the trees that the simulation must find, one at a time. How: [`lode_base::planted`].
//!
//! Those about trees that are created and dropped were there: the simulation found them.

lode_base::planted_faults! {
    // Redo and its replay.
    RedoTrimmedEarly: "redo is let go one page too early",
    FirstDirtyForgotten: "a page that is changed again counts as dirty from then on only",
    SameCommitSkipped: "replay skips further records of a commit that it has begun on a page",
    ReplayStops: "replay stops at the first record that a page covers",
    NumberReused: "after a recovery the newest commit number is used again",
    FrameBeforeRedo: "pages are written back before their redo is durable",
    UnsyncedLeftOut: "a durable commit leaves out the redo of those that were not",
    SyncLies: "a sync says that it is over, and does nothing",
    ValueNotWithRedo: "a value that is a page of its own is not part of its commit's batch",
    // Nodes and pages.
    SplitRightNotLogged: "the right half of a split is not logged",
    SplitLeftNotLogged: "what a split takes from the left half is not logged",
    RootSplitHalfLogged: "the left child of a root that was split is not logged",
    MergeNotLogged: "a node that took in its neighbour is not logged",
    TakeNotLogged: "that a page is in use is not logged",
    FreeNotLogged: "that a page is free is not logged",
    FreedFollowsNewer: "a page that was freed is trimmed after it was used again",
    // Transactions.
    LastKeyNotValidated: "the last key of a commit is not validated",
    CommitsNotRemembered: "a commit is not validated against those right before it",
    SavepointKeepsWrite: "going back to a savepoint keeps a write",
    SavepointLosesEarlier: "going back to a savepoint loses what was written before it and again after it",
    OwnDeleteMissed: "a scan shows what its transaction deleted",
    ShownThoughFailed: "a commit whose batch failed is shown",
    FollowerAcknowledged: "of a group whose batch failed, those behind the first are acknowledged",
    CreatedUnsynced: "a tree is created while commits before it are not durable",
    FailedStillConflicts: "a commit that failed still conflicts with later ones",
    // Write-back, loads, drops.
    WrittenThoughNewer: "a page counts as written when an older version of it was",
    LoadedNotCounted: "the pages of a tree that is loaded are not in use",
    LoadedLastLeftOut: "a load leaves its last batch out",
    DropLeavesRedo: "the redo of a dropped tree stays on the drive",
    // Frames and snapshots.
    OlderVersionDropped: "an older version goes while a snapshot needs it",
    DirtyEvicted: "a changed page is evicted",
    NeededEvicted: "a page is evicted that the view of a snapshot is too old to have",
    OldLoadedAsNewest: "a page that was read at an old view becomes the newest version",
    DroppedForgotten: "the pages of a dropped tree are forgotten while a snapshot sees them",
}
