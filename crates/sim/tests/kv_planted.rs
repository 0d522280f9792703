//! Faults planted in the engine's trees, as in `planted.rs` for the firmware. The simulation of trees finds each.
//! `cargo test -p lode-sim --features planted --test kv_planted -- --nocapture` prints the table.

mod common;

use common::Planting;
use lode_engine::{Planted, plant};
use lode_sim::KvScenario;

#[test]
fn every_planted_fault_is_found() {
    Planting { all: Planted::ALL, plant, elsewhere: &[] }.every_fault_is_found::<KvScenario>(33);
}
