//! Checkpoint records: two slots, written alternately, each record in two copies.

use std::sync::atomic::Ordering;

use lode_base::EblockId;

use crate::layout::CHECKPOINT_AT;
use crate::record::{self, CHECKPOINT_MAGIC, Record};
use crate::{CHECKPOINT_RECORD_BYTES_MAX, FlashError, Medium, copies};

impl Medium {
    /// Writes a checkpoint record to slot 0 or 1. It is durable after [`Medium::sync`]. If a power cut tears it, that
    /// is detected, and the other slot's record is used.
    ///
    /// # Errors
    /// When the backing cannot be written.
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
        let write = |at| {
            self.backing.write(at, &record::encode(CHECKPOINT_MAGIC, at, &r), "write a checkpoint record")
        };
        if let Some(m) = self.model() {
            m.program(EblockId::new(0), slot as u32, 1);
        }
        if let Some(f) = &self.faults {
            f.record();
        }
        let written = CHECKPOINT_AT.iter().try_for_each(|copy| write(copy[slot]));
        if let Some(f) = &self.faults {
            f.recorded(slot);
            f.done();
        }
        written
    }

    /// The whole records of both slots.
    ///
    /// # Errors
    /// When the backing cannot be read.
    pub fn read_checkpoint_records(&self) -> Result<[Option<Vec<u8>>; 2], FlashError> {
        let slots = copies::checkpoints(&*self.backing)?.0;
        Ok(slots.map(|s| s.record().map(|r| r.payload.clone())))
    }

    /// The newest whole checkpoint record, and the slot that it lies in.
    ///
    /// # Errors
    /// When the backing cannot be read.
    pub fn newest_checkpoint_record(&self) -> Result<Option<(usize, Vec<u8>)>, FlashError> {
        let slots = copies::checkpoints(&*self.backing)?.0;
        let whole = slots.iter().enumerate().filter_map(|(i, s)| Some((i, s.record()?)));
        Ok(whole.max_by_key(|(_, r)| r.sequence).map(|(i, r)| (i, r.payload.clone())))
    }

    /// Copies of the superblock and of checkpoint records that were found damaged when the image was opened, and were
    /// written again from the other copy.
    pub fn repairs(&self) -> u64 {
        self.repairs
    }
}
