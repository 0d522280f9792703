//! Thousands of seeds on all cores. `LODE_SEEDS=20000` tries more of them; `LODE_SEED=7` tries that one, and shows the
//! shortest replay of its failure; `LODE_ONLY=3-5,9` takes those of its steps alone.

mod common;

use lode_sim::Scenario;

#[test]
fn no_seed_fails() {
    common::no_seed_fails::<Scenario>();
}
