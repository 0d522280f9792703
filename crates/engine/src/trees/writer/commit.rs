//! Carries out commits: their writes become changed pages, one batch, and frames that snapshots see.

use std::ops::DerefMut;

use lode_command::Batch;

use super::spaces::{Space, Spaces};
use super::unsynced::Unsynced;
use super::work::{Done, Work};
use super::{Writer, add_page};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::storage::store::SentBatch;
use crate::trees::frames::TOGETHER;
use crate::trees::options::TreeOptions;
use crate::trees::page::value::Written;
use crate::trees::redo::Bodies;
use crate::trees::snapshot::Snapshot;
use crate::trees::tree::Csn;
use crate::trees::writes::TreeWrites;

impl Writer {
    /// Applies a group of commits, which are in order, and shows them. If one of them asks to be `durable`, all of them become so.
    pub(crate) fn commit<W: DerefMut<Target = Vec<TreeWrites>>>(
        &mut self,
        group: impl ExactSizeIterator<Item = (Csn, W)>,
        durable: bool,
    ) -> Result<(), EngineError> {
        if group.len() == 0 {
            return Ok(());
        }
        // A write-back that failed left too much. If another one fails too, the commits are told why.
        if self.is_overdue() {
            self.make_room()?;
        }
        if !durable {
            // The group shows at once, and so must all states before it.
            self.heads.settle_all()?;
        }
        self.applied(group, Batch::default(), |writer, snapshot, mut done, batch| {
            let view = if durable {
                let pin = !(writer.unsynced.frames.is_empty() && done.with_redo.is_empty());
                match writer.send_done(&mut done, Batch { pin, ..batch }) {
                    Ok(SentBatch { commit, view, .. }) => pin.then(|| writer.heads.view_at(commit, view)),
                    Err(e) => planted::instead(Planted::ShownThoughFailed, || Err(e), || Ok(None))?,
                }
            } else {
                writer.unsynced.add(std::mem::take(&mut done.redo), &done.with_redo);
                None
            };
            writer.publish(&done);
            writer.heads.show(snapshot.with_commits(done.last, view));
            Ok(())
        })
    }

    /// Applies a commit, and sends its redo with a batch, whatever else is in the batch. The changed pages show once the caller
    /// shows a state of this commit.
    pub(crate) fn commit_along(
        &mut self,
        csn: Csn,
        writes: &mut Vec<TreeWrites>,
        batch: Batch,
    ) -> Result<SentBatch, EngineError> {
        self.applied(std::iter::once((csn, writes)), batch, |writer, _, mut done, batch| {
            let sent = writer.send_done(&mut done, Batch { pin: true, ..batch })?;
            // Frames may leave once the batch has their pages. From then on a page that is read at an older view is not the newest.
            writer.frames.set_view(sent.commit);
            writer.publish(&done);
            Ok(sent)
        })
    }

    /// Makes everything so far durable.
    pub(crate) fn sync(&mut self) -> Result<(), EngineError> {
        if self.unsynced.redo.is_empty() {
            return Ok(());
        }
        planted::instead(Planted::SyncLies, || self.send_unsynced(), || Ok(()))
    }

    fn send_unsynced(&mut self) -> Result<(), EngineError> {
        self.check_halted()?;
        let snapshot = self.heads.refreshed()?;
        let all = self.unsynced.clone();
        let pin = !all.frames.is_empty();
        let SentBatch { commit, view, .. } = self.send_all(&all, Batch { pin, ..Batch::default() })?;
        if pin {
            let view = self.heads.view_at(commit, view);
            self.heads.show(snapshot.with_commits(snapshot.csn(), Some(view)));
        }
        Ok(())
    }

    /// What `then` makes of commits, once they are applied, and of a batch. After an error nothing has changed. What commits did and
    /// what was not durable before fit one batch together with `batch`, even if they need not be durable now: they must become so
    /// at some time.
    fn applied<W: DerefMut<Target = Vec<TreeWrites>>, T>(
        &mut self,
        commits: impl IntoIterator<Item = (Csn, W)>,
        batch: Batch,
        then: impl FnOnce(&mut Self, &Snapshot, Done, Batch) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.check_halted()?;
        let snapshot = self.heads.refreshed()?;
        let done = apply(&snapshot, &self.options, &mut self.spaces, commits);
        let outcome = done.and_then(|done| {
            self.splits += done.splits;
            self.merges += done.merges;
            if self.fits_a_batch(&done, &batch) {
                return then(self, &snapshot, done, batch);
            }
            self.sync()?;
            if !self.fits_a_batch(&done, &batch) {
                let bytes = (done.redo.bytes() + batch.payload_bytes()) as u64;
                let limit_bytes = self.storage.store().identity().batch_bytes_max;
                let writes = done.frames.len();
                return Err(EngineError::TransactionTooLarge { bytes, writes, limit_bytes });
            }
            let snapshot = self.heads.refreshed()?;
            then(self, &snapshot, done, batch)
        });
        if outcome.is_err() {
            self.spaces.values_mut().for_each(Space::forget);
        }
        // Frames that only the state before needed may leave now.
        drop(snapshot);
        self.frames.evict();
        outcome
    }

    /// Whether one batch takes what was not durable, what was just done, and what is in this one.
    fn fits_a_batch(&self, done: &Done, batch: &Batch) -> bool {
        let (identity, before) = (self.storage.store().identity(), &self.unsynced);
        let redo_pages = before.redo.parts().count() + done.redo.parts().count();
        let pages = redo_pages + before.frames.len() + done.with_redo.len() + batch.writes.len();
        let frame_bytes = before.frame_bytes + done.with_redo.iter().map(|f| f.bytes()).sum::<usize>();
        let redo_bytes = before.redo.page_bytes() + done.redo.page_bytes();
        (frame_bytes + redo_bytes + batch.payload_bytes()) as u64 <= identity.batch_bytes_max
            && pages <= identity.batch_pages_max as usize
    }

    /// Makes the new versions the newest ones.
    fn publish(&mut self, done: &Done) {
        for f in done.frames.iter().filter(|f| f.is_dirty()) {
            self.dirty.add(done.first, f.clone());
        }
        self.spaces.values_mut().for_each(|s| s.begun(&done.begun));
        self.frames.publish(&done.frames);
    }

    /// Sends what was not durable and what was just done with a batch; takes the redo of `done`.
    fn send_done(&mut self, done: &mut Done, batch: Batch) -> Result<SentBatch, EngineError> {
        let mut all = planted::instead(
            Planted::UnsyncedLeftOut,
            || self.unsynced.clone(),
            || Unsynced { redo: Bodies::default(), ..self.unsynced.clone() },
        );
        all.add(std::mem::take(&mut done.redo), &done.with_redo);
        let sent = self.send_all(&all, batch)?;
        // An older version that was never written must not be written after the newest one: for instance that of a page that was
        // free meanwhile.
        planted::unless(Planted::FreedFollowsNewer, || {
            done.with_redo.iter().for_each(|f| self.dirty.remove(f.lpid()));
        });
        Ok(sent)
    }

    /// Sends redo and frames with a batch. After that nothing is unsynced.
    fn send_all(&mut self, all: &Unsynced, mut batch: Batch) -> Result<SentBatch, EngineError> {
        let appended = self.redo.append(self.storage.extents(), &all.redo, &mut batch)?;
        all.frames.values().for_each(|f| add_page(f, &mut batch));
        let sent = self.send(batch)?;
        self.redo.appended(appended);
        for f in all.frames.values() {
            f.set_written(sent.commit);
            self.dirty.written(f);
        }
        self.unsynced = Unsynced::default();
        Ok(sent)
    }
}

/// What commits, which are in order, do to pages.
fn apply<W: DerefMut<Target = Vec<TreeWrites>>>(
    snapshot: &Snapshot,
    options: &TreeOptions,
    spaces: &mut Spaces,
    commits: impl IntoIterator<Item = (Csn, W)>,
) -> Result<Done, EngineError> {
    let mut work = Work::new(snapshot, options, spaces);
    for (csn, mut writes) in commits {
        work.begin(csn);
        for w in writes.iter_mut() {
            snapshot.check_tree(&w.tree)?;
            let mut stays: Vec<Vec<u8>> = Vec::new();
            for (key, value) in &w.only_if {
                if work.get(&w.tree, key)?.as_deref() != Some(&value[..]) {
                    stays.push(key.clone());
                }
            }
            let wanted = |(key, _): &(&Vec<u8>, &mut Option<Written>)| stays.binary_search(key).is_err();
            let mut keys: Vec<(&Vec<u8>, &mut Option<Written>)> = w.keys.iter_mut().filter(wanted).collect();
            for keys in keys.chunks_mut(TOGETHER) {
                // The leaves of several keys are prefetched together. A single key gains nothing by it.
                let places = match keys.len() {
                    1 => Vec::new(),
                    _ => snapshot.value_pages(&w.tree, keys.iter().map(|(key, _)| key)),
                };
                for (i, (key, value)) in keys.iter_mut().enumerate() {
                    match value {
                        Some(value) => work.put(&w.tree, key, value, places.get(i).copied().flatten())?,
                        None => work.delete(&w.tree, key)?,
                    }
                }
            }
        }
    }
    Ok(work.done())
}
