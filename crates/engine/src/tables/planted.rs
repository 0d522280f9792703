//! Planted faults: bugs in tables with deltas that their test must find, one at a time. How: [`lode_base::planted`].

lode_base::planted_faults! {
    // What a snapshot makes of main and delta.
    HiddenForgotten: "rows of the main show although the delta has them",
    LeafLeftOut: "the rows of a leaf of the delta are left out",
    LeafColumnsKept: "the columns of a leaf of the delta stay although the leaf changed",
    CountOff: "the count of a table has one row too many for the hidden ones",
    OwnNotOnTop: "a row of the delta shows beside what its transaction made of it",
    OwnMainShown: "a row of the main shows beside what its transaction made of it",
    SavepointKeepsRow: "a rollback to a savepoint keeps changed rows",
    // Merges and folds.
    LateCommitForgotten: "a merge removes an entry of the delta that changed since its snapshot",
    OvertakenPublished: "a merge publishes although the table has another version",
    GoneKept: "a merge keeps rows that are gone",
    TailForgotten: "a merge makes no page of rows between pages",
    OwnNotFolded: "a commit of many rows folds the delta without its own rows",
    OldSpanStays: "a page that a merge emptied stays in the directory",
    RunsIgnored: "the ids of a page are off where rows were deleted",
    BoundsTooNarrow: "a page's upper bound of keys is that of its first row",
    SortedThoughNot: "a page counts as sorted although a key falls",
    // Claims and validation.
    RowNotClaimed: "a row that is updated or deleted is not claimed",
    KeyNotClaimed: "a key that comes or goes is not claimed",
    ParentNotClaimed: "the key of a row that is referenced is not claimed",
    ChildTableNotClaimed: "a table that was searched for children is not claimed",
    LoadNotClaimed: "a load does not claim its table",
    ValidatedTooLate: "the claims of a commit are validated from the newest commit on, not from its snapshot on",
    TooOldUnchecked: "the rows of a transaction older than the remembered claims are not compared",
    KeysNotCheckedAgain: "a commit with the right to write does not check keys on the newest state",
    // Keys at the end of a statement.
    EndNotChecked: "the end of a statement checks no key",
    OwnTwiceMissed: "the end of a statement does not compare a new key with the transaction's own rows",
    MainKeyMissed: "the end of a statement compares a new key with the transaction's own rows alone",
    EditedNotNoted: "the end of a statement does not look at keys that edits of pages set",
    DeferredNotChecked: "a deferred key is not checked at the commit",
    ReferencesNotChecked: "the end of a statement checks no foreign key",
    GoneParentNotNoted: "the end of a statement does not look for children of rows that are gone",
    PageRangeSkipped: "the first page whose bounds in the page index hold a key is not searched for it",
    // Rewrites.
    RewriteNotClaimed: "a rewrite of a table does not see that others changed its delta",
    RewrittenKeyMissing: "a rewritten table has no entries of its keys",
    // Entries and ids.
    KeyEntryMissing: "a key that a commit puts in has no entry",
    RekeyedEntryMissing: "the key that a row gets in place of another has no entry",
    IndexEntryMissing: "an index has no entry of a row that a commit puts in",
    PageKeysMissing: "the keys of a loaded page have no entries",
    IdsReused: "row ids are used again after an open",
}
