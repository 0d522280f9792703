//! Reads a trace: detects its format, then returns its requests one by one.

use std::collections::VecDeque;
use std::io::BufRead;

use super::FORMATS;
use super::check::Check;
use super::error::{Fault, TraceError};
use super::fields::shown;
use super::format::{Format, Options, Parse};
use super::lines::Lines;
use super::request::Request;

/// The first bytes of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The checked requests of a trace, in order. The iterator ends after the first error.
pub struct Trace<R> {
    format: &'static Format,
    stamped: bool,
    lines: Lines<R>,
    parser: Box<dyn Parse>,
    check: Check,
    /// The requests of the last line that were not returned yet.
    ready: VecDeque<Request>,
    /// Whether any request was returned.
    any: bool,
    ended: bool,
}

impl<R: BufRead> Trace<R> {
    /// Opens a trace and reads its first line.
    pub fn open(reader: R, options: &Options) -> Result<Self, TraceError> {
        let mut lines = Lines::new(reader);
        let Some(first) = lines.next()? else {
            return Err(TraceError::Empty { lines: lines.count() });
        };
        let by_line = || FORMATS.iter().find(|f| (f.recognises)(first.text));
        let format = options.format.or_else(by_line).ok_or_else(|| TraceError::Line {
            line: first.number,
            fault: match first.text.starts_with(GZIP) {
                true => Fault::Compressed,
                false => Fault::NoFormat { got: shown(first.text), known: super::format_names() },
            },
        })?;
        let stamped = (format.stamped)(first.text);
        lines.again();
        Ok(Self {
            format,
            stamped,
            lines,
            parser: (format.parser)(options),
            check: Check::new(options.capacity).wrapping(options.wrap),
            ready: VecDeque::with_capacity(2),
            any: false,
            ended: false,
        })
    }

    /// The format of the trace.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Whether its requests have time stamps.
    pub fn is_stamped(&self) -> bool {
        self.stamped
    }

    fn read(&mut self) -> Result<Option<Request>, TraceError> {
        while self.ready.is_empty() {
            let Some(line) = self.lines.next()? else {
                return match self.any {
                    true => Ok(None),
                    false => Err(TraceError::Empty { lines: self.lines.count() }),
                };
            };
            let number = line.number;
            let parsed = self.parser.line(line, &mut self.ready);
            self.ready.iter_mut().for_each(|r| self.check.fold(r));
            parsed
                .and_then(|()| self.ready.iter().try_for_each(|r| self.check.next(r)))
                .map_err(|fault| TraceError::Line { line: number, fault })?;
        }
        self.any = true;
        Ok(self.ready.pop_front())
    }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
