//! All frames, by page: what readers find, what commits put there, and pages that were read from the drive.

use std::hash::Hasher;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lode_base::lookup::{Lookup, Reading};
use lode_base::prefetch::prefetch_bytes;
use lode_base::{CommitNo, EXTENT_PAGES, ExtentId, Lpid, TableId};
use parking_lot::Mutex;

use super::dropped::DroppedTrees;
use super::evict::{self, Hand};
use super::frame::Frame;
use super::lpid_map::LpidHasher;
use super::open::{OpenSights, OpenSnapshots, Sight};
use crate::planted::{self, Planted};
use crate::trees::page::body::{Body, PREFETCHED_BYTES};
use crate::trees::page::value;
use crate::trees::tree::Csn;

/// Shards of the table: threads that change different pages seldom meet.
const SHARDS: usize = 64;
/// Pages whose memory is prefetched together, before the first of them is looked at.
pub(crate) const TOGETHER: usize = 16;
/// What the table may take without being counted: small databases have little more.
const TABLE_BYTES_MIN: usize = SHARDS * 4096;

fn shard_of(lpid: u64) -> usize {
    let mut h = LpidHasher::default();
    h.write_u64(lpid);
    // The shards take the highest bits.
    h.finish() as usize % SHARDS
}

/// A version that a snapshot sees.
pub(crate) enum Version<'a> {
    Newest(&'a Frame),
    Older(Arc<Frame>),
}

impl Deref for Version<'_> {
    type Target = Frame;

    #[inline]
    fn deref(&self) -> &Frame {
        match self {
            Self::Newest(frame) => frame,
            Self::Older(frame) => frame,
        }
    }
}

/// A reader of frames. What it finds stays in memory until it is dropped.
pub(crate) struct Reader<'a>(Reading<'a, Frame>);

impl Reader<'_> {
    /// Prefetches what a search of the newest versions of these pages looks at, for up to a few dozen of them.
    pub(crate) fn prefetch(&self, lpids: &[Lpid]) {
        self.prefetch_frames(lpids.iter().copied());
        lpids.iter().filter_map(|lpid| self.0.get(lpid.raw())).for_each(|frame| frame.body().prefetch());
    }

    /// Prefetches the newest versions of these pages, without what their bodies point to.
    fn prefetch_frames(&self, lpids: impl Iterator<Item = Lpid> + Clone) {
        lpids.clone().for_each(|lpid| self.0.prefetch(lpid.raw()));
        lpids.for_each(|lpid| self.0.prefetch_whole(lpid.raw()));
    }

    /// The version that a snapshot sees. `None` when only its view of the drive has it.
    #[inline]
    pub(crate) fn get(&self, lpid: Lpid, sight: Sight) -> Option<Version<'_>> {
        let newest = self.0.get(lpid.raw())?;
        // Nothing has replaced it.
        if newest.is_seen(sight) {
            newest.body().prefetch();
            return Some(Version::Newest(newest));
        }
        // Another version may be the newest by now. Then the search begins there.
        self.0.get_shared(lpid.raw())?.as_of(sight).map(Version::Older)
    }

    /// The page of a value, if the snapshot sees the newest version of it. [`Reader::get`] finds the page in all cases.
    #[inline]
    pub(crate) fn value_page(&self, lpid: Lpid, sight: Sight) -> Option<&[u8]> {
        let page = self.0.bytes(lpid.raw())?;
        prefetch_bytes(&page[..page.len().min(PREFETCHED_BYTES)]);
        value::is_seen(page, lpid, sight.csn).then_some(page)
    }
}

/// All frames.
pub(crate) struct Frames {
    newest: Lookup<Frame>,
    /// Bytes of all frames, also of those that only a snapshot keeps.
    memory: Arc<AtomicUsize>,
    limit_bytes: usize,
    /// The newest view of the drive.
    view: AtomicU64,
    open: OpenSnapshots,
    dropped: DroppedTrees,
    hand: Hand,
    misses: AtomicU64,
    /// Pages that got a new version with the last commit: until then a snapshot needed the version before.
    replaced: Mutex<Vec<Lpid>>,
}

impl Frames {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            newest: Lookup::new(SHARDS, shard_of),
            memory: Arc::default(),
            limit_bytes,
            view: AtomicU64::new(0),
            open: OpenSnapshots::default(),
            dropped: DroppedTrees::default(),
            hand: Hand::default(),
            misses: AtomicU64::new(0),
            replaced: Mutex::default(),
        }
    }

    /// A snapshot opens.
    pub(crate) fn enter(&self, sight: Sight) {
        self.open.enter(sight);
    }

    /// A snapshot closes.
    pub(crate) fn leave(&self, sight: Sight) {
        // The oldest snapshot kept what nobody else needs.
        self.open.leave(sight, || self.hand.unstick());
    }

    /// Bytes that the table and all frames take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.load(Ordering::Relaxed) + self.newest.bytes().saturating_sub(TABLE_BYTES_MIN)
    }

    /// Reads that did not find their page here.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Begins to read, for a short while: frames that leave meanwhile take memory until the reader is dropped.
    #[inline]
    pub(crate) fn enter_reader(&self) -> Reader<'_> {
        Reader(self.newest.enter())
    }

    /// The version that a snapshot sees, to be kept for longer. `None` when only its view of the drive has it.
    pub(crate) fn get(&self, lpid: Lpid, sight: Sight) -> Option<Arc<Frame>> {
        self.newest.enter().get_shared(lpid.raw())?.as_of(sight)
    }

    /// Appends what `look` makes of the versions of several pages that a snapshot sees, in their order. Their memory is prefetched
    /// together.
    pub(crate) fn look_at_all<R>(
        &self,
        lpids: &[Lpid],
        sight: Sight,
        look: impl Fn(Lpid, &Body) -> R,
        out: &mut Vec<Option<R>>,
    ) {
        for lpids in lpids.chunks(TOGETHER) {
            let reader = self.enter_reader();
            lpids.iter().for_each(|lpid| reader.0.prefetch(lpid.raw()));
            lpids.iter().for_each(|lpid| reader.0.prefetch_value(lpid.raw()));
            let mut versions = [const { None }; TOGETHER];
            for (version, lpid) in versions.iter_mut().zip(lpids) {
                *version = reader.get(*lpid, sight);
            }
            out.extend(lpids.iter().zip(versions).map(|(&lpid, version)| Some(look(lpid, version?.body()))));
        }
    }

    /// A page as a view of the drive has it. It becomes the newest version if the view is the newest.
    pub(crate) fn loaded(&self, lpid: Lpid, csn: Csn, body: Body, sight: Sight) -> Arc<Frame> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let handed_out_at = self.dropped.handed_out_at(lpid.extent());
        let frame = Arc::new(Frame::loaded(lpid, csn, body, handed_out_at, &self.memory));
        {
            let mut gone = self.newest.departures();
            let mut shard = self.newest.lock(lpid.raw());
            let is_newest = planted::instead(
                Planted::OldLoadedAsNewest,
                || self.view.load(Ordering::Acquire) == sight.view.raw(),
                || true,
            );
            if is_newest && !shard.contains(lpid.raw()) {
                shard.insert(frame.clone(), &mut gone);
            }
        }
        self.evict();
        frame
    }

    /// A version that a commit makes: dirty.
    pub(crate) fn made(&self, lpid: Lpid, csn: Csn, body: Body) -> Arc<Frame> {
        let handed_out_at = self.dropped.handed_out_at(lpid.extent());
        Arc::new(Frame::made(lpid, csn, body, handed_out_at, &self.memory))
    }

    /// Makes versions the newest of their pages, before a snapshot shows them. Only the writer may call this.
    pub(crate) fn publish(&self, frames: &[Arc<Frame>]) {
        let (mut open, is_full) = (self.open.sights(), self.is_full());
        let mut replaced = self.replaced.lock();
        for lpids in replaced.chunks(TOGETHER) {
            self.shorten(lpids, &mut open, is_full);
        }
        replaced.clear();
        let mut gone = self.newest.departures();
        for frames in frames.chunks(TOGETHER) {
            self.enter_reader().prefetch_frames(frames.iter().map(|f| f.lpid()));
            for frame in frames {
                let mut shard = self.newest.lock(frame.lpid().raw());
                // A reader that finds the new version finds the old ones behind it. A reader that finds the old one does not see the new
                // one yet.
                shard.replace(frame.clone(), &mut gone, |old| {
                    frame.follow(old, &mut open, is_full);
                    replaced.push(frame.lpid());
                });
            }
        }
        drop(gone);
        drop(replaced);
        self.evict();
    }

    /// Lets go of the versions behind the newest ones of these pages that no snapshot reads any more.
    fn shorten(&self, lpids: &[Lpid], open: &mut OpenSights<'_>, is_full: bool) {
        let mut old: Vec<Arc<Frame>> = Vec::with_capacity(lpids.len());
        {
            let reader = self.newest.enter();
            let newest = lpids.iter().filter_map(|lpid| reader.get(lpid.raw()));
            old.extend(newest.filter_map(|frame| frame.shorten(open, is_full)));
        }
        // Their reference counts were prefetched.
        drop(old);
    }

    /// From now on the newest view of the drive, which has all that was written so far, is this one.
    pub(crate) fn set_view(&self, view: CommitNo) {
        self.view.store(view.raw(), Ordering::Release);
    }

    /// Whether frames take more memory than they should.
    fn is_full(&self) -> bool {
        self.memory_bytes() > self.limit_bytes
    }

    /// Whether frames take more memory than they should because open snapshots need them.
    pub(crate) fn is_stuck(&self) -> bool {
        self.hand.is_stuck() && self.is_full()
    }

    /// As [`Frames::evict`], after pages were written back.
    pub(crate) fn evict_written(&self) {
        self.hand.unstick();
        self.evict();
    }

    /// Lets frames leave that were not used for long, about, until the limit holds or none may leave.
    pub(crate) fn evict(&self) {
        if !self.is_full() {
            return;
        }
        self.newest.reclaim();
        let Some(begun) = self.hand.begin(|| self.memory_bytes(), self.limit_bytes) else { return };
        let (mut open, mut busy) = (self.open.sights(), false);
        // Twice around at most: once to take the marks away, once to evict. What readers have found leaves as soon as they do.
        for _ in 0..2 * SHARDS {
            let excess = self.memory_bytes().saturating_sub(self.limit_bytes + self.newest.gone_weight());
            if excess == 0 {
                self.hand.within_limit();
                return;
            }
            let mut gone = self.newest.departures();
            let Some(mut shard) = self.newest.try_lock_shard(self.hand.next_shard(SHARDS)) else {
                busy = true;
                continue;
            };
            evict::sweep(&mut shard, excess, &mut open, &mut gone);
            shard.shrink(&mut gone);
        }
        if !busy {
            self.hand.got_stuck(begun, self.memory_bytes());
        }
    }

    /// A tree with these extents is dropped. Snapshots may still see its pages.
    pub(crate) fn drop_tree(&self, tree: TableId, extents: impl Iterator<Item = ExtentId>) {
        self.dropped.add(tree, extents);
    }

    /// Whether a tree was dropped.
    pub(crate) fn is_dropped(&self, tree: TableId) -> bool {
        self.dropped.contains(tree)
    }

    /// Forgets the pages of an extent that was handed out, perhaps one of a dropped tree. `newest` is the newest commit that
    /// anybody sees.
    pub(crate) fn forget(&self, extent: ExtentId, newest: Csn) {
        let most = Sight { csn: newest, view: CommitNo::new(self.view.load(Ordering::Acquire)) };
        self.dropped.hand_out(extent, most, &mut self.open.sights());
        let mut gone = self.newest.departures();
        for page in 0..EXTENT_PAGES as u16 {
            let lpid = extent.page(page).raw();
            // Most extents are new, and have no frames.
            if self.newest.enter().get(lpid).is_some() {
                self.newest.lock(lpid).remove(lpid, &mut gone);
            }
        }
    }

    /// Lets every frame leave whose page every open snapshot finds in its view of the drive.
    pub(crate) fn clear(&self) {
        self.hand.unstick();
        self.newest.reclaim();
        let mut open = self.open.sights();
        for i in 0..SHARDS {
            let mut gone = self.newest.departures();
            let mut shard = self.newest.lock_shard(i);
            evict::forget_use(&mut shard, &mut gone);
            evict::sweep(&mut shard, usize::MAX, &mut open, &mut gone);
            shard.shrink(&mut gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 64 << 10;

    fn sight(csn: u64, view: u64) -> Sight {
        Sight { csn: Csn::new(csn), view: CommitNo::new(view) }
    }

    fn lpid(n: u64) -> Lpid {
        ExtentId::new(1).unwrap().page(n as u16)
    }

    fn page(n: u64, csn: u64) -> Body {
        Body::Value(value::encode(lpid(n), Csn::new(csn), &[7; 1000]))
    }

    /// So many versions of commit 1, which the drive has from its commit 2 on: a snapshot with an older view needs them.
    fn with_needed(count: u64) -> Frames {
        let frames = Frames::new(LIMIT);
        frames.set_view(CommitNo::new(1));
        frames.enter(sight(1, 1));
        let made: Vec<_> = (0..count).map(|n| frames.made(lpid(n), Csn::new(1), page(n, 1))).collect();
        frames.publish(&made);
        made.iter().for_each(|f| f.set_written(CommitNo::new(2)));
        frames
    }

    #[test]
    fn what_snapshots_keep_is_not_looked_through_again_for_each_page_that_comes() {
        // Found by a review: while a long snapshot kept more than the limit, every miss looked at all frames in vain.
        let frames = with_needed(100);
        frames.evict_written();
        let kept = frames.memory_bytes();
        assert!(frames.is_stuck() && kept > LIMIT);
        let load = |n: u64| drop(frames.loaded(lpid(n), Csn::new(1), page(n, 1), sight(1, 1)));
        (100..102).for_each(load);
        assert!((100..102).all(|n| frames.get(lpid(n), sight(1, 1)).is_some()), "nothing was looked at");
        (102..110).for_each(load);
        assert!(frames.memory_bytes() < kept + LIMIT / 8, "what nobody needs goes in time");
        assert!((0..100).all(|n| frames.get(lpid(n), sight(1, 1)).is_some()));
        // Another one that closes frees nothing; the oldest does.
        frames.enter(sight(1, 2));
        frames.leave(sight(1, 2));
        assert!(frames.is_stuck());
        frames.enter(sight(1, 2));
        frames.leave(sight(1, 1));
        frames.evict();
        assert!(!frames.is_stuck() && frames.memory_bytes() <= LIMIT);
    }

    #[test]
    fn what_only_the_snapshot_before_a_commit_needed_goes_with_the_next_commit() {
        let frames = Frames::new(usize::MAX);
        let commit = |csn: u64, pages: std::ops::Range<u64>| {
            let made: Vec<_> = pages.map(|n| frames.made(lpid(n), Csn::new(csn), page(n, csn))).collect();
            frames.publish(&made);
        };
        commit(1, 0..100);
        let one_each = frames.memory_bytes();
        for (csn, before) in (2..).zip([1, 2, 3]) {
            frames.enter(sight(before, 0));
            commit(csn, 0..100);
            assert!(frames.memory_bytes() > one_each * 3 / 2, "it is still open");
            assert_eq!(frames.get(lpid(7), sight(before, 0)).unwrap().csn(), Csn::new(before));
            frames.leave(sight(before, 0));
        }
        frames.enter(sight(4, 0));
        commit(5, 0..1);
        assert!(frames.memory_bytes() < one_each * 5 / 4);
        // One that stays open loses nothing.
        commit(6, 0..100);
        commit(7, 0..1);
        commit(8, 0..100);
        assert!((0..100).all(|n| frames.get(lpid(n), sight(4, 0)).unwrap().csn() == Csn::new(4)));
    }

    #[test]
    fn what_is_read_beside_an_old_snapshot_goes_again() {
        // Found by a review: pages read at a newer view counted as missing in that of the old one, and stayed while it was open.
        let frames = Frames::new(LIMIT);
        frames.set_view(CommitNo::new(1));
        frames.enter(sight(10, 1));
        frames.set_view(CommitNo::new(2));
        frames.enter(sight(11, 2));
        for n in 0..1000 {
            frames.loaded(lpid(n), Csn::new(3), page(n, 3), sight(11, 2));
        }
        assert!(frames.memory_bytes() <= LIMIT && frames.get(lpid(999), sight(10, 1)).is_some());
    }

    #[test]
    fn a_snapshot_that_opens_while_others_are_evicted_keeps_what_it_needs() {
        let frames = with_needed(10);
        let mut open = frames.open.sights();
        assert_eq!(open.now(), [sight(1, 1)]);
        frames.enter(sight(3, 1));
        assert_eq!(open.now(), [sight(1, 1), sight(3, 1)]);
    }
}
