//! The operations of transactions, compared with the model.

use std::collections::{BTreeMap, BTreeSet};

use lode_engine::{Csn, Durability, EngineError, Transaction};

use super::{Done, KnownTree, OpenTxn, World, shown};
use crate::failure::{FailureKind, wrong};
use crate::history::{self, Op, Outcome};
use crate::kv::content;
use crate::kv::model::{Key, Position, Writes};
use crate::kv::scenario::SLOTS;
use crate::kv::step::{KeysAt, Work};
use crate::random::Random;

/// The most values of a list.
const LIST_MAX: usize = 60;
/// About how many keys a short scan reads.
const SCAN_KEYS: u64 = 40;

impl World<'_> {
    /// Begins a transaction in a slot, if none is open there.
    pub(super) fn begin(&mut self, slot: usize) -> Done {
        if self.open[slot].is_none() {
            let open = self.new_transaction()?;
            self.open[slot] = open.map(|open| OpenTxn { session: slot as u32, ..open });
        }
        Ok(())
    }

    /// Begins a transaction at the newest commit.
    pub(super) fn new_transaction(&mut self) -> Done<Option<OpenTxn>> {
        let began = self.machine.crowd.enter();
        let mut txn = match self.database().begin() {
            Ok(txn) => txn,
            Err(e) => {
                self.machine.excused_read("a beginning", began, &e)?;
                self.machine.crowd.leave();
                return Ok(None);
            }
        };
        let (shown, newest) = (txn.snapshot().csn().raw(), self.model.newest_csn());
        if shown != newest && !self.machine.is_cut() {
            return wrong(
                FailureKind::Answer,
                format!("a snapshot shows commit {shown}, and should show {newest}"),
            );
        }
        txn.set_durability(self.durability);
        Ok(Some(OpenTxn {
            session: SLOTS as u32,
            txn,
            durability: self.durability,
            place: self.model.place(),
            trees: self.trees.clone(),
            writes: Writes::new(),
            savepoints: Vec::new(),
            ops: Vec::new(),
            invoked: self.clock,
            flushes: self.flushes,
            began,
        }))
    }

    /// The value that a transaction must see under a key.
    fn expected(&self, open: &OpenTxn, key: &Key) -> Option<Vec<u8>> {
        match open.writes.get(key) {
            Some(own) => own.clone(),
            None => self.model.at(open.place, key).cloned(),
        }
    }

    /// Reads a key, checks the value and records the read. Returns `None` if the transaction cannot continue.
    fn read_one(&mut self, open: &mut OpenTxn, tree: &KnownTree, n: u32) -> Done<Option<Option<Vec<u8>>>> {
        let key = self.keys[n as usize].clone();
        let read = match n % 2 {
            0 => open.txn.get(&tree.tree, &key).map(|got| got.map(|v| v.to_vec())),
            _ => open.txn.get_with(&tree.tree, &key, <[u8]>::to_vec),
        };
        let got = match read {
            Ok(got) => got,
            Err(e) => {
                self.machine.excused_read("a read", open.began, &e)?;
                return Ok(None);
            }
        };
        let want = self.expected(open, &(tree.serial, key.clone()));
        if got != want && !self.machine.is_cut() {
            let row = |v: &Option<Vec<u8>>| shown(v.as_ref().map(|v| (&key[..], &v[..])));
            let (csn, got, want) = (self.model.csn(open.place), row(&got), row(&want));
            let what = format!("{}, at commit {csn}: {got} was read instead of {want}", tree.name);
            return wrong(FailureKind::Isolation, what);
        }
        if got.as_ref().is_some_and(|v| v.len() >= self.scenario.database.value_page_bytes_min) {
            self.machine.met("reads of values that are pages");
        }
        if !self.trees.iter().any(|t| t.serial == tree.serial) {
            self.machine.met("reads of trees that were dropped since");
        }
        if open.flushes < self.flushes {
            self.machine.met("snapshots across flushes");
        }
        open.ops.extend((!tree.loaded).then(|| note_read(tree, n, got.as_deref())));
        Ok(Some(got))
    }

    /// Selects keys of a tree.
    fn pick_keys(&self, r: &mut Random, at: KeysAt, count: u32) -> Vec<u32> {
        let all = u64::from(self.scenario.keys);
        let from = r.below(all);
        let one = |i: u64| match at {
            KeysAt::Anywhere => r.below(all),
            KeysAt::Hot => r.below(all.min(5)),
            KeysAt::InARow => (from + i) % all,
        };
        (0..u64::from(count)).map(one).map(|n| n as u32).collect()
    }

    /// Reads keys in a transaction. Returns false if it cannot continue.
    pub(super) fn read(&mut self, open: &mut OpenTxn, seed: u64, count: u32) -> Done<bool> {
        let mut r = Random::of_seed(seed);
        let Some(tree) = r.pick(&open.trees).cloned() else { return Ok(true) };
        let at = if r.once_in(2) { KeysAt::Hot } else { KeysAt::Anywhere };
        for n in self.pick_keys(&mut r, at, count) {
            if self.read_one(open, &tree, n)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes keys of one or more trees in a transaction. Returns false if it cannot continue.
    pub(super) fn write(&mut self, open: &mut OpenTxn, work: &Work) -> Done<bool> {
        let mut r = Random::of_seed(work.seed);
        let keys = self.pick_keys(&mut r, work.keys_at, work.keys);
        let Some(mut tree) = r.pick(&open.trees).cloned() else { return Ok(true) };
        for n in keys {
            if r.once_in(8) {
                tree = r.pick(&open.trees).cloned().expect("there was one");
            }
            // A tree that was dropped since can still be read, but a transaction that writes to it cannot commit.
            if !self.write_one(open, &tree, n, work, &mut r)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_one(
        &mut self,
        open: &mut OpenTxn,
        tree: &KnownTree,
        n: u32,
        work: &Work,
        r: &mut Random,
    ) -> Done<bool> {
        let key = self.keys[n as usize].clone();
        let object = object(tree, n);
        self.clock += 1;
        let number = self.clock;
        let (value, op) = if content::is_list(n) {
            let Some(before) = self.read_one(open, tree, n)? else { return Ok(false) };
            let mut value = before.unwrap_or_default();
            if value.len() / 8 >= LIST_MAX {
                return Ok(true);
            }
            value.extend(number.to_le_bytes());
            (Some(value), Op::Append { list: object, value: number })
        } else {
            let reads = r.below(100) < u64::from(work.reads_percent);
            if reads && self.read_one(open, tree, n)?.is_none() {
                return Ok(false);
            }
            if r.below(100) < u64::from(work.deletes_percent) {
                (None, Op::Delete { register: object })
            } else {
                let bytes = r.skewed(8, u64::from(work.value_bytes_max).max(9)) as u32;
                (Some(content::value(number, bytes)), Op::Write { register: object, value: number })
            }
        };
        let written = match &value {
            Some(value) => open.txn.put(&tree.tree, &key, value),
            None => open.txn.delete(&tree.tree, &key),
        };
        if let Err(e) = written {
            return wrong(
                FailureKind::Answer,
                format!("a write of {} bytes: {e}", value.map_or(0, |v| v.len())),
            );
        }
        open.writes.insert((tree.serial, key), value);
        open.ops.extend((!tree.loaded).then_some(op));
        Ok(true)
    }

    /// Scans a part of a tree in a transaction. Returns false if it cannot continue.
    pub(super) fn scan(&mut self, open: &mut OpenTxn, seed: u64) -> Done<bool> {
        let mut r = Random::of_seed(seed);
        let Some(tree) = r.pick(&open.trees).cloned() else { return Ok(true) };
        let all = u64::from(self.scenario.keys);
        let from = r.below(all) as usize;
        let to = (from as u64 + r.skewed(1, SCAN_KEYS)).min(all) as usize;
        let mut keys: Vec<(Vec<u8>, u32)> = (from..to).map(|n| (self.keys[n].clone(), n as u32)).collect();
        keys.sort_unstable();
        let (low, high) = (keys[0].0.clone(), keys[keys.len() - 1].0.clone());
        let mut want = self.model.all(open.place, tree.serial);
        for ((_, key), value) in open.writes.iter().filter(|w| w.0.0 == tree.serial) {
            match value {
                Some(v) => want.insert(key, v),
                None => want.remove(&key[..]),
            };
        }
        let want: BTreeMap<Vec<u8>, Vec<u8>> =
            want.range(&low[..]..=&high[..]).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        let got = match collect(&open.txn, &tree, &low, &high) {
            Ok(got) => got,
            Err(e) => {
                self.machine.excused_read("a scan", open.began, &e)?;
                return Ok(false);
            }
        };
        if self.machine.is_cut() {
            return Ok(false);
        }
        let mut rows = got.iter().zip(&want);
        if got.len() != want.len() || rows.any(|(g, w)| (&g.0, &g.1) != w) {
            let what = format!(
                "{}, at commit {}: a scan answers {} rows, and should {}",
                tree.name,
                self.model.csn(open.place),
                got.len(),
                want.len()
            );
            return wrong(FailureKind::Isolation, what);
        }
        // The scan read the keys in its range that it did not return as missing.
        for n in self.keys.iter().filter(|k| **k >= low && **k <= high).map(|k| self.numbers[k]) {
            let value = want.get(&self.keys[n as usize]);
            open.ops.extend((!tree.loaded).then(|| note_read(&tree, n, value.map(|v| &v[..]))));
        }
        Ok(true)
    }

    /// Rolls back to a savepoint.
    pub(super) fn rollback_to(&mut self, open: &mut OpenTxn, which: u64) {
        if open.savepoints.is_empty() {
            return;
        }
        let at = (which % open.savepoints.len() as u64) as usize;
        let (savepoint, writes, ops) = open.savepoints[at].clone();
        open.savepoints.truncate(at + 1);
        open.txn.rollback_to(savepoint);
        open.writes = writes;
        // A history has no savepoints, so the operations after this one are removed.
        open.ops.truncate(ops);
        self.machine.met("savepoints gone back to");
    }

    /// Commits a transaction.
    pub(super) fn commit(&mut self, open: OpenTxn) -> Done {
        let (ending, txn) = self.ending(open, &BTreeSet::new());
        let result = txn.commit();
        let mut unknown = Writes::new();
        self.ended(ending, result, &mut unknown)?;
        self.may_have_committed(unknown);
        Ok(())
    }

    /// Commits transactions that began together as one group. Only transactions that conflict, or write to a dropped
    /// tree, are refused. The others take effect together or not at all.
    pub(super) fn together(&mut self, works: &[Work]) -> Done {
        let mut all = Vec::new();
        for session in SLOTS as u32 + 1..SLOTS as u32 + 1 + works.len() as u32 {
            let Some(open) = self.new_transaction()? else { continue };
            all.push(OpenTxn { session, ..open });
        }
        let (mut endings, mut txns, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (mut open, work) in all.into_iter().zip(works) {
            if !self.write(&mut open, work)? {
                self.abandon(open);
                continue;
            }
            let (ending, txn) = self.ending(open, &taken);
            if !ending.conflicts {
                taken.extend(ending.writes.keys().cloned());
            }
            endings.push(ending);
            txns.push(txn);
        }
        let results = self.database().commit_all(txns);
        let (mut unknown, mut failed) = (Writes::new(), 0);
        for (ending, result) in endings.into_iter().zip(results) {
            let expected = ending.conflicts || ending.dropped;
            failed += u64::from(result.is_err() && !expected);
            if !ending.writes.is_empty() && !expected {
                self.machine.met("transactions committed together");
            }
            self.ended(ending, result, &mut unknown)?;
        }
        self.machine.met_times("transactions committed together that failed", failed);
        self.may_have_committed(unknown);
        Ok(())
    }

    /// Records writes that took effect together or not at all. Which of the two is unknown.
    fn may_have_committed(&mut self, unknown: Writes) {
        if !unknown.is_empty() {
            self.model.may_commit(unknown);
        }
    }

    /// Collects the facts about a transaction before its commit. `taken` are the keys that earlier transactions of its
    /// group write.
    fn ending(&self, open: OpenTxn, taken: &BTreeSet<Key>) -> (Ending, Transaction) {
        let OpenTxn { session, txn, durability, place, writes, ops, invoked, .. } = open;
        let conflicts = self.model.conflicts(place, &writes) || writes.keys().any(|k| taken.contains(k));
        let gone = |serial: &u32| !self.trees.iter().any(|t| t.serial == *serial);
        let dropped = writes.keys().any(|k| gone(&k.0));
        (Ending { session, durability, place, writes, ops, invoked, conflicts, dropped }, txn)
    }

    /// Checks the answer to a commit. Writes that may have taken effect are added to `unknown`.
    fn ended(&mut self, ending: Ending, result: Result<Csn, EngineError>, unknown: &mut Writes) -> Done {
        let Ending { session, durability, place, writes, ops, invoked, conflicts, dropped } = ending;
        self.machine.crowd.leave();
        let snapshot = self.model.csn(place);
        let bytes: usize = writes.iter().map(|(k, v)| k.1.len() + v.as_ref().map_or(0, Vec::len)).sum();
        let drive = &self.scenario.drive;
        // With very long keys, each key splits nodes up to the root, and the redo log holds the images of all split
        // nodes.
        let images = writes.len() << 14;
        let large = bytes.max(images / 8) as u64 > drive.batch_bytes_max / 8
            || writes.len() > drive.batch_pages_max as usize / 8;
        let several = writes.keys().any(|k| k.0 != writes.keys().next().map_or(0, |f| f.0));
        let cut = self.machine.is_cut();
        let (outcome, csn) = match result {
            _ if cut && !writes.is_empty() => {
                if !conflicts && !dropped {
                    unknown.extend(writes);
                }
                (Outcome::Unknown, None)
            }
            Ok(csn) if writes.is_empty() => {
                if csn.raw() != snapshot && !cut {
                    return wrong(
                        FailureKind::Answer,
                        format!("a commit without writes is {csn}, at {snapshot}"),
                    );
                }
                (Outcome::Committed, None)
            }
            Ok(csn) => {
                if conflicts || dropped {
                    let why = if conflicts { "another one was first" } else { "its tree is gone" };
                    return wrong(FailureKind::Isolation, format!("commit {csn} was accepted, and {why}"));
                }
                if csn.raw() <= self.model.newest_csn() {
                    let newest = self.model.newest_csn();
                    return wrong(FailureKind::Answer, format!("commit {csn} comes after commit {newest}"));
                }
                self.model.commit(csn.raw(), &writes);
                if durability == Durability::Commit {
                    self.model.is_durable();
                }
                self.machine.met("commits");
                self.machine.met_times("transactions over several trees", several.into());
                (Outcome::Committed, Some(csn.raw()))
            }
            Err(EngineError::Conflict { .. }) if conflicts => {
                self.machine.met("conflicts");
                (Outcome::Aborted, None)
            }
            Err(EngineError::NoSuchTree(_)) if dropped => (Outcome::Aborted, None),
            Err(EngineError::TransactionTooLarge { .. }) if large => {
                self.machine.met("commits that were too large");
                (Outcome::Aborted, None)
            }
            Err(e) => {
                if self.machine.excused("a commit", &e)? {
                    self.machine.met("commits that a fault failed");
                    unknown.extend(writes);
                    (Outcome::Unknown, None)
                } else {
                    self.machine.met("commits refused on a full drive");
                    (Outcome::Aborted, None)
                }
            }
        };
        self.note((session, invoked), snapshot, ops, outcome, csn);
        Ok(())
    }

    /// Adds an ended transaction to the history.
    pub(super) fn note(
        &mut self,
        (session, invoked): (u32, u64),
        snapshot: u64,
        ops: Vec<Op>,
        outcome: Outcome,
        csn: Option<u64>,
    ) {
        self.clock += 1;
        let returned = (outcome == Outcome::Committed).then_some(self.clock);
        self.history.transactions.push(history::Transaction {
            session,
            ops,
            outcome,
            snapshot: Some(snapshot),
            commit: csn,
            invoked: Some(invoked),
            returned,
        });
    }
}

fn object(tree: &KnownTree, n: u32) -> u64 {
    u64::from(tree.serial) << 32 | u64::from(n)
}

fn note_read(tree: &KnownTree, n: u32, value: Option<&[u8]>) -> Op {
    let object = object(tree, n);
    match content::is_list(n) {
        true => Op::ReadList { list: object, values: value.map(content::numbers).unwrap_or_default() },
        false => Op::Read { register: object, value: value.and_then(content::number) },
    }
}

/// A transaction whose commit is under way.
struct Ending {
    session: u32,
    durability: Durability,
    place: Position,
    writes: Writes,
    ops: Vec<Op>,
    invoked: u64,
    /// Whether another transaction committed first.
    conflicts: bool,
    /// Whether a tree that it writes to was dropped.
    dropped: bool,
}

/// A key and its value.
type Row = (Vec<u8>, Vec<u8>);

fn collect(txn: &Transaction, tree: &KnownTree, low: &[u8], high: &[u8]) -> Result<Vec<Row>, EngineError> {
    let mut rows = txn.scan::<&[u8]>(&tree.tree, low..=high)?;
    let mut got = Vec::new();
    while let Some((key, value)) = rows.next()? {
        got.push((key.to_vec(), value.to_vec()));
    }
    Ok(got)
}
