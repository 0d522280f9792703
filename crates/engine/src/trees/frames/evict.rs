//! Eviction: which frames leave when they take more memory than they may.
//!
//! A hand goes around the table. A frame that was used since the hand last passed stays once more. Open snapshots may need more
//! frames than the limit allows. Then the frames are *stuck*: nobody looks through all of them again before the oldest snapshot
//! closes, pages are written back, or a sixteenth of the limit comes on top.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lode_base::lookup::{Departures, Locked};

use super::frame::Frame;
use super::open::OpenSights;
use crate::planted::{self, Planted};

/// Part of the limit that must come on top of stuck frames before they are looked through again.
const STUCK_PART: usize = 16;

/// Where the hand is, and whether it is worth moving.
#[derive(Default)]
pub(super) struct Hand {
    /// The shard that is looked at next.
    next_shard: AtomicUsize,
    /// Bytes that were in memory when nothing more could leave. 0: something happened since that may let frames leave.
    stuck_bytes: AtomicUsize,
    /// How often something happened that may let frames leave.
    unstuck: AtomicU64,
}

impl Hand {
    /// Whether nothing could leave when it was last tried, and nothing happened since.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck_bytes.load(Ordering::Relaxed) > 0
    }

    /// Something happened that may let frames leave.
    pub(super) fn unstick(&self) {
        self.unstuck.fetch_add(1, Ordering::SeqCst);
        self.stuck_bytes.store(0, Ordering::SeqCst);
    }

    /// How often something happened that may let frames leave; `None` when it is not worth looking for some now.
    pub(super) fn begin(&self, bytes: impl Fn() -> usize, limit_bytes: usize) -> Option<u64> {
        let unstuck = self.unstuck.load(Ordering::SeqCst);
        // Frames may also leave without an event. Then fewer bytes are stuck than before.
        let stuck = self.stuck_bytes.fetch_min(bytes(), Ordering::SeqCst);
        let is_worth_it = stuck == 0 || bytes() >= stuck + limit_bytes / STUCK_PART;
        is_worth_it.then_some(unstuck)
    }

    /// The limit holds.
    pub(super) fn within_limit(&self) {
        self.stuck_bytes.store(0, Ordering::SeqCst);
    }

    /// All frames were looked at, and so many bytes are left, more than the limit.
    pub(super) fn got_stuck(&self, begun: u64, bytes: usize) {
        if self.unstuck.load(Ordering::SeqCst) == begun {
            self.stuck_bytes.store(bytes, Ordering::SeqCst);
        }
    }

    /// The next shard of so many.
    pub(super) fn next_shard(&self, shards: usize) -> usize {
        self.next_shard.fetch_add(1, Ordering::Relaxed) % shards
    }
}

/// Moves the hand once around a shard, or until so many bytes have left.
pub(super) fn sweep(
    shard: &mut Locked<'_, Frame>,
    excess_bytes: usize,
    open: &mut OpenSights<'_>,
    gone: &mut Departures<'_, Frame>,
) {
    let mut bytes = 0;
    shard.sweep(gone, |frame, used| {
        if bytes >= excess_bytes {
            return ControlFlow::Break(());
        }
        // Readers of older versions find them behind the newest one.
        if frame.has_older(open) || used.swap(false, Ordering::Relaxed) {
            return ControlFlow::Continue(false);
        }
        let leaves = !planted::instead(Planted::DirtyEvicted, || frame.must_stay(open), || false);
        bytes += if leaves { frame.bytes() } else { 0 };
        ControlFlow::Continue(leaves)
    });
}

/// Takes the mark "used lately" from all frames of a shard.
pub(super) fn forget_use(shard: &mut Locked<'_, Frame>, gone: &mut Departures<'_, Frame>) {
    shard.sweep(gone, |_, used| {
        used.store(false, Ordering::Relaxed);
        ControlFlow::Continue(false)
    });
}
