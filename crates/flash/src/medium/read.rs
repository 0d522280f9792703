//! Reading, and believing only what the tags confirm.
//!
//! ```text
//!   read units ─► each against its tag ─► the wanted bytes
//!        ▲                │ one is wrong, or can not be read
//!        └─ a few times ──┘ whole after all: its EBLOCK is weak, and its pages are better moved
//! ```
//!
//! No read takes a lock over I/O.

use std::sync::atomic::Ordering;

use lode_base::{EblockId, PageBuf, PageBufMut, Ppa};

use crate::faults::ReadStrike;
use crate::layout::{by_group, data_at, group_at, group_of};
use crate::tag::Tag;
use crate::tag_cache::Group;
use crate::{FlashError, Generation, Medium, WblockState};

/// How often a read that went wrong is tried again. As the read-retry levels of a NAND die, few: what four reads do not
/// get, the next one does not either.
pub const READ_RETRIES: u32 = 3;
/// Reads of no more units than this need no memory for their tags.
const FEW_UNITS: usize = 8;

/// Bytes that are to be read together with others, for which see [`Medium::ahead`].
pub struct Ahead {
    at: Ppa,
    len: u32,
    /// The tags of its read unit, if it lies in one and they are in memory.
    tags: Option<(std::sync::Arc<Group>, usize)>,
}

/// Whole read units.
struct Units {
    /// Where they begin on the medium.
    byte: u64,
    /// Where the wanted bytes begin in them.
    start: usize,
    data: PageBuf,
    /// A unit, by its byte, whose tag a fault made read as this.
    false_tag: Option<(u64, Tag)>,
}

impl Units {
    fn wanted(self, len: u32) -> PageBuf {
        if self.data.len() == len as usize {
            return self.data;
        }
        self.data.slice(self.start..self.start + len as usize)
    }
}

impl Medium {
    /// Reads `len` bytes from `at` on: whole read units, each verified against its tag, of which the wanted bytes
    /// are a slice. What does not verify is read again, a few times.
    ///
    /// # Errors
    /// When a read unit is not what was programmed there in this generation, or can not be read
    /// ([`FlashError::is_uncorrectable`]), or the backing can not be read at all.
    pub fn read(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
        self.read_by(at, len, None)
    }

    /// Finds the tags of what [`Medium::read_ahead`] is to read, without looking at them.
    pub fn ahead(&self, at: Ppa, len: u32) -> Ahead {
        let byte = at.cell() * lode_base::CELL_BYTES as u64;
        let one = self.read_units_bytes(at, len) == u64::from(self.geometry.rblock_bytes());
        let tags = one.then(|| self.tags.held(group_of(byte))).flatten();
        Ahead { at, len, tags: tags.map(|group| (group, self.tag_index(byte))) }
    }

    /// As [`Medium::read`] of each, in order. Their tags are looked at first, all of them: a CPU then waits for them
    /// together, where it waits for each alone when reads come between.
    pub fn read_ahead<'a>(
        &'a self,
        all: &'a [Ahead],
    ) -> impl Iterator<Item = Result<PageBuf, FlashError>> + use<'a> {
        let tag = |a: &Ahead| a.tags.as_ref().map(|(group, index)| group.tag(*index));
        let tags: Vec<Option<Tag>> = all.iter().map(tag).collect();
        all.iter().zip(tags).map(|(a, tag)| self.read_by(a.at, a.len, tag))
    }

    /// Reads, at first by the tag that is known of the one unit that the bytes lie in.
    fn read_by(&self, at: Ppa, len: u32, tag: Option<Tag>) -> Result<PageBuf, FlashError> {
        let tag = std::cell::Cell::new(tag);
        self.retrying(at, len, || {
            let units = self.read_units(at, len)?;
            match tag.take() {
                Some(tag) => self.verify_unit(&units, units.byte, &units.data, tag)?,
                None => self.verify(&units)?,
            }
            Ok(units.wanted(len))
        })
    }

    /// As [`Medium::read`], but believes nothing: for log pages, whose tag lies inside. A unit that can not be read is
    /// read again.
    ///
    /// # Errors
    /// When a unit, or the backing, can not be read.
    pub fn read_unverified(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
        self.retrying(at, len, || Ok(self.read_units(at, len)?.wanted(len)))
    }

    /// As [`Medium::read_unverified`], but reads again what does not `hold`, as [`Medium::read`] does by tags; `None`
    /// when it never does.
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

    /// Reads again after what another read may bring.
    fn retrying<T>(
        &self,
        at: Ppa,
        len: u32,
        read: impl Fn() -> Result<T, FlashError>,
    ) -> Result<T, FlashError> {
        let mut tried = 0;
        loop {
            match read() {
                Err(e) if e.is_uncorrectable() && tried < READ_RETRIES => self.forget_tags(at, len),
                Ok(read) if tried > 0 => {
                    self.is_weak(at);
                    return Ok(read);
                }
                done => return done,
            }
            tried += 1;
            self.read_retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The tags in memory may be what went wrong.
    fn forget_tags(&self, at: Ppa, len: u32) {
        let byte = at.cell() * lode_base::CELL_BYTES as u64;
        by_group(byte, len.into()).for_each(|(at, _)| self.tags.forget(group_of(at)));
    }

    fn is_weak(&self, at: Ppa) {
        self.weak.lock().insert(self.geometry.locate(at).0);
    }

    /// EBLOCKs that had to be read again since this was last asked, each once, in order: their pages are better moved
    /// while they can be read.
    pub fn take_weak(&self) -> Vec<EblockId> {
        std::mem::take(&mut *self.weak.lock()).into_iter().collect()
    }

    /// How often something was read again.
    pub fn read_retries(&self) -> u64 {
        self.read_retries.load(Ordering::Relaxed)
    }

    /// Bytes of the read units that `len` bytes from `at` on lie in: what reading them takes from the medium.
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
        self.media_bytes_read.fetch_add(data.len() as u64, Ordering::Relaxed);
        let mut false_tag = None;
        if let Some(f) = &self.faults {
            match f.read(byte, &mut data) {
                ReadStrike::None => {}
                ReadStrike::Fails(unit) => return Err(FlashError::ReadFailed { at: self.ppa(unit) }),
                ReadStrike::Tag(unit, tag) => false_tag = Some((unit, tag)),
            }
        }
        Ok(Units { byte, start: start as usize, data: data.freeze(), false_tag })
    }

    /// Reads units of one group. Where the host has a bad block, the unit that lies on it is named.
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

    /// Holds read units of one EBLOCK against their tags.
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
                self.verify_unit(units, at + (i * rblock_bytes) as u64, rblock, *tag)?;
            }
        }
        Ok(())
    }

    /// Holds the read unit at `byte` against its tag.
    fn verify_unit(&self, units: &Units, byte: u64, data: &[u8], tag: Tag) -> Result<(), FlashError> {
        let expected = self.die.generation(self.eblock_of(byte));
        let tag = units.false_tag.filter(|(unit, _)| *unit == byte).map_or(tag, |(_, false_tag)| false_tag);
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

    /// What a WBLOCK holds in its EBLOCK's generation, by its tags and its data. Of no use for log pages. What is not
    /// whole is read again, a few times; what can not be read is damaged.
    ///
    /// # Errors
    /// When the backing can not be read at all.
    pub fn probe(&self, e: EblockId, wblock: u32) -> Result<WblockState, FlashError> {
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
            // A tag that only lacks the right generation was damaged: no other write makes such a checksum.
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
