//! Each command's help describes what it does and each option, and has an example that runs.

mod common;

use common::{fail, run, succeed};

const COMMANDS: [&[&str]; 32] = [
    &[],
    &["demo"],
    &["sql"],
    &["load"],
    &["load", "tpch"],
    &["load", "csv"],
    &["load", "parquet"],
    &["drive"],
    &["drive", "format"],
    &["drive", "info"],
    &["drive", "check"],
    &["drive", "scrub"],
    &["drive", "serve"],
    &["drive", "replay"],
    &["bench"],
    &["bench", "tpch"],
    &["bench", "age"],
    &["bench", "oltp"],
    &["bench", "ch"],
    &["bench", "endure"],
    &["bench", "tpcc"],
    &["bench", "ycsb"],
    &["bench", "kv"],
    &["bench", "memory"],
    &["bench", "gc"],
    &["bench", "micro"],
    &["bench", "raw"],
    &["paper"],
    &["paper", "isp"],
    &["paper", "eleos"],
    &["paper", "all"],
    &["sim"],
];

fn help(command: &[&str]) -> String {
    let out = common::lode().args(command).arg("--help").output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{command:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn each_help_describes_and_shows_an_example() {
    for command in COMMANDS {
        let text = help(command);
        assert!(text.contains("Usage: lode"), "{command:?}: {text}");
        let examples = text.split_once("EXAMPLES").unwrap_or_else(|| panic!("{command:?} has no example")).1;
        let line = format!("lode {}", command.join(" "));
        assert!(examples.contains(line.trim()), "{command:?}: no example of itself: {examples}");
        let first = text.lines().next().unwrap();
        assert!(first.len() > 15 && !first.starts_with("Usage"), "{command:?} does not say what it does");
    }
}

#[test]
fn every_option_of_an_example_exists() {
    for command in COMMANDS {
        let text = help(command);
        let examples = text.split_once("EXAMPLES").unwrap().1;
        for line in examples.lines().map(str::trim).filter(|l| l.starts_with("lode ")) {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            let depth = COMMANDS.iter().filter(|c| words.starts_with(c)).map(|c| c.len()).max().unwrap();
            let its_help = help(&words[..depth]);
            for option in words.iter().filter(|w| w.starts_with("--")) {
                assert!(its_help.contains(option), "{line}: {option} is not in its help");
            }
        }
    }
}

#[test]
fn a_bad_command_line_is_one_line() {
    fail([], 2, &["demo, sql, load, drive, bench, paper, sim"]);
    fail(["load"], 2, &["'lode load' needs a command: tpch, csv, parquet"]);
    fail(["drive"], 2, &["format, info, check, scrub, serve, replay"]);
    fail(["fly"], 2, &["fly"]);
    fail(["sql"], 2, &["<FILE>"]);
    fail(["load", "csv", "--drive", "x.lode"], 2, &["--table"]);
    fail(["demo", "--scael", "1"], 2, &["--scael"]);
    fail(["sql", "x.lode", "--format", "xml"], 2, &["xml"]);
    fail(
        ["sql", "x.lode", "--offload", "most"],
        2,
        &["off, index, matches, hints, pages, rows, aggregate, auto"],
    );
    fail(["demo", "--memory", "lots"], 2, &["512MB"]);
    fail(["demo", "--partitions", "0"], 2, &["0"]);
    fail(["drive", "replay"], 2, &["<TRACE>"]);
    fail(["drive", "replay", "--fill", "101", "t"], 2, &["101", "0..=100"]);
    fail(["drive", "replay", "--overwrite", "1", "t"], 2, &["--fill"]);
    fail(["drive", "replay", "--overwrite", "-1", "--fill", "5", "t"], 2, &["from 0 to 1000"]);
    fail(["drive", "replay", "--depth", "0", "t"], 2, &["--depth"]);
    fail(["drive", "replay", "--depth", "2", "--scale", "2", "t"], 2, &["--scale", "--depth"]);
    fail(["drive", "replay", "--scale", "1e3", "t"], 2, &["0.5"]);
    fail(["drive", "replay", "--gc", "best", "t"], 2, &["min-cost-decline, greedy, oldest, cost-benefit"]);
    fail(["drive", "replay", "--format", "xls", "t"], 2, &["lode, iolog, msr, blkparse"]);
    fail(["drive", "replay", "--action", "Z", "t"], 2, &["Q, I, D and C"]);
    fail(["drive", "replay", "--limit", "0", "t"], 2, &["--limit"]);
    fail(["drive", "replay", "--reads", "50", "t"], 2, &["--reads", "TRACE"]);
    fail(["drive", "replay", "--synthetic", "uniform", "t"], 2, &["--synthetic", "TRACE"]);
    fail(["drive", "replay", "--synthetic", "zipf:0"], 2, &["above 0 and at most 10"]);
    fail(["drive", "replay", "--synthetic", "normal"], 2, &["sequential, uniform, zipf"]);
    fail(["drive", "replay", "--capacity", "-1", "t"], 2, &["512MB"]);
    fail(["bench", "tpcc", "--check-only"], 2, &["--drive"]);
    fail(["bench", "tpcc", "--warehouses", "0"], 2, &["--warehouses"]);
    fail(["bench", "kv", "--cases", "AQ"], 2, &["--cases", "letters from A to E"]);
    let dir = std::env::temp_dir();
    let dir = dir.to_str().expect("a path of letters");
    fail(["bench", "kv", "--cases", "BE", "--space", "fresh", "--dir", dir], 1, &["only page batches (A)"]);
    fail(["bench", "age", "--rounds", "3001"], 2, &["3001", "1..=3000"]);
    fail(["bench", "age", "--scale", "0.0001"], 2, &["fewer than 1000 orders"]);
    fail(["bench", "oltp", "--workload", "tpch"], 2, &["statements, tpcb, tpcc, all"]);
    fail(["bench", "oltp", "--indexes", "5"], 2, &["5", "0..=4"]);
    fail(["bench", "oltp", "--durability", "soon"], 2, &["commit, group(MS) or none"]);
    fail(["bench", "ch", "--fill", "60"], 2, &["--capacity"]);
    fail(["bench", "ch", "--rate", "0"], 2, &["from 0.01 to 10000000"]);
    fail(["bench", "endure", "--table", "70", "--fill", "60"], 2, &["--table 70", "--fill 60"]);
    fail(["bench", "endure", "--table", "20", "--old-snapshot"], 2, &["--fill 80", "--table 20", "95"]);
    fail(["bench", "endure", "--minutes", "10", "--long-transaction", "6"], 2, &["--long-transaction"]);
    fail(["bench", "endure", "--minutes", "0"], 2, &["from 0.001 to 10080"]);
    fail(["bench", "ycsb", "--mixes", "AG"], 2, &["letters from A to F"]);
    fail(["bench", "ycsb", "--distribution", "normal"], 2, &["uniform, zipfian or latest"]);
    fail(["bench", "kv", "--space", "new"], 2, &["recycled, fresh, both"]);
    fail(["bench", "memory", "--seconds", "-1"], 2, &["from 0 to 86400"]);
    fail(["paper"], 2, &["'lode paper' needs a command: isp"]);
    fail(["paper", "isp", "--figure", "fig9"], 2, &["fig5, fig6, fig7, table3, table4, table5"]);
    fail(["sim", "--seed", "1", "--faults", "power-cut,rust"], 2, &["rust"]);
    fail(["sim", "--trees", "--seed", "1", "--faults", "flip-data"], 2, &["flip-data", "--list-faults"]);
    fail(["sim", "--seed", "1", "--only", "3-x"], 2, &["3-x"]);
    fail(["sim", "--seed", "1", "--minutes", "2"], 2, &["--minutes"]);
}

#[test]
fn scales_that_make_no_sense_are_a_bad_command_line() {
    for scale in ["0", "-1", "nan", "1e9", "big", ""] {
        for command in
            [&["demo"][..], &["load", "tpch", "--drive", "never.lode"], &["bench", "tpch"], &["bench", "age"]]
        {
            let args = command.iter().copied().chain(["--scale", scale]);
            let out = common::lode().args(args).output().unwrap();
            let line = common::one_line(&out, 2);
            assert!(line.contains("scale"), "{line}");
        }
    }
    assert!(!std::path::Path::new("never.lode").exists());
}

#[test]
fn the_version_is_the_package_s() {
    assert_eq!(succeed(["--version"]).trim(), concat!("lode ", env!("CARGO_PKG_VERSION")));
    assert!(run(["help", "sql"]).status.success());
}
