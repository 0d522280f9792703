//! Runs seeds of the simulation of tables with deltas on all cores. `LODE_SEEDS=20000` runs more. `LODE_SEED=7` runs only
//! that seed and prints the shortest replay of its failure; `LODE_ONLY=3-5,9` runs only those steps.

mod common;

use common::{many, number};
use lode_sim::TablesScenario;

/// The number of seeds in an ordinary run.
const SEEDS: u64 = 800;
/// The number of seeds in a soak.
const SOAK_SEEDS: u64 = 50_000;

#[test]
fn no_seed_fails() {
    common::no_seed_of_fails::<TablesScenario>(SEEDS);
}

#[test]
#[ignore = "a soak: minutes"]
fn no_seed_of_many_fails() {
    many::<TablesScenario>(SEEDS, number("LODE_SEEDS").unwrap_or(SOAK_SEEDS));
}
