//! Planted faults: bugs in the trees that the simulation must find, one at a time. How: [`lode_base::planted`].
//!
//! The faults about trees that are created and dropped were real bugs, which the simulation found.

lode_base::planted_faults! {
    // Redo and its replay.
    RedoTrimmedEarly: "redo is trimmed one page too early",
    FirstDirtyForgotten: "a page that is changed again counts as dirty from its last change on",
    SameCommitSkipped: "replay applies only the first record of a commit to a page",
    ReplayStops: "replay stops at the first record that a page does not lack",
    NumberReused: "after a recovery the newest commit number is used again",
    FrameBeforeRedo: "pages are written back before their redo is durable",
    UnsyncedLeftOut: "a durable commit leaves out the redo of earlier commits that were not durable",
    SyncLies: "a sync does nothing, and reports success",
    ValueNotWithRedo: "a value that is a page of its own is not in its commit's batch",
    // Nodes and pages.
    SplitRightNotLogged: "the right node of a split is not logged",
    SplitLeftNotLogged: "the keys that a split removes from the left node are not logged",
    RootSplitHalfLogged: "the left child of a root that was split is not logged",
    MergeNotLogged: "a node that was merged with its neighbour is not logged",
    TakeNotLogged: "that a page is in use is not logged",
    FreeNotLogged: "that a page is free is not logged",
    FreedFollowsNewer: "a freed page is trimmed after it was used again",
    // Transactions.
    LastKeyNotValidated: "the last key of a commit is not validated",
    CommitsNotRemembered: "a commit is not validated against recent commits",
    SavepointKeepsWrite: "a rollback to a savepoint keeps a write",
    SavepointLosesEarlier: "a rollback to a savepoint loses a write before it to a key that was written again after it",
    OwnDeleteMissed: "a scan shows a key that its transaction deleted",
    ShownThoughFailed: "a commit whose batch failed is shown",
    FollowerAcknowledged: "the batch of a group fails, and only its first commit is told",
    CreatedUnsynced: "a tree is created before earlier commits are durable",
    FailedStillConflicts: "a failed commit still conflicts with later ones",
    // Write-back, loads, drops.
    WrittenThoughNewer: "a page counts as written when an older version of it was written",
    LoadedNotCounted: "the pages of a loaded tree are not marked as in use",
    LoadedLastLeftOut: "a load leaves out its last batch",
    DropLeavesRedo: "the redo of a dropped tree stays on the drive",
    // Frames and snapshots.
    OlderVersionDropped: "an older version is dropped while a snapshot needs it",
    DirtyEvicted: "a dirty page is evicted",
    NeededEvicted: "a page is evicted although a snapshot that sees it has a view that is too old to have it",
    OldLoadedAsNewest: "a page that was read at an old view becomes the newest version",
    DroppedForgotten: "the pages of a dropped tree are forgotten while a snapshot sees them",
}
