//! What commits did that no batch has taken yet: they did not ask to be durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_base::Lpid;

use crate::trees::frames::Frame;
use crate::trees::redo::Bodies;

/// Redo, and the frames that must go to the drive with it.
#[derive(Clone, Default)]
pub(super) struct Unsynced {
    pub(super) redo: Bodies,
    /// The newest version of each page.
    pub(super) frames: BTreeMap<Lpid, Arc<Frame>>,
    /// Bytes of all frames that were added, also of those that were replaced since.
    pub(super) frame_bytes: usize,
}

impl Unsynced {
    pub(super) fn add(&mut self, redo: Bodies, frames: &[Arc<Frame>]) {
        self.redo.append(redo);
        self.frame_bytes += frames.iter().map(|f| f.bytes()).sum::<usize>();
        self.frames.extend(frames.iter().map(|f| (f.lpid(), f.clone())));
    }

    /// Bytes of a batch with all of it, at most.
    pub(super) fn bytes(&self) -> usize {
        self.redo.bytes() + self.frame_bytes
    }
}
