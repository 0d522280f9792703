//! The mapping table of the host: the place of each page, the old versions that views show, and the live bytes of
//! each segment.
//!
//! ```text
//!   LPID ─► extent ─► entry          view ─► the first version that a commit after the view replaced, or the entry
//!   entry ─► segment ─► live bytes
//! ```
//!
//! Invariants: the live bytes of a segment are the bytes of the entries, versions, mapping pages and roots in it; a
//! version is kept while a view shows it.

use std::collections::{BTreeMap, HashMap};

use lode_base::{CELL_BYTES, CommitNo, EXTENT_PAGES, ExtentId, Lpid, OwnerId};

use crate::blocks::BLOCK_BYTES;
use crate::layout::{Entry, FIRST_SEGMENT_LBA};

/// The mapping of an extent.
pub(crate) struct Extent {
    pub(crate) owner: OwnerId,
    pub(crate) entries: Box<[Entry; EXTENT_PAGES]>,
    pub(crate) mapped: u32,
    /// The place of the extent's mapping page in the log.
    pub(crate) home: Entry,
    /// Whether the mapping changed since the mapping page was written.
    pub(crate) dirty: bool,
}

impl Extent {
    pub(crate) fn new(owner: OwnerId) -> Self {
        Self {
            owner,
            entries: Box::new([Entry::default(); EXTENT_PAGES]),
            mapped: 0,
            home: Entry::default(),
            dirty: true,
        }
    }
}

/// A segment of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The sequence number of its first unit. 0 means that it is free.
    pub(crate) first: u64,
    /// The number of blocks written to it.
    pub(crate) used: u32,
    /// The live bytes in it.
    pub(crate) live: u64,
    /// The number of times that the segment was freed. A reader without a lock compares it before and after its read.
    pub(crate) generation: u64,
    /// Whether it was cleaned. The next checkpoint frees it.
    pub(crate) cleaned: bool,
}

/// A replaced version of a page.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// The commit that replaced it.
    until: u64,
    entry: Entry,
}

/// The state that readers use.
pub(crate) struct Map {
    pub(crate) extents: Vec<Option<Extent>>,
    /// The extent numbers to use again, with the commits that released them.
    pub(crate) released: Vec<(u64, u64)>,
    pub(crate) segments: Vec<Segment>,
    segment_bytes: u64,
    /// The unit to which page lengths are rounded up.
    unit_bytes: u64,
    /// The newest commit.
    pub(crate) commit: u64,
    pub(crate) live_bytes: u64,
    views: BTreeMap<u64, u64>,
    next_view: u64,
    versions: HashMap<u64, Vec<Version>>,
}

impl Map {
    pub(crate) fn new(segments: u32, segment_blocks: u32, whole_blocks: bool) -> Self {
        Self {
            extents: Vec::new(),
            released: Vec::new(),
            segments: vec![Segment::default(); segments as usize],
            segment_bytes: u64::from(segment_blocks) * BLOCK_BYTES as u64,
            unit_bytes: if whole_blocks { BLOCK_BYTES } else { CELL_BYTES } as u64,
            commit: 0,
            live_bytes: 0,
            views: BTreeMap::new(),
            next_view: 1,
            versions: HashMap::new(),
        }
    }

    /// The bytes that an entry takes on the blocks.
    fn space_of(&self, e: Entry) -> u64 {
        (e.len() as u64).next_multiple_of(self.unit_bytes)
    }

    /// The segment that holds an entry.
    pub(crate) fn segment_of(&self, e: Entry) -> usize {
        ((e.byte() - FIRST_SEGMENT_LBA * BLOCK_BYTES as u64) / self.segment_bytes) as usize
    }

    pub(crate) fn segment_base(&self, segment: u32) -> u64 {
        FIRST_SEGMENT_LBA * BLOCK_BYTES as u64 + u64::from(segment) * self.segment_bytes
    }

    pub(crate) fn lives(&mut self, e: Entry) {
        if !e.is_none() {
            let (segment, space) = (self.segment_of(e), self.space_of(e));
            self.segments[segment].live += space;
            self.live_bytes += space;
        }
    }

    pub(crate) fn dies(&mut self, e: Entry) {
        if !e.is_none() {
            let (segment, space) = (self.segment_of(e), self.space_of(e));
            let left = self.segments[segment].live.checked_sub(space);
            self.segments[segment].live = left.expect("a live entry is released once");
            self.live_bytes -= space;
        }
    }

    pub(crate) fn extent(&self, e: ExtentId) -> Option<&Extent> {
        self.extents.get(e.raw() as usize)?.as_ref()
    }

    pub(crate) fn extent_mut(&mut self, raw: u64) -> Option<&mut Extent> {
        self.extents.get_mut(raw as usize)?.as_mut()
    }

    /// The current place of a page.
    pub(crate) fn get(&self, l: Lpid) -> Entry {
        self.extent(l.extent()).map_or(Entry::default(), |x| x.entries[usize::from(l.page())])
    }

    /// The place of a page as of `commit`.
    pub(crate) fn get_at(&self, l: Lpid, commit: u64) -> Entry {
        let old = self.versions.get(&l.raw()).and_then(|v| v.iter().find(|v| v.until > commit));
        old.map_or_else(|| self.get(l), |v| v.entry)
    }

    /// Maps a page to a new place, or unmaps it, as of `commit`. The old version is kept if a view shows it.
    pub(crate) fn put(&mut self, l: Lpid, to: Entry, commit: u64) {
        let from = self.replace(l, to);
        self.lives(to);
        self.replaced(l, from, commit);
    }

    /// As [`Map::put`], for a page that cleaning moved.
    pub(crate) fn moved(&mut self, l: Lpid, from: Entry, to: Entry) {
        let found = self.replace(l, to);
        assert_eq!(found, from, "{l} changed while it was moved");
        self.lives(to);
        self.dies(from);
    }

    fn replace(&mut self, l: Lpid, to: Entry) -> Entry {
        let Some(x) = self.extent_mut(l.extent().raw()) else { return Entry::default() };
        let from = std::mem::replace(&mut x.entries[usize::from(l.page())], to);
        x.mapped = x.mapped + u32::from(!to.is_none()) - u32::from(!from.is_none());
        x.dirty = true;
        from
    }

    /// Keeps or drops the version at `from`, which `commit` replaced.
    fn replaced(&mut self, l: Lpid, from: Entry, commit: u64) {
        let newest = self.views.values().copied().max();
        // No view shows a version that is newer than every view.
        let shown = newest.is_some_and(|newest| {
            let born = self.versions.get(&l.raw()).and_then(|v| v.last()).map_or(0, |v| v.until);
            newest >= born
        });
        match shown {
            true => self.versions.entry(l.raw()).or_default().push(Version { until: commit, entry: from }),
            false => self.dies(from),
        }
    }

    /// Records the new place of a moved old version.
    pub(crate) fn moved_version(&mut self, l: u64, from: Entry, to: Entry) {
        let mut found = false;
        for v in self.versions.get_mut(&l).into_iter().flatten().filter(|v| v.entry == from) {
            (v.entry, found) = (to, true);
        }
        if found {
            self.lives(to);
            self.dies(from);
        }
    }

    pub(crate) fn is_old_version(&self, l: u64, e: Entry) -> bool {
        self.versions.get(&l).is_some_and(|v| v.iter().any(|v| v.entry == e))
    }

    /// Allocates an extent. It takes a released number again only if every view is newer than the release.
    pub(crate) fn allocate(&mut self, owner: OwnerId) -> u64 {
        let oldest = self.views.values().copied().min().unwrap_or(u64::MAX);
        let at = self.released.iter().position(|(_, commit)| *commit <= oldest);
        let raw = match at {
            Some(at) => self.released.swap_remove(at).0,
            None => {
                self.extents.push(None);
                self.extents.len() as u64 - 1
            }
        };
        self.extents[raw as usize] = Some(Extent::new(owner));
        raw
    }

    /// As [`Map::allocate`], with a given number.
    pub(crate) fn allocate_at(&mut self, raw: u64, owner: OwnerId) {
        while self.extents.len() as u64 <= raw {
            self.released.push((self.extents.len() as u64, 0));
            self.extents.push(None);
        }
        self.released.retain(|(r, _)| *r != raw);
        self.extents[raw as usize] = Some(Extent::new(owner));
    }

    /// Releases an extent and all its pages.
    pub(crate) fn release(&mut self, raw: u64, commit: u64) {
        let Some(x) = self.extents.get_mut(raw as usize).and_then(Option::take) else { return };
        self.dies(x.home);
        let extent = ExtentId::new(raw).expect("it was handed out");
        for (at, e) in x.entries.iter().enumerate().filter(|(_, e)| !e.is_none()) {
            self.replaced(extent.page(at as u16), *e, commit);
        }
        self.released.push((raw, commit));
    }

    /// Opens a view of the newest commit. If there are `max` views already, it closes the oldest.
    pub(crate) fn open_view(&mut self, max: usize) -> (u64, CommitNo) {
        while self.views.len() >= max
            && let Some((&oldest, _)) = self.views.first_key_value()
        {
            self.close_view(oldest);
        }
        let view = self.next_view;
        self.next_view += 1;
        self.views.insert(view, self.commit);
        (view, CommitNo::new(self.commit))
    }

    pub(crate) fn view(&self, view: u64) -> Option<u64> {
        self.views.get(&view).copied()
    }

    /// Closes a view and drops the versions that only it showed. Returns whether it was open.
    pub(crate) fn close_view(&mut self, view: u64) -> bool {
        if self.views.remove(&view).is_none() {
            return false;
        }
        let commits: Vec<u64> = self.views.values().copied().collect();
        let mut gone = Vec::new();
        self.versions.retain(|_, versions| {
            let mut born = 0;
            versions.retain(|v| {
                let shown = commits.iter().any(|c| (born..v.until).contains(c));
                born = v.until;
                if !shown {
                    gone.push(v.entry);
                }
                shown
            });
            !versions.is_empty()
        });
        gone.into_iter().for_each(|e| self.dies(e));
        true
    }

    /// Checks the invariants.
    pub(crate) fn check(&self, roots: &[Entry]) {
        let mut live = vec![0; self.segments.len()];
        let current = self.extents.iter().flatten().flat_map(|x| x.entries.iter().chain([&x.home]));
        let old = self.versions.values().flatten().map(|v| &v.entry);
        for e in current.chain(old).chain(roots).filter(|e| !e.is_none()) {
            live[self.segment_of(*e)] += self.space_of(*e);
        }
        let counted: Vec<u64> = self.segments.iter().map(|s| s.live).collect();
        assert_eq!(live, counted, "live bytes of the segments");
        assert_eq!(live.iter().sum::<u64>(), self.live_bytes);
        for x in self.extents.iter().flatten() {
            assert_eq!(x.mapped as usize, x.entries.iter().filter(|e| !e.is_none()).count());
        }
    }
}
