//! Transactions over trees: a snapshot to read, and writes that are kept until the commit.
//!
//! ```text
//!   begin ─► snapshot
//!   put, delete ─► writes by key ─► commit: first committer wins, one batch with others that commit now
//!   get, scan ─► writes, then the snapshot
//! ```
//!
//! Isolation is snapshot isolation: no dirty, fuzzy or phantom reads, and no lost updates. Write skew is possible.

use std::collections::{BTreeMap, btree_map};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::commit::{Committer, Pending};
use super::cursor::{Cursor, Order};
use super::durability::Durability;
use super::page::value::Written;
use super::snapshot::Snapshot;
use super::tree::{Csn, KEY_BYTES_MAX, Tree, Value};
use super::writes::TreeWrites;
use crate::EngineError;
use crate::planted::{self, Planted};

/// A transaction. Dropping it without [`Transaction::commit`] leaves everything as it was.
pub struct Transaction {
    committer: Arc<Committer>,
    snapshot: Snapshot,
    durability: Durability,
    writes: Vec<TreeWrites>,
    /// Bytes of keys and values.
    bytes: usize,
    /// What each write replaced, for savepoints.
    journal: Vec<Replaced>,
    /// Whether there is a savepoint, and so a journal.
    saves: bool,
}

struct Replaced {
    tree: usize,
    key: Vec<u8>,
    /// What the transaction had for the key, if anything.
    before: Option<Option<Written>>,
}

/// A moment of a transaction to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(usize);

impl Transaction {
    pub(crate) fn new(committer: Arc<Committer>, snapshot: Snapshot, durability: Durability) -> Self {
        let (writes, journal) = (Vec::new(), Vec::new());
        Self { committer, snapshot, durability, writes, bytes: 0, journal, saves: false }
    }

    /// What it reads, its own writes aside.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The tree of this name.
    pub fn tree(&self, name: &str) -> Option<Tree> {
        self.snapshot.tree(name)
    }

    /// When the commit is durable, if other than the database's setting.
    pub fn set_durability(&mut self, d: Durability) {
        self.durability = d;
    }

    fn own(&self, tree: &Tree) -> Option<&BTreeMap<Vec<u8>, Option<Written>>> {
        self.writes.iter().find(|w| w.tree == *tree).map(|w| &w.keys)
    }

    /// The value of a key, if it is there.
    ///
    /// # Errors
    /// When the tree was dropped before, or the drive fails.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>, EngineError> {
        match self.own(tree).and_then(|w| w.get(key)) {
            Some(written) => Ok(written.as_ref().map(Written::share)),
            None => self.snapshot.get(tree, key),
        }
    }

    /// What `look` makes of the value of a key, if it is there: see [`Snapshot::get_with`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, EngineError> {
        match self.own(tree).and_then(|w| w.get(key)) {
            Some(written) => Ok(written.as_ref().map(|w| look(w.bytes()))),
            None => self.snapshot.get_with(tree, key, look),
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// When the tree is none, or key or value are too long.
    pub fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let limit_bytes = self.committer.value_bytes_max();
        if value.len() > limit_bytes {
            let (tree, what, bytes) = (tree.name().into(), "value", value.len());
            return Err(EngineError::EntryTooLong { tree, what, bytes, limit_bytes });
        }
        self.set(tree, key, Some(Written::new(value)))
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// When the tree is none, or the key is too long.
    pub fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<(), EngineError> {
        self.set(tree, key, None)
    }

    fn set(&mut self, tree: &Tree, key: &[u8], value: Option<Written>) -> Result<(), EngineError> {
        if key.len() > KEY_BYTES_MAX {
            let (tree, what, bytes) = (tree.name().into(), "key", key.len());
            return Err(EngineError::EntryTooLong { tree, what, bytes, limit_bytes: KEY_BYTES_MAX });
        }
        let at = match self.writes.iter().position(|w| w.tree == *tree) {
            Some(at) => at,
            None => {
                self.snapshot.check_tree(tree)?;
                self.writes.push(TreeWrites::new(tree.clone()));
                self.writes.len() - 1
            }
        };
        self.bytes += key.len() + value.as_ref().map_or(0, |v| v.len());
        let before = self.writes[at].keys.insert(key.to_vec(), value);
        if let Some(Some(old)) = &before {
            self.bytes -= old.len();
        }
        self.bytes -= before.as_ref().map_or(0, |_| key.len());
        if self.saves {
            self.journal.push(Replaced { tree: at, key: key.to_vec(), before });
        }
        Ok(())
    }

    /// The keys within a range, in their order, as the transaction sees them.
    ///
    /// # Errors
    /// When the tree was dropped before, or the drive fails.
    pub fn scan<'t, K: AsRef<[u8]>>(
        &'t self,
        tree: &Tree,
        range: impl RangeBounds<K>,
    ) -> Result<Range<'t>, EngineError> {
        let start = range.start_bound().map(AsRef::as_ref);
        self.scan_in(Order::Forward, tree, start, range.end_bound().map(AsRef::as_ref))
    }

    /// The keys within a range, the last one first, as the transaction sees them.
    ///
    /// # Errors
    /// As [`Transaction::scan`].
    pub fn scan_back<'t, K: AsRef<[u8]>>(
        &'t self,
        tree: &Tree,
        range: impl RangeBounds<K>,
    ) -> Result<Range<'t>, EngineError> {
        let start = range.start_bound().map(AsRef::as_ref);
        self.scan_in(Order::Backward, tree, start, range.end_bound().map(AsRef::as_ref))
    }

    fn scan_in(
        &self,
        order: Order,
        tree: &Tree,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Result<Range<'_>, EngineError> {
        let empty = match (start, end) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
            _ => false,
        };
        let own = self
            .own(tree)
            .filter(|_| !empty)
            .map(|w| OwnWrites::new(w.range::<[u8], _>((start, end)), order));
        let cursor = match empty {
            true => None,
            false => Some(Cursor::new(self.snapshot.clone(), tree.clone(), start, end, order)?),
        };
        Ok(Range { cursor, ahead: None, own, key: Vec::new() })
    }

    /// A moment that [`Transaction::rollback_to`] goes back to.
    pub fn savepoint(&mut self) -> Savepoint {
        self.saves = true;
        Savepoint(self.journal.len())
    }

    /// Takes back all writes since a savepoint. The savepoint stays. Savepoints made after it are void: going back to one of them does
    /// nothing.
    pub fn rollback_to(&mut self, s: Savepoint) {
        let kept = planted::instead(Planted::SavepointKeepsWrite, || s.0, || s.0 + 1);
        while self.journal.len() > kept {
            let Replaced { tree, key, before } = self.journal.pop().expect("it is longer");
            let keys = &mut self.writes[tree].keys;
            let bytes = |v: &Option<Written>| key.len() + v.as_ref().map_or(0, |v| v.len());
            let now = keys.get(&key).map_or(0, bytes);
            self.bytes = self.bytes - now + before.as_ref().map_or(0, bytes);
            let before = planted::instead(Planted::SavepointLosesEarlier, || before, || None);
            match before {
                Some(value) => drop(keys.insert(key, value)),
                None => drop(keys.remove(&key)),
            }
        }
    }

    /// Makes the writes visible to all transactions that begin afterwards, all at once. Answers the number of the commit, or that
    /// of the snapshot if there was nothing to write.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] when another transaction committed to one of the keys since this one began: nothing took
    /// effect, and a new try may succeed. Others when the drive is full or fails. Nothing took effect then either, unless
    /// the error says that the database must be opened again.
    pub fn commit(self) -> Result<Csn, EngineError> {
        self.place()?.finish()
    }

    /// Gives the commit its place in the order, unless it conflicts.
    pub(crate) fn place(mut self) -> Result<Placed, EngineError> {
        let mut writes = std::mem::take(&mut self.writes);
        writes.retain(|w| !w.keys.is_empty());
        if writes.is_empty() {
            return Ok(Placed::Nothing(self.snapshot.csn()));
        }
        let count: usize = writes.iter().map(|w| w.keys.len()).sum();
        let identity = self.committer.storage().store().identity();
        // Each key may change a node and parts of others. Values and redo come on top.
        let limit_bytes = identity.batch_bytes_max / 4;
        if self.bytes as u64 > limit_bytes || count > identity.batch_pages_max as usize / 4 {
            let bytes = self.bytes as u64;
            return Err(EngineError::TransactionTooLarge { bytes, writes: count, limit_bytes });
        }
        let durable = self.durability == Durability::Commit;
        // Later commits need not keep what this one saw.
        let (committer, at, bytes) = (self.committer.clone(), self.snapshot.csn(), self.bytes);
        drop(self);
        let pending = committer.sequence(at, writes, bytes, durable)?;
        Ok(Placed::Waits(committer, pending))
    }

    /// Ends the transaction. Nothing that it wrote takes effect.
    pub fn rollback(self) {}
}

/// A commit that has its place in the order.
pub(crate) enum Placed {
    /// It writes nothing. This is the commit that it saw.
    Nothing(Csn),
    /// It waits for its group.
    Waits(Arc<Committer>, Arc<Pending>),
}

impl Placed {
    /// Sees the commit through.
    pub(crate) fn finish(self) -> Result<Csn, EngineError> {
        match self {
            Self::Nothing(csn) => Ok(csn),
            Self::Waits(committer, pending) => committer.finish(&pending),
        }
    }
}

/// The entries of [`Transaction::scan`], or of [`Transaction::scan_back`].
pub struct Range<'t> {
    cursor: Option<Cursor>,
    /// The snapshot's next entry, if it was looked at.
    ahead: Option<(Vec<u8>, Value)>,
    own: Option<OwnWrites<'t>>,
    key: Vec<u8>,
}

/// A transaction's own writes in a range.
struct OwnWrites<'t> {
    rest: btree_map::Range<'t, Vec<u8>, Option<Written>>,
    next: Option<(&'t Vec<u8>, &'t Option<Written>)>,
    order: Order,
}

impl<'t> OwnWrites<'t> {
    fn new(range: btree_map::Range<'t, Vec<u8>, Option<Written>>, order: Order) -> Self {
        let mut own = Self { rest: range, next: None, order };
        own.take();
        own
    }

    /// Takes the next write, and looks at the one after it.
    fn take(&mut self) -> Option<(&'t Vec<u8>, &'t Option<Written>)> {
        let next = match self.order {
            Order::Forward => self.rest.next(),
            Order::Backward => self.rest.next_back(),
        };
        std::mem::replace(&mut self.next, next)
    }

    /// Whether the next write comes no later than this key of the snapshot.
    fn is_due(&self, theirs: Option<&Vec<u8>>) -> bool {
        match (self.next, theirs) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some((mine, _)), Some(theirs)) => match self.order {
                Order::Forward => mine <= theirs,
                Order::Backward => mine >= theirs,
            },
        }
    }
}

impl Range<'_> {
    /// The next key and its value; `None` after the last.
    ///
    /// # Errors
    /// When the drive fails.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], Value)>, EngineError> {
        let Some(own) = &mut self.own else {
            return self.cursor.as_mut().map_or(Ok(None), Cursor::next);
        };
        loop {
            if self.ahead.is_none()
                && let Some(cursor) = &mut self.cursor
            {
                self.ahead = cursor.next()?.map(|(k, v)| (k.to_vec(), v));
                if self.ahead.is_none() {
                    self.cursor = None;
                }
            }
            if !own.is_due(self.ahead.as_ref().map(|(theirs, _)| theirs)) {
                let Some((key, value)) = self.ahead.take() else { return Ok(None) };
                self.key = key;
                return Ok(Some((&self.key, value)));
            }
            let (key, value) = own.take().expect("it is due");
            let hides = planted::instead(Planted::OwnDeleteMissed, || true, || value.is_some());
            if hides && self.ahead.as_ref().is_some_and(|(theirs, _)| theirs == key) {
                self.ahead = None;
            }
            if let Some(value) = value {
                self.key.clone_from(key);
                return Ok(Some((&self.key, value.share())));
            }
        }
    }
}
