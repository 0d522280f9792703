//! Programs WBLOCKs and their tags.
//!
//! ```text
//!   space for all of it ─► claim the WBLOCKs, in order ─► tags and data, group by group      (failed: EBLOCK ended)
//! ```

use std::sync::atomic::Ordering;

use lode_base::EblockId;

use crate::backing::Backing;
use crate::error::WRITE_DATA;
use crate::faults::{Faults, ProgramStrike};
use crate::layout::{GROUP_DATA_BYTES, GROUP_TAG_BYTES, by_group, data_at, group_at, group_of, part_from};
use crate::metadata_only::Programmed;
use crate::tag::{TAG_BYTES, Tag};
use crate::{FlashError, Generation, Medium};

/// Smaller programs go to blocks that are allocated ahead, so that syncing them is cheap.
const AHEAD_BYTES: usize = 128 << 10;

/// The WBLOCKs of a program, from a byte of the medium on, in a generation.
#[derive(Clone, Copy)]
struct Wblocks<'a> {
    byte: u64,
    generation: Generation,
    data: &'a [u8],
    tagged: bool,
}

/// Adjacent bytes of the image, gathered for one write.
struct Run<'a> {
    at: u64,
    end: u64,
    parts: Vec<&'a [u8]>,
}

impl<'a> Run<'a> {
    /// Adds bytes at `at`. Writes the gathered bytes first if they are not adjacent.
    fn add(&mut self, backing: &dyn Backing, at: u64, bytes: &'a [u8]) -> Result<(), FlashError> {
        if self.end != at {
            self.write(backing)?;
            (self.at, self.end) = (at, at);
        }
        self.parts.push(bytes);
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn write(&mut self, backing: &dyn Backing) -> Result<(), FlashError> {
        match &self.parts[..] {
            [] => {}
            [one] => backing.write(self.at, one, WRITE_DATA)?,
            parts => backing.write_vectored(self.at, parts, WRITE_DATA)?,
        }
        self.parts.clear();
        Ok(())
    }
}

impl Medium {
    /// Programs whole WBLOCKs from `wblock` on, and their tags. Durable after [`Medium::sync`].
    ///
    /// # Errors
    /// When a WBLOCK cannot be programmed ([`FlashError::is_program_failure`]): the EBLOCK is then ended until it is
    /// erased, and some WBLOCKs of this call may be whole. When the image cannot grow for lack of space: then nothing
    /// is programmed, and the EBLOCK is as before (see [`Medium::next_wblock`]).
    ///
    /// # Panics
    /// When `data` is not whole WBLOCKs, the EBLOCK is not erased, or `wblock` is not the next.
    pub fn program(&self, e: EblockId, wblock: u32, data: &[u8]) -> Result<(), FlashError> {
        self.program_with(e, wblock, data, true)
    }

    /// The first byte of an EBLOCK from `offset` on (or behind its end) at which a large program is best split: the
    /// host's page cache then holds the parts in pieces as large as for the whole.
    pub fn part_from(&self, e: EblockId, offset: u32) -> u32 {
        let start = self.wblock_byte(e, 0);
        (part_from(start + u64::from(offset)) - start) as u32
    }

    /// As [`Medium::program`], but without tags, in one write: for log pages, whose tag lies inside. Only
    /// [`Medium::read_unverified`] and [`Medium::read_checked`] read them back.
    ///
    /// # Errors
    /// As [`Medium::program`].
    ///
    /// # Panics
    /// As [`Medium::program`].
    pub fn program_tagged_inside(&self, e: EblockId, wblock: u32, data: &[u8]) -> Result<(), FlashError> {
        self.program_with(e, wblock, data, false)
    }

    /// As [`Medium::program`], for `count` WBLOCKs of users' pages on a medium that does not keep them.
    ///
    /// # Errors
    /// As [`Medium::program`].
    ///
    /// # Panics
    /// When the medium keeps them, or as [`Medium::program`].
    pub fn program_users(&self, e: EblockId, wblock: u32, count: u32) -> Result<(), FlashError> {
        assert!(count > 0, "no WBLOCKs are programmed");
        self.program_kept(e, wblock, Programmed::Users(count))
    }

    fn program_kept(&self, e: EblockId, wblock: u32, what: Programmed<'_>) -> Result<(), FlashError> {
        self.check_poison()?;
        let kept = self.kept.as_ref().expect("a medium that keeps all is given the data");
        let wblock_bytes = self.geometry.wblock_bytes();
        let count = match what {
            Programmed::Users(count) => count,
            Programmed::Own { data, .. } => data.len() as u32 / wblock_bytes,
        };
        let bytes = u64::from(count) * u64::from(wblock_bytes);
        self.prepare(self.wblock_byte(e, wblock), bytes as usize)?;
        if let Some(m) = &self.model {
            m.program(e, wblock, count);
        }
        kept.program(e, self.die.claim(e, wblock, count), wblock, what);
        self.media_bytes_written.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn program_with(&self, e: EblockId, wblock: u32, data: &[u8], tagged: bool) -> Result<(), FlashError> {
        self.check_poison()?;
        let wblock_bytes = self.geometry.wblock_bytes() as usize;
        let whole = !data.is_empty() && data.len().is_multiple_of(wblock_bytes);
        assert!(whole, "{} bytes are programmed, which are no whole WBLOCKs", data.len());
        if self.kept.is_some() {
            return self.program_kept(e, wblock, Programmed::Own { data, log: !tagged });
        }
        let byte = self.wblock_byte(e, wblock);
        if let Some(f) = &self.faults {
            f.finds_no_space()?;
        }
        // A full file system is detected here, before anything is programmed.
        let prepared = self.prepare(byte, data.len());
        prepared.inspect_err(|error| {
            if !error.is_no_space() {
                self.die.end(e);
            }
        })?;
        let count = (data.len() / wblock_bytes) as u32;
        if let Some(m) = &self.model {
            m.program(e, wblock, count);
        }
        let generation = self.die.claim(e, wblock, count);
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

    /// Writes tags and data group by group. Adjacent bytes of the image go in one write.
    fn write_groups(&self, place: u64, w: Wblocks<'_>) -> Result<(), FlashError> {
        let mut tags = Vec::new();
        if w.tagged {
            tags = by_group(place, w.data.len() as u64)
                .map(|(at, len)| self.tags_of(place, at, len, w))
                .collect();
        }
        let written = self.write_runs(place, w, &tags);
        for ((at, _), tags) in by_group(place, w.data.len() as u64).zip(&tags) {
            match written {
                Ok(()) => self.tags.written(group_of(at), self.tag_index(at), tags),
                Err(_) => self.tags.forget(group_of(at)),
            }
        }
        written
    }

    fn write_runs(&self, place: u64, w: Wblocks<'_>, tags: &[Vec<u8>]) -> Result<(), FlashError> {
        let mut run = Run { at: 0, end: 0, parts: Vec::new() };
        for (i, (at, len)) in by_group(place, w.data.len() as u64).enumerate() {
            if let Some(tags) = tags.get(i) {
                let first = (self.tag_index(at) * TAG_BYTES) as u64;
                run.add(&*self.backing, group_at(group_of(at)) + first, tags)?;
            }
            run.add(&*self.backing, data_at(at), &w.data[(at - place) as usize..][..len as usize])?;
        }
        run.write(&*self.backing)
    }

    /// The tags of `len` bytes at `at`, for data that is programmed at `place`. If they begin a group that belongs to
    /// one EBLOCK, nothing else of the group is programmed yet. Then empty tags fill the gap up to the data, so that
    /// one write covers both, and the page cache need not read what is overwritten.
    fn tags_of(&self, place: u64, at: u64, len: u64, w: Wblocks<'_>) -> Vec<u8> {
        let rblock_bytes = self.geometry.rblock_bytes() as usize;
        let part = &w.data[(at - place) as usize..][..len as usize];
        let mut tags = Vec::with_capacity(GROUP_TAG_BYTES as usize);
        for (i, rblock) in part.chunks_exact(rblock_bytes).enumerate() {
            let cell = self.cell(w.byte + (at - place) + (i * rblock_bytes) as u64);
            tags.extend_from_slice(&Tag::of(cell, w.generation, rblock).to_bytes());
        }
        let alone = u64::from(self.geometry.eblock_bytes()) >= GROUP_DATA_BYTES;
        // A misdirected program may find tags of other data here.
        if self.tag_index(at) == 0 && alone && place == w.byte {
            tags.resize(GROUP_TAG_BYTES as usize, 0);
        }
        tags
    }

    /// Programs WBLOCKs with the effect of a fault.
    fn program_struck(&self, f: &Faults, e: EblockId, wblock: u32, w: Wblocks<'_>) -> Result<(), FlashError> {
        let wblock_bytes = self.geometry.wblock_bytes();
        let count = w.data.len() as u32 / wblock_bytes;
        let done = match f.program(e, wblock, count, w.tagged) {
            ProgramStrike::None => self.write_groups(w.byte, w),
            ProgramStrike::Fails { whole, torn_bytes } => {
                let (data, rest) = w.data.split_at((whole * wblock_bytes) as usize);
                let failed = w.byte + data.len() as u64;
                let torn = Wblocks { data: &rest[..torn_bytes as usize], tagged: false, ..w };
                let before = self.write_groups(w.byte, Wblocks { data, ..w });
                before
                    .and_then(|()| self.write_groups(failed, torn))
                    .and(Err(FlashError::ProgramFailed { at: self.ppa(failed) }))
            }
            ProgramStrike::Lost => Ok(()),
            ProgramStrike::Misdirected(other, from) => {
                let place = self.wblock_byte(other, from);
                self.prepare(place, w.data.len()).and_then(|()| self.write_groups(place, w))
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
