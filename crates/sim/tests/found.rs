//! Regression tests of all failures that the simulation found: the recorded steps of each shortest replay must pass.
//!
//! ```text
//!   tests/found/drive/*.txt, tests/found/trees/*.txt, tests/found/tables/*.txt     a line on what went wrong, the scenario, the steps
//! ```
//!
//! A record contains its steps, so the generator may change. `lode sim --seed N --record FILE` makes a new record, and
//! `LODE_RECORD=FILE` does for the seed that `tables_seeds.rs` runs; its line about the failure is added by hand.

use std::path::{Path, PathBuf};

use lode_sim::{KvScenario, Record, Scenario, Simulated, TablesScenario};

/// Replays all records of a simulation. There must be at least `least`.
fn come_not_again<S: Simulated>(least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found").join(S::SIMULATION);
    let entries = std::fs::read_dir(&folder).expect("the folder of records is there");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("it can be listed").path()).collect();
    files.sort();
    assert!(files.len() >= least, "{} records are left in {}", files.len(), folder.display());
    for file in files {
        let name = file.display();
        let text = std::fs::read_to_string(&file).expect("the record can be read");
        let record = Record::<S>::from_text(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!record.about.is_empty(), "{name} does not say what went wrong");
        assert_eq!(record.to_text(), text, "{name} changes when it is parsed and written again");
        if let Some(failure) = record.run().failure {
            panic!("{}: {failure}\n{name}", record.about);
        }
    }
}

#[test]
fn what_was_found_does_not_come_again() {
    come_not_again::<Scenario>(25);
}

#[test]
fn what_was_found_of_trees_does_not_come_again() {
    come_not_again::<KvScenario>(2);
}

#[test]
fn what_was_found_of_tables_does_not_come_again() {
    come_not_again::<TablesScenario>(1);
}
