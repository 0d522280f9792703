//! One version of one page, and the chain of older versions behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lode_base::lookup::Keyed;
use lode_base::page_buf::allocated_bytes;
use lode_base::{CommitNo, Lpid};
use lode_page::Node;
use parking_lot::Mutex;

use super::open::{OpenSights, Sight};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::trees::page::body::Body;
use crate::trees::page::value;
use crate::trees::tree::Csn;

/// What a frame takes beside its page and its place in the table.
const FRAME_BYTES: usize = allocated_bytes(size_of::<Frame>() + 2 * size_of::<usize>());
/// What the entry of a dirty frame takes in the lists of dirty frames, about.
const LISTED_BYTES: usize = 96;
/// `Frame::written` of a version that the drive does not have yet.
const DIRTY: u64 = u64::MAX;
/// `Frame::written` of a version that was read from the drive: every snapshot that sees it finds it in its view.
const ALWAYS: u64 = 0;

/// One version of one page.
pub(crate) struct Frame {
    lpid: Lpid,
    csn: Csn,
    body: Body,
    /// The drive's commit that wrote this version, or [`DIRTY`], or [`ALWAYS`].
    written: AtomicU64,
    older: Mutex<Option<Arc<Frame>>>,
    /// The commit that made the next version of the page. The chain may not have that version any more: versions that every
    /// snapshot finds in its view are left out of it.
    next: AtomicU64,
    /// See [`super::dropped::DroppedTrees::handed_out_at`].
    handed_out_at: Option<Box<Sight>>,
    bytes: usize,
    /// The memory of all frames, where this one is counted.
    memory: Arc<AtomicUsize>,
}

impl Frame {
    /// A version that a commit makes: dirty.
    pub(super) fn made(
        lpid: Lpid,
        csn: Csn,
        body: Body,
        handed_out_at: Option<Box<Sight>>,
        memory: &Arc<AtomicUsize>,
    ) -> Self {
        Self::new(lpid, csn, body, DIRTY, handed_out_at, memory)
    }

    /// A version that was read from the drive.
    pub(super) fn loaded(
        lpid: Lpid,
        csn: Csn,
        body: Body,
        handed_out_at: Option<Box<Sight>>,
        memory: &Arc<AtomicUsize>,
    ) -> Self {
        Self::new(lpid, csn, body, ALWAYS, handed_out_at, memory)
    }

    fn new(
        lpid: Lpid,
        csn: Csn,
        body: Body,
        written: u64,
        handed_out_at: Option<Box<Sight>>,
        memory: &Arc<AtomicUsize>,
    ) -> Self {
        let bytes = FRAME_BYTES + body.memory_bytes();
        memory.fetch_add(bytes, Ordering::Relaxed);
        let (written, next) = (AtomicU64::new(written), AtomicU64::new(u64::MAX));
        let (older, memory) = (Mutex::new(None), memory.clone());
        Self { lpid, csn, body, written, older, next, handed_out_at, bytes, memory }
    }

    #[inline]
    pub(crate) fn lpid(&self) -> Lpid {
        self.lpid
    }

    /// The commit that made it.
    pub(crate) fn csn(&self) -> Csn {
        self.csn
    }

    #[inline]
    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    /// The node that its page is.
    #[inline]
    pub(crate) fn node(&self) -> Result<&Node, EngineError> {
        self.body.node(self.lpid)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a snapshot sees it, if it is the newest version. If not, [`Frame::as_of`] finds the version that the snapshot sees.
    #[inline]
    pub(super) fn is_seen(&self, sight: Sight) -> bool {
        self.csn <= sight.csn && self.handed_out_at.is_none()
    }

    /// Whether the drive does not have this version yet.
    pub(crate) fn is_dirty(&self) -> bool {
        self.written.load(Ordering::Acquire) == DIRTY
    }

    /// Whether a snapshot that sees this version finds it in its view of the drive.
    pub(super) fn is_in(&self, view: CommitNo) -> bool {
        self.written.load(Ordering::Acquire) <= view.raw()
    }

    /// The drive has this version from this commit on.
    pub(crate) fn set_written(&self, at: CommitNo) {
        self.written.store(at.raw(), Ordering::Release);
    }

    /// Counts its entry in the lists of dirty frames.
    pub(crate) fn listed(&self) {
        self.memory.fetch_add(LISTED_BYTES, Ordering::Relaxed);
    }

    /// Counts its entry in the lists of dirty frames no more.
    pub(crate) fn unlisted(&self) {
        self.memory.fetch_sub(LISTED_BYTES, Ordering::Relaxed);
    }

    /// The version that a snapshot sees, from this one on. `None` when only its view of the drive has it.
    pub(super) fn as_of(self: Arc<Self>, sight: Sight) -> Option<Arc<Self>> {
        if self.handed_out_at.as_ref().is_some_and(|at| sight.is_before(**at)) {
            return None;
        }
        let mut frame = self;
        while frame.csn > sight.csn {
            let older = frame.older.lock().clone()?;
            frame = older;
        }
        (sight.csn.raw() < frame.next.load(Ordering::Acquire)).then_some(frame)
    }

    /// Puts the version `old`, which this one replaces, behind this one, without those that nobody needs.
    pub(super) fn follow(&self, old: &Arc<Self>, open: &mut OpenSights<'_>, is_full: bool) {
        old.next.store(self.csn.raw(), Ordering::Release);
        *self.older.lock() = kept(old.clone(), open, is_full);
    }

    /// Lets go of the older versions that nobody needs. Answers the first of them, needed or not, so that the caller decides when
    /// its memory is freed.
    pub(super) fn shorten(&self, open: &mut OpenSights<'_>, is_full: bool) -> Option<Arc<Self>> {
        let mut older = self.older.lock();
        let first = older.take()?;
        first.body.prefetch_count();
        *older = kept(first.clone(), open, is_full);
        Some(first)
    }

    /// Lets go of the older versions that nobody needs. Answers whether some are left.
    pub(super) fn has_older(&self, open: &mut OpenSights<'_>) -> bool {
        let mut older = self.older.lock();
        if let Some(old) = older.take() {
            *older = kept(old, open, true);
        }
        older.is_some()
    }

    /// Whether it must stay in memory as the newest version.
    pub(super) fn must_stay(&self, open: &mut OpenSights<'_>) -> bool {
        // A snapshot that sees it and does not find it in its view was opened before the drive had it: so the snapshots are asked
        // after whether it is dirty.
        let is_needed =
            |open: &mut OpenSights<'_>| open.now().iter().any(|s| self.csn <= s.csn && !self.is_in(s.view));
        self.is_dirty() || planted::instead(Planted::NeededEvicted, || is_needed(open), || false)
    }

    /// Whether one of the open snapshots reads this version, which is not the newest. With `is_full`, a snapshot whose view has the
    /// version reads it there.
    fn is_read(&self, open: &[Sight], is_full: bool) -> bool {
        let sees = |s: &Sight| self.csn <= s.csn && s.csn.raw() < self.next.load(Ordering::Acquire);
        open.iter().any(|s| sees(s) && !(is_full && self.is_in(s.view)))
    }
}

/// The chain from `old` on, without the versions that no snapshot reads. When memory is full, also without those that every
/// snapshot finds in its view.
fn kept(old: Arc<Frame>, open: &mut OpenSights<'_>, is_full: bool) -> Option<Arc<Frame>> {
    let open = open.now();
    let (mut versions, mut at) = (Vec::new(), Some(old));
    while let Some(frame) = at {
        at = frame.older.lock().clone();
        if planted::instead(Planted::OlderVersionDropped, || frame.is_read(open, is_full), || false) {
            versions.push(frame);
        }
    }
    // A reader on its way down the chain finds the old link or the new one, never none in between.
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

impl Drop for Frame {
    fn drop(&mut self) {
        self.memory.fetch_sub(self.bytes, Ordering::Relaxed);
        // A long chain would otherwise drop itself by recursion.
        let mut next = self.older.get_mut().take();
        while let Some(frame) = next {
            next = Arc::try_unwrap(frame).ok().and_then(|mut f| f.older.get_mut().take());
        }
    }
}

impl Keyed for Frame {
    #[inline]
    fn key(&self) -> u64 {
        self.lpid.raw()
    }

    /// The page of a value, if the page itself says all that a reader asks for.
    fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Value(page) if self.handed_out_at.is_none() && value::is_of(page, self.lpid, self.csn) => {
                page
            }
            _ => &[],
        }
    }

    fn weight(&self) -> usize {
        self.bytes
    }
}
