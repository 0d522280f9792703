//! The committer sees commits through: it leads groups of commits to trees, and carries what goes along with another batch.
//!
//! ```text
//!   finish ─► lead: right to write ─► group ─► writer: one batch ─► every commit of the group is told
//!   carry  ─► commits that wait first ─► writer: one batch of tree writes and of the part above
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use lode_command::Batch;
use parking_lot::{Mutex, MutexGuard};

use super::claims::Claims;
use super::right::{Permit, WriteRight};
use super::sequencer::{Leading, Next, Passing, Pending, Sequenced, Sequencer, next_group};
use crate::EngineError;
use crate::planted::{self, Planted};
use crate::storage::Storage;
use crate::storage::store::SentBatch;
use crate::trees::heads::Heads;
use crate::trees::options::TreeOptions;
use crate::trees::page::value;
use crate::trees::tree::Csn;
use crate::trees::writer::Writer;
use crate::trees::writes::TreeWrites;

/// Bytes of keys and values that one group takes at most, its first commit aside. It is less if the drive takes small batches only.
const GROUP_BYTES_MAX: u64 = 4 << 20;

/// Carries out commits.
pub(crate) struct Committer {
    storage: Arc<Storage>,
    heads: Arc<Heads>,
    options: TreeOptions,
    right: Arc<WriteRight>,
    sequencer: Sequencer,
    writer: Mutex<Writer>,
}

/// What became of a batch that the committer carried.
#[derive(Debug)]
pub(crate) struct CarriedBatch {
    pub(crate) sent: SentBatch,
    /// The commit to trees that went along.
    pub(crate) csn: Option<Csn>,
}

impl Committer {
    pub(crate) fn new(
        storage: Arc<Storage>,
        heads: Arc<Heads>,
        options: TreeOptions,
        newest: Csn,
        writer: Writer,
    ) -> Self {
        let sequencer = Sequencer::new(newest, options.recent_bytes, options.now);
        let (right, writer) = (Arc::default(), Mutex::new(writer));
        Self { storage, heads, options, right, sequencer, writer }
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    pub(crate) fn heads(&self) -> &Arc<Heads> {
        &self.heads
    }

    pub(crate) fn options(&self) -> &TreeOptions {
        &self.options
    }

    /// Bytes of the longest value of a tree.
    #[inline]
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.storage.store().identity().page_bytes_max as usize - value::HEADER_BYTES
    }

    /// Waits for the right to write.
    pub(crate) fn permit(&self) -> Permit {
        self.right.acquire()
    }

    /// Whether a thread waits for the right to write.
    pub(crate) fn others_wait(&self) -> bool {
        self.right.is_wanted()
    }

    /// The writer. To change anything, hold the right to write.
    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    /// Validates writes that were made at a snapshot, and puts the commit behind all others.
    pub(crate) fn sequence(
        &self,
        at: Csn,
        writes: Vec<TreeWrites>,
        bytes: usize,
        is_durable: bool,
    ) -> Result<Arc<Pending>, EngineError> {
        self.sequencer.sequence(at, writes, bytes, is_durable)
    }

    /// Validates the claims of a commit of tables, and puts the commit behind all others.
    pub(crate) fn sequence_claims(
        &self,
        at: Csn,
        writes: Vec<TreeWrites>,
        claims: &Claims,
        bytes: usize,
        is_durable: bool,
    ) -> Sequenced {
        self.sequencer.sequence_claims(at, writes, claims, bytes, is_durable)
    }

    /// Whether claims conflict with commits after a snapshot; `None` if they do not. The holder of [`Alone`] asks.
    pub(crate) fn conflict(&self, at: Csn, claims: &Claims) -> Option<Sequenced> {
        self.sequencer.conflict(at, claims)
    }

    /// Waits for the right to write, and keeps commits of tables from their places meanwhile. Those that have one are carried out.
    pub(crate) fn alone(self: &Arc<Self>) -> Alone {
        let permit = self.permit();
        let mut before = self.sequencer.close();
        let alone = Alone { committer: self.clone(), _permit: permit };
        self.carry_out_all(&mut before);
        alone
    }

    /// Carries out commits that were sequenced.
    fn carry_out_all(&self, before: &mut VecDeque<Arc<Pending>>) {
        while !before.is_empty() {
            let commits = next_group(before, self.group_bytes_max());
            let group = Group { heads: &self.heads, commits };
            self.carry_out(&mut self.writer(), &group.commits);
            self.sequencer.passed_group_over();
        }
    }

    /// Sees a commit through that was sequenced; answers when it is visible and, if it asked for that, durable.
    pub(crate) fn finish(&self, pending: &Pending) -> Result<Csn, EngineError> {
        loop {
            match self.sequencer.next(pending) {
                Next::Over(outcome) => return outcome.map(|()| pending.csn()),
                Next::Lead(leading) => self.lead(leading),
            }
        }
    }

    /// Carries out a group of the commits that wait.
    fn lead(&self, mut leading: Leading<'_>) {
        let permit = self.permit();
        let group = Group { heads: &self.heads, commits: self.sequencer.group(self.group_bytes_max()) };
        let _span = tracing::debug_span!("commit_group", transactions = group.commits.len()).entered();
        let mut writer = self.writer();
        self.carry_out(&mut writer, &group.commits);
        leading.answered(group.commits.len());
        drop(group);
        drop(leading);
        // Commits that need room wait for this. If it fails, that is not the fault of the commits that are over: the next one tries
        // again, and is told.
        let _ = writer.make_room();
        drop(writer);
        drop(permit);
    }

    /// Applies a group, and tells its commits what became of them.
    fn carry_out(&self, writer: &mut Writer, group: &[Arc<Pending>]) {
        // A commit that writes to a dropped tree fails alone.
        let current = self.heads.newest();
        let check = |p: &Arc<Pending>| p.writes().iter().try_for_each(|w| current.check_tree(w.tree()));
        let mut outcomes: Vec<Result<(), EngineError>> = group.iter().map(check).collect();
        let together = group.iter().zip(&outcomes).filter(|(_, o)| o.is_ok());
        let together: Vec<&Pending> = together.map(|(p, _)| &**p).collect();
        let sharing = outcomes.iter_mut().filter(|o| o.is_ok());
        match apply(writer, &together) {
            Ok(()) => {}
            Err(EngineError::TransactionTooLarge { .. }) if together.len() > 1 => {
                // Together they change more of the nodes than one batch takes.
                let alone = together.iter().map(|p| apply(writer, &[p]));
                sharing.zip(alone).for_each(|(o, done)| *o = done);
            }
            Err(e) => {
                let told = planted::instead(Planted::FollowerAcknowledged, || group.len(), || 1);
                sharing.take(told).for_each(|o| *o = Err(e.clone()));
            }
        }
        if outcomes.iter().any(Result::is_err) {
            let failed = group.iter().zip(&outcomes).filter(|(_, o)| o.is_err());
            self.sequencer.take_back(failed.map(|(p, _)| p));
        }
        for (p, o) in group.iter().zip(outcomes) {
            p.end(o);
        }
    }

    /// Sends a batch of the part above trees, and with it writes to trees, whose claims the caller validated. Commits that are in no
    /// batch yet go before it. The pages of trees show once the caller shows a state of the commit that is answered. Only the holder of the
    /// right to write may call this.
    pub(crate) fn carry(
        &self,
        mut writes: Vec<TreeWrites>,
        claims: &Claims,
        batch: Batch,
    ) -> Result<CarriedBatch, EngineError> {
        if writes.is_empty() && claims.len() == 0 {
            self.writer().sync()?;
            let sent = self.storage.store().write(batch)?;
            return Ok(CarriedBatch { sent, csn: None });
        }
        self.writer().make_room()?;
        let Passing { csn, mut before, remembered } = self.sequencer.pass(claims);
        self.carry_out_all(&mut before);
        let sent = self.writer().commit_along(csn, &mut writes, batch);
        let sent = sent.inspect_err(|_| self.sequencer.take_back_passing(csn, &remembered))?;
        Ok(CarriedBatch { sent, csn: Some(csn) })
    }

    /// Commits writes to trees that nobody else changes, and shows them. Only the holder of the right to write may call this.
    pub(crate) fn commit_alone(&self, writes: Vec<TreeWrites>) -> Result<(), EngineError> {
        let CarriedBatch { sent, csn } = self.carry(writes, &Claims::default(), Batch::default())?;
        let view = self.heads.view_at(sent.commit, sent.view);
        let csn = csn.expect("writes to trees have a CSN");
        self.heads.show(self.heads.newest().with_commits(csn, Some(view)));
        Ok(())
    }

    /// Bytes of keys and values of a group, so that one batch takes the group.
    fn group_bytes_max(&self) -> usize {
        let identity = self.storage.store().identity();
        GROUP_BYTES_MAX.min(identity.batch_bytes_max / 8) as usize
    }
}

/// Applies commits, and makes all of them durable if one asks for it.
fn apply(writer: &mut Writer, commits: &[&Pending]) -> Result<(), EngineError> {
    let is_durable = commits.iter().any(|p| p.is_durable());
    writer.commit(commits.iter().map(|p| (p.csn(), p.writes())), is_durable)
}

/// The right to write, while commits of tables wait for their places. Both end when this drops.
pub(crate) struct Alone {
    committer: Arc<Committer>,
    _permit: Permit,
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.committer.sequencer.open();
    }
}

/// Commits that a thread carries out. If it unwinds, nobody knows how far it came: the commits are told so, and nothing more is
/// committed.
struct Group<'a> {
    heads: &'a Heads,
    commits: Vec<Arc<Pending>>,
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let e = self.heads.halt("a thread ended in the middle of a commit");
        self.commits.iter().for_each(|p| p.fail(&e));
    }
}
