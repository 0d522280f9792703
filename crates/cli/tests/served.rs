//! Kills the server, the client, or both at random moments. Every acknowledged statement is there, and none took
//! effect twice.
//!
//! ```text
//!   round: server ─► shell over tcp:// ─► read, verify ─► statements, each acknowledged ─► SIGKILL to one or both
//!          a server that was killed alone is started again at its address: the shell goes on where it was
//! ```
//!
//! Each statement adds to every row, so a statement that takes effect twice or in part shows. After a kill of the
//! client with n acknowledgements, the drive holds the state after n or n + 1 statements. If only the server was
//! killed, all statements are acknowledged and none fails. `LODE_KILLS=5000` runs thousands of kills, `LODE_SEED=7`
//! another sequence.

mod common;

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use common::{Dir, fail, lines_of, lode, number, succeed};
use lode_base::random::Random;

/// The number of statements in a round.
const STATEMENTS: usize = 10;

/// A process whose output arrives line by line. It is killed when it is dropped.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Process {
    fn start(args: &[&str]) -> Self {
        let mut child = lode().args(args).stdin(Stdio::piped()).spawn().expect("lode starts");
        let stdin = child.stdin.take();
        let lines = lines_of(&mut child);
        Self { child, stdin, lines }
    }

    fn line(&mut self) -> String {
        match self.lines.recv_timeout(Duration::from_secs(100)) {
            Ok(line) => line,
            Err(_) => {
                let _ = self.child.kill();
                panic!("lode ended or hangs: {}", self.stderr());
            }
        }
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = self.child.stderr.as_mut() {
            let _ = std::io::Read::read_to_string(stderr, &mut text);
        }
        text
    }

    fn send(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).expect("lode reads its input");
    }

    /// Kills it and returns what it had written.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child can be waited for");
        self.lines.iter().collect()
    }

    /// Closes its input and waits for its end.
    fn finish(mut self) -> (bool, Vec<String>, String) {
        drop(self.stdin.take());
        let lines = self.lines.iter().collect();
        let stderr = self.stderr();
        (self.child.wait().expect("the child can be waited for").success(), lines, stderr)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and returns its address.
fn serve(drive: &str, listen: &str) -> (Process, String) {
    let mut server = Process::start(&["drive", "serve", drive, "--listen", listen]);
    let line = server.line();
    let at = line.split(" served at ").nth(1).unwrap_or_else(|| panic!("{line}")).to_string();
    (server, at)
}

/// `id, v` of all rows, in the order of `id`.
type State = Vec<(i64, i64)>;

fn shell(at: &str) -> Process {
    Process::start(&["sql", at, "--partitions", "1", "--memory", "64MB"])
}

fn read(shell: &mut Process) -> State {
    shell.send("SELECT id, v FROM acc ORDER BY id;\n");
    let (_heading, _rule) = (shell.line(), shell.line());
    let mut rows = Vec::new();
    loop {
        let line = shell.line();
        if line.starts_with('(') {
            return rows;
        }
        let mut words = line.split_whitespace().map(|w| w.parse::<i64>().expect("a number"));
        rows.push((words.next().unwrap(), words.next().unwrap()));
    }
}

fn statement(random: &mut Random, state: &mut State) -> String {
    let d = 1 + random.below(1000) as i64;
    match random.below(4) {
        0 if state.len() < 300 => {
            let next = state.last().map_or(0, |r| r.0 + 1);
            state.extend((next..next + 5).map(|id| (id, d)));
            let rows: Vec<String> = (next..next + 5).map(|id| format!("({id}, {d})")).collect();
            format!("INSERT INTO acc VALUES {};\n", rows.join(", "))
        }
        1 => {
            let r = random.below(5) as i64;
            state.retain(|(id, _)| id % 17 != r);
            format!("DELETE FROM acc WHERE id % 17 = {r};\n")
        }
        _ => {
            state.iter_mut().for_each(|(_, v)| *v += d);
            format!("UPDATE acc SET v = v + {d};\n")
        }
    }
}

#[test]
fn both_ends_are_killed_and_nothing_is_lost_or_done_twice() {
    let (kills, seed) = (number("LODE_KILLS", 100), number("LODE_SEED", 1));
    let mut random = Random::of_seed(seed);
    let dir = Dir::new();
    let drive = dir.file("served.lode");
    succeed(["drive", "format", &drive, "--capacity", "512MB"]);
    succeed(["sql", &drive, "-c", "CREATE TABLE acc (id BIGINT PRIMARY KEY, v BIGINT NOT NULL)"]);
    let (mut server, at) = serve(&drive, "127.0.0.1:0");
    let listen = at.strip_prefix("tcp://").unwrap().to_string();
    let mut possible: Vec<State> = vec![Vec::new()];
    let (mut acknowledged, mut unacknowledged, mut survived, mut too_old) = (0, 0, 0, 0);
    for kill in 0..kills {
        let mut client = shell(&at);
        let found = read(&mut client);
        let place = possible.iter().position(|p| *p == found);
        let place = place.unwrap_or_else(|| panic!("seed {seed}, kill {kill}: {found:?} of {possible:?}"));
        unacknowledged += usize::from(place == 1 && possible[0] != possible[1]);
        let mut states = vec![found];
        let mut script = String::new();
        for _ in 0..STATEMENTS {
            let mut next = states[states.len() - 1].clone();
            script += &statement(&mut random, &mut next);
            states.push(next);
        }
        client.send(&script);
        let wanted = random.below(STATEMENTS as u64) as usize;
        let mut seen: Vec<String> = (0..wanted).map(|_| client.line()).collect();
        std::thread::sleep(Duration::from_micros(random.below(6_000)));
        let which = random.below(3);
        if which != 0 {
            // Kills the server. Its socket closes with it, and another server is started at its address.
            server.kill();
            if which == 1 {
                std::thread::sleep(Duration::from_micros(random.below(20_000)));
            }
        } else {
            // Kills only the client.
            seen.extend(client.kill());
            acknowledged += seen.len();
            possible = states[seen.len()..(seen.len() + 2).min(states.len())].to_vec();
            continue;
        }
        if which == 2 {
            seen.extend(client.kill());
            server = serve(&drive, &listen).0;
            acknowledged += seen.len();
            possible = states[seen.len()..(seen.len() + 2).min(states.len())].to_vec();
            continue;
        }
        server = serve(&drive, &listen).0;
        let (ok, rest, stderr) = client.finish();
        seen.extend(rest);
        acknowledged += seen.len();
        if ok {
            assert_eq!(seen.len(), STATEMENTS, "seed {seed}, kill {kill}");
            survived += 1;
        } else {
            // A statement read a state that the drive can no longer show. It changed nothing.
            assert!(stderr.contains("snapshot too old"), "seed {seed}, kill {kill}: {stderr}");
            too_old += 1;
        }
        possible = vec![states[seen.len()].clone()];
    }
    println!(
        "{kills} kills, {acknowledged} statements acknowledged, {unacknowledged} more committed before that; of shells that \
         outlived their server {survived} went on, {too_old} were told that their snapshot is too old"
    );
    assert!(acknowledged as u64 > kills, "hardly anything was committed: the test does not test");
    assert!(survived > too_old, "clients hardly outlive servers");
    succeed(["drive", "check", &at]);
    drop(server);
    succeed(["drive", "check", &drive]);
}

#[test]
fn what_takes_a_file_takes_an_address() {
    let dir = Dir::new();
    let drive = dir.file("tpch.lode");
    succeed(["drive", "format", &drive, "--capacity", "512MB"]);
    let (server, at) = serve(&drive, "127.0.0.1:0");
    let text = succeed(["load", "tpch", "--scale", "0.01", "--drive", &at]);
    assert!(text.contains("Loaded"), "{text}");
    let sql = "SELECT count(*) FROM lineitem WHERE l_quantity < 10";
    let over = succeed(["sql", &at, "--format", "csv", "-c", sql]);
    assert!(succeed(["drive", "info", &at]).contains("lineitem"));
    succeed(["drive", "check", &at]);
    succeed(["bench", "tpch", "--scale", "0.01", "--drive", &at]);
    // A drive has one opener and one client.
    fail(["sql", &drive, "-c", "SELECT 1"], 1, &[&drive]);
    let mut first = shell(&at);
    first.send("SELECT 1;\n");
    first.line();
    fail(["sql", &at, "-c", "SELECT 1"], 1, &[&at, "in use by another client"]);
    assert!(first.finish().0);
    fail(["drive", "scrub", &at], 2, &[&at, "image"]);
    fail(["drive", "format", &at], 2, &[&at, "file"]);
    fail(["drive", "serve", &at], 2, &[&at, "image"]);
    fail(["sql", &at, "--profile", "isp-adms11", "-c", "SELECT 1"], 2, &["lode drive serve --profile"]);
    // SIGTERM ends it cleanly: the next opening has nothing to recover.
    let pid = server.child.id().to_string();
    assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
    assert!(server.finish().0);
    assert!(succeed(["drive", "info", &drive]).contains("last after a clean close"));
    assert_eq!(succeed(["sql", &drive, "--format", "csv", "-c", sql]), over);
    fail(["sql", &at, "-c", "SELECT 1"], 1, &[&at, "refused"]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fail(["sql", &format!("tcp://{nobody}"), "-c", "SELECT 1"], 1, &["refused"]);
    fail(["drive", "serve", &drive, "--listen", "nowhere"], 1, &["nowhere"]);
}

/// A run that must succeed and write nothing to standard error.
fn run(args: &[&str]) -> String {
    let out = lode().args(args).output().expect("lode runs");
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && stderr.is_empty(), "lode {args:?}: {:?} {stderr}", out.status);
    String::from_utf8(out.stdout).expect("lode writes UTF-8")
}

#[test]
fn workloads_run_on_a_drive_that_is_served() {
    const ELSEWHERE: &str = "The drive is served elsewhere";
    let dir = Dir::new();
    let drive = dir.file("bench.lode");
    succeed(["drive", "format", &drive, "--capacity", "1GB"]);
    let (server, at) = serve(&drive, "127.0.0.1:0");
    // The command fails because any process needs more memory than this limit.
    let memory = ["bench", "memory", "--drive", &at, "--memory", "16MB", "--times", "1", "--seconds", "0.5"];
    let out = lode().args(memory).args(["--threads", "1"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("resident at the most") && text.contains(ELSEWHERE), "{out:?}");
    let brief = ["--seconds", "0.3", "--warm-up", "0.1", "--memory", "64MB"];
    let small = ["--warehouses", "1", "--districts", "2", "--customers", "30", "--items", "100"];
    let tpcc = [&["bench", "tpcc", "--drive", &at, "--terminals", "2"][..], &brief, &small].concat();
    let text = run(&tpcc);
    assert!(text.contains("All consistency conditions hold") && text.contains(ELSEWHERE), "{text}");
    let json = run(&[&tpcc[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).expect("one object: the load is there");
    assert!(json["rate"].as_f64().unwrap() > 0.0, "{json}");
    assert!(json["causes"].is_null() && json["disk_bytes_an_operation"].is_null(), "{json}");
    let ycsb = ["bench", "ycsb", "--drive", &at, "--records", "500", "--threads", "2", "--mixes", "AE"];
    let text = run(&[&ycsb[..], &brief].concat());
    assert!(text.contains(ELSEWHERE), "{text}");
    let kv = ["bench", "kv", "--drive", &at, "--data", "1", "--cache", "64", "--seconds", "0.1"];
    let kv = [&kv[..], &["--rounds", "1", "--age", "0"]].concat();
    let text = run(&[&kv[..], &["--cases", "A"]].concat());
    assert!(text.contains(ELSEWHERE) && text.contains("served space"), "{text}");
    let rows = run(&[&kv[..], &["--cases", "BE", "--json"]].concat());
    let rows: Vec<serde_json::Value> = rows.lines().map(|r| serde_json::from_str(r).unwrap()).collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    let known = |row: &serde_json::Value| !row["write_amplification"].is_null() || !row["causes"].is_null();
    assert!(!rows.iter().any(known), "nobody here knows: {rows:?}");
    // An option that makes no sense with a served drive is an error of one line.
    fail(["bench", "kv", "--drive", &drive], 2, &[&drive, "--dir"]);
    fail(["bench", "kv", "--drive", &at, "--space", "fresh"], 2, &["--drive", "--space"]);
    fail(["drive", "replay", &at], 2, &[&at, "in memory"]);
    // The loaded data stays, except that of the races.
    let text = run(&["bench", "tpcc", "--drive", &at, "--check-only"]);
    assert!(text.contains("All consistency conditions hold"), "{text}");
    let info = succeed(["drive", "info", &at]);
    assert!(!info.contains("lode bench kv"), "{info}");
    succeed(["drive", "check", &at]);
    drop(server);
    succeed(["drive", "check", &drive]);
}
