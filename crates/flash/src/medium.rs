//! The medium, as the firmware sees it.
//!
//! ```text
//!   program: claim WBLOCKs in order ─► write tags, data                 read: data ─► each RBLOCK against its tag
//!   erase:   next generation, nothing written: what carries another generation is empty
//! ```
//!
//! Reads and programs may run on any number of threads; no read holds a lock over I/O. The firmware ensures that no
//! EBLOCK is erased while it is being read. A simulated medium calls its faults before and after each operation.

mod program;
mod protected;
mod read;
mod records;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use lode_base::{EblockId, Geometry, Ppa};
use parking_lot::Mutex;

use crate::backing::{Backing, MemoryBacking};
use crate::counter::Counter;
use crate::die::DieState;
use crate::faults::{Disk, Faults, Plan, Power};
use crate::layout::{GROUP_DATA_BYTES, GROUP_TAG_BYTES, by_group, data_at, group_at, group_of};
use crate::metadata_only::MetadataOnly;
use crate::tag_cache::TagCache;
use crate::timing::Model;
pub use read::READ_RETRIES;

use crate::{FlashError, Generation, copies, image};

/// What becomes of the megabyte in which the space that [`Medium::discard_behind`] frees begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstGroup {
    /// Its part behind the end is freed.
    GoesToo,
    /// It keeps its space: what is programmed there next has some, even if the file system has none left by then.
    Stays,
}

/// A medium: EBLOCKs of WBLOCKs of RBLOCKs, and their tags.
pub struct Medium {
    backing: Box<dyn Backing>,
    /// The EBLOCKs' contents of a metadata-only medium. `backing` then has only the checkpoint records.
    pub(crate) kept: Option<MetadataOnly>,
    geometry: Geometry,
    uuid: [u8; 16],
    epoch: u32,
    erasures: AtomicU32,
    die: DieState,
    pub(crate) tags: Arc<TagCache>,
    pub(crate) faults: Option<Faults>,
    /// EBLOCKs of which a read had to be repeated.
    weak: Mutex<BTreeSet<EblockId>>,
    read_retries: AtomicU64,
    repairs: u64,
    fresh: AtomicBool,
    checkpoint_sequence: AtomicU64,
    /// Length of the image when it was last synced.
    synced_image_bytes: AtomicU64,
    poison: OnceLock<String>,
    /// The power-protected buffer of a medium in memory. For a simulated medium, the faults hold it.
    protected_bytes: u32,
    protected: Mutex<Vec<u8>>,
    media_bytes_read: Counter,
    media_bytes_written: AtomicU64,
    model: Option<Arc<Model>>,
}

/// The state of a WBLOCK, by its tags and its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WblockState {
    /// Not programmed in this generation.
    Empty,
    /// Programmed and intact.
    Programmed,
    /// Partly programmed, or damaged since.
    Damaged,
}

impl Medium {
    /// A volatile medium in memory, fresh.
    pub fn memory(geometry: Geometry) -> Self {
        Self::new(Box::new(MemoryBacking::new()), geometry, [0; 16], 1, None)
    }

    /// A volatile medium in memory that keeps the drive's metadata, but no pages of users: these read as meaningless
    /// bytes of the right length. For traces, and for large drives in little memory.
    pub fn metadata_only(geometry: Geometry) -> Self {
        Self { kept: Some(MetadataOnly::new(&geometry)), ..Self::memory(geometry) }
    }

    /// Whether synced data survives the process.
    pub fn is_durable(&self) -> bool {
        self.backing.is_durable()
    }

    /// Whether pages of users read as they were written.
    pub fn keeps_user_data(&self) -> bool {
        self.kept.is_none()
    }

    /// A new image file, locked. `seed` determines its uuid.
    ///
    /// # Errors
    /// When there is a file already, or it cannot be written. Nothing is left behind then.
    pub fn create_file(path: &Path, geometry: Geometry, seed: u64) -> Result<Self, FlashError> {
        Ok(Self::opened(image::create(path, geometry, seed)?))
    }

    /// An existing image file, locked, in a new open epoch. Its EBLOCKs are unknown until recovery sets them:
    /// [`Medium::set_generation`], [`Medium::set_next_wblock`].
    ///
    /// # Errors
    /// What is wrong with the file, in one line: see [`FlashError`].
    pub fn open_file(path: &Path) -> Result<Self, FlashError> {
        Ok(Self::opened(image::open(path)?))
    }

    /// A volatile medium in memory as it would be after a power cut now, in the next open epoch; `None` for a file.
    /// Its EBLOCKs are unknown, as in [`Medium::open_file`]. Nothing is lost; for losses see [`Faults::restored`].
    pub fn after_power_cut(&self) -> Option<Self> {
        if let Some(f) = &self.faults {
            return Some(f.reopened().ok()?.0);
        }
        // The copy is a consistent snapshot even during writes: the buffer is locked, and the rest is copied
        // atomically.
        let protected = self.protected.lock();
        let backing = self.backing.copy()?;
        let protected = Mutex::new(protected.clone());
        let (records, _) = copies::checkpoints(&*backing).expect("memory can be read");
        let found = Self::new(backing, self.geometry, self.uuid, self.epoch + 1, copies::sequence(&records));
        let kept = self.kept.as_ref().map(MetadataOnly::copy);
        Some(Self { kept, protected_bytes: self.protected_bytes, protected, ..found })
    }

    /// A new image on a simulated file in memory, and its faults.
    pub fn simulated(geometry: Geometry) -> (Self, Faults) {
        let made = Faults::medium(Some(geometry), Disk::default(), Plan::default());
        made.expect("nothing fails that is not armed")
    }

    /// As [`Medium::simulated`], for tests that only cut its power.
    pub fn with_power(geometry: Geometry) -> (Self, Power) {
        Self::simulated(geometry)
    }

    pub(crate) fn opened(o: image::Opened) -> Self {
        let image::Opened { backing, superblock, epoch, checkpoint_sequence, repairs } = o;
        let (geometry, uuid) = (superblock.geometry, superblock.uuid);
        Self { repairs, ..Self::new(Box::new(backing), geometry, uuid, epoch, checkpoint_sequence) }
    }

    fn new(
        backing: Box<dyn Backing>,
        geometry: Geometry,
        uuid: [u8; 16],
        epoch: u32,
        checkpoint_sequence: Option<u64>,
    ) -> Self {
        Self {
            synced_image_bytes: AtomicU64::new(backing.len()),
            backing,
            kept: None,
            geometry,
            uuid,
            epoch,
            erasures: AtomicU32::new(0),
            die: DieState::new(&geometry),
            tags: Arc::new(TagCache::new(image::groups(&geometry))),
            faults: None,
            weak: Mutex::default(),
            read_retries: AtomicU64::new(0),
            repairs: 0,
            fresh: AtomicBool::new(checkpoint_sequence.is_none()),
            checkpoint_sequence: AtomicU64::new(checkpoint_sequence.unwrap_or(0)),
            poison: OnceLock::new(),
            protected_bytes: 0,
            protected: Mutex::default(),
            media_bytes_read: Counter::default(),
            media_bytes_written: AtomicU64::new(0),
            model: None,
        }
    }

    /// Limits the memory for tags, in bytes. The default is 16 MB, for the tags of 4 GB of data. The limit can only
    /// be lowered, and only before the first read.
    pub fn limit_tags(&self, bytes: usize) {
        self.tags.limit(bytes);
    }

    /// The medium of a modelled device: its operations take modelled time. In memory it has the device's
    /// power-protected buffer; a file has none.
    ///
    /// # Panics
    /// When the device has another geometry.
    pub fn with_model(self, model: Arc<Model>) -> Self {
        assert_eq!(self.geometry, model.profile().geometry, "the medium is that of the profile");
        let bytes = model.profile().link.protected_bytes;
        let has_one = bytes > 0 && (self.faults.is_some() || self.backing.copy().is_some());
        let medium = if has_one { self.with_protected_buffer(bytes) } else { self };
        Self { model: Some(model), ..medium }
    }

    /// The modelled device, if there is one.
    pub fn model(&self) -> Option<&Model> {
        self.model.as_deref()
    }

    /// On a modelled device: operations from now on begin after those so far have ended.
    pub fn wait(&self) {
        if let Some(m) = &self.model {
            m.wait();
        }
    }

    /// Units and capacity.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The image file, or a name for a medium without a file.
    pub fn path(&self) -> &Path {
        self.backing.path()
    }

    /// The image's identity; zeroes in memory.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The number of this opening. It is durable, and was never used before.
    pub fn open_epoch(&self) -> u32 {
        self.epoch
    }

    /// Length of the image, in bytes, holes included.
    pub fn image_bytes(&self) -> u64 {
        self.backing.len()
    }

    /// Whether no checkpoint record was ever written.
    pub fn is_fresh(&self) -> bool {
        self.fresh.load(Ordering::Acquire)
    }

    /// Bytes read from the medium since it was opened, in whole read units.
    pub fn media_bytes_read(&self) -> u64 {
        self.media_bytes_read.sum()
    }

    /// Bytes programmed since it was opened.
    pub fn media_bytes_written(&self) -> u64 {
        self.media_bytes_written.load(Ordering::Relaxed)
    }

    /// The generation of an EBLOCK, as far as known.
    pub fn generation(&self, e: EblockId) -> Generation {
        self.die.generation(e)
    }

    /// Sets the generation of an EBLOCK that recovery found.
    pub fn set_generation(&self, e: EblockId, g: Generation) {
        self.die.set_generation(e, g);
    }

    /// The next WBLOCK of an EBLOCK to program; the number of WBLOCKs if the EBLOCK is full, ended or unknown.
    pub fn next_wblock(&self, e: EblockId) -> u32 {
        self.die.next_wblock(e)
    }

    /// Sets the next WBLOCK of an EBLOCK, as recovery found it.
    ///
    /// # Panics
    /// When `wblock` is more than an EBLOCK has.
    pub fn set_next_wblock(&self, e: EblockId, wblock: u32) {
        self.die.set_next_wblock(e, wblock);
    }

    /// Begins a new generation of an EBLOCK, in which all its WBLOCKs are empty. Writes nothing. The caller must log
    /// the generation, since otherwise only tags record it.
    ///
    /// # Errors
    /// When the EBLOCK cannot be erased ([`FlashError::is_erase_failure`], which is permanent): it is ended, and can
    /// still be read. When an earlier sync failed.
    pub fn erase(&self, e: EblockId) -> Result<Generation, FlashError> {
        self.check_poison()?;
        if let Some(m) = &self.model {
            m.erase(e);
        }
        if let Some(f) = &self.faults {
            let erased = f.erase(e);
            f.done();
            if !erased {
                self.die.end(e);
                return Err(FlashError::EraseFailed { eblock: e });
            }
        }
        let before = self.erasures.fetch_add(1, Ordering::Relaxed);
        let counter = before.checked_add(1).expect("fewer than 2^32 erasures while open");
        let g = Generation::new(self.epoch, counter);
        self.die.erase(e, g);
        Ok(g)
    }

    /// Makes all writes durable.
    ///
    /// # Errors
    /// When the backing cannot be synced. It is then unknown what is durable, so a failed sync is never retried:
    /// every later write and sync fails with [`FlashError::Poisoned`].
    pub fn sync(&self) -> Result<(), FlashError> {
        self.check_poison()?;
        self.wait();
        let len = self.backing.len();
        let synced = match &self.faults {
            None => self.backing.sync(),
            Some(f) => {
                let synced = if f.sync() { self.backing.sync() } else { Ok(()) };
                f.done();
                synced
            }
        };
        synced.inspect_err(|e| {
            // The first failure is kept as the cause.
            let _ = self.poison.set(format!("an earlier sync failed ({e})"));
        })?;
        self.synced_image_bytes.fetch_max(len, Ordering::Relaxed);
        // This sync succeeded, but another one failed meanwhile. Its success then proves nothing about earlier
        // writes.
        self.check_poison()
    }

    fn check_poison(&self) -> Result<(), FlashError> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(FlashError::Poisoned { path: self.path().into(), cause: cause.clone() }),
        }
    }

    /// The contents of an EBLOCK are no longer needed until it is erased. A metadata-only medium drops them; other
    /// media do nothing.
    pub fn forget(&self, e: EblockId) {
        if let Some(kept) = &self.kept {
            kept.forget(e);
        }
    }

    /// Frees the space of an EBLOCK in the file system, if that is possible. For EBLOCKs that are not needed soon.
    /// The EBLOCK must be erased before it is programmed again.
    ///
    /// # Errors
    /// When the file system refuses, other than for not knowing how.
    pub fn discard(&self, e: EblockId) -> Result<(), FlashError> {
        self.check_poison()?;
        self.die.set_generation(e, Generation::UNKNOWN);
        self.die.end(e);
        if let Some(f) = &self.faults {
            f.discard(e);
        }
        self.forget(e);
        let discarded = self.punch(e);
        if let Some(f) = &self.faults {
            f.done();
        }
        discarded
    }

    /// Bytes that the file system has left for the image; `None` where nobody knows.
    pub fn space_left(&self) -> Option<u64> {
        self.backing.space_left()
    }

    /// Frees the space behind WBLOCK `end` of an EBLOCK in the file system, approximately, if that is possible.
    /// Nothing was programmed there since the EBLOCK was erased. It stays erased, and can be programmed further.
    ///
    /// # Errors
    /// When the file system refuses, other than for not knowing how.
    pub fn discard_behind(&self, e: EblockId, end: u32, first: FirstGroup) -> Result<(), FlashError> {
        self.check_poison()?;
        assert!(self.next_wblock(e) <= end, "{e:?} was programmed behind WBLOCK {end}");
        // A simulated medium has no file system, and its faults do not know parts of EBLOCKs.
        if end >= self.geometry.wblocks_per_eblock() || self.faults.is_some() {
            return Ok(());
        }
        let (from, to) =
            (self.wblock_byte(e, end), self.wblock_byte(e, 0) + u64::from(self.geometry.eblock_bytes()));
        // Tags are freed only together with their whole group: of the first group, pages of data alone.
        let from = match first {
            FirstGroup::GoesToo => from,
            FirstGroup::Stays => from.next_multiple_of(GROUP_DATA_BYTES).min(to),
        };
        self.punch_range(from, to - from)
    }

    fn punch(&self, e: EblockId) -> Result<(), FlashError> {
        self.punch_range(self.wblock_byte(e, 0), self.geometry.eblock_bytes().into())
    }

    fn punch_range(&self, byte: u64, len: u64) -> Result<(), FlashError> {
        if self.kept.is_some() {
            return Ok(());
        }
        for (at, len) in by_group(byte, len) {
            if len == GROUP_DATA_BYTES {
                let group = group_of(at);
                self.backing.forget_group(group);
                self.backing.punch(group_at(group), GROUP_TAG_BYTES + GROUP_DATA_BYTES)?;
                self.tags.forget(group);
            } else {
                self.backing.punch(data_at(at), len)?;
            }
        }
        Ok(())
    }

    fn wblock_byte(&self, e: EblockId, wblock: u32) -> u64 {
        assert!(e.raw() < self.geometry.eblock_count(), "{e:?} lies beyond the medium");
        assert!(wblock < self.geometry.wblocks_per_eblock(), "WBLOCK {wblock} lies beyond {e:?}");
        let in_eblock = u64::from(wblock) * u64::from(self.geometry.wblock_bytes());
        u64::from(e.raw()) * u64::from(self.geometry.eblock_bytes()) + in_eblock
    }

    fn eblock_of(&self, byte: u64) -> EblockId {
        EblockId::new((byte / u64::from(self.geometry.eblock_bytes())) as u32)
    }

    /// The address of a byte of the medium.
    fn ppa(&self, byte: u64) -> Ppa {
        self.geometry.ppa_from_cell(self.cell(byte)).expect("it lies on the medium")
    }

    /// The cell that a byte lies in.
    fn cell(&self, byte: u64) -> u64 {
        byte / lode_base::CELL_BYTES as u64
    }

    /// The index in its group of the tag of the read unit at `byte`.
    fn tag_index(&self, byte: u64) -> usize {
        (byte % GROUP_DATA_BYTES / u64::from(self.geometry.rblock_bytes())) as usize
    }
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Medium({}, epoch {})", self.path().display(), self.epoch)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Medium>();
};

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use lode_base::PageBuf;

    use super::*;

    /// A memory image whose next operation of a chosen kind fails.
    struct Faulty(MemoryBacking, Arc<AtomicU32>);

    const SYNC: u32 = 1;
    const WRITE: u32 = 2;
    const GROW: u32 = 3;
    const GROW_BADLY: u32 = 4;
    const TAGS: u32 = 5;
    const READ: u32 = 6;

    impl Faulty {
        fn fail(&self, which: u32, operation: &'static str, kind: ErrorKind) -> Result<(), FlashError> {
            match self.1.compare_exchange(which, 0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => Err(FlashError::io(Path::new("a.lode"), operation, Error::from(kind))),
                Err(_) => Ok(()),
            }
        }
    }

    impl Backing for Faulty {
        fn path(&self) -> &Path {
            Path::new("a.lode")
        }

        fn is_durable(&self) -> bool {
            true
        }
        fn read(&self, at: u64, out: &mut [u8], operation: &'static str) -> Result<(), FlashError> {
            self.0.read(at, out, operation)?;
            if operation == "read tags" && self.fail(TAGS, operation, ErrorKind::Other).is_err() {
                out.fill(0xff);
            }
            let second = data_at(4096);
            if (at..at + out.len() as u64).contains(&second) && self.1.load(Ordering::Relaxed) == READ {
                return Err(FlashError::io(
                    self.path(),
                    operation,
                    Error::from_raw_os_error(crate::error::EIO),
                ));
            }
            Ok(())
        }
        fn write(&self, at: u64, data: &[u8], operation: &'static str) -> Result<(), FlashError> {
            self.fail(WRITE, operation, ErrorKind::StorageFull)?;
            self.0.write(at, data, operation)
        }
        fn prepare_group(&self, group: u64, ahead: bool) -> Result<(), FlashError> {
            self.fail(GROW, "grow the image", ErrorKind::StorageFull)?;
            self.fail(GROW_BADLY, "grow the image", ErrorKind::Other)?;
            self.0.prepare_group(group, ahead)
        }
        fn punch(&self, at: u64, len: u64) -> Result<(), FlashError> {
            self.0.punch(at, len)
        }
        fn forget_group(&self, group: u64) {
            self.0.forget_group(group);
        }
        fn sync(&self) -> Result<(), FlashError> {
            self.fail(SYNC, "sync the image", ErrorKind::Other)
        }
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn space_left(&self) -> Option<u64> {
            self.0.space_left()
        }
    }

    fn faulty() -> (Medium, Arc<AtomicU32>, EblockId) {
        let next = Arc::new(AtomicU32::new(0));
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 8).unwrap();
        let m = Medium::new(Box::new(Faulty(MemoryBacking::new(), next.clone())), g, [0; 16], 1, None);
        let e = EblockId::new(0);
        m.erase(e).unwrap();
        (m, next, e)
    }

    #[test]
    fn a_failed_sync_is_never_retried() {
        let (m, next, e) = faulty();
        let data = PageBuf::copy_from(&[1; 4096]);
        m.program(e, 0, &data).unwrap();
        next.store(SYNC, Ordering::Relaxed);
        assert_eq!(m.sync().unwrap_err().to_string(), "a.lode: cannot sync the image: other error");
        let poisoned = |r: Result<(), FlashError>| {
            let message = r.unwrap_err().to_string();
            let expected = "a.lode: no more writes until it is opened again, since an earlier sync failed";
            assert!(message.starts_with(expected), "{message}");
        };
        poisoned(m.sync());
        poisoned(m.program(e, 1, &data));
        poisoned(m.erase(e).map(drop));
        poisoned(m.write_checkpoint_record(0, b""));
        poisoned(m.discard(e));
        assert_eq!(m.read(m.geometry().ppa(e, 0).unwrap(), 4096).unwrap(), data, "reading goes on");
    }

    #[test]
    fn a_failed_write_ends_its_eblock_but_a_failed_growth_does_not() {
        let (m, next, e) = faulty();
        let data = PageBuf::copy_from(&[1; 4096]);
        next.store(GROW, Ordering::Relaxed);
        let full = m.program(e, 0, &data).unwrap_err();
        assert!(full.is_no_space());
        assert_eq!(full.to_string(), "a.lode: cannot grow the image: no storage space");
        assert_eq!(m.next_wblock(e), 0);
        next.store(WRITE, Ordering::Relaxed);
        assert_eq!(
            m.program(e, 0, &data).unwrap_err().to_string(),
            "a.lode: cannot write data: no storage space"
        );
        assert_eq!(m.next_wblock(e), m.geometry().wblocks_per_eblock());
        m.erase(e).unwrap();
        m.program(e, 0, &data).unwrap();
    }

    #[test]
    fn an_image_that_grows_badly_ends_the_eblock() {
        let (m, next, e) = faulty();
        next.store(GROW_BADLY, Ordering::Relaxed);
        let error = m.program(e, 0, &PageBuf::copy_from(&[1; 4096])).unwrap_err();
        assert!(error.is_program_failure(), "{error}");
        assert_eq!(m.next_wblock(e), m.geometry().wblocks_per_eblock());
    }

    #[test]
    fn tags_that_were_read_badly_do_not_stay_in_memory() {
        let (m, next, e) = faulty();
        let data = PageBuf::copy_from(&[1; 4096]);
        m.program(e, 0, &data).unwrap();
        next.store(TAGS, Ordering::Relaxed);
        assert_eq!(m.read(m.geometry().ppa(e, 0).unwrap(), 4096).unwrap(), data);
        assert_eq!((m.take_weak(), m.read_retries()), (vec![e], 1));
    }

    #[test]
    fn a_bad_block_of_the_host_is_named_and_the_units_beside_it_are_read() {
        let (m, next, e) = faulty();
        let data = PageBuf::copy_from(&[1; 3 * 4096]);
        m.program(e, 0, &data).unwrap();
        next.store(READ, Ordering::Relaxed);
        let ppa = |unit: u32| m.geometry().ppa(e, unit * 4096).unwrap();
        match m.read(ppa(0), 3 * 4096) {
            Err(FlashError::ReadFailed { at }) => assert_eq!(at, ppa(1)),
            other => panic!("{other:?}"),
        }
        assert_eq!(m.probe(e, 1).unwrap(), WblockState::Damaged);
        assert_eq!(m.read(ppa(0), 4096).unwrap(), data.slice(..4096));
        next.store(0, Ordering::Relaxed);
        assert_eq!(m.read(ppa(0), 3 * 4096).unwrap(), data);
    }
}
