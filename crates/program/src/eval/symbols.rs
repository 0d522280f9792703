//! Tests of strings that are codes of symbols.
//!
//! ```text
//!   LIKE '%a%b%' ─► the codes of a block are searched for those that may lie on a place of "a" ─► before and behind them: is it "a"?
//!                   ─► behind it in the row: is there "b"?                                   no string is expanded
//!   other LIKE, = ─► the codes of a row: may they lie on up to 15 places of the literals? ─► expand ─► compare
//! ```
//!
//! A string that has a literal in it has each place of the literal in a symbol, or in a byte that stands for itself. So no string that
//! matches is passed over. A row with a byte that stands for itself is expanded.
//!
//! *Example.* `%special%` over symbols `special `, `spec`, `ial`, `re`, `c`. On place 3 ("c") may lie `special `, `spec` and `c`, since
//! around their "c" they agree with the literal; `re` lies nowhere. In the codes `re`, `spec`, `ial` the second is found; before its
//! "spec" nothing is asked for, and "ial" follows.

use lode_page::packed::BLOCK_ROWS;
use lode_page::symbols::{ESCAPE, SymbolTable, Symbols};

use crate::CompareOp;
use crate::like::Pattern;
use crate::plan::Test;

/// Places that are looked at in a row, all literals together: bits of a word, less one.
const PLACES_MAX: usize = 15;
/// Longest literal that codes are searched for.
const LITERAL_BYTES_MAX: usize = 64;
/// A byte stands for itself: the string is expanded.
const EXPAND: u16 = 1 << PLACES_MAX;

/// Bits of a test over all rows; false when it gains nothing from codes.
pub(super) fn test(t: &Test, s: &Symbols, active: &[u64], out: &mut [u64]) -> bool {
    let (literals, outside) = match t {
        Test::Like(p) => match p.sequence() {
            // What surrounds a code is compared at most once for each byte of a literal: short ones keep the time linear.
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

/// The blocks in which a row is asked for.
fn blocks(active: &[u64], rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let asked = active.chunks(BLOCK_ROWS / 64).enumerate().filter(|(_, words)| words.iter().any(|&w| w != 0));
    asked.map(move |(i, _)| i * BLOCK_ROWS..((i + 1) * BLOCK_ROWS).min(rows))
}

/// Bits of a pattern that asks for literals one behind the other.
fn contains(p: &Pattern, literals: &[&[u8]], s: &Symbols, active: &[u64], out: &mut [u64]) {
    out.fill(0);
    let mut counts = [0u32; 256];
    let some = blocks(active, s.rows()).next().unwrap_or(0..0);
    s.each(some, |_, codes| codes.iter().for_each(|&c| counts[usize::from(c)] += 1));
    let spelled: Vec<Spelled<'_>> = literals.iter().map(|l| Spelled::new(l, s.table(), &counts)).collect();
    let mut string = Vec::new();
    let mut row_matches = |codes: &[u8], hit: usize| {
        // Before the hit there is neither an anchor of the first literal nor an escape.
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

/// A place in a string: a code, and how many bytes of its symbol come before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    code: usize,
    byte: usize,
}

/// A literal, as codes may spell it.
struct Spelled<'a> {
    literal: &'a [u8],
    table: &'a SymbolTable,
    /// The place of the literal that is looked for: the one on which the fewest codes may lie.
    anchor: usize,
    /// Whether the symbol of a code may lie on it; true of an escape.
    may: Box<[bool; 256]>,
}

impl<'a> Spelled<'a> {
    /// `counts` says how often each code comes, about.
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

    /// The first code that may lie on the anchor.
    fn first(&self, codes: &[u8]) -> Option<usize> {
        let may = |&c: &u8| self.may[usize::from(c)];
        let (eights, rest) = codes.as_chunks::<8>();
        for (i, eight) in eights.iter().enumerate() {
            // Without a branch on each: few may.
            if eight.iter().fold(false, |any, c| any | may(c)) {
                return eight.iter().position(may).map(|at| i * 8 + at);
            }
        }
        rest.iter().position(may).map(|at| eights.len() * 8 + at)
    }

    /// Where the leftmost occurrence at or behind `from` ends, in the codes of a row, of those whose anchor is in a code from `code`
    /// on. No escape lies before that.
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

    /// Where the literal begins whose anchor lies at `at`, if what is before it is the literal's. No escape lies before it: it would
    /// have been found first.
    fn begins(&self, codes: &[u8], at: Place) -> Option<Place> {
        let (mut code, mut rest) = (at.code, &self.literal[..self.anchor]);
        let mut have = &self.table.symbol(codes[code])[..at.byte];
        loop {
            let both = rest.len().min(have.len());
            // Most differ in the first byte that is compared.
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

    /// Where the literal ends whose anchor lies at `at`, if what is behind it is the literal's.
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

/// A byte stands for itself where a literal may be: the string tells.
#[derive(Debug, PartialEq, Eq)]
struct Escaped;

/// Places in literals, and what may lie on them.
struct Places {
    /// For each code the places that its symbol may lie on.
    covers: [u16; 256],
    /// All places.
    all: u16,
}

impl Places {
    fn new(table: &SymbolTable, literals: &[&[u8]]) -> Self {
        let each = (PLACES_MAX / literals.len()).max(1);
        let (mut covers, mut all) = ([0; 256], 0u16);
        for literal in literals.iter().filter(|l| !l.is_empty()).take(PLACES_MAX) {
            // Evenly, the ends among them.
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

    /// Whether these codes may lie on all places.
    fn are_covered(&self, codes: &[u8]) -> bool {
        let covered = codes.iter().fold(0, |covered, &c| covered | self.covers[usize::from(c)]);
        covered & self.all == self.all || covered & EXPAND != 0
    }
}

/// Whether a symbol, somewhere over a literal and beyond, can lie on this place of it.
fn may_cover(symbol: &[u8], literal: &[u8], place: usize) -> bool {
    (0..symbol.len()).any(|at| {
        // Byte `at` of the symbol lies on the place; the others on what is beside it, as far as there is something.
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

    /// All ways in which codes may spell a text.
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

    /// Rows of words, some with bytes that no symbol has, and patterns that lie within words, across them, and in an order.
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
