//! The real binary as a shell that takes statements, and can be killed.

use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::{lines_of, lode};

/// A child process that takes statements and whose output arrives line by line.
pub(crate) struct Shell {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Shell {
    /// Opens a drive.
    pub(crate) fn open(drive: &str) -> Self {
        let mut child = lode()
            .args(["sql", drive, "--partitions", "1", "--memory", "64MB"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("lode starts");
        let stdin = child.stdin.take().unwrap();
        let lines = lines_of(&mut child);
        Self { child, stdin, lines }
    }

    /// Sends statements. They fit in the pipe, so this does not wait.
    pub(crate) fn send(&mut self, script: &str) {
        assert!(script.len() < 32_768);
        self.stdin.write_all(script.as_bytes()).expect("lode reads its input");
    }

    /// Kills it and returns what it had written.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child can be waited for");
        self.lines.iter().collect()
    }

    /// The next line that it writes.
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(Duration::from_secs(120)) {
            Ok(line) => line,
            Err(_) => {
                let _ = self.child.kill();
                let mut stderr = String::new();
                let _ = std::io::Read::read_to_string(self.child.stderr.as_mut().unwrap(), &mut stderr);
                panic!("lode ended or hangs: {stderr}");
            }
        }
    }

    /// The rows of a printed table, up to its `(n rows)`.
    pub(crate) fn rows(&mut self) -> Vec<Vec<String>> {
        self.line();
        self.rows_below()
    }

    /// The same, of which the heading was read.
    pub(crate) fn rows_below(&mut self) -> Vec<Vec<String>> {
        self.line();
        let mut rows = Vec::new();
        loop {
            let line = self.line();
            if line.starts_with('(') {
                return rows;
            }
            rows.push(line.split_whitespace().map(String::from).collect());
        }
    }
}
