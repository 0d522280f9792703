//! The buffer pool: headers and columns of pages, decoded, within a limit of memory.
//!
//! ```text
//!   (LPID, part) ─► shard ─► frame        part: the page's header and directory, or one column
//! ```
//!
//! A pool frame has the newest version of a part. Before a commit that changes a page is published, it drops the frames of the page
//! and notes its number. A snapshot uses or fills a frame only if it is not older than that number. Eviction is by second chance: a
//! frame that was used since the hand last passed stays once more. A part of the limit can be lent for a while.
//!
//! Invariants: the bytes of a shard are the sum of those of its frames, and at most its limit. A frame is of the newest version.

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lode_base::{CommitNo, Lpid};
use lode_page::{Column, TablePage};
use parking_lot::Mutex;

use crate::Map;

/// A shard is at least this large, so that large columns have a place.
const SHARD_BYTES_MIN: usize = 16 << 20;
const SHARDS_MAX: usize = 16;
/// A shard lends all of its limit but this part.
const KEPT: usize = 8;
/// What a frame takes beside its part, about.
const FRAME_OVERHEAD_BYTES: usize = 160;

/// What the buffer pool holds, and how well it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes held.
    pub bytes: u64,
    /// Bytes that may be held.
    pub limit_bytes: u64,
    /// Frames held: headers and columns of pages.
    pub frames: u64,
    /// Lookups that found their frame.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Frames that were evicted.
    pub evictions: u64,
}

/// Which part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Page,
    Column(u16),
}

/// A part, decoded.
#[derive(Clone, Debug)]
pub(crate) enum Pooled {
    Page(Arc<TablePage>),
    Column(Column),
}

pub(crate) struct Pool {
    shards: Vec<Mutex<Shard>>,
    /// The limit of a shard when nothing is lent.
    shard_full_bytes: usize,
    /// The limit of a shard now.
    shard_limit_bytes: AtomicUsize,
    lent_bytes: Mutex<usize>,
    /// Changed pages by commit, oldest first, while a snapshot that is older than the commit may be read.
    history: Mutex<VecDeque<(CommitNo, Vec<Lpid>)>>,
}

#[derive(Default)]
struct Shard {
    frames: Map<Lpid, Vec<PooledPart>>,
    frame_count: usize,
    /// The order in which the hand passes. It may name frames that were dropped.
    ring: VecDeque<(Lpid, u64)>,
    /// The newest commit that changed a page, while an older snapshot may be open.
    changed: Map<Lpid, CommitNo>,
    bytes: usize,
    next_id: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
}

struct PooledPart {
    id: u64,
    part: Part,
    frame: Pooled,
    bytes: usize,
    used: bool,
}

impl Pool {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        let shards = (limit_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            shard_full_bytes: limit_bytes / shards,
            shard_limit_bytes: AtomicUsize::new(limit_bytes / shards),
            lent_bytes: Mutex::new(0),
            history: Mutex::default(),
        }
    }

    /// Lends so many bytes of the limit, and evicts what exceeds the rest; false if the pool cannot spare them.
    pub(crate) fn lend(&self, bytes: usize) -> bool {
        let mut lent = self.lent_bytes.lock();
        let Some(sum) = lent.checked_add(bytes).filter(|&sum| sum <= self.lent_bytes_max()) else {
            return false;
        };
        *lent = sum;
        let limit = self.limit_with(sum);
        for shard in &self.shards {
            shard.lock().make_room(limit);
        }
        true
    }

    /// The most bytes that are lent at a time.
    pub(crate) fn lent_bytes_max(&self) -> usize {
        (self.shard_full_bytes - self.shard_full_bytes / KEPT) * self.shards.len()
    }

    /// Takes back bytes that were lent.
    pub(crate) fn take_back(&self, bytes: usize) {
        let mut lent = self.lent_bytes.lock();
        *lent = lent.checked_sub(bytes).expect("as much was lent");
        self.limit_with(*lent);
    }

    /// Sets the limit of a shard while so much is lent, and answers it.
    fn limit_with(&self, lent: usize) -> usize {
        let limit = self.shard_full_bytes - lent.div_ceil(self.shards.len());
        // The caller locks each shard next, and so waits for threads that fill a shard by the old limit.
        self.shard_limit_bytes.store(limit, Ordering::SeqCst);
        limit
    }

    /// The frame of a part, for a snapshot of this commit.
    pub(crate) fn get(&self, lpid: Lpid, part: Part, snapshot: CommitNo) -> Option<Pooled> {
        let mut shard = self.shard(lpid).lock();
        let s = &mut *shard;
        let current = s.changed.get(&lpid).is_none_or(|&c| c <= snapshot);
        let held = s.frames.get_mut(&lpid).filter(|_| current);
        match held.and_then(|parts| parts.iter_mut().find(|h| h.part == part)) {
            Some(h) => {
                h.used = true;
                s.hits += 1;
                Some(h.frame.clone())
            }
            None => {
                s.misses += 1;
                None
            }
        }
    }

    /// Keeps a part that a snapshot of this commit read, if it is the newest version and not too large. `bytes` is the memory that
    /// it keeps alive.
    pub(crate) fn insert(&self, lpid: Lpid, part: Part, snapshot: CommitNo, frame: Pooled, bytes: usize) {
        let bytes = bytes + FRAME_OVERHEAD_BYTES;
        let mut s = self.shard(lpid).lock();
        let current = s.changed.get(&lpid).is_none_or(|&c| c <= snapshot);
        let held = s.frames.get(&lpid).is_some_and(|parts| parts.iter().any(|h| h.part == part));
        let limit = self.shard_limit_bytes.load(Ordering::SeqCst);
        if !current || held || bytes > limit {
            return;
        }
        s.make_room(limit - bytes);
        let id = s.next_id;
        s.next_id += 1;
        s.ring.push_back((lpid, id));
        s.frames.entry(lpid).or_default().push(PooledPart { id, part, frame, bytes, used: false });
        s.frame_count += 1;
        s.bytes += bytes;
        assert!(s.bytes <= limit, "the pool's limit holds");
    }

    /// Drops the frames of pages that `commit` changed. To be called before the commit is published.
    pub(crate) fn changed(&self, commit: CommitNo, lpids: Vec<Lpid>) {
        for &lpid in &lpids {
            let mut s = self.shard(lpid).lock();
            s.drop_page(lpid);
            s.changed.insert(lpid, commit);
        }
        self.history.lock().push_back((commit, lpids));
    }

    /// Whether a commit after `commit` changed a page. A snapshot of `commit` must be open.
    pub(crate) fn changed_since(&self, lpid: Lpid, commit: CommitNo) -> bool {
        self.shard(lpid).lock().changed.get(&lpid).is_some_and(|&c| c > commit)
    }

    /// Forgets changes that only snapshots older than `oldest` needed: none is open, and none will be.
    pub(crate) fn forget_before(&self, oldest: CommitNo) {
        loop {
            let lpids = {
                let mut history = self.history.lock();
                match history.front() {
                    Some((commit, _)) if *commit <= oldest => history.pop_front().map(|(_, lpids)| lpids),
                    _ => None,
                }
            };
            let Some(lpids) = lpids else { return };
            for lpid in lpids {
                let mut s = self.shard(lpid).lock();
                if s.changed.get(&lpid).is_some_and(|&c| c <= oldest) {
                    s.changed.remove(&lpid);
                }
            }
        }
    }

    /// Drops every frame.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut s = shard.lock();
            s.frames.clear();
            s.ring.clear();
            s.frame_count = 0;
            s.bytes = 0;
        }
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let mut stats = PoolStats {
            limit_bytes: (self.shard_limit_bytes.load(Ordering::SeqCst) * self.shards.len()) as u64,
            ..PoolStats::default()
        };
        for shard in &self.shards {
            let s = shard.lock();
            stats.bytes += s.bytes as u64;
            stats.frames += s.frame_count as u64;
            stats.hits += s.hits;
            stats.misses += s.misses;
            stats.evictions += s.evictions;
        }
        stats
    }

    fn shard(&self, lpid: Lpid) -> &Mutex<Shard> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(lpid);
        &self.shards[hash as usize % self.shards.len()]
    }
}

impl Shard {
    /// Evicts frames until at most `bytes` are left.
    fn make_room(&mut self, bytes: usize) {
        while self.bytes > bytes {
            let (lpid, id) = self.ring.pop_front().expect("every frame is in the ring");
            let Some(parts) = self.frames.get_mut(&lpid) else { continue };
            let Some(at) = parts.iter().position(|h| h.id == id) else { continue };
            if std::mem::take(&mut parts[at].used) {
                self.ring.push_back((lpid, id));
                continue;
            }
            self.bytes -= parts.swap_remove(at).bytes;
            if parts.is_empty() {
                self.frames.remove(&lpid);
            }
            self.frame_count -= 1;
            self.evictions += 1;
        }
        if self.ring.len() > 2 * self.frame_count + 1024 {
            let frames = &self.frames;
            self.ring.retain(|(l, id)| frames.get(l).is_some_and(|parts| parts.iter().any(|h| h.id == *id)));
        }
    }

    fn drop_page(&mut self, lpid: Lpid) {
        for h in self.frames.remove(&lpid).unwrap_or_default() {
            self.bytes -= h.bytes;
            self.frame_count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use lode_page::{ColumnBuilder, DataType, Value};

    use super::*;

    fn frame(n: i64) -> Pooled {
        let mut b = ColumnBuilder::new(DataType::BigInt);
        b.push(&Value::Int(n)).unwrap();
        Pooled::Column(b.finish())
    }

    fn value(f: Option<Pooled>) -> Option<Value> {
        f.map(|f| match f {
            Pooled::Column(c) => c.value(0),
            Pooled::Page(_) => panic!("a column was put in"),
        })
    }

    fn page(n: u64) -> Lpid {
        Lpid::from_raw(n).unwrap()
    }

    #[test]
    fn what_is_lent_is_given_up_at_once_and_had_back() {
        let pool = Pool::new(64 << 20);
        let part = Part::Column(0);
        let fill = |from: u64| {
            (from..from + 100).for_each(|n| pool.insert(page(n), part, CommitNo::new(1), frame(1), 1 << 20));
        };
        fill(0);
        assert!(pool.stats().bytes > 50 << 20, "{:?}", pool.stats());
        assert!(!pool.lend(57 << 20), "an eighth stays");
        assert!(pool.lend(24 << 20) && pool.lend(16 << 20));
        let left = pool.stats();
        assert_eq!(left.limit_bytes, 24 << 20);
        assert!(left.bytes <= 24 << 20 && left.bytes > 16 << 20, "{left:?}");
        fill(1000);
        assert!(pool.stats().bytes <= 24 << 20);
        assert!(!pool.lend(17 << 20) && pool.lend(16 << 20));
        pool.take_back(56 << 20);
        fill(2000);
        assert!(pool.stats().limit_bytes == 64 << 20 && pool.stats().bytes > 50 << 20);
    }

    #[test]
    fn an_old_snapshot_neither_sees_nor_leaves_an_old_version() {
        let pool = Pool::new(1 << 20);
        let (old, new, part) = (CommitNo::new(5), CommitNo::new(6), Part::Column(0));
        pool.insert(page(1), part, old, frame(1), 100);
        assert_eq!(value(pool.get(page(1), part, old)), Some(Value::Int(1)));
        pool.changed(new, vec![page(1)]);
        assert_eq!(value(pool.get(page(1), part, old)), None);
        pool.insert(page(1), part, old, frame(1), 100);
        assert_eq!(value(pool.get(page(1), part, new)), None);
        pool.insert(page(1), part, new, frame(2), 100);
        assert_eq!(value(pool.get(page(1), part, old)), None);
        assert_eq!(value(pool.get(page(1), part, new)), Some(Value::Int(2)));
        pool.forget_before(new);
        assert_eq!(value(pool.get(page(1), part, new)), Some(Value::Int(2)));
        assert_eq!(pool.stats().frames, 1);
    }

    #[test]
    fn the_limit_holds_and_what_is_used_stays() {
        let pool = Pool::new(10 * 1000);
        let (now, part) = (CommitNo::new(1), Part::Column(3));
        for n in 0..1000 {
            pool.insert(page(n), part, now, frame(n as i64), 1000 - FRAME_OVERHEAD_BYTES);
            assert!(pool.get(page(0), part, now).is_some(), "page 0 is used all the time");
            assert!(pool.stats().bytes <= pool.stats().limit_bytes);
        }
        assert_eq!(pool.stats().frames, 10);
        pool.insert(page(5000), part, now, frame(0), 1 << 20);
        assert!(pool.get(page(5000), part, now).is_none());
        pool.clear();
        assert_eq!((pool.stats().bytes, pool.stats().frames), (0, 0));
    }

    #[test]
    fn pages_changed_again_and_again_leave_nothing_behind() {
        let pool = Pool::new(1 << 20);
        for n in 0..10_000 {
            pool.insert(page(7), Part::Page, CommitNo::new(n), frame(0), 100);
            pool.changed(CommitNo::new(n + 1), vec![page(7)]);
            pool.forget_before(CommitNo::new(n + 1));
        }
        let s = pool.shards[0].lock();
        assert!(s.ring.len() <= 1025 && s.changed.is_empty() && s.bytes == 0);
    }
}
