//! Writes strings as codes: at each place the longest symbol that fits.
//!
//! ```text
//!   next 8 bytes ─┬─ hash of the first 3 ─► slot: a symbol of 3 to 8 bytes? ─┐
//!                 └─ first 2 ─► the symbol of 2 bytes, or of 1, or none ─────┴─► code
//! ```
//!
//! A slot has one symbol: of those that meet in one the better (longer and more frequent) stays, the other is never written.
//!
//! A place is known only when the code before it is. So [`Matcher::write_all`] writes strings in several places of a column by turns:
//! the CPU looks for the next codes of all of them at the same time.

use super::table::{ESCAPE, SYMBOL_BYTES_MAX, SymbolTable};

const SLOTS: usize = 2048;
/// In `short`: no symbol; the byte stands for itself.
const NONE: u16 = 1 << 8 | ESCAPE as u16;
/// Strings that are written by turns.
const LANES: usize = 4;

#[derive(Clone, Copy)]
struct Slot {
    word: u64,
    /// Bits of a word beyond the symbol.
    beyond: u8,
    length: u8,
    code: u8,
}

/// No word ends in so many bits of it.
const FREE: Slot = Slot { word: 1, beyond: 0, length: u8::MAX, code: 0 };

/// A table, prepared for writing.
pub(super) struct Matcher {
    slots: Box<[Slot; SLOTS]>,
    /// By the next two bytes: length and code of the symbol of 1 or 2 bytes.
    short: Vec<u16>,
    /// By the next byte alone.
    single: [u16; 256],
}

/// A symbol that was found.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) code: u8,
    pub(super) length: usize,
}

fn slot_of(word: u64) -> usize {
    let three = word & 0xff_ffff;
    (three.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize % SLOTS
}

/// The bytes of a symbol as a number, the first byte lowest.
pub(super) fn word_of(symbol: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..symbol.len()].copy_from_slice(symbol);
    u64::from_le_bytes(word)
}

impl Matcher {
    /// Of this table, whose better symbols come first.
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

    /// Length and code of the longest symbol at the start of `word`, of which `left` bytes count (the others are 0); [`NONE`] where
    /// there is none. Which of the two tables has it is chance: there is no branch on it.
    #[inline]
    fn entry(&self, word: u64, left: usize) -> u16 {
        let slot = &self.slots[slot_of(word)];
        let long = u16::from(slot.length) << 8 | u16::from(slot.code);
        let fits =
            u16::from((word ^ slot.word) << slot.beyond == 0) & u16::from(usize::from(slot.length) <= left);
        let mut short = self.short[word as usize & 0xffff];
        if left == 1 {
            short = self.single[word as usize & 0xff];
        }
        let mask = fits.wrapping_neg();
        long & mask | short & !mask
    }

    /// The longest symbol at the start of `word`, of which `left` bytes count (the others are 0); `None` where there is none.
    #[inline]
    pub(super) fn find(&self, word: u64, left: usize) -> Option<Found> {
        let entry = self.entry(word, left);
        (entry != NONE).then_some(Found { code: entry as u8, length: usize::from(entry >> 8) })
    }

    /// Appends the codes of a string.
    pub(super) fn write(&self, string: &[u8], out: &mut Vec<u8>) {
        let mut lane = Lane { rows: &[0, string.len() as u32], ..Lane::default() };
        lane.to.resize(2 * string.len() + 2, 0);
        while lane.step(self, string) {}
        out.extend_from_slice(&lane.to[..lane.written]);
    }

    /// The codes of all strings, `offsets` into `data`, and how many each string takes.
    pub(super) fn write_all(&self, offsets: &[u32], data: &[u8]) -> (Vec<u8>, Vec<u32>) {
        let rows = offsets.len() - 1;
        let mut lanes: [Lane<'_>; LANES] = std::array::from_fn(|i| {
            let rows = &offsets[rows * i / LANES..=rows * (i + 1) / LANES];
            let at = rows[0] as usize;
            // No string takes more than two codes a byte.
            let most = 2 * (rows[rows.len() - 1] as usize - at) + 2;
            Lane { rows, at, to: vec![0; most], lengths: Vec::with_capacity(rows.len()), ..Lane::default() }
        });
        // By turns as long as all have something to write, then what is left of each.
        while lanes.iter_mut().fold(true, |all, lane| all & lane.step(self, data)) {}
        lanes.iter_mut().for_each(|lane| while lane.step(self, data) {});
        let mut codes = Vec::with_capacity(lanes.iter().map(|lane| lane.written).sum());
        lanes.iter().for_each(|lane| codes.extend_from_slice(&lane.to[..lane.written]));
        (codes, lanes.into_iter().flat_map(|lane| lane.lengths).collect())
    }
}

/// Some strings of a column on their way into codes.
#[derive(Default)]
struct Lane<'a> {
    /// Where they begin and end, those that are left.
    rows: &'a [u32],
    /// Where the next symbol begins.
    at: usize,
    to: Vec<u8>,
    written: usize,
    /// Codes written before the string that is under way.
    before: usize,
    lengths: Vec<u32>,
}

impl Lane<'_> {
    /// Writes a code, or goes on to the next string; false where there is none.
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
