//! Formatting a store, and recovering one.
//!
//! ```text
//!   newest anchor ─► root ─► mapping pages ─► log from the anchor's head on, group by group ─► live bytes counted
//!   unit at the head? ─► at the next segment? ─► else the log ends; a group without its last unit is ignored
//! ```

use std::collections::BTreeSet;

use lode_base::PageBuf;
use parking_lot::{Mutex, RwLock};

use crate::blocks::{BLOCK_BYTES, Blocks};
use crate::checkpoint::{Root, entries_of};
use crate::layout::{Anchor, Entry, FIRST_SEGMENT_LBA, Head, Header, Record, RecordKind, assemble};
use crate::map::{Extent, Map};
use crate::store::{Store, Writer, lpid, no_store};
use crate::{Clock, LssError, LssInfo, LssOptions};

/// The fewest segments of a store.
const SEGMENTS_MIN: u64 = 12;
/// The number of mapping pages to read at a time.
const MAPS_AT_ONCE: usize = 64;

impl Store {
    /// Makes a new, empty store. Anything on the blocks is lost. `id` distinguishes it from other stores.
    pub(crate) fn format(
        blocks: Blocks,
        options: LssOptions,
        id: u64,
        clock: &mut Clock,
    ) -> Result<Self, LssError> {
        let segments =
            blocks.capacity().saturating_sub(FIRST_SEGMENT_LBA) / u64::from(options.segment_blocks.max(1));
        if options.segment_blocks < 16 || segments < SEGMENTS_MIN {
            let what = format!("{segments} segments of {} blocks", options.segment_blocks);
            return Err(LssError::Options { what });
        }
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        let head = Head { segment: 0, block: 0, next: 1, sequence: 1 };
        let map = Map::new(segments, options.segment_blocks, options.whole_blocks);
        let store = Self::of(blocks, options, id, head, map, (2..segments).collect());
        let anchor = Anchor {
            store: id,
            number: 1,
            segment_blocks: store.options.segment_blocks,
            segments,
            head,
            roots: Vec::new(),
        };
        // An older store may have left an anchor in the other slot.
        store.blocks.write(clock, 0, vec![PageBuf::copy_from(&[0; BLOCK_BYTES])])?;
        store.blocks.write(clock, anchor.lba(), vec![anchor.encode()])?;
        store.writer.lock().checkpoint = anchor.number;
        Ok(store)
    }

    fn of(blocks: Blocks, options: LssOptions, id: u64, head: Head, map: Map, free: BTreeSet<u32>) -> Self {
        let names = vec![None; map.segments.len()];
        let writer = Writer {
            head,
            free,
            cleaned: Vec::new(),
            since_checkpoint: 0,
            checkpoint: 0,
            roots: Vec::new(),
            allocated: Vec::new(),
            names,
            read_only: None,
            info: LssInfo::default(),
        };
        Self { blocks, options, id, writer: Mutex::new(writer), map: RwLock::new(map) }
    }

    /// Opens the store that these blocks hold, as of the last durable group.
    pub(crate) fn open(blocks: Blocks, options: LssOptions, clock: &mut Clock) -> Result<Self, LssError> {
        let slots: Vec<(u64, u32)> = (0..FIRST_SEGMENT_LBA).map(|lba| (lba, 1)).collect();
        let found = blocks.read(clock, &slots)?;
        let anchors = found.into_iter().flatten().filter_map(|b| Anchor::decode(&b[0]));
        let anchor = anchors.max_by_key(|a| a.number).ok_or(LssError::NoStore)?;
        let end = FIRST_SEGMENT_LBA + u64::from(anchor.segments) * u64::from(anchor.segment_blocks);
        if end > blocks.capacity() {
            return Err(no_store("it is larger than the drive"));
        }
        let options = LssOptions { segment_blocks: anchor.segment_blocks, ..options };
        let mut map = Map::new(anchor.segments, anchor.segment_blocks, options.whole_blocks);
        let opening = Opening { blocks: &blocks, end_byte: end * BLOCK_BYTES as u64 };
        if !anchor.roots.is_empty() {
            opening.load(clock, &anchor, &mut map)?;
        }
        let (head, replayed) = opening.replay(clock, &anchor, &mut map)?;
        count_live(&mut map, &anchor.roots);
        let free = (0..anchor.segments)
            .filter(|s| map.segments[*s as usize].first == 0 && *s != head.segment && *s != head.next)
            .collect();
        let read = blocks.counts().bytes_read;
        let store = Self::of(blocks, options, anchor.store, head, map, free);
        {
            let mut w = store.writer.lock();
            (w.checkpoint, w.roots) = (anchor.number, anchor.roots);
            w.since_checkpoint = replayed.bytes;
            (w.info.replayed_units, w.info.opening_bytes_read) = (replayed.units, read);
        }
        Ok(store)
    }
}

struct Opening<'a> {
    blocks: &'a Blocks,
    end_byte: u64,
}

#[derive(Default)]
struct Replayed {
    units: u64,
    bytes: u64,
}

impl Opening<'_> {
    /// Reads the pages of `entries`.
    fn pages(&self, clock: &mut Clock, entries: &[Entry]) -> Result<Vec<PageBuf>, LssError> {
        let block = BLOCK_BYTES as u64;
        let within = |e: &Entry| {
            e.byte() >= FIRST_SEGMENT_LBA * block && e.byte() + e.len() as u64 <= self.end_byte && e.len() > 0
        };
        if !entries.iter().all(within) {
            return Err(no_store("a place beyond its segments"));
        }
        let span = |e: &Entry| {
            let first = e.byte() / block;
            (first, ((e.byte() + e.len() as u64).div_ceil(block) - first) as u32)
        };
        let spans: Vec<_> = entries.iter().map(span).collect();
        let found = self.blocks.read(clock, &spans)?;
        let page = |(blocks, e): (Option<Vec<PageBuf>>, &Entry)| {
            let blocks =
                blocks.ok_or_else(|| no_store("blocks that the anchor or the root names are missing"))?;
            Ok(assemble(&blocks, (e.byte() % block) as usize, e.len()))
        };
        found.into_iter().zip(entries).map(page).collect()
    }

    /// Loads the root and the mapping pages that it names.
    fn load(&self, clock: &mut Clock, anchor: &Anchor, map: &mut Map) -> Result<(), LssError> {
        let bytes: Vec<u8> = self.pages(clock, &anchor.roots)?.iter().flat_map(|p| p.to_vec()).collect();
        let root = Root::decode(&bytes, anchor.segments).ok_or_else(|| no_store("its root"))?;
        map.commit = root.commit;
        for (raw, x) in root.extents.iter().enumerate() {
            match x {
                Some((owner, home)) => {
                    map.extents.push(Some(Extent { home: *home, dirty: false, ..Extent::new(*owner) }))
                }
                None => {
                    map.extents.push(None);
                    map.released.push((raw as u64, 0));
                }
            }
        }
        let homes: Vec<(u64, Entry)> = map
            .extents
            .iter()
            .enumerate()
            .filter_map(|(raw, x)| Some((raw as u64, x.as_ref()?.home)))
            .filter(|(_, home)| !home.is_none())
            .collect();
        for part in homes.chunks(MAPS_AT_ONCE) {
            let entries: Vec<Entry> = part.iter().map(|(_, home)| *home).collect();
            for ((raw, _), page) in part.iter().zip(self.pages(clock, &entries)?) {
                let entries = entries_of(&page).ok_or_else(|| no_store("a mapping page"))?;
                let x = map.extent_mut(*raw).expect("it was just put there");
                x.mapped = entries.iter().filter(|e| !e.is_none()).count() as u32;
                x.entries = entries;
            }
        }
        for (s, (first, used)) in map.segments.iter_mut().zip(root.segments) {
            (s.first, s.used) = (first, used);
        }
        map.segments[anchor.head.segment as usize].used = anchor.head.block;
        Ok(())
    }

    /// Reads the unit at `head`, if it is the next one of the log.
    fn unit(
        &self,
        clock: &mut Clock,
        anchor: &Anchor,
        head: Head,
    ) -> Result<Option<(Header, Vec<Record>)>, LssError> {
        if head.block >= anchor.segment_blocks {
            return Ok(None);
        }
        let lba = FIRST_SEGMENT_LBA
            + u64::from(head.segment) * u64::from(anchor.segment_blocks)
            + u64::from(head.block);
        let Some(mut blocks) = self.blocks.read(clock, &[(lba, 1)])?.remove(0) else { return Ok(None) };
        let header = Header::decode(&blocks[0], anchor.store, anchor.segment_blocks - head.block);
        let Some(header) = header.filter(|h| h.sequence == head.sequence && h.next < anchor.segments) else {
            return Ok(None);
        };
        if header.blocks > 1 {
            match self.blocks.read(clock, &[(lba + 1, header.blocks - 1)])?.remove(0) {
                Some(rest) => blocks.extend(rest),
                None => return Ok(None),
            }
        }
        Ok(header.records(&blocks).map(|records| (header, records)))
    }

    /// Replays all complete groups after the anchor.
    fn replay(
        &self,
        clock: &mut Clock,
        anchor: &Anchor,
        map: &mut Map,
    ) -> Result<(Head, Replayed), LssError> {
        let (mut at, mut end) = (anchor.head, anchor.head);
        let mut replayed = Replayed::default();
        let mut group: Vec<(Head, Header, Vec<Record>)> = Vec::new();
        loop {
            let mut found = self.unit(clock, anchor, at)?;
            if found.is_none() {
                let next = Head { segment: at.next, block: 0, ..at };
                found = self.unit(clock, anchor, next)?;
                at = next;
            }
            let Some((header, records)) = found else { break };
            at.next = header.next;
            let here = at;
            at = Head { block: at.block + header.blocks, sequence: at.sequence + 1, ..at };
            let last = header.last;
            group.push((here, header, records));
            if last {
                for (here, header, records) in group.drain(..) {
                    replayed.units += 1;
                    replayed.bytes += u64::from(header.blocks) * BLOCK_BYTES as u64;
                    apply(map, here, &header, &records);
                }
                end = at;
            }
        }
        // The log continues after the last complete group.
        Ok((end, replayed))
    }
}

/// Applies the records of a unit to the mapping.
fn apply(map: &mut Map, at: Head, header: &Header, records: &[Record]) {
    let base = map.segment_base(at.segment) + u64::from(at.block) * BLOCK_BYTES as u64;
    let segment = &mut map.segments[at.segment as usize];
    if at.block == 0 {
        segment.first = at.sequence;
    }
    segment.used = at.block + header.blocks;
    for r in records {
        match r.kind {
            RecordKind::Page | RecordKind::PageAtBlock | RecordKind::Trim => {
                let to = if r.kind == RecordKind::Trim {
                    Entry::default()
                } else {
                    Entry::new(base + r.offset as u64, r.len)
                };
                let l = lpid(r.name);
                if let Some(x) = map.extent_mut(l.extent().raw()) {
                    let from = std::mem::replace(&mut x.entries[usize::from(l.page())], to);
                    x.mapped = x.mapped + u32::from(!to.is_none()) - u32::from(!from.is_none());
                    x.dirty = true;
                }
            }
            RecordKind::Release => {
                if let Some(x) = map.extents.get_mut(r.name as usize) {
                    *x = None;
                    map.released.push((r.name, 0));
                }
            }
            RecordKind::Allocate => map.allocate_at(r.name, lode_base::OwnerId::new(r.owner)),
            // Mapping pages and roots after the anchor belong to a checkpoint whose anchor was not written. No view
            // shows old versions after recovery.
            RecordKind::Map | RecordKind::Root | RecordKind::Old => {}
        }
    }
    map.commit = map.commit.max(header.commit);
}

fn count_live(map: &mut Map, roots: &[Entry]) {
    let of_extent = |x: &Extent| -> Vec<Entry> { x.entries.iter().copied().chain([x.home]).collect() };
    let all: Vec<Entry> =
        map.extents.iter().flatten().flat_map(of_extent).chain(roots.iter().copied()).collect();
    all.into_iter().for_each(|e| map.lives(e));
}
