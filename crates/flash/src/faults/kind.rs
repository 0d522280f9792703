//! What can be done to a medium.

/// A kind of fault, as [`Faults::arm`](crate::Faults::arm) takes it. "Operations" are those that it counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultKind {
    /// Power goes in an operation that changes the medium: of what was not synced any part is found.
    PowerCut,
    /// Power goes in a program of which a part, and never all, is found; counts programs.
    TornProgram,
    /// A WBLOCK can not be programmed, nor what follows it in its EBLOCK until that is erased; counts programs.
    ProgramFails,
    /// An EBLOCK can not be erased, now and ever after; counts erasures.
    EraseFails,
    /// A read unit can not be read this time; counts reads.
    ReadFailsOnce,
    /// A read unit can not be read until its EBLOCK is erased; counts reads.
    ReadFailsForGood,
    /// A bit of data changes once it is programmed; counts programs with tags.
    FlipData,
    /// A bit of a tag changes once it is programmed; counts programs with tags.
    FlipTag,
    /// A bit of a log page changes once it is programmed; counts programs without tags.
    FlipLog,
    /// A bit of one copy of a checkpoint record changes once it is written; counts checkpoint records.
    FlipCheckpoint,
    /// A bit of one copy of the superblock changes; counts operations that change the medium.
    FlipSuperblock,
    /// WBLOCKs and their tags are programmed in another place, and not in their own; counts programs.
    MisdirectedWrite,
    /// WBLOCKs and their tags are programmed nowhere, though a later sync succeeds; counts programs.
    LostWrite,
    /// A read answers what a read unit held when the fault was armed; counts reads until one is of such a unit.
    StaleRead,
    /// A read answers what another read unit holds; counts reads.
    MisdirectedRead,
    /// The host's file system is full until [`Faults::disarm_all`](crate::Faults::disarm_all); counts writes of the
    /// host's file. With an odd seed every write fails from then on, else those that need new space.
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

    /// Its name, as the command line has it.
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
