//! Runs statements from text: from the command line, a file, or a pipe.
//!
//! A statement runs as soon as its `;` has been read, and its result is flushed before the next statement runs. So
//! what a reader at the other end of a pipe has seen is durable. The first failure ends the script.

use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lode_sql::Session;

use crate::error::{CliError, CliResult};
use crate::interrupt;
use crate::output::{self, Format};
use crate::split::{is_blank, statement_end};

/// The warning if a script leaves a transaction open.
pub(crate) const ROLLED_BACK: &str = "The open transaction was rolled back: there was no COMMIT.";

/// Runs a script on a session.
pub(crate) struct Runner<'a> {
    pub(crate) session: &'a Arc<Session>,
    pub(crate) format: Format,
    /// Whether to print the time of each statement.
    pub(crate) timing: bool,
    /// Called after each successful statement.
    pub(crate) done: &'a mut dyn FnMut(),
}

impl Runner<'_> {
    /// Runs the statements of `text` one after the other.
    pub(crate) async fn run(&mut self, text: &str) -> CliResult {
        let mut from = 0;
        while let Some(end) = statement_end(&text[from..]) {
            self.run_one(&text[from..from + end], 1 + line_breaks(&text[..from])).await?;
            from += end;
        }
        self.run_one(&text[from..], 1 + line_breaks(&text[..from])).await
    }

    /// Runs one statement, which starts at line `line` of its source.
    async fn run_one(&mut self, text: &str, line: usize) -> CliResult {
        if is_blank(text) {
            return Ok(());
        }
        interrupt::check()?;
        let start = Instant::now();
        let (session, format) = (Arc::clone(self.session), self.format);
        let text = text.to_string();
        interrupt::until_signal(async move {
            for result in session.execute(&text).await? {
                output::write(result, format).await?;
            }
            Ok(())
        })
        .await
        .map_err(|e| match e {
            CliError::Sql(e) => CliError::Sql(e.moved_down(line as u64 - 1)),
            e => e,
        })?;
        (self.done)();
        if self.timing {
            let modelled = self.session.last_modelled();
            let modelled = modelled.map(|m| format!(", modelled {:.3} ms", m.total.as_secs_f64() * 1e3));
            println_quietly(&format!(
                "Time: {:.1} ms{}",
                start.elapsed().as_secs_f64() * 1e3,
                modelled.unwrap_or_default()
            ))?;
        }
        Ok(())
    }

    /// Runs the statements of a file or a pipe as they are read. A failure names the line of its statement.
    pub(crate) async fn run_all(&mut self, source: &Path, mut input: impl BufRead) -> CliResult {
        let (mut pending, mut pending_line, mut line) = (String::new(), 1, 1);
        loop {
            let mut bytes = Vec::new();
            interrupt::idle(|| read_part(&mut input, &mut bytes)).map_err(|e| CliError::file(source, e))?;
            let more = std::str::from_utf8(&bytes)
                .map_err(|_| CliError::file(source, format!("line {line} is not UTF-8")))?;
            pending.push_str(more);
            while let Some(end) = statement_end(&pending) {
                let rest = pending.split_off(end);
                self.run_at(source, &pending, pending_line).await?;
                pending_line += line_breaks(&pending);
                pending = rest;
            }
            line += line_breaks(more);
            if bytes.is_empty() {
                return self.run_at(source, &pending, pending_line).await;
            }
        }
    }

    async fn run_at(&mut self, source: &Path, text: &str, line: usize) -> CliResult {
        let blank_lines = text.chars().take_while(|c| c.is_whitespace()).filter(|c| *c == '\n').count();
        self.run_one(text, line).await.map_err(|e| match e {
            CliError::Sql(e) if e.line().is_some() => CliError::file(source, e),
            CliError::Sql(e) => {
                CliError::file(source, format!("statement at line {}: {e}", line + blank_lines))
            }
            other => other,
        })
    }
}

/// Reads up to the end of a line or to a `;`, whichever comes first. It does not wait for the end of the line,
/// because the writer of a pipe may wait for the answer before it.
fn read_part(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let buffer = match input.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        let end = buffer.iter().position(|b| matches!(b, b'\n' | b';'));
        let n = end.map_or(buffer.len(), |at| at + 1);
        bytes.extend_from_slice(&buffer[..n]);
        input.consume(n);
        if n == 0 || end.is_some() {
            return Ok(());
        }
    }
}

fn line_breaks(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'\n').count()
}

/// Writes a line to standard output. It fails if the reader is gone.
pub(crate) fn println_quietly(line: &str) -> CliResult {
    use std::io::Write;
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
