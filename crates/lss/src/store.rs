//! The store: a log of units in segments, and the mapping in memory.
//!
//! ```text
//!   batches ─► items ─► units at the head ─► packets ─► durable ─► installed in the mapping ─► answered
//!                          │                                           │
//!                          └ no room: checkpoint, cleaning             └ readers: look up, read, look whether it still lies there
//! ```
//!
//! Invariants: there is one writer at a time; a unit is durable before the next one is sent; a group becomes visible
//! after all its units are durable; a segment is written again only after a checkpoint that followed its cleaning.
//!
//! Source: Rosenblum and Ousterhout, TOCS 1992; Levandoski et al., LLAMA, PVLDB 2013; ELEOS §II-A, §IX-C.

use std::collections::BTreeSet;

use lode_base::{CommitNo, ExtentId, Lpid, OwnerId, PAGE_BYTES_LIMIT, PAGE_BYTES_MIN, PageBuf, ViewId};
use lode_command::{Align, Batch, CommandError, ExtentInfo, IndexedPage, PageRange, ReadRequest, Reply};
use parking_lot::{Mutex, RwLock};

use crate::blocks::{BLOCK_BYTES, Blocks};
use crate::layout::{Entry, FIRST_SEGMENT_LBA, Head, Header, Item, RecordKind, assemble, fit, unit};
use crate::map::Map;
use crate::{Cleaning, Clock, LssError, LssInfo, LssOptions};

/// If no more blocks than this are left in a segment, the next unit goes to the next segment.
pub(crate) const REST_BLOCKS: u32 = 4;
/// Free segments that are reserved for cleaning and checkpoints, in addition to the size of a checkpoint.
const RESERVE: usize = 4;
/// Once this many segments are cleaned, a checkpoint frees them.
const CLEANED_MAX: usize = 16;
/// The most times that a read starts again because its segment was freed.
const READ_TRIES: u32 = 64;

/// The state that only the writer uses.
pub(crate) struct Writer {
    pub(crate) head: Head,
    pub(crate) free: BTreeSet<u32>,
    /// Cleaned segments that are not yet free.
    pub(crate) cleaned: Vec<u32>,
    /// Bytes of log since the last checkpoint.
    pub(crate) since_checkpoint: u64,
    /// The number of the last checkpoint.
    pub(crate) checkpoint: u64,
    pub(crate) roots: Vec<Entry>,
    /// Allocated extents that are not yet in the log.
    pub(crate) allocated: Vec<(u64, OwnerId)>,
    /// The pages written to each segment, for the cleaner. `None` for a segment that was begun before the store was
    /// opened, and for every segment if the cleaner does not need the names.
    pub(crate) names: Vec<Option<Vec<(u64, Entry)>>>,
    pub(crate) read_only: Option<String>,
    pub(crate) info: LssInfo,
}

/// A log-structured store.
pub(crate) struct Store {
    pub(crate) blocks: Blocks,
    pub(crate) options: LssOptions,
    pub(crate) id: u64,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) map: RwLock<Map>,
}

impl Store {
    pub(crate) fn segment_bytes(&self) -> u64 {
        u64::from(self.options.segment_blocks) * BLOCK_BYTES as u64
    }

    /// The longest page. A segment holds at least two.
    pub(crate) fn page_bytes_max(&self) -> u32 {
        let most = self.segment_bytes() / 2;
        most.min(PAGE_BYTES_LIMIT as u64 - 64) as u32
    }

    /// The most bytes of pages that the store accepts.
    fn usable_bytes(&self, map: &Map) -> u64 {
        let segments = map.segments.len() as u64;
        let kept = (segments * u64::from(self.options.over_provision_percent) / 100)
            .max(self.reserve(map) as u64 + 2);
        segments.saturating_sub(kept) * self.segment_bytes()
    }

    /// The number of free segments that only cleaning and checkpoints may use.
    pub(crate) fn reserve(&self, map: &Map) -> usize {
        let map_bytes = map.extents.len() as u64 * (BLOCK_BYTES as u64 * 2 + 64);
        RESERVE + map_bytes.div_ceil(self.segment_bytes()) as usize
    }

    pub(crate) fn info(&self) -> LssInfo {
        let w = self.writer.lock();
        let map = self.map.read();
        LssInfo {
            segments: map.segments.len() as u32,
            segments_free: w.free.len() as u32,
            live_bytes: map.live_bytes,
            ..w.info
        }
    }

    /// Checks the invariants that hold between any two commands.
    pub(crate) fn check(&self) {
        let w = self.writer.lock();
        let map = self.map.read();
        map.check(&w.roots);
        for s in &w.free {
            let found = map.segments[*s as usize];
            assert!(found.first == 0 && found.live == 0, "segment {s} is free: {found:?}");
        }
        for s in &w.cleaned {
            assert!(map.segments[*s as usize].cleaned);
        }
    }

    /// Executes the valid batches as one atomic group, which is durable on return.
    pub(crate) fn write(&self, clock: &mut Clock, batches: Vec<Batch>) -> Vec<Result<Reply, CommandError>> {
        let mut w = self.writer.lock();
        if let Some(why) = &w.read_only {
            return batches.iter().map(|_| Err(CommandError::ReadOnly(why.clone()))).collect();
        }
        let mut answers: Vec<Result<(), CommandError>> = Vec::with_capacity(batches.len());
        let mut items = Vec::new();
        // Allocations are logged with the first batch after them.
        let allocated = std::mem::take(&mut w.allocated);
        let tell = |&(raw, owner): &(u64, OwnerId)| Item {
            kind: RecordKind::Allocate,
            name: raw,
            owner: owner.raw(),
            data: PageBuf::empty(),
        };
        if batches.iter().any(|b| !b.is_empty()) {
            items.extend(allocated.iter().map(tell));
        } else {
            w.allocated = allocated.clone();
        }
        let told = items.len();
        let mut ends = Vec::with_capacity(batches.len());
        for b in &batches {
            let checked = self.check_batch(b);
            if checked.is_ok() {
                self.items_of(b, &mut items);
            }
            answers.push(checked);
            ends.push(items.len());
        }
        let bytes: u64 = items.iter().map(|i| self.space_of(i)).sum();
        let commits = answers.iter().zip(&batches).filter(|(a, b)| a.is_ok() && !b.is_empty()).count() as u64;
        if items.len() > told || told > 0 {
            // Up to 4 KB are not checked against the usable space, so that small trims succeed in a full store.
            let done = self
                .make_room(&mut w, clock, bytes)
                .and_then(|()| self.append(&mut w, clock, &items, commits));
            match done {
                Ok(entries) => self.install(
                    &mut w,
                    clock,
                    &batches,
                    &mut answers,
                    &items[told..],
                    &entries[told..],
                    &ends,
                    told,
                ),
                Err(e) => {
                    w.allocated.splice(0..0, allocated);
                    return batches.iter().map(|_| Err(e.clone())).collect();
                }
            }
        }
        let user: usize = batches.iter().flat_map(|b| &b.writes).map(|p| p.data.len()).sum();
        w.info.user_bytes += user as u64;
        let replies: Vec<Result<Reply, CommandError>> = {
            let mut map = self.map.write();
            let mut next = map.commit - commits;
            let views = self.options.views_max as usize;
            let reply = |(answer, b): (Result<(), CommandError>, &Batch)| {
                answer.map(|()| {
                    next += u64::from(!b.is_empty());
                    // The batches of a group become visible together.
                    let view = b.pin.then(|| ViewId::new(map.open_view(views).0));
                    let commit = CommitNo::new(if b.pin { map.commit } else { next });
                    let pages = b.writes.iter().filter(|_| b.answer_entries);
                    Reply::Committed { commit, view, entries: pages.map(IndexedPage::unknown).collect() }
                })
            };
            answers.into_iter().zip(&batches).map(reply).collect()
        };
        if let Err(e) = self.maintain(&mut w, clock, bytes) {
            w.read_only = Some(e.to_string());
        }
        replies
    }

    #[allow(clippy::too_many_arguments, reason = "one caller")]
    fn install(
        &self,
        w: &mut Writer,
        clock: &mut Clock,
        batches: &[Batch],
        answers: &mut [Result<(), CommandError>],
        items: &[Item],
        entries: &[Entry],
        ends: &[usize],
        told: usize,
    ) {
        clock.computes(self.options.page_cost * items.len() as u64);
        let keeps_names = self.options.cleaning == Cleaning::CostBenefit;
        let mut map = self.map.write();
        let mut at = 0;
        for ((b, answer), end) in batches.iter().zip(answers).zip(ends) {
            if answer.is_err() || b.is_empty() {
                continue;
            }
            let commit = map.commit + 1;
            while at < end - told {
                let (item, entry) = (&items[at], entries[at]);
                match item.kind {
                    RecordKind::Page | RecordKind::PageAtBlock => {
                        map.put(lpid(item.name), entry, commit);
                        if keeps_names {
                            let segment = map.segment_of(entry);
                            w.names[segment].iter_mut().for_each(|n| n.push((item.name, entry)));
                        }
                    }
                    RecordKind::Trim => map.put(lpid(item.name), Entry::default(), commit),
                    RecordKind::Release => map.release(item.name, commit),
                    RecordKind::Allocate | RecordKind::Map | RecordKind::Root | RecordKind::Old => {
                        unreachable!("a batch has no such items")
                    }
                }
                at += 1;
            }
            map.commit = commit;
        }
    }

    fn check_batch(&self, b: &Batch) -> Result<(), CommandError> {
        let invalid = |what: String| Err(CommandError::Invalid(what));
        if b.session.is_some() {
            return invalid("a drive of blocks has no sessions".into());
        }
        let id = self.blocks.device().identity();
        let bytes = b.payload_bytes() as u64;
        if bytes > id.batch_bytes_max || b.writes.len() + b.trims.len() > id.batch_pages_max as usize {
            return invalid(format!("a batch of {bytes} bytes and {} pages is too large", b.writes.len()));
        }
        let map = self.map.read();
        let mut known = None;
        for p in &b.writes {
            let max = self.page_bytes_max() as usize;
            if !(PAGE_BYTES_MIN..=max).contains(&p.data.len()) {
                return invalid(format!(
                    "page {} of {} bytes; {PAGE_BYTES_MIN} to {max} are allowed",
                    p.lpid,
                    p.data.len()
                ));
            }
            let extent = p.lpid.extent();
            if known != Some(extent) && map.extent(extent).is_none() {
                return Err(CommandError::NoSuchExtent(extent));
            }
            known = Some(extent);
        }
        match b.releases.iter().find(|e| map.extent(**e).is_none()) {
            Some(e) => Err(CommandError::NoSuchExtent(*e)),
            None => Ok(()),
        }
    }

    fn items_of(&self, b: &Batch, items: &mut Vec<Item>) {
        let nothing = |kind, name| Item { kind, name, owner: 0, data: PageBuf::empty() };
        items.extend(b.writes.iter().map(|p| {
            let at_block = self.options.whole_blocks || p.align == Align::ReadUnit;
            let kind = if at_block { RecordKind::PageAtBlock } else { RecordKind::Page };
            Item { kind, name: p.lpid.raw(), owner: 0, data: p.data.clone() }
        }));
        items.extend(b.trims.iter().map(|l| nothing(RecordKind::Trim, l.raw())));
        items.extend(b.releases.iter().map(|e| nothing(RecordKind::Release, e.raw())));
    }

    /// The most bytes of log that an item takes.
    fn space_of(&self, i: &Item) -> u64 {
        let page = match i.kind {
            RecordKind::PageAtBlock => i.data.len().next_multiple_of(BLOCK_BYTES),
            k if k.has_bytes() => i.data.len().next_multiple_of(64),
            _ => 0,
        };
        page as u64 + 16
    }

    /// Writes items at the head, in as many units as needed, and waits until all are durable. Returns their places.
    ///
    /// # Errors
    /// If the drive fails: the store is then read-only until it is opened again. If no segment is free.
    pub(crate) fn append(
        &self,
        w: &mut Writer,
        clock: &mut Clock,
        items: &[Item],
        commits: u64,
    ) -> Result<Vec<Entry>, CommandError> {
        let commit = self.map.read().commit + commits;
        let mut entries = Vec::with_capacity(items.len());
        let mut left = items;
        while !left.is_empty() {
            let room = self.options.segment_blocks - w.head.block;
            let (mut offsets, mut end) = (Vec::new(), 0);
            if room > REST_BLOCKS {
                (offsets, end) = fit(left, room);
            }
            if offsets.is_empty() {
                self.next_segment(w)?;
                continue;
            }
            let now = &left[..offsets.len()];
            left = &left[offsets.len()..];
            let header = Header {
                last: left.is_empty(),
                store: self.id,
                sequence: w.head.sequence,
                commit,
                next: w.head.next,
                ..Header::default()
            };
            let blocks = unit(&header, now, &offsets, end);
            let base = u64::from(w.head.segment) * self.segment_bytes()
                + u64::from(w.head.block) * BLOCK_BYTES as u64
                + FIRST_SEGMENT_LBA * BLOCK_BYTES as u64;
            let place = |(i, at): (&Item, usize)| match i.kind.has_bytes() {
                true => Entry::new(base + at as u64, i.data.len()),
                false => Entry::default(),
            };
            entries.extend(now.iter().zip(offsets).map(place));
            let count = blocks.len() as u32;
            if let Err(e) = self.blocks.write(clock, base / BLOCK_BYTES as u64, blocks) {
                // It is unknown how much of the unit was written.
                w.read_only = Some(e.to_string());
                return Err(e);
            }
            if w.head.block == 0 {
                self.map.write().segments[w.head.segment as usize].first = w.head.sequence;
            }
            w.head.block += count;
            w.head.sequence += 1;
            self.map.write().segments[w.head.segment as usize].used = w.head.block;
            w.since_checkpoint += u64::from(count) * BLOCK_BYTES as u64;
            w.info.units += 1;
        }
        Ok(entries)
    }

    pub(crate) fn next_segment(&self, w: &mut Writer) -> Result<(), CommandError> {
        let Some(next) = w.free.pop_first() else {
            return Err(CommandError::OutOfSpace { free_bytes: 0, needed_bytes: self.segment_bytes() });
        };
        let keeps_names = self.options.cleaning == Cleaning::CostBenefit;
        w.names[w.head.next as usize] = keeps_names.then(Vec::new);
        w.head = Head { segment: w.head.next, block: 0, next, sequence: w.head.sequence };
        Ok(())
    }

    /// Frees segments until `bytes` can be written.
    fn make_room(&self, w: &mut Writer, clock: &mut Clock, bytes: u64) -> Result<(), CommandError> {
        let rest = u64::from(self.options.segment_blocks - w.head.block) * BLOCK_BYTES as u64;
        if bytes + (REST_BLOCKS as u64 + 4) * (BLOCK_BYTES as u64) < rest {
            return Ok(());
        }
        // The end of a segment is lost if the next page does not fit.
        let lost = u64::from(self.page_bytes_max()).min(bytes);
        let (reserve, live, usable, segments) = {
            let map = self.map.read();
            (self.reserve(&map), map.live_bytes, self.usable_bytes(&map), map.segments.len())
        };
        if bytes > 4096 && live + bytes > usable {
            return Err(CommandError::OutOfSpace {
                free_bytes: usable.saturating_sub(live),
                needed_bytes: bytes,
            });
        }
        let needed = reserve + 1 + (bytes + lost).div_ceil(self.segment_bytes()) as usize;
        for _ in 0..2 * segments {
            if w.free.len() >= needed {
                return Ok(());
            }
            if w.free.len() + w.cleaned.len() >= needed || (w.free.len() < RESERVE && !w.cleaned.is_empty()) {
                self.checkpoint(w, clock)?;
            } else if !self.clean(w, clock)? {
                break;
            }
        }
        Err(CommandError::OutOfSpace { free_bytes: usable.saturating_sub(live), needed_bytes: bytes })
    }

    /// Runs the cleaning and the checkpoint that are due after `bytes` were written.
    fn maintain(&self, w: &mut Writer, clock: &mut Clock, bytes: u64) -> Result<(), CommandError> {
        let low = self.low_water();
        let most = 1 + 2 * (bytes / self.segment_bytes()) as usize;
        for _ in 0..most {
            if w.free.len() + w.cleaned.len() >= low || !self.clean(w, clock)? {
                break;
            }
        }
        let due = self.options.checkpoint_bytes.is_some_and(|b| w.since_checkpoint >= b);
        let few = w.free.len() < low && (w.cleaned.len() >= CLEANED_MAX.min(low / 2).max(1));
        if due || few {
            self.checkpoint(w, clock)?;
        }
        Ok(())
    }

    /// The number of free segments below which cleaning begins.
    fn low_water(&self) -> usize {
        let map = self.map.read();
        let share = map.segments.len() * self.options.free_percent as usize / 100;
        share.max(self.reserve(&map) + 2)
    }

    /// Does one step of maintenance without a write. Returns whether there was something to do.
    pub(crate) fn work(&self, clock: &mut Clock) -> Result<bool, CommandError> {
        let mut w = self.writer.lock();
        if w.read_only.is_some() {
            return Ok(false);
        }
        let due = self.options.checkpoint_bytes.is_some_and(|b| w.since_checkpoint >= b);
        if due {
            self.checkpoint(&mut w, clock)?;
            return Ok(true);
        }
        if w.free.len() + w.cleaned.len() < self.low_water() {
            return self.clean(&mut w, clock);
        }
        Ok(false)
    }

    /// Allocates extents. The allocation becomes durable with the next batch.
    pub(crate) fn allocate(&self, owner: OwnerId, count: u32) -> Result<Vec<ExtentId>, CommandError> {
        if count == 0 || count > 1 << 20 || owner.raw() == u32::MAX {
            return Err(CommandError::Invalid(format!("{count} extents for {owner:?}")));
        }
        let mut w = self.writer.lock();
        let mut map = self.map.write();
        let new: Vec<u64> = (0..count).map(|_| map.allocate(owner)).collect();
        w.allocated.extend(new.iter().map(|raw| (*raw, owner)));
        Ok(new.into_iter().filter_map(ExtentId::new).collect())
    }

    pub(crate) fn extents(&self) -> Vec<ExtentInfo> {
        let map = self.map.read();
        let info = |(raw, x): (usize, &Option<crate::map::Extent>)| {
            let x = x.as_ref()?;
            let extent = ExtentId::new(raw as u64)?;
            Some(ExtentInfo { extent, owner: x.owner, pages_mapped: Some(x.mapped) })
        };
        map.extents.iter().enumerate().filter_map(info).collect()
    }

    pub(crate) fn open_view(&self) -> (ViewId, CommitNo) {
        let (view, commit) = self.map.write().open_view(self.options.views_max as usize);
        (ViewId::new(view), commit)
    }

    pub(crate) fn close_view(&self, view: ViewId) -> Result<(), CommandError> {
        match self.map.write().close_view(view.raw()) {
            true => Ok(()),
            false => Err(CommandError::ViewClosed(view)),
        }
    }

    fn commit_of(map: &Map, view: Option<ViewId>) -> Result<Option<u64>, CommandError> {
        match view {
            None => Ok(None),
            Some(v) => map.view(v.raw()).map(Some).ok_or(CommandError::ViewClosed(v)),
        }
    }

    /// The pages of `ranges` that are mapped in a view.
    pub(crate) fn mapped(
        &self,
        view: ViewId,
        ranges: &[PageRange],
    ) -> Result<Vec<(Lpid, u32)>, CommandError> {
        let map = self.map.read();
        let commit = map.view(view.raw()).ok_or(CommandError::ViewClosed(view))?;
        let mut found = Vec::new();
        for r in ranges {
            if usize::from(r.first) + usize::from(r.count) > lode_base::EXTENT_PAGES {
                return Err(CommandError::Invalid(format!(
                    "{} pages from {} of an extent",
                    r.count, r.first
                )));
            }
            let pages = (r.first..r.first + r.count).map(|p| r.extent.page(p));
            let at = pages.map(|lpid| (lpid, map.get_at(lpid, commit))).filter(|(_, entry)| !entry.is_none());
            found.extend(at.map(|(lpid, entry)| (lpid, entry.len() as u32)));
        }
        Ok(found)
    }

    /// Reads pages or parts of pages.
    pub(crate) fn read(
        &self,
        clock: &mut Clock,
        view: Option<ViewId>,
        requests: &[ReadRequest],
    ) -> Result<Vec<PageBuf>, CommandError> {
        clock.computes(self.options.page_cost * requests.len() as u64);
        for _ in 0..READ_TRIES {
            let mut places = Vec::with_capacity(requests.len());
            {
                let map = self.map.read();
                let commit = Self::commit_of(&map, view)?;
                for r in requests {
                    let entry = commit.map_or_else(|| map.get(r.lpid), |c| map.get_at(r.lpid, c));
                    if entry.is_none() {
                        return Err(CommandError::Unmapped(r.lpid));
                    }
                    let range = r.range.clone().unwrap_or(0..entry.len() as u32);
                    if range.start > range.end || range.end as usize > entry.len() {
                        let what = format!("bytes {range:?} of page {}, which has {}", r.lpid, entry.len());
                        return Err(CommandError::Invalid(what));
                    }
                    let segment = map.segment_of(entry);
                    places.push((entry, range, segment, map.segments[segment].generation));
                }
            }
            let block = BLOCK_BYTES as u64;
            let spans: Vec<(u64, u32)> = places
                .iter()
                .map(|(e, r, ..)| {
                    let (from, to) = (e.byte() + u64::from(r.start), e.byte() + u64::from(r.end).max(1));
                    (from / block, (to.div_ceil(block) - from / block) as u32)
                })
                .collect();
            let found = self.blocks.read(clock, &spans)?;
            let still = {
                let map = self.map.read();
                places.iter().all(|(_, _, s, generation)| map.segments[*s].generation == *generation)
            };
            if !still {
                continue;
            }
            let mut pages = Vec::with_capacity(requests.len());
            for ((blocks, (e, range, ..)), r) in found.into_iter().zip(&places).zip(requests) {
                let Some(blocks) = blocks else {
                    return Err(CommandError::Medium(format!("the blocks of page {} are gone", r.lpid)));
                };
                let from = ((e.byte() + u64::from(range.start)) % block) as usize;
                pages.push(assemble(&blocks, from, (range.end - range.start) as usize));
            }
            return Ok(pages);
        }
        Err(CommandError::Medium("the store frees segments faster than this read can read them".into()))
    }

    /// Writes a checkpoint now.
    pub(crate) fn checkpoint_now(&self, clock: &mut Clock) -> Result<(), CommandError> {
        let mut w = self.writer.lock();
        match &w.read_only {
            Some(why) => Err(CommandError::ReadOnly(why.clone())),
            None => self.checkpoint(&mut w, clock),
        }
    }
}

pub(crate) fn lpid(raw: u64) -> Lpid {
    Lpid::from_raw(raw).expect("48 bits")
}

/// The error of a damaged store.
pub(crate) fn no_store(what: &str) -> LssError {
    LssError::damaged(what)
}
