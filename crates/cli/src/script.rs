//! Runs statements from text: from the command line, a file, or a pipe.
//!
//! A statement runs as soon as its `;` has been read, and its result is flushed before the next statement runs. So
//! what a reader at the other end of a pipe has seen is durable. The first failure ends the script.

use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lode_sql::{CopyIn, Session, StatementResult};

use crate::error::{CliError, CliResult, with_sqlstate};
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
    /// Runs the statements of `text` one after the other. The rows of a COPY FROM STDIN follow its statement; without
    /// any there, `more` is asked for lines.
    pub(crate) async fn run(&mut self, text: &str, more: &mut NextLine<'_>) -> CliResult {
        let mut from = 0;
        while let Some(end) = statement_end(&text[from..]) {
            let line = 1 + line_breaks(&text[..from]);
            let copy = self.run_one(&text[from..from + end], line).await?;
            from += end;
            let Some(copy) = copy else { continue };
            if is_blank(&text[from..]) {
                from = text.len();
                self.copy_in(copy, more).await?;
            } else {
                from += text[from..].find('\n').map_or(0, |at| at + 1);
                let mut lines = || {
                    let rest = &text[from..];
                    let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
                    from += end;
                    Ok((end > 0).then(|| rest.as_bytes()[..end].to_vec()))
                };
                self.copy_in(copy, &mut lines).await?;
            }
        }
        match self.run_one(&text[from..], 1 + line_breaks(&text[..from])).await? {
            Some(copy) => self.copy_in(copy, more).await,
            None => Ok(()),
        }
    }

    /// Hands lines to a COPY FROM STDIN, up to the one that is `\.`.
    async fn copy_in(&mut self, mut copy: CopyIn, next_line: &mut NextLine<'_>) -> CliResult {
        while let Some(mut line) = next_line()? {
            if matches!(line.as_slice(), b"\\." | b"\\.\n" | b"\\.\r\n") {
                break;
            }
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            copy.write(line).await;
        }
        let rows = interrupt::until_signal(async move { Ok(copy.finish().await?) }).await?;
        output::write(StatementResult::Count { verb: "COPY", rows }, self.format).await?;
        (self.done)();
        Ok(())
    }

    /// Runs one statement, which starts at line `line` of its source. A COPY FROM STDIN is returned: it waits for rows.
    async fn run_one(&mut self, text: &str, line: usize) -> CliResult<Option<CopyIn>> {
        if is_blank(text) {
            return Ok(None);
        }
        interrupt::check()?;
        let start = Instant::now();
        let (session, format) = (Arc::clone(self.session), self.format);
        let text = text.to_string();
        let copy = interrupt::until_signal(async move {
            let mut copy = None;
            for result in session.execute(&text).await? {
                match result {
                    StatementResult::CopyIn(waiting) => copy = Some(waiting),
                    result => output::write(result, format).await?,
                }
            }
            Ok(copy)
        })
        .await
        .map_err(|e| match e {
            CliError::Sql(e) => CliError::Sql(e.moved_down(line as u64 - 1)),
            e => e,
        })?;
        if copy.is_some() {
            return Ok(copy);
        }
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
        Ok(None)
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
                let copy = self.run_at(source, &pending, pending_line).await?;
                let statement_line = pending_line + leading_line_breaks(&pending);
                pending_line += line_breaks(&pending);
                pending = rest;
                if let Some(copy) = copy {
                    // The rows begin with the next line.
                    let mut lines = 0;
                    let mut next_line = || {
                        let mut line = Vec::new();
                        let read = interrupt::idle(|| input.read_until(b'\n', &mut line));
                        read.map_err(|e| CliError::file(source, e))?;
                        lines += usize::from(!line.is_empty());
                        Ok((!line.is_empty()).then_some(line))
                    };
                    if !more.ends_with('\n') {
                        next_line()?;
                    }
                    let copied = self.copy_in(copy, &mut next_line).await;
                    copied.map_err(|e| at_statement(source, statement_line, e))?;
                    line += lines;
                    pending_line = line + line_breaks(more);
                    pending.clear();
                }
            }
            line += line_breaks(more);
            if bytes.is_empty() {
                return match self.run_at(source, &pending, pending_line).await? {
                    Some(copy) => self.copy_in(copy, &mut || Ok(None)).await,
                    None => Ok(()),
                };
            }
        }
    }

    async fn run_at(&mut self, source: &Path, text: &str, line: usize) -> CliResult<Option<CopyIn>> {
        let result = self.run_one(text, line).await;
        result.map_err(|e| at_statement(source, line + leading_line_breaks(text), e))
    }
}

/// Lines, each with its line break, unless it is the last; `None` at the end.
pub(crate) type NextLine<'a> = dyn FnMut() -> CliResult<Option<Vec<u8>>> + 'a;

/// A failure of the statement at this line of a file.
fn at_statement(source: &Path, line: usize, e: CliError) -> CliError {
    match e {
        CliError::Sql(e) if e.line().is_some() => CliError::file(source, with_sqlstate(&e)),
        CliError::Sql(e) => {
            CliError::file(source, format!("statement at line {line}: {}", with_sqlstate(&e)))
        }
        other => other,
    }
}

fn leading_line_breaks(text: &str) -> usize {
    text.chars().take_while(|c| c.is_whitespace()).filter(|c| *c == '\n').count()
}

/// The lines of standard input.
pub(crate) fn standard_input() -> CliResult<Option<Vec<u8>>> {
    let mut line = Vec::new();
    interrupt::idle(|| io::stdin().lock().read_until(b'\n', &mut line))
        .map_err(|e| CliError::file(Path::new("standard input"), e))?;
    Ok((!line.is_empty()).then_some(line))
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
