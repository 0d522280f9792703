//! Writes strings as codes: at each place the longest symbol that fits.
//!
//! ```text
//!   next 8 bytes ─┬─ hash of the first 3 ─► slot: a symbol of 3 to 8 bytes? ─┐
//!                 └─ first 2 ─► the symbol of 2 bytes, or of 1, or none ─────┴─► code
//! ```
//!
//! A slot has one symbol: of those that meet in one the better (longer and more frequent) stays, the other is never written.

use super::table::{ESCAPE, SYMBOL_BYTES_MAX, SymbolTable};

const SLOTS: usize = 2048;
/// In `short`: no symbol.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Slot {
    word: u64,
    mask: u64,
    length: u8,
    code: u8,
}

const FREE: Slot = Slot { word: 1, mask: 0, length: 0, code: 0 };

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
                    if slot.length == 0 {
                        let mask = u64::MAX >> (64 - 8 * length);
                        *slot = Slot { word, mask, length: length as u8, code: code as u8 };
                    }
                }
            }
        }
        m
    }

    /// The longest symbol at the start of `word`, of which `left` bytes count (the others are 0); `None` where there is none.
    #[inline]
    pub(super) fn find(&self, word: u64, left: usize) -> Option<Found> {
        let slot = &self.slots[slot_of(word)];
        if word & slot.mask == slot.word && usize::from(slot.length) <= left {
            return Some(Found { code: slot.code, length: slot.length.into() });
        }
        let short = match left {
            1 => self.single[word as usize & 0xff],
            _ => self.short[word as usize & 0xffff],
        };
        (short != NONE).then_some(Found { code: short as u8, length: usize::from(short >> 8) })
    }

    /// Appends the codes of a string.
    pub(super) fn write(&self, string: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        // No string takes more than two codes a byte; what is not used is cut off again.
        out.resize(start + 2 * string.len() + SYMBOL_BYTES_MAX, 0);
        let to = &mut out[start..];
        let (mut at, mut end) = (0, 0);
        while at < string.len() {
            let left = string.len() - at;
            let word = match string[at..].first_chunk() {
                Some(eight) => u64::from_le_bytes(*eight),
                None => word_of(&string[at..]),
            };
            match self.find(word, left) {
                Some(found) => {
                    to[end] = found.code;
                    end += 1;
                    at += found.length;
                }
                None => {
                    to[end] = ESCAPE;
                    to[end + 1] = string[at];
                    end += 2;
                    at += 1;
                }
            }
        }
        out.truncate(start + end);
    }
}
