//! Power cuts and closing, and the checks after the database is opened again.

use std::collections::BTreeMap;

use super::{Done, Doubt, KnownTree, World};
use crate::failure::{FailureKind, wrong};
use crate::kv::model::{Position, Settled};
use crate::step::Cut;

impl World<'_> {
    /// Cuts the power, if it is not cut already, and reopens. `cut` may cut the power again during recoveries.
    pub(super) fn reopen(&mut self, cut: &Cut) -> Done {
        if !self.machine.is_cut() {
            self.machine.faults.cut();
        }
        self.machine.met("reopens after a power cut");
        self.reopen_after(cut)
    }

    fn reopen_after(&mut self, cut: &Cut) -> Done {
        // The reads of open transactions must have been right, so they join the history.
        for slot in 0..self.open.len() {
            if let Some(open) = self.open[slot].take() {
                self.abandon(open);
            }
        }
        self.check_history()?;
        self.count();
        let old: BTreeMap<String, KnownTree> =
            self.trees.iter().map(|t| (t.name.clone(), t.clone())).collect();
        self.machine.reopen(cut)?;
        self.recovered(old)
    }

    /// Checks that all durable commits are there, and a prefix of the later ones, with the right contents.
    fn recovered(&mut self, old: BTreeMap<String, KnownTree>) -> Done {
        self.database().set_durability(self.durability);
        let stats = self.database().tree_stats();
        self.machine.met(match stats.dirty_bytes {
            0 => "reopens without redo",
            _ => "reopens with redo to replay",
        });
        self.trees_are_there(old)?;
        let csn = match self.database().snapshot() {
            Ok(snapshot) => snapshot.csn().raw(),
            Err(e) => return wrong(FailureKind::Answer, format!("a snapshot after opening: {e}")),
        };
        let (place, durable) = (self.model.place(), self.model.durable());
        match self.model.settle(csn) {
            Err(what) => return wrong(FailureKind::Lost, what),
            Ok(Settled::At(at)) => {
                self.machine.met_times("relaxed commits that were lost", (place - at) as u64);
                self.machine.met_times("relaxed commits that were kept", (at - durable) as u64);
                if self.model.has_unknown() {
                    self.machine.met("power cuts with a commit under way that did not");
                }
                self.forget_after(at);
            }
            Ok(Settled::Unknown(which)) => {
                self.machine.met("power cuts with a commit under way that took effect");
                self.model.turned_out(which, csn);
            }
        }
        self.compare_all()?;
        self.machine.checks_itself()?;
        if self.machine.drive.info().read_only.is_some() {
            self.over = true;
            return self.machine.excused_halt();
        }
        Ok(())
    }

    /// Forgets everything after a commit, including the transactions that saw it.
    fn forget_after(&mut self, place: Position) {
        let csn = self.model.csn(place);
        let lost = |n: Option<u64>| n.is_some_and(|n| n > csn);
        self.history.transactions.retain(|t| !lost(t.snapshot) && !lost(t.commit));
        self.model.cut(place);
    }

    /// Checks that exactly the expected trees exist.
    fn trees_are_there(&mut self, old: BTreeMap<String, KnownTree>) -> Done {
        let doubt = self.doubtful.take();
        let mut trees = Vec::new();
        for n in 0..crate::kv::scenario::TREES {
            let name = format!("tree {n}");
            let known = old.get(&name);
            match (self.database().tree(&name), known, &doubt) {
                (Some(tree), Some(known), _) => trees.push(KnownTree { tree, ..known.clone() }),
                (Some(tree), None, Some(Doubt::Created(created))) if *created == name => {
                    let serial = self.next_serial;
                    self.next_serial += 1;
                    trees.push(KnownTree { serial, name, tree, loaded: false });
                }
                (Some(tree), None, Some(Doubt::Loaded(loaded, entries))) if *loaded == name => {
                    let serial = self.next_serial;
                    self.next_serial += 1;
                    self.model.load(serial, entries.clone());
                    trees.push(KnownTree { serial, name, tree, loaded: true });
                }
                (None, Some(_), Some(Doubt::Dropped(dropped))) if *dropped == name => {}
                (None, None, _) => {}
                (Some(_), None, _) => {
                    return wrong(FailureKind::WrongBytes, format!("{name} exists again"));
                }
                (None, Some(_), _) => return wrong(FailureKind::Lost, format!("{name} is missing")),
            }
        }
        self.trees = trees;
        Ok(())
    }

    /// Closes the database and its drive in order and opens them again.
    pub(super) fn close(&mut self, cut: &Cut) -> Done {
        let flushed = self.database().flush();
        if !self.machine.is_cut() {
            match flushed {
                Ok(()) => self.model.is_durable(),
                Err(e) => drop(self.machine.excused("closing", &e)?),
            }
            for slot in 0..self.open.len() {
                if let Some(open) = self.open[slot].take() {
                    self.abandon(open);
                }
            }
            self.count();
            self.machine.close(true)?;
        }
        self.machine.met("reopens in order");
        self.machine.close(false)?;
        self.reopen_after(cut)
    }
}
