//! Executes each step and checks its answer.

use lode_base::VirtualTime;
use lode_command::{Budget, Device, Progress};
use lode_engine::{EngineError, KEY_BYTES_MAX, Tree};

use super::{Done, Doubt, KnownTree, OpenTxn, World};
use crate::failure::{FailureKind, wrong};
use crate::history::Outcome;
use crate::kv::model::Serial;
use crate::kv::scenario::TREES;
use crate::kv::step::Step;
use crate::machine::durability;
use crate::random::Random;

impl World<'_> {
    pub(super) fn act(&mut self, step: &Step) -> Done {
        match step {
            Step::Begin { slot } => self.begin(*slot),
            Step::Read { slot, seed, keys } => self.in_slot(*slot, true, |w, t| w.read(t, *seed, *keys)),
            Step::Write { slot, work } => self.in_slot(*slot, false, |w, t| w.write(t, work)),
            Step::Scan { slot, seed } => self.in_slot(*slot, true, |w, t| w.scan(t, *seed)),
            Step::Savepoint { slot } => self.in_slot(*slot, false, |_, t| {
                t.savepoints.push((t.txn.savepoint(), t.writes.clone(), t.ops.len()));
                Ok(true)
            }),
            Step::RollbackTo { slot, which } => self.in_slot(*slot, false, |w, t| {
                w.rollback_to(t, *which);
                Ok(true)
            }),
            Step::Commit { slot } => match self.open[*slot].take() {
                Some(open) => self.commit(open),
                None => Ok(()),
            },
            Step::Rollback { slot } => {
                if let Some(open) = self.open[*slot].take() {
                    self.abandon(open);
                }
                Ok(())
            }
            Step::Whole { work } => {
                let Some(mut open) = self.new_transaction()? else { return Ok(()) };
                match self.write(&mut open, work)? {
                    true => self.commit(open),
                    false => {
                        self.abandon(open);
                        Ok(())
                    }
                }
            }
            Step::Together { works } => self.together(works),
            Step::Refused { seed } => self.refused(*seed),
            Step::Sync => {
                if self.machine.sync()? {
                    self.model.is_durable();
                }
                Ok(())
            }
            Step::Flush => {
                self.flushes += 1;
                if self.machine.flush()? {
                    self.model.is_durable();
                }
                Ok(())
            }
            Step::Work { times, bytes, drive } => self.work(*times, *bytes, *drive),
            Step::SetDurability { mode } => {
                self.durability = durability(*mode);
                self.database().set_durability(self.durability);
                Ok(())
            }
            Step::CreateTree { tree } => self.create_tree(*tree),
            Step::Load { tree, seed, keys, value_bytes_max } => {
                self.load_tree(*tree, *seed, *keys, *value_bytes_max)
            }
            Step::DropTree { which } => self.drop_tree(*which),
            Step::Check => {
                self.compare_all()?;
                self.machine.checks_itself()
            }
            Step::Close { cut } => self.close(cut),
            Step::Crash(cut) => self.reopen(cut),
            Step::CutAfter { operations, cut } => {
                self.machine.cut_after(*operations, cut);
                Ok(())
            }
            Step::Arm { kind, after, seed } => {
                self.machine.faults.arm(*kind, *after, *seed);
                Ok(())
            }
            Step::Disarm => {
                self.machine.faults.disarm_all();
                Ok(())
            }
        }
    }

    /// Runs `f` with the transaction of a slot, or with a separate one if `alone`. A transaction that cannot continue
    /// is rolled back.
    fn in_slot(
        &mut self,
        slot: usize,
        alone: bool,
        act: impl FnOnce(&mut Self, &mut OpenTxn) -> Done<bool>,
    ) -> Done {
        let taken = self.open[slot].take();
        let own = taken.is_none();
        let open = match taken {
            Some(open) => Some(open),
            None if alone => self.new_transaction()?,
            None => None,
        };
        let Some(mut open) = open else { return Ok(()) };
        let goes_on = act(self, &mut open)?;
        match (goes_on, own) {
            (true, false) => self.open[slot] = Some(open),
            (true, true) => self.commit(open)?,
            (false, _) => self.abandon(open),
        }
        Ok(())
    }

    /// Rolls a transaction back.
    pub(super) fn abandon(&mut self, open: OpenTxn) {
        let snapshot = self.model.csn(open.place);
        open.txn.rollback();
        self.machine.crowd.leave();
        self.note((open.session, open.invoked), snapshot, open.ops, Outcome::Aborted, None);
    }

    fn work(&mut self, times: u32, bytes: u64, drive: bool) -> Done {
        for _ in 0..times {
            let progress = match drive {
                true => self.machine.drive.work(VirtualTime::ZERO, Budget { write_bytes: bytes }),
                false => {
                    self.flushes += 1;
                    self.database().work(bytes)
                }
            };
            if self.machine.is_cut() {
                self.machine.met("power cuts within background work");
                return Ok(());
            }
            if progress == Progress::Idle {
                break;
            }
        }
        Ok(())
    }

    fn create_tree(&mut self, n: u32) -> Done {
        let name = format!("tree {}", n % TREES);
        let there = self.trees.iter().any(|t| t.name == name);
        let result = self.database().create_tree(&name, false);
        if self.machine.is_cut() {
            if !there {
                self.machine.met("power cuts within the creation of a tree");
                self.doubtful = Some(Doubt::Created(name));
            }
            return Ok(());
        }
        match result {
            Ok(_) if there => wrong(FailureKind::Answer, format!("{name} was created twice")),
            Ok(tree) => {
                self.has_tree(name, tree, false);
                Ok(())
            }
            Err(EngineError::TreeExists(_)) if there => Ok(()),
            Err(e) => {
                if self.machine.excused("the creation of a tree", &e)? {
                    self.doubtful = Some(Doubt::Created(name));
                }
                Ok(())
            }
        }
    }

    /// Records a new tree and returns its number in the model.
    pub(super) fn has_tree(&mut self, name: String, tree: Tree, loaded: bool) -> Serial {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.trees.push(KnownTree { serial, name, tree, loaded });
        serial
    }

    fn drop_tree(&mut self, which: u64) -> Done {
        // One tree always remains, so that transactions have work.
        if self.trees.len() < 2 {
            return Ok(());
        }
        let at = (which % self.trees.len() as u64) as usize;
        let name = self.trees[at].name.clone();
        let result = self.database().drop_tree(&name, false);
        self.flushes += 1;
        if self.machine.is_cut() {
            self.machine.met("power cuts within the drop of a tree");
            self.doubtful = Some(Doubt::Dropped(name));
            return Ok(());
        }
        match result {
            Ok(true) => {
                self.trees.remove(at);
                self.model.is_durable();
                Ok(())
            }
            Ok(false) => {
                wrong(FailureKind::Answer, format!("{name} was there, and is said not to have been"))
            }
            Err(e) => {
                if self.machine.excused("the drop of a tree", &e)? {
                    self.doubtful = Some(Doubt::Dropped(name));
                }
                Ok(())
            }
        }
    }

    /// Runs an invalid command, which must be refused and change nothing.
    fn refused(&mut self, seed: u64) -> Done {
        let mut r = Random::of_seed(seed);
        let Some(mut open) = self.new_transaction()? else { return Ok(()) };
        let Some(tree) = r.pick(&open.trees).cloned() else {
            self.abandon(open);
            return Ok(());
        };
        let limit = self.scenario.drive.page_bytes_max as usize;
        let refused = match r.below(4) {
            0 => open.txn.put(&tree.tree, &vec![1; KEY_BYTES_MAX + 1], b"value").is_err(),
            1 => open.txn.put(&tree.tree, b"key", &vec![1; limit + 1]).is_err(),
            2 => open.txn.delete(&tree.tree, &vec![1; KEY_BYTES_MAX + 1]).is_err(),
            _ => {
                let twice = self.database().create_tree(&tree.name, false);
                let none = self.database().drop_tree("no tree", false);
                twice.is_err() && none.is_err()
            }
        };
        if !refused && !self.machine.is_cut() {
            return wrong(FailureKind::Answer, "an invalid command was not refused");
        }
        self.commit(open)
    }
}
