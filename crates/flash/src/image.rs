//! Making and opening an image.
//!
//! ```text
//!   create: new file ─► lock ─► superblock twice, epoch 1 ─► sync file and folder        (or the file is removed)
//!   open:   lock ─► length ─► superblock and copy ─► length ─► next epoch ─► sync
//! ```
//!
//! Invariants: opening writes nothing but the next epoch, and that only once the image is known to be whole; an epoch
//! is durable before it is used. A torn epoch record may have been the newest, so its epoch is passed over.

use std::fs::{self, File};
use std::path::Path;

use lode_base::Geometry;

use crate::backing::{Backing, FileBacking};
use crate::layout::{CHECKPOINT_AT, DATA_AT, EPOCH_AT, GROUP_DATA_BYTES, SUPERBLOCK_AT, SUPERBLOCK_BYTES};
use crate::record::{self, CHECKPOINT_MAGIC, EPOCH_MAGIC, RECORD_HEADER_BYTES, Record, Slot};
use crate::superblock::{BadSuperblock, MAJOR, Superblock};
use crate::{CHECKPOINT_RECORD_BYTES_MAX, FlashError};

/// An image that is ready for use.
pub(crate) struct Opened {
    pub(crate) backing: FileBacking,
    pub(crate) superblock: Superblock,
    pub(crate) epoch: u32,
    /// The sequence of the newest checkpoint record; `None` when none was ever written.
    pub(crate) checkpoint_sequence: Option<u64>,
}

/// Groups that a medium of this geometry has.
pub(crate) fn groups(geometry: &Geometry) -> u64 {
    geometry.capacity_bytes().div_ceil(GROUP_DATA_BYTES)
}

/// Makes an image where no file is; leaves nothing behind when it fails.
pub(crate) fn create(path: &Path, geometry: Geometry, seed: u64) -> Result<Opened, FlashError> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| FlashError::io(path, "create the image", e))?;
    write_new(file, path, geometry, seed).inspect_err(|_| {
        // The first error is the one to tell.
        let _ = fs::remove_file(path);
    })
}

fn write_new(file: File, path: &Path, geometry: Geometry, seed: u64) -> Result<Opened, FlashError> {
    let backing = FileBacking::new(file, path)?.with_groups(groups(&geometry));
    let superblock = Superblock { uuid: uuid(seed), geometry };
    let bytes = superblock.encode();
    for at in SUPERBLOCK_AT {
        backing.write(at, &bytes, "write the superblock")?;
    }
    // All up to the data, so that opening and checkpoints need no space when the file system is full.
    backing.write(EPOCH_AT[0], &vec![0; (DATA_AT - EPOCH_AT[0]) as usize], "grow the image")?;
    let epoch = 1;
    write_epoch(&backing, EPOCH_AT[0], epoch)?;
    backing.sync()?;
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let synced = File::open(folder).and_then(|f| f.sync_all());
    synced.map_err(|e| FlashError::io(folder, "sync the folder", e))?;
    Ok(Opened { backing, superblock, epoch, checkpoint_sequence: None })
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
    let backing = FileBacking::new(file.map_err(|e| FlashError::io(path, "open the image", e))?, path)?;
    let superblock = read_superblock(&backing)?;
    let backing = backing.with_groups(groups(&superblock.geometry));
    let checkpoints = read_checkpoints(&backing)?;
    let written = checkpoints.iter().any(|s| *s != Slot::Never);
    let newest = || checkpoints.iter().filter_map(Slot::record).max_by_key(|r| r.sequence);
    let checkpoint_sequence = written.then(|| newest().map_or(0, |r| r.sequence));
    let epoch = take_epoch(&backing, newest().map_or(0, |r| r.image_bytes))?;
    Ok(Opened { backing, superblock, epoch, checkpoint_sequence })
}

fn read_superblock(backing: &FileBacking) -> Result<Superblock, FlashError> {
    let path = || backing.path().to_owned();
    let mut copies = [[0; SUPERBLOCK_BYTES]; 2];
    for (b, at) in copies.iter_mut().zip(SUPERBLOCK_AT) {
        backing.read(at, b, "read the superblock")?;
    }
    let decoded = copies.each_ref().map(Superblock::decode);
    let got_bytes = backing.len();
    if got_bytes == 0 {
        return Err(FlashError::Empty { path: path() });
    }
    let corrupt = |i: usize, what: &str| FlashError::CorruptSuperblock {
        path: path(),
        what: format!("{}at byte {}: {what}", ["", "the copy "][i], SUPERBLOCK_AT[i]),
    };
    match decoded {
        [Err(BadSuperblock::Foreign), Err(BadSuperblock::Foreign)] => {
            Err(FlashError::Foreign { path: path() })
        }
        // A short file that begins as an image does was one, whatever else its superblock says.
        _ if got_bytes < DATA_AT => {
            Err(FlashError::Truncated { path: path(), got_bytes, needed_bytes: DATA_AT })
        }
        [Err(BadSuperblock::Newer(version)), _] => {
            Err(FlashError::NewerVersion { path: path(), version, known: MAJOR })
        }
        [Err(BadSuperblock::Unknown(bits)), _] => Err(FlashError::UnknownFeatures { path: path(), bits }),
        [Err(BadSuperblock::Foreign), _] => Err(corrupt(0, "the magic is wrong")),
        [Err(BadSuperblock::Corrupt(what)), _] => Err(corrupt(0, &what)),
        [Ok(_), Err(BadSuperblock::Foreign)] => Err(corrupt(1, "the magic is wrong")),
        [Ok(_), Err(BadSuperblock::Corrupt(what))] => Err(corrupt(1, &what)),
        [Ok(a), Ok(b)] if a == b => Ok(a),
        [Ok(_), _] => Err(corrupt(1, "it differs from the superblock")),
    }
}

/// What the two checkpoint slots hold.
pub(crate) fn read_checkpoints(backing: &dyn Backing) -> Result<[Slot; 2], FlashError> {
    let mut slots = [Slot::Never, Slot::Never];
    let mut b = vec![0; RECORD_HEADER_BYTES + CHECKPOINT_RECORD_BYTES_MAX];
    for (slot, at) in slots.iter_mut().zip(CHECKPOINT_AT) {
        backing.read(at, &mut b, "read a checkpoint record")?;
        *slot = record::decode(CHECKPOINT_MAGIC, at, &b);
    }
    Ok(slots)
}

fn take_epoch(backing: &FileBacking, checkpointed_bytes: u64) -> Result<u32, FlashError> {
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
    write_epoch(backing, EPOCH_AT[1 - newest], epoch)?;
    backing.sync()?;
    Ok(epoch)
}

fn write_epoch(backing: &FileBacking, at: u64, epoch: u32) -> Result<(), FlashError> {
    let r = Record { sequence: epoch.into(), image_bytes: backing.len(), payload: Vec::new() };
    backing.write(at, &record::encode(EPOCH_MAGIC, at, &r), "write the epoch record")
}
