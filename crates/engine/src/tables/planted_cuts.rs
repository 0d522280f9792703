//! Planted faults that show only after a power cut, in an old snapshot, or when a table is altered: bugs in tables with deltas that the
//! simulation of tables must find, one at a time. How: [`lode_base::planted`].

lode_base::planted_faults! {
    EntriesFirst: "a merge removes the entries of its rows in a batch before that of its pages",
    DirectoryFirst: "a merge notes its pages in the directory in a batch before theirs",
    DirectoryLater: "a merge notes its pages in the directory in a batch after theirs",
    TrimsFirst: "a merge trims the pages that it emptied in a batch before that of the directory",
    KeysLater: "the entries of keys and indexes come in a batch after that of their rows",
    LoadedEntriesLater: "the entries of the rows of a load, or of many changed rows, come in a batch after theirs",
    DroppedTreesFirst: "the trees of a dropped table or index go in a batch before that which drops it",
    LeftTreesStay: "an open leaves trees that no table and no index names",
    OldReadsMerged: "an old snapshot reads pages as the newest merge wrote them",
    AlteredOvertaken: "a commit that alters a table does not see that others changed its delta meanwhile",
    ColumnsOfOtherSchema: "the columns of a leaf of the delta stay although their table was altered",
    // Pages that are deleted unread.
    HiddenDeletedUnread: "the rows of a page that the delta has are deleted with the page, unread",
    MaybeDeletedUnread: "a page of which some row may pass is deleted unread",
    UnreadPageStays: "a commit leaves a page that was deleted unread where it is",
    // Bounds of pages that the host keeps.
    BoundsNotFollowed: "the bounds of a page that a commit writes stay those that it had",
}
