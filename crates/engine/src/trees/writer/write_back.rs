//! Write-back: dirty pages go to the drive in large batches, and redo that nobody needs any more is trimmed.

use lode_command::Batch;

use super::{Writer, add_page};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::storage::store::SentBatch;
use crate::trees::tree::Csn;

/// At rest, redo takes at most this part of its limits. A commit now and then does not write its pages back at once.
const REST_PART: usize = 64;

impl Writer {
    /// Whether pages should be written back, or redo trimmed.
    pub(crate) fn is_due(&self) -> bool {
        let options = &self.options;
        let (bytes, pages) = self.redo.kept();
        let unsynced = self.unsynced.redo.bytes() as u64;
        // If snapshots need much of the memory, less of it may be dirty.
        let part = if self.frames.is_stuck() { 8 } else { 2 };
        let due = self.dirty.bytes() > options.frame_bytes / part
            || bytes + unsynced > options.redo_bytes_max
            || pages > options.redo_pages_max
            || self.fills_a_batch();
        // The newest page of redo stays, whatever it names.
        due && !(self.dirty.is_empty() && pages < 2)
    }

    /// Whether what is not durable yet is as much as one batch should take.
    fn fills_a_batch(&self) -> bool {
        let identity = self.storage.store().identity();
        self.unsynced.bytes() as u64 > identity.batch_bytes_max / 4
            || self.unsynced.frames.len() > identity.batch_pages_max as usize / 4
    }

    /// Whether commits must wait until pages are written back.
    pub(super) fn is_overdue(&self) -> bool {
        let (bytes, pages) = self.redo.kept();
        let options = &self.options;
        self.dirty.bytes() > options.frame_bytes / 8 * 5
            || bytes > options.redo_bytes_max / 4 * 5
            || pages > options.redo_pages_max / 4 * 5
    }

    /// Writes pages back until commits need not wait.
    pub(crate) fn make_room(&mut self) -> Result<(), EngineError> {
        let mut wrote = self.is_due();
        while wrote {
            wrote = self.write_back()? && self.is_overdue();
        }
        Ok(())
    }

    /// Writes pages back if it is due; answers whether it did.
    pub(crate) fn write_back_if_due(&mut self) -> Result<bool, EngineError> {
        Ok(self.is_due() && self.write_back()?)
    }

    /// Whether there is more redo than trees at rest should keep.
    pub(crate) fn is_due_at_rest(&self) -> bool {
        let (options, (bytes, pages)) = (&self.options, self.redo.kept());
        let is_much =
            bytes > options.redo_bytes_max / REST_PART as u64 || pages > options.redo_pages_max / REST_PART;
        // The newest page of redo stays, whatever it names.
        is_much && pages > 1
    }

    /// Writes pages back if trees at rest keep much redo; answers whether it did.
    pub(crate) fn write_back_at_rest(&mut self) -> Result<bool, EngineError> {
        Ok(self.is_due_at_rest() && self.write_back()?)
    }

    /// Writes the pages back that have been dirty the longest, in one batch, and trims redo. Answers whether there was anything to
    /// do.
    fn write_back(&mut self) -> Result<bool, EngineError> {
        planted::instead(Planted::FrameBeforeRedo, || self.sync(), || Ok(()))?;
        self.check_halted()?;
        let identity = self.storage.store().identity();
        let bytes = (self.options.write_back_bytes as u64).min(identity.batch_bytes_max / 2);
        let pages = identity.batch_pages_max as usize / 2;
        let chosen = self.dirty.oldest(bytes as usize, pages);
        let snapshot = self.heads.refreshed()?;
        let first = self.dirty.first_lacking_after(chosen.len());
        let mut passed = self.redo.passed(first.unwrap_or(Csn::new(snapshot.csn().raw() + 1)));
        passed.at_most(pages - chosen.len().min(pages));
        // Values went to the drive with their redo. So there may be redo to trim though no page is dirty.
        if chosen.is_empty() && passed.is_empty() {
            return Ok(false);
        }
        let mut batch = Batch { pin: true, ..Batch::default() };
        chosen.iter().for_each(|f| add_page(f, &mut batch));
        let written_bytes = batch.payload_bytes() as u64;
        batch.trims.extend(&passed.trims);
        batch.releases.extend(&passed.releases);
        let SentBatch { commit, view, .. } = self.send(batch)?;
        self.written_bytes += written_bytes;
        let view = self.heads.view_at(commit, view);
        for f in &chosen {
            f.set_written(commit);
            self.dirty.written(f);
        }
        self.redo.trimmed(&passed);
        self.heads.show(snapshot.with_commits(snapshot.csn(), Some(view)));
        drop(snapshot);
        self.frames.evict_written();
        Ok(true)
    }

    /// Writes back everything.
    pub(crate) fn flush(&mut self) -> Result<(), EngineError> {
        while self.write_back()? {}
        // Frames that only closed snapshots needed may leave, too.
        self.frames.evict_written();
        Ok(())
    }
}
