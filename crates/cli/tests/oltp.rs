//! Workloads through SQL by the binary: quick runs tell their figures, leave no table behind, and remove their drives.

mod common;

use common::{Dir, fail, succeed};
use serde_json::Value;

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

#[test]
fn every_workload_of_oltp_tells_its_figures() {
    let dir = Dir::new();
    let of = dir.path().to_str().unwrap();
    let args =
        ["bench", "oltp", "--quick", "--json", "--dir", of, "--connections", "1,2", "--indexes", "0,1"];
    let rows = rows(&succeed(args));
    let count = |workload: &str| rows.iter().filter(|r| r["workload"] == workload).count();
    // Six kinds of statements, prepared and as text without indexes, on one and on two connections.
    assert_eq!((count("statements"), count("tpcb"), count("tpcc")), (6 * (2 + 1) * 2, 2 * 2, 2));
    for row in &rows {
        assert!(row["rate"].as_f64().is_some() && row["database"] == "Lode", "{row}");
        if row["workload"] != "tpcc" {
            assert!(row["operations"].as_u64().unwrap() > 0, "{row}");
        }
        assert_eq!(
            row["latencies"].as_array().unwrap().len(),
            row["kinds"].as_array().unwrap().len(),
            "{row}"
        );
    }
    let changes = rows.iter().find(|r| r["what"] == "UPDATE").unwrap();
    assert!(changes["payload_bytes_an_operation"].as_f64().unwrap() > 0.0, "{changes}");
    assert!(changes["write_amplification"].as_f64().unwrap() > 1.0, "{changes}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "drives go away");
}

#[test]
fn a_drive_that_is_named_keeps_its_own_tables_only() {
    let dir = Dir::new();
    let drive = dir.file("kept.lode");
    succeed(["sql", &drive, "-c", "CREATE TABLE mine (a INT)"]);
    let args =
        ["bench", "oltp", "--quick", "--workload", "tpcb", "--connections", "2", "--durability", "group(5)"];
    let out = common::lode().args(args).args(["--drive", &drive]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("All sums and conditions hold"), "{text} {}", String::from_utf8_lossy(&out.stderr));
    let tables = succeed(["sql", &drive, "--format", "csv", "-c", "SHOW TABLES"]);
    assert!(tables.contains("mine") && !tables.contains("pgbench"), "{tables}");
    // A table of the same name is in the way.
    succeed(["sql", &drive, "-c", "CREATE TABLE small_rows (a INT)"]);
    fail(["bench", "oltp", "--quick", "--workload", "statements", "--drive", &drive], 1, &["small_rows"]);
}

/// What a quick run tells that has these arguments, too, on a drive that is filled so many percent.
fn quick_ch<const N: usize>(dir: &str, fill: &str, others: [&str; N]) -> String {
    let args = ["bench", "ch", "--quick", "--json", "--terminals", "2", "--capacity", "256MiB"];
    let out = common::lode().args(args).args(["--dir", dir, "--fill", fill]).args(others).output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && stderr.is_empty(), "{}: {stderr}", out.status);
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn ch_asks_queries_beside_transactions() {
    let dir = Dir::new();
    let of = dir.path().to_str().unwrap();
    let rows = rows(&quick_ch(of, "20", []));
    let names: Vec<&str> = rows.iter().map(|r| r["row"].as_str().unwrap()).collect();
    assert_eq!(names, ["peak", "queries alone", "transactions", "transactions and queries", "total"]);
    let total = &rows[4];
    assert!(total["queries_an_hour"].as_f64().unwrap() > 0.0 && total["consistent"] == true, "{total}");
    assert!(rows[3]["analyst"]["queries"].as_u64().unwrap() > 0, "{}", rows[3]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "drives go away");
}

#[test]
fn ch_on_a_modelled_device_tells_the_same_digits_in_every_run() {
    let dir = Dir::new();
    let (profile, of) = (dir.file("small.toml"), dir.path().to_str().unwrap());
    let shipped = include_str!("../../../profiles/isp-adms11.toml");
    let text = shipped
        .replace("eblock_bytes = 8388608 ", "eblock_bytes = 1048576 ")
        .replace("eblock_count = 1024 ", "eblock_count = 256 ");
    std::fs::write(&profile, text).unwrap();
    let run = |seed| quick_ch(of, "30", ["--seed", seed, "--profile", &profile]);
    let text = run("1");
    assert_eq!(text, run("1"), "the same seed gives the same digits");
    let rows = rows(&text);
    let names: Vec<&str> = rows.iter().map(|r| r["row"].as_str().unwrap()).collect();
    let expected =
        ["queries alone", "transactions", "transactions and queries", "transactions again", "total"];
    assert_eq!(names, expected);
    let of = |row: usize, part: &str, what: &str| rows[row][part][what].as_f64().unwrap();
    assert!((1..=3).all(|row| of(row, "transactions", "rate") > 0.0), "{text}");
    // The run of both is as long as that of the queries alone, or longer, since they share the device.
    assert_eq!(of(0, "analyst", "queries"), 22.0, "{text}");
    assert!(of(2, "analyst", "queries") >= 22.0 && rows[2]["analyst"]["violations"] == 0, "{text}");
    assert!(of(2, "analyst", "seconds") >= of(0, "analyst", "seconds"), "{text}");
    let total = &rows[4];
    let number = |what: &str| total[what].as_f64().unwrap();
    assert!(
        (number("kept") - number("beside") / number("alone")).abs() < 1e-9 && number("used") > 0.29,
        "{total}"
    );
    assert!(total["consistent"] == true && number("queries_an_hour") > 0.0, "{total}");
    fail(["bench", "ch", "--profile", &profile, "--drive", "a.lode"], 2, &["--profile", "--drive"]);
    fail(["bench", "ch", "--profile", &profile, "--rate", "5"], 2, &["--rate", "--profile"]);
}

#[test]
fn age_tells_its_checkpoints_and_writes_tables_and_answers() {
    let dir = Dir::new();
    let (drive, out) = (dir.file("aged.lode"), dir.file("aged"));
    let args =
        ["bench", "age", "--scale", "0.01", "--rounds", "2", "--json", "--drive", &drive, "--out", &out];
    let told = rows(&succeed(args));
    let checkpoints: Vec<_> = told.iter().filter(|r| r["row"] == "checkpoint").collect();
    assert_eq!(checkpoints.iter().map(|r| r["round"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    for row in &checkpoints {
        assert_eq!(row["orders"].as_u64().unwrap(), 15_000, "{row}");
        assert!(row["is_at_rest"].as_bool().unwrap() && row["after"]["delta_rows"] == 0, "{row}");
        assert!(row["after"]["disk_bytes"].as_u64().unwrap() > 0, "{row}");
    }
    let total = told.last().unwrap();
    assert!(total["row"] == "total" && total["queries"].as_f64().unwrap() > 0.0, "{total}");
    let results = std::fs::read_to_string(dir.join("aged/results.jsonl")).unwrap();
    assert_eq!(rows(&results), told);
    let files = |of: &str| std::fs::read_dir(dir.join(of)).unwrap().count();
    assert_eq!((files("aged"), files("aged/answers")), (8 + 2, 22));
    succeed(["drive", "check", &drive]);
    fail(["bench", "age", "--scale", "0.01", "--rounds", "1", "--drive", &drive], 1, &["aged.lode"]);
}
