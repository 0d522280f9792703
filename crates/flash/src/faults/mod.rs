//! A simulated medium whose operations can fail, as seeds determine: power, programs, erasures, reads, and the host
//! below.
//!
//! ```text
//!   Medium ── program, erase, read, sync, record ─► Faults: strikes this one?  (plan)
//!     └─► FileBacking ── pwrite, fdatasync ─► simulated file (disk), which loses what was not synced (journal)
//! ```
//!
//! The code that writes real images is the code that is simulated. Faults must be detected: after any fault, a read
//! of a read unit returns what was programmed there, or an error. Only bytes without tags
//! ([`Medium::read_unverified`]) must be checked by their reader. There is one thing that tags cannot tell: whether a
//! WBLOCK without tags of the current generation was lost or was never programmed. Mapping and log know which WBLOCKs
//! were programmed, so they detect a lost one.

mod disk;
mod flip;
#[cfg(any(test, feature = "fuzzing"))]
mod forge;
mod journal;
mod kind;
mod plan;
mod strike;

use std::fmt;
use std::sync::Arc;

use lode_base::{EblockId, Geometry};
use parking_lot::Mutex;

use crate::backing::{FileBacking, Pieces};
use crate::faults::disk::SimulatedFile;
use crate::layout::{GROUP_DATA_BYTES, group_at, group_of};
use crate::tag::TAG_BYTES;
use crate::tag_cache::TagCache;
use crate::{FlashError, Medium, image};

pub(crate) use disk::Disk;
#[cfg(any(test, feature = "fuzzing"))]
pub use forge::Image;
pub use kind::FaultKind;
pub(crate) use plan::Plan;
pub(crate) use strike::{ProgramStrike, ReadStrike};

/// What a fault damaged, so that an oracle knows what may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hit {
    /// WBLOCKs that do not hold what was programmed there, or cannot be read.
    Wblocks {
        /// The kind of fault.
        kind: FaultKind,
        /// Their EBLOCK.
        eblock: EblockId,
        /// The first of them.
        wblock: u32,
        /// How many.
        count: u32,
    },
    /// One of the copies of the record in a checkpoint slot.
    Checkpoint {
        /// 0 or 1.
        slot: usize,
        /// 0 or 1.
        copy: usize,
    },
    /// One of the copies of the superblock.
    Superblock {
        /// 0 or 1.
        copy: usize,
    },
}

/// The faults of a simulated medium, and its power. Clones share them.
///
/// A medium that lost its power goes on without knowing. Everything that it writes then is lost.
#[derive(Clone)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
    disk: Arc<Disk>,
    tags: Arc<TagCache>,
    /// The contents for stale reads.
    stale: Arc<Mutex<Option<Pieces>>>,
    geometry: Geometry,
}

/// The faults of a medium, for tests that only cut its power.
pub type Power = Faults;

impl Faults {
    /// A medium on a simulated file: a new image, or the one that the file holds.
    pub(crate) fn medium(
        geometry: Option<Geometry>,
        disk: Disk,
        plan: Plan,
    ) -> Result<(Medium, Self), FlashError> {
        Self::medium_on(geometry, Arc::new(disk), plan)
    }

    fn medium_on(
        geometry: Option<Geometry>,
        disk: Arc<Disk>,
        plan: Plan,
    ) -> Result<(Medium, Self), FlashError> {
        let plan = Arc::new(Mutex::new(plan));
        let file = Box::new(SimulatedFile::new(disk.clone(), plan.clone()));
        let backing = FileBacking::new(file, disk::path())?;
        let opened = match geometry {
            Some(g) => image::write_new(backing, g, 0)?,
            None => image::open_backing(backing)?,
        };
        let mut medium = Medium::opened(opened);
        let (geometry, tags) = (*medium.geometry(), medium.tags.clone());
        let faults = Self { plan, disk, tags, stale: Arc::default(), geometry };
        medium.faults = Some(faults.clone());
        Ok((medium, faults))
    }

    /// Arms a fault: it strikes once, after `after` operations of those that it counts (see [`FaultKind`]). `seed`
    /// determines the details.
    pub fn arm(&self, kind: FaultKind, after: u64, seed: u64) {
        if kind == FaultKind::StaleRead {
            *self.stale.lock() = Some(self.disk.snapshot());
        }
        self.plan.lock().arm(kind, after, seed);
    }

    /// Disarms all faults that have not struck, and ends a lack of space. Permanent damage stays.
    pub fn disarm_all(&self) {
        self.plan.lock().disarm(|_| true);
    }

    /// The number of times that each kind struck.
    pub fn fired(&self) -> Vec<(FaultKind, u64)> {
        self.plan.lock().fired()
    }

    /// The hits of all kinds that change, lose or hide programmed data, in order.
    pub fn hits(&self) -> Vec<Hit> {
        self.plan.lock().hits.clone()
    }

    /// The number of operations that changed the medium before its power was cut: programs, erasures, syncs, records,
    /// discards.
    pub fn operations(&self) -> u64 {
        self.plan.lock().operations
    }

    /// Cuts the power after this many more operations. Replaces an earlier request.
    pub fn cut_after(&self, operations: u64) {
        let mut plan = self.plan.lock();
        plan.disarm(|k| k == FaultKind::PowerCut);
        plan.arm(FaultKind::PowerCut, operations, 0);
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.plan.lock().cut = true;
        self.disk.cut();
    }

    /// After this many more programs, one finds the file system full before it begins.
    pub fn full_after(&self, programs: u64) {
        self.plan.lock().full_after = Some(programs);
    }

    /// Whether the power was cut.
    pub fn is_cut(&self) -> bool {
        self.plan.lock().cut
    }

    /// The medium after the power cut (or as if power were cut now), in the next open epoch. Synced writes survive,
    /// and of the rest those that `seed` chooses, sector by sector. Its EBLOCKs are unknown, as in
    /// [`Medium::open_file`]. Permanent damage stays, and no fault is armed.
    ///
    /// # Errors
    /// When the image cannot be opened. Only damage to its superblock causes that.
    pub fn restored(&self, seed: u64) -> Result<(Medium, Self), FlashError> {
        Self::medium(None, self.disk.found(seed), self.aftermath())
    }

    /// The medium in the next open epoch, with nothing lost.
    pub(crate) fn reopened(&self) -> Result<(Medium, Self), FlashError> {
        Self::medium(None, self.disk.copy(), self.aftermath())
    }

    pub(crate) fn plan(&self) -> parking_lot::MutexGuard<'_, Plan> {
        self.plan.lock()
    }

    fn aftermath(&self) -> Plan {
        self.plan.lock().aftermath()
    }

    fn byte(&self, e: EblockId, wblock: u32) -> u64 {
        let in_eblock = u64::from(wblock) * u64::from(self.geometry.wblock_bytes());
        u64::from(e.raw()) * u64::from(self.geometry.eblock_bytes()) + in_eblock
    }

    /// The position in the image of the tag of the read unit at `byte` of the medium.
    fn tag_at(&self, byte: u64) -> u64 {
        let index = byte % GROUP_DATA_BYTES / u64::from(self.geometry.rblock_bytes());
        group_at(group_of(byte)) + index * TAG_BYTES as u64
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faults({:?}, {})", self.fired(), if self.is_cut() { "cut" } else { "power is on" })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn disk(seed: u64) -> Disk {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 64 << 10, 8).unwrap();
        let (_, faults) = Medium::simulated(g);
        let (m, faults) = faults.restored(0).unwrap();
        m.write_checkpoint_record(0, b"where the log begins").unwrap();
        m.sync().unwrap();
        if seed % 2 == 1 {
            faults.flip(FaultKind::FlipSuperblock, seed).unwrap();
            faults.flip(FaultKind::FlipCheckpoint, seed).unwrap();
        }
        faults.disk.copy()
    }

    /// Opening fails at each write and sync in turn, and any part of its writes survives. The next opening succeeds,
    /// and no epoch is used twice.
    #[test]
    fn an_opening_that_fails_anywhere_leaves_an_image_that_opens() {
        use FaultKind::{NoSpace, SyncError, WriteError};
        let mut failed = BTreeSet::new();
        for seed in 0..120 {
            for (kind, after) in
                [(WriteError, 0), (WriteError, 1), (WriteError, 2), (NoSpace, 0), (SyncError, 0)]
            {
                let disk = disk(seed);
                let mut plan = Plan::default();
                plan.arm(kind, after, seed);
                let mut used = BTreeSet::from([1, 2]);
                let disk = Arc::new(disk);
                let opened = Faults::medium_on(None, disk.clone(), plan);
                match opened {
                    Err(e) => {
                        let line = e.to_string();
                        assert!(
                            line.starts_with("<simulated>: cannot ") && line.lines().count() == 1,
                            "{line}"
                        );
                        failed.insert((kind, after));
                    }
                    Ok((m, _)) => assert!(used.insert(m.open_epoch())),
                }
                let (m, faults) = Faults::medium(None, disk.found(seed), Plan::default()).unwrap();
                assert!(used.insert(m.open_epoch()), "epoch {} comes again", m.open_epoch());
                let record = m.newest_checkpoint_record().unwrap();
                assert_eq!(record, Some((0, b"where the log begins".to_vec())));
                let (m, _) = faults.restored(seed).unwrap();
                assert!(used.insert(m.open_epoch()));
                assert_eq!(m.repairs(), 0, "what was repaired stays so");
            }
        }
        assert_eq!(failed.len(), 5, "{failed:?}");
    }

    #[test]
    fn one_opener_at_a_time() {
        let disk = Arc::new(disk(0));
        let held = Faults::medium_on(None, disk.clone(), Plan::default()).unwrap();
        let e = Faults::medium_on(None, disk.clone(), Plan::default()).unwrap_err();
        assert!(matches!(e, FlashError::Busy { .. }), "{e}");
        drop(held);
        Faults::medium_on(None, disk, Plan::default()).unwrap();
    }
}
