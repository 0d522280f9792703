//! The symbol table of a column of strings: up to 255 byte strings of 1 to 8 bytes. One code stands for one symbol.
//!
//! ```text
//!   | symbols 1 | 0 (7 bytes) | length of each symbol 1 | the symbols' bytes, end to end |       on the medium
//! ```
//!
//! The code of a symbol is its number in the table. Code 255, the escape, means that the next byte stands for itself.
//! An escape at the end of a string stands for nothing.
//!
//! Source: FSST (Boncz, Neumann and Leis, PVLDB 13, 2020).

/// The most bytes of a symbol.
pub(crate) const SYMBOL_BYTES_MAX: usize = 8;
/// The most symbols of a table.
pub(crate) const SYMBOLS_MAX: usize = 255;
/// The escape code. The byte after it stands for itself.
pub const ESCAPE: u8 = 255;
const HEADER_BYTES: usize = 8;

/// The symbols of a column, by code.
#[derive(Clone, Debug)]
pub struct SymbolTable {
    /// Eight bytes for each code: the symbol, then zeroes.
    words: Box<[[u8; SYMBOL_BYTES_MAX]; 256]>,
    /// Bytes of each symbol; 0 for codes without a symbol.
    lengths: Box<[u8; 256]>,
    count: usize,
}

impl SymbolTable {
    /// Makes a table of these symbols.
    ///
    /// # Panics
    /// When there are more than [`SYMBOLS_MAX`] symbols, or a symbol is empty or too long.
    pub(crate) fn new<'a>(symbols: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut words, mut lengths, mut count) = (Box::new([[0; 8]; 256]), Box::new([0; 256]), 0);
        for (code, s) in symbols.enumerate() {
            assert!(
                code < SYMBOLS_MAX && (1..=SYMBOL_BYTES_MAX).contains(&s.len()),
                "{s:?} as symbol {code}"
            );
            words[code][..s.len()].copy_from_slice(s);
            lengths[code] = s.len() as u8;
            count += 1;
        }
        Self { words, lengths, count }
    }

    /// Makes a table of these symbols, for tests of code that reads codes.
    ///
    /// # Panics
    /// When there are more than 255 symbols, or a symbol is empty or longer than 8 bytes.
    #[doc(hidden)]
    pub fn of<'a>(symbols: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::new(symbols)
    }

    /// Parses the table at the start of `bytes`. Returns the table and the bytes that it takes.
    ///
    /// # Errors
    /// Returns what is wrong with the table.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Self, usize), &'static str> {
        let short = "the bytes end within the symbols";
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(short)?;
        if header[1..] != [0; HEADER_BYTES - 1] {
            return Err("unknown flags of symbols");
        }
        let count = usize::from(header[0]);
        let (lengths, mut rest) = rest.split_at_checked(count).ok_or(short)?;
        let mut symbols = Vec::with_capacity(count);
        for &length in lengths {
            if !(1..=SYMBOL_BYTES_MAX as u8).contains(&length) {
                return Err("a symbol of no known length");
            }
            let (symbol, left) = rest.split_at_checked(length.into()).ok_or(short)?;
            symbols.push(symbol);
            rest = left;
        }
        Ok((Self::new(symbols.iter().copied()), bytes.len() - rest.len()))
    }

    /// Appends the table as [`SymbolTable::parse`] reads it.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(self.count as u8);
        out.extend([0; HEADER_BYTES - 1]);
        out.extend_from_slice(&self.lengths[..self.count]);
        (0..self.count).for_each(|code| out.extend_from_slice(self.symbol(code as u8)));
    }

    /// Returns the number of symbols. Every code below it has a symbol.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the table has no symbols.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the symbol of a code; an empty slice if the code has none.
    pub fn symbol(&self, code: u8) -> &[u8] {
        &self.words[usize::from(code)][..self.lengths[usize::from(code)].into()]
    }

    /// Writes the string of these codes to `out` from `at` on. Returns the end of the string. Up to 8 bytes after the
    /// end are overwritten.
    ///
    /// # Panics
    /// When `out` has room for fewer than 8 bytes a code.
    #[inline]
    pub(crate) fn expand(&self, codes: &[u8], out: &mut [u8], mut at: usize) -> usize {
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                let Some(&byte) = codes.next() else { break };
                out[at] = byte;
                at += 1;
                continue;
            }
            let to: &mut [u8; 8] = (&mut out[at..at + 8]).try_into().expect("eight bytes");
            *to = self.words[usize::from(code)];
            at += usize::from(self.lengths[usize::from(code)]);
        }
        at
    }

    /// Returns whether each symbol is whole UTF-8 characters.
    pub(crate) fn is_of_text(&self) -> bool {
        (0..self.count).all(|code| std::str::from_utf8(self.symbol(code as u8)).is_ok())
    }
}

/// Returns whether all escaped bytes in these codes are ASCII. If so, they are whole characters wherever the strings
/// end.
pub(crate) fn escapes_are_ascii(codes: &[u8]) -> bool {
    memchr::memchr_iter(ESCAPE, codes).all(|at| codes.get(at + 1).is_none_or(u8::is_ascii))
}

/// Returns whether the escaped bytes in the codes of one string are whole UTF-8 characters.
pub(crate) fn escapes_are_text(codes: &[u8]) -> bool {
    let mut character = Vec::new();
    let mut codes = codes.iter();
    loop {
        // Consecutive escapes may spell one character. It must be complete before a symbol or the end of the string.
        match codes.next() {
            Some(&ESCAPE) => character.extend(codes.next()),
            other => {
                if std::str::from_utf8(&character).is_err() {
                    return false;
                }
                character.clear();
                if other.is_none() {
                    return true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(symbols: &[&str]) -> SymbolTable {
        SymbolTable::new(symbols.iter().map(|s| s.as_bytes()))
    }

    fn expanded(t: &SymbolTable, codes: &[u8]) -> Vec<u8> {
        let mut out = vec![0; codes.len() * 8 + 8];
        let end = t.expand(codes, &mut out, 0);
        out.truncate(end);
        out
    }

    #[test]
    fn codes_stand_for_symbols_and_escapes_for_bytes() {
        let t = table(&["special ", "re", "quests"]);
        assert_eq!(expanded(&t, &[0, 1, 2, ESCAPE, b'!']), b"special requests!");
        assert_eq!(expanded(&t, &[1, ESCAPE]), b"re");
        assert_eq!(expanded(&t, &[1, 77]), b"re");
    }

    #[test]
    fn tables_come_back_and_lies_are_refused() {
        let t = table(&["a", "bc", "12345678"]);
        let mut bytes = Vec::new();
        t.put(&mut bytes);
        bytes.push(9);
        let (back, used) = SymbolTable::parse(&bytes).unwrap();
        assert_eq!((back.len(), used), (3, bytes.len() - 1));
        assert!((0..3).all(|code| back.symbol(code) == t.symbol(code)));
        for (at, to) in [(0, 200), (1, 1), (8, 0), (8, 9)] {
            let mut lie = bytes.clone();
            lie[at] = to;
            assert!(SymbolTable::parse(&lie).is_err(), "byte {at} is {to}");
        }
        assert!(SymbolTable::parse(&bytes[..used - 1]).is_err());
    }

    #[test]
    fn text_is_known_without_expanding_it() {
        assert!(table(&["gr", "ö", "ß"]).is_of_text());
        assert!(!SymbolTable::new([&[0xc3][..]].into_iter()).is_of_text());
        assert!(escapes_are_ascii(&[0, 1, 2, ESCAPE, b'e', 3, ESCAPE]));
        assert!(!escapes_are_ascii(&[0, ESCAPE, 0xc3, ESCAPE, 0xb6]));
        assert!(escapes_are_text(&[0, ESCAPE, 0xc3, ESCAPE, 0xb6, 1, ESCAPE]));
        assert!(!escapes_are_text(&[0, ESCAPE, 0xc3, 1, ESCAPE, 0xb6]));
        assert!(!escapes_are_text(&[ESCAPE, 0xc3]));
    }
}
