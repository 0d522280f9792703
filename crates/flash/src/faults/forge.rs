//! Forged images: bytes of a simulated medium are changed, and their checksums corrected.
//!
//! ```text
//!   image ─► copy ─► structures changed and sealed again ─► opened
//! ```
//!
//! No flipped bit and no power cut leaves such an image, but an attacker may supply one. Readers must return an error
//! or go on. They must not panic, or take unbounded memory or time.

use lode_base::{CELL_BYTES, Geometry, Ppa};

use crate::faults::{Disk, Faults};
use crate::layout::{
    CHECKPOINT_AT, EPOCH_AT, GROUP_DATA_BYTES, SUPERBLOCK_AT, SUPERBLOCK_BYTES, data_at, group_at, group_of,
};
use crate::record::{self, CHECKPOINT_MAGIC, EPOCH_MAGIC, RECORD_HEADER_BYTES, Record, Slot};
use crate::tag::{TAG_BYTES, Tag};
use crate::{CHECKPOINT_RECORD_BYTES_MAX, FlashError, Medium, superblock};

/// An image under change.
pub struct Image<'a> {
    disk: &'a Disk,
    geometry: Geometry,
}

impl std::fmt::Debug for Image<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({:?})", self.geometry)
    }
}

impl Faults {
    /// Changes a copy of the image, and opens it.
    ///
    /// # Errors
    /// Why the changed image is refused.
    pub fn forged(&self, change: impl FnOnce(&Image<'_>)) -> Result<(Medium, Self), FlashError> {
        let disk = self.disk.copy();
        change(&Image { disk: &disk, geometry: self.geometry });
        Self::medium(None, disk, self.aftermath())
    }
}

impl Image<'_> {
    /// Changes `len` bytes at `at`, within one group of the image, and corrects their tags.
    pub fn data(&self, at: Ppa, len: usize, change: impl FnOnce(&mut [u8])) {
        let unit_bytes = u64::from(self.geometry.rblock_bytes());
        let byte = at.cell() * CELL_BYTES as u64;
        let first = byte - byte % unit_bytes;
        let end = (byte + len as u64).next_multiple_of(unit_bytes);
        assert_eq!(group_of(first), group_of(end - 1), "bytes of one group");
        let mut units = vec![0; (end - first) as usize];
        self.disk.read(data_at(first), &mut units);
        let start = (byte - first) as usize;
        change(&mut units[start..start + len]);
        self.disk.write(data_at(first), &units);
        for (i, unit) in units.chunks_exact(unit_bytes as usize).enumerate() {
            let byte = first + i as u64 * unit_bytes;
            let index = byte % GROUP_DATA_BYTES / unit_bytes;
            let tag_at = group_at(group_of(byte)) + index * TAG_BYTES as u64;
            let mut b = [0; TAG_BYTES];
            self.disk.read(tag_at, &mut b);
            let mut tag = Tag::from_bytes(&b);
            if tag.generation != 0 {
                tag.crc = tag.expected_crc(byte / CELL_BYTES as u64, unit);
                self.disk.write(tag_at, &tag.to_bytes());
            }
        }
    }

    /// Changes the superblock, 4,096 bytes, in both copies. With `seal`, its checksum is corrected.
    pub fn superblock(&self, seal: bool, change: impl FnOnce(&mut [u8])) {
        let mut b = [0; SUPERBLOCK_BYTES];
        self.disk.read(SUPERBLOCK_AT[0], &mut b);
        change(&mut b);
        if seal {
            superblock::seal(&mut b);
        }
        SUPERBLOCK_AT.iter().for_each(|&at| self.disk.write(at, &b));
    }

    /// Changes the numbers of an epoch record: (sequence, bytes of the image). Makes a record if there is none.
    pub fn epoch(&self, slot: usize, change: impl FnOnce(&mut (u64, u64))) {
        let at = EPOCH_AT[slot];
        let mut b = [0; RECORD_HEADER_BYTES];
        self.disk.read(at, &mut b);
        let held = record::decode(EPOCH_MAGIC, at, &b);
        let mut numbers = held.record().map_or((0, 0), |r| (r.sequence, r.image_bytes));
        change(&mut numbers);
        let (sequence, image_bytes) = numbers;
        let r = Record { sequence, image_bytes, payload: Vec::new() };
        self.disk.write(at, &record::encode(EPOCH_MAGIC, at, &r));
    }

    /// Changes the record of a checkpoint slot, in both copies: its numbers (sequence, bytes of the image) and payload.
    pub fn checkpoint(&self, slot: usize, change: impl FnOnce(&mut (u64, u64), &mut Vec<u8>)) {
        let at = CHECKPOINT_AT[0][slot];
        let mut b = vec![0; RECORD_HEADER_BYTES + CHECKPOINT_RECORD_BYTES_MAX];
        self.disk.read(at, &mut b);
        let mut r = match record::decode(CHECKPOINT_MAGIC, at, &b) {
            Slot::Whole(r) => r,
            Slot::Never | Slot::Damaged => Record { sequence: 0, image_bytes: 0, payload: Vec::new() },
        };
        let mut numbers = (r.sequence, r.image_bytes);
        change(&mut numbers, &mut r.payload);
        (r.sequence, r.image_bytes) = numbers;
        r.payload.truncate(CHECKPOINT_RECORD_BYTES_MAX);
        for copy in CHECKPOINT_AT {
            self.disk.write(copy[slot], &record::encode(CHECKPOINT_MAGIC, copy[slot], &r));
        }
    }

    /// Overwrites bytes of the file.
    pub fn raw(&self, at: u64, change: &[u8]) {
        self.disk.write(at, change);
    }
}
