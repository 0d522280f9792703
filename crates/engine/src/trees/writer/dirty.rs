//! The newest versions of pages that the drive does not have yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use lode_base::Lpid;

use crate::planted::{self, Planted};
use crate::trees::frames::{Frame, LpidMap};
use crate::trees::tree::Csn;

/// Dirty frames.
#[derive(Default)]
pub(super) struct Dirty {
    /// Each with the first commit that the drive's version of its page lacks.
    frames: LpidMap<(Csn, Arc<Frame>)>,
    /// By that commit.
    by_first: BTreeSet<(Csn, Lpid)>,
    bytes: usize,
}

impl Dirty {
    /// Bytes of all dirty frames.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// A page has a new version. The drive's version lacks commits from `first` on, or from an earlier one if the page was dirty.
    pub(super) fn add(&mut self, first: Csn, frame: Arc<Frame>) {
        let lpid = frame.lpid();
        self.bytes += frame.bytes();
        frame.listed();
        let first = match self.frames.remove(&lpid) {
            Some((earlier, old)) => {
                self.bytes -= old.bytes();
                old.unlisted();
                planted::instead(
                    Planted::FirstDirtyForgotten,
                    || earlier,
                    || {
                        self.by_first.remove(&(earlier, lpid));
                        first
                    },
                )
            }
            None => first,
        };
        self.by_first.insert((first, lpid));
        self.frames.insert(lpid, (first, frame));
    }

    /// The drive has this version. A page that has a newer one stays dirty.
    pub(super) fn written(&mut self, frame: &Arc<Frame>) {
        let Some((_, newest)) = self.frames.get(&frame.lpid()) else { return };
        if planted::instead(Planted::WrittenThoughNewer, || Arc::ptr_eq(newest, frame), || true) {
            self.remove(frame.lpid());
        }
    }

    /// The drive has the newest version of a page.
    pub(super) fn remove(&mut self, lpid: Lpid) {
        if let Some((first, frame)) = self.frames.remove(&lpid) {
            self.bytes -= frame.bytes();
            frame.unlisted();
            self.by_first.remove(&(first, lpid));
        }
    }

    /// The frames that have been dirty the longest: of about so many bytes, and at most so many pages.
    pub(super) fn oldest(&self, bytes: usize, pages: usize) -> Vec<Arc<Frame>> {
        let mut left = bytes as i64;
        let mut chosen = Vec::new();
        for (_, lpid) in self.by_first.iter().take(pages) {
            if left <= 0 {
                break;
            }
            let frame = &self.frames[lpid].1;
            left -= frame.bytes() as i64;
            chosen.push(frame.clone());
        }
        chosen
    }

    /// The first commit that the drive lacks, apart from the `count` frames that have been dirty the longest.
    pub(super) fn first_lacking_after(&self, count: usize) -> Option<Csn> {
        self.by_first.iter().nth(count).map(|(csn, _)| *csn)
    }
}
