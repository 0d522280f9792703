//! Read views, and the old versions of pages that they still show.
//!
//! ```text
//!   page p:  version a │ version b │ newest        until = the commit that replaced it
//!   commits  ....... 5 │ ..... 9   │ ...
//!   a view at 7: smallest `until` above 7 is 9, so b;  at 9: none, so what the mapping has
//! ```
//!
//! Invariants:
//!
//! - An installation saves the old entry *before* it stores the new one, and readers load the entry first, *then* look
//!   here. So a reader that met a new entry finds the old one.
//! - A view opens at the newest commit under the lock that an installation holds. So the installation sees the view, or the
//!   view shows the commit.
//! - The bytes of a version stay pinned until the last view that needs it is closed. A reader asks whether its view is
//!   still open *after* it looked.
//!
//! Source: the design, "Read views"; version lists as in HyPer (Neumann et al., SIGMOD 2015), kept in a side table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lode_base::{CommitNo, Lpid, ViewId};
use lode_program::IndexRule;
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::index::is_long;
use crate::entry::Entry;
use crate::planted::at;
use lode_base::fast::FastMap;

const SHARDS: u64 = 64;
const SLOT_BITS: u32 = 16;

/// Memory for long index entries of old versions, in bytes. A version without its entry is never skipped.
const LONG_BYTES_MAX: usize = 64 << 20;

/// The index entry of an old version, and the rule that made it.
#[derive(Clone)]
pub(crate) struct OldIndex {
    pub(crate) rule: Arc<IndexRule>,
    pub(crate) bytes: Box<[u8]>,
    /// Counts the bytes of a long entry.
    _counted: Option<Arc<Counted>>,
}

/// Bytes that are counted until this is dropped.
struct Counted {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a page was before a commit.
#[derive(Clone)]
pub(crate) struct Version {
    until: u64,
    /// Whether the page was trimmed by that commit, and no page came there since that has no version.
    trimmed: bool,
    pub(crate) entry: Option<Entry>,
    pub(crate) index: Option<Arc<OldIndex>>,
}

#[derive(Default)]
struct Slot {
    view: AtomicU64,
    commit: AtomicU64,
}

#[derive(Default)]
struct Inner {
    /// (commit, view) of each open view.
    open: BTreeSet<(u64, u64)>,
    opened: u64,
    free_slots: Vec<u16>,
    /// Pages with a version that ends at this commit.
    ends: BTreeMap<u64, Ends>,
}

/// Pages with a version that ends at one commit.
#[derive(Default)]
struct Ends {
    pages: Vec<Lpid>,
    /// How many of them do not have that version any more.
    gone: usize,
}

pub(crate) struct Versions {
    /// Commits after which a view is closed.
    commits_max: u64,
    inner: Mutex<Inner>,
    newest: AtomicU64,
    slots: Box<[Slot]>,
    shards: Vec<RwLock<FastMap<Lpid, Vec<Version>>>>,
    count: AtomicUsize,
    /// Bytes of long index entries.
    long_bytes: Arc<AtomicUsize>,
    /// Entries whose bytes no view needs any more.
    freed: Mutex<Vec<Entry>>,
}

/// A commit being installed: no view opens meanwhile.
pub(crate) struct Install<'a> {
    versions: &'a Versions,
    inner: MutexGuard<'a, Inner>,
    commit: u64,
}

impl Versions {
    pub(crate) fn new(views_max: u32, commits_max: u64) -> Self {
        let views = views_max.clamp(1, 1 << SLOT_BITS) as usize;
        let free_slots = (0..views).rev().map(|s| s as u16).collect();
        Self {
            commits_max,
            inner: Mutex::new(Inner { free_slots, ..Inner::default() }),
            newest: AtomicU64::new(0),
            slots: (0..views).map(|_| Slot::default()).collect(),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            count: AtomicUsize::new(0),
            long_bytes: Arc::default(),
            freed: Mutex::default(),
        }
    }

    /// The index entry of an old version; `None` if it is long and there is no memory for it.
    fn old_index(&self, rule: Arc<IndexRule>, bytes: Box<[u8]>) -> Option<Arc<OldIndex>> {
        let counted = is_long(bytes.len()).then(|| {
            self.long_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
            Arc::new(Counted { bytes: bytes.len(), all: self.long_bytes.clone() })
        });
        let fits = counted.is_none() || self.long_bytes.load(Ordering::Relaxed) <= LONG_BYTES_MAX;
        fits.then(|| Arc::new(OldIndex { rule, bytes, _counted: counted }))
    }

    fn shard(&self, lpid: Lpid) -> &RwLock<FastMap<Lpid, Vec<Version>>> {
        &self.shards[(lpid.raw() % SHARDS) as usize]
    }

    /// The newest installed commit.
    pub(crate) fn newest(&self) -> CommitNo {
        CommitNo::new(self.newest.load(Ordering::SeqCst))
    }

    /// Sets the newest commit as recovery found it.
    pub(crate) fn restore(&self, commit: u64) {
        self.newest.store(commit, Ordering::SeqCst);
    }

    /// Opens a view at the newest commit. If no more views may be open, the oldest is closed.
    pub(crate) fn open(&self) -> (ViewId, CommitNo) {
        self.open_in(&mut self.inner.lock())
    }

    fn open_in(&self, inner: &mut Inner) -> (ViewId, CommitNo) {
        let commit = self.newest.load(Ordering::SeqCst);
        if inner.free_slots.is_empty() {
            let oldest = at!(WrongViewClosed => inner.open.last(), inner.open.first());
            let &(_, oldest) = oldest.expect("all slots are taken");
            self.close_in(inner, ViewId::new(oldest));
        }
        let slot = inner.free_slots.pop().expect("a slot was made free");
        inner.opened += 1;
        let view = inner.opened << SLOT_BITS | u64::from(slot);
        inner.open.insert((commit, view));
        let s = &self.slots[usize::from(slot)];
        s.commit.store(commit, Ordering::SeqCst);
        s.view.store(view, Ordering::SeqCst);
        (ViewId::new(view), CommitNo::new(commit))
    }

    /// The commit that a view shows, while it is open.
    pub(crate) fn commit_of(&self, view: ViewId) -> Option<u64> {
        let s = self.slots.get((view.raw() & ((1 << SLOT_BITS) - 1)) as usize)?;
        let open = || s.view.load(Ordering::SeqCst) == view.raw();
        if view.raw() == 0 || !open() {
            return None;
        }
        let commit = s.commit.load(Ordering::SeqCst);
        open().then_some(commit)
    }

    /// Closes a view; false when it is not open.
    pub(crate) fn close(&self, view: ViewId) -> bool {
        self.close_in(&mut self.inner.lock(), view)
    }

    fn close_in(&self, inner: &mut Inner, view: ViewId) -> bool {
        let Some(commit) = self.commit_of(view) else { return false };
        let slot = view.raw() & ((1 << SLOT_BITS) - 1);
        self.slots[slot as usize].view.store(0, Ordering::SeqCst);
        inner.free_slots.push(slot as u16);
        inner.open.remove(&(commit, view.raw()));
        if !inner.open.range((commit, 0)..(commit + 1, 0)).any(|_| true) {
            self.purge(inner, commit);
        }
        true
    }

    /// Drops the versions that only views at `commit` needed: the last of them was closed.
    fn purge(&self, inner: &mut Inner, commit: u64) {
        let before = inner.open.range(..(commit, 0)).next_back().map(|v| v.0);
        let after = inner.open.range((commit + 1, 0)..).next().map(|v| v.0);
        let ends: Vec<u64> = match after {
            Some(after) => inner.ends.range(commit + 1..=after).map(|(&c, _)| c).collect(),
            None => inner.ends.range(commit + 1..).map(|(&c, _)| c).collect(),
        };
        let (mut freed, mut nothing) = (Vec::new(), Vec::new());
        for until in ends {
            // An earlier list may have taken this one along.
            let Some(Ends { mut pages, .. }) = inner.ends.remove(&until) else { continue };
            pages.retain(|&lpid| {
                let mut shard = self.shard(lpid).write();
                let Some(versions) = shard.get_mut(&lpid) else { return false };
                let Some(at) = versions.iter().position(|v| v.until == until) else { return false };
                let since = if at > 0 { versions[at - 1].until } else { 0 };
                let since = at!(VersionPurged => since + 1, since);
                if before.is_some_and(|b| b >= since) {
                    return true;
                }
                let gone = versions.remove(at);
                freed.extend(gone.entry);
                self.count.fetch_sub(1, Ordering::SeqCst);
                // The page did not exist before this version, and not after it: the views that are left find nothing either way.
                // An engine that writes and trims a redo page per commit would otherwise leave a version per commit while an
                // old view is open.
                if gone.trimmed && at > 0 && versions[at - 1].entry.is_none() {
                    nothing.push(versions.remove(at - 1).until);
                    self.count.fetch_sub(1, Ordering::SeqCst);
                }
                if versions.is_empty() {
                    shard.remove(&lpid);
                }
                false
            });
            if !pages.is_empty() {
                inner.ends.insert(until, Ends { pages, gone: 0 });
            }
        }
        for until in nothing {
            self.forget_end(inner, until);
        }
        if !freed.is_empty() {
            self.freed.lock().append(&mut freed);
        }
    }

    /// A page has no version any more that ends at this commit. A list is rebuilt once half of its pages are gone.
    fn forget_end(&self, inner: &mut Inner, until: u64) {
        let Some(ends) = inner.ends.get_mut(&until) else { return };
        ends.gone += 1;
        if ends.gone * 2 < ends.pages.len() {
            return;
        }
        let has = |l: &Lpid| self.shard(*l).read().get(l).is_some_and(|v| v.iter().any(|v| v.until == until));
        ends.pages.retain(has);
        ends.gone = 0;
        if ends.pages.is_empty() {
            inner.ends.remove(&until);
        }
    }

    /// Begins the installation of `commit`.
    pub(crate) fn install(&self, commit: u64) -> Install<'_> {
        Install { versions: self, inner: self.inner.lock(), commit }
    }

    /// What `lpid` was at `commit`, if it was replaced since. To be called after its mapping entry was loaded.
    pub(crate) fn find(&self, lpid: Lpid, commit: u64) -> Option<Version> {
        if self.is_empty() {
            return None;
        }
        let shard = self.shard(lpid).read();
        shard.get(&lpid)?.iter().find(|v| v.until > commit).cloned()
    }

    /// Where the old versions of a page lie.
    pub(crate) fn entries_of(&self, lpid: Lpid) -> Vec<Entry> {
        if self.is_empty() {
            return Vec::new();
        }
        self.shard(lpid).read().get(&lpid).into_iter().flatten().filter_map(|v| v.entry).collect()
    }

    /// All old versions of all pages, and where they lie.
    pub(crate) fn all_old(&self) -> Vec<(Lpid, Entry)> {
        let of = |s: &RwLock<FastMap<Lpid, Vec<Version>>>| {
            let s = s.read();
            let old = s.iter().flat_map(|(&l, v)| v.iter().filter_map(move |v| Some((l, v.entry?))));
            old.collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// An old version was copied from one place to another; false when no view needs it any more.
    pub(crate) fn relocate(&self, lpid: Lpid, from: Entry, to: Entry) -> bool {
        let mut shard = self.shard(lpid).write();
        let mut versions = shard.get_mut(&lpid).into_iter().flatten();
        match versions.find(|v| v.entry.is_some_and(|e| e.same_place(from))) {
            Some(v) => {
                v.entry = Some(to);
                true
            }
            None => false,
        }
    }

    /// Whether there is no old version of anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Entries whose bytes no view needs any more, each once.
    pub(crate) fn take_freed(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.freed.lock())
    }

    /// The commit of the oldest open view.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.inner.lock().open.first().map(|v| v.0)
    }

    /// Open views.
    pub(crate) fn open_count(&self) -> u32 {
        self.inner.lock().open.len() as u32
    }
}

impl Install<'_> {
    /// Saves what `lpid` is before it is replaced, or `trimmed`, if an open view shows it. To be called before its new entry
    /// is stored. Answers whether it was saved: then its bytes stay pinned.
    pub(crate) fn save(
        &mut self,
        lpid: Lpid,
        entry: Option<Entry>,
        trimmed: bool,
        index: impl FnOnce() -> Option<(Arc<IndexRule>, Box<[u8]>)>,
    ) -> bool {
        let Some(&(newest_view, _)) = self.inner.open.last() else { return false };
        let mut shard = self.versions.shard(lpid).write();
        let last = shard.get_mut(&lpid).and_then(|v| v.last_mut());
        let since = last.as_ref().map_or(0, |v| v.until);
        let since = at!(VersionNotSaved => since + 1, since);
        if newest_view < since {
            if let Some(last) = last {
                last.trimmed = false;
            }
            return false;
        }
        self.versions.count.fetch_add(1, Ordering::SeqCst);
        let index = index().and_then(|(rule, bytes)| self.versions.old_index(rule, bytes));
        let version = Version { until: self.commit, trimmed, entry, index };
        shard.entry(lpid).or_default().push(version);
        self.inner.ends.entry(self.commit).or_default().pages.push(lpid);
        true
    }

    /// All pages are replaced: the commit becomes visible. With `pin`, a view is opened at it.
    pub(crate) fn finish(mut self, pin: bool) -> Option<ViewId> {
        let early = at!(ViewTooEarly => self.open_view(pin), None);
        self.publish();
        early.or_else(|| self.open_view(pin))
    }

    fn open_view(&mut self, pin: bool) -> Option<ViewId> {
        pin.then(|| self.versions.open_in(&mut self.inner).0)
    }

    fn publish(&mut self) {
        self.versions.newest.store(self.commit, Ordering::SeqCst);
        while let Some(&(commit, view)) = self.inner.open.first()
            && self.commit - commit > self.versions.commits_max
        {
            self.versions.close_in(&mut self.inner, ViewId::new(view));
        }
    }
}

#[cfg(test)]
mod tests {
    use lode_base::{EblockId, ExtentId, Geometry};

    use super::*;

    fn entry(n: u32) -> Entry {
        let g = Geometry::file(1 << 30).unwrap();
        Entry::new(g.ppa(EblockId::new(1), n * 64).unwrap(), 64, true)
    }

    fn replace(v: &Versions, commit: u64, lpid: Lpid, old: Option<Entry>) {
        let mut i = v.install(commit);
        i.save(lpid, old, false, || None);
        i.finish(false);
    }

    fn trim(v: &Versions, commit: u64, lpid: Lpid, old: Entry) {
        let mut i = v.install(commit);
        i.save(lpid, Some(old), true, || None);
        i.finish(false);
    }

    #[test]
    fn a_view_sees_its_commit_and_the_last_one_frees_the_version() {
        let v = Versions::new(8, u64::MAX);
        let p = ExtentId::new(0).unwrap().page(0);
        replace(&v, 1, p, None);
        let (a, at) = v.open();
        assert_eq!(at.raw(), 1);
        replace(&v, 2, p, Some(entry(1)));
        let (b, _) = v.open();
        let (b2, _) = v.open();
        replace(&v, 3, p, Some(entry(2)));
        replace(&v, 4, p, Some(entry(3)));
        let find = |at| v.find(p, at).and_then(|f| f.entry);
        assert_eq!((find(1), find(2), find(4)), (Some(entry(1)), Some(entry(2)), None));
        assert!(v.close(b));
        assert_eq!(v.take_freed(), []);
        assert!(v.close(b2));
        assert_eq!(v.take_freed(), [entry(2)], "no view ever showed what commit 4 replaced");
        assert_eq!(find(1), Some(entry(1)));
        assert!(v.close(a) && !v.close(a));
        assert_eq!(v.take_freed(), [entry(1)]);
        assert!(v.is_empty() && v.inner.lock().ends.is_empty());
    }

    #[test]
    fn long_entries_of_old_versions_are_kept_within_a_budget() {
        use lode_page::{ColumnType, DataType, Schema};
        let columns = vec![ColumnType { data_type: DataType::BigInt, nullable: false }];
        let schema = Schema { version: 1, columns, absent: Vec::new() };
        let rule = Arc::new(IndexRule::new(schema, vec![0]).unwrap());
        let v = Versions::new(8, u64::MAX);
        replace(&v, 1, ExtentId::new(0).unwrap().page(0), None);
        let (view, at) = v.open();
        let save = |n: u16, len: usize| {
            let lpid = ExtentId::new(u64::from(n) / 1024).unwrap().page(n % 1024);
            let mut i = v.install(2 + u64::from(n));
            i.save(lpid, Some(entry(u32::from(n))), false, || Some((rule.clone(), vec![7; len].into())));
            i.finish(false);
            v.find(lpid, at.raw()).unwrap().index.is_some()
        };
        let most = (LONG_BYTES_MAX / 32_000) as u16;
        assert!((0..most).all(|n| save(n, 32_000)));
        assert!(!save(most, 32_000) && save(most + 1, 2000), "short ones are always kept");
        assert!(v.close(view));
        assert_eq!(v.long_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn pages_that_come_and_go_leave_nothing_to_an_old_view() {
        // Found by a review: each commit's redo left something for as long as anybody read an old state.
        let v = Versions::new(8, u64::MAX);
        let page = |n: u64| ExtentId::new(n / 1000).unwrap().page((n % 1000) as u16);
        replace(&v, 1, page(0), None);
        let (old, _) = v.open();
        let mut head = v.open().0;
        let mut follow = |v: &Versions| v.close(std::mem::replace(&mut head, v.open().0));
        for n in 1..=1000 {
            // It comes, and one that came before it goes.
            replace(&v, 3 * n, page(n), None);
            assert!(follow(&v));
            if n > 5 {
                trim(&v, 3 * n + 1, page(n - 5), entry(1));
                assert!(follow(&v));
            }
        }
        assert_eq!(v.count.load(Ordering::SeqCst), 5, "those that are there");
        assert_eq!(v.inner.lock().ends.len(), 5);
        assert!((1..=1000).all(|n| v.find(page(n), 1).is_none_or(|f| f.entry.is_none())));
        assert_eq!(v.take_freed().len(), 995);
        // One that comes again is not there for the old view, either.
        replace(&v, 4000, page(7), None);
        trim(&v, 4001, page(7), entry(7));
        replace(&v, 4002, page(7), None);
        assert!(v.find(page(7), 1).is_some_and(|f| f.entry.is_none()));
        assert!(v.close(old) && follow(&v));
        assert!(v.is_empty() && v.inner.lock().ends.is_empty());
    }

    #[test]
    fn a_page_that_no_view_saw_go_is_not_there_for_an_older_one_when_it_comes_again() {
        let v = Versions::new(8, u64::MAX);
        let p = ExtentId::new(0).unwrap().page(0);
        let (old, at) = v.open();
        replace(&v, 1, p, None);
        let (young, _) = v.open();
        trim(&v, 2, p, entry(1));
        replace(&v, 3, p, None);
        assert!(v.close(young));
        assert!(v.find(p, at.raw()).is_some_and(|f| f.entry.is_none()), "the mapping has what came with 3");
        assert!(v.close(old) && v.is_empty());
    }

    #[test]
    fn too_many_views_close_the_oldest() {
        let v = Versions::new(2, u64::MAX);
        let views: Vec<_> = (0..3).map(|_| v.open().0).collect();
        assert_eq!(v.commit_of(views[0]), None);
        assert!(v.commit_of(views[1]).is_some() && v.commit_of(views[2]).is_some());
    }

    #[test]
    fn a_view_that_is_too_old_is_closed_and_gives_up_what_it_kept() {
        let v = Versions::new(8, 3);
        let p = ExtentId::new(0).unwrap().page(0);
        replace(&v, 1, p, None);
        let (old, _) = v.open();
        (2..=4).for_each(|n| replace(&v, n, p, Some(entry(n as u32))));
        let (young, _) = v.open();
        assert_eq!((v.commit_of(old), v.take_freed()), (Some(1), vec![]));
        replace(&v, 5, p, Some(entry(5)));
        assert_eq!((v.commit_of(old), v.commit_of(young)), (None, Some(4)));
        assert_eq!(v.take_freed(), [entry(2)], "what it showed");
        assert_eq!(v.find(p, 4).and_then(|f| f.entry), Some(entry(5)));
    }
}
