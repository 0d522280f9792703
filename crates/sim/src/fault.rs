//! The faults of a run, and sets of them.

use std::fmt;

use lode_flash::FaultKind;

use crate::random::Random;

/// All kinds of faults, with a line that describes each.
pub const FAULTS: &[(FaultKind, &str)] = &[
    (FaultKind::PowerCut, "the power is cut at any operation; any part of the unsynced data survives"),
    (FaultKind::TornProgram, "the power is cut during a program, a part of which survives"),
    (FaultKind::ProgramFails, "a WBLOCK and the rest of its EBLOCK cannot be programmed"),
    (FaultKind::EraseFails, "an EBLOCK can no longer be erased"),
    (FaultKind::ReadFailsOnce, "one read of a read unit fails"),
    (FaultKind::ReadFailsForGood, "a read unit can no longer be read"),
    (FaultKind::FlipData, "a bit of data changes"),
    (FaultKind::FlipTag, "a bit of a tag changes"),
    (FaultKind::FlipLog, "a bit of a log page changes"),
    (FaultKind::FlipCheckpoint, "a bit of one copy of a checkpoint record changes"),
    (FaultKind::FlipSuperblock, "a bit of one copy of the superblock changes"),
    (FaultKind::MisdirectedWrite, "WBLOCKs are programmed at a wrong place and not at their own"),
    (FaultKind::LostWrite, "WBLOCKs are not programmed, although a later sync succeeds"),
    (FaultKind::StaleRead, "a read returns older data of the same place"),
    (FaultKind::MisdirectedRead, "a read returns the data of another place"),
    (FaultKind::NoSpace, "the file system is full for a while"),
    (FaultKind::WriteError, "a write of the image file fails, possibly in the middle"),
    (FaultKind::SyncError, "a sync of the image file fails"),
];

/// A set of kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSet(Vec<FaultKind>);

impl FaultSet {
    /// All kinds.
    pub fn all() -> Self {
        Self(FAULTS.iter().map(|f| f.0).collect())
    }

    /// These kinds.
    pub fn of(kinds: &[FaultKind]) -> Self {
        Self(kinds.to_vec())
    }

    /// The empty set.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Parses a list of names, separated by commas. `none` is the empty set.
    ///
    /// # Errors
    /// The name that is not a kind of fault.
    pub fn parse(list: &str) -> Result<Self, String> {
        if list == "none" {
            return Ok(Self::none());
        }
        let named = |name: &str| {
            let fault = FAULTS.iter().find(|f| f.0.name() == name.trim());
            fault.map(|f| f.0).ok_or_else(|| name.trim().to_string())
        };
        let mut faults = list.split(',').map(named).collect::<Result<Vec<_>, _>>()?;
        faults.sort_unstable();
        faults.dedup();
        Ok(Self(faults))
    }

    /// A random subset of `allowed`, not empty unless `allowed` is.
    pub(crate) fn some(allowed: &Self, r: &mut Random) -> Self {
        if r.once_in(3) {
            return allowed.clone();
        }
        let mut some = Self(allowed.0.iter().copied().filter(|_| r.once_in(4)).collect());
        if some.is_empty() {
            some.0.extend(r.pick(&allowed.0));
        }
        some
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set has this kind.
    pub fn has(&self, fault: FaultKind) -> bool {
        self.0.contains(&fault)
    }

    pub(crate) fn pick(&self, r: &mut Random) -> FaultKind {
        *r.pick(&self.0).expect("the set is not empty")
    }
}

impl fmt::Display for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|f| f.name()).collect();
        f.write_str(if names.is_empty() { "none".into() } else { names.join(",") }.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        assert!(FAULTS.iter().map(|f| f.0).eq(FaultKind::ALL), "each kind, in order");
        let all: Vec<&str> = FAULTS.iter().map(|f| f.0.name()).collect();
        assert_eq!(FaultSet::parse(&all.join(",")), Ok(FaultSet::all()));
        assert_eq!(FaultSet::all().to_string(), all.join(","));
        assert_eq!(FaultSet::parse("none"), Ok(FaultSet::none()));
        assert_eq!(FaultSet::parse("power-cut, rust"), Err("rust".into()));
    }
}
