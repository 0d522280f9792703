//! Programming WBLOCKs and their tags.
//!
//! ```text
//!   space for all of it ─► claim the WBLOCKs, in order ─► tags and data, group by group      (failed: EBLOCK ended)
//! ```

use lode_base::{EblockId, PageBuf};

use crate::error::WRITE_DATA;
use crate::faults::{Faults, ProgramStrike};
use crate::layout::{by_group, data_at, group_at, group_of};
use crate::tag::{TAG_BYTES, Tag};
use crate::{FlashError, Generation, Medium};

use std::sync::atomic::Ordering;

/// Programs of less than this are written to blocks that are there already, so that syncing them is cheap.
const AHEAD_BYTES: usize = 128 << 10;

/// What a program writes: WBLOCKs that begin at a byte of the medium, in a generation.
#[derive(Clone, Copy)]
struct Wblocks<'a> {
    byte: u64,
    generation: Generation,
    data: &'a [u8],
    tagged: bool,
}

impl Medium {
    /// Programs whole WBLOCKs from `wblock` on, and their tags. Durable after [`Medium::sync`].
    ///
    /// # Errors
    /// When a WBLOCK can not be programmed ([`FlashError::is_program_failure`]): the EBLOCK is then ended, and takes
    /// nothing more until it is erased; WBLOCKs of this call may be whole. When the image could not grow for want of
    /// space, nothing was programmed, and the EBLOCK is as before (see [`Medium::next_wblock`]).
    ///
    /// # Panics
    /// When `data` is not whole WBLOCKs, the EBLOCK is not erased, or `wblock` is not the next.
    pub fn program(&self, e: EblockId, wblock: u32, data: &PageBuf) -> Result<(), FlashError> {
        self.program_with(e, wblock, data, true)
    }

    /// As [`Medium::program`], but without tags, in one write: for log pages, whose tag lies inside. Only
    /// [`Medium::read_unverified`] and [`Medium::read_checked`] read them back.
    ///
    /// # Errors
    /// As [`Medium::program`].
    ///
    /// # Panics
    /// As [`Medium::program`].
    pub fn program_tagged_inside(&self, e: EblockId, wblock: u32, data: &PageBuf) -> Result<(), FlashError> {
        self.program_with(e, wblock, data, false)
    }

    fn program_with(&self, e: EblockId, wblock: u32, data: &[u8], tagged: bool) -> Result<(), FlashError> {
        self.check_poison()?;
        let wblock_bytes = self.geometry.wblock_bytes() as usize;
        let whole = !data.is_empty() && data.len().is_multiple_of(wblock_bytes);
        assert!(whole, "{} bytes are programmed, which are no whole WBLOCKs", data.len());
        let byte = self.wblock_byte(e, wblock);
        if let Some(f) = &self.faults {
            f.finds_no_space()?;
        }
        // A full file system is met here first, before anything is programmed.
        let prepared = self.prepare(byte, data.len());
        prepared.inspect_err(|error| {
            if !error.is_no_space() {
                self.die.end(e);
            }
        })?;
        let generation = self.die.claim(e, wblock, (data.len() / wblock_bytes) as u32);
        let w = Wblocks { byte, generation, data, tagged };
        let programmed = match &self.faults {
            None => self.write_groups(byte, w),
            Some(f) => self.program_struck(f, e, wblock, w),
        };
        programmed.inspect_err(|_| self.die.end(e))?;
        self.media_bytes_written.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn prepare(&self, byte: u64, len: usize) -> Result<(), FlashError> {
        by_group(byte, len as u64)
            .try_for_each(|(at, _)| self.backing.prepare_group(group_of(at), len < AHEAD_BYTES))
    }

    fn write_groups(&self, place: u64, w: Wblocks<'_>) -> Result<(), FlashError> {
        let rblock_bytes = self.geometry.rblock_bytes() as usize;
        for (at, len) in by_group(place, w.data.len() as u64) {
            let done = at - place;
            let part = &w.data[done as usize..][..len as usize];
            let group = group_of(at);
            if w.tagged {
                let mut tags = Vec::with_capacity(part.len() / rblock_bytes * TAG_BYTES);
                for (i, rblock) in part.chunks_exact(rblock_bytes).enumerate() {
                    let cell = self.cell(w.byte + done + (i * rblock_bytes) as u64);
                    tags.extend_from_slice(&Tag::of(cell, w.generation, rblock).to_bytes());
                }
                let first = self.tag_index(at);
                self.backing.write(group_at(group) + (first * TAG_BYTES) as u64, &tags, WRITE_DATA)?;
                self.tags.written(group, first, &tags);
            }
            self.backing.write(data_at(at), part, WRITE_DATA)?;
        }
        Ok(())
    }

    /// As faults have it.
    fn program_struck(&self, f: &Faults, e: EblockId, wblock: u32, w: Wblocks<'_>) -> Result<(), FlashError> {
        let wblock_bytes = self.geometry.wblock_bytes();
        let count = w.data.len() as u32 / wblock_bytes;
        let done = match f.program(e, wblock, count, w.tagged) {
            ProgramStrike::None => self.write_groups(w.byte, w),
            ProgramStrike::Fails { whole, torn_bytes } => {
                let (data, rest) = w.data.split_at((whole * wblock_bytes) as usize);
                let failed = w.byte + data.len() as u64;
                self.write_groups(w.byte, Wblocks { data, ..w })?;
                let torn = Wblocks { data: &rest[..torn_bytes as usize], tagged: false, ..w };
                self.write_groups(failed, torn)?;
                Err(FlashError::ProgramFailed { at: self.ppa(failed) })
            }
            ProgramStrike::Lost => Ok(()),
            ProgramStrike::Misdirected(other, from) => {
                let place = self.wblock_byte(other, from);
                self.prepare(place, w.data.len())?;
                self.write_groups(place, w)
            }
            ProgramStrike::Flip(kind, seed) => {
                let written = self.write_groups(w.byte, w);
                f.flip_programmed(kind, seed, e, wblock, count);
                written
            }
        };
        f.done();
        done
    }
}
