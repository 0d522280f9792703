//! The EBLOCKs: which are open, in use, free, or free soon; their lives from one erasure to the next.
//!
//! ```text
//!   free ─ take, erase ─► open ─ extend ─ close ─► used ─ release ─► limbo ─ reads ended, log proven ─► free
//!                           └─ a program failed ─► failed ─ its pages moved ─► retired
//! ```
//!
//! A log page is *proven* once a later log page or a checkpoint records that it is durable: no recovery ends the log before
//! it.
//!
//! Invariants: an EBLOCK is erased only when no page in it is live, pinned or being read. EBLOCKs that are opened, closed or
//! retired are logged with the next group (`changes`). The names of the pages in an EBLOCK are in memory until its metadata
//! is on the medium.
//!
//! Source: ELEOS §III-B, §IV-A, §VII.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lode_base::epochs::Epochs;
use lode_base::{CELL_BYTES, EblockId, Geometry};
use lode_flash::{FirstGroup, Generation, Medium};

use super::free::{DISCARDED_PER_STEP, FreeEblocks};
use super::lanes::Lanes;
use super::metadata;
use super::plan::{Job, Provision};
use super::summary::{Descriptor, SUMMARY_PIECE_EBLOCKS, State, Summary};
use super::unwritten::{Unwritten, Words};
use crate::FirmwareError;
use crate::codec::{Malformed, Take};
use crate::entry::Entry;
use crate::planted::at;
use crate::record::Record;
use crate::stream::{GC_CLASSES, Stream};

/// An open EBLOCK.
#[derive(Clone, Copy, Debug)]
struct Open {
    eblock: EblockId,
    /// The WBLOCK that is provisioned next.
    position: u32,
}

/// An EBLOCK of which nothing is needed since log page `lsn`.
#[derive(Clone, Copy, Debug)]
struct Released {
    eblock: EblockId,
    epoch: u64,
    lsn: u64,
}

/// The EBLOCKs of a drive.
pub(crate) struct Eblocks {
    geometry: Geometry,
    summary: Summary,
    /// The open EBLOCK of each stream and lane.
    open: BTreeMap<(Stream, u16), Open>,
    unwritten: Unwritten,
    free: FreeEblocks,
    limbo: VecDeque<Released>,
    /// EBLOCKs in use of which the file space behind their end was given back. They take space again only as they are filled.
    given_back: BTreeSet<EblockId>,
    lanes: Lanes,
    /// Records of EBLOCKs that changed since the last log group. The next group takes them.
    changes: Vec<Record>,
    /// Cells that batches wrote so far. This is the clock of ages: an age is the time of a write.
    clock: u64,
    /// EBLOCKs that were closed early, without metadata on the medium.
    ended: u64,
    /// Approximate number of EBLOCKs that cannot be emptied, because something in them cannot be read.
    stuck: u32,
}

/// What the EBLOCKs hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// EBLOCKs that are not free: open, used, failed, of the log, in limbo, and retired.
    pub(crate) used: u32,
    /// Erasures of the least and the most worn EBLOCK that was ever used.
    pub(crate) erase_counts: (u32, u32),
    /// Bytes programmed for pages of batches, live or not.
    pub(crate) data_bytes: u64,
}

impl Eblocks {
    pub(crate) fn new(g: &Geometry) -> Self {
        Self {
            geometry: *g,
            summary: Summary::new(g),
            open: BTreeMap::new(),
            unwritten: Unwritten::default(),
            free: FreeEblocks::default(),
            limbo: VecDeque::new(),
            given_back: BTreeSet::new(),
            lanes: Lanes::new(g),
            changes: Vec::new(),
            clock: 0,
            ended: 0,
            stuck: 0,
        }
    }

    #[inline]
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Channels that are written side by side.
    #[inline]
    pub(crate) fn lanes(&self) -> u16 {
        self.lanes.count() as u16
    }

    #[inline]
    pub(super) fn filling(&self) -> &Lanes {
        &self.lanes
    }

    #[inline]
    pub(super) fn filling_mut(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Counts bytes that the log wrote to a channel.
    pub(crate) fn log_took(&mut self, channel: u32, bytes: u64) {
        self.lanes.took(channel as usize, bytes);
    }

    /// Cells that batches wrote so far.
    #[inline]
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// Sets the clock as recovery found it.
    pub(crate) fn set_clock(&mut self, cells: u64) {
        self.clock = cells;
    }

    /// Advances the clock of ages by the cells of a page that a batch writes.
    #[inline]
    pub(crate) fn advance_clock(&mut self, page: Entry) {
        self.clock += u64::from(page.cells_bytes()) / CELL_BYTES as u64;
    }

    #[inline]
    pub(crate) fn descriptor(&self, e: EblockId) -> Descriptor {
        self.summary.get(e)
    }

    /// The descriptors of all EBLOCKs that were ever used.
    #[inline]
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (EblockId, &Descriptor)> {
        self.summary.all()
    }

    /// Approximate number of EBLOCKs that were ever used. Those with higher numbers are fresh.
    pub(crate) fn used_ever(&self) -> u32 {
        self.summary.len() as u32
    }

    /// Bytes that the newest state needs.
    #[inline]
    pub(crate) fn live_bytes(&self) -> u64 {
        self.summary.live_bytes()
    }

    /// Bytes that only views, or the checkpoint on the medium, need.
    #[inline]
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.summary.pinned_bytes()
    }

    /// EBLOCKs that are never used again, or will not be once they are empty.
    #[inline]
    pub(crate) fn retired(&self) -> u32 {
        self.summary.retired()
    }

    /// Approximate number of EBLOCKs that cannot be emptied.
    pub(crate) fn stuck(&self) -> u32 {
        self.stuck
    }

    pub(crate) fn set_stuck(&mut self, eblocks: u32) {
        self.stuck = eblocks;
    }

    /// An EBLOCK from which more live bytes were subtracted than its descriptor counted. The summary on the image and the
    /// mapping disagree: the image is damaged.
    #[inline]
    pub(crate) fn miscounted(&self) -> Option<EblockId> {
        self.summary.miscounted()
    }

    /// The counts of EBLOCKs that failed and that were closed early. If they change while a checkpoint writes the summary,
    /// that summary is out of date.
    pub(crate) fn mishaps(&self) -> (u32, u64) {
        (self.summary.retired(), self.ended)
    }

    pub(crate) fn usage(&self) -> Usage {
        let all = || self.summary.all().map(|(_, d)| d);
        let of_batches = |d: &&Descriptor| d.stream().is_some_and(|s| s != Stream::Drive);
        let data_wblocks: u64 = all().filter(of_batches).map(|d| u64::from(d.data_end)).sum();
        let wear = || all().map(|d| d.erase_count);
        Usage {
            used: all().filter(|d| d.state != State::Free).count() as u32,
            erase_counts: (wear().min().unwrap_or(0), wear().max().unwrap_or(0)),
            data_bytes: data_wblocks * u64::from(self.geometry.wblock_bytes()),
        }
    }
}

/// Live and pinned bytes of EBLOCKs. An inlined page lies in no EBLOCK, so these functions ignore it.
impl Eblocks {
    /// Counts a page that the newest state names as live.
    #[inline]
    pub(crate) fn add_live(&mut self, page: Entry) {
        if let Some(e) = page.eblock(&self.geometry) {
            self.summary.add_live(e, page.cells_bytes());
        }
    }

    /// Subtracts live bytes of an EBLOCK that the newest state no longer needs.
    #[inline]
    pub(crate) fn sub_live(&mut self, e: EblockId, bytes: u32) {
        self.summary.sub_live(e, bytes);
    }

    /// Counts a page as pinned that only a view, or the checkpoint on the medium, still needs.
    #[inline]
    pub(crate) fn pin(&mut self, page: Entry) {
        if let Some(e) = page.eblock(&self.geometry) {
            self.summary.pin(e, page.cells_bytes());
        }
    }

    /// Subtracts a pinned page that no view and no checkpoint needs any more.
    #[inline]
    pub(crate) fn unpin(&mut self, page: Entry) {
        if let Some(e) = page.eblock(&self.geometry) {
            self.summary.unpin(e, page.cells_bytes());
        }
    }

    /// Marks an EBLOCK as in use by an action or by the GC mover, so that it is not released.
    #[inline]
    pub(crate) fn enter(&mut self, e: EblockId) {
        self.summary.enter(e);
    }

    /// Ends one use that [`Eblocks::enter`] marked.
    #[inline]
    pub(crate) fn leave(&mut self, e: EblockId) {
        self.summary.leave(e);
    }

    /// Whether EBLOCKs may have nothing left that is needed, or wait to be free.
    #[inline]
    pub(crate) fn may_reclaim(&self) -> bool {
        self.summary.has_empty() || !self.limbo.is_empty()
    }

    /// Releases all EBLOCKs of which nothing is needed since log page `lsn`: failed ones are retired, others go to limbo.
    /// Returns whether one went to limbo.
    pub(crate) fn release_empty(&mut self, epochs: &Epochs, lsn: u64) -> bool {
        let mut released = false;
        for e in self.summary.take_empty() {
            let d = self.summary.get(e);
            match d.state {
                _ if !d.is_empty() => {}
                State::Used { .. } => {
                    self.release(epochs, e, lsn);
                    released = true;
                }
                State::Failed { .. } => at!(FailedReused => self.release(epochs, e, lsn), self.retire(e)),
                _ => {}
            }
        }
        released
    }

    /// Releases an EBLOCK of which nothing is needed since log page `lsn`. It becomes free when the reads under way have
    /// ended and log page `lsn` is proven. Before that, a recovery may end the log before `lsn`, and would then need the
    /// pages of the EBLOCK.
    pub(crate) fn release(&mut self, epochs: &Epochs, e: EblockId, lsn: u64) {
        self.unwritten.drop_of(e);
        self.summary.set_state(e, State::Limbo);
        self.limbo.push_back(Released { eblock: e, epoch: epochs.retire(), lsn });
    }

    /// Releases EBLOCKs of the log, except retired ones.
    pub(crate) fn release_log(&mut self, epochs: &Epochs, eblocks: Vec<EblockId>) {
        for e in eblocks {
            if self.summary.get(e).state != State::Retired {
                self.release(epochs, e, 0);
            }
        }
    }

    /// Retires an EBLOCK of which nothing is needed: it is never used again.
    pub(crate) fn retire(&mut self, e: EblockId) {
        self.unwritten.drop_of(e);
        self.summary.set_state(e, State::Retired);
        self.changes.push(Record::Retired { eblock: e });
    }

    /// Frees EBLOCKs in limbo that no read uses any more; `proven` is the last proven log page. At most `kept_most` erased
    /// EBLOCKs keep their space in the image file; the space of others goes back to the file system.
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
            self.free.put((self.summary.get(e).erase_count, e.raw()));
        }
        self.discard_step(medium, kept_most)
    }

    /// One step of giving back file space of erased EBLOCKs, until only the allowed number keeps its space.
    fn discard_step(&mut self, medium: &Medium, kept_most: u32) -> Result<(), FirmwareError> {
        let surplus = self.free.surplus(self.summary.len(), kept_most);
        (0..surplus).try_for_each(|_| self.discard_one(medium))
    }

    fn discard_one(&mut self, medium: &Medium) -> Result<(), FirmwareError> {
        match self.free.discard_one() {
            Some(e) => Ok(medium.discard(e)?),
            None => Ok(()),
        }
    }

    /// Whether more than `most` erased EBLOCKs keep their space in the image file.
    pub(crate) fn keeps_too_much(&self, most: u32) -> bool {
        self.free.keeps_too_much(self.summary.len(), most)
    }

    /// One step of giving back file space at rest, until at most `kept_bytes` of erased space keep it: of erased EBLOCKs, then
    /// at the ends of used ones, which no page fitted, then behind what open EBLOCKs hold, and last behind `log`, where the log
    /// may go on. Returns whether there was something to give back.
    pub(crate) fn discard_at_rest(
        &mut self,
        medium: &Medium,
        kept_bytes: u64,
        log: impl Iterator<Item = (EblockId, u32)>,
    ) -> Result<bool, FirmwareError> {
        let g = self.geometry;
        let left = |end: u32| u64::from(g.wblocks_per_eblock() - end) * u64::from(g.wblock_bytes());
        let closed = |d: &Descriptor| matches!(d.state, State::Used { .. }) && d.metadata > 0;
        let used = self.summary.all().filter(|(_, d)| closed(d)).map(|(e, d)| (e, d.data_end + d.metadata));
        // What was ended early has its end elsewhere.
        let used = used.filter(|&(e, end)| medium.next_wblock(e) <= end);
        let open = self.open.values().map(|o| (o.eblock, o.position));
        let is_kept = |&(e, end): &(EblockId, u32)| left(end) > 0 && !self.given_back.contains(&e);
        let ends: Vec<_> = used.chain(open).chain(log).filter(is_kept).collect();
        let mut at_ends: u64 = ends.iter().map(|&(_, end)| left(end)).sum();
        let most = kept_bytes.saturating_sub(at_ends) / u64::from(g.eblock_bytes());
        let surplus = self.free.surplus(self.summary.len(), u32::try_from(most).unwrap_or(u32::MAX));
        (0..surplus).try_for_each(|_| self.discard_one(medium))?;
        let mut gave = surplus > 0;
        for (e, end) in ends.into_iter().take(DISCARDED_PER_STEP) {
            if at_ends <= kept_bytes {
                break;
            }
            medium.discard_behind(e, end, FirstGroup::GoesToo)?;
            self.given_back.insert(e);
            at_ends -= left(end);
            gave = true;
        }
        Ok(gave)
    }

    /// Gives back the file space of all EBLOCKs that hold nothing. Called when nothing more will be written.
    pub(crate) fn discard_all(&mut self, medium: &Medium) -> Result<(), FirmwareError> {
        while !self.free.has_no_recycled() {
            self.discard_one(medium)?;
        }
        let stays = FirstGroup::Stays;
        self.open.values().try_for_each(|o| Ok(medium.discard_behind(o.eblock, o.position, stays)?))
    }

    /// Whether the first EBLOCK in limbo waits until its log page is proven; `proven` is the last proven page.
    pub(crate) fn waits_for_proof(&self, proven: u64) -> bool {
        self.limbo.front().is_some_and(|r| r.lsn > proven)
    }

    /// EBLOCKs in limbo: they wait for reads to end, or for the log.
    #[inline]
    pub(crate) fn released(&self) -> u32 {
        self.limbo.len() as u32
    }

    /// EBLOCKs that can be opened now.
    #[inline]
    pub(crate) fn free_eblocks(&self) -> u32 {
        let fresh = self.geometry.eblock_count() - self.summary.len() as u32;
        self.free.len() as u32 + fresh
    }
}

/// Opening, filling and closing.
impl Eblocks {
    /// Takes the least worn free EBLOCK that fits, if there is one, and erases it. One that cannot be erased is retired.
    fn take(
        &mut self,
        medium: &Medium,
        channel: u32,
    ) -> Result<Option<(EblockId, Generation)>, FirmwareError> {
        let g = self.geometry;
        loop {
            let fresh = self.summary.len() as u32..g.eblock_count();
            let Some(found) = self.free.best(&g, &fresh, channel) else { return Ok(None) };
            let e = EblockId::new(found.1);
            let erased = medium.erase(e);
            self.free.take(found, &fresh);
            self.given_back.remove(&e);
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
                    self.free.put(found);
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
    pub(super) fn open(&mut self, medium: &Medium, stream: Stream, lane: u16) -> Result<(), FirmwareError> {
        let full = || FirmwareError::Full {
            path: medium.path().into(),
            what: if stream == Stream::Drive { "the drive's own pages" } else { "pages" },
        };
        let (eblock, _) = self.take(medium, lane.into())?.ok_or_else(full)?;
        self.summary.set_state(eblock, State::Open { stream, lane });
        self.summary.edit(eblock).age = self.clock;
        self.unwritten.open(eblock);
        self.opened(eblock, stream, lane);
        let before = self.open.insert((stream, lane), Open { eblock, position: 0 });
        assert!(before.is_none(), "a lane has one open EBLOCK a stream");
        Ok(())
    }

    /// The next WBLOCK of the open EBLOCK of a lane, and the pages in it.
    pub(super) fn position(&self, stream: Stream, lane: u16) -> Option<(u32, usize)> {
        self.open.get(&(stream, lane)).map(|o| (o.position, self.unwritten.len_of(o.eblock)))
    }

    /// Provisions the open EBLOCK of a lane up to WBLOCK `end`, for pages with these metadata entries (a u64 that names a
    /// page).
    pub(super) fn extend(
        &mut self,
        stream: Stream,
        lane: u16,
        end: u32,
        words: impl Iterator<Item = u64>,
    ) -> EblockId {
        let o = self.open.get_mut(&(stream, lane)).expect("the lane has an open EBLOCK");
        o.position = end;
        let eblock = o.eblock;
        assert!(self.unwritten.name(eblock, words), "an open EBLOCK's metadata is in memory");
        let clock = self.clock;
        let d = self.summary.edit(eblock);
        d.data_end = end;
        if matches!(stream, Stream::UserHot | Stream::UserCold) {
            d.age = clock;
        }
        eblock
    }

    /// Closes the open EBLOCK of a lane; its metadata is to be programmed.
    pub(super) fn close(&mut self, stream: Stream, lane: u16) -> Option<Job> {
        let Open { eblock, position } = self.open.remove(&(stream, lane))?;
        self.summary.set_state(eblock, State::Used { stream });
        self.summary.edit(eblock).closed = self.clock;
        assert_eq!(self.summary.get(eblock).data_end, position, "metadata follows the data of {eblock:?}");
        let words = self.unwritten.of(eblock).expect("an open EBLOCK's metadata is in memory");
        if words.is_empty() {
            self.closed(eblock, 0);
            self.summary.note_if_empty(eblock);
            return None;
        }
        let words = at!(MetadataShort => &words[..(words.len() - 1).max(1)], words);
        let bytes = metadata::encode(&self.geometry, eblock, self.summary.get(eblock).generation, words);
        Some(Job::Metadata { eblock, first: position, bytes })
    }

    /// Records that the metadata of a closed EBLOCK is on the medium, in that many WBLOCKs.
    pub(crate) fn closed(&mut self, e: EblockId, wblocks: u32) {
        // It may have been emptied and released meanwhile.
        if !matches!(self.summary.get(e).state, State::Used { .. }) {
            return;
        }
        self.unwritten.drop_of(e);
        let d = self.summary.edit(e);
        d.metadata = wblocks;
        let (data_end, end, age) = (d.data_end, d.data_end + wblocks, d.age);
        self.changes.push(Record::Closed { eblock: e, data_end, end, age });
    }

    /// Records that a program in an EBLOCK failed: nothing more is written there, and its live pages must move.
    pub(crate) fn fail(&mut self, e: EblockId) {
        if let Some(stream) = self.summary.get(e).stream() {
            self.open.retain(|_, o| o.eblock != e);
            self.summary.set_state(e, State::Failed { stream });
            self.summary.note_if_empty(e);
        }
    }

    /// Takes back WBLOCKs that were provisioned but not programmed. If they are the last of their EBLOCK, they are available
    /// again. Otherwise the EBLOCK is closed early, and GC reclaims the space later.
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

    /// Closes an open EBLOCK early, at its current position. Its metadata is not programmed: it stays in memory, and
    /// checkpoints write it with the drive's own pages.
    pub(crate) fn end(&mut self, medium: &Medium, e: EblockId) {
        medium.set_next_wblock(e, self.geometry.wblocks_per_eblock());
        if let State::Open { stream, .. } = self.summary.get(e).state {
            self.open.retain(|_, o| o.eblock != e);
            self.summary.set_state(e, State::Used { stream });
            self.summary.note_if_empty(e);
            self.ended += 1;
        }
    }

    /// Closes the open EBLOCKs of a stream early, after the file system reported no space. Returns false if none is open, or
    /// if no erased EBLOCK that has its file space could replace them.
    pub(crate) fn give_up_open(&mut self, medium: &Medium, stream: Stream) -> bool {
        let open: Vec<_> =
            self.open.iter().filter(|((s, _), _)| *s == stream).map(|(_, o)| o.eblock).collect();
        if self.free.has_no_recycled() || open.is_empty() {
            return false;
        }
        open.into_iter().for_each(|e| self.end(medium, e));
        true
    }

    /// Bytes that the open EBLOCKs of a stream still take.
    pub(super) fn left_bytes(&self, stream: Stream) -> u64 {
        let wblocks = |o: &Open| {
            let metadata = metadata::wblocks(&self.geometry, self.unwritten.len_of(o.eblock) + 1);
            self.geometry.wblocks_per_eblock().saturating_sub(o.position + metadata)
        };
        let open = self.open.range((stream, 0)..=(stream, u16::MAX)).map(|(_, o)| wblocks(o));
        open.map(u64::from).sum::<u64>() * u64::from(self.geometry.wblock_bytes())
    }
}

/// Streams of GC.
impl Eblocks {
    /// The GC stream whose age is nearest to `age`. With `may_open`, an unused stream, if the nearest differs by more than
    /// half of the time since `age`.
    pub(crate) fn gc_stream(&self, age: u64, may_open: bool) -> Stream {
        let of = |class: u8| self.gc_class_age(class).map(|of| of.abs_diff(age));
        let nearest = (0..GC_CLASSES).filter_map(|c| Some((of(c)?, c))).min();
        let unused = (0..GC_CLASSES).find(|&c| of(c).is_none());
        match (nearest, unused) {
            (Some((distance, _)), Some(class)) if may_open && distance > self.clock.abs_diff(age) / 2 => {
                Stream::Gc(class)
            }
            (Some((_, class)), _) | (None, Some(class)) => Stream::Gc(class),
            (None, None) => unreachable!("a class is open or it is not"),
        }
    }

    /// The age of a GC stream, if its EBLOCK is open.
    pub(crate) fn gc_class_age(&self, class: u8) -> Option<u64> {
        let open = self.open.iter().find(|((s, _), _)| *s == Stream::Gc(class));
        open.map(|(_, o)| self.summary.get(o.eblock).age)
    }

    /// Updates the age of the open EBLOCKs of a GC stream to the average, weighted by bytes, with `bytes` bytes of age
    /// `age`.
    pub(crate) fn mix_age(&mut self, stream: Stream, age: u64, bytes: u64) {
        for lane in 0..self.lanes() {
            let Some(o) = self.open.get(&(stream, lane)).copied() else { continue };
            let held = u64::from(o.position) * u64::from(self.geometry.wblock_bytes());
            let d = self.summary.edit(o.eblock);
            let mixed = u128::from(d.age) * u128::from(held) + u128::from(age) * u128::from(bytes);
            d.age = if held == 0 { age } else { (mixed / u128::from(held + bytes)) as u64 };
        }
    }
}

/// What the log and the checkpoint keep of EBLOCKs.
impl Eblocks {
    /// Records for the next log group; they go with it.
    pub(crate) fn take_changes(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.changes)
    }

    /// Puts back the records of a group that was not written, before all later ones.
    pub(crate) fn restore_changes(&mut self, changes: Vec<Record>) {
        self.changes.splice(0..0, changes);
    }

    /// How many records wait for the next group.
    #[inline]
    pub(crate) fn changes_count(&self) -> usize {
        self.changes.len()
    }

    /// Records that a checkpoint from which replay begins at page `lsn` is durable; the next group logs it.
    pub(crate) fn checkpointed(&mut self, lsn: u64) {
        self.changes.push(Record::Checkpointed { lsn });
    }

    /// The metadata of an EBLOCK, while it is in memory.
    pub(crate) fn unwritten_of(&self, e: EblockId) -> Option<&[u64]> {
        self.unwritten.of(e)
    }

    /// Words of all metadata that is in memory.
    pub(super) fn unwritten_words(&self) -> u64 {
        self.unwritten.count()
    }

    /// All metadata that is in memory.
    pub(crate) fn unwritten(&self) -> &Words {
        self.unwritten.all()
    }

    /// The table of metadata that is in memory, if it changed; it counts as written from now on.
    pub(crate) fn take_changed_unwritten(&mut self) -> Option<Vec<u8>> {
        self.unwritten.take_changed()
    }

    /// Marks that table as to be written again.
    pub(crate) fn mark_unwritten_changed(&mut self) {
        self.unwritten.mark_changed();
    }

    /// The changed pieces of the summary: their numbers and bytes. They count as written from now on.
    pub(crate) fn take_changed_pieces(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.summary.take_dirty_pieces()
    }

    /// Marks a piece of the summary as to be written again.
    pub(crate) fn mark_piece_changed(&mut self, piece: usize) {
        self.summary.touch_piece(piece);
    }
}

/// Recovery.
impl Eblocks {
    /// Sets a piece of the summary as it was written.
    pub(crate) fn restore_piece(&mut self, piece: usize, bytes: &[u8]) -> Result<(), Malformed> {
        let t = &mut Take::new(bytes);
        let first = piece * SUMMARY_PIECE_EBLOCKS;
        let mut e = first;
        while t.left() > 0 {
            if e >= self.geometry.eblock_count() as usize || e == first + SUMMARY_PIECE_EBLOCKS {
                return Err(t.bad("more EBLOCKs than there are"));
            }
            let d = Descriptor::decode(t, &self.geometry)?;
            self.summary.replace(EblockId::new(e as u32), d);
            e += 1;
        }
        Ok(())
    }

    /// Sets the metadata that is not on the medium.
    pub(crate) fn restore_unwritten(&mut self, words: Words) {
        self.unwritten.restore(words);
    }

    /// Adds a page to the metadata of its EBLOCK, if that is in memory. `word` is the metadata entry.
    pub(crate) fn name(&mut self, e: EblockId, word: u64) {
        self.unwritten.name(e, std::iter::once(word));
    }

    /// Replays what happened to an EBLOCK.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn replay(&mut self, r: &Record) -> Result<(), &'static str> {
        let on_medium = |e: EblockId| e.raw() < self.geometry.eblock_count();
        match *r {
            Record::Opened { eblock, generation, stream, lane, erase_count, age } => {
                let erase_count = at!(EraseCountLost => 0, erase_count);
                if !on_medium(eblock) || lane >= self.lanes() {
                    return Err("an EBLOCK beyond the medium is opened");
                }
                if self.summary.get(eblock).live != 0 {
                    return Err("an EBLOCK is opened that is still needed");
                }
                let state = match stream {
                    // `replay_log` sets the state of those that the log still uses.
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
            _ => return Err("a record of an EBLOCK beyond the medium"),
        }
        Ok(())
    }

    /// Replays a change of an EBLOCK's live bytes: those added and those subtracted. Its pages reach up to WBLOCK `data_end`.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(crate) fn replay_live(
        &mut self,
        e: EblockId,
        added: u64,
        freed: u64,
        data_end: u32,
    ) -> Result<(), String> {
        let bytes = |n: u64| u32::try_from(n).map_err(|_| "too many bytes".to_owned());
        if added > 0 && self.summary.get(e).stream().is_none() {
            return Err(format!("pages lie in {e:?}, which is not open"));
        }
        self.summary.add_live(e, bytes(added)?);
        self.summary.sub_live(e, bytes(at!(LiveFreedTwice => freed * 2, freed))?);
        if added > 0 {
            let d = self.summary.edit(e);
            d.data_end = d.data_end.max(data_end);
        }
        if self.summary.get(e).live > self.geometry.eblock_bytes() {
            return Err(format!("more than fits lies in {e:?}"));
        }
        Ok(())
    }

    /// Replays that the log uses an EBLOCK.
    ///
    /// # Errors
    /// When it holds pages.
    pub(crate) fn replay_log(&mut self, e: EblockId) -> Result<(), String> {
        let d = self.summary.get(e);
        if d.live != 0 {
            return Err(format!("it goes through {e:?}, which holds pages"));
        }
        if d.state != State::Retired {
            self.summary.set_state(e, State::Log);
        }
        Ok(())
    }

    /// Records up to which WBLOCK an open EBLOCK was programmed.
    pub(crate) fn restore_end(&mut self, e: EblockId, end: u32) {
        self.summary.edit(e).data_end = end;
    }

    /// Sets the open and the free EBLOCKs as recovery found them. After a `clean` close, free EBLOCKs have no space in the
    /// file.
    pub(crate) fn restored(&mut self, medium: &Medium, clean: bool) {
        let summary = &self.summary;
        self.unwritten.retain(|e| {
            let d = summary.get(e);
            d.stream().is_some() && d.metadata == 0
        });
        let mut free = Vec::new();
        let all: Vec<_> = self.summary.all().map(|(e, d)| (e, *d)).collect();
        for (eblock, d) in all {
            match d.state {
                State::Open { stream, lane } => {
                    let position = medium.next_wblock(eblock);
                    let full = position + metadata::wblocks(&self.geometry, self.unwritten.len_of(eblock))
                        >= self.geometry.wblocks_per_eblock();
                    // An EBLOCK without metadata was released after it was opened. It holds nothing.
                    let gone = !self.unwritten.contains(eblock);
                    // Recovery writes own pages before it knows all names of those that lie in this one.
                    let own = stream == Stream::Drive && !clean;
                    // If two are open for one lane, the first one found stays open, and the other counts as used.
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
        self.free.restore(free, clean);
    }
}

impl Eblocks {
    /// Checks that every EBLOCK is in exactly the set that its state names.
    pub(crate) fn check_invariants(&self, medium: &Medium) {
        self.summary.check_invariants(&self.geometry);
        self.unwritten.check_invariants();
        let free = self.free.all();
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
                assert!(self.unwritten.contains(e), "the metadata of {e:?} is nowhere: {d:?}");
            }
        }
        for (&(stream, lane), o) in &self.open {
            let d = self.summary.get(o.eblock);
            assert_eq!(d.state, State::Open { stream, lane }, "{:?}", o.eblock);
            assert!(self.unwritten.contains(o.eblock), "the metadata of {:?} is nowhere", o.eblock);
            assert!(
                medium.next_wblock(o.eblock) <= o.position,
                "{:?} was programmed beyond its end",
                o.eblock
            );
        }
    }
}

#[cfg(test)]
impl Eblocks {
    /// Makes an EBLOCK a used one with so many live bytes.
    pub(crate) fn pretend_used(&mut self, e: EblockId, live: u32) {
        self.summary.set_state(e, State::Used { stream: Stream::UserHot });
        let before = self.summary.get(e).live;
        self.summary.sub_live(e, before);
        self.summary.add_live(e, live);
    }

    /// Changes the state of an EBLOCK.
    pub(crate) fn pretend(&mut self, e: EblockId, state: State) {
        self.summary.set_state(e, state);
    }

    /// Changes fields of a descriptor on which no total depends.
    pub(crate) fn pretend_of(&mut self, e: EblockId, change: impl FnOnce(&mut Descriptor)) {
        change(self.summary.edit(e));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive of which `used` EBLOCKs are in use and `kept` are erased and kept.
    fn eblocks(used: u32, kept: u32) -> (Eblocks, Medium) {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 256).unwrap();
        let (m, mut s) = (Medium::memory(g), Eblocks::new(&g));
        for e in 0..used + kept {
            let e = EblockId::new(e);
            m.erase(e).unwrap();
            s.pretend(e, State::Used { stream: Stream::UserHot });
        }
        let epochs = Epochs::new(4);
        (used..used + kept).for_each(|e| s.release(&epochs, EblockId::new(e), 0));
        s.free_released(&m, &epochs, 0, u32::MAX).unwrap();
        (s, m)
    }

    #[test]
    fn a_quarter_of_what_is_in_use_is_kept_and_some() {
        let check = |used, kept, most, expected| {
            let (mut s, m) = eblocks(used, kept);
            for _ in 0..32 {
                s.discard_step(&m, most).unwrap();
                s.check_invariants(&m);
            }
            assert_eq!(s.free.recycled_count(), expected, "of {kept} beside {used}, {most} at most");
            assert_eq!(s.free_eblocks(), 256 - used, "all are free still");
        };
        check(0, 3, 32, 3);
        check(0, 40, 32, 4);
        check(20, 40, 32, 9);
        check(20, 40, 6, 6);
        check(20, 40, 0, 0);
        check(200, 50, 32, 32);
    }

    #[test]
    fn a_step_is_bounded_and_the_end_gives_all_back() {
        let (mut s, m) = eblocks(8, 40);
        let before = s.free.recycled_count();
        s.discard_step(&m, 0).unwrap();
        assert_eq!(s.free.recycled_count(), before - 8);
        s.discard_all(&m).unwrap();
        assert_eq!((s.free.recycled_count(), s.free_eblocks()), (0, 248));
        s.check_invariants(&m);
    }
}
