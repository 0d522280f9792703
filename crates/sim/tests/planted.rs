//! Faults planted in the firmware, one after the other: the simulation finds each within its budget of seeds, and finds
//! nothing there without it. `cargo test -p lode-sim --features planted --test planted -- --nocapture` prints the table;
//! `LODE_PLANTED=MoveForgets` plants that one, and shows the shortest replay; `LODE_SEEDS` tries more seeds, or fewer.

mod common;

use common::Planting;
use lode_firmware::{Planted, plant};
use lode_sim::Scenario;

#[test]
fn every_planted_fault_is_found() {
    Planting { all: Planted::ALL, plant }.every_fault_is_found::<Scenario>(61);
}
