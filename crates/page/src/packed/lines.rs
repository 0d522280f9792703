//! Lines: packed numbers of a few bits each, laid out so that one instruction unpacks many of them.
//!
//! ```text
//!   a block is 1,024 numbers; a line is 128 bytes: one word in each of its lanes
//!     width of a number   0-8   9-16   17-32   33-64 bits
//!     bits of a word        8     16      32      64
//!     lanes               128     64      32      16
//!
//!   Number i is in lane i % lanes. The numbers of a lane are packed end to end in its words, from the low bits up:
//!
//!            line 0, lane 0            line 1, lane 0            width 3, words of 8 bits, 128 lanes
//!     bit    0   3     6               8 9  12    15
//!            | n0 | n128 | n256 (2 ... | 1) | n384 | n512 | n640 (1 ...
//! ```
//!
//! All lanes shift by the same number of bits. So the compiler turns a loop over lanes into vector instructions of
//! the width that the machine has. A block of 1,024 numbers of `width` bits takes `width` lines. A shorter block
//! takes fewer.
//!
//! *Example.* Number 300 of a block of width 3 is in lane 300 % 128 = 44. It is the third number of the lane, since
//! 300 / 128 = 2. It takes bits 6 to 8 of the lane: two bits in line 0, one bit in line 1.
//!
//! Source: the interleaved layout of FastLanes (Afroozeh and Boncz, PVLDB 16, 2023), section 3. We differ: numbers
//! keep their order.

use bytemuck::Pod;

/// Numbers in a block.
pub const BLOCK_ROWS: usize = 1024;
/// Bytes in a line.
pub(crate) const LINE_BYTES: usize = 128;

/// An unsigned integer that is one word of a lane.
pub(crate) trait Word: Pod {
    /// Bits in a word.
    const BITS: u32;
    /// Lanes of a line: one word each.
    const LANES: usize = LINE_BYTES * 8 / Self::BITS as usize;

    /// Returns the low bits of a number as a word.
    fn low_bits_of(v: u64) -> Self;

    /// Returns the word as a number.
    fn number(self) -> u64;

    /// Unpacks the first `out.len() / LANES` numbers of each lane. The length of `out` must be a multiple of `LANES`.
    fn unpack(words: &[Self], width: u32, out: &mut [Self]);

    /// Packs numbers below 2^`width` into `words`, which must be 0. The length of `numbers` must be a multiple of
    /// `LANES`.
    fn pack(numbers: &[Self], width: u32, words: &mut [Self]);
}

macro_rules! word {
    ($t:ty) => {
        impl Word for $t {
            const BITS: u32 = <$t>::BITS;

            fn low_bits_of(v: u64) -> Self {
                v as $t
            }

            fn number(self) -> u64 {
                self.into()
            }

            fn unpack(words: &[Self], width: u32, out: &mut [Self]) {
                const LANES: usize = LINE_BYTES * 8 / <$t>::BITS as usize;
                if width == 0 {
                    return out.fill(0);
                }
                let mask = <$t>::MAX >> (Self::BITS - width);
                let lines = words.as_chunks::<LANES>().0;
                let mut bit = 0;
                for out in out.as_chunks_mut::<LANES>().0 {
                    let (line, shift) = ((bit / Self::BITS) as usize, bit % Self::BITS);
                    let low = &lines[line];
                    if shift + width <= Self::BITS {
                        for i in 0..LANES {
                            out[i] = low[i] >> shift & mask;
                        }
                    } else {
                        let (high, up) = (&lines[line + 1], Self::BITS - shift);
                        for i in 0..LANES {
                            out[i] = (low[i] >> shift | high[i] << up) & mask;
                        }
                    }
                    bit += width;
                }
            }

            fn pack(numbers: &[Self], width: u32, words: &mut [Self]) {
                const LANES: usize = LINE_BYTES * 8 / <$t>::BITS as usize;
                if width == 0 {
                    return;
                }
                let lines = words.as_chunks_mut::<LANES>().0;
                let mut bit = 0;
                for numbers in numbers.as_chunks::<LANES>().0 {
                    let (line, shift) = ((bit / Self::BITS) as usize, bit % Self::BITS);
                    for (word, n) in lines[line].iter_mut().zip(numbers) {
                        *word |= n << shift;
                    }
                    if shift + width > Self::BITS {
                        for (word, n) in lines[line + 1].iter_mut().zip(numbers) {
                            *word |= n >> (Self::BITS - shift);
                        }
                    }
                    bit += width;
                }
            }
        }
    };
}
word!(u8);
word!(u16);
word!(u32);
word!(u64);

/// Returns the bits of the words that hold packed numbers of `width` bits.
pub(crate) const fn word_bits(width: u32) -> u32 {
    match width {
        0..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

/// Returns the lines that `numbers` numbers of `width` bits take, in words of `word_bits` bits.
pub(crate) const fn lines(numbers: usize, width: u32, word_bits: u32) -> usize {
    let lanes = LINE_BYTES * 8 / word_bits as usize;
    (numbers.div_ceil(lanes) * width as usize).div_ceil(word_bits as usize)
}

/// Returns number `i` of a block from its words.
pub(crate) fn get<W: Word>(words: &[W], width: u32, i: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let (lane, bit) = (i % W::LANES, i / W::LANES * width as usize);
    let (line, shift) = (bit / W::BITS as usize, (bit % W::BITS as usize) as u32);
    let low = words[line * W::LANES + lane].number() >> shift;
    let mask = u64::MAX >> (64 - width);
    match shift + width <= W::BITS {
        true => low & mask,
        false => (low | words[(line + 1) * W::LANES + lane].number() << (W::BITS - shift)) & mask,
    }
}

/// Returns the bits that `v` needs; 0 for 0.
pub(crate) const fn bits_of(v: u64) -> u32 {
    64 - v.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<W: Word>(width: u32, numbers: usize) {
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        let given: Vec<W> = (0..BLOCK_ROWS)
            .map(|i| {
                let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 7);
                W::low_bits_of(if i < numbers { mixed & mask } else { 0 })
            })
            .collect();
        let rows = numbers.div_ceil(W::LANES) * W::LANES;
        let mut words = vec![W::zeroed(); lines(numbers, width, W::BITS) * W::LANES];
        W::pack(&given[..rows], width, &mut words);
        let mut back = vec![W::zeroed(); rows];
        W::unpack(&words, width, &mut back);
        for i in 0..numbers {
            assert_eq!(back[i].number(), given[i].number(), "number {i} of width {width}");
            assert_eq!(get(&words, width, i), given[i].number(), "number {i} of width {width}");
        }
    }

    #[test]
    fn every_width_packs_and_unpacks() {
        for numbers in [1, 2, 15, 16, 17, 127, 128, 129, 500, 1023, 1024] {
            (0..=8).for_each(|w| check::<u8>(w, numbers));
            (0..=16).for_each(|w| check::<u16>(w, numbers));
            (0..=32).for_each(|w| check::<u32>(w, numbers));
            (0..=64).for_each(|w| check::<u64>(w, numbers));
        }
    }

    #[test]
    fn a_block_of_some_width_takes_as_many_lines() {
        for width in 0..=64 {
            assert_eq!(lines(BLOCK_ROWS, width, word_bits(width)), width as usize);
        }
        assert_eq!((lines(1, 3, 8), lines(384, 3, 8), lines(385, 3, 8)), (1, 2, 2));
        assert_eq!((bits_of(0), bits_of(1), bits_of(u64::MAX)), (0, 1, 64));
    }

    /// The example of the module's documentation.
    #[test]
    fn number_300_of_width_3() {
        let mut words = [0u8; 3 * 128];
        (words[44], words[128 + 44]) = (0b1100_0000, 0b1111_1110);
        assert_eq!(get(&words, 3, 300), 3);
        words[128 + 44] |= 1;
        assert_eq!(get(&words, 3, 300), 7);
    }
}
