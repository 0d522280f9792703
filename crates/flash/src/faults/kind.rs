//! The kinds of faults.

/// A kind of fault, for [`Faults::arm`](crate::Faults::arm). Each kind counts certain operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultKind {
    /// Power is cut in an operation that changes the medium. Any subset of the unsynced writes survives.
    PowerCut,
    /// Power is cut in a program of which a part, but never all, survives; counts programs.
    TornProgram,
    /// A WBLOCK cannot be programmed, nor the WBLOCKs behind it until the EBLOCK is erased; counts programs.
    ProgramFails,
    /// An EBLOCK can never be erased again; counts erasures.
    EraseFails,
    /// A read unit cannot be read once; counts reads.
    ReadFailsOnce,
    /// A read unit cannot be read until its EBLOCK is erased; counts reads.
    ReadFailsForGood,
    /// A bit of data flips after it is programmed; counts programs with tags.
    FlipData,
    /// A bit of a tag flips after it is programmed; counts programs with tags.
    FlipTag,
    /// A bit of a log page flips after it is programmed; counts programs without tags.
    FlipLog,
    /// A bit of one copy of a checkpoint record flips after it is written; counts checkpoint records.
    FlipCheckpoint,
    /// A bit of one copy of the superblock flips; counts operations that change the medium.
    FlipSuperblock,
    /// WBLOCKs and their tags are programmed at another place instead of their own; counts programs.
    MisdirectedWrite,
    /// WBLOCKs and their tags are not programmed, although a later sync succeeds; counts programs.
    LostWrite,
    /// A read returns the contents of a read unit at the time the fault was armed; counts reads of units that have
    /// changed since.
    StaleRead,
    /// A read returns the contents of another read unit; counts reads.
    MisdirectedRead,
    /// The host's file system is full until [`Faults::disarm_all`](crate::Faults::disarm_all); counts writes of the
    /// host's file. With an odd seed every write fails from then on; otherwise only writes that need new space.
    NoSpace,
    /// A write of the host's file fails, perhaps after a part of it; counts such writes.
    WriteError,
    /// A sync of the host's file fails; counts syncs.
    SyncError,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 18] = [
        Self::PowerCut,
        Self::TornProgram,
        Self::ProgramFails,
        Self::EraseFails,
        Self::ReadFailsOnce,
        Self::ReadFailsForGood,
        Self::FlipData,
        Self::FlipTag,
        Self::FlipLog,
        Self::FlipCheckpoint,
        Self::FlipSuperblock,
        Self::MisdirectedWrite,
        Self::LostWrite,
        Self::StaleRead,
        Self::MisdirectedRead,
        Self::NoSpace,
        Self::WriteError,
        Self::SyncError,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PowerCut => "power-cut",
            Self::TornProgram => "torn-program",
            Self::ProgramFails => "program-fails",
            Self::EraseFails => "erase-fails",
            Self::ReadFailsOnce => "read-fails-once",
            Self::ReadFailsForGood => "read-fails-for-good",
            Self::FlipData => "flip-data",
            Self::FlipTag => "flip-tag",
            Self::FlipLog => "flip-log",
            Self::FlipCheckpoint => "flip-checkpoint",
            Self::FlipSuperblock => "flip-superblock",
            Self::MisdirectedWrite => "misdirected-write",
            Self::LostWrite => "lost-write",
            Self::StaleRead => "stale-read",
            Self::MisdirectedRead => "misdirected-read",
            Self::NoSpace => "no-space",
            Self::WriteError => "write-error",
            Self::SyncError => "sync-error",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_listed_once_in_order_and_found_by_its_name() {
        assert!(FaultKind::ALL.is_sorted_by(|a, b| a < b));
        assert_eq!(FaultKind::ALL.last(), Some(&FaultKind::SyncError));
        for k in FaultKind::ALL {
            assert_eq!(FaultKind::from_name(k.name()), Some(k));
        }
        assert_eq!(FaultKind::from_name("tornado"), None);
    }
}
