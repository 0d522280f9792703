//! The paper's B-tree: a cache of pages above a write buffer, updates in place. Only flushed pages are durable.
//!
//! ```text
//!   key ─► leaf (inner nodes stay in memory) ─► frame ─ hit ─► update in place
//!                                                 └ miss ─► evict (second chance) ─ dirty ─► write buffer ─ 1 MB ─► flush
//!                                                        └► write buffer, or one read of the drive
//! ```
//!
//! "We modified the original Bw-tree to simply perform updates in-place"; "the maximum Bw-tree page size was set to
//! 4KB, and the write buffer size used in the Bw-tree flush operation was set to 1MB". The tree has no checkpoints
//! and no log of its own (section IX). Leaves are made by inserting the keys in random order, so they are ln 2 full
//! on average. Variable pages save the free space of the leaves. A frame takes 4 KB of the cache, however full its
//! leaf is.
//!
//! Host time, on a modelled device: an operation finds its leaf by some 20 comparisons (the profile's `sort`), looks
//! up the leaf's frame (`join`) and changes a record (`other`). One thread waits for each read and each flush.

use std::collections::{BTreeMap, HashMap};

use lode_base::{PageBuf, PageBufMut, VirtualDuration};

use super::rig::Rig;
use crate::drive_host::DriveError;
use crate::random::Random;

/// Bytes of a record's key.
pub const KEY_BYTES: usize = 8;
/// Bytes of a record's value.
pub const VALUE_BYTES: usize = 100;
/// Bytes of a record.
pub const RECORD_BYTES: usize = KEY_BYTES + VALUE_BYTES;
/// The size of the longest page.
const PAGE_BYTES: usize = 4096;
/// Bytes of a page's header: the number of records, and zeroes.
const HEADER_BYTES: usize = 16;
const RECORDS_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / RECORD_BYTES;
/// Bytes of the write buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// Counts of the tree's work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Reads of the drive.
    pub reads: u64,
    /// Flushes of the buffer.
    pub flushes: u64,
    /// Pages in the flushes.
    pub pages: u64,
    /// Bytes that the flushes handed to the drive, as the system stores pages.
    pub bytes: u64,
}

struct Frame {
    leaf: u32,
    data: PageBufMut,
    dirty: bool,
    used: bool,
}

/// The tree.
pub struct BTree {
    rig: Rig,
    /// Least keys of the leaves.
    firsts: Vec<u64>,
    /// Page of each leaf, in the same order.
    leaves: Vec<u32>,
    /// Frame of each page, if it has one.
    frame_of: Vec<u32>,
    frames: Vec<Frame>,
    frames_max: usize,
    hand: usize,
    buffer: Vec<(u32, PageBuf)>,
    buffered: HashMap<u32, usize>,
    buffer_bytes: usize,
    fixed: bool,
    operation: VirtualDuration,
    counts: Counts,
}

const NO_FRAME: u32 = u32::MAX;

/// The leaves of a tree into which keys 0 to `records` - 1 were inserted in random order. Each leaf has its least key
/// and its number of keys.
pub fn leaves(records: u64, seed: u64) -> Vec<(u64, u32)> {
    let mut order: Vec<u64> = (0..records).collect();
    Random(seed).shuffle(&mut order);
    let mut leaves = BTreeMap::from([(0, Vec::with_capacity(RECORDS_MAX + 1))]);
    for key in order {
        let (_, leaf) = leaves.range_mut(..=key).next_back().expect("the first leaf begins with key 0");
        let place = leaf.partition_point(|k| *k < key);
        leaf.insert(place, key);
        if leaf.len() > RECORDS_MAX {
            let upper = leaf.split_off(leaf.len() / 2);
            leaves.insert(upper[0], upper);
        }
    }
    leaves.into_iter().map(|(first, keys)| (first, keys.len() as u32)).collect()
}

impl BTree {
    /// A tree of `leaves`. They are written to the system in order, a buffer at a time. The cache is empty and takes
    /// `cache_bytes`.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn load(
        rig: Rig,
        leaves: &[(u64, u32)],
        fixed: bool,
        cache_bytes: u64,
        operation: VirtualDuration,
    ) -> Result<Self, DriveError> {
        let mut tree = Self {
            rig,
            firsts: leaves.iter().map(|l| l.0).collect(),
            leaves: (0..leaves.len() as u32).collect(),
            frame_of: vec![NO_FRAME; leaves.len()],
            frames: Vec::new(),
            frames_max: ((cache_bytes / PAGE_BYTES as u64) as usize).max(2),
            hand: 0,
            buffer: Vec::new(),
            buffered: HashMap::new(),
            buffer_bytes: 0,
            fixed,
            operation,
            counts: Counts::default(),
        };
        for (n, (first, count)) in leaves.iter().enumerate() {
            let mut page = PageBufMut::zeroed(HEADER_BYTES + *count as usize * RECORD_BYTES);
            page[..4].copy_from_slice(&count.to_le_bytes());
            for i in 0..u64::from(*count) {
                let at = HEADER_BYTES + i as usize * RECORD_BYTES;
                page[at..at + KEY_BYTES].copy_from_slice(&(first + i).to_le_bytes());
            }
            tree.put_in_buffer(n as u32, page)?;
        }
        tree.flush()?;
        tree.counts = Counts::default();
        Ok(tree)
    }

    /// The system below.
    pub fn rig(&self) -> &Rig {
        &self.rig
    }

    /// The counts since the tree was loaded.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How often a record was updated.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn read(&mut self, key: u64) -> Result<u64, DriveError> {
        let (frame, at) = self.find(key)?;
        let value = &self.frames[frame].data[at + KEY_BYTES..];
        Ok(u64::from_le_bytes(*value.first_chunk().expect("a value has 100 bytes")))
    }

    /// Updates a record in place.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn update(&mut self, key: u64) -> Result<(), DriveError> {
        let (frame, at) = self.find(key)?;
        let frame = &mut self.frames[frame];
        frame.dirty = true;
        let value = &mut frame.data[at + KEY_BYTES..at + RECORD_BYTES];
        let count = u64::from_le_bytes(*value.first_chunk().expect("a value has 100 bytes")) + 1;
        value[..8].copy_from_slice(&count.to_le_bytes());
        value[8..].fill(count as u8);
        Ok(())
    }

    /// The frame of a record, and the record's place in the frame.
    fn find(&mut self, key: u64) -> Result<(usize, usize), DriveError> {
        self.rig.computes(self.operation);
        let leaf = self.leaves[self.firsts.partition_point(|f| *f <= key) - 1];
        let frame = match self.frame_of[leaf as usize] {
            NO_FRAME => self.fetch(leaf)?,
            frame => frame as usize,
        };
        let f = &mut self.frames[frame];
        f.used = true;
        let count = u32::from_le_bytes(*f.data.first_chunk().expect("a page has a header")) as usize;
        let record = |i: usize| HEADER_BYTES + i * RECORD_BYTES;
        let key_at =
            |i: usize| u64::from_le_bytes(*f.data[record(i)..].first_chunk().expect("a record has a key"));
        // Binary search over the records.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = usize::midpoint(low, high);
            if key_at(middle) < key { low = middle + 1 } else { high = middle }
        }
        if low == count || key_at(low) != key {
            return Err(DriveError::Wrong(self.rig.lpid(u64::from(leaf))));
        }
        Ok((frame, record(low)))
    }

    /// Brings a leaf into the cache.
    fn fetch(&mut self, leaf: u32) -> Result<usize, DriveError> {
        let free = self.free_frame()?;
        // A leaf that was evicted but not flushed is taken from the buffer, and is still dirty.
        let (data, dirty) = match self.buffered.remove(&leaf) {
            Some(at) => {
                let page = std::mem::replace(&mut self.buffer[at].1, PageBuf::empty());
                self.buffer_bytes -= self.space(page.len());
                (page, true)
            }
            None => {
                self.counts.reads += 1;
                (self.rig.read(u64::from(leaf))?, false)
            }
        };
        let mut own = PageBufMut::scratch(data.len());
        own.copy_from_slice(&data);
        let frame = Frame { leaf, data: own, dirty, used: true };
        let at = match free {
            Some(at) => {
                self.frames[at] = frame;
                at
            }
            None => {
                self.frames.push(frame);
                self.frames.len() - 1
            }
        };
        self.frame_of[leaf as usize] = at as u32;
        Ok(at)
    }

    /// A frame whose leaf was evicted, or `None` if the cache still has memory for a new frame.
    fn free_frame(&mut self) -> Result<Option<usize>, DriveError> {
        if self.frames.len() < self.frames_max {
            return Ok(None);
        }
        loop {
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[self.hand];
            if std::mem::take(&mut frame.used) {
                continue;
            }
            let at = self.hand;
            let leaf = frame.leaf;
            self.frame_of[leaf as usize] = NO_FRAME;
            if frame.dirty {
                let data = std::mem::replace(&mut frame.data, PageBufMut::with_capacity(0));
                self.put_in_buffer(leaf, data)?;
            }
            return Ok(Some(at));
        }
    }

    /// Bytes that a page takes in the buffer.
    fn space(&self, len: usize) -> usize {
        if self.fixed { PAGE_BYTES } else { len.next_multiple_of(64) }
    }

    fn put_in_buffer(&mut self, leaf: u32, mut data: PageBufMut) -> Result<(), DriveError> {
        let space = self.space(data.len());
        if self.buffer_bytes + space > BUFFER_BYTES {
            self.flush()?;
        }
        if self.fixed {
            data.resize(PAGE_BYTES);
        }
        self.buffered.insert(leaf, self.buffer.len());
        self.buffer.push((leaf, data.freeze()));
        self.buffer_bytes += space;
        Ok(())
    }

    /// Writes the buffer.
    ///
    /// # Errors
    /// When the drive fails.
    pub fn flush(&mut self) -> Result<(), DriveError> {
        let pages: Vec<(u64, PageBuf)> =
            self.buffer.drain(..).filter(|(_, p)| !p.is_empty()).map(|(n, p)| (u64::from(n), p)).collect();
        self.buffered.clear();
        if pages.is_empty() {
            return Ok(());
        }
        self.counts.flushes += 1;
        self.counts.pages += pages.len() as u64;
        self.counts.bytes += self.buffer_bytes as u64;
        self.buffer_bytes = 0;
        self.rig.write_batch(pages)
    }
}
