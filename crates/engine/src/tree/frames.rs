//! Frames: versions of the trees' pages in memory.
//!
//! ```text
//!   LPID ─► newest frame ─► older ─► older        each immutable, with the number of the commit that made it
//!            │                └ kept while a snapshot may read it
//!            └ dirty until a batch of the drive holds it; then it may be evicted
//! ```
//!
//! The table has what a reader needs of the newest version beside the page's number: two places in memory for a page, this
//! and its bytes.
//!
//! A reader takes the newest version that is not beyond its snapshot; where the chain ends before that, its view of the
//! drive has the version. An extent may be handed out again while a snapshot is used whose view the drive has closed: it sees nothing of
//! the frames that come there then, and is told that it is too old. Invariants: the newest version of a page is the newest committed one; a dirty frame is never
//! evicted, nor one that the view of a snapshot which sees it is too old to have; what was read at a view other than the
//! newest never becomes a newest version.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lode_base::page_buf::allocated_bytes;
use lode_base::prefetch::prefetch_bytes;
use lode_base::{CommitNo, ExtentId, Lpid, PageBuf};
use lode_page::Node;
use parking_lot::{Mutex, RwLock};

use super::Csn;
use crate::planted::{self, Planted};

/// Shards of the table: threads that read different pages seldom meet.
const SHARDS: usize = 64;
/// Pages beside each other that are of one shard: a scan finds the values of a leaf there.
const SHARD_PAGES: u64 = 64;
/// Pages that are looked up under one lock.
const TOGETHER: usize = 16;
/// Bytes of such a page that are asked for before anybody reads them: the CPU goes on by itself from there.
const PREFETCHED_BYTES: usize = 512;
/// Bytes of the slots of a node that are asked for before it is searched.
const PREFETCHED_HEADS_BYTES: usize = 1024;
/// What a frame takes beside its page and its place in the table.
const FRAME_BYTES: usize = allocated_bytes(size_of::<Frame>() + 2 * size_of::<usize>());
/// What the place in a map and in a tree takes that a dirty frame has, about.
const LISTED_BYTES: usize = 96;
/// What the table of each shard may take without being counted: small databases have little more.
const TABLE_BYTES_MIN: usize = 4096;
/// The drive has not got this version yet.
const DIRTY: u64 = u64::MAX;

/// What a page is.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A node of a tree.
    Node(Node),
    /// A value that is a page of its own, header included.
    Value(PageBuf),
    /// Which pages of an extent are in use.
    Allocation(PageBuf),
    /// Nothing: the page was freed, and its LPID may be used again.
    Freed,
}

impl Body {
    /// Asks for what is read first: of a value its first bytes, which come while its references are counted, of a node its
    /// header and the heads of its keys, which a search would wait for one after the other.
    #[inline]
    fn prefetch(&self) {
        match self {
            Self::Value(page) => prefetch_bytes(&page[..page.len().min(PREFETCHED_BYTES)]),
            Self::Node(node) => {
                let page = node.bytes();
                prefetch_bytes(&page[..1]);
                prefetch_bytes(&page[page.len() - page.len().min(PREFETCHED_HEADS_BYTES)..]);
            }
            Self::Allocation(_) | Self::Freed => {}
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Node(n) => n.bytes().memory_bytes(),
            Self::Value(b) | Self::Allocation(b) => b.memory_bytes(),
            Self::Freed => 0,
        }
    }
}

/// One version of one page.
pub(crate) struct Frame {
    pub(crate) lpid: Lpid,
    pub(crate) csn: Csn,
    pub(crate) body: Body,
    /// The drive's commit that made this version the drive's, or [`DIRTY`].
    written: AtomicU64,
    older: Mutex<Option<Arc<Frame>>>,
    /// The commit that made the next version of the page. The one behind it in a chain may be another: what every snapshot
    /// finds in its view does not stay.
    next: AtomicU64,
    /// What was seen at most when its extent was handed out again, if there was anybody to see it.
    born: Option<Box<Sight>>,
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl Frame {
    fn new(lpid: Lpid, csn: Csn, body: Body, written: u64, all: &Frames) -> Self {
        let bytes = FRAME_BYTES + body.bytes();
        all.held.fetch_add(bytes, Ordering::Relaxed);
        let (written, next) = (AtomicU64::new(written), AtomicU64::new(u64::MAX));
        let (born, older, held) = (all.born(lpid.extent()), Mutex::new(None), all.held.clone());
        Self { lpid, csn, body, written, older, next, born, bytes, held }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.written.load(Ordering::Acquire) == DIRTY
    }

    /// Whether a snapshot that sees this version finds it in its view of the drive.
    fn is_in(&self, view: CommitNo) -> bool {
        self.written.load(Ordering::Acquire) <= view.raw()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// It has its place among those that are dirty.
    pub(crate) fn listed(&self) {
        self.held.fetch_add(LISTED_BYTES, Ordering::Relaxed);
    }

    /// It has it no more.
    pub(crate) fn unlisted(&self) {
        self.held.fetch_sub(LISTED_BYTES, Ordering::Relaxed);
    }

    /// The drive has this version from this commit on.
    pub(crate) fn set_written(&self, at: CommitNo) {
        self.written.store(at.raw(), Ordering::Release);
    }

    /// The version that a snapshot sees, from this one on; `None` when only its view of the drive has it.
    fn as_of(self: Arc<Self>, sight: Sight) -> Option<Arc<Self>> {
        if self.born.as_ref().is_some_and(|born| sight.is_before(**born)) {
            return None;
        }
        let mut frame = self;
        while frame.csn > sight.csn {
            let older = frame.older.lock().clone()?;
            frame = older;
        }
        (sight.csn.raw() < frame.next.load(Ordering::Acquire)).then_some(frame)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
        // A long chain would otherwise drop itself by recursion.
        let mut next = self.older.get_mut().take();
        while let Some(frame) = next {
            next = Arc::try_unwrap(frame).ok().and_then(|mut f| f.older.get_mut().take());
        }
    }
}

/// What a snapshot sees: all commits up to `csn`; its view of the drive is of commit `view`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sight {
    pub(crate) csn: Csn,
    pub(crate) view: CommitNo,
}

impl Sight {
    /// Whether it is of a time before something that was begun when no more than `begun` was seen. Commits show what they did there
    /// with their number, what needs none shows with a view.
    fn is_before(self, begun: Self) -> bool {
        self.csn <= begun.csn && self.view <= begun.view
    }
}

/// Spreads LPIDs, which are numbers already.
#[derive(Default)]
pub(crate) struct LpidHasher(u64);

impl Hasher for LpidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(b.into());
        }
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

pub(crate) type LpidMap<V> = std::collections::HashMap<Lpid, V, BuildHasherDefault<LpidHasher>>;

/// The newest version of a page.
struct Newest {
    frame: Arc<Frame>,
    /// As in the frame.
    csn: Csn,
    /// As in the frame; it shares the bytes.
    body: Body,
    /// Its place on the dial.
    at: u32,
    /// Whether it was read since the hand last came by.
    used: AtomicBool,
    /// Its extent was handed out again: the frame says who sees it.
    reissued: bool,
}

impl Newest {
    fn new(frame: Arc<Frame>, at: u32) -> Self {
        let (csn, body, reissued) = (frame.csn, frame.body.clone(), frame.born.is_some());
        Self { frame, csn, body, at, used: AtomicBool::new(false), reissued }
    }

    /// Whether a snapshot sees it; where this says no, the frame knows more.
    #[inline]
    fn is_seen(&self, sight: Sight) -> bool {
        self.csn <= sight.csn && !self.reissued
    }

    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

fn shard_of(lpid: Lpid) -> usize {
    let mut h = LpidHasher::default();
    h.write_u64(lpid.raw() / SHARD_PAGES);
    // The table inside takes the low and the highest bits.
    (h.finish() >> 40) as usize % SHARDS
}

#[derive(Default)]
struct Shard {
    newest: LpidMap<Newest>,
    /// What the hand goes over.
    dial: Vec<Option<Lpid>>,
    free: Vec<u32>,
    /// Where the hand of the clock is.
    hand: usize,
    /// Places of the map: a power of two, of which it fills seven of eight.
    places: usize,
    /// Bytes of all this that are counted.
    counted: usize,
}

/// All frames, by page.
pub(crate) struct Frames {
    shards: Vec<RwLock<Shard>>,
    held: Arc<AtomicUsize>,
    limit_bytes: usize,
    /// The newest view of the drive.
    view: AtomicU64,
    /// How many snapshots are open, by what they see.
    live: Mutex<BTreeMap<Sight, u32>>,
    /// The shard that is looked at next for something to evict.
    next_shard: AtomicUsize,
    misses: AtomicU64,
    /// Extents of trees that were dropped.
    dropped: Mutex<BTreeSet<ExtentId>>,
    /// Those of them that were handed out again, and what was seen then at most, while somebody sees no more.
    born: RwLock<BTreeMap<ExtentId, Sight>>,
}

impl Frames {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        let (held, view, next_shard) = (Arc::default(), AtomicU64::new(0), AtomicUsize::new(0));
        let (misses, live) = (AtomicU64::new(0), Mutex::default());
        let (dropped, born) = (Mutex::default(), RwLock::default());
        Self { shards, held, limit_bytes, view, live, next_shard, misses, dropped, born }
    }

    /// A snapshot opens.
    pub(crate) fn enter(&self, sight: Sight) {
        *self.live.lock().entry(sight).or_default() += 1;
    }

    /// A snapshot closes.
    pub(crate) fn leave(&self, sight: Sight) {
        let mut live = self.live.lock();
        let count = live.get_mut(&sight).expect("every open snapshot is counted");
        *count -= 1;
        if *count == 0 {
            live.remove(&sight);
        }
    }

    fn live(&self) -> Vec<Sight> {
        self.live.lock().keys().copied().collect()
    }

    fn shard(&self, lpid: Lpid) -> &RwLock<Shard> {
        &self.shards[shard_of(lpid)]
    }

    /// Bytes that the table and all frames take, also those that only a snapshot holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Reads that did not find their page here.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// The version that a snapshot sees; `None` when only its view of the drive has it.
    pub(crate) fn get(&self, lpid: Lpid, sight: Sight) -> Option<Arc<Frame>> {
        let newest = {
            let shard = self.shard(lpid).read();
            let newest = shard.newest.get(&lpid)?;
            newest.touch();
            newest.frame.clone()
        };
        newest.as_of(sight)
    }

    /// What `look` makes of the version that a snapshot sees: as [`Frames::get`], for those who need nothing else of it.
    #[inline]
    pub(crate) fn look<R>(&self, lpid: Lpid, sight: Sight, look: impl FnOnce(&Body) -> R) -> Option<R> {
        let newest = {
            let shard = self.shard(lpid).read();
            let newest = shard.newest.get(&lpid)?;
            newest.touch();
            // Nothing has replaced it.
            if newest.is_seen(sight) {
                newest.body.prefetch();
                return Some(look(&newest.body));
            }
            newest.frame.clone()
        };
        newest.as_of(sight).map(|f| look(&f.body))
    }

    /// As [`Frames::look`], of several pages; appends what is made of each. Those that lie beside each other are looked up
    /// under one lock, and what is not in the CPU's caches of them comes together.
    pub(crate) fn look_at_all<R>(
        &self,
        mut lpids: &[Lpid],
        sight: Sight,
        look: impl Fn(Lpid, &Body) -> R,
        out: &mut Vec<Option<R>>,
    ) {
        while let Some(&first) = lpids.first() {
            let at = shard_of(first);
            let together = lpids.iter().take(TOGETHER).take_while(|&&l| shard_of(l) == at).count();
            let (these, others) = lpids.split_at(together);
            let shard = self.shards[at].read();
            let mut newest = [None; TOGETHER];
            for (place, lpid) in newest.iter_mut().zip(these) {
                *place = shard.newest.get(lpid);
                if let Some(newest) = place {
                    newest.body.prefetch();
                }
            }
            out.extend(these.iter().zip(newest).map(|(&lpid, newest)| {
                let newest = newest?;
                newest.touch();
                match newest.is_seen(sight) {
                    true => Some(look(lpid, &newest.body)),
                    false => newest.frame.clone().as_of(sight).map(|f| look(lpid, &f.body)),
                }
            }));
            lpids = others;
        }
    }

    /// A page as a view of the drive has it. It becomes the newest version when the view is the newest.
    pub(crate) fn loaded(&self, lpid: Lpid, csn: Csn, body: Body, sight: Sight) -> Arc<Frame> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let frame = Arc::new(Frame::new(lpid, csn, body, sight.view.raw(), self));
        {
            let mut shard = self.shard(lpid).write();
            let newest = self.view.load(Ordering::Acquire) == sight.view.raw()
                || planted::is(Planted::OldLoadedAsNewest);
            if newest && !shard.newest.contains_key(&lpid) {
                shard.insert(lpid, frame.clone());
                shard.count(&self.held);
            }
        }
        self.evict();
        frame
    }

    /// A version that a commit makes, dirty.
    pub(crate) fn made(&self, lpid: Lpid, csn: Csn, body: Body) -> Arc<Frame> {
        Arc::new(Frame::new(lpid, csn, body, DIRTY, self))
    }

    /// Makes versions the newest of their pages, before a snapshot shows them.
    pub(crate) fn publish(&self, frames: &[Arc<Frame>]) {
        let (live, full) = (self.live(), self.is_full());
        for frame in frames {
            let mut shard = self.shard(frame.lpid).write();
            let old = shard.insert(frame.lpid, frame.clone());
            shard.count(&self.held);
            if let Some(old) = old {
                old.next.store(frame.csn.raw(), Ordering::Release);
                *frame.older.lock() = kept(old, &live, full);
            }
        }
        self.evict();
    }

    /// The view of the drive that holds all that was written so far is this one.
    pub(crate) fn set_view(&self, view: CommitNo) {
        self.view.store(view.raw(), Ordering::Release);
    }

    /// Whether frames take more than they should.
    pub(crate) fn is_full(&self) -> bool {
        self.held_bytes() > self.limit_bytes
    }

    /// Lets go of what was not read for longest, about, until the limit holds or nothing more can go.
    pub(crate) fn evict(&self) {
        if !self.is_full() {
            return;
        }
        let live = self.live();
        // Twice around at most: once to take the marks away, once to evict.
        for _ in 0..2 * SHARDS {
            if !self.is_full() {
                return;
            }
            let i = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let Some(mut shard) = self.shards[i].try_write() else { continue };
            let gone = shard.sweep(self.held_bytes().saturating_sub(self.limit_bytes), &live);
            shard.shrink();
            shard.count(&self.held);
            drop(shard);
            drop(gone);
        }
    }

    /// The tree that these extents were of is no more; snapshots may see its pages still.
    pub(crate) fn drop_extents(&self, extents: impl Iterator<Item = ExtentId>) {
        self.dropped.lock().extend(extents);
    }

    /// Forgets the pages of an extent that was handed out, perhaps of a tree that is no more, while commits up to `newest` were seen.
    /// Who saw that tree sees none of the frames to come.
    pub(crate) fn forget(&self, extent: ExtentId, newest: Csn) {
        let sight = Sight { csn: newest, view: CommitNo::new(self.view.load(Ordering::Acquire)) };
        let live = self.live();
        {
            let mut born = self.born.write();
            born.retain(|_, begun| live.iter().any(|s| s.is_before(*begun)));
            if self.dropped.lock().remove(&extent) {
                born.insert(extent, sight);
            }
        }
        for shard in &self.shards {
            let mut shard = shard.write();
            let gone: Vec<Lpid> = shard.newest.keys().copied().filter(|l| l.extent() == extent).collect();
            gone.iter().for_each(|&l| drop(shard.remove(l)));
        }
    }

    /// What was seen at most when this extent was handed out again, if anybody who saw no more may be there still.
    fn born(&self, extent: ExtentId) -> Option<Box<Sight>> {
        self.born.read().get(&extent).copied().map(Box::new)
    }

    /// Forgets every page that the drive has for whoever may read it.
    pub(crate) fn clear(&self) {
        let live = self.live();
        for shard in &self.shards {
            let mut shard = shard.write();
            shard.newest.values().for_each(|n| n.used.store(false, Ordering::Relaxed));
            let gone = shard.sweep(usize::MAX, &live);
            shard.shrink();
            shard.count(&self.held);
            drop(shard);
            drop(gone);
        }
    }
}

impl Shard {
    /// Counts what the table takes now, where that has changed.
    fn count(&mut self, held: &AtomicUsize) {
        // A map with gaps, where something was removed, has room for less than its places.
        self.places = self.places.max((self.newest.capacity() * 8 / 7).next_power_of_two());
        let bytes = self.places * (size_of::<(Lpid, Newest)>() + 1)
            + self.dial.capacity() * size_of::<Option<Lpid>>()
            + self.free.capacity() * size_of::<u32>();
        let bytes = bytes.saturating_sub(TABLE_BYTES_MIN);
        if bytes != self.counted {
            held.fetch_add(bytes.wrapping_sub(self.counted), Ordering::Relaxed);
            self.counted = bytes;
        }
    }

    /// Gives back what a table of far more, and shorter, pages took.
    fn shrink(&mut self) {
        const PLACES_MIN: usize = 64;
        let len = self.newest.len();
        if self.dial.len() < PLACES_MIN || self.dial.len() / 4 < len {
            return;
        }
        self.newest.shrink_to(2 * len);
        self.places = 0;
        self.dial = Vec::with_capacity(2 * len);
        for (lpid, newest) in &mut self.newest {
            newest.at = self.dial.len() as u32;
            self.dial.push(Some(*lpid));
        }
        (self.free, self.hand) = (Vec::new(), 0);
    }

    fn insert(&mut self, lpid: Lpid, frame: Arc<Frame>) -> Option<Arc<Frame>> {
        if let Some(newest) = self.newest.get_mut(&lpid) {
            return Some(std::mem::replace(newest, Newest::new(frame, newest.at)).frame);
        }
        let at = match self.free.pop() {
            Some(at) => {
                self.dial[at as usize] = Some(lpid);
                at
            }
            None => {
                self.dial.push(Some(lpid));
                self.dial.len() as u32 - 1
            }
        };
        self.newest.insert(lpid, Newest::new(frame, at));
        None
    }

    fn remove(&mut self, lpid: Lpid) -> Option<Arc<Frame>> {
        let newest = self.newest.remove(&lpid)?;
        self.free.push(newest.at);
        self.dial[newest.at as usize] = None;
        Some(newest.frame)
    }

    /// Moves the hand once around, or until so many bytes are gone. Answers what went.
    fn sweep(&mut self, excess_bytes: usize, live: &[Sight]) -> Vec<Arc<Frame>> {
        let mut gone = Vec::new();
        let mut bytes = 0;
        for _ in 0..self.dial.len() {
            if bytes >= excess_bytes {
                break;
            }
            self.hand = (self.hand + 1) % self.dial.len();
            let Some(lpid) = self.dial[self.hand] else { continue };
            let newest = &self.newest[&lpid];
            let frame = &newest.frame;
            {
                let mut older = frame.older.lock();
                if let Some(old) = older.take() {
                    *older = kept(old, live, true);
                }
                // With older versions behind it, it leads their readers to them.
                if older.is_some() || newest.used.swap(false, Ordering::Relaxed) {
                    continue;
                }
            }
            let dirty = frame.is_dirty() && !planted::is(Planted::DirtyEvicted);
            let needed = live.iter().any(|s| frame.csn <= s.csn && !frame.is_in(s.view));
            let needed =
                needed && !planted::is(Planted::NeededEvicted) && !planted::is(Planted::DirtyEvicted);
            if dirty || needed {
                continue;
            }
            bytes += frame.bytes;
            gone.extend(self.remove(lpid));
        }
        gone
    }
}

/// The chain from `old` on, without the versions that no snapshot reads; with `short` memory also without those that every
/// snapshot finds in its view.
fn kept(old: Arc<Frame>, live: &[Sight], short: bool) -> Option<Arc<Frame>> {
    let sees = |f: &Frame, s: &Sight| f.csn <= s.csn && s.csn.raw() < f.next.load(Ordering::Acquire);
    let needed = |f: &Frame| live.iter().any(|s| sees(f, s) && !(short && f.is_in(s.view)));
    let needed = |f: &Frame| needed(f) && !planted::is(Planted::OlderVersionDropped);
    let (mut versions, mut at) = (Vec::new(), Some(old));
    while let Some(frame) = at {
        at = frame.older.lock().clone();
        if needed(&frame) {
            versions.push(frame);
        }
    }
    // A reader on its way down the chain finds either link, never none in between.
    for pair in versions.windows(2) {
        let gone = pair[0].older.lock().replace(pair[1].clone());
        drop(gone);
    }
    if let Some(last) = versions.last() {
        let gone = last.older.lock().take();
        drop(gone);
    }
    versions.into_iter().next()
}
