//! `lode drive replay`: each format, equal figures in a second run, and traces that cannot be replayed.

mod common;

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Dir, fail, lode, one_line, run, succeed};
use serde_json::Value;

/// The same six requests in each format with time stamps: a write, a read of it, a longer write, a read of a part of
/// it, and two more reads, each 1 ms after the one before.
const FORMATS: [(&str, &str); 4] = [
    (
        "msr",
        "128166372003061629,hm,0,Write,0,4096,413\n128166372003071629,hm,0,Read,0,4096,413\n\
         128166372003081629,hm,0,Write,65536,16384,1\n128166372003091629,hm,0,Read,65536,8192,1\n\
         128166372003101629,hm,0,Read,0,4096,0\n128166372003111629,hm,0,Read,0,4096,0\n",
    ),
    (
        "blkparse",
        "  8,0    3        1     0.000000000   697  Q   W 0 + 8 [kjournald]\n  \
         8,0    3        2     0.001000000   697  Q   R 0 + 8 [fio]\n  \
         8,0    3        3     0.002000000   697  Q  WS 128 + 32 [fio]\n  \
         8,0    3        4     0.002500000   697  C  WS 128 + 32 [0]\n  \
         8,0    3        5     0.003000000   697  Q   R 128 + 16 [fio]\n  \
         8,0    3        6     0.004000000   697  Q  RA 0 + 8 [fio]\n  \
         8,0    3        7     0.005000000   697  Q   R 0 + 8 [fio]\n\
         CPU3 (8,0):\n Reads Queued:           4,       20KiB\t Writes Queued:           2,       20KiB\n",
    ),
    (
        "iolog",
        "fio version 3 iolog\n0 /dev/sda add\n0 /dev/sda open\n0 /dev/sda write 0 4096\n1000 /dev/sda read 0 4096\n\
         2000 /dev/sda write 65536 16384\n3000 /dev/sda read 65536 8192\n4000 /dev/sda read 0 4096\n\
         5000 /dev/sda read 0 4096\n5001 /dev/sda close\n",
    ),
    (
        "lode",
        "lode trace 1\n0 write 0 4096\n1000000000 read 0 4096\n2000000000 write 65536 16384\n\
         3000000000 read 65536 8192\n4000000000 read 0 4096\n5000000000 read 0 4096\n",
    ),
];

/// Runs a replay on a small drive and returns its JSON object.
fn json(args: &[&str]) -> Value {
    json_of("512MB", args)
}

/// As [`json`], on a drive of this size.
fn json_of(capacity: &str, args: &[&str]) -> Value {
    let out = lode().args(["drive", "replay", "--capacity", capacity, "--json"]).args(args).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert!(out.status.success() && stderr.is_empty(), "{args:?}: {stderr}");
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

/// Checks that a replay fails with status 1, one line that contains `words`, and nothing on standard output.
#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    let out = lode().args(["drive", "replay", "--capacity", "512MB"]).args(args).output().unwrap();
    let line = one_line(&out, 1);
    assert!(out.stdout.is_empty(), "{:?}", out.stdout);
    for word in words {
        assert!(line.contains(word), "{word:?} is not in: {line}");
    }
}

#[test]
fn the_same_requests_give_the_same_figures_in_every_format() {
    let dir = Dir::new();
    let mut all = Vec::new();
    for (name, text) in FORMATS {
        let file = dir.file(name);
        fs::write(&file, text).unwrap();
        let mut got = json(&[&file]);
        assert_eq!((got["format"].take(), got["trace"].take()), (name.into(), file.clone().into()));
        assert_eq!((&got["pace"], &got["scale"]), (&"open".into(), &1.0.into()), "{name}");
        let named = json(&["--format", name, &file]);
        assert_eq!(named["all"], got["all"], "{name}");
        all.push(got);
    }
    let first = &all[0];
    assert_eq!(first["all"]["requests"], 6);
    assert_eq!((&first["reads"]["requests"], &first["writes"]["bytes"]), (&4.into(), &20480.into()));
    assert!(first["span_ps"].as_u64().unwrap() > 5_000_000_000);
    assert!(all.iter().all(|got| got == first), "{all:#?}");
}

#[test]
fn an_iolog_without_stamps_runs_in_a_closed_loop() {
    let dir = Dir::new();
    let file = dir.file("two.log");
    let text = "fio version 2 iolog\na add\na open\na write 0 4096\na wait 900000 0\na read 0 4096\na sync 0 0\n\
                a trim 0 4096\na close\n";
    fs::write(&file, text).unwrap();
    let got = json(&[&file]);
    assert_eq!((&got["pace"], &got["depth"]), (&"closed".into(), &32.into()));
    assert!(got["span_ps"].as_u64().unwrap() < 100_000_000_000);
    for kind in ["reads", "writes", "trims", "flushes"] {
        assert_eq!(got[kind]["requests"], 1, "{kind}");
    }
    let got = json(&["--scale", "0.5", &file]);
    assert_eq!((&got["pace"], &got["scale"]), (&"open".into(), &0.5.into()));
    assert!(got["span_ps"].as_u64().unwrap() > 450_000_000_000);
}

#[test]
fn the_report_has_every_figure_and_they_agree() {
    let args =
        ["--fill", "95", "--overwrite", "3", "--depth", "8", "--synthetic", "zipf:0.9", "--reads", "60"];
    let args = [&args[..], &["--requests", "3000", "--seed", "9", "--gc", "greedy"]].concat();
    let got = json(&args);
    assert_eq!(got, json(&args), "the same twice");
    for (key, expected) in [
        ("workload", Value::from("replay")),
        ("profile", "isp-adms11".into()),
        ("seed", 9.into()),
        ("gc_policy", "greedy".into()),
        ("fill_percent", 95.into()),
        ("overwrites", 3.0.into()),
        ("pace", "closed".into()),
        ("depth", 8.into()),
        ("trace", Value::Null),
    ] {
        assert_eq!(got[key], expected, "{key}");
    }
    let number = |v: &Value| v.as_f64().unwrap_or_else(|| panic!("{v} is no number"));
    let latency = &got["reads"]["latency"];
    let ladder = ["min_ps", "p50_ps", "p95_ps", "p99_ps", "p99_9_ps", "p99_99_ps", "max_ps"];
    assert!(ladder.windows(2).all(|w| number(&latency[w[0]]) <= number(&latency[w[1]])), "{latency}");
    assert!(number(&latency["mean_ps"]) > number(&latency["min_ps"]));
    assert_eq!(number(&got["all"]["requests"]), 3000.0);
    let parts = ["reads", "writes"].map(|k| number(&got[k]["iops"]));
    assert!((parts[0] + parts[1] - number(&got["all"]["iops"])).abs() < 1e-6);
    let law = &got["littles_law"];
    assert!((number(&law["in_flight"]) - number(&law["iops_times_latency"])).abs() < 1e-6, "{law}");
    let used = got["resources"].as_array().unwrap();
    assert!(used.len() >= 7 && used.iter().all(|u| (0.0..=1.0).contains(&number(&u["utilisation"]))));
    let device = &got["device"];
    assert!(number(&device["write_amplification"]) > 1.0 && number(&device["gc_share"]) > 0.0, "{device}");
    assert!(number(&device["erase_count_max"]) > number(&device["erase_count_min"]));
    let energy = device["energy_j"].as_object().unwrap();
    let sum: f64 = energy.values().map(number).sum();
    assert!((sum / number(&device["energy_j_total"]) - 1.0).abs() < 1e-12 && energy.len() >= 8, "{energy:?}");
    let other = json(&[&args[..args.len() - 3], &["10"], &args[args.len() - 2..]].concat());
    assert_ne!(other["all"], got["all"], "another seed");
}

#[test]
fn people_read_a_table() {
    let text = succeed([
        "drive",
        "replay",
        "--capacity",
        "512MB",
        "--synthetic",
        "uniform",
        "--requests",
        "500",
        "--rate",
        "1000",
        "--fill",
        "10",
    ]);
    let words = [
        "uniform, 50 % reads, 4 KiB each",
        "open loop",
        "filled to 10 %",
        "99.99 %",
        "Little's law",
        "write amplification",
        "erasures an EBLOCK",
        "J: array reads",
        "link to the host",
    ];
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.iter().all(|w| flat.contains(w)), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 110), "{text}");
    assert!(!text.contains("--fill"), "all that is read was written");
    let text =
        succeed(["drive", "replay", "--capacity", "512MB", "--synthetic", "sequential", "--reads", "100"]);
    assert!(text.contains("never written") && text.contains("nothing was written"), "{text}");
}

#[test]
fn a_trace_comes_from_standard_input_too() {
    let mut child = lode()
        .args(["drive", "replay", "--capacity", "512MB", "--json", "--limit", "3", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(FORMATS[3].1.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    let got: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&got["trace"], &got["all"]["requests"], &got["limit"]), (&"-".into(), &3.into(), &3.into()));
}

#[test]
fn what_is_wrong_with_a_trace_names_its_line() {
    let dir = Dir::new();
    let file = dir.file("bad.trace");
    let head = "lode trace 1\n5 write 0 4096\n";
    for (text, words) in [
        ("".to_string(), ["bad.trace", "no request in its 0 lines"]),
        ("lode trace 1\n".into(), ["bad.trace", "no request in its 1 lines"]),
        ("hello\n".into(), ["line 1", "no known trace format (lode, iolog, msr, blkparse)"]),
        ("\u{1f}\u{8b}".into(), ["line 1", "no known trace format"]),
        (format!("{head}4 read 0 4096\n"), ["line 3", "time goes back"]),
        (format!("{head}6 read 0\n"), ["line 3", "3 fields where 'time read|write|trim offset length'"]),
        (format!("{head}6 raed 0 1\n"), ["line 3", "unknown request 'raed'"]),
        (format!("{head}6 read x 1\n"), ["line 3", "offset 'x' is not a number"]),
        (format!("{head}6 read 0 0\n"), ["line 3", "the length is zero"]),
        (format!("{head}6 read 0 40"), ["line 3", "the file was cut"]),
        (format!("{head}6 read 536870912 1\n"), ["line 3: the request ends at byte 536870913", "--wrap"]),
        (format!("{head}6 read 18446744073709551615 1\n"), ["line 3", "past 2^64"]),
        (
            "1,hm,0,Read,0,1,0\n2,hm,1,Read,0,1,0\n".into(),
            ["line 2: the trace has requests to hm_0 and to hm_1", "(--device)"],
        ),
        ("2,hm,0,Read,0,1,0\n1,hm,0,Read,0,1,0\n".into(), ["line 2", "not sorted"]),
        ("fio version 4 iolog\n".into(), ["line 1", "fio version 3 iolog"]),
        ("  8,0    3        1     0.0   697  Q   W 223490 + 8\n".into(), ["line 1", "bad.trace"]),
    ] {
        fs::write(&file, text).unwrap();
        refused(&[&file], &words);
        refused(&["--json", &file], &words);
    }
    fs::write(&file, FORMATS[0].1).unwrap();
    refused(&["--device", "hm_1", &file], &["no request to hm_1 in its 6 lines"]);
    refused(&["--format", "lode", &file], &["line 1", "'lode trace 1' is expected"]);
    refused(&[&dir.file("missing")], &["missing", "No such file"]);
    refused(&[dir.path().to_str().unwrap()], &["directory"]);
}

#[test]
fn requests_past_the_end_can_be_folded_back() {
    let dir = Dir::new();
    let file = dir.file("far.trace");
    fs::write(&file, "lode trace 1\n0 write 99999997952 4096\n0 read 99999997952 4096\n").unwrap();
    let got = json(&["--wrap", &file]);
    assert_eq!((&got["wrap"], &got["all"]["requests"]), (&true.into(), &2.into()));
    assert_eq!(got["device"]["unwritten_blocks_read"], 0, "both fold to the same place");
    fs::write(&file, "lode trace 1\n0 trim 0 99999997952\n").unwrap();
    refused(&["--wrap", &file], &["line 2", "past the device's"]);
}

/// A checkpoint of such a drive writes more log for its tables than a small drive has in total.
#[test]
fn a_drive_of_16_tb_takes_writes_in_the_memory_of_its_tables() {
    let workload = ["--profile", "pcie5-tlc", "--synthetic", "uniform", "--reads", "0", "--requests", "100"];
    let got = json_of("16TB", &workload);
    assert_eq!(got["all"]["requests"], 100);
    assert!(got["device"]["capacity_bytes"].as_u64().unwrap() > 12_000_000_000_000);
}

#[test]
fn devices_that_can_not_exist_are_one_line() {
    let dir = Dir::new();
    let trace = dir.file("t");
    fs::write(&trace, FORMATS[3].1).unwrap();
    let file = dir.file("mine.toml");
    let shipped = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/isp-adms11.toml"));
    let shipped = shipped.unwrap();
    fs::write(&file, &shipped).unwrap();
    assert_eq!(json(&["--profile", &file, &trace])["profile"], "isp-adms11");
    for (from, to, words) in [
        ("read_us =", "reed_us =", ["mine.toml:21:", "reed_us"]),
        ("ways = 8", "ways = 7", ["mine.toml:", "striped"]),
        ("ways = 8", "ways = 0", ["mine.toml:", "ways is 0"]),
        ("read_us = 50 ", "read_us = -1 ", ["mine.toml:21:", "-1 is not from 0"]),
        ("queue_depth = 32", "queue_depth = 0", ["mine.toml:", "queue_depth: 0 is not from 1"]),
        ("planes = 1 ", "", ["mine.toml:", "planes"]),
    ] {
        assert!(shipped.contains(from), "{from}");
        fs::write(&file, shipped.replace(from, to)).unwrap();
        refused(&["--profile", &file, &trace], &words);
    }
    refused(&["--profile", "none", &trace], &["nothing takes time on it"]);
    refused(&["--profile", "nand-2000", &trace], &["nand-2000", "isp-adms11"]);
    refused(&["--profile", &trace, &trace], &[":1:"]);
    fail(["drive", "replay", "--capacity", "1MB", &trace], 1, &["8 EBLOCKs", "at least"]);
    fail(["drive", "replay", "--capacity", "900TB", &trace], 1, &["eblock_count", "33,554,432"]);
    let args = ["--synthetic", "uniform", "--block", "1GiB", "--requests", "2"];
    refused(&args, &["the region is smaller than a block"]);
}

#[test]
fn an_interrupt_stops_it_at_once() {
    for args in [
        &["--capacity", "1GB", "--fill", "50", "--overwrite", "1000", "--synthetic", "uniform"][..],
        &["--capacity", "512MB", "--synthetic", "uniform", "--requests", "1000000000"],
        &["--capacity", "512MB", "-"],
    ] {
        let mut child = lode().args(["drive", "replay"]).args(args).stdin(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let asked = Instant::now();
        let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        let stdin = child.stdin.take();
        let out = child.wait_with_output().unwrap();
        drop(stdin);
        assert_eq!(out.status.code(), Some(130), "{args:?}");
        assert!(out.stdout.is_empty() && asked.elapsed() < Duration::from_secs(30), "{args:?}");
    }
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let mut child = lode()
        .args(["drive", "replay", "--capacity", "512MB", "--synthetic", "uniform", "--requests", "10"])
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert!(run(["drive", "replay", "--help"]).status.success());
}
