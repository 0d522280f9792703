//! TPC-C through the binary, killed at random moments. The data stays consistent, and every acknowledged order is
//! there.
//!
//! ```text
//!   round: lode bench tpcc, four terminals ─► orders acknowledged on standard output ─► SIGKILL
//!          ─► every other round: open, consistency conditions 1 to 12, all orders acknowledged so far
//! ```
//!
//! In the other rounds, the binary itself recovers from the last kill. `LODE_KILLS=2000` runs more kills,
//! `LODE_SEED=7` another sequence.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use common::{Dir, fail, lines_of, lode, number, succeed};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{Drive, DriveOptions};
use lode_workload::lode::LodeStore;
use lode_workload::random::Random;
use lode_workload::tpcc::rows::{D, O, W};
use lode_workload::tpcc::store::{Intent, Terminal, TpccStore, TpccTxn};
use lode_workload::tpcc::{KvTpcc, check};

/// A small wholesaler: it is loaded quickly, and its terminals conflict.
const SMALL: [&str; 8] = ["--warehouses", "1", "--districts", "3", "--customers", "30", "--items", "100"];

/// A run that acknowledges orders until it is killed.
struct Run {
    child: Child,
    lines: Receiver<String>,
}

impl Run {
    fn start(drive: &str) -> Self {
        let mut command = lode();
        command.args(["bench", "tpcc", "--drive", drive, "--acknowledge", "--terminals", "4"]);
        command.args(["--seconds", "600", "--warm-up", "0", "--memory", "64MB"]).args(SMALL);
        let mut child = command.spawn().expect("lode starts");
        let lines = lines_of(&mut child);
        Self { child, lines }
    }

    /// Waits for the first order.
    fn first(&mut self) -> (W, D, O) {
        match self.lines.recv_timeout(Duration::from_secs(120)) {
            Ok(line) => order(&line),
            Err(_) => {
                let _ = self.child.kill();
                let mut stderr = String::new();
                let _ = std::io::Read::read_to_string(self.child.stderr.as_mut().unwrap(), &mut stderr);
                panic!("lode ended or hangs: {stderr}");
            }
        }
    }

    /// Kills it and returns the acknowledged orders. A part of a line would not be an acknowledgement, but must never
    /// occur.
    fn kill(mut self) -> Vec<(W, D, O)> {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child can be waited for");
        self.lines.iter().map(|line| order(&line)).collect()
    }
}

fn order(line: &str) -> (W, D, O) {
    let numbers: Vec<u32> = line.split(' ').map(|n| n.parse().expect("a number")).collect();
    (numbers[0] as W, numbers[1] as D, numbers[2])
}

/// Opens the image, checks all conditions, and looks up the orders.
fn verify(path: &Path, acknowledged: &BTreeSet<(W, D, O)>, when: &str) {
    let drive = Drive::open_file(path, DriveOptions::default()).unwrap_or_else(|e| panic!("{when}: {e}"));
    let database =
        Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap_or_else(|e| panic!("{when}: {e}"));
    let problems = database.check().unwrap();
    assert!(problems.is_empty(), "{when}: {problems:?}");
    let tpcc = KvTpcc::new(LodeStore(database)).unwrap();
    let (sizes, _) = tpcc.loaded().unwrap().unwrap_or_else(|| panic!("{when}: the load is gone"));
    let found = check(&tpcc, &sizes).unwrap();
    assert_eq!(found.count, 0, "{when}: {:?}", found.told);
    let mut terminal = tpcc.terminal().unwrap();
    let mut txn = terminal.begin(Intent::Read).unwrap();
    for (w, d, o) in acknowledged {
        let there = txn.order(*w, *d, *o).unwrap();
        assert!(there.is_some(), "{when}: the acknowledged order {w} {d} {o} is gone");
    }
}

#[test]
fn tpcc_is_consistent_after_sigkill_and_acknowledged_orders_are_there() {
    let (kills, seed) = (number("LODE_KILLS", 100), number("LODE_SEED", 1));
    let mut random = Random(seed);
    let dir = Dir::new();
    let (path, drive) = (dir.join("tpcc.lode"), dir.file("tpcc.lode"));
    let mut acknowledged = BTreeSet::new();
    for kill in 0..kills {
        let when = format!("seed {seed}, kill {kill}");
        let mut run = Run::start(&drive);
        // Some kills come during the opening and recovery or soon after. The first run loads the data.
        if kill > 0 && kill % 5 == 4 {
            std::thread::sleep(Duration::from_micros(random.below(40_000)));
        } else {
            let first = run.first();
            assert!(acknowledged.insert(first), "{when}: the order {first:?} was given twice");
            std::thread::sleep(Duration::from_micros(random.below(40_000)));
        }
        for order in run.kill() {
            assert!(acknowledged.insert(order), "{when}: the order {order:?} was given twice");
        }
        if kill % 2 == 1 {
            verify(&path, &acknowledged, &when);
        }
    }
    verify(&path, &acknowledged, &format!("seed {seed}, at the end"));
    succeed(["drive", "check", &drive]);
    println!("{kills} kills, {} orders acknowledged", acknowledged.len());
    assert!(acknowledged.len() as u64 > kills, "hardly any orders: the test does not test");
}

#[test]
fn a_run_tells_its_figures_and_a_drive_keeps_its_warehouses() {
    let dir = Dir::new();
    let drive = dir.file("kept.lode");
    let mut args = vec!["bench", "tpcc", "--drive", &drive, "--seconds", "0.3", "--warm-up", "0.1", "--json"];
    args.extend(SMALL);
    let out = lode().args(&args).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one object");
    assert!(json["rate"].as_f64().unwrap() > 0.0 && json["consistent"] == true, "{json}");
    assert_eq!(json["latencies"].as_array().unwrap().len(), 5);
    assert_eq!(json["sizes"]["customers"], 30);
    assert!(json["causes"]["all"].as_u64().unwrap() > 0, "{json}");
    let text = succeed(["bench", "tpcc", "--drive", &drive, "--check-only"]);
    assert!(text.contains("All consistency conditions hold"), "{text}");
    let empty = dir.file("empty.lode");
    succeed(["drive", "format", &empty]);
    fail(["bench", "tpcc", "--drive", &empty, "--check-only"], 1, &["holds no TPC-C"]);
}

#[test]
fn every_mix_of_ycsb_and_every_case_of_kv_runs() {
    let dir = Dir::new();
    let of = dir.path().to_str().unwrap();
    let mut ycsb = lode();
    ycsb.args(["bench", "ycsb", "--dir", of, "--records", "2000", "--threads", "2", "--json"]);
    ycsb.args(["--seconds", "0.1", "--warm-up", "0", "--memory", "64MB"]);
    let out = ycsb.output().unwrap();
    let rows = String::from_utf8(out.stdout).unwrap();
    assert_eq!(rows.lines().count(), 6, "{rows} {}", String::from_utf8_lossy(&out.stderr));
    let mut kv = lode();
    kv.args(["bench", "kv", "--dir", of, "--data", "4", "--cache", "64", "--json"]);
    let out = kv.args(["--seconds", "0.1", "--rounds", "1", "--age", "0"]).output().unwrap();
    let rows = String::from_utf8(out.stdout).unwrap();
    // On recycled space, Lode has eight rows, its drive two and a plain file one. The others are the batches on fresh
    // space.
    assert_eq!(rows.lines().count(), 11 + 5, "{rows} {}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "drives go away");
}

#[test]
fn peers_that_were_not_built_are_told_in_one_line() {
    let dir = Dir::new();
    // A copy of the binary in an otherwise empty directory.
    let alone = dir.join("lode");
    std::fs::copy(env!("CARGO_BIN_EXE_lode"), &alone).unwrap();
    for workload in ["kv", "tpcc", "oltp"] {
        let out = std::process::Command::new(&alone).args(["bench", workload, "--peers"]).output().unwrap();
        let line = common::one_line(&out, 1);
        assert!(line.contains("scripts/build_peers.sh"), "{line}");
    }
}
