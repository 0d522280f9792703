//! Checkpoints. A checkpoint appends the changed mapping pages to the log, then a root that names all mapping pages.
//! Then it writes an anchor that names the root and the place where the log continues.
//!
//! ```text
//!   dirty extents ─► mapping pages ─► root ─► anchor (the other slot) ─► cleaned segments are free, and trimmed
//! ```
//!
//! Invariants: the anchor is written after all that it names is durable; a cleaned segment is freed only after an
//! anchor whose log begins behind the segment.

use lode_base::{EXTENT_PAGES, OwnerId, PageBuf};
use lode_command::CommandError;

use crate::Clock;
use crate::blocks::BLOCK_BYTES;
use crate::layout::{Anchor, Entry, FIRST_SEGMENT_LBA, Item, ROOTS_MAX, RecordKind};
use crate::map::{Map, Segment};
use crate::store::{REST_BLOCKS, Store, Writer};

/// The largest piece of the root, in bytes.
const ROOT_BYTES: usize = 64 << 10;
/// The owner in the root's entry of an extent that is not allocated.
const NOBODY: u32 = u32::MAX;

impl Store {
    pub(crate) fn checkpoint(&self, w: &mut Writer, clock: &mut Clock) -> Result<(), CommandError> {
        let dirty: Vec<(u64, PageBuf)> = {
            let map = self.map.read();
            let extents = map.extents.iter().enumerate();
            let dirty = extents.filter_map(|(raw, x)| Some((raw as u64, x.as_ref().filter(|x| x.dirty)?)));
            dirty.map(|(raw, x)| (raw, page_of(&x.entries))).collect()
        };
        let item = |(name, data): &(u64, PageBuf)| Item {
            kind: RecordKind::Map,
            name: *name,
            owner: 0,
            data: data.clone(),
        };
        let items: Vec<Item> = dirty.iter().map(item).collect();
        let homes = self.append(w, clock, &items, 0)?;
        self.room_for_root(w)?;
        let root = {
            let mut map = self.map.write();
            for (i, home) in items.iter().zip(homes) {
                let x = map.extent_mut(i.name).expect("only this writer releases extents");
                let old = std::mem::replace(&mut x.home, home);
                x.dirty = false;
                map.dies(old);
                map.lives(home);
            }
            // If the checkpoint fails, the store takes no more writes, so the live bytes of the old roots no longer
            // matter.
            for old in w.roots.drain(..) {
                map.dies(old);
            }
            // The root contains the first sequence number of its own segment; the anchor tells how far that segment
            // was written.
            map.segments[w.head.segment as usize].first =
                if w.head.block == 0 { w.head.sequence } else { map.segments[w.head.segment as usize].first };
            root_of(&map)
        };
        let piece = |(n, bytes): (usize, &[u8])| {
            let mut bytes = bytes.to_vec();
            bytes.resize(bytes.len().max(lode_base::PAGE_BYTES_MIN), 0);
            Item { kind: RecordKind::Root, name: n as u64, owner: 0, data: PageBuf::copy_from(&bytes) }
        };
        let pieces: Vec<Item> = root.chunks(ROOT_BYTES).enumerate().map(piece).collect();
        let roots = self.append(w, clock, &pieces, 0)?;
        assert!(roots.len() <= ROOTS_MAX, "a root has more pieces than an anchor can name");
        w.checkpoint += 1;
        let anchor = Anchor {
            store: self.id,
            number: w.checkpoint,
            segment_blocks: self.options.segment_blocks,
            segments: self.map.read().segments.len() as u32,
            head: w.head,
            roots: roots.clone(),
        };
        if let Err(e) = self.blocks.write(clock, anchor.lba(), vec![anchor.encode()]) {
            w.read_only = Some(e.to_string());
            return Err(e);
        }
        let written: u64 = items.iter().chain(&pieces).map(|i| i.data.len() as u64).sum();
        let freed = {
            let mut map = self.map.write();
            roots.iter().for_each(|r| map.lives(*r));
            w.roots = roots;
            let (gone, kept): (Vec<u32>, Vec<u32>) =
                w.cleaned.drain(..).partition(|s| map.segments[*s as usize].live == 0);
            w.cleaned = kept;
            for s in &gone {
                let segment = &mut map.segments[*s as usize];
                *segment = Segment { generation: segment.generation + 1, ..Segment::default() };
            }
            gone
        };
        (w.since_checkpoint, w.info.checkpoints) = (0, w.info.checkpoints + 1);
        w.info.checkpoint_bytes += written;
        for s in freed {
            let lba = FIRST_SEGMENT_LBA + u64::from(s) * u64::from(self.options.segment_blocks);
            self.blocks.trim(clock, lba, u64::from(self.options.segment_blocks))?;
            w.free.insert(s);
        }
        Ok(())
    }

    /// Makes sure that the root fits in one segment.
    fn room_for_root(&self, w: &mut Writer) -> Result<(), CommandError> {
        let bytes = {
            let map = self.map.read();
            (map.extents.len() + map.segments.len()) * 12 + 24
        };
        // Every piece has a record, and the last piece is padded.
        let blocks = (bytes + bytes / 1024 + 2 * BLOCK_BYTES).div_ceil(BLOCK_BYTES) as u32;
        assert!(
            blocks + REST_BLOCKS < self.options.segment_blocks,
            "a root of {bytes} bytes does not fit in a segment"
        );
        if self.options.segment_blocks - w.head.block <= blocks + REST_BLOCKS {
            self.next_segment(w)?;
        }
        Ok(())
    }
}

/// The mapping page of an extent: its entries up to the last mapped page.
fn page_of(entries: &[Entry; EXTENT_PAGES]) -> PageBuf {
    let used = entries.iter().rposition(|e| !e.is_none()).map_or(0, |at| at + 1);
    let mut bytes: Vec<u8> = entries[..used].iter().flat_map(|e| e.0.to_le_bytes()).collect();
    bytes.resize(bytes.len().max(lode_base::PAGE_BYTES_MIN), 0);
    PageBuf::copy_from(&bytes)
}

/// The bytes of a root: all extents and segments.
fn root_of(map: &Map) -> Vec<u8> {
    let mut b = Vec::new();
    b.extend(map.commit.to_le_bytes());
    b.extend((map.extents.len() as u64).to_le_bytes());
    for x in &map.extents {
        let (owner, home) = x.as_ref().map_or((NOBODY, 0), |x| (x.owner.raw(), x.home.0));
        b.extend(owner.to_le_bytes());
        b.extend(home.to_le_bytes());
    }
    b.extend((map.segments.len() as u64).to_le_bytes());
    for s in &map.segments {
        // This checkpoint frees the segment, which may be trimmed before the next checkpoint.
        let first = if s.cleaned && s.live == 0 { 0 } else { s.first };
        b.extend(first.to_le_bytes());
        b.extend(s.used.to_le_bytes());
    }
    b
}

/// The contents of a root.
pub(crate) struct Root {
    pub(crate) commit: u64,
    /// The owner of each extent and the place of its mapping page.
    pub(crate) extents: Vec<Option<(OwnerId, Entry)>>,
    /// The first sequence number of each segment and its number of used blocks.
    pub(crate) segments: Vec<(u64, u32)>,
}

impl Root {
    /// Decodes a root, if the bytes are one.
    pub(crate) fn decode(bytes: &[u8], segments: u32) -> Option<Self> {
        let mut at = 0;
        let mut take = |len: usize| {
            let field = bytes.get(at..at + len)?;
            at += len;
            Some(field)
        };
        let u64_of = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("8 bytes"));
        let u32_of = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("4 bytes"));
        let commit = u64_of(take(8)?);
        let count = u64_of(take(8)?);
        let mut extents = Vec::new();
        for _ in 0..count {
            let (owner, home) = (u32_of(take(4)?), Entry(u64_of(take(8)?)));
            extents.push((owner != NOBODY).then(|| (OwnerId::new(owner), home)));
        }
        let count = u64_of(take(8)?);
        if count != u64::from(segments) {
            return None;
        }
        let mut found = Vec::new();
        for _ in 0..count {
            found.push((u64_of(take(8)?), u32_of(take(4)?)));
        }
        Some(Self { commit, extents, segments: found })
    }
}

/// Decodes the entries of an extent from its mapping page.
pub(crate) fn entries_of(bytes: &[u8]) -> Option<Box<[Entry; EXTENT_PAGES]>> {
    if bytes.len() > EXTENT_PAGES * 8 || !bytes.len().is_multiple_of(8) {
        return None;
    }
    let mut entries = Box::new([Entry::default(); EXTENT_PAGES]);
    for (e, b) in entries.iter_mut().zip(bytes.chunks_exact(8)) {
        *e = Entry(u64::from_le_bytes(b.try_into().expect("8 bytes")));
    }
    Some(entries)
}

const _: () = assert!(ROOT_BYTES.is_multiple_of(BLOCK_BYTES));
