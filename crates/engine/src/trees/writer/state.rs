//! What commits to trees go through, one group at a time, and what becomes of the pages that they changed.
//!
//! ```text
//!   group ─► Work ─► redo page and values: one batch ─► frames published ─► dirty ─► written back in large batches
//! ```
//!
//! Only who has the right to write is here. Invariants: a frame leaves for the drive only after the redo of all commits up
//! to its number is durable; redo is let go as a prefix, once all that it speaks of was written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::DerefMut;
use std::sync::Arc;

use lode_base::{CommitNo, ExtentId, Lpid, ViewId};
use lode_command::{Align, Batch, CommandError, ExtentInfo, PageWrite};

use super::spaces::{Space, Spaces, TreeExtent};
use super::work::{Done, Work};
use crate::database::Inner;
use crate::planted::{self, Planted};
use crate::tables::catalog::Catalog;
use crate::trees::commit::sequencer::{Pending, TreeWrites};
use crate::trees::frames::{Body, Frame, LpidMap, TOGETHER};
use crate::trees::page::allocation::{self, Allocation};
use crate::trees::page::value::Written;
use crate::trees::redo::replay::replay;
use crate::trees::redo::{Bodies, REDO_OWNER, RedoLog, RedoPage};
use crate::trees::snapshot::View;
use crate::trees::{Csn, Tree};
use crate::{EngineError, Snapshot};

/// What is known of trees beyond their pages.
pub(crate) struct TreeState {
    spaces: Spaces,
    redo: RedoLog,
    dirty: Dirty,
    /// What no batch has taken yet.
    unsynced: Unsynced,
    /// Why nothing can be written any more.
    halted: Option<String>,
}

/// Newest versions that the drive has not got.
#[derive(Default)]
struct Dirty {
    frames: LpidMap<(Csn, Arc<Frame>)>,
    /// By the first commit that the drive's version lacks.
    by_first: BTreeSet<(Csn, Lpid)>,
    bytes: usize,
}

impl Dirty {
    /// A page has a new version, of commits from `first` on.
    fn add(&mut self, first: Csn, frame: Arc<Frame>) {
        self.bytes += frame.bytes();
        frame.listed();
        let first = match self.frames.remove(&frame.lpid) {
            Some((earlier, old)) => {
                self.bytes -= old.bytes();
                old.unlisted();
                if planted::is(Planted::FirstDirtyForgotten) {
                    self.by_first.remove(&(earlier, frame.lpid));
                    first
                } else {
                    earlier
                }
            }
            None => first,
        };
        self.by_first.insert((first, frame.lpid));
        self.frames.insert(frame.lpid, (first, frame));
    }

    /// The drive has this version. A page that has a newer one stays dirty.
    fn written(&mut self, frame: &Arc<Frame>) {
        let Some((_, newest)) = self.frames.get(&frame.lpid) else { return };
        if planted::instead(Planted::WrittenThoughNewer, || Arc::ptr_eq(newest, frame), || true) {
            self.remove(frame.lpid);
        }
    }

    /// The drive has the newest version of a page.
    fn remove(&mut self, lpid: Lpid) {
        if let Some((first, frame)) = self.frames.remove(&lpid) {
            self.bytes -= frame.bytes();
            frame.unlisted();
            self.by_first.remove(&(first, lpid));
        }
    }

    /// The frames that were dirty for longest, of about so many bytes.
    fn oldest(&self, bytes: usize, pages: usize) -> Vec<Arc<Frame>> {
        let mut room = bytes as i64;
        let mut chosen = Vec::new();
        for (_, lpid) in self.by_first.iter().take(pages) {
            if room <= 0 {
                break;
            }
            let frame = &self.frames[lpid].1;
            room -= frame.bytes() as i64;
            chosen.push(frame.clone());
        }
        chosen
    }
}

/// Redo, and frames that must go to the drive with it.
#[derive(Clone, Default)]
struct Unsynced {
    redo: Bodies,
    frames: BTreeMap<Lpid, Arc<Frame>>,
    /// Bytes of all frames that were put there, also of those that were replaced since.
    frame_bytes: usize,
}

impl Unsynced {
    fn add(&mut self, redo: Bodies, frames: &[Arc<Frame>]) {
        self.redo.append(redo);
        self.frame_bytes += frames.iter().map(|f| f.bytes()).sum::<usize>();
        self.frames.extend(frames.iter().map(|f| (f.lpid, f.clone())));
    }

    /// Bytes of a batch with all of it, at most.
    fn bytes(&self) -> usize {
        self.redo.bytes() + self.frame_bytes
    }
}

impl TreeState {
    /// The trees as a crash or a clean end left them: extents are found, redo is replayed.
    pub(crate) fn recover(
        view: View,
        catalog: Catalog,
        extents: &[ExtentInfo],
    ) -> Result<(Snapshot, Self), EngineError> {
        // Whatever commit a page is of, it may be read.
        let all = Snapshot::new(view, Csn::new(u64::MAX), catalog);
        let mut redo = Vec::new();
        for e in extents.iter().filter(|e| e.owner == REDO_OWNER && e.pages_mapped != Some(0)) {
            read_redo(&all, e.extent, &mut redo)?;
        }
        redo.sort_unstable_by_key(|p| p.number);
        if let Some(gap) = redo.windows(2).find(|p| p[0].number + 1 != p[1].number) {
            let what = format!("page {} of the redo does not follow {}", gap[1].number, gap[0].number);
            return Err(EngineError::BadRedo { lpid: gap[1].lpid, what });
        }
        let mut spaces = Spaces::default();
        let mut known = BTreeSet::new();
        for tree in all.catalog().trees.values() {
            let own = extents.iter().filter(|e| e.owner == tree.owner());
            let space = Space { extents: own.map(|e| begun(&all, e)).collect::<Result<_, _>>()? };
            known.extend(space.extents.iter().filter(|e| e.begun).map(|e| e.id));
            spaces.insert(tree.owner(), space);
        }
        let replayed = replay(&all, &redo, &known)?;
        let csn = redo.iter().map(|p| p.newest).max().unwrap_or_default();
        let again = u64::from(planted::is(Planted::NumberReused) && csn.raw() > 0);
        let csn = Csn::new(csn.raw() - again);
        let of_redo = extents.iter().filter(|e| e.owner == REDO_OWNER).map(|e| e.extent).collect();
        let mut state = Self {
            spaces,
            redo: RedoLog::found(&redo, of_redo),
            dirty: Dirty::default(),
            unsynced: Unsynced::default(),
            halted: None,
        };
        let snapshot = all.with_commits(csn, None);
        let frames = &snapshot.shared().frames;
        let made: Vec<Arc<Frame>> =
            replayed.iter().map(|r| frames.made(r.lpid, r.newest, r.body.clone())).collect();
        for (r, frame) in replayed.iter().zip(&made) {
            state.dirty.add(r.first, frame.clone());
        }
        // The snapshot that saw everything would keep old versions.
        drop(all);
        frames.publish(&made);
        Ok((snapshot, state))
    }

    fn check_halted(&self) -> Result<(), EngineError> {
        match &self.halted {
            Some(why) => Err(EngineError::Halted(why.clone())),
            None => Ok(()),
        }
    }

    /// Sends a batch. Where nobody knows what became of it, nothing more is written.
    fn write(&mut self, inner: &Inner, batch: Batch) -> Result<(CommitNo, Option<ViewId>), EngineError> {
        let written = inner.shared.store.write(batch);
        if let Err(e) = &written
            && is_unknown(e)
        {
            self.halted = Some(e.to_string());
        }
        written
    }

    /// Applies a group of commits, which are in order, makes them durable where one of them asks for it, and shows them.
    pub(crate) fn commit(&mut self, inner: &Inner, group: &[Arc<Pending>]) -> Result<(), EngineError> {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return Ok(()) };
        // Left so by a write-back that failed: another one does, or they are told why not.
        if self.is_overdue(inner) {
            inner.make_room(self)?;
        }
        let durable = group.iter().any(|p| p.durable);
        if !durable {
            // It shows at once, and with it all before it.
            inner.settle()?;
        }
        let commits = group.iter().map(|p| (p.csn, p.writes.lock()));
        self.applied(inner, commits, Batch::default(), |state, snapshot, mut done, batch| {
            let mut view = None;
            if durable {
                let pin = !(state.unsynced.frames.is_empty() && done.with_redo.is_empty());
                view = match state.send(inner, &mut done, Batch { pin, ..batch }) {
                    Err(_) if planted::is(Planted::ShownThoughFailed) => None,
                    sent => sent.map(|(commit, view)| pin.then(|| inner.view_at(commit, view)))?,
                };
            } else {
                state.unsynced.add(std::mem::take(&mut done.redo), &done.with_redo);
            }
            state.publish(inner, first.csn, &done);
            inner.heads.show(snapshot.with_commits(last.csn, view));
            Ok(())
        })
    }

    /// Applies a commit, and sends its redo with a batch, whatever else is in that. Its pages show
    /// once the caller publishes a state of this commit.
    pub(crate) fn write_along(
        &mut self,
        inner: &Inner,
        csn: Csn,
        writes: &mut Vec<TreeWrites>,
        batch: Batch,
    ) -> Result<(CommitNo, Option<ViewId>), EngineError> {
        self.applied(inner, std::iter::once((csn, writes)), batch, |state, _, mut done, batch| {
            let sent = state.send(inner, &mut done, Batch { pin: true, ..batch })?;
            // Before what the batch wrote may be evicted: what an older view has is not the newest version any more.
            inner.shared.frames.set_view(sent.0);
            state.publish(inner, csn, &done);
            Ok(sent)
        })
    }

    /// What `then` makes of what commits come to, and a batch; after an error nothing has changed. One batch takes all of it,
    /// and what was not durable before: also what need not be durable now must become so some time.
    fn applied<W: DerefMut<Target = Vec<TreeWrites>>, T>(
        &mut self,
        inner: &Inner,
        commits: impl IntoIterator<Item = (Csn, W)>,
        batch: Batch,
        then: impl FnOnce(&mut Self, &Snapshot, Done, Batch) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.check_halted()?;
        let snapshot = inner.refreshed()?;
        let done = apply(&snapshot, &mut self.spaces, commits);
        let outcome = done.and_then(|done| {
            if self.fits_a_batch(inner, &done, &batch) {
                return then(self, &snapshot, done, batch);
            }
            self.sync(inner)?;
            if !self.fits_a_batch(inner, &done, &batch) {
                let identity = inner.shared.store.identity();
                let bytes = (done.redo.bytes() + batch.payload_bytes()) as u64;
                let (writes, limit_bytes) = (done.frames.len(), identity.batch_bytes_max);
                return Err(EngineError::TransactionTooLarge { bytes, writes, limit_bytes });
            }
            then(self, &inner.refreshed()?, done, batch)
        });
        if outcome.is_err() {
            self.spaces.values_mut().for_each(Space::forget);
        }
        // What only the state before needed may go now.
        drop(snapshot);
        inner.shared.frames.evict();
        outcome
    }

    /// Whether one batch takes what was not durable, what was just done, and all that is in this one.
    fn fits_a_batch(&self, inner: &Inner, done: &Done, batch: &Batch) -> bool {
        let (identity, before) = (inner.shared.store.identity(), &self.unsynced);
        let redo_pages = before.redo.parts().count() + done.redo.parts().count();
        let pages = redo_pages + before.frames.len() + done.with_redo.len() + batch.writes.len();
        let frame_bytes = before.frame_bytes + done.with_redo.iter().map(|f| f.bytes()).sum::<usize>();
        let redo_bytes = before.redo.page_bytes() + done.redo.page_bytes();
        (frame_bytes + redo_bytes + batch.payload_bytes()) as u64 <= identity.batch_bytes_max
            && pages <= identity.batch_pages_max as usize
    }

    /// Makes new versions the newest.
    fn publish(&mut self, inner: &Inner, first: Csn, done: &Done) {
        for f in done.frames.iter().filter(|f| f.is_dirty()) {
            self.dirty.add(first, f.clone());
        }
        self.spaces.values_mut().for_each(|s| s.begun(&done.begun));
        inner.shared.frames.publish(&done.frames);
    }

    /// Sends all that is not durable, and what was just done, with a batch; takes its redo.
    fn send(
        &mut self,
        inner: &Inner,
        done: &mut Done,
        batch: Batch,
    ) -> Result<(CommitNo, Option<ViewId>), EngineError> {
        let mut all = self.unsynced.clone();
        if planted::is(Planted::UnsyncedLeftOut) {
            all.redo = Bodies::default();
        }
        all.add(std::mem::take(&mut done.redo), &done.with_redo);
        let sent = self.send_all(inner, &all, batch)?;
        // A version that was never written, as of a page that was free meanwhile, must not follow the newest.
        if !planted::is(Planted::FreedFollowsNewer) {
            done.with_redo.iter().for_each(|f| self.dirty.remove(f.lpid));
        }
        Ok(sent)
    }

    /// Sends redo and frames with a batch: all that was not durable is now.
    fn send_all(
        &mut self,
        inner: &Inner,
        all: &Unsynced,
        mut batch: Batch,
    ) -> Result<(CommitNo, Option<ViewId>), EngineError> {
        let appended = self.redo.append(&inner.shared.store, &all.redo, &mut batch)?;
        all.frames.values().for_each(|f| add(f, &mut batch));
        let (commit, view) = self.write(inner, batch)?;
        self.redo.appended(appended);
        for f in all.frames.values() {
            f.set_written(commit);
            self.dirty.written(f);
        }
        self.unsynced = Unsynced::default();
        Ok((commit, view))
    }

    /// Makes everything so far durable.
    pub(crate) fn sync(&mut self, inner: &Inner) -> Result<(), EngineError> {
        if self.unsynced.redo.is_empty() || planted::is(Planted::SyncLies) {
            return Ok(());
        }
        self.check_halted()?;
        let snapshot = inner.refreshed()?;
        let all = self.unsynced.clone();
        let pin = !all.frames.is_empty();
        let (commit, view) = self.send_all(inner, &all, Batch { pin, ..Batch::default() })?;
        if pin {
            let view = inner.view_at(commit, view);
            inner.heads.show(snapshot.with_commits(snapshot.csn(), Some(view)));
        }
        Ok(())
    }

    /// Whether changed pages should be written back, or redo let go.
    pub(crate) fn is_due(&self, inner: &Inner) -> bool {
        let options = &inner.shared.options;
        let (bytes, pages) = self.redo.kept();
        let unsynced = self.unsynced.redo.bytes() as u64;
        // Where snapshots keep much of the memory, less of it may be dirty.
        let part = if inner.shared.frames.is_stuck() { 8 } else { 2 };
        let due = self.dirty.bytes > options.frame_bytes / part
            || bytes + unsynced > options.redo_bytes_max
            || pages > options.redo_pages_max
            || self.fills_a_batch(inner);
        // The newest page of redo stays, whatever it speaks of.
        due && !(self.dirty.frames.is_empty() && pages < 2)
    }

    /// Whether what was not made durable yet is as much as one batch should take: it goes to the drive in one.
    fn fills_a_batch(&self, inner: &Inner) -> bool {
        let identity = inner.shared.store.identity();
        self.unsynced.bytes() as u64 > identity.batch_bytes_max / 4
            || self.unsynced.frames.len() > identity.batch_pages_max as usize / 4
    }

    /// Whether commits must wait until some are.
    pub(crate) fn is_overdue(&self, inner: &Inner) -> bool {
        let (bytes, pages) = self.redo.kept();
        let options = &inner.shared.options;
        self.dirty.bytes > options.frame_bytes / 8 * 5
            || bytes > options.redo_bytes_max / 4 * 5
            || pages > options.redo_pages_max / 4 * 5
    }

    /// Writes back the pages that were dirty for longest, in one batch, and lets go of redo that nobody needs any more.
    /// Answers whether there was anything.
    pub(crate) fn write_back(&mut self, inner: &Inner) -> Result<bool, EngineError> {
        if !planted::is(Planted::FrameBeforeRedo) {
            self.sync(inner)?;
        }
        self.check_halted()?;
        let identity = inner.shared.store.identity();
        let bytes = (inner.shared.options.write_back_bytes as u64).min(identity.batch_bytes_max / 2);
        let pages = identity.batch_pages_max as usize / 2;
        let chosen = self.dirty.oldest(bytes as usize, pages);
        let snapshot = inner.refreshed()?;
        // They are the front of what is dirty.
        let first = self.dirty.by_first.iter().nth(chosen.len()).map(|(csn, _)| *csn);
        let mut passed = self.redo.passed(first.unwrap_or(Csn::new(snapshot.csn().raw() + 1)));
        passed.at_most(pages - chosen.len().min(pages));
        // Values that went with their redo left nothing dirty, but redo.
        if chosen.is_empty() && passed.is_empty() {
            return Ok(false);
        }
        let mut batch = Batch { pin: true, ..Batch::default() };
        chosen.iter().for_each(|f| add(f, &mut batch));
        batch.trims.extend(&passed.trims);
        batch.releases.extend(&passed.releases);
        let (commit, view) = self.write(inner, batch)?;
        let view = inner.view_at(commit, view);
        for f in &chosen {
            f.set_written(commit);
            self.dirty.written(f);
        }
        self.redo.trimmed(&passed);
        inner.heads.show(snapshot.with_commits(snapshot.csn(), Some(view)));
        drop(snapshot);
        inner.shared.frames.evict_written();
        Ok(true)
    }

    /// Writes back everything.
    pub(crate) fn flush(&mut self, inner: &Inner) -> Result<(), EngineError> {
        while self.write_back(inner)? {}
        // What snapshots needed that are closed now may go, too.
        inner.shared.frames.evict_written();
        Ok(())
    }

    /// Creates an empty tree.
    pub(crate) fn create(&mut self, inner: &Inner, name: &str) -> Result<Tree, EngineError> {
        // Its pages are of the newest commit, which a crash must not take.
        if !planted::is(Planted::CreatedUnsynced) {
            self.sync(inner)?;
        }
        self.check_halted()?;
        let id = inner.shared.new_table();
        let extent = inner.shared.store.allocate(id.into())?;
        inner.shared.frames.forget(extent, inner.heads.newest().csn());
        let tree = Tree::new(id, name.into(), extent.page(1));
        // What it holds is of the newest commit: later ones change it.
        let csn = inner.heads.newest().csn();
        let mut bitmap = Allocation::empty(extent);
        bitmap.set(1, true);
        bitmap.set_csn(csn);
        let mut root = lode_page::NodeMut::empty(tree.root(), 0, &[], None);
        root.set_csn(csn.raw());
        let mut batch = Batch::default();
        for (lpid, data) in
            [(allocation::page_of(extent), bitmap.freeze()), (tree.root(), root.finish_exact())]
        {
            batch.writes.push(PageWrite { lpid, data, align: Align::Cell });
        }
        let space = Space { extents: vec![TreeExtent::new(extent, true)] };
        let adopted = self.adopt(inner, tree.clone(), space, batch);
        if adopted.is_err() && self.halted.is_none() {
            // Where even that fails, the next opening finds an extent that nobody has. What is told is what went wrong first.
            let _ = self.write(inner, Batch { releases: vec![extent], ..Batch::default() });
        }
        adopted.map(|()| tree)
    }

    /// Names a new tree, all of whose pages the drive has once it has this batch.
    pub(in crate::trees) fn adopt(
        &mut self,
        inner: &Inner,
        tree: Tree,
        space: Space,
        mut batch: Batch,
    ) -> Result<(), EngineError> {
        self.check_halted()?;
        let snapshot = inner.refreshed()?;
        let mut catalog = snapshot.catalog().clone();
        catalog.next_table = catalog.next_table.max(tree.id().raw() + 1);
        catalog.trees.insert(tree.name().into(), tree.clone());
        batch.pin = true;
        self.write_catalog(inner, &snapshot, catalog, batch)?;
        self.spaces.insert(tree.owner(), space);
        Ok(())
    }

    /// Drops a tree and all its pages.
    pub(crate) fn drop_tree(&mut self, inner: &Inner, tree: &Tree) -> Result<(), EngineError> {
        // No redo may speak of pages that another tree has later: all of it goes, but for a page that says nothing.
        self.flush(inner)?;
        let snapshot = inner.refreshed()?;
        let mut catalog = snapshot.catalog().clone();
        catalog.trees.remove(tree.name());
        let mut nothing = Bodies::default();
        nothing.begin(snapshot.csn());
        let mut batch = Batch { pin: true, ..Batch::default() };
        let appended = self.redo.append(&inner.shared.store, &nothing, &mut batch)?;
        let passed = self.redo.all();
        planted::unless(Planted::DropLeavesRedo, || batch.trims.extend(&passed.trims));
        let gone = self.spaces.get(&tree.owner()).cloned().unwrap_or_default();
        batch.releases.extend(gone.extents.iter().map(|e| e.id));
        // Before anybody can have them: a load asks for extents beside this.
        inner.shared.frames.drop_extents(gone.extents.iter().map(|e| e.id));
        self.write_catalog(inner, &snapshot, catalog, batch)?;
        self.redo.trimmed(&passed);
        self.redo.appended(appended);
        self.spaces.remove(&tree.owner());
        if planted::is(Planted::DroppedForgotten) {
            gone.extents.iter().for_each(|e| inner.shared.frames.forget(e.id, Csn::default()));
        }
        // Its frames stay for the snapshots that see them, until an extent is handed out again.
        Ok(())
    }

    fn write_catalog(
        &mut self,
        inner: &Inner,
        snapshot: &Snapshot,
        catalog: Catalog,
        mut batch: Batch,
    ) -> Result<(), EngineError> {
        let page_bytes_max = inner.shared.store.identity().page_bytes_max as usize;
        let (writes, trims) = catalog.changes_from(snapshot.catalog(), page_bytes_max)?;
        let changed = writes.iter().map(|w| w.lpid).collect();
        batch.writes.extend(writes);
        batch.trims.extend(trims);
        let (commit, view) = self.write(inner, batch)?;
        inner.heads.show(inner.made(commit, view, None, catalog, changed));
        inner.forget_changes();
        Ok(())
    }

    /// Extents that trees and the redo have.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (lode_base::OwnerId, ExtentId)> {
        self.spaces.iter().flat_map(|(&o, s)| s.extents.iter().map(move |e| (o, e.id)))
    }

    /// Bytes of changed pages, and bytes and pages of redo, that the next opening would have to work off.
    pub(crate) fn backlog(&self) -> (usize, u64, usize) {
        let (bytes, pages) = self.redo.kept();
        (self.dirty.bytes, bytes, pages)
    }
}

/// What commits, which are in order, come to.
fn apply<W: DerefMut<Target = Vec<TreeWrites>>>(
    snapshot: &Snapshot,
    spaces: &mut Spaces,
    commits: impl IntoIterator<Item = (Csn, W)>,
) -> Result<Done, EngineError> {
    let mut work = Work::new(snapshot, spaces);
    for (csn, mut writes) in commits {
        work.begin(csn);
        for w in writes.iter_mut() {
            snapshot.check_tree(&w.tree)?;
            let mut keys: Vec<(&Vec<u8>, &mut Option<Written>)> = w.keys.iter_mut().collect();
            for keys in keys.chunks_mut(TOGETHER) {
                // What they wait for comes together. Those before them have met the upper nodes.
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

/// Adds a frame to a batch.
fn add(f: &Frame, batch: &mut Batch) {
    let data = match &f.body {
        Body::Node(n) => n.compact(),
        Body::Value(b) | Body::Allocation(b) => b.clone(),
        Body::Freed => {
            batch.trims.push(f.lpid);
            return;
        }
    };
    batch.writes.push(PageWrite { lpid: f.lpid, data, align: Align::Cell });
}

/// An extent of a tree, and whether it has a bitmap.
fn begun(snapshot: &Snapshot, e: &ExtentInfo) -> Result<TreeExtent, EngineError> {
    let bitmap = snapshot.store().read_page(Some(snapshot.view_id()), allocation::page_of(e.extent));
    match bitmap {
        Ok(_) => Ok(TreeExtent::new(e.extent, true)),
        Err(EngineError::Drive(CommandError::Unmapped(_))) => Ok(TreeExtent::new(e.extent, false)),
        Err(e) => Err(e),
    }
}

fn read_redo(snapshot: &Snapshot, extent: ExtentId, out: &mut Vec<RedoPage>) -> Result<(), EngineError> {
    for page in 0..lode_base::EXTENT_PAGES as u16 {
        let lpid = extent.page(page);
        match snapshot.store().read_page(Some(snapshot.view_id()), lpid) {
            Ok(bytes) => out.push(RedoPage::decode(lpid, bytes)?),
            Err(EngineError::Drive(CommandError::Unmapped(_))) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Whether a batch that failed so may have taken effect.
fn is_unknown(e: &EngineError) -> bool {
    match e {
        EngineError::Device(_) | EngineError::Protocol { .. } => true,
        EngineError::Drive(e) => {
            matches!(e, CommandError::Medium(_) | CommandError::MediumFull(_) | CommandError::ReadOnly(_))
        }
        _ => false,
    }
}
