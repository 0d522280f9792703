//! Reads a file line by line into one buffer, and counts the lines.

use std::io::{BufRead, Read};

use super::error::{Fault, TraceError};

/// The longest line, in bytes. The limit keeps a file without line ends from filling the memory.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A line.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Its bytes, without the end (`\n` or `\r\n`). They may not be UTF-8, because names of processes can have any
    /// bytes.
    pub(super) text: &'a [u8],
    /// Whether it has a line end. The last line may lack it.
    pub(super) ended: bool,
}

/// The lines of a file that are not blank.
pub(super) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
    /// Whether the next call returns the buffered line again.
    again: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0, again: false }
    }

    /// The number of lines read.
    pub(super) fn count(&self) -> u64 {
        self.number
    }

    /// Makes the next call return the same line again.
    pub(super) fn again(&mut self) {
        self.again = true;
    }

    /// The next line, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        while !std::mem::take(&mut self.again) {
            self.buffer.clear();
            // One byte more than allowed, for the line end.
            let mut limited = (&mut self.reader).take(LINE_BYTES_MAX + 1);
            let line = self.number + 1;
            let read = limited
                .read_until(b'\n', &mut self.buffer)
                .map_err(|source| TraceError::Io { line, source })?;
            if read == 0 {
                return Ok(None);
            }
            self.number = line;
            if read as u64 > LINE_BYTES_MAX && self.buffer.last() != Some(&b'\n') {
                return Err(TraceError::Line { line, fault: Fault::LongLine { max: LINE_BYTES_MAX } });
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        let text = self.buffer.strip_suffix(b"\n");
        let ended = text.is_some();
        let text = text.unwrap_or(&self.buffer);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        Ok(Some(Line { number: self.number, text, ended }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u64, String, bool)>, TraceError> {
        let mut lines = Lines::new(bytes);
        let mut all = Vec::new();
        while let Some(l) = lines.next()? {
            all.push((l.number, String::from_utf8_lossy(l.text).into_owned(), l.ended));
        }
        Ok(all)
    }

    #[test]
    fn lines_are_counted_with_the_blank_ones() {
        let got = all(b"a\n\n  \t\nb\r\nc").unwrap();
        assert_eq!(got, [(1, "a".into(), true), (4, "b".into(), true), (5, "c".into(), false)]);
        assert!(all(b"").unwrap().is_empty() && all(b"\n \n").unwrap().is_empty());
    }

    #[test]
    fn a_line_may_be_long_but_not_endless() {
        let max = LINE_BYTES_MAX as usize;
        let mut text = b"a\n".to_vec();
        text.extend(vec![b'x'; max]);
        text.extend(b"\nb\n");
        assert_eq!(all(&text).unwrap().len(), 3);
        text.insert(2, b'x');
        assert_eq!(all(&text).unwrap_err().to_string(), "line 2: longer than 65536 bytes");
    }

    #[test]
    fn a_line_is_given_again_on_demand() {
        let mut lines = Lines::new(&b"a\nb\n"[..]);
        assert_eq!(lines.next().unwrap().unwrap().text, b"a");
        lines.again();
        assert_eq!(lines.next().unwrap().unwrap().text, b"a");
        assert_eq!(lines.next().unwrap().unwrap().text, b"b");
        assert_eq!(lines.count(), 2);
    }
}
