//! Writes strings as codes. At each position the matcher picks the longest of its symbols that fits.
//!
//! ```text
//!   next 8 bytes ─┬─ hash of the first 3 ─► slot: a symbol of 3 to 8 bytes? ─┐
//!                 └─ first 2 ─► the symbol of 2 bytes, or of 1, or none ─────┴─► code
//! ```
//!
//! A slot holds one symbol. If several symbols hash to the same slot, the slot keeps the one that comes first in the
//! table, which has the greatest gain. The matcher never uses the others.
//! The position of a code depends on the length of the symbol before it. So [`Matcher::write_all`] writes the strings
//! of several parts of a column in turns. The CPU then overlaps the lookups of these parts.

use super::table::{ESCAPE, SYMBOL_BYTES_MAX, SymbolTable};

const SLOTS: usize = 2048;
/// The entry of a byte without a symbol: the escape code, and a length of 1.
const NONE: u16 = 1 << 8 | ESCAPE as u16;
/// Parts of a column that are written in turns.
const LANES: usize = 4;

#[derive(Clone, Copy)]
struct Slot {
    word: u64,
    /// Bits of `word` that are not bits of the symbol.
    beyond: u8,
    length: u8,
    code: u8,
}

/// A slot without a symbol. Its length is greater than that of any symbol.
const FREE: Slot = Slot { word: 1, beyond: 0, length: u8::MAX, code: 0 };

/// A symbol table, indexed for writing.
pub(super) struct Matcher {
    slots: Box<[Slot; SLOTS]>,
    /// Length and code of the symbol of 1 or 2 bytes, indexed by the next two bytes.
    short: Vec<u16>,
    /// Length and code of the symbol of 1 byte, indexed by the next byte. It serves the last byte of a string.
    single: [u16; 256],
}

/// A symbol that fits at a position.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) code: u8,
    pub(super) length: usize,
}

fn slot_of(word: u64) -> usize {
    let three = word & 0xff_ffff;
    (three.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize % SLOTS
}

/// Returns the bytes of a symbol as a number, with the first byte lowest.
pub(super) fn word_of(symbol: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..symbol.len()].copy_from_slice(symbol);
    u64::from_le_bytes(word)
}

impl Matcher {
    /// Makes the matcher of a table in which symbols of greater gain come first.
    pub(super) fn new(table: &SymbolTable) -> Self {
        let mut m = Self { slots: Box::new([FREE; SLOTS]), short: vec![NONE; 1 << 16], single: [NONE; 256] };
        let entry = |code: usize, length: usize| (length << 8 | code) as u16;
        for code in 0..table.len() {
            if let [byte] = *table.symbol(code as u8) {
                m.single[usize::from(byte)] = entry(code, 1);
                (0..256).for_each(|next| m.short[next << 8 | usize::from(byte)] = entry(code, 1));
            }
        }
        for code in 0..table.len() {
            let symbol = table.symbol(code as u8);
            match symbol.len() {
                1 => {}
                2 => m.short[word_of(symbol) as usize] = entry(code, 2),
                length => {
                    let word = word_of(symbol);
                    let slot = &mut m.slots[slot_of(word)];
                    if slot.length == FREE.length {
                        let beyond = 64 - 8 * length as u8;
                        *slot = Slot { word, beyond, length: length as u8, code: code as u8 };
                    }
                }
            }
        }
        m
    }

    /// Returns length and code of the longest symbol at the start of `word`, or [`NONE`]. The string has `left` more
    /// bytes; the bytes of `word` after them are 0. Which of the two tables has the symbol is unpredictable, so the
    /// code selects without a branch.
    #[inline]
    fn entry(&self, word: u64, left: usize) -> u16 {
        let slot = &self.slots[slot_of(word)];
        let long = u16::from(slot.length) << 8 | u16::from(slot.code);
        // A free slot is longer than any symbol, so it never fits.
        let is_there = usize::from(slot.length) <= left.min(SYMBOL_BYTES_MAX);
        let fits = u16::from((word ^ slot.word) << slot.beyond == 0) & u16::from(is_there);
        let mut short = self.short[word as usize & 0xffff];
        if left == 1 {
            short = self.single[word as usize & 0xff];
        }
        let mask = fits.wrapping_neg();
        long & mask | short & !mask
    }

    /// Returns the longest symbol at the start of `word`, or `None`. The string has `left` more bytes.
    #[inline]
    pub(super) fn find(&self, word: u64, left: usize) -> Option<Found> {
        let entry = self.entry(word, left);
        (entry != NONE).then_some(Found { code: entry as u8, length: usize::from(entry >> 8) })
    }

    /// Appends the codes of one string.
    pub(super) fn write(&self, string: &[u8], out: &mut Vec<u8>) {
        let mut lane = Lane { rows: &[0, string.len() as u32], ..Lane::default() };
        lane.to.resize(2 * string.len() + 2, 0);
        while lane.step(self, string) {}
        out.extend_from_slice(&lane.to[..lane.written]);
    }

    /// Returns the codes of all strings, and the number of bytes of codes of each string. `offsets` are those of the
    /// strings in `data`.
    pub(super) fn write_all(&self, offsets: &[u32], data: &[u8]) -> (Vec<u8>, Vec<u32>) {
        let rows = offsets.len() - 1;
        let mut lanes: [Lane<'_>; LANES] = std::array::from_fn(|i| {
            let rows = &offsets[rows * i / LANES..=rows * (i + 1) / LANES];
            let at = rows[0] as usize;
            // Each byte of a string takes at most two bytes of codes.
            let most = 2 * (rows[rows.len() - 1] as usize - at) + 2;
            Lane { rows, at, to: vec![0; most], lengths: Vec::with_capacity(rows.len()), ..Lane::default() }
        });
        // The lanes take turns while all of them have strings left. Then each lane writes its rest.
        while lanes.iter_mut().fold(true, |all, lane| all & lane.step(self, data)) {}
        lanes.iter_mut().for_each(|lane| while lane.step(self, data) {});
        let mut codes = Vec::with_capacity(lanes.iter().map(|lane| lane.written).sum());
        lanes.iter().for_each(|lane| codes.extend_from_slice(&lane.to[..lane.written]));
        (codes, lanes.into_iter().flat_map(|lane| lane.lengths).collect())
    }
}

/// The state of writing one part of a column.
#[derive(Default)]
struct Lane<'a> {
    /// The offsets of the strings that are left.
    rows: &'a [u32],
    /// The position in the data of the next symbol.
    at: usize,
    to: Vec<u8>,
    written: usize,
    /// Bytes of codes written before the current string.
    before: usize,
    lengths: Vec<u32>,
}

impl Lane<'_> {
    /// Writes one code, or goes on to the next string. Returns false if no string is left.
    #[inline]
    fn step(&mut self, m: &Matcher, data: &[u8]) -> bool {
        let [_, end, ..] = *self.rows else { return false };
        let left = end as usize - self.at;
        if left == 0 {
            self.lengths.push((self.written - self.before) as u32);
            self.before = self.written;
            self.rows = &self.rows[1..];
            return true;
        }
        let word = match data[self.at..].first_chunk() {
            Some(eight) => u64::from_le_bytes(*eight) & (u64::MAX >> (64 - 8 * left.min(SYMBOL_BYTES_MAX))),
            None => word_of(&data[self.at..end as usize]),
        };
        let entry = m.entry(word, left);
        let to: &mut [u8; 2] = (&mut self.to[self.written..self.written + 2]).try_into().expect("two bytes");
        *to = [entry as u8, word as u8];
        self.written += 1 + usize::from(entry as u8 == ESCAPE);
        self.at += usize::from(entry >> 8);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_slot_fits_no_string_however_long() {
        // Regression: a free slot had a word and a length. If 255 or more bytes were left, and the next eight were that word, one
        // code of another symbol took the place of 255 bytes.
        let matcher = Matcher::new(&SymbolTable::new([&b"abc"[..]].into_iter()));
        for tail in [0, 7, 246, 247, 248, 600] {
            let mut string = FREE.word.to_le_bytes().to_vec();
            string.resize(8 + tail, b'z');
            let mut codes = Vec::new();
            matcher.write(&string, &mut codes);
            let escaped: Vec<u8> = string.iter().flat_map(|&b| [ESCAPE, b]).collect();
            assert_eq!(codes, escaped, "{tail} bytes behind it");
        }
    }
}
