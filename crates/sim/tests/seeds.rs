//! Runs thousands of seeds on all cores. `LODE_SEEDS=20000` runs more. `LODE_SEED=7` runs only that seed and prints
//! the shortest replay of its failure; `LODE_ONLY=3-5,9` runs only those steps.

mod common;

use lode_sim::Scenario;

#[test]
fn no_seed_fails() {
    common::no_seed_fails::<Scenario>();
}
