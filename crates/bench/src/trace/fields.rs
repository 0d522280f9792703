//! The fields of a line: numbers, words, and their text in errors.

use super::error::Fault;

/// Parses a field of decimal digits.
pub(super) fn number(field: &'static str, text: &[u8]) -> Result<u64, Fault> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(Fault::NotANumber { field, got: shown(text) });
    }
    let digit = |n: u64, d: &u8| n.checked_mul(10)?.checked_add(u64::from(d - b'0'));
    text.iter().try_fold(0, digit).ok_or_else(|| Fault::TooLarge { field, got: shown(text) })
}

/// The text of a field in an error: printable, on one line, not long.
pub(super) fn shown(text: &[u8]) -> String {
    const BYTES: usize = 60;
    let dots = if text.len() > BYTES { "..." } else { "" };
    format!("{}{dots}", text[..text.len().min(BYTES)].escape_ascii())
}

/// The words between white space.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty())
}

/// The next word and the rest.
pub(super) fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The device whose requests are read: the chosen one, or the first in the trace.
pub(super) struct Device {
    chosen: bool,
    name: Option<Vec<u8>>,
}

impl Device {
    pub(super) fn new(chosen: Option<&String>) -> Self {
        Self { chosen: chosen.is_some(), name: chosen.map(|n| n.clone().into_bytes()) }
    }

    /// Whether to read the requests to the device with this name.
    pub(super) fn takes(&mut self, name: &[u8]) -> Result<bool, Fault> {
        let first = self.name.get_or_insert_with(|| name.to_vec());
        match first == name {
            false if !self.chosen => Err(Fault::SecondDevice { got: shown(name), first: shown(first) }),
            same => Ok(same),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(number("n", b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(number("n", b"007"), Ok(7));
        let wrong = |text: &[u8]| number("size", text).unwrap_err().to_string();
        assert_eq!(wrong(b"18446744073709551616"), "size 18446744073709551616 is out of range");
        for bad in ["", "-1", "+1", "1.5", "0x10", "1 "] {
            assert_eq!(wrong(bad.as_bytes()), format!("size '{bad}' is not a number"));
        }
        assert_eq!(wrong(b"a\xff\n"), r"size 'a\xff\n' is not a number");
        assert!(wrong(&[b'9'; 200]).len() < 100);
    }

    #[test]
    fn words_are_between_white_space() {
        assert_eq!(words(b"  a \t b ").collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(word(b"  ab c "), Some((&b"ab"[..], &b" c "[..])));
        assert_eq!(word(b"  "), None);
    }
}
