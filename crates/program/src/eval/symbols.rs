//! Tests of strings that are stored as codes of symbols.
//!
//! ```text
//!   LIKE '%a%b%' ─► search the codes of a block for symbols that may cover the anchor, one position of "a"
//!                ─► compare the symbols around the hit with the rest of "a"
//!                ─► search the later codes of the row for "b" likewise             no string is expanded
//!   other LIKE, = ─► may the codes of a row cover up to 15 positions of the literals? ─► expand ─► compare
//! ```
//!
//! A string that contains a literal has each position of the literal either in a symbol or in an escaped byte. So the
//! search misses no string that matches. A row with an escaped byte is expanded, unless the row is decided before
//! that byte.
//!
//! *Example.* `%special%` is searched for with the symbols `special `, `spec`, `ial`, `re` and `c`. The symbols
//! `special `, `spec` and `c` may cover position 3, the "c", since they agree with the literal around it. The symbol
//! `re` covers no position. In the codes `re`, `spec`, `ial` the search finds the second code. Nothing of the literal
//! is before "spec", and "ial" follows it, so the row matches.

use lode_page::packed::BLOCK_ROWS;
use lode_page::symbols::{ESCAPE, SymbolTable, Symbols};

use crate::CompareOp;
use crate::like::Pattern;
use crate::plan::Test;

/// The most positions that are checked in a row, of all literals together. Each takes a bit of a 16-bit word, whose
/// last bit is [`EXPAND`].
const PLACES_MAX: usize = 15;
/// The most bytes of a literal that codes are searched for.
const LITERAL_BYTES_MAX: usize = 64;
/// The bit of the escape code: a string with escaped bytes is expanded.
const EXPAND: u16 = 1 << PLACES_MAX;

/// Writes one bit for each row to `out`: whether the row passes the test. Returns false if codes do not help the
/// test; `out` is then unchanged.
pub(super) fn test(t: &Test, s: &Symbols, active: &[u64], out: &mut [u64]) -> bool {
    let (literals, outside) = match t {
        Test::Like(p) => match p.sequence() {
            // Each code may be compared once for each byte of a literal. Short literals keep the time linear.
            Some(literals) if literals.iter().all(|l| (1..=LITERAL_BYTES_MAX).contains(&l.len())) => {
                contains(p, &literals, s, active, out);
                return true;
            }
            _ => (p.literals(), false),
        },
        Test::Bytes(CompareOp::Eq, b) => (vec![&**b], false),
        Test::Bytes(CompareOp::NotEq, b) => (vec![&**b], true),
        _ => return false,
    };
    if literals.iter().all(|l| l.is_empty()) {
        return false;
    }
    let places = Places::new(s.table(), &literals);
    let matches = |string: &[u8]| match t {
        Test::Like(p) => p.matches(string),
        Test::Bytes(_, b) => *string == **b,
        _ => unreachable!("the others were sent back"),
    };
    out.fill(if outside { !0 } else { 0 });
    let mut string = Vec::new();
    for rows in blocks(active, s.rows()) {
        s.each(rows, |row, codes| {
            if places.are_covered(codes) {
                string.clear();
                s.append(codes, &mut string);
                if matches(&string) {
                    out[row / 64] ^= 1 << (row % 64);
                }
            }
        });
    }
    true
}

/// Returns the row ranges of the blocks that have an active row.
fn blocks(active: &[u64], rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let asked = active.chunks(BLOCK_ROWS / 64).enumerate().filter(|(_, words)| words.iter().any(|&w| w != 0));
    asked.map(move |(i, _)| i * BLOCK_ROWS..((i + 1) * BLOCK_ROWS).min(rows))
}

/// Tests a pattern that requires literals one after another, with anything between them.
fn contains(p: &Pattern, literals: &[&[u8]], s: &Symbols, active: &[u64], out: &mut [u64]) {
    out.fill(0);
    let mut counts = [0u32; 256];
    let some = blocks(active, s.rows()).next().unwrap_or(0..0);
    s.each(some, |_, codes| codes.iter().for_each(|&c| counts[usize::from(c)] += 1));
    let spelled: Vec<Spelled<'_>> = literals.iter().map(|l| Spelled::new(l, s.table(), &counts)).collect();
    let mut string = Vec::new();
    let mut row_matches = |codes: &[u8], hit: usize| {
        // No code before the hit covers the anchor of the first literal, and none is an escape.
        let (mut from, mut code) = (Place::default(), hit);
        for literal in &spelled {
            match literal.end_in(codes, from, code) {
                Ok(Some(end)) => (from, code) = (end, end.code),
                Ok(None) => return false,
                Err(Escaped) => {
                    string.clear();
                    s.append(codes, &mut string);
                    return p.matches(&string);
                }
            }
        }
        true
    };
    for rows in blocks(active, s.rows()) {
        s.each_block(rows, |first, codes, ends| {
            let (mut from, mut row) = (0, 0);
            while let Some(hit) = spelled[0].first(&codes[from..]) {
                while ends[row] as usize <= from + hit {
                    row += 1;
                }
                let start = if row == 0 { 0 } else { ends[row - 1] as usize };
                let hit = from + hit - start;
                from = ends[row] as usize;
                let row = first + row;
                if row_matches(&codes[start..from], hit) {
                    out[row / 64] |= 1 << (row % 64);
                }
            }
        });
    }
}

/// A position in an encoded string: the index of a code, and the bytes of its symbol before the position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    code: usize,
    byte: usize,
}

/// A literal, and the codes that may spell its anchor.
struct Spelled<'a> {
    literal: &'a [u8],
    table: &'a SymbolTable,
    /// The position of the literal that the search looks for: the one that the fewest codes may cover.
    anchor: usize,
    /// Whether the symbol of a code may cover the anchor; true for the escape.
    may: Box<[bool; 256]>,
}

impl<'a> Spelled<'a> {
    /// Prepares a search for `literal`. `counts` has the approximate frequency of each code.
    fn new(literal: &'a [u8], table: &'a SymbolTable, counts: &[u32; 256]) -> Self {
        let covering = |anchor: usize| {
            (0..table.len()).filter(move |&c| may_cover(table.symbol(c as u8), literal, anchor))
        };
        let often = |&anchor: &usize| covering(anchor).map(|c| 1 + u64::from(counts[c])).sum::<u64>();
        let anchor = (0..literal.len()).min_by_key(often).expect("a literal is not empty");
        let mut may = Box::new([false; 256]);
        covering(anchor).for_each(|code| may[code] = true);
        may[usize::from(ESCAPE)] = true;
        Self { literal, table, anchor, may }
    }

    /// Returns the index of the first code that may cover the anchor.
    fn first(&self, codes: &[u8]) -> Option<usize> {
        let may = |&c: &u8| self.may[usize::from(c)];
        let (eights, rest) = codes.as_chunks::<8>();
        for (i, eight) in eights.iter().enumerate() {
            // Few codes may cover the anchor, so eight codes are checked with one branch.
            if eight.iter().fold(false, |any, c| any | may(c)) {
                return eight.iter().position(may).map(|at| i * 8 + at);
            }
        }
        rest.iter().position(may).map(|at| eights.len() * 8 + at)
    }

    /// Returns the end of the leftmost occurrence of the literal in the codes of a row. It starts at `from` or later,
    /// and its anchor is in code `code` or a later one. No code before `code` may be an escape that the occurrence
    /// could touch.
    fn end_in(&self, codes: &[u8], from: Place, mut code: usize) -> Result<Option<Place>, Escaped> {
        while let Some(hit) = codes.get(code..).and_then(|codes| self.first(codes)) {
            code += hit;
            if codes[code] == ESCAPE {
                return Err(Escaped);
            }
            let symbol = self.table.symbol(codes[code]);
            for byte in (0..symbol.len()).filter(|&byte| symbol[byte] == self.literal[self.anchor]) {
                let at = Place { code, byte };
                if let Some(end) = self.ends(codes, at)?
                    && self.begins(codes, at).is_some_and(|start| start >= from)
                {
                    return Ok(Some(end));
                }
            }
            code += 1;
        }
        Ok(None)
    }

    /// Returns the start of the literal whose anchor is at `at`, if the bytes before the anchor agree. No escape is
    /// before `at`, since the search would have stopped there.
    fn begins(&self, codes: &[u8], at: Place) -> Option<Place> {
        let (mut code, mut rest) = (at.code, &self.literal[..self.anchor]);
        let mut have = &self.table.symbol(codes[code])[..at.byte];
        loop {
            let both = rest.len().min(have.len());
            // Most candidates differ in the first byte that is compared.
            if rest.iter().rev().zip(have.iter().rev()).any(|(a, b)| a != b) {
                return None;
            }
            rest = &rest[..rest.len() - both];
            if rest.is_empty() {
                return Some(Place { code, byte: have.len() - both });
            }
            code = code.checked_sub(1)?;
            have = self.table.symbol(codes[code]);
        }
    }

    /// Returns the end of the literal whose anchor is at `at`, if the bytes from the anchor on agree.
    fn ends(&self, codes: &[u8], at: Place) -> Result<Option<Place>, Escaped> {
        let (mut code, mut byte, mut rest) = (at.code, at.byte, &self.literal[self.anchor..]);
        loop {
            let Some(&c) = codes.get(code) else { return Ok(None) };
            if c == ESCAPE {
                return Err(Escaped);
            }
            let have = &self.table.symbol(c)[byte..];
            let both = rest.len().min(have.len());
            if rest.iter().zip(have).any(|(a, b)| a != b) {
                return Ok(None);
            }
            rest = &rest[both..];
            if rest.is_empty() {
                return Ok(Some(Place { code, byte: byte + both }));
            }
            (code, byte) = (code + 1, 0);
        }
    }
}

/// An escaped byte may be part of the literal, so the string must be expanded.
#[derive(Debug, PartialEq, Eq)]
struct Escaped;

/// Positions in literals, and the symbols that may cover them.
struct Places {
    /// For each code, the positions that its symbol may cover.
    covers: [u16; 256],
    /// The bits of all positions.
    all: u16,
}

impl Places {
    fn new(table: &SymbolTable, literals: &[&[u8]]) -> Self {
        let each = (PLACES_MAX / literals.len()).max(1);
        let (mut covers, mut all) = ([0; 256], 0u16);
        for literal in literals.iter().filter(|l| !l.is_empty()).take(PLACES_MAX) {
            // The positions are spaced evenly and include both ends of the literal.
            let count = each.min(literal.len());
            for i in 0..count {
                let (place, bit) = (i * (literal.len() - 1) / (count - 1).max(1), all + 1);
                all |= bit;
                for (code, covers) in covers.iter_mut().enumerate().take(table.len()) {
                    if may_cover(table.symbol(code as u8), literal, place) {
                        *covers |= bit;
                    }
                }
            }
        }
        covers[usize::from(ESCAPE)] = EXPAND;
        Self { covers, all }
    }

    /// Returns whether these codes may cover all positions, or contain an escape.
    fn are_covered(&self, codes: &[u8]) -> bool {
        let covered = codes.iter().fold(0, |covered, &c| covered | self.covers[usize::from(c)]);
        covered & self.all == self.all || covered & EXPAND != 0
    }
}

/// Returns whether the symbol can cover position `place` of the literal. The symbol may extend beyond either end of
/// the literal.
fn may_cover(symbol: &[u8], literal: &[u8], place: usize) -> bool {
    (0..symbol.len()).any(|at| {
        // Byte `at` of the symbol is at `place`. Its other bytes must agree with the literal wherever they overlap
        // it.
        symbol.iter().enumerate().all(|(i, byte)| {
            let on = (place + i).checked_sub(at);
            on.and_then(|on| literal.get(on)).is_none_or(|l| l == byte)
        })
    })
}

#[cfg(test)]
mod tests {
    use lode_base::{CommitNo, ExtentId, TableId};
    use lode_page::{
        ColumnBuilder, DataType, EncodingChoice, PageKind, PageMeta, Value, Values, decode_page, encode_as,
    };

    use super::*;

    #[test]
    fn symbols_cover_what_they_agree_with() {
        let check = |symbol: &str, place, expected| {
            assert_eq!(may_cover(symbol.as_bytes(), b"special", place), expected, "{symbol} at {place}");
        };
        check("special ", 3, true);
        check("a special"[1..].split_at(8).0, 3, true);
        check("spec", 3, true);
        check("spec", 4, false);
        check("c", 3, true);
        check("re", 3, false);
        check("cc", 3, false);
        check("xs", 0, true);
        check("xs", 1, false);
        check("l d", 6, true);
    }

    /// Returns all sequences of codes that spell a text.
    fn spellings(table: &SymbolTable, text: &[u8]) -> Vec<Vec<u8>> {
        if text.is_empty() {
            return vec![Vec::new()];
        }
        let codes = (0..table.len() as u8).filter(|&c| text.starts_with(table.symbol(c)));
        let all = codes.flat_map(|c| {
            spellings(table, &text[table.symbol(c).len()..]).into_iter().map(move |mut rest| {
                rest.insert(0, c);
                rest
            })
        });
        all.collect()
    }

    #[test]
    fn literals_are_found_however_they_are_spelled() {
        let symbols = ["a", "b", "ab", "ba", "aab", "bab", "abab"];
        let table = SymbolTable::of(symbols.iter().map(|s| s.as_bytes()));
        let check = |text: &str, literals: &[&str]| {
            let mut at = 0;
            let expected = literals.iter().all(|l| match text[at..].find(l) {
                Some(found) => {
                    at += found + l.len();
                    true
                }
                None => false,
            });
            for codes in spellings(&table, text.as_bytes()) {
                let spelled: Vec<_> =
                    literals.iter().map(|l| Spelled::new(l.as_bytes(), &table, &[0; 256])).collect();
                let end = |from, l: &Spelled<'_>| l.end_in(&codes, from, from.code).expect("no escapes");
                let found = spelled.iter().try_fold(Place::default(), end);
                assert_eq!(found.is_some(), expected, "{literals:?} in {text} as {codes:?}");
                if found.is_some() {
                    assert!(spelled[0].first(&codes).is_some());
                }
            }
        };
        for text in ["", "a", "ab", "abab", "aabbab", "babaabab", "bbbaaab", "abaabab"] {
            for first in ["a", "ab", "ba", "aab", "bab", "abab", "bb"] {
                check(text, &[first]);
                for second in ["a", "b", "ba", "bab"] {
                    check(text, &[first, second]);
                }
            }
        }
    }

    /// Checks rows of words, some with bytes that have no symbol. The patterns are within words, across words, and
    /// sequences.
    #[test]
    fn rows_match_as_their_strings_do() {
        let words =
            ["special", "requests", "packages", "sleep", "carefully", "pecial", "quests", "ssss", "é"];
        let mut state = 7u64;
        let mut draw = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let text = |draw: &mut dyn FnMut(usize) -> usize| {
            let mut text = String::new();
            for _ in 0..draw(9) {
                text += words[draw(words.len())];
                text += [" ", "", ", ", "\u{1f642}", "#"][[0, 0, 0, 1, 2, 0, 3, 4][draw(8)]];
            }
            text
        };
        let strings: Vec<String> = (0..5000).map(|_| text(&mut draw)).collect();
        let mut builder = ColumnBuilder::new(DataType::Text);
        strings.iter().for_each(|s| builder.push(&Value::text(s)).unwrap());
        let lpid = ExtentId::new(1).unwrap().page(0);
        let (table, kind, commit) = (TableId::new(1), PageKind::Column, CommitNo::new(0));
        let meta = PageMeta { lpid, table, schema_version: 1, kind, commit };
        let fsst = EncodingChoice::named("fsst").unwrap();
        let page = encode_as(&meta, &[builder.finish()], &[fsst], usize::MAX).unwrap();
        let column = decode_page(lpid, &page).unwrap().1.remove(0);
        let Values::Symbols(symbols) = column.values() else { panic!("they are symbols") };
        let check = |t: &Test, expected: &dyn Fn(&str) -> bool| {
            let mut out = vec![0; strings.len().div_ceil(64)];
            if !test(t, symbols, &vec![!0; out.len()], &mut out) {
                return;
            }
            for (row, s) in strings.iter().enumerate() {
                assert_eq!(out[row / 64] >> (row % 64) & 1 == 1, expected(s), "{t:?} of {s:?}");
            }
        };
        for pattern in [
            "%special%",
            "%special%requests%",
            "%requests%special%",
            "%l r%",
            "%ss%ss%",
            "%s%s%s%",
            "%é%",
            "%#%",
            "%\u{1f642}%",
            "%pecial quests%",
            "special%",
            "%sleep",
            "%special%sleep",
            "%a%e%i%",
            "%x%",
            "special",
            "%ecia_ %",
            "%",
        ] {
            let like = Pattern::new(pattern);
            check(&Test::Like(like.clone()), &|s| like.matches(s.as_bytes()));
        }
        for s in [&strings[17], &strings[400], "special requests ", ""] {
            check(&Test::Bytes(CompareOp::Eq, s.as_bytes().into()), &|other| other == s);
            check(&Test::Bytes(CompareOp::NotEq, s.as_bytes().into()), &|other| other != s);
        }
    }
}
