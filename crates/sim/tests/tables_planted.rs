//! Faults planted in tables with deltas that show only after a power cut or in an old snapshot, as in `planted.rs` for the
//! firmware. The simulation of tables finds each.
//! `cargo test -p lode-sim --features planted --test tables_planted -- --nocapture` prints the table.

mod common;

use common::Planting;
use lode_engine::{PlantedForCuts, plant_for_cuts};
use lode_sim::TablesScenario;

#[test]
fn every_planted_fault_is_found() {
    Planting { all: PlantedForCuts::ALL, plant: plant_for_cuts, elsewhere: &[] }
        .every_fault_is_found::<TablesScenario>(15);
}
