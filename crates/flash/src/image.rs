//! Creates and opens images.
//!
//! ```text
//!   create: new file ─► lock ─► superblock twice, epoch 1 ─► sync file and folder        (or the file is removed)
//!   open:   lock ─► superblock, checkpoint records, and their copies ─► length ─► repairs, next epoch ─► sync
//! ```
//!
//! Invariants: opening writes nothing but repairs and the next epoch, and only after the image was checked; an epoch
//! is durable before it is used. A torn epoch record may have been the newest, so its epoch is skipped.

use std::fs::{self, File};
use std::path::Path;

use lode_base::Geometry;

use crate::backing::{Backing, FileBacking};
use crate::layout::{DATA_AT, EPOCH_AT, GROUP_DATA_BYTES, SUPERBLOCK_AT};
use crate::record::{self, EPOCH_MAGIC, RECORD_HEADER_BYTES, Record, Slot};
use crate::superblock::Superblock;
use crate::{FlashError, copies};

static ZEROES: [u8; 128 << 10] = [0; 128 << 10];

/// An image that is ready for use.
pub(crate) struct Opened {
    pub(crate) backing: FileBacking,
    pub(crate) superblock: Superblock,
    pub(crate) epoch: u32,
    /// The sequence of the newest checkpoint record; `None` if none was ever written.
    pub(crate) checkpoint_sequence: Option<u64>,
    /// Copies of superblock and checkpoint records that were damaged, and written again from the other copy.
    pub(crate) repairs: u64,
}

/// Groups that a medium of this geometry has.
pub(crate) fn groups(geometry: &Geometry) -> u64 {
    geometry.capacity_bytes().div_ceil(GROUP_DATA_BYTES)
}

/// Creates an image at a path without a file. Leaves nothing behind if it fails.
pub(crate) fn create(path: &Path, geometry: Geometry, seed: u64) -> Result<Opened, FlashError> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| FlashError::io(path, "create the image", e))?;
    let made = FileBacking::new(Box::new(file), path).and_then(|b| write_new(b, geometry, seed));
    let made = made.and_then(|opened| sync_folder(path).map(|()| opened));
    made.inspect_err(|_| {
        // The first error is reported, not one of the clean-up.
        let _ = fs::remove_file(path);
    })
}

fn sync_folder(path: &Path) -> Result<(), FlashError> {
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let synced = File::open(folder).and_then(|f| f.sync_all());
    synced.map_err(|e| FlashError::io(folder, "sync the folder", e))
}

/// Makes an image in an empty file.
pub(crate) fn write_new(backing: FileBacking, geometry: Geometry, seed: u64) -> Result<Opened, FlashError> {
    let backing = backing.with_groups(groups(&geometry));
    let superblock = Superblock { uuid: uuid(seed), geometry };
    let bytes = superblock.encode();
    for at in SUPERBLOCK_AT {
        backing.write(at, &bytes, "write the superblock")?;
    }
    // Everything before the data is allocated now, so that opening and checkpoints need no space when the file system
    // is full.
    for at in (EPOCH_AT[0]..DATA_AT).step_by(ZEROES.len()) {
        let part = (DATA_AT - at).min(ZEROES.len() as u64) as usize;
        backing.write(at, &ZEROES[..part], "grow the image")?;
    }
    let epoch = 1;
    write_epoch(&backing, EPOCH_AT[0], epoch)?;
    backing.sync()?;
    Ok(Opened { backing, superblock, epoch, checkpoint_sequence: None, repairs: 0 })
}

/// Two numbers spread from one seed (SplitMix64), marked as a version 4 UUID.
fn uuid(seed: u64) -> [u8; 16] {
    let mix = |n: u64| {
        let mut z = seed.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let mut b = [0; 16];
    b[..8].copy_from_slice(&mix(1).to_le_bytes());
    b[8..].copy_from_slice(&mix(2).to_le_bytes());
    b[6] = b[6] & 0x0f | 0x40;
    b[8] = b[8] & 0x3f | 0x80;
    b
}

/// Opens an image and takes the next epoch.
pub(crate) fn open(path: &Path) -> Result<Opened, FlashError> {
    let metadata = fs::metadata(path).map_err(|e| FlashError::io(path, "open the image", e))?;
    if !metadata.is_file() {
        return Err(FlashError::NotAFile { path: path.into() });
    }
    let file = File::options().read(true).write(true).open(path);
    let file = Box::new(file.map_err(|e| FlashError::io(path, "open the image", e))?);
    open_backing(FileBacking::new(file, path)?)
}

/// Opens the image that lies in a file.
pub(crate) fn open_backing(backing: FileBacking) -> Result<Opened, FlashError> {
    let (superblock, repair) = copies::superblock(&backing)?;
    let backing = backing.with_groups(groups(&superblock.geometry));
    let (checkpoints, mut repairs) = copies::checkpoints(&backing)?;
    repairs.extend(repair);
    let checkpoint_sequence = copies::sequence(&checkpoints);
    let newest = copies::newest(&checkpoints);
    let (at, epoch) = next_epoch(&backing, newest.map_or(0, |r| r.image_bytes))?;
    for r in &repairs {
        backing.write(r.at, &r.bytes, "repair the image")?;
    }
    write_epoch(&backing, at, epoch)?;
    backing.sync()?;
    let repairs = repairs.iter().filter(|r| r.was_damaged).count() as u64;
    Ok(Opened { backing, superblock, epoch, checkpoint_sequence, repairs })
}

/// The next epoch, and the place of its record.
fn next_epoch(backing: &FileBacking, checkpointed_bytes: u64) -> Result<(u64, u32), FlashError> {
    let corrupt =
        |what: &str| FlashError::CorruptSuperblock { path: backing.path().to_owned(), what: what.into() };
    let mut slots = [Slot::Never, Slot::Never];
    for (slot, at) in slots.iter_mut().zip(EPOCH_AT) {
        let mut b = [0; RECORD_HEADER_BYTES];
        backing.read(at, &mut b, "read the epoch record")?;
        *slot = record::decode(EPOCH_MAGIC, at, &b);
    }
    let newest = slots.iter().enumerate().filter_map(|(i, s)| Some((s.record()?, i)));
    let Some((r, newest)) = newest.max_by_key(|(r, _)| r.sequence) else {
        return Err(corrupt(&format!(
            "neither epoch record (at bytes {} and {}) is whole",
            EPOCH_AT[0], EPOCH_AT[1]
        )));
    };
    let (got_bytes, needed_bytes) = (backing.len(), r.image_bytes.max(checkpointed_bytes));
    if got_bytes < needed_bytes {
        return Err(FlashError::Truncated { path: backing.path().to_owned(), got_bytes, needed_bytes });
    }
    let passed_over = u64::from(slots[1 - newest] == Slot::Damaged);
    let epoch = u32::try_from(r.sequence + 1 + passed_over).map_err(|_| corrupt("the epochs are used up"))?;
    Ok((EPOCH_AT[1 - newest], epoch))
}

fn write_epoch(backing: &FileBacking, at: u64, epoch: u32) -> Result<(), FlashError> {
    let r = Record { sequence: epoch.into(), image_bytes: backing.len(), payload: Vec::new() };
    backing.write(at, &record::encode(EPOCH_MAGIC, at, &r), "write the epoch record")
}
