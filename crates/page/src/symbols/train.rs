//! Trains the symbols of strings: finds the symbols that save the most bytes on a sample.
//!
//! ```text
//!   no symbols ─► write the sample ─► count pieces and pairs of adjacent pieces
//!              ─► the 255 best of both are the next symbols ─► repeat, five times
//! ```
//!
//! A piece is a symbol, or a byte without a symbol. The gain of a piece or pair is approximately the bytes that it
//! stood for in the whole sample.
//!
//! Source: FSST, section 4, and its code for the weight of single bytes. We differ: the sample is the same in every
//! run.

use super::matcher::{Matcher, word_of};
use super::table::{SYMBOL_BYTES_MAX, SYMBOLS_MAX, SymbolTable};

/// The part of the sample that each round reads, in 128ths. The early rounds find only the beginnings of symbols,
/// which needs few strings.
const ROUNDS: [usize; 5] = [8, 38, 68, 98, 128];
/// The most pieces. Numbers 0 to 255 are bytes; numbers from 256 on are symbols.
const PIECES: usize = 512;
/// The weight of a byte in the symbol table. In the last round, a symbol must gain more than the bytes of the largest
/// table entry (8 bytes and a length), times this weight.
const PLACE_BYTES: u64 = 2;

/// The gain of a symbol of a single byte, for each use.
const SINGLE_GAIN: u64 = 8;

/// A string of 1 to 8 bytes: its bytes as a number, and its length.
type Piece = (u64, u8);

/// Trains symbols on these strings. If `text` is set, each symbol is whole UTF-8 characters, so that codes can prove
/// that strings are UTF-8.
pub(super) fn train(sample: &[&[u8]], text: bool) -> SymbolTable {
    let mut table = SymbolTable::new(std::iter::empty());
    let mut pairs = vec![0u16; PIECES * PIECES];
    for part in ROUNDS {
        // Early rounds build characters from single bytes. So only the last round requires whole characters.
        let last = part == 128;
        let sample = &sample[..(sample.len() * part).div_ceil(128)];
        let may_be = |s: &[u8]| !(last && text) || std::str::from_utf8(s).is_ok();
        let least = if last { PLACE_BYTES * (SYMBOL_BYTES_MAX as u64 + 1) } else { 0 };
        table = better(sample, &table, &mut pairs, least, may_be);
    }
    table
}

/// Returns the table of the next round. Its symbols are the pieces and pairs of the greatest gain, among those that
/// gain more than `least` and that `may_be` allows. `pairs` must be zero, and is zero afterwards.
fn better(
    sample: &[&[u8]],
    table: &SymbolTable,
    pairs: &mut [u16],
    least: u64,
    may_be: impl Fn(&[u8]) -> bool,
) -> SymbolTable {
    let matcher = Matcher::new(table);
    let mut pieces = [0u32; PIECES];
    let mut met: Vec<u32> = Vec::new();
    for string in sample {
        let mut before: Option<usize> = None;
        let mut rest = *string;
        while let Some(&first) = rest.first() {
            let word = match rest.first_chunk() {
                Some(eight) => u64::from_le_bytes(*eight),
                None => word_of(rest),
            };
            let (piece, length) = match matcher.find(word, rest.len()) {
                Some(found) => (256 + usize::from(found.code), found.length),
                None => (usize::from(first), 1),
            };
            pieces[piece] += 1;
            // The first byte of a symbol is counted as well. Otherwise single bytes would lose their symbols, and
            // strings without longer symbols would need escapes.
            if length > 1 {
                pieces[usize::from(first)] += 1;
            }
            if let Some(before) = before {
                let count = &mut pairs[before * PIECES + piece];
                if *count == 0 {
                    met.push((before * PIECES + piece) as u32);
                }
                *count = count.saturating_add(1);
            }
            before = Some(piece);
            rest = &rest[length..];
        }
    }
    let string = |piece: usize| -> Piece {
        match piece.checked_sub(256) {
            None => (piece as u64, 1),
            Some(code) => (word_of(table.symbol(code as u8)), table.symbol(code as u8).len() as u8),
        }
    };
    let gain = |(_, length): Piece, count: u64| match length {
        // A byte without a symbol takes two bytes of codes, and costs the reader a branch.
        1 => count * SINGLE_GAIN,
        length => count * u64::from(length),
    };
    let mut candidates: Vec<(Piece, u64)> = (0..PIECES)
        .filter(|&p| pieces[p] > 0)
        .map(|p| (string(p), gain(string(p), pieces[p].into())))
        .collect();
    for at in met {
        let count = std::mem::take(&mut pairs[at as usize]);
        let (a, b) = (string(at as usize / PIECES), string(at as usize % PIECES));
        let length = a.1 + b.1;
        if usize::from(length) <= SYMBOL_BYTES_MAX {
            let joined = (a.0 | b.0 << (8 * a.1), length);
            candidates.push((joined, gain(joined, count.into())));
        }
    }
    let mut candidates = summed(&candidates);
    candidates.retain(|((word, length), gain)| {
        *gain > least && may_be(&word.to_le_bytes()[..usize::from(*length)])
    });
    // The order is the same in every run: by gain, then length, then bytes.
    let order = |&((word, length), gain): &(Piece, u64)| (std::cmp::Reverse((gain, length)), word);
    if candidates.len() > SYMBOLS_MAX {
        candidates.select_nth_unstable_by_key(SYMBOLS_MAX, order);
        candidates.truncate(SYMBOLS_MAX);
    }
    candidates.sort_unstable_by_key(order);
    let bytes: Vec<_> =
        candidates.iter().map(|((word, length), _)| (word.to_le_bytes(), usize::from(*length))).collect();
    SymbolTable::new(bytes.iter().map(|(word, length)| &word[..*length]))
}

/// The candidates, each once, with the sum of its gains. Sorting them would take most of the time of a round.
fn summed(candidates: &[(Piece, u64)]) -> Vec<(Piece, u64)> {
    let slots = (2 * candidates.len()).next_power_of_two();
    // Places in `sums`, plus 1.
    let mut places = vec![0u32; slots];
    let mut sums: Vec<(Piece, u64)> = Vec::with_capacity(candidates.len());
    for &(piece, gain) in candidates {
        let mixed = (piece.0 ^ u64::from(piece.1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (mixed >> 32) as usize % slots;
        loop {
            match places[slot] {
                0 => {
                    sums.push((piece, gain));
                    places[slot] = sums.len() as u32;
                    break;
                }
                place if sums[place as usize - 1].0 == piece => {
                    sums[place as usize - 1].1 += gain;
                    break;
                }
                _ => slot = (slot + 1) % slots,
            }
        }
    }
    sums
}
