//! Loads of trees. A loaded tree is visible as a whole or not at all.

use lode_engine::{EngineError, Tree};

use super::{Done, Doubt, World};
use crate::failure::{FailureKind, wrong};
use crate::kv::content;
use crate::kv::scenario::TREES;
use crate::random::Random;

/// One load in this many is abandoned before its end.
const GIVEN_UP: u64 = 5;

impl World<'_> {
    pub(super) fn load_tree(&mut self, n: u32, seed: u64, keys: u32, value_bytes_max: u32) -> Done {
        let name = format!("tree {}", n % TREES);
        let there = self.trees.iter().any(|t| t.name == name);
        let mut r = Random::of_seed(seed);
        let mut entries = Vec::new();
        for _ in 0..keys {
            let key = r.below(self.scenario.keys.into()) as u32;
            // A list begins empty.
            if !content::is_list(key) {
                let bytes = r.skewed(8, u64::from(value_bytes_max).max(9)) as u32;
                self.clock += 1;
                entries.push((self.keys[key as usize].clone(), content::value(self.clock, bytes)));
            }
        }
        entries.sort_unstable();
        entries.dedup_by(|b, a| a.0 == b.0);
        let given_up = r.once_in(GIVEN_UP);
        let loaded = self.load(&name, &entries, given_up);
        if self.machine.is_cut() {
            self.machine.met("power cuts within a load");
            if !there && !given_up {
                self.doubtful = Some(Doubt::Loaded(name, entries));
            }
            return Ok(());
        }
        match loaded {
            Ok(None) => self.machine.met("loads given up"),
            Ok(Some(_)) if there => {
                return wrong(FailureKind::Answer, format!("{name} was loaded over another"));
            }
            Ok(Some(tree)) => {
                let serial = self.has_tree(name, tree, true);
                self.model.load(serial, entries);
                self.machine.met("trees loaded");
            }
            Err(EngineError::TreeExists(_)) if there => {}
            Err(e) => {
                if self.machine.excused("a load", &e)? {
                    self.doubtful = Some(Doubt::Loaded(name, entries));
                }
            }
        }
        Ok(())
    }

    /// Loads a tree. Returns `None` if the load is abandoned at the end.
    fn load(
        &self,
        name: &str,
        entries: &[(Vec<u8>, Vec<u8>)],
        given_up: bool,
    ) -> Result<Option<Tree>, EngineError> {
        let mut load = self.database().load_tree(name)?;
        load.extend(entries.iter().map(|(k, v)| (k, v)))?;
        if given_up { Ok(None) } else { load.finish().map(Some) }
    }
}
