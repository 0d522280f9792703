//! Tests of strings that are codes of symbols: codes tell which strings may match, and only these are expanded.
//!
//! ```text
//!   literals of the pattern ─► up to 15 places in them ─► for each code the places that its symbol may cover ─► 256 words of bits
//!   a row: OR of the words of its codes ─► all places covered? ─► expand ─► compare
//! ```
//!
//! A string that has a literal in it has each place of the literal covered by a symbol, or by a byte that stands for itself (whose code
//! covers all). So no string that matches is passed over. Long symbols make most strings that do not match fail at some place.
//!
//! *Example.* `%special%` over symbols `special `, `spec`, `ial`, `re`, `c`. Place 3 ("c") may be covered by `special `, `spec` and `c`,
//! since around their "c" they agree with the literal; `re` covers nothing. A row of codes `re`, `ial` is not expanded.

use lode_page::symbols::{ESCAPE, SymbolTable, Symbols};

use crate::CompareOp;
use crate::plan::Test;

/// Places that are looked at, all literals together: bits of a word, less one.
const PLACES_MAX: usize = 15;

/// Bits of a test over all rows; false when it gains nothing from codes.
pub(super) fn test(t: &Test, s: &Symbols, active: &[u64], out: &mut [u64]) -> bool {
    let (literals, outside) = match t {
        Test::Like(p) => (p.literals(), false),
        Test::Bytes(CompareOp::Eq, b) => (vec![&**b], false),
        Test::Bytes(CompareOp::NotEq, b) => (vec![&**b], true),
        _ => return false,
    };
    if literals.iter().all(|l| l.is_empty()) {
        return false;
    }
    let (covers, all) = places(s.table(), &literals);
    let matches = |string: &[u8]| match t {
        Test::Like(p) => p.matches(string),
        Test::Bytes(_, b) => *string == **b,
        _ => unreachable!("the others were sent back"),
    };
    out.fill(if outside { !0 } else { 0 });
    let mut string = Vec::new();
    for (i, active) in active.chunks(lode_page::packed::BLOCK_ROWS / 64).enumerate() {
        if active.iter().all(|&w| w == 0) {
            continue;
        }
        let first = i * lode_page::packed::BLOCK_ROWS;
        s.each(first..(first + active.len() * 64).min(s.rows()), |row, codes| {
            let covered = codes.iter().fold(0, |covered, &c| covered | covers[usize::from(c)]);
            if covered & all == all || covered & EXPAND != 0 {
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

/// A byte stands for itself: the string is expanded.
const EXPAND: u16 = 1 << PLACES_MAX;

/// For each code the places that its symbol may cover, and all places.
fn places(table: &SymbolTable, literals: &[&[u8]]) -> ([u16; 256], u16) {
    let mut covers = [0; 256];
    let mut count = 0;
    let each = (PLACES_MAX / literals.len()).max(1);
    for literal in literals.iter().take(PLACES_MAX) {
        // Evenly, the ends among them.
        let places = each.min(literal.len());
        for i in 0..places {
            let place = i * (literal.len() - 1) / (places - 1).max(1);
            for code in 0..table.len() {
                if may_cover(table.symbol(code as u8), literal, place) {
                    covers[code] |= 1 << count;
                }
            }
            count += 1;
        }
    }
    covers[usize::from(ESCAPE)] = EXPAND;
    let mut all = 0;
    (0..count).for_each(|bit| all |= 1 << bit);
    (covers, all)
}

/// Whether a symbol, somewhere over a literal and beyond, can cover this place of it.
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
}
