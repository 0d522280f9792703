//! `lode bench micro`: the keys of a profile's host, measured.

mod common;

use common::succeed;
use serde_json::Value;

const KEYS: [&str; 11] = [
    "command_ns",
    "scan_ns",
    "filter_ns",
    "project_ns",
    "aggregate_ns",
    "join_ns",
    "sort_ns",
    "other_ns",
    "node_ns",
    "entry_ns",
    "place_ns",
];

#[test]
fn json_has_each_key_and_its_rounds() {
    let text = succeed(["bench", "micro", "--quick", "--json"]);
    assert_eq!(text.lines().count(), 1);
    let row: Value = serde_json::from_str(&text).unwrap();
    assert!(row["workload"] == "micro" && !row["machine"].as_str().unwrap().is_empty(), "{row}");
    assert_eq!(row["optimised"], !cfg!(debug_assertions));
    assert_eq!(row["costs"].as_array().unwrap().len(), KEYS.len());
    for (key, cost) in KEYS.iter().zip(row["costs"].as_array().unwrap()) {
        let ns = row[key].as_f64().unwrap();
        // The time to hand a batch on may be too short to measure.
        assert!(ns < 1e6 && (ns > 0.0 || *key == "other_ns"), "{key}: {ns}");
        assert!(cost["key"] == *key && cost["ns"] == row[key], "{cost}");
        assert!(cost["ns_min"].as_f64() <= Some(ns) && Some(ns) <= cost["ns_max"].as_f64(), "{cost}");
        assert!(cost["rows"].as_u64().unwrap() >= 1000, "{cost}");
    }
}

#[test]
fn the_table_can_be_put_into_a_profile() {
    let text = succeed(["bench", "micro", "--quick"]);
    let table = text.split_once("\n[host]\n").unwrap().1;
    let mut keys = Vec::new();
    for line in table.lines() {
        let (pair, source) = line.split_once(" # lode bench micro, ").unwrap_or_else(|| panic!("{line}"));
        let (key, value) = pair.split_once(" = ").unwrap();
        assert!(value.trim().parse::<f64>().is_ok_and(|v| v >= 0.0) && !source.is_empty(), "{line}");
        keys.push(key.to_string());
    }
    assert_eq!(keys, KEYS);
    assert!(text.lines().take_while(|l| !l.starts_with('[')).all(|l| l.is_empty() || l.starts_with('#')));
}
