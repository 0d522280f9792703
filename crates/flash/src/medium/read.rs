//! Reads, verified by tags.
//!
//! ```text
//!   read units ─► each against its tag ─► the wanted bytes
//!        ▲                │ one is wrong, or cannot be read
//!        └─ a few times ──┘ whole after all: its EBLOCK is weak, and its pages are better moved
//! ```
//!
//! No read takes a lock over I/O.

use std::sync::atomic::Ordering;

use lode_base::{EblockId, PageBuf, PageBufMut, Ppa};

use crate::faults::ReadStrike;
use crate::layout::{by_group, data_at, group_at, group_of};
use crate::metadata_only::{MetadataOnly, NotThere};
use crate::tag::Tag;
use crate::tag_cache::CachedTags;
use crate::{FlashError, Generation, Medium, WblockState};

/// How often a failed read is repeated. There are few retries, as on a NAND die: if four reads fail, a fifth is not
/// likely to succeed.
pub const READ_RETRIES: u32 = 3;
/// Reads of up to this many units need no allocation for their tags.
const FEW_UNITS: usize = 8;

/// A fault's effect on one unit, named by its byte: its tag reads as this.
type FalseTag = Option<(u64, Tag)>;

/// Whole read units.
struct Units {
    /// Where they begin on the medium.
    byte: u64,
    /// Where the wanted bytes begin in them.
    start: usize,
    data: PageBuf,
    false_tag: FalseTag,
}

impl Units {
    fn wanted(self, len: u32) -> PageBuf {
        wanted(self.data, self.start, len)
    }
}

/// The wanted bytes of whole read units.
fn wanted(units: PageBuf, start: usize, len: u32) -> PageBuf {
    if units.len() == len as usize {
        return units;
    }
    units.slice(start..start + len as usize)
}

impl Medium {
    /// Reads `len` bytes from `at` on: whole read units, each verified against its tag, of which the wanted bytes are
    /// a slice. Units that fail are read again, a few times.
    ///
    /// # Errors
    /// When a read unit is not what was programmed there in this generation, or cannot be read
    /// ([`FlashError::is_uncorrectable`]); when the backing cannot be read at all.
    pub fn read(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
        self.take_time(at, len);
        if let Some(kept) = &self.kept {
            return self.read_kept(kept, at, len, true);
        }
        let read = || {
            let units = self.read_units(at, len)?;
            self.verify(&units)?;
            Ok(units.wanted(len))
        };
        let first = match self.unit_of(at, len) {
            Some((byte, start)) => self.read_unit(byte).map(|data| wanted(data, start, len)),
            None => read(),
        };
        self.retrying(at, len, first, read)
    }

    /// Reads from a metadata-only medium. With `verified`, only data of the known generation is returned.
    fn read_kept(
        &self,
        kept: &MetadataOnly,
        at: Ppa,
        len: u32,
        verified: bool,
    ) -> Result<PageBuf, FlashError> {
        let (e, offset) = self.geometry.locate(at);
        if e.raw() >= self.geometry.eblock_count() || len > self.geometry.eblock_bytes() - offset {
            return Err(FlashError::BadAddress { at, len_bytes: len });
        }
        let expected = self.die.generation(e);
        let read = kept.read(e, verified.then_some(expected), offset, len);
        self.media_bytes_read.add(self.read_units_bytes(at, len));
        read.map_err(|NotThere(got)| FlashError::WrongGeneration { at, got, expected })
    }

    /// The contents of a user's page on a medium that does not keep it, without a read; `None` if the medium keeps
    /// it.
    pub fn unkept(&self, len: u32) -> Option<PageBuf> {
        Some(self.kept.as_ref()?.nothing(len))
    }

    /// Charges the modelled device for reading these bytes.
    fn take_time(&self, at: Ppa, len: u32) {
        if let Some(m) = self.model() {
            let (e, offset) = self.geometry.locate(at);
            m.read(e, offset, len);
        }
    }

    /// Reads the unit at `byte` and verifies it. Most reads are of one unit, so this is a fast path.
    fn read_unit(&self, byte: u64) -> Result<PageBuf, FlashError> {
        let held = self.held_tag(byte);
        let mut data = PageBufMut::scratch(self.geometry.rblock_bytes() as usize);
        self.read_part(byte, &mut data)?;
        let false_tag = self.was_read(byte, &mut data)?;
        let tag = match held.and_then(|(held, index)| held.tag(index)) {
            Some(tag) => tag,
            None => {
                let mut tag = [Tag::default()];
                self.load_tags(byte, &mut tag)?;
                tag[0]
            }
        };
        self.verify_unit(byte, &data, false_tag.map_or(tag, |(_, false_tag)| false_tag))?;
        Ok(data.freeze())
    }

    /// If these bytes lie in one read unit of the medium: the unit's byte, and the offset in it.
    fn unit_of(&self, at: Ppa, len: u32) -> Option<(u64, usize)> {
        let rblock = u64::from(self.geometry.rblock_bytes());
        let byte = at.cell() * lode_base::CELL_BYTES as u64;
        // The size of a read unit is a power of two.
        let start = byte & (rblock - 1);
        let is_one = (1..=rblock - start).contains(&len.into()) && byte < self.geometry.capacity_bytes();
        is_one.then_some((byte - start, start as usize))
    }

    /// Prefetches the memory that [`Medium::read`] of these bytes will access.
    pub fn prefetch(&self, at: Ppa, len: u32) {
        if let Some((byte, _)) = self.unit_of(at, len).filter(|_| self.kept.is_none()) {
            self.held_tag(byte);
        }
    }

    /// The tag of the read unit at `byte`, if it is in memory. It is prefetched, so that it reaches the CPU's cache
    /// while the unit is read.
    fn held_tag(&self, byte: u64) -> Option<(CachedTags<'_>, usize)> {
        let (held, index) = (self.tags.held(group_of(byte))?, self.tag_index(byte));
        held.prefetch(index);
        Some((held, index))
    }

    /// As [`Medium::read`], but without verification: for log pages, whose tag lies inside. A unit that cannot be
    /// read is read again.
    ///
    /// # Errors
    /// When a unit, or the backing, cannot be read.
    pub fn read_unverified(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
        self.take_time(at, len);
        if let Some(kept) = &self.kept {
            return self.read_kept(kept, at, len, false);
        }
        let read = || Ok(self.read_units(at, len)?.wanted(len));
        self.retrying(at, len, read(), read)
    }

    /// As [`Medium::read_unverified`], but repeats the read while the bytes do not `hold`, as [`Medium::read`] does
    /// by tags; `None` if they never do.
    ///
    /// # Errors
    /// As [`Medium::read_unverified`].
    pub fn read_checked(
        &self,
        at: Ppa,
        len: u32,
        holds: impl Fn(&PageBuf) -> bool,
    ) -> Result<Option<PageBuf>, FlashError> {
        for tried in 0..=READ_RETRIES {
            let data = self.read_unverified(at, len)?;
            if holds(&data) {
                if tried > 0 {
                    self.is_weak(at);
                }
                return Ok(Some(data));
            }
            if tried < READ_RETRIES {
                self.read_retries.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(None)
    }

    /// The result of the first read, or of a repeated one after a failure that a retry may cure.
    fn retrying<T>(
        &self,
        at: Ppa,
        len: u32,
        first: Result<T, FlashError>,
        again: impl Fn() -> Result<T, FlashError>,
    ) -> Result<T, FlashError> {
        let mut read = first;
        let mut tried = 0;
        loop {
            match read {
                Err(e) if e.is_uncorrectable() && tried < READ_RETRIES => self.forget_tags(at, len),
                Ok(read) if tried > 0 => {
                    self.is_weak(at);
                    return Ok(read);
                }
                done => return done,
            }
            tried += 1;
            self.read_retries.fetch_add(1, Ordering::Relaxed);
            read = again();
        }
    }

    /// Drops cached tags, which may be the cause of a failed read.
    fn forget_tags(&self, at: Ppa, len: u32) {
        let byte = at.cell() * lode_base::CELL_BYTES as u64;
        by_group(byte, len.into()).for_each(|(at, _)| self.tags.forget(group_of(at)));
    }

    fn is_weak(&self, at: Ppa) {
        self.weak.lock().insert(self.geometry.locate(at).0);
    }

    /// EBLOCKs that needed retries since the last call, each once, in order. Their pages should be moved while they
    /// can be read.
    pub fn take_weak(&self) -> Vec<EblockId> {
        std::mem::take(&mut *self.weak.lock()).into_iter().collect()
    }

    /// The number of retries.
    pub fn read_retries(&self) -> u64 {
        self.read_retries.load(Ordering::Relaxed)
    }

    /// The bytes that reading `len` bytes from `at` takes from the medium, in whole read units.
    pub fn read_units_bytes(&self, at: Ppa, len: u32) -> u64 {
        let rblock = u64::from(self.geometry.rblock_bytes());
        let first = at.cell() * lode_base::CELL_BYTES as u64;
        (first + u64::from(len)).next_multiple_of(rblock) - first / rblock * rblock
    }

    /// The read units that `len` bytes at `at` lie in.
    fn read_units(&self, at: Ppa, len: u32) -> Result<Units, FlashError> {
        let (e, offset) = self.geometry.locate(at);
        let eblock_bytes = self.geometry.eblock_bytes();
        if e.raw() >= self.geometry.eblock_count() || len > eblock_bytes - offset {
            return Err(FlashError::BadAddress { at, len_bytes: len });
        }
        let rblock = self.geometry.rblock_bytes();
        let start = offset % rblock;
        let byte = u64::from(e.raw()) * u64::from(eblock_bytes) + u64::from(offset - start);
        let mut data = PageBufMut::scratch((start + len).next_multiple_of(rblock) as usize);
        for (at, part) in by_group(byte, data.len() as u64) {
            self.read_part(at, &mut data[(at - byte) as usize..][..part as usize])?;
        }
        let false_tag = self.was_read(byte, &mut data)?;
        Ok(Units { byte, start: start as usize, data: data.freeze(), false_tag })
    }

    /// Counts a read at `byte`, and applies faults to it.
    fn was_read(&self, byte: u64, data: &mut [u8]) -> Result<FalseTag, FlashError> {
        self.media_bytes_read.add(data.len() as u64);
        let Some(f) = &self.faults else { return Ok(None) };
        match f.read(byte, data) {
            ReadStrike::None => Ok(None),
            ReadStrike::Fails(unit) => Err(FlashError::ReadFailed { at: self.ppa(unit) }),
            ReadStrike::Tag(unit, tag) => Ok(Some((unit, tag))),
        }
    }

    /// Reads units of one group. If the host has a bad block, the error names the unit on it.
    fn read_part(&self, byte: u64, out: &mut [u8]) -> Result<(), FlashError> {
        match self.backing.read(data_at(byte), out, "read data") {
            Err(e) if e.is_bad_block() => {}
            done => return done,
        }
        let rblock_bytes = self.geometry.rblock_bytes() as usize;
        for (i, unit) in out.chunks_exact_mut(rblock_bytes).enumerate() {
            let byte = byte + (i * rblock_bytes) as u64;
            self.backing.read(data_at(byte), unit, "read data").map_err(|e| self.unreadable(e, byte))?;
        }
        Ok(())
    }

    fn unreadable(&self, e: FlashError, byte: u64) -> FlashError {
        if e.is_bad_block() { FlashError::ReadFailed { at: self.ppa(byte) } } else { e }
    }

    /// Verifies read units of one EBLOCK by their tags.
    fn verify(&self, units: &Units) -> Result<(), FlashError> {
        let rblock_bytes = self.geometry.rblock_bytes() as usize;
        let mut few = [Tag::default(); FEW_UNITS];
        let mut many = Vec::new();
        for (at, part) in by_group(units.byte, units.data.len() as u64) {
            let data = &units.data[(at - units.byte) as usize..][..part as usize];
            let count = data.len() / rblock_bytes;
            let tags = if count <= FEW_UNITS {
                &mut few[..count]
            } else {
                many.resize(count, Tag::default());
                &mut many[..count]
            };
            self.load_tags(at, tags)?;
            for (i, (rblock, tag)) in data.chunks_exact(rblock_bytes).zip(tags).enumerate() {
                let byte = at + (i * rblock_bytes) as u64;
                let is_false = units.false_tag.filter(|(unit, _)| *unit == byte);
                self.verify_unit(byte, rblock, is_false.map_or(*tag, |(_, false_tag)| false_tag))?;
            }
        }
        Ok(())
    }

    /// Verifies the read unit at `byte` by its tag.
    fn verify_unit(&self, byte: u64, data: &[u8], tag: Tag) -> Result<(), FlashError> {
        let expected = self.die.generation(self.eblock_of(byte));
        if tag.generation != expected.raw() || expected == Generation::UNKNOWN {
            let got = Generation::from_raw(tag.generation);
            return Err(FlashError::WrongGeneration { at: self.ppa(byte), got, expected });
        }
        let got = tag.expected_crc(self.cell(byte), data);
        if got != tag.crc {
            return Err(FlashError::ChecksumMismatch { at: self.ppa(byte), got, expected: tag.crc });
        }
        Ok(())
    }

    fn load_tags(&self, byte: u64, tags: &mut [Tag]) -> Result<(), FlashError> {
        let group = group_of(byte);
        let load = |b: &mut _| self.backing.read(group_at(group), b, "read tags");
        let loaded = self.tags.get(group, self.tag_index(byte), tags, |b| load(&mut b[..]));
        loaded.map_err(|e| self.unreadable(e, byte))
    }

    /// The state of a WBLOCK in its EBLOCK's generation, by its tags and its data. Not for log pages. A WBLOCK that
    /// is not intact is read again, a few times; one that cannot be read counts as damaged.
    ///
    /// # Errors
    /// When the backing cannot be read at all.
    pub fn probe(&self, e: EblockId, wblock: u32) -> Result<WblockState, FlashError> {
        if let Some(kept) = &self.kept {
            let programmed = kept.is_programmed(e, self.die.generation(e), wblock);
            return Ok(if programmed { WblockState::Programmed } else { WblockState::Empty });
        }
        let at = self.ppa(self.wblock_byte(e, wblock));
        let mut before = None;
        for tried in 0..=READ_RETRIES {
            let state = self.probe_once(e, wblock)?;
            match state {
                WblockState::Programmed => {
                    if tried > 0 {
                        self.is_weak(at);
                    }
                    return Ok(state);
                }
                WblockState::Empty if before == Some(state) => return Ok(state),
                WblockState::Empty | WblockState::Damaged => before = Some(state),
            }
            self.forget_tags(at, self.geometry.wblock_bytes());
        }
        Ok(before.expect("it was probed"))
    }

    fn probe_once(&self, e: EblockId, wblock: u32) -> Result<WblockState, FlashError> {
        let generation = self.die.generation(e);
        let rblock_bytes = self.geometry.rblock_bytes();
        let byte = self.wblock_byte(e, wblock);
        let mut empty = true;
        let mut whole = true;
        for i in 0..self.geometry.wblock_bytes() / rblock_bytes {
            let byte = byte + u64::from(i * rblock_bytes);
            let mut tag = [Tag::default()];
            let units = match self.read_units(self.ppa(byte), rblock_bytes) {
                Ok(units) => self.load_tags(byte, &mut tag).map(|()| units),
                unread => unread,
            };
            let units = match units {
                Err(e) if e.is_uncorrectable() => return Ok(WblockState::Damaged),
                units => units?,
            };
            let tag = units.false_tag.map_or(tag[0], |(_, t)| t);
            // If a tag matches except for its generation, the generation was damaged: no other write has this
            // checksum.
            let was = Tag { generation: generation.raw(), ..tag };
            let sound = tag.crc == was.expected_crc(self.cell(byte), &units.data);
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
}
