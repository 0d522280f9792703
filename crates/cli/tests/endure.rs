//! An hour of updates in seconds: what was acknowledged survives kills, the drive programs no more than its cap, an old snapshot
//! answers the same through a hundred merges, and a long transaction commits.

mod common;

use common::{Dir, succeed};
use serde_json::Value;

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn named<'a>(rows: &'a [Value], name: &str) -> Vec<&'a Value> {
    rows.iter().filter(|r| r["row"] == name).collect()
}

#[test]
fn updates_survive_kills_and_stay_below_the_cap() {
    let dir = Dir::new();
    let (of, out) = (dir.path().to_str().unwrap(), dir.file("endured"));
    let told =
        rows(&succeed(["bench", "endure", "--quick", "--json", "--fill", "50", "--dir", of, "--out", &out]));
    let (opened, samples) = (named(&told, "opened"), named(&told, "sample"));
    // Two lives that are killed, and the open that checks.
    assert_eq!(opened.len(), 3, "{told:?}");
    assert_eq!(opened[0]["totals"]["updates"], 0);
    let updates = |row: &Value| row["totals"]["updates"].as_u64().unwrap();
    assert!(0 < updates(opened[1]) && updates(opened[1]) < updates(opened[2]), "{opened:?}");
    assert!(samples.len() > 4, "{told:?}");
    for s in &samples {
        let (p50, p99) = (s["p50_us"].as_f64().unwrap(), s["p99_us"].as_f64().unwrap());
        assert!(s["commits"].as_u64().unwrap() > 0 && 0.0 < p50 && p50 <= p99, "{s}");
    }
    let total = told.last().unwrap();
    assert!(total["row"] == "total" && total["kills"] == 2, "{total}");
    let number = |name: &str| total[name].as_f64().unwrap();
    assert!(1.0 < number("write_amplification"), "{total}");
    let written = |name: &str| total["written"][name].as_u64().unwrap();
    assert!(0 < written("log") && written("log") <= written("all"), "{total}");
    assert!(number("write_amplification") <= number("cap_amplification"), "{total}");
    assert!(0.0 < number("delta_ratio") && number("delta_ratio") <= 1.0, "{total}");
    let results = std::fs::read_to_string(dir.join("endured/results.jsonl")).unwrap();
    assert_eq!(rows(&results), told);
    let plots = std::fs::read_dir(dir.join("endured")).unwrap().count();
    // Seven plots and the rows.
    assert_eq!(plots, 7 + 1);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the drive goes away");
}

#[test]
fn an_old_snapshot_and_a_long_transaction_last() {
    let dir = Dir::new();
    let of = dir.path().to_str().unwrap();
    let told = rows(&succeed([
        "bench",
        "endure",
        "--quick",
        "--json",
        "--dir",
        of,
        "--old-snapshot",
        "--long-transaction",
        "1",
    ]));
    let total = told.last().unwrap();
    assert!(total["checks"].as_u64().unwrap() >= 100, "{total}");
    let long = &total["long"]["long"];
    assert!(long["failure"].is_null() && long["writes"].as_u64().unwrap() >= 4, "{total}");
    assert!(total["long"]["rate_with"].as_f64().unwrap() > 0.0, "{total}");
    // What the long transaction wrote was there after each kill.
    let opened = named(&told, "opened");
    assert_eq!(opened[1]["totals"]["own_updates"], long["writes"], "{told:?}");
}
