//! The plan of faults: which operation each fault strikes, and the permanent damage.
//!
//! ```text
//!   arm(kind, after, seed) ─► armed ── one operation of its kind, and one, and ... ─► struck, once
//! ```
//!
//! Invariants: the strikes follow from the operations so far and the armed faults alone; an operation is struck at
//! most once; after a power cut nothing strikes, and the damage does not change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use lode_base::EblockId;

use crate::error::EIO;
use crate::faults::{FaultKind, Hit};

#[derive(Clone, Copy)]
struct Armed {
    kind: FaultKind,
    left: u64,
    seed: u64,
}

/// How the host fails.
pub(crate) struct HostFailure {
    pub(crate) kind: io::Error,
    pub(crate) seed: u64,
}

/// Permanent damage.
#[derive(Clone, Default)]
pub(crate) struct Scars {
    /// EBLOCKs in which a program failed since they were erased.
    pub(crate) ended: BTreeSet<EblockId>,
    /// EBLOCKs that cannot be erased.
    pub(crate) inerasable: BTreeSet<EblockId>,
    /// Read units that cannot be read, by their first byte on the medium.
    pub(crate) unreadable: BTreeSet<u64>,
}

#[derive(Default)]
pub(crate) struct Plan {
    armed: Vec<Armed>,
    fired: BTreeMap<FaultKind, u64>,
    pub(crate) hits: Vec<Hit>,
    pub(crate) operations: u64,
    pub(crate) scars: Scars,
    /// The WBLOCKs of each EBLOCK that were programmed since its erasure, and whether they have tags.
    pub(crate) programmed: BTreeMap<EblockId, BTreeMap<u32, bool>>,
    /// Whether the host's file system is full: `Some(true)` for every write, `Some(false)` for writes that need
    /// space.
    full: Option<bool>,
    /// The number of programs until one finds the file system full, once.
    pub(crate) full_after: Option<u64>,
    /// The size of the power-protected buffer; below, its contents.
    pub(crate) protected_bytes: u32,
    pub(crate) protected: Vec<u8>,
    /// Power is cut at the end of the operation under way.
    pub(crate) cut_due: bool,
    pub(crate) cut: bool,
}

impl Plan {
    pub(crate) fn arm(&mut self, kind: FaultKind, left: u64, seed: u64) {
        self.armed.push(Armed { kind, left, seed });
    }

    /// The plan after a power cut: no armed faults, the same permanent damage, the same protected buffer.
    pub(crate) fn aftermath(&self) -> Self {
        Self {
            scars: self.scars.clone(),
            programmed: self.programmed.clone(),
            protected_bytes: self.protected_bytes,
            protected: self.protected.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn disarm(&mut self, what: impl Fn(FaultKind) -> bool) {
        self.armed.retain(|a| !what(a.kind));
        if what(FaultKind::NoSpace) {
            (self.full, self.full_after) = (None, None);
        }
    }

    pub(crate) fn fired(&self) -> Vec<(FaultKind, u64)> {
        self.fired.iter().map(|(&k, &n)| (k, n)).collect()
    }

    pub(crate) fn count(&mut self, kind: FaultKind) {
        *self.fired.entry(kind).or_default() += 1;
    }

    /// Counts one operation for faults of `kinds`. Returns the fault that strikes it, and its seed.
    pub(crate) fn strike(&mut self, kinds: &[FaultKind]) -> Option<(FaultKind, u64)> {
        let struck = self.due(kinds)?;
        Some(self.take(struck))
    }

    /// Counts one operation for faults of `kinds`. Returns the fault that is due, without taking it.
    pub(crate) fn due(&mut self, kinds: &[FaultKind]) -> Option<usize> {
        if self.cut {
            return None;
        }
        let mut struck = None;
        for (i, a) in self.armed.iter_mut().enumerate().filter(|(_, a)| kinds.contains(&a.kind)) {
            match a.left {
                0 => struck = struck.or(Some(i)),
                _ => a.left -= 1,
            }
        }
        struck
    }

    /// The kind and the seed of an armed fault.
    pub(crate) fn armed(&self, at: usize) -> (FaultKind, u64) {
        (self.armed[at].kind, self.armed[at].seed)
    }

    /// An armed fault strikes, and is disarmed.
    pub(crate) fn take(&mut self, at: usize) -> (FaultKind, u64) {
        let a = self.armed.remove(at);
        self.count(a.kind);
        (a.kind, a.seed)
    }

    /// An operation that changes the medium begins. False if the power was cut before.
    pub(crate) fn begin(&mut self) -> bool {
        if self.cut {
            return false;
        }
        self.operations += 1;
        self.cut_due |= self.strike(&[FaultKind::PowerCut]).is_some();
        true
    }

    /// Whether a program finds the file system full before it begins.
    pub(crate) fn finds_no_space(&mut self) -> bool {
        match &mut self.full_after {
            Some(0) => {
                self.full_after = None;
                self.count(FaultKind::NoSpace);
                return true;
            }
            Some(left) => *left -= 1,
            None => {}
        }
        false
    }

    /// How a write of the host's file fails, if it does.
    pub(crate) fn host_write(&mut self, needs_space: bool) -> Option<HostFailure> {
        let full = |seed| Some(HostFailure { kind: io::ErrorKind::StorageFull.into(), seed });
        match self.strike(&[FaultKind::NoSpace, FaultKind::WriteError]) {
            Some((FaultKind::NoSpace, seed)) => {
                self.full = Some(seed % 2 == 1);
                full(seed)
            }
            Some((_, seed)) => Some(HostFailure { kind: input_output_error(), seed }),
            None if !self.cut && self.full.is_some_and(|all| all || needs_space) => {
                self.count(FaultKind::NoSpace);
                full(0)
            }
            None => None,
        }
    }

    /// How a sync of the host's file fails, if it does.
    pub(crate) fn host_sync(&mut self) -> Option<HostFailure> {
        let (_, seed) = self.strike(&[FaultKind::SyncError])?;
        Some(HostFailure { kind: input_output_error(), seed })
    }
}

fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_once_and_one_operation_is_struck_once() {
        use FaultKind::{EraseFails, ProgramFails, TornProgram};
        let mut p = Plan::default();
        p.arm(ProgramFails, 1, 10);
        p.arm(TornProgram, 1, 20);
        p.arm(EraseFails, 0, 30);
        let kinds = [ProgramFails, TornProgram];
        assert_eq!(p.strike(&kinds), None);
        assert_eq!(p.strike(&kinds), Some((ProgramFails, 10)));
        assert_eq!(p.strike(&kinds), Some((TornProgram, 20)));
        assert_eq!(p.strike(&kinds), None);
        p.cut = true;
        assert_eq!(p.strike(&[EraseFails]), None);
        assert_eq!(p.fired(), [(TornProgram, 1), (ProgramFails, 1)]);
    }
}
