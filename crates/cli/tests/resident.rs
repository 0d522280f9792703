//! Large changes, sorts and index builds stay within a small limit of memory: the most that was resident, read from the process.
//!
//! ```text
//!   lode sql --memory 128MB ◄─ statement ─► its answer ─► VmHWM of /proc, which must be below: empty process + limit + slack
//! ```
//!
//! The table's rows take more than limit and slack together, so a statement that collected all of them, or all their new values, would
//! be found.

#![cfg(target_os = "linux")]

mod common;

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use common::{Dir, lines_of, lode, succeed};

const ROWS: u64 = 800_000;
/// The bytes of a row's text.
const TEXT_BYTES: u64 = 250;
/// `--memory`, in MB.
const LIMIT_MB: u64 = 128;
/// What no budget counts: a transaction's new values, entries of an index that are sorted (40 MB), batches under way, short buffers
/// of threads, and what the allocator holds beyond what is in use (docs/memory.md).
const SLACK_MB: u64 = 60;

/// Runs a statement, and reads the most MB that were resident.
fn most_resident_mb(drive: &str, statement: &str) -> u64 {
    let memory = format!("{LIMIT_MB}MB");
    let mut child = lode()
        .args(["sql", drive, "--memory", &memory, "--partitions", "2", "--format", "csv"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("lode starts");
    let lines = lines_of(&mut child);
    let mut stdin = child.stdin.take().unwrap();
    // In this format a change writes no line.
    stdin.write_all(format!("{statement};\nSELECT 1 AS done_now;\n").as_bytes()).unwrap();
    loop {
        match lines.recv_timeout(Duration::from_secs(600)) {
            Ok(line) if line == "done_now" => break,
            Ok(_) => {}
            Err(_) => {
                let _ = child.kill();
                let mut stderr = String::new();
                let _ = std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut stderr);
                panic!("{statement}: {stderr}");
            }
        }
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    drop(stdin);
    // Its last line is still to be written.
    lines.iter().for_each(drop);
    assert!(child.wait().unwrap().success(), "{statement}");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("the most resident memory");
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024 / 1_000_000
}

#[test]
fn large_statements_stay_within_a_small_limit() {
    const { assert!(ROWS * TEXT_BYTES / 1_000_000 > LIMIT_MB + SLACK_MB) };
    let dir = Dir::new();
    let (drive, sorted) = (dir.file("memory.lode"), dir.file("sorted.csv"));
    succeed([
        "sql",
        &drive,
        "-c",
        "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, s TEXT NOT NULL)",
    ]);
    let empty = most_resident_mb(&drive, "SELECT 1");
    let bound = empty + LIMIT_MB + SLACK_MB;
    let mut over = Vec::new();
    for statement in [
        format!(
            "INSERT INTO t SELECT value, value::BIGINT * 7919 % {ROWS}, \
             lpad((value::BIGINT * 7919 % {ROWS})::TEXT, 8, '0') || repeat(chr((97 + value % 26)::INT), {TEXT_BYTES} - 8) \
             FROM generate_series(1, {ROWS}) AS value"
        ),
        format!("COPY (SELECT * FROM t ORDER BY s) TO '{sorted}' (FORMAT csv, HEADER true)"),
        "UPDATE t SET s = s || 'x'".into(),
        "CREATE INDEX t_v ON t USING btree (v)".into(),
        "DELETE FROM t".into(),
        format!("COPY t FROM '{sorted}' (FORMAT csv, HEADER true)"),
    ] {
        let most = most_resident_mb(&drive, &statement);
        println!("{most} MB resident at most, {bound} allowed: {}", &statement[..statement.len().min(60)]);
        if most > bound {
            over.push((most, statement));
        }
    }
    assert!(over.is_empty(), "an empty process takes {empty} MB, {bound} MB are allowed: {over:?}");
}
