//! Runs the real binary.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod shell;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// The binary under test, with captured output.
pub(crate) fn lode() -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_lode"));
    c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("RUST_BACKTRACE");
    c
}

/// Runs it with these arguments.
pub(crate) fn run<const N: usize>(args: [&str; N]) -> Output {
    lode().args(args).output().expect("lode runs")
}

/// Runs it. It must succeed and write nothing to standard error.
pub(crate) fn succeed<const N: usize>(args: [&str; N]) -> String {
    let out = run(args);
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && stderr.is_empty(), "lode {args:?}: {:?} {stderr}", out.status);
    String::from_utf8(out.stdout).expect("lode writes UTF-8")
}

/// Checks the status of a run and returns its only line on standard error.
#[track_caller]
pub(crate) fn one_line(out: &Output, status: i32) -> String {
    let stderr = String::from_utf8(out.stderr.clone()).expect("lode writes UTF-8");
    assert_eq!(out.status.code(), Some(status), "stderr: {stderr}");
    assert!(stderr.starts_with("lode: ") && stderr.ends_with('\n'), "not one line of lode's: {stderr:?}");
    assert_eq!(stderr.matches('\n').count(), 1, "not one line: {stderr:?}");
    stderr.trim_end().to_string()
}

/// Runs it. It must fail with `status` and one line that contains all of `words`.
#[track_caller]
pub(crate) fn fail<const N: usize>(args: [&str; N], status: i32, words: &[&str]) -> String {
    let line = one_line(&run(args), status);
    for word in words {
        assert!(line.contains(word), "{word:?} is not in: {line}");
    }
    line
}

/// Its output, line by line, until it ends.
pub(crate) fn lines_of(child: &mut Child) -> Receiver<String> {
    let stdout = BufReader::new(child.stdout.take().expect("its output is captured"));
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A number from an environment variable, or the default.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// A temporary directory, and paths in it as text.
pub(crate) struct Dir(tempfile::TempDir);

impl Dir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.join(name).to_str().expect("the temporary directory's name is UTF-8").to_string()
    }
}
