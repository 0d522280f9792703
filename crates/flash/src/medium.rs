//! The medium, as the firmware holds it.
//!
//! ```text
//!   program: claim WBLOCKs in order ─► write tags, data                 read: data ─► each RBLOCK against its tag
//!   erase:   next generation, nothing written: what carries another generation is empty
//! ```
//!
//! Reads and programs may run on any number of threads; no read takes a lock over I/O. The firmware sees to it that
//! no EBLOCK is erased while a read of it is under way.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use lode_base::{EblockId, Geometry, PageBuf, PageBufMut, Ppa};

use crate::backing::{Backing, FadingBacking, MemoryBacking, Switch};
use crate::die::DieState;
use crate::layout::{
    CHECKPOINT_AT, GROUP_DATA_BYTES, GROUP_TAG_BYTES, by_group, data_at, group_at, group_of,
};
use crate::record::{self, CHECKPOINT_MAGIC, Record};
use crate::tag::{TAG_BYTES, Tag};
use crate::tag_cache::{GROUP_TAGS, TagCache};
use crate::{CHECKPOINT_RECORD_BYTES_MAX, FlashError, Generation, image};

/// Programs of less than this are written to blocks that are there already, so that syncing them is cheap.
const AHEAD_BYTES: usize = 128 << 10;

/// A medium: EBLOCKs of WBLOCKs of RBLOCKs, and their tags.
pub struct Medium {
    backing: Box<dyn Backing>,
    geometry: Geometry,
    uuid: [u8; 16],
    epoch: u32,
    erasures: AtomicU32,
    die: DieState,
    tags: TagCache,
    fresh: AtomicBool,
    checkpoint_sequence: AtomicU64,
    /// Length of the image when it was last synced.
    synced_image_bytes: AtomicU64,
    poison: OnceLock<String>,
    media_bytes_read: AtomicU64,
    media_bytes_written: AtomicU64,
}

/// What the tags of a WBLOCK, and its data, say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WblockState {
    /// Not programmed in this generation.
    Empty,
    /// Programmed, and all of it as it was written.
    Programmed,
    /// Programmed in part, or changed since.
    Damaged,
}

impl Medium {
    /// A volatile medium in memory, fresh.
    pub fn memory(geometry: Geometry) -> Self {
        Self::new(Box::new(MemoryBacking::new()), geometry, [0; 16], 1, None)
    }

    /// A new image file, locked. `seed` is where its uuid comes from.
    ///
    /// # Errors
    /// When there is a file already, or it can not be written; then nothing is left behind.
    pub fn create_file(path: &Path, geometry: Geometry, seed: u64) -> Result<Self, FlashError> {
        Ok(Self::opened(image::create(path, geometry, seed)?))
    }

    /// An existing image file, locked, in a new open epoch. Nothing is known of its EBLOCKs until recovery tells:
    /// [`Medium::set_generation`], [`Medium::set_next_wblock`].
    ///
    /// # Errors
    /// What is wrong with the file, in one line each: see [`FlashError`].
    pub fn open_file(path: &Path) -> Result<Self, FlashError> {
        Ok(Self::opened(image::open(path)?))
    }

    /// A memory medium as it would be found after a power cut at this moment, in the next open epoch; `None` for a
    /// file. Nothing is known of its EBLOCKs, as in [`Medium::open_file`].
    pub fn after_power_cut(&self) -> Option<Self> {
        let backing = self.backing.copy()?;
        let sequence = (!self.is_fresh()).then(|| self.checkpoint_sequence.load(Ordering::Acquire));
        Some(Self::new(backing, self.geometry, self.uuid, self.epoch + 1, sequence))
    }

    /// A volatile medium in memory, fresh, and the switch of its power.
    pub fn with_power(geometry: Geometry) -> (Self, Power) {
        Self::powered(MemoryBacking::new(), geometry, 1, None)
    }

    fn powered(bytes: MemoryBacking, geometry: Geometry, epoch: u32, sequence: Option<u64>) -> (Self, Power) {
        let backing = FadingBacking::new(bytes);
        let power = Power { switch: backing.switch(), geometry, epoch };
        (Self::new(Box::new(backing), geometry, [0; 16], epoch, sequence), power)
    }

    fn opened(o: image::Opened) -> Self {
        let image::Opened { backing, superblock, epoch, checkpoint_sequence } = o;
        Self::new(Box::new(backing), superblock.geometry, superblock.uuid, epoch, checkpoint_sequence)
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
            geometry,
            uuid,
            epoch,
            erasures: AtomicU32::new(0),
            die: DieState::new(&geometry),
            tags: TagCache::new(image::groups(&geometry)),
            fresh: AtomicBool::new(checkpoint_sequence.is_none()),
            checkpoint_sequence: AtomicU64::new(checkpoint_sequence.unwrap_or(0)),
            poison: OnceLock::new(),
            media_bytes_read: AtomicU64::new(0),
            media_bytes_written: AtomicU64::new(0),
        }
    }

    /// Units and capacity.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The image file, or a name that says that there is none.
    pub fn path(&self) -> &Path {
        self.backing.path()
    }

    /// The image's identity; zeroes in memory.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The number of this opening: durable, and never used before.
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
        self.media_bytes_read.load(Ordering::Relaxed)
    }

    /// Bytes programmed since it was opened.
    pub fn media_bytes_written(&self) -> u64 {
        self.media_bytes_written.load(Ordering::Relaxed)
    }

    /// The generation of an EBLOCK, as far as known.
    pub fn generation(&self, e: EblockId) -> Generation {
        self.die.generation(e)
    }

    /// Tells what recovery found out about an EBLOCK.
    pub fn set_generation(&self, e: EblockId, g: Generation) {
        self.die.set_generation(e, g);
    }

    /// The WBLOCK of an EBLOCK that is programmed next; the number of WBLOCKs when it is full, ended or unknown.
    pub fn next_wblock(&self, e: EblockId) -> u32 {
        self.die.next_wblock(e)
    }

    /// Tells up to where recovery found an EBLOCK programmed.
    ///
    /// # Panics
    /// When `wblock` is more than an EBLOCK has.
    pub fn set_next_wblock(&self, e: EblockId, wblock: u32) {
        self.die.set_next_wblock(e, wblock);
    }

    /// Begins a new generation of an EBLOCK: all its WBLOCKs are empty. Writes nothing. Whoever erases must log the
    /// generation, since only tags keep it.
    ///
    /// # Errors
    /// When an earlier sync failed.
    pub fn erase(&self, e: EblockId) -> Result<Generation, FlashError> {
        self.check_poison()?;
        let before = self.erasures.fetch_add(1, Ordering::Relaxed);
        let counter = before.checked_add(1).expect("fewer than 2^32 erasures while open");
        let g = Generation::new(self.epoch, counter);
        self.die.erase(e, g);
        Ok(g)
    }

    /// Programs whole WBLOCKs from `wblock` on, and their tags. Durable after [`Medium::sync`].
    ///
    /// # Errors
    /// When the backing can not be written: the EBLOCK is then ended, and takes nothing more until it is erased. When
    /// the image could not grow, nothing was programmed, and the EBLOCK is as before (see [`Medium::next_wblock`]).
    ///
    /// # Panics
    /// When `data` is not whole WBLOCKs, the EBLOCK is not erased, or `wblock` is not the next.
    pub fn program(&self, e: EblockId, wblock: u32, data: &PageBuf) -> Result<(), FlashError> {
        self.program_with(e, wblock, data, true)
    }

    /// As [`Medium::program`], but without tags, in one write: for log pages, whose tag lies inside. Only
    /// [`Medium::read_unverified`] reads them back.
    ///
    /// # Errors
    /// As [`Medium::program`].
    ///
    /// # Panics
    /// As [`Medium::program`].
    pub fn program_tagged_inside(&self, e: EblockId, wblock: u32, data: &PageBuf) -> Result<(), FlashError> {
        self.program_with(e, wblock, data, false)
    }

    fn program_with(&self, e: EblockId, wblock: u32, data: &PageBuf, tagged: bool) -> Result<(), FlashError> {
        self.check_poison()?;
        let wblock_bytes = self.geometry.wblock_bytes() as usize;
        let whole = !data.is_empty() && data.len().is_multiple_of(wblock_bytes);
        assert!(whole, "{} bytes are programmed, which are no whole WBLOCKs", data.len());
        let byte = self.wblock_byte(e, wblock);
        // A full file system is met here first, before anything is programmed.
        for (at, _) in by_group(byte, data.len() as u64) {
            self.backing.prepare_group(group_of(at), data.len() < AHEAD_BYTES)?;
        }
        let generation = self.die.claim(e, wblock, (data.len() / wblock_bytes) as u32);
        self.write_groups(byte, data, generation, tagged).inspect_err(|_| self.die.end(e))?;
        self.media_bytes_written.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn write_groups(&self, byte: u64, data: &[u8], g: Generation, tagged: bool) -> Result<(), FlashError> {
        let rblock_bytes = self.geometry.rblock_bytes() as usize;
        for (at, len) in by_group(byte, data.len() as u64) {
            let part = &data[(at - byte) as usize..][..len as usize];
            let group = group_of(at);
            if tagged {
                let mut tags = Vec::with_capacity(part.len() / rblock_bytes * TAG_BYTES);
                for (i, rblock) in part.chunks_exact(rblock_bytes).enumerate() {
                    let cell = self.cell(at + (i * rblock_bytes) as u64);
                    tags.extend_from_slice(&Tag::of(cell, g, rblock).to_bytes());
                }
                let first = self.tag_index(at);
                self.backing.write(group_at(group) + (first * TAG_BYTES) as u64, &tags, "write tags")?;
                self.tags.written(group, first, &tags);
            }
            self.backing.write(data_at(at), part, "write data")?;
        }
        Ok(())
    }

    /// Reads `len` bytes from `at` on: whole read units, each verified against its tag, of which the wanted bytes
    /// are a slice.
    ///
    /// # Errors
    /// When a read unit is not what was programmed there in this generation, or the backing can not be read.
    pub fn read(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
        let (start, byte, data) = self.read_units(at, len)?;
        self.verify(byte, &data)?;
        Ok(data.slice(start..start + len as usize))
    }

    /// As [`Medium::read`], but believes nothing: for log pages, whose tag lies inside.
    ///
    /// # Errors
    /// When the backing can not be read.
    pub fn read_unverified(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
        let (start, _, data) = self.read_units(at, len)?;
        Ok(data.slice(start..start + len as usize))
    }

    /// Bytes of the read units that `len` bytes from `at` on lie in: what reading them takes from the medium.
    pub fn read_units_bytes(&self, at: Ppa, len: u32) -> u64 {
        let rblock = u64::from(self.geometry.rblock_bytes());
        let first = at.cell() * lode_base::CELL_BYTES as u64;
        (first + u64::from(len)).next_multiple_of(rblock) - first / rblock * rblock
    }

    /// The read units that `len` bytes at `at` lie in: where the bytes start in them, their place, and themselves.
    fn read_units(&self, at: Ppa, len: u32) -> Result<(usize, u64, PageBuf), FlashError> {
        let (e, offset) = self.geometry.locate(at);
        let eblock_bytes = self.geometry.eblock_bytes();
        if e.raw() >= self.geometry.eblock_count() || len > eblock_bytes - offset {
            return Err(FlashError::BadAddress { at, len_bytes: len });
        }
        let rblock = self.geometry.rblock_bytes();
        let start = offset % rblock;
        let byte = u64::from(e.raw()) * u64::from(eblock_bytes) + u64::from(offset - start);
        let mut data = PageBufMut::zeroed((start + len).next_multiple_of(rblock) as usize);
        for (at, part) in by_group(byte, data.len() as u64) {
            let out = &mut data[(at - byte) as usize..][..part as usize];
            self.backing.read(data_at(at), out, "read data")?;
        }
        self.media_bytes_read.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok((start as usize, byte, data.freeze()))
    }

    /// Holds whole read units of one EBLOCK against their tags.
    fn verify(&self, byte: u64, data: &[u8]) -> Result<(), FlashError> {
        let rblock_bytes = self.geometry.rblock_bytes() as usize;
        let expected = self.die.generation(self.eblock_of(byte));
        let mut tags = [Tag::default(); GROUP_TAGS];
        for (at, part) in by_group(byte, data.len() as u64) {
            let rblocks = data[(at - byte) as usize..][..part as usize].chunks_exact(rblock_bytes);
            let tags = &mut tags[..rblocks.len()];
            self.load_tags(at, tags)?;
            for (i, (rblock, tag)) in rblocks.zip(tags).enumerate() {
                let cell = self.cell(at + (i * rblock_bytes) as u64);
                let ppa = || self.geometry.ppa_from_cell(cell).expect("a read unit lies on the medium");
                if tag.generation != expected.raw() || expected == Generation::UNKNOWN {
                    let got = Generation::from_raw(tag.generation);
                    return Err(FlashError::WrongGeneration { at: ppa(), got, expected });
                }
                let got = tag.expected_crc(cell, rblock);
                if got != tag.crc {
                    return Err(FlashError::ChecksumMismatch { at: ppa(), got, expected: tag.crc });
                }
            }
        }
        Ok(())
    }

    fn load_tags(&self, byte: u64, tags: &mut [Tag]) -> Result<(), FlashError> {
        let group = group_of(byte);
        self.tags
            .get(group, self.tag_index(byte), tags, |b| self.backing.read(group_at(group), b, "read tags"))
    }

    /// What a WBLOCK holds in its EBLOCK's generation, by its tags and its data. Of no use for log pages.
    ///
    /// # Errors
    /// When the backing can not be read.
    pub fn probe(&self, e: EblockId, wblock: u32) -> Result<WblockState, FlashError> {
        let generation = self.die.generation(e);
        let rblock_bytes = self.geometry.rblock_bytes();
        let byte = self.wblock_byte(e, wblock);
        let mut empty = true;
        let mut whole = true;
        for i in 0..self.geometry.wblock_bytes() / rblock_bytes {
            let byte = byte + u64::from(i * rblock_bytes);
            let cell = self.cell(byte);
            let at = self.geometry.ppa_from_cell(cell).expect("a WBLOCK lies on the medium");
            let (_, _, data) = self.read_units(at, rblock_bytes)?;
            let mut tag = [Tag::default()];
            self.load_tags(byte, &mut tag)?;
            let [tag] = tag;
            // A tag that only lacks the right generation was damaged: no other write makes such a checksum.
            let was = Tag { generation: generation.raw(), ..tag };
            let sound = tag.crc == was.expected_crc(cell, &data);
            let current = tag.generation == generation.raw();
            empty &= !current && !sound;
            whole &= current && sound;
        }
        Ok(match (empty, whole) {
            (true, _) => WblockState::Empty,
            (_, true) => WblockState::Programmed,
            _ => WblockState::Damaged,
        })
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// When the backing can not be synced. Nobody then knows what is durable, so a failed sync is never retried: every
    /// later write and sync fails with [`FlashError::Poisoned`].
    pub fn sync(&self) -> Result<(), FlashError> {
        self.check_poison()?;
        let len = self.backing.len();
        self.backing.sync().inspect_err(|e| {
            // The first failure is the cause; a later one says nothing new.
            let _ = self.poison.set(format!("an earlier sync failed ({e})"));
        })?;
        self.synced_image_bytes.fetch_max(len, Ordering::Relaxed);
        // A sync that began before another one failed says nothing about what came before it.
        self.check_poison()
    }

    fn check_poison(&self) -> Result<(), FlashError> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(FlashError::Poisoned { path: self.path().into(), cause: cause.clone() }),
        }
    }

    /// Writes a checkpoint record to slot 0 or 1. Durable after [`Medium::sync`]; a record that a power cut tears is
    /// found not to be one, and the other slot's stands.
    ///
    /// # Errors
    /// When the backing can not be written.
    ///
    /// # Panics
    /// When `bytes` is longer than [`CHECKPOINT_RECORD_BYTES_MAX`], or `slot` neither 0 nor 1.
    pub fn write_checkpoint_record(&self, slot: usize, bytes: &[u8]) -> Result<(), FlashError> {
        self.check_poison()?;
        assert!(bytes.len() <= CHECKPOINT_RECORD_BYTES_MAX, "a checkpoint record of {} bytes", bytes.len());
        let sequence = self.checkpoint_sequence.fetch_add(1, Ordering::AcqRel) + 1;
        let image_bytes = self.synced_image_bytes.load(Ordering::Relaxed);
        let r = Record { sequence, image_bytes, payload: bytes.into() };
        self.fresh.store(false, Ordering::Release);
        let at = CHECKPOINT_AT[slot];
        self.backing.write(at, &record::encode(CHECKPOINT_MAGIC, at, &r), "write a checkpoint record")
    }

    /// The whole records of both slots.
    ///
    /// # Errors
    /// When the backing can not be read.
    pub fn read_checkpoint_records(&self) -> Result<[Option<Vec<u8>>; 2], FlashError> {
        let slots = image::read_checkpoints(&*self.backing)?;
        Ok(slots.map(|s| s.record().map(|r| r.payload.clone())))
    }

    /// The newest whole checkpoint record, and the slot that it lies in.
    ///
    /// # Errors
    /// When the backing can not be read.
    pub fn newest_checkpoint_record(&self) -> Result<Option<(usize, Vec<u8>)>, FlashError> {
        let slots = image::read_checkpoints(&*self.backing)?;
        let whole = slots.iter().enumerate().filter_map(|(i, s)| Some((i, s.record()?)));
        Ok(whole.max_by_key(|(_, r)| r.sequence).map(|(i, r)| (i, r.payload.clone())))
    }

    /// Gives the space of an EBLOCK back to the file system, where it can: for EBLOCKs that are not needed soon. The
    /// EBLOCK must be erased before it is programmed again.
    ///
    /// # Errors
    /// When the file system refuses, other than for not knowing how.
    pub fn discard(&self, e: EblockId) -> Result<(), FlashError> {
        self.check_poison()?;
        self.die.set_generation(e, Generation::UNKNOWN);
        self.die.end(e);
        let byte = self.wblock_byte(e, 0);
        for (at, len) in by_group(byte, self.geometry.eblock_bytes().into()) {
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

    /// The cell that a byte lies in.
    fn cell(&self, byte: u64) -> u64 {
        byte / lode_base::CELL_BYTES as u64
    }

    /// Which tag of its group is that of the read unit at `byte`.
    fn tag_index(&self, byte: u64) -> usize {
        (byte % GROUP_DATA_BYTES / u64::from(self.geometry.rblock_bytes())) as usize
    }
}

/// The switch of a medium's power, to try what is found after a cut. The medium that lost its power goes on, and does
/// not know: nothing that it then does is found.
#[derive(Clone)]
pub struct Power {
    switch: Switch,
    geometry: Geometry,
    epoch: u32,
}

impl Power {
    /// Cuts the power at the write or sync that comes after so many others.
    pub fn cut_after(&self, operations: u64) {
        self.switch.cut_after(operations);
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.switch.cut();
    }

    /// After so many further programs, one finds the file system full.
    pub fn full_after(&self, programs: u64) {
        self.switch.full_after(programs);
    }

    /// Whether it was cut.
    pub fn is_cut(&self) -> bool {
        self.switch.is_cut()
    }

    /// The medium as found after the cut, in the next open epoch: what was synced, and of the rest what `seed` picks,
    /// sector by sector. Nothing is known of its EBLOCKs, as in [`Medium::open_file`].
    ///
    /// # Errors
    /// None that memory has.
    pub fn restored(&self, seed: u64) -> Result<(Medium, Self), FlashError> {
        let found = self.switch.found(seed);
        let slots = image::read_checkpoints(&found)?;
        let sequence = slots.iter().filter_map(|s| Some(s.record()?.sequence)).max();
        Ok(Medium::powered(found, self.geometry, self.epoch + 1, sequence))
    }
}

impl fmt::Debug for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Power(of epoch {}, {})", self.epoch, if self.is_cut() { "cut" } else { "on" })
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
    use std::sync::Arc;

    use super::*;
    use crate::backing::Backing;

    /// A memory image whose next operation of one kind fails.
    struct Faulty(MemoryBacking, Arc<AtomicU32>);

    const SYNC: u32 = 1;
    const WRITE: u32 = 2;
    const GROW: u32 = 3;

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
        fn read(&self, at: u64, out: &mut [u8], operation: &'static str) -> Result<(), FlashError> {
            self.0.read(at, out, operation)
        }
        fn write(&self, at: u64, data: &[u8], operation: &'static str) -> Result<(), FlashError> {
            self.fail(WRITE, operation, ErrorKind::StorageFull)?;
            self.0.write(at, data, operation)
        }
        fn prepare_group(&self, group: u64, ahead: bool) -> Result<(), FlashError> {
            self.fail(GROW, "grow the image", ErrorKind::StorageFull)?;
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
            "a.lode: cannot write tags: no storage space"
        );
        assert_eq!(m.next_wblock(e), m.geometry().wblocks_per_eblock());
        m.erase(e).unwrap();
        m.program(e, 0, &data).unwrap();
    }
}
