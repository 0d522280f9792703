//! `lode sim` through the binary: both simulations, one seed and many, as text and as JSON.

mod common;

use common::{lode, succeed};

/// The JSON object that a run writes.
fn json(args: &[&str]) -> serde_json::Value {
    let out = lode().args(args).arg("--json").output().expect("lode runs");
    assert!(out.status.success() && out.stderr.is_empty(), "{args:?}: {out:?}");
    serde_json::from_slice(&out.stdout).expect("one object")
}

#[test]
fn a_seed_runs_and_tells_what_it_was() {
    for simulation in [&["sim", "--seed", "3"][..], &["sim", "--trees", "--seed", "3"]] {
        let [first, second] = [(); 2].map(|()| json(simulation));
        assert_eq!(first, second, "the same seed does the same");
        assert!(first["seed"] == 3 && first["failure"].is_null(), "{first}");
        assert!(first["steps"].as_u64().unwrap() > 0, "{first}");
    }
    let text = succeed(["sim", "--trees", "--seed", "3", "--steps", "7"]);
    assert!(text.starts_with("seed 3: 7 steps, no failure\n"), "{text}");
    let drive = json(&["sim", "--seed", "3"]);
    assert_ne!(json(&["sim", "--trees", "--seed", "3"])["scenario"], drive["scenario"]);
    let text = succeed(["sim", "--trees", "--seed", "3", "--only", "0-4,6"]);
    assert!(text.starts_with("seed 3: 6 steps, no failure\n"), "{text}");
}

#[test]
fn a_search_over_trees_tells_what_it_met() {
    let found = json(&["sim", "--trees", "--seeds", "40", "--from", "100", "--jobs", "2"]);
    assert_eq!((&found["seeds"], &found["failures"]), (&40.into(), &serde_json::json!([])));
    for name in ["commits", "conflicts", "reopens after a power cut", "fault: power-cut"] {
        assert!(found["met"][name].as_u64().unwrap() > 0, "{name}: {found}");
    }
    let quiet = json(&["sim", "--trees", "--seeds", "5", "--faults", "none"]);
    assert_eq!(quiet["met"]["fault: power-cut"], 0, "{quiet}");
    let text = succeed(["sim", "--trees", "--seeds", "5"]);
    assert!(text.starts_with("5 seeds, no failure\n") && text.contains("commits"), "{text}");
    let minutes = json(&["sim", "--trees", "--minutes", "0.005"]);
    assert!(minutes["seeds"].as_u64().unwrap() > 0 && minutes["never_met"] == serde_json::json!([]));
}

#[test]
fn each_simulation_lists_its_faults() {
    let [trees, drives] = [&["sim", "--trees", "--list-faults"][..], &["sim", "--list-faults"]]
        .map(|args| json(args).as_array().unwrap().clone());
    assert_eq!((trees.len(), drives.len()), (10, 18));
    assert!(trees.iter().all(|fault| drives.contains(fault)));
}
