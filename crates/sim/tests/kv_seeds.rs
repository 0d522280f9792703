//! Thousands of seeds of a database of trees on all cores. `LODE_SEEDS=20000` tries more of them; `LODE_SEED=7` tries that
//! one, and shows the shortest replay of its failure; `LODE_ONLY=3-5,9` takes those of its steps alone.

mod common;

use common::{SEEDS, many, number};
use lode_sim::KvScenario;

/// Seeds of a soak.
const SOAK_SEEDS: u64 = 50_000;

#[test]
fn no_seed_fails() {
    common::no_seed_fails::<KvScenario>();
}

#[test]
#[ignore = "a soak: minutes"]
fn no_seed_of_many_fails() {
    many::<KvScenario>(SEEDS, number("LODE_SEEDS").unwrap_or(SOAK_SEEDS));
}
