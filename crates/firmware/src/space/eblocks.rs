//! The EBLOCKs: which are open, free, or free soon; their lives from one erasure to the next.
//!
//! ```text
//!   free: recycled (space is in the file) │ discarded (given back) │ fresh (never used)
//!     └─ take, erase ─► open ─ extend ─ close ─► used ─ release ─► limbo ─ reads ended, log proven ─► free
//! ```
//!
//! Invariants: an EBLOCK is erased only while nobody needs it; what is opened, closed or retired is told to the log
//! (`changes`); the metadata of an EBLOCK is in memory until it is on the medium. Recycled EBLOCKs are used before fresh
//! ones, the least worn first, until those are worn much more than the others (dynamic wear levelling).
//!
//! Source: ELEOS §III-B, §IV-A, §VII.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lode_base::epochs::Epochs;
use lode_base::{EblockId, Geometry};
use lode_flash::{Generation, Medium};

use crate::FirmwareError;
use crate::core::EBLOCKS_MIN;
use crate::planted::{self, Planted};
use crate::record::Record;
use crate::space::metadata;
use crate::space::{Descriptor, GC_CLASSES, State, Stream, Summary};
use crate::space::{Job, Provision};

/// Erasures that a recycled EBLOCK may have more than the least worn free one, before that is taken.
const WEAR_SPREAD: u32 = 64;

/// An open EBLOCK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) eblock: EblockId,
    /// The WBLOCK that is provisioned next.
    pub(super) position: u32,
}

/// An EBLOCK that nobody needs any more, since log page `lsn`.
#[derive(Clone, Copy, Debug)]
struct Released {
    eblock: EblockId,
    epoch: u64,
    lsn: u64,
}

pub(crate) struct Space {
    geometry: Geometry,
    pub(crate) summary: Summary,
    pub(super) open: BTreeMap<(Stream, u16), Open>,
    /// Words of the EBLOCKs whose metadata is not on the medium.
    metadata: BTreeMap<EblockId, Vec<u64>>,
    /// How many words those are.
    metadata_words: u64,
    /// Whether that changed since it was written.
    pub(crate) metadata_changed: bool,
    /// Free, used before, and with space in the file; by wear.
    pub(super) recycled: BTreeSet<(u32, u32)>,
    /// Free, used before, and without: their space went back to the file system; by wear.
    pub(super) discarded: BTreeSet<(u32, u32)>,
    limbo: VecDeque<Released>,
    /// What happened and is not logged yet.
    pub(crate) changes: Vec<Record>,
    /// Cells that users wrote so far: the clock of ages.
    pub(crate) clock: u64,
    pub(crate) next_lane: usize,
    /// Bytes that were given to each lane over those of the one that was given least, the log's included.
    lane_bytes: Vec<u64>,
    /// EBLOCKs that ended before they were full.
    ended: u64,
    /// EBLOCKs that can not be emptied, since something in them can not be read: about.
    pub(crate) stuck: u32,
}

impl Space {
    pub(crate) fn new(g: &Geometry) -> Self {
        Self {
            geometry: *g,
            summary: Summary::new(g),
            open: BTreeMap::new(),
            metadata: BTreeMap::new(),
            metadata_words: 0,
            metadata_changed: false,
            recycled: BTreeSet::new(),
            discarded: BTreeSet::new(),
            limbo: VecDeque::new(),
            changes: Vec::new(),
            clock: 0,
            next_lane: 0,
            lane_bytes: vec![0; Self::lanes_of(g).into()],
            ended: 0,
            stuck: 0,
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Channels that are written to side by side: fewer where each would have few EBLOCKs.
    pub(crate) fn lanes(&self) -> u16 {
        Self::lanes_of(&self.geometry)
    }

    pub(crate) fn lanes_of(g: &Geometry) -> u16 {
        g.channels().min(g.eblock_count() / EBLOCKS_MIN).max(1) as u16
    }

    /// Bytes were given to a lane.
    pub(crate) fn lane_took(&mut self, lane: usize, bytes: u64) {
        let Some(l) = self.lane_bytes.get_mut(lane) else { return };
        *l += bytes;
        let least = self.lane_bytes.iter().copied().min().unwrap_or(0);
        let most = u64::from(self.geometry.eblock_bytes());
        self.lane_bytes.iter_mut().for_each(|l| *l = (*l - least).min(most));
    }

    /// How far a lane is ahead of the one that was given least, in bytes.
    pub(crate) fn lane_bytes(&self, lane: usize) -> u64 {
        self.lane_bytes[lane]
    }

    /// Up to where all lanes are filled alike by `bytes` more, as far as they are not ahead of that.
    pub(crate) fn lane_level(&self, bytes: u64) -> u64 {
        let mut ahead = self.lane_bytes.clone();
        ahead.sort_unstable();
        let mut below = 0;
        for (n, &a) in ahead.iter().enumerate() {
            if n as u64 * a >= bytes + below {
                return (bytes + below).div_ceil(n as u64);
            }
            below += a;
        }
        (bytes + below).div_ceil(ahead.len() as u64)
    }

    /// Takes up what recovery found: open EBLOCKs and up to where they were programmed, and which are free. After a
    /// `clean` close those have no space in the file.
    pub(crate) fn restored(&mut self, medium: &Medium, clean: bool) {
        let summary = &self.summary;
        self.metadata.retain(|e, _| {
            let d = summary.get(*e);
            d.stream().is_some() && d.metadata == 0
        });
        self.metadata_words = Self::words_of(&self.metadata);
        let mut free = Vec::new();
        let all: Vec<_> = self.summary.all().map(|(e, d)| (e, *d)).collect();
        for (eblock, d) in all {
            match d.state {
                State::Open { stream, lane } => {
                    let position = medium.next_wblock(eblock);
                    let full = position + metadata::wblocks(&self.geometry, self.words(eblock))
                        >= self.geometry.wblocks_per_eblock();
                    // One that was let go since it was opened has no metadata, and nothing in it.
                    let gone = !self.metadata.contains_key(&eblock);
                    // Recovery writes own pages before it knows all names of those that lie in this one.
                    let own = stream == Stream::Drive && !clean;
                    // Of two that are open for one lane, the one that was closing is used from now on as it is.
                    if full || gone || own || self.open.contains_key(&(stream, lane)) {
                        self.summary.set_state(eblock, State::Used { stream });
                        self.summary.note_if_empty(eblock);
                    } else {
                        self.open.insert((stream, lane), Open { eblock, position });
                    }
                }
                State::Free => free.push((d.erase_count, eblock.raw())),
                State::Used { .. } | State::Failed { .. } => self.summary.note_if_empty(eblock),
                State::Log | State::Limbo | State::Retired => {}
            }
        }
        *(if clean { &mut self.discarded } else { &mut self.recycled }) = free.into_iter().collect();
    }

    /// Words in the metadata of an EBLOCK that is in memory.
    fn words(&self, e: EblockId) -> usize {
        self.metadata.get(&e).map_or(0, Vec::len)
    }

    /// The metadata of an EBLOCK, while it is in memory.
    pub(crate) fn metadata_of(&self, e: EblockId) -> Option<&[u64]> {
        self.metadata.get(&e).map(Vec::as_slice)
    }

    /// All metadata that is in memory.
    pub(crate) fn metadata(&self) -> &BTreeMap<EblockId, Vec<u64>> {
        &self.metadata
    }

    /// Sets the metadata of EBLOCKs that is not on the medium, as recovery found it.
    pub(crate) fn restore_metadata(&mut self, metadata: BTreeMap<EblockId, Vec<u64>>) {
        self.metadata_words = Self::words_of(&metadata);
        self.metadata = metadata;
    }

    fn words_of(metadata: &BTreeMap<EblockId, Vec<u64>>) -> u64 {
        metadata.values().map(|words| words.len() as u64).sum()
    }

    /// Words of all metadata that is in memory.
    pub(crate) fn metadata_words(&self) -> u64 {
        self.metadata_words
    }

    /// The metadata of an EBLOCK need not be in memory any more.
    fn drop_metadata(&mut self, e: EblockId) {
        if let Some(words) = self.metadata.remove(&e) {
            self.metadata_words -= words.len() as u64;
            self.metadata_changed = true;
        }
    }

    /// EBLOCKs that can be opened now.
    pub(crate) fn free_eblocks(&self) -> u32 {
        let fresh = self.geometry.eblock_count() - self.summary.len() as u32;
        (self.recycled.len() + self.discarded.len()) as u32 + fresh
    }

    /// The next WBLOCK of the open EBLOCK of a lane, and the pages in it.
    pub(crate) fn position(&self, stream: Stream, lane: u16) -> Option<(u32, usize)> {
        self.open.get(&(stream, lane)).map(|o| (o.position, self.words(o.eblock)))
    }

    /// Bytes that the open EBLOCKs of a stream still take.
    pub(crate) fn left_bytes(&self, stream: Stream) -> u64 {
        let wblocks = |o: &Open| {
            let metadata = metadata::wblocks(&self.geometry, self.words(o.eblock) + 1);
            self.geometry.wblocks_per_eblock().saturating_sub(o.position + metadata)
        };
        let open = self.open.range((stream, 0)..=(stream, u16::MAX)).map(|(_, o)| wblocks(o));
        open.map(u64::from).sum::<u64>() * u64::from(self.geometry.wblock_bytes())
    }

    /// The open EBLOCK of GC whose pages are about as old as `age`; one that is not open yet while there is `room` for it.
    pub(crate) fn gc_stream(&self, age: u64, room: bool) -> Stream {
        let of = |class: u8| self.gc_class_age(class).map(|of| of.abs_diff(age));
        let nearest = (0..GC_CLASSES).filter_map(|c| Some((of(c)?, c))).min();
        let unused = (0..GC_CLASSES).find(|&c| of(c).is_none());
        match (nearest, unused) {
            // A class of its own for what is of quite another age.
            (Some((distance, _)), Some(class)) if room && distance > self.clock.abs_diff(age) / 2 => {
                Stream::Gc(class)
            }
            (Some((_, class)), _) | (None, Some(class)) => Stream::Gc(class),
            (None, None) => unreachable!("a class is open or it is not"),
        }
    }

    /// The age that the open EBLOCK of a class of GC stands for, if one is open.
    pub(crate) fn gc_class_age(&self, class: u8) -> Option<u64> {
        let open = self.open.iter().find(|((s, _), _)| *s == Stream::Gc(class));
        open.map(|(_, o)| self.summary.get(o.eblock).age)
    }

    /// Takes the least worn free EBLOCK that fits, if there is one, and erases it. One that can not be erased is retired.
    fn take(
        &mut self,
        medium: &Medium,
        channel: u32,
    ) -> Result<Option<(EblockId, Generation)>, FirmwareError> {
        let g = self.geometry;
        loop {
            let free_in = |free: &BTreeSet<(u32, u32)>, c: Option<u32>| {
                let fits = |e: &&(u32, u32)| c.is_none_or(|c| g.channel_of(EblockId::new(e.1)) == c);
                free.iter().find(fits).copied()
            };
            let fresh = self.summary.len() as u32..g.eblock_count();
            let fresh_in = |c: Option<u32>| {
                let mut here = fresh.clone().take(g.channels() as usize);
                here.find(|e| c.is_none_or(|c| e % g.channels() == c)).map(|e| (0, e))
            };
            let best = |c: Option<u32>| {
                let recycled = free_in(&self.recycled, c);
                let others = free_in(&self.discarded, c).or_else(|| fresh_in(c));
                match (recycled, others) {
                    (Some(r), Some(o)) if r.0 > o.0 + WEAR_SPREAD => Some(o),
                    (r, o) => r.or(o),
                }
            };
            let Some(found @ (_, raw)) = best(Some(channel)).or_else(|| best(None)) else { return Ok(None) };
            let e = EblockId::new(raw);
            let erased = medium.erase(e);
            self.recycled.remove(&found);
            self.discarded.remove(&found);
            if raw >= fresh.start {
                self.discarded.extend((fresh.start..raw).map(|r| (0, r)));
            }
            match erased {
                Ok(generation) => {
                    let d = self.summary.edit(e);
                    assert!(d.state == State::Free && d.is_empty(), "{e:?} is taken while it is {d:?}");
                    d.generation = generation;
                    d.erase_count = d.erase_count.saturating_add(1);
                    d.data_end = 0;
                    d.metadata = 0;
                    return Ok(Some((e, generation)));
                }
                Err(err) if err.is_erase_failure() => {
                    self.summary.set_state(e, State::Retired);
                    self.changes.push(Record::Retired { eblock: e });
                }
                Err(err) => {
                    self.recycled.insert(found);
                    return Err(err.into());
                }
            }
        }
    }

    fn opened(&mut self, e: EblockId, stream: Stream, lane: u16) {
        let d = self.summary.get(e);
        let (generation, erase_count, age) = (d.generation, d.erase_count, d.age);
        self.changes.push(Record::Opened { eblock: e, generation, stream, lane, erase_count, age });
    }

    /// An erased EBLOCK for the log, if one is free.
    pub(crate) fn take_for_log(
        &mut self,
        medium: &Medium,
    ) -> Result<Option<(EblockId, Generation)>, FirmwareError> {
        let taken = self.take(medium, 0)?;
        if let Some((e, _)) = taken {
            self.summary.set_state(e, State::Log);
            self.opened(e, Stream::Log, 0);
        }
        Ok(taken)
    }

    /// Opens an EBLOCK for a lane that has none.
    pub(crate) fn open(&mut self, medium: &Medium, stream: Stream, lane: u16) -> Result<(), FirmwareError> {
        let full = || FirmwareError::Full {
            path: medium.path().into(),
            what: if stream == Stream::Drive { "the drive's own pages" } else { "pages" },
        };
        let (eblock, _) = self.take(medium, lane.into())?.ok_or_else(full)?;
        self.summary.set_state(eblock, State::Open { stream, lane });
        self.summary.edit(eblock).age = self.clock;
        self.metadata.insert(eblock, Vec::new());
        self.metadata_changed = true;
        self.opened(eblock, stream, lane);
        let before = self.open.insert((stream, lane), Open { eblock, position: 0 });
        assert!(before.is_none(), "a lane has one open EBLOCK a stream");
        Ok(())
    }

    /// Provisions the open EBLOCK of a lane up to WBLOCK `end`, for pages of these words.
    pub(crate) fn extend(
        &mut self,
        stream: Stream,
        lane: u16,
        end: u32,
        words: impl Iterator<Item = u64>,
    ) -> EblockId {
        let o = self.open.get_mut(&(stream, lane)).expect("the lane has an open EBLOCK");
        o.position = end;
        let eblock = o.eblock;
        let all = self.metadata.get_mut(&eblock).expect("an open EBLOCK's metadata is in memory");
        let before = all.len();
        all.extend(words);
        self.metadata_words += (all.len() - before) as u64;
        self.metadata_changed = true;
        let clock = self.clock;
        let d = self.summary.edit(eblock);
        d.data_end = end;
        if matches!(stream, Stream::UserHot | Stream::UserCold) {
            d.age = clock;
        }
        eblock
    }

    /// Names a page that lies in an EBLOCK, where its metadata is in memory.
    pub(crate) fn name(&mut self, e: EblockId, word: u64) {
        if let Some(words) = self.metadata.get_mut(&e) {
            words.push(word);
            self.metadata_words += 1;
            self.metadata_changed = true;
        }
    }

    /// Mixes the age of `bytes` bytes that GC brings into the age of the EBLOCKs that it brings them to.
    pub(crate) fn mix_age(&mut self, stream: Stream, age: u64, bytes: u64) {
        for lane in 0..self.lanes() {
            let Some(o) = self.open.get(&(stream, lane)).copied() else { continue };
            let held = u64::from(o.position) * u64::from(self.geometry.wblock_bytes());
            let d = self.summary.edit(o.eblock);
            let mixed = u128::from(d.age) * u128::from(held) + u128::from(age) * u128::from(bytes);
            d.age = if held == 0 { age } else { (mixed / u128::from(held + bytes)) as u64 };
        }
    }

    /// Closes the open EBLOCK of a lane; its metadata is to be programmed.
    pub(crate) fn close(&mut self, stream: Stream, lane: u16) -> Option<Job> {
        let Open { eblock, position } = self.open.remove(&(stream, lane))?;
        self.summary.set_state(eblock, State::Used { stream });
        self.summary.edit(eblock).closed = self.clock;
        assert_eq!(self.summary.get(eblock).data_end, position, "metadata follows the data of {eblock:?}");
        let mut words = &self.metadata[&eblock][..];
        if planted::is(Planted::MetadataShort) && words.len() > 1 {
            words = &words[..words.len() - 1];
        }
        if words.is_empty() {
            self.closed(eblock, 0);
            self.summary.note_if_empty(eblock);
            return None;
        }
        let bytes = metadata::encode(&self.geometry, eblock, self.summary.get(eblock).generation, words);
        Some(Job::Metadata { eblock, first: position, bytes })
    }

    /// The metadata of a closed EBLOCK is on the medium, in that many WBLOCKs.
    pub(crate) fn closed(&mut self, e: EblockId, wblocks: u32) {
        // It may have been emptied, and let go, meanwhile.
        if !matches!(self.summary.get(e).state, State::Used { .. }) {
            return;
        }
        self.drop_metadata(e);
        let d = self.summary.edit(e);
        d.metadata = wblocks;
        let (data_end, end, age) = (d.data_end, d.data_end + wblocks, d.age);
        self.changes.push(Record::Closed { eblock: e, data_end, end, age });
    }

    /// A program in it failed: nothing more is written there, and what is live is to move away.
    pub(crate) fn fail(&mut self, e: EblockId) {
        if let Some(stream) = self.summary.get(e).stream() {
            self.open.retain(|_, o| o.eblock != e);
            self.summary.set_state(e, State::Failed { stream });
            self.summary.note_if_empty(e);
        }
    }

    /// Takes back what was provisioned and not programmed: where nothing was provisioned behind it, its WBLOCKs are
    /// provisioned again; else the EBLOCK ends, and its space is GC's.
    pub(crate) fn give_back(&mut self, medium: &Medium, p: Provision) {
        for job in p.jobs.iter().rev() {
            match job {
                Job::Metadata { .. } => {}
                Job::Data { eblock, first, end, .. } => {
                    let next = medium.next_wblock(*eblock);
                    if next == self.geometry.wblocks_per_eblock() {
                        self.end(medium, *eblock);
                        continue;
                    }
                    if next >= *end {
                        continue;
                    }
                    let last = self.open.values_mut().find(|o| o.eblock == *eblock && o.position == *end);
                    match last {
                        Some(o) => {
                            o.position = next.max(*first);
                            let position = o.position;
                            self.summary.edit(*eblock).data_end = position;
                        }
                        None => self.end(medium, *eblock),
                    }
                }
            }
        }
        for e in p.eblocks {
            self.summary.leave(e);
        }
    }

    /// Ends an EBLOCK where it is: its metadata stays in memory, and with the drive's own pages.
    pub(crate) fn end(&mut self, medium: &Medium, e: EblockId) {
        medium.set_next_wblock(e, self.geometry.wblocks_per_eblock());
        if let State::Open { stream, .. } = self.summary.get(e).state {
            self.open.retain(|_, o| o.eblock != e);
            self.summary.set_state(e, State::Used { stream });
            self.summary.note_if_empty(e);
            self.ended += 1;
        }
    }

    /// Gives up the open EBLOCKs of a stream after the file system had no space for what came next in them, if there are
    /// erased ones whose space is there: false when there are none.
    pub(crate) fn give_up_open(&mut self, medium: &Medium, stream: Stream) -> bool {
        let open: Vec<_> =
            self.open.iter().filter(|((s, _), _)| *s == stream).map(|(_, o)| o.eblock).collect();
        if self.recycled.is_empty() || open.is_empty() {
            return false;
        }
        open.into_iter().for_each(|e| self.end(medium, e));
        true
    }

    /// Lets an EBLOCK go that nobody needs since log page `lsn`: it is free once the reads under way have ended, and a
    /// later page of the log says that this one was durable. Until then a recovery may end the log before it.
    pub(crate) fn release(&mut self, epochs: &Epochs, e: EblockId, lsn: u64) {
        self.drop_metadata(e);
        self.summary.set_state(e, State::Limbo);
        self.limbo.push_back(Released { eblock: e, epoch: epochs.retire(), lsn });
    }

    /// How many EBLOCKs failed or ended so far: what a summary that was written before does not know.
    pub(crate) fn mishaps(&self) -> (u32, u64) {
        (self.summary.retired(), self.ended)
    }

    /// Never uses an EBLOCK again, of which nothing is needed.
    pub(crate) fn retire(&mut self, e: EblockId) {
        self.drop_metadata(e);
        self.summary.set_state(e, State::Retired);
        self.changes.push(Record::Retired { eblock: e });
    }

    /// Frees EBLOCKs that nobody reads any more, where the log up to page `proven` is known durable. The space of
    /// `kept_most` at most is kept; that of others goes back to the file system.
    pub(crate) fn free_released(
        &mut self,
        medium: &Medium,
        epochs: &Epochs,
        proven: u64,
        kept_most: u32,
    ) -> Result<(), FirmwareError> {
        while let Some(&Released { eblock: e, epoch, lsn }) = self.limbo.front() {
            if lsn > proven || !epochs.passed(epoch) {
                break;
            }
            self.limbo.pop_front();
            medium.forget(e);
            self.summary.set_state(e, State::Free);
            self.recycled.insert((self.summary.get(e).erase_count, e.raw()));
        }
        self.give_back_step(medium, kept_most)
    }

    /// Whether the next EBLOCK to be free waits for the log to say that page `proven` was followed by others.
    pub(crate) fn waits_for_proof(&self, proven: u64) -> bool {
        self.limbo.front().is_some_and(|r| r.lsn > proven)
    }

    /// EBLOCKs that wait for reads to end, or for the log.
    pub(crate) fn released(&self) -> u32 {
        self.limbo.len() as u32
    }

    /// Replays a change of an EBLOCK.
    pub(crate) fn replay(&mut self, r: &Record) -> Result<(), &'static str> {
        let on_medium = |e: EblockId| e.raw() < self.geometry.eblock_count();
        match *r {
            Record::Opened { eblock, generation, stream, lane, erase_count, age } => {
                let erase_count = if planted::is(Planted::EraseCountLost) { 0 } else { erase_count };
                if !on_medium(eblock) || lane >= self.lanes() {
                    return Err("an EBLOCK beyond the medium is opened");
                }
                if self.summary.get(eblock).live != 0 {
                    return Err("an EBLOCK is opened that is still needed");
                }
                let state = match stream {
                    Stream::Log => State::Free,
                    stream => State::Open { stream, lane },
                };
                let d = Descriptor {
                    state,
                    generation,
                    erase_count,
                    age,
                    data_end: 0,
                    metadata: 0,
                    ..self.summary.get(eblock)
                };
                self.summary.replace(eblock, d);
            }
            Record::Closed { eblock, data_end, end, age } => {
                let stream = self.summary.get(eblock).stream();
                let (Some(stream), true) =
                    (stream, data_end <= end && end <= self.geometry.wblocks_per_eblock())
                else {
                    return Err("an EBLOCK is closed that is not open");
                };
                self.summary.set_state(eblock, State::Used { stream });
                let d = self.summary.edit(eblock);
                (d.data_end, d.metadata, d.age) = (data_end, end - data_end, age);
            }
            Record::Retired { eblock } if on_medium(eblock) => {
                if self.summary.get(eblock).live != 0 {
                    return Err("an EBLOCK is retired that is still needed");
                }
                self.summary.set_state(eblock, State::Retired);
            }
            _ => return Err("an EBLOCK beyond the medium is retired"),
        }
        Ok(())
    }

    /// Every EBLOCK is in one place, and that is the one that its state says.
    pub(crate) fn check_invariants(&self, medium: &Medium) {
        self.summary.check_invariants(&self.geometry);
        assert_eq!(self.metadata_words, Self::words_of(&self.metadata), "words of metadata");
        let free: BTreeSet<u32> = self.recycled.iter().chain(&self.discarded).map(|f| f.1).collect();
        assert_eq!(free.len(), self.recycled.len() + self.discarded.len(), "an EBLOCK is free twice");
        let limbo: BTreeSet<u32> = self.limbo.iter().map(|l| l.eblock.raw()).collect();
        let open: BTreeSet<u32> = self.open.values().map(|o| o.eblock.raw()).collect();
        assert_eq!(open.len(), self.open.len(), "an EBLOCK is open twice");
        for (e, d) in self.summary.all() {
            let raw = e.raw();
            assert_eq!(free.contains(&raw), d.state == State::Free, "{e:?} is free or not: {d:?}");
            assert_eq!(limbo.contains(&raw), d.state == State::Limbo, "{e:?} is in limbo or not: {d:?}");
            assert_eq!(
                open.contains(&raw),
                matches!(d.state, State::Open { .. }),
                "{e:?} is open or not: {d:?}"
            );
            if matches!(d.state, State::Used { .. } | State::Failed { .. }) && d.live > 0 && d.metadata == 0 {
                assert!(self.metadata.contains_key(&e), "the metadata of {e:?} is nowhere: {d:?}");
            }
        }
        for (&(stream, lane), o) in &self.open {
            let d = self.summary.get(o.eblock);
            assert_eq!(d.state, State::Open { stream, lane }, "{:?}", o.eblock);
            assert!(self.metadata.contains_key(&o.eblock), "the metadata of {:?} is nowhere", o.eblock);
            assert!(
                medium.next_wblock(o.eblock) <= o.position,
                "{:?} was programmed beyond its end",
                o.eblock
            );
        }
    }
}
