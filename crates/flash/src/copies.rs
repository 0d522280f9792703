//! The structures that an image holds twice, so that one damaged copy does no harm: the superblock, and the record of
//! each checkpoint slot.
//!
//! ```text
//!   copy 0 ─┬─► the whole one (of two records the newer one), and what the other place must hold to be whole again
//!   copy 1 ─┘
//! ```
//!
//! Both copies are written together and synced once, so a power cut may leave one of them, or neither. The checksum
//! of each copy includes its position.

use crate::backing::Backing;
use crate::layout::{CHECKPOINT_AT, DATA_AT, SUPERBLOCK_AT, SUPERBLOCK_BYTES};
use crate::record::{self, CHECKPOINT_MAGIC, RECORD_HEADER_BYTES, Record, Slot};
use crate::superblock::{BadSuperblock, MAJOR, Superblock};
use crate::{CHECKPOINT_RECORD_BYTES_MAX, FlashError};

/// A copy that must be written again.
pub(crate) struct Repair {
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    /// Whether it was damaged. Otherwise a power cut left it older than the other.
    pub(crate) was_damaged: bool,
}

/// The superblock. If both copies are whole but differ, that is an error, since it is unknown which one is right.
pub(crate) fn superblock(backing: &dyn Backing) -> Result<(Superblock, Option<Repair>), FlashError> {
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
    let repaired = |good: usize, s: Superblock| {
        let repair = Repair { at: SUPERBLOCK_AT[1 - good], bytes: copies[good].into(), was_damaged: true };
        Ok((s, Some(repair)))
    };
    match decoded {
        [Err(BadSuperblock::Foreign), Err(BadSuperblock::Foreign)] => {
            Err(FlashError::Foreign { path: path() })
        }
        // A short file that begins like an image is a truncated image.
        _ if got_bytes < DATA_AT => {
            Err(FlashError::Truncated { path: path(), got_bytes, needed_bytes: DATA_AT })
        }
        [Err(BadSuperblock::Newer(version)), _] | [_, Err(BadSuperblock::Newer(version))] => {
            Err(FlashError::NewerVersion { path: path(), version, known: MAJOR })
        }
        [Err(BadSuperblock::Older(version)), _] | [_, Err(BadSuperblock::Older(version))] => {
            Err(FlashError::OlderVersion { path: path(), version, known: MAJOR })
        }
        [Err(BadSuperblock::Unknown(bits)), _] | [_, Err(BadSuperblock::Unknown(bits))] => {
            Err(FlashError::UnknownFeatures { path: path(), bits })
        }
        [Ok(a), Ok(b)] if a == b => Ok((a, None)),
        [Ok(_), Ok(_)] => Err(corrupt(1, "it differs from the superblock")),
        [Ok(a), Err(_)] => repaired(0, a),
        [Err(_), Ok(b)] => repaired(1, b),
        [Err(BadSuperblock::Foreign), Err(_)] => {
            Err(corrupt(0, "the magic is wrong, and its copy is corrupt"))
        }
        [Err(BadSuperblock::Corrupt(what)), Err(_)] => {
            Err(corrupt(0, &format!("{what}, and its copy is corrupt")))
        }
    }
}

/// The newer whole record of the two slots.
pub(crate) fn newest(slots: &[Slot; 2]) -> Option<&Record> {
    slots.iter().filter_map(Slot::record).max_by_key(|r| r.sequence)
}

/// The sequence of the newest record, which the next one follows; `None` if none was ever written.
pub(crate) fn sequence(slots: &[Slot; 2]) -> Option<u64> {
    let written = slots.iter().any(|s| *s != Slot::Never);
    written.then(|| newest(slots).map_or(0, |r| r.sequence))
}

/// The contents of the two checkpoint slots.
pub(crate) fn checkpoints(backing: &dyn Backing) -> Result<([Slot; 2], Vec<Repair>), FlashError> {
    let mut slots = [Slot::Never, Slot::Never];
    let mut repairs = Vec::new();
    let mut b = vec![0; RECORD_HEADER_BYTES + CHECKPOINT_RECORD_BYTES_MAX];
    for (i, slot) in slots.iter_mut().enumerate() {
        let places = CHECKPOINT_AT.map(|copy| copy[i]);
        let mut found = [Slot::Never, Slot::Never];
        for (found, at) in found.iter_mut().zip(places) {
            backing.read(at, &mut b, "read a checkpoint record")?;
            *found = record::decode(CHECKPOINT_MAGIC, at, &b);
        }
        let newest = found.iter().filter_map(Slot::record).max_by_key(|r| r.sequence).cloned();
        if let Some(r) = newest {
            for (found, at) in found.iter().zip(places).filter(|(f, _)| f.record() != Some(&r)) {
                let bytes = record::encode(CHECKPOINT_MAGIC, at, &r);
                repairs.push(Repair { at, bytes, was_damaged: *found == Slot::Damaged });
            }
            *slot = Slot::Whole(r);
        } else if found.contains(&Slot::Damaged) {
            *slot = Slot::Damaged;
        }
    }
    Ok((slots, repairs))
}
